//! `way db`

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use waypost_core::op::{Maintenance, RecordMaintenance};
use waypost_core::{Kind, Result, path_text};

use crate::cli::Cx;
use crate::cli::ui::{BAD, BOLD, GOOD, cell, styled};

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
    let session = cx.session()?;
    let info = session.sqlite().info()?;
    let path = session.sqlite().path();
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
        "read_only": session.sqlite().is_read_only(),
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
        rows.extend(info.settings.iter().map(|(name, value)| vec![styled(BOLD, name), cell(value)]));
        rows.extend(info.rows.iter().map(|(name, count)| {
            vec![styled(BOLD, name), cell(if *count == 1 { "1 row".to_owned() } else { format!("{count} rows") })]
        }));
        text.table(&rows);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn check(cx: &mut Cx) -> Result<ExitCode> {
    let session = cx.session()?;
    let damage: Vec<String> = session.sqlite().check()?.into_iter().map(|damage| damage.0).collect();
    let data = json!({ "ok": damage.is_empty(), "damage": damage });
    cx.ui.answer(&data, |text| {
        if damage.is_empty() {
            text.table(&[vec![styled(GOOD, "ok"), cell(session.sqlite().path().display())]]);
        }
        for line in &damage {
            text.table(&[vec![styled(BAD, "damaged"), cell(line)]]);
        }
    })?;
    Ok(if damage.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Damaged.exit_code()) })
}

fn backup(cx: &mut Cx, file: &std::path::Path) -> Result<ExitCode> {
    let session = cx.session()?;
    let file = session.place.cwd.join(file);
    session.sqlite().backup(&file)?;
    let size = std::fs::metadata(&file).map_or(0, |file| file.len());
    let data = json!({ "path": path_text::to_text(&file), "bytes": size });
    cx.ui.answer(&data, |text| text.line(format!("Wrote {} to {}", bytes(size), file.display())))?;
    Ok(ExitCode::SUCCESS)
}

fn vacuum(cx: &mut Cx) -> Result<ExitCode> {
    let mut session = cx.session()?;
    let (before, after) = session.sqlite().vacuum()?;
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
