//! The issues of the repository one stands in, and changes to them.

mod change;
mod transaction;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use waypost_core::ledger::audit::{Audit, audit};
use waypost_core::ledger::change::Author;
use waypost_core::ledger::vocabulary::{Category, Statuses, Terms};
use waypost_core::time::{Clock, Timestamp};
use waypost_core::{Error, Result};
use waypost_ledger::{Index, LedgerFile, Ledgers};

use crate::environment::Variables;
use crate::place::{Place, Request};
use crate::session::clock;

pub use change::{Change, New};
pub use transaction::Transaction;
pub use waypost_core::ledger::change::Edit;
pub use waypost_core::ledger::issue::Issue;
pub use waypost_core::ledger::record::Record;
pub use waypost_core::ledger::vocabulary::DependencyKind;
pub use waypost_ledger::{Counts, Entry, Filter, Range, Sort, Summary};

/// How long to wait for somebody who is writing the ledger.
const PATIENCE: Duration = Duration::from_secs(10);

/// The issues of a repository.
///
/// Reading asks an index that is kept beside the ledger and brought up to date when the file changed, by whomever; when
/// it did not, asking costs a look at the file's metadata. A change is on disk when its call returns.
///
/// ```
/// use waypost::ledger::{DependencyKind, Edit, Ledger};
///
/// # let dir = waypost_testkit::temp_dir();
/// # let repository = dir.path();
/// # std::fs::create_dir(repository.join(".waypost"))?;
/// let ledger = Ledger::open(repository)?;
/// let titled = |title: &str| Edit { title: Some(title.to_owned()), ..Edit::default() };
/// let base = ledger.add(&titled("Lay the base"))?;
/// let next = ledger.transaction(|transaction| {
///     let next = transaction.add(&titled("Build on it").into())?;
///     transaction.depend(&next, &base, DependencyKind::Blocks)?;
///     Ok(next)
/// })?;
/// assert_eq!(ledger.ready()?[0].id, base);
///
/// let before = ledger.revision()?;
/// ledger.close(&base, Some("done"))?;
/// assert!(ledger.revision()? > before);
/// assert_eq!(ledger.ready()?[0].id, next);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Ledger {
    ledgers: Ledgers,
    /// The worktree that the first ledger belongs to.
    root: PathBuf,
    /// What the ids of new issues begin with.
    prefix: String,
    actor: String,
    clock: Box<dyn Clock + Send + Sync>,
    /// What was ready, for those who ask again and again.
    ready: Mutex<Option<Ready>>,
}

/// Which ledgers are read, for callers who do not want the repository's configuration to say it.
///
/// ```
/// use waypost::ledger::{Config, Filter, Ledger, Sort};
///
/// # let dir = waypost_testkit::temp_dir();
/// # let (project, planning) = (dir.path().join("project"), dir.path().join("planning"));
/// # std::fs::create_dir_all(project.join(".waypost"))?;
/// # std::fs::create_dir_all(planning.join(".waypost"))?;
/// # Ledger::open(&planning)?.add(&waypost::ledger::Edit { title: Some("Plan".to_owned()), ..Default::default() })?;
/// let ledger = Ledger::with_config(Config {
///     primary: project,
///     additional: vec![planning],
///     actor: Some("planner".to_owned()),
/// })?;
/// let open = ledger.list(&Filter::default(), Sort::Priority)?;
/// assert_eq!(open[0].title, "Plan");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The repository whose ledger is written.
    pub primary: PathBuf,
    /// Repositories whose ledgers are read too.
    pub additional: Vec<PathBuf>,
    /// The author of what is written; found out, if none is given.
    pub actor: Option<String>,
}

/// What was ready at some moment.
struct Ready {
    issues: Arc<[Issue]>,
    /// The state of the ledgers that it is about.
    state: u64,
    /// From then on it may be different although nothing changed.
    until: Option<Timestamp>,
}

