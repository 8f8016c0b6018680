//! The page with all results: docs/performance.md and its plots.
//!
//! The page is written by hand. Only text between `<!-- bench: NAME -->` and `<!-- end of NAME -->` is replaced. A quick
//! benchmark writes its page into the target directory instead.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::options::Options;
use super::plot::{self, Line, Panel, Plot};
use super::results::{self, Part, Record, thousands};
use super::scratch::{bench_dir, create_dir, write as write_file};
use crate::tidy::read;
use crate::{Result, root};

const PAGE: &str = "docs/performance.md";
const IMAGES: &str = "docs/images";

/// Commands on issues, by the names of their rows. The first ones are in the plot.
const ISSUE_COMMANDS: [&str; 16] = [
    "way add",
    "way close",
    "way ready",
    "way list --limit 50",
    "way show",
    "way stats",
    "way search, a common word",
    "way prune",
    "way update",
    "way search, two words",
    "way list --status closed",
    "way list --sort updated",
    "way list --label",
    "way ready, one line changed",
    "way ready, no index",
    "way merge-driver",
];
const PLOTTED_COMMANDS: usize = 8;
/// Floors and other programs on the same issues.
const ISSUE_PEERS: [&str; 6] =
    ["durable replacement", "parse and insert", "git status", "git commit", "task add x", "task list"];
const TASK_OPERATIONS: [&str; 6] = [
    "claim on SQLite",
    "finish on SQLite",
    "list 50 tasks on SQLite",
    "claim on PostgreSQL",
    "finish on PostgreSQL",
    "list 50 tasks on PostgreSQL",
];
const PLOTTED_OPERATIONS: usize = 4;
const STORE_OPERATIONS: [&str; 13] = [
    "create workflow",
    "plan of 50 tasks",
    "claim",
    "checkpoint",
    "heartbeat",
    "send message",
    "next",
    "finish",
    "context",
    "way task claim",
    "way task checkpoint",
    "way task heartbeat",
    "way task next",
];
const STORE_PROCESSES: &str = "claim, checkpoint and finish by processes on SQLite";
const FAIRNESS: &str = "fairness (Jain index)";
const LEDGER_PROCESSES: &str = "way add by processes";

/// Writes the page and its plots from the results of the last benchmarks.
pub(super) fn write(options: &Options) -> Result {
    let results = Results::load(&results::dir(&bench_dir(), options))?;
    let dir = if options.quick { bench_dir().join("quick/docs") } else { root().join("docs") };
    let images = options.pick(root().join(IMAGES), dir.join("images"));
    create_dir(&images)?;
    let mut page = read(&root().join(PAGE))?;
    if options.quick {
        page = page.replacen("# Performance\n", QUICK_TITLE, 1);
    }
    let plots = plots(&results);
    for (name, region) in regions(&results) {
        let picture =
            plots.iter().find(|(plot, _)| *plot == name).and_then(|(_, plot)| plot::draw(plot).zip(Some(plot.title)));
        let text = match &picture {
            Some((_, title)) => format!("![{title}](images/performance-{name}.svg)\n\n{region}"),
            None => region,
        };
        if let Some((picture, _)) = picture {
            write_file(&images.join(format!("performance-{name}.svg")), &[&picture])?;
        }
        page = replaced(&page, name, &text)?;
    }
    let path: PathBuf = dir.join("performance.md");
    write_file(&path, &[&page])?;
    println!("wrote {}", path.display());
    Ok(())
}

const QUICK_TITLE: &str = "# Performance\n\n**These numbers are of a quick run with little data: they only show that the \
    benchmark works.**\n";

