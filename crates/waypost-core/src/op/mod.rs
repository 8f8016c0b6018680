//! The operations of a store, one file each.
//!
//! An operation is a struct with its arguments; its [`Operation::run`] is the rule. [`TABLE`] lists all of
//! them. The surfaces decode into these structs, run them through the engine and encode the answer;
//! they decide nothing.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::OpContext;
use crate::error::{Error, Result};

mod accept_failover;
mod ack_message;
mod add_repository;
mod add_task;
mod add_workflow_repository;
mod answer_question;
mod apply_template;
mod ask_question;
mod assign_task;
mod begin_supervision;
mod broadcast_message;
mod cancel_job;
mod cancel_workflow;
mod change_workspace;
mod checkpoint_task;
mod claim_task;
mod complete_merge;
mod confirm_notice;
mod create_job_record;
pub(crate) mod create_workflow;
mod create_workspace;
mod dump_workflow;
mod end_issue_lease;
mod expire_due;
mod fail_task;
mod finish_job;
mod finish_task;
mod freeze_workflow;
mod get_context;
mod get_status;
mod heartbeat;
mod lease_issue;
mod list_agents;
mod list_checkpoints;
mod list_events;
mod list_inbox;
mod list_jobs;
mod list_leases;
mod list_notices;
mod list_repositories;
mod list_tasks;
mod list_templates;
mod list_workflows;
mod list_workspaces;
mod list_worktrees;
mod next_tasks;
mod note_job;
mod pause_task;
mod pause_workflow;
pub(crate) mod plan_workflow;
mod prime;
mod read_message;
mod record_job_started;
mod record_maintenance;
pub(crate) mod register;
mod register_agent;
mod release_task;
mod remove_repository;
mod remove_task;
mod remove_worktree;
mod reopen_task;
mod repair_clock;
mod replan_workflow;
mod resume_workflow;
mod retire_agent;
mod retire_workflow;
pub(crate) mod save_template;
pub(crate) mod send_message;
mod show_agent;
mod show_job;
mod show_task;
pub(crate) mod show_template;
mod show_thread;
mod show_workflow;
mod show_workspace;
mod skip_task;
pub(crate) mod start_workflow;
mod summarize_workflow;
mod take_workflow;

pub use accept_failover::{AcceptFailover, FailoverAccepted};
pub use ack_message::{AckMessage, Acked};
pub use add_repository::AddRepository;
pub use add_task::AddTask;
pub use add_workflow_repository::AddWorkflowRepository;
pub use answer_question::AnswerQuestion;
pub use apply_template::{ApplyTemplate, TemplateContent};
pub use ask_question::AskQuestion;
pub use assign_task::AssignTask;
pub use begin_supervision::BeginSupervision;
pub use broadcast_message::{Broadcast, BroadcastMessage};
pub use cancel_job::CancelJob;
pub use cancel_workflow::CancelWorkflow;
pub use change_workspace::ChangeWorkspace;
pub use checkpoint_task::{CheckpointTask, Checkpointed};
pub use claim_task::{ClaimTask, Claimed};
pub use complete_merge::CompleteMerge;
pub use confirm_notice::{ConfirmNotice, Confirmed};
pub use create_job_record::CreateJobRecord;
pub use create_workflow::CreateWorkflow;
pub use create_workspace::CreateWorkspace;
pub use dump_workflow::DumpWorkflow;
pub use end_issue_lease::{EndIssueLease, EndedIssueLease};
pub use expire_due::{ExpireDue, ExpiredDue};
pub use fail_task::FailTask;
pub use finish_job::FinishJob;
pub use finish_task::FinishTask;
pub use freeze_workflow::FreezeWorkflow;
pub use get_context::GetContext;
pub use get_status::{GetStatus, Status, Totals};
pub use heartbeat::{Alive, Heartbeat};
pub use lease_issue::LeaseIssue;
pub use list_agents::{AgentList, AgentView, Held, ListAgents};
pub use list_checkpoints::{CheckpointList, ListCheckpoints};
pub use list_events::{EventList, ListEvents};
pub use list_inbox::{Inbox, ListInbox, MessageView};
pub use list_jobs::{JobList, JobView, ListJobs};
pub use list_leases::{LeaseList, LeaseView, ListLeases};
pub use list_notices::{ListNotices, NoticeList};
pub use list_repositories::{ListRepositories, RepositoryList, RepositoryView};
pub use list_tasks::{ListTasks, TaskList};
pub use list_templates::{ListTemplates, TemplateList};
pub use list_workflows::{ListWorkflows, WorkflowList};
pub use list_workspaces::{ListWorkspaces, WorkspaceList, WorkspaceView};
pub use list_worktrees::{ListWorktrees, WorktreeList};
pub use next_tasks::NextTasks;
pub use note_job::NoteJob;
pub use pause_task::PauseTask;
pub use pause_workflow::PauseWorkflow;
pub use plan_workflow::PlanWorkflow;
pub use prime::Prime;
pub use read_message::ReadMessage;
pub use record_job_started::RecordJobStarted;
pub use record_maintenance::{Maintenance, RecordMaintenance, Recorded};
pub use register::{Register, Registered};
pub use register_agent::RegisterAgent;
pub use release_task::ReleaseTask;
pub use remove_repository::RemoveRepository;
pub use remove_task::RemoveTask;
pub use remove_worktree::{RemoveWorktree, Removed};
pub use reopen_task::ReopenTask;
pub use repair_clock::{ClockRepaired, RepairClock};
pub use replan_workflow::{ReplanWorkflow, Replanned};
pub use resume_workflow::ResumeWorkflow;
pub use retire_agent::RetireAgent;
pub use retire_workflow::RetireWorkflow;
pub use save_template::SaveTemplate;
pub use send_message::SendMessage;
pub use show_agent::ShowAgent;
pub use show_job::ShowJob;
pub use show_task::{ShowTask, TaskPage};
pub use show_template::ShowTemplate;
pub use show_thread::{ShowThread, Thread};
pub use show_workflow::{ShowWorkflow, WorkflowPage};
pub use show_workspace::ShowWorkspace;
pub use skip_task::SkipTask;
pub use start_workflow::StartWorkflow;
pub use summarize_workflow::{SummarizeWorkflow, WorkflowSummary};
pub use take_workflow::{TakeWorkflow, Taken};

