//! The operations of a store, one file each.
//!
//! An operation is a struct with its arguments; its [`StoreOperation::run`] is the rule. [`TABLE`] lists all of
//! them. The surfaces decode into these structs, run them through the engine and encode the answer;
//! they decide nothing.

mod access;
mod any_answer;
mod names;
pub(crate) mod ownership;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::TaskId;
use crate::limits;
use crate::tree;

pub use access::{Access, AgentAccess, JobAccess};
pub use any_answer::AnyAnswer;
pub use names::{FORMER_NAMES, VERBS, Verb, current_name, usual_name};

/// Declares the file of every operation, exports its types and lists it in [`TABLE`]: a new operation needs its file and one
/// line. rustfmt does not find modules that a macro declares, so `cargo xtask test` names these files to it.
macro_rules! operations {
    ($($noun:ident { $($file:ident::$operation:ident,)* })*) => {
        $(
            #[doc = concat!("The operations of the noun `", stringify!($noun), "`.")]
            pub mod $noun {
                $(
                    pub(crate) mod $file;
                    pub use $file::*;
                )*
            }
            pub use $noun::*;
        )*

        /// All operations.
        pub static TABLE: &[OperationEntry] = &[$($(entry::<$noun::$operation>(),)*)*];

        $($(
            impl IntoAnyOperation for $noun::$operation {
                #[inline(never)]
                fn into_any(self) -> Box<dyn AnyOperation> {
                    Box::new(self)
                }
            }
        )*)*
    };
}

operations! {
    agent {
        heartbeat::Heartbeat,
        introduce_agent::IntroduceAgent,
        list_agents::ListAgents,
        register_agent::RegisterAgent,
        retire_agent::RetireAgent,
        show_agent::ShowAgent,
    }
    issue {
        confirm_changes::ConfirmChanges,
        confirm_notice::ConfirmNotice,
        defer_changes::DeferChanges,
        end_issue_lease::EndIssueLease,
        lease_issue::LeaseIssue,
        list_leases::ListLeases,
        list_notices::ListNotices,
    }
    job {
        add_job_record::AddJobRecord,
        append_log::AppendLog,
        cancel_job::CancelJob,
        choose_base::ChooseBase,
        finish_job::FinishJob,
        list_jobs::ListJobs,
        record_job_started::RecordJobStarted,
        register_supervisor::RegisterSupervisor,
        show_job::ShowJob,
        show_stored_log::ShowStoredLog,
        update_job::UpdateJob,
    }
    machine {
        list_machines::ListMachines,
        record_machine::RecordMachine,
    }
    message {
        ack_message::AckMessage,
        broadcast_message::BroadcastMessage,
        list_inbox::ListInbox,
        read_message::ReadMessage,
        send_message::SendMessage,
        show_thread::ShowThread,
    }
    repository {
        add_repository::AddRepository,
        list_repositories::ListRepositories,
        list_worktrees::ListWorktrees,
        register::Register,
        remove_repository::RemoveRepository,
        remove_worktree::RemoveWorktree,
    }
    store {
        accept_failover::AcceptFailover,
        collect_garbage::CollectGarbage,
        expire_due::ExpireDue,
        find_garbage::FindGarbage,
        list_events::ListEvents,
        list_summaries::ListSummaries,
        record_maintenance::RecordMaintenance,
        repair_clock::RepairClock,
        show_work_status::ShowWorkStatus,
    }
    task {
        add_checkpoint::AddCheckpoint,
        add_task::AddTask,
        answer_question::AnswerQuestion,
        ask_question::AskQuestion,
        assign_task::AssignTask,
        claim_task::ClaimTask,
        fail_task::FailTask,
        finish_task::FinishTask,
        list_checkpoints::ListCheckpoints,
        list_next_tasks::ListNextTasks,
        list_tasks::ListTasks,
        pause_task::PauseTask,
        release_task::ReleaseTask,
        remove_task::RemoveTask,
        reopen_task::ReopenTask,
        show_context::ShowContext,
        show_task::ShowTask,
        skip_task::SkipTask,
        update_task::UpdateTask,
    }
    template {
        apply_template::ApplyTemplate,
        list_templates::ListTemplates,
        save_template::SaveTemplate,
        show_template::ShowTemplate,
    }
    workflow {
        add_workflow::AddWorkflow,
        add_workflow_repository::AddWorkflowRepository,
        cancel_workflow::CancelWorkflow,
        dump_workflow::DumpWorkflow,
        freeze_workflow::FreezeWorkflow,
        list_workflows::ListWorkflows,
        pause_workflow::PauseWorkflow,
        plan_workflow::PlanWorkflow,
        record_merge::RecordMerge,
        remove_workflow_repository::RemoveWorkflowRepository,
        replan_workflow::ReplanWorkflow,
        resume_workflow::ResumeWorkflow,
        retire_workflow::RetireWorkflow,
        show_workflow::ShowWorkflow,
        show_workflow_summary::ShowWorkflowSummary,
        start_workflow::StartWorkflow,
        take_workflow::TakeWorkflow,
    }
    workspace {
        add_workspace::AddWorkspace,
        list_live_workspaces::ListLiveWorkspaces,
        list_workspaces::ListWorkspaces,
        show_workspace::ShowWorkspace,
        update_workspace::UpdateWorkspace,
    }
}