/// Replaces the text of a region.
fn replaced(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench: {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{PAGE} has no region {name}"))?;
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", text.trim()))
}

/// The results of all benchmarks.
struct Results {
    machine: Vec<(String, String)>,
    parts: Vec<(&'static str, Option<Part>)>,
}

const PARTS: [&str; 6] = ["startup", "ledger", "store", "server", "workspace", "dashboard"];

impl Results {
    fn load(dir: &Path) -> Result<Results> {
        let path = dir.join("machine.json");
        let text = read(&path).map_err(|error| format!("{error}\nrun cargo xtask bench all first"))?;
        let facts: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let machine = facts.as_array().into_iter().flatten().map(|fact| (text(&fact[0]), text(&fact[1]))).collect();
        let parts = PARTS.into_iter().map(|name| Ok((name, results::load(dir, name)?))).collect::<Result<_>>()?;
        Ok(Results { machine, parts })
    }

    fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|(known, _)| *known == name)?.1.as_ref()
    }

    fn records(&self, part: &str) -> &[Record] {
        self.part(part).map_or(&[], |part| &part.records)
    }

    fn record(&self, part: &str, name: &str) -> Option<&Record> {
        self.records(part).iter().find(|record| record.name == name)
    }

    /// Returns the rows of a series with their sizes, in order.
    fn series(&self, part: &str, name: &str) -> Vec<(u64, &Record)> {
        let sized = self.records(part).iter().filter_map(|record| match record.series() {
            (series, Some(size)) if series == name => Some((size, record)),
            _ => None,
        });
        let mut sized: Vec<_> = sized.collect();
        sized.sort_by_key(|(size, _)| *size);
        sized
    }

    /// Returns a line of a plot.
    fn line(&self, part: &str, series: &str, label: &str, value: impl Fn(&Record) -> Option<f64>) -> Line {
        let sized = self.series(part, series).into_iter();
        #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
        let points = sized.filter_map(|(size, record)| Some((size as f64, value(record)?))).collect();
        Line { name: label.to_owned(), points, is_other: false }
    }
}

fn plots(results: &Results) -> Vec<(&'static str, Plot)> {
    let median = |record: &Record| record.times.map(|times| times[0]);
    let other = |line: Line| Line { is_other: true, ..line };
    let mut commands: Vec<Line> =
        ISSUE_COMMANDS[..PLOTTED_COMMANDS].iter().map(|name| results.line("ledger", name, name, median)).collect();
    commands.extend(["git commit", "task list"].map(|name| other(results.line("ledger", name, name, median))));
    if let Some(trivial) = results.record("ledger", "trivial program").and_then(median) {
        let points = results.line("ledger", "way ready", "", median).points;
        let points = points.into_iter().map(|(size, _)| (size, trivial)).collect();
        commands.push(Line { name: "trivial program".to_owned(), points, is_other: true });
    }
    let tasks = TASK_OPERATIONS[..PLOTTED_OPERATIONS].iter().map(|name| results.line("store", name, name, median));
    let rate = |record: &Record| record.rate;
    let (p99, longest) =
        (|record: &Record| record.times.map(|times| times[3]), |record: &Record| record.times.map(|times| times[4]));
    let processes = [
        ("store", STORE_PROCESSES, "store: claim, checkpoint, finish"),
        ("ledger", LEDGER_PROCESSES, "ledger: way add"),
    ];
    let by_process = |value: &dyn Fn(&Record) -> Option<f64>| {
        processes.iter().map(|(part, series, label)| results.line(part, series, label, value)).collect()
    };
    let server = |series: &str, label: &str, value: &dyn Fn(&Record) -> Option<f64>| {
        results.line("server", series, label, value)
    };
    vec![
        (
            "issues",
            Plot {
                title: "Time of commands by number of issues",
                x_label: "issues in the ledger",
                panels: vec![Panel { title: "Whole command, median milliseconds", lines: commands }],
            },
        ),
        (
            "tasks",
            Plot {
                title: "Time of operations by number of tasks",
                x_label: "tasks in the store",
                panels: vec![Panel { title: "Operation, median milliseconds", lines: tasks.collect() }],
            },
        ),
        (
            "processes",
            Plot {
                title: "Writes by number of processes",
                x_label: "processes at once",
                panels: vec![
                    Panel { title: "Writes per second, all processes together", lines: by_process(&rate) },
                    Panel { title: "Longest wait of one write, milliseconds", lines: by_process(&longest) },
                ],
            },
        ),
        (
            "connections",
            Plot {
                title: "Writes by number of connections to the server",
                x_label: "connections at full speed",
                panels: vec![
                    Panel {
                        title: "Writes per second, all connections together",
                        lines: vec![
                            server("checkpoints on connections", "checkpoints", &rate),
                            server("heartbeats on connections", "heartbeats", &rate),
                        ],
                    },
                    Panel {
                        title: "Milliseconds of one request",
                        lines: vec![
                            server("checkpoints on connections", "checkpoint, median", &median),
                            server("checkpoints on connections", "checkpoint, 99th percentile", &p99),
                            server("reads beside writers", "read beside writers, median", &median),
                            server("reads beside writers", "read beside writers, 99th", &p99),
                        ],
                    },
                ],
            },
        ),
    ]
}

