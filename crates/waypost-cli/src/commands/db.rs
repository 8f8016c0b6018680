//! `way db`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use waypost_core::model::Summary;
use waypost_core::op::{AcceptFailover, ListSummaries, Maintenance, RecordMaintenance};
use waypost_core::{Error, Kind, Result, path_text, words};
use waypost_store::postgres;
use waypost_store::sqlite::{Difference, SqliteStore};

use crate::CommandContext;
use crate::spans::parse_duration;
use crate::ui::{BAD, BOLD, Cell, DIM, GOOD, Style, WARN, cell, header, number, prose, styled};
use waypost::app::session::{OpenStore, Session};
use waypost::machine::place::{Location, StoreChoice};
use waypost::work::transfer::{self, Move, Moved, Outcome};
use waypost::work::{collect_garbage, find_garbage};

/// Inspect, check, back up, shrink and move the store
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way db info
  way db check
  way db backup ~/state-backup.db
  way db gc --older-than 90d --dry-run")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the kind, settings and size of the store
    Info,
    /// Check the store for damage; exits with 9 if there is any
    Check,
    /// Copy the store to a new file, without blocking other processes
    Backup {
        /// File to create; it must not exist
        file: PathBuf,
    },
    /// Return unused space to the file system
    Vacuum,
    Gc(GcArgs),
    Move(MoveArgs),
    /// Accept the PostgreSQL server after a failover or a restore
    ///
    /// A standby that replicates asynchronously, or a backup, may lack writes that were acknowledged. Therefore every
    /// command refuses a server with another system identifier or timeline. Before you accept it, check that the former
    /// server is stopped and cannot come back. All leases end, and every new lease gets an epoch higher than any that
    /// the former server may have issued.
    AcceptFailover,
    /// Measure the latency of durable writes
    ///
    /// Each write adds one event to the history, and is on disk before the next one begins.
    Probe {
        /// Number of writes
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        writes: u32,
    },
}

/// Remove old finished records from the store
///
/// Removes workflows that ended before the given age, with their tasks, dependencies, checkpoints and jobs; other jobs
/// that ended, with their output; records of removed workspaces; messages that were acknowledged or expired, if the whole
/// thread was; and old events about nothing that is kept. Keeps a summary of each workflow and job, and of the messages and
/// events of each month. Records stay as long as something live refers to them: a held lease, a message that was not
/// delivered, a notice that a ledger has not received, a workspace that exists.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way db gc --older-than 90d --dry-run
  way db gc --older-than 90d
  way db gc --summaries                              what was removed earlier")]
struct GcArgs {
    /// Remove records that ended this long ago, e.g. 90d
    #[arg(long, value_name = "SPAN", value_parser = parse_duration, required_unless_present = "summaries")]
    older_than: Option<u64>,
    /// Show how many records would be removed, without removing them
    #[arg(long)]
    dry_run: bool,
    /// List the summaries of removed records instead
    #[arg(long, conflicts_with_all = ["older_than", "dry_run"])]
    summaries: bool,
    /// Maximum number of summaries
    #[arg(long, value_name = "N", default_value_t = 50, requires = "summaries")]
    limit: u32,
}

/// Move live workflows to another store, with tasks, checkpoints, messages and history
///
/// Ids stay the same, and epochs continue. The source keeps a moved workflow, but refuses to change it, so that agents
/// cannot work on it in two stores; --delete-source ends it there. Workflows that are already in the destination are
/// skipped. Workflows that agents are working on are not moved, except with --force.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way db move --to global --dry-run
  way db move --to global                            the live workflows of this repository's store
  way --global db move --to repo --workflow release  and back
  way db move --to postgres://db.example.org/way --delete-source")]
struct MoveArgs {
    /// Destination: repo, global, a path or a URL
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Only this workflow; may be given repeatedly
    #[arg(long = "workflow", value_name = "WORKFLOW")]
    workflows: Vec<String>,
    /// Show the workflows that would be moved, without moving them
    #[arg(long)]
    dry_run: bool,
    /// End moved workflows in the source
    #[arg(long)]
    delete_source: bool,
    /// Also move workflows that agents are working on, and end their leases
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Info => info(cx),
        Command::Check => check(cx),
        Command::Backup { file } => backup(cx, file),
        Command::Vacuum => vacuum(cx),
        Command::Gc(args) => gc(cx, args),
        Command::Move(args) => move_to(cx, args),
        Command::AcceptFailover => accept_failover(cx),
        Command::Probe { writes } => probe(cx, *writes),
    }
}

