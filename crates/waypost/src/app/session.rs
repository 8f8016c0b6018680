//! An open store, used from one worktree.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::app::origin::Origin;
use crate::serving::client::{self, Client};
use serde_json::Value;
use waypost_core::context::{Authority, Caller, LeaseTimes, Standing};
use waypost_core::engine;
use waypost_core::id::{Entropy, RepositoryId, WorktreeId};
use waypost_core::model::{Repository, Vcs, Worktree};
use waypost_core::op::{
    Alive, AnyAnswer, AnyOperation, Effect, ExpireDue, Heartbeat, IntoAnyOperation, LeaseView, ListLeases, ListNotices,
    ListWorktrees, NoticeList, Operation, Register, WorktreeList,
};
use waypost_core::redact::Secrets;
use waypost_core::store::{Store, Tx};
use waypost_core::time::{Timestamp, parse_duration_ms};
use waypost_core::{Error, Kind, Result, path_text, tree};
use waypost_fs::FileIdentity;
use waypost_store::postgres::PostgresStore;
use waypost_store::sqlite::{EmptyStore, SqliteStore};
use waypost_store::{postgres, sqlite};
use waypost_workspace::{
    Environment, detect, ensure_repository_id, ensure_worktree_id, is_adopted, renew_ids, worktree_id,
};

use crate::machine::environment::{WAYPOST_EPOCH, WAYPOST_JOB, WAYPOST_TASK};
use crate::machine::place::{Location, Place, Scope, StoreChoice, expand};
use crate::machine::stores;
use crate::machine::system::{SystemEntropy, clock};
use crate::serving::tokens;

/// How often a process that waits for a write looks whether another one has created the store.
const CREATION_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum time that a reading command waits for the write lock to register its worktree.
const REGISTER_TIMEOUT: Duration = Duration::from_millis(200);

/// An open store, used from one place.
pub struct Session {
    /// The place of the caller.
    pub place: Place,
    /// The chosen store.
    pub choice: StoreChoice,
    store: Backend,
    caller: Caller,
    entropy: SystemEntropy,
    /// Why this worktree cannot write, if so.
    identity_error: Option<Error>,
    /// Receives warnings about operations.
    warnings: Warnings,
}

