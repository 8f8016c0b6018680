//! A table of repeated operations: rate, median and 99th percentile.

use std::fmt::Write as _;
use std::time::Duration;

use super::cases::format_ratio;
use super::results::{Compared, Record, spread};
use crate::Result;

/// The limit of a ratio.
#[derive(Clone, Copy)]
pub(super) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn text(self) -> String {
        match self {
            Bar::AtMost(bar) => format!("<= {bar}"),
            Bar::AtLeast(bar) => format!(">= {bar}"),
        }
    }
}

/// An operation that ran many times.
pub(super) struct Row {
    pub(super) name: String,
    /// Total time from the first start to the last end, without untimed parts.
    pub(super) all: Duration,
    pub(super) times: Vec<Duration>,
    /// A value that is no time, and its unit.
    value: Option<(f64, &'static str)>,
    comparison: Option<Comparison>,
}

struct Comparison {
    ratio: f64,
    bar: Option<Bar>,
    against: String,
}

impl Row {
    pub(super) fn new(name: String) -> Row {
        Row { name, all: Duration::ZERO, times: Vec::new(), value: None, comparison: None }
    }

    /// Returns a row with a value that is no time.
    pub(super) fn with_value(name: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { value: Some((value, unit)), ..Row::new(name.into()) }
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

    fn record(&self) -> Record {
        let comparison = self.comparison.as_ref().map(|comparison| Compared {
            ratio: comparison.ratio,
            bar: comparison.bar.map(Bar::text),
            is_missed: comparison.is_missed(),
            against: comparison.against.clone(),
        });
        Record {
            name: self.name.clone(),
            runs: self.times.len() as u64,
            times: spread(&self.times),
            rate: (!self.times.is_empty()).then(|| self.rate()),
            value: self.value.map(|(value, unit)| (value, unit.to_owned())),
            comparison,
            ..Record::default()
        }
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
pub(super) struct Table {
    sections: Vec<(String, Vec<Row>)>,
    /// Sections that could not be measured, with the error.
    failures: Vec<String>,
}

impl Table {
    /// Adds rows under the last title.
    fn extend(&mut self, rows: impl IntoIterator<Item = Row>) {
        if let Some((_, last)) = self.sections.last_mut() {
            last.extend(rows);
        }
    }

    /// Measures a section. If it fails, the other sections are still measured.
    pub(super) fn section(&mut self, title: &str, measure: impl FnOnce() -> Result<Vec<Row>>) {
        eprintln!("measuring: {title}");
        self.sections.push((title.to_owned(), Vec::new()));
        match measure() {
            Ok(rows) => self.extend(rows),
            Err(error) => self.fail(format!("{title}: {error}")),
        }
    }

    /// Notes that something could not be measured.
    pub(super) fn fail(&mut self, failure: String) {
        eprintln!("FAILED: {failure}");
        self.failures.push(failure);
    }

    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Returns the results.
    pub(super) fn records(&self) -> Vec<Record> {
        self.sections.iter().flat_map(|(_, rows)| rows).map(Row::record).collect()
    }

    /// Prints the table. If `enforce`, a missed bar is an error, and so is a section that failed.
    pub(super) fn report(&self, enforce: bool) -> Result {
        let mut missed = Vec::new();
        let names = self.sections.iter().flat_map(|(title, rows)| rows.iter().map(|row| &row.name).chain([title]));
        let width = names.map(String::len).max().unwrap_or_default();
        for (title, rows) in &self.sections {
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
        for failure in &self.failures {
            println!("FAILED: {failure}");
        }
        if enforce && let Some(failure) = self.failures.first() {
            return Err(failure.clone());
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
    if let Some((value, unit)) = row.value {
        let _ = write!(line, " {:>29}", format!("{value:.1} {unit}"));
    } else if row.times.is_empty() {
        line += &" ".repeat(30);
    } else {
        let (median, slow) = (milliseconds(row.median()), milliseconds(row.p99()));
        let _ = write!(line, " {:>9.1} {median:>9.3} {slow:>9.3}", row.rate());
    }
    if let Some(comparison) = &row.comparison {
        let bar = comparison.bar.map(Bar::text).unwrap_or_default();
        let missed = if comparison.is_missed() { "MISSED" } else { "" };
        let _ = write!(line, " {:>7} {bar:>6} {missed:<6}  {}", format_ratio(comparison.ratio), comparison.against);
    }
    line
}
