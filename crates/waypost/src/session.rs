//! An open store, and the worktree in whose name it is used.

use std::path::Path;
use std::time::Duration;

use crate::client::{self, Client};
use crate::origin::Origin;
use serde_json::Value;
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Vcs, Worktree};
use waypost_core::op::{Effect, ExpireDue, ListWorktrees, Operation, OperationEntry, Register};
use waypost_core::store::{Store, Tx};
use waypost_core::time::Timestamp;
use waypost_core::{Error, Kind, Result, path_text};
use waypost_fs::FileIdentity;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::SqliteStore;
use waypost_store::{postgres, sqlite};
use waypost_workspace::{
    Environment, detect, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, worktree_id,
};

use crate::environment::WAYPOST_TOKEN;
use crate::place::{Location, Place, Scope, StoreChoice, expand};
use crate::system::{SystemEntropy, clock};
use crate::tokens;

/// How long a command that only looks waits to introduce its worktree.
const REGISTER_TIMEOUT: Duration = Duration::from_millis(200);

/// An open store, used from a place.
pub struct Session {
    /// Where we are.
    pub place: Place,
    /// Which store it is.
    pub choice: StoreChoice,
    store: Backend,
    caller: Caller,
    entropy: SystemEntropy,
    /// Why nothing can be written in the name of this worktree, if so.
    identity_error: Option<Error>,
}

impl Session {
    /// Opens the store that the place chose, making it on first use, and makes this worktree known in it.
    ///
    /// Where nothing can be written, an existing store is opened for reading.
    pub fn open(place: Place) -> Result<Session> {
        Session::open_on(place, Servers::Known)
    }

    /// The same on a server that may lack acknowledged writes, for the one operation that accepts it.
    pub fn open_after_failover(place: Place) -> Result<Session> {
        Session::open_on(place, Servers::Any)
    }