/// Warnings about operations, each once. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds warnings.
    pub fn add(&self, warnings: impl IntoIterator<Item = String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in warnings {
            if !known.contains(&warning) {
                known.push(warning);
            }
        }
    }

    /// Removes and returns all warnings.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Session {
    /// Opens the store that the place chose, creates it on first use, and registers this worktree in it.
    ///
    /// If this process cannot write, it opens an existing store for reading.
    ///
    /// A store that the caller named, and that does not exist, is created by the first write: its name may be mistyped. Reading
    /// a missing file is an error. A database on a server exists already, so a store that is missing in it has no records.
    pub fn open(place: Place) -> Result<Session> {
        let choice = place.store()?;
        let is_on_server = matches!(choice.location, Location::Postgres(_));
        let may_be_mistyped = choice.scope.is_none() || is_on_server;
        let creation = if may_be_mistyped { Creation::ByWrite } else { Creation::Now };
        Session::open_on(place, Servers::Known, creation)
    }

    /// Opens the store that the place chose, and creates it on first use.
    pub fn create(place: Place) -> Result<Session> {
        Session::open_on(place, Servers::Known, Creation::Now)
    }

    /// Opens the store that the place chose. If it does not exist, the first write creates it.
    pub fn open_existing(place: Place) -> Result<Session> {
        Session::open_on(place, Servers::Known, Creation::ByWrite)
    }

    /// Opens the store on a server that may lack acknowledged writes, for the one operation that accepts it.
    pub fn open_after_failover(place: Place) -> Result<Session> {
        Session::open_on(place, Servers::Any, Creation::ByWrite)
    }

    /// Opens the store only to read, for a program that must not leave a trace: an error if it does not exist, or if its
    /// schema is older. Gives this worktree no id, registers nothing, and expires nothing.
    pub(crate) fn open_to_read(place: Place) -> Result<Session> {
        let choice = place.store()?;
        let store = open_store(&place, &choice, Servers::Known, Creation::Never, is_missing(&choice))?;
        let mut entropy = SystemEntropy;
        let repository = place.repository_id()?.unwrap_or_else(|| RepositoryId::generate(&mut entropy));
        let worktree = place.worktree_id()?.unwrap_or_else(|| WorktreeId::generate(&mut entropy));
        let caller = caller(&place, (repository, worktree), clock(&place.variables)?.now());
        let identity_error = Some(Error::refused("this session only reads"));
        Ok(Session { place, choice, store, caller, entropy, identity_error, warnings: Warnings::default() })
    }

    fn open_on(mut place: Place, servers: Servers, creation: Creation) -> Result<Session> {
        let mut entropy = SystemEntropy;
        let mut choice = choose(&place, &mut entropy)?;
        let is_missing = is_missing(&choice);
        if is_missing {
            create_private_dir_of(&place, &choice, creation)?;
        }
        let mut store = open_store(&place, &choice, servers, creation, is_missing)?;
        let now = clock(&place.variables)?.now();
        let (caller, identity_error, is_known) = match ensure_ids(&place, &mut entropy) {
            Ok(mut ids) => {
                let mut known = store.worktree(&ids.1)?;
                if let Some(original) = known.as_ref().filter(|known| is_copied_from(&place, known)) {
                    let dirs = id_dirs(&place)?;
                    ids = renew_ids(dirs.0, &ids.0, dirs.1, &ids.1, &mut entropy)?;
                    if choice.scope == Some(Scope::Worktree) {
                        // The store's path contains the worktree's id.
                        choice = choose(&place, &mut entropy)?;
                        store = open_store(&place, &choice, servers, creation, self::is_missing(&choice))?;
                    }
                    let original = path_text::to_text(&original.path);
                    place.warnings.push(format!("this is a copy of {original}, and got an identity of its own"));
                    known = store.worktree(&ids.1)?;
                }
                let is_known = known.is_some();
                let mut caller = caller(&place, ids, now);
                if let Some(known) = known.filter(|_| place.unreachable_owner().is_some()) {
                    // The owner may have moved since the workspace was created.
                    caller.worktree = Arc::new(known);
                }
                (caller, None, is_known)
            }
            Err(error) if place.checkout.as_ref().is_some_and(|checkout| checkout.private_dir.is_lost()) => {
                return Err(error);
            }
            // Reading needs no identity: random ids that are never written are enough.
            Err(error) => {
                let ids = (RepositoryId::generate(&mut entropy), WorktreeId::generate(&mut entropy));
                (caller(&place, ids, now), Some(error), true)
            }
        };
        let mut caller = caller;
        let is_adopted = place.unreachable_owner().is_some()
            || place.checkout.as_ref().is_some_and(|checkout| is_adopted(&checkout.private_dir));
        if let (true, Backend::Local(store)) = (is_adopted, &mut store)
            && let Some(known) = engine::query(store, |tx| tx.repository_get(&caller.repository.id))?
        {
            // A workspace knows less of its repository than the store does.
            caller.repository = Arc::new(known);
        }
        if let Backend::Remote(remote) = &mut store {
            let (repository, worktree) = (Repository::clone(&caller.repository), Worktree::clone(&caller.worktree));
            let standing = caller.standing;
            // In a workspace whose owner is on another machine, the repository may be another one than the worktree's. The
            // server then uses its own worktree.
            let is_known = identity_error.is_none() && worktree.repository_id == repository.id;
            remote.caller.origin = is_known.then_some(Origin { repository, worktree, standing });
        }
        let mut session =
            Session { place, choice, store, caller, entropy, identity_error, warnings: Warnings::default() };
        if !is_known && !session.store.is_read_only() && !session.is_absent() {
            session.register_worktree()?;
        }
        if let Location::Sqlite(path) = &session.choice.location
            && is_missing
            && !session.is_absent()
        {
            stores::record(&session.place, path);
        }
        Ok(session)
    }

    /// Returns whether the store does not exist yet.
    pub fn is_absent(&self) -> bool {
        matches!(self.store, Backend::Absent | Backend::Local(OpenStore::Empty(_)))
    }

    /// Fails if the store does not exist yet.
    pub fn require_present(&self) -> Result<()> {
        if self.is_absent() { Err(self.absent_error()) } else { Ok(()) }
    }

    /// Creates a store that does not exist yet.
    fn create_absent(&mut self) -> Result<()> {
        if self.is_absent() { self.open_again(Session::create) } else { Ok(()) }
    }

    /// Opens the store again, for the same caller.
    fn open_again(&mut self, open: fn(Place) -> Result<Session>) -> Result<()> {
        let (warnings, caller) = (self.warnings.clone(), self.caller.clone());
        *self = open(self.place.clone())?;
        (self.warnings, self.caller.actor, self.caller.agent) = (warnings, caller.actor, caller.agent);
        Ok(())
    }

    fn absent_error(&self) -> Error {
        Error::not_found(format!("there is no store {}", self.choice.location))
            .hint("check the name; the first command that writes creates the store")
    }

    fn register_worktree(&mut self) -> Result<()> {
        self.try_write(|session| session.write(Register {}))
    }

    /// Writes if the write lock is free within a short time. A reader must not wait for writers, and the next writer does
    /// the same anyway.
    fn try_write<T>(&mut self, write: impl FnOnce(&mut Session) -> Result<T>) -> Result<()> {
        let usual_timeout = self.store.set_lock_timeout(REGISTER_TIMEOUT);
        let written = write(self);
        self.store.set_lock_timeout(usual_timeout);
        match written {
            Err(error) if error.kind() != Kind::Unavailable => Err(error),
            _ => Ok(()),
        }
    }

    /// Runs an operation that only reads. First it expires due leases and applies other due transitions, if it can write.
    pub(crate) fn read<O: IntoAnyOperation>(&mut self, operation: O) -> Result<O::Answer> {
        self.read_any(&*operation.into_any())?.downcast()
    }

    fn read_any(&mut self, operation: &dyn AnyOperation) -> Result<AnyAnswer> {
        if let Some(answer) = self.read_any_if_current(operation)? {
            return Ok(answer);
        }
        self.expire_due()?;
        let caller = self.caller.clone();
        engine::read_any(self.store()?, &caller, &mut SystemEntropy, operation)
    }

    /// Runs an operation that only reads. Returns None if transitions are due, which the next write applies. A server applies
    /// its own.
    pub(crate) fn read_any_if_current(&mut self, operation: &dyn AnyOperation) -> Result<Option<AnyAnswer>> {
        if let Backend::Remote(remote) = &mut self.store {
            return remote.run(operation, None, &self.warnings).map(Some);
        }
        let caller = self.caller.clone();
        engine::read_any_if_current(self.store()?, &caller, &mut SystemEntropy, operation)
    }

    /// Renews the leases of the calling agent if one on an issue has used up a third of its time, and the store can be written
    /// at once. Every write does so anyway. A server renews the leases of its clients when they write.
    pub(crate) fn renew_leases(&mut self) -> Result<()> {
        let name = self.caller.agent.clone();
        let (Some(name), Backend::Local(store)) = (name, &mut self.store) else { return Ok(()) };
        if self.identity_error.is_some() || store.is_read_only() {
            return Ok(());
        }
        let is_due = engine::query(store, |tx| {
            let now = tx.now()?;
            let Some(agent) = tx.agent_named(&name)? else { return Ok(false) };
            let held = tx.lease_list(Some(&agent.id))?;
            Ok(held.iter().any(|lease| !lease.is_on_task() && lease.expires_at > now && lease.is_renewal_due(now)))
        })?;
        if is_due {
            self.try_write(|session| session.write(Heartbeat::default()))?;
        }
        Ok(())
    }

    /// Reads the notices and the leases as they are at one moment. First it renews the leases of the calling agent, as
    /// [`Session::renew_leases`] does, and applies transitions that are due.
    pub(crate) fn notices_and_leases(&mut self) -> Result<(NoticeList, Vec<LeaseView>)> {
        if let Backend::Remote(_) = &self.store {
            return Ok((self.read(ListNotices {})?, self.read(ListLeases {})?.leases));
        }
        let mut may_renew = self.identity_error.is_none() && !self.store.is_read_only();
        let mut may_expire = true;
        loop {
            let caller = self.caller.clone();
            let (one, other) = (ListNotices {}, ListLeases {});
            let read = engine::read_both_if_current(self.store()?, &caller, &mut SystemEntropy, one, other)?;
            match read {
                Some((_, list, now)) if may_renew && list.leases.iter().any(|seen| self.is_renewal_due(seen, now)) => {
                    may_renew = false;
                    self.try_write(|session| session.write(Heartbeat::default()))?;
                }
                Some((notices, list, _)) => return Ok((notices, list.leases)),
                None if may_expire => {
                    may_expire = false;
                    self.expire_due()?;
                }
                // This process cannot apply them.
                None => return Ok((self.read(ListNotices {})?, self.read(ListLeases {})?.leases)),
            }
        }
    }

    /// Returns whether a lease is on an issue, belongs to the calling agent, and has used up a third of its time.
    fn is_renewal_due(&self, seen: &LeaseView, now: Timestamp) -> bool {
        let LeaseView { lease, holder_name, .. } = seen;
        self.caller.agent.as_ref() == Some(holder_name)
            && !lease.is_on_task()
            && lease.expires_at > now
            && lease.is_renewal_due(now)
    }

    /// Sends a heartbeat for the caller and renews its leases. The token of a job allows it for the job's own task only.
    /// Returns None if the job has finished its task.
    pub fn heartbeat(&mut self) -> Result<Option<Alive>> {
        let variables = &self.place.variables;
        let is_of_job = self.is_served() && variables.get(WAYPOST_JOB).is_some();
        let task = variables.text(WAYPOST_TASK).filter(|_| is_of_job);
        let epoch = variables.text(WAYPOST_EPOCH).filter(|_| is_of_job).and_then(|epoch| epoch.parse().ok());
        match self.call(Heartbeat { task, workflow: None, epoch }) {
            Err(error) if is_of_job && error.kind() == Kind::LeaseLost => Ok(None),
            alive => alive.map(Some),
        }
    }

    /// Applies transitions that are due, if this session can write.
    fn expire_due(&mut self) -> Result<()> {
        if self.identity_error.is_none() && !self.store.is_read_only() {
            self.try_write(|session| session.write(ExpireDue {}))?;
        }
        Ok(())
    }

    /// Runs an operation that writes. Its effect is on disk when this returns.
    pub(crate) fn write<O: IntoAnyOperation>(&mut self, operation: O) -> Result<O::Answer> {
        self.write_once(None, operation)
    }

    /// Runs an operation that writes, once per key: a retry with the same key returns the first answer.
    pub(crate) fn write_once<O: IntoAnyOperation>(&mut self, key: Option<&str>, operation: O) -> Result<O::Answer> {
        self.write_any(key, &*operation.into_any())?.downcast()
    }

    fn write_any(&mut self, key: Option<&str>, operation: &dyn AnyOperation) -> Result<AnyAnswer> {
        if let Some(error) = &self.identity_error {
            return Err(error.clone());
        }
        self.create_absent()?;
        match &mut self.store {
            Backend::Absent => Err(self.absent_error()),
            Backend::Local(store) => engine::write_any(store, &self.caller, &mut self.entropy, key, operation),
            Backend::Remote(remote) => {
                // The answer can get lost, and a retry must not run the operation again.
                let own = key.is_none().then(|| engine::own_key(&mut self.entropy));
                remote.run(operation, key.or(own.as_deref()), &self.warnings)
            }
        }
    }

    /// Runs an operation, without the steps around it.
    pub(crate) fn run_any(&mut self, key: Option<&str>, operation: &dyn AnyOperation) -> Result<AnyAnswer> {
        match operation.entry().about.effect {
            Effect::Read => self.read_any(operation),
            Effect::Write => self.write_any(key, operation),
        }
    }

    /// Returns where warnings about operations are collected.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Collects warnings about operations together with those of others.
    pub fn collect_warnings_in(&mut self, warnings: Warnings) {
        self.warnings = warnings;
    }

    /// Runs `work` in the name of another caller. The place stays that of the session.
    pub(crate) fn with_caller<T>(&mut self, caller: Caller, work: impl FnOnce(&mut Session) -> T) -> T {
        let own = std::mem::replace(&mut self.caller, caller);
        let result = work(self);
        self.caller = own;
        result
    }

    /// Sets the author and the agent of all further operations.
    pub fn act_as(&mut self, actor: String, agent: Option<String>) {
        self.place = self.place.used_by(&actor, agent.as_deref());
        if let Backend::Remote(remote) = &mut self.store {
            (remote.caller.actor, remote.caller.agent) = (Some(actor.clone()), agent.clone());
        }
        (self.caller.actor, self.caller.agent) = (actor, agent);
    }

    /// Uses the same store from a place that was resolved again. It must be the store that the place chooses.
    pub fn moved_to(mut self, place: Place) -> Result<Session> {
        let ids = (self.caller.repository.id.clone(), self.caller.worktree.id.clone());
        // Another process may have created the store since.
        if self.is_absent()
            || self.identity_error.is_some()
            || (place.repository_id()?, place.worktree_id()?) != (Some(ids.0.clone()), Some(ids.1.clone()))
        {
            return Session::open(place);
        }
        self.caller = caller(&place, ids, clock(&place.variables)?.now());
        self.place = place;
        Ok(self)
    }

    /// Waits for a write after the event with this sequence number, at most this long. It may return early.
    pub fn wait(&mut self, last: u64, timeout: Duration) -> Result<()> {
        match &mut self.store {
            Backend::Absent => Err(self.absent_error()),
            Backend::Local(OpenStore::Empty(store)) => {
                store.wait(last, timeout.min(CREATION_INTERVAL))?;
                self.open_again(Session::open)
            }
            Backend::Local(store) => store.wait(last, timeout),
            Backend::Remote(remote) => remote.client.wait(last, timeout),
        }
    }

    /// Returns whether the store is on a server that other machines can use.
    pub fn is_remote(&self) -> bool {
        match &self.store {
            Backend::Absent => matches!(self.choice.location, Location::Postgres(_)),
            Backend::Local(store) => store.is_remote(),
            Backend::Remote(_) => true,
        }
    }

    /// Returns whether a server runs the operations.
    pub fn is_served(&self) -> bool {
        matches!(self.store, Backend::Remote(_))
    }

    /// Calls an operation of the server that is not an operation of the store.
    pub fn ask_server(&mut self, operation: &str, arguments: &Value) -> Result<Value> {
        match &mut self.store {
            Backend::Remote(remote) => Ok(remote.client.call(operation, arguments, &remote.caller, None)?.answer),
            Backend::Absent | Backend::Local(_) => {
                Err(Error::refused(format!("{operation} needs a server, and the store is not on one")))
            }
        }
    }

    /// As [`Session::ask_server`], with the operation and its answer as they are.
    pub fn ask<O: Operation>(&mut self, operation: &O) -> Result<O::Answer> {
        let arguments = serde_json::to_value(operation).map_err(|error| Error::internal(error.to_string()))?;
        let answer = self.ask_server(O::NAME, &arguments)?;
        tree::decode(&answer)
            .map_err(|error| Error::damaged(format!("cannot read the answer of {}", O::NAME)).because(error))
    }

    /// Returns the store, if this process opened it itself.
    pub fn store(&mut self) -> Result<&mut OpenStore> {
        if matches!(self.store, Backend::Absent) {
            return Err(self.absent_error());
        }
        match &mut self.store {
            Backend::Absent => Err(Error::internal("the store does not exist")),
            Backend::Local(store) => Ok(store),
            Backend::Remote(_) => Err(Error::refused(format!("{} is a server", self.choice.location))
                .hint("run the command on the server's machine, on the store itself")),
        }
    }

    /// Returns the store, if it is an SQLite file.
    pub fn sqlite(&self) -> Option<&SqliteStore> {
        match &self.store {
            Backend::Local(OpenStore::Sqlite(store)) => Some(store),
            Backend::Local(_) | Backend::Remote(_) | Backend::Absent => None,
        }
    }

    /// Returns when the store saw the worktree of the caller first. A backup of the store has the same time, and another store
    /// another one.
    pub(crate) fn first_seen(&mut self) -> Result<Option<Timestamp>> {
        let known = self.store.worktree(&self.caller.worktree.id)?;
        Ok(known.map(|known| known.first_seen))
    }

    /// Returns the caller of all operations.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the repository of the caller.
    pub fn repository(&self) -> &Repository {
        &self.caller.repository
    }

    /// Returns the worktree of the caller.
    pub fn worktree(&self) -> &Worktree {
        &self.caller.worktree
    }

    /// Returns the current time: that of an SQLite store, which a wrong system clock does not move, else that of this
    /// process.
    pub fn now(&mut self) -> Result<Timestamp> {
        match &mut self.store {
            Backend::Local(OpenStore::Sqlite(store)) => store.begin_read()?.now(),
            Backend::Local(_) | Backend::Remote(_) | Backend::Absent => Ok(clock(&self.place.variables)?.now()),
        }
    }
}

