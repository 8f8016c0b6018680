//! The typed view of a record that is an issue, read leniently from any dialect.
//!
//! Reading never fails and never changes the record: a value of the wrong type counts as missing and is reported as a
//! [`Problem`]. Writes go through [`Record`](super::record::Record), so values that could not be read are kept.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::record::{Key, Raw};
use super::vocabulary::{DEFAULT_PRIORITY, DependencyKind};
use crate::time::Timestamp;
use crate::{Error, Result};

/// The end of the year 9999.
const FAR_FUTURE: Timestamp = Timestamp::from_millis(253_402_300_799_000);

/// A longer title is reported as a problem.
pub const MAX_TITLE_CHARS: usize = 500;

/// One issue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Issue {
    /// The id, the same in all clones.
    pub id: String,
    /// The title, one line.
    pub title: String,
    /// The problem or the goal.
    pub description: String,
    /// The planned solution.
    pub design: String,
    /// The conditions for closing it.
    pub acceptance_criteria: String,
    /// Notes taken while working on it.
    pub notes: String,
    /// The status, as written; `open` by default.
    pub status: String,
    /// 0 (highest) to 4.
    pub priority: u8,
    /// `bug`, `feature`, `task`, `epic`, `chore` or any other word; `task` by default.
    pub issue_type: String,
    /// The person or agent who works on it.
    pub assignee: Option<String>,
    /// The person or agent who is responsible for it.
    pub owner: Option<String>,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// The author who created it.
    pub created_by: Option<String>,
    /// Time of the last change.
    pub updated_at: Option<Timestamp>,
    /// Time of closing.
    pub closed_at: Option<Timestamp>,
    /// Reason for closing.
    pub close_reason: Option<String>,
    /// Due time.
    pub due_at: Option<Timestamp>,
    /// The time until which it is deferred.
    pub defer_until: Option<Timestamp>,
    /// Estimated effort.
    pub estimated_minutes: Option<i64>,
    /// The id in another tracker.
    pub external_ref: Option<String>,
    /// The labels, as written.
    pub labels: Vec<String>,
    /// The issues it depends on.
    pub dependencies: Vec<Dependency>,
    /// The comments.
    pub comments: Vec<Comment>,
    /// The parent issue.
    pub parent_id: Option<String>,
    /// `local`, `proposed` or `canonical`; `canonical` by default.
    pub visibility: Option<String>,
    /// Whether another tool pinned it.
    pub pinned: bool,
    /// Whether another tool marked it as temporary.
    pub ephemeral: bool,
    /// Whether another tool copies it for each use.
    pub is_template: bool,
}

/// The audience of an issue. Of several copies of an issue, the one with the widest audience counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Only the user who created it.
    Local,
    /// Proposed to the project, not accepted yet.
    Proposed,
    /// All users of the project.
    Canonical,
}

impl Visibility {
    /// Returns the value of the field `visibility`; canonical issues have none.
    pub fn as_field(self) -> Option<&'static str> {
        match self {
            Visibility::Local => Some("local"),
            Visibility::Proposed => Some("proposed"),
            Visibility::Canonical => None,
        }
    }
}

/// A dependency on another issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The other issue.
    pub depends_on_id: String,
    /// The kind of dependency; none if the word is unknown.
    pub kind: Option<DependencyKind>,
    /// The word for the kind, as written.
    pub word: String,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Its id as text; files have numbers and strings.
    pub id: String,
    /// The author.
    pub author: String,
    /// The text.
    pub text: String,
    /// Creation time.
    pub created_at: Option<Timestamp>,
}

/// A wrong or odd value in a record. The record keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

/// Types of records with which other tools coordinate agents. They are in a ledger, but no one works on them.
pub const NOT_WORK: &[&str] =
    &["agent", "convoy", "event", "gate", "merge-request", "message", "molecule", "rig", "role", "slot"];

/// The word for an issue that another tool will delete.
pub const EPHEMERAL: &str = "ephemeral";
/// The word for an issue from which another tool makes others.
pub const TEMPLATE: &str = "template";

impl Issue {
    /// Returns the word for a record that is not work: its type, `ephemeral` or `template`.
    pub fn not_work(&self) -> Option<&str> {
        match self.issue_type.as_str() {
            kind if NOT_WORK.contains(&kind) => Some(kind),
            _ if self.ephemeral => Some(EPHEMERAL),
            _ if self.is_template => Some(TEMPLATE),
            _ => None,
        }
    }

