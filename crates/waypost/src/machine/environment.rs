//! The environment variables that Waypost uses. No other module reads the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

/// The user's Waypost directory; `~/.waypost` if not set.
pub(crate) const WAYPOST_HOME: &str = "WAYPOST_HOME";
/// Which store to use: a path or a URL.
pub(crate) const WAYPOST_DB: &str = "WAYPOST_DB";
/// The author of writes.
pub(crate) const WAYPOST_ACTOR: &str = "WAYPOST_ACTOR";
/// The calling agent; also the author, if `WAYPOST_ACTOR` is not set.
pub(crate) const WAYPOST_AGENT: &str = "WAYPOST_AGENT";
/// The job that a command runs in. The supervisor sets it for the commands of jobs.
pub const WAYPOST_JOB: &str = "WAYPOST_JOB";
/// In the sandbox of a job: the entry of its workspace in the user's register, which the job cannot read. The supervisor sets
/// it.
pub(crate) const WAYPOST_SANDBOX: &str = "WAYPOST_SANDBOX";
/// The task that a job works on.
pub const WAYPOST_TASK: &str = "WAYPOST_TASK";
/// The epoch of a job's lease on its task.
pub const WAYPOST_EPOCH: &str = "WAYPOST_EPOCH";
/// The file in which a hook of Claude Code sets environment variables for the commands of a session.
pub const CLAUDE_ENV_FILE: &str = "CLAUDE_ENV_FILE";
/// The token for a server.
pub(crate) const WAYPOST_TOKEN: &str = "WAYPOST_TOKEN";
/// In debug builds only: the current time for tests, in RFC 3339.
pub(crate) const WAYPOST_TEST_CLOCK: &str = "WAYPOST_TEST_CLOCK";

/// The variables that every job inherits. Those of git say who commits: in containers and CI, nothing else does.
const INHERITED: &[&str] = &[
    "EMAIL",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSH_AUTH_SOCK",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// A copy of the environment, which its own copies share. An empty variable counts as not set.
#[derive(Clone, Debug, Default)]
pub struct Variables(Arc<BTreeMap<OsString, OsString>>);

impl Variables {
    /// Copies the environment of this process.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Returns how these differ from the environment of this process. A variable without a value is not set.
    pub fn changes(&self) -> Vec<(OsString, Option<OsString>)> {
        let process = Variables::of_process();
        let is_new = |(name, value): &(&OsString, &OsString)| process.get(name) != Some(value.as_os_str());
        let set = self.0.iter().filter(is_new).map(|(name, value)| (name.clone(), Some(value.clone())));
        let unset = process.0.keys().filter(|name| self.get(name).is_none()).map(|name| (name.clone(), None));
        set.chain(unset).collect()
    }

    /// Returns a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns the variables whose names start with a prefix.
    pub fn starting_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (OsString, OsString)> + 'a {
        let matches = move |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(prefix));
        self.0.iter().filter(move |(name, _)| matches(name)).map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Returns the variables that jobs and set-up commands inherit: the usual ones of a session, and further ones. All
    /// others may hold secrets.
    pub(crate) fn inherited(&self, further: &[String]) -> Vec<(OsString, OsString)> {
        let names = INHERITED.iter().copied().chain(further.iter().map(String::as_str));
        names
            .filter_map(|name| Some((OsString::from(name), self.get(name)?.to_owned())))
            .chain(self.starting_with("LC_"))
            .collect()
    }

    /// Returns the environment without the variables that point git to a repository.
    #[must_use]
    pub fn without_git(&self) -> Self {
        let points_git =
            |name: &OsString| ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"].iter().any(|known| name == known);
        self.0.iter().filter(|(name, _)| !points_git(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the environment without one variable.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut rest = self.clone();
        Arc::make_mut(&mut rest.0).remove(OsStr::new(name));
        rest
    }

    /// Returns a variable as a path.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// Returns a variable as text.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// Returns the user's home directory. Like git, it uses only `HOME`.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// Returns whether output to a terminal may have colors: `NO_COLOR` is not set, and the terminal is not dumb.
    pub fn allow_color(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM").is_none_or(|term| term != "dumb")
    }

    /// Returns the author that the environment names.
    pub fn named_actor(&self) -> Option<String> {
        [WAYPOST_ACTOR, WAYPOST_AGENT].into_iter().find_map(|name| self.text(name))
    }

    /// Returns the user's editor, as a shell command.
    pub fn editor(&self) -> Option<String> {
        ["VISUAL", "EDITOR"].into_iter().find_map(|name| self.text(name))
    }

    /// Returns the name of the machine's user.
    pub fn user(&self) -> String {
        let named = ["USER", "LOGNAME"].into_iter().find_map(|name| self.text(name));
        named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Variables(Arc::new(pairs.filter(|(_, value): &(_, OsString)| !value.is_empty()).collect()))
    }
}
