//! The rights of agents on issues: what they may change, and which ids they may lease.
//!
//! The application checks a change where its ledger takes it. A change that waits in the store is checked here when it is
//! stored, with the rights of the caller, and by the application again when it is delivered.

use serde_json::Value;

use super::{agents, lease};
use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::escape;
use crate::id::PREFIXES;

/// Maximum length of the id of an issue.
const MAX_ID_BYTES: usize = 200;

/// Refuses an id that cannot be that of an issue. Leases on tasks and issues share one table, so the id of a task, or of
/// another record of the store, never stands for an issue.
pub(crate) fn check_id(id: &str) -> Result<()> {
    let is_record = PREFIXES.iter().any(|(prefix, _)| {
        let rest = id.strip_prefix(prefix).unwrap_or_default();
        rest.len() == crate::id::LENGTH && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    });
    let is_wrong = id.is_empty() || id.len() > MAX_ID_BYTES || id.chars().any(|char| char.is_control() || char == ' ');
    if !is_record && !is_wrong {
        return Ok(());
    }
    // The text may be of any length here.
    let shown: String = id.chars().take(60).collect();
    let error = Error::invalid(format!("\"{}\" is not the id of an issue", escape::word(&shown)));
    Err(if is_record { error.hint("a task is claimed with way task claim") } else { error })
}

/// Refuses changes of issues that the caller may not make: a person may make all.
pub(crate) fn check_changes(cx: &mut OpContext<'_>, changes: &Value) -> Result<()> {
    let Value::Array(changes) = changes else { return Err(Error::invalid("deferred changes are a list")) };
    if cx.caller.authority == Authority::User {
        return Ok(());
    }
    let agent = agents::find_or_register_caller(cx)?;
    for change in changes {
        let (verb, fields) = match change.as_object().map(|change| (change.len(), change.iter().next())) {
            Some((1, Some((verb, fields)))) => (verb.as_str(), fields),
            _ => return Err(Error::invalid("a deferred change is an object with one verb")),
        };
        let issue = fields.get(0).and_then(Value::as_str).or(fields.as_str());
        match verb {
            "add" | "claim" | "comment" => {}
            "release" if fields.get(1) == Some(&Value::Bool(true)) => return Err(forced()),
            "close" | "reopen" | "release" | "update" | "depend" | "undepend" => {
                let issue = issue.ok_or_else(|| Error::invalid(format!("{verb} names no issue")))?;
                check_id(issue)?;
                lease::require_issue(cx, issue, &agent)?;
            }
            "forced" => return Err(forced()),
            // A verb that is not listed here is for people.
            _ => return Err(Error::refused(format!("agents may not {} issues", verb.escape_debug()))),
        }
    }
    Ok(())
}

fn forced() -> Error {
    Error::refused("agents may not use force: another agent may hold the issue")
}