    /// Reads an issue from a record. None if the record is not an issue.
    pub fn read<R: Raw>(record: &R) -> Option<(Issue, Vec<Problem>)> {
        if record.raw("_type").is_some() && record.text("_type").as_deref() != Some("issue") {
            return None;
        }
        let id = record.text("id").filter(|id| !id.is_empty())?;
        let mut reader = Reader { record, problems: Vec::new() };
        let mut issue = Issue {
            title: reader.text("title").unwrap_or_default(),
            description: reader.text("description").unwrap_or_default(),
            design: reader.text("design").unwrap_or_default(),
            acceptance_criteria: reader.text("acceptance_criteria").unwrap_or_default(),
            notes: reader.text("notes").unwrap_or_default(),
            status: reader.status(),
            priority: reader.priority(),
            issue_type: reader.text("issue_type").unwrap_or_else(|| "task".to_owned()),
            assignee: reader.text("assignee"),
            owner: reader.text("owner"),
            created_at: reader.time("created_at"),
            created_by: reader.text("created_by"),
            updated_at: reader.time("updated_at"),
            closed_at: reader.time("closed_at"),
            close_reason: reader.text("close_reason"),
            due_at: reader.time("due_at"),
            defer_until: reader.defer_until(),
            estimated_minutes: reader.value("estimated_minutes", "a number"),
            external_ref: reader.text("external_ref"),
            labels: reader.items("labels", "a list of strings"),
            dependencies: reader.dependencies(),
            comments: reader.comments(),
            parent_id: reader.text("parent_id"),
            visibility: reader.text("visibility"),
            pinned: reader.flag("pinned"),
            ephemeral: reader.flag("ephemeral") || reader.flag("wisp"),
            is_template: reader.flag("is_template"),
            id,
        };
        if issue.parent_id.is_none() {
            let parent = issue.dependencies.iter().find(|edge| edge.kind == Some(DependencyKind::ParentChild));
            issue.parent_id = parent.map(|edge| edge.depends_on_id.clone());
        }
        let length = issue.title.chars().count();
        if length > MAX_TITLE_CHARS {
            reader
                .problems
                .push(Problem(format!("the title has {length} characters; the maximum is {MAX_TITLE_CHARS}")));
        }
        Some((issue, reader.problems))
    }

    /// Returns the ids of the issues that block this one.
    pub fn blockers(&self) -> impl Iterator<Item = &str> {
        let blocking = |edge: &&Dependency| edge.kind == Some(DependencyKind::Blocks);
        self.dependencies.iter().filter(blocking).map(|edge| edge.depends_on_id.as_str())
    }

    /// Returns the audience. An unknown or missing word means canonical.
    pub fn visibility(&self) -> Visibility {
        match self.visibility.as_deref() {
            Some("local") => Visibility::Local,
            Some("proposed") => Visibility::Proposed,
            _ => Visibility::Canonical,
        }
    }

    /// Tells whether it has a label.
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.iter().any(|known| known == label)
    }
}

struct Reader<'a, R> {
    record: &'a R,
    problems: Vec<Problem>,
}

