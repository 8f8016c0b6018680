//! An operation that ran many times.

use std::time::Duration;

use super::results::{Bar, Compared, Part, Record, spread};
use crate::Result;

/// An operation that ran many times.
pub(super) struct Row {
    pub(super) name: String,
    /// Total time from the first start to the last end, without untimed parts.
    pub(super) all: Duration,
    pub(super) times: Vec<Duration>,
    /// A value that is no time, and its unit.
    value: Option<(f64, &'static str)>,
    comparison: Option<Compared>,
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

    pub(super) fn compare(&mut self, ratio: f64, bar: Option<Bar>, against: &str) {
        self.comparison = Some(Compared { ratio, bar, against: against.to_owned() });
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
        Record {
            name: self.name.clone(),
            runs: self.times.len(),
            times: spread(&self.times),
            rate: (!self.times.is_empty()).then(|| self.rate()),
            value: self.value.map(|(value, unit)| (value, unit.to_owned())),
            comparison: self.comparison.clone(),
            ..Record::default()
        }
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    }
}

impl Part {
    /// Measures a section. If it fails, the other sections are still measured.
    pub(super) fn section(&mut self, title: &str, measure: impl FnOnce() -> Result<Vec<Row>>) {
        eprintln!("measuring: {title}");
        match measure() {
            Ok(rows) => self.records.extend(rows.iter().map(Row::record)),
            Err(error) => self.fail(format!("{title}: {error}")),
        }
    }
}
