//! One field of one record: the value that counts, and those that lost against it.
//!
//! If a merge only kept the winner, the next merge could not tell what it had won against, and the result would depend on
//! the order of merges. So what lost stands in the record too, in comments whose ids are made of what they say, and goes
//! on competing. A loser leaves when a side that knew it has moved on to another value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::issue::moment;
use super::meaning::{digest, of_field};
use crate::time::Timestamp;

/// Who says what a merge has to say. A record does not tell who changed it, and nobody is to be quoted by mistake.
const AUTHOR: &str = "waypost";

/// What stands between a field's name and its value in the comment of a loser.
const SAYS: &str = " in another version: ";

/// A value that was set once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) meaning: String,
    /// How it is spelled; none if the key is not there.
    pub(super) raw: Option<String>,
    /// When it was set, as far as is known.
    pub(super) time: Option<Timestamp>,
}

/// What one side has for a field.
#[derive(Clone, Debug)]
pub(super) struct Register {
    pub(super) value: Candidate,
    pub(super) losers: Vec<Candidate>,
}

/// What a merge makes of a field.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) winner: Candidate,
    /// Without those that say nothing.
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

/// Merges a field. What one side alone changed is taken; otherwise what was set last, and of two set at once the greater.
pub(super) fn decide(base: Option<&Register>, left: &Register, right: &Register) -> Decision {
    choose(base, left, right, standing(base, left, right))
}

/// Merges a field in which anything is better than nothing.
pub(super) fn decide_for_something(base: Option<&Register>, left: &Register, right: &Register) -> Decision {
    let mut standing = standing(base, left, right);
    if standing.len() > 1 {
        standing.remove("");
    }
    choose(base, left, right, standing)
}

fn choose(
    base: Option<&Register>,
    left: &Register,
    right: &Register,
    standing: BTreeMap<String, Candidate>,
) -> Decision {
    let survivors: Vec<&Register> =
        [left, right].into_iter().filter(|side| standing.contains_key(&side.value.meaning)).collect();
    // Whoever set a value knew what had lost before, and meant it to stay so.
    let is_beaten = |candidate: &Candidate| {
        let knew = |side: &&Register| {
            let is_it = |loser: &Candidate| loser.meaning == candidate.meaning && loser.time == candidate.time;
            side.value.meaning != candidate.meaning && side.losers.iter().any(is_it)
        };
        survivors.iter().any(knew)
    };
    let last = |one: &&Candidate, other: &&Candidate| (one.time, &one.meaning).cmp(&(other.time, &other.meaning));
    let contenders = standing.values().filter(|candidate| !is_beaten(candidate));
    let winner = contenders.max_by(last).or_else(|| survivors.iter().map(|side| &side.value).max_by(last));
    let winner = winner.or_else(|| [&left.value, &right.value].into_iter().max_by(last)).unwrap_or(&left.value).clone();
    decide_value(base, left, right, standing, &winner.meaning)
}

/// Merges a field that has no meaning any more. What sides set is a loser.
pub(super) fn retire(base: Option<&Register>, left: &Register, right: &Register) -> Decision {
    decide_value(base, left, right, standing(base, left, right), "")
}

