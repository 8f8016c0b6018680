//! The executor behind the HTTP server, for many concurrent clients.
//!
//! A few reader threads have a session each. One writer thread commits all queued writes in one transaction (group
//! commit): it syncs the disk once and then answers each request. Steps after a write, which change ledgers, run on threads
//! of their own, so that neither the writer nor the readers wait for a ledger.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use waypost_core::context::{Authority, Caller};
use waypost_core::engine;
use waypost_core::model::{EventQuery, Repository, Worktree};
use waypost_core::op::{
    AnyAnswer, AnyOperation, Effect, EventList, ExpireDue, Heartbeat, IntoAnyOperation as _, JobView, ListEvents,
    ListJobs, Operation as _, OperationEntry, ShowWorkStatus,
};
use waypost_core::{Error, Kind, Result};

use super::followed::Followed;
use super::metrics::{self, Measure};
use super::readers::{self, Readers};
use super::writer::{OnWritten, Writer};
use super::{AppContext, AppEntry, Call, Reply, Respond, Who};
use crate::app::origin::Origin;
use crate::app::session::Session;
use crate::app::steps::Steps;
use crate::machine::environment::{WAYPOST_ACTOR, WAYPOST_AGENT, WAYPOST_DB};
use crate::machine::place::{Location, Place};
use crate::machine::system::SystemEntropy;
use crate::serving::access::{Grant, Role};
use crate::serving::challenge::Challenge;
use crate::serving::tokens;

/// Runs operations of many clients.
pub(super) struct GroupCommit {
    place: Followed,
    readers: Arc<Readers>,
    writer: Writer,
    /// A separate writer for heartbeats on PostgreSQL, where writers of other processes queue too: a late heartbeat
    /// loses leases.
    urgent: Option<Writer>,
    refused: Arc<AtomicU64>,
}

impl GroupCommit {
    /// Opens the store of a place. With one reader, heartbeats have no writer of their own.
    pub(super) fn open(place: &Place, readers: usize) -> Result<GroupCommit> {
        let mut place = place.for_remote_callers();
        // Requests name their caller; the environment of the server does not.
        place.variables = place.variables.without(WAYPOST_AGENT).without(WAYPOST_ACTOR);
        if let Location::Server(url) = place.store()?.location {
            return Err(Error::refused(format!("{url} is a server, not a store"))
                .hint(format!("unset {WAYPOST_DB}, or name a file or a postgres:// URL")));
        }
        let mut session = Session::create(place.clone())?;
        let is_postgres = matches!(session.choice.location, Location::Postgres(_));
        let place = Followed::new(place.with_existing_store(), &mut session)?;
        drop(session);
        let urgent = if is_postgres && readers > 1 { Some(Writer::start(&place, true)?) } else { None };
        Ok(GroupCommit {
            readers: Arc::new(Readers::start(&place, readers)?),
            writer: Writer::start(&place, readers > 1)?,
            urgent,
            place,
            refused: Arc::default(),
        })
    }

    pub(super) fn place(&self) -> Arc<Place> {
        self.place.place()
    }

