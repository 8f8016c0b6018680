//! Checks that statements are not built from texts: values are bound, and only reviewed places insert anything else.

use std::path::Path;

use crate::Result;
use crate::tidy::read;

/// The files that insert into statements, with the number of statements. Each inserts only constants, numbers, placeholders,
/// and identifiers that are quoted or come from the code. Count a new one only after a review of what it inserts.
const REVIEWED: &[(&str, usize)] = &[
    ("crates/waypost-ledger/src/index/counters.rs", 1),
    ("crates/waypost-ledger/src/index/query.rs", 17),
    ("crates/waypost-ledger/src/index/search.rs", 4),
    ("crates/waypost-store/src/foreign.rs", 1),
    ("crates/waypost-store/src/postgres/connection.rs", 5),
    ("crates/waypost-store/src/postgres/foreign.rs", 1),
    ("crates/waypost-store/src/postgres/migrate.rs", 7),
    ("crates/waypost-store/src/postgres/owners.rs", 1),
    ("crates/waypost-store/src/postgres/upkeep.rs", 1),
    ("crates/waypost-store/src/sqlite/upkeep.rs", 2),
];

/// Words of statements, in capitals and followed by a space, as all statements here are written.
const WORDS: &[&str] = &[
    "SELECT ",
    "INSERT INTO ",
    "UPDATE ",
    "DELETE FROM ",
    "CREATE SCHEMA ",
    "CREATE TABLE ",
    "DROP ",
    "ALTER ",
    "PRAGMA ",
    "SET ",
    " WHERE ",
    " ORDER BY ",
];

/// Complains about files that build statements, and about a number of them that was not reviewed.
pub(crate) fn check(files: &[&Path], root: &Path, complaints: &mut Vec<String>) -> Result {
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
        let count = built_statements(&read(file)?);
        if count > 0 {
            found.push((name, count));
        }
    }
    complaints.extend(compare(&found));
    Ok(())
}

fn compare(found: &[(String, usize)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (name, count) in found {
        let reviewed = REVIEWED.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
        if *count != reviewed {
            complaints.push(format!(
                "{name} inserts into {count} statements, and {reviewed} were reviewed: bind values, and see xtask/src/sql.rs"
            ));
        }
    }
    for (name, _) in REVIEWED.iter().filter(|(known, _)| !found.iter().any(|(name, _)| name == known)) {
        complaints.push(format!("{name} inserts into no statement: remove it from xtask/src/sql.rs"));
    }
    complaints
}

/// Counts the statements in a source, without its tests, into which something is inserted.
fn built_statements(source: &str) -> usize {
    // The words are concatenated, so that this file does not contain them.
    let tests = ["#[cfg(", "test)]\nmod tests"].concat();
    let source = source.split(&tests).next().unwrap_or_default();
    let call = ["format", "!("].concat();
    let calls = source.match_indices(&call).map(|(at, call)| &source[at + call.len()..]);
    calls.filter_map(|rest| literal(rest.trim_start())).filter(|text| is_statement(text) && has_insertion(text)).count()
}

/// Returns the text of a literal at the beginning of a source, with its escapes.
fn literal(source: &str) -> Option<&str> {
    let text = source.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.find(|char| {
        let is_end = char == '"' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        is_end
    })?;
    Some(&text[..end])
}

fn is_statement(text: &str) -> bool {
    WORDS.iter().any(|word| text.contains(word))
}

fn has_insertion(text: &str) -> bool {
    text.replace("{{", "").contains('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_that_is_built_from_a_text_is_found() {
        let build = |text: &str| ["let sql = format", "!(", text, ");\n"].concat();
        for (text, expected) in [
            (r#""SELECT id FROM issue WHERE title = '{title}'""#, 1),
            ("\n    \"INSERT INTO t VALUES ('{}')\", x", 1),
            (r#""SELECT \"{name}\" FROM t""#, 1),
            (r#""SELECT id FROM issue WHERE id = ?1""#, 0),
            (r#""there is no issue {id}""#, 0),
        ] {
            assert_eq!(built_statements(&build(text)), expected, "{text}");
        }
        let tests = ["#[cfg(", "test)]\nmod tests {\n", &build(r#""DROP TABLE {x}""#), "}"].concat();
        assert_eq!(built_statements(&tests), 0);
    }

    #[test]
    fn a_statement_that_was_not_reviewed_is_reported() {
        let mut found: Vec<(String, usize)> =
            REVIEWED.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(compare(&found), Vec::<String>::new());
        found[0].1 += 1;
        found.push(("crates/waypost/src/new.rs".to_owned(), 1));
        let complaints = compare(&found);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        found.remove(1);
        assert_eq!(compare(&found).len(), 3);
    }
}
