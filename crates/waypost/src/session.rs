//! An open store, and the worktree in whose name it is used.

use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use waypost_core::engine::{self, Caller};
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Vcs, Worktree};
use waypost_core::op::{Effect, Entry, Operation, Register, Settle};
use waypost_core::store::{Store, Tx};
use waypost_core::time::{Clock, FixedClock, Timestamp};
use waypost_core::{Error, Kind, Result, path_text};
use waypost_fs::FileIdentity;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};
use waypost_workspace::{
    Environment, detect, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, worktree_id,
};

use crate::environment::{Variables, WAYPOST_TEST_CLOCK};
use crate::place::{Location, Place, Scope, StoreChoice};

/// How long a command that only looks waits to introduce its worktree.
const INTRODUCTION: Duration = Duration::from_millis(200);

/// An open store, used from a place.
pub struct Session {
    /// Where we are.
    pub place: Place,
    /// Which store it is.
    pub choice: StoreChoice,
    store: OpenStore,
    caller: Caller,
    entropy: SystemEntropy,
    /// Why nothing can be written in the name of this worktree, if so.
    nameless: Option<Error>,
}

impl Session {
    /// Opens the store that the place chose, making it on first use, and makes this worktree known in it.
    ///
    /// Where nothing can be written, an existing store is opened for reading.
    pub fn open(mut place: Place) -> Result<Session> {
        let mut entropy = SystemEntropy;
        let mut choice = choose(&place, &mut entropy)?;
        let mut store = open_store(&place, &choice)?;
        let now = clock(&place.variables)?.now();
        let (caller, nameless, is_known) = match ensure_ids(&place, &mut entropy) {
            Ok(mut ids) => {
                let mut known = store.begin_read()?.worktree_get(&ids.1)?;
                if let Some(original) = known.as_ref().filter(|known| is_copied_from(&place, known)) {
                    let dirs = id_dirs(&place)?;
                    ids = renew_ids(dirs.0, &ids.0, dirs.1, &ids.1, &mut entropy)?;
                    if choice.scope == Some(Scope::Worktree) {
                        // Its path has the worktree's id in it.
                        choice = choose(&place, &mut entropy)?;
                        store = open_store(&place, &choice)?;
                    }
                    let original = path_text::to_text(&original.path);
                    place.warnings.push(format!("this is a copy of {original}, and has got an identity of its own"));
                    known = store.begin_read()?.worktree_get(&ids.1)?;
                }
                (caller(&place, ids, now), None, known.is_some())
            }
            // Reading needs no name: one that is never written will do.
            Err(error) => {
                let ids = (RepositoryId::generate(&mut entropy), WorktreeId::generate(&mut entropy));
                (caller(&place, ids, now), Some(error), true)
            }
        };
        let mut caller = caller;
        if place.checkout.as_ref().is_some_and(|checkout| is_adopted(&checkout.private_dir))
            && let Some(known) = store.begin_read()?.repository_get(&caller.repository.id)?
        {
            // What a workspace knows of its repository is no news.
            caller.repository = known;
        }
        let mut session = Session { place, choice, store, caller, entropy, nameless };
        if !is_known && !session.store.is_read_only() {
            session.introduce()?;
        }
        Ok(session)
    }

    /// Makes this worktree known.
    fn introduce(&mut self) -> Result<()> {
        self.within(INTRODUCTION, |session| session.write(Register {}))
    }

    /// Writes something that whoever writes next does anyway: looking must not wait for writers.
    fn within<T>(&mut self, patience: Duration, write: impl FnOnce(&mut Session) -> Result<T>) -> Result<()> {
        let usual = self.store.set_patience(patience);
        let written = write(self);
        self.store.set_patience(usual);
        match written {
            Err(error) if error.kind() != Kind::Unavailable => Err(error),
            _ => Ok(()),
        }
    }

    /// Runs an operation that only reads. What time has brought about is written first, where that is possible.
    pub fn read<O: Operation>(&mut self, operation: O) -> Result<O::Answer> {
        self.settle_what_is_due()?;
        engine::read(&mut self.store, &self.caller, &mut self.entropy, operation)
    }

    /// Runs an operation of the table, with its arguments and its answer as JSON.
    pub fn call(&mut self, entry: &Entry, key: Option<&str>, arguments: Value) -> Result<Value> {
        match (entry.effect, &self.nameless) {
            (Effect::Read, _) => self.settle_what_is_due()?,
            (Effect::Write, Some(error)) => return Err(error.clone()),
            (Effect::Write, None) => {}
        }
        (entry.call)(&mut self.store, &self.caller, &mut self.entropy, key, arguments)
    }

