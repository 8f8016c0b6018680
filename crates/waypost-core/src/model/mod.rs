//! The records that Waypost stores, as plain data.

mod agent;
mod answer;
mod checkpoint;
mod event;
mod job;
mod lease;
mod machine;
mod message;
mod notice;
mod repository;
mod summary;
mod task;
mod template;
pub(crate) mod text_enum;
mod workflow;
mod workspace;
mod worktree;

pub use agent::{Agent, AgentStatus, ProcessIdentity, Role};
pub use answer::SavedAnswer;
pub use checkpoint::{Checkpoint, CheckpointKind};
pub use event::{Event, EventQuery, NewEvent, kind};
pub use job::{Job, JobQuery, JobStatus, LogPiece, Phase, SandboxMode};
pub use lease::{Lease, describe_end};
pub use machine::Machine;
pub use message::{Message, MessageKind, MessageState, Urgency};
pub use notice::{DeferredChanges, News, Notice};
pub use repository::{Repository, Vcs};
pub use summary::{Summary, SummaryKind};
pub use task::{
    CandidateQuery, Candidates, Dependency, DependencyKind, PlanPart, Progress, Task, TaskPlace, TaskStatus,
};
pub use template::{Template, Variable};
pub use workflow::{Reach, Source, Workflow, WorkflowQuery, WorkflowStatus};
pub use workspace::{Identity, Strategy, Workspace, WorkspaceQuery, WorkspaceStatus};
pub use worktree::Worktree;
