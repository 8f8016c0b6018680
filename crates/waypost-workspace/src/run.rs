//! Runs the version control tools, with nothing of the repository's own making executed on the way.
//!
//! A repository's configuration may have been written by whoever wrote its content. Hooks, filters, file system
//! monitors, pagers and prompts are off; the environment does not redirect git to another repository.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
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

/// What every git command is told, over all configuration files.
const GIT_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.fsync", "all"),
    ("advice.detachedHead", "false"),
];

/// What git-lfs itself writes as its filter. A repository that uses it needs it, and it is known.
const LFS: &[&str] = &[
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
    "git-lfs filter-process --skip",
];

/// Git in one place, hardened.
pub(crate) struct Git {
    place: Vec<OsString>,
    settings: Vec<(String, String)>,
}

impl Git {
    /// Git in a worktree.
    pub(crate) fn in_worktree(path: &Path) -> Result<Git> {
        Git::hardened(vec!["-C".into(), path.into()])
    }

    /// Git on a repository, from no worktree in particular.
    pub(crate) fn of_repository(git_dir: &Path) -> Result<Git> {
        let mut place = OsString::from("--git-dir=");
        place.push(git_dir);
        Git::hardened(vec![place])
    }

    /// A git command, still without its arguments.
    pub(crate) fn command(&self) -> Tool {
        let mut command = Command::new("git");
        for variable in GIT_VARIABLES {
            command.env_remove(variable);
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (key, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key).env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        command.args(&self.place);
        Tool::new("git", command)
    }

    /// Reads which filters the repository itself configures, and switches them off.
    fn hardened(place: Vec<OsString>) -> Result<Git> {
        let settings = GIT_SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut git = Git { place, settings };
        let listed = git.command().args(["config", "--list", "--show-scope", "-z"]).stdout()?;
        let mut fields = listed.split('\0');
        while let (Some(scope), Some(assignment)) = (fields.next(), fields.next()) {
            let (key, value) = assignment.split_once('\n').unwrap_or((assignment, ""));
            let Some((filter, kind)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) else {
                continue;
            };
            let is_program = matches!(kind, "clean" | "smudge" | "process");
            if is_program && matches!(scope, "local" | "worktree") && !LFS.contains(&value) {
                git.settings.push((key.to_owned(), String::new()));
                git.settings.push((format!("filter.{filter}.required"), "false".to_owned()));
            }
        }
        Ok(git)
    }
}

/// A jj command in a directory.
pub(crate) fn jj(dir: &Path) -> Tool {
    let mut command = Command::new("jj");
    command.current_dir(dir).args(["--no-pager", "--color=never"]);
    for setting in [
        "ui.editor=false",
        "fsmonitor.backend=none",
        // Every file is saved, not only those that jj thinks worth it.
        "snapshot.auto-track=all()",
        "snapshot.max-new-file-size=1000000000000",
    ] {
        command.arg(format!("--config={setting}"));
    }
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
    let version = Tool::new("git", Command::new("git")).arg("version").stdout()?;
    Ok(version.trim_start_matches("git version ").to_owned())
}

/// A command of one of the tools, about to run.
pub(crate) struct Tool {
    /// The tool and what it is asked to do, for people.
    name: String,
    is_named: bool,
    command: Command,
}

impl Tool {
    fn new(name: &str, mut command: Command) -> Self {
        // Messages are shown to people and matched by nobody, but one language keeps reports comparable.
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        Tool { name: name.to_owned(), is_named: false, command }
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            // The words up to the first option say what is asked: "git worktree add".
            let word = arg.as_ref().to_string_lossy();
            self.is_named |= word.starts_with('-') || self.name.split(' ').count() > 2;
            if !self.is_named {
                self.name = format!("{} {word}", self.name);
            }
            self.command.arg(arg);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Feeds it these bytes and runs it.
    pub(crate) fn fed(mut self, input: &[u8]) -> Result<()> {
        use std::io::Write as _;
        let cannot = |error| Error::unavailable(format!("cannot run {}", self.name)).because(error);
        log::debug!("run {}", self.line());
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input).map_err(cannot)?;
        }
        let output = child.wait_with_output().map_err(cannot)?;
        self.check(output).map(drop)
    }

    /// Runs it and returns what it printed, without the last newline.
    pub(crate) fn stdout(mut self) -> Result<String> {
        let output = self.run()?;
        let output = self.check(output)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
    }

    /// Runs it and returns the path it printed.
    pub(crate) fn path(mut self) -> Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let output = self.run()?;
        let mut bytes = self.check(output)?.stdout;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// Runs it and returns whether it succeeded, for questions that are answered by the exit code.
    pub(crate) fn succeeds(mut self) -> Result<bool> {
        Ok(self.run()?.status.success())
    }

    fn check(&self, output: Output) -> Result<Output> {
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said =
            said.trim().trim_start_matches("fatal: ").trim_start_matches("Error: ").trim_start_matches("abort: ");
        Err(Error::conflict(format!("{} failed", self.name)).because(said))
    }

    fn run(&mut self) -> Result<Output> {
        log::debug!("run {}", self.line());
        self.command.output().map_err(|error| {
            let tool = self.command.get_program().to_string_lossy().into_owned();
            Error::unavailable(format!("cannot run {tool}")).because(error).hint(format!("install {tool}"))
        })
    }

    /// The command as one would type it, without our settings.
    fn line(&self) -> String {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}
