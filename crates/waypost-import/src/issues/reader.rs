//! Lenient access to the fields of other trackers' objects, and the words that trackers share.

use serde_json::value::RawValue;
use waypost_core::ledger::issue::parse_time;
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;

use crate::Note;

/// Reads the fields of an object leniently; values of the wrong type are reported.
pub(super) struct Reader<'a> {
    pub(super) record: &'a Record,
    /// The name of the object in notes.
    pub(super) item: String,
    pub(super) notes: &'a mut Vec<Note>,
}

impl Reader<'_> {
    pub(super) fn note(&mut self, problem: impl Into<String>) {
        self.notes.push(Note::new(&self.item, problem));
    }

    fn raw(&self, key: &str) -> Option<String> {
        self.record.raw(key).filter(|raw| *raw != "null").map(str::to_owned)
    }

    /// A string, or the spelling of a number; none if it is empty.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let text = text(&self.raw(key)?);
        if text.is_none() {
            self.note(format!("{key} is not a string"));
        }
        text.filter(|text| !text.trim().is_empty())
    }

    /// A string as one line.
    pub(super) fn line(&mut self, key: &str) -> Option<String> {
        self.text(key).map(|text| one_line(&text))
    }

    pub(super) fn time(&mut self, key: &str) -> Option<Timestamp> {
        let text = self.text(key)?;
        let moment = parse_time(text.trim());
        if moment.is_none() {
            self.note(format!("{key} is not a time: {text:?}"));
        }
        moment
    }

    /// The spellings of the items of a list.
    pub(super) fn list(&mut self, key: &str) -> Vec<String> {
        let Some(raw) = self.raw(key) else { return Vec::new() };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(&raw) else {
            self.note(format!("{key} is not a list"));
            return Vec::new();
        };
        items.iter().map(|item| item.get().to_owned()).collect()
    }

    /// The objects in a list.
    pub(super) fn objects(&mut self, key: &str) -> Vec<Record> {
        let mut objects = Vec::new();
        for (number, item) in self.list(key).iter().enumerate() {
            match Record::parse(item) {
                Ok(object) => objects.push(object),
                Err(_) => self.note(format!("item {} of {key} is not an object", number + 1)),
            }
        }
        objects
    }

    /// The names in a list: strings, numbers, or objects with a name under the key `inner`.
    pub(super) fn names(&mut self, key: &str, inner: &str) -> Vec<String> {
        let mut names = Vec::new();
        for (number, item) in self.list(key).iter().enumerate() {
            let name = text(item).or_else(|| text(Record::parse(item).ok()?.raw(inner)?));
            match name.map(|name| one_line(&name)) {
                Some(name) if name.is_empty() => {}
                Some(name) => names.push(name),
                None => self.note(format!("item {} of {key} has no name", number + 1)),
            }
        }
        names
    }

    /// A name: a string, or an object with a name under the key `inner`.
    pub(super) fn name(&mut self, key: &str, inner: &str) -> Option<String> {
        let raw = self.raw(key)?;
        let name = text(&raw).or_else(|| text(Record::parse(&raw).ok()?.raw(inner)?));
        if name.is_none() {
            self.note(format!("{key} has no name"));
        }
        name.map(|name| one_line(&name)).filter(|name| !name.is_empty())
    }
}

/// Returns a string, or the spelling of a number.
fn text(raw: &str) -> Option<String> {
    if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Some(raw.to_owned());
    }
    serde_json::from_str(raw).ok()
}

/// Joins a text into one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the priority for another tracker's word.
pub(super) fn priority(word: &str) -> Option<u8> {
    match word.trim().to_lowercase().as_str() {
        "h" => Some(1),
        "m" => Some(2),
        "l" => Some(3),
        other => waypost_core::ledger::vocabulary::priority(other).ok(),
    }
}

/// Returns the issue type for another tracker's word.
pub(super) fn issue_type(word: &str) -> Option<&'static str> {
    match word.trim().to_lowercase().as_str() {
        "bug" | "defect" | "type: bug" | "kind/bug" => Some("bug"),
        "feature" | "enhancement" | "feature request" | "type: feature" | "kind/feature" => Some("feature"),
        "epic" => Some("epic"),
        "chore" | "maintenance" | "type: chore" => Some("chore"),
        "task" => Some("task"),
        _ => None,
    }
}
