//! All configuration keys: type, default, and whether a repository may set the key for all its users.

use waypost_core::nearest::nearest;
use waypost_core::time::parse_duration_ms;
use waypost_core::{Error, Result};

use super::Value;

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Its dotted name.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ValueKind,
    /// The default.
    pub default: Option<&'static str>,
    /// Whether only the user sets it. Waypost ignores such a key in the tracked file, which others can change.
    pub personal: bool,
    /// One line of help.
    pub help: &'static str,
}

/// The type of the values of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// A file system path; `~` is the home directory.
    Path,
    /// Several paths. The lists of all layers are joined.
    Paths,
    /// Several words. The lists of all layers are joined.
    Words,
    /// A duration such as `30s` or `10m`, of at most a day.
    Duration,
    /// A duration of any length, such as `12h` or `7d`.
    Days,
    /// A whole number.
    Number,
    /// A size in bytes such as `500MB` or `20GiB`.
    Bytes,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl ValueKind {
    /// Returns the separator of list items: a colon between paths, as in `PATH`. None if it is not a list.
    pub fn separator(self) -> Option<char> {
        match self {
            ValueKind::Paths => Some(':'),
            ValueKind::Words => Some(','),
            _ => None,
        }
    }
}

/// Longest duration that a key takes: one day.
const MAX_DURATION_MS: u64 = 24 * 60 * 60 * 1000;

const fn shared(name: &'static str, kind: ValueKind, default: Option<&'static str>, help: &'static str) -> Key {
    Key { name, kind, default, personal: false, help }
}

const fn personal(name: &'static str, kind: ValueKind, default: Option<&'static str>, help: &'static str) -> Key {
    Key { name, kind, default, personal: true, help }
}