/// When a store that does not exist is created.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Creation {
    /// Not by this session, which does not migrate it either.
    Never,
    /// When it is opened.
    Now,
    /// By the first write.
    ByWrite,
}

/// Which PostgreSQL servers the session accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Servers {
    /// Only the server that the store remembers.
    Known,
    /// Any server, for example a promoted standby.
    Any,
}

fn choose(place: &Place, entropy: &mut dyn Entropy) -> Result<StoreChoice> {
    let choice = place.store()?;
    if choice.location == Location::UnnamedSqlite {
        place.require_checkout()?.ensure_worktree_id(entropy)?;
        return place.store();
    }
    Ok(choice)
}

/// Creates the private directory of the repository before a store is created in it.
fn create_private_dir_of(place: &Place, choice: &StoreChoice, creation: Creation) -> Result<()> {
    match (&place.checkout, &choice.location) {
        (Some(checkout), Location::Sqlite(path))
            if creation == Creation::Now && place.may_create_store() && path.starts_with(&checkout.private_dir) =>
        {
            let cannot = || Error::unavailable(format!("cannot create the store {}", path.display()));
            checkout.private_dir.create().map_err(|error| match error.kind() {
                Kind::Unavailable => cannot().because(error.full_message()),
                _ => error,
            })
        }
        _ => Ok(()),
    }
}

