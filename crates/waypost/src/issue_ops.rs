//! What can be asked about issues, by name and with JSON, for the ways in that carry JSON.
//!
//! They stand beside the operations of the store, and are not in its table: issues live in ledgers. Where both are
//! concerned, as when an issue is taken to work on, an operation here does what the command of that name does.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use waypost_core::ledger::record::Record;
use waypost_core::op::Effect;
use waypost_core::{Error, Result, path_text};
use waypost_ledger::{Filter, Index, Sort, Summary};

use crate::claims;
use crate::history;
use crate::ledger::{Change, Ledger};
use crate::merging::ensure_driver;
use crate::place::Place;
use crate::prune::prune_large;

/// One row of the table of operations on issues.
pub struct Entry {
    /// Its name on every surface.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Whether it writes.
    pub effect: Effect,
    /// Runs it at a place, with its arguments and its answer as JSON.
    ///
    /// Every argument may come with `repo`, which narrows it to the ledger of one repository. An answer is an object. If
    /// something was odd but not wrong, it has `warnings`.
    pub run: fn(&Place, Value) -> Result<Value>,
}

const fn read(name: &'static str, summary: &'static str, run: fn(&Place, Value) -> Result<Value>) -> Entry {
    Entry { name, summary, effect: Effect::Read, run }
}

const fn write(name: &'static str, summary: &'static str, run: fn(&Place, Value) -> Result<Value>) -> Entry {
    Entry { name, summary, effect: Effect::Write, run }
}

/// All operations on issues.
pub static TABLE: &[Entry] = &[
    write("add_issue", "Write down an issue", |place, arguments| change(place, "add", arguments)),
    write("close_issue", "Close an issue", |place, arguments| change(place, "close", arguments)),
    write("comment_issue", "Say something about an issue", |place, arguments| change(place, "comment", arguments)),
    write("delete_issue", "Delete an issue; a tombstone stays", |place, arguments| change(place, "delete", arguments)),
    write("depend_issue", "Make an issue depend on another", |place, arguments| change(place, "depend", arguments)),
    write("give_back_issue", "Give an issue back", |place, arguments| change(place, "release", arguments)),
    read("list_issues", "List issues", list),
    read("ready_issues", "List the issues that can be worked on now", ready),
    write("reopen_issue", "Open an issue again", |place, arguments| change(place, "reopen", arguments)),
    read("search_issues", "Find issues by the words in them", search),
    read("show_issue", "Show an issue, and why it is or is not ready", show),
    write("take_issue", "Take an issue to work on: its lease, and the ledger's word", take),
    write("undepend_issue", "End that an issue depends on another", |place, arguments| {
        change(place, "undepend", arguments)
    }),
    write("update_issue", "Change fields of an issue", |place, arguments| change(place, "update", arguments)),
];

