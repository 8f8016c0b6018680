//! The dashboard in a real browser: bytes, first render, time from an event to its pixels, memory.

use std::process::{Command, Stdio};

use super::options::Options;
use super::results::{Bar, Compared, Part, Record};
use super::scratch::Scratch;
use crate::{Result, tools};

pub(super) fn measure(options: &Options, scratch: &Scratch) -> Result<Part> {
    tools::install_packages_for(&["chromium", "chromium-driver"]);
    let mut command = Command::new(scratch.program("dashboard"));
    command.arg(scratch.way_path());
    if options.quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the benchmark of the dashboard: {}", output.status));
    }
    let records = String::from_utf8_lossy(&output.stdout).lines().filter_map(record).collect();
    Ok(Part { records, failures: Vec::new() })
}

/// Reads a line: a name, two spaces or more, a value, a unit, and maybe a bar.
fn record(line: &str) -> Option<Record> {
    let (name, rest) = line.split_once("  ")?;
    let mut words = rest.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let unit = words.next().unwrap_or_default().to_owned();
    let bar = words.clone().skip_while(|word| *word != "bar").nth(1).and_then(|bar| bar.parse::<f64>().ok());
    let comparison =
        bar.map(|bar| Compared { ratio: value / bar, bar: Some(Bar::AtMost(1.0)), against: format!("{bar} {unit}") });
    Some(Record { name: name.to_owned(), value: Some((value, unit)), comparison, ..Record::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_line_is_read() {
        let read = record("first render, median                    312.5 ms   bar 1000").unwrap();
        assert_eq!((read.name.as_str(), read.value), ("first render, median", Some((312.5, "ms".to_owned()))));
        assert_eq!(read.comparison.unwrap().against, "1000 ms");
        assert_eq!(record("no row"), None);
    }
}