    fn settle_what_is_due(&mut self) -> Result<()> {
        if self.nameless.is_none() && !self.store.is_read_only() && engine::is_due(&mut self.store)? {
            self.within(INTRODUCTION, |session| session.write(Settle {}))?;
        }
        Ok(())
    }

    /// Runs an operation that writes; what it did is on disk when this returns.
    pub fn write<O: Operation>(&mut self, operation: O) -> Result<O::Answer> {
        self.write_once(None, operation)
    }

    /// Runs an operation that writes, once: the same key gives the same answer, however often it is asked.
    pub fn write_once<O: Operation>(&mut self, key: Option<&str>, operation: O) -> Result<O::Answer> {
        if let Some(error) = &self.nameless {
            return Err(error.clone());
        }
        engine::write(&mut self.store, &self.caller, &mut self.entropy, key, operation)
    }

    /// Says in whose name it is used from here on.
    pub fn act_as(&mut self, actor: String, agent: Option<String>) {
        self.place = self.place.used_by(&actor, agent.as_deref());
        (self.caller.actor, self.caller.agent) = (actor, agent);
    }

    /// Uses the same store from a place as it is now. It must be the one that the place chooses.
    pub fn moved_to(mut self, place: Place) -> Result<Session> {
        let ids = (self.caller.repository.id.clone(), self.caller.worktree.id.clone());
        if self.nameless.is_some()
            || (place.repository_id()?, place.worktree_id()?) != (Some(ids.0.clone()), Some(ids.1.clone()))
        {
            return Session::open(place);
        }
        self.caller = caller(&place, ids, clock(&place.variables)?.now());
        self.place = place;
        Ok(self)
    }

    /// Waits until somebody may have written after the event with this sequence, or until time is up.
    pub fn wait(&mut self, last: u64, at_most: Duration) -> Result<()> {
        self.store.wait(last, at_most)
    }

    /// Tells whether the store is on a server, which other machines use too.
    pub fn is_remote(&self) -> bool {
        self.store.is_remote()
    }

    /// Returns the store.
    pub fn store(&mut self) -> &mut OpenStore {
        &mut self.store
    }

    /// Returns the store's file, if it is one.
    pub fn sqlite(&self) -> Option<&SqliteStore> {
        match &self.store {
            OpenStore::Sqlite(store) => Some(store),
            OpenStore::Postgres(_) => None,
        }
    }

    /// Returns the repository we stand in.
    pub fn repository(&self) -> &Repository {
        &self.caller.repository
    }

    /// Returns the worktree we stand in.
    pub fn worktree(&self) -> &Worktree {
        &self.caller.worktree
    }

    /// Returns the current time.
    pub fn now(&self) -> Result<Timestamp> {
        Ok(clock(&self.place.variables)?.now())
    }
}

fn choose(place: &Place, entropy: &mut dyn Entropy) -> Result<StoreChoice> {
    let choice = place.store()?;
    if choice.location == Location::UnnamedSqlite {
        ensure_worktree_id(&place.require_checkout()?.worktree_private_dir, entropy)?;
        return place.store();
    }
    Ok(choice)
}

/// A store of any kind.
pub enum OpenStore {
    /// A file.
    Sqlite(SqliteStore),
    /// A schema on a server.
    Postgres(Box<PostgresStore>),
}

impl OpenStore {
    fn is_read_only(&self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.is_read_only(),
            OpenStore::Postgres(_) => false,
        }
    }

    fn set_patience(&mut self, patience: Duration) -> Duration {
        match self {
            OpenStore::Sqlite(store) => store.set_patience(patience),
            OpenStore::Postgres(store) => store.set_patience(patience),
        }
    }
}

impl Store for OpenStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self {
            OpenStore::Sqlite(store) => store.begin_read(),
            OpenStore::Postgres(store) => store.begin_read(),
        }
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self {
            OpenStore::Sqlite(store) => store.begin_write(),
            OpenStore::Postgres(store) => store.begin_write(),
        }
    }

    fn wait(&mut self, last: u64, at_most: Duration) -> Result<()> {
        match self {
            OpenStore::Sqlite(store) => store.wait(last, at_most),
            OpenStore::Postgres(store) => store.wait(last, at_most),
        }
    }

    fn is_remote(&self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.is_remote(),
            OpenStore::Postgres(store) => store.is_remote(),
        }
    }
}

