//! Acquires the lease on an issue: the part of a claim that the store keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::{Lease, News, Notice, kind};
use crate::op::{Access, Audience, Effect, IssueEffect, IssuesOf, JobAccess, Operation, StoreOperation};
use crate::work::{agents, claim, issue_rights, lease};

/// Acquires the lease on an issue: the part of a claim that the store keeps.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LeaseIssue {
    /// The issue.
    pub issue: String,
    /// How long the lease lasts after each renewal, in milliseconds.
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

impl Operation for LeaseIssue {
    const NAME: &'static str = "lease_issue";
    const SUMMARY: &'static str = "Acquire the lease on an issue";
    const EFFECT: Effect = Effect::Write;
    const ACCESS: Access = Access::AGENTS.with_jobs(JobAccess::All);
    const AUDIENCE: Audience = Audience::Client;
    type Answer = Lease;
}

impl StoreOperation for LeaseIssue {
    const ISSUES: Option<IssuesOf<Lease>> = Some(|lease| Some(IssueEffect::Claimed(&lease.subject)));

    fn run(self, cx: &mut OpContext<'_>) -> Result<Lease> {
        issue_rights::check_id(&self.issue)?;
        let mut agent = agents::find_or_register_caller(cx)?;
        let known = cx.tx.lease_get(&self.issue)?.filter(|lease| lease.holder.is_some());
        let lease = match known {
            Some(mut held) if held.holder.as_ref() == Some(&agent.id) => {
                lease::renew_for(cx, &mut held, self.ttl_ms)?;
                held
            }
            Some(held) => return Err(held_error(cx, &self.issue, &held)?),
            None => {
                if let Some(held) = lease::of_another_on_task(cx, &self.issue, &agent)? {
                    return Err(held_error(cx, &self.issue, &held)?.hint(format!("its task is {}", held.subject)));
                }
                let is_of_it = |notice: &Notice| notice.issue == self.issue && notice.news == News::Finished;
                if let Some(notice) = cx.tx.notice_list()?.into_iter().find(is_of_it) {
                    return Err(finished_error(&notice));
                }
                claim::check_cap(cx, &agent)?;
                // An agent works on the issue again, so a pending notice that it was abandoned is obsolete.
                cx.tx.notice_remove(&self.issue)?;
                lease::grant(cx, &self.issue, &agent, self.ttl_ms, lease::DEFAULT_ISSUE_TTL_MS)?
            }
        };
        let data = json!({ "agent": agent.id, "epoch": lease.epoch, "expires_at": lease.expires_at.unless_never() });
        cx.event(kind::ISSUE_CLAIMED, &self.issue, data)?;
        agents::touch(cx, &mut agent)?;
        Ok(lease)
    }
}

fn held_error(cx: &mut OpContext<'_>, issue: &str, held: &Lease) -> Result<Error> {
    let (holder, until) = (lease::holder_name(cx, held)?, held.end());
    Ok(Error::conflict(format!("issue {issue} is held by {holder} until {until}"))
        .hint("way ready lists the issues that can be claimed")
        .hint(format!("a person can take it away: way release {issue} --force")))
}

fn finished_error(notice: &Notice) -> Error {
    let Notice { issue, actor, .. } = notice;
    let error = Error::conflict(format!("{actor} finished issue {issue}, and its ledger was not updated yet"));
    match &notice.task_id {
        Some(task) => error.hint(format!("to do it again: way task reopen {task}")),
        None => error,
    }
}
