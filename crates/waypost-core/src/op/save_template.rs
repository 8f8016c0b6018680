//! Saves a plan with variables, or a finished workflow as one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::{Error, Result};
use crate::id::TemplateId;
use crate::model::{Template, Variable, Workflow, kind};
use crate::work::plan::{Graph, Plan, PlannedTask};
use crate::work::{check_name, find, template, view};

/// Saves a plan with variables, or a finished workflow as one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SaveTemplate {
    /// What to call it.
    pub name: String,
    /// What it is good for.
    #[serde(default)]
    pub description: Option<String>,
    /// The plan, with `{{variables}}`.
    #[serde(default)]
    pub body: Option<Value>,
    /// The workflow whose plan it is.
    #[serde(default)]
    pub from: Option<String>,
    /// What can be filled in; found in the plan if nobody says.
    #[serde(default)]
    pub variables: Vec<Variable>,
}

impl Operation for SaveTemplate {
    const NAME: &'static str = "save_template";
    const SUMMARY: &'static str = "Save a template";
    const EFFECT: Effect = Effect::Write;
    type Answer = Template;

    fn run(self, cx: &mut Cx<'_>) -> Result<Template> {
        check_name("template", &self.name)?;
        let body = match (self.body, &self.from) {
            (Some(body), None) => body,
            (None, Some(reference)) => {
                let workflow = find::workflow(cx, reference)?;
                planned(cx, &workflow)?
            }
            _ => {
                return Err(Error::invalid("a template is saved from a plan or from a workflow")
                    .hint("way template save NAME --plan FILE, or --from WORKFLOW"));
            }
        };
        let used = template::names(&body);
        let mut variables = self.variables;
        for name in &used {
            if !variables.iter().any(|variable| variable.name == *name) {
                variables.push(Variable { name: name.clone(), description: None, default: None });
            }
        }
        // What it says must be a plan once it is filled in.
        let filled = used.iter().map(|name| (name.clone(), name.clone())).collect();
        let declared: Vec<_> = variables.iter().filter(|variable| used.contains(&variable.name)).cloned().collect();
        let plan = Plan::from_value(template::render(&body, &declared, &filled)?)?;
        Graph::check(&plan.tasks, &BTreeSet::new())?.check_circles()?;
        let version = cx.tx.template_list(Some(&self.name))?.first().map_or(0, |known| known.version) + 1;
        let template = Template {
            id: TemplateId::generate(cx.entropy),
            name: self.name,
            version,
            description: self.description.unwrap_or_default(),
            body,
            variables,
            worktree_id: cx.caller.worktree.id.clone(),
            created_at: cx.now,
        };
        cx.tx.template_put(&template)?;
        cx.event(kind::TEMPLATE_SAVED, template.id.as_str(), json!({ "name": template.name, "version": version }))?;
        Ok(template)
    }
}

/// Returns the plan of a workflow as somebody would write it.
pub(crate) fn planned(cx: &mut Cx<'_>, workflow: &Workflow) -> Result<Value> {
    let tasks: Vec<PlannedTask> = view::tasks(cx, workflow)?
        .into_iter()
        .map(|seen| PlannedTask {
            name: seen.task.name,
            description: seen.task.description,
            depends_on: seen.depends_on,
            context_from: seen.task.context_from,
            parallel_group: seen.task.parallel_group,
            priority: Some(seen.task.priority),
            plan: seen.task.plan,
            acceptance: seen.task.acceptance,
            context: seen.task.context,
            capabilities: seen.task.capabilities,
            files: seen.task.files,
            max_attempts: Some(seen.task.max_attempts),
            backoff: Some(seen.task.backoff_ms),
            timeout: seen.task.run_timeout_ms,
            queue_timeout: seen.task.queue_timeout_ms,
            stall_timeout: seen.task.stall_timeout_ms,
            needs_evidence: seen.task.needs_evidence,
            ..PlannedTask::default()
        })
        .collect();
    let plan = Plan { summary: workflow.summary.clone(), max_parallel: workflow.max_parallel, tasks };
    serde_json::to_value(plan).map_err(|error| Error::internal("a plan is not JSON").because(error))
}
