//! The host behind the HTTP server, for many concurrent clients.
//!
//! A few reader threads have a session each. One writer thread commits all queued writes in one transaction (group
//! commit): it syncs the disk once and then answers each request.

mod readers;
mod writer;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::access::{Grant, Role};
use crate::host::{Call, Described, Host, Measure, Reply, Who};
use crate::origin::Origin;
use serde_json::{Value, json};
use waypost_core::context::Caller;
use waypost_core::engine;
use waypost_core::model::WorkspaceStatus;
use waypost_core::op::{Audience, Effect, GetStatus, JobView, ListJobs, ListWorkspaces, OperationEntry, TABLE};
use waypost_core::{Error, Kind, Result};

use crate::claims;
use crate::environment::{WAYPOST_ACTOR, WAYPOST_AGENT, WAYPOST_DB};
use crate::idempotency;
use crate::issue_ops;
use crate::job_ops;
use crate::jobs;
use crate::place::{Location, Place};
use crate::session::Session;
use crate::single_host::{
    AFFECT_ISSUES, close_finished_issue, complete_claim, is_claim, read_before, shows_jobs, unknown_operation,
};
use crate::system::SystemEntropy;
use readers::Readers;
use writer::Writer;

/// How many of the latest jobs the metrics include.
const MAX_COUNTED_JOBS: u32 = 1000;

/// A store that is served.
pub struct Serving {
    place: Place,
    /// The default caller, for requests that name no worktree.
    own: Caller,
    readers: Arc<Readers>,
    writer: Writer,
    /// A separate writer for heartbeats on PostgreSQL, where writers of other processes queue too: a late heartbeat
    /// loses leases.
    urgent: Option<Writer>,
    refused: Arc<AtomicU64>,
    /// The idempotency keys of running application operations.
    keys: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    /// Opens the store of a place.
    pub fn open(place: &Place) -> Result<Serving> {
        let mut place = place.clone();
        // Requests name their caller; the environment of the server does not.
        place.variables = place.variables.without(WAYPOST_AGENT).without(WAYPOST_ACTOR);
        if let Location::Server(url) = place.store()?.location {
            return Err(Error::refused(format!("{url} is a server, not a store"))
                .hint(format!("unset {WAYPOST_DB}, or name a file or a postgres:// URL")));
        }
        let session = Session::open(place.clone())?;
        let is_postgres = matches!(session.choice.location, Location::Postgres(_));
        let own = session.caller().clone();
        drop(session);
        let place = place.with_existing_store();
        let urgent = if is_postgres { Some(Writer::start(&place)?) } else { None };
        Ok(Serving {
            own,
            readers: Arc::new(Readers::start(&place)?),
            writer: Writer::start(&place)?,
            urgent,
            place,
            refused: Arc::default(),
            keys: Mutex::default(),
        })
    }

    /// Returns the grant of a job's token while the job runs.
    ///
    /// It is called for tokens that are in no file, so it fails if the directory of the store, which has the token
    /// files, is missing.
    pub fn grant_of_job(&self, secret: &str) -> Result<Option<Grant>> {
        if let Location::Sqlite(path) = self.place.store()?.location
            && !path.exists()
        {
            return Err(Error::unavailable("cannot check tokens: the store and its directory are missing"));
        }
        let Some(token_hash) = jobs::token_hash(secret) else { return Ok(None) };
        let live = ListJobs { status: None, live: true, task: None, limit: Some(u32::MAX) };
        let caller = self.own.clone();
        let live =
            self.readers.run(move |session| engine::read(session.store()?, &caller, &mut SystemEntropy, live))?;
        let found = live.jobs.into_iter().find(|view| view.job.token_hash.as_ref() == Some(&token_hash));
        Ok(found.map(|found| {
            let task = found.job.task_id.map(|id| id.to_string());
            Grant { token: found.job.id.to_string(), role: Role::Job, agent: found.agent, task }
        }))
    }

