//! The environment variables that mean something to us. Nothing else reads the environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The directory of everything per user; `~/.waypost` if not set.
pub const WAYPOST_HOME: &str = "WAYPOST_HOME";
/// Which store to use: a path or a URL.
pub const WAYPOST_DB: &str = "WAYPOST_DB";
/// The author of what is written.
pub const WAYPOST_ACTOR: &str = "WAYPOST_ACTOR";
/// The agent that is calling; the author, if nobody else is named.
pub const WAYPOST_AGENT: &str = "WAYPOST_AGENT";
/// The job that a command runs in, and what it works on. Set for the commands of jobs.
pub const WAYPOST_JOB: &str = "WAYPOST_JOB";
/// The task that a job works on.
pub const WAYPOST_TASK: &str = "WAYPOST_TASK";
/// The epoch of a job's lease on its task.
pub const WAYPOST_EPOCH: &str = "WAYPOST_EPOCH";
/// Where Claude Code lets a hook say what the commands of a session find in their environment.
pub const CLAUDE_ENV_FILE: &str = "CLAUDE_ENV_FILE";
/// The token to show to a server.
pub const WAYPOST_TOKEN: &str = "WAYPOST_TOKEN";
/// In debug builds only: the time to believe in, for tests. RFC 3339.
pub const WAYPOST_TEST_CLOCK: &str = "WAYPOST_TEST_CLOCK";

/// A copy of the environment. A variable that is set to nothing counts as not set.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Copies the environment of this process.
    pub fn of_process() -> Self {
        Variables(std::env::vars_os().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// Returns a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.0.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// Returns the variables whose names begin so.
    pub fn starting_with<'a>(&'a self, beginning: &'a str) -> impl Iterator<Item = (OsString, OsString)> + 'a {
        let begins = move |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with(beginning));
        self.0.iter().filter(move |(name, _)| begins(name)).map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Returns the environment without what would lead git to a certain repository.
    #[must_use]
    pub fn without_git(&self) -> Self {
        let leads = |name: &OsString| ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"].iter().any(|known| name == known);
        Variables(
            self.0.iter().filter(|(name, _)| !leads(name)).map(|(name, value)| (name.clone(), value.clone())).collect(),
        )
    }

    /// Returns the environment without one variable.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut rest = self.clone();
        rest.0.remove(OsStr::new(name));
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

    /// Returns the user's home directory. As git, we go by the variable alone.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME")
    }

    /// Tells whether a terminal is to be painted: unless `NO_COLOR` is set, or it is a dumb one.
    pub fn allow_color(&self) -> bool {
        self.get("NO_COLOR").is_none() && self.get("TERM").is_none_or(|term| term != "dumb")
    }

    /// Returns who the environment says the author of changes is.
    pub fn named_actor(&self) -> Option<String> {
        [WAYPOST_ACTOR, WAYPOST_AGENT].into_iter().find_map(|name| self.text(name))
    }

    /// Returns the editor that people want, as a shell understands it.
    pub fn editor(&self) -> Option<String> {
        ["VISUAL", "EDITOR"].into_iter().find_map(|name| self.text(name))
    }

    /// Returns the user of the machine.
    pub fn user(&self) -> String {
        let named = ["USER", "LOGNAME"].into_iter().find_map(|name| self.text(name));
        named.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Variables(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .filter(|(_, value): &(_, OsString)| !value.is_empty())
                .collect(),
        )
    }
}