    /// Runs `work` on a reader thread, in the name of a caller.
    pub(super) fn with_session<T: Send + 'static>(
        &self,
        who: &Who,
        authority: Authority,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let caller = Caller { authority, ..called_from(&self.place.own(), who, None) };
        self.readers.run(move |session| session.with_caller(caller, work))
    }

    /// Returns the grant of a job's token while the job runs.
    ///
    /// It is called for tokens that are in no file, so it fails if the directory of the store, which has the token
    /// files, is missing.
    pub(super) fn grant_of_job(&self, secret: &str) -> Result<Option<Grant>> {
        if let Location::Sqlite(path) = self.place().store()?.location
            && !path.exists()
        {
            return Err(Error::unavailable("cannot check tokens: the store and its directory are missing"));
        }
        let Some(token_hash) = tokens::hash_of_job(secret) else { return Ok(None) };
        let found = self.live_jobs()?.into_iter().find(|view| view.job.token_hash.as_ref() == Some(&token_hash));
        Ok(found.map(|found| {
            let task = found.job.task_id.map(|id| id.to_string());
            Grant { token: found.job.id.to_string(), role: Role::Job, agent: found.agent, task }
        }))
    }

    /// Returns the proof that this server knows the token of a running job that a challenge is about.
    pub(super) fn answer_for_job(&self, challenge: &Challenge) -> Result<Option<String>> {
        let hashes = self.live_jobs()?.into_iter().filter_map(|view| view.job.token_hash);
        Ok(hashes.into_iter().find_map(|hash| challenge.answer(&hash)))
    }

    fn live_jobs(&self) -> Result<Vec<JobView>> {
        let live = ListJobs { live: true, limit: Some(u32::MAX), ..ListJobs::default() };
        let caller = self.place.own();
        let live =
            self.readers.run(move |session| engine::read(session.store()?, &caller, &mut SystemEntropy, live))?;
        Ok(live.jobs)
    }

    /// Runs an operation of the store. A write is on disk when this returns.
    pub(super) fn run(&self, entry: &'static OperationEntry, mut call: Call) -> Result<Reply<AnyAnswer>> {
        if let Some(from) = call.from.take() {
            call.from = Some(self.accepted_origin(&call.grant, from)?);
        }
        let (sender, receiver) = channel();
        // The client may have disconnected.
        self.queue(entry, call, Box::new(move |reply| drop(sender.send(reply))));
        match entry.about.effect {
            Effect::Read => readers::receive(&receiver, readers::READ_TIMEOUT),
            Effect::Write => receiver.recv().unwrap_or_else(|_| Err(readers::no_answer_error())),
        }
    }

    /// Queues an operation of the store and sends its reply to `respond`.
    pub(super) fn queue(&self, entry: &'static OperationEntry, call: Call, respond: Respond) {
        let operation = match (entry.decode)(&call.arguments) {
            Ok(operation) => operation,
            Err(error) => return respond(Err(error)),
        };
        match entry.about.effect {
            Effect::Read => self.queue_read(operation, call, respond),
            Effect::Write => self.queue_write(operation, call, respond),
        }
    }

    /// Queues a short operation of the application.
    pub(super) fn queue_short(&self, entry: &'static AppEntry, place: Place, call: Call, respond: Respond) {
        let caller = Caller { authority: call.grant.authority(), ..called_from(&self.place.own(), &call.who, None) };
        self.readers.submit(Box::new(move |session| {
            let reply = session.and_then(|session| {
                session.with_caller(caller, |session| {
                    entry.reply(AppContext::with_session(&place, session), &call.arguments)
                })
            });
            let is_session_usable = is_usable_after(&reply);
            respond(reply.map(Reply::into));
            is_session_usable
        }));
    }

    fn queue_read(&self, operation: Box<dyn AnyOperation>, call: Call, respond: Respond) {
        let Call { who, from, key, grant, .. } = call;
        let caller = Caller { authority: grant.authority(), ..called_from(&self.place.own(), &who, from) };
        let steps = Steps::around(&*operation, key.as_deref());
        let (readers, writer, own) = (Arc::clone(&self.readers), self.writer.clone(), self.place.own());
        self.readers.submit(Box::new(move |session| {
            let found = session.and_then(|session| {
                steps.reap(session)?;
                // Due expirations are applied first, by the writer.
                engine::read_any_if_current(session.store()?, &caller, &mut SystemEntropy, &*operation)
            });
            let is_session_usable = is_usable_after(&found);
            match found {
                Ok(Some(answer)) => respond(Ok(Reply::of(answer))),
                Err(error) => respond(Err(error)),
                Ok(None) => expire_due(
                    &writer,
                    &own,
                    Box::new(move |expired| match expired {
                        // If the writer is busy, the next write applies them.
                        Err(error) if error.kind() != Kind::Unavailable => respond(Err(error)),
                        _ => readers.submit(Box::new(move |session| {
                            let answer = session.and_then(|session| {
                                engine::read_any(session.store()?, &caller, &mut SystemEntropy, &*operation)
                            });
                            let is_session_usable = is_usable_after(&answer);
                            respond(answer.map(Reply::of));
                            is_session_usable
                        })),
                    }),
                ),
            }
            is_session_usable
        }));
    }

    /// Queues a write and the steps around it. The reply is sent when everything is on disk.
    fn queue_write(&self, operation: Box<dyn AnyOperation>, call: Call, respond: Respond) {
        let Call { who, from, key, grant, .. } = call;
        let caller = Caller { authority: grant.authority(), ..called_from(&self.place.own(), &who, from) };
        let writer = match &self.urgent {
            Some(urgent) if operation.entry().about.name == Heartbeat::NAME => urgent.clone(),
            _ => self.writer.clone(),
        };
        let steps = Arc::new(Steps::around(&*operation, key.as_deref()));
        let written = self.after_write(who, Arc::clone(&steps), respond);
        if !steps.has_reads() {
            return writer.write(operation, caller, key, written);
        }
        self.readers.submit(Box::new(move |session| {
            let prepared = session.and_then(|session| {
                steps.reap(session)?;
                session.with_caller(caller.clone(), |session| steps.read_first(session))
            });
            let is_session_usable = is_usable_after(&prepared);
            match prepared {
                Ok(()) => writer.write(operation, caller, key, written),
                Err(error) => written(Err(error)),
            }
            is_session_usable
        }));
    }

    /// Returns a callback that runs the steps after a write on a thread for them, and then replies.
    ///
    /// The steps change the ledger of the server's repository, so their caller is in that repository, regardless of the
    /// worktree that the request came from: its own process delivers to its ledger.
    fn after_write(&self, who: Who, steps: Arc<Steps>, respond: Respond) -> OnWritten {
        let (readers, refused) = (Arc::clone(&self.readers), Arc::clone(&self.refused));
        let own = self.place.own();
        Box::new(move |written| {
            refused.fetch_add(u64::from(written.is_err()), Ordering::Relaxed);
            let may_follow = |mut answer| Ok((steps.may_follow(&mut answer)?, answer));
            let mut answer = match written.and_then(may_follow) {
                Ok((true, answer)) => answer,
                written => return respond(written.map(|(_, answer)| Reply::of(answer))),
            };
            let caller = called_from(&own, &who, None);
            readers.submit_step(Box::new(move |session| {
                let warnings = match session {
                    Ok(session) => session.with_caller(caller, |session| steps.after(session, &mut answer)),
                    Err(error) => steps.skip_after(&mut answer, &error),
                };
                let is_session_usable = is_usable_after(&warnings);
                respond(warnings.map(|warnings| Reply { answer, warnings }));
                is_session_usable
            }));
        })
    }

    /// Returns the worktree of a request, as it may be stored.
    ///
    /// Jobs of other callers take their code from the paths and remote addresses of these records, so only an admin sets
    /// them. With the token of an agent or a job, a worktree is as the store knows it. One that the store does not know gets a
    /// record without a path, and without a remote address unless that is the address of a known repository.
    fn accepted_origin(&self, grant: &Grant, from: Origin) -> Result<Origin> {
        let wanted = from.clone();
        let (worktree, repositories) = self.readers.run(move |session| {
            engine::query(session.store()?, |tx| Ok((tx.worktree_get(&wanted.worktree.id)?, tx.repository_list()?)))
        })?;
        if worktree.as_ref().is_some_and(|known| known.repository_id != from.repository.id) {
            return Err(Error::refused(format!("worktree {} belongs to another repository", from.worktree.id)));
        }
        if grant.role == Role::Admin {
            return Ok(from);
        }
        let Origin { repository, worktree: wanted, standing } = from;
        let known = repositories.iter().find(|known| known.id == repository.id).cloned();
        let repository = known.unwrap_or_else(|| {
            let has_same_remote =
                |known: &&Repository| known.remote_url.is_some() && known.remote_url == repository.remote_url;
            let clone = repositories.iter().find(has_same_remote);
            Repository {
                path: no_path(repository.id.as_str()),
                remote_url: clone.and_then(|known| known.remote_url.clone()),
                default_branch: clone.and_then(|known| known.default_branch.clone()),
                ..repository
            }
        });
        let path = no_path(wanted.id.as_str());
        let worktree = worktree.unwrap_or(Worktree { path, branch: None, ..wanted });
        Ok(Origin { repository, worktree, standing })
    }

    pub(super) fn measures(&self) -> Vec<Measure> {
        let mut measures = self.writer.measures();
        measures.push(metrics::counter(
            "writes_refused_total",
            "Writes that were refused or failed.",
            self.refused.load(Ordering::Relaxed),
        ));
        for read in [metrics::of_jobs, metrics::of_status] {
            measures.extend(self.readers.run(read).unwrap_or_default());
        }
        measures
    }

    pub(super) fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        self.readers.wait(last, timeout)
    }

    /// Reads a part of the history, without a detour over JSON: a server that streams events reads every event.
    pub(super) fn list_events(&self, query: &EventQuery) -> Result<EventList> {
        let read = |is_first: bool| {
            let (own, query) = (self.place.own(), query.clone());
            self.readers.run(move |session| {
                let (store, list) = (session.store()?, ListEvents { query });
                if is_first {
                    // Due expirations are applied first, by the writer.
                    engine::read_if_current(store, &own, &mut SystemEntropy, list)
                } else {
                    engine::read(store, &own, &mut SystemEntropy, list).map(Some)
                }
            })
        };
        if let Some(list) = read(true)? {
            return Ok(list);
        }
        let (sender, expired) = channel();
        expire_due(&self.writer, &self.place.own(), Box::new(move |answer| drop(sender.send(answer))));
        match readers::receive(&expired, readers::READ_TIMEOUT) {
            // If the writer is busy, the next write applies them.
            Err(error) if error.kind() != Kind::Unavailable => return Err(error),
            _ => {}
        }
        read(false)?.ok_or_else(readers::no_answer_error)
    }

    /// Checks whether the store can be written, and then whether it can be read: a reader sees damage and errors of the
    /// disk that the lock of the writers does not.
    pub(super) fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        let (readers, caller) = (Arc::clone(&self.readers), self.place.own());
        self.writer.probe(Box::new(move |written| match written {
            Ok(()) => readers.submit(Box::new(move |session| {
                let read = session.and_then(|session| probe_read(session, &caller));
                let is_session_usable = is_usable_after(&read);
                reply(read);
                is_session_usable
            })),
            Err(error) => reply(Err(error)),
        }));
    }
}

