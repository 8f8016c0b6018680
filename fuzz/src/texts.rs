//! Texts, times, ids, paths and URLs from other users, programs and machines.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use waypost_core::escape::{escape, escape_lines, needs_escape, quoted};
use waypost_core::id::{AgentId, JobId, TaskId, WorkflowId};
use waypost_core::ledger::issue::{parse_time, parse_time_ago, parse_time_ahead};
use waypost_core::ledger::issue_id;
use waypost_core::redact::{Redactor, Secrets};
use waypost_core::time::{Timestamp, parse_duration_ms};
use waypost_core::{path_text, url_text};

use crate::{parts, with_text};

/// Escaped text controls no terminal, and no line of a quoted text can pass for one of Waypost.
pub(crate) fn escaped(data: &[u8]) {
    with_text(data, |text| {
        let safe = escape(text);
        assert!(!safe.chars().any(needs_escape));
        assert_eq!(escape(&safe), safe, "escaping again changes nothing");
        let lines = escape_lines(text);
        assert!(!lines.chars().any(|char| needs_escape(char) && char != '\n' && char != '\t'));
        let shown = quoted("body", text);
        assert!(shown.starts_with("body | "));
        assert!(shown.lines().skip(1).all(|line| line.starts_with("| ") || line == "|"), "{shown:?}");
    });
}

/// No secret is in the output, wherever it is cut.
pub(crate) fn redacted(data: &[u8]) {
    let [secret, text, cuts] = parts(data);
    let Ok(secret) = std::str::from_utf8(secret) else { return };
    // A secret that overlaps the replacement, which is in brackets, cannot be told from it.
    if secret.len() < 8 || secret.contains(['[', ']']) {
        return;
    }
    let secrets = Secrets::new([secret.to_owned()]);
    let whole: Vec<u8> = [text, secret.as_bytes(), text].concat();
    let mut redactor = Redactor::new(secrets.clone());
    let mut output = Vec::new();
    let mut rest = whole.as_slice();
    for cut in cuts {
        let (part, after) = rest.split_at(rest.len().min(usize::from(*cut)));
        output.extend(redactor.push(part));
        rest = after;
    }
    output.extend(redactor.push(rest));
    output.extend(redactor.finish());
    let is_in = |output: &[u8]| output.windows(secret.len()).any(|window| window == secret.as_bytes());
    assert!(!is_in(&output), "{}", String::from_utf8_lossy(&output));
    if let Ok(whole) = std::str::from_utf8(&whole) {
        assert!(!is_in(secrets.redact(whole).as_bytes()));
    }
}

/// Times are read the same again after they are written.
pub(crate) fn time(data: &[u8]) {
    with_text(data, |text| {
        if let Some(time) = parse_time(text) {
            assert_eq!(parse_time(&time.to_string()), Some(time), "{text:?}");
        }
        let now = Timestamp::from_millis(1_767_225_600_000);
        if let Ok(Some(time)) = parse_time_ahead(text, now) {
            assert_eq!(parse_time(&time.to_string()), Some(time), "{text:?}");
        }
        if let Ok(time) = parse_time_ago(text, now) {
            let _ = time.ago(now);
        }
        if let Ok(millis) = parse_duration_ms(text) {
            let _ = now.plus(millis).minus(millis);
        }
    });
}

/// An id is its own text, and leads out of no directory.
pub(crate) fn ids(data: &[u8]) {
    with_text(data, |text| {
        let parsed = [
            text.parse::<TaskId>().map(|id| id.to_string()),
            text.parse::<AgentId>().map(|id| id.to_string()),
            text.parse::<JobId>().map(|id| id.to_string()),
            text.parse::<WorkflowId>().map(|id| id.to_string()),
        ];
        for id in parsed.into_iter().flatten() {
            assert_eq!(id, text);
            assert!(!id.contains(['/', '\0', '.']) && !id.starts_with('-') && !id.is_empty(), "{id:?}");
        }
        let mut words = text.split('\n');
        let input = words.next().unwrap_or_default();
        let known: Vec<&str> = words.collect();
        if let Ok(found) = issue_id::resolve(known.iter().copied(), input) {
            assert!(known.contains(&found));
        }
        let _ = issue_id::prefix_of(input);
        let _ = issue_id::common_prefix(known.iter().copied());
    });
}

/// The text of an absolute path is the path.
pub(crate) fn paths(data: &[u8]) {
    let bytes = [b"/", data].concat();
    let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
    let text = path_text::to_text(path);
    assert_eq!(path_text::from_text(&text).as_os_str(), path.as_os_str());
    let _ = path_text::name_of(path);
}

/// A shown URL has no password.
pub(crate) fn urls(data: &[u8]) {
    with_text(data, |text| {
        let _ = url_text::project(text);
        let shown = url_text::without_password(text);
        assert_eq!(url_text::without_password(&shown), shown, "{text:?}");
        let password: String = text.chars().filter(|char| !"@/?#&:".contains(*char)).collect();
        if password.len() < 6 || "https://user:@example.org/path postgres host".contains(&password) {
            return;
        }
        for scheme in ["https", "ssh", "postgres", "http"] {
            let url = format!("{scheme}://user:{password}@example.org/path");
            let shown = url_text::without_password(&url);
            assert!(!shown.contains(&password), "{url:?} is shown as {shown:?}");
        }
    });
}
