//! `way db`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use waypost_core::op::{Maintenance, RecordMaintenance};
use waypost_core::{Error, Kind, Result, path_text};
use waypost_store::postgres;
use waypost_store::sqlite::SqliteStore;

use crate::cli::Cx;
use crate::cli::ui::{BAD, BOLD, Cell, GOOD, cell, styled};
use crate::place::StoreChoice;
use crate::session::{OpenStore, Session};

/// Look after the store
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show what the store is and how large
    Info,
    /// Look for damage; exits with 9 if there is any
    Check,
    /// Write a copy of the store to a new file, while others go on working
    Backup {
        /// The file to make; it must not exist
        file: PathBuf,
    },
    /// Give back unused space
    Vacuum,
    /// Measure how long durable writes take here
    ///
    /// Each write is one event in the history, on disk before the next begins.
    Probe {
        /// How many writes
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        writes: u32,
    },
}

pub(crate) fn run(cx: &mut Cx, args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Info => info(cx),
        Command::Check => check(cx),
        Command::Backup { file } => backup(cx, file),
        Command::Vacuum => vacuum(cx),
        Command::Probe { writes } => probe(cx, *writes),
    }
}

fn info(cx: &mut Cx) -> Result<ExitCode> {
    let mut session = cx.session()?;
    if let OpenStore::Postgres(store) = session.store() {
        let (info, url) = (store.info()?, store.url().to_owned());
        return info_of_postgres(cx, &session.choice, &info, &url);
    }
    let store = file(&session, "")?;
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

fn info_of_postgres(cx: &mut Cx, choice: &StoreChoice, info: &postgres::Info, url: &str) -> Result<ExitCode> {
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
    let rows = rows.iter().map(|(name, count)| {
        vec![styled(BOLD, name), cell(if *count == 1 { "1 row".to_owned() } else { format!("{count} rows") })]
    });
    settings.chain(rows).collect()
}

/// Returns the store's file. Other stores are looked after with the tools of their database.
fn file<'a>(session: &'a Session, instead: &str) -> Result<&'a SqliteStore> {
    session.sqlite().ok_or_else(|| {
        Error::refused(format!("{} is not a file", session.choice.location)).hint(format!("on PostgreSQL: {instead}"))
    })
}

fn check(cx: &mut Cx) -> Result<ExitCode> {
    let session = cx.session()?;
    let store = file(&session, "pg_amcheck looks for damage")?;
    let damage: Vec<String> = store.check()?.into_iter().map(|damage| damage.0).collect();
    let data = json!({ "ok": damage.is_empty(), "damage": damage });
    cx.ui.answer(&data, |text| {
        if damage.is_empty() {
            text.table(&[vec![styled(GOOD, "ok"), cell(store.path().display())]]);
        }
        for line in &damage {
            text.table(&[vec![styled(BAD, "damaged"), cell(line)]]);
        }
    })?;
    Ok(if damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Damaged.exit_code()) })
}

fn backup(cx: &mut Cx, target: &std::path::Path) -> Result<ExitCode> {
    let session = cx.session()?;
    let target = session.place.cwd.join(target);
    file(&session, "pg_dump --schema NAME writes a copy")?.backup(&target)?;
    let size = std::fs::metadata(&target).map_or(0, |file| file.len());
    let data = json!({ "path": path_text::to_text(&target), "bytes": size });
    cx.ui.answer(&data, |text| text.line(format!("Wrote {} to {}", bytes(size), target.display())))?;
    Ok(ExitCode::SUCCESS)
}

fn vacuum(cx: &mut Cx) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let (before, after) = file(&session, "the server gives back space by itself, with autovacuum")?.vacuum()?;
    let data = json!({ "bytes_before": before, "bytes_after": after });
    session.write(RecordMaintenance { what: Maintenance::Vacuumed, detail: data.clone() })?;
    cx.ui.answer(&data, |text| text.line(format!("{} before, {} now", bytes(before), bytes(after))))?;
    Ok(ExitCode::SUCCESS)
}

fn probe(cx: &mut Cx, writes: u32) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let mut times: Vec<f64> = Vec::new();
    let start = Instant::now();
    for number in 1..=writes {
        let one = Instant::now();
        let detail = json!({ "number": number, "of": writes });
        let recorded = session.write(RecordMaintenance { what: Maintenance::Probed, detail })?;
        let took = one.elapsed().as_secs_f64() * 1000.0;
        cx.ui.progress(&format!("event {} is on disk after {took:.2} ms", recorded.sequence))?;
        times.push(took);
    }
    let per_second = f64::from(writes) / start.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let data = json!({
        "writes": writes,
        "per_second": round(per_second),
        "ms": { "p50": round(at(50)), "p99": round(at(99)), "max": round(at(100)) },
    });
    cx.ui.answer(&data, |text| {
        text.line(format!(
            "{writes} writes, {per_second:.0} a second: half within {:.2} ms, 99 of 100 within {:.2} ms, all within {:.2} ms",
            at(50),
            at(99),
            at(100)
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