impl<R: Raw> Reader<'_, R> {
    /// A value of a type; null counts as missing.
    fn value<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Option<T> {
        let raw = self.record.raw(key).filter(|raw| *raw != "null")?;
        let value = serde_json::from_str(raw).ok();
        if value.is_none() {
            self.problems.push(Problem(format!("{key} is not {expected}")));
        }
        value
    }

    /// A string. An empty one counts as missing, because some tools write all their columns.
    fn text(&mut self, key: &str) -> Option<String> {
        self.value::<String>(key, "a string").filter(|text| !text.is_empty())
    }

    /// The status; `open` by default. A value that is not a string becomes an unknown status, so the issue is not
    /// ready.
    fn status(&mut self) -> String {
        match self.record.raw("status").filter(|raw| *raw != "null") {
            None => "open".to_owned(),
            Some(raw) => match self.text("status") {
                Some(status) => status,
                None if raw == "\"\"" => "open".to_owned(),
                None => raw.to_owned(),
            },
        }
    }

    fn time(&mut self, key: &str) -> Option<Timestamp> {
        let text = self.text(key)?;
        let moment = parse_time(&text);
        if moment.is_none() {
            self.problems.push(Problem(format!("{key} is not a time")));
        }
        moment
    }

    /// The time until which it is deferred. With an unreadable value it stays deferred until the value is corrected.
    fn defer_until(&mut self) -> Option<Timestamp> {
        let is_set = self.record.raw("defer_until").is_some_and(|raw| raw != "null" && raw != "\"\"");
        self.time("defer_until").or(is_set.then_some(FAR_FUTURE))
    }

    /// The items of a list that have the right type. Each other item is reported as a problem.
    fn items<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Vec<T> {
        let items: Vec<&RawValue> = match self.record.raw(key).filter(|raw| *raw != "null").map(serde_json::from_str) {
            None => return Vec::new(),
            Some(Ok(items)) => items,
            Some(Err(_)) => {
                self.problems.push(Problem(format!("{key} is not {expected}")));
                return Vec::new();
            }
        };
        let mut read = Vec::new();
        for (number, item) in items.iter().enumerate() {
            match serde_json::from_str(item.get()) {
                Ok(item) => read.push(item),
                Err(_) => self.problems.push(Problem(format!("item {} of {key} cannot be read", number + 1))),
            }
        }
        read
    }

    fn priority(&mut self) -> u8 {
        let Some(priority) = self.value::<i64>("priority", "a number") else { return DEFAULT_PRIORITY };
        let nearest = priority.clamp(0, 4);
        if nearest != priority {
            self.problems.push(Problem(format!("priority is {priority}, not 0 to 4")));
        }
        u8::try_from(nearest).unwrap_or(DEFAULT_PRIORITY)
    }

    /// A boolean, or 0 or 1.
    fn flag(&mut self, key: &str) -> bool {
        match self.value::<Value>(key, "a boolean") {
            Some(Value::Bool(flag)) => flag,
            Some(Value::Number(number)) => number.as_i64() == Some(1),
            _ => false,
        }
    }

    fn dependencies(&mut self) -> Vec<Dependency> {
        let mut edges = Vec::new();
        for edge in self.items::<Edge>("dependencies", "a list of objects") {
            let Some(depends_on_id) = edge.depends_on_id.0 else {
                self.problems.push(Problem("a dependency has no depends_on_id".to_owned()));
                continue;
            };
            let word = edge.word.0.unwrap_or_else(|| DependencyKind::Blocks.as_str().to_owned());
            let kind = DependencyKind::read(&word);
            if kind.is_none() {
                self.problems.push(Problem(format!("the dependency on {depends_on_id} has the unknown kind {word}")));
            }
            edges.push(Dependency { depends_on_id, kind, word });
        }
        edges
    }

    fn comments(&mut self) -> Vec<Comment> {
        let comment = |comment: serde_json::Map<String, Value>| {
            let text = |key: &str| comment.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let id = match comment.get("id") {
                Some(Value::String(id)) => id.clone(),
                Some(id) => id.to_string(),
                None => String::new(),
            };
            Comment { id, author: text("author"), text: text("text"), created_at: parse_time(&text("created_at")) }
        };
        self.items("comments", "a list of objects").into_iter().map(comment).collect()
    }
}

/// A dependency as written in a file.
#[derive(Default)]
struct Edge {
    depends_on_id: Text,
    word: Text,
}

