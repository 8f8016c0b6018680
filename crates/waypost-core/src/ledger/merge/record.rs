//! Merges versions of one record.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::super::issue::parse_time;
use super::super::record::{KEYS, Record};
use super::super::vocabulary::{Category, Statuses};
use super::list::{self, Item, SETS};
use super::meaning::of_field;
use super::order::skeleton;
use super::register::{self, Candidate, Decision, Register, spelling, unranked};
use crate::digest::fnv;
use crate::seeded::seeded_bug;
use crate::time::Timestamp;

/// The field with the times of values that are older than the record's `updated_at`. Without it a value would seem to
/// be as new as a later change of another field. Each time comes with a digest of its value, so that it becomes void
/// when any tool changes the value.
const TIMES: &str = "changed_at";

/// The fields that belong to a status and are merged with it.
const STATUS_FIELDS: &[&str] = &["closed_at", "close_reason", "deleted_at", "deleted_by", "delete_reason"];

/// Fields whose losers are not kept in comments: timestamps and values that tools compute.
const FIELDS_WITHOUT_COMMENT: &[&str] = &[
    "created_at",
    "closed_at",
    "deleted_at",
    "compacted_at",
    "last_activity",
    "content_hash",
    "comment_count",
    "dependency_count",
    "dependent_count",
    "source_repo",
];

/// The field of the low-water mark.
const MARK: &str = "pruned_before";

/// Merges versions of one record without a common base.
///
/// The latest version wins, sets are united, and losers are kept in comments.
pub fn unite(versions: &[&Record]) -> Record {
    let mut versions: Vec<&Record> = versions.to_vec();
    versions.sort_by_key(|version| version.to_line());
    versions.dedup();
    let mut versions = versions.into_iter();
    let first = versions.next().cloned().unwrap_or_default();
    versions.fold(first, |united, version| merge(None, &united, version))
}

/// Merges the copies of one issue in two ledgers. `base` is their last common version.
///
/// The base is ignored if a copy is older than it, as after a checkout of an old commit: comments that the copy never
/// had would look deleted.
pub fn merge_copies(base: Option<&Record>, one: &Record, other: &Record) -> Record {
    let base = base.filter(|base| [one, other].iter().all(|copy| is_at_least(copy, base)));
    match base {
        Some(base) => merge(Some(base), one, other),
        None => unite(&[one, other]),
    }
}

/// Returns the common ancestor of an issue and of its copy in another ledger. `versions` are those that both ledgers had, the
/// oldest first.
///
/// Each field and each item of a list is as in the newest version that has the copy's value, else as in the oldest one. With
/// the oldest version alone, a value that was changed, copied and changed back would look unchanged. With the newest one
/// alone, an older copy would look as if it had been changed. Versions that the issue does not descend from do not count: it
/// is older after a checkout of an old commit, or lacks comments.
pub fn ancestor(versions: &[Record], copy: &Record, original: &Record) -> Option<Record> {
    let (oldest, newer) = versions.split_first()?;
    let mut known = vec![oldest];
    known.extend(newer.iter().filter(|version| descends_from(original, version)));
    let mut ancestor = oldest.clone();
    for key in known.iter().flat_map(|version| version.fields()).map(|(key, _)| key) {
        if SETS.contains(&key)
            && let Some(raw) = ancestor_of_set(key, &known, copy)
        {
            ancestor.put(key, raw);
            continue;
        }
        let meaning = |record: &Record| of_field(key, record.raw(key));
        let agreeing = known.iter().rev().find(|version| meaning(version) == meaning(copy)).unwrap_or(&oldest);
        match agreeing.raw(key) {
            Some(raw) => ancestor.put(key, raw.to_owned()),
            None => drop(ancestor.remove(key)),
        }
    }
    Some(ancestor)
}

/// Returns the common ancestor of a list. None if a version has another value than a list.
fn ancestor_of_set(key: &str, versions: &[&Record], copy: &Record) -> Option<String> {
    let items = |record: &Record| list::items(key, record.raw(key));
    let versions: Vec<Vec<Item>> = versions.iter().map(|version| items(version)).collect::<Option<_>>()?;
    let items: Vec<String> = list::ancestor(&versions, &items(copy)?).into_iter().map(|item| item.raw).collect();
    Some(format!("[{}]", items.join(",")))
}

