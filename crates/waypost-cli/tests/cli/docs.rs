//! The commands that the README and the guide show are run, and their output is compared.
//!
//! A block that starts with `console` is run: the blocks of one page in order, in one shell and one sandbox. Lines with `$ `
//! are commands, lines with `> ` continue one, and the others are its output. A line `<!-- $ COMMAND -->` outside of a block
//! is run without being shown. In a block `console,norun`, and in `code`, commands of `way` are parsed only.
//!
//! Output is compared after these steps: ids are numbered in the order in which they appear on the page, the home directory
//! is `/home/ada`, every time and duration equals every other, and so do ids of commits and runs of spaces. `…` stands for
//! any text, and a line that is only `…` for any number of lines. `UPDATE_EXPECT=1` rewrites the output that differs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use waypost_testkit::Sandbox;

use crate::support::sandbox;

/// The home directory in the documentation.
const HOME: &str = "/home/ada";
/// The repositories in the documentation. Ids of issues start with these names.
const REPOSITORIES: [&str; 3] = ["shop", "planning", "engine"];
/// Ends the output of a command; the exit code follows.
const END_MARK: &str = "\u{1}end ";
/// Pages that describe history or are generated: their commands are not run, and may be of other versions.
const NOT_RUN: [&str; 3] = ["docs/commands.md", "docs/requirements.md", "docs/SUMMARY.md"];

/// A database of caw, for the page that imports one: its tables as far as they matter, and a workflow.
const CAW: &str = "
    CREATE TABLE workflows (id TEXT PRIMARY KEY, name TEXT NOT NULL, source_type TEXT NOT NULL, source_content TEXT,
        status TEXT NOT NULL, plan_summary TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
        max_parallel_tasks INTEGER, config TEXT);
    CREATE TABLE tasks (id TEXT PRIMARY KEY, workflow_id TEXT NOT NULL, name TEXT NOT NULL, description TEXT,
        status TEXT NOT NULL, sequence INTEGER NOT NULL, outcome TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE task_dependencies (task_id TEXT NOT NULL, depends_on_id TEXT NOT NULL, dependency_type TEXT NOT NULL);
    CREATE TABLE checkpoints (id TEXT PRIMARY KEY, task_id TEXT NOT NULL, sequence INTEGER NOT NULL,
        checkpoint_type TEXT NOT NULL, summary TEXT NOT NULL, detail TEXT, files_changed TEXT, created_at INTEGER NOT NULL);
    INSERT INTO workflows VALUES ('wf_a1b2c3d4e5f6', 'release', 'prompt', 'Ship 1.0', 'in_progress', 'Ship 1.0', 1, 1, 2, NULL);
    INSERT INTO tasks VALUES
        ('tk_a1b2c3d4e5f7', 'wf_a1b2c3d4e5f6', 'build', 'Compile everything', 'completed', 1, 'it compiles', 1, 1),
        ('tk_a1b2c3d4e5f8', 'wf_a1b2c3d4e5f6', 'test', 'Run the tests', 'pending', 2, NULL, 1, 1);
    INSERT INTO task_dependencies VALUES ('tk_a1b2c3d4e5f8', 'tk_a1b2c3d4e5f7', 'blocks');
    INSERT INTO checkpoints VALUES ('cp_a1b2c3d4e5f9', 'tk_a1b2c3d4e5f7', 1, 'progress', 'half of it', NULL, NULL, 1);
";

/// A command on a page: its text, and the lines that show its output.
struct Step {
    command: String,
    expected: Vec<String>,
    /// The line after the command, from which its output is replaced. None for hidden commands.
    at: Option<usize>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the pages with their paths in the repository.
fn pages() -> Vec<(String, String)> {
    let root = root();
    let files = crate::files(&root.join("docs"))
        .into_iter()
        .chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut pages: Vec<(String, String)> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "md"))
        .map(|file| {
            (file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(&file).unwrap())
        })
        .filter(|(name, _)| !NOT_RUN.contains(&name.as_str()) && !name.starts_with("docs/decisions"))
        .collect();
    pages.sort();
    pages
}

