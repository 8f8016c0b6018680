//! Makes a workflow from a template.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::model::Source;
use crate::op::{CreateWorkflow, show_template};
use crate::work::plan::Plan;
use crate::work::template;
use crate::work::view::WorkflowView;

/// Makes a workflow from a template.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApplyTemplate {
    /// The template.
    pub template: String,
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

impl Operation for ApplyTemplate {
    const NAME: &'static str = "apply_template";
    const SUMMARY: &'static str = "Make a workflow from a template";
    const EFFECT: Effect = Effect::Write;
    type Answer = WorkflowView;

    fn run(self, cx: &mut Cx<'_>) -> Result<WorkflowView> {
        let template = show_template::find(cx, &self.template)?;
        let body = template::render(&template.body, &template.variables, &self.values)?;
        let values = serde_json::to_value(&self.values).unwrap_or_default();
        let workflow = CreateWorkflow {
            name: self.name.unwrap_or_else(|| template.name.clone()),
            source: Some(Source::Template),
            source_ref: Some(format!("{} version {}", template.name, template.version)),
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
