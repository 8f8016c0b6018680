//! A store and the ledgers beside it, used by many at once: what stands behind a server.
//!
//! Reading is done by a few threads, each with a session of its own. Writing is done by one, which makes what waits for
//! it one transaction: the disk is waited for once, and each is answered after that.

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
use crate::single_host::{CONCERN_ISSUES, complete_claim, is_claim, read_before, shows_jobs, tell_of_issue, unknown};
use crate::system::SystemEntropy;
use readers::Readers;
use writer::Writer;

/// How many jobs are counted.
const LATEST: u32 = 1000;

/// A store that is served.
pub struct Serving {
    place: Place,
    /// In whose name things are done that no worktree of their own is named for.
    own: Caller,
    readers: Arc<Readers>,
    writer: Writer,
    /// Signs of life have a way of their own where writers queue elsewhere: late ones lose leases.
    urgent: Option<Writer>,
    refused: Arc<AtomicU64>,
    /// The keys of what is being done beside the store.
    keys: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    /// Opens the store of a place for many.
    pub fn open(place: &Place) -> Result<Serving> {
        let mut place = place.clone();
        // Whoever asks says who it is, and not whoever started the server.
        place.variables = place.variables.without(WAYPOST_AGENT).without(WAYPOST_ACTOR);
        if let Location::Server(url) = place.store()?.location {
            return Err(Error::refused(format!("{url} is a server already"))
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

    /// Returns what the token of a job allows, for as long as the job runs.
    ///
    /// It is asked for tokens that are in no file, so it also says if the files cannot be there: tokens lie beside the store.
    pub fn grant_of_job(&self, secret: &str) -> Result<Option<Grant>> {
        if let Location::Sqlite(path) = self.place.store()?.location
            && !path.exists()
        {
            return Err(Error::unavailable("tokens cannot be checked: the store and its directory are not there"));
        }
        let Some(shown) = jobs::token_hash(secret) else { return Ok(None) };
        let live = ListJobs { status: None, live: true, task: None, limit: Some(u32::MAX) };
        let caller = self.own.clone();
        let live =
            self.readers.ask(move |session| engine::read(session.store()?, &caller, &mut SystemEntropy, live))?;
        let found = live.jobs.into_iter().find(|view| view.job.token_hash.as_ref() == Some(&shown));
        Ok(found.map(|found| {
            let task = found.job.task_id.map(|id| id.to_string());
            Grant { token: found.job.id.to_string(), role: Role::Job, agent: found.agent, task }
        }))
    }

    /// Returns who asks, as the engine knows it.
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
            self.readers.ask(jobs::reap_orphaned_jobs)?;
        }
        if operation == "get_log" {
            // Asked again and again by those who follow it, so it opens nothing.
            return self.readers.ask(move |session| job_ops::read_log(session, arguments));
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
            None => Err(unknown(&operation)),
        }
    }

    /// Does what is not done in the store.
    fn run_app_operation(
        &self,
        entry: &'static issue_ops::AppEntry,
        who: &Who,
        arguments: Value,
        key: Option<String>,
    ) -> Result<Value> {
        let place = self.place.used_by(&who.actor, who.agent.as_deref());
        let Some(key) = key else { return (entry.run)(&place, arguments, None) };
        let turn = Arc::clone(lock(&self.keys).entry(key.clone()).or_default());
        let answer = {
            // Asked again before it was done, it waits for what was done.
            let _turn = lock(&turn);
            let ask = |step: idempotency::Step| self.readers.ask(move |session| step.ask(session));
            let again = arguments.clone();
            idempotency::once(ask, who, &key, entry.name, &arguments, || (entry.run)(&place, again, Some(&key)))
        };
        drop(turn);
        lock(&self.keys).retain(|_, turn| Arc::strong_count(turn) > 1);
        answer
    }

    fn read(&self, entry: &'static OperationEntry, caller: &Caller, arguments: &Value) -> Result<Value> {
        let read = |is_expired: bool| {
            let (caller, arguments) = (caller.clone(), arguments.clone());
            self.readers.ask(move |session| {
                let store = session.store()?;
                // What time has brought about is written first, and not by those who read.
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
            // Whoever writes next does it.
            Err(error) if error.kind() != Kind::Unavailable => return Err(error),
            _ => {}
        }
        read(true)?.ok_or_else(|| Error::internal("nothing was read"))
    }

    /// Writes something; it is on disk when this returns.
    fn write(
        &self,
        entry: &'static OperationEntry,
        caller: Caller,
        arguments: Value,
        key: Option<String>,
    ) -> Result<Value> {
        let (sender, receiver) = channel();
        // Whoever asked may have gone.
        let reply = Box::new(move |answer| drop(sender.send(answer)));
        self.write_later(entry, caller, arguments, key, reply);
        receiver.recv().unwrap_or_else(|_| Err(readers::gone()))
    }

    fn write_later(
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
        let marked = CONCERN_ISSUES.contains(&entry.name).then(|| self.place.clone());
        if let Some(Err(error)) = marked.as_ref().map(claims::set_mark) {
            return reply(Err(error));
        }
        let (actor, agent) = (caller.actor.clone(), caller.agent.clone());
        let (readers, refused, own) = (Arc::clone(&self.readers), Arc::clone(&self.refused), self.own.clone());
        let written = move |written: Result<Value>| {
            refused.fetch_add(u64::from(written.is_err()), Ordering::Relaxed);
            // Another command may have taken the mark away meanwhile, seeing no lease.
            if let Some(Err(error)) = marked.as_ref().map(claims::set_mark) {
                log::debug!("there may be leases nobody asks for: {}", error.full_message());
            }
            let is_finished = entry.name == "finish_task";
            match written {
                // The ledger's lock is not waited for by the thread that writes.
                Ok(mut answer) if is_claim(entry.name, &answer) => readers.give(Box::new(move |session| {
                    let completed = session.and_then(|session| complete_claim(session, entry.name, &mut answer));
                    let is_good = !matches!(&completed, Err(error) if error.kind() == Kind::Unavailable);
                    reply(completed.map(|()| answer));
                    is_good
                })),
                Ok(answer) if (is_finished && answer["issue"].is_string()) || entry.name == "end_issue_lease" => {
                    readers.give(Box::new(move |session| {
                        // If the ledger cannot be told now, the next look does it.
                        let mut told = answer;
                        if let Ok(session) = session {
                            session.act_as(actor, agent);
                            if is_finished {
                                tell_of_issue(session, &mut told);
                            } else if let Err(error) = claims::deliver_notices(session) {
                                let why = error.full_message();
                                log::debug!("the ledger was not told what became of its issues: {why}");
                            }
                            session.act_as(own.actor, own.agent);
                        }
                        reply(Ok(told));
                        true
                    }));
                }
                written => reply(written),
            }
        };
        let Some((question, about)) = read_before(entry.name, &arguments, key.as_deref()) else {
            return writer.write(entry, caller, arguments, key, Box::new(written));
        };
        self.readers.give(Box::new(move |session| {
            let read = session.and_then(|session| {
                let store = session.store()?;
                // What is due may make something ready, and a write applies it first.
                if engine::is_due(store)? {
                    return Ok(());
                }
                engine::read_json(store, &caller, &mut SystemEntropy, question, about).map(drop)
            });
            let is_good = !matches!(&read, Err(error) if error.kind() == Kind::Unavailable);
            match read {
                Ok(()) => writer.write(entry, caller, arguments, key, Box::new(written)),
                Err(error) => written(Err(error)),
            }
            is_good
        }));
    }

    /// Refuses a worktree that says it is one of another repository than the store knows.
    fn check(&self, from: &Origin) -> Result<()> {
        let id = from.worktree.id.clone();
        let known = self.readers.ask(move |session| engine::query(session.store()?, |tx| tx.worktree_get(&id)))?;
        match known {
            Some(known) if known.repository_id != from.repository.id => {
                Err(Error::refused(format!("worktree {} is one of another repository", from.worktree.id)))
            }
            _ => Ok(()),
        }
    }
}

impl Serving {
    /// Counts the latest jobs and all workspaces.
    #[expect(clippy::cast_precision_loss, reason = "counts are small, and bytes need not be exact")]
    fn measures_of_jobs(&self) -> Result<Vec<Measure>> {
        let caller = self.own.clone();
        let (jobs, workspaces) = self.readers.ask(move |session| {
            jobs::reap_orphaned_jobs(session)?;
            let store = session.store()?;
            let jobs = ListJobs { status: None, live: false, task: None, limit: Some(LATEST) };
            let jobs = engine::read(store, &caller, &mut SystemEntropy, jobs)?.jobs;
            let workspaces = ListWorkspaces { machine: None, all: false, limit: Some(u32::MAX) };
            Ok((jobs, engine::read(store, &caller, &mut SystemEntropy, workspaces)?.workspaces))
        })?;
        let by = |words: Vec<String>| {
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            for word in words {
                *counts.entry(word).or_default() += 1.0;
            }
            counts.into_iter().map(|(word, count)| (format!("status=\"{word}\""), count)).collect::<Vec<_>>()
        };
        let began = |view: &JobView| Some(view.job.started_at?.since(view.job.created_at) as f64 / 1000.0);
        let set_up: Vec<f64> = jobs.iter().filter_map(began).collect();
        let bytes: u64 = workspaces.iter().filter_map(|view| view.workspace.size).sum();
        let lost = workspaces.iter().filter(|view| view.workspace.status == WorkspaceStatus::Lost).count();
        let gauge = |name, help, values| Measure { name, help, is_counter: false, values };
        let one = |value: f64| vec![(String::new(), value)];
        Ok(vec![
            gauge(
                "jobs",
                "The latest jobs, by status.",
                by(jobs.iter().map(|view| view.job.status.to_string()).collect()),
            ),
            gauge(
                "job_setup_seconds",
                "How long the latest jobs took from being asked for to being started, on average.",
                one(set_up.iter().sum::<f64>() / (set_up.len().max(1) as f64)),
            ),
            gauge(
                "workspaces",
                "Workspaces that are there, by status.",
                by(workspaces.iter().map(|view| view.workspace.status.to_string()).collect()),
            ),
            gauge("workspaces_lost", "Workspaces whose directory is gone.", one(lost as f64)),
            gauge("workspace_bytes", "What all workspaces take on disk, as last measured.", one(bytes as f64)),
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
        self.write_later(entry, caller, call.arguments, call.key, reply);
        None
    }

    fn call_from(&self, call: Call, from: Origin) -> Result<Value> {
        self.check(&from)?;
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
        let status = self.readers.ask(move |session| {
            let status = GetStatus { worktree_id: None, limit: 0 };
            engine::read(session.store()?, &caller, &mut SystemEntropy, status)
        });
        let mut measures = self.writer.measures();
        measures.extend(self.measures_of_jobs().unwrap_or_default());
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
                help: "How many there are of each part of way status.",
                is_counter: false,
                values: totals
                    .map(|(name, count)| (format!("part=\"{name}\""), count.as_f64().unwrap_or_default()))
                    .collect(),
            });
        }
        measures
    }

    fn wait(&self, last: u64, at_most: Duration) -> Result<()> {
        self.readers.wait(last, at_most)
    }

    fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        self.writer.probe(reply);
    }
}