/// Tells whether an issue can have been changed from a version: no command removes comments.
fn descends_from(issue: &Record, version: &Record) -> bool {
    let (issue_side, version_side) = (Side::read(issue), Side::read(version));
    let has = |comment: &Item| issue_side.comments.iter().flatten().any(|known| known.key == comment.key);
    is_at_least(issue, version) && version_side.comments.iter().flatten().all(has)
}

/// Tells whether a version equals the base, or is known not to be older.
fn is_at_least(version: &Record, base: &Record) -> bool {
    let time = |record: &Record| record.text("updated_at").as_deref().and_then(parse_time);
    version == base || time(version).is_some_and(|changed| Some(changed) >= time(base))
}

/// Tells whether two records mean the same, whatever their spelling and the order of their fields.
pub fn is_same(one: &Record, other: &Record) -> bool {
    let has_all = |one: &Record, other: &Record| {
        one.fields().all(|(key, raw)| of_field(key, Some(raw)) == of_field(key, other.raw(key)))
    };
    one == other || has_all(one, other) && has_all(other, one)
}

/// Merges two versions of a record with their common base, if there is one.
pub(super) fn merge(base: Option<&Record>, left: &Record, right: &Record) -> Record {
    if left == right || base == Some(right) {
        return left.clone();
    }
    if base == Some(left) {
        return right.clone();
    }
    let sides = Sides { base: base.map(Side::read), left: Side::read(left), right: Side::read(right) };
    sides.merge()
}

/// A parsed version.
struct Side<'a> {
    record: &'a Record,
    id: String,
    /// Time of the last change.
    time: Option<Timestamp>,
    times: HashMap<String, (Option<Timestamp>, String)>,
    /// The losers of earlier merges, by field.
    losers: BTreeMap<String, Vec<Candidate>>,
    /// The comments other than those of losers.
    comments: Option<Vec<Item>>,
    /// All comments. Those of losers have their ids as keys, so that they are found whatever their time.
    all_comments: Vec<Item>,
}

impl<'a> Side<'a> {
    fn read(record: &'a Record) -> Side<'a> {
        let id = record.text("id").unwrap_or_default();
        let mut losers: BTreeMap<String, Vec<Candidate>> = BTreeMap::new();
        let all = list::items("comments", record.raw("comments"));
        let mut all_comments = all.clone().unwrap_or_default();
        let mut comments = all;
        for item in &mut all_comments {
            if let Some((field, loser)) = register::read_comment(&id, &item.raw) {
                item.key = register::comment_id(&id, &field, &loser.meaning);
                losers.entry(field).or_default().push(loser);
            }
        }
        if let Some(comments) = &mut comments {
            comments.retain(|item| register::read_comment(&id, &item.raw).is_none());
        }
        let time = record.text("updated_at").as_deref().and_then(parse_time);
        Side { record, id, time, times: times(record), losers, comments, all_comments }
    }

    fn meaning(&self, key: &str) -> String {
        of_field(key, self.record.raw(key))
    }

    /// The time a value was set: from [`TIMES`], else that of its status, else the record's last change.
    fn time_of(&self, key: &str) -> Option<Timestamp> {
        match self.times.get(key) {
            Some((time, of)) if *of == short_digest(&self.meaning(key)) => *time,
            _ if STATUS_FIELDS.contains(&key) => self.time_of("status"),
            _ => self.time,
        }
    }

    fn register(&self, key: &str) -> Register {
        let value = Candidate {
            meaning: self.meaning(key),
            raw: self.record.raw(key).map(str::to_owned),
            time: self.time_of(key),
        };
        Register { value, losers: self.losers.get(key).cloned().unwrap_or_default() }
    }
}

struct Sides<'a> {
    base: Option<Side<'a>>,
    left: Side<'a>,
    right: Side<'a>,
}

