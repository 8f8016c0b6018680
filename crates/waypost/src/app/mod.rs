//! The application: the one way to run an operation.
//!
//! [`App::call`] finds the operation, authorizes the caller, runs the steps around the operation, and collects warnings.
//! HTTP and MCP decode a [`Call`], and encode its [`Reply`]. Commands have a session of their own, and run operations
//! with the same steps through [`Session::call`]. Two executors run operations of the store: `one_process` one call at a time,
//! `group_commit` many at once, for a server.

pub mod candidates;
mod followed;
mod group_commit;
pub(crate) mod idempotency;
pub mod lazy_session;
mod metrics;
mod one_process;
pub mod operation;
pub mod origin;
mod pages;
mod readers;
pub mod session;
pub(crate) mod steps;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use waypost_core::context::Authority;
use waypost_core::model::EventQuery;
use waypost_core::nearest::nearest;
use waypost_core::op::{self, AnyAnswer, Description, Effect, EventList, ListEvents, Operation as _, OperationEntry};
use waypost_core::{Error, Result};

use crate::app::origin::Origin;
use crate::app::session::Session;
use crate::machine::place::Place;
use crate::ops;
use crate::serving::access::Grant;
use crate::serving::challenge::Challenge;
use group_commit::GroupCommit;
use one_process::OneProcess;
use pages::Page;

pub use crate::app::operation::{AppContext, AppEntry, AppOperation, Reply, Who};
pub use metrics::Measure;

/// A call of an operation.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the operation.
    pub operation: String,
    /// Its arguments, an object.
    pub arguments: Value,
    /// The caller.
    pub who: Who,
    /// The permissions of the caller.
    pub grant: Grant,
    /// The worktree of the caller, if it is not that of the application.
    pub from: Option<Origin>,
    /// The idempotency key: a call with the same key returns the first answer.
    pub key: Option<String>,
}

/// Receives a reply, after its writes are on disk.
pub type Respond = Box<dyn FnOnce(Result<Reply<AnyAnswer>>) + Send>;

/// Returns the descriptions of all operations.
pub fn operations() -> impl Iterator<Item = Description> {
    op::TABLE.iter().map(|entry| entry.about).chain(ops::all().map(|entry| entry.about))
}

/// Time until the next attempt to renew leases that could not be renewed.
const RENEW_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// An operation of the store or of the application.
#[derive(Clone, Copy)]
enum Found {
    Store(&'static OperationEntry),
    App(&'static AppEntry),
}

impl Found {
    fn about(self) -> &'static Description {
        match self {
            Found::Store(entry) => &entry.about,
            Found::App(entry) => &entry.about,
        }
    }
}

fn find(name: &str) -> Result<Found> {
    if let Some(entry) = op::named(name) {
        return Ok(Found::Store(entry));
    }
    match ops::all().find(|entry| entry.about.name == name) {
        Some(entry) => Ok(Found::App(entry)),
        None => Err(unknown_operation(name)),
    }
}

/// Returns the error for an unknown operation, with the nearest name.
pub fn unknown_operation(name: &str) -> Error {
    let names = || operations().filter(|about| about.audience == op::Audience::Public).map(|about| about.name);
    let error = Error::not_found(format!("unknown operation {name:?}"));
    let usual = op::usual_name(name).and_then(|usual| names().find(|known| *known == usual));
    match usual.or_else(|| nearest(name, names())) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("/openapi.json lists all operations"),
    }
}

/// Runs operations on a store and its ledgers. Many threads call it concurrently.
///
/// A program that embeds Waypost runs operations with [`App::run`], which takes and returns their types, or with
/// [`App::request`], which takes and returns JSON, as HTTP and MCP do.
///
/// ```
/// use serde_json::json;
/// use waypost::app::{App, Who};
/// use waypost::op::{ListTasks, decode};
/// use waypost::machine::place::Place;
///
/// # let dir = waypost_testkit::temp_dir();
/// # let repository = dir.path();
/// # std::fs::create_dir(repository.join(".waypost"))?;
/// let app = App::one_process(Place::at(repository)?);
/// let ann = Who::agent("ann");
/// let plan = json!({ "tasks": [{ "name": "build" }, { "name": "test", "depends_on": ["build"] }] });
/// app.request("add_workflow", json!({ "name": "release", "plan": plan, "start": true }), &ann)?;
///
/// let claimed = app.request("claim_task", json!({}), &ann)?.answer;
/// assert_eq!(claimed["task"]["name"], "build");
/// let finish = json!({ "task": "build", "epoch": claimed["lease"]["epoch"], "outcome": "it compiles" });
/// app.request("finish_task", finish, &ann)?;
///
/// let claimable: ListTasks = decode(&json!({ "claimable": true }))?;
/// assert_eq!(app.run(&claimable, &ann)?.answer.tasks[0].task.name, "test");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct App {
    executor: Executor,
    /// The idempotency keys of running application operations.
    keys: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