/// Runs the operations: this process, or a server.
enum Backend {
    Local(OpenStore),
    Remote(Box<Remote>),
    /// The store does not exist yet.
    Absent,
}

/// A server that runs the operations.
struct Remote {
    client: Client,
    caller: client::Caller,
    secrets: Secrets,
}

impl Remote {
    fn run(&mut self, operation: &dyn AnyOperation, key: Option<&str>, warnings: &Warnings) -> Result<AnyAnswer> {
        let entry = operation.entry();
        let mut arguments = operation.arguments()?;
        // The server knows the values of its own variables only.
        self.secrets.redact_json(&mut arguments, engine::UNREDACTED_FIELDS);
        let reply = self.client.call(entry.about.name, &arguments, &self.caller, key)?;
        warnings.add(reply.warnings);
        (entry.decode_answer)(&reply.answer).map_err(|error| {
            Error::unavailable(format!("cannot read the answer of the server to {}", entry.about.name))
                .because(error)
                .hint("use the same version of Waypost on both sides")
        })
    }
}

impl Backend {
    fn worktree(&mut self, id: &WorktreeId) -> Result<Option<Worktree>> {
        match self {
            Backend::Absent => Ok(None),
            Backend::Local(store) => engine::query(store, |tx| tx.worktree_get(id)),
            Backend::Remote(remote) => {
                let list = ListWorktrees::all().into_any();
                let known: WorktreeList = remote.run(&*list, None, &Warnings::default())?.downcast()?;
                Ok(known.worktrees.into_iter().find(|worktree| worktree.id == *id))
            }
        }
    }

