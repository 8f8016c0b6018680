//! One item of another tracker, before it becomes a record.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use waypost_core::ledger::record::Record;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

use super::{Imported, compact};
use crate::Note;

/// The fields of an issue that other trackers can provide.
#[derive(Debug, Default)]
pub(super) struct Item {
    /// Its name in the tracker, the same in every clone: the `external_ref` of the issue.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) design: String,
    pub(super) acceptance_criteria: String,
    pub(super) notes: String,
    /// None if the tracker does not provide it.
    pub(super) status: Option<Status>,
    pub(super) priority: Option<u8>,
    pub(super) issue_type: Option<String>,
    pub(super) assignee: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    /// When the list was created that contains it: its own time of creation, if the tracker does not provide that.
    pub(super) list_created_at: Option<Timestamp>,
    pub(super) created_by: Option<String>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) ended_at: Option<Timestamp>,
    pub(super) close_reason: Option<String>,
    pub(super) due_at: Option<Timestamp>,
    pub(super) defer_until: Option<Timestamp>,
    pub(super) labels: Vec<String>,
    pub(super) blockers: Vec<String>,
    pub(super) parent: Option<String>,
    pub(super) comments: Vec<Comment>,
    /// Fields that an issue does not have, in their spelling; kept in `metadata` under the tracker's name.
    pub(super) rest: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Comment {
    pub(super) id: String,
    pub(super) author: String,
    pub(super) text: String,
    pub(super) created_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Open,
    InProgress,
    Blocked,
    Deferred,
    Closed,
    Tombstone,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Status::Open => "open",
            Status::InProgress => "in_progress",
            Status::Blocked => "blocked",
            Status::Deferred => "deferred",
            Status::Closed => "closed",
            Status::Tombstone => "tombstone",
        }
    }
}

impl Item {
    pub(super) fn label(&mut self, label: impl Into<String>) {
        let label = label.into();
        if !label.trim().is_empty() && !self.labels.contains(&label) {
            self.labels.push(label);
        }
    }

    /// Keeps the unknown fields of an object, except empty ones.
    pub(super) fn keep_rest(&mut self, record: &Record, known: &[&str]) {
        for (key, value) in record.fields() {
            if !known.contains(&key) && !["null", "\"\"", "[]", "{}"].contains(&value) {
                self.rest.push((key.to_owned(), compact(value)));
            }
        }
    }

    fn into_record(self, tracker: &str) -> Result<Record> {
        let mut record = Record::default();
        record.set("id", &self.name)?;
        record.set("title", &self.title)?;
        for (key, text) in [
            ("description", &self.description),
            ("design", &self.design),
            ("acceptance_criteria", &self.acceptance_criteria),
            ("notes", &self.notes),
        ] {
            if !text.trim().is_empty() {
                record.set(key, &text.trim_end())?;
            }
        }
        if let Some(status) = self.status {
            record.set("status", &status.as_str())?;
        }
        if let Some(priority) = self.priority {
            record.set("priority", &priority)?;
        }
        if let Some(issue_type) = &self.issue_type {
            record.set("issue_type", issue_type)?;
        }
        let ended_at = self.ended_at.or(self.updated_at);
        let closed_at = ended_at.filter(|_| self.status == Some(Status::Closed));
        let deleted_at = ended_at.filter(|_| self.status == Some(Status::Tombstone));
        let times = [
            ("created_at", self.created_at.or(self.list_created_at)),
            ("updated_at", self.updated_at.or(self.ended_at).or(self.created_at)),
            ("closed_at", closed_at),
            ("due_at", self.due_at),
            ("defer_until", self.defer_until),
            ("deleted_at", deleted_at),
        ];
        for (key, moment) in times {
            if let Some(moment) = moment {
                record.set(key, &moment.to_string())?;
            }
        }
        for (key, text) in
            [("assignee", &self.assignee), ("created_by", &self.created_by), ("close_reason", &self.close_reason)]
        {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                record.set(key, &text)?;
            }
        }
        record.set("external_ref", &self.name)?;
        if !self.labels.is_empty() {
            record.set("labels", &self.labels)?;
        }
        if !self.blockers.is_empty() {
            let edge = |on: &String| json!({ "issue_id": self.name, "depends_on_id": on, "type": "blocks" });
            record.set("dependencies", &self.blockers.iter().map(edge).collect::<Vec<Value>>())?;
        }
        if !self.comments.is_empty() {
            let comment = |comment: &Comment| {
                let mut shown = json!({ "id": comment.id, "author": comment.author, "text": comment.text });
                if let Some(moment) = comment.created_at {
                    shown["created_at"] = Value::from(moment.to_string());
                }
                shown
            };
            record.set("comments", &self.comments.iter().map(comment).collect::<Vec<Value>>())?;
        }
        if let Some(parent) = &self.parent {
            record.set("parent_id", parent)?;
        }
        if !self.rest.is_empty() {
            let fields: Vec<String> =
                self.rest.iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect();
            let metadata = format!("{{{}:{{{}}}}}", Value::from(tracker), fields.join(","));
            let metadata = RawValue::from_string(metadata)
                .map_err(|error| Error::internal("a kept field is not JSON").because(error))?;
            record.set("metadata", &metadata)?;
        }
        Ok(record)
    }
}

