//! `way events`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use waypost_core::model::{Event, EventQuery, kind};
use waypost_core::op::{ListAgents, ListEvents, ListWorktrees};
use waypost_core::{Error, Result};

use crate::CommandContext;
use crate::ui::{self, Cell, DIM, cell, header, number, prose, styled};
use waypost::app::session::Session;
use waypost::work::{find_worktree, survey_worktrees};

/// Number of events that --follow reads at once.
const PAGE_SIZE: u32 = 500;
/// Interval between polls without a write: leases expire without any write.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Show the history: every change, its author and its worktree
///
/// Lists the newest events first; with --since, the events after that number, oldest first. Numbers have no gaps,
/// except where way db gc removed old events: to continue without missing or repeating an event, pass the last number, or
/// `next` of the JSON output, to --since.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way events --kind task. --limit 20
  way events --subject tk_0a1b2c3d4e5f --since 0     the history of one task
  way events --follow                                new events as they happen
  way events --follow --since 120 --json             one JSON object per line")]
pub(crate) struct Args {
    /// Only events after this number; 0 for all
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Only events whose kind starts with this prefix, e.g. task. or message.sent
    #[arg(long, value_name = "PREFIX", value_parser = kind_prefix)]
    kind: Option<String>,
    /// Only events of the task, agent, or other object with this id
    #[arg(long, value_name = "ID")]
    subject: Option<String>,
    /// Maximum number of events
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show new events as they happen, until interrupted
    #[arg(long, short, conflicts_with = "limit")]
    follow: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut worktree_id = None;
    if let Some(reference) = &cx.global.worktree {
        let all = survey_worktrees(&mut session)?;
        let one = find_worktree(&all, reference, &session.place.cwd)?;
        if one.last_seen.is_none() {
            return Err(Error::not_found(format!("worktree {} has never used this store", one.name)));
        }
        worktree_id.clone_from(&one.id);
    }
    let query = EventQuery {
        since: args.since,
        worktree_id,
        kind: args.kind.clone(),
        subject: args.subject.clone(),
        limit: args.limit,
        after: None,
    };
    if args.follow {
        return follow(cx, &mut session, query);
    }
    let list = session.call(ListEvents { query })?;
    let names = Names::of(&mut session)?;
    cx.ui.answer_page(&list.events, list.position, |text| {
        let titles = header(["NUMBER", "TIME", "EVENT", "SUBJECT", "DETAIL", "BY", "WORKTREE"]);
        text.list(titles, list.events.iter().map(|event| names.row(event)));
    })?;
    if list.events.is_empty() {
        let is_filtered = args.kind.is_some() || args.subject.is_some() || args.since.is_some();
        cx.ui.note(if is_filtered || cx.global.worktree.is_some() {
            "no matching events; way events lists the newest of all kinds"
        } else {
            "no events yet; every change of a task, job or message adds one"
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn follow(cx: &mut CommandContext, session: &mut Session, mut query: EventQuery) -> Result<ExitCode> {
    let mut names = Names::of(session)?;
    query.limit = PAGE_SIZE;
    if query.since.is_none() {
        let newest = EventQuery { limit: 1, ..query.clone() };
        query.since = Some(session.call(ListEvents { query: newest })?.last);
    }
    loop {
        let list = session.call(ListEvents { query: query.clone() })?;
        if list.events.iter().any(|event| event.kind.ends_with(".registered")) {
            names = Names::of(session)?;
        }
        for event in &list.events {
            if !cx.ui.stream(event, |text| text.line(names.line(event)))? {
                return Ok(ExitCode::SUCCESS);
            }
        }
        query.since = Some(list.position);
        if list.events.len() < PAGE_SIZE as usize {
            session.wait(list.position, POLL_INTERVAL)?;
            // Without this check, `way` would notice a closed stdout only at the next event.
            if ui::is_closed() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// The names of worktrees, repositories and agents, by id.
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    pub(crate) fn of(session: &mut Session) -> Result<Names> {
        let known = session.call(ListWorktrees::all())?;
        let worktrees = known.worktrees.into_iter().map(|worktree| (worktree.id.to_string(), worktree.name));
        let repositories = known.repositories.into_iter().map(|one| (one.id.to_string(), one.name));
        let all_agents = ListAgents {
            role: None,
            capability: None,
            status: None,
            retired: true,
            worktree_id: None,
            repository: None,
            after: None,
            limit: u32::MAX,
        };
        let agents = session.call(all_agents)?.agents.into_iter();
        let agents = agents.map(|seen| (seen.agent.id.to_string(), seen.agent.name));
        Ok(Names(repositories.chain(worktrees).chain(agents).collect()))
    }

    /// Returns the name of an id, or the id if it has no name.
    pub(crate) fn get<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, String::as_str)
    }

    /// Returns the table row of an event.
    pub(crate) fn row(&self, event: &Event) -> Vec<Cell> {
        vec![
            number(event.sequence),
            styled(DIM, event.time),
            cell(&event.kind),
            cell(self.get(&event.subject)),
            prose(summary(event)),
            styled(DIM, &event.actor),
            styled(DIM, self.get(event.worktree_id.as_str())),
        ]
    }

    /// Returns an event as one line. A stream cannot align columns, so they have fixed widths.
    fn line(&self, event: &Event) -> String {
        let (subject, worktree) = (self.get(&event.subject), self.get(event.worktree_id.as_str()));
        let summary = summary(event);
        let gap = if summary.is_empty() { "" } else { "  " };
        let Event { sequence, time, kind, actor, .. } = event;
        format!("{sequence:>6}  {time}  {kind:<22}  {subject:<15}{gap}{summary}  by {actor} in {worktree}")
    }
}

/// Summarizes an event in a few words: the name of its subject, and the change.
pub(crate) fn summary(event: &Event) -> String {
    let data = &event.data;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let transition = |value: &Value| Some(format!("{} to {}", value[0].as_str()?, value[1].as_str()?));
    let name = text(&data["name"]).or_else(|| text(&data["after"]["name"]));
    let change = ["error", "summary", "subject", "reason"].iter().find_map(|field| text(&data[*field]));
    let change =
        change.or_else(|| transition(&data["changed"]["status"])).or_else(|| transition(&data["changed"]["state"]));
    let summary = match (name, change) {
        (Some(name), Some(change)) => format!("{name}: {change}"),
        (one, other) => one.or(other).unwrap_or_default(),
    };
    summary.lines().next().unwrap_or_default().to_owned()
}

fn kind_prefix(text: &str) -> Result<String, String> {
    if kind::ALL.iter().any(|kind| kind.starts_with(text)) {
        return Ok(text.to_owned());
    }
    let mut groups: Vec<_> = kind::ALL.iter().filter_map(|kind| kind.split_once('.')).map(|(group, _)| group).collect();
    groups.sort_unstable();
    groups.dedup();
    let near = waypost_core::nearest::nearest(text, kind::ALL.iter().copied());
    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    Err(format!("unknown event kind{near}; kinds start with {}", groups.join(", ")))
}
