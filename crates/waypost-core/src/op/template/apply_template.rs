//! Creates a workflow from a template.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Source, Template, Variable};
use crate::op::{Access, Effect, Operation, StoreOperation};
use crate::op::{AddWorkflow, show_template};
use crate::work::plan::Plan;
use crate::work::template;
use crate::work::view::WorkflowView;

/// Creates a workflow from a template.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ApplyTemplate {
    /// The name of the template.
    pub template: String,
    /// The content of the template, if the store does not have it.
    #[serde(default)]
    pub content: Option<TemplateContent>,
    /// The name of the workflow [default: the name of the template].
    #[serde(default)]
    pub name: Option<String>,
    /// The values of the variables.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Whether to start the workflow, so that its tasks can be claimed immediately.
    #[serde(default)]
    pub start: bool,
    /// Let every worktree take its tasks. This is the default in the main worktree.
    #[serde(default)]
    pub shared: bool,
    /// Keep its tasks to this worktree. This is the default in a linked worktree.
    #[serde(default)]
    pub only_here: bool,
}

/// A template from outside the store, for example from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateContent {
    /// Where the template comes from, for the record.
    pub origin: String,
    /// The plan.
    pub body: Value,
    /// The variables [default: those found in the plan].
    #[serde(default)]
    pub variables: Vec<Variable>,
}

impl Operation for ApplyTemplate {
    const NAME: &'static str = "apply_template";
    const SUMMARY: &'static str = "Create a workflow from a template";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS;
    type Answer = WorkflowView;
}

impl StoreOperation for ApplyTemplate {
    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let TemplateContent { origin, body, variables } = if let Some(content) = self.content {
            content
        } else {
            let Template { name, version, body, variables, .. } = show_template::find(cx, &self.template)?;
            TemplateContent { origin: format!("{name} version {version}"), body, variables }
        };
        let body = template::render(&body, &template::declared(&body, variables), &self.values)?;
        let values = serde_json::to_value(&self.values).unwrap_or_default();
        let workflow = AddWorkflow {
            name: self.name.unwrap_or(self.template),
            source: Some(Source::Template),
            source_ref: Some(origin),
            config: serde_json::json!({ "values": values }),
            plan: Some(Plan::from_value(body)?),
            start: self.start,
            shared: self.shared,
            only_here: self.only_here,
            ..AddWorkflow::default()
        };
        workflow.run(cx)
    }
}