/// An operation of a store.
pub trait Operation: Clone + Serialize + DeserializeOwned + JsonSchema {
    /// The name on every surface.
    const NAME: &'static str;
    /// One line for help texts.
    const SUMMARY: &'static str;
    /// Whether it writes.
    const EFFECT: Effect;
    /// Which callers the operation is for.
    const AUDIENCE: Audience = Audience::Public;
    /// Whether it may use the store's disk reserve, because it ends or releases work.
    const USES_RESERVE: bool = false;
    /// The type of its answer.
    type Answer: Serialize + DeserializeOwned + JsonSchema;

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

/// The callers that an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// People, agents and programs: the operation has an HTTP address and is documented.
    Public,
    /// Waypost itself, as a step of a public operation. Commands call it on a server by name.
    Internal,
}

/// One row of the table of operations.
pub struct OperationEntry {
    /// As [`Operation::NAME`].
    pub name: &'static str,
    /// As [`Operation::SUMMARY`].
    pub summary: &'static str,
    /// As [`Operation::EFFECT`].
    pub effect: Effect,
    /// As [`Operation::AUDIENCE`].
    pub audience: Audience,
    /// As [`Operation::USES_RESERVE`].
    pub uses_reserve: bool,
    /// Runs it with its arguments and its answer as JSON, for surfaces that carry JSON.
    pub run: fn(&mut OpContext<'_>, Value) -> Result<Value>,
    /// Decodes its arguments, for operations that write.
    pub decode: fn(Value) -> Result<DecodedOperation>,
    /// Decodes an answer saved earlier and encodes it as this version does.
    pub restore_answer: fn(Value) -> serde_json::Result<Value>,
    /// Describes its arguments.
    pub schema: fn(&mut SchemaGenerator) -> Schema,
    /// Describes its answer.
    pub answer_schema: fn(&mut SchemaGenerator) -> Schema,
}

/// An operation with its arguments decoded and its answer as JSON.
pub struct DecodedOperation {
    /// The arguments as JSON, with defaults filled in.
    pub arguments: Value,
    /// Runs the operation inside a transaction.
    pub run: RunOnce,
}

/// Runs an operation once and returns its answer as JSON.
pub type RunOnce = Box<dyn FnOnce(&mut OpContext<'_>) -> Result<Value>>;

const fn entry<O: Operation + 'static>() -> OperationEntry {
    OperationEntry {
        name: O::NAME,
        summary: O::SUMMARY,
        effect: O::EFFECT,
        audience: O::AUDIENCE,
        uses_reserve: O::USES_RESERVE,
        run: run_json::<O>,
        decode: decode_boxed::<O>,
        restore_answer: restore_answer::<O>,
        schema: SchemaGenerator::subschema_for::<O>,
        answer_schema: SchemaGenerator::subschema_for::<O::Answer>,
    }
}

/// All operations.
pub static TABLE: &[OperationEntry] = &[
    entry::<AcceptFailover>(),
    entry::<AckMessage>(),
    entry::<AddRepository>(),
    entry::<AddTask>(),
    entry::<AddWorkflowRepository>(),
    entry::<AnswerQuestion>(),
    entry::<ApplyTemplate>(),
    entry::<AskQuestion>(),
    entry::<AssignTask>(),
    entry::<BroadcastMessage>(),
    entry::<CancelJob>(),
    entry::<CancelWorkflow>(),
    entry::<ChangeWorkspace>(),
    entry::<CheckpointTask>(),
    entry::<ClaimTask>(),
    entry::<CompleteMerge>(),
    entry::<ConfirmNotice>(),
    entry::<CreateWorkflow>(),
    entry::<CreateWorkspace>(),
    entry::<DumpWorkflow>(),
    entry::<EndIssueLease>(),
    entry::<FailTask>(),
    entry::<FinishJob>(),
    entry::<FinishTask>(),
    entry::<FreezeWorkflow>(),
    entry::<GetContext>(),
    entry::<GetStatus>(),
    entry::<Heartbeat>(),
    entry::<LeaseIssue>(),
    entry::<ListAgents>(),
    entry::<ListCheckpoints>(),
    entry::<ListEvents>(),
    entry::<ListInbox>(),
    entry::<ListJobs>(),
    entry::<ListLeases>(),
    entry::<ListNotices>(),
    entry::<ListRepositories>(),
    entry::<ListTasks>(),
    entry::<ListTemplates>(),
    entry::<ListWorkflows>(),
    entry::<ListWorkspaces>(),
    entry::<ListWorktrees>(),
    entry::<NextTasks>(),
    entry::<NoteJob>(),
    entry::<PauseTask>(),
    entry::<PauseWorkflow>(),
    entry::<PlanWorkflow>(),
    entry::<Prime>(),
    entry::<ReadMessage>(),
    entry::<CreateJobRecord>(),
    entry::<RecordMaintenance>(),
    entry::<Register>(),
    entry::<RegisterAgent>(),
    entry::<ReleaseTask>(),
    entry::<RemoveRepository>(),
    entry::<RemoveTask>(),
    entry::<RemoveWorktree>(),
    entry::<ReopenTask>(),
    entry::<RepairClock>(),
    entry::<ReplanWorkflow>(),
    entry::<ResumeWorkflow>(),
    entry::<RetireAgent>(),
    entry::<RetireWorkflow>(),
    entry::<SaveTemplate>(),
    entry::<SendMessage>(),
    entry::<ExpireDue>(),
    entry::<ShowAgent>(),
    entry::<ShowJob>(),
    entry::<ShowTask>(),
    entry::<ShowTemplate>(),
    entry::<ShowThread>(),
    entry::<ShowWorkflow>(),
    entry::<ShowWorkspace>(),
    entry::<SkipTask>(),
    entry::<RecordJobStarted>(),
    entry::<StartWorkflow>(),
    entry::<SummarizeWorkflow>(),
    entry::<BeginSupervision>(),
    entry::<TakeWorkflow>(),
];

/// Returns the operation with this name.
pub fn named(name: &str) -> Option<&'static OperationEntry> {
    TABLE.iter().find(|entry| entry.name == name)
}

