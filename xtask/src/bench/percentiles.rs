//! A table of repeated operations: rate, median and 99th percentile.

use std::fmt::Write as _;
use std::time::Duration;

use super::cases::format_ratio;
use crate::Result;

/// The limit of a ratio.
#[derive(Clone, Copy)]
pub(super) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

/// An operation that ran many times.
pub(super) struct Row {
    pub(super) name: String,
    /// Total time from the first start to the last end, without untimed parts.
    pub(super) all: Duration,
    pub(super) times: Vec<Duration>,
    comparison: Option<Comparison>,
}

struct Comparison {
    ratio: f64,
    bar: Option<Bar>,
    against: String,
}

impl Row {
    pub(super) fn new(name: String) -> Row {
        Row { name, all: Duration::ZERO, times: Vec::new(), comparison: None }
    }

    /// Parses a name, the total nanoseconds, and those of each run.
    pub(super) fn parse(line: &str) -> Result<Row> {
        let mut parts = line.split('\t');
        let name = parts.next().unwrap_or_default().to_owned();
        let nanoseconds =
            |text: &str| text.parse().map(Duration::from_nanos).map_err(|_| format!("no number in {line}"));
        let all = nanoseconds(parts.next().unwrap_or_default())?;
        let times: Result<_> = parts.next().unwrap_or_default().split_whitespace().map(nanoseconds).collect();
        Ok(Row { all, times: times?, ..Row::new(name) })
    }

    pub(super) fn push(&mut self, time: Duration) {
        self.all += time;
        self.times.push(time);
    }

    /// Adds the runs of another row.
    pub(super) fn merge(&mut self, other: &Row) {
        self.all += other.all;
        self.times.extend(&other.times);
    }

    pub(super) fn compare(&mut self, ratio: f64, bar: Option<Bar>, against: &str) {
        self.comparison = Some(Comparison { ratio, bar, against: against.to_owned() });
    }

    /// Returns the runs per second.
    pub(super) fn rate(&self) -> f64 {
        f64::from(u32::try_from(self.times.len()).unwrap_or(u32::MAX)) / self.all.as_secs_f64()
    }

    pub(super) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the 99th percentile.
    pub(super) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    }
}

impl Comparison {
    fn is_missed(&self) -> bool {
        match self.bar {
            Some(Bar::AtMost(bar)) => self.ratio > bar,
            Some(Bar::AtLeast(bar)) => self.ratio < bar,
            None => false,
        }
    }
}

/// Rows under titles.
#[derive(Default)]
pub(super) struct Table(Vec<(String, Vec<Row>)>);

impl Table {
    pub(super) fn title(&mut self, title: String) {
        eprintln!("measuring: {title}");
        self.0.push((title, Vec::new()));
    }

    /// Adds rows under the last title.
    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        if let Some((_, last)) = self.0.last_mut() {
            last.extend(rows);
        }
    }

    /// Prints the table. If `enforce`, a missed bar is an error.
    pub(super) fn report(&self, enforce: bool) -> Result {
        let mut missed = Vec::new();
        let names = self.0.iter().flat_map(|(title, rows)| rows.iter().map(|row| &row.name).chain([title]));
        let width = names.map(String::len).max().unwrap_or_default();
        for (title, rows) in &self.0 {
            println!(
                "\n{title:<width$} {:>6} {:>9} {:>9} {:>9} {:>7} {:>6}         against",
                "times", "per s", "p50 ms", "p99 ms", "ratio", "bar"
            );
            for row in rows {
                println!("{}", line(row, width));
                if row.comparison.as_ref().is_some_and(Comparison::is_missed) {
                    missed.push(format!("{title}: {}", row.name));
                }
            }
        }
        if enforce && !missed.is_empty() {
            return Err(format!("bars missed: {}", missed.join("; ")));
        }
        Ok(())
    }
}

fn line(row: &Row, width: usize) -> String {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut line = format!("{:<width$} {:>6}", row.name, row.times.len());
    if row.times.is_empty() {
        line += &" ".repeat(30);
    } else {
        let (median, slow) = (milliseconds(row.median()), milliseconds(row.p99()));
        let _ = write!(line, " {:>9.1} {median:>9.3} {slow:>9.3}", row.rate());
    }
    if let Some(comparison) = &row.comparison {
        let bar = match comparison.bar {
            Some(Bar::AtMost(bar)) => format!("<= {bar}"),
            Some(Bar::AtLeast(bar)) => format!(">= {bar}"),
            None => String::new(),
        };
        let missed = if comparison.is_missed() { "MISSED" } else { "" };
        let _ = write!(line, " {:>7} {bar:>6} {missed:<6}  {}", format_ratio(comparison.ratio), comparison.against);
    }
    line
}
