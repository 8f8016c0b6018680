//! The issues of a repository, and changes to them.

mod change;
mod fetched;
mod pruned;
mod transaction;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize as _;
use waypost_core::clock::Clock;
use waypost_core::engine;
use waypost_core::ledger::audit::{Audit, audit};
use waypost_core::ledger::change::{self as rules, Author};
use waypost_core::ledger::document::Document;
use waypost_core::ledger::vocabulary::{Category, Pruned, Statuses, Terms};
use waypost_core::model::{DeferredChanges, Notice};
use waypost_core::op::{DeferChanges, ListNotices};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result};
use waypost_fs::Stamp;
use waypost_ledger::{Draft, Index, LedgerFile, LedgerLocks, Ledgers};

use crate::app::lazy_session::LazySession;
use crate::app::session::Warnings;
use crate::issues::forks;
use crate::issues::homes;
use crate::issues::repos::{Repo, Repos, Route, check_inside, is_declared_contributor};
use crate::machine::environment::Variables;
use crate::machine::place::{LEDGERS, Place, ledger_in, separate_ledger};
use crate::machine::system::{SystemEntropy, clock};

pub use change::{Change, New};
use fetched::Fetched;
pub use transaction::Transaction;
use transaction::{Names, RepeatableEntropy};
pub use waypost_core::ledger::change::Edit;
pub use waypost_core::ledger::issue::{Issue, Visibility};
pub use waypost_core::ledger::record::Record;
pub use waypost_core::ledger::vocabulary::DependencyKind;
pub use waypost_ledger::{Counts, Filter, IndexedIssue, Range, Sort, Summary};

/// How long a change retries after another command moved its issue to another ledger.
const MOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The issues of a repository.
///
/// Queries read an index, which is updated first if any program changed the file; if not, a query costs one `stat` per
/// file. A change is on disk when its call returns.
///
/// This type does not open the store, so it neither acquires nor checks leases. It makes a change that is restricted to
/// the holder of an issue, such as [`Ledger::close`], even if another agent holds the issue. Programs that work beside
/// agents use `way`, HTTP or MCP, which refuse such a change.
///
/// ```
/// use waypost::issues::ledger::{DependencyKind, Edit, Ledger};
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
    /// The only repository that queries cover and that gets new issues; `None` means all.
    only: Option<usize>,
    route: Route,
    place: Place,
    /// The author of changes, determined by the first change.
    actor: OnceLock<String>,
    clock: Box<dyn Clock + Send + Sync>,
    /// Idempotency key: ids of new issues and comments derive from it instead of being random.
    key: Option<String>,
    /// Cache for callers that poll [`Ledger::ready`].
    ready: Mutex<Option<Ready>>,
    /// Notices that the ledgers' files have not received yet. Queries answer as if they had.
    notices: Mutex<Vec<Notice>>,
    /// What a contributor fetched and did not pull yet.
    fetched: Mutex<Fetched>,
    /// The revision of the index in which missing blockers were searched for last.
    searched: Mutex<Option<u64>>,
    /// Whether queries may leave files.
    writes_index: bool,
}

/// The ledgers to open, for callers who do not use the repository's configuration.
///
/// ```
/// use waypost::issues::ledger::{Config, Filter, Ledger, Sort};
///
/// # let dir = waypost_testkit::temp_dir();
/// # let (project, planning) = (dir.path().join("project"), dir.path().join("planning"));
/// # std::fs::create_dir_all(project.join(".waypost"))?;
/// # std::fs::create_dir_all(planning.join(".waypost"))?;
/// # Ledger::open(&planning)?.add(&waypost::issues::ledger::Edit { title: Some("Plan".to_owned()), ..Default::default() })?;
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
    /// The repository that gets new issues.
    pub primary: PathBuf,
    /// Further repositories whose ledgers are read.
    pub additional: Vec<PathBuf>,
    /// The author of changes; determined from the environment if `None`.
    pub actor: Option<String>,
}

/// Changes that were made or checked.
#[derive(Default)]
pub(crate) struct Applied {
    /// Each changed issue, with the number of its ledger, in the order of the changes.
    pub(crate) records: Vec<(Record, usize)>,
    /// The ids of issues that were to be closed, and were closed or deleted already.
    pub(crate) over: BTreeSet<String>,
}

/// Cached ready issues.
struct Ready {
    issues: Arc<[Issue]>,
    /// The state of the ledgers that the issues were read from.
    state: State,
    /// From this time on the cache is stale even if no ledger changed.
    until: Option<Timestamp>,
}

/// Changes whenever the answer of a query may change: of the index, and of what was fetched.
type State = (u64, Option<Stamp>);

impl Ledger {
    /// Opens the ledgers that the configuration of a path's repository names.
    pub fn open(path: impl AsRef<Path>) -> Result<Ledger> {
        Ledger::of(&place_of(path.as_ref(), None)?)
    }

