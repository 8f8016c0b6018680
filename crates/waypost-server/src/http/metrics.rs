//! Metrics in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use waypost::app::Measure;

/// The upper bounds of the histogram buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// Counters of the HTTP server.
#[derive(Default)]
pub(crate) struct Metrics(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Requests by operation and status.
    requests: BTreeMap<(&'static str, u16), u64>,
    reads: Durations,
    writes: Durations,
}

#[derive(Default)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Durations {
    fn add(&mut self, seconds: f64) {
        for (count, end) in self.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= end);
        }
        self.count += 1;
        self.sum += seconds;
    }

    fn write(&self, page: &mut String, effect: &str) {
        let name = "waypost_request_seconds";
        for (count, end) in self.buckets.iter().zip(BUCKETS) {
            line(page, &format!("{name}_bucket"), &format!("effect=\"{effect}\",le=\"{end}\""), *count);
        }
        line(page, &format!("{name}_bucket"), &format!("effect=\"{effect}\",le=\"+Inf\""), self.count);
        line(page, &format!("{name}_sum"), &format!("effect=\"{effect}\""), self.sum);
        line(page, &format!("{name}_count"), &format!("effect=\"{effect}\""), self.count);
    }
}

impl Metrics {
    /// Counts a response.
    pub(crate) fn count_response(&self, operation: &'static str, status: u16) {
        *self.counts().requests.entry((operation, status)).or_default() += 1;
    }

    /// Records the duration of an operation.
    pub(crate) fn record_duration(&self, is_write: bool, time: Duration) {
        let mut counts = self.counts();
        let durations = if is_write { &mut counts.writes } else { &mut counts.reads };
        durations.add(time.as_secs_f64());
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renders all metrics.
    pub(crate) fn render(&self, measures: &[Measure]) -> String {
        let mut page = String::new();
        let counts = self.counts();
        head(&mut page, "waypost_requests_total", "counter", "Requests by operation and status.");
        for ((operation, status), count) in &counts.requests {
            let labels = format!("operation=\"{operation}\",status=\"{status}\"");
            line(&mut page, "waypost_requests_total", &labels, *count);
        }
        head(&mut page, "waypost_request_seconds", "histogram", "Duration of operations.");
        counts.reads.write(&mut page, "read");
        counts.writes.write(&mut page, "write");
        for measure in measures {
            let name = format!("waypost_{}", measure.name);
            head(&mut page, &name, if measure.is_counter { "counter" } else { "gauge" }, measure.help);
            for (labels, value) in &measure.values {
                line(&mut page, &name, labels, value);
            }
        }
        page
    }
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a string cannot fail");
}

fn line(page: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    writeln!(page, "{name}{labels} {value}").expect("writing to a string cannot fail");
}
