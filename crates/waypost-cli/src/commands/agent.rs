//! `way agent`

use std::process::ExitCode;

use serde_json::Value;
use waypost_core::model::{Agent, AgentStatus, ProcessIdentity, Role};
use waypost_core::op::{AgentView, Alive, Heartbeat, ListAgents, RegisterAgent, RetireAgent, ShowAgent};
use waypost_core::time::Timestamp;
use waypost_core::words::count;
use waypost_core::{Error, Kind, Result};
use waypost_workspace::jobs::{identity, is_running};

use crate::CommandContext;
use crate::in_one_line;
use crate::places::{PlaceColumns, describe_worktree};
use crate::spans::{format_deadline, format_duration, parse_duration};
use crate::ui::{BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, header, number, prose, styled};

/// Register, list and retire agents, coordinators and people
///
/// The first write with --agent NAME registers that agent as a worker; way agent register adds details. An agent that
/// sends no heartbeat within its timeout goes offline, and its tasks and issues are released.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way agent register builder --capability rust,sql --timeout 10m
  way agent register lead --role coordinator --runtime claude-code
  way --agent builder agent heartbeat
  way agent list --capability rust --status online")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Register(RegisterArgs),
    Heartbeat(HeartbeatArgs),
    #[command(visible_alias = "ls")]
    List(ListArgs),
    Show(ShowArgs),
    Retire(RetireArgs),
}

/// Register an agent, or update its registration
///
/// Options that are left out keep their values. Registering a retired agent brings it back.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way agent register builder --runtime codex --capability rust --capability sql
  way agent register builder --pid $$ --max-claims 2
  way agent register                          registers you, as a person")]
struct RegisterArgs {
    /// Name of the agent [default: --agent, else your user name]
    name: Option<String>,
    /// Runtime of the agent, e.g. claude-code
    #[arg(long)]
    runtime: Option<String>,
    /// Role: coordinator, worker or human
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Capabilities, separated by commas or given repeatedly; replaces the registered ones
    #[arg(long = "capability", value_name = "CAPABILITY", value_delimiter = ',')]
    capabilities: Option<Vec<String>>,
    /// Time without a heartbeat after which the agent goes offline
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    timeout: Option<u64>,
    /// Maximum number of claims at once
    #[arg(long, value_name = "N")]
    max_claims: Option<u32>,
    /// Further details, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    metadata: Option<Value>,
    /// Process id of the agent
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Send a heartbeat, and renew the caller's leases
///
/// Reports when the next heartbeat is due, the number of unread messages, and whether the task was cancelled.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way --agent builder agent heartbeat
  way --agent builder agent heartbeat --task release/build --epoch 3")]
struct HeartbeatArgs {
    /// Task whose lease to renew [default: all leases]
    #[arg(long)]
    task: Option<String>,
    /// Workflow of the task, if its name is ambiguous
    #[arg(long)]
    workflow: Option<String>,
    /// Epoch of the caller's lease
    #[arg(long)]
    epoch: Option<u64>,
}

/// List agents
#[derive(clap::Args)]
struct ListArgs {
    /// Only agents with this role: coordinator, worker or human
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only agents with this capability
    #[arg(long)]
    capability: Option<String>,
    /// Only agents with this status: online, busy or offline
    #[arg(long, value_parser = |text: &str| text.parse::<AgentStatus>().map_err(in_one_line))]
    status: Option<AgentStatus>,
    /// Include retired agents
    #[arg(long)]
    all: bool,
}

/// Show an agent and its leases
#[derive(clap::Args)]
struct ShowArgs {
    /// Name or id of the agent
    #[arg(value_name = "AGENT")]
    target: String,
}

/// Retire an agent, and release its tasks and issues at once
///
/// Only coordinators and people can retire other agents.
#[derive(clap::Args)]
struct RetireArgs {
    /// Name or id of the agent [default: the caller]
    #[arg(value_name = "AGENT")]
    target: Option<String>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Register(args) => register(cx, args),
        Command::Heartbeat(args) => heartbeat(cx, args),
        Command::List(args) => list(cx, args),
        Command::Show(args) => show(cx, args),
        Command::Retire(args) => retire(cx, args),
    }
}