    fn is_read_only(&self) -> bool {
        match self {
            Backend::Local(store) => store.is_read_only(),
            Backend::Absent | Backend::Remote(_) => false,
        }
    }

    /// Sets the maximum time to wait for the write lock. Returns the one before.
    fn set_lock_timeout(&mut self, timeout: Duration) -> Duration {
        match self {
            Backend::Local(store) => store.set_lock_timeout(timeout),
            Backend::Absent | Backend::Remote(_) => timeout,
        }
    }
}

/// A store of any kind.
pub enum OpenStore {
    /// An SQLite file.
    Sqlite(Box<SqliteStore>),
    /// A schema on a PostgreSQL server.
    Postgres(Box<PostgresStore>),
    /// A schema on a PostgreSQL server that the first write creates.
    Empty(Box<EmptyStore>),
}

impl OpenStore {
    fn is_read_only(&self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.is_read_only(),
            OpenStore::Postgres(_) => false,
            OpenStore::Empty(_) => true,
        }
    }

    fn set_lock_timeout(&mut self, timeout: Duration) -> Duration {
        match self {
            OpenStore::Sqlite(store) => store.set_timeout(timeout),
            OpenStore::Postgres(store) => store.set_timeout(timeout),
            OpenStore::Empty(_) => timeout,
        }
    }
}