/// What is still in the running: the candidates as a set, merged three-way, each with the latest time it was set.
fn standing(base: Option<&Register>, left: &Register, right: &Register) -> BTreeMap<String, Candidate> {
    let mut standing: BTreeMap<String, Candidate> = BTreeMap::new();
    for candidate in left.candidates().chain(right.candidates()) {
        let meaning = &candidate.meaning;
        if base.is_some_and(|base| base.has(meaning)) && !(left.has(meaning) && right.has(meaning)) {
            continue;
        }
        let known = standing.entry(meaning.clone()).or_insert_with(|| candidate.clone());
        known.time = known.time.max(candidate.time);
        // Of several spellings of the same, one must be chosen that does not depend on the side.
        if candidate.raw > known.raw {
            known.raw.clone_from(&candidate.raw);
        }
    }
    if base.is_none() && !(left.value.meaning.is_empty() && right.value.meaning.is_empty()) {
        // Nobody can tell whether it was taken out or never there.
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

/// Chooses between spellings of the same: the one that is new, else the greater.
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
    format!("merge-{:016x}", digest(&format!("{issue}\0{field}\0{meaning}")))
}

/// Returns the comment that keeps a loser.
pub(super) fn comment(issue: &str, field: &str, loser: &Candidate) -> String {
    let raw = loser.raw.as_deref().unwrap_or("null");
    let text: String = serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned());
    let mut comment = serde_json::json!({
        "id": comment_id(issue, field, &loser.meaning),
        "author": AUTHOR,
        "text": format!("{field}{SAYS}{text}"),
    });
    if let Some(time) = loser.time {
        comment["created_at"] = time.to_string().into();
    }
    comment.to_string()
}

/// Reads the comment of a loser: its field, and the loser. None if it is any other comment, or was edited.
pub(super) fn read_comment(issue: &str, raw: &str) -> Option<(String, Candidate)> {
    if !raw.contains(SAYS) {
        return None;
    }
    let comment: Value = serde_json::from_str(raw).ok()?;
    let (field, text) = comment["text"].as_str()?.split_once(SAYS)?;
    let time = comment["created_at"].as_str().and_then(moment);
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
            let decision = decide(base, left, right);
            let text = |candidate: &Candidate| candidate.raw.clone().unwrap_or_default().replace('"', "");
            assert_eq!(text(&decision.winner), winner);
            assert_eq!(decision.losers.iter().map(text).collect::<Vec<_>>(), losers);
        }
    }

    #[test]
    fn what_one_side_changed_is_taken_whenever_that_was() {
        let base = side(("old", 5), &[]);
        check(Some(&base), &base, &side(("new", 1), &[]), "new", &[]);
        check(Some(&base), &side(("old", 9), &[]), &side(("", 1), &[]), "", &[]);
    }

    #[test]
    fn of_two_changes_the_later_wins_and_the_other_is_kept() {
        let base = side(("old", 0), &[]);
        check(Some(&base), &side(("a", 2), &[]), &side(("b", 1), &[]), "a", &["b"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("b", 1), &[]), "b", &["a"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("", 2), &[]), "", &["a"]);
        check(Some(&base), &side(("a", 1), &[]), &side(("a", 2), &[]), "a", &[]);
        check(None, &side(("a", 1), &[]), &side(("", 2), &[]), "a", &[]);
    }

    #[test]
    fn a_loser_leaves_when_its_side_moves_on_and_may_win_when_the_winner_does() {
        let merged = side(("b", 2), &[("a", 1)]);
        check(Some(&side(("a", 1), &[])), &merged, &side(("a2", 3), &[]), "a2", &["b"]);
        check(Some(&side(("b", 2), &[])), &merged, &side(("b2", 2), &[]), "b2", &["a"]);
        check(Some(&side(("b", 2), &[])), &side(("b", 2), &[("z", 2)]), &side(("b2", 2), &[]), "z", &["b2"]);
    }

    #[test]
    fn whoever_settles_a_conflict_is_not_overruled_by_what_had_lost() {
        let base = side(("b", 9), &[("a", 8)]);
        check(Some(&base), &base, &side(("settled", 1), &[("a", 8)]), "settled", &["a"]);
        check(Some(&base), &base, &side(("settled", 1), &[]), "settled", &[]);
    }

    #[test]
    fn each_side_having_beaten_the_other_is_decided_too() {
        check(None, &side(("a", 1), &[("b", 2)]), &side(("b", 2), &[("a", 1)]), "b", &["a"]);
        let base = side(("v", 0), &[("w", 0)]);
        check(Some(&base), &side(("w", 1), &[]), &side(("v", 0), &[]), "w", &[]);
    }

    #[test]
    fn a_loser_is_read_from_its_comment_as_it_was() {
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