impl Sides<'_> {
    fn merge(&self) -> Record {
        let mut fields: HashMap<String, String> = HashMap::new();
        let mut put = |key: &str, raw: Option<String>| {
            if let Some(raw) = raw {
                fields.insert(key.to_owned(), raw);
            }
        };
        let updated_at = self.latest("updated_at");
        let time = updated_at.as_deref().and_then(time_in);
        put("updated_at", updated_at);

        let sets: Vec<&str> = SETS.iter().copied().filter(|key| self.is_list(key)).collect();
        let status = self.decide("status", None);
        let mut times: BTreeMap<String, (Option<Timestamp>, String)> = BTreeMap::new();
        let mut lost: Vec<(String, Candidate)> = Vec::new();
        for key in self.keys() {
            if [TIMES, "updated_at"].contains(&key.as_str()) || sets.contains(&key.as_str()) {
                continue;
            }
            if key == MARK {
                put(&key, self.latest(MARK));
                continue;
            }
            let decision = self.decide(&key, Some(&status.winner));
            let expected = if STATUS_FIELDS.contains(&key.as_str()) { status.winner.time } else { time };
            if decision.winner.time != expected {
                times.insert(key.clone(), (decision.winner.time, short_digest(&decision.winner.meaning)));
            }
            put(&key, decision.winner.raw);
            if !FIELDS_WITHOUT_COMMENT.contains(&key.as_str()) {
                lost.extend(decision.losers.into_iter().map(|loser| (key.clone(), loser)));
            }
        }
        for key in sets {
            put(key, if key == "comments" { self.comments(&lost) } else { self.set(key) });
        }
        let keys = |side: &Side<'_>| side.record.fields().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
        let (base, left, right) = (self.base.as_ref().map(keys), keys(&self.left), keys(&self.right));
        let skeleton = skeleton(base.as_deref(), &left, &right);
        let old = skeleton.iter().filter_map(|key| Some((key.clone(), fields.remove(key)?))).collect();
        let spaced = |side: &Side<'_>| Some(side.record.is_spaced());
        let is_spaced = spelling(self.base.as_ref().and_then(spaced).as_ref(), spaced(&self.left), spaced(&self.right));
        let mut record = Record::of(old, is_spaced.unwrap_or_default());
        let mut new: Vec<(String, String)> = fields.into_iter().collect();
        new.sort_by_key(|(key, _)| (KEYS.iter().position(|known| known == key).unwrap_or(KEYS.len()), key.clone()));
        for (key, raw) in new {
            record.put(&key, raw);
        }
        if let Some(times) = spelled_times(&times) {
            record.put(TIMES, times);
        }
        record
    }

    /// Every key of a side, every field with losers or a time, and the fields that a status may need.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = STATUS_FIELDS.iter().map(|key| (*key).to_owned()).collect();
        for side in [&self.left, &self.right] {
            let found = side.record.fields().map(|(key, _)| key);
            let named =
                found.chain(side.losers.keys().map(String::as_str)).chain(side.times.keys().map(String::as_str));
            for key in named {
                if !keys.iter().any(|known| known == key) {
                    keys.push(key.to_owned());
                }
            }
        }
        keys
    }

    /// Merges a field. A field that belongs to a status is kept only with that status.
    fn decide(&self, key: &str, status: Option<&Candidate>) -> Decision {
        let mut decision = self.compete(key, status);
        if let Some(status) = status.filter(|_| STATUS_FIELDS.contains(&key) && decision.winner.meaning.is_empty()) {
            decision.winner.time = status.time;
            return decision;
        }
        // The sides that have the value know when it was set.
        let has_it = |side: &&Side<'_>| side.meaning(key) == decision.winner.meaning;
        if let Some(time) = [&self.left, &self.right].into_iter().filter(has_it).map(|side| side.time_of(key)).max() {
            decision.winner.time = time;
        }
        decision
    }

    fn compete(&self, key: &str, status: Option<&Candidate>) -> Decision {
        let base = self.base.as_ref().map(|base| base.register(key));
        let base = base.as_ref();
        let register = |side: &Side<'_>| {
            let mut register = side.register(key);
            // A side that did not change the value did not set it with its last change.
            if let Some(base) = base.filter(|base| base.value.meaning == register.value.meaning) {
                register.value.time = register.value.time.min(base.value.time);
            }
            register
        };
        let (left, right) = (register(&self.left), register(&self.right));
        let Some(status) = status.filter(|_| STATUS_FIELDS.contains(&key)) else {
            return register::decide(base, &left, &right, if key == "status" { rank_of_status } else { unranked });
        };
        let has_it = |side: &Side<'_>| side.meaning("status") == status.meaning;
        let is_new = !(self.base.as_ref().is_some_and(has_it) && has_it(&self.left) && has_it(&self.right));
        let mut decision = match (is_new, is_of(key, &status.meaning)) {
            (false, _) => register::decide(base, &left, &right, unranked),
            // The first side to close it may have given a reason that the last one did not.
            (true, true) => register::decide_for_something(base, &left, &right),
            (true, false) => register::retire(base, &left, &right),
        };
        if is_of(key, &status.meaning) && decision.winner.meaning.is_empty() && key.ends_with("_at") {
            // Any time is better than none: one that a side knows, else the time of a status that lost before.
            let known = [Some(&self.left), Some(&self.right), self.base.as_ref()].into_iter().flatten();
            let known = known.map(|side| side.register(key).value).filter(|value| !value.meaning.is_empty());
            let mut found = known.max_by(|one, other| one.meaning.cmp(&other.meaning));
            if found.is_none() && !has_it(&self.left) && !has_it(&self.right) {
                let raw = status.time.map(|time| Value::from(time.to_string()).to_string());
                found = Some(Candidate { meaning: of_field(key, raw.as_deref()), raw, time: None });
            }
            if let Some(found) = found {
                decision.winner = Candidate { time: status.time, ..found };
            }
        }
        decision
    }

    /// Returns the later of two timestamps in its own spelling.
    fn latest(&self, key: &str) -> Option<String> {
        let raw = |side: &Side<'_>| side.record.raw(key).map(str::to_owned);
        let (left, right) = (raw(&self.left), raw(&self.right));
        match left.as_deref().and_then(time_in).cmp(&right.as_deref().and_then(time_in)) {
            Ordering::Less => right,
            Ordering::Greater => left,
            Ordering::Equal => spelling(self.base.as_ref().map(raw).as_ref(), Some(left), Some(right)).flatten(),
        }
    }

    /// Tells whether a field is a list or missing in every version.
    fn is_list(&self, key: &str) -> bool {
        let sides = [Some(&self.left), Some(&self.right), self.base.as_ref()];
        sides.into_iter().flatten().all(|side| list::items(key, side.record.raw(key)).is_some())
    }

    fn set(&self, key: &str) -> Option<String> {
        let items = |side: &Side<'_>| list::items(key, side.record.raw(key)).unwrap_or_default();
        let (base, left, right) = (self.base.as_ref().map(items), items(&self.left), items(&self.right));
        let kept = list::union(base.as_deref().filter(|_| !seeded_bug("merge_brings_back")), &left, &right);
        self.spelled(key, &list::arrange(base.as_deref(), &left, &right, kept), &left, &right)
    }

    fn comments(&self, lost: &[(String, Candidate)]) -> Option<String> {
        let (left, right) = (&self.left, &self.right);
        let plain = |side: &Side<'_>| side.comments.clone().unwrap_or_default();
        let base = self.base.as_ref().map(plain);
        let (plain_left, plain_right) = (plain(left), plain(right));
        let kept = list::union(base.as_deref(), &plain_left, &plain_right);
        let mut losers: HashMap<String, Item> = HashMap::new();
        for (field, loser) in lost {
            let key = register::comment_id(&left.id, field, &loser.meaning);
            let mut written = Item::read("comments", &register::comment(&left.id, field, loser));
            written.key.clone_from(&key);
            let is_it = |item: &&Item| {
                item.key == key
                    && register::read_comment(&left.id, &item.raw).is_some_and(|(_, known)| known.time == loser.time)
            };
            let find = |side: &Side<'_>| side.all_comments.iter().find(is_it).cloned();
            let found = match (find(left), find(right)) {
                (Some(one), Some(other)) => list::choose(self.base.as_ref().and_then(find).as_ref(), one, other),
                (one, other) => one.or(other).unwrap_or(written),
            };
            losers.insert(key, found);
        }
        // Losers come and go, so only other comments keep their places.
        let mut order = list::arrange(base.as_deref(), &plain_left, &plain_right, kept);
        order.extend(list::arrange(None, &[], &[], losers));
        self.spelled("comments", &order, &left.all_comments, &right.all_comments)
    }

    fn spelled(&self, key: &str, items: &[Item], left: &[Item], right: &[Item]) -> Option<String> {
        let raw = |side: &Side<'_>| side.record.raw(key).map(str::to_owned);
        let base = self.base.as_ref().and_then(raw);
        list::spelled(items, base.as_deref(), (self.left.record.raw(key), left), (self.right.record.raw(key), right))
    }
}