/// Turns items into records. Duplicate names and dependencies that close a cycle are reported and left out.
pub(super) fn finish(tracker: &str, items: Vec<Item>, mut notes: Vec<Note>) -> Result<Imported> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Item> = Vec::new();
    for item in items {
        if places.contains_key(&item.name) {
            notes.push(Note::new(&item.name, "duplicate id: only the first item is imported"));
            continue;
        }
        places.insert(item.name.clone(), kept.len());
        kept.push(item);
    }
    let place = |name: &String| places.get(name).copied();
    let blockers: Vec<Vec<usize>> = kept.iter().map(|item| item.blockers.iter().filter_map(place).collect()).collect();
    for (from, to) in cycle_edges(&blockers) {
        let to = kept[to].name.clone();
        notes.push(Note::new(&kept[from].name, format!("its dependency on {to} closes a cycle")));
        kept[from].blockers.retain(|blocker| *blocker != to);
    }
    let parents: Vec<Vec<usize>> = kept.iter().map(|item| item.parent.iter().filter_map(place).collect()).collect();
    for (from, to) in cycle_edges(&parents) {
        notes.push(Note::new(&kept[from].name, format!("its parent {} closes a cycle", kept[to].name)));
        kept[from].parent = None;
    }
    let records = kept.into_iter().map(|item| item.into_record(tracker)).collect::<Result<_>>()?;
    Ok(Imported { records, notes })
}

/// Returns edges whose removal makes a graph acyclic.
fn cycle_edges(edges: &[Vec<usize>]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        New,
        OnPath,
        Done,
    }
    let mut visits = vec![Visit::New; edges.len()];
    let mut found = Vec::new();
    for start in 0..edges.len() {
        if visits[start] != Visit::New {
            continue;
        }
        // No recursion: a long chain would overflow the stack.
        let mut path = vec![(start, 0)];
        visits[start] = Visit::OnPath;
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let Some(to) = edges[node].get(*next).copied() else {
                visits[node] = Visit::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match visits[to] {
                Visit::New => {
                    visits[to] = Visit::OnPath;
                    path.push((to, 0));
                }
                Visit::OnPath => found.push((node, to)),
                Visit::Done => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_edge_of_each_cycle_is_removed() {
        assert_eq!(cycle_edges(&[vec![1], vec![2], vec![0]]), [(2, 0)]);
        assert_eq!(cycle_edges(&[vec![0]]), [(0, 0)]);
        assert_eq!(cycle_edges(&[vec![1, 2], vec![2], vec![]]), []);
        let long: Vec<Vec<usize>> = (0..200_000).map(|number| vec![(number + 1) % 200_000]).collect();
        assert_eq!(cycle_edges(&long), [(199_999, 0)]);
    }
}