/// A named request with arguments and an answer.
///
/// [`StoreOperation`]s run in one transaction of the store. The application has others, which also use ledgers and
/// processes.
pub trait Operation: Clone + Send + Serialize + DeserializeOwned + JsonSchema + 'static {
    /// The name on every surface.
    const NAME: &'static str;
    /// One line for help texts.
    const SUMMARY: &'static str;
    /// Whether it writes.
    const EFFECT: Effect;
    /// The roles that may run it.
    const ACCESS: Access = Access::default_for(Self::EFFECT);
    /// Which callers the operation is for.
    const AUDIENCE: Audience = Audience::Public;
    /// Whether the lists and texts of its arguments have [limits]. Only what moves between stores has none.
    const IS_LIMITED: bool = true;
    /// The type of its answer.
    type Answer: Serialize + DeserializeOwned + JsonSchema + Send + 'static;
}

/// An operation that runs in one transaction of the store.
pub trait StoreOperation: Operation {
    /// Whether it may use the store's disk reserve, because it ends or releases work.
    const USES_RESERVE: bool = false;
    /// Whether its result depends on which jobs are running. Orphaned jobs are reaped first, so that none of them is shown
    /// as running or keeps a task.
    const DEPENDS_ON_JOBS: bool = false;
    /// Whether it may cancel jobs. The supervisors on this machine are told at once.
    const CANCELS_JOBS: bool = false;
    /// Returns what it did to issues in ledgers, by its answer.
    const ISSUES: Option<IssuesOf<Self::Answer>> = None;
    /// Returns a read that fails if there is nothing to do, so that idle callers do not take the write lock.
    const READ_FIRST: Option<fn(&Self) -> Option<ListNextTasks>> = None;

    /// Runs the operation inside a transaction.
    fn run(self, cx: &mut OpContext<'_>) -> Result<Self::Answer>;
}

/// Whether an operation writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    Read,
    /// It may write; every write comes with at least one event.
    Write,
}

/// What an operation of the store did to issues in ledgers. The application changes the ledger after the commit.
#[derive(Debug, PartialEq, Eq)]
pub enum IssueEffect<'a> {
    /// It granted a lease on this issue.
    Claimed(&'a str),
    /// It granted a lease on this task, which may stand for an issue.
    ClaimedTask(&'a TaskId),
    /// It finished the task of this issue: the ledger closes the issue.
    Finished {
        /// The issue.
        issue: &'a str,
        /// The part of the answer that says whether the ledger closed it.
        closed: &'a mut Option<String>,
    },
    /// It ended leases: the ledgers release their issues.
    Released,
}

/// The effect on an issue, if there is one.
pub type AnyIssue<'a> = Option<IssueEffect<'a>>;

/// Finds in an answer what its operation did to issues.
pub type IssuesOf<Answer> = fn(&mut Answer) -> AnyIssue<'_>;

/// The callers that an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// People, agents and programs: the operation has an HTTP address and is documented.
    Public,
    /// Programs of Waypost that use the store through a server, as a step of a command. They call it by name, with the rights
    /// that its access gives to their token.
    Client,
    /// Waypost itself. From outside, only the owner reaches it: whatever its access says, no other token does.
    Internal,
}