    fn open_on(mut place: Place, servers: Servers) -> Result<Session> {
        let mut entropy = SystemEntropy;
        let mut choice = choose(&place, &mut entropy)?;
        let mut store = open_store(&place, &choice, servers)?;
        let now = clock(&place.variables)?.now();
        let (caller, identity_error, is_known) = match ensure_ids(&place, &mut entropy) {
            Ok(mut ids) => {
                let mut known = store.worktree(&ids.1)?;
                if let Some(original) = known.as_ref().filter(|known| is_copied_from(&place, known)) {
                    let dirs = id_dirs(&place)?;
                    ids = renew_ids(dirs.0, &ids.0, dirs.1, &ids.1, &mut entropy)?;
                    if choice.scope == Some(Scope::Worktree) {
                        // Its path has the worktree's id in it.
                        choice = choose(&place, &mut entropy)?;
                        store = open_store(&place, &choice, servers)?;
                    }
                    let original = path_text::to_text(&original.path);
                    place.warnings.push(format!("this is a copy of {original}, and has got an identity of its own"));
                    known = store.worktree(&ids.1)?;
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
        let is_adopted = place.checkout.as_ref().is_some_and(|checkout| is_adopted(&checkout.private_dir));
        if let (true, Backend::Local(store)) = (is_adopted, &mut store)
            && let Some(known) = engine::query(store, |tx| tx.repository_get(&caller.repository.id))?
        {
            // What a workspace knows of its repository is no news.
            caller.repository = known;
        }
        if let Backend::Remote(remote) = &mut store {
            let (repository, worktree) = (caller.repository.clone(), caller.worktree.clone());
            remote.caller.origin = identity_error.is_none().then_some(Origin { repository, worktree });
        }
        let mut session = Session { place, choice, store, caller, entropy, identity_error };
        if !is_known && !session.store.is_read_only() {
            session.introduce()?;
        }
        Ok(session)
    }

    /// Makes this worktree known.
    fn introduce(&mut self) -> Result<()> {
        self.within(REGISTER_TIMEOUT, |session| session.write(Register {}))
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
        if let Backend::Remote(remote) = &mut self.store {
            return remote.run(&operation, None);
        }
        self.settle_what_is_due()?;
        let caller = self.caller.clone();
        engine::read(self.store()?, &caller, &mut SystemEntropy, operation)
    }

    /// Runs an operation of the table, with its arguments and its answer as JSON.
    pub fn call(&mut self, entry: &OperationEntry, key: Option<&str>, arguments: Value) -> Result<Value> {
        if let (Effect::Write, Some(error)) = (entry.effect, &self.identity_error) {
            return Err(error.clone());
        }
        if let Backend::Remote(remote) = &mut self.store {
            // An answer can get lost: asked again, it must not be done again.
            let own = (entry.effect == Effect::Write && key.is_none()).then(|| engine::own_key(&mut self.entropy));
            return remote.client.call(entry.name, &arguments, &remote.caller, key.or(own.as_deref()));
        }
        let caller = self.caller.clone();
        match entry.effect {
            Effect::Read => {
                self.settle_what_is_due()?;
                engine::read_json(self.store()?, &caller, &mut SystemEntropy, entry, arguments)
            }
            Effect::Write => engine::write_json(self.store()?, &caller, &mut SystemEntropy, key, entry, &arguments),
        }
    }

    fn settle_what_is_due(&mut self) -> Result<()> {
        if self.identity_error.is_none() && !self.store.is_read_only() && engine::is_due(self.store()?)? {
            self.within(REGISTER_TIMEOUT, |session| session.write(ExpireDue {}))?;
        }
        Ok(())
    }

    /// Runs an operation that writes; what it did is on disk when this returns.
    pub fn write<O: Operation>(&mut self, operation: O) -> Result<O::Answer> {
        self.write_once(None, operation)
    }

    /// Runs an operation that writes, once: the same key gives the same answer, however often it is asked.
    pub fn write_once<O: Operation>(&mut self, key: Option<&str>, operation: O) -> Result<O::Answer> {
        if let Some(error) = &self.identity_error {
            return Err(error.clone());
        }
        match &mut self.store {
            Backend::Local(store) => engine::write(store, &self.caller, &mut self.entropy, key, operation),
            Backend::Remote(remote) => {
                // An answer can get lost: asked again, it must not be done again.
                let own = key.is_none().then(|| engine::own_key(&mut self.entropy));
                remote.run(&operation, key.or(own.as_deref()))
            }
        }
    }

    /// Says in whose name it is used from here on.
    pub fn act_as(&mut self, actor: String, agent: Option<String>) {
        self.place = self.place.used_by(&actor, agent.as_deref());
        if let Backend::Remote(remote) = &mut self.store {
            (remote.caller.actor, remote.caller.agent) = (Some(actor.clone()), agent.clone());
        }
        (self.caller.actor, self.caller.agent) = (actor, agent);
    }

    /// Uses the same store from a place as it is now. It must be the one that the place chooses.
    pub fn moved_to(mut self, place: Place) -> Result<Session> {
        let ids = (self.caller.repository.id.clone(), self.caller.worktree.id.clone());
        if self.identity_error.is_some()
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
        match &mut self.store {
            Backend::Local(store) => store.wait(last, at_most),
            Backend::Remote(remote) => remote.client.wait(last, at_most),
        }
    }

    /// Tells whether the store is on a server, which other machines use too.
    pub fn is_remote(&self) -> bool {
        match &self.store {
            Backend::Local(store) => store.is_remote(),
            Backend::Remote(_) => true,
        }
    }

    /// Tells whether operations are run by a server.
    pub fn is_served(&self) -> bool {
        matches!(self.store, Backend::Remote(_))
    }

    /// Asks the server for what it does beside the operations of the store.
    pub fn ask_server(&mut self, operation: &str, arguments: &Value) -> Result<Value> {
        match &mut self.store {
            Backend::Remote(remote) => remote.client.call(operation, arguments, &remote.caller, None),
            Backend::Local(_) => Err(Error::refused(format!("{operation} is for a server, and there is none"))),
        }
    }

    /// Returns the store, if it is not behind a server.
    pub fn store(&mut self) -> Result<&mut OpenStore> {
        match &mut self.store {
            Backend::Local(store) => Ok(store),
            Backend::Remote(_) => Err(Error::refused(format!("{} is a server", self.choice.location))
                .hint("do this where the server runs, on the store itself")),
        }
    }

    /// Returns the store's file, if it is one.
    pub fn sqlite(&self) -> Option<&SqliteStore> {
        match &self.store {
            Backend::Local(OpenStore::Sqlite(store)) => Some(store),
            Backend::Local(OpenStore::Postgres(_)) | Backend::Remote(_) => None,
        }
    }

    /// Returns in whose name everything is done.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the repository we stand in.
    pub fn repository(&self) -> &Repository {
        &self.caller.repository
    }

    /// Returns the worktree we stand in.
    pub fn worktree(&self) -> &Worktree {
        &self.caller.worktree
    }

    /// Returns the current time: that of the store's file, which a wrong clock does not move, else that of this process.
    pub fn now(&mut self) -> Result<Timestamp> {
        match &mut self.store {
            Backend::Local(OpenStore::Sqlite(store)) => store.begin_read()?.now(),
            Backend::Local(OpenStore::Postgres(_)) | Backend::Remote(_) => Ok(clock(&self.place.variables)?.now()),
        }
    }
}

/// On which servers a store may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    /// The one that the store knows.
    Known,
    /// Any, also one that took over.
    Any,
}

fn choose(place: &Place, entropy: &mut dyn Entropy) -> Result<StoreChoice> {
    let choice = place.store()?;
    if choice.location == Location::UnnamedSqlite {
        ensure_worktree_id(&place.require_checkout()?.worktree_private_dir, entropy)?;
        return place.store();
    }
    Ok(choice)
}

/// Where operations are run: here, or by a server.
enum Backend {
    Local(OpenStore),
    Remote(Box<Remote>),
}

/// A server that runs operations for us.
struct Remote {
    client: Client,
    caller: client::Caller,
}

impl Remote {
    fn run<O: Operation>(&mut self, operation: &O, key: Option<&str>) -> Result<O::Answer> {
        let arguments = serde_json::to_value(operation)
            .map_err(|error| Error::invalid(format!("the arguments of {} are not JSON", O::NAME)).because(error))?;
        let answer = self.client.call(O::NAME, &arguments, &self.caller, key)?;
        serde_json::from_value(answer).map_err(|error| {
            Error::unavailable(format!("the server answers {} in a way this version does not understand", O::NAME))
                .because(error)
                .hint("use the same version on both sides")
        })
    }
}

impl Backend {
    fn worktree(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        match self {
            Backend::Local(store) => engine::query(store, |tx| tx.worktree_get(id)),
            Backend::Remote(remote) => {
                let known = remote.run(&ListWorktrees {}, None)?.worktrees;
                Ok(known.into_iter().find(|worktree| worktree.id == *id))
            }
        }
    }

    fn is_read_only(&self) -> bool {
        match self {
            Backend::Local(store) => store.is_read_only(),
            Backend::Remote(_) => false,
        }
    }

    fn set_patience(&mut self, patience: Duration) -> Duration {
        match self {
            Backend::Local(store) => store.set_patience(patience),
            Backend::Remote(_) => patience,
        }
    }
}

/// A store of any kind.
pub enum OpenStore {
    /// A file.
    Sqlite(Box<SqliteStore>),
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

    fn begin_request(&mut self) {
        match self {
            OpenStore::Sqlite(store) => store.begin_request(),
            OpenStore::Postgres(store) => store.begin_request(),
        }
    }

    fn end_request(&mut self) {
        match self {
            OpenStore::Sqlite(store) => store.end_request(),
            OpenStore::Postgres(store) => store.end_request(),
        }
    }

    fn free_reserve(&mut self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.free_reserve(),
            OpenStore::Postgres(store) => store.free_reserve(),
        }
    }

    fn may_retry(&mut self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.may_retry(),
            OpenStore::Postgres(store) => store.may_retry(),
        }
    }