fn open_store(place: &Place, choice: &StoreChoice) -> Result<OpenStore> {
    let wait = place.config.text("store.wait").unwrap_or_default();
    let patience = wait.parse::<SignedDuration>().ok().and_then(|wait| Duration::try_from(wait).ok());
    let patience = patience.unwrap_or(sqlite::Options::default().patience);
    match &choice.location {
        Location::Sqlite(path) => {
            let allow_network = place.config.text("store.network").as_deref() == Some("allow");
            let options = sqlite::Options { patience, allow_network };
            SqliteStore::open(path, options, clock(&place.variables)?).map(OpenStore::Sqlite)
        }
        Location::Postgres(url) => {
            let store = PostgresStore::open(url, postgres::Options { patience })?;
            Ok(OpenStore::Postgres(Box::new(store)))
        }
        Location::UnnamedSqlite | Location::Server(_) => Err(Error::unavailable(format!(
            "{} is a {} store, which this version does not open",
            choice.location,
            choice.location.kind()
        ))
        .hint("name a file or a postgres:// URL with --db")),
    }
}

/// Where the ids of the place are kept. Outside any repository it is the user's own directory.
fn id_dirs(place: &Place) -> Result<(&Path, &Path)> {
    match (&place.checkout, &place.home) {
        (Some(checkout), _) => Ok((&checkout.private_dir, &checkout.worktree_private_dir)),
        (None, Some((home, _))) => Ok((home, home)),
        (None, None) => Err(Error::invalid("outside a repository, writing needs a home directory").hint("set HOME")),
    }
}

fn ensure_ids(place: &Place, entropy: &mut dyn Entropy) -> Result<(RepositoryId, WorktreeId)> {
    let (repository, worktree) = id_dirs(place)?;
    Ok((ensure_repository_id(repository, entropy)?, ensure_worktree_id(worktree, entropy)?))
}

/// Tells whether our id was copied, with the whole directory, from a worktree that still has it.
fn is_copied_from(place: &Place, known: &Worktree) -> bool {
    let Some(checkout) = &place.checkout else { return false };
    let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
    if here == known.path {
        return false;
    }
    // The same directory under another mount has the same private directory behind it, so it is no copy.
    let there = detect(&known.path, &Environment::default());
    matches!(there, Ok(Some(there)) if worktree_id(&there.worktree_private_dir).ok().flatten().as_ref() == Some(&known.id)
        && there.root.as_deref().unwrap_or(&there.shared_dir) == known.path
        && !is_same_file(&there.worktree_private_dir, &checkout.worktree_private_dir))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((FileIdentity::of(one), FileIdentity::of(other)), (Ok(one), Ok(other)) if one == other)
}

fn caller(place: &Place, (repository_id, worktree_id): (RepositoryId, WorktreeId), now: Timestamp) -> Caller {
    let home = || place.home.as_ref().map_or_else(|| place.cwd.clone(), |(path, _)| path.clone());
    let (repository, name, path, branch) = match &place.checkout {
        Some(checkout) => (
            Repository {
                id: repository_id.clone(),
                name: checkout.repository_name(),
                path: checkout.repository_path().to_owned(),
                vcs: checkout.repository_vcs(),
                remote_url: checkout.remote_url.clone(),
                default_branch: checkout.default_branch.clone(),
            },
            checkout.name.clone(),
            checkout.root.clone().unwrap_or_else(|| checkout.shared_dir.clone()),
            checkout.branch.clone(),
        ),
        None => (
            Repository {
                id: repository_id.clone(),
                name: "home".to_owned(),
                path: home(),
                vcs: Vcs::None,
                remote_url: None,
                default_branch: None,
            },
            "home".to_owned(),
            home(),
            None,
        ),
    };
    let worktree = Worktree {
        id: worktree_id,
        repository_id,
        name,
        path,
        branch,
        first_seen: now,
        last_seen: now,
        removed_at: None,
    };
    let is_shared = !matches!(
        place.store().map(|choice| (choice.scope, choice.location)),
        Ok((Some(Scope::Repo | Scope::Worktree), Location::Sqlite(_) | Location::UnnamedSqlite))
    );
    Caller { actor: place.actor(), agent: place.agent(), repository, worktree, is_shared }
}

/// Returns the clock of this process. Tests may set it, in builds that are not for release.
pub fn clock(variables: &Variables) -> Result<Box<dyn Clock + Send + Sync>> {
    if cfg!(debug_assertions)
        && let Some(text) = variables.text(WAYPOST_TEST_CLOCK)
    {
        let moment: jiff::Timestamp = text
            .parse()
            .map_err(|error| Error::invalid(format!("{WAYPOST_TEST_CLOCK} is not a time")).because(error))?;
        return Ok(Box::new(FixedClock(Timestamp::from_millis(moment.as_millisecond()))));
    }
    Ok(Box::new(SystemClock))
}

struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the machine for the time")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Randomness from the operating system.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has random bytes");
    }
}
