//! The results of a benchmark: rows with times or values, comparisons with bars, and a table of them.

use std::time::Duration;

use super::options::Options;
use crate::Result;

/// A measured row. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// The name, which `--only` selects.
    pub(super) name: String,
    pub(super) runs: usize,
    /// Times in milliseconds: the median, the 10th and 90th percentiles, the 99th, and the longest.
    pub(super) times: Option<[f64; 5]>,
    /// Runs per second.
    pub(super) rate: Option<f64>,
    /// User and system time in milliseconds.
    pub(super) cpu: Option<f64>,
    /// Peak memory in MiB.
    pub(super) peak: Option<f64>,
    /// Kilobytes that the process wrote to files.
    pub(super) written: Option<f64>,
    /// A value that is no time, and its unit.
    pub(super) value: Option<(f64, String)>,
    pub(super) comparison: Option<Compared>,
}

/// A ratio to another row or to a limit, and its bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) ratio: f64,
    pub(super) bar: Option<Bar>,
    pub(super) against: String,
}

/// The limit of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Compared {
    /// Returns whether the bar is missed, even if the ratio may be worse by this factor.
    fn is_missed(&self, tolerance: f64) -> bool {
        match self.bar {
            Some(Bar::AtMost(bar)) => self.ratio > bar * tolerance,
            Some(Bar::AtLeast(bar)) => self.ratio < bar / tolerance,
            None => false,
        }
    }

    fn text(&self, tolerance: f64) -> String {
        let bar = match self.bar {
            Some(Bar::AtMost(bar)) => format!(", at most {bar}"),
            Some(Bar::AtLeast(bar)) => format!(", at least {bar}"),
            None => String::new(),
        };
        let missed = if self.is_missed(tolerance) { ": MISSED" } else { "" };
        format!("{} of {}{bar}{missed}", digits(self.ratio), self.against)
    }
}

/// The results of one benchmark.
#[derive(Clone, Default)]
pub(super) struct Part {
    pub(super) records: Vec<Record>,
    /// What could not be measured, with the error.
    pub(super) failures: Vec<String>,
}

impl Part {
    pub(super) fn extend(&mut self, other: Part) {
        self.records.extend(other.records);
        self.failures.extend(other.failures);
    }

    /// Notes that something could not be measured.
    pub(super) fn fail(&mut self, failure: String) {
        eprintln!("FAILED: {failure}");
        self.failures.push(failure);
    }

    /// Prints the table. If bars are enforced, a missed one is an error, and so is what could not be measured.
    pub(super) fn report(&self, options: &Options) -> Result {
        println!("\n{}", self.table(options.tolerance));
        for failure in &self.failures {
            println!("FAILED: {failure}");
        }
        let is_missed = |record: &&Record| record.comparison.as_ref().is_some_and(|it| it.is_missed(options.tolerance));
        let missed: Vec<&str> = self.records.iter().filter(is_missed).map(|record| record.name.as_str()).collect();
        match (self.failures.first(), missed.as_slice()) {
            (Some(failure), _) if options.enforce => Err(failure.clone()),
            (_, [_, ..]) if options.enforce => Err(format!("bars missed: {}", missed.join("; "))),
            _ => Ok(()),
        }
    }

