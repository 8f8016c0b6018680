//! Parses and formats durations and deadlines.

use waypost_core::time::{Timestamp, parse_duration_ms};

use super::in_one_line;

/// Parses a duration to milliseconds.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    parse_duration_ms(text).map_err(in_one_line)
}

/// Formats a duration in its largest fitting unit: `300ms`, `45s`, `12m`, `3h`, `2d`.
pub(crate) fn format_duration(millis: u64) -> String {
    match millis / 1000 {
        0 => format!("{millis}ms"),
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// Formats the time until a deadline: `in 9m`, or `now`.
pub(crate) fn format_deadline(moment: Timestamp, now: Timestamp) -> String {
    match moment.unless_never() {
        None => "when released".to_owned(),
        Some(moment) if moment <= now => "now".to_owned(),
        Some(moment) => format!("in {}", format_duration(moment.since(now))),
    }
}
