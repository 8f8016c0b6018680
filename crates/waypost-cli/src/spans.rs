//! Parses and formats durations and deadlines.

pub(crate) use waypost_core::time::format_duration;
use waypost_core::time::{Timestamp, parse_duration_ms};

use super::in_one_line;

/// Parses a duration to milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).map_err(in_one_line)
}

/// Formats the time until a deadline: `in 9m`, or `now`.
pub(crate) fn format_deadline(moment: Timestamp, now: Timestamp) -> String {
    match moment.unless_never() {
        None => "when released".to_owned(),
        Some(moment) if moment <= now => "now".to_owned(),
        Some(moment) => format!("in {}", format_duration(moment.since(now))),
    }
}