/// The description of an operation, for surfaces that derive from it.
#[derive(Clone, Copy)]
pub struct Description {
    /// As [`Operation::NAME`].
    pub name: &'static str,
    /// As [`Operation::SUMMARY`].
    pub summary: &'static str,
    /// As [`Operation::EFFECT`].
    pub effect: Effect,
    /// As [`Operation::ACCESS`].
    pub access: Access,
    /// As [`Operation::AUDIENCE`].
    pub audience: Audience,
    /// As [`Operation::IS_LIMITED`].
    pub is_limited: bool,
    /// Describes its arguments, with their limits.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Describes its answer.
    pub answer_schema: fn(&mut SchemaGenerator) -> Schema,
}

impl Description {
    /// Describes an operation.
    pub const fn of<O: Operation>() -> Description {
        Description {
            name: O::NAME,
            summary: O::SUMMARY,
            effect: O::EFFECT,
            access: O::ACCESS,
            audience: O::AUDIENCE,
            is_limited: O::IS_LIMITED,
            schema: arguments_schema::<O>,
            answer_schema: SchemaGenerator::subschema_for::<O::Answer>,
        }
    }
}

/// One row of the table of store operations.
pub struct OperationEntry {
    /// Its description.
    pub about: Description,
    /// As [`StoreOperation::USES_RESERVE`].
    pub uses_reserve: bool,
    /// As [`StoreOperation::DEPENDS_ON_JOBS`].
    pub depends_on_jobs: bool,
    /// As [`StoreOperation::CANCELS_JOBS`].
    pub cancels_jobs: bool,
    /// As [`StoreOperation::ISSUES`].
    pub issues: Option<fn(&mut AnyAnswer) -> Result<AnyIssue<'_>>>,
    /// Decodes its arguments, for surfaces that carry JSON.
    pub decode: fn(&Value) -> Result<Box<dyn AnyOperation>>,
    /// Decodes its answer: one that was saved earlier, or that of a server.
    pub decode_answer: fn(&Value) -> serde_json::Result<AnyAnswer>,
}

/// A [`StoreOperation`] of any type, so that the engine exists once and not for each operation.
pub trait AnyOperation: Send {
    /// Returns the row of the operation.
    fn entry(&self) -> &'static OperationEntry;
    /// Returns the arguments as JSON, with defaults filled in. Refuses those that exceed their limits.
    fn arguments(&self) -> Result<Value>;
    /// Returns a copy, for another attempt.
    fn copy(&self) -> Box<dyn AnyOperation>;
    /// As [`StoreOperation::READ_FIRST`].
    fn read_first(&self) -> Option<ListNextTasks>;
    /// Runs the operation inside a transaction.
    fn run_any(self: Box<Self>, cx: &mut OpContext<'_>) -> Result<AnyAnswer>;
}

impl<O: StoreOperation> AnyOperation for O {
    fn entry(&self) -> &'static OperationEntry {
        const { &entry::<O>() }
    }

    fn arguments(&self) -> Result<Value> {
        arguments_json(self)
    }

    fn copy(&self) -> Box<dyn AnyOperation> {
        Box::new(self.clone())
    }

    fn read_first(&self) -> Option<ListNextTasks> {
        O::READ_FIRST?(self)
    }

    fn run_any(self: Box<Self>, cx: &mut OpContext<'_>) -> Result<AnyAnswer> {
        self.run(cx).map(AnyAnswer::new)
    }
}

/// A [`StoreOperation`] that becomes an [`AnyOperation`] in the crate that declares it. The code that encodes and decodes the
/// operation is generic: in an optimised build every crate that made the conversion would compile its own copy.
pub trait IntoAnyOperation: StoreOperation {
    /// Forgets the type of the operation.
    fn into_any(self) -> Box<dyn AnyOperation>;
}

/// Returns the row of an operation.
pub const fn entry<O: StoreOperation>() -> OperationEntry {
    OperationEntry {
        about: Description::of::<O>(),
        uses_reserve: O::USES_RESERVE,
        depends_on_jobs: O::DEPENDS_ON_JOBS,
        cancels_jobs: O::CANCELS_JOBS,
        issues: if O::ISSUES.is_some() { Some(issue_effect::<O>) } else { None },
        decode: decode_boxed::<O>,
        decode_answer: |answer| decode_answer::<O>(answer).map(AnyAnswer::new),
    }
}

