//! Lists the latest version of each template.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Template;
use crate::op::{Effect, Operation, StoreOperation};

/// Lists the latest version of each template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListTemplates {}

/// The answer to [`ListTemplates`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    /// The templates, by name.
    pub templates: Vec<Template>,
}

impl Operation for ListTemplates {
    const NAME: &'static str = "list_templates";
    const SUMMARY: &'static str = "List templates";
    const EFFECT: Effect = Effect::Read;
    type Answer = TemplateList;
}

impl StoreOperation for ListTemplates {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TemplateList> {
        Ok(TemplateList { templates: cx.tx.template_list(None)? })
    }
}
