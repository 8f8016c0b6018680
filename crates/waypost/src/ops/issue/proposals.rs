//! Operations on proposals: issues of a planning repository that are offered to a project.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use waypost_core::ledger::record::Record;
use waypost_core::op::{Effect, Operation};
use waypost_core::{Error, Kind, Result};

use super::{IssueContext, IssueOperation, IssueRecord};
use crate::issues::proposals;
use crate::issues::repos::Repos;

impl IssueContext {
    /// Finds the repository of a proposal, the current one by default and as `upstream`, unless another one has that name.
    /// Returns the number of its ledger.
    pub fn target(&self, named: Option<&str>) -> Result<usize> {
        let Some(named) = named else { return Ok(0) };
        let mut repos = Repos { all: self.ledger.repos().to_vec(), unreachable: Vec::new() };
        match repos.find(&self.place, named) {
            Err(error) if named == "upstream" && error.kind() == Kind::NotFound => Ok(0),
            Err(error) => Err(error),
            Ok((number, false)) => Ok(number),
            Ok((_, true)) => Err(Error::not_found(format!("the ledger of {named} is not configured"))
                .hint(format!("add it: way config --add-repo {named}"))),
        }
    }

    /// Proposes an issue of the planning repository to a project, the current one by default. Returns it with the number of
    /// the project's ledger.
    pub fn propose(&self, issue: &str, target: Option<&str>) -> Result<(Record, usize)> {
        self.bring_up_to_date();
        let target = self.target(target)?;
        Ok((proposals::propose(&self.place, &self.ledger, issue, target)?, target))
    }

    /// Withdraws a proposal. Returns it with the number of the planning's ledger.
    pub fn withdraw(&self, issue: &str, target: Option<&str>) -> Result<(Record, usize)> {
        self.bring_up_to_date();
        let target = self.target(target)?;
        Ok((proposals::withdraw(&self.place, &self.ledger, issue, target)?, self.ledger.route().number))
    }

    /// Accepts a proposal. Returns it with the number of its ledger.
    pub fn accept(&self, issue: &str) -> Result<(Record, usize)> {
        self.bring_up_to_date();
        proposals::accept(&self.place, &self.ledger, issue)
    }

    /// Rejects a proposal. Returns it with the number of its ledger.
    pub fn reject(&self, issue: &str, reason: &str) -> Result<(Record, usize)> {
        self.bring_up_to_date();
        proposals::reject(&self.place, &self.ledger, issue, reason)
    }
}

/// Defines an operation on a proposal: its arguments beside the issue, and the method that runs it.
macro_rules! decision {
    (
        $(#[$doc:meta])* $name:ident($operation:literal, $summary:literal) {
            $($(#[$about:meta])* $field:ident: $type:ty,)*
        } = |$request:ident, $context:ident| $run:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// Id of the issue, or a unique prefix.
            issue: String,
            $($(#[$about])* $field: $type,)*
            /// Repository whose ledger to use: the id or name of a configured one, or a path except
            /// over HTTP.
            repo: Option<String>,
        }

        impl Operation for $name {
            const NAME: &'static str = $operation;
            const SUMMARY: &'static str = $summary;
            const EFFECT: Effect = Effect::Write;
            type Answer = IssueRecord;
        }

        impl IssueOperation for $name {
            fn repo(&self) -> Option<&str> {
                self.repo.as_deref()
            }

            fn run(self, $context: &IssueContext) -> Result<IssueRecord> {
                let $request = self;
                let (record, ledger) = $run?;
                $context.shown(&record, ledger)
            }
        }
    };
}

decision! {
    /// Accepts a proposal as a maintainer; it becomes a regular issue of the project.
    AcceptIssue("accept_issue", "Accept a proposed issue") {} = |request, context| context.accept(&request.issue)
}

decision! {
    /// Proposes an issue of the planning repository to a project: copies it to the project's ledger, for a commit.
    ProposeIssue("propose_issue", "Propose an issue to a project") {
        /// Repository to propose it to: the id or name of a configured one [default: the current one].
        target: Option<String>,
    } = |request, context| context.propose(&request.issue, request.target.as_deref())
}

decision! {
    /// Rejects a proposal as a maintainer: closes it, and its author sees the reason.
    RejectIssue("reject_issue", "Reject a proposed issue") {
        /// Reason.
        reason: String,
    } = |request, context| context.reject(&request.issue, &request.reason)
}

decision! {
    /// Withdraws a proposal: removes its copy from the project's ledger.
    WithdrawIssue("withdraw_issue", "Withdraw a proposed issue") {
        /// Repository it was proposed to: the id or name of a configured one [default: the current one].
        target: Option<String>,
    } = |request, context| context.withdraw(&request.issue, request.target.as_deref())
}
