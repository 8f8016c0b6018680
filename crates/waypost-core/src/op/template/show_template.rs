//! Shows the latest version of a template.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::Template;
use crate::nearest;
use crate::op::{Effect, Operation, StoreOperation};

/// Shows the latest version of a template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowTemplate {
    /// The name.
    pub name: String,
}

impl Operation for ShowTemplate {
    const NAME: &'static str = "show_template";
    const SUMMARY: &'static str = "Show a template";
    const EFFECT: Effect = Effect::Read;
    type Answer = Template;
}

impl StoreOperation for ShowTemplate {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Template> {
        find(cx, &self.name)
    }
}

/// Finds the latest version of a template.
pub(crate) fn find(cx: &mut OpContext<'_>, name: &str) -> Result<Template> {
    // A query with an empty name is one for all names.
    let found = if name.is_empty() { Vec::new() } else { cx.tx.template_list(Some(name))? };
    if let Some(template) = found.into_iter().next() {
        return Ok(template);
    }
    let all = cx.tx.template_list(None)?;
    let error = Error::not_found(format!("no template {name:?}"));
    Err(match nearest::nearest(name, all.iter().map(|template| template.name.as_str())) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("way template list"),
    })
}