/// Returns the text of every region.
fn regions(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("method", method(results)),
        ("startup", with_failures(results, "startup", startup(results))),
        ("issues", with_failures(results, "ledger", issues(results))),
        ("tasks", with_failures(results, "store", tasks(results))),
        ("store", store(results)),
        ("processes", processes(results)),
        ("connections", with_failures(results, "server", connections(results))),
        ("memory", memory(results)),
        ("workspaces", with_failures(results, "workspace", values(results, "workspace"))),
        ("dashboard", with_failures(results, "dashboard", values(results, "dashboard"))),
        ("bars", bars(results)),
    ]
}

/// Adds what could not be measured.
fn with_failures(results: &Results, part: &str, text: String) -> String {
    match results.part(part) {
        None => format!("`cargo xtask bench {part}` failed in this run: nothing was measured."),
        Some(found) if found.failures.is_empty() => text,
        Some(found) => {
            let first_lines = found.failures.iter().map(|failure| failure.lines().next().unwrap_or_default());
            format!("{text}\n\nNot measured in this run: {}.", first_lines.collect::<Vec<_>>().join("; "))
        }
    }
}

fn method(results: &Results) -> String {
    let mut rows: Vec<Vec<String>> =
        results.machine.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
    let seconds =
        results.parts.iter().filter_map(|(name, part)| Some(format!("{name} {:.0} s", part.as_ref()?.seconds)));
    rows.push(vec!["time of each benchmark".to_owned(), seconds.collect::<Vec<_>>().join(", ")]);
    table(&["", "l"], &["this run", ""], rows)
}

fn startup(results: &Results) -> String {
    let rows = results.records("startup").iter().map(|record| {
        let ratio = record.comparison.as_ref().map(|compared| digits(compared.ratio)).unwrap_or_default();
        let cpu = record.cpu.map(digits).unwrap_or_default();
        vec![record.name.clone(), time(record), cpu, ratio, rerun("startup", &record.name)]
    });
    table(&["l", "r", "r", "r", "l"], &["program", "ms", "CPU ms", "of a trivial program", RERUN], rows.collect())
}

fn issues(results: &Results) -> String {
    let commands = ISSUE_COMMANDS.into_iter().chain(ISSUE_PEERS);
    let text = growth(results, "ledger", commands.map(|name| (name, name)), "command", "issues");
    let others = results.records("ledger").iter();
    let others =
        others.filter(|record| ["way ready, 3 x", "ready() of"].iter().any(|name| record.name.starts_with(name)));
    let rows: Vec<_> =
        others.map(|record| vec![code(&record.name), time(record), rerun("ledger", &record.name)]).collect();
    if rows.is_empty() {
        text
    } else {
        format!("{text}\n\n{}", table(&["l", "r", "l"], &["three ledgers", "ms", RERUN], rows))
    }
}

fn tasks(results: &Results) -> String {
    growth(results, "store", TASK_OPERATIONS.map(|name| (name, name)).into_iter(), "operation", "tasks")
}