/// All keys, by name.
pub static KEYS: &[Key] = &[
    personal(
        "config.accepted",
        ValueKind::Words,
        None,
        "values of the tracked configuration that may lead out of the repository (way config accept)",
    ),
    personal("jobs.env", ValueKind::Words, None, "further environment variables that jobs inherit"),
    personal("jobs.grace", ValueKind::Duration, Some("3s"), "time between asking a job to end and killing it"),
    personal("jobs.log_limit", ValueKind::Bytes, Some("64MiB"), "maximum size of the kept output of a job"),
    personal("jobs.memory_limit", ValueKind::Bytes, None, "maximum memory of the processes of a job together"),
    personal("jobs.network", ValueKind::Choice(&["on", "off"]), Some("on"), "whether jobs can use the network"),
    personal("jobs.process_limit", ValueKind::Number, None, "maximum number of processes and threads of a job"),
    personal(
        "jobs.sandbox",
        ValueKind::Choice(&["off", "on", "landlock", "bubblewrap"]),
        None,
        "whether jobs can use only their own files [default: off, and on for jobs that come over HTTP]",
    ),
    personal("jobs.sandbox_read", ValueKind::Paths, None, "further paths that jobs in a sandbox can read"),
    personal("jobs.sandbox_write", ValueKind::Paths, None, "further paths that jobs in a sandbox can change"),
    personal(
        "jobs.shared_log",
        ValueKind::Bytes,
        Some("1MiB"),
        "size of a job's output that a store shared by machines keeps for the others",
    ),
    shared("jobs.timeout", ValueKind::Duration, None, "maximum run time of a job"),
    shared(
        "lease.max",
        ValueKind::Days,
        Some("7d"),
        "time for which an agent may renew one claim of an issue, or of a task without a timeout; 0s means no limit",
    ),
    shared(
        "lease.ttl",
        ValueKind::Duration,
        None,
        "time until an agent's claim expires without a renewal [default: 30m for issues, 10m for tasks]",
    ),
    shared(
        "lease.ttl_human",
        ValueKind::Duration,
        None,
        "time until a person's claim expires without a renewal [default: it lasts until it is released]",
    ),
    shared(
        "ledger.home",
        ValueKind::Choice(&["main", "branch", "separate"]),
        Some("main"),
        "where the ledger is: in the main worktree, in each worktree, or on a branch of its own (way migrate --home)",
    ),
    shared(
        "prefix",
        ValueKind::Text,
        None,
        "prefix of the ids of new issues [default: the ledger's, else the name of the remote, else of the directory]",
    ),
    shared(
        "prune.auto",
        ValueKind::Choice(&["off", "on"]),
        Some("off"),
        "whether a change to an issue prunes a large ledger",
    ),
    shared(
        "ready.unresolved",
        ValueKind::Choice(&["block", "ignore"]),
        Some("block"),
        "whether a dependency that is in no ledger blocks an issue",
    ),
    personal(
        "redact.env",
        ValueKind::Words,
        None,
        "environment variables whose values are removed from logs, records and issues",
    ),
    shared("repos.additional", ValueKind::Paths, None, "further repositories whose ledgers are read"),
    shared("repos.primary", ValueKind::Path, Some("."), "the repository whose ledger comes first"),
    personal(
        "role",
        ValueKind::Choice(&["maintainer", "contributor"]),
        None,
        "your role in this repository [default: detected]",
    ),
    shared("routing.auto.contributor", ValueKind::Path, None, "repository for the new issues of a contributor"),
    shared("routing.auto.maintainer", ValueKind::Path, None, "repository for the new issues of a maintainer"),
    shared("routing.default", ValueKind::Path, None, "repository for all other new issues"),
    shared(
        "routing.mode",
        ValueKind::Choice(&["auto", "explicit"]),
        None,
        "how Waypost chooses the ledger of a new issue: by your role, or explicit, only by --repo or routing.default",
    ),
    shared(
        "scope",
        ValueKind::Choice(&["repo", "worktree", "global"]),
        Some("repo"),
        "who shares a store: the worktrees of a repository, one worktree, or all repositories",
    ),
    shared("statuses.active", ValueKind::Words, None, "further statuses of issues that can be ready"),
    shared("statuses.done", ValueKind::Words, None, "further statuses of issues that are finished"),
    shared("statuses.frozen", ValueKind::Words, None, "further statuses of issues that are deferred"),
    shared("statuses.wip", ValueKind::Words, None, "further statuses of issues in progress"),
    personal(
        "store.network",
        ValueKind::Choice(&["refuse", "allow"]),
        Some("refuse"),
        "whether a store may be on a network file system",
    ),
    personal("store.wait", ValueKind::Duration, Some("30s"), "maximum time to wait for other processes"),
    personal(
        "sync.push",
        ValueKind::Choice(&["ledger", "branch", "off"]),
        Some("ledger"),
        "commits that way sync pushes: only those of the ledger, all of the branch, or none",
    ),
    personal("sync.timeout", ValueKind::Duration, Some("2m"), "maximum time to wait for a remote; 0s means no limit"),
    personal(
        "workspaces.cleanup_on_complete",
        ValueKind::Choice(&["false", "true"]),
        Some("false"),
        "whether to remove the workspace of an ended job, if no work would be lost",
    ),
    shared("workspaces.include", ValueKind::Words, None, "patterns of ignored files that are copied into workspaces"),
    personal("workspaces.keep_count", ValueKind::Number, None, "number of workspaces that way ws gc keeps"),
    personal("workspaces.keep_for", ValueKind::Text, Some("7d"), "age at which way ws gc removes workspaces"),
    personal("workspaces.limit", ValueKind::Bytes, None, "maximum size of a workspace"),
    personal("workspaces.path", ValueKind::Path, None, "directory of workspaces"),
    personal(
        "workspaces.policy",
        ValueKind::Choice(&["stop", "evict"]),
        Some("stop"),
        "above workspaces.total: refuse new jobs, or remove the oldest workspaces that lose no work",
    ),
    personal(
        "workspaces.pool",
        ValueKind::Number,
        Some("0"),
        "number of workspaces that way ws warm creates in advance",
    ),
    shared("workspaces.setup", ValueKind::Text, None, "command that sets up a workspace; it runs only if you trust it"),
    personal(
        "workspaces.strategy",
        ValueKind::Choice(&["clone", "overlay", "worktree", "jj", "copy"]),
        None,
        "how workspaces are created [default: depends on the repository]",
    ),
    personal("workspaces.total", ValueKind::Bytes, None, "maximum size of all workspaces together"),
];

