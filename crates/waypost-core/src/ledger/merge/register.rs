//! Merges one field of a record: the winning value, and the values that lost against it.
//!
//! If a merge kept only the winner, the next merge could not know the losers, and the result would depend on the order
//! of merges. So the record also keeps the losers, in comments whose ids are hashes of their content, and they remain
//! candidates. A loser is dropped when a side that knew it sets another value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::issue::parse_time;
use super::meaning::of_field;
use crate::digest::fnv;
use crate::time::Timestamp;

/// The author of a loser's comment. A record does not name the author of a value, and a wrong name would be worse.
const AUTHOR: &str = "waypost";

/// The text between a field's name and its value in the comment of a loser.
const COMMENT_INFIX: &str = " in another version: ";

/// A value that a side has set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) meaning: String,
    /// Its spelling; none if the key is missing.
    pub(super) raw: Option<String>,
    /// The time it was set, if known.
    pub(super) time: Option<Timestamp>,
}

/// The value and the losers of a field on one side.
#[derive(Clone, Debug)]
pub(super) struct Register {
    pub(super) value: Candidate,
    pub(super) losers: Vec<Candidate>,
}

/// The merged value of a field, and its losers.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) winner: Candidate,
    /// Without empty values.
    pub(super) losers: Vec<Candidate>,
}

impl Register {
    fn candidates(&self) -> impl Iterator<Item = &Candidate> {
        std::iter::once(&self.value).chain(&self.losers)
    }

    fn has(&self, meaning: &str) -> bool {
        self.candidates().any(|candidate| candidate.meaning == meaning)
    }
}

/// The rank of a value: of two set at the same time the higher one wins, then the greater.
pub(super) type Rank = fn(&str) -> u8;

/// Ranks all values the same.
pub(super) fn unranked(_: &str) -> u8 {
    0
}

/// Merges a field. A change of only one side wins; otherwise the later value, and of two set at the same time the one with
/// the higher rank, then the greater.
pub(super) fn decide(base: Option<&Register>, left: &Register, right: &Register, rank: Rank) -> Decision {
    choose(base, left, right, standing(base, left, right), rank)
}

/// Merges a field where any value wins over a missing one.
pub(super) fn decide_for_something(base: Option<&Register>, left: &Register, right: &Register) -> Decision {
    let mut standing = standing(base, left, right);
    if standing.len() > 1 {
        standing.remove("");
    }
    choose(base, left, right, standing, unranked)
}

fn choose(
    base: Option<&Register>,
    left: &Register,
    right: &Register,
    standing: BTreeMap<String, Candidate>,
    rank: Rank,
) -> Decision {
    let survivors: Vec<&Register> =
        [left, right].into_iter().filter(|side| standing.contains_key(&side.value.meaning)).collect();
    // The author of a value saw the losers of that time and chose another value, so these losers cannot win again.
    let is_beaten = |candidate: &Candidate| {
        let knew = |side: &&Register| {
            let is_it = |loser: &Candidate| loser.meaning == candidate.meaning && loser.time == candidate.time;
            side.value.meaning != candidate.meaning && side.losers.iter().any(is_it)
        };
        survivors.iter().any(knew)
    };
    let last = |one: &&Candidate, other: &&Candidate| {
        let key = |candidate: &Candidate| (candidate.time, rank(&candidate.meaning));
        key(one).cmp(&key(other)).then_with(|| one.meaning.cmp(&other.meaning))
    };
    let contenders = standing.values().filter(|candidate| !is_beaten(candidate));
    let winner = contenders.max_by(last).or_else(|| survivors.iter().map(|side| &side.value).max_by(last));
    let winner = winner.or_else(|| [&left.value, &right.value].into_iter().max_by(last)).unwrap_or(&left.value).clone();
    decide_value(base, left, right, standing, &winner.meaning)
}

/// Merges a field that no longer applies: its value becomes empty, and the values of the sides become losers.
pub(super) fn retire(base: Option<&Register>, left: &Register, right: &Register) -> Decision {
    decide_value(base, left, right, standing(base, left, right), "")
}