/// Ranks statuses that were set at the same time: an agent that began to work did so after the issue was open, and a
/// deletion is final.
fn rank_of_status(meaning: &str) -> u8 {
    let status: String = serde_json::from_str(meaning).unwrap_or_default();
    match Statuses::default().category(&status) {
        Category::Deleted => 2,
        Category::Wip => 1,
        Category::Active | Category::Frozen | Category::Done => 0,
    }
}

/// Tells whether a field applies to issues with a status.
fn is_of(key: &str, status: &str) -> bool {
    let statuses = Statuses::default();
    let status: String = serde_json::from_str(status).unwrap_or_default();
    match statuses.category(&status) {
        Category::Deleted => key.starts_with("delete"),
        Category::Done => key.starts_with("close"),
        // An unknown status may mean finished.
        Category::Active | Category::Wip | Category::Frozen => key.starts_with("close") && !statuses.knows(&status),
    }
}

fn time_in(raw: &str) -> Option<Timestamp> {
    serde_json::from_str::<String>(raw).ok().as_deref().and_then(parse_time)
}

fn short_digest(meaning: &str) -> String {
    let digest = fnv(meaning.as_bytes());
    format!("{:08x}", (digest ^ (digest >> 32)) & 0xffff_ffff)
}

/// Reads the times of values that are older than their record.
fn times(record: &Record) -> HashMap<String, (Option<Timestamp>, String)> {
    let Some(raw) = record.raw(TIMES) else { return HashMap::new() };
    let Ok(fields) = serde_json::from_str::<HashMap<String, Value>>(raw) else { return HashMap::new() };
    let time = |value: &Value| Some((value[0].as_str().and_then(parse_time), value[1].as_str()?.to_owned()));
    fields.iter().filter_map(|(field, value)| Some((field.clone(), time(value)?))).collect()
}

