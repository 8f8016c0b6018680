//! Waypost's filter in git's configuration: it puts the appended changes of a ledger in their places before git stores it.
//!
//! The attributes and the configuration of the clone name it, and no tracked file does: a clone without large ledgers needs no
//! filter. Git calls it whenever it compares or stores the file.

use std::path::Path;

use waypost_core::model::Vcs;
use waypost_core::{Error, Result};

use super::checkout::Checkout;
use super::git_layout;
use super::git_settings::{FILTER_KEY, filter_program, own_filter};
use super::merge_driver::{add_line, lines, remove_line};
use super::run::Git;

/// The filter's name in git's configuration.
const FILTER_NAME: &str = "waypost";

/// Configures the running program as the filter of a ledger, unless the clone has it already. Returns whether git filters the
/// ledger now.
///
/// `name` is the ledger's path in the worktree `root`. If there is nothing to do, this reads four small files.
pub fn ensure_filter(checkout: &Checkout, root: &Path, name: &str) -> Result<bool> {
    let Some(git_dir) = checkout.git_dir.as_deref().filter(|_| checkout.vcs == Vcs::Git) else { return Ok(false) };
    // Other names have a meaning in patterns.
    if !name.chars().all(|char| char.is_ascii_alphanumeric() || "/._-".contains(char)) || !is_plain(root, name) {
        return Ok(false);
    }
    let attributes = git_dir.join("info/attributes");
    let line = format!("/{name} filter={FILTER_NAME}");
    let own_lines = lines(&attributes);
    if has_other_filter(root, name) {
        // Ours would win, and git-crypt, for example, would not encrypt the ledger.
        if own_lines.contains(&line) {
            remove_line(&attributes, &line)?;
        }
        return Ok(false);
    }
    let setting = |key: &str| git_layout::setting(git_dir, None, key);
    let is_configured = match setting(FILTER_KEY).as_deref().map(filter_program) {
        // Another program of this name: the user's choice.
        Some(None) => return Ok(false),
        Some(Some(program)) => Path::new(&program).exists(),
        None => false,
    };
    // Git would use it instead.
    if setting("filter.waypost.process").is_some() {
        return Ok(false);
    }
    let has_attribute = own_lines.contains(&line);
    // A later line wins.
    if own_lines.iter().rev().take_while(|later| **later != line).any(|later| later.contains("filter")) {
        return Ok(false);
    }
    if is_configured && has_attribute {
        return Ok(true);
    }
    let Some(filter) = own_filter() else { return Ok(false) };
    let git = Git::in_worktree(root)?;
    let used = || {
        let answer = git.command().args(["check-attr", "-z", "filter", "--", name]).stdout()?;
        Ok::<_, Error>(answer.split('\0').nth(2).unwrap_or_default().to_owned())
    };
    if !["unspecified", FILTER_NAME].contains(&used()?.as_str()) {
        return Ok(false);
    }
    git.command().args(["config", "--local", FILTER_KEY, &filter]).stdout()?;
    if !has_attribute {
        add_line(&attributes, &line)?;
    }
    Ok(used()? == FILTER_NAME)
}

/// Returns whether no part of a path in a worktree is a link, which git would store instead of the file.
fn is_plain(root: &Path, name: &str) -> bool {
    let (Ok(root), Ok(file)) = (root.canonicalize(), root.join(name).canonicalize()) else { return false };
    file == root.join(name)
}

/// Returns whether tracked attributes may choose another filter for a ledger. The answer may be wrongly true.
fn has_other_filter(root: &Path, name: &str) -> bool {
    let directory = root.join(name).parent().map_or_else(|| root.to_owned(), Path::to_owned);
    let file_name = name.rsplit('/').next().unwrap_or(name);
    let concerns = |line: &String| {
        let mut words = line.split_whitespace();
        let pattern = words.next().unwrap_or_default();
        let last = pattern.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let is_other = |word: &str| word.contains("filter") && word != format!("filter={FILTER_NAME}");
        !pattern.starts_with('#') && may_match(last.as_bytes(), file_name.as_bytes()) && words.any(is_other)
    };
    [root.join(".gitattributes"), directory.join(".gitattributes")].iter().any(|file| lines(file).iter().any(concerns))
}

/// Returns whether a pattern of git may match a name. Groups of characters match everything.
fn may_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern, name) {
        ([b'[' | b'\\' | b'"', ..], _) => true,
        ([b'*', rest @ ..], _) => {
            may_match(rest, name) || name.split_first().is_some_and(|(_, name)| may_match(pattern, name))
        }
        ([b'?', rest @ ..], [_, name @ ..]) => may_match(rest, name),
        ([one, rest @ ..], [other, name @ ..]) => one == other && may_match(rest, name),
        ([], name) => name.is_empty(),
        (_, []) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_may_match_a_ledger() {
        for (pattern, expected) in [
            ("*", true),
            ("*.jsonl", true),
            ("issues.*", true),
            ("issues.json?", true),
            ("[a-z]ssues.jsonl", true),
            ("*.psd", false),
            ("issues", false),
            ("issues.jsonl.gz", false),
            ("", false),
        ] {
            assert_eq!(may_match(pattern.as_bytes(), b"issues.jsonl"), expected, "{pattern}");
        }
    }
}
