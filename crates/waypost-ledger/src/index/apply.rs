//! Bringing the index up to date: only the lines that changed are read, only what they touch is decided anew.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use foldhash::fast::RandomState;
use foldhash::quality::FixedState;
use waypost_core::Result;
use waypost_core::ledger::document::{Content, Document, is_marker, text_of};
use waypost_core::ledger::issue::{Issue, Visibility};
use waypost_core::ledger::merge;
use waypost_core::ledger::ready::{self, Facts, Hold, Inherit as _, Inherited, Issues, Link, Standing};
use waypost_core::ledger::record::{Fields, Record};
use waypost_core::ledger::vocabulary::{Category, DependencyKind, Terms};
use waypost_core::time::Timestamp;
use waypost_fs::{FileVersion, Stamp};

use super::Index;
use crate::file::LedgerFile;

/// A ledger's file as it was read.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a Path,
    /// Its lines; merged, if a merge left conflict markers in it.
    pub(crate) document: Document,
    pub(crate) is_conflicted: bool,
    pub(crate) seen: FileVersion,
}

/// What is remembered of a line: its hash, and its row. Row 0 is no issue, row -1 could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    hash: u64,
    line: i64,
}

/// What is remembered of a ledger's lines, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks(Vec<Mark>);

impl Marks {
    const SIZE: usize = 16;

    fn from_bytes(bytes: &[u8]) -> Marks {
        let (marks, _) = bytes.as_chunks::<{ Marks::SIZE }>();
        let mark = |bytes: &[u8; Marks::SIZE]| {
            let both = u128::from_le_bytes(*bytes);
            #[expect(clippy::cast_possible_truncation, reason = "it is two numbers in one")]
            let (hash, line) = (both as u64, (both >> 64) as u64);
            Mark { hash, line: line.cast_signed() }
        };
        Marks(marks.iter().map(mark).collect())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * Self::SIZE);
        for mark in &self.0 {
            bytes.extend_from_slice(&mark.hash.to_le_bytes());
            bytes.extend_from_slice(&mark.line.to_le_bytes());
        }
        bytes
    }

    fn unread(&self) -> usize {
        self.0.iter().filter(|mark| mark.line < 0).count()
    }
}

/// What came of following a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    Same,
    Changed,
    /// So much is different that an index is made faster than changed.
    TooFar,
}

/// The lines of a file, compared with those that are known.
#[derive(Clone)]
struct News {
    hasher: FixedState,
    old: Vec<Mark>,
    /// How many lines are the same, from the first one on.
    head: usize,
    /// The known lines after that which were not met again yet.
    spare: Option<Spare>,
    /// The lines after that.
    marks: Vec<Mark>,
    /// Those of them that are new, by place.
    new: Vec<(usize, Vec<u8>)>,
    /// Whether there are conflict markers.
    is_conflicted: bool,
}

impl News {
    fn take(&mut self, line: &[u8]) {
        self.is_conflicted |= is_marker(line);
        let hash = self.hasher.hash_one(line);
        if self.spare.is_none() && self.old.get(self.head).is_some_and(|mark| mark.hash == hash) {
            self.head += 1;
            return;
        }
        // Lines that only moved are still known; those of one hash are the same.
        let spare = self.spare.get_or_insert_with(|| Spare::of(&self.old[self.head..]));
        let known = spare.0.get_mut(&hash).and_then(Vec::pop);
        if known.is_none() {
            self.new.push((self.marks.len(), line.to_vec()));
        }
        self.marks.push(Mark { hash, line: known.unwrap_or(0) });
    }
}

/// Known lines by their hash.
#[derive(Clone)]
struct Spare(HashMap<u64, Vec<i64>, RandomState>);

impl Spare {
    fn of(marks: &[Mark]) -> Spare {
        let mut spare: HashMap<u64, Vec<i64>, RandomState> = HashMap::default();
        for mark in marks {
            spare.entry(mark.hash).or_default().push(mark.line);
        }
        Spare(spare)
    }
}

/// What stands in a line, for the index.
enum Line<'a> {
    Issue(Box<Issue>, &'a str),
    Nothing,
    Unread,
}

fn read(line: &[u8]) -> Line<'_> {
    let text = match text_of(line) {
        Ok(text) => text,
        // A marker that is still there could not be understood.
        Err(Content::Damaged(_) | Content::Marker) => return Line::Unread,
        Err(_) => return Line::Nothing,
    };
    match Fields::parse(text).map(|fields| Issue::read(&fields)) {
        Ok(Some((issue, _))) => Line::Issue(Box::new(issue), text),
        Ok(None) => Line::Nothing,
        Err(_) => Line::Unread,
    }
}

