//! Creates a workflow, with or without a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{Caller, OpContext, Standing};
use crate::error::{Error, Result};
use crate::id::{RepositoryId, WorkflowId};
use crate::model::{Reach, Source, Workflow, WorkflowQuery, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::op::{plan_workflow, start_workflow};
use crate::work::plan::Plan;
use crate::work::view::{self, WorkflowView};
use crate::work::{base, check_name, find};

/// Creates a workflow, with or without a plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AddWorkflow {
    /// The name.
    pub name: String,
    /// The kind of source that the workflow was created from.
    #[serde(default)]
    pub source: Option<Source>,
    /// The source: an issue, a template or a page.
    #[serde(default)]
    pub source_ref: Option<String>,
    /// The text of the source.
    #[serde(default)]
    pub source_content: Option<String>,
    /// A summary of the plan.
    #[serde(default)]
    pub summary: Option<String>,
    /// The maximum number of tasks in progress at the same time.
    #[serde(default)]
    pub max_parallel: Option<u32>,
    /// The base of the jobs of its tasks: `plan`, `head` or a revision [default: that of the plan, else `plan`].
    #[serde(default)]
    pub base: Option<String>,
    /// Settings of this workflow.
    #[serde(default)]
    pub config: Value,
    /// The plan, if it exists already.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// Whether to start the workflow, so that its tasks can be claimed immediately.
    #[serde(default)]
    pub start: bool,
    /// The repositories of the workflow, by id, name or path [default: the caller's].
    #[serde(default)]
    pub repositories: Vec<String>,
    /// Let every worktree take its tasks. This is the default in the main worktree.
    #[serde(default)]
    pub shared: bool,
    /// Keep its tasks to this worktree, unless a claim chooses the worktree, the workflow or the task. This is the default
    /// in a linked worktree.
    #[serde(default)]
    pub only_here: bool,
}

impl Operation for AddWorkflow {
    const NAME: &'static str = "add_workflow";
    const SUMMARY: &'static str = "Create a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = WorkflowView;
}

impl StoreOperation for AddWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        check_name("workflow", &self.name)?;
        if self.name.parse::<WorkflowId>().is_ok() {
            return Err(Error::invalid(format!("{:?} is the id of a workflow, not a name", self.name)));
        }
        check_unused(cx, &self.name)?;
        if self.max_parallel == Some(0) {
            return Err(Error::invalid("max_parallel must be at least 1"));
        }
        if let Some(base) = &self.base {
            base::check_word(base)?;
        }
        let repositories = repositories(cx, &self.repositories)?;
        let reach = reach(cx, self.shared, self.only_here)?;
        let workflow = Workflow {
            id: WorkflowId::generate(cx.entropy),
            name: self.name,
            source: self.source.unwrap_or(Source::Prompt),
            source_ref: self.source_ref,
            source_content: self.source_content,
            status: WorkflowStatus::Planning,
            summary: self.summary,
            max_parallel: self.max_parallel,
            base: self.base,
            config: if self.config.is_null() { json!({}) } else { self.config },
            reason: None,
            worktree_id: cx.caller.worktree.id.clone(),
            reach,
            created_at: cx.now,
            updated_at: cx.now,
            started_at: None,
            finished_at: None,
        };
        cx.tx.workflow_put(&workflow)?;
        cx.event(
            kind::WORKFLOW_CREATED,
            workflow.id.as_str(),
            json!({ "after": workflow, "repositories": repositories }),
        )?;
        for repository in &repositories {
            cx.tx.workflow_repository_put(&workflow.id, repository)?;
        }
        let mut workflow = workflow;
        if let Some(plan) = &self.plan {
            workflow = plan_workflow::plan(cx, &workflow, plan)?;
        }
        if self.start {
            workflow = start_workflow::start(cx, &workflow)?;
        }
        view::workflow(cx, workflow)
    }
}

/// Returns the reach of a new workflow. Work planned in the main worktree is open to all worktrees of the repository; work
/// planned in a linked worktree belongs to it.
fn reach(cx: &OpContext<'_>, shared: bool, only_here: bool) -> Result<Reach> {
    match (shared, only_here, cx.caller.standing) {
        (true, true, _) => Err(Error::invalid("shared and only_here exclude each other")),
        (true, false, _) | (false, false, Standing::MainWorktree | Standing::Outside) => Ok(Reach::Repository),
        (false, true, _) | (false, false, Standing::LinkedWorktree) => Ok(Reach::Worktree),
    }
}

/// Refuses the name of a live workflow of this worktree: a later resume by name would find the wrong one.
fn check_unused(cx: &mut OpContext<'_>, name: &str) -> Result<()> {
    let query = WorkflowQuery {
        name: Some(name.to_owned()),
        worktree_id: Some(cx.caller.worktree.id.clone()),
        limit: 100,
        ..WorkflowQuery::default()
    };
    match cx.tx.workflow_list(&query)?.into_iter().find(|workflow| !workflow.status.is_final()) {
        None => Ok(()),
        Some(known) => {
            Err(Error::conflict(format!("this worktree already has a workflow {name}, which is {}", known.status))
                .hint(format!("continue it: way workflow show {}", known.id))
                .hint(format!("or end it first: way workflow cancel {}", known.id)))
        }
    }
}

/// Finds the repositories of a new workflow.
fn repositories(cx: &mut OpContext<'_>, named: &[String]) -> Result<Vec<RepositoryId>> {
    let mut found: Vec<RepositoryId> = Vec::new();
    for name in named {
        let id = find::repository(cx, name)?;
        if !found.contains(&id) {
            found.push(id);
        }
    }
    if found.is_empty() {
        found.push(cx.caller.repository.id.clone());
    }
    check_several(cx.caller, &found)?;
    Ok(found)
}

/// Refuses several repositories in a store that belongs to one.
pub(crate) fn check_several(caller: &Caller, repositories: &[RepositoryId]) -> Result<()> {
    let is_own = |id: &RepositoryId| *id == caller.repository.id;
    if caller.is_shared || (repositories.len() <= 1 && repositories.iter().all(is_own)) {
        return Ok(());
    }
    Err(Error::refused(
        "this store belongs to one repository; a workflow over several repositories needs a shared store",
    )
    .hint("way --global workflow create, or a PostgreSQL store"))
}
