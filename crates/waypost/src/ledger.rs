//! The ledger of the repository one stands in: its issues as they are now, and changes to them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use waypost_core::ledger::document::{Content, Document};
use waypost_core::ledger::issue::{Issue, Problem};
use waypost_core::ledger::ready::{self, Facts, Issues, Reason, Rules};
use waypost_core::ledger::record::Record;
use waypost_core::ledger::vocabulary::Statuses;
use waypost_core::ledger::{cycle, issue_id};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_ledger::LedgerFile;

use crate::place::Place;

/// How long to wait for somebody who is writing the ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// A ledger.
pub struct Ledger {
    file: LedgerFile,
    /// The worktree it belongs to.
    root: PathBuf,
    /// What the ids of new issues begin with.
    pub prefix: String,
    /// What statuses mean.
    pub statuses: Statuses,
}

impl Ledger {
    /// Opens the ledger of a place. Its file need not exist.
    pub fn of(place: &Place) -> Result<Ledger> {
        let checkout = place.require_checkout()?;
        let Some((path, _)) = place.ledger() else {
            return Err(Error::invalid("a bare repository without worktrees has no ledger")
                .hint("make a worktree first: way worktree add BRANCH"));
        };
        let prefix = place.config.text("prefix").unwrap_or_else(|| default_prefix(&checkout.repository_name()));
        let root = place.home_worktree.clone().unwrap_or_else(|| checkout.repository_path().to_owned());
        let marks = [root.join(".jj/working_copy/working_copy.lock"), root.join(".hg/wlock"), root.join(".sl/wlock")];
        let git = checkout.git_dir.iter().map(|git_dir| git_dir.join("index.lock"));
        let file = LedgerFile::new(path, checkout.private_dir.join("ledger.lock"), PATIENCE)
            .with_marks(git.chain(marks).collect());
        Ok(Ledger { file, root, prefix, statuses: Statuses::default() })
    }

    /// Returns the issues as they are now.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot::of(&self.file.read()?, &self.statuses))
    }

    /// Changes issues; all of it is on disk when this returns, or none of it.
    ///
    /// What `change` is given is what the file says at that moment, under the lock. It is asked again if a program that
    /// knows no lock swaps the file meanwhile.
    pub fn change<T>(&self, mut change: impl FnMut(&mut Draft<'_>) -> Result<T>) -> Result<T> {
        check_inside(self.file.path(), &self.root)?;
        self.file.change(|document| {
            let snapshot = Snapshot::of(document, &self.statuses);
            change(&mut Draft { document, snapshot })
        })
    }
}

/// A ledger that is being changed.
pub struct Draft<'a> {
    document: &'a mut Document,
    /// The issues as they were when the change began.
    pub snapshot: Snapshot,
}

impl Draft<'_> {
    /// Adds an issue.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        self.document.insert(record)
    }

    /// Changes one issue, and returns it as it is now.
    pub fn edit(&mut self, id: &str, edit: impl FnOnce(&mut Record) -> Result<()>) -> Result<Record> {
        let entry = self.snapshot.entry(id)?;
        // Lines may have moved since the change began; of several versions it is the one that counts.
        let is_it = |place: &usize| self.document.record(*place).is_ok_and(|record| record == entry.record);
        let Some(place) = self.document.places_of(id).into_iter().find(is_it) else {
            return Err(Error::internal(format!("issue {id} was changed twice at once")));
        };
        let mut record = entry.record.clone();
        edit(&mut record)?;
        if record != entry.record {
            self.document.replace(place, &record)?;
        }
        Ok(record)
    }
}

/// The issues of a ledger at one moment.
pub struct Snapshot {
    entries: BTreeMap<String, Entry>,
    /// What was found in readable lines that is not as it should be, with line numbers.
    pub problems: Vec<(usize, Problem)>,
    /// Lines that are no records: unreadable ones and conflict markers, with line numbers.
    pub damage: Vec<(usize, String)>,
    statuses: Statuses,
}

/// An issue, and the line it stands in.
pub struct Entry {
    /// The issue.
    pub issue: Issue,
    /// Its record.
    pub record: Record,
    place: usize,
}

impl Snapshot {
    fn of(document: &Document, statuses: &Statuses) -> Snapshot {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let mut problems = Vec::new();
        let mut damage = Vec::new();
        for (place, content) in document.contents().enumerate() {
            match content {
                Content::Damaged(why) => damage.push((place + 1, format!("cannot be read: {why}"))),
                Content::Marker => damage.push((place + 1, "a conflict marker".to_owned())),
                Content::Other => {
                    let is_known = |record: &Record| record.fields().any(|(key, _)| key.starts_with('_'));
                    if document.record(place).is_ok_and(|record| !is_known(&record)) {
                        problems.push((place + 1, Problem("a record without an id".to_owned())));
                    }
                }
                Content::Blank => {}
                Content::Issue(id) => {
                    let Ok(record) = document.record(place) else { continue };
                    let Some((issue, found)) = Issue::read(&record) else { continue };
                    problems.extend(found.into_iter().map(|problem| (place + 1, problem)));
                    let entry = Entry { issue, record, place };
                    if let Some(other) = entries.get(id) {
                        problems.push((place + 1, Problem(format!("{id} stands in line {} already", other.place + 1))));
                        // Of several versions the one that was changed last counts; the others stay in the file.
                        if Reverse(other.issue.updated_at) < Reverse(entry.issue.updated_at) {
                            continue;
                        }
                    }
                    entries.insert(id.clone(), entry);
                }
            }
        }
        Snapshot { entries, problems, damage, statuses: statuses.clone() }
    }