/// Returns the commands of a page that are run.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut language: Option<&str> = None;
    for (number, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), language) {
            (Some(_), Some(_)) => language = None,
            (Some(info), None) => language = Some(info),
            (None, None) => {
                let hidden = line.strip_prefix("<!-- $ ").and_then(|line| line.strip_suffix(" -->"));
                steps.extend(hidden.map(|command| Step {
                    command: command.to_owned(),
                    expected: Vec::new(),
                    at: None,
                }));
            }
            (None, Some("console")) => match (line.strip_prefix("$ "), line.strip_prefix("> "), steps.last_mut()) {
                (Some(command), ..) => {
                    let command = command.split("   #").next().unwrap().trim_end().to_owned();
                    steps.push(Step { command, expected: Vec::new(), at: Some(number + 1) });
                }
                (None, Some(more), Some(step)) if step.expected.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(more);
                    step.at = Some(number + 1);
                }
                (None, _, Some(step)) => step.expected.push(line.to_owned()),
                (None, _, None) => panic!("{line:?} is not the output of a command"),
            },
            (None, Some(_)) => {}
        }
    }
    steps
}

/// A shell in a sandbox, with the ids that it printed.
struct Shell {
    sandbox: Sandbox,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The ids of the page, by those of this run.
    ids: BTreeMap<String, String>,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Shell {
    fn start() -> Self {
        let sandbox = sandbox();
        let bin = sandbox.dir("bin");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_way"), bin.join("way")).unwrap();
        let mut command = sandbox.command("sh", &sandbox.path("home"));
        let path =
            command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).unwrap().to_owned();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
        // Jobs use the real clock, so all commands do. The tools print for a reader who is called Ada.
        command.env("PATH", path).env_remove("WAYPOST_TEST_CLOCK").env("USER", "ada").env("GIT_CONFIG_COUNT", "1");
        command.env("GIT_CONFIG_KEY_0", "init.defaultBranch").env("GIT_CONFIG_VALUE_0", "main");
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.org");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Shell { sandbox, child, stdin, stdout, ids: BTreeMap::new() }
    }

    /// Runs a command, in which ids of the page stand for those of this run. Returns its output and exit code.
    fn run(&mut self, command: &str, last_code: i32) -> (String, i32) {
        let mut command = command.replace(HOME, self.sandbox.path("home").to_str().unwrap());
        for (own, shown) in &self.ids {
            command = command.replace(shown, own);
        }
        let script = format!("(exit {last_code})\n{{ {command}\n}} < /dev/null 2>&1; printf '\\001end %s\\n' $?\n");
        self.stdin.write_all(script.as_bytes()).unwrap();
        let mut output = String::new();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the shell ended: {command}\n{output}");
            if let Some((before, code)) = line.split_once(END_MARK) {
                output.push_str(before);
                return (self.shown(&output), code.trim().parse().unwrap());
            }
            output.push_str(&line);
        }
    }

    /// Returns output as the documentation shows it: with its ids and its home directory.
    fn shown(&mut self, output: &str) -> String {
        let mut text = output.replace(self.sandbox.path("home").to_str().unwrap(), HOME);
        text = text.replace(self.sandbox.path("").to_str().unwrap().trim_end_matches('/'), "");
        for id in ids(&text) {
            if !self.ids.contains_key(&id) {
                let at = id.len() - if id.contains('_') { 12 } else { 8 };
                self.ids.insert(id.clone(), format!("{}{}", &id[..at], invented(self.ids.len(), id.len() - at)));
            }
        }
        for (own, shown) in &self.ids {
            text = text.replace(own, shown);
        }
        text
    }
}

/// Returns the characters of the id with a number, the same in every run.
fn invented(number: usize, length: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64 + 7);
    let mut text = String::new();
    for _ in 0..length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push(char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[usize::try_from(state >> 59).unwrap()]));
    }
    text
}

/// Returns the ids in a text, in their order.
fn ids(text: &str) -> Vec<String> {
    let is_part = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-' || char == '_';
    let words = text.split(|char: char| !is_part(char));
    let is_id = |word: &&str| {
        let issue = REPOSITORIES.iter().any(|name| {
            let rest = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.len() == 8 && !rest.contains(['-', '_']))
        });
        let record = word.split_once('_').is_some_and(|(kind, rest)| {
            (1..=3).contains(&kind.len()) && rest.len() == 12 && !rest.contains(['-', '_'])
        });
        issue || record
    };
    words.filter(is_id).map(str::to_owned).collect()
}

/// Returns a line in which all times, durations and runs of spaces are the same.
fn comparable(line: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in line.split_whitespace() {
        let core = word.trim_matches(['(', ')', ',', '.', ';']);
        let is_time = word == "now" || is_moment(core) || is_duration(core);
        let is_second_time = (is_time || word == "ago") && words.last() == Some(&"TIME");
        if !is_second_time {
            words.push(if is_time {
                "TIME"
            } else if is_commit(word) {
                "COMMIT"
            } else {
                word
            });
        }
    }
    words.join(" ")
}