impl<'de> Deserialize<'de> for Edge {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Edge;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Edge, A::Error> {
                let mut edge = Edge::default();
                while let Some(Key(key)) = map.next_key()? {
                    match &*key {
                        "depends_on_id" => edge.depends_on_id = map.next_value()?,
                        "type" => edge.word = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(edge)
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A string; none for any other value.
#[derive(Default)]
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Ok(Text(serde_json::from_str(raw.get()).ok()))
    }
}

/// Parses a timestamp in any style found in ledgers: with an offset, without one (then UTC), or a date alone.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let utc = |moment: jiff::civil::DateTime| jiff::tz::TimeZone::UTC.to_timestamp(moment).ok();
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| text.parse().ok().and_then(utc))?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

/// Parses a time, a day or an offset into the future; an empty text is None.
pub fn parse_time_ahead(text: &str, now: Timestamp) -> Result<Option<Timestamp>> {
    if text.is_empty() {
        return Ok(None);
    }
    let ahead = text.strip_prefix('+').or_else(|| text.strip_prefix("in ")).unwrap_or(text);
    let found = parse_offset(ahead).and_then(|millis| offset(now, millis)).or_else(|| parse_named_day(text, now, true));
    found.or_else(|| parse_time(text)).map(Some).ok_or_else(|| {
        Error::invalid(format!("{text:?} is not a time"))
            .hint("use 2026-12-01, 2026-12-01T09:00:00Z, tomorrow, friday, or an offset from now: 14d, 36h, 2w")
    })
}

/// Parses a time, a day or an age; with a plus, an offset into the future.
pub fn parse_time_ago(text: &str, now: Timestamp) -> Result<Timestamp> {
    let (sign, age) = match text.strip_prefix('+') {
        Some(ahead) => (1, ahead),
        None => (-1, text.strip_prefix('-').or_else(|| text.strip_suffix(" ago")).unwrap_or(text)),
    };
    let found =
        parse_offset(age).and_then(|millis| offset(now, sign * millis)).or_else(|| parse_named_day(text, now, false));
    found.or_else(|| parse_time(text)).ok_or_else(|| {
        Error::invalid(format!("{text:?} is not a time"))
            .hint("use 2026-12-01, 2026-12-01T09:00:00Z, or an age: 14d, 36h, 2w")
    })
}

/// Parses an offset such as `14d` or `2 weeks` to milliseconds.
fn parse_offset(text: &str) -> Option<i64> {
    const UNITS: &[(&[&str], i64)] = &[
        (&["s", "sec", "secs", "second", "seconds"], 1),
        (&["m", "min", "mins", "minute", "minutes"], 60),
        (&["h", "hour", "hours"], 3_600),
        (&["d", "day", "days"], 86_400),
        (&["w", "week", "weeks"], 7 * 86_400),
    ];
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
    let (_, seconds) = UNITS.iter().find(|(names, _)| names.contains(&unit.trim_start()))?;
    number.parse::<i64>().ok()?.checked_mul(*seconds)?.checked_mul(1_000)
}

/// Parses yesterday, today, tomorrow or a day of the week to the start of that day in UTC. A day of the week is the next one
/// ahead, or the last one before today.
fn parse_named_day(text: &str, now: Timestamp, is_ahead: bool) -> Option<Timestamp> {
    const DAY: i64 = 86_400_000;
    const WEEK: [&str; 7] = ["thursday", "friday", "saturday", "sunday", "monday", "tuesday", "wednesday"];
    let today = now.as_millis().div_euclid(DAY);
    let text = text.trim().to_lowercase();
    let days = match text.as_str() {
        "yesterday" => -1,
        "today" => 0,
        "tomorrow" => 1,
        name => {
            let name = name.strip_prefix(if is_ahead { "next " } else { "last " }).unwrap_or(name);
            let is_named = |day: &str| day == name || (name.len() == 3 && day.starts_with(name));
            // Day 0 was a Thursday.
            let day = i64::try_from(WEEK.iter().position(|day| is_named(day))?).ok()?;
            let ahead = (day - today).rem_euclid(7);
            match (is_ahead, ahead) {
                (true, 0) => 7,
                (true, ahead) => ahead,
                (false, ahead) => ahead - 7,
            }
        }
    };
    Some(Timestamp::from_millis((today + days) * DAY))
}

/// Returns the moment at an offset. None if it is beyond the years that can be written.
fn offset(now: Timestamp, millis: i64) -> Option<Timestamp> {
    let moment = jiff::Timestamp::from_millisecond(now.as_millis().checked_add(millis)?).ok()?;
    Some(Timestamp::from_millis(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::record::Record;

    fn read(line: &str) -> (Issue, Vec<String>) {
        let (issue, problems) = Issue::read(&Record::parse(line).unwrap()).unwrap();
        (issue, problems.into_iter().map(|problem| problem.0).collect())
    }

    #[test]
    fn missing_fields_have_defaults() {
        let (issue, problems) = read(r#"{"id":"a-1"}"#);
        assert_eq!((issue.status.as_str(), issue.priority, issue.issue_type.as_str()), ("open", 2, "task"));
        assert_eq!(problems, Vec::<String>::new());
    }

    #[test]
    fn dialects_of_other_tools_are_read() {
        let (issue, problems) = read(
            r#"{"_type":"issue","id":"a-1","assignee":null,"owner":"","pinned":1,"ephemeral":false,"priority":0,
               "created_at":"2025-12-25T00:59:03.667211-08:00","updated_at":"2026-02-28T05:33:08Z","metadata":"{}",
               "comments":[{"id":7,"author":"x","text":"t","created_at":"2026-01-01T00:00:00.123456789Z"},{"id":"u","text":""}],
               "dependencies":[{"issue_id":"a-1","depends_on_id":"a-0","type":"child-of"},{"depends_on_id":"b","type":"blocked-by"}]}"#,
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((issue.assignee, issue.owner, issue.pinned, issue.ephemeral), (None, None, true, false));
        assert_eq!(issue.created_at.unwrap().to_string(), "2025-12-25T08:59:03.667Z");
        assert_eq!((issue.comments[0].id.as_str(), issue.comments[1].id.as_str()), ("7", "u"));
        assert_eq!(issue.parent_id.as_deref(), Some("a-0"));
        assert_eq!(issue.dependencies[1].kind, Some(DependencyKind::Blocks));
    }

    #[test]
    fn wrong_values_are_reported_and_do_not_stop_reading() {
        let (issue, problems) = read(
            r#"{"id":"a-1","title":5,"priority":9,"created_at":"yesterday","labels":"x","dependencies":[{},{"depends_on_id":"b","type":"eats"}]}"#,
        );
        assert_eq!((issue.title.as_str(), issue.priority, issue.created_at), ("", 4, None));
        assert_eq!(
            problems,
            [
                "title is not a string",
                "priority is 9, not 0 to 4",
                "created_at is not a time",
                "labels is not a list of strings",
                "a dependency has no depends_on_id",
                "the dependency on b has the unknown kind eats",
            ]
        );
        let (_, problems) = read(&format!(r#"{{"id":"a-1","title":"{}"}}"#, "x".repeat(501)));
        assert_eq!(problems, ["the title has 501 characters; the maximum is 500"]);
    }

    #[test]
    fn an_unreadable_item_does_not_hide_the_others_and_an_unreadable_issue_is_not_ready() {
        let (issue, problems) = read(
            r#"{"id":"a","status":5,"defer_until":"some day","labels":["x",1,"y"],"dependencies":[null,{"depends_on_id":"b"}]}"#,
        );
        assert_eq!((issue.status.as_str(), issue.labels), ("5", vec!["x".to_owned(), "y".to_owned()]));
        assert_eq!(issue.dependencies.len(), 1);
        assert_eq!(issue.defer_until, Some(FAR_FUTURE));
        assert_eq!(problems.len(), 4, "{problems:?}");
        let (issue, _) = read(r#"{"id":"a","defer_until":"2026-01-02","due_at":"2026-01-02 03:04:05"}"#);
        assert_eq!(issue.defer_until.unwrap().to_string(), "2026-01-02T00:00:00.000Z");
        assert_eq!(issue.due_at.unwrap().to_string(), "2026-01-02T03:04:05.000Z");
    }

    #[test]
    fn an_offset_beyond_the_years_that_can_be_written_is_refused() {
        let now = Timestamp::from_millis(1_767_225_600_000);
        for text in ["99999999d", "+99999999d", "9223372036854775w"] {
            parse_time_ahead(text, now).unwrap_err();
            parse_time_ago(text, now).unwrap_err();
        }
        assert_eq!(parse_time_ahead("100d", now).unwrap().unwrap().to_string(), "2026-04-11T00:00:00.000Z");
    }

    #[test]
    fn a_day_of_the_week_is_the_next_one_or_the_last_one() {
        // A Sunday, in the morning.
        let now = parse_time("2026-11-15T08:30:00Z").unwrap();
        for (text, day) in [
            ("friday", "2026-11-20"),
            ("Fri", "2026-11-20"),
            ("next monday", "2026-11-16"),
            ("sunday", "2026-11-22"),
            ("tomorrow", "2026-11-16"),
        ] {
            assert_eq!(parse_time_ahead(text, now).unwrap(), parse_time(day), "{text}");
        }
        for (text, day) in [("friday", "2026-11-13"), ("last sunday", "2026-11-08"), ("sat", "2026-11-14")] {
            assert_eq!(Some(parse_time_ago(text, now).unwrap()), parse_time(day), "{text}");
        }
        for text in ["f", "fr", "frida", "someday", "next", ""] {
            parse_time_ago(text, now).unwrap_err();
        }
    }

    #[test]
    fn records_of_other_kinds_are_not_issues() {
        for other in [r#"{"_type":"memory","id":"x"}"#, r#"{"_schema":1}"#, r#"{"id":""}"#, r#"{"id":5}"#, "{}"] {
            assert!(Issue::read(&Record::parse(other).unwrap()).is_none(), "{other}");
        }
    }
}