    /// Returns the caller for the engine.
    fn caller(&self, who: &Who, from: Option<Origin>) -> Caller {
        let Who { actor, agent } = who.clone();
        let own = self.own.clone();
        match from {
            Some(Origin { repository, worktree }) => Caller { actor, agent, repository, worktree, ..own },
            None => Caller { actor, agent, ..own },
        }
    }

    fn run(&self, call: Call, from: Option<Origin>) -> Result<Value> {
        let Call { operation, arguments, who, key } = call;
        if shows_jobs(&operation) {
            self.readers.run(jobs::reap_orphaned_jobs)?;
        }
        if operation == "get_log" {
            // Clients that follow a log call this often, so it uses an open session.
            return self.readers.run(move |session| job_ops::read_log(session, arguments));
        }
        if let Some(entry) = TABLE.iter().find(|entry| entry.name == operation) {
            let caller = self.caller(&who, from);
            return match entry.effect {
                Effect::Read => self.read(entry, &caller, &arguments),
                Effect::Write => self.write(entry, caller, arguments, key),
            };
        }
        match issue_ops::named(&operation).or_else(|| job_ops::named(&operation)) {
            Some(entry) => {
                self.run_app_operation(entry, &who, arguments, key.filter(|_| entry.effect == Effect::Write))
            }
            None => Err(unknown_operation(&operation)),
        }
    }

    /// Runs an operation on issues or jobs, at most once per key.
    fn run_app_operation(
        &self,
        entry: &'static issue_ops::AppEntry,
        who: &Who,
        arguments: Value,
        key: Option<String>,
    ) -> Result<Value> {
        let place = self.place.used_by(&who.actor, who.agent.as_deref());
        let Some(key) = key else { return (entry.run)(&place, arguments, None) };
        let key_lock = Arc::clone(lock(&self.keys).entry(key.clone()).or_default());
        let answer = {
            // A retry waits for the first request.
            let _held = lock(&key_lock);
            let store = |step: idempotency::Step| self.readers.run(move |session| step.run(session));
            let run_arguments = arguments.clone();
            idempotency::once(store, who, &key, entry.name, &arguments, || {
                (entry.run)(&place, run_arguments, Some(&key))
            })
        };
        drop(key_lock);
        lock(&self.keys).retain(|_, key_lock| Arc::strong_count(key_lock) > 1);
        answer
    }

    fn read(&self, entry: &'static OperationEntry, caller: &Caller, arguments: &Value) -> Result<Value> {
        let read = |is_expired: bool| {
            let (caller, arguments) = (caller.clone(), arguments.clone());
            self.readers.run(move |session| {
                let store = session.store()?;
                // Due expirations are applied first, by the writer.
                if !is_expired && engine::is_due(store)? {
                    return Ok(None);
                }
                engine::read_json(store, &caller, &mut SystemEntropy, entry, arguments).map(Some)
            })
        };
        if let Some(answer) = read(false)? {
            return Ok(answer);
        }
        let expire_due = TABLE.iter().find(|entry| entry.name == "expire_due");
        let expire_due = expire_due.ok_or_else(|| Error::internal("expire_due is not in the table"))?;
        match self.write(expire_due, self.own.clone(), json!({}), None) {
            // The next write applies them.
            Err(error) if error.kind() != Kind::Unavailable => return Err(error),
            _ => {}
        }
        read(true)?.ok_or_else(|| Error::internal("the read returned nothing"))
    }

    /// Runs a write; it is on disk when this returns.
    fn write(
        &self,
        entry: &'static OperationEntry,
        caller: Caller,
        arguments: Value,
        key: Option<String>,
    ) -> Result<Value> {
        let (sender, receiver) = channel();
        // The client may have disconnected.
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        self.queue_write(entry, caller, arguments, key, reply);
        receiver.recv().unwrap_or_else(|_| Err(readers::thread_gone_error()))
    }

