//! `way status`

use std::collections::BTreeMap;
use std::process::ExitCode;

use waypost_core::Result;
use waypost_core::id::WorktreeId;
use waypost_core::model::{JobStatus, TaskStatus, WorkflowStatus};
use waypost_core::op::{JobView, ShowWorkStatus, WorkStatus};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::work::attention::{Group, GroupKind, Row};
use waypost_core::work::view::{TaskView, WorkflowView};

use super::events::{Names, summary};
use crate::CommandContext;
use crate::spans::{format_deadline, format_duration};
use crate::ui::{BAD, Cell, DIM, GOOD, PLAIN, Text, WARN, cell, cell_keeping_end, styled};
use crate::work::{group_title, group_words};
use waypost::issues::ledger::{Change, Edit};
use waypost::ops::{IssueCounts, ShowStatus, Status};
use waypost::work::{Surveyed, WorktreeState, survey_worktrees};

/// Show the status of all worktrees; items that need attention come first
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way status
  way status --worktree topic      only this worktree
  way --global status              all repositories of the global store
  way status --limit 50 --json
  way status --line                one line, for a prompt or tmux")]
pub(crate) struct Args {
    /// Issue to show, or to give a status
    #[arg(value_name = "ISSUE", hide = true, conflicts_with_all = ["limit", "line"])]
    issue: Option<String>,
    /// Status to give it
    #[arg(value_name = "STATUS", hide = true)]
    status: Option<String>,
    /// Maximum number of lines per section
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print the number of items in each group on one line
    #[arg(long, conflicts_with = "limit")]
    line: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    if let Some(issue) = &args.issue {
        let Some(status) = &args.status else { return super::show::show(cx, std::slice::from_ref(issue)) };
        let edit = Edit { status: Some(status.clone()), ..Edit::default() };
        cx.change(&[Change::Update(issue.clone(), edit)], "Changed")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.line {
        return print_line(cx);
    }
    let mut session = cx.session()?;
    let all = survey_worktrees(&mut session)?;
    let worktree_id = cx.worktree_filter(&mut session)?;
    let repository = cx.repository_filter(&mut session)?;
    let status = session.call_app(ShowStatus { worktree_id, repository, limit: Some(args.limit) })?;
    let names = Names::of(&mut session)?;
    let now = session.now()?;
    let page = Page { status: &status.work, places: places(&all), now };
    let Status { jobs, issues, worktrees, store, events, .. } = &status;
    let is_empty = status.work.groups.iter().all(|group| group.total == 0)
        && status.work.workflows.is_empty()
        && status.work.agents.is_empty()
        && issues.is_none_or(|counts| counts.open + counts.in_progress + counts.closed == 0);
    cx.ui.answer(&status, |text| {
        if is_empty {
            text.line("There is nothing yet: no issues, workflows or agents.");
            text.gap();
        }
        page.group(text, GroupKind::NeedsYou);
        page.group(text, GroupKind::Stuck);
        page.work(text);
        if !jobs.is_empty() {
            text.heading("Jobs");
            let rows = jobs.iter().map(|view| page.job(view)).collect();
            text.fitted_table(rows, 4);
            text.gap();
        }
        if issues.is_some() || !status.work.issues.is_empty() {
            page.issues(text, issues.as_ref());
        }
        page.worktrees(text, worktrees, cx.global.worktree.is_some());
        text.heading("Store");
        text.fitted_table(
            vec![vec![cell(""), cell_keeping_end(&store.path), styled(DIM, count(store.events, "event"))]],
            1,
        );
        if !events.is_empty() {
            text.gap();
            text.heading("Latest");
            let rows: Vec<_> = events
                .iter()
                .map(|event| {
                    let summary = summary(event);
                    let about = if summary.is_empty() { names.get(&event.subject).to_owned() } else { summary };
                    vec![
                        styled(DIM, format!("  {}", event.sequence)),
                        cell(&event.kind),
                        cell(about),
                        styled(DIM, format!("by {} in {}", event.actor, names.get(event.worktree_id.as_str()))),
                        styled(DIM, event.time.ago(now)),
                    ]
                })
                .collect();
            text.fitted_table(rows, 2);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the number of rows of each group on one line: a prompt runs this often, so nothing else is read.
fn print_line(cx: &mut CommandContext) -> Result<ExitCode> {
    let (_, session) = cx.session_if_any()?;
    let groups = match session {
        Some(mut session) => {
            let worktree_id = cx.worktree_filter(&mut session)?;
            let repository = cx.repository_filter(&mut session)?;
            session.call(ShowWorkStatus { worktree_id, repository, limit: 1 })?.groups
        }
        None => Vec::new(),
    };
    let line = one_line(&groups);
    cx.ui.answer(&groups, |text| text.line(&line))?;
    Ok(ExitCode::SUCCESS)
}

/// Says how many rows each group has, without empty groups and finished work.
fn one_line(groups: &[Group]) -> String {
    let part = |group: &Group| {
        let is_shown = group.total > 0 && group.group != GroupKind::Done;
        let more = if group.has_more { "+" } else { "" };
        is_shown.then(|| format!("{}{more} {}", group.total, group_words(group.group, group.total)))
    };
    let parts: Vec<String> = groups.iter().filter_map(part).collect();
    if parts.is_empty() { "idle".to_owned() } else { parts.join(", ") }
}

/// The text output, section by section.
struct Page<'a> {
    status: &'a WorkStatus,
    /// The names of worktrees, qualified with their repository if there are several repositories.
    places: BTreeMap<WorktreeId, String>,
    now: Timestamp,
}

impl Page<'_> {
    fn job(&self, view: &JobView) -> Vec<Cell> {
        let job = &view.job;
        vec![
            cell(format!("  {}", job.id)),
            styled(if job.status == JobStatus::Running { GOOD } else { WARN }, job.status),
            cell(view.task.as_deref().unwrap_or("-")),
            styled(DIM, job.started_at.unwrap_or(job.created_at).ago(self.now)),
            cell(job.command.join(" ")),
        ]
    }

    /// Writes the rows of a group with their reasons, those that have waited longest first.
    fn group(&self, text: &mut Text, kind: GroupKind) {
        let Some(group) = self.status.groups.iter().find(|group| group.group == kind && group.total > 0) else {
            return;
        };
        let style = if kind == GroupKind::NeedsYou { WARN } else { BAD };
        let row = |row: &Row| {
            let style = if row.chip == "dead" { BAD } else { style };
            vec![
                styled(style, format!("  {}", row.chip)),
                cell(&row.name),
                cell(&row.reason),
                styled(DIM, self.places.get(&row.worktree_id).map_or("", String::as_str)),
                styled(DIM, row.since.ago(self.now)),
            ]
        };
        text.heading(group_title(kind));
        text.fitted_table(group.rows.iter().map(row).collect(), 2);
        more(text, group.total, group.rows.len() as u64, "way status --limit 50");
        text.gap();
    }

    /// Writes the tasks, workflows and agents.
    fn work(&self, text: &mut Text) {
        let WorkStatus { working, ready, waiting, workflows, agents, totals, .. } = self.status;
        self.section(text, "Working", working, totals.working, "way task list", |seen| {
            let since = seen.task.started_at.map_or_else(String::new, |moment| moment.ago(self.now));
            let left = seen
                .expires_at
                .map_or_else(String::new, |moment| format!("expires {}", format_deadline(moment, self.now)));
            vec![cell(seen.holder.as_deref().unwrap_or("-")), styled(DIM, since), styled(DIM, left)]
        });
        self.section(text, "Ready", ready, totals.ready, "way task list", |seen| {
            vec![
                styled(DIM, format!("P{}", seen.task.priority)),
                styled(DIM, format!("since {}", seen.task.queued_at.ago(self.now))),
            ]
        });
        self.section(text, "Waiting", waiting, totals.waiting, "way task list", |seen| {
            let state = match (seen.task.status, seen.task.due_at) {
                (TaskStatus::Failed, Some(due)) => format!("next attempt {}", format_deadline(due, self.now)),
                (status, _) => status.to_string(),
            };
            vec![styled(WARN, state), styled(DIM, seen.task.updated_at.ago(self.now))]
        });
        if !workflows.is_empty() {
            text.heading("Workflows");
            let rows: Vec<_> = workflows.iter().map(|seen| self.workflow(seen)).collect();
            text.fitted_table(rows, 1);
            more(text, totals.workflows, workflows.len() as u64, "way workflow list");
            text.gap();
        }
        if !agents.is_empty() {
            text.heading("Agents");
            let rows: Vec<_> = agents
                .iter()
                .map(|seen| {
                    let holds: Vec<_> = seen.holds.iter().map(|held| held.name.as_str()).collect();
                    vec![
                        cell(format!("  {}", seen.agent.name)),
                        cell(seen.agent.role),
                        styled(GOOD, seen.agent.status),
                        cell(if holds.is_empty() { String::new() } else { format!("holds {}", holds.join(", ")) }),
                        styled(DIM, self.places.get(&seen.agent.worktree_id).map_or("", String::as_str)),
                        styled(DIM, seen.agent.last_heartbeat.ago(self.now)),
                    ]
                })
                .collect();
            text.fitted_table(rows, 3);
            more(text, totals.agents, agents.len() as u64, "way agent list");
            text.gap();
        }
    }

    fn section(
        &self,
        text: &mut Text,
        title: &str,
        tasks: &[TaskView],
        total: u64,
        all: &str,
        detail: impl Fn(&TaskView) -> Vec<Cell>,
    ) {
        if tasks.is_empty() {
            return;
        }
        text.heading(title);
        let rows: Vec<_> = tasks
            .iter()
            .map(|seen| {
                let mut row = vec![cell(""), cell(name(seen))];
                row.extend(detail(seen));
                row.push(styled(DIM, self.place(seen)));
                row
            })
            .collect();
        text.fitted_table(rows, 1);
        more(text, total, tasks.len() as u64, all);
        text.gap();
    }

    fn workflow(&self, seen: &WorkflowView) -> Vec<Cell> {
        const WIDTH: u64 = 10;
        let filled = usize::try_from((seen.done * WIDTH).checked_div(seen.total).unwrap_or(0)).unwrap_or(0);
        let bar: String = (0..10).map(|at| if at < filled { '█' } else { '░' }).collect();
        let style = match seen.workflow.status {
            WorkflowStatus::InProgress => GOOD,
            WorkflowStatus::Paused | WorkflowStatus::AwaitingMerge => WARN,
            _ => PLAIN,
        };
        let age = format_duration(self.now.since(seen.workflow.created_at));
        vec![
            cell(""),
            cell(&seen.workflow.name),
            styled(style, seen.workflow.status),
            styled(style, bar),
            cell(format!("{}/{}", seen.done, seen.total)),
            styled(DIM, age),
            styled(DIM, self.places.get(&seen.workflow.worktree_id).map_or("", String::as_str)),
        ]
    }

    fn issues(&self, text: &mut Text, counts: Option<&IssueCounts>) {
        text.heading("Issues");
        if let Some(IssueCounts { ready, open, in_progress, closed }) = counts {
            let counts = [(ready, "ready"), (open, "open"), (in_progress, "in progress"), (closed, "closed")]
                .map(|(count, name)| cell(format!("  {count} {name}")));
            text.table(&[Vec::from(counts)]);
        }
        let rows: Vec<_> = self
            .status
            .issues
            .iter()
            .map(|seen| {
                vec![
                    cell(""),
                    cell(&seen.lease.subject),
                    cell(&seen.holder_name),
                    styled(DIM, format!("expires {}", format_deadline(seen.lease.expires_at, self.now))),
                    styled(DIM, self.places.get(&seen.lease.worktree_id).map_or("", String::as_str)),
                ]
            })
            .collect();
        text.fitted_table(rows, 1);
        more(text, self.status.totals.issues, self.status.issues.len() as u64, "way list --status in_progress");
        text.gap();
    }

    fn worktrees(&self, text: &mut Text, worktrees: &[Surveyed], is_filtered: bool) {
        text.heading("Worktrees");
        let shown = worktrees.iter().filter(|one| is_filtered || one.state != WorktreeState::Removed);
        let rows: Vec<_> = shown
            .map(|one| {
                let (mark, style) = match one.state {
                    WorktreeState::Here => ("*", GOOD),
                    WorktreeState::Present => (" ", PLAIN),
                    WorktreeState::New | WorktreeState::Elsewhere => (" ", DIM),
                    WorktreeState::Gone | WorktreeState::Unreachable => (" ", BAD),
                    WorktreeState::Removed => (" ", WARN),
                };
                let place = one.id.as_ref().and_then(|id| self.places.get(id)).unwrap_or(&one.name);
                vec![
                    styled(style, format!("{mark} {place}")),
                    cell(one.branch.as_deref().unwrap_or("-")),
                    styled(style, one.state.as_str()),
                    styled(DIM, one.last_seen.map_or_else(|| "-".to_owned(), |seen| seen.ago(self.now))),
                    cell_keeping_end(one.path.display()),
                ]
            })
            .collect();
        let hidden = worktrees.len() - rows.len();
        text.fitted_table(rows, 4);
        if hidden > 0 {
            text.line(format!("  and {hidden} removed: way worktree list"));
        }
        text.gap();
    }

    fn place(&self, seen: &TaskView) -> &str {
        self.places.get(&seen.task.worktree_id).map_or("", String::as_str)
    }
}

/// Returns the name of a task, qualified with its workflow.
fn name(seen: &TaskView) -> String {
    format!("{}/{}", seen.workflow, seen.task.name)
}

fn more(text: &mut Text, total: u64, shown: u64, command: &str) {
    if total > shown {
        text.line(format!("  and {} more: {command}", total - shown));
    }
}

/// Returns the names of worktrees, qualified with their repository if there are several repositories.
pub(crate) fn places(worktrees: &[Surveyed]) -> BTreeMap<WorktreeId, String> {
    let several = worktrees.iter().any(|one| one.repository_id != worktrees[0].repository_id);
    let named = worktrees.iter().filter_map(|one| {
        let name = if several && one.repository != one.name {
            format!("{}/{}", one.repository, one.name)
        } else {
            one.name.clone()
        };
        Some((one.id.clone()?, name))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_the_groups_that_have_rows_and_says_where_more_follow() {
        let group = |group, total, has_more| Group { group, total, has_more, rows: Vec::new() };
        assert_eq!(one_line(&[]), "idle");
        let groups = [
            group(GroupKind::NeedsYou, 0, false),
            group(GroupKind::Working, 1, false),
            group(GroupKind::Queued, 1_000, true),
            group(GroupKind::Done, 5, false),
        ];
        assert_eq!(one_line(&groups), "1 working, 1000+ queued");
    }
}
