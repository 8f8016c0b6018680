//! What is not as it should be in a ledger's file, line by line.

use std::collections::HashMap;

use super::document::{Content, Document};
use super::issue::Issue;

/// What damage is called that a merge left behind.
pub const MARKER: &str = "a conflict marker";

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// How many issues there are, each id once.
    pub issues: usize,
    /// How many lines are closed issues.
    pub closed: usize,
    /// Lines that are no records: unreadable ones and conflict markers, by number.
    pub damage: Vec<(usize, String)>,
    /// What readable lines say that is odd, by number.
    pub problems: Vec<(usize, String)>,
}

/// Looks through a file.
pub fn audit(document: &Document) -> Audit {
    let mut audit = Audit::default();
    let mut first: HashMap<String, usize> = HashMap::new();
    for (place, content) in document.contents().enumerate() {
        let number = place + 1;
        let problems = &mut audit.problems;
        let mut is_odd = |problem: String| problems.push((number, problem));
        match content {
            Content::Blank => {}
            Content::Damaged(why) => audit.damage.push((number, format!("cannot be read: {why}"))),
            Content::Marker => audit.damage.push((number, MARKER.to_owned())),
            Content::Other => {
                let is_nameless =
                    document.record(place).is_ok_and(|record| !record.fields().any(|(key, _)| key.starts_with('_')));
                if is_nameless {
                    is_odd("a record without an id".to_owned());
                }
            }
            Content::Issue(id) => {
                let read = document.record(place).ok().and_then(|record| Issue::read(&record));
                audit.closed += usize::from(read.as_ref().is_some_and(|(issue, _)| issue.closed_at.is_some()));
                for problem in read.map(|(_, problems)| problems).unwrap_or_default() {
                    is_odd(problem.0);
                }
                match first.get(&id) {
                    Some(first) => is_odd(format!("{id} stands in line {first} already")),
                    None => drop(first.insert(id, number)),
                }
            }
        }
    }
    audit.issues = first.len();
    audit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_odd_is_named_once_with_its_line() {
        let file = "{\"id\":\"a\"}\n\n<<<<<<< HEAD\n{\"id\":\"a\",\"priority\":9}\n{\"id\":\n{\"x\":1}\n{\"_type\":\"memory\"}\n";
        let audit = audit(&Document::parse(file.as_bytes().to_vec()));
        assert_eq!(audit.issues, 1);
        let damage: Vec<usize> = audit.damage.iter().map(|(line, _)| *line).collect();
        assert_eq!(damage, [3, 5]);
        assert_eq!(
            audit.problems,
            [
                (4, "priority is 9, not 0 to 4".to_owned()),
                (4, "a stands in line 1 already".to_owned()),
                (6, "a record without an id".to_owned()),
            ]
        );
    }
}