    /// Returns all issues, by id; deleted ones too.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns an issue by its whole id.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Returns the issue that somebody means: by its id, or the unique beginning of it.
    pub fn find(&self, wanted: &str) -> Result<&Entry> {
        let found = issue_id::resolve(self.entries.keys().map(String::as_str), wanted);
        let id = found.map_err(|error| match self.damage.len() {
            0 => error,
            lines => error.hint(format!("{lines} lines of the ledger cannot be read: way doctor")),
        })?;
        self.entry(id)
    }

    fn entry(&self, id: &str) -> Result<&Entry> {
        self.entries.get(id).ok_or_else(|| Error::not_found(format!("there is no issue {id:?}")))
    }

    /// Returns what keeps an issue from being ready.
    pub fn obstacles(&self, issue: &Issue, now: Timestamp) -> Vec<Reason> {
        ready::obstacles(&self.facts_of(issue), self, Rules { now, ignore_unresolved: false })
    }

    /// Returns the issues that can be worked on, the first one first.
    pub fn ready(&self, now: Timestamp) -> Vec<&Entry> {
        let mut ready: Vec<&Entry> =
            self.entries().filter(|entry| self.obstacles(&entry.issue, now).is_empty()).collect();
        ready.sort_by_cached_key(|entry| ready::order(&self.facts_of(&entry.issue)));
        ready
    }

    /// Returns the circle that would close if one issue waited for another.
    pub fn cycle(&self, waiting: &str, blocker: &str) -> Option<Vec<String>> {
        let blockers =
            |id: &str| self.entries.get(id).map(|entry| entry.issue.blockers().collect()).unwrap_or_default();
        cycle::closed_by(waiting, blocker, blockers)
    }

    /// Returns the circle that would close if one issue were a part of another.
    pub fn parent_cycle(&self, part: &str, whole: &str) -> Option<Vec<String>> {
        let parent =
            |id: &str| self.entries.get(id).and_then(|entry| entry.issue.parent_id.as_deref()).into_iter().collect();
        cycle::closed_by(part, whole, parent)
    }

    fn facts_of(&self, issue: &Issue) -> Facts {
        Facts {
            id: issue.id.clone(),
            category: self.statuses.category(&issue.status),
            status: issue.status.clone(),
            is_epic: issue.issue_type == "epic",
            is_pinned: issue.pinned,
            priority: issue.priority,
            created_at: issue.created_at,
            defer_until: issue.defer_until,
            labels: issue.labels.clone(),
            blockers: issue.blockers().map(str::to_owned).collect(),
            parent_id: issue.parent_id.clone(),
        }
    }
}

impl Issues for Snapshot {
    fn facts(&self, id: &str) -> Option<Facts> {
        self.entries.get(id).map(|entry| self.facts_of(&entry.issue))
    }

    fn has_open_child(&self, id: &str) -> bool {
        let is_open = |issue: &Issue| !self.statuses.category(&issue.status).is_over();
        self.entries().any(|entry| entry.issue.parent_id.as_deref() == Some(id) && is_open(&entry.issue))
    }

    /// Leases live in the store, which does not know issues yet. Being in progress keeps an issue out already.
    fn leased_to_another(&self, _id: &str) -> Option<String> {
        None
    }
}

/// Refuses to write through a link that leads out of the repository: who writes the repository does not choose where
/// we write, and whoever else uses that file has another lock.
fn check_inside(path: &Path, root: &Path) -> Result<()> {
    match std::fs::canonicalize(path) {
        Ok(real) if !real.starts_with(root) => {
            Err(Error::refused(format!("the ledger {} is a link that leads out of the repository", path.display()))
                .hint("replace the link with the file"))
        }
        _ => Ok(()),
    }
}

/// Makes a prefix for ids of a repository's name.
pub fn default_prefix(name: &str) -> String {
    let mut prefix = String::new();
    for char in name.chars().map(|char| char.to_ascii_lowercase()) {
        let fits = char.is_ascii_lowercase() || (!prefix.is_empty() && char.is_ascii_digit());
        if fits {
            prefix.push(char);
        } else if !prefix.is_empty() && !prefix.ends_with('-') {
            prefix.push('-');
        }
    }
    prefix.truncate(32);
    let prefix = prefix.trim_end_matches('-');
    if prefix.is_empty() { "way".to_owned() } else { prefix.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::key_named;

    #[test]
    fn default_prefixes_fit_their_key() {
        let key = key_named("prefix").unwrap();
        for (name, prefix) in [
            ("waypost", "waypost"),
            ("My Project (2)", "my-project-2"),
            ("42-x", "x"),
            ("漢字", "way"),
            ("a__b", "a-b"),
        ] {
            assert_eq!(default_prefix(name), prefix);
            key.check(prefix).unwrap();
        }
        key.check(&default_prefix(&"long-name-".repeat(20))).unwrap();
    }
}
