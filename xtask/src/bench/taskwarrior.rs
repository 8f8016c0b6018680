//! Taskwarrior, a well-known task manager, with the same tasks.

use std::path::Path;
use std::process::{Command, Stdio};

use super::issues::Issue;
use super::scratch::{Scratch, create_dir, remove_files, write};
use crate::{Result, run};

/// The configuration of Taskwarrior.
const SETTINGS: &str = "confirmation=off\nverbose=nothing\n";

/// Returns whether `task` is Taskwarrior. Other programs of this name print more than a version number.
pub(super) fn is_installed() -> bool {
    let output = Command::new("task").arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.first().is_some_and(u8::is_ascii_digit))
}

/// Replaces the tasks of a directory with these issues.
pub(super) fn import(scratch: &Scratch, dir: &Path, issues: &[Issue]) -> Result {
    create_dir(dir)?;
    remove_files(dir, "")?;
    write(&dir.join("taskrc"), &[SETTINGS])?;
    let tasks: Vec<String> = issues.iter().map(task).collect();
    let file = dir.join("tasks.json");
    write(&file, &[&format!("[{}]", tasks.join(",\n"))])?;
    run(command(scratch, dir, &["import"]).arg(file))
}

/// Returns a command on the tasks of a directory.
pub(super) fn command(scratch: &Scratch, dir: &Path, args: &[&str]) -> Command {
    let mut command = scratch.command(Path::new("task"), dir);
    command.env("TASKDATA", dir).env("TASKRC", dir.join("taskrc")).args(args);
    command
}

/// Writes an issue as a task for import, without a priority, because Taskwarrior has only three levels.
fn task(issue: &Issue) -> String {
    let Issue { id, title, created, updated, .. } = issue;
    let list = |items: Vec<String>| items.join(",");
    let tags = list(issue.labels.iter().map(|label| format!("\"{}\"", label.replace('-', "_"))).collect());
    let depends = list(issue.blockers().map(|blocker| format!("\"{}\"", uuid(blocker))).collect());
    let status = if issue.is_open() {
        r#""status":"pending""#.to_owned()
    } else {
        format!(r#""status":"completed","end":"{}""#, updated.to_second())
    };
    format!(
        r#"{{"uuid":"{}","description":"{title}","entry":"{}","tags":[{tags}],"depends":[{depends}],{status}}}"#,
        uuid(id),
        created.to_second(),
    )
}

/// Converts the id of an issue, which has four characters after its prefix, to a UUID.
fn uuid(id: &str) -> String {
    let bytes = id.bytes().rev().take(4).fold(0, |number, byte| number << 8 | u32::from(byte));
    format!("{bytes:08x}-0000-4000-8000-000000000000")
}
