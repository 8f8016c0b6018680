//! Makes a workflow from a template.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Effect, Operation};
use crate::context::OpContext;
use crate::error::Result;
use crate::model::{Source, Template, Variable};
use crate::op::{CreateWorkflow, show_template};
use crate::work::plan::Plan;
use crate::work::template;
use crate::work::view::WorkflowView;

/// Makes a workflow from a template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApplyTemplate {
    /// The template.
    pub template: String,
    /// What it says, if it is not one of the store.
    #[serde(default)]
    pub content: Option<TemplateContent>,
    /// What to call the workflow; like the template if nobody says.
    #[serde(default)]
    pub name: Option<String>,
    /// What to fill in.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Whether its tasks can be claimed at once.
    #[serde(default)]
    pub start: bool,
}

/// A template that somebody else keeps, for example in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateContent {
    /// Where it is kept, for whoever asks later.
    pub origin: String,
    /// The plan.
    pub body: Value,
    /// What can be filled in; found in the plan if nobody says.
    #[serde(default)]
    pub variables: Vec<Variable>,
}

impl Operation for ApplyTemplate {
    const NAME: &'static str = "apply_template";
    const SUMMARY: &'static str = "Make a workflow from a template";
    const EFFECT: Effect = Effect::Write;
    type Answer = WorkflowView;

    fn run(self, cx: &mut OpContext<'_>) -> Result<WorkflowView> {
        let TemplateContent { origin, body, variables } = if let Some(content) = self.content {
            content
        } else {
            let Template { name, version, body, variables, .. } = show_template::find(cx, &self.template)?;
            TemplateContent { origin: format!("{name} version {version}"), body, variables }
        };
        let body = template::render(&body, &template::declared(&body, variables), &self.values)?;
        let values = serde_json::to_value(&self.values).unwrap_or_default();
        let workflow = CreateWorkflow {
            name: self.name.unwrap_or(self.template),
            source: Some(Source::Template),
            source_ref: Some(origin),
            source_content: None,
            summary: None,
            max_parallel: None,
            config: serde_json::json!({ "values": values }),
            plan: Some(Plan::from_value(body)?),
            start: self.start,
            repositories: Vec::new(),
        };
        workflow.run(cx)
    }
}
