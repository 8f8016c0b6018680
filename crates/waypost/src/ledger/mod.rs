//! The issues of the repository one stands in, and changes to them.

mod change;
mod transaction;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use waypost_core::clock::Clock;
use waypost_core::ledger::audit::{Audit, audit};
use waypost_core::ledger::change::Author;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::ready::Reason;
use waypost_core::ledger::vocabulary::{Category, Statuses, Terms};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_ledger::{Index, LedgerFile, LedgerLocks, Ledgers};

use crate::environment::Variables;
use crate::history::find_in_history;
use crate::place::{Place, Request, ledger_in};
use crate::repos::{Repo, Repos, Route};
use crate::system::clock;

pub use change::{Change, New};
pub use transaction::Transaction;
use transaction::{Names, RepeatableEntropy};
pub use waypost_core::ledger::change::Edit;
pub use waypost_core::ledger::issue::{Issue, Visibility};
pub use waypost_core::ledger::record::Record;
pub use waypost_core::ledger::vocabulary::DependencyKind;
pub use waypost_ledger::{Counts, Filter, IndexedIssue, Range, Sort, Summary};

/// How long a change follows an issue that is moved from ledger to ledger.
const MOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many issues that are in no ledger are looked for in the history, which takes a while for each.
const MAX_SEARCHED: usize = 50;

