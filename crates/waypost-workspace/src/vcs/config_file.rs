//! Reads git's configuration files, and Mercurial's, whose syntax is similar enough.
//!
//! Supports only as much as detection needs. It does not follow `include.path`, because a repository could point it at
//! any file of the user.

use std::fmt;
use std::path::Path;

use waypost_core::Result;
use waypost_fs::{read_own_small_file, read_permitted_small_file};

/// The assignments of a configuration file, in order.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct ConfigFile(Vec<(String, String)>);

/// Shows only the keys: a URL may contain a password.
impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl ConfigFile {
    /// Reads a file of the user; a missing or unreadable file has no assignments.
    pub(crate) fn of_user(path: &Path) -> Self {
        Self::of_bytes(read_own_small_file(path).unwrap_or_default())
    }

    /// Reads a file of a repository; one that is missing or cannot be read has no assignments.
    pub(crate) fn read(path: &Path) -> Self {
        Self::load(path).unwrap_or_default()
    }

    /// Reads a file of a repository; a missing file, and one that this process may not read, has no assignments.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        read_permitted_small_file(path).map(Self::of_bytes)
    }

    fn of_bytes(bytes: Option<Vec<u8>>) -> Self {
        bytes.map(|bytes| Self::parse(&String::from_utf8_lossy(&bytes))).unwrap_or_default()
    }

    /// Appends the assignments of another file, which override these.
    pub(crate) fn merged_with(mut self, other: ConfigFile) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Returns the last value of a key such as `core.bare` or `remote.origin.url`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.last_of(&[key])
    }

    /// Returns the last value of a key that has several spellings.
    pub(crate) fn last_of(&self, keys: &[&str]) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| keys.contains(&known.as_str())).map(|(_, value)| value.as_str())
    }

    /// Returns the names in the middle of keys such as `remote.NAME.url`, each once.
    pub(crate) fn names(&self, before: &str, after: &str) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (key, _) in &self.0 {
            if let Some(name) = key.strip_prefix(before).and_then(|rest| rest.strip_suffix(after))
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// Returns whether a key is set and true.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1"))
    }

    fn parse(text: &str) -> Self {
        let mut assignments = Vec::new();
        let mut section = String::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut line = line.trim().to_owned();
            if let Some(rest) = line.strip_prefix('[') {
                let Some((header, after)) = split_header(rest) else { continue };
                section = header;
                line = after.trim().to_owned();
            }
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            while line.ends_with('\\') && !line.ends_with("\\\\") {
                line.pop();
                line.push_str(lines.next().unwrap_or_default());
            }
            let (key, value) = match line.split_once('=') {
                Some((key, value)) => (key.trim(), unquote(value.trim())),
                // A bare key means true.
                None => (line.as_str(), "true".to_owned()),
            };
            assignments.push((format!("{section}.{}", key.to_ascii_lowercase()), value));
        }
        ConfigFile(assignments)
    }
}

/// Splits `remote "origin"] rest` into `remote.origin` and ` rest`.
fn split_header(text: &str) -> Option<(String, &str)> {
    let Some(quote) = text.find('"').filter(|quote| text.find(']').is_none_or(|end| *quote < end)) else {
        let (name, rest) = text.split_once(']')?;
        return Some((name.trim().to_ascii_lowercase(), rest));
    };
    let name = text[..quote].trim().to_ascii_lowercase();
    let mut subsection = String::new();
    let mut chars = text[quote + 1..].char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => subsection.push(chars.next()?.1),
            '"' => {
                let (_, rest) = text[quote + 1 + at..].split_once(']')?;
                return Some((format!("{name}.{subsection}"), rest));
            }
            other => subsection.push(other),
        }
    }
    None
}

/// Removes quotes, escapes and a trailing comment from a value.
fn unquote(text: &str) -> String {
    let mut value = String::new();
    let mut quoted = false;
    // Spaces before a comment are not part of the value; spaces inside quotes are.
    let mut keep = 0;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                quoted = !quoted;
                keep = value.len();
            }
            '\\' => {
                value.push(match chars.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => break,
                });
                keep = value.len();
            }
            '#' | ';' if !quoted => break,
            other => {
                value.push(other);
                if quoted || !other.is_whitespace() {
                    keep = value.len();
                }
            }
        }
    }
    value.truncate(keep);
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, key: &str, expected: Option<&str>) {
        assert_eq!(ConfigFile::parse(text).get(key), expected, "{key} in {text:?}");
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        check("[core]\n\tbare = true\n", "core.bare", Some("true"));
        check("[core] bare = yes ; on one line", "core.bare", Some("yes"));
        check("[CORE]\nBare", "core.bare", Some("true"));
        check("[remote \"origin\"]\nurl = a\n[remote \"b\"]\nurl = c", "remote.origin.url", Some("a"));
        check("[remote \"o]\\\"x\"]\nurl = a", "remote.o]\"x.url", Some("a"));
        check("[a]\nb = one\nb = two", "a.b", Some("two"));
        check("[a]\nb = \" kept \"  # not kept", "a.b", Some(" kept "));
        check("[a]\nb = one \\\ntwo", "a.b", Some("one two"));
        check("[a]\nb = x\\ty\\\\z", "a.b", Some("x\ty\\z"));
        check("[paths]\ndefault = https://example.org/r", "paths.default", Some("https://example.org/r"));
        check("b = 1", "a.b", None);
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[\\[\\]\"\\\\=#;a\n ]{0,60}") {
            let _ = ConfigFile::parse(&text);
        }
    }
}