/// A row of `issue`, without its standing, and its edges.
struct Row {
    line: i64,
    ledger: i64,
    facts: Facts,
    title: String,
    issue_type: String,
    assignee: Option<String>,
    updated_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    due_at: Option<Timestamp>,
    edges: Vec<(String, String)>,
    /// What several lines say together.
    united: Option<String>,
}

impl Row {
    fn of(issue: Issue, line: i64, ledger: i64, united: Option<String>, terms: &Terms) -> Row {
        // In the order of the table, and each once, although a file may say it twice.
        let blockers: BTreeSet<&str> = issue.blockers().collect();
        let blockers = blockers.into_iter().map(str::to_owned).collect();
        let edge = |edge: waypost_core::ledger::issue::Dependency| {
            let kind = edge.kind.map_or(edge.word, |kind| kind.as_str().to_owned());
            (edge.depends_on_id, kind)
        };
        Row {
            line,
            ledger,
            facts: Facts {
                id: issue.id,
                category: terms.statuses.category(&issue.status),
                status: issue.status,
                is_epic: issue.issue_type == "epic",
                is_pinned: issue.pinned,
                priority: issue.priority,
                created_at: issue.created_at,
                defer_until: issue.defer_until,
                labels: issue.labels,
                blockers,
                parent_id: issue.parent_id,
            },
            title: issue.title,
            issue_type: issue.issue_type,
            assignee: issue.assignee,
            updated_at: issue.updated_at,
            closed_at: issue.closed_at,
            due_at: issue.due_at,
            edges: issue.dependencies.into_iter().map(edge).collect(),
            united,
        }
    }
}

/// A line of an issue.
#[derive(Clone, Copy)]
struct Version<'a> {
    line: i64,
    ledger: i64,
    raw: &'a str,
}

/// Of several versions of an issue the one counts that is visible to most, then the one that was changed last, or the one
/// with the greater text.
fn precedence(raw: &str) -> Option<(Visibility, Option<Timestamp>, &str)> {
    let Line::Issue(issue, raw) = read(raw.as_bytes()) else { return None };
    Some((issue.visibility(), issue.updated_at, raw))
}

/// Tells whether a copy says that its issue was deleted, or proposed and closed.
fn is_turned_down(issue: &Issue, terms: &Terms) -> bool {
    match terms.statuses.category(&issue.status) {
        Category::Deleted => issue.visibility() != Visibility::Local,
        category => category.is_over() && issue.visibility() == Visibility::Proposed,
    }
}

/// Returns what several lines of one id say together.
pub(super) fn unite<'a>(lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let records: Vec<Record> = lines.filter_map(|line| Record::parse(line).ok()).collect();
    (!records.is_empty()).then(|| merge::unite(&records.iter().collect::<Vec<_>>()).to_line())
}

/// All issues, while an index is built from nothing.
struct Crowd {
    rows: HashMap<String, Row, RandomState>,
    /// The issues that have parts which are not over.
    open_parents: HashSet<String, RandomState>,
}

impl Issues for Crowd {
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
        self.rows.get(id).map(|row| Cow::Borrowed(&row.facts))
    }

    fn category(&self, id: &str) -> Option<Category> {
        self.rows.get(id).map(|row| row.facts.category)
    }

    fn has_open_child(&self, id: &str) -> bool {
        self.open_parents.contains(id)
    }

    fn leased_to_another(&self, _id: &str) -> Option<String> {
        None
    }
}

/// An issue as the index has it.
struct Kept {
    /// Without its blockers.
    facts: Facts,
    waits_for: usize,
    above: Hold,
}

impl Kept {
    const SELECT: &str = "SELECT category, status, issue_type, is_pinned, priority, created_at, defer_until, labels, \
                          parent_id, waits_for, is_held, freed_at FROM issue WHERE id = ?1";