fn run_json<O: Operation>(cx: &mut OpContext<'_>, arguments: Value) -> Result<Value> {
    encode::<O>(&decode::<O>(arguments)?.run(cx)?)
}

fn decode_boxed<O: Operation + 'static>(arguments: Value) -> Result<DecodedOperation> {
    let operation = decode::<O>(arguments)?;
    let arguments = arguments_json(&operation)?;
    Ok(DecodedOperation { arguments, run: Box::new(move |cx| encode::<O>(&operation.run(cx)?)) })
}

fn restore_answer<O: Operation>(saved: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<O::Answer>(saved)?)
}

/// Returns the arguments of an operation as JSON, with defaults filled in.
pub(crate) fn arguments_json<O: Operation>(operation: &O) -> Result<Value> {
    serde_json::to_value(operation)
        .map_err(|error| Error::invalid(format!("the arguments of {} are not JSON", O::NAME)).because(error))
}

fn decode<O: Operation>(arguments: Value) -> Result<O> {
    serde_json::from_value(arguments)
        .map_err(|error| Error::invalid(format!("wrong arguments for {}", O::NAME)).because(error))
}

fn encode<O: Operation>(answer: &O::Answer) -> Result<Value> {
    serde_json::to_value(answer)
        .map_err(|error| Error::internal(format!("the answer of {} is not JSON", O::NAME)).because(error))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use schemars::generate::SchemaSettings;

    use super::*;

    #[test]
    fn every_operation_file_has_a_table_entry() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|stem| stem != "mod")
            .collect();
        let names: BTreeSet<String> = TABLE.iter().map(|entry| entry.name.to_owned()).collect();
        assert_eq!(files, names);
        assert_eq!(TABLE.len(), names.len(), "duplicate operation name");
    }

    #[test]
    fn every_operation_describes_its_arguments_and_its_answer() {
        for entry in TABLE {
            let mut generator =
                SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true).into_generator();
            for schema in [(entry.schema)(&mut generator), (entry.answer_schema)(&mut generator)] {
                assert_eq!(schema.get("type").and_then(Value::as_str), Some("object"), "{}", entry.name);
                assert!(schema.get("description").is_some(), "{}", entry.name);
            }
        }
    }
}
