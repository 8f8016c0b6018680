//! Lists the latest version of each template.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Template;
use crate::op::{Effect, Operation, StoreOperation};
use crate::page::{self, Cursor};

/// Lists the latest version of each template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListTemplates {
    /// The position after which the page begins: `next` of the page before.
    #[serde(default)]
    pub after: Option<Cursor<String>>,
    /// The maximum number of results.
    #[serde(default = "page::default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

impl ListTemplates {
    /// Lists all of them on one page.
    pub fn all() -> ListTemplates {
        ListTemplates { after: None, limit: u32::MAX }
    }
}

/// The answer to [`ListTemplates`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateList {
    /// The templates, by name.
    pub templates: Vec<Template>,
    /// The position of the next page: `after` of the next call. Null on the last page.
    #[serde(default)]
    pub next: Option<Cursor<String>>,
}

impl Operation for ListTemplates {
    const NAME: &'static str = "list_templates";
    const SUMMARY: &'static str = "List templates";
    const EFFECT: Effect = Effect::Read;
    type Answer = TemplateList;
}

impl StoreOperation for ListTemplates {
    fn run(self, cx: &mut OpContext<'_>) -> Result<TemplateList> {
        page::fetched(self.limit)?;
        let mut templates = cx.tx.template_list(None)?;
        page::skip(&mut templates, self.after.as_ref(), |template| template.name.clone());
        let next = page::cut(&mut templates, self.limit, |template| template.name.clone());
        Ok(TemplateList { templates, next })
    }
}
