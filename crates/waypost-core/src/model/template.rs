//! A reusable plan with variables.

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
    /// What people call it.
    pub name: String,
    /// Grows with every save under the same name.
    pub version: u32,
    /// What it is good for.
    pub description: String,
    /// The plan.
    pub body: Value,
    /// What can be filled in.
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
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it is if nobody says; without one it must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}
