//! Saves a template from a plan with variables, or from a workflow.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::id::{TaskId, TemplateId};
use crate::model::{DependencyKind, Template, Variable, Workflow, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::work::plan::{Graph, Plan, PlannedTask};
use crate::work::{check_name, find, template, view};

/// Saves a template from a plan with variables, or from a workflow.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SaveTemplate {
    /// The name.
    pub name: String,
    /// The description.
    #[serde(default)]
    pub description: Option<String>,
    /// The plan, with `{{variables}}`.
    #[serde(default)]
    pub body: Option<Value>,
    /// The workflow whose plan to save.
    #[serde(default)]
    pub from: Option<String>,
    /// The variables [default: those found in the plan].
    #[serde(default)]
    pub variables: Vec<Variable>,
}

impl Operation for SaveTemplate {
    const NAME: &'static str = "save_template";
    const SUMMARY: &'static str = "Save a template";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::COORDINATORS;
    type Answer = Template;
}

impl StoreOperation for SaveTemplate {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Template> {
        check_name("template", &self.name)?;
        let body = match (self.body, &self.from) {
            (Some(body), None) => body,
            (None, Some(reference)) => {
                let workflow = find::workflow(cx, reference)?;
                planned(cx, &workflow)?
            }
            _ => {
                return Err(Error::invalid("a template needs either a plan or a workflow")
                    .hint("way template save NAME --plan FILE, or --from WORKFLOW"));
            }
        };
        let used = template::names(&body);
        let variables = template::declared(&body, self.variables);
        if let Some(unused) = variables.iter().find(|variable| !used.contains(&variable.name)) {
            return Err(Error::invalid(format!("the plan has no {{{{{}}}}}", unused.name)).hint(if used.is_empty() {
                "it has no variables".to_owned()
            } else {
                format!("it has: {}", used.join(", "))
            }));
        }
        // The body must be a valid plan once its variables are filled in.
        let filled = used.iter().map(|name| (name.clone(), name.clone())).collect();
        let plan = Plan::from_value(template::render(&body, &variables, &filled)?)?;
        plan.check_base()?;
        Graph::check(&plan.tasks, &BTreeSet::new())?.check_cycles()?;
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

/// Returns the plan of a workflow in the format of plan files.
pub(crate) fn planned(cx: &mut OpContext<'_>, workflow: &Workflow) -> Result<Value> {
    let seen = view::tasks(cx, workflow)?;
    let names: BTreeMap<_, _> = seen.iter().map(|seen| (seen.task.id.clone(), seen.task.name.clone())).collect();
    let informs: Vec<_> =
        cx.tx.dependency_list(&workflow.id)?.into_iter().filter(|it| it.kind == DependencyKind::Informs).collect();
    let informed_by = |id: &TaskId| {
        let of = informs.iter().filter(|dependency| dependency.task_id == *id);
        of.filter_map(|dependency| names.get(&dependency.depends_on).cloned()).collect()
    };
    let tasks: Vec<PlannedTask> = seen
        .into_iter()
        .map(|seen| PlannedTask {
            informed_by: informed_by(&seen.task.id),
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
            base: seen.task.base,
            max_attempts: Some(seen.task.max_attempts),
            backoff: Some(seen.task.backoff_ms),
            timeout: seen.task.run_timeout_ms,
            queue_timeout: seen.task.queue_timeout_ms,
            stall_timeout: seen.task.stall_timeout_ms,
            needs_evidence: seen.task.needs_evidence,
            ..PlannedTask::default()
        })
        .collect();
    let (summary, base) = (workflow.summary.clone(), workflow.base.clone());
    let plan = Plan { summary, max_parallel: workflow.max_parallel, base, tasks };
    serde_json::to_value(plan).map_err(|error| Error::internal("a plan is not JSON").because(error))
}