/// The remaining candidates: a three-way merge of the sides' candidates, each with the latest time it was set.
fn standing(base: Option<&Register>, left: &Register, right: &Register) -> BTreeMap<String, Candidate> {
    let mut standing: BTreeMap<String, Candidate> = BTreeMap::new();
    for candidate in left.candidates().chain(right.candidates()) {
        let meaning = &candidate.meaning;
        if base.is_some_and(|base| base.has(meaning)) && !(left.has(meaning) && right.has(meaning)) {
            continue;
        }
        let known = standing.entry(meaning.clone()).or_insert_with(|| candidate.clone());
        known.time = known.time.max(candidate.time);
        // The choice between spellings of the same value must not depend on the side.
        if candidate.raw > known.raw {
            known.raw.clone_from(&candidate.raw);
        }
    }
    if base.is_none() && !(left.value.meaning.is_empty() && right.value.meaning.is_empty()) {
        // Without a base, a removed value cannot be told from one that was never set.
        standing.remove("");
    }
    standing
}

fn decide_value(
    base: Option<&Register>,
    left: &Register,
    right: &Register,
    mut standing: BTreeMap<String, Candidate>,
    meaning: &str,
) -> Decision {
    let in_value = |side: &Register| (side.value.meaning == meaning).then(|| side.value.raw.clone());
    let raw = spelling(base.and_then(in_value).as_ref(), in_value(left), in_value(right));
    let known = || left.candidates().chain(right.candidates()).filter(|candidate| candidate.meaning == meaning);
    let time = known().map(|candidate| candidate.time).max().flatten();
    let raw = raw.unwrap_or_else(|| known().filter_map(|candidate| candidate.raw.clone()).max());
    standing.remove(meaning);
    let losers = standing.into_values().filter(|candidate| !candidate.meaning.is_empty()).collect();
    Decision { winner: Candidate { meaning: meaning.to_owned(), raw, time }, losers }
}

/// Chooses between spellings of the same value: the new one, else the greater.
pub(super) fn spelling<T: Ord>(base: Option<&T>, left: Option<T>, right: Option<T>) -> Option<T> {
    match (left, right) {
        (Some(left), Some(right)) => {
            let left_is_old = base == Some(&left);
            let right_is_old = base == Some(&right);
            Some(match (left_is_old, right_is_old) {
                (true, _) => right,
                (_, true) => left,
                _ => left.max(right),
            })
        }
        (left, right) => left.or(right),
    }
}

/// Returns the id of the comment that keeps a loser.
pub(super) fn comment_id(issue: &str, field: &str, meaning: &str) -> String {
    format!("merge-{:016x}", fnv(format!("{issue}\0{field}\0{meaning}").as_bytes()))
}

/// Returns the comment that keeps a loser.
pub(super) fn comment(issue: &str, field: &str, loser: &Candidate) -> String {
    let raw = loser.raw.as_deref().unwrap_or("null");
    let text: String = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
    let mut comment = serde_json::json!({
        "id": comment_id(issue, field, &loser.meaning),
        "author": AUTHOR,
        "text": format!("{field}{COMMENT_INFIX}{text}"),
    });
    if let Some(time) = loser.time {
        comment["created_at"] = time.to_string().into();
    }
    comment.to_string()
}