    fn queue_write(
        &self,
        entry: &'static OperationEntry,
        caller: Caller,
        arguments: Value,
        key: Option<String>,
        reply: Reply,
    ) {
        let writer = match &self.urgent {
            Some(urgent) if entry.name == "heartbeat" => urgent,
            _ => &self.writer,
        };
        let writer = writer.clone();
        let marked = AFFECT_ISSUES.contains(&entry.name).then(|| self.place.clone());
        if let Some(Err(error)) = marked.as_ref().map(claims::set_mark) {
            return reply(Err(error));
        }
        let (actor, agent) = (caller.actor.clone(), caller.agent.clone());
        let (readers, refused, own) = (Arc::clone(&self.readers), Arc::clone(&self.refused), self.own.clone());
        let written = move |written: Result<Value>| {
            refused.fetch_add(u64::from(written.is_err()), Ordering::Relaxed);
            // Another command may have cleared the mark meanwhile, before it could see the lease.
            if let Some(Err(error)) = marked.as_ref().map(claims::set_mark) {
                log::debug!("cannot mark the store: commands may overlook a lease: {}", error.full_message());
            }
            let is_finished = entry.name == "finish_task";
            match written {
                // The writer thread must not wait for the ledger's lock.
                Ok(mut answer) if is_claim(entry.name, &answer) => readers.submit(Box::new(move |session| {
                    let completed = session.and_then(|session| complete_claim(session, entry.name, &mut answer));
                    let is_session_usable = !matches!(&completed, Err(error) if error.kind() == Kind::Unavailable);
                    reply(completed.map(|()| answer));
                    is_session_usable
                })),
                Ok(answer) if (is_finished && answer["issue"].is_string()) || entry.name == "end_issue_lease" => {
                    readers.submit(Box::new(move |session| {
                        // If the notice cannot be delivered now, the next command delivers it.
                        let mut answer = answer;
                        if let Ok(session) = session {
                            session.act_as(actor, agent);
                            if is_finished {
                                close_finished_issue(session, &mut answer);
                            } else if let Err(error) = claims::deliver_notices(session) {
                                log::debug!("cannot deliver notices to the ledger: {}", error.full_message());
                            }
                            session.act_as(own.actor, own.agent);
                        }
                        reply(Ok(answer));
                        true
                    }));
                }
                written => reply(written),
            }
        };
        let Some((read_entry, read_arguments)) = read_before(entry.name, &arguments, key.as_deref()) else {
            return writer.write(entry, caller, arguments, key, Box::new(written));
        };
        self.readers.submit(Box::new(move |session| {
            let read = session.and_then(|session| {
                let store = session.store()?;
                // A due expiration may make a task ready, and the write applies it first.
                if engine::is_due(store)? {
                    return Ok(());
                }
                engine::read_json(store, &caller, &mut SystemEntropy, read_entry, read_arguments).map(drop)
            });
            let is_session_usable = !matches!(&read, Err(error) if error.kind() == Kind::Unavailable);
            match read {
                Ok(()) => writer.write(entry, caller, arguments, key, Box::new(written)),
                Err(error) => written(Err(error)),
            }
            is_session_usable
        }));
    }

    /// Refuses a worktree that claims another repository than the store knows.
    fn check_origin(&self, from: &Origin) -> Result<()> {
        let id = from.worktree.id.clone();
        let known = self.readers.run(move |session| engine::query(session.store()?, |tx| tx.worktree_get(&id)))?;
        match known {
            Some(known) if known.repository_id != from.repository.id => {
                Err(Error::refused(format!("worktree {} belongs to another repository", from.worktree.id)))
            }
            _ => Ok(()),
        }
    }
}