fn info(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = cx.session()?;
    if let OpenStore::Postgres(store) = session.store()? {
        let (info, url) = (store.info()?, store.url().to_owned());
        return info_of_postgres(cx, &session.choice, &info, &url);
    }
    let store = sqlite_store(&session, "")?;
    let info = store.info()?;
    let path = store.path();
    let data = json!({
        "path": path_text::to_text(path),
        "kind": "sqlite",
        "source": session.choice.source.source,
        "because": session.choice.source.because,
        "schema_version": info.schema_version,
        "sqlite_version": info.sqlite_version,
        "settings": info.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
        "bytes": info.bytes,
        "wal_bytes": info.wal_bytes,
        "rows": info.rows.iter().map(|(name, count)| (name.clone(), json!(count))).collect::<serde_json::Map<_, _>>(),
        "read_only": store.is_read_only(),
    });
    cx.ui.answer(&data, |text| {
        let mut rows = vec![
            vec![styled(BOLD, "path"), cell(path.display())],
            vec![styled(BOLD, "chosen"), cell(&session.choice.source)],
            vec![styled(BOLD, "schema"), cell(info.schema_version)],
            vec![styled(BOLD, "sqlite"), cell(info.sqlite_version)],
            vec![styled(BOLD, "size"), cell(bytes(info.bytes))],
            vec![styled(BOLD, "log"), cell(bytes(info.wal_bytes))],
        ];
        rows.extend(details(&info.settings, &info.rows));
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn info_of_postgres(
    cx: &mut CommandContext,
    choice: &StoreChoice,
    info: &postgres::Info,
    url: &str,
) -> Result<ExitCode> {
    let data = json!({
        "url": url,
        "kind": "postgres",
        "source": choice.source.source,
        "because": choice.source.because,
        "schema": info.schema,
        "schema_version": info.schema_version,
        "server_version": info.server_version,
        "settings": info.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
        "bytes": info.bytes,
        "rows": info.rows.iter().map(|(name, count)| (name.clone(), json!(count))).collect::<serde_json::Map<_, _>>(),
    });
    cx.ui.answer(&data, |text| {
        let mut rows = vec![
            vec![styled(BOLD, "url"), cell(url)],
            vec![styled(BOLD, "chosen"), cell(&choice.source)],
            vec![styled(BOLD, "schema"), cell(format!("{}, version {}", info.schema, info.schema_version))],
            vec![styled(BOLD, "postgresql"), cell(&info.server_version)],
            vec![styled(BOLD, "size"), cell(bytes(info.bytes))],
        ];
        rows.extend(details(&info.settings, &info.rows));
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn details(settings: &[(&'static str, String)], rows: &[(String, u64)]) -> Vec<Vec<Cell>> {
    let settings = settings.iter().map(|(name, value)| vec![styled(BOLD, name), cell(value)]);
    let rows = rows.iter().map(|(name, count)| vec![styled(BOLD, name), cell(words::count(count, "row"))]);
    settings.chain(rows).collect()
}

/// Returns the SQLite store, or an error: users maintain other stores with the tools of their database.
fn sqlite_store<'a>(session: &'a Session, instead: &str) -> Result<&'a SqliteStore> {
    session.require_present()?;
    session.sqlite().ok_or_else(|| {
        let error = Error::refused(format!("{} is not a SQLite file", session.choice.location));
        match session.choice.location {
            Location::Server(_) => error.hint("run the command on the server's machine, on the store itself"),
            _ => error.hint(format!("on PostgreSQL: {instead}")),
        }
    })
}

fn check(cx: &mut CommandContext) -> Result<ExitCode> {
    let session = cx.session()?;
    let store = sqlite_store(&session, "use pg_amcheck")?;
    let busy = cx.ui.busy("Checking the store");
    let damage: Vec<String> = store.check()?.into_iter().map(|damage| damage.0).collect();
    let schema: Vec<(&str, String)> = store.check_schema()?.into_iter().map(describe).collect();
    drop(busy);
    let is_ok = damage.is_empty() && schema.is_empty();
    let objects: Vec<_> = schema.iter().map(|(state, object)| json!({ "state": state, "object": object })).collect();
    let data = json!({ "ok": is_ok, "damage": damage, "schema": objects });
    cx.ui.answer(&data, |text| {
        if is_ok {
            text.table(&[vec![styled(GOOD, "ok"), cell(store.path().display())]]);
        }
        for line in &damage {
            text.table(&[vec![styled(BAD, "damaged"), cell(line)]]);
        }
        text.table(&schema.iter().map(|(state, object)| vec![styled(BAD, state), cell(object)]).collect::<Vec<_>>());
    })?;
    if schema.iter().any(|(_, object)| object.starts_with("trigger ")) {
        cx.ui.note("the triggers of this store are not those of Waypost, so no trigger runs");
    }
    if !schema.is_empty() {
        cx.ui.note("another program or person changed this store; way db move copies its workflows to a new one");
    }
    Ok(if is_ok { ExitCode::SUCCESS } else { ExitCode::from(Kind::Damaged.exit_code()) })
}

/// Returns how an object of the schema differs, and the object.
fn describe(difference: Difference) -> (&'static str, String) {
    match difference {
        Difference::Foreign(object) => ("foreign", object),
        Difference::Changed(object) => ("changed", object),
        Difference::Missing(object) => ("missing", object),
    }
}

fn backup(cx: &mut CommandContext, target: &std::path::Path) -> Result<ExitCode> {
    let session = cx.session()?;
    let target = session.place.cwd.join(target);
    let busy = cx.ui.busy("Copying the store");
    sqlite_store(&session, "use pg_dump --schema NAME")?.backup(&target)?;
    drop(busy);
    let size = std::fs::metadata(&target).map_or(0, |file| file.len());
    let data = json!({ "path": path_text::to_text(&target), "bytes": size });
    cx.ui.answer(&data, |text| text.line(format!("Wrote {} to {}", bytes(size), target.display())))?;
    Ok(ExitCode::SUCCESS)
}

fn vacuum(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let busy = cx.ui.busy("Shrinking the store");
    let (before, after) = sqlite_store(&session, "autovacuum does this")?.vacuum()?;
    drop(busy);
    let data = json!({ "bytes_before": before, "bytes_after": after });
    session.call(RecordMaintenance { what: Maintenance::Vacuumed, detail: data.clone() })?;
    cx.ui.answer(&data, |text| {
        text.line(format!("Vacuumed the store: {} before, {} after", bytes(before), bytes(after)));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn gc(cx: &mut CommandContext, args: &GcArgs) -> Result<ExitCode> {
    let mut session = cx.session()?;
    session.require_present()?;
    let Some(age) = args.older_than else { return summaries(cx, &mut session, args.limit) };
    let busy = cx.ui.busy("Looking for old records");
    let bytes_before = store_size(&mut session)?;
    let (before, removed) = if args.dry_run {
        let found = find_garbage(&mut session, age)?;
        (found.before, found.removable)
    } else {
        let collected = collect_garbage(&mut session, age)?;
        (collected.before, collected.removed)
    };
    // PostgreSQL, and a server, reuse the space themselves.
    if let Some(store) = session.sqlite().filter(|_| !args.dry_run && !removed.is_empty()) {
        match store.vacuum() {
            Ok((before, after)) => {
                let detail = json!({ "bytes_before": before, "bytes_after": after });
                session.call(RecordMaintenance { what: Maintenance::Vacuumed, detail })?;
            }
            Err(error) => cx.ui.warn(&format!("the store is not smaller yet: {}", error.full_message())),
        }
    }
    let bytes_after = if args.dry_run { None } else { store_size(&mut session)? };
    drop(busy);
    let mut data = serde_json::to_value(removed).unwrap_or_default();
    (data["before"], data["written"]) = (json!(before.to_string()), json!(!args.dry_run));
    (data["bytes_before"], data["bytes_after"]) = (json!(bytes_before), json!(bytes_after));
    cx.ui.answer(&data, |text| {
        let rows = [
            ("workflows", removed.workflows),
            ("tasks", removed.tasks),
            ("jobs", removed.jobs),
            ("workspaces", removed.workspaces),
            ("messages", removed.messages),
            ("events", removed.events),
        ];
        text.list(header(["RECORDS", "COUNT"]), rows.map(|(name, count)| vec![styled(BOLD, name), number(count)]));
        let verb = if args.dry_run { "Would remove" } else { "Removed" };
        let size = match (bytes_before, bytes_after) {
            (Some(before), Some(after)) => format!(": {} before, {} after", bytes(before), bytes(after)),
            (Some(now), None) => format!("; the store has {}", bytes(now)),
            (None, _) => String::new(),
        };
        text.line(format!("{verb} these records from before {before}{size}"));
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the size of the store; None if a server has it.
fn store_size(session: &mut Session) -> Result<Option<u64>> {
    if session.is_served() {
        return Ok(None);
    }
    if let OpenStore::Postgres(store) = session.store()? {
        return Ok(Some(store.info()?.bytes));
    }
    let info = session.sqlite().map(SqliteStore::info).transpose()?;
    Ok(info.map(|info| info.bytes + info.wal_bytes))
}

/// Lists the summaries of removed records.
fn summaries(cx: &mut CommandContext, session: &mut Session, limit: u32) -> Result<ExitCode> {
    let summaries = session.call(ListSummaries { subjects: Vec::new(), limit })?.summaries;
    cx.ui.answer(&summaries, |text| {
        let row = |summary: &Summary| {
            let records = summary.detail.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64());
            vec![
                styled(BOLD, &summary.name),
                cell(summary.kind),
                styled(DIM, if summary.status.is_some() { summary.subject.as_str() } else { "-" }),
                cell(summary.status.clone().unwrap_or_else(|| words::count(records.sum::<u64>(), "record"))),
                styled(DIM, summary.finished_at),
                styled(DIM, summary.removed_at),
            ]
        };
        let titles = header(["NAME", "KIND", "ID", "RESULT", "ENDED", "REMOVED"]);
        text.list(titles, summaries.iter().map(row));
    })?;
    if summaries.is_empty() {
        cx.ui.note("nothing was removed yet; to remove old records: way db gc --older-than 90d");
    }
    Ok(ExitCode::SUCCESS)
}

fn accept_failover(cx: &mut CommandContext) -> Result<ExitCode> {
    let mut session = Session::open_after_failover(cx.place()?)?;
    let accepted = session.call(AcceptFailover {})?;
    cx.ui.answer(&accepted, |text| {
        let leases = words::count(accepted.leases, "lease");
        text.line(format!("Accepted {} instead of {}; ended {leases}", accepted.after, accepted.before));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn move_to(cx: &mut CommandContext, args: &MoveArgs) -> Result<ExitCode> {
    let mut source = cx.session()?;
    let place = source.place.with_store(&args.to)?;
    // The move creates the store when it writes to it, and a dry run does not.
    let mut destination = Session::open_existing(place)?;
    let (from, to) = (transfer::name(&source), transfer::name(&destination));
    if from == to {
        return Err(Error::invalid(format!("{to} is both the source and the destination"))
            .hint("choose the destination with --to, and the source with --db, --global or --scope"));
    }
    let request = Move { workflows: args.workflows.clone(), force: args.force, delete_source: args.delete_source };
    let busy = cx.ui.busy("Moving workflows");
    let outcome = if args.dry_run {
        transfer::dry_run(&mut source, &mut destination, &request)?
    } else {
        transfer::run(&mut source, &mut destination, &request)?
    };
    drop(busy);
    let mut data = serde_json::to_value(&outcome).unwrap_or_default();
    (data["from"], data["to"], data["written"]) = (json!(from), json!(to), json!(!args.dry_run));
    cx.ui.answer(&data, |text| {
        let Outcome { moved, there, refused, ended } = &outcome;
        let rows = |word: &'static str, style: Style, list: &[Moved]| -> Vec<Vec<Cell>> {
            let row = |one: &Moved| {
                let (tasks, checkpoints) =
                    (words::count(one.tasks, "task"), words::count(one.checkpoints, "checkpoint"));
                let why = one.reason.clone().unwrap_or_else(|| format!("{tasks}, {checkpoints}"));
                vec![styled(DIM, &one.id), cell(&one.name), styled(style, word), prose(why)]
            };
            list.iter().map(row).collect()
        };
        let verb = if args.dry_run { "would move" } else { "moved" };
        let mut all = rows(verb, GOOD, moved);
        all.extend(rows("already there", DIM, there));
        all.extend(rows(if args.dry_run { "would not move" } else { "not moved" }, WARN, refused));
        let number = all.len();
        text.list(header(["ID", "WORKFLOW", "ACTION", "DETAIL"]), all);
        let ends = if args.dry_run { "end" } else { "ended" };
        let ended = if *ended > 0 { format!(", and {ends} {ended} in the source") } else { String::new() };
        let verb = if args.dry_run { "Would move" } else { "Moved" };
        text.line(format!("{verb} {} of {} to {to}{ended}", moved.len(), words::count(number, "workflow")));
    })?;
    if args.dry_run || outcome.refused.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let refused = outcome.refused.len();
    let were = if refused == 1 { "was" } else { "were" };
    Err(Error::refused(format!("{} {were} not moved", words::count(refused, "workflow")))
        .hint("wait until agents have finished their tasks, or end their leases with --force"))
}

fn probe(cx: &mut CommandContext, writes: u32) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut times: Vec<f64> = Vec::new();
    let start = Instant::now();
    for number in 1..=writes {
        let one = Instant::now();
        let detail = json!({ "number": number, "of": writes });
        let recorded = session.call(RecordMaintenance { what: Maintenance::Probed, detail })?;
        let took = one.elapsed().as_secs_f64() * 1000.0;
        cx.ui.progress(&format!("event {} on disk after {took:.2} ms", recorded.sequence))?;
        times.push(took);
    }
    let per_second = f64::from(writes) / start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
    let data = json!({
        "writes": writes,
        "per_second": round(per_second),
        "ms": { "p50": round(percentile(50)), "p99": round(percentile(99)), "max": round(percentile(100)) },
    });
    cx.ui.answer(&data, |text| {
        text.line(format!(
            "{}, {per_second:.0} per second: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            words::count(writes, "write"),
            percentile(50),
            percentile(99),
            percentile(100)
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(count: u64) -> String {
    match count {
        ..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}
