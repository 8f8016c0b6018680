//! Lists the repositories that the store knows.

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::model::Repository;

/// Lists the repositories that the store knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListRepositories {}

/// The answer to [`ListRepositories`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryList {
    /// The repositories, by name.
    pub repositories: Vec<Repository>,
}

impl Operation for ListRepositories {
    const NAME: &'static str = "list_repositories";
    const SUMMARY: &'static str = "List repositories";
    const EFFECT: Effect = Effect::Read;
    type Answer = RepositoryList;

    fn run(self, cx: &mut Cx<'_>) -> Result<RepositoryList> {
        Ok(RepositoryList { repositories: cx.tx.repository_list()? })
    }
}
