//! Lists the summaries of removed records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::Result;
use crate::model::Summary;
use crate::op::{Audience, Effect, Operation, StoreOperation};

/// Lists the summaries of records that were removed because of their age.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListSummaries {
    /// Only those of these workflows and jobs, by id; all if empty.
    #[serde(default)]
    pub subjects: Vec<String>,
    /// Maximum number of results, unless subjects are named.
    pub limit: u32,
}

/// The answer to [`ListSummaries`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryList {
    /// The summaries, the last removed first.
    pub summaries: Vec<Summary>,
}

impl Operation for ListSummaries {
    const NAME: &'static str = "list_summaries";
    const SUMMARY: &'static str = "List summaries of removed records";
    const EFFECT: Effect = Effect::Read;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = SummaryList;
}

impl StoreOperation for ListSummaries {
    fn run(self, cx: &mut OpContext<'_>) -> Result<SummaryList> {
        let summaries = if self.subjects.is_empty() {
            cx.tx.summary_list(self.limit)?
        } else {
            cx.tx.summary_list_by_subject(&self.subjects)?
        };
        Ok(SummaryList { summaries })
    }
}
