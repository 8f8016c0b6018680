//! Full-text search.
//!
//! Indexing the texts takes longer than the rest of the index. The first search therefore does it, and later ones only
//! index new lines.

use std::collections::BTreeSet;

use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::record::Record;
use waypost_core::{Error, Result};

use super::query::{Condition, Order, Position, SUMMARY, Window, position_value, sql_limit, summary};
use super::{Index, Summary};

/// Maximum number of words of one search.
const MAX_WORDS: usize = 100;

/// Maximum number of characters of one search. A word of many parts is a search for each of them.
pub const MAX_SEARCH: usize = 1_000;

/// If more issues than these match, ranking them all would take noticeable time.
pub const COMMON_WORDS: usize = 1_000;

/// The number of values in a position of results that are sorted by groups.
const GROUP_POSITION_KEYS: usize = 2;

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
        let searched: i64 = self.one("SELECT searched FROM about", [], |row| row.get(0))?.unwrap_or_default();
        let mut lines = self.all("SELECT line, rank FROM line WHERE line > ?1", [searched], |row| {
            Ok((text_row(row.get(0)?, row.get(1)?), row.get::<_, i64>(0)?))
        })?;
        // FTS5 writes its buffer to disk when a row number is smaller than the one before.
        lines.sort_unstable();
        for (text, line) in &lines {
            let raw = self.one("SELECT raw FROM line WHERE line = ?1", [line], |row| row.get::<_, String>(0))?;
            let issue = raw.and_then(|raw| Issue::read(&Record::parse(&raw).ok()?));
            if let Some((issue, _)) = issue {
                self.execute(
                    "INSERT INTO text (rowid, title, body) VALUES (?1, ?2, ?3)",
                    (text, &issue.title, body(&issue)),
                )?;
            }
        }
        let searched = lines.iter().map(|(_, line)| *line).max().unwrap_or(searched);
        self.execute("UPDATE about SET searched = ?1", [searched]).map(drop)
    }

    /// Removes the texts of lines, each given with its rank.
    pub(super) fn remove_texts(&self, lines: &[(i64, i64)]) -> Result<()> {
        let searched: i64 = self.one("SELECT searched FROM about", [], |row| row.get(0))?.unwrap_or_default();
        for (line, rank) in lines.iter().filter(|(line, _)| *line <= searched) {
            self.execute("DELETE FROM text WHERE rowid = ?1", [text_row(*line, *rank)])?;
        }
        Ok(())
    }

    /// Returns the rank of an issue in the results of a search for common words: see the column in `schema.sql`.
    pub(super) fn search_rank(&self, issue: &Issue) -> i64 {
        if self.terms.statuses.category(&issue.status).is_over() {
            return 0;
        }
        1 + 4 - i64::from(issue.priority.min(4))
    }

    /// Returns whether more than [`COMMON_WORDS`] issues contain these words. Then [`Self::search`] does not compute how well
    /// each of them matches.
    pub fn are_common(&self, words: &[String]) -> Result<bool> {
        let words = split(words)?;
        if words.iter().any(|word| !is_tokenized(word)) || self.unsearched()?.is_some() {
            return Ok(false);
        }
        // Most common words are whole words, and FTS5 reads the matches of a prefix all at once.
        for query in [exact(&words), quoted(&words)] {
            let sql = "SELECT count(*) FROM (SELECT 1 FROM text WHERE text MATCH ?1 LIMIT ?2)";
            if self.one(sql, (query, COMMON_WORDS + 1), |row| row.get(0))? > Some(COMMON_WORDS) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns issues whose texts contain all words, as whole words or prefixes.
    ///
    /// Open issues come first, then the best matches, of which those in the title count most. Ranking reads all matches. So
    /// if more than [`COMMON_WORDS`] issues match, they are sorted in another way, in which the first ones are found without
    /// reading the others: matches in the title first, then other whole words, then prefixes; in each group open issues by
    /// priority, then closed ones, last changed first.
    pub fn search(&self, words: &[String], window: impl Into<Window>) -> Result<Vec<Summary>> {
        let window = window.into();
        let all_words = words;
        let words = split(words)?;
        let (limit, mut condition) = (sql_limit(window.limit), Condition::default());
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
        if self.is_by_group(all_words, window.after.as_ref())? {
            return self.search_groups(&words, &window);
        }
        let (order, words) = (rank_order(), condition.value(quoted(&words)));
        condition.after(&order, window.after.as_ref())?;
        let sql = format!(
            "WITH found AS MATERIALIZED (SELECT {SUMMARY}, {RANK} FROM {TEXT_ISSUES} \
             WHERE text MATCH {words} AND category < 4{}) SELECT * FROM found WHERE TRUE{} ORDER BY {} LIMIT {limit}",
            self.only(),
            condition.further(),
            order.sql()
        );
        self.all(&sql, condition.values().as_slice(), summary)
    }

    /// Returns whether the results are sorted by groups: as the pages before, if there are any.
    fn is_by_group(&self, words: &[String], after: Option<&Position>) -> Result<bool> {
        match after {
            Some(after) => Ok(after.len() == GROUP_POSITION_KEYS),
            None => self.are_common(words),
        }
    }

    /// Returns the issues that match common words. Reads only the issues that it returns.
    fn search_groups(&self, words: &[&str], window: &Window) -> Result<Vec<Summary>> {
        let (first_group, mut before) = match window.after.as_deref() {
            None => (0, i64::MAX),
            Some([group, row]) => group
                .as_u64()
                .and_then(|group| usize::try_from(group).ok())
                .zip(row.as_i64())
                .ok_or_else(|| Error::invalid("the cursor is of another list"))?,
            Some(_) => return Err(Error::invalid("the cursor is of another list")),
        };
        let mut found = Vec::new();
        for group in groups(words).iter().skip(first_group) {
            let left = window.limit.map(|limit| limit.saturating_sub(found.len()));
            if left == Some(0) {
                break;
            }
            let sql = format!(
                "SELECT {SUMMARY} FROM {TEXT_ISSUES} WHERE text MATCH ?1 AND text.rowid < ?2 AND category < 4{} \
                 ORDER BY text.rowid DESC LIMIT ?3",
                self.only()
            );
            found.extend(self.all(&sql, (group, before, sql_limit(left)), summary)?);
            before = i64::MAX;
        }
        Ok(found)
    }

    fn group_position(&self, words: &[&str], id: &str) -> Result<Position> {
        let sql = "SELECT line, rank FROM line JOIN issue USING (line) WHERE issue.id = ?1";
        let row = self.one(sql, [id], |row| Ok(text_row(row.get(0)?, row.get(1)?)))?;
        let row = row.ok_or_else(|| self.inconsistent())?;
        let [in_title, whole, _] = groups(words);
        let matches = |group: &str| {
            let sql = "SELECT 1 FROM text WHERE text MATCH ?1 AND rowid = ?2";
            self.one(sql, (group, row), |_| Ok(())).map(|found| found.is_some())
        };
        let group = if matches(&in_title)? {
            0
        } else if matches(&whole)? {
            1
        } else {
            2
        };
        Ok(vec![group.into(), row.into()])
    }

    /// Returns the position of a found issue in the results of a search whose page begins after `after`. It changes with the
    /// texts of other issues, because rare words count more.
    pub fn search_position(&self, words: &[String], id: &str, after: Option<&Position>) -> Result<Position> {
        let all_words = words;
        let words = split(words)?;
        if words.iter().any(|word| !is_tokenized(word)) {
            return self.position(&scan_order(), id);
        }
        if self.is_by_group(all_words, after)? {
            return self.group_position(&words, id);
        }
        let columns = rank_order().columns();
        let sql = format!(
            "WITH found AS MATERIALIZED (SELECT {SUMMARY}, {RANK} FROM {TEXT_ISSUES} \
             WHERE text MATCH ?1 AND issue.id = ?2) SELECT {columns} FROM found"
        );
        let read = |row: &rusqlite::Row<'_>| (0..4).map(|key| row.get_ref(key).map(position_value)).collect();
        self.one(&sql, (quoted(&words), id), read)?.ok_or_else(|| self.inconsistent())
    }
}

/// Texts with their issues. A row of `text` has the number of its line in the low bits, and its rank above them.
const TEXT_ISSUES: &str = "text CROSS JOIN line ON line.line = (text.rowid & 0xffffffffffff) \
                           CROSS JOIN issue ON issue.id = line.id AND issue.line = line.line";

/// Returns the row in `text` of a line with a rank.
fn text_row(line: i64, rank: i64) -> i64 {
    line | rank << 48
}

/// Returns the words of a search, each once. Refuses a search that would take long, before any of it runs.
fn split(words: &[String]) -> Result<Vec<&str>> {
    let length: usize = words.iter().map(|word| word.chars().count()).sum();
    if length > MAX_SEARCH {
        return Err(Error::invalid(format!("a search has {length} characters, and at most {MAX_SEARCH} are allowed")));
    }
    let mut known = BTreeSet::new();
    // FTS5 reads a query until the first NUL.
    let words = words.iter().flat_map(|words| words.split(|char: char| char.is_whitespace() || char == '\0'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty() && known.insert(*word)).collect();
    if words.is_empty() || words.len() > MAX_WORDS {
        return Err(Error::invalid(format!("a search takes 1 to {MAX_WORDS} words, not {}", words.len())));
    }
    Ok(words)
}

/// The columns of a result by which results are sorted. The rank is a whole number, so that positions are exact.
const RANK: &str = "category >= 3 AS is_closed, CAST(bm25(text, 10.0, 1.0) * 1e12 AS INTEGER) AS best";

fn rank_order() -> Order {
    Order::ascending(&["is_closed", "best", "priority", "id"])
}

fn scan_order() -> Order {
    Order::ascending(&["(category >= 3)", "priority", "issue.id"])
}

/// Returns queries for groups of matches that exclude each other, best first.
fn groups(words: &[&str]) -> [String; 3] {
    let (exact, prefixes) = (exact(words), quoted(words));
    [format!("title : ({exact})"), format!("({exact}) NOT (title : ({exact}))"), format!("({prefixes}) NOT ({exact})")]
}

/// Returns a query for FTS5 that finds whole words.
fn exact(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    quoted.join(" ")
}

/// Returns a query for FTS5 that finds words and prefixes. Quotes keep it from reading operators in a word.
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