/// Reads the comment of a loser: its field, and the loser. None for any other comment, or if it was edited.
pub(super) fn read_comment(issue: &str, raw: &str) -> Option<(String, Candidate)> {
    if !raw.contains(COMMENT_INFIX) {
        return None;
    }
    let comment: Value = serde_json::from_str(raw).ok()?;
    let (field, text) = comment["text"].as_str()?.split_once(COMMENT_INFIX)?;
    let time = comment["created_at"].as_str().and_then(parse_time);
    let spellings = [Value::from(text).to_string(), text.to_owned()];
    spellings.into_iter().find_map(|raw| {
        let meaning = of_field(field, Some(&raw));
        let is_its = comment["id"].as_str() == Some(&comment_id(issue, field, &meaning));
        is_its.then(|| (field.to_owned(), Candidate { meaning, raw: Some(raw), time }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(text: &str, time: i64) -> Candidate {
        let raw = (!text.is_empty()).then(|| Value::from(text).to_string());
        Candidate { meaning: of_field("title", raw.as_deref()), raw, time: Some(Timestamp::from_millis(time)) }
    }

    fn side(value: (&str, i64), losers: &[(&str, i64)]) -> Register {
        let losers = losers.iter().map(|(text, time)| candidate(text, *time)).collect();
        Register { value: candidate(value.0, value.1), losers }
    }

    #[track_caller]
    fn check(base: Option<&Register>, left: &Register, right: &Register, winner: &str, losers: &[&str]) {
        for (left, right) in [(left, right), (right, left)] {
            let decision = decide(base, left, right, unranked);
            let text = |candidate: &Candidate| candidate.raw.clone().unwrap_or_default().replace('"', "");
            assert_eq!(text(&decision.winner), winner);
            assert_eq!(decision.losers.iter().map(text).collect::<Vec<_>>(), losers);
        }
    }

    #[test]
    fn a_change_of_one_side_wins_whatever_its_time() {
        let base = side(("old", 5), &[]);
        check(Some(&base), &base, &side(("new", 1), &[]), "new", &[]);
        check(Some(&base), &side(("old", 9), &[]), &side(("", 1), &[]), "", &[]);
    }

    #[test]
    fn the_later_of_two_changes_wins_and_the_other_is_kept() {
        let base = side(("old", 0), &[]);
        check(Some(&base), &side(("a", 2), &[]), &side(("b", 1), &[]), "a", &["b"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("b", 1), &[]), "b", &["a"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("", 2), &[]), "", &["a"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("a", 2), &[]), "a", &[]);
        check(None, &side(("a", 1), &[]), &side(("", 2), &[]), "a", &[]);
    }

    #[test]
    fn a_loser_is_dropped_when_its_side_sets_another_value_and_may_win_when_the_winner_is_dropped() {
        let merged = side(("b", 2), &[("a", 1)]);
        check(Some(&side(("a", 1), &[])), &merged, &side(("a2", 3), &[]), "a2", &["b"]);
        check(Some(&side(("b", 2), &[])), &merged, &side(("b2", 2), &[]), "b2", &["a"]);
        check(Some(&side(("b", 2), &[])), &side(("b", 2), &[("z", 2)]), &side(("b2", 2), &[]), "z", &["b2"]);
    }

    #[test]
    fn an_earlier_loser_does_not_override_the_value_that_resolved_the_conflict() {
        let base = side(("b", 9), &[("a", 8)]);
        check(Some(&base), &base, &side(("resolved", 1), &[("a", 8)]), "resolved", &["a"]);
        check(Some(&base), &base, &side(("resolved", 1), &[]), "resolved", &[]);
    }

    #[test]
    fn two_values_that_each_beat_the_other_are_decided_by_time() {
        check(None, &side(("a", 1), &[("b", 2)]), &side(("b", 2), &[("a", 1)]), "b", &["a"]);
        let base = side(("v", 0), &[("w", 0)]);
        check(Some(&base), &side(("w", 1), &[]), &side(("v", 0), &[]), "w", &[]);
    }

    #[test]
    fn a_loser_is_read_back_from_its_comment() {
        for raw in ["\"text\"", "\"a in another version: b\"", "5", "{\"a\":[1]}", "\"5\"", "true", "\"null\""] {
            let loser = Candidate {
                meaning: of_field("notes", Some(raw)),
                raw: Some(raw.to_owned()),
                time: Some(Timestamp::from_millis(7)),
            };
            let written = comment("a-1", "notes", &loser);
            assert_eq!(read_comment("a-1", &written), Some(("notes".to_owned(), loser)));
            assert_eq!(read_comment("a-2", &written), None);
            assert_eq!(read_comment("a-1", &written.replace("version: ", "version: x")), None);
        }
    }
}