impl Ledger {
    /// Opens the ledger of the repository that a path is in, as its configuration says.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::of(&place_of(path.as_ref(), None)?)
    }

    /// Opens the ledgers of certain repositories.
    pub fn with_config(config: Config) -> Result<Ledger> {
        let place = place_of(&config.primary, config.actor)?;
        let mut files = vec![file_of(&place)?];
        for path in &config.additional {
            files.push(file_of(&place_of(path, None)?)?);
        }
        Ledger::with_files(&place, files)
    }

    /// Opens the ledger of a place. Its file need not exist.
    pub fn of(place: &Place) -> Result<Ledger> {
        Ledger::with_files(place, vec![file_of(place)?])
    }

    fn with_files(place: &Place, files: Vec<LedgerFile>) -> Result<Ledger> {
        let checkout = place.require_checkout()?;
        let prefix = place.config.text("prefix").unwrap_or_else(|| default_prefix(&checkout.repository_name()));
        let index = checkout.private_dir.join(index_name(place, &files));
        Ok(Ledger {
            root: root_of(place)?,
            prefix,
            actor: place.actor(),
            clock: clock(&place.variables)?,
            ledgers: Ledgers::new(files, index, terms(place)),
            ready: Mutex::new(None),
        })
    }

    /// Returns what words and rules mean in it.
    pub fn terms(&self) -> &Terms {
        self.ledgers.terms()
    }

    /// Returns the current moment.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns who writes.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Asks about the issues as they are now. Everything `look` asks is about one moment; it is asked again if the index
    /// turns out to be damaged.
    pub fn look<T>(&self, look: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        self.ledgers.look(self.now(), look)
    }

    /// Returns what can be worked on now, the first one first.
    pub fn ready(&self) -> Result<Arc<[Issue]>> {
        let now = self.now();
        let mut kept = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.ledgers.state();
        if let Some(ready) = kept.as_ref()
            && state == Some(ready.state)
            && ready.until.is_none_or(|until| now < until)
        {
            return Ok(Arc::clone(&ready.issues));
        }
        let (issues, until) = self.ledgers.look(now, |index| {
            let issues = index.ready(now, None)?.iter().map(|summary| index.issue(summary)).collect::<Result<_>>()?;
            Ok((issues, index.next_waking(now)?))
        })?;
        *kept = self.ledgers.state().map(|state| Ready { issues: Arc::clone(&issues), state, until });
        Ok(issues)
    }

    /// Returns the issues that fit, in order.
    pub fn list(&self, filter: &Filter, sort: Sort) -> Result<Vec<Summary>> {
        self.look(|index| index.list(filter, sort, false, None))
    }

    /// Returns an issue, by its id or the unique beginning of it.
    pub fn get(&self, id: &str) -> Result<Issue> {
        self.look(|index| index.entry_of(id)).map(|entry| entry.issue)
    }

    /// Returns the issues in which all words stand, in any of their texts; closed ones too.
    pub fn search(&self, words: &str) -> Result<Vec<Summary>> {
        self.make_searchable(|| {})?;
        self.look(|index| index.search(&[words.to_owned()], None))
    }

    /// Makes the first search fast, which reads the words of all issues; `slow` is called before that.
    pub fn make_searchable(&self, slow: impl FnOnce()) -> Result<()> {
        self.ledgers.make_searchable(self.now(), slow)
    }

    /// Adds an issue, and returns its id.
    pub fn add(&self, edit: &Edit) -> Result<String> {
        self.transaction(|transaction| transaction.add(&edit.clone().into()))
    }

    /// Changes fields of an issue.
    pub fn update(&self, id: &str, edit: &Edit) -> Result<()> {
        self.transaction(|transaction| transaction.update(id, edit).map(drop))
    }

    /// Closes an issue.
    pub fn close(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.transaction(|transaction| transaction.close(id, reason).map(drop))
    }

    /// Makes several changes as one: all of them are on disk when this returns, or none.
    ///
    /// `change` may be called again, if a program that knows no lock swaps the file meanwhile.
    pub fn transaction<T>(&self, mut change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>) -> Result<T> {
        let file = &self.ledgers.files()[0];
        check_inside(file.path(), &self.root)?;
        let author = Author { name: &self.actor, now: self.now() };
        self.ledgers.change(0, author.now, |draft| {
            change(&mut Transaction::new(draft, self.ledgers.terms(), &self.prefix, author))
        })
    }

    /// Returns a number that grows with every change. When nothing changed, asking costs a look at the metadata of each
    /// ledger.
    pub fn revision(&self) -> Result<u64> {
        self.ledgers.revision(self.now())
    }

    /// Reads the first ledger's file whole, and says what is not as it should be.
    pub fn audit(&self) -> Result<Audit> {
        self.ledgers.files()[0].read().map(|document| audit(&document))
    }
}

fn place_of(path: &Path, actor: Option<String>) -> Result<Place> {
    let cwd = std::fs::canonicalize(path)
        .map_err(|error| Error::not_found(format!("cannot find {}", path.display())).because(error))?;
    let variables = Variables::of_process().without_git();
    Place::resolve(Request { cwd, variables, db: None, scope: None, config: Vec::new(), actor })
}

pub(crate) fn root_of(place: &Place) -> Result<PathBuf> {
    let checkout = place.require_checkout()?;
    Ok(place.home_worktree.clone().unwrap_or_else(|| checkout.repository_path().to_owned()))
}

pub(crate) fn file_of(place: &Place) -> Result<LedgerFile> {
    let checkout = place.require_checkout()?;
    let Some((path, _)) = place.ledger() else {
        return Err(Error::invalid("a bare repository without worktrees has no ledger")
            .hint("make a worktree first: way worktree add BRANCH"));
    };
    let root = root_of(place)?;
    let marks = [root.join(".jj/working_copy/working_copy.lock"), root.join(".hg/wlock"), root.join(".sl/wlock")];
    let git = checkout.git_dir.iter().map(|git_dir| git_dir.join("index.lock"));
    Ok(LedgerFile::new(path, checkout.private_dir.join("ledger.lock"), PATIENCE).with_marks(git.chain(marks).collect()))
}

/// Names the index of some ledgers. Those who read others, as on another branch, have one of their own.
fn index_name(place: &Place, files: &[LedgerFile]) -> String {
    let is_usual =
        files.len() == 1 && place.home_worktree.as_deref().is_some_and(|home| files[0].path().starts_with(home));
    if is_usual {
        return "index.db".to_owned();
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.path().hash(&mut hasher);
    }
    format!("index-{:016x}.db", hasher.finish())
}

/// Reads what the configuration says about words and rules.
fn terms(place: &Place) -> Terms {
    let mut custom = BTreeMap::new();
    for (key, category) in [
        ("statuses.active", Category::Active),
        ("statuses.wip", Category::Wip),
        ("statuses.done", Category::Done),
        ("statuses.frozen", Category::Frozen),
    ] {
        custom.extend(place.config.list(key).into_iter().map(|status| (status, category)));
    }
    Terms {
        statuses: Statuses::with_custom(custom),
        ignore_unresolved: place.config.text("ready.unresolved").as_deref() == Some("ignore"),
    }
}

/// Refuses to write through a link that leads out of the repository: who writes the repository does not choose where
/// we write, and whoever else uses that file has another lock.
pub(crate) fn check_inside(path: &Path, root: &Path) -> Result<()> {
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