fn spelled_times(times: &BTreeMap<String, (Option<Timestamp>, String)>) -> Option<String> {
    let spelled = |(field, (time, of)): (&String, &(Option<Timestamp>, String))| {
        let time = time.map(|time| time.to_string()).unwrap_or_default();
        format!("{}:[\"{time}\",\"{of}\"]", Value::from(field.as_str()))
    };
    let fields: Vec<String> = times.iter().map(spelled).collect();
    (!fields.is_empty()).then(|| format!("{{{}}}", fields.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: &str) -> Record {
        Record::parse(line).unwrap()
    }

    /// Merges with the sides in both orders.
    #[track_caller]
    fn check(base: Option<&str>, left: &str, right: &str, expected: &str) {
        let base = base.map(record);
        for (one, other) in [(left, right), (right, left)] {
            assert_eq!(merge(base.as_ref(), &record(one), &record(other)).to_line(), expected);
        }
    }

    #[test]
    fn the_changes_of_both_sides_are_kept() {
        check(
            Some(r#"{"id":"a","title":"t","status":"open","theirs":[1]}"#),
            r#"{"id":"a","title":"new","status":"open","theirs":[1]}"#,
            r#"{"id":"a","title":"t","status":"open","priority":1,"theirs":[1,2],"more":null}"#,
            r#"{"id":"a","title":"new","status":"open","priority":1,"theirs":[1,2],"more":null}"#,
        );
    }

    #[test]
    fn the_later_change_wins_and_the_other_is_kept_in_a_comment() {
        check(
            Some(r#"{"id":"a","title":"t","updated_at":"2026-01-01T00:00:00Z"}"#),
            r#"{"id":"a","title":"late","updated_at":"2026-01-01T00:00:02Z"}"#,
            r#"{"id":"a","title":"early","updated_at":"2026-01-01T01:00:01+01:00"}"#,
            r#"{"id":"a","title":"late","updated_at":"2026-01-01T00:00:02Z","comments":[{"id":"merge-b4a862b3c53306b3","author":"waypost","text":"title in another version: early","created_at":"2026-01-01T00:00:01.000Z"}]}"#,
        );
    }

    #[test]
    fn a_value_that_was_copied_and_then_changed_back_is_a_change() {
        let at = |second: u8, fields: &str| {
            record(&format!(r#"{{"id":"a",{fields},"updated_at":"2026-01-01T00:00:0{second}Z"}}"#))
        };
        let first = at(1, r#""title":"A","labels":["x"],"note":"n""#);
        let second = at(2, r#""title":"B","labels":[]"#);
        let changed_back = at(3, r#""title":"A","labels":["x"],"note":"n""#);
        let versions = [first.clone(), second.clone()];
        let merged = |versions: &[Record], copy: &Record, original: &Record| {
            let merged = merge_copies(ancestor(versions, copy, original).as_ref(), copy, original);
            ["title", "labels", "note"].map(|key| merged.raw(key).unwrap_or_default().to_owned())
        };
        assert_eq!(
            merge_copies(ancestor(&versions, &second, &changed_back).as_ref(), &second, &changed_back),
            changed_back
        );
        // The other ledger has changed the same list meanwhile.
        let copy = at(4, r#""title":"B","labels":["y"]"#);
        assert_eq!(merged(&versions, &copy, &changed_back), [r#""A""#, r#"["x","y"]"#, r#""n""#]);
        // It has the version before the last one.
        let versions = [first.clone(), second.clone(), changed_back.clone()];
        assert_eq!(merged(&versions, &copy, &changed_back), [r#""A""#, r#"["x","y"]"#, r#""n""#]);
        let third = at(3, r#""title":"C","labels":[]"#);
        assert_eq!(merged(&[first.clone(), second.clone(), third.clone()], &copy, &third)[0], r#""C""#);
        // It has the first version, or none of them.
        assert_eq!(merged(&versions[..2], &first, &second), [r#""B""#, "[]", ""]);
        assert_eq!(merged(&versions[..2], &at(5, r#""title":"D","labels":["x"]"#), &second)[0], r#""D""#);
    }

    #[test]
    fn an_issue_has_not_changed_back_from_a_version_that_it_never_had() {
        let at = |second: u8, fields: &str| {
            record(&format!(r#"{{"id":"a",{fields},"updated_at":"2026-01-01T00:00:0{second}Z"}}"#))
        };
        let comment = r#""comments":[{"id":"c","author":"me","text":"t","created_at":"2026-01-01T00:00:02Z"}]"#;
        let versions = [at(1, r#""title":"A""#), at(2, &format!(r#""title":"B",{comment}"#))];
        // An old commit is checked out, and then maybe changed.
        for original in [versions[0].clone(), at(9, r#""title":"A","priority":0"#)] {
            let merged = merge_copies(ancestor(&versions, &versions[1], &original).as_ref(), &versions[1], &original);
            assert_eq!(
                ["title", "comments"].map(|key| merged.raw(key)),
                ["title", "comments"].map(|key| versions[1].raw(key))
            );
        }
        assert_eq!(ancestor(&[], &versions[0], &versions[1]), None);
    }

    #[test]
    fn copies_merge_with_a_base_unless_one_of_them_is_older_than_it() {
        let copy = |title: &str, second: u32, comments: &str| {
            let time = format!("2026-01-01T00:00:0{second}Z");
            record(&format!(r#"{{"id":"a","title":"{title}","updated_at":"{time}","comments":[{comments}]}}"#))
        };
        let said = r#"{"id":"c1","text":"said"}"#;
        let (base, renamed) = (copy("t", 1, said), copy("new", 2, said));
        let commented = copy("t", 3, &format!(r#"{said},{{"id":"c2","text":"more"}}"#));
        let merged = merge_copies(Some(&base), &renamed, &commented);
        assert_eq!((merged.text("title").as_deref(), merged.raw("comments")), (Some("new"), commented.raw("comments")));
        assert_eq!(merge_copies(Some(&base), &commented, &base), commented);
        // The old copy did not delete the comment: it never had it.
        let old = copy("t", 0, "");
        let merged = merge_copies(Some(&base), &old, &commented);
        assert_eq!(merged.raw("comments"), commented.raw("comments"));
    }

    #[test]
    fn merging_again_adds_nothing() {
        let base = record(r#"{"id":"a","title":"t"}"#);
        let (left, right) = (record(r#"{"id":"a","title":"x"}"#), record(r#"{"id":"a","title":"y"}"#));
        let merged = merge(Some(&base), &left, &right);
        for again in [&left, &right, &base] {
            assert_eq!(merge(Some(again), &merged, again), merged);
            assert_eq!(merge(Some(&base), &merged, again), merged);
        }
        assert_eq!(unite(&[&merged, &left, &right]), merged);
    }

    #[test]
    fn a_value_keeps_the_time_it_was_set_when_something_else_was_set_later() {
        let base = r#"{"id":"a","title":"t","updated_at":"2026-01-01T00:00:00Z"}"#;
        let title = r#"{"id":"a","title":"first","updated_at":"2026-01-01T00:00:01Z"}"#;
        let other = r#"{"id":"a","title":"second","updated_at":"2026-01-01T00:00:02Z"}"#;
        let notes = r#"{"id":"a","title":"t","notes":"n","updated_at":"2026-01-01T00:00:09Z"}"#;
        let [base, title, other, notes] = [base, title, other, notes].map(record);
        let both = merge(Some(&base), &title, &notes);
        assert_eq!(both.raw(TIMES), Some(r#"{"title":["2026-01-01T00:00:01.000Z","2bacb329"]}"#));
        assert_eq!(merge(Some(&base), &both, &other).text("title").unwrap(), "second");
        // A tool that does not know `changed_at` sets another title: the stored time belongs to the old one.
        let mut edited = both.clone();
        edited.set("title", &"third").unwrap();
        assert_eq!(merge(Some(&base), &edited, &other).text("title").unwrap(), "third");
    }

    #[test]
    fn reopening_wins_over_an_unchanged_closed_status() {
        check(
            Some(
                r#"{"id":"a","status":"closed","updated_at":"2026-01-02T00:00:00Z","closed_at":"2026-01-02T00:00:00Z","close_reason":"done"}"#,
            ),
            r#"{"id":"a","status":"closed","updated_at":"2026-01-09T00:00:00Z","closed_at":"2026-01-02T00:00:00Z","close_reason":"done","notes":"n"}"#,
            r#"{"id":"a","status":"open","updated_at":"2026-01-01T00:00:00Z"}"#,
            r#"{"id":"a","notes":"n","status":"open","updated_at":"2026-01-09T00:00:00Z","changed_at":{"status":["2026-01-01T00:00:00.000Z","eb99fa70"]}}"#,
        );
    }

    #[test]
    fn of_two_statuses_of_the_same_time_work_in_progress_wins_over_open() {
        let version = |status: &str| {
            record(&format!(r#"{{"id":"a","status":"{status}","updated_at":"2026-01-01T00:00:00Z","assignee":"ann"}}"#))
        };
        for (one, other, winner) in [
            ("open", "in_progress", "in_progress"),
            ("closed", "in_progress", "in_progress"),
            ("tombstone", "in_progress", "tombstone"),
            ("open", "closed", "open"),
        ] {
            for versions in [[one, other], [other, one]] {
                let [left, right] = versions.map(version);
                assert_eq!(unite(&[&left, &right]).text("status").as_deref(), Some(winner), "{versions:?}");
            }
        }
    }

    #[test]
    fn fields_of_a_status_are_merged_with_it() {
        let base = Some(r#"{"id":"a","status":"open"}"#);
        check(
            base,
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:01Z","closed_at":"2026-01-01T00:00:01Z","close_reason":"done"}"#,
            r#"{"id":"a","status":"tombstone","updated_at":"2026-01-01T00:00:02Z","deleted_at":"2026-01-01T00:00:02Z"}"#,
            r#"{"id":"a","status":"tombstone","updated_at":"2026-01-01T00:00:02Z","comments":[{"id":"merge-32f9d35b92c77cae","author":"waypost","text":"status in another version: closed","created_at":"2026-01-01T00:00:01.000Z"},{"id":"merge-b65584d9ded77c1f","author":"waypost","text":"close_reason in another version: done","created_at":"2026-01-01T00:00:01.000Z"}],"deleted_at":"2026-01-01T00:00:02Z"}"#,
        );
        // Both sides closed it: the later one wins.
        check(
            base,
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:01Z","closed_at":"2026-01-01T00:00:01Z"}"#,
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:02Z","closed_at":"2026-01-01T00:00:02Z"}"#,
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:02Z","closed_at":"2026-01-01T00:00:02Z"}"#,
        );
        // A side that closes without `closed_at`.
        check(
            Some(r#"{"id":"a","status":"open","notes":"1"}"#),
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:02Z","notes":"1"}"#,
            r#"{"id":"a","status":"done","updated_at":"2026-01-01T00:00:01Z","closed_at":"2026-01-01T00:00:01Z","notes":"1"}"#,
            r#"{"id":"a","status":"closed","notes":"1","updated_at":"2026-01-01T00:00:02Z","closed_at":"2026-01-01T00:00:01Z","comments":[{"id":"merge-2555f8dda909107e","author":"waypost","text":"status in another version: done","created_at":"2026-01-01T00:00:01.000Z"}],"changed_at":{"closed_at":["2026-01-01T00:00:01.000Z","bea01d31"]}}"#,
        );
    }

    #[test]
    fn a_status_that_lost_before_comes_back_with_its_fields() {
        let base = record(r#"{"id":"a","status":"open","updated_at":"2026-01-01T00:00:00Z"}"#);
        let deleted = record(
            r#"{"id":"a","status":"tombstone","updated_at":"2026-01-01T00:00:02Z","deleted_at":"2026-01-01T00:00:02Z"}"#,
        );
        let closed = record(
            r#"{"id":"a","status":"closed","updated_at":"2026-01-01T00:00:03Z","closed_at":"2026-01-01T00:00:03Z"}"#,
        );
        let both = merge(Some(&base), &deleted, &closed);
        assert_eq!(both.text("status").unwrap(), "closed");
        let mut reopened = closed.clone();
        reopened.set("status", &"open").unwrap();
        reopened.remove("closed_at");
        reopened.set("updated_at", &"2026-01-01T00:00:01Z").unwrap();
        let merged = merge(Some(&closed), &both, &reopened);
        assert_eq!(merged.text("status").unwrap(), "tombstone");
        assert_eq!(merged.text("deleted_at").unwrap(), "2026-01-01T00:00:02.000Z");
        assert_eq!(merged.raw("closed_at"), None);
    }

    #[test]
    fn sets_are_merged_member_by_member() {
        check(
            Some(r#"{"id":"a","labels":["x","y"],"dependencies":[{"depends_on_id":"b","type":"blocks"}]}"#),
            r#"{"id":"a","labels":["x","new"],"dependencies":[{"depends_on_id":"b","type":"blocks"},{"depends_on_id":"b","type":"related"}]}"#,
            r#"{"id":"a","labels":["y","x","also"],"dependencies":[{"depends_on_id":"b","type":"blocked-by","n":1}]}"#,
            r#"{"id":"a","labels":["x","also","new"],"dependencies":[{"depends_on_id":"b","type":"blocked-by","n":1},{"depends_on_id":"b","type":"related"}]}"#,
        );
        check(
            Some(r#"{"id":"a","labels":["x"],"z":1}"#),
            r#"{"id":"a","z":1}"#,
            r#"{"id":"a","labels":["x"],"z":2}"#,
            r#"{"id":"a","z":2}"#,
        );
    }

    #[test]
    fn two_comments_with_the_same_id_are_both_kept() {
        check(
            Some(r#"{"id":"a"}"#),
            r#"{"id":"a","comments":[{"id":1,"author":"x","text":"one","created_at":"2026-01-01T00:00:02Z"}]}"#,
            r#"{"id":"a","comments":[{"id":1,"author":"y","text":"two","created_at":"2026-01-01T00:00:01Z"}]}"#,
            r#"{"id":"a","comments":[{"id":1,"author":"y","text":"two","created_at":"2026-01-01T00:00:01Z"},{"id":1,"author":"x","text":"one","created_at":"2026-01-01T00:00:02Z"}]}"#,
        );
        check(
            Some(r#"{"id":"a","comments":[{"id":1,"text":"old"}]}"#),
            r#"{"id":"a","comments":[{"id":1,"text":"edited"}]}"#,
            r#"{"id":"a","comments":[{"id": 1,"text":"old"}],"z":1}"#,
            r#"{"id":"a","comments":[{"id":1,"text":"edited"}],"z":1}"#,
        );
    }

    #[test]
    fn spelling_is_not_a_change_and_lost_timestamps_and_digests_get_no_comment() {
        check(
            Some(r#"{"id":"a","title":"\u00fc","created_at":"2026-01-01T00:00:00Z","content_hash":"1"}"#),
            r#"{"id":"a","title":"ü","created_at":"2026-01-01T01:00:00+01:00","content_hash":"2"}"#,
            r#"{"id":"a","title":"new","created_at":"2026-01-01T00:00:00Z","content_hash":"3"}"#,
            r#"{"id":"a","title":"new","created_at":"2026-01-01T01:00:00+01:00","content_hash":"3"}"#,
        );
    }

    #[test]
    fn without_a_base_nothing_is_removed() {
        let one = record(r#"{"id":"a","title":"t","assignee":"x","labels":["l"],"updated_at":"2026-01-01T00:00:01Z"}"#);
        let two = record(r#"{"id":"a","title":"u","labels":["m"],"updated_at":"2026-01-01T00:00:02Z"}"#);
        let united = unite(&[&one, &two]);
        assert_eq!((united.text("title").unwrap().as_str(), united.text("assignee").unwrap().as_str()), ("u", "x"));
        assert_eq!(united.raw("labels"), Some(r#"["l","m"]"#));
        assert!(united.raw("comments").unwrap().contains("title in another version: t"));
        assert_eq!(united, unite(&[&two, &one, &two]));
        assert_eq!(unite(&[&one]), one);
        assert_eq!(unite(&[]), Record::default());
    }

    #[test]
    fn a_set_field_that_is_not_a_list_is_merged_as_a_plain_value() {
        check(
            Some(r#"{"id":"a","labels":"p"}"#),
            r#"{"id":"a","labels":"p,q"}"#,
            r#"{"id":"a","labels":"p","z":1}"#,
            r#"{"id":"a","labels":"p,q","z":1}"#,
        );
    }
}
