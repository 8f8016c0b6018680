//! Full-text search.
//!
//! Indexing the texts takes longer than the rest of the index. The first search therefore does it, and later ones only
//! index new lines.

use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::{Error, Result};

use super::query::{Condition, Order, Position, SUMMARY, Window, position_value, sql_limit, summary};
use super::{Index, Summary};

/// Maximum number of words of one search.
const MAX_WORDS: usize = 100;

impl Index {
    /// Returns how many lines must be indexed before [`Self::search`] can answer; `None` if it can answer at once.
    pub(crate) fn unsearched(&self) -> Result<Option<i64>> {
        let behind =
            self.one("SELECT (SELECT coalesce(max(line), 0) FROM line) - (SELECT searched FROM about)", [], |row| {
                row.get::<_, i64>(0)
            })?;
        Ok(behind.filter(|behind| *behind > 0))
    }

    /// Indexes the texts of lines that are not searchable yet.
    pub(crate) fn index_texts(&self) -> Result<()> {
        self.sql(|connection| {
            connection.execute_batch(
                "CREATE VIRTUAL TABLE IF NOT EXISTS text USING fts5(title, body, content = '', contentless_delete = 1, \
                 tokenize = \"unicode61 remove_diacritics 2\")",
            )
        })?;
        let mut searched: i64 = self.one("SELECT searched FROM about", [], |row| row.get(0))?.unwrap_or_default();
        loop {
            let batch =
                self.all("SELECT line, raw FROM line WHERE line > ?1 ORDER BY line LIMIT 1000", [searched], |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
                })?;
            let Some((last, _)) = batch.last() else { break };
            searched = *last;
            for (line, raw) in &batch {
                let issue = Record::parse(raw).ok().and_then(|record| Issue::read(&record));
                if let Some((issue, _)) = issue {
                    self.execute(
                        "INSERT INTO text (rowid, title, body) VALUES (?1, ?2, ?3)",
                        (line, &issue.title, body(&issue)),
                    )?;
                }
            }
        }
        self.execute("UPDATE about SET searched = ?1", [searched]).map(drop)
    }

    /// Removes the text of a line.
    pub(super) fn remove_text(&self, line: i64) -> Result<()> {
        let searched: Option<i64> = self.one("SELECT searched FROM about", [], |row| row.get(0))?;
        if searched.is_some_and(|searched| line <= searched) {
            self.execute("DELETE FROM text WHERE rowid = ?1", [line])?;
        }
        Ok(())
    }

    /// Returns issues whose texts contain all words, as whole words or prefixes. Open issues come first, then matches in the
    /// title.
    pub fn search(&self, words: &[String], window: impl Into<Window>) -> Result<Vec<Summary>> {
        let words: Vec<&str> = words.iter().flat_map(|words| words.split_whitespace()).collect();
        let window = window.into();
        let (limit, mut condition) = (sql_limit(window.limit), Condition::default());
        if words.is_empty() || words.len() > MAX_WORDS {
            return Err(Error::invalid(format!("a search takes 1 to {MAX_WORDS} words, not {}", words.len())));
        }
        if words.iter().any(|word| !is_tokenized(word)) {
            let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
            let order = scan_order();
            condition.after(&order, window.after.as_ref())?;
            let sql = format!("category < 4{}{} ORDER BY {}", self.only(), condition.further(), order.sql());
            return self.scan(&sql, &condition.values(), limit, |issue| {
                let text = format!("{}\n{}", issue.title, body(issue)).to_lowercase();
                words.iter().all(|word| text.contains(word))
            });
        }
        if self.unsearched()?.is_some() {
            self.index_texts()?;
        }
        let (order, words) = (rank_order(), condition.value(quoted(&words)));
        condition.after(&order, window.after.as_ref())?;
        let sql = format!(
            "WITH found AS MATERIALIZED (SELECT {SUMMARY}, {RANK} FROM text JOIN issue ON issue.line = text.rowid \
             WHERE text MATCH {words} AND category < 4{}) SELECT * FROM found WHERE TRUE{} ORDER BY {} LIMIT {limit}",
            self.only(),
            condition.further(),
            order.sql()
        );
        self.all(&sql, condition.values().as_slice(), summary)
    }

    /// Returns the position of a found issue in the results of a search. It changes with the texts of other issues, because
    /// rare words count more.
    pub fn search_position(&self, words: &[String], id: &str) -> Result<Position> {
        let words: Vec<&str> = words.iter().flat_map(|words| words.split_whitespace()).collect();
        if words.iter().any(|word| !is_tokenized(word)) {
            return self.position(&scan_order(), id);
        }
        let columns = rank_order().columns();
        let sql = format!(
            "WITH found AS MATERIALIZED (SELECT {SUMMARY}, {RANK} FROM text JOIN issue ON issue.line = text.rowid \
             WHERE text MATCH ?1 AND issue.id = ?2) SELECT {columns} FROM found"
        );
        let read = |row: &rusqlite::Row<'_>| (0..4).map(|key| row.get_ref(key).map(position_value)).collect();
        self.one(&sql, (quoted(&words), id), read)?.ok_or_else(|| self.inconsistent())
    }
}

/// The columns of a result by which results are sorted. The rank is a whole number, so that positions are exact.
const RANK: &str = "category >= 3 AS is_closed, CAST(bm25(text, 10.0, 1.0) * 1e12 AS INTEGER) AS best";

fn rank_order() -> Order {
    Order::ascending(&["is_closed", "best", "priority", "id"])
}

fn scan_order() -> Order {
    Order::ascending(&["(category >= 3)", "priority", "issue.id"])
}

/// Returns a query for FTS5. Quotes keep it from reading operators in a word.
fn quoted(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{}\" *", word.replace('"', "\"\""))).collect();
    quoted.join(" ")
}

/// Returns all texts of an issue except its title.
fn body(issue: &Issue) -> String {
    let texts = [&issue.id, &issue.description, &issue.design, &issue.acceptance_criteria, &issue.notes];
    let comments = issue.comments.iter().map(|comment| &comment.text);
    texts.into_iter().chain(comments).map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Returns whether the tokenizer can find a word: it has letters or digits, in a script that puts spaces between words.
fn is_tokenized(word: &str) -> bool {
    let without_spaces = |char: char| matches!(char, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..);
    word.chars().any(char::is_alphanumeric) && !word.chars().any(without_spaces)
}
