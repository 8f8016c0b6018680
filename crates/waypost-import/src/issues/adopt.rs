//! Turns a record with another tracker's names into an issue of a ledger.

use serde_json::Value;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::DEFAULT_PRIORITY;
use waypost_core::{Error, Result};

use super::Format;

/// Gives a record its id in a ledger, and replaces the names of its parent and dependencies with ids. Returns the
/// record and the names that `find` does not know.
pub fn adopt(record: &Record, id: &str, find: impl Fn(&str) -> Option<String>) -> Result<(Record, Vec<String>)> {
    let mut adopted = record.clone();
    let mut unknown = Vec::new();
    adopted.set("id", &id)?;
    if let Some(parent) = record.text("parent_id") {
        if let Some(parent) = find(&parent) {
            adopted.set("parent_id", &parent)?;
        } else {
            adopted.remove("parent_id");
            unknown.push(parent);
        }
    }
    if let Some(raw) = record.raw("dependencies") {
        let edges: Vec<Value> =
            serde_json::from_str(raw).map_err(|error| Error::internal("dependencies are no list").because(error))?;
        let mut found = Vec::new();
        for mut edge in edges {
            let on = edge["depends_on_id"].as_str().unwrap_or_default().to_owned();
            match find(&on) {
                Some(on) => {
                    edge["issue_id"] = Value::from(id);
                    edge["depends_on_id"] = Value::from(on);
                    found.push(edge);
                }
                None => unknown.push(on),
            }
        }
        if found.is_empty() {
            adopted.remove("dependencies");
        } else {
            adopted.set("dependencies", &found)?;
        }
    }
    Ok((adopted, unknown))
}

/// Fills in the fields that every issue has and the tracker left out. The tracker counts as the creator.
///
/// The result depends on the tracker's data alone, so that two clones that import it write the same line. A time that
/// nothing tells stays out.
pub fn complete(record: &mut Record, format: Format) -> Result<()> {
    let mut default = |key: &str, value: &str| match record.raw(key) {
        None => record.set(key, &value),
        Some(_) => Ok(()),
    };
    default("status", "open")?;
    default("issue_type", "task")?;
    default("created_by", format.name())?;
    if record.raw("priority").is_none() {
        record.set("priority", &DEFAULT_PRIORITY)?;
    }
    let is_closed = record.text("status").as_deref() == Some("closed");
    for (key, from, is_needed) in [("updated_at", "created_at", true), ("closed_at", "updated_at", is_closed)] {
        if is_needed
            && record.raw(key).is_none()
            && let Some(time) = record.text(from)
        {
            record.set(key, &time)?;
        }
    }
    Ok(())
}

/// Returns the short name of a GitHub issue, used where its URL is unknown: `gh-12`.
pub fn short_name(name: &str) -> Option<String> {
    let (address, number) = name.rsplit_once("/issues/")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (address.starts_with("http") && is_number).then(|| format!("gh-{number}"))
}

/// Adds the project to the names in a record: `backlog:task-1` becomes `backlog:PROJECT#task-1`.
pub fn qualify(record: &Record, project: &str) -> Result<Record> {
    let with_project = |name: &str| match name.split_once(':') {
        Some((format, rest)) => format!("{format}:{project}#{rest}"),
        None => name.to_owned(),
    };
    let name = with_project(&record.text("id").unwrap_or_default());
    let (mut qualified, _) = adopt(record, &name, |other| Some(with_project(other)))?;
    qualified.set("external_ref", &name)?;
    Ok(qualified)
}

/// Returns a name without its project; none if it has no project.
pub fn plain_name(name: &str) -> Option<String> {
    let (format, rest) = name.split_once(':')?;
    let is_qualified = Format::parse(format).is_ok_and(Format::has_project_names);
    let (_, plain) = rest.split_once('#').filter(|_| is_qualified)?;
    Some(format!("{format}:{plain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_ids_and_unknown_names_are_returned() {
        let record = Record::parse(
            r#"{"id":"t:1","title":"x","status":"closed","external_ref":"t:1","dependencies":[{"issue_id":"t:1","depends_on_id":"t:2","type":"blocks"},{"issue_id":"t:1","depends_on_id":"t:3","type":"blocks"}],"parent_id":"t:4"}"#,
        )
        .unwrap();
        let find = |name: &str| (name == "t:2").then(|| "way-2".to_owned());
        let (mut adopted, unknown) = adopt(&record, "way-1", find).unwrap();
        assert_eq!(unknown, ["t:4", "t:3"]);
        adopted.set("created_at", &"2026-01-01T00:00:00.000Z").unwrap();
        complete(&mut adopted, Format::Backlog).unwrap();
        assert_eq!(
            adopted.to_line(),
            concat!(
                r#"{"id":"way-1","title":"x","status":"closed","priority":2,"issue_type":"task","created_at":"2026-01-01T00:00:00.000Z","created_by":"backlog","#,
                r#""updated_at":"2026-01-01T00:00:00.000Z","closed_at":"2026-01-01T00:00:00.000Z","external_ref":"t:1","#,
                r#""dependencies":[{"issue_id":"way-1","depends_on_id":"way-2","type":"blocks"}]}"#
            )
        );
        assert_eq!(adopt(&record, "way-1", |_| None).unwrap().0.raw("dependencies"), None);
        let mut timeless = record.clone();
        complete(&mut timeless, Format::Taskmaster).unwrap();
        for key in ["created_at", "updated_at", "closed_at"] {
            assert_eq!(timeless.raw(key), None, "an unknown time stays out: two clones import at different times");
        }
    }

    #[test]
    fn the_short_name_of_an_issue_url_is_its_number() {
        assert_eq!(short_name("https://github.com/o/r/issues/12").as_deref(), Some("gh-12"));
        for other in ["gh-12", "https://github.com/o/r/issues/", "https://github.com/o/r/pull/12", "x/issues/1"] {
            assert_eq!(short_name(other), None, "{other}");
        }
    }

    #[test]
    fn qualify_adds_the_project_to_every_name() {
        let record = Record::parse(
            r#"{"id":"backlog:task-1","title":"x","external_ref":"backlog:task-1","dependencies":[{"issue_id":"backlog:task-1","depends_on_id":"backlog:task-2","type":"blocks"}],"parent_id":"backlog:task-3"}"#,
        );
        let line = qualify(&record.unwrap(), "example.org/p").unwrap().to_line();
        assert_eq!(line.matches("backlog:example.org/p#task-1").count(), 3, "{line}");
        assert!(
            line.contains("backlog:example.org/p#task-2") && line.contains("backlog:example.org/p#task-3"),
            "{line}"
        );
        assert_eq!(plain_name("backlog:example.org/p#task-1").as_deref(), Some("backlog:task-1"));
        for other in ["backlog:task-1", "https://x/#a", "taskwarrior:a#b", "gh-1"] {
            assert_eq!(plain_name(other), None, "{other}");
        }
    }
}