impl Store for OpenStore {
    fn begin_read(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self {
            OpenStore::Sqlite(store) => store.begin_read(),
            OpenStore::Postgres(store) => store.begin_read(),
            OpenStore::Empty(store) => store.begin_read(),
        }
    }

    fn begin_write(&mut self) -> Result<Box<dyn Tx + '_>> {
        match self {
            OpenStore::Sqlite(store) => store.begin_write(),
            OpenStore::Postgres(store) => store.begin_write(),
            OpenStore::Empty(store) => store.begin_write(),
        }
    }

    fn wait(&mut self, last: u64, timeout: Duration) -> Result<()> {
        match self {
            OpenStore::Sqlite(store) => store.wait(last, timeout),
            OpenStore::Postgres(store) => store.wait(last, timeout),
            OpenStore::Empty(store) => store.wait(last, timeout),
        }
    }

    fn begin_request(&mut self) {
        match self {
            OpenStore::Sqlite(store) => store.begin_request(),
            OpenStore::Postgres(store) => store.begin_request(),
            OpenStore::Empty(store) => store.begin_request(),
        }
    }

    fn end_request(&mut self) {
        match self {
            OpenStore::Sqlite(store) => store.end_request(),
            OpenStore::Postgres(store) => store.end_request(),
            OpenStore::Empty(store) => store.end_request(),
        }
    }

    fn free_reserve(&mut self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.free_reserve(),
            OpenStore::Postgres(store) => store.free_reserve(),
            OpenStore::Empty(store) => store.free_reserve(),
        }
    }

    fn may_retry(&mut self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.may_retry(),
            OpenStore::Postgres(store) => store.may_retry(),
            OpenStore::Empty(store) => store.may_retry(),
        }
    }

    fn is_remote(&self) -> bool {
        match self {
            OpenStore::Sqlite(store) => store.is_remote(),
            OpenStore::Postgres(store) => store.is_remote(),
            OpenStore::Empty(store) => store.is_remote(),
        }
    }
}