    /// Returns a table in Markdown, without the columns that no row has.
    pub(super) fn table(&self, tolerance: f64) -> String {
        let number = |value: Option<f64>| value.map(digits).unwrap_or_default();
        let rows = self.records.iter().map(|record| {
            let time = |at: usize| number(record.times.map(|times| times[at]));
            let value = record.value.as_ref().map(|(value, unit)| format!("{} {unit}", digits(*value)));
            let compared = record.comparison.as_ref().map(|compared| compared.text(tolerance));
            [
                record.name.clone(),
                if record.runs == 0 { String::new() } else { record.runs.to_string() },
                time(0),
                record.times.map(|times| format!("{} to {}", digits(times[1]), digits(times[2]))).unwrap_or_default(),
                time(3),
                time(4),
                number(record.rate),
                number(record.cpu),
                number(record.peak),
                number(record.written),
                value.unwrap_or_default(),
                compared.unwrap_or_default(),
            ]
        });
        let head = ["row", "runs", "ms", "10 to 90 %", "p99 ms", "longest ms", "per s", "CPU ms", "peak MiB"];
        let head = [&head[..], &["KB written", "value", "compared"]].concat();
        let rows: Vec<_> = rows.collect();
        let columns: Vec<usize> =
            (0..head.len()).filter(|column| rows.iter().any(|row| !row[*column].is_empty())).collect();
        let width = |column: &usize| {
            let cells = rows.iter().map(|row| row[*column].chars().count());
            cells.chain([head[*column].len()]).max().unwrap_or_default()
        };
        let widths: Vec<usize> = columns.iter().map(width).collect();
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = columns.iter().zip(&widths).map(|(column, width)| {
                if *column == 0 { format!("{:<width$}", cell(*column)) } else { format!("{:>width$}", cell(*column)) }
            });
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let rule = |column: usize| if column == 0 { "---".to_owned() } else { "---:".to_owned() };
        let mut lines = vec![line(&|column| head[column].to_owned()), line(&rule)];
        lines.extend(rows.iter().map(|row| line(&|column| row[column].clone())));
        lines.join("\n")
    }
}

/// Returns median, 10th, 90th and 99th percentile and maximum, in milliseconds.
pub(super) fn spread(times: &[Duration]) -> Option<[f64; 5]> {
    let mut times = times.to_vec();
    times.sort();
    let last = times.len().checked_sub(1)?;
    let at = |percent: usize| times[(times.len() * percent / 100).min(last)].as_secs_f64() * 1000.0;
    Some([at(50), at(10), at(90), at(99), at(100)])
}

/// Formats a number with three significant digits.
fn digits(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.1 => format!("{number:.4}"),
        small if small < 10.0 => format!("{number:.2}"),
        middle if middle < 100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Formats a number with separators of thousands.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_missed_only_beyond_the_tolerance() {
        let compared = |ratio, bar| Compared { ratio, bar: Some(bar), against: "x".to_owned() };
        for (ratio, bar, tolerance, is_missed) in [
            (2.1, Bar::AtMost(2.0), 1.0, true),
            (2.1, Bar::AtMost(2.0), 2.0, false),
            (4.1, Bar::AtMost(2.0), 2.0, true),
            (0.1, Bar::AtMost(0.0), 2.0, true),
            (0.8, Bar::AtLeast(0.9), 1.0, true),
            (0.5, Bar::AtLeast(0.9), 2.0, false),
            (0.4, Bar::AtLeast(0.9), 2.0, true),
        ] {
            assert_eq!(compared(ratio, bar).is_missed(tolerance), is_missed, "{ratio} {bar:?} {tolerance}");
        }
        let part = Part {
            records: vec![Record { comparison: Some(compared(2.1, Bar::AtMost(2.0))), ..Record::default() }],
            failures: Vec::new(),
        };
        let options = |enforce, tolerance| Options { enforce, tolerance, ..Options::default() };
        assert!(part.report(&options(true, 1.0)).is_err());
        assert!(part.report(&options(true, 2.0)).is_ok() && part.report(&options(false, 1.0)).is_ok());
    }

    #[test]
    fn a_table_has_no_empty_columns() {
        let row = |name: &str, rate| Record { name: name.to_owned(), rate, ..Record::default() };
        let part = Part { records: vec![row("a", Some(1.5)), row("bcd", None)], failures: Vec::new() };
        assert_eq!(part.table(1.0), "| row | per s |\n| --- |  ---: |\n| a   |  1.50 |\n| bcd |       |");
    }

    #[test]
    fn numbers_have_separators_of_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_spread_of_few_times_is_within_them() {
        let times: Vec<Duration> = [3, 1, 2].map(Duration::from_millis).into();
        assert_eq!(spread(&times), Some([2.0, 1.0, 3.0, 3.0, 3.0]));
        assert_eq!(spread(&[]), None);
    }
}
