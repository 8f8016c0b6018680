//! `way demo`: runs `demo.sh`, the story, in a directory and an environment of its own.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use waypost::app::session::Session;
use waypost::machine::place::{Place, Request};
use waypost::machine::{ShutdownSignal, Variables};
use waypost::serving::random_hex;
use waypost_core::op::ListJobs;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree, replace};
use waypost_workspace::Step;
use waypost_workspace::jobs::is_running;

use crate::CommandContext;

/// The files that the story needs.
const FILES: [(&str, &str, u32); 4] = [
    ("demo.sh", include_str!("demo.sh"), 0o600),
    ("agent.sh", include_str!("agent.sh"), 0o700),
    ("reviewer.sh", include_str!("reviewer.sh"), 0o700),
    ("review.yaml", include_str!("review.yaml"), 0o600),
];
/// Variables that would bring settings of the user into the demo, beside those of Waypost.
const SETTINGS: [&str; 8] = [
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "XDG_CONFIG_HOME",
    "EMAIL",
];
/// Maximum time to wait for the processes of jobs that have ended.
const END_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Show agents at work on a small project, in a scratch directory
///
/// Four scripted agents work at once on the parts of a shop, each in its own workspace: one asks a question, one is killed
/// and another goes on from its checkpoint. Then their branches are merged, the test of the project runs, and a proposal is
/// accepted upstream. Every command that is shown is run. Takes some seconds, needs git, and does not touch your files.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way demo
  way demo --keep       then look around in the shop and in its upstream
  way demo --serve      and watch agents work in a browser, until Ctrl-C")]
pub(crate) struct Args {
    /// Keep the scratch directory
    #[arg(long)]
    keep: bool,
    /// Then open a dashboard, on which agents go on working until you press Ctrl-C
    #[arg(long)]
    serve: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if cx.ui.json {
        return Err(Error::invalid("way demo has no JSON output").hint("way demo --keep keeps its repositories"));
    }
    let shutdown = ShutdownSignal::listen()?;
    let scratch = Scratch::create(&cx.variables, cx.ui.has_color())?;
    let story = scratch.run_story(args.serve, &shutdown);
    let stopped = scratch.stop_jobs();
    let kept = if args.keep {
        cx.ui.note(&format!("kept in {}; to look around: cd {0}/shop", scratch.dir.display()));
        Ok(())
    } else {
        remove_tree(&scratch.dir, scratch.identity)
    };
    story.and(stopped).and(kept).map(|()| ExitCode::SUCCESS)
}

/// The directory of the demo: `upstream/`, its clone `shop/`, `planning/`, and a home directory of its own.
struct Scratch {
    dir: PathBuf,
    identity: FileIdentity,
    /// The changes of the environment; an empty value unsets a variable.
    changes: Vec<(OsString, OsString)>,
    variables: Variables,
}

impl Scratch {
    fn create(variables: &Variables, has_color: bool) -> Result<Scratch> {
        let parent = variables.path("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
        // Other users can write to /tmp, so the name cannot be guessed, and an existing directory is an error.
        let dir = parent.join(format!("waypost-demo-{}", random_hex(8)));
        let cannot = |error| Error::unavailable(format!("cannot write in {}", dir.display())).because(error);
        DirBuilder::new().mode(0o700).create(&dir).map_err(cannot)?;
        let dir = dir.canonicalize().map_err(cannot)?;
        let identity = FileIdentity::of_entry(&dir).map_err(cannot)?;
        if let Err(error) = fill(&dir) {
            remove_tree(&dir, identity)?;
            return Err(cannot(error));
        }
        let changes = changes(variables, &dir, has_color);
        let variables = variables.starting_with("").filter(|(name, _)| !changes.iter().any(|(known, _)| known == name));
        let variables = variables.chain(changes.iter().cloned()).collect();
        Ok(Scratch { dir, identity, changes, variables })
    }

    /// Runs the story until its end, or until a signal.
    fn run_story(&self, with_dashboard: bool, shutdown: &ShutdownSignal) -> Result<()> {
        let arguments: &[&str] = if with_dashboard { &["demo.sh", "--serve"] } else { &["demo.sh"] };
        let step = Step { program: Path::new("sh"), arguments, dir: &self.dir, variables: &self.changes };
        let is_stopped = || {
            shutdown.wait(POLL_INTERVAL);
            shutdown.count() > 0
        };
        let has_succeeded = step.start()?.wait(is_stopped)?;
        // A signal is the usual end of the dashboard.
        if has_succeeded || with_dashboard && shutdown.count() > 0 {
            Ok(())
        } else if shutdown.count() > 0 {
            Err(Error::unavailable("the demo was interrupted"))
        } else {
            Err(Error::unavailable("a command of the demo failed"))
        }
    }

    /// Cancels the jobs that still run, and waits for the processes of all jobs.
    fn stop_jobs(&self) -> Result<()> {
        let shop = self.dir.join("shop");
        if !shop.join(".git/waypost").exists() {
            return Ok(());
        }
        let request = Request { cwd: shop.clone(), variables: self.variables.clone(), ..Request::default() };
        let mut session = Session::open(Place::resolve(request)?)?;
        for live in session.call(ListJobs::live())?.jobs {
            // It may have ended in the meantime.
            let cancel = ["job", "cancel", live.job.id.as_str()];
            let _ =
                Step { program: &self.dir.join("bin/way"), arguments: &cancel, dir: &shop, variables: &self.changes }
                    .run();
        }
        let all = ListJobs { live: false, ..ListJobs::live() };
        let supervisors: Vec<_> = session.call(all)?.jobs.into_iter().filter_map(|view| view.job.supervisor).collect();
        let until = Instant::now() + END_TIMEOUT;
        while supervisors.iter().any(is_running) && Instant::now() < until {
            std::thread::park_timeout(POLL_INTERVAL);
        }
        Ok(())
    }
}

fn fill(dir: &Path) -> std::io::Result<()> {
    for name in ["bin", "home"] {
        std::fs::create_dir(dir.join(name))?;
    }
    // The commands are those that the user types: `way` is this program.
    symlink(waypost_workspace::surroundings::own_program()?, dir.join("bin/way"))?;
    FILES.into_iter().try_for_each(|(name, text, mode)| replace(&dir.join(name), text.as_bytes(), mode))
}

/// Returns the changes of the environment: a home directory in the demo, `way` in the path, no settings of the user, and the
/// colours of the story.
fn changes(variables: &Variables, dir: &Path, has_color: bool) -> Vec<(OsString, OsString)> {
    let of_waypost = variables.starting_with("WAYPOST_").map(|(name, _)| name);
    let unset = of_waypost.chain(SETTINGS.iter().map(OsString::from)).map(|name| (name, OsString::new()));
    let mut changes: Vec<(OsString, OsString)> = unset.collect();
    let mut path = dir.join("bin").into_os_string();
    if let Some(rest) = variables.get("PATH") {
        path.push(":");
        path.push(rest);
    }
    changes.push(("PATH".into(), path));
    changes.push(("HOME".into(), dir.join("home").into()));
    for (name, style) in [("BOLD", "\x1b[1m"), ("DIM", "\x1b[2m"), ("PLAIN", "\x1b[0m")] {
        changes.push((name.into(), if has_color { style } else { "" }.into()));
    }
    changes
}