fn open_store(
    place: &Place,
    choice: &StoreChoice,
    servers: Servers,
    creation: Creation,
    is_missing: bool,
) -> Result<Backend> {
    if let Location::Server(url) = &choice.location {
        let socket = url.strip_prefix("unix:").map(|path| expand(path, &place.cwd, &place.variables)).transpose()?;
        let token = tokens::token_for_server(place, socket.is_some() || client::is_private(url))?;
        let caller = client::Caller { actor: Some(place.actor()), agent: place.agent(), origin: None };
        let mut client = Client::new(url, socket, token)?;
        // Connect before this process writes any file for a store that may not exist.
        client.connect()?;
        return Ok(Backend::Remote(Box::new(Remote { client, caller, secrets: place.secrets() })));
    }
    if let Location::Sqlite(path) = &choice.location
        && is_missing
    {
        if place.may_create_store() {
            stores::check_gone(place, path)?;
        }
        if creation != Creation::Now && (place.may_create_store() || creation == Creation::Never) {
            return Ok(Backend::Absent);
        }
    }
    match open_local(place, choice, servers, creation) {
        Err(error)
            if error.kind() == Kind::NotFound
                && creation == Creation::ByWrite
                && matches!(choice.location, Location::Postgres(_)) =>
        {
            let empty = EmptyStore::new(clock(&place.variables)?)?;
            Ok(Backend::Local(OpenStore::Empty(Box::new(empty))))
        }
        Err(error) if error.kind() == Kind::NotFound && creation != Creation::Now => Ok(Backend::Absent),
        opened => opened.map(Backend::Local),
    }
}