/// The issues of a repository.
///
/// Reading asks an index that is kept beside the ledger and brought up to date when the file changed, by whomever; when
/// it did not, asking costs a look at the file's metadata. A change is on disk when its call returns.
///
/// This is the ledger alone: it does not open the store, so it neither takes leases nor looks at them. A change that belongs
/// to the holder of an issue, such as [`Ledger::close`], is made although another agent holds the issue. Programs that
/// work beside agents use `way`, HTTP or MCP, which refuse such a change.
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
    repos: Vec<Repo>,
    /// The only repository that questions are about, and where new issues go then.
    only: Option<usize>,
    route: Route,
    /// Where it is asked from, and who writes: found out when somebody does.
    place: Place,
    actor: OnceLock<String>,
    clock: Box<dyn Clock + Send + Sync>,
    /// What ids of new issues and comments follow from, instead of chance.
    key: Option<String>,
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
    /// Opens the ledgers of the repository that a path is in, as its configuration says.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::of(&place_of(path.as_ref(), None)?)
    }

    /// Opens the ledgers of certain repositories.
    pub fn with_config(config: Config) -> Result<Ledger> {
        let place = place_of(&config.primary, config.actor)?;
        let mut repos = vec![Repo::open(&config.primary, &place.variables)?];
        for path in &config.additional {
            repos.push(Repo::open(path, &place.variables)?);
        }
        let because = "the primary repository".to_owned();
        let route = Route { number: 0, because, is_private: false, is_protected: false };
        Ledger::with_repos(&place, repos, None, route, false)
    }

    /// Opens the ledger of one repository alone.
    pub(crate) fn of_one(place: &Place, repo: Repo) -> Result<Ledger> {
        let route = Route { number: 0, because: String::new(), is_private: false, is_protected: false };
        Ledger::with_repos(place, vec![repo], None, route, false)
    }

    /// Opens the ledgers of a place. Their files need not exist.
    pub fn of(place: &Place) -> Result<Ledger> {
        let repos = Repos::of(place)?;
        let route = Route::of(place, &repos)?;
        Ledger::with_repos(place, repos.all, None, route, true)
    }

    /// Opens the ledgers of a place and of further repositories that are named; `only` is the one that questions and new
    /// issues are about. Returns what could not be reached too, in words.
    pub fn narrowed(place: &Place, only: Option<&str>, named: &[Option<&str>]) -> Result<(Ledger, Vec<String>)> {
        let mut repos = Repos::of(place)?;
        let route = Route::of(place, &repos);
        let usual = repos.all.len();
        let only = only.map(|wanted| repos.find(place, wanted)).transpose()?.map(|(number, _)| number);
        for wanted in named.iter().flatten() {
            repos.find(place, wanted)?;
        }
        let is_usual = repos.all.len() == usual;
        // Whoever says where an issue goes needs no route.
        let route = match (route, only) {
            (Err(_), Some(number)) => {
                Route { number, because: "--repo".to_owned(), is_private: false, is_protected: false }
            }
            (route, _) => route?,
        };
        Ok((Ledger::with_repos(place, repos.all, only, route, is_usual)?, repos.unreachable))
    }

    fn with_repos(
        place: &Place,
        repos: Vec<Repo>,
        only: Option<usize>,
        route: Route,
        is_usual: bool,
    ) -> Result<Ledger> {
        let files: Vec<LedgerFile> = repos.iter().map(|repo| repo.file.clone()).collect();
        let index = place.require_checkout()?.private_dir.join(index_name(place, &files, is_usual));
        Ok(Ledger {
            ledgers: Ledgers::new(files, index, terms(place)),
            repos,
            only,
            route,
            place: place.clone(),
            actor: OnceLock::new(),
            clock: clock(&place.variables)?,
            key: None,
            ready: Mutex::new(None),
        })
    }

    /// Adds one issue or one comment once: with the same key there is no second one.
    pub(crate) fn once(mut self, key: Option<&str>) -> Ledger {
        self.key = key.map(str::to_owned);
        self
    }

    /// Returns the repositories whose ledgers are read, by number.
    pub fn repos(&self) -> &[Repo] {
        &self.repos
    }

    /// Returns where new issues go that nobody says it of.
    pub fn route(&self) -> &Route {
        &self.route
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
        self.actor.get_or_init(|| self.place.actor())
    }

    /// Asks about the issues as they are now. Everything `look` asks is about one moment; it is asked again if the index
    /// turns out to be damaged. It asks what it is given and not this ledger, which is busy meanwhile.
    pub fn with_index<T>(&self, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        self.ledgers.with_index(self.now(), |index| {
            index.narrow(self.only);
            let answer = read(index);
            index.narrow(None);
            answer
        })
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
        let (issues, until) = self.with_index(|index| {
            let issues = index.ready(now, None)?.iter().map(|summary| index.issue(summary)).collect::<Result<_>>()?;
            Ok((issues, index.next_wake_time(now)?))
        })?;
        *kept = self.ledgers.state().map(|state| Ready { issues: Arc::clone(&issues), state, until });
        Ok(issues)
    }

    /// Returns the issues that fit, in order.
    pub fn list(&self, filter: &Filter, sort: Sort) -> Result<Vec<Summary>> {
        self.with_index(|index| index.list(filter, sort, false, None))
    }

    /// Returns an issue, by its id or the unique beginning of it.
    pub fn get(&self, id: &str) -> Result<Issue> {
        self.with_index(|index| index.get_by_prefix(id)).map(|entry| entry.issue)
    }

    /// Returns the issues in which all words stand, in any of their texts; closed ones too.
    pub fn search(&self, words: &str) -> Result<Vec<Summary>> {
        self.make_searchable(|| {})?;
        self.with_index(|index| index.search(&[words.to_owned()], None))
    }

    /// Makes the first search fast, which reads the words of all issues; `slow` is called before that.
    pub fn make_searchable(&self, slow: impl FnOnce()) -> Result<()> {
        self.ledgers.make_searchable(self.now(), slow)
    }

    /// Adds an issue, and returns its id.
    pub fn add(&self, edit: &Edit) -> Result<String> {
        let added = self.apply(&[Change::Add(edit.clone().into())])?;
        Ok(added.first().and_then(|record| record.text("id")).unwrap_or_default())
    }

    /// Changes fields of an issue.
    pub fn update(&self, id: &str, edit: &Edit) -> Result<()> {
        self.apply(&[Change::Update(id.to_owned(), edit.clone())]).map(drop)
    }

    /// Closes an issue, whether or not an agent holds a lease on it.
    pub fn close(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.apply(&[Change::Close(id.to_owned(), reason.map(str::to_owned))]).map(drop)
    }

    /// Makes changes, each in the ledger that its issue is in, and returns the issues as they are then.
    ///
    /// What is about one ledger is one write: all of it is on disk when this returns, or none. Over several ledgers there
    /// are as many writes, one after the other, once all of them were seen to be possible. Leases are not looked at.
    pub fn apply(&self, changes: &[Change]) -> Result<Vec<Record>> {
        let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
        Ok(self.apply_placed(&unplaced, false, |_| Ok(()))?.into_iter().map(|(record, _)| record).collect())
    }

    /// Makes changes, or only sees whether they are possible. An error names the place of its change, if it has one.
    /// Returns the issues as they are then, and the numbers of their ledgers.
    ///
    /// `fence` is called under a ledger's lock, before anything is written, with the issues whose holder alone may make
    /// these changes. It may refuse.
    pub(crate) fn apply_placed(
        &self,
        changes: &[(&str, &Change)],
        rehearse: bool,
        fence: impl Fn(&[String]) -> Result<()>,
    ) -> Result<Vec<(Record, usize)>> {
        let mut owners = self.owners(changes)?;
        let is_one_ledger = owners.windows(2).all(|pair| pair[0] == pair[1]);
        // What is added under a name in one ledger is not there yet when another is rehearsed.
        let has_names = changes.iter().any(|(_, change)| matches!(change, Change::Add(New { name: Some(_), .. })));
        let rounds: &[bool] = match (rehearse, !is_one_ledger && !has_names) {
            (true, _) => &[true],
            (false, true) => &[true, false],
            (false, false) => &[false],
        };
        let pruned = self.pruned_blockers(changes)?;
        let mut records: Vec<(Record, usize)> = Vec::new();
        for is_rehearsal in rounds {
            records.clear();
            let mut names = Names::default();
            following(|moved| {
                if moved.take() {
                    owners = self.owners(changes)?;
                }
                while let Some(number) = owners.get(records.len()).copied() {
                    let rest = changes.iter().zip(&owners).skip(records.len());
                    let group = rest.take_while(|(_, owner)| **owner == number).map(|(change, _)| change);
                    let (done, known) = self.transaction_in(number, |transaction| {
                        if *is_rehearsal {
                            transaction.discard();
                        }
                        transaction.names.clone_from(&names);
                        let of_holder = group.clone().filter_map(|(_, change)| change.of_holder());
                        let of_holder: Vec<String> = of_holder.filter_map(|id| transaction.find(id).ok()).collect();
                        if !of_holder.is_empty() {
                            fence(&of_holder)?;
                        }
                        let apply = |(place, change): &(&str, &Change)| {
                            transaction.stop_waiting(change, &pruned)?;
                            transaction.apply(change).map_err(|error| at(place, error))
                        };
                        let done = group.clone().map(apply).collect::<Result<Vec<Record>>>();
                        moved.set(transaction.is_elsewhere());
                        Ok((done?, transaction.names.clone()))
                    })?;
                    records.extend(done.into_iter().map(|record| (record, number)));
                    names = known;
                }
                Ok(())
            })?;
        }
        Ok(records)
    }

    /// Finds what issues wait for that are to be worked on, and what was over before it was pruned.
    ///
    /// What is pruned is over, and nothing open waits for it then. But what waits for it may be opened again, or was
    /// opened by somebody else meanwhile.
    fn pruned_blockers(&self, changes: &[(&str, &Change)]) -> Result<HashSet<String>> {
        let opened: Vec<&str> = changes.iter().filter_map(|(_, change)| opened(change)).collect();
        if opened.is_empty() {
            return Ok(HashSet::new());
        }
        let missing = self.with_index(|index| {
            let mut missing = BTreeSet::new();
            for id in &opened {
                let Ok(id) = index.find(id) else { continue };
                let reasons = index.obstacles(&id, self.now())?;
                missing.extend(reasons.into_iter().filter_map(|reason| match reason {
                    Reason::Unresolved(blocker) => Some(blocker),
                    _ => None,
                }));
            }
            Ok(missing)
        })?;
        let mut missing: Vec<String> = missing.into_iter().take(MAX_SEARCHED).collect();
        missing.retain(|id| self.repos.iter().any(|repo| self.was_over(repo, id)));
        Ok(missing.into_iter().collect())
    }

    /// Tells whether an issue that a ledger does not have was over when it was taken out, as far as is known.
    fn was_over(&self, repo: &Repo, id: &str) -> bool {
        let found = place_of(&repo.root, None).and_then(|place| find_in_history(&place, id));
        let issue = found.ok().flatten().and_then(|(record, _)| Issue::read(&record));
        issue.is_some_and(|(issue, _)| self.terms().statuses.category(&issue.status).is_over())
    }

    /// Returns the number of the ledger that each change is made in.
    fn owners(&self, changes: &[(&str, &Change)]) -> Result<Vec<usize>> {
        if self.repos.len() == 1 {
            return Ok(vec![0; changes.len()]);
        }
        self.with_index(|index| {
            let mut names: BTreeMap<&str, usize> = BTreeMap::new();
            let mut numbers = Vec::new();
            for (place, change) in changes {
                let owner = |id: &str| match id.strip_prefix('$') {
                    Some(name) => Ok(names.get(name).copied()),
                    None => index.summary(&index.find(id)?).map(|summary| summary.map(|summary| summary.ledger)),
                };
                let number = match change.plain() {
                    Change::Add(new) => self.home_of(new, owner),
                    Change::Claim(None) => {
                        let next = index.next(self.now())?;
                        next.map_or(Ok(None), |id| owner(&id)).map(|owner| owner.unwrap_or(0))
                    }
                    Change::Claim(Some(id))
                    | Change::Update(id, _)
                    | Change::Close(id, _)
                    | Change::Reopen(id)
                    | Change::Delete(id, _)
                    | Change::Release(id, _)
                    | Change::Comment(id, _)
                    | Change::Depend(id, ..)
                    | Change::Undepend(id, ..) => owner(id).map(|owner| owner.unwrap_or(self.route.number)),
                    Change::Forced(_) => Err(Error::internal("a change is forced twice")),
                };
                let number = number.map_err(|error| at(place, error))?;
                if let Change::Add(New { name: Some(name), .. }) = change {
                    names.insert(name, number);
                }
                numbers.push(number);
            }
            Ok(numbers)
        })
    }

    /// Returns the number of the ledger that a new issue goes to: the one that was named, that of what it is a part of or
    /// was found during, or where the route leads.
    fn home_of(&self, new: &New, owner: impl Fn(&str) -> Result<Option<usize>>) -> Result<usize> {
        if let Some(only) = self.only {
            return Ok(only);
        }
        let origin = new.edit.parent_id.as_deref().filter(|parent| !parent.is_empty());
        for id in origin.into_iter().chain(new.discovered_from.as_deref()) {
            if let Some(number) = owner(id)?
                && (number != 0 || !self.route.is_protected)
            {
                return Ok(number);
            }
        }
        Ok(self.route.number)
    }

    /// Makes several changes to issues of one ledger as one: all of them are on disk when this returns, or none. It is
    /// the ledger that new issues go to.
    ///
    /// `change` may be called again, if a program that knows no lock swaps the file meanwhile.
    pub fn transaction<T>(&self, change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>) -> Result<T> {
        self.transaction_in(self.home(), change)
    }

    /// Returns the number of the ledger that new issues go to, if nobody says anything else of them.
    pub fn home(&self) -> usize {
        self.only.unwrap_or(self.route.number)
    }

    /// Makes several changes as one to the ledger that an issue is in.
    pub fn transaction_about<T>(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        following(|moved| {
            let number = self.number_of(id)?;
            self.transaction_in(number, |transaction| {
                let answer = change(transaction);
                moved.set(transaction.is_elsewhere());
                answer
            })
        })
    }

    /// Waits until no change is under way in the ledger of an issue that took the ledger's lock before this call. An issue
    /// that is in no ledger is not waited for.
    pub(crate) fn wait_for_changes(&self, id: &str) -> Result<()> {
        match self.number_of(id) {
            Ok(number) => self.ledgers.files()[number].wait_for_changes(),
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of the ledger that an issue is in. The only one is not asked whether it has the issue.
    fn number_of(&self, id: &str) -> Result<usize> {
        if self.repos.len() == 1 {
            Ok(0)
        } else {
            self.with_index(|index| index.get_by_prefix(id)).map(|entry| entry.ledger)
        }
    }

    /// Waits for the locks of several ledgers, to change all of them while no other command does.
    pub(crate) fn lock(&self, numbers: &[usize]) -> Result<LedgerLocks> {
        LedgerLocks::acquire(&numbers.iter().map(|number| &self.ledgers.files()[*number]).collect::<Vec<_>>())
    }

    /// Returns the numbers of the ledgers that questions are about and that may be written.
    pub fn numbers(&self) -> Vec<usize> {
        let asked = |number: &usize| self.only.is_none_or(|only| only == *number);
        (0..self.repos.len()).filter(asked).filter(|number| self.may_write(*number)).collect()
    }

    /// Tells whether a ledger is one that its user may write.
    pub fn may_write(&self, number: usize) -> bool {
        number != 0 || !self.route.is_protected
    }

    /// Makes several changes as one to a ledger.
    pub(crate) fn transaction_in<T>(
        &self,
        number: usize,
        change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        self.require_writable(number)?;
        self.transaction_under(&self.lock(&[number])?, number, change)
    }

    /// Refuses a ledger that its user may not write.
    pub(crate) fn require_writable(&self, number: usize) -> Result<()> {
        if self.may_write(number) {
            return Ok(());
        }
        Err(Error::refused(format!(
            "the ledger of {} is not yours to write: {}",
            self.repos[0].path().display(),
            self.route.because
        ))
        .hint("way propose ID brings an issue of yours into it")
        .hint("if you maintain it: way config set role maintainer"))
    }

    /// Makes several changes as one to a ledger whose lock the caller holds. The caller checks whether it may be written.
    pub(crate) fn transaction_under<T>(
        &self,
        locks: &LedgerLocks,
        number: usize,
        mut change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let repo = &self.repos[number];
        check_inside(repo.file.path(), &repo.root)?;
        let prefix = repo.prefix()?;
        let visibility = (self.route.is_private && number == self.route.number).then_some(Visibility::Local);
        let author = Author { name: self.actor(), now: self.now() };
        let entropy = RepeatableEntropy::new();
        self.ledgers.change_under(locks, number, author.now, |draft| {
            let terms = self.ledgers.terms();
            let mut transaction = Transaction::new(draft, terms, &prefix, visibility, author, entropy.clone());
            transaction.key = self.key.as_deref();
            change(&mut transaction)
        })
    }

    /// Writes the first ledger anew, from what its file says at that moment. None if `rewrite` wants nothing written.
    pub(crate) fn rewrite<T>(&self, rewrite: impl Fn(&Document) -> Result<Option<(Document, T)>>) -> Result<Option<T>> {
        check_inside(self.repos[0].file.path(), &self.repos[0].root)?;
        self.ledgers.rewrite(0, rewrite)
    }

    /// Returns a number that grows with every change. When nothing changed, asking costs a look at the metadata of each
    /// ledger.
    pub fn revision(&self) -> Result<u64> {
        self.ledgers.revision(self.now())
    }

    /// Returns the files of the ledgers that questions are about as they are, one after the other.
    pub fn copy(&self) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        let asked = |number: &usize| self.only.is_none_or(|only| only == *number);
        for number in (0..self.repos.len()).filter(asked) {
            let file = &self.ledgers.files()[number];
            if copy.last().is_some_and(|last| *last != b'\n') {
                copy.push(b'\n');
            }
            copy.extend(file.read()?.to_bytes());
        }
        Ok(copy)
    }

    /// Reads a ledger's file whole, and says what is not as it should be.
    pub fn audit(&self, number: usize) -> Result<Audit> {
        self.ledgers.files()[number].read().map(|document| audit(&document))
    }
}

