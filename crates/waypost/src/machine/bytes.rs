//! Parses and formats sizes in bytes.

const UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Parses a size: `500MB`, `20GiB`, `1.5g`, or a plain number.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = (text[..end].parse::<f64>().ok()?, text[end..].trim().to_ascii_lowercase());
    let unit = if unit.is_empty() { 1 } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
    #[expect(clippy::cast_precision_loss, reason = "a float represents the units exactly")]
    let bytes = number * unit as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked in this expression"
    )]
    (bytes.is_finite() && (0.0..9e18).contains(&bytes)).then_some(bytes as u64)
}

/// Formats a size with at most three digits.
pub fn humanize(bytes: u64) -> String {
    let (unit, size) = match bytes {
        ..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => ("KB", 1_000_u64),
        1_000_000..1_000_000_000 => ("MB", 1_000_000),
        _ => ("GB", 1_000_000_000),
    };
    let (whole, tenth) = (bytes / size, bytes % size * 10 / size);
    if whole < 10 { format!("{whole}.{tenth} {unit}") } else { format!("{whole} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_formatted() {
        for (text, bytes) in
            [("0", 0), ("500MB", 500_000_000), ("20 GiB", 20 << 30), ("1.5k", 1536), ("7b", 7), (" 1 kb ", 1000)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for bad in ["", "MB", "-1", "1 parsec", "1e99", "nan", "99999999999TB"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(
            [0, 999, 1_500, 12_345_678, 7_000_000_000].map(humanize),
            ["0 B", "999 B", "1.5 KB", "12 MB", "7.0 GB"]
        );
    }
}