    fn read(id: &str, row: &rusqlite::Row<'_>) -> rusqlite::Result<Kept> {
        let moment = |column| row.get::<_, Option<i64>>(column).map(|at| at.map(Timestamp::from_millis));
        Ok(Kept {
            facts: Facts {
                id: id.to_owned(),
                category: category(row.get(0)?),
                status: row.get(1)?,
                is_epic: row.get_ref(2)?.as_str()? == "epic",
                is_pinned: row.get(3)?,
                priority: row.get(4)?,
                created_at: moment(5)?,
                defer_until: moment(6)?,
                labels: labels_from_text(row.get_ref(7)?.as_str()?),
                blockers: Vec::new(),
                parent_id: row.get(8)?,
            },
            waits_for: row.get(9)?,
            above: Hold { is_held: row.get(10)?, freed_at: moment(11)? },
        })
    }

    /// Returns how it holds its parts, apart from what is above it.
    fn hold(&self) -> Hold {
        Hold::by(&self.facts, self.waits_for)
    }

    fn standing(&self) -> Standing {
        Standing { waits_for: self.waits_for, above: self.above, ..Standing::default() }
    }
}

impl Index {
    /// Fills an empty index.
    pub(crate) fn fill(&self, sources: &[Source<'_>], now: Timestamp) -> Result<()> {
        let mut rows: HashMap<String, Row, RandomState> = HashMap::default();
        let mut several: BTreeSet<String> = BTreeSet::new();
        let mut last = 0;
        for (number, source) in sources.iter().enumerate() {
            let ledger = ledger_row(number);
            let mut marks = Marks::default();
            for bytes in source.document.lines() {
                let line = match read(bytes) {
                    Line::Issue(issue, raw) => {
                        last += 1;
                        self.execute(
                            "INSERT INTO line (line, ledger, id, raw) VALUES (?1, ?2, ?3, ?4)",
                            (last, ledger, &issue.id, raw),
                        )?;
                        if rows.contains_key(&issue.id) {
                            several.insert(issue.id);
                        } else {
                            rows.insert(issue.id.clone(), Row::of(*issue, last, ledger, None, &self.terms));
                        }
                        last
                    }
                    Line::Nothing => 0,
                    Line::Unread => -1,
                };
                marks.0.push(Mark { hash: self.hash(bytes), line });
            }
            self.write_ledger(ledger, source, &marks)?;
        }
        if !several.is_empty() {
            self.sql(|connection| connection.execute_batch("CREATE INDEX line_by_id ON line (id)"))?;
        }
        for id in several {
            let row = self.counting_row(&id)?;
            rows.extend(row.map(|row| (id, row)));
        }
        let open = rows.values().filter(|row| !row.facts.category.is_over());
        let open_parents = open.filter_map(|row| row.facts.parent_id.clone()).collect();
        let crowd = Crowd { rows, open_parents };
        let mut ids: Vec<&String> = crowd.rows.keys().collect();
        // In the order of the table, each row goes to its end.
        ids.sort_unstable();
        let waits_for = |facts: &Facts| ready::waits_for(facts, &crowd, self.terms.ignore_unresolved);
        let mut inherited = Inherited::default();
        for id in ids {
            let row = &crowd.rows[id];
            let above = inherited.of(row.facts.parent_id.as_deref(), |id| {
                let facts = &crowd.rows.get(id)?.facts;
                Some(Link::Unknown(Hold::by(facts, waits_for(facts)), facts.parent_id.clone()))
            });
            self.write_row(row, ready::standing(&row.facts, waits_for(&row.facts), above, &crowd))?;
        }
        self.sql(|connection| connection.execute_batch(include_str!("indexes.sql")))?;
        self.raise_revision(now)
    }

    /// Brings one ledger up to date with what was read of its file.
    pub(crate) fn follow(&self, number: usize, source: &Source<'_>) -> Result<Followed> {
        let mut news = self.news(number)?;
        source.document.lines().for_each(|line| news.take(line));
        news.is_conflicted = source.is_conflicted;
        self.take(number, news, source.path, &source.seen)
    }

    /// Brings one ledger up to date with its file, without keeping more of it than the lines that are new.
    pub(crate) fn follow_file(&self, number: usize, file: &LedgerFile) -> Result<Followed> {
        let news = self.news(number)?;
        let (news, seen) = file.scan(|| news.clone(), News::take)?;
        if news.is_conflicted {
            // What it says can only be told from the whole of it.
            return self.follow(number, &file.source()?);
        }
        self.take(number, news, file.path(), &seen)
    }

    fn news(&self, number: usize) -> Result<News> {
        let old = self.marks(number)?.0;
        Ok(News {
            hasher: FixedState::with_seed(self.salt),
            old,
            head: 0,
            spare: None,
            marks: Vec::new(),
            new: Vec::new(),
            is_conflicted: false,
        })
    }

    fn take(&self, number: usize, mut news: News, path: &Path, seen: &FileVersion) -> Result<Followed> {
        // As many more lines as there were already are faster read into an index that is made anew.
        if news.new.len() > 500 && news.new.len() * 3 > news.head + news.marks.len() {
            return Ok(Followed::TooFar);
        }
        let ledger = ledger_row(number);
        let spare = news.spare.take().unwrap_or_else(|| Spare::of(&news.old[news.head..]));
        let gone: Vec<i64> = spare.0.into_values().flatten().collect();
        let is_changed = !gone.is_empty() || !news.new.is_empty();
        let lines = self.apply(ledger, &gone, news.new.iter().map(|(_, line)| line.as_slice()))?;
        for ((place, _), line) in news.new.iter().zip(lines) {
            news.marks[*place].line = line;
        }
        let mut marks = news.old;
        marks.truncate(news.head);
        marks.append(&mut news.marks);
        let stamp = kept(seen);
        if is_changed {
            self.write_marks(ledger, path, stamp, news.is_conflicted, &Marks(marks))?;
        } else {
            self.execute("UPDATE ledger SET stamp = ?2 WHERE ledger = ?1", (ledger, stamp))?;
        }
        Ok(if is_changed { Followed::Changed } else { Followed::Same })
    }

    /// Takes one line in the place of another, or of none, into the index, as part of a change that is being made.
    pub(crate) fn exchange(
        &self,
        number: usize,
        marks: &mut Marks,
        place: usize,
        old: bool,
        new: Option<&[u8]>,
    ) -> Result<()> {
        if place + usize::from(old) > marks.0.len() {
            return Err(self.torn());
        }
        let gone: Vec<i64> = if old { vec![marks.0[place].line] } else { Vec::new() };
        let lines = self.apply(ledger_row(number), &gone, new)?;
        let mark = match (new, lines.as_slice()) {
            (Some(new), [line]) => Some(Mark { hash: self.hash(new), line: *line }),
            _ => None,
        };
        match (old, mark) {
            (true, Some(mark)) => marks.0[place] = mark,
            (true, None) => drop(marks.0.remove(place)),
            (false, Some(mark)) => marks.0.insert(place, mark),
            (false, None) => {}
        }
        Ok(())
    }

    /// Takes the lines at these places, which are in order, out of the index, as part of a change that is being made.
    pub(crate) fn remove_lines(&self, number: usize, marks: &mut Marks, places: &[usize]) -> Result<()> {
        if places.last().is_some_and(|last| *last >= marks.0.len()) {
            return Err(self.torn());
        }
        let gone: Vec<i64> = places.iter().map(|place| marks.0[*place].line).collect();
        self.apply(ledger_row(number), &gone, None)?;
        let mut place = 0..;
        marks.0.retain(|_| place.next().is_none_or(|place| places.binary_search(&place).is_err()));
        Ok(())
    }

    /// Remembers that a ledger's file was written by us. Somebody may change it in the same tick of the clock, so its
    /// stamp is only taken by the next one who reads it.
    pub(crate) fn wrote(&self, number: usize, path: &Path, marks: &Marks) -> Result<()> {
        self.write_marks(ledger_row(number), path, None, false, marks)
    }

    pub(crate) fn marks(&self, number: usize) -> Result<Marks> {
        let marks = self.one("SELECT marks FROM ledger WHERE ledger = ?1", [ledger_row(number)], |row| {
            row.get_ref(0)?.as_blob().map(Marks::from_bytes).map_err(Into::into)
        })?;
        Ok(marks.unwrap_or_default())
    }

    /// Tells whether the index is of these files, and which of them are as they were read.
    pub(crate) fn freshness(&self, files: &[(&Path, Option<Stamp>)]) -> Result<Option<Vec<bool>>> {
        let kept = self.all("SELECT path, stamp FROM ledger ORDER BY ledger", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })?;
        let is_of_them = kept.len() == files.len()
            && kept.iter().zip(files).all(|((known, _), (path, _))| known == path.as_os_str().as_bytes());
        let is_fresh = |((_, kept), (_, now)): (&(_, Option<Vec<u8>>), &(_, Option<Stamp>))| {
            kept.as_ref().is_some_and(|kept| *kept == now.map(Stamp::to_bytes).unwrap_or_default())
        };
        Ok(is_of_them.then(|| kept.iter().zip(files).map(is_fresh).collect()))
    }