    /// Opens the ledgers of these repositories.
    pub fn with_config(config: Config) -> Result<Ledger> {
        let place = place_of(&config.primary, config.actor)?;
        let mut repos = vec![Repo::open(&config.primary, &place.variables)?];
        for path in &config.additional {
            repos.push(Repo::open(path, &place.variables)?);
        }
        Ledger::with_repos(&place, repos, None, Route::to(0, "the primary repository", false), false)
    }

    /// Opens the ledger of one repository alone.
    pub(crate) fn of_one(place: &Place, repo: Repo) -> Result<Ledger> {
        Ledger::with_repos(place, vec![repo], None, Route::to(0, "", false), false)
    }

    /// Opens the ledgers of a place. Their files need not exist.
    pub fn of(place: &Place) -> Result<Ledger> {
        let repos = Repos::of(place)?;
        let route = Route::of(place, &repos)?;
        Ledger::with_repos(place, repos.all, None, route, true)
    }

    /// Opens the ledgers of a place and of further named repositories; `only` is the one that queries and new issues are
    /// restricted to. Also returns warnings, for example about repositories that cannot be read.
    pub fn narrowed(place: &Place, only: Option<&str>, named: &[Option<&str>]) -> Result<(Ledger, Vec<String>)> {
        let mut repos = Repos::of(place)?;
        let route = Route::of(place, &repos);
        let configured = repos.all.len();
        let only = only.map(|name| repos.find(place, name)).transpose()?.map(|(number, _)| number);
        for name in named.iter().flatten() {
            repos.find(place, name)?;
        }
        let is_configured = repos.all.len() == configured;
        // A caller who names the repository needs no route.
        let route = match (route, only) {
            (Err(_), Some(number)) => {
                let is_protected = is_declared_contributor(place);
                let because = if is_protected { "you are a contributor" } else { "--repo" };
                Route::to(number, because, is_protected)
            }
            (route, _) => route?,
        };
        let mut warnings = repos.unreachable;
        warnings.extend(forks::check(place)?);
        warnings.extend(homes::hidden_issues(place)?);
        let in_dolt = repos.all.iter().filter(|repo| repo.is_in_dolt());
        warnings.extend(in_dolt.map(|repo| {
            format!(
                "beads keeps the issues of {} in Dolt; they are shown as it last exported them, and cannot be changed here: \
                 way import beads takes them over",
                repo.root.display()
            )
        }));
        Ok((Ledger::with_repos(place, repos.all, only, route, is_configured)?, warnings))
    }

    fn with_repos(
        place: &Place,
        repos: Vec<Repo>,
        only: Option<usize>,
        route: Route,
        is_configured: bool,
    ) -> Result<Ledger> {
        Ledger::with_index_of(place, repos, only, route, is_configured, true)
    }

    /// Opens the ledgers of a place for queries that must not leave a trace: not even the index is written.
    pub(crate) fn open_to_read(place: &Place) -> Result<Ledger> {
        let repos = Repos::of(place)?;
        let route = Route::to(0, "", false);
        Ledger::with_index_of(place, repos.all, None, route, true, false)
    }

    fn with_index_of(
        place: &Place,
        repos: Vec<Repo>,
        only: Option<usize>,
        route: Route,
        is_configured: bool,
        writes_index: bool,
    ) -> Result<Ledger> {
        let files: Vec<LedgerFile> = repos.iter().map(|repo| repo.file.clone()).collect();
        let private_dir = &place.require_checkout()?.private_dir;
        if writes_index && let Err(error) = private_dir.create() {
            log::debug!("reading without an index: {}", error.full_message());
        }
        let index = private_dir.join(index_name(place, &files, is_configured));
        let ledgers = Ledgers::new(files, index, terms(place));
        let ledger = Ledger {
            ledgers: if writes_index { ledgers } else { ledgers.keeping_index() },
            repos,
            only,
            route,
            place: place.clone(),
            actor: OnceLock::new(),
            clock: clock(&place.variables)?,
            key: None,
            ready: Mutex::new(None),
            notices: Mutex::default(),
            fetched: Mutex::default(),
            searched: Mutex::default(),
            writes_index,
        };
        let past = ledger.past();
        ledger.terms().pruned.add(past.closed());
        Ok(ledger)
    }

    /// Sets an idempotency key: a repeated addition of an issue or comment with the same key adds no second one.
    pub(crate) fn with_key(mut self, key: Option<&str>) -> Ledger {
        self.key = key.map(str::to_owned);
        self
    }

    /// Returns the repositories whose ledgers are read, by number.
    pub fn repos(&self) -> &[Repo] {
        &self.repos
    }