/// Returns the operation with this name.
pub fn named(name: &str) -> Option<&'static OperationEntry> {
    TABLE.iter().find(|entry| entry.about.name == name)
}

fn decode_boxed<O: StoreOperation>(arguments: &Value) -> Result<Box<dyn AnyOperation>> {
    Ok(Box::new(decode::<O>(arguments)?))
}

fn issue_effect<O: StoreOperation>(answer: &mut AnyAnswer) -> Result<AnyIssue<'_>> {
    let answer = answer.downcast_mut::<O::Answer>()?;
    Ok(O::ISSUES.and_then(|issues| issues(answer)))
}

// Decoding and encoding exist once per operation, and contain nothing that can be shared. Copies in each of their callers
// made core twice as long to build.

/// Describes the arguments of an operation, with their limits.
fn arguments_schema<O: Operation>(generator: &mut SchemaGenerator) -> Schema {
    let schema = generator.subschema_for::<O>();
    if O::IS_LIMITED { limits::describe(generator, schema) } else { schema }
}

/// Returns the arguments of an operation as JSON, with defaults filled in. Refuses those that exceed their limits.
#[inline(never)]
pub fn arguments_json<O: Operation>(operation: &O) -> Result<Value> {
    limited_arguments(O::NAME, O::IS_LIMITED, serde_json::to_value(operation))
}

fn limited_arguments(name: &str, is_limited: bool, encoded: serde_json::Result<Value>) -> Result<Value> {
    let arguments =
        encoded.map_err(|error| Error::invalid(format!("the arguments of {name} are not JSON")).because(error))?;
    check_limits(is_limited, &arguments)?;
    Ok(arguments)
}

/// Refuses arguments that exceed their limits.
fn check_limits(is_limited: bool, arguments: &Value) -> Result<()> {
    if is_limited { limits::check(arguments) } else { Ok(()) }
}

/// Decodes the arguments of an operation. Refuses those that exceed their limits.
#[inline(never)]
pub fn decode<O: Operation>(arguments: &Value) -> Result<O> {
    check_limits(O::IS_LIMITED, arguments)?;
    match tree::decode(arguments) {
        Ok(operation) => Ok(operation),
        Err(error) => Err(undecodable(O::NAME, &error)),
    }
}

fn undecodable(name: &str, error: &serde_json::Error) -> Error {
    Error::invalid(format!("wrong arguments for {name}")).because(error)
}

/// Decodes an answer of an operation.
#[inline(never)]
pub fn decode_answer<O: Operation>(answer: &Value) -> serde_json::Result<O::Answer> {
    tree::decode(answer)
}

/// Encodes the answer of an operation.
#[inline(never)]
pub fn encode<O: Operation>(answer: &O::Answer) -> Result<Value> {
    encoded(O::NAME, serde_json::to_value(answer))
}

fn encoded(name: &str, answer: serde_json::Result<Value>) -> Result<Value> {
    answer.map_err(|error| Error::internal(format!("the answer of {name} is not JSON")).because(error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use schemars::generate::SchemaSettings;

    use super::*;

    #[test]
    fn every_operation_file_has_a_table_entry() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
        let children =
            |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
        let nouns = children(&folder).into_iter().filter(|path| path.is_dir());
        let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files: BTreeSet<String> = nouns.flat_map(|noun| children(&noun)).map(stem).collect();
        let names: BTreeSet<String> = TABLE.iter().map(|entry| entry.about.name.to_owned()).collect();
        assert_eq!(files, names);
        assert_eq!(TABLE.len(), names.len(), "duplicate operation name");
    }

    #[test]
    fn every_operation_describes_its_arguments_and_its_answer() {
        for entry in TABLE {
            let mut generator =
                SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
            for schema in [(entry.about.schema)(&mut generator), (entry.about.answer_schema)(&mut generator)] {
                assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"), "{}", entry.about.name);
                assert!(schema.get("description").is_some(), "{}", entry.about.name);
            }
        }
    }
}