/// Returns whether a word is the shortened id of a commit.
fn is_commit(word: &str) -> bool {
    let is_digit = |char: char| char.is_ascii_digit() || ('a'..='f').contains(&char);
    word.len() == 12 && word.chars().all(is_digit)
}

fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches(|char: char| char.is_ascii_lowercase());
    let is_unit = ["ms", "s", "m", "h", "d"].contains(&&word[number.len()..]);
    is_unit && !number.is_empty() && number.chars().all(|char| char.is_ascii_digit() || char == '.')
}

/// Returns whether a word is a date, a time of the day, or both.
fn is_moment(word: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_digit() || "-:.TZ+".contains(char);
    word.len() >= 5 && word.chars().all(is_allowed) && (word.matches('-').count() == 2 || word.contains(':'))
}

/// Returns whether a line is as expected; `…` stands for any text.
fn line_matches(expected: &str, actual: &str) -> bool {
    let (expected, actual) = (comparable(expected), comparable(actual));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| actual.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Returns whether lines are as expected; a line that is only `…` stands for any number of lines.
fn lines_match(expected: &[String], actual: &[&str]) -> bool {
    match (expected.split_first(), actual.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first.trim() == "…" => {
            (0..=actual.len()).any(|skipped| lines_match(rest, &actual[skipped..]))
        }
        (Some((first, rest)), Some((line, others))) => line_matches(first, line) && lines_match(rest, others),
        _ => false,
    }
}

/// The result of a page.
struct Outcome {
    /// The commands that ended with another code than the page says.
    failures: String,
    /// The outputs that differ.
    differences: String,
    /// The page with the actual output.
    updated: String,
    /// The number of commands.
    commands: usize,
}

fn run_page(name: &str, page: &str) -> Outcome {
    let steps = steps(page);
    if steps.iter().all(|step| step.at.is_none()) {
        return Outcome { failures: String::new(), differences: String::new(), updated: page.to_owned(), commands: 0 };
    }
    let mut shell = Shell::start();
    if page.contains("~/.caw/") {
        let file = shell.sandbox.dir("home/.caw").join("workflows.db");
        rusqlite::Connection::open(file).unwrap().execute_batch(CAW).unwrap();
    }
    let (mut failures, mut differences, mut last_code) = (String::new(), String::new(), 0);
    let mut lines: Vec<Option<String>> = page.lines().map(|line| Some(line.to_owned())).collect();
    for (number, step) in steps.iter().enumerate() {
        let (output, code) = shell.run(&step.command, last_code);
        last_code = code;
        // A command that fails is followed by one that shows its exit code.
        let may_fail = steps.get(number + 1).is_some_and(|next| next.command == "echo $?");
        if (code != 0) != may_fail {
            write!(failures, "{name}: `{}` ended with {code}\n{output}\n", step.command).unwrap();
        }
        let Some(at) = step.at else { continue };
        let actual: Vec<&str> = output.lines().collect();
        if !lines_match(&step.expected, &actual) {
            let expected = step.expected.join("\n");
            write!(differences, "{name}:{at}: $ {}\nexpected:\n{expected}\nactual:\n{output}\n", step.command).unwrap();
            lines[at..at + step.expected.len()].fill(None);
            let command = lines[at - 1].as_mut().unwrap();
            for line in &actual {
                command.push('\n');
                command.push_str(line.trim_end());
            }
        }
    }
    let mut updated = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    updated.push('\n');
    Outcome { failures, differences, updated, commands: steps.len() }
}

#[test]
fn g24_every_command_that_the_readme_and_the_guide_show_prints_what_they_show() {
    let pages = pages();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((name, page)) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_page(name, page);
                    results.lock().unwrap().push((name, page, outcome));
                }
            });
        }
    });
    let is_update = std::env::var_os("UPDATE_EXPECT").is_some();
    let (mut wrong, mut count, mut pages_run) = (String::new(), 0, 0);
    for (name, page, outcome) in results.into_inner().unwrap() {
        wrong.push_str(&outcome.failures);
        if !is_update {
            wrong.push_str(&outcome.differences);
        } else if outcome.updated != *page {
            waypost_fs::replace(&root().join(name), outcome.updated.as_bytes(), 0o644).unwrap();
        }
        count += outcome.commands;
        pages_run += usize::from(outcome.commands > 0);
    }
    assert!(wrong.is_empty(), "{wrong}\nUPDATE_EXPECT=1 rewrites output that differs");
    assert!(pages_run >= 20 && count >= 80, "{count} commands on {pages_run} pages");
}