    /// Returns the default destination of new issues.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the vocabulary and rules of the ledgers.
    pub fn terms(&self) -> &Terms {
        self.ledgers.terms()
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the author of changes.
    pub fn actor(&self) -> &str {
        self.actor.get_or_init(|| self.place.actor())
    }

    /// Runs queries on an up-to-date index. All queries of `read` see one snapshot; `read` is called again if the index
    /// turns out to be damaged. `read` must not use this ledger, which is locked meanwhile.
    pub fn with_index<T>(&self, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let missing = self.read_index(|index| match self.unknown_blockers(index)? {
            missing if missing.is_empty() => read(index).map(Ok),
            missing => Ok(Err(missing)),
        })?;
        missing.or_else(|missing| {
            self.learn_pruned(missing);
            self.read_index(read)
        })
    }

    fn read_index<T>(&self, mut read: impl FnMut(&Index) -> Result<T>) -> Result<T> {
        let read = |index: &Index| {
            index.narrow(self.only);
            let answer = read(index);
            index.narrow(None);
            answer
        };
        let notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (fetched, project) = (self.fetched_records(), self.protected().unwrap_or_default());
        if notices.is_empty() && fetched.is_empty() {
            return self.ledgers.with_index(self.now(), read);
        }
        let edited = |index: &Index| {
            let mut edited = Vec::new();
            for record in fetched.iter() {
                if self.is_news(index, project, record)? {
                    edited.push((record.clone(), project));
                }
            }
            for notice in &notices {
                edited.extend(self.noticed(index, notice)?);
            }
            Ok(edited)
        };
        self.ledgers.with_edited_index(self.now(), edited, read)
    }

    /// Sets the notices that the ledgers' files have not received yet: queries then answer as if they had. Files stay as they
    /// are, and so do changes, which read the files.
    pub(crate) fn set_notices(&self, notices: Vec<Notice>) {
        *self.notices.lock().unwrap_or_else(PoisonError::into_inner) = notices;
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the record that an issue gets by a notice, and the number of its ledger. None if the notice changes nothing.
    fn noticed(&self, index: &Index, notice: &Notice) -> Result<Option<(Record, usize)>> {
        let Some(IndexedIssue { issue, mut record, ledger, .. }) = index.get(&notice.issue)? else { return Ok(None) };
        if self.protected() == Some(ledger) && issue.visibility() == Visibility::Canonical {
            // Delivering it will be refused.
            return Ok(None);
        }
        let author = Author { name: &notice.actor, now: notice.created_at };
        let statuses = &self.terms().statuses;
        let change = match Change::of_notice(notice, &issue) {
            Some(Change::Close(_, reason)) => rules::close(&mut record, reason.as_deref(), statuses, author),
            Some(Change::Release(_, force)) => rules::release(&mut record, force, statuses, author),
            _ => return Ok(None),
        };
        // The issue is closed, deleted or released already.
        Ok(change.is_ok().then_some((record, ledger)))
    }

    /// Returns the ready issues, most urgent first.
    pub fn ready(&self) -> Result<Arc<[Issue]>> {
        let now = self.now();
        let mut cache = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        if let Some(ready) = cache.as_ref()
            && state == Some(ready.state)
            && ready.until.is_none_or(|until| now < until)
        {
            return Ok(Arc::clone(&ready.issues));
        }
        let (issues, until) = self.with_index(|index| {
            let issues = index.ready(now, None)?.iter().map(|summary| index.issue(summary)).collect::<Result<_>>()?;
            Ok((issues, index.next_wake_time(now)?))
        })?;
        *cache = self.state().map(|state| Ready { issues: Arc::clone(&issues), state, until });
        Ok(issues)
    }

    fn state(&self) -> Option<State> {
        let fetched = self.protected().and_then(|number| Stamp::of_path(&self.repos[number].fetched_file()).ok()?);
        Some((self.ledgers.state()?, fetched))
    }

    /// Returns the issues that match a filter.
    pub fn list(&self, filter: &Filter, sort: Sort) -> Result<Vec<Summary>> {
        self.with_index(|index| index.list(filter, sort, false, None))
    }

    /// Returns an issue by its id or a unique prefix of it.
    pub fn get(&self, id: &str) -> Result<Issue> {
        self.with_index(|index| index.get_by_prefix(id)).map(|entry| entry.issue)
    }

    /// Returns the issues whose texts contain all words, including closed ones.
    pub fn search(&self, words: &str) -> Result<Vec<Summary>> {
        self.make_searchable(|| {})?;
        self.with_index(|index| index.search(&[words.to_owned()], None))
    }

    /// Brings the full-text index up to date, so that a search answers at once. Calls `slow` first if that takes long.
    pub fn make_searchable(&self, slow: impl FnOnce()) -> Result<()> {
        self.ledgers.make_searchable(self.now(), slow)
    }

    /// Creates the indexes for lists with filters and other orders, if there are many issues and they do not exist yet.
    pub(crate) fn index_lists(&self) -> Result<()> {
        self.ledgers.index_lists(self.now())
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

    /// Makes changes, each in the ledger that has its issue, and returns the changed issues.
    ///
    /// Changes to one ledger are one atomic and durable write. Several ledgers are written one after the other, after a
    /// dry run of all changes. Leases are not checked.
    pub fn apply(&self, changes: &[Change]) -> Result<Vec<Record>> {
        let unplaced: Vec<(&str, &Change)> = changes.iter().map(|change| ("", change)).collect();
        let session = LazySession::new(self.place.clone(), Warnings::default());
        let applied = self.apply_placed(&unplaced, false, &session, |_| Ok(()))?;
        Ok(applied.records.into_iter().map(|(record, _)| record).collect())
    }

    /// Makes changes, or only checks whether they are possible. An error names the position of its change in the input, if
    /// the caller gave one.
    ///
    /// `fence` is called under a ledger's lock before anything is written, with the issues of the changes that are restricted
    /// to the holder ([`Change::of_holder`]). It may refuse. `session` keeps the changes if their ledger cannot be reached.
    pub(crate) fn apply_placed(
        &self,
        changes: &[(&str, &Change)],
        dry_run: bool,
        session: &LazySession,
        fence: impl Fn(&[String]) -> Result<()>,
    ) -> Result<Applied> {
        let secrets = self.place.secrets();
        let redacted = changes.iter().map(|(_, change)| change.redacted(&secrets)).collect::<Result<Vec<_>>>()?;
        let changes: Vec<(&str, &Change)> =
            changes.iter().zip(&redacted).map(|((place, _), change)| (*place, &**change)).collect();
        let changes = changes.as_slice();
        let owners = self.owners(changes)?;
        if let Some(number) = owners.iter().copied().find(|number| self.repos[*number].unreachable.is_some()) {
            if let Some(other) = owners.iter().find(|other| **other != number) {
                return Err(Error::unavailable("the changes are in several ledgers, and one cannot be reached")
                    .hint(format!("change the issues of {} alone", self.repos[*other].path().display())));
            }
            return self.defer(changes, number, dry_run, session, fence);
        }
        if owners.windows(2).all(|pair| pair[0] == pair[1]) {
            return self.apply_round(changes, owners, dry_run, &fence);
        }
        // Each ledger is written once, after all of them were checked. So the changes of a ledger come together, except
        // where a name must be given before it is used.
        let has_names = changes.iter().any(|(_, change)| matches!(change, Change::Add(New { name: Some(_), .. })));
        let mut order: Vec<usize> = (0..changes.len()).collect();
        if !has_names {
            order.sort_by_key(|index| owners.iter().position(|owner| *owner == owners[*index]));
        }
        let (ordered, owners): (Vec<(&str, &Change)>, Vec<usize>) =
            order.iter().map(|index| (changes[*index], owners[*index])).unzip();
        let mut applied = match self.apply_round(&ordered, owners.clone(), true, &fence) {
            // The check of one ledger does not see issues that the check of another one adds by name.
            Err(error) if error.kind() == Kind::NotFound && !dry_run && has_names => Applied::default(),
            checked => checked?,
        };
        if !dry_run {
            applied = self.apply_round(&ordered, owners, false, &fence)?;
        }
        let mut placed: Vec<_> = order.into_iter().zip(applied.records).collect();
        placed.sort_by_key(|(index, _)| *index);
        Ok(Applied { records: placed.into_iter().map(|(_, record)| record).collect(), ..applied })
    }

    /// Makes or checks changes in their order, with one transaction for those of a ledger that come together. `owners` are
    /// the numbers of their ledgers.
    fn apply_round(
        &self,
        changes: &[(&str, &Change)],
        mut owners: Vec<usize>,
        dry_run: bool,
        fence: &impl Fn(&[String]) -> Result<()>,
    ) -> Result<Applied> {
        let opens = |change: &Change| match change.plain() {
            Change::Reopen(_) | Change::Claim(_) => true,
            Change::Update(_, edit) => edit.status.is_some(),
            _ => false,
        };
        if changes.iter().any(|(_, change)| opens(change)) {
            // A blocker may have been pruned.
            self.with_index(|_| Ok(()))?;
        }
        let by_agent = self.place.agent().is_some();
        let Applied { mut records, mut over } = Applied::default();
        let mut names = Names::default();
        retry_moved(|moved| {
            if moved.take() {
                owners = self.owners(changes)?;
            }
            while let Some(number) = owners.get(records.len()).copied() {
                let rest = changes.iter().zip(&owners).skip(records.len());
                let group = rest.take_while(|(_, owner)| **owner == number).map(|(change, _)| change);
                let (done, new_names) = self.transaction_in(number, |transaction| {
                    if dry_run {
                        transaction.discard();
                    }
                    transaction.names.clone_from(&names);
                    let of_holder = group.clone().filter_map(|(_, change)| change.of_holder(by_agent));
                    let of_holder: Vec<String> = of_holder.filter_map(|id| transaction.find(id).ok()).collect();
                    if !of_holder.is_empty() {
                        fence(&of_holder)?;
                    }
                    over.extend(group.clone().filter_map(|(_, change)| transaction.closed_already(change)));
                    let apply =
                        |(place, change): &(&str, &Change)| transaction.apply(change).map_err(|error| at(place, error));
                    let done = group.clone().map(apply).collect::<Result<Vec<Record>>>();
                    moved.set(transaction.is_elsewhere());
                    Ok((done?, transaction.names.clone()))
                })?;
                records.extend(done.into_iter().map(|record| (record, number)));
                names = new_names;
            }
            Ok(())
        })?;
        Ok(Applied { records, over })
    }

    /// Keeps changes in the store, because their ledger cannot be reached. Returns the issues as they are after the changes,
    /// seen from the workspace's copy of the ledger and the changes that wait already.
    fn defer(
        &self,
        changes: &[(&str, &Change)],
        number: usize,
        dry_run: bool,
        session: &LazySession,
        fence: impl Fn(&[String]) -> Result<()>,
    ) -> Result<Applied> {
        self.require_role(number)?;
        let reason = self.repos[number].unreachable.clone().unwrap_or_default();
        let context = format!("the ledger cannot be reached ({reason}), and the store cannot keep the change");
        let waiting = {
            let mut session = session.open().map_err(|error| error.within(&context))?;
            let mut waiting = session.read(ListNotices {}).map_err(|error| error.within(&context))?.deferred;
            waiting.retain(|waiting| waiting.worktree_id == session.worktree().id);
            waiting
        };
        let key = self.key.clone().unwrap_or_else(|| engine::own_key(&mut SystemEntropy));
        let by_agent = self.place.agent().is_some();
        // Nothing is written: the transaction is discarded.
        let mut over = BTreeSet::new();
        let locks = LedgerLocks::acquire(&[&self.ledgers.files()[number]])?;
        let records = self.transaction_under(&locks, number, |transaction| {
            transaction.discard();
            for waiting in &waiting {
                for (position, change) in decode(&waiting.changes)?.iter().enumerate() {
                    transaction.key = Some(position_key(&waiting.key, position));
                    // It may fail when it is delivered, too.
                    let _ = transaction.apply(change);
                }
            }
            let of_holder = changes.iter().filter_map(|(_, change)| change.of_holder(by_agent));
            let of_holder: Vec<String> = of_holder.filter_map(|id| transaction.find(id).ok()).collect();
            if !of_holder.is_empty() {
                fence(&of_holder)?;
            }
            over.extend(changes.iter().filter_map(|(_, change)| transaction.closed_already(change)));
            let apply = |(position, (place, change)): (usize, &(&str, &Change))| {
                transaction.key = Some(position_key(&key, position));
                transaction.apply(change).map_err(|error| at(place, error))
            };
            changes.iter().enumerate().map(apply).collect::<Result<Vec<Record>>>()
        })?;
        if !dry_run {
            let full = |((_, change), record): (&(&str, &Change), &Record)| {
                let mut change = (*change).clone();
                change.with_id(&record.text("id").unwrap_or_default());
                change
            };
            let changes: Vec<Change> = changes.iter().zip(&records).map(full).collect();
            let changes = serde_json::to_value(changes).map_err(|error| Error::internal(error.to_string()))?;
            session.open()?.write(DeferChanges { key, changes }).map_err(|error| error.within(&context))?;
        }
        Ok(Applied { records: records.into_iter().map(|record| (record, number)).collect(), over })
    }

    /// Makes deferred changes in the first ledger, as one transaction, if they still wait and their author may make them.
    /// `fence` decides both under the ledger's lock: it returns whether they wait, and refuses those of issues that are
    /// restricted to their holder. If an earlier call made them and was not confirmed, nothing happens: newer changes stay.
    pub(crate) fn apply_deferred(
        &self,
        deferred: &DeferredChanges,
        by_agent: bool,
        mut fence: impl FnMut(&[String]) -> Result<bool>,
    ) -> Result<bool> {
        let changes = decode(&deferred.changes)?;
        self.transaction_in(0, |transaction| {
            let is_made = self.ledgers.files()[0].has_written(&deferred.key)?;
            let of_holder = changes.iter().filter(|_| !is_made).filter_map(|change| change.of_holder(by_agent));
            let of_holder: Vec<String> = of_holder.filter_map(|id| transaction.find(id).ok()).collect();
            if !fence(&of_holder)? {
                return Ok(false);
            }
            if is_made {
                return Ok(true);
            }
            transaction.draft().record_as(&deferred.key);
            for (position, change) in changes.iter().enumerate() {
                transaction.key = Some(position_key(&deferred.key, position));
                transaction.apply(change)?;
            }
            Ok(true)
        })
    }

    /// Forgets deferred changes that the store has no longer.
    pub(crate) fn forget_deferred(&self, deferred: &DeferredChanges) -> Result<()> {
        self.ledgers.files()[0].forget_written(&deferred.key)
    }

    /// Returns the number of the ledger for each change.
    fn owners(&self, changes: &[(&str, &Change)]) -> Result<Vec<usize>> {
        if self.repos.len() == 1 {
            for (place, change) in changes {
                if let Change::Add(new) = change.plain() {
                    let is_part = new.edit.parent_id.is_some() || new.discovered_from.is_some();
                    let routed = if is_part { Ok(0) } else { self.routed() };
                    routed.map_err(|error| at(place, error))?;
                }
            }
            return Ok(vec![0; changes.len()]);
        }
        self.with_index(|index| {
            let mut names: BTreeMap<&str, usize> = BTreeMap::new();
            let mut numbers = Vec::new();
            for (place, change) in changes {
                let owner = |id: &str| match id.strip_prefix('$') {
                    Some(name) => Ok(names.get(name).copied()),
                    None => self.changed_copy(index, &index.find(id)?),
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

    /// Returns the number of the ledger whose copy of an issue the user changes: the one that counts, or the planning's as long
    /// as the project's is the user's own proposal.
    fn changed_copy(&self, index: &Index, id: &str) -> Result<Option<usize>> {
        let Some(counting) = index.get(id)? else { return Ok(None) };
        if self.may_write(counting.ledger) || counting.issue.visibility() != Visibility::Proposed {
            return Ok(Some(counting.ledger));
        }
        for number in (0..self.repos.len()).filter(|number| self.may_write(*number)) {
            let Some(planned) = index.in_ledger(id, number)? else { continue };
            if planned.record == counting.record {
                return Ok(Some(number));
            }
            if planned.issue.visibility() == Visibility::Proposed {
                return Err(Error::conflict(format!("the project's copy of issue {id} has changes that yours lacks"))
                    .hint(format!("to merge them: way propose {id}")));
            }
        }
        Ok(Some(counting.ledger))
    }

    /// Returns the number of the ledger for a new issue: the named one, else that of its parent or of the issue it was
    /// discovered from, else the route's.
    fn home_of(&self, new: &New, owner: impl Fn(&str) -> Result<Option<usize>>) -> Result<usize> {
        if let Some(only) = self.only {
            return Ok(only);
        }
        let origin = new.edit.parent_id.as_deref().filter(|parent| !parent.is_empty());
        for id in origin.into_iter().chain(new.discovered_from.as_deref()) {
            if let Some(number) = owner(id)?
                && self.may_write(number)
            {
                return Ok(number);
            }
        }
        self.routed()
    }

    /// Returns the number of the ledger for a new issue that belongs to no other issue.
    fn routed(&self) -> Result<usize> {
        if self.only.is_none() && self.route.needs_repo {
            return Err(Error::invalid("a new issue needs a repository, because routing.mode is explicit")
                .hint("name it with --repo PATH, or set a default: way config set routing.default PATH"));
        }
        Ok(self.home())
    }

    /// Makes several changes, atomically and durably, in the ledger for new issues.
    ///
    /// `change` is called again if a program that does not use our lock replaces the file meanwhile.
    pub fn transaction<T>(&self, change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>) -> Result<T> {
        self.transaction_in(self.routed()?, change)
    }

    /// Returns the number of the default ledger for new issues.
    pub fn home(&self) -> usize {
        self.only.unwrap_or(self.route.number)
    }

    /// Makes several changes atomically in the ledger that has an issue.
    pub fn transaction_about<T>(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        retry_moved(|moved| {
            let number = self.number_of(id)?;
            self.transaction_in(number, |transaction| {
                let answer = change(transaction);
                moved.set(transaction.is_elsewhere());
                answer
            })
        })
    }

    /// Waits for every change of an issue's ledger that acquired the lock before this call. Returns at once if no ledger has
    /// the issue.
    pub(crate) fn wait_for_changes(&self, id: &str) -> Result<()> {
        match self.number_of(id) {
            Ok(number) => self.ledgers.files()[number].wait_for_changes(),
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the number of the ledger that has an issue. With a single ledger, this does not check that the issue exists.
    fn number_of(&self, id: &str) -> Result<usize> {
        if self.repos.len() == 1 {
            Ok(0)
        } else {
            self.with_index(|index| Ok(self.changed_copy(index, &index.find(id)?)?.unwrap_or(self.route.number)))
        }
    }

    /// Acquires the locks of several ledgers.
    pub(crate) fn lock(&self, numbers: &[usize]) -> Result<LedgerLocks> {
        numbers.iter().try_for_each(|number| self.require_reachable(*number))?;
        LedgerLocks::acquire(&numbers.iter().map(|number| &self.ledgers.files()[*number]).collect::<Vec<_>>())
    }

    /// Returns the numbers of the ledgers that queries cover and that the user may write.
    pub fn numbers(&self) -> Vec<usize> {
        let is_covered = |number: &usize| self.only.is_none_or(|only| only == *number);
        (0..self.repos.len()).filter(is_covered).filter(|number| self.may_write(*number)).collect()
    }

    /// Resolves the place of another directory for the same user.
    pub(crate) fn place_at(&self, path: &Path) -> Result<Place> {
        Place::at_as(path, None, &self.place.variables)
    }

    /// Returns whether the user may write a ledger.
    pub fn may_write(&self, number: usize) -> bool {
        self.protected() != Some(number) && self.repos[number].unreachable.is_none()
    }

    /// Returns the number of the ledger that a contributor may not write, if there is one.
    pub fn protected(&self) -> Option<usize> {
        self.route.is_protected.then_some(0)
    }

    /// Makes several changes of one ledger atomically.
    pub(crate) fn transaction_in<T>(
        &self,
        number: usize,
        change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        self.require_writable(number)?;
        let locks = LedgerLocks::acquire(&[&self.ledgers.files()[number]])?;
        self.transaction_under(&locks, number, change)
    }

    /// Fails if a ledger is a workspace's copy of one that cannot be reached, or a copy that beads makes of its database.
    fn require_reachable(&self, number: usize) -> Result<()> {
        let repo = &self.repos[number];
        if repo.is_in_dolt() {
            let (beads, root) = (repo.root.join(".beads"), repo.root.display());
            return Err(Error::refused(format!(
                "beads keeps the issues of {root} in Dolt and rewrites its file from there, so a change here would be lost"
            ))
            .hint(if ledger_in(&repo.root).1 {
                format!("take them over: bd export -o {0}/issues.jsonl; way import beads {0}/issues.jsonl", beads.display())
            } else {
                "take them over: bd export -o all.jsonl; way import beads all.jsonl".to_owned()
            }));
        }
        let Some(reason) = &self.repos[number].unreachable else { return Ok(()) };
        Err(Error::unavailable("the ledger cannot be reached, and the workspace's copy of it is never changed")
            .because(reason)
            .hint("run the command in the repository that owns the workspace"))
    }

    /// Fails if the user may not write a ledger.
    pub(crate) fn require_writable(&self, number: usize) -> Result<()> {
        self.require_role(number)?;
        self.require_reachable(number)
    }

    /// Fails if the user's role does not allow to write a ledger: a contributor changes a project's ledger only if it has
    /// private issues of theirs, and only those, which [`Ledger::require_own_changes`] checks.
    fn require_role(&self, number: usize) -> Result<()> {
        if self.protected() == Some(number) && self.private_issues()?.is_empty() {
            return Err(self.role_error());
        }
        Ok(())
    }

    /// Returns the ids of a contributor's private issues in the project's ledger.
    pub(crate) fn private_issues(&self) -> Result<Vec<String>> {
        self.protected().map_or(Ok(Vec::new()), |number| forks::private_issues(&self.repos[number]))
    }

    /// Fails if a contributor changes other issues of the project's ledger than their private ones.
    fn require_own_changes(&self, number: usize, draft: &Draft<'_>) -> Result<()> {
        if self.protected() != Some(number) || draft.changed().next().is_none() {
            return Ok(());
        }
        let committed = forks::Committed::of(&self.repos[number])?;
        let is_own = |was: Option<&Record>| was.is_some_and(|was| committed.lacks(was));
        if draft.changed().all(|(_, was)| is_own(was)) { Ok(()) } else { Err(self.role_error()) }
    }

    fn role_error(&self) -> Error {
        let (path, because) = (self.repos[0].path().display(), &self.route.because);
        Error::refused(format!("you may not write the ledger of {path}: {because}"))
            .hint("propose an issue instead: way propose ID")
            .hint("if you maintain it: way config set role maintainer")
    }

    /// Returns the visibility of new issues in a ledger, if it is restricted.
    pub(crate) fn new_visibility(&self, number: usize) -> Option<Visibility> {
        (self.route.is_private && number == self.route.number).then_some(Visibility::Local)
    }

    /// Makes several changes of one ledger atomically, under a lock that the caller holds.
    pub(crate) fn transaction_under<T>(
        &self,
        locks: &LedgerLocks,
        number: usize,
        mut change: impl FnMut(&mut Transaction<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let repo = &self.repos[number];
        check_inside(repo.file.path(), &repo.root)?;
        let visibility = self.new_visibility(number);
        let author = Author { name: self.actor(), now: self.now() };
        let entropy = RepeatableEntropy::new();
        homes::record_first_branch(&self.place);
        self.ledgers.change_under(locks, number, author.now, |draft| {
            let terms = self.ledgers.terms();
            let mut transaction = Transaction::new(draft, terms, repo, visibility, author, entropy.clone());
            transaction.key.clone_from(&self.key);
            let answer = change(&mut transaction)?;
            self.require_own_changes(number, transaction.draft())?;
            Ok(answer)
        })
    }

    /// Returns the number of issues that other programs took back and that were written again since the last call.
    pub(crate) fn take_put_back(&self) -> usize {
        self.ledgers.take_put_back()
    }

    /// Returns the issues of a ledger that another program took back, with their titles. An issue that was removed and came
    /// back has none.
    pub fn taken_back(&self, number: usize) -> Result<Vec<(String, Option<String>)>> {
        let ids = self.ledgers.taken_back(number)?;
        self.with_index(|index| {
            let title = |id: &String| Ok((id.clone(), index.get(id)?.map(|entry| entry.issue.title)));
            ids.iter().map(title).collect()
        })
    }

    /// Writes what another program took back to a ledger again.
    pub fn put_back(&self, number: usize) -> Result<()> {
        self.require_writable(number)?;
        self.transaction_in(number, |transaction| {
            transaction.draft().put_back();
            Ok(())
        })?;
        self.take_put_back();
        Ok(())
    }

    /// Forgets the changes of a ledger that no commit has yet, so that its file counts as it is.
    pub fn drop_kept(&self, number: usize) -> Result<()> {
        self.require_writable(number)?;
        self.ledgers.drop_kept(number)
    }

    /// Replaces the content of the first ledger under its lock. The file stays as it is if `rewrite` returns `None`.
    pub(crate) fn rewrite<T>(&self, rewrite: impl Fn(&Document) -> Result<Option<(Document, T)>>) -> Result<Option<T>> {
        self.require_reachable(0)?;
        check_inside(self.repos[0].file.path(), &self.repos[0].root)?;
        self.ledgers.rewrite(0, rewrite)
    }

    /// Returns a number that grows with every change. If nothing changed, this costs one `stat` per ledger.
    pub fn revision(&self) -> Result<u64> {
        self.ledgers.revision(self.now())
    }

    /// Returns the concatenated files of the ledgers that queries cover.
    pub fn copy(&self) -> Result<Vec<u8>> {
        let mut copy = Vec::new();
        let is_covered = |number: &usize| self.only.is_none_or(|only| only == *number);
        for number in (0..self.repos.len()).filter(is_covered) {
            let file = &self.ledgers.files()[number];
            if copy.last().is_some_and(|last| *last != b'\n') {
                copy.push(b'\n');
            }
            copy.extend(file.read()?.to_bytes());
        }
        Ok(copy)
    }

    /// Reads a ledger's whole file and reports its problems.
    pub fn audit(&self, number: usize) -> Result<Audit> {
        self.ledgers.files()[number].read().map(|document| audit(&document))
    }
}

/// Decodes deferred changes.
fn decode(changes: &serde_json::Value) -> Result<Vec<Change>> {
    Vec::<Change>::deserialize(changes)
        .map_err(|error| Error::damaged("the store has deferred changes that cannot be read").because(error))
}

/// Returns the key of one of several deferred changes.
fn position_key(key: &str, position: usize) -> String {
    format!("{key}-{position}")
}

/// Retries a change that failed because another command moved its issue to another ledger. `attempt` sets the flag in that
/// case, and still finds it set when it is called again.
fn retry_moved<T>(mut attempt: impl FnMut(&Cell<bool>) -> Result<T>) -> Result<T> {
    let (deadline, moved) = (Instant::now() + MOVE_TIMEOUT, Cell::new(false));
    loop {
        match attempt(&moved) {
            Err(_) if moved.get() && Instant::now() < deadline => {}
            answer => return answer,
        }
    }
}

/// Adds the position in the input to an error, if it is known.
fn at(place: &str, error: Error) -> Error {
    if place.is_empty() { error } else { error.within(place) }
}

pub(crate) fn place_of(path: &Path, actor: Option<String>) -> Result<Place> {
    Place::at_as(path, actor, &Variables::of_process())
}

/// Returns the file name of an index. Other sets of ledgers, for example those of another branch, have their own index.
fn index_name(place: &Place, files: &[LedgerFile], is_configured: bool) -> String {
    let is_in = |home: &Path| LEDGERS.iter().any(|name| files[0].path() == home.join(name));
    let is_home = place.home_worktree.as_deref().is_some_and(is_in)
        || place.checkout.as_ref().is_some_and(|checkout| files[0].path() == separate_ledger(checkout));
    if is_configured && is_home {
        return "index.db".to_owned();
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.path().hash(&mut hasher);
    }
    format!("index-{:016x}.db", hasher.finish())
}

/// Reads vocabulary and rules from the configuration.
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
        pruned: Pruned::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b18_opening_by_path_reads_the_configuration_and_an_explicit_one_replaces_it() {
        if !waypost_testkit::in_own_home() {
            return;
        }
        let dir = waypost_testkit::temp_dir();
        let [project, planning, other] = ["project", "planning", "other"].map(|name| {
            let repository = dir.path().join(name);
            std::fs::create_dir_all(repository.join(".waypost")).unwrap();
            let issue = Edit { title: Some(name.to_owned()), ..Edit::default() };
            Ledger::open(&repository).unwrap().add(&issue).unwrap();
            repository
        });
        let config = format!("[repos]\nadditional = ['{}']\n", planning.display());
        waypost_fs::replace(&project.join(".waypost/local/config.toml"), config.as_bytes(), 0o600).unwrap();
        let titles = |ledger: Ledger| {
            let issues = ledger.list(&Filter::default(), Sort::Priority).unwrap();
            let mut titles: Vec<String> = issues.into_iter().map(|issue| issue.title).collect();
            titles.sort();
            titles
        };
        assert_eq!(titles(Ledger::open(&project).unwrap()), ["planning", "project"]);
        assert_eq!(titles(Ledger::open(&planning).unwrap()), ["planning"]);
        let explicit = Config { primary: project, additional: vec![other], actor: None };
        assert_eq!(titles(Ledger::with_config(explicit).unwrap()), ["other", "project"]);
    }
}