    /// Says that something changed.
    pub(crate) fn raise_revision(&self, now: Timestamp) -> Result<()> {
        // The time keeps it growing over an index that is made anew.
        self.execute("UPDATE about SET revision = max(revision + 1, ?1)", [now.as_millis()]).map(drop)
    }

    /// Takes lines out and others in. Returns the rows of the new ones.
    fn apply<'a>(&self, ledger: i64, gone: &[i64], new: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<i64>> {
        let mut touched = BTreeSet::new();
        for line in gone.iter().filter(|line| **line > 0) {
            self.forget_text(*line)?;
            let id = self.one("DELETE FROM line WHERE line = ?1 RETURNING id", [line], |row| row.get(0))?;
            touched.extend(id);
        }
        let mut lines = Vec::new();
        for bytes in new {
            lines.push(match read(bytes) {
                Line::Issue(issue, raw) => {
                    let line = self.insert_line(ledger, &issue.id, raw)?;
                    touched.insert(issue.id);
                    line
                }
                Line::Nothing => 0,
                Line::Unread => -1,
            });
        }
        self.decide(&touched)?;
        Ok(lines)
    }

    /// Decides anew about issues some of whose lines came or went, and about those that depend on them.
    ///
    /// How an issue holds its parts seldom changes: then nothing below it is looked at.
    fn decide(&self, touched: &BTreeSet<String>) -> Result<()> {
        let mut affected = touched.clone();
        // Those that hold their parts in another way now.
        let mut roots: Vec<String> = Vec::new();
        // Those that wait for more or fewer others now, although they did not change themselves.
        let mut waiting: BTreeMap<String, i64> = BTreeMap::new();
        let mut changes = Vec::new();
        for id in touched {
            let before = self.kept(id)?;
            let row = self.counting_row(id)?;
            self.execute("DELETE FROM edge WHERE id = ?1", [id])?;
            if let Some(row) = &row {
                self.write_row(row, before.as_ref().map(Kept::standing).unwrap_or_default())?;
            } else {
                self.execute("DELETE FROM issue WHERE id = ?1", [id])?;
            }
            changes.push((before, row.map(|row| row.facts)));
        }
        for (id, (before, after)) in touched.iter().zip(&changes) {
            let sides = [before.as_ref().map(|kept| &kept.facts), after.as_ref()];
            let [was_awaited, is_awaited] = sides.map(|facts| {
                i64::from(ready::keeps_waiting(facts.map(|facts| facts.category), self.terms.ignore_unresolved))
            });
            if was_awaited != is_awaited {
                for other in self.ids("SELECT id FROM edge WHERE other = ?1 AND kind = 'blocks'", id)? {
                    *waiting.entry(other).or_default() += is_awaited - was_awaited;
                }
            }
            let [was_part, is_part] =
                sides.map(|facts| facts.map(|facts| (&facts.parent_id, facts.category.is_over())));
            if was_part != is_part {
                affected.extend([was_part, is_part].into_iter().flatten().filter_map(|(parent, _)| parent.clone()));
            }
            let waits_for = after.as_ref().map(|facts| ready::waits_for(facts, self, self.terms.ignore_unresolved));
            self.write_waits_for(id, waits_for.unwrap_or_default())?;
            let hold_before = before.as_ref().map(|kept| (kept.hold(), &kept.facts.parent_id));
            let hold_after = after.as_ref().zip(waits_for);
            if hold_before != hold_after.map(|(facts, waits_for)| (Hold::by(facts, waits_for), &facts.parent_id)) {
                roots.push(id.clone());
            }
        }
        for (id, more) in waiting {
            let Some(mut kept) = self.kept(&id)?.filter(|_| !touched.contains(&id)) else { continue };
            let before = kept.hold();
            kept.waits_for = kept.waits_for.saturating_add_signed(isize::try_from(more).unwrap_or_default());
            self.write_waits_for(&id, kept.waits_for)?;
            if kept.hold() != before {
                roots.push(id.clone());
            }
            affected.insert(id);
        }
        let below = self.with_all_parts(roots)?;
        affected.extend(below.iter().cloned());
        self.decide_standings(&affected, &below)
    }

    /// Returns issues and their parts, at any depth.
    fn with_all_parts(&self, mut ids: Vec<String>) -> Result<HashSet<String, RandomState>> {
        let mut found: HashSet<String, RandomState> = HashSet::default();
        while let Some(id) = ids.pop() {
            if found.insert(id.clone()) {
                ids.extend(self.ids("SELECT id FROM issue WHERE parent_id = ?1", &id)?);
            }
        }
        Ok(found)
    }

    /// Decides how issues stand. Those in `undecided` inherit something else than the index has of them; it has all parts
    /// of each.
    fn decide_standings(&self, ids: &BTreeSet<String>, undecided: &HashSet<String, RandomState>) -> Result<()> {
        let mut inherited = Inherited::default();
        for id in ids {
            let Some(kept) = self.kept(id)? else { continue };
            let above = inherited.of(kept.facts.parent_id.as_deref(), |id| {
                // If it fails the index says so, and this answer is not used.
                let kept = self.kept(id).ok().flatten()?;
                Some(if undecided.contains(id) {
                    Link::Unknown(kept.hold(), kept.facts.parent_id)
                } else {
                    Link::Known(kept.hold().over(&kept.above))
                })
            });
            self.write_standing(id, ready::standing(&kept.facts, kept.waits_for, above, self))?;
        }
        Ok(())
    }

    fn kept(&self, id: &str) -> Result<Option<Kept>> {
        self.one(Kept::SELECT, [id], |row| Kept::read(id, row))
    }

    fn write_waits_for(&self, id: &str, waits_for: usize) -> Result<()> {
        self.execute("UPDATE issue SET waits_for = ?2 WHERE id = ?1 AND waits_for != ?2", (id, waits_for)).map(drop)
    }

    /// Returns the row of an issue, from its lines.
    fn counting_row(&self, id: &str) -> Result<Option<Row>> {
        let lines = self.all("SELECT line, ledger, raw FROM line WHERE id = ?1", [id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?))
        })?;
        let versions: Vec<Version<'_>> =
            lines.iter().map(|(line, ledger, raw)| Version { line: *line, ledger: *ledger, raw }).collect();
        Ok(self.counting(&versions))
    }

    /// Decides what the versions of an issue say: those of one ledger together, and of several ledgers the one that
    /// counts.
    fn counting(&self, versions: &[Version<'_>]) -> Option<Row> {
        let mut ledgers: BTreeMap<i64, Vec<Version<'_>>> = BTreeMap::new();
        for version in versions {
            ledgers.entry(version.ledger).or_default().push(*version);
        }
        let said = |versions: Vec<Version<'_>>| {
            let first = versions.iter().max_by_key(|version| precedence(version.raw))?;
            let united = (versions.len() > 1).then(|| unite(versions.iter().map(|version| version.raw))).flatten();
            let Line::Issue(issue, _) = read(united.as_deref().unwrap_or(first.raw).as_bytes()) else { return None };
            Some((*issue, first.line, first.ledger, united))
        };
        let copies: Vec<_> = ledgers.into_values().filter_map(said).collect();
        let is_planned = copies.iter().any(|(issue, ..)| issue.visibility() == Visibility::Local);
        // Two copies that are the same are the first ledger's.
        let (issue, line, ledger, united) = copies.into_iter().max_by_key(|(issue, line, ledger, _)| {
            let raw = versions.iter().find(|version| version.line == *line).map(|version| version.raw);
            // What was turned down is its author's planning again.
            let is_turned_down = is_planned && is_turned_down(issue, &self.terms);
            (!is_turned_down, issue.visibility(), issue.updated_at, raw, Reverse(*ledger))
        })?;
        Some(Row::of(issue, line, ledger, united, &self.terms))
    }

    fn ids(&self, sql: &str, id: &str) -> Result<Vec<String>> {
        self.all(sql, [id], |row| row.get(0))
    }

    fn hash(&self, line: &[u8]) -> u64 {
        FixedState::with_seed(self.salt).hash_one(line)
    }

    /// Inserts a line, after all that are there and all that are searched: a row is never mistaken for one that was.
    fn insert_line(&self, ledger: i64, id: &str, raw: &str) -> Result<i64> {
        self.execute(
            "INSERT INTO line (line, ledger, id, raw) VALUES (\
             1 + max((SELECT coalesce(max(line), 0) FROM line), (SELECT searched FROM about)), ?1, ?2, ?3)",
            (ledger, id, raw),
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn write_ledger(&self, ledger: i64, source: &Source<'_>, marks: &Marks) -> Result<()> {
        self.write_marks(ledger, source.path, kept(&source.seen), source.is_conflicted, marks)
    }

    fn write_marks(
        &self,
        ledger: i64,
        path: &Path,
        stamp: Option<Vec<u8>>,
        is_conflicted: bool,
        marks: &Marks,
    ) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO ledger (ledger, path, stamp, unread, conflicted, marks) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (ledger, path.as_os_str().as_bytes(), stamp, marks.unread(), is_conflicted, marks.to_bytes()),
        )
        .map(drop)
    }

    fn write_row(&self, row: &Row, standing: Standing) -> Result<()> {
        let facts = &row.facts;
        let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
        self.execute(
            "INSERT OR REPLACE INTO issue (id, line, ledger, title, status, category, priority, issue_type, assignee, created_at, \
             updated_at, closed_at, due_at, defer_until, parent_id, labels, is_pinned, urgency, is_ready, waits_for, \
             is_held, wakes_at, freed_at, united) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24)",
            rusqlite::params![
                facts.id,
                row.line,
                row.ledger,
                row.title,
                facts.status,
                code(facts.category),
                facts.priority,
                row.issue_type,
                row.assignee,
                millis(facts.created_at),
                millis(row.updated_at),
                millis(row.closed_at),
                millis(row.due_at),
                millis(facts.defer_until),
                facts.parent_id,
                labels_to_text(&facts.labels),
                facts.is_pinned,
                ready::urgency(&facts.labels),
                standing.is_ready,
                standing.waits_for,
                standing.above.is_held,
                millis(standing.wakes_at),
                millis(standing.above.freed_at),
                row.united,
            ],
        )?;
        for (other, kind) in &row.edges {
            // A file may say it twice.
            self.execute("INSERT OR IGNORE INTO edge (id, other, kind) VALUES (?1, ?2, ?3)", (&facts.id, other, kind))?;
        }
        Ok(())
    }

    fn write_standing(&self, id: &str, standing: Standing) -> Result<()> {
        self.execute(
            "UPDATE issue SET is_ready = ?2, waits_for = ?3, is_held = ?4, wakes_at = ?5, freed_at = ?6 \
             WHERE id = ?1 AND (is_ready, waits_for, is_held, wakes_at, freed_at) IS NOT (?2, ?3, ?4, ?5, ?6)",
            (
                id,
                standing.is_ready,
                standing.waits_for,
                standing.above.is_held,
                standing.wakes_at.map(Timestamp::as_millis),
                standing.above.freed_at.map(Timestamp::as_millis),
            ),
        )
        .map(drop)
    }
}

