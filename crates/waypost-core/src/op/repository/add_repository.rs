//! Adds a repository to the store without running a command in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Repository, kind};
use crate::op::{Access, Effect, Operation, StoreOperation};

/// Adds a repository to the store without running a command in it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AddRepository {
    /// The repository.
    pub repository: Repository,
}

impl Operation for AddRepository {
    const NAME: &'static str = "add_repository";
    const SUMMARY: &'static str = "Add a repository to the store";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::ADMINS;
    type Answer = Repository;
}

impl StoreOperation for AddRepository {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Repository> {
        if !cx.caller.is_shared && self.repository.id != cx.caller.repository.id {
            return Err(Error::refused(format!(
                "this store belongs to repository {} and cannot hold {}",
                cx.caller.repository.name, self.repository.name
            ))
            .hint("way --global repo add PATH, or use a PostgreSQL store"));
        }
        let known = cx.tx.repository_get(&self.repository.id)?;
        if known.as_ref() != Some(&self.repository) {
            cx.tx.repository_put(&self.repository)?;
            let kind = if known.is_some() { kind::REPOSITORY_CHANGED } else { kind::REPOSITORY_REGISTERED };
            cx.event(kind, self.repository.id.as_str(), json!({ "before": known, "after": self.repository }))?;
        }
        Ok(self.repository)
    }
}
