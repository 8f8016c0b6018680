//! `way demo`

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use waypost_core::{Error, Result, path_text};
use waypost_fs::{FileIdentity, remove_tree, replace};
use waypost_workspace::run_step;

use crate::CommandContext;
use crate::ui::{BOLD, DIM, styled};
use waypost::tokens::random_hex;

/// Show a tour of agents at work, in a scratch repository
///
/// Takes a few seconds and does not touch your files. The tour runs every command it shows, on an embedded SQLite
/// store.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way demo")]
pub(crate) struct Args {
    /// Keep the scratch repository
    #[arg(long)]
    keep: bool,
}

/// Stand-in for a coding agent: reads its context, commits in its workspace, records a checkpoint, finishes the task.
const AGENT: &str = r#"#!/bin/sh
set -e
task=$(sed -n 's/.*"task_name": "\(.*\)".*/\1/p' "$WAYPOST_CONTEXT_DIR/job.json")
echo "$task by $WAYPOST_JOB" >> "$task.txt"
git add . && git -c user.name=Agent -c user.email=agent@localhost commit --quiet -m "Work on $task"
"$WAY" --quiet task checkpoint "$WAYPOST_TASK" --type progress --summary "$task.txt is written" > /dev/null
"$WAY" --quiet task done "$WAYPOST_TASK" --outcome "$task.txt is committed on $(git branch --show-current)" > /dev/null
"#;

const PLAN: &str = "\
summary: Release the rocket
tasks:
- name: design
  description: Draw the rocket
- name: build
  description: Build the rocket
  depends_on: [design]
- name: test
  description: Fire the engine once
  depends_on: [build]
- name: paint
  description: Paint it red
  depends_on: [design]
";

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let parent = cx.variables.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    // Other users can write to /tmp, so the name cannot be guessed, and an existing directory is an error.
    let dir = parent.join(format!("waypost-demo-{}", random_hex(8)));
    let cannot = |error| Error::unavailable(format!("cannot write in {}", dir.display())).because(error);
    DirBuilder::new().mode(0o700).create(&dir).map_err(cannot)?;
    let dir = dir.canonicalize().map_err(cannot)?;
    let identity = FileIdentity::of_entry(&dir).map_err(cannot)?;
    let result = tour(cx, &dir);
    if args.keep {
        cx.ui.note(&format!("to explore the scratch repository: cd {}", dir.join("rocket").display()));
    } else {
        remove_tree(&dir, identity)?;
    }
    let steps = result?;
    if cx.ui.json {
        let kept = args.keep.then(|| path_text::to_text(&dir));
        cx.ui.answer(&json!({ "steps": steps, "kept": kept }), |_| {})?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A scratch repository, and the commands that ran in it.
struct Scratch<'a> {
    cx: &'a CommandContext,
    repo: PathBuf,
    variables: Vec<(String, PathBuf)>,
    steps: Vec<serde_json::Value>,
}

fn tour(cx: &CommandContext, dir: &Path) -> Result<Vec<serde_json::Value>> {
    let cannot = |error| Error::unavailable(format!("cannot write in {}", dir.display())).because(error);
    let repo = dir.join("rocket");
    std::fs::create_dir(&repo).map_err(cannot)?;
    for (name, text) in [("agent.sh", AGENT), ("plan.yaml", PLAN)] {
        replace(&dir.join(name), text.as_bytes(), 0o700).map_err(cannot)?;
    }
    let way = std::env::current_exe().map_err(cannot)?;
    let variables = vec![
        ("WAYPOST_HOME".to_owned(), dir.join("home")),
        ("WAYPOST_DB".to_owned(), PathBuf::new()),
        ("WAY".to_owned(), way),
    ];
    let mut scratch = Scratch { cx, repo, variables, steps: Vec::new() };
    scratch.say("A new repository. It needs no setup.")?;
    scratch.shell(
        "git init --quiet && echo 'A rocket' > README && git add . && \
        git -c user.name=You -c user.email=you@localhost commit --quiet -m 'A rocket'",
    )?;
    scratch.say("Issues are lines of a file that travels with the code.")?;
    scratch.way(&["add", "Fix the altimeter", "--type", "bug", "--priority", "0"])?;
    scratch.way(&["add", "Write the manual"])?;
    scratch.way(&["ready"])?;
    scratch.say("A plan becomes a workflow: tasks with dependencies, kept in the repository's own store.")?;
    scratch.way(&["workflow", "create", "release", "--plan", "../plan.yaml", "--start"])?;
    scratch.say("An agent claims the first task, and crashes before it finishes.")?;
    scratch.way(&["--agent", "ada", "job", "start", "--task", "design", "--", "sh", "-c", "kill -9 $$"])?;
    scratch
        .say("Nothing is lost. Two agents at once claim ready tasks in the plan's order, each in its own workspace.")?;
    scratch.way(&[
        "--agent",
        "team",
        "worker",
        "--concurrency",
        "2",
        "--until-empty",
        "--env",
        "WAY",
        "--",
        "../agent.sh",
    ])?;
    scratch.way(&["workflow", "show", "release"])?;
    scratch.say("Every job has a record, a log and a workspace, which is kept until it is safe to remove.")?;
    scratch.way(&["job", "list"])?;
    scratch.way(&["ws", "gc", "--older-than", "0s", "--dry-run"])?;
    scratch.say("The checkout is unchanged, and the history has every event.")?;
    scratch.shell("git status --short && git log --oneline")?;
    scratch.way(&["status", "--limit", "3"])?;
    Ok(scratch.steps)
}

impl Scratch<'_> {
    fn say(&self, text: &str) -> Result<()> {
        if self.cx.ui.json {
            return Ok(());
        }
        self.cx.ui.page(|page| {
            page.gap();
            page.table(&[vec![styled(BOLD, text)]]);
        })
    }

    /// Runs a `way` command and shows its output. A failing command is part of the tour, not an error.
    fn way(&mut self, args: &[&str]) -> Result<()> {
        let quoted = |arg: &&str| if arg.contains([' ', '$']) { format!("'{arg}'") } else { (*arg).to_owned() };
        let line: Vec<_> = args.iter().map(quoted).collect();
        let program = self.variables[2].1.clone();
        self.run(&format!("way {}", line.join(" ")), &program, args)
    }

    fn shell(&mut self, script: &str) -> Result<()> {
        self.run(script, Path::new("sh"), &["-c", script])
    }

    fn run(&mut self, line: &str, program: &Path, args: &[&str]) -> Result<()> {
        let (code, output) = run_step(program, args, &self.repo, &self.variables)?;
        self.steps.push(json!({ "command": line, "exit_code": code, "output": output }));
        if self.cx.ui.json {
            return Ok(());
        }
        self.cx.ui.page(|page| {
            page.table(&[vec![styled(DIM, format!("$ {line}"))]]);
            output.lines().for_each(|line| page.line(line));
        })
    }
}