enum Executor {
    OneProcess(Box<OneProcess>),
    GroupCommit(Box<GroupCommit>),
}

impl App {
    /// Creates an application for one client that sends one call at a time. The first call opens the store.
    pub fn one_process(place: Place) -> App {
        App { executor: Executor::OneProcess(Box::new(OneProcess::new(place))), keys: Mutex::default() }
    }

    /// Opens the store of a place for many concurrent clients.
    pub fn group_commit(place: &Place) -> Result<App> {
        App::with_readers(place, readers::READER_THREADS)
    }

    /// Opens the store of a place for the processes of one job, with as few connections as possible: every running job
    /// may have its own.
    pub fn for_job(place: &Place) -> Result<App> {
        App::with_readers(place, 1)
    }

    fn with_readers(place: &Place, readers: usize) -> Result<App> {
        let executor = Executor::GroupCommit(Box::new(GroupCommit::open(place, readers)?));
        Ok(App { executor, keys: Mutex::default() })
    }

    /// Runs an operation. Blocks until its writes are on disk.
    pub fn call(&self, mut call: Call) -> Result<Reply> {
        if let Executor::OneProcess(executor) = &self.executor {
            executor.note(&call.who);
        }
        let found = admit(&call)?;
        self.executor.set_defaults(&mut call);
        let page = Page::limit(&mut call, found);
        let reply = match found {
            Found::App(entry) => self.run_app_operation(entry, call),
            Found::Store(entry) => match &self.executor {
                Executor::OneProcess(executor) => executor.run(entry, call),
                Executor::GroupCommit(executor) => executor.run(entry, call).and_then(Reply::into_tree),
            },
        };
        reply.map(|reply| page.warn(reply))
    }

    /// Runs an operation for a caller of this process, who may do everything that the user may.
    pub fn run<O: op::Operation>(&self, operation: &O, who: &Who) -> Result<Reply<O::Answer>> {
        let Reply { answer, warnings } = self.request(O::NAME, op::arguments_json(operation)?, who)?;
        let answer = op::decode_answer::<O>(&answer)
            .map_err(|error| Error::internal(format!("cannot read the answer to {}", O::NAME)).because(error))?;
        Ok(Reply { answer, warnings })
    }

    /// Runs an operation by its name, with its arguments and its answer as JSON, for a caller of this process, who may do
    /// everything that the user may.
    pub fn request(&self, operation: &str, arguments: Value, who: &Who) -> Result<Reply> {
        self.call(Call {
            operation: operation.to_owned(),
            arguments,
            who: who.clone(),
            grant: Grant::owner("own"),
            from: None,
            key: None,
        })
    }

    /// Renews the leases of the agents that called an application for one client. Returns the time until the next renewal;
    /// None if there are no leases to renew.
    pub fn renew_leases(&self) -> Option<Duration> {
        let Executor::OneProcess(executor) = &self.executor else { return None };
        executor.renew_leases().unwrap_or_else(|error| {
            log::debug!("cannot renew leases: {}", error.full_message());
            Some(RENEW_RETRY_INTERVAL)
        })
    }

    /// Checks that the operation exists and that the caller may run it. Every call does this itself.
    pub fn authorize(&self, call: &Call) -> Result<()> {
        admit(call).map(drop)
    }

    /// Queues a call and sends its reply to `respond`. Returns the call if it can only run on a thread that blocks.
    pub fn submit(&self, mut call: Call, respond: Respond) -> Option<Call> {
        let found = match admit(&call) {
            Ok(found) => found,
            Err(error) => {
                respond(Err(error));
                return None;
            }
        };
        self.executor.set_defaults(&mut call);
        let page = Page::limit(&mut call, found);
        match (found, &self.executor) {
            // To check a worktree of the caller, a thread waits for the store.
            (Found::Store(entry), Executor::GroupCommit(executor)) if call.from.is_none() => {
                let respond = page.warn_in(respond);
                executor.queue(entry, call, respond);
            }
            (Found::App(entry), Executor::GroupCommit(executor))
                if entry.is_short && entry.about.effect == Effect::Read =>
            {
                let respond = page.warn_in(respond);
                let place = executor.place().used_by(&call.who.actor, call.who.agent.as_deref());
                executor.queue_short(entry, place, call, respond);
            }
            _ => return Some(call),
        }
        None
    }

