//! Fits an issue into the budget of a model: a ledger may hold megabytes about one issue.

use serde_json::Value;
use serde_json::value::RawValue;
use waypost_core::ledger::record::Record;
use waypost_core::words::count;
use waypost_core::work::context::shorten;
use waypost_core::{Error, Result};

/// Bytes that count as one token.
const BYTES_PER_TOKEN: usize = 4;
/// A text takes at most the budget divided by this.
const MAX_SHARE_DIVISOR: usize = 4;
/// Fields that are kept whole: they are short, or tell what the issue is.
const WHOLE: &[&str] = &["id", "status", "priority", "issue_type", "comments"];

/// Shortens long fields of an issue, and leaves out comments, from those after the first `after` on, for which there is no
/// room. With `after` only comments have room. Returns what was left out, and how many comments come before the next page.
pub(super) fn fit(record: &mut Record, budget: u32, after: usize) -> Result<(Vec<String>, Option<usize>)> {
    let room = (budget as usize).saturating_mul(BYTES_PER_TOKEN);
    let (share, mut left_out) = (room / MAX_SHARE_DIVISOR, Vec::new());
    let fields: Vec<(String, String)> = record.fields().map(|(key, raw)| (key.to_owned(), raw.to_owned())).collect();
    for (key, raw) in fields.iter().filter(|(key, _)| !WHOLE.contains(&key.as_str())) {
        let share = if after > 0 && key != "title" { 0 } else { share };
        if raw.len() <= share.max(64) {
            continue;
        }
        match record.text(key) {
            Some(text) if share > 0 => record.set(key, &shorten(&text, share))?,
            _ => drop(record.remove(key)),
        }
        if after == 0 {
            left_out.push(format!("{key} has {}", count(raw.len(), "byte")));
        }
    }
    let Some(raw) = record.raw("comments").filter(|raw| *raw != "null").map(str::to_owned) else {
        return Ok((left_out, None));
    };
    let all: Vec<Box<RawValue>> =
        serde_json::from_str(&raw).map_err(|error| Error::damaged("comments is not a list").because(error))?;
    record.remove("comments");
    let mut left = room.saturating_sub(record.to_line().len());
    let mut shown: Vec<Value> = Vec::new();
    for comment in all.iter().skip(after) {
        let mut comment: Value = serde_json::from_str(comment.get()).unwrap_or_default();
        if let Some(text) = comment["text"].as_str().filter(|text| text.len() > share) {
            comment["text"] = Value::from(shorten(text, share));
        }
        let size = comment.to_string().len();
        // A page has at least one, so that pages come to an end.
        if size > left && !shown.is_empty() {
            break;
        }
        left = left.saturating_sub(size);
        shown.push(comment);
    }
    let seen = after.saturating_add(shown.len());
    record.set("comments", &shown)?;
    if seen >= all.len() {
        return Ok((left_out, None));
    }
    left_out.push(format!("{} of {}", all.len() - seen, count(all.len(), "comment")));
    Ok((left_out, Some(seen)))
}
