//! Moments: whole milliseconds UTC, as stored.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};

/// A moment: milliseconds since 1970-01-01 UTC. In JSON it is text, as RFC 3339 has it; milliseconds are read too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// A moment that never comes. Moving deadlines leaves it and later ones alone.
    pub const NEVER: Timestamp = Timestamp(0x4000_0000_0000_0000);

    /// Returns the moment with these milliseconds since 1970-01-01 UTC.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Returns milliseconds since 1970-01-01 UTC.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the moment so many milliseconds later.
    #[must_use]
    pub fn plus(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Returns the moment so many milliseconds earlier.
    #[must_use]
    pub fn minus(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Returns the milliseconds since an earlier moment; 0 if that moment is later.
    pub fn since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Returns the moment, or None if it never comes.
    pub fn unless_never(self) -> Option<Timestamp> {
        (self < Timestamp::NEVER).then_some(self)
    }

    /// Returns the age of `self` at `now` for display: `now`, `12s ago`, `3m 20s ago`, `25m ago`, `3h ago`, `2d ago`.
    ///
    /// A moment after `now` (from another machine's clock) is shown as `now`.
    pub fn ago(self, now: Timestamp) -> String {
        match now.since(self) {
            ..1000 => "now".to_owned(),
            millis => format!("{} ago", format_duration(millis)),
        }
    }
}

/// RFC 3339 in UTC with milliseconds.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            // Outside jiff's range of years: only a damaged row has such a time, and it must still be shown.
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => serializer.collect_str(&format_args!("{moment:.3}")),
            // RFC 3339 cannot express it. A record with such a time is still copied without a change.
            Err(_) => serializer.serialize_i64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        deserializer.deserialize_any(Moment)
    }
}

/// Reads RFC 3339 text, and milliseconds, which older versions wrote.
struct Moment;

impl Visitor<'_> for Moment {
    type Value = Timestamp;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as 2026-01-01T09:00:00Z")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Timestamp, E> {
        let moment: jiff::Timestamp =
            text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))?;
        Ok(Timestamp(moment.as_millisecond()))
    }

    fn visit_i64<E: serde::de::Error>(self, millis: i64) -> Result<Timestamp, E> {
        Ok(Timestamp(millis))
    }

    fn visit_u64<E: serde::de::Error>(self, millis: u64) -> Result<Timestamp, E> {
        i64::try_from(millis)
            .map(Timestamp)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(millis), &self))
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Encodes [`Timestamp::NEVER`] as null.
pub mod never_as_null {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::Timestamp;

    /// Encodes a moment.
    pub fn serialize<S: Serializer>(moment: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        moment.unless_never().serialize(serializer)
    }

    /// Decodes a moment.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        Ok(Option::<Timestamp>::deserialize(deserializer)?.unwrap_or(Timestamp::NEVER))
    }
}

/// Formats a duration for display, rounded down: `300ms`, `45s`, `3m 20s`, `25m`, `3h`, `2d`.
///
/// Seconds are shown below ten minutes, minutes below two hours, and hours below two days.
pub fn format_duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..60 => format!("{seconds}s"),
        60..600 if !seconds.is_multiple_of(60) => format!("{}m {}s", seconds / 60, seconds % 60),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..7_200 if seconds % 3_600 >= 60 => format!("1h {}m", (seconds - 3_600) / 60),
        3_600..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Parses a duration such as `90s`, `10m`, `2h`, `1h 30m` or `1d`. Returns milliseconds.
pub fn parse_duration_ms(text: &str) -> Result<u64> {
    let invalid = || Error::invalid(format!("{text:?} is not a time span")).hint("for example 90s, 10m, 2h or 1d");
    let days = text.strip_suffix('d').and_then(|days| days.trim().parse::<u64>().ok());
    if let Some(days) = days {
        return days.checked_mul(86_400_000).ok_or_else(invalid);
    }
    let duration: jiff::SignedDuration = text.parse().map_err(|_| invalid())?;
    u64::try_from(duration.as_millis()).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_invalid_ones_are_rejected() {
        for (text, millis) in [
            ("0s", 0),
            ("90s", 90_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration_ms(text).unwrap(), millis, "{text}");
        }
        for text in ["", "10", "m", "-5m", "1 fortnight", "99999999999999999999d", "999999999999999999d"] {
            assert_eq!(parse_duration_ms(text).unwrap_err().to_string(), format!("{text:?} is not a time span"));
        }
    }

    #[test]
    fn timestamps_are_shown_in_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(1_767_225_600_007).to_string(), "2026-01-01T00:00:00.007Z");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), "9223372036854775807 ms");
    }

    #[test]
    fn a_timestamp_in_json_is_rfc_3339_text_and_older_milliseconds_are_read() {
        let json = |millis| serde_json::to_value(Timestamp::from_millis(millis)).unwrap();
        assert_eq!(json(1_767_225_600_007), "2026-01-01T00:00:00.007Z");
        for millis in [0, -1, 1_767_225_600_007, i64::MIN, i64::MAX, Timestamp::NEVER.as_millis()] {
            let read: Timestamp = serde_json::from_value(json(millis)).unwrap();
            assert_eq!(read.as_millis(), millis);
        }
        for text in ["\"2026-01-01T01:00:00.007+01:00\"", "1767225600007"] {
            assert_eq!(serde_json::from_str::<Timestamp>(text).unwrap().as_millis(), 1_767_225_600_007);
        }
        for text in ["\"soon\"", "\"2026-01-01\"", "true", "1.5", "18446744073709551615"] {
            let error = serde_json::from_str::<Timestamp>(text).unwrap_err().to_string();
            assert!(error.contains("expected a time such as 2026-01-01T09:00:00Z"), "{error}");
        }
    }

    #[test]
    fn ages_round_down() {
        let now = Timestamp::from_millis(1_000_000_000_000);
        let ago = |seconds: i64| Timestamp::from_millis(now.as_millis() - seconds * 1000).ago(now);
        assert_eq!(ago(-5), "now");
        assert_eq!(ago(0), "now");
        assert_eq!(ago(1), "1s ago");
        assert_eq!(ago(59), "59s ago");
        assert_eq!(ago(60), "1m ago");
        assert_eq!(ago(61), "1m 1s ago");
        assert_eq!(ago(599), "9m 59s ago");
        assert_eq!(ago(659), "10m ago");
        assert_eq!(ago(3600), "1h ago");
        assert_eq!(ago(7199), "1h 59m ago");
        assert_eq!(ago(7260), "2h ago");
        assert_eq!(ago(172_799), "47h ago");
        assert_eq!(ago(172_800), "2d ago");
    }

    #[test]
    fn durations_are_shown_in_one_or_two_units() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (90_000, "1m 30s"),
            (300_000, "5m"),
            (600_000, "10m"),
            (5_400_000, "1h 30m"),
            (36_000_000, "10h"),
            (604_800_000, "7d"),
        ] {
            assert_eq!(format_duration(millis), text);
        }
    }
}