    /// Runs an operation on ledgers or processes, at most once per key.
    fn run_app_operation(&self, entry: &'static AppEntry, call: Call) -> Result<Reply> {
        let Call { arguments, who, key, grant, .. } = call;
        let place = self.executor.place(&who)?;
        let key = key.filter(|_| entry.about.effect == Effect::Write);
        let Some(key) = key else {
            if !entry.is_short {
                return entry.reply(AppContext::new(&place, None), &arguments);
            }
            return self.executor.with_session(&who, grant.authority(), move |session| {
                entry.reply(AppContext::with_session(&place, session), &arguments)
            });
        };
        if place.is_served()? {
            // A remote server saves only answers of its own operations. Additions stay idempotent: their ids derive
            // from the key.
            return entry.reply(AppContext::new(&place, Some(&key)), &arguments);
        }
        let key_lock = Arc::clone(lock(&self.keys).entry(key.clone()).or_default());
        let reply = {
            // A retry waits for the first request.
            let _held = lock(&key_lock);
            let store = |step: idempotency::Step| {
                self.executor.with_session(&who, Authority::User, move |session| step.run(session))
            };
            idempotency::once(store, &who, &key, entry.about.name, &arguments, || {
                entry.reply(AppContext::new(&place, Some(&key)), &arguments)
            })
        };
        drop(key_lock);
        lock(&self.keys).retain(|_, key_lock| Arc::strong_count(key_lock) > 1);
        reply
    }

    /// Returns metrics for monitoring.
    pub fn measures(&self) -> Vec<Measure> {
        match &self.executor {
            Executor::OneProcess(_) => Vec::new(),
            Executor::GroupCommit(executor) => executor.measures(),
        }
    }

    /// Reads a part of the history, for a caller who may see all of it.
    pub fn list_events(&self, query: &EventQuery, who: &Who) -> Result<EventList> {
        match &self.executor {
            Executor::OneProcess(_) => Ok(self.run(&ListEvents { query: query.clone() }, who)?.answer),
            Executor::GroupCommit(executor) => executor.list_events(query),
        }
    }

    /// Waits until there may be an event after this sequence, or until the timeout. Only a hint.
    pub fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        match &self.executor {
            Executor::OneProcess(executor) => executor.wait(last, timeout),
            Executor::GroupCommit(executor) => executor.wait(last, timeout),
        }
    }

    /// Checks whether a write and a read would succeed now, without changing anything. Returns at once; the reply may come late,
    /// or never while the disk hangs.
    pub fn probe(&self, reply: Box<dyn FnOnce(Result<()>) + Send>) {
        match &self.executor {
            Executor::OneProcess(_) => reply(Ok(())),
            Executor::GroupCommit(executor) => executor.probe(reply),
        }
    }

    /// Returns the proof that this server knows the token of a running job that a challenge is about.
    pub fn answer_for_job(&self, challenge: &Challenge) -> Result<Option<String>> {
        match &self.executor {
            Executor::OneProcess(_) => Ok(None),
            Executor::GroupCommit(executor) => executor.answer_for_job(challenge),
        }
    }

    /// Returns the grant of a job's token while the job runs.
    pub fn grant_of_job(&self, secret: &str) -> Result<Option<Grant>> {
        match &self.executor {
            Executor::OneProcess(_) => Ok(None),
            Executor::GroupCommit(executor) => executor.grant_of_job(secret),
        }
    }
}

impl Executor {
    /// Sets what a server decides about a call that says nothing about it.
    fn set_defaults(&self, call: &mut Call) {
        if matches!(self, Executor::GroupCommit(_)) && call.operation == op::AddJobRecord::NAME {
            op::AddJobRecord::sandbox_if_queued(&mut call.arguments);
        }
    }

    fn place(&self, who: &Who) -> Result<Place> {
        let place = match self {
            Executor::OneProcess(executor) => executor.place()?,
            Executor::GroupCommit(executor) => (*executor.place()).clone(),
        };
        Ok(place.used_by(&who.actor, who.agent.as_deref()))
    }

    fn with_session<T: Send + 'static>(
        &self,
        who: &Who,
        authority: Authority,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match self {
            Executor::OneProcess(executor) => executor.with_session(who, work),
            Executor::GroupCommit(executor) => executor.with_session(who, authority, work),
        }
    }
}