impl Issues for Index {
    fn facts(&self, id: &str) -> Option<Cow<'_, Facts>> {
        // If it failed the index says so, and this answer is not used.
        let blockers = self.ids("SELECT other FROM edge WHERE id = ?1 AND kind = 'blocks'", id).ok()?;
        let kept = self.kept(id).ok().flatten()?;
        Some(Cow::Owned(Facts { blockers, ..kept.facts }))
    }

    fn category(&self, id: &str) -> Option<Category> {
        let found = self.one("SELECT category FROM issue WHERE id = ?1", [id], |row| row.get(0));
        found.ok().flatten().map(category)
    }

    fn has_open_child(&self, id: &str) -> bool {
        let child = self.one("SELECT 1 FROM issue WHERE parent_id = ?1 AND category < 3 LIMIT 1", [id], |_| Ok(()));
        child.ok().flatten().is_some()
    }

    /// Leases live in the store, which does not know issues yet. Being in progress keeps an issue out already.
    fn leased_to_another(&self, _id: &str) -> Option<String> {
        None
    }
}

/// What is kept of a file's stamp: empty if there was no file, nothing if a change might not show in it.
fn kept(seen: &FileVersion) -> Option<Vec<u8>> {
    if seen.exists() { seen.stamp().map(Stamp::to_bytes) } else { Some(Vec::new()) }
}

