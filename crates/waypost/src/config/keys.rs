//! Every key there is: its type, its default, and whether a repository may set it for others.

use waypost_core::nearest::nearest;
use waypost_core::time::parse_duration_ms;
use waypost_core::{Error, Result};

use super::Value;

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Its dotted name.
    pub name: &'static str,
    /// What its values look like.
    pub kind: ValueKind,
    /// What holds if nobody says otherwise.
    pub default: Option<&'static str>,
    /// Whether it is each user's own choice. The tracked file, which others write, does not set such a key.
    pub personal: bool,
    /// One line for people.
    pub help: &'static str,
}

/// What the values of a key look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// A file system path; `~` is the home directory.
    Path,
    /// Several paths. The lists of all layers add up.
    Paths,
    /// Several words. The lists of all layers add up.
    Words,
    /// A length of time such as `30s` or `10m`.
    Duration,
    /// A whole number.
    Number,
    /// An amount of bytes such as `500MB` or `20GiB`.
    Bytes,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl ValueKind {
    /// Returns what stands between the items of a list: a colon between paths, as in PATH. None if it is no list.
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
    personal("jobs.env", ValueKind::Words, None, "further variables of your environment that jobs see"),
    personal("jobs.grace", ValueKind::Duration, Some("3s"), "how long a job that is asked to end may take"),
    personal("jobs.log_limit", ValueKind::Bytes, Some("64MiB"), "how much of what a job prints is kept"),
    shared("jobs.timeout", ValueKind::Duration, None, "how long a job may run"),
    shared(
        "ledger.home",
        ValueKind::Choice(&["main", "branch"]),
        Some("main"),
        "whose copy of the ledger counts: the main worktree's, or each worktree's own",
    ),
    shared("prefix", ValueKind::Text, None, "what the ids of new issues begin with"),
    shared(
        "prune.auto",
        ValueKind::Choice(&["off", "on"]),
        Some("off"),
        "whether a change of an issue prunes the ledger when it is large",
    ),
    shared(
        "ready.unresolved",
        ValueKind::Choice(&["block", "ignore"]),
        Some("block"),
        "whether an issue waits for one that is in no ledger",
    ),
    shared("repos.additional", ValueKind::Paths, None, "further repositories whose ledgers are read"),
    shared("repos.primary", ValueKind::Path, Some("."), "the repository whose ledger comes first"),
    personal(
        "role",
        ValueKind::Choice(&["maintainer", "contributor"]),
        None,
        "your role in this repository, if it is not to be guessed",
    ),
    shared("routing.auto.contributor", ValueKind::Path, None, "where a contributor's new issues go"),
    shared("routing.auto.maintainer", ValueKind::Path, None, "where a maintainer's new issues go"),
    shared("routing.default", ValueKind::Path, None, "where new issues go otherwise"),
    shared("routing.mode", ValueKind::Choice(&["auto", "explicit"]), None, "how the ledger of a new issue is chosen"),
    shared(
        "scope",
        ValueKind::Choice(&["repo", "worktree", "global"]),
        Some("repo"),
        "who shares a store: a repository's worktrees, nobody, or all repositories",
    ),
    shared("statuses.active", ValueKind::Words, None, "further statuses of issues that may be ready"),
    shared("statuses.done", ValueKind::Words, None, "further statuses of issues that are finished"),
    shared("statuses.frozen", ValueKind::Words, None, "further statuses of issues that are set aside"),
    shared("statuses.wip", ValueKind::Words, None, "further statuses of issues that somebody works on"),
    personal(
        "store.network",
        ValueKind::Choice(&["refuse", "allow"]),
        Some("refuse"),
        "whether a store may lie on a network file system",
    ),
    personal("store.wait", ValueKind::Duration, Some("30s"), "how long to wait for other processes"),
    personal("sync.timeout", ValueKind::Duration, Some("2m"), "how long a remote may take to answer; 0s is for ever"),
    personal(
        "workspaces.cleanup_on_complete",
        ValueKind::Choice(&["false", "true"]),
        Some("false"),
        "whether a workspace goes when its job has ended and nothing in it would be lost",
    ),
    shared("workspaces.include", ValueKind::Words, None, "ignored files that workspaces get as well, as patterns"),
    personal("workspaces.keep_count", ValueKind::Number, None, "how many workspaces way ws gc leaves"),
    personal(
        "workspaces.keep_for",
        ValueKind::Text,
        Some("7d"),
        "how old workspaces get before way ws gc removes them",
    ),
    personal("workspaces.limit", ValueKind::Bytes, None, "how large a workspace may become"),
    personal("workspaces.path", ValueKind::Path, None, "where jobs get their workspaces"),
    personal(
        "workspaces.policy",
        ValueKind::Choice(&["stop", "evict"]),
        Some("stop"),
        "what happens beyond workspaces.total: no new job, or the oldest safe workspaces go",
    ),
    personal("workspaces.pool", ValueKind::Number, Some("0"), "how many workspaces way ws warm has in advance"),
    shared(
        "workspaces.setup",
        ValueKind::Text,
        None,
        "the command that sets a workspace up; it runs once it is trusted",
    ),
    personal(
        "workspaces.strategy",
        ValueKind::Choice(&["clone", "overlay", "worktree", "jj", "copy"]),
        None,
        "how workspaces are made, if not as suits the repository",
    ),
    personal("workspaces.total", ValueKind::Bytes, None, "how much all workspaces together may take"),
];

/// Returns the key of a name, or an error with the nearest one.
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
    /// Reads a value as typed on the command line or found in the environment.
    pub fn parse(&self, text: &str) -> Result<Value> {
        if let Some(separator) = self.kind.separator() {
            let items = text.split(separator).map(str::trim).filter(|item| !item.is_empty());
            return Ok(Value::List(items.map(str::to_owned).collect()));
        }
        self.check(text)?;
        Ok(Value::Text(text.to_owned()))
    }

    /// Says what is wrong with a value, if anything is.
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
                wrong("it takes a length of time up to a day, for example 30s, 10m or 1h 30m".to_owned())
            }
            ValueKind::Number if text.parse::<u32>().is_err() => wrong("it takes a whole number".to_owned()),
            ValueKind::Bytes if crate::bytes::parse(text).is_none() => {
                wrong("it takes an amount of bytes, for example 500MB or 20GiB".to_owned())
            }
            ValueKind::Path | ValueKind::Paths | ValueKind::Words | ValueKind::Text
                if text.is_empty() || text.contains('\0') =>
            {
                wrong("it cannot be empty".to_owned())
            }
            _ if self.name == "prefix" && !is_prefix(text) => {
                wrong("a prefix is 1 to 32 of a-z, 0-9, - and _, beginning with a letter".to_owned())
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
    fn keys_are_sorted_and_their_defaults_fit() {
        assert!(KEYS.is_sorted_by_key(|key| key.name));
        for key in KEYS {
            if let Some(default) = key.default {
                key.parse(default).unwrap();
            }
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        let hint = |name: &str, value: &str| key_named(name).unwrap().parse(value).unwrap_err().hints()[0].clone();
        assert_eq!(hint("scope", "rep"), "did you mean repo? It takes repo | worktree | global");
        assert!(hint("store.wait", "soon").contains("30s"));
        assert!(hint("store.wait", "-5s").contains("30s"));
        assert!(hint("store.wait", "2000h").contains("up to a day"));
        assert!(hint("prefix", "Über").contains("a-z"));
        assert!(hint("routing.default", "").contains("empty"));
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        assert_eq!(key_named("scpoe").unwrap_err().hints(), ["did you mean scope?"]);
    }
}
