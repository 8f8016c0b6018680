//! The results of a benchmark as a file of JSON in the target directory, from which the page is made.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::options::Options;
use super::scratch::{Scratch, create_dir, write};
use crate::Result;
use crate::tidy::read;

/// A measured row. What was not measured is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// The name, which `--only` selects. A number after its last comma is the size of the data: `way ready, 10,000`.
    pub(super) name: String,
    pub(super) runs: u64,
    /// Times in milliseconds: the median, the 10th and 90th percentiles, the 99th, and the longest.
    pub(super) times: Option<[f64; 5]>,
    /// Runs per second.
    pub(super) rate: Option<f64>,
    /// User and system time in milliseconds.
    pub(super) cpu: Option<f64>,
    /// Peak memory in KiB.
    pub(super) peak: Option<f64>,
    /// Bytes that the process wrote to files.
    pub(super) written: Option<f64>,
    /// A value that is no time, and its unit.
    pub(super) value: Option<(f64, String)>,
    pub(super) comparison: Option<Compared>,
}

/// A ratio to another row, and its bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Compared {
    pub(super) ratio: f64,
    /// The bar as text, for example `<= 1.5`.
    pub(super) bar: Option<String>,
    pub(super) is_missed: bool,
    pub(super) against: String,
}

impl Record {
    /// Returns the part of the name before the size, and the size.
    pub(super) fn series(&self) -> (&str, Option<u64>) {
        let sized = self.name.rsplit_once(", ").and_then(|(series, size)| {
            let is_number = size.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
            Some((series, size.replace(',', "").parse().ok().filter(|_| is_number)?))
        });
        sized.map_or((self.name.as_str(), None), |(series, size)| (series, Some(size)))
    }

    fn to_json(&self) -> Value {
        let compared = self.comparison.as_ref().map(|compared| {
            json!({ "ratio": compared.ratio, "bar": compared.bar, "is_missed": compared.is_missed,
                "against": compared.against })
        });
        json!({ "name": self.name, "runs": self.runs, "times_ms": self.times, "rate": self.rate, "cpu_ms": self.cpu,
            "peak_kib": self.peak, "written_bytes": self.written, "value": self.value, "comparison": compared })
    }

    fn from_json(json: &Value) -> Record {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let times = json["times_ms"].as_array().map(|times| {
            let at = |number: usize| times.get(number).and_then(Value::as_f64).unwrap_or_default();
            [at(0), at(1), at(2), at(3), at(4)]
        });
        let compared = &json["comparison"];
        let comparison = compared.is_object().then(|| Compared {
            ratio: compared["ratio"].as_f64().unwrap_or_default(),
            bar: compared["bar"].as_str().map(str::to_owned),
            is_missed: compared["is_missed"].as_bool().unwrap_or_default(),
            against: text(&compared["against"]),
        });
        Record {
            name: text(&json["name"]),
            runs: json["runs"].as_u64().unwrap_or_default(),
            times,
            rate: json["rate"].as_f64(),
            cpu: json["cpu_ms"].as_f64(),
            peak: json["peak_kib"].as_f64(),
            written: json["written_bytes"].as_f64(),
            value: json["value"][0].as_f64().map(|value| (value, text(&json["value"][1]))),
            comparison,
        }
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

/// Formats a number with separators of thousands.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// The results of one benchmark.
pub(super) struct Part {
    pub(super) records: Vec<Record>,
    /// Sentences about what could not be measured.
    pub(super) failures: Vec<String>,
    pub(super) seconds: f64,
}

/// Returns the directory of the results. Those of quick benchmarks are separate.
pub(super) fn dir(scratch: &Path, options: &Options) -> PathBuf {
    scratch.join(options.pick("results", "results-quick"))
}

/// Saves the results of a benchmark that measured all rows.
pub(super) fn save(scratch: &Scratch, options: &Options, records: &[Record], failures: &[String]) -> Result {
    if options.only.is_some() {
        return Ok(());
    }
    let dir = dir(&scratch.dir, options);
    create_dir(&dir)?;
    let records: Vec<Value> = records.iter().map(Record::to_json).collect();
    let json = json!({ "records": records, "failures": failures, "seconds": scratch.begun.elapsed().as_secs_f64() });
    write(&dir.join(format!("{}.json", options.subject.name())), &[&format!("{json:#}\n")])
}

/// Loads the results of a benchmark. None if it did not run to its end.
pub(super) fn load(dir: &Path, name: &str) -> Result<Option<Part>> {
    let path = dir.join(format!("{name}.json"));
    if !path.is_file() {
        return Ok(None);
    }
    let json: Value = serde_json::from_str(&read(&path)?).map_err(|error| format!("{}: {error}", path.display()))?;
    let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
    Ok(Some(Part {
        records: list("records").iter().map(Record::from_json).collect(),
        failures: list("failures").iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
        seconds: json["seconds"].as_f64().unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_it_was_saved() {
        let record = Record {
            name: "way ready, 10,000".to_owned(),
            runs: 3,
            times: Some([1.0, 0.5, 2.0, 3.0, 4.0]),
            rate: Some(1000.0),
            value: Some((2.5, "bytes".to_owned())),
            comparison: Some(Compared {
                ratio: 1.2,
                bar: Some("<= 1.5".to_owned()),
                is_missed: false,
                against: "trivial program".to_owned(),
            }),
            ..Record::default()
        };
        assert_eq!(Record::from_json(&record.to_json()), record);
        assert_eq!(record.series(), ("way ready", Some(10_000)));
        let unsized_record = Record { name: "way ready, 3 x 10,000".to_owned(), ..Record::default() };
        assert_eq!(unsized_record.series(), ("way ready, 3 x 10,000", None));
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