    fn is_remote(&self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.is_remote(),
            OpenStore::Postgres(store) => store.is_remote(),
        }
    }
}

fn open_store(place: &Place, choice: &StoreChoice, servers: Servers) -> Result<Backend> {
    if let Location::Server(url) = &choice.location {
        let socket = url.strip_prefix("unix:").map(|path| expand(path, &place.cwd, &place.variables)).transpose()?;
        // The kernel says over a socket who we are.
        let token = match socket {
            Some(_) => place.variables.text(WAYPOST_TOKEN),
            None => tokens::shown_by(place, client::is_private(url))?,
        };
        let caller = client::Caller { actor: Some(place.actor()), agent: place.agent(), origin: None };
        let mut client = Client::new(url, socket, token)?;
        // Before anything is written here in the name of a store that may not be there.
        client.connect()?;
        return Ok(Backend::Remote(Box::new(Remote { client, caller })));
    }
    open_local(place, choice, servers).map(Backend::Local)
}

fn open_local(place: &Place, choice: &StoreChoice, servers: Servers) -> Result<OpenStore> {
    let patience = place.config.duration("store.wait").unwrap_or(sqlite::Options::default().patience);
    match &choice.location {
        Location::Sqlite(path) => {
            let allow_network = place.config.text("store.network").as_deref() == Some("allow");
            let options = sqlite::Options { patience, allow_network, create: place.may_create_store() };
            SqliteStore::open(path, options, clock(&place.variables)?).map(|store| OpenStore::Sqlite(Box::new(store)))
        }
        Location::Postgres(url) => {
            let store = PostgresStore::open(url, postgres::Options { patience })?;
            let store = if servers == Servers::Any { store.accepting_any_server() } else { store };
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