/// Finds the operation of a call, and checks that the caller may run it.
fn admit(call: &Call) -> Result<Found> {
    let found = find(&call.operation)?;
    call.grant.allow(found.about(), &call.arguments)?;
    Ok(found)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::serving::access::Role;
    use waypost_core::op::Verb;

    /// Writes that agents may make. Others are for people: to answer, approve, remove, and move between stores. These
    /// lists repeat what the operations state, so that no operation becomes accessible by mistake.
    const AGENT_WRITES: &[&str] = &[
        "ack_message",
        "add_checkpoint",
        "add_comment",
        "add_dependency",
        "add_issue",
        "add_task",
        "add_workflow",
        "add_workflow_repository",
        "apply_template",
        "ask_question",
        "assign_task",
        "broadcast_message",
        "cancel_workflow",
        "claim_issue",
        "claim_task",
        "close_issue",
        "confirm_changes",
        "confirm_notice",
        "defer_changes",
        "end_issue_lease",
        "fail_task",
        "finish_task",
        "heartbeat",
        "lease_issue",
        "list_inbox",
        "pause_task",
        "pause_workflow",
        "plan_workflow",
        "read_message",
        "record_merge",
        "register",
        "register_agent",
        "release_issue",
        "release_task",
        "remove_dependency",
        "remove_task",
        "remove_workflow_repository",
        "reopen_issue",
        "reopen_task",
        "replan_workflow",
        "resume_workflow",
        "retire_agent",
        "save_template",
        "send_message",
        "skip_task",
        "start_workflow",
        "update_issue",
        "update_task",
    ];

    /// Operations that agents may not run with `force`.
    const AGENT_WRITES_WITHOUT_FORCE: &[&str] =
        &["close_issue", "end_issue_lease", "release_issue", "reopen_issue", "update_issue"];

    /// Operations that a job may run on its own task.
    const JOB_TASK_OPERATIONS: &[&str] =
        &["ask_question", "add_checkpoint", "fail_task", "finish_task", "heartbeat", "pause_task", "release_task"];

    /// Operations that a job may run on itself.
    const JOB_SELF_OPERATIONS: &[&str] = &["show_log", "update_job"];

    /// Other writes that a job may make: messages, and the claims behind the issues that it changes in its own files.
    const JOB_WRITES: &[&str] = &[
        "ack_message",
        "confirm_changes",
        "confirm_notice",
        "defer_changes",
        "end_issue_lease",
        "lease_issue",
        "list_inbox",
        "read_message",
        "register",
        "send_message",
    ];

    /// Reads that are not for jobs: logs and files may show more than their authors intended.
    const JOB_HIDDEN: &[&str] = &["show_diff", "show_log", "show_stored_log"];

    /// Reads of Waypost itself, which only the owner reaches from outside.
    const INTERNAL_READS: &[&str] = &["choose_base", "dump_workflow", "find_garbage", "list_summaries"];

    fn grant(role: Role) -> Grant {
        Grant { token: "x".to_owned(), role, agent: Some("a".to_owned()), task: Some("tk_1".to_owned()) }
    }

    /// Returns what is wrong with the names of operations and their verbs.
    fn naming_problems(names: &[&str], verbs: &[Verb]) -> Vec<String> {
        let mut words: Vec<&str> = verbs.iter().flat_map(|verb| [&[verb.name], verb.synonyms].concat()).collect();
        let mut acts: Vec<&str> = verbs.iter().map(|verb| verb.act).collect();
        let mut problems = Vec::new();
        for texts in [&mut words, &mut acts] {
            texts.sort_unstable();
            problems.extend(texts.windows(2).filter(|two| two[0] == two[1]).map(|two| format!("{} twice", two[0])));
        }
        let first = |name: &'_ str| name.split('_').next().unwrap_or_default().to_owned();
        for name in names {
            let word = first(name);
            match verbs.iter().find(|verb| verb.name == word || verb.synonyms.contains(&word.as_str())) {
                None => problems.push(format!("{name} begins with no verb of the table")),
                Some(verb) if verb.name != word => problems.push(format!("{name}: the verb is {}", verb.name)),
                Some(_) => {}
            }
        }
        let is_unused = |verb: &&Verb| !names.iter().any(|name| first(name) == verb.name);
        problems.extend(verbs.iter().filter(is_unused).map(|verb| format!("no operation begins with {}", verb.name)));
        problems
    }

    #[test]
    fn every_operation_begins_with_the_one_verb_of_its_act() {
        let names: Vec<_> = operations().map(|about| about.name).collect();
        assert_eq!(naming_problems(&names, op::VERBS), [""; 0]);
    }

    #[test]
    fn two_verbs_for_one_act_are_found() {
        let verb = |name, act, synonyms| Verb { name, act, synonyms };
        let remove = || verb("remove", "takes a record away", &["delete"]);
        for (names, verbs, problem) in [
            (&["remove_a", "delete_b"][..], vec![remove()], "delete_b: the verb is remove"),
            (&["remove_a", "prune_b"], vec![remove()], "prune_b begins with no verb of the table"),
            (&["remove_a", "delete_b"], vec![remove(), verb("delete", "deletes", &[])], "delete twice"),
            (
                &["remove_a", "erase_b"],
                vec![remove(), verb("erase", "takes a record away", &[])],
                "takes a record away twice",
            ),
            (&["remove_a"], vec![remove(), verb("send", "sends", &[])], "no operation begins with send"),
        ] {
            assert_eq!(naming_problems(names, &verbs).first().map(String::as_str), Some(problem), "{names:?}");
        }
    }

    #[test]
    fn a_former_name_stands_for_one_operation_and_is_none_itself() {
        for (former, current) in op::FORMER_NAMES {
            assert!(find(current).is_ok(), "{current} is no operation");
            assert!(find(former).is_err(), "{former} is an operation");
        }
        let former: std::collections::BTreeSet<_> = op::FORMER_NAMES.iter().map(|(former, _)| former).collect();
        assert_eq!(former.len(), op::FORMER_NAMES.len());
    }

    #[test]
    fn an_unknown_name_with_another_verb_for_an_act_leads_to_the_operation() {
        for (wrong, right) in [("delete_task", "remove_task"), ("get_job", "show_job"), ("create_issue", "add_issue")] {
            assert_eq!(unknown_operation(wrong).hints(), [format!("did you mean {right}?")]);
        }
    }

    fn operation(name: &str) -> Description {
        operations().find(|about| about.name == name).expect("the operation exists")
    }

    #[test]
    fn t13_every_role_may_run_only_the_listed_operations() {
        let listed = |names: &[&str], name: &str| names.contains(&name);
        for entry in operations() {
            let is_read = entry.effect == Effect::Read && !listed(INTERNAL_READS, entry.name);
            let may = |role: Role, arguments: Value| grant(role).allow(&entry, &arguments).is_ok();
            assert!(may(Role::Admin, json!({})), "{}", entry.name);
            assert_eq!(may(Role::ReadOnly, json!({})), is_read, "{}", entry.name);
            assert_eq!(may(Role::Agent, json!({})), is_read || listed(AGENT_WRITES, entry.name), "{}", entry.name);
            let own = listed(JOB_TASK_OPERATIONS, entry.name);
            let besides = if is_read { !listed(JOB_HIDDEN, entry.name) } else { listed(JOB_WRITES, entry.name) };
            assert_eq!(may(Role::Job, json!({ "task": "tk_1" })), own || besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({ "task": "tk_2" })), besides, "{}", entry.name);
            assert_eq!(may(Role::Job, json!({})), besides, "{}", entry.name);
            assert_eq!(
                may(Role::Job, json!({ "job": "x" })),
                besides || listed(JOB_SELF_OPERATIONS, entry.name),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn t35_agents_may_not_answer_questions_or_remove_worktrees() {
        for name in ["answer_question", "remove_worktree", "remove_repository", "take_workflow", "record_maintenance"] {
            assert!(grant(Role::Agent).allow(&operation(name), &json!({})).is_err(), "{name}");
        }
    }

    #[test]
    fn t12_an_agent_may_not_force_changes_to_issues_of_others() {
        for name in AGENT_WRITES_WITHOUT_FORCE {
            let may = |role: Role, force: bool| {
                grant(role).allow(&operation(name), &json!({ "issue": "i", "force": force })).is_ok()
            };
            let table = Role::ALL.map(|role| (role.as_str(), may(role, false), may(role, true)));
            let by_job = *name == "end_issue_lease";
            let expected =
                [("admin", true, true), ("agent", true, false), ("job", by_job, false), ("read-only", false, false)];
            assert_eq!(table, expected, "{name}");
        }
    }

    #[test]
    fn t12_an_agent_may_not_register_or_retire_others() {
        let agent = grant(Role::Agent);
        for (name, field) in [("register_agent", "name"), ("retire_agent", "agent")] {
            assert!(agent.allow(&operation(name), &json!({ field: "b" })).is_err());
            assert!(agent.allow(&operation(name), &json!({ field: "a" })).is_ok());
        }
        assert!(agent.allow(&operation("register_agent"), &json!({ "role": "human" })).is_err());
    }
}
