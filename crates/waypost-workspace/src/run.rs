//! Runs the version control tools, with nothing of the repository's own making executed on the way.
//!
//! A repository's configuration may have been written by whoever wrote its content. Hooks, file system
//! monitors, pagers and prompts are off; the environment does not redirect git to another repository.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use waypost_core::{Error, Result};

/// Variables that would make git look at another repository, or run something.
const GIT_VARIABLES: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_EXTERNAL_DIFF",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
];

/// A git command in a directory, hardened.
pub(crate) fn git(dir: &Path) -> Tool {
    let mut command = Command::new("git");
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    command
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_PAGER", "cat")
        .args(["-c", "core.fsmonitor=false"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(["-c", "core.pager=cat"])
        .args(["-c", "advice.detachedHead=false"])
        .arg("-C")
        .arg(dir);
    Tool::new("git", command)
}

/// A jj command in a directory.
pub(crate) fn jj(dir: &Path) -> Tool {
    let mut command = Command::new("jj");
    command.current_dir(dir).args([
        "--no-pager",
        "--color=never",
        "--config=ui.editor=false",
        "--config=fsmonitor.backend=none",
    ]);
    Tool::new("jj", command)
}

/// A Mercurial command in a directory, as scripts should run it.
pub(crate) fn hg(dir: &Path) -> Tool {
    let mut command = Command::new("hg");
    // The repository's own configuration could bring hooks and extensions, which are programs.
    command.current_dir(dir).env("HGPLAIN", "1").env("HGRCSKIPREPO", "1").args(["--noninteractive", "--pager=never"]);
    Tool::new("hg", command)
}

/// Returns the version of the git on the search path.
pub fn git_version() -> Result<String> {
    let version = git(Path::new("/")).arg("version").stdout()?;
    Ok(version.trim_start_matches("git version ").to_owned())
}

/// A command of one of the tools, about to run.
pub(crate) struct Tool {
    name: &'static str,
    command: Command,
}

impl Tool {
    fn new(name: &'static str, mut command: Command) -> Self {
        // Messages are shown to people and matched by nobody, but one language keeps reports comparable.
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        Tool { name, command }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it and returns what it printed, without the last newline.
    pub(crate) fn stdout(self) -> Result<String> {
        let output = self.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
    }

    /// Runs it and returns whether it succeeded, for questions that are answered by the exit code.
    pub(crate) fn succeeds(mut self) -> Result<bool> {
        Ok(self.run()?.status.success())
    }

    fn output(mut self) -> Result<Output> {
        let output = self.run()?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("fatal: ").trim_start_matches("Error: ");
        Err(Error::conflict(format!("{} could not do it", self.name)).because(said))
    }

    fn run(&mut self) -> Result<Output> {
        log::debug!("run {:?}", self.command);
        self.command.output().map_err(|error| {
            Error::unavailable(format!("cannot run {}", self.name))
                .because(error)
                .hint(format!("install {}", self.name))
        })
    }
}
