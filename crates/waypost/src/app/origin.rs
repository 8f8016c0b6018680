//! The repository and the worktree of a remote caller.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use waypost_core::context::Standing;
use waypost_core::model::{Repository, Worktree};
use waypost_core::{Error, Result, url_text};

/// The header that carries it.
pub const HEADER: &str = "waypost-from";

/// Maximum length of a path or a name.
const MAX_TEXT_BYTES: usize = 4096;

/// The worktree that the caller is in, and its repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The repository.
    pub repository: Repository,
    /// The worktree.
    pub worktree: Worktree,
    /// Where in the repository the caller is.
    #[serde(default)]
    pub standing: Standing,
}

impl Origin {
    /// Returns it as the value of a header: JSON in ASCII.
    pub fn to_header(&self) -> Result<String> {
        let json = serde_json::to_string(self)
            .map_err(|error| Error::internal("cannot write a worktree as JSON").because(error))?;
        let mut header = String::with_capacity(json.len());
        for unit in json.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii_graphic() || byte == b' ' => header.push(char::from(byte)),
                _ => write!(header, "\\u{unit:04x}").expect("writing to a string cannot fail"),
            }
        }
        Ok(header)
    }

    /// Parses the value of a header. Refuses invalid names and paths.
    pub fn from_header(header: &str) -> Result<Origin> {
        let wrong = |why: &str| Error::invalid(format!("the header {HEADER} names no worktree")).because(why);
        let mut origin: Origin = serde_json::from_str(header).map_err(|error| wrong(&error.to_string()))?;
        let Origin { repository, worktree, .. } = &mut origin;
        if worktree.repository_id != repository.id {
            return Err(wrong("the worktree belongs to another repository"));
        }
        let is_path = |path: &Path| path.is_absolute() && path.as_os_str().len() <= MAX_TEXT_BYTES;
        if !is_path(&repository.path) || !is_path(&worktree.path) {
            return Err(wrong("a path is relative or too long"));
        }
        let texts = [Some(&repository.name), Some(&worktree.name), worktree.branch.as_ref()];
        let further = [repository.remote_url.as_ref(), repository.default_branch.as_ref()];
        let is_text = |text: &String| text.len() <= MAX_TEXT_BYTES && !text.chars().any(char::is_control);
        if !texts.into_iter().chain(further).flatten().all(is_text) {
            return Err(wrong("a name is too long or has control characters"));
        }
        if repository.name.is_empty() || worktree.name.is_empty() {
            return Err(wrong("a name is empty"));
        }
        repository.remote_url = repository.remote_url.take().map(|url| url_text::without_password(&url));
        Ok(origin)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn origin(change: impl FnOnce(&mut serde_json::Value)) -> Result<Origin> {
        let mut json = json!({
            "repository": {
                "id": "rp_000000000000", "name": "ü 🙂", "path": "/r/\u{7f}", "vcs": "git",
                "remote_url": "https://user:secret@example.org/r", "default_branch": null,
            },
            "worktree": {
                "id": "wt_000000000000", "repository_id": "rp_000000000000", "name": "w", "path": "/w", "branch": "b",
                "first_seen": 1, "last_seen": 2, "removed_at": null,
            },
        });
        change(&mut json);
        Origin::from_header(&json.to_string())
    }

    #[test]
    fn a_header_round_trips_without_secrets() {
        let origin = origin(|_| ()).unwrap();
        let header = origin.to_header().unwrap();
        assert!(header.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{header}");
        assert!(!header.contains("secret"), "{header}");
        assert_eq!(Origin::from_header(&header).unwrap(), origin);
    }

    #[test]
    fn an_invalid_header_is_refused() {
        for (pointer, value) in [
            ("/worktree/repository_id", json!("rp_111111111111")),
            ("/worktree/path", json!("w")),
            ("/repository/path", json!(format!("/{}", "x".repeat(5000)))),
            ("/worktree/name", json!("a\nb")),
            ("/worktree/name", json!("")),
            ("/worktree/id", json!("../x")),
        ] {
            let error = origin(|json| *json.pointer_mut(pointer).unwrap() = value.clone()).unwrap_err();
            assert_eq!(error.to_string(), "the header waypost-from names no worktree", "{pointer} {value}");
        }
        assert!(Origin::from_header("[]").is_err());
    }
}
