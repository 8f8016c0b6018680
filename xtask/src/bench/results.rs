//! The results of a benchmark: rows with times or values, comparisons with bars, and a table of them.

use std::time::Duration;

use super::options::Options;
use crate::Result;

/// A measured row: times, or a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// The name, which `--only` selects.
    pub(super) name: String,
    pub(super) times: Vec<Duration>,
    /// Time from the first start to the last end of what ran at once.
    pub(super) all: Option<Duration>,
    /// A value that is not a time, and its unit.
    pub(super) value: Option<(f64, &'static str)>,
    pub(super) comparison: Option<Compared>,
}

/// A ratio to another row or to a limit, and its bar.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    ratio: f64,
    bar: Option<Bar>,
    against: String,
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

impl Row {
    pub(super) fn new(name: impl Into<String>) -> Row {
        Row { name: name.into(), ..Row::default() }
    }

    /// Returns a row with a value that is not a time.
    pub(super) fn with_value(name: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { value: Some((value, unit)), ..Row::new(name) }
    }

    /// Parses a name and the nanoseconds of each run.
    pub(super) fn parse(line: &str) -> Result<Row> {
        let (name, times) = line.split_once('\t').ok_or_else(|| format!("no times in {line}"))?;
        let times = times.split_whitespace().map(|nanos| nanos.parse().map(Duration::from_nanos));
        Ok(Row {
            times: times.collect::<Result<_, _>>().map_err(|_| format!("no number in {line}"))?,
            ..Row::new(name)
        })
    }

    pub(super) fn compared(self, ratio: f64, bar: Option<Bar>, against: impl Into<String>) -> Row {
        Row { comparison: Some(Compared { ratio, bar, against: against.into() }), ..self }
    }

    /// Compares a time of this row with a limit.
    pub(super) fn within(self, time: Duration, limit: Duration) -> Row {
        self.compared(time.as_secs_f64() / limit.as_secs_f64(), Some(Bar::AtMost(1.0)), format!("{limit:?}"))
    }

    pub(super) fn median(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the time that this percentage of the runs do not exceed.
    pub(super) fn percentile(&self, percent: usize) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        let last = times.len().saturating_sub(1);
        times.get((times.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }

    /// Returns the texts of the columns of the table.
    fn cells(&self, tolerance: f64) -> [String; 9] {
        let ms = |percent| digits(self.percentile(percent).as_secs_f64() * 1000.0);
        let of_times = |text: String| if self.times.is_empty() { String::new() } else { text };
        let runs = f64::from(u32::try_from(self.times.len()).unwrap_or(u32::MAX));
        [
            self.name.clone(),
            of_times(self.times.len().to_string()),
            of_times(ms(50)),
            of_times(format!("{} to {}", ms(10), ms(90))),
            of_times(ms(99)),
            of_times(ms(100)),
            self.all.map(|all| digits(runs / all.as_secs_f64())).unwrap_or_default(),
            self.value.map(|(value, unit)| format!("{} {unit}", digits(value))).unwrap_or_default(),
            self.comparison.as_ref().map(|compared| compared.text(tolerance)).unwrap_or_default(),
        ]
    }
}

/// The results of one benchmark.
#[derive(Default)]
pub(super) struct Part {
    pub(super) rows: Vec<Row>,
    /// What could not be measured, with the error.
    pub(super) failures: Vec<String>,
}

impl Part {
    /// Measures a section. If it fails, the other sections are still measured.
    pub(super) fn section(&mut self, title: &str, measure: impl FnOnce() -> Result<Vec<Row>>) {
        eprintln!("measuring: {title}");
        match measure() {
            Ok(rows) => self.rows.extend(rows),
            Err(error) => self.fail(format!("{title}: {error}")),
        }
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
        let is_missed = |row: &&Row| row.comparison.as_ref().is_some_and(|it| it.is_missed(options.tolerance));
        let missed: Vec<&str> = self.rows.iter().filter(is_missed).map(|row| row.name.as_str()).collect();
        match (self.failures.first(), missed.as_slice()) {
            (Some(failure), _) if options.enforce => Err(failure.clone()),
            (_, [_, ..]) if options.enforce => Err(format!("bars missed: {}", missed.join("; "))),
            _ => Ok(()),
        }
    }

    /// Returns a table in Markdown, without the columns that no row has.
    pub(super) fn table(&self, tolerance: f64) -> String {
        let rows: Vec<[String; 9]> = self.rows.iter().map(|row| row.cells(tolerance)).collect();
        let head = ["row", "runs", "ms", "10 to 90 %", "p99 ms", "longest ms", "per s", "value", "compared"];
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
pub(super) fn thousands(number: usize) -> String {
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
            rows: vec![Row { comparison: Some(compared(2.1, Bar::AtMost(2.0))), ..Row::default() }],
            failures: Vec::new(),
        };
        let options = |enforce, tolerance| Options { enforce, tolerance, ..Options::default() };
        assert!(part.report(&options(true, 1.0)).is_err());
        assert!(part.report(&options(true, 2.0)).is_ok() && part.report(&options(false, 1.0)).is_ok());
    }

    #[test]
    fn a_table_has_no_empty_columns() {
        let part = Part { rows: vec![Row::with_value("a", 1.5, "s"), Row::new("bcd")], failures: Vec::new() };
        assert_eq!(part.table(1.0), "| row |  value |\n| --- |   ---: |\n| a   | 1.50 s |\n| bcd |        |");
    }

    #[test]
    fn numbers_have_separators_of_thousands() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn the_percentiles_of_few_times_are_within_them() {
        let row = Row { times: [3, 1, 2].map(Duration::from_millis).into(), ..Row::default() };
        assert_eq!([50, 10, 90, 100].map(|percent| row.percentile(percent).as_millis()), [2, 1, 3, 3]);
        assert_eq!(Row::default().percentile(99), Duration::ZERO);
        assert_eq!(Row::parse("a\t5 7").unwrap().times, [5, 7].map(Duration::from_nanos));
    }
}
