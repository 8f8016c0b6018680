//! Templates: reusable plans with variables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{TemplateId, WorktreeId};
use crate::time::Timestamp;

/// A plan with `{{variables}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Its name.
    pub name: String,
    /// Its version, incremented with every save under the same name.
    pub version: u32,
    /// Its purpose.
    pub description: String,
    /// The plan.
    pub body: Value,
    /// Its variables.
    pub variables: Vec<Variable>,
    /// The worktree it was saved in.
    pub worktree_id: WorktreeId,
    /// When it was saved.
    pub created_at: Timestamp,
}

/// One variable of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// The name, as in `{{name}}`.
    pub name: String,
    /// Its purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The default value. A variable without one is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}