/// The errors of command lines that lack something, but have nothing wrong.
const PARTIAL: [ErrorKind; 5] = [
    ErrorKind::MissingRequiredArgument,
    ErrorKind::MissingSubcommand,
    ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ErrorKind::DisplayHelp,
    ErrorKind::DisplayVersion,
];

/// Splits a command into words as a shell would, up to the next command, a redirection or a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in line.chars() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '|' | '>' | '<' | '#' | '&' | ';' | '\\') => break,
            (None, ' ') => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// Returns the commands of `way` on a page: in blocks, and in `code`.
fn commands_of_way(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut language: Option<&str> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), language) {
            (Some(_), Some(_)) => language = None,
            (Some(info), None) => language = Some(info),
            (None, Some(language)) if language.starts_with("console") => {
                commands.extend(line.strip_prefix("$ ").map(str::to_owned));
            }
            (None, Some(_)) => {}
            (None, None) => commands.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    commands.retain(|command| command.starts_with("way "));
    commands
}

#[test]
fn every_command_of_way_in_the_documentation_exists_with_its_options() {
    let mut wrong = String::new();
    let mut count = 0;
    for (name, page) in pages() {
        for command in commands_of_way(&page).into_iter().filter(|command| !command.contains(['…', '[', '*'])) {
            count += 1;
            let Err(error) = waypost_cli::command().try_get_matches_from(words(&command)) else { continue };
            // A text may name a command without its arguments, or with words in capitals instead of them.
            let is_partial = match error.kind() {
                ErrorKind::InvalidValue | ErrorKind::ValueValidation => match error.get(ContextKind::InvalidValue) {
                    Some(ContextValue::String(value)) => value.chars().all(|char| char.is_ascii_uppercase()),
                    _ => false,
                },
                kind => PARTIAL.contains(&kind),
            };
            if !is_partial {
                writeln!(wrong, "{name}: {command}: {error}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 200, "{count} commands");
}

#[test]
fn a_difference_is_found_and_times_ids_and_gaps_are_not_differences() {
    let expected = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(lines_match(&expected(&["ada  busy  3s ago", "…", "end"]), &["ada busy    now", "a", "b", "end"]));
    assert!(lines_match(&expected(&["made … in 2026-01-01"]), &["made x y in 2026-02-03T04:05:06Z"]));
    assert!(!lines_match(&expected(&["made … in here"]), &["made x in there"]));
    assert!(!lines_match(&expected(&["a"]), &["a", "b"]) && !lines_match(&expected(&["a", "b"]), &["a"]));
    assert!(!line_matches("2 issues", "3 issues") && !line_matches("P1", "P2"));
    assert!(line_matches("as 0123456789ab", "as ba9876543210") && !line_matches("as abc", "as bcd"));
    assert_eq!(ids("Added shop-1a2b3c4d (wf_0123456789ab), sub-commands"), ["shop-1a2b3c4d", "wf_0123456789ab"]);
    let page = "<!-- $ cd x -->\n```console\n$ a <<E   # note\n> b\nout\n$ c\n```\n```console,norun\n$ d\n```\n";
    let found: Vec<_> = steps(page).into_iter().map(|step| (step.command, step.expected.len(), step.at)).collect();
    assert_eq!(
        found,
        [("cd x".to_owned(), 0, None), ("a <<E\nb".to_owned(), 1, Some(4)), ("c".to_owned(), 0, Some(6))]
    );
    assert_eq!(words("way add 'Fix it' -p 1 | cat"), ["way", "add", "Fix it", "-p", "1"]);
}

/// A CI service inserts an expression before the shell reads the line, so a branch could be named as a command.
#[test]
fn no_recipe_puts_an_expression_into_a_command() {
    let files = crate::files(&crate::package("../../docs"));
    let mut seen = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md")) {
        for line in std::fs::read_to_string(file).unwrap().lines().filter(|line| line.contains("${{")) {
            let key = line.trim_start_matches([' ', '-']).split(':').next().unwrap();
            let is_variable = !key.is_empty() && key.chars().all(|char| char.is_ascii_uppercase() || char == '_');
            assert!(is_variable || line.starts_with("Never write"), "{}: {line}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 0, "a recipe passes an expression in a variable");
}
