//! Adds the plan to a workflow that has none.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Workflow, WorkflowStatus, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::find;
use crate::work::plan::{self as plans, Graph, Plan};
use crate::work::view::{self, WorkflowView};

/// Adds the plan to a workflow that has none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlanWorkflow {
    /// The workflow: its id or name.
    pub workflow: String,
    /// The tasks.
    pub plan: Plan,
}

impl Operation for PlanWorkflow {
    const NAME: &'static str = "plan_workflow";
    const SUMMARY: &'static str = "Add the plan to a workflow";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::OWN_WORK;
    type Answer = WorkflowView;
}

impl StoreOperation for PlanWorkflow {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let workflow = find::workflow_to_change(cx, &self.workflow)?;
        let workflow = plan(cx, &workflow, &self.plan)?;
        view::workflow(cx, workflow)
    }
}

/// Stores the plan of a workflow that has none.
pub(crate) fn plan(cx: &mut OpContext<'_>, workflow: &Workflow, plan: &Plan) -> Result<Workflow> {
    if workflow.status != WorkflowStatus::Planning {
        return Err(Error::conflict(format!(
            "workflow {} is {} and already has a plan",
            workflow.name, workflow.status
        ))
        .hint(format!("change it: way workflow replan {}", workflow.id)));
    }
    if plan.tasks.is_empty() {
        return Err(Error::invalid("a plan needs at least one task"));
    }
    plan.check_base()?;
    Graph::check(&plan.tasks, &BTreeSet::new())?.check_cycles()?;
    plans::store(cx, workflow, &plan.tasks, 1)?;
    let mut after = workflow.clone();
    after.move_to(WorkflowStatus::Ready, cx.now)?;
    after.summary = plan.summary.clone().or(after.summary);
    after.max_parallel = plan.max_parallel.or(after.max_parallel);
    // What the caller said for this workflow comes before its plan, which may be a template.
    after.base = after.base.or_else(|| plan.base.clone());
    cx.change_workflow(kind::WORKFLOW_PLANNED, workflow, &after)?;
    Ok(after)
}