/// Returns the operation with this name.
pub fn named(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

/// Makes several changes, and returns each issue as it is then, with the number of its ledger.
///
/// The first one in a clone also tells git how to merge the ledger. Leases end on what was given back or is over.
pub fn apply(place: &Place, ledger: &Ledger, changes: &[Change]) -> Result<Vec<(Record, usize)>> {
    let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
    let records = ledger.apply_placed(&unplaced, false)?;
    ensure_driver(place);
    let ended: Vec<String> = changes
        .iter()
        .zip(&records)
        .filter(|(change, _)| matches!(change, Change::Close(..) | Change::Delete(..) | Change::Release(..)))
        .filter_map(|(_, (record, _))| record.text("id"))
        .collect();
    if !ended.is_empty() {
        claims::release(place, &ended, "given back, or over")?;
    }
    Ok(records)
}

/// Returns a record as others see it: all its fields as they are spelled, and where it is from.
pub fn shown(ledger: &Ledger, record: &Record, number: usize) -> Result<Record> {
    let mut shown = record.clone();
    let repository = ledger.repos().get(number).map(|repo| path_text::to_text(repo.path()));
    shown.set("source_repo", &repository)?;
    Ok(shown)
}

/// The ledgers that a request is about, and what is odd about them.
struct Desk {
    ledger: Ledger,
    warnings: Vec<String>,
}

impl Desk {
    fn open(place: &Place, arguments: &mut Map<String, Value>) -> Result<Desk> {
        let only = match arguments.remove("repo") {
            None | Some(Value::Null) => None,
            Some(Value::String(repo)) => Some(repo),
            Some(_) => return Err(Error::invalid("repo is a path, or the name of a repository that is read")),
        };
        let (ledger, unreachable) = Ledger::narrowed(place, only.as_deref(), &[])?;
        let warnings = place.warnings.iter().cloned().chain(unreachable).collect();
        Ok(Desk { ledger, warnings })
    }

    /// Asks about the issues, and notes if a part of the ledger could not be read.
    fn look<T>(&mut self, mut look: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let (answer, unread, conflicted) =
            self.ledger.look(|index| Ok((look(index)?, index.unread()?, index.conflicted()?)))?;
        if conflicted > 0 {
            self.warnings.push("the ledger has conflict markers and is read as merged: way resolve".to_owned());
        }
        if unread > 0 {
            self.warnings.push(format!("lines of the ledger that cannot be read: {unread}; way doctor"));
        }
        Ok(answer)
    }

    /// Answers with a list, at most `limit` of it, and whether there are more.
    fn list(
        mut self,
        limit: usize,
        mut ask: impl FnMut(&Index, Option<usize>) -> Result<Vec<Summary>>,
    ) -> Result<Value> {
        let asked = (limit > 0).then(|| limit.saturating_add(1));
        let mut records = self
            .look(|index| ask(index, asked)?.iter().map(|summary| index.record(summary)).collect::<Result<Vec<_>>>())?;
        let has_more = limit > 0 && records.len() > limit;
        if has_more {
            records.truncate(limit);
        }
        let issues =
            records.iter().map(|(record, number)| self.json(record, *number)).collect::<Result<Vec<Value>>>()?;
        Ok(self.answer(json!({ "issues": issues, "has_more": has_more })))
    }

    fn json(&self, record: &Record, number: usize) -> Result<Value> {
        let line = shown(&self.ledger, record, number)?.to_line();
        serde_json::from_str(&line).map_err(|error| Error::internal("a record is not JSON").because(error))
    }

    fn answer(self, mut answer: Value) -> Value {
        if let (false, Value::Object(fields)) = (self.warnings.is_empty(), &mut answer) {
            fields.insert("warnings".to_owned(), json!(self.warnings));
        }
        answer
    }
}

/// Which issues are listed. What is not named here, `search_issues` finds.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ListArguments {
    status: Vec<String>,
    #[serde(rename = "type")]
    types: Vec<String>,
    labels: Vec<String>,
    assignee: Option<String>,
    parent: Option<String>,
    closed: bool,
    limit: usize,
}

impl Default for ListArguments {
    fn default() -> Self {
        ListArguments {
            status: Vec::new(),
            types: Vec::new(),
            labels: Vec::new(),
            assignee: None,
            parent: None,
            closed: false,
            limit: 50,
        }
    }
}