/// Tries a change again that failed because its issue was moved to another ledger after its ledger was looked up.
/// `attempt` notes that, and finds the note when it is called again.
fn following<T>(mut attempt: impl FnMut(&Cell<bool>) -> Result<T>) -> Result<T> {
    let (deadline, moved) = (Instant::now() + MOVE_TIMEOUT, Cell::new(false));
    loop {
        match attempt(&moved) {
            Err(_) if moved.get() && Instant::now() < deadline => {}
            answer => return answer,
        }
    }
}

/// Returns the issue that a change lets somebody work on, which may have been over.
pub(super) fn opened(change: &Change) -> Option<&str> {
    match change.plain() {
        Change::Reopen(id) | Change::Claim(Some(id)) => Some(id),
        Change::Update(id, edit) if edit.status.is_some() => Some(id),
        _ => None,
    }
}

/// Says where an error happened, if that is known.
fn at(place: &str, error: Error) -> Error {
    if place.is_empty() { error } else { error.within(place) }
}

pub(crate) fn place_of(path: &Path, actor: Option<String>) -> Result<Place> {
    let cwd = std::fs::canonicalize(path)
        .map_err(|error| Error::not_found(format!("cannot find {}", path.display())).because(error))?;
    let variables = Variables::of_process().without_git();
    Place::resolve(Request { cwd, variables, db: None, scope: None, config: Vec::new(), actor, agent: None })
}

/// Names the index of some ledgers. Those who read others, as on another branch, have one of their own.
fn index_name(place: &Place, files: &[LedgerFile], is_usual: bool) -> String {
    let is_home = place.home_worktree.as_deref().is_some_and(|home| files[0].path() == ledger_in(home).0);
    if is_usual && is_home {
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
    // What does not exist yet is where its directory really is.
    let real = path.ancestors().find_map(|existing| {
        let real = std::fs::canonicalize(existing).ok()?;
        Some(real.join(path.strip_prefix(existing).ok()?))
    });
    if real.is_some_and(|real| real.starts_with(root)) && !is_link_to_nothing(path) {
        return Ok(());
    }
    Err(Error::refused(format!("the ledger {} is a link that leads out of the repository", path.display()))
        .hint("replace the link with the file"))
}

fn is_link_to_nothing(path: &Path) -> bool {
    path.is_symlink() && !path.exists()
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