/// Returns whether the store is a file that does not exist. Other errors, and links to nothing, are for the store to report.
fn is_missing(choice: &StoreChoice) -> bool {
    let Location::Sqlite(path) = &choice.location else { return false };
    std::fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn open_local(place: &Place, choice: &StoreChoice, servers: Servers, creation: Creation) -> Result<OpenStore> {
    let patience = place.config.duration("store.wait").unwrap_or(sqlite::Options::default().timeout);
    match &choice.location {
        Location::Sqlite(path) => {
            let allow_network = place.config.text("store.network").as_deref() == Some("allow");
            let create = place.may_create_store() && creation != Creation::Never;
            let migrate = creation != Creation::Never;
            let options = sqlite::Options { timeout: patience, allow_network, create, migrate };
            SqliteStore::open(path, options, clock(&place.variables)?).map(|store| OpenStore::Sqlite(Box::new(store)))
        }
        Location::Postgres(url) => {
            let (create, migrate) = (creation == Creation::Now, creation != Creation::Never);
            let store = PostgresStore::open(url, postgres::Options { timeout: patience, create, migrate })?;
            let store = if servers == Servers::Any { store.accepting_any_server() } else { store };
            Ok(OpenStore::Postgres(Box::new(store)))
        }
        Location::UnnamedSqlite | Location::Server(_) => Err(Error::unavailable(format!(
            "{} is a {} store, and this version cannot open it",
            choice.location,
            choice.location.kind()
        ))
        .hint("name a file or a postgres:// URL with --db")),
    }
}

/// Returns the directories of the ids. Outside a repository both are the user's Waypost directory.
fn id_dirs(place: &Place) -> Result<(&Path, &Path)> {
    match (&place.checkout, &place.home) {
        (Some(checkout), _) => Ok((&checkout.private_dir, &checkout.worktree_private_dir)),
        (None, Some((home, _))) => Ok((home, home)),
        (None, None) => Err(Error::invalid("outside a repository, writing needs a home directory").hint("set HOME")),
    }
}

fn ensure_ids(place: &Place, entropy: &mut dyn Entropy) -> Result<(RepositoryId, WorktreeId)> {
    if let Some(ids) = place.unreachable_owner_ids() {
        return Ok(ids);
    }
    if let Some(checkout) = &place.checkout {
        return Ok((checkout.ensure_repository_id(entropy)?, checkout.ensure_worktree_id(entropy)?));
    }
    let (repository, worktree) = id_dirs(place)?;
    Ok((ensure_repository_id(repository, entropy)?, ensure_worktree_id(worktree, entropy)?))
}

/// Returns whether this worktree is a copy, with its id, of a worktree that still exists.
fn is_copied_from(place: &Place, known: &Worktree) -> bool {
    let Some(checkout) = place.checkout.as_ref().filter(|_| place.unreachable_owner().is_none()) else { return false };
    let here = checkout.root.as_deref().unwrap_or(&checkout.shared_dir);
    if here == known.path {
        return false;
    }
    // The same directory under another mount point is not a copy: its private directory is the same file.
    let there = detect(&known.path, &Environment::default());
    matches!(there, Ok(Some(there)) if worktree_id(&there.worktree_private_dir).ok().flatten().as_ref() == Some(&known.id)
        && there.root.as_deref().unwrap_or(&there.shared_dir) == known.path
        && !is_same_file(&there.worktree_private_dir, &checkout.worktree_private_dir))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((FileIdentity::of(one), FileIdentity::of(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns where in its repository a place is. A bare repository has no main worktree; the one with the default branch
/// takes its part.
fn standing(place: &Place) -> Standing {
    let Some(checkout) = &place.checkout else { return Standing::Outside };
    let is_main = match (&checkout.root, &checkout.main_root) {
        (Some(root), Some(main)) => root == main,
        (Some(_), None) => checkout.branch.is_some() && checkout.branch == checkout.default_branch,
        (None, _) => true,
    };
    if is_main { Standing::MainWorktree } else { Standing::LinkedWorktree }
}

fn lease_times(place: &Place) -> LeaseTimes {
    let time = |key| place.config.text(key).and_then(|text| parse_duration_ms(&text).ok());
    LeaseTimes { agent_ms: time("lease.ttl"), person_ms: time("lease.ttl_human"), max_ms: time("lease.max") }
}

/// Returns a caller with the settings of a place.
pub(crate) fn settings_of(place: &Place, caller: Caller) -> Caller {
    Caller { lease_times: lease_times(place), secrets: place.secrets(), ..caller }
}

fn caller(place: &Place, (repository_id, worktree_id): (RepositoryId, WorktreeId), now: Timestamp) -> Caller {
    let home = || place.home.as_ref().map_or_else(|| place.cwd.clone(), |(path, _)| path.clone());
    let owner = place.workspace.as_ref().filter(|workspace| workspace.unreachable.is_some());
    let owner = owner.map(|workspace| &workspace.registration);
    let (repository, name, path, branch) = match (owner, &place.checkout) {
        (Some(owner), _) => (
            owner.repository.clone(),
            owner.worktree.name.clone(),
            owner.worktree.path.clone(),
            owner.worktree.branch.clone(),
        ),
        (None, Some(checkout)) => (
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
        (None, None) => (
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
    let (lease_times, standing) = (lease_times(place), standing(place));
    let (actor, agent, authority, secrets) = (place.actor(), place.agent(), Authority::User, place.secrets());
    let (repository, worktree) = (Arc::new(repository), Arc::new(worktree));
    Caller { actor, agent, repository, worktree, standing, is_shared, lease_times, authority, secrets }
}