fn register(cx: &mut CommandContext, args: &RegisterArgs) -> Result<ExitCode> {
    let operation = RegisterAgent {
        name: args.name.clone(),
        runtime: args.runtime.clone(),
        role: parse_role(args.role.as_deref())?,
        capabilities: args.capabilities.clone(),
        metadata: args.metadata.clone().unwrap_or_default(),
        process: args.pid.map(process).transpose()?,
        timeout_ms: args.timeout,
        max_claims: args.max_claims,
    };
    let agent = cx.session()?.call(operation)?;
    cx.ui.answer(&agent, |text| {
        text.line(format!("Registered {} {} as {}", agent.role, agent.name, agent.id));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn heartbeat(cx: &mut CommandContext, args: &HeartbeatArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let HeartbeatArgs { task, workflow, epoch } = args;
    let alive: Alive = if task.is_none() {
        session.heartbeat()?.ok_or_else(|| Error::new(Kind::LeaseLost, "this job has finished its task"))?
    } else {
        session.call(Heartbeat { task: task.clone(), workflow: workflow.clone(), epoch: *epoch })?
    };
    let now = session.now()?;
    cx.ui.answer(&alive, |text| {
        if alive.is_cancelled {
            text.line("The task was cancelled: stop working on it.");
        }
        let rows = alive.leases.iter().map(|lease| {
            let expires = format_deadline(lease.expires_at, now);
            vec![cell(&lease.subject), number(lease.epoch), styled(DIM, expires)]
        });
        text.list(header(["HOLDS", "EPOCH", "EXPIRES"]), rows);
        text.line(format!(
            "{}; next heartbeat within {}",
            unread_messages(alive.unread),
            format_duration(alive.next_ms)
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn list(cx: &mut CommandContext, args: &ListArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let operation = ListAgents {
        role: parse_role(args.role.as_deref())?,
        capability: args.capability.clone(),
        status: args.status,
        retired: args.all,
        worktree_id: cx.worktree_filter(&mut session)?,
        repository: cx.repository_filter(&mut session)?,
        after: None,
        limit: u32::MAX,
    };
    let agents = session.call(operation)?.agents;
    let now = session.now()?;
    cx.ui.answer(&agents, |text| {
        if !agents.is_empty() {
            text.table(&table_of(&agents, now, PlaceColumns::of(&session, &agents)));
        }
    })?;
    if agents.is_empty() {
        let is_filtered = args.role.is_some() || args.capability.is_some() || args.status.is_some();
        cx.ui.note(if is_filtered || cx.has_place_filter() {
            "no matching agents; way agent list --all shows every agent"
        } else {
            "no agents yet; to register one: way agent register NAME"
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn show(cx: &mut CommandContext, args: &ShowArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let seen = session.call(ShowAgent { agent: args.target.clone() })?;
    let now = session.now()?;
    cx.ui.answer(&seen, |text| {
        let Agent { id, name, runtime, role, capabilities, .. } = &seen.agent;
        let field = |label: &str, value: Cell| vec![styled(BOLD, label), value];
        let mut rows = vec![
            field("agent", cell(format!("{name} {id}"))),
            field("role", cell(role)),
            field("status", styled(color(&seen.agent), status(&seen.agent))),
            field("heartbeat", cell(seen.agent.last_heartbeat.ago(now))),
            field("timeout", cell(format_duration(seen.agent.timeout_ms))),
        ];
        rows.extend(describe_worktree(&seen).map(|worktree| field("worktree", cell(worktree))));
        rows.extend(runtime.as_ref().map(|runtime| field("runtime", cell(runtime))));
        if !capabilities.is_empty() {
            rows.push(field("capabilities", cell(capabilities.join(", "))));
        }
        rows.extend(seen.agent.max_claims.map(|max| field("max claims", cell(max))));
        if let Some(process) = &seen.agent.process {
            let style = if is_running(process) { GOOD } else { BAD };
            let state = if is_running(process) { "running" } else { "not running on this machine" };
            rows.push(field("process", styled(style, format!("{}, {state}", process.pid))));
        }
        if seen.agent.metadata.as_object().is_some_and(|fields| !fields.is_empty()) {
            rows.push(field("metadata", cell(&seen.agent.metadata)));
        }
        rows.push(field("messages", cell(unread_messages(seen.unread))));
        for held in &seen.holds {
            let lease =
                format!("{} epoch {}, expires {}", held.name, held.epoch, format_deadline(held.expires_at, now));
            rows.push(field("holds", cell(lease)));
        }
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn retire(cx: &mut CommandContext, args: &RetireArgs) -> Result<ExitCode> {
    let agent = cx.session()?.call(RetireAgent { agent: args.target.clone() })?;
    cx.ui.answer(&agent, |text| text.line(format!("Retired {} {}", agent.role, agent.name)))?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the role of an agent. The option is a string, because several commands have one with this name.
pub(crate) fn parse_role(text: Option<&str>) -> Result<Option<Role>> {
    text.map(str::parse).transpose()
}

/// Returns the table of agents.
fn table_of(agents: &[AgentView], now: Timestamp, places: PlaceColumns) -> Vec<Vec<Cell>> {
    let titles = header(["NAME", "ROLE", "STATUS", "HEARTBEAT", "UNREAD", "HOLDS"]);
    let titles = titles.into_iter().chain(places.titles()).chain([styled(DIM, "CAPABILITIES")]).collect();
    let rows = agents.iter().map(|seen| {
        let holds: Vec<_> = seen.holds.iter().map(|held| held.name.as_str()).collect();
        let cells = [
            cell(&seen.agent.name),
            cell(seen.agent.role),
            styled(color(&seen.agent), status(&seen.agent)),
            styled(DIM, seen.agent.last_heartbeat.ago(now)),
            number(if seen.unread == 0 { "-".to_owned() } else { seen.unread.to_string() }),
            prose(if holds.is_empty() { "-".to_owned() } else { holds.join(", ") }),
        ];
        let capabilities = styled(DIM, seen.agent.capabilities.join(",")).cuttable();
        cells.into_iter().chain(places.cells(seen)).chain([capabilities]).collect()
    });
    std::iter::once(titles).chain(rows).collect()
}

fn status(agent: &Agent) -> &'static str {
    if agent.retired_at.is_some() { "retired" } else { agent.status.as_str() }
}

fn color(agent: &Agent) -> Style {
    match agent.status {
        AgentStatus::Online | AgentStatus::Busy => GOOD,
        AgentStatus::Offline if agent.retired_at.is_some() => DIM,
        AgentStatus::Offline => WARN,
    }
}

fn unread_messages(unread: u64) -> String {
    match unread {
        0 => "no unread messages".to_owned(),
        unread => count(unread, "unread message"),
    }
}

fn process(pid: u32) -> Result<ProcessIdentity> {
    identity(pid).ok_or_else(|| Error::not_found(format!("process {pid} does not run on this machine")))
}

fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
        Ok(_) => Err("not a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}
