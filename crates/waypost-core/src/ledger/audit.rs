//! Finds damaged lines and odd values in a ledger file, line by line.

use std::collections::HashMap;

use super::document::{Content, Document};
use super::issue::Issue;

/// The description of a line that is a conflict marker.
pub const CONFLICT_MARKER: &str = "a conflict marker";

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Number of distinct issue ids.
    pub issues: usize,
    /// Number of lines that are closed issues.
    pub closed: usize,
    /// Lines that are not records (unreadable lines and conflict markers), with their numbers.
    pub damage: Vec<(usize, String)>,
    /// Odd values in readable lines, with the line numbers.
    pub problems: Vec<(usize, String)>,
}

/// Checks every line of a file.
pub fn audit(document: &Document) -> Audit {
    let mut audit = Audit::default();
    let mut first: HashMap<String, usize> = HashMap::new();
    for (place, content) in document.contents().enumerate() {
        let number = place + 1;
        let problems = &mut audit.problems;
        let mut report = |problem: String| problems.push((number, problem));
        match content {
            Content::Blank => {}
            Content::Damaged(why) => audit.damage.push((number, format!("cannot be read: {why}"))),
            Content::Marker => audit.damage.push((number, CONFLICT_MARKER.to_owned())),
            Content::Other => {
                let lacks_id =
                    document.record(place).is_ok_and(|record| !record.fields().any(|(key, _)| key.starts_with('_')));
                if lacks_id {
                    report("a record without an id".to_owned());
                }
            }
            Content::Issue(id) => {
                let read = document.record(place).ok().and_then(|record| Issue::read(&record));
                audit.closed += usize::from(read.as_ref().is_some_and(|(issue, _)| issue.closed_at.is_some()));
                for problem in read.map(|(_, problems)| problems).unwrap_or_default() {
                    report(problem.0);
                }
                match first.get(&id) {
                    Some(first) => report(format!("duplicate id {id}: first used in line {first}")),
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
    fn every_problem_is_reported_once_with_its_line_number() {
        let file = "{\"id\":\"a\"}\n\n<<<<<<< HEAD\n{\"id\":\"a\",\"priority\":9}\n{\"id\":\n{\"x\":1}\n{\"_type\":\"memory\"}\n";
        let audit = audit(&Document::parse(file.as_bytes().to_vec()));
        assert_eq!(audit.issues, 1);
        let damage: Vec<usize> = audit.damage.iter().map(|(line, _)| *line).collect();
        assert_eq!(damage, [3, 5]);
        assert_eq!(
            audit.problems,
            [
                (4, "priority is 9, not 0 to 4".to_owned()),
                (4, "duplicate id a: first used in line 1".to_owned()),
                (6, "a record without an id".to_owned()),
            ]
        );
    }
}
