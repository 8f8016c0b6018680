//! Lists the issues that the ledger has still to be told are done.

use serde::{Deserialize, Serialize};

use super::{Effect, Operation};
use crate::engine::Cx;
use crate::error::Result;
use crate::model::Closing;

/// Lists the issues that the ledger has still to be told are done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListClosings {}

/// The answer to [`ListClosings`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosingList {
    /// What to tell, the oldest first.
    pub closings: Vec<Closing>,
}

impl Operation for ListClosings {
    const NAME: &'static str = "list_closings";
    const SUMMARY: &'static str = "List issues that are done but not closed";
    const EFFECT: Effect = Effect::Read;
    type Answer = ClosingList;

    fn run(self, cx: &mut Cx<'_>) -> Result<ClosingList> {
        Ok(ClosingList { closings: cx.tx.closing_list()? })
    }
}
