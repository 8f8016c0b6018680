//! Updates an issue with newer data of another tracker.

use serde_json::value::RawValue;
use waypost_core::ledger::issue::{Issue, parse_time};
use waypost_core::ledger::record::Record;
use waypost_core::{Error, Result};

use super::Format;

/// Lists that are united: no item of either side is removed.
const UNITED_LISTS: &[&str] = &["labels", "dependencies", "comments"];

/// Returns the updated issue; none if the incoming record is not newer or changes nothing.
///
/// Incoming fields replace known ones; fields that only the ledger has stay. The status `open` of another tracker does
/// not replace another status of unfinished work: that tracker does not know that an agent here works on the issue.
pub fn updated(known: &Record, incoming: &Record, format: Format) -> Result<Option<Record>> {
    let time = |record: &Record| parse_time(&record.text("updated_at")?);
    if time(incoming).is_none() || time(incoming) <= time(known) {
        return Ok(None);
    }
    let status = |record: &Record| Issue::read(record).map(|(issue, _)| issue.status).unwrap_or_default();
    let is_final = ["closed", "tombstone"].contains(&status(known).as_str());
    let keeps_status =
        !format.is_ledger() && (incoming.raw("status").is_none() || (status(incoming) == "open" && !is_final));
    let mut new = known.clone();
    for (key, raw) in incoming.fields() {
        // The first creation time and author stay.
        let is_kept = match key {
            "id" | "created_at" | "created_by" => known.raw(key).is_some(),
            "status" => keeps_status,
            _ => false,
        };
        if is_kept {
            continue;
        }
        if UNITED_LISTS.contains(&key)
            && let Some(list) = united(key, known, incoming)?
        {
            new.set(key, &list)?;
            continue;
        }
        if new.raw(key) != Some(raw) {
            new.set(key, &spelled(raw)?)?;
        }
    }
    // A reopened issue has no fields about its end.
    if !keeps_status && status(known) != status(incoming) {
        for key in ["closed_at", "close_reason", "deleted_at", "deleted_by", "delete_reason"] {
            if incoming.raw(key).is_none() {
                new.remove(key);
            }
        }
    }
    Ok((new != *known).then_some(new))
}

/// Returns the union of the lists of both records; none if one of them is not a list.
fn united(key: &str, known: &Record, incoming: &Record) -> Result<Option<Box<RawValue>>> {
    let items = |record: &Record| -> Option<Vec<String>> {
        let items: Vec<Box<RawValue>> = match record.raw(key) {
            None | Some("null") => Vec::new(),
            Some(raw) => serde_json::from_str(raw).ok()?,
        };
        Some(items.iter().map(|item| item.get().to_owned()).collect())
    };
    let (Some(mut all), Some(new)) = (items(known), items(incoming)) else { return Ok(None) };
    for item in new {
        let is_same = |other: &String| *other == item || identity(key, other) == identity(key, &item);
        if !all.iter().any(is_same) {
            all.push(item);
        }
    }
    spelled(&format!("[{}]", all.join(","))).map(Some)
}

/// Returns the identity of a list item: items with the same identity count as one.
fn identity(key: &str, item: &str) -> String {
    let record = Record::parse(item).unwrap_or_default();
    let field = |key: &str| record.raw(key).unwrap_or_default().to_owned();
    match key {
        "dependencies" => field("depends_on_id") + &field("type"),
        "comments" if record.raw("id").is_some() => field("id"),
        _ => item.to_owned(),
    }
}

fn spelled(raw: &str) -> Result<Box<RawValue>> {
    RawValue::from_string(raw.to_owned()).map_err(|error| Error::internal("a record is not JSON").because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        Record::parse(text).unwrap()
    }

    #[test]
    fn newer_fields_replace_known_ones_and_nothing_else_is_lost() {
        let known = record(
            r#"{"id":"a","title":"old","notes":"mine","status":"closed","created_at":"2025-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","closed_at":"2026-01-01T00:00:00Z","labels":["x","mine"],"dependencies":[{"depends_on_id":"b","type":"blocks","n":1.50}],"comments":[{"id":"c-1","text":"mine"},{"id":"IC_1","text":"theirs"}]}"#,
        );
        let incoming = record(
            r#"{"id":"name","title":"new","status":"open","created_at":"2020-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z","labels":["x","y"],"dependencies":[{"depends_on_id":"b","type":"blocks"},{"depends_on_id":"c","type":"blocks"}],"comments":[{"id":"IC_1","text":"theirs, again"},{"id":"IC_2","text":"more"}]}"#,
        );
        assert_eq!(
            updated(&known, &incoming, Format::Github).unwrap().unwrap().to_line(),
            concat!(
                r#"{"id":"a","title":"new","notes":"mine","status":"open","created_at":"2025-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z","#,
                r#""labels":["x","mine","y"],"dependencies":[{"depends_on_id":"b","type":"blocks","n":1.50},{"depends_on_id":"c","type":"blocks"}],"#,
                r#""comments":[{"id":"c-1","text":"mine"},{"id":"IC_1","text":"theirs"},{"id":"IC_2","text":"more"}]}"#
            )
        );
    }

    #[test]
    fn a_record_that_is_not_newer_changes_nothing() {
        let known = record(r#"{"id":"a","title":"old","updated_at":"2026-01-02T00:00:00Z"}"#);
        for incoming in [
            r#"{"id":"a","title":"new","updated_at":"2026-01-02T00:00:00.000Z"}"#,
            r#"{"id":"a","title":"new","updated_at":"2025-12-31T00:00:00Z"}"#,
            r#"{"id":"a","title":"new","updated_at":"soon"}"#,
            r#"{"id":"a","title":"new"}"#,
        ] {
            assert_eq!(updated(&known, &record(incoming), Format::Beads).unwrap(), None, "{incoming}");
        }
    }

    #[test]
    fn an_open_status_of_another_tracker_does_not_replace_in_progress() {
        let known = record(r#"{"id":"a","status":"in_progress","priority":0,"updated_at":"2026-01-01T00:00:00Z"}"#);
        let newer = |rest: &str| record(&format!("{{\"id\":\"n\",\"updated_at\":\"2026-01-02T00:00:00Z\"{rest}}}"));
        let status = |incoming: &Record, format| {
            let updated = updated(&known, incoming, format).unwrap().unwrap();
            assert_eq!(updated.raw("priority"), Some("0"));
            updated.text("status").unwrap()
        };
        assert_eq!(status(&newer(""), Format::Github), "in_progress");
        assert_eq!(status(&newer(",\"status\":\"open\""), Format::Github), "in_progress");
        assert_eq!(status(&newer(",\"status\":\"open\""), Format::Beads), "open");
        assert_eq!(status(&newer(",\"status\":\"closed\""), Format::Github), "closed");
    }
}