fn ledger_row(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Categories as numbers: what is below 3 is not over.
const CATEGORIES: [Category; 5] =
    [Category::Active, Category::Wip, Category::Frozen, Category::Done, Category::Deleted];

fn code(category: Category) -> usize {
    CATEGORIES.iter().position(|known| *known == category).unwrap_or(0)
}

fn category(code: usize) -> Category {
    CATEGORIES.get(code).copied().unwrap_or(Category::Frozen)
}

/// Labels as one text in which each can be looked for.
fn labels_to_text(labels: &[String]) -> String {
    // One that a file brings with several lines must not look like several labels.
    let labels: Vec<String> = labels.iter().map(|label| label.replace('\n', "\r")).collect();
    if labels.is_empty() { String::new() } else { format!("\n{}\n", labels.join("\n")) }
}

pub(super) fn labels_from_text(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\n').and_then(|text| text.strip_suffix('\n'));
    text.map(|text| text.split('\n').map(str::to_owned).collect()).unwrap_or_default()
}

/// The kind of edges that hold an issue back, as it stands in the statements above.
const _: () = assert!(matches!(DependencyKind::Blocks.as_str().as_bytes(), b"blocks"));

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 3_000;

    fn alone(number: usize, status: &str, more: &str) -> Vec<u8> {
        format!("{{\"id\":\"i{number:05}\",\"title\":\"t\",\"status\":\"{status}\"{more}}}").into_bytes()
    }

    fn line(number: usize, status: &str) -> Vec<u8> {
        let parent = number.checked_sub(1).map(|parent| format!(",\"parent_id\":\"i{parent:05}\""));
        alone(number, status, &parent.unwrap_or_default())
    }

    /// An index of a chain in which each issue is the parent of the next.
    fn chain() -> (Index, Marks) {
        let index = Index::in_memory(&Terms::default()).unwrap();
        index.fill(&[], Timestamp::from_millis(0)).unwrap();
        let mut marks = Marks::default();
        let lines: Vec<Vec<u8>> = (0..LONG).map(|number| line(number, "open")).collect();
        for (place, row) in index.apply(0, &[], lines.iter().map(Vec::as_slice)).unwrap().into_iter().enumerate() {
            marks.0.push(Mark { hash: index.hash(&lines[place]), line: row });
        }
        (index, marks)
    }

    /// Returns how many rows it takes to put another line in the place of one.
    fn rows_changed(index: &Index, marks: &mut Marks, place: usize, line: &[u8]) -> u64 {
        let before = index.connection.total_changes();
        index.exchange(0, marks, place, true, Some(line)).unwrap();
        index.connection.total_changes() - before
    }

    fn ready(index: &Index) -> usize {
        index.ready(Timestamp::from_millis(0), None).unwrap().len()
    }

    #[test]
    fn a_change_looks_below_an_issue_only_if_it_holds_its_parts_in_another_way() {
        let (index, mut marks) = chain();
        assert_eq!(ready(&index), LONG);
        for (place, status) in [(0, "closed"), (0, "open"), (LONG / 2, "in_progress"), (LONG - 1, "closed")] {
            let rows = rows_changed(&index, &mut marks, place, &line(place, status));
            assert!(rows < 10, "{rows} rows to make issue {place} {status}");
        }
        assert_eq!(ready(&index), LONG - 2);
        let aside = rows_changed(&index, &mut marks, 10, &line(10, "deferred"));
        assert!((LONG as u64 - 100..2 * LONG as u64).contains(&aside), "{aside} rows");
        assert_eq!(ready(&index), 10);
        // It is held in any case, so nothing changes below.
        let rows = rows_changed(&index, &mut marks, 20, &line(20, "deferred"));
        assert!(rows < 2 * LONG as u64, "{rows} rows");
        index.exchange(0, &mut marks, 10, true, Some(&line(10, "open"))).unwrap();
        assert_eq!(ready(&index), 20);
    }

    #[test]
    fn an_issue_that_waits_for_many_is_ready_when_all_are_closed_at_once() {
        let index = Index::in_memory(&Terms::default()).unwrap();
        index.fill(&[], Timestamp::from_millis(0)).unwrap();
        let on = |ids: std::ops::Range<usize>| {
            let edges: Vec<String> =
                ids.map(|id| format!("{{\"depends_on_id\":\"i{id:05}\",\"type\":\"blocks\"}}")).collect();
            format!(",\"dependencies\":[{}]", edges.join(","))
        };
        // The first waits for all others.
        let mut lines: Vec<Vec<u8>> = (0..LONG).map(|number| alone(number, "open", "")).collect();
        lines[0] = alone(0, "open", &on(1..LONG));
        let rows = index.apply(0, &[], lines.iter().map(Vec::as_slice)).unwrap();
        let waits_for = || index.kept("i00000").unwrap().unwrap().waits_for;
        assert_eq!(waits_for(), LONG - 1);
        let closed: Vec<Vec<u8>> = (1..LONG).map(|number| alone(number, "closed", "")).collect();
        index.apply(0, &rows[1..], closed.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(waits_for(), 0);
        assert_eq!(ready(&index), 1);
    }
}