/// Returns the caller for the engine: `own`, under another name, and from another worktree if the request names one.
fn called_from(own: &Caller, who: &Who, from: Option<Origin>) -> Caller {
    let Caller { is_shared, lease_times, authority, .. } = *own;
    let (repository, worktree, standing) = match from {
        Some(Origin { repository, worktree, standing }) => (Arc::new(repository), Arc::new(worktree), standing),
        None => (Arc::clone(&own.repository), Arc::clone(&own.worktree), own.standing),
    };
    let Who { actor, agent } = who.clone();
    let secrets = own.secrets.clone();
    Caller { actor, agent, repository, worktree, standing, is_shared, lease_times, authority, secrets }
}

/// Returns a path that no directory can have, for a place that nothing may be taken from.
fn no_path(id: &str) -> PathBuf {
    PathBuf::from("/dev/null").join(id)
}

/// Reads a page of every table that work needs.
fn probe_read(session: &mut Session, caller: &Caller) -> Result<()> {
    let status = ShowWorkStatus { limit: 1, ..ShowWorkStatus::default() };
    engine::read(session.store()?, caller, &mut SystemEntropy, status).map(drop)
}

/// Expires due leases and applies other due transitions.
fn expire_due(writer: &Writer, caller: &Caller, respond: OnWritten) {
    writer.write(ExpireDue {}.into_any(), caller.clone(), None, respond);
}

fn is_usable_after<T>(result: &Result<T>) -> bool {
    !matches!(result, Err(error) if error.kind() == Kind::Unavailable)
}