/// Returns a table with a row for each series, a column for each size, and the growth.
fn growth<'a>(
    results: &Results,
    part: &str,
    all: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    what: &str,
    unit: &str,
) -> String {
    let found: Vec<(&str, Vec<(u64, &Record)>)> =
        all.map(|(name, label)| (label, results.series(part, name))).filter(|(_, sized)| !sized.is_empty()).collect();
    let mut sizes: Vec<u64> = found.iter().flat_map(|(_, sized)| sized.iter().map(|(size, _)| *size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut head = vec![what.to_owned()];
    head.extend(sizes.iter().map(|size| format!("{} {unit}", thousands(*size))));
    head.extend(["growth".to_owned(), RERUN.to_owned()]);
    let rows = found.into_iter().map(|(name, sized)| {
        let mut row = vec![code(name)];
        for size in &sizes {
            row.push(sized.iter().find(|(known, _)| known == size).map(|(_, record)| time(record)).unwrap_or_default());
        }
        let median =
            |record: Option<&(u64, &Record)>| record.and_then(|(_, record)| record.times).map(|times| times[0]);
        let growth = match (median(sized.first()), median(sized.last())) {
            (Some(first), Some(last)) if sized.len() > 1 => format!("{}x", digits(last / first)),
            _ => String::new(),
        };
        row.extend([growth, rerun(part, &format!("{name}, "))]);
        row
    });
    let mut aligned = vec!["l"];
    aligned.extend(sizes.iter().map(|_| "r"));
    aligned.extend(["r", "l"]);
    table(&aligned, &head.iter().map(String::as_str).collect::<Vec<_>>(), rows.collect())
}

fn store(results: &Results) -> String {
    let cell = |name: &str, database: &str| {
        let times = results.record("store", &format!("{name} on {database}")).and_then(|record| record.times);
        times.map(|[median, _, _, p99, _]| format!("{} / {}", digits(median), digits(p99))).unwrap_or_default()
    };
    let rows = STORE_OPERATIONS.into_iter().map(|name| {
        vec![code(name), cell(name, "SQLite"), cell(name, "PostgreSQL"), rerun("store", &format!("{name} on"))]
    });
    let mut text = table(
        &["l", "r", "r", "l"],
        &["operation", "SQLite p50 / p99 ms", "PostgreSQL p50 / p99 ms", RERUN],
        rows.collect(),
    );
    let claims = ["claims on PostgreSQL", "pgbench, the same statements"].map(|name| results.record("store", name));
    if let [Some(claims), Some(pgbench)] = claims {
        let cells = |record: &Record| {
            let times = record.times.unwrap_or_default();
            [rate(record), digits(times[0]), digits(times[3])]
        };
        let row = |name: &str, record: &Record| {
            let mut row = vec![name.to_owned()];
            row.extend(cells(record));
            row.push(rerun("store", "claims on PostgreSQL"));
            row
        };
        let rows = vec![row("claims by 10 connections", claims), row("pgbench with the same statements", pgbench)];
        text += "\n\n";
        text += &table(&["l", "r", "r", "r", "l"], &["PostgreSQL", "per second", "p50 ms", "p99 ms", RERUN], rows);
    }
    text
}

fn processes(results: &Results) -> String {
    let (store, ledger) = (results.series("store", STORE_PROCESSES), results.series("ledger", LEDGER_PROCESSES));
    let fairness = results.series("store", FAIRNESS);
    let rows = store.iter().map(|(processes, record)| {
        let longest = |record: &Record| record.times.map(|times| digits(times[4])).unwrap_or_default();
        let add = ledger.iter().find(|(known, _)| known == processes).map(|(_, record)| *record);
        let fair = fairness.iter().find(|(known, _)| known == processes).and_then(|(_, record)| record.value.clone());
        vec![
            thousands(*processes),
            rate(record),
            longest(record),
            fair.map(|(value, _)| format!("{value:.2}")).unwrap_or_default(),
            add.map(rate).unwrap_or_default(),
            add.map(longest).unwrap_or_default(),
        ]
    });
    let head = [
        "processes",
        "store: writes per second",
        "longest wait ms",
        "fairness",
        "ledger: `way add` per second",
        "longest wait ms",
    ];
    let text = table(&["r"; 6], &head, rows.collect());
    format!(
        "{text}\n\nRerun: {} and {}.",
        rerun_command("store", "by processes"),
        rerun_command("ledger", LEDGER_PROCESSES)
    )
}

fn connections(results: &Results) -> String {
    let [checkpoints, heartbeats, reads, bytes] = [
        "checkpoints on connections",
        "heartbeats on connections",
        "reads beside writers",
        "bytes written per checkpoint",
    ]
    .map(|name| results.series("server", name));
    let at = |all: &[(u64, &Record)], size: u64| -> Option<Record> {
        all.iter().find(|(known, _)| *known == size).map(|(_, record)| (*record).clone())
    };
    let p = |record: &Option<Record>, number: usize| {
        record.as_ref().and_then(|record| record.times).map(|times| digits(times[number])).unwrap_or_default()
    };
    let rows = checkpoints.iter().map(|(size, record)| {
        let (beats, reads, bytes) = (at(&heartbeats, *size), at(&reads, *size), at(&bytes, *size));
        let record = Some((*record).clone());
        vec![
            thousands(*size),
            record.as_ref().map(rate).unwrap_or_default(),
            p(&record, 0),
            p(&record, 3),
            bytes.and_then(|record| record.value).map(|(bytes, _)| kb(bytes)).unwrap_or_default(),
            beats.as_ref().map(rate).unwrap_or_default(),
            p(&beats, 3),
            p(&reads, 0),
            p(&reads, 3),
        ]
    });
    let head = [
        "connections",
        "checkpoints per second",
        "p50 ms",
        "p99 ms",
        "KB written for each",
        "heartbeats per second",
        "p99 ms",
        "reads beside writers p50 ms",
        "p99 ms",
    ];
    let text = table(&["r"; 9], &head, rows.collect());
    let names = ["next", "list 50 tasks", "claim, and finish what was claimed", "checkpoint", "heartbeat"];
    let clients = names.iter().chain(&["axum, one SQLite statement", "claims, checkpoints and finishes"]);
    let rows = clients.filter_map(|name| results.record("server", name)).map(|record| {
        let times = record.times.unwrap_or_default();
        vec![record.name.clone(), rate(record), digits(times[0]), digits(times[3]), rerun("server", &record.name)]
    });
    let calls =
        table(&["l", "r", "r", "r", "l"], &["operation", "per second", "p50 ms", "p99 ms", RERUN], rows.collect());
    let command = rerun_command("server", "on connections");
    format!(
        "{text}\n\nRerun: {command}.\n\nTen clients at full speed, each waiting for its answer; in the last row 150 clients \
         with ten writes per second each:\n\n{calls}"
    )
}

fn memory(results: &Results) -> String {
    let mib = |record: &Record| record.peak.map(|kib| format!("{:.1}", kib / 1024.0)).unwrap_or_default();
    let written = |record: &Record| record.written.map(kb).unwrap_or_default();
    let mut rows = Vec::new();
    for name in ISSUE_COMMANDS.into_iter().chain(ISSUE_PEERS) {
        if let Some((size, record)) = results.series("ledger", name).pop()
            && record.peak.is_some()
        {
            let of = format!("{} issues", thousands(size));
            rows.push(vec![code(name), of, mib(record), written(record), rerun("ledger", &record.name)]);
        }
    }
    for record in results.records("store").iter().filter(|record| record.peak.is_some()) {
        let (name, size) = record.series();
        let of = format!("{} tasks", thousands(size.unwrap_or_default()));
        rows.push(vec![code(name), of, mib(record), written(record), rerun("store", &record.name)]);
    }
    let commands = table(&["l", "l", "r", "r", "l"], &["command", "with", "peak MiB", "KB written", RERUN], rows);
    let mut sizes = Vec::new();
    for part in ["ledger", "store", "server"] {
        for record in results.records(part) {
            if let Some((value, unit)) = &record.value
                && ["per issue", "per task", "memory of"].iter().any(|word| record.name.contains(word))
            {
                sizes.push(vec![record.name.clone(), format!("{} {unit}", digits(*value)), rerun(part, &record.name)]);
            }
        }
    }
    let sizes = table(&["l", "r", "l"], &["on the disk, and in the memory of the server", "", RERUN], sizes);
    format!("{commands}\n\n{sizes}")
}

/// Returns a table of all rows of a benchmark: times, or values with their units.
fn values(results: &Results, part: &str) -> String {
    let rows = results.records(part).iter().map(|record| {
        let value = match &record.value {
            Some((value, unit)) => format!("{} {unit}", digits(*value)),
            None => format!("{} ms", time(record)),
        };
        let ratio = record.comparison.as_ref();
        let against = ratio.map(|compared| format!("{} of {}", digits(compared.ratio), compared.against));
        vec![record.name.clone(), value, against.unwrap_or_default()]
    });
    let text = table(&["l", "r", "l"], &["measured", "", "compared"], rows.collect());
    format!("{text}\n\nRerun: `cargo xtask bench {part}`.")
}

/// Returns a table of all bars, those that were missed first.
fn bars(results: &Results) -> String {
    let mut rows = Vec::new();
    for (part, _) in &results.parts {
        for record in results.records(part) {
            if let Some(compared) = &record.comparison
                && let Some(bar) = &compared.bar
            {
                let verdict = if compared.is_missed { "**missed**" } else { "" };
                rows.push(vec![
                    record.name.clone(),
                    digits(compared.ratio),
                    bar.replace("<=", "at most").replace(">=", "at least"),
                    compared.against.clone(),
                    verdict.to_owned(),
                    rerun(part, &record.name),
                ]);
            }
        }
    }
    rows.sort_by_key(|row| row[4].is_empty());
    let head = ["row", "ratio", "bar", "compared with", "", RERUN];
    table(&["l", "r", "r", "l", "l", "l"], &head, rows)
}

/// The title of the column with the rest of the command that measures a row again.
const RERUN: &str = "`cargo xtask bench` …";

fn rerun(part: &str, only: &str) -> String {
    format!("`{part} --only '{}'`", only.trim_end())
}

fn rerun_command(part: &str, only: &str) -> String {
    format!("`cargo xtask bench {part} --only '{only}'`")
}

/// Writes a name as code if it is a command.
fn code(name: &str) -> String {
    let (command, rest) = name.split_once(" on ").map_or((name, ""), |(command, rest)| (command, rest));
    let (command, detail) = command.split_once(", ").map_or((command, ""), |(command, detail)| (command, detail));
    if !["way ", "git ", "task "].iter().any(|program| command.starts_with(program)) {
        return name.to_owned();
    }
    let (separator, on) = (if detail.is_empty() { "" } else { ", " }, if rest.is_empty() { "" } else { " on " });
    format!("`{command}`{separator}{detail}{on}{rest}")
}

/// Writes the median and the range of most runs.
fn time(record: &Record) -> String {
    let Some([median, low, high, ..]) = record.times else { return String::new() };
    if record.runs < 3 { digits(median) } else { format!("{} ({} to {})", digits(median), digits(low), digits(high)) }
}

fn rate(record: &Record) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is rounded, and not negative")]
    record.rate.map(|rate| thousands(rate.round() as u64)).unwrap_or_default()
}

fn kb(bytes: f64) -> String {
    digits(bytes / 1000.0)
}

/// Writes a number with its significant digits.
fn digits(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is rounded, and not negative")]
    match value {
        value if value >= 100.0 => thousands(value.round() as u64),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        value => format!("{value:.4}"),
    }
}

/// Writes a table. Alignments are `l` and `r`.
fn table(aligned: &[&str], head: &[&str], rows: Vec<Vec<String>>) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | ").replace("  ", " "));
    let mut lines = vec![line(head.iter().map(ToString::to_string).collect())];
    let rule = aligned.iter().map(|aligned| if *aligned == "r" { "---:" } else { "---" });
    lines.push(format!("|{}|", rule.collect::<Vec<_>>().join("|")));
    lines.extend(rows.into_iter().map(line));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_region_is_replaced() {
        let page = "# Title\n<!-- bench: a -->\nold\n<!-- end of a -->\nprose\n";
        let new = replaced(page, "a", "new").unwrap();
        assert_eq!(new, "# Title\n<!-- bench: a -->\n\nnew\n\n<!-- end of a -->\nprose\n");
        assert_eq!(replaced(&new, "a", "new").unwrap(), new);
        assert!(replaced(page, "b", "new").is_err());
    }

    #[test]
    fn the_page_has_every_region() {
        let page = read(&root().join(PAGE)).unwrap();
        let none = Results { machine: Vec::new(), parts: Vec::new() };
        for (name, _) in regions(&none) {
            assert!(replaced(&page, name, "").is_ok(), "no region {name}");
        }
    }

    #[test]
    fn growth_compares_the_largest_with_the_smallest() {
        let record = |name: &str, time: f64| Record {
            name: name.to_owned(),
            runs: 1,
            times: Some([time; 5]),
            ..Record::default()
        };
        let records = vec![record("way add, 1,000", 2.0), record("way add, 100,000", 5.0), record("way add", 1.0)];
        let part = Part { records, failures: Vec::new(), seconds: 1.0 };
        let results = Results { machine: Vec::new(), parts: vec![("ledger", Some(part))] };
        let text = issues(&results);
        assert_eq!(text.lines().last().unwrap(), "| `way add` | 2.00 | 5.00 | 2.50x | `ledger --only 'way add,'` |");
    }

    #[test]
    fn commands_are_written_as_code() {
        let names = ["way search, a common word", "way task claim on SQLite", "claim on SQLite"];
        assert_eq!(names.map(code), ["`way search`, a common word", "`way task claim` on SQLite", "claim on SQLite"]);
    }
}