impl Serving {
    /// Returns metrics of the latest jobs and of all workspaces.
    #[expect(clippy::cast_precision_loss, reason = "counts are small, and bytes need not be exact")]
    fn job_measures(&self) -> Result<Vec<Measure>> {
        let caller = self.own.clone();
        let (jobs, workspaces) = self.readers.run(move |session| {
            jobs::reap_orphaned_jobs(session)?;
            let store = session.store()?;
            let jobs = ListJobs { status: None, live: false, task: None, limit: Some(MAX_COUNTED_JOBS) };
            let jobs = engine::read(store, &caller, &mut SystemEntropy, jobs)?.jobs;
            let workspaces = ListWorkspaces { machine: None, all: false, limit: Some(u32::MAX) };
            Ok((jobs, engine::read(store, &caller, &mut SystemEntropy, workspaces)?.workspaces))
        })?;
        let by_status = |statuses: Vec<String>| {
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            for status in statuses {
                *counts.entry(status).or_default() += 1.0;
            }
            counts.into_iter().map(|(status, count)| (format!("status=\"{status}\""), count)).collect::<Vec<_>>()
        };
        let setup_seconds = |view: &JobView| Some(view.job.started_at?.since(view.job.created_at) as f64 / 1000.0);
        let setups: Vec<f64> = jobs.iter().filter_map(setup_seconds).collect();
        let bytes: u64 = workspaces.iter().filter_map(|view| view.workspace.size).sum();
        let lost = workspaces.iter().filter(|view| view.workspace.status == WorkspaceStatus::Lost).count();
        let gauge = |name, help, values| Measure { name, help, is_counter: false, values };
        let one = |value: f64| vec![(String::new(), value)];
        Ok(vec![
            gauge(
                "jobs",
                "The latest jobs, by status.",
                by_status(jobs.iter().map(|view| view.job.status.to_string()).collect()),
            ),
            gauge(
                "job_setup_seconds",
                "Average time from the creation of a job to its start, over the latest jobs.",
                one(setups.iter().sum::<f64>() / (setups.len().max(1) as f64)),
            ),
            gauge(
                "workspaces",
                "Workspaces, by status.",
                by_status(workspaces.iter().map(|view| view.workspace.status.to_string()).collect()),
            ),
            gauge("workspaces_lost", "Workspaces whose directory is missing.", one(lost as f64)),
            gauge("workspace_bytes", "Disk usage of all workspaces, as last measured.", one(bytes as f64)),
        ])
    }
}

impl Host for Serving {
    fn call(&self, call: Call) -> Result<Value> {
        self.run(call, None)
    }

    fn submit(&self, call: Call, reply: Reply) -> Option<Call> {
        let written = TABLE.iter().find(|entry| entry.name == call.operation && entry.effect == Effect::Write);
        let Some(entry) = written else { return Some(call) };
        let caller = self.caller(&call.who, None);
        self.queue_write(entry, caller, call.arguments, call.key, reply);
        None
    }

    fn call_from(&self, call: Call, from: Origin) -> Result<Value> {
        self.check_origin(&from)?;
        self.run(call, Some(from))
    }

    fn app_operations(&self) -> &'static [Described] {
        static ALL: OnceLock<Vec<Described>> = OnceLock::new();
        ALL.get_or_init(|| {
            let described = |entry: &issue_ops::AppEntry| {
                let issue_ops::AppEntry { name, summary, effect, schema, answer_schema, .. } = *entry;
                Described { name, summary, effect, audience: Audience::Public, schema, answer_schema }
            };
            issue_ops::TABLE.iter().chain(job_ops::TABLE).map(described).collect()
        })
    }

    fn measures(&self) -> Vec<Measure> {
        let caller = self.own.clone();
        let status = self.readers.run(move |session| {
            let status = GetStatus { worktree_id: None, limit: 0 };
            engine::read(session.store()?, &caller, &mut SystemEntropy, status)
        });
        let mut measures = self.writer.measures();
        measures.extend(self.job_measures().unwrap_or_default());
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        measures.push(Measure {
            name: "writes_refused_total",
            help: "Writes that were refused or failed.",
            is_counter: true,
            values: vec![(String::new(), self.refused.load(Ordering::Relaxed) as f64)],
        });
        if let Ok(totals) = status.and_then(|status| {
            serde_json::to_value(status.totals).map_err(|error| Error::internal("totals are not JSON").because(error))
        }) {
            let totals = totals.as_object().into_iter().flatten();
            measures.push(Measure {
                name: "things",
                help: "Number of entries in each section of way status.",
                is_counter: false,
                values: totals
                    .map(|(name, count)| (format!("part=\"{name}\""), count.as_f64().unwrap_or_default()))
                    .collect(),
            });
        }
        measures
    }

    fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        self.readers.wait(last, timeout)
    }

    fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        self.writer.probe(reply);
    }
}