/// Returns the key with this name, or an error with the nearest name.
pub fn key_named(name: &str) -> Result<&'static Key> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let error = Error::invalid(format!("there is no configuration key {name:?}"));
        match nearest(name, KEYS.iter().map(|key| key.name)) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint("way config list --all shows every key"),
        }
    })
}

impl Key {
    /// Parses a value from the command line or the environment.
    pub fn parse(&self, text: &str) -> Result<Value> {
        if let Some(separator) = self.kind.separator() {
            let items = text.split(separator).map(str::trim).filter(|item| !item.is_empty());
            return Ok(Value::List(items.map(str::to_owned).collect()));
        }
        self.check(text)?;
        Ok(Value::Text(text.to_owned()))
    }

    /// Returns an error if the value is invalid.
    pub fn check(&self, text: &str) -> Result<()> {
        let wrong =
            |expected: String| Err(Error::invalid(format!("{text:?} is not a value for {}", self.name)).hint(expected));
        match self.kind {
            ValueKind::Choice(words) if !words.contains(&text) => {
                let near = nearest(text, words.iter().copied());
                wrong(match near {
                    Some(near) => format!("did you mean {near}? It takes {}", words.join(" | ")),
                    None => format!("it takes {}", words.join(" | ")),
                })
            }
            ValueKind::Duration if !parse_duration_ms(text).is_ok_and(|millis| millis <= MAX_DURATION_MS) => {
                wrong("it takes a duration of at most one day, for example 30s, 10m or 1h 30m".to_owned())
            }
            ValueKind::Days if parse_duration_ms(text).is_err() => {
                wrong("it takes a duration, for example 12h or 7d".to_owned())
            }
            ValueKind::Number if text.parse::<u32>().is_err() => wrong("it takes a whole number".to_owned()),
            ValueKind::Bytes if crate::machine::bytes::parse(text).is_none() => {
                wrong("it takes a size, for example 500MB or 20GiB".to_owned())
            }
            ValueKind::Path | ValueKind::Paths | ValueKind::Words | ValueKind::Text
                if text.is_empty() || text.contains('\0') =>
            {
                wrong("it cannot be empty".to_owned())
            }
            _ if self.name == "prefix" && !is_prefix(text) => {
                wrong("a prefix has 1 to 32 characters of a-z, 0-9, - and _, and starts with a letter".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn is_prefix(text: &str) -> bool {
    text.len() <= 32
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || "-_".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_their_defaults_are_valid() {
        assert!(KEYS.is_sorted_by_key(|key| key.name));
        for key in KEYS {
            if let Some(default) = key.default {
                key.parse(default).unwrap();
            }
        }
    }

    #[test]
    fn an_invalid_value_is_refused_with_a_hint() {
        let hint = |name: &str, value: &str| key_named(name).unwrap().parse(value).unwrap_err().hints()[0].clone();
        assert_eq!(hint("scope", "rep"), "did you mean repo? It takes repo | worktree | global");
        assert!(hint("store.wait", "soon").contains("30s"));
        assert!(hint("lease.max", "soon").contains("7d"));
        assert!(hint("store.wait", "-5s").contains("30s"));
        assert!(hint("store.wait", "2000h").contains("at most one day"));
        assert!(hint("prefix", "Über").contains("a-z"));
        assert!(hint("routing.default", "").contains("empty"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_one() {
        assert_eq!(key_named("scpoe").unwrap_err().hints(), ["did you mean scope?"]);
    }
}