fn list(place: &Place, arguments: Value) -> Result<Value> {
    let (desk, arguments): (_, ListArguments) = opened(place, "list_issues", arguments)?;
    let filter = Filter {
        statuses: arguments.status,
        types: arguments.types,
        labels: arguments.labels,
        assignee: arguments.assignee,
        closed: arguments.closed,
        ..Filter::default()
    };
    desk.list(arguments.limit, |index, limit| {
        let parent = match arguments.parent.as_deref() {
            Some(parent) if !parent.is_empty() => Some(index.find(parent)?),
            other => other.map(str::to_owned),
        };
        index.list(&Filter { parent, ..filter.clone() }, Sort::Priority, false, limit)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyArguments {
    #[serde(default)]
    limit: Option<usize>,
}

fn ready(place: &Place, arguments: Value) -> Result<Value> {
    let (desk, arguments): (_, ReadyArguments) = opened(place, "ready_issues", arguments)?;
    let held = claims::held_by_others(place)?;
    let now = desk.ledger.now();
    desk.list(arguments.limit.unwrap_or(20), |index, limit| {
        let mut ready = index.ready(now, limit.map(|limit| limit.saturating_add(held.len())))?;
        ready.retain(|issue| !held.contains_key(&issue.id));
        ready.truncate(limit.unwrap_or(usize::MAX));
        Ok(ready)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    words: String,
    #[serde(default)]
    limit: Option<usize>,
}

fn search(place: &Place, arguments: Value) -> Result<Value> {
    let (desk, arguments): (_, SearchArguments) = opened(place, "search_issues", arguments)?;
    let words: Vec<String> = arguments.words.split_whitespace().map(str::to_owned).collect();
    if words.is_empty() {
        return Err(Error::invalid("a search needs words"));
    }
    desk.ledger.make_searchable(|| {})?;
    desk.list(arguments.limit.unwrap_or(50), |index, limit| index.search(&words, limit))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShowArguments {
    id: String,
}

fn show(place: &Place, arguments: Value) -> Result<Value> {
    let (mut desk, arguments): (_, ShowArguments) = opened(place, "show_issue", arguments)?;
    let held = claims::held_by_others(place)?;
    let now = desk.ledger.now();
    let found = desk.look(|index| {
        let entry = index.entry_of(&arguments.id)?;
        let id = &entry.issue.id;
        let mut reasons: Vec<_> = index.obstacles(id, now)?.iter().map(ToString::to_string).collect();
        reasons.extend(held.get(id).map(|(holder, until)| format!("leased to {holder} until {until}")));
        let waiting = index.dependents(id)?.into_iter().filter(|(_, kind)| kind == "blocks").map(|(id, _)| id);
        let (waiting, parts) = (waiting.collect::<Vec<_>>(), index.parts(id)?);
        Ok((entry, json!({ "ready": reasons.is_empty(), "reasons": reasons, "waiting": waiting, "parts": parts })))
    });
    let (issue, rest) = match found {
        Ok((entry, rest)) => (desk.json(&entry.record, entry.ledger)?, rest),
        Err(error) => {
            let (record, commit) = history::instead_of(error, place, &arguments.id)?;
            let gone = format!("{} is not in the ledger any more; last in commit {}", arguments.id, commit.short_id());
            desk.warnings.push(gone);
            (desk.json(&record, 0)?, json!({ "ready": false, "reasons": [], "waiting": [], "parts": [] }))
        }
    };
    let mut answer = json!({ "issue": issue });
    if let (Value::Object(answer), Value::Object(rest)) = (&mut answer, rest) {
        answer.extend(rest);
    }
    Ok(desk.answer(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeArguments {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

fn take(place: &Place, arguments: Value) -> Result<Value> {
    let (desk, arguments): (_, TakeArguments) = opened(place, "take_issue", arguments)?;
    let (id, lease) = claims::claim(place, &desk.ledger, arguments.id.as_deref(), arguments.ttl_ms)?;
    ensure_driver(place);
    let entry = desk.ledger.look(|index| index.entry_of(&id))?;
    let issue = desk.json(&entry.record, entry.ledger)?;
    Ok(desk.answer(json!({ "issue": issue, "lease": lease })))
}

/// Makes one change, as a line of `way batch` would.
fn change(place: &Place, verb: &str, arguments: Value) -> Result<Value> {
    let mut arguments = object(arguments)?;
    let mut desk = Desk::open(place, &mut arguments)?;
    arguments.insert("op".to_owned(), json!(verb));
    let change = Change::from_json(Value::Object(arguments))?;
    if matches!(&change, Change::Update(_, edit) if *edit == crate::ledger::Edit::default()) {
        return Err(Error::invalid("nothing to change was given"));
    }
    let records = apply(place, &desk.ledger, &[change])?;
    let prunings = if verb == "close" { prune_large(place, &desk.ledger) } else { Vec::new() };
    for error in prunings.into_iter().filter_map(Result::err) {
        desk.warnings.push(format!("the ledger could not be pruned: {}", error.full_message()));
    }
    let Some((record, number)) = records.first() else {
        return Err(Error::internal("a change came to nothing"));
    };
    let issue = desk.json(record, *number)?;
    Ok(desk.answer(json!({ "issue": issue })))
}

/// Opens the ledgers, and reads the arguments.
fn opened<T: DeserializeOwned>(place: &Place, name: &str, arguments: Value) -> Result<(Desk, T)> {
    let mut arguments = object(arguments)?;
    let desk = Desk::open(place, &mut arguments)?;
    let arguments = serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Error::invalid(format!("wrong arguments for {name}")).because(error))?;
    Ok((desk, arguments))
}

fn object(arguments: Value) -> Result<Map<String, Value>> {
    match arguments {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        _ => Err(Error::invalid("arguments are an object")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_are_not_those_of_the_store() {
        for (at, entry) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.name < entry.name), "{} is not in order", entry.name);
            assert!(waypost_core::op::named(entry.name).is_none(), "{} is of the store", entry.name);
        }
    }

    #[test]
    fn an_issue_lives_through_its_operations() {
        let dir = waypost_testkit::temp_dir();
        std::fs::create_dir(dir.path().join(".waypost")).unwrap();
        let place = crate::ledger::place_of(dir.path(), None).unwrap().used_by("ann", Some("ann"));
        let run = |name: &str, arguments: Value| (named(name).unwrap().run)(&place, arguments);
        let id = |answer: &Value| answer["issue"]["id"].as_str().unwrap().to_owned();

        let first = id(&run("add_issue", json!({ "title": "Lay the base", "priority": 1 })).unwrap());
        let second = id(&run("add_issue", json!({ "title": "Build on it", "blocked_by": [first] })).unwrap());
        let ready = run("ready_issues", json!({})).unwrap();
        assert_eq!((ready["issues"].as_array().unwrap().len(), &ready["issues"][0]["id"]), (1, &json!(first)));
        let shown = run("show_issue", json!({ "id": second })).unwrap();
        assert_eq!((&shown["ready"], &shown["reasons"].as_array().unwrap().len()), (&json!(false), &1));
        assert_eq!(run("show_issue", json!({ "id": first })).unwrap()["waiting"], json!([second]));
        assert_eq!(run("search_issues", json!({ "words": "build" })).unwrap()["issues"][0]["id"], json!(second));
        assert_eq!(run("list_issues", json!({ "limit": 1 })).unwrap()["has_more"], json!(true));

        let changed = run("update_issue", json!({ "id": second, "labels": ["x"] })).unwrap();
        assert_eq!(changed["issue"]["labels"], json!(["x"]));
        assert_eq!(run("update_issue", json!({ "id": second })).unwrap_err().kind(), crate::Kind::Invalid);
        let closed = run("close_issue", json!({ "id": first, "reason": "done" })).unwrap();
        assert_eq!(closed["issue"]["close_reason"], json!("done"));
        assert_eq!(run("ready_issues", json!({})).unwrap()["issues"][0]["id"], json!(second));

        let wrong = run("ready_issues", json!({ "limmit": 1 })).unwrap_err();
        assert!(wrong.full_message().starts_with("wrong arguments for ready_issues: unknown field"));
        assert_eq!(run("show_issue", json!({ "id": "nothing" })).unwrap_err().kind(), crate::Kind::NotFound);
    }
}
