//! One program with all fuzz targets: linking one is faster than linking fifteen. The variable `WAYPOST_FUZZ_TARGET` names the
//! target to run.
//!
//! Each target asserts a property of what it reads, not only that it does not panic.
#![no_main]

mod formats;
mod ledger;
mod places;
mod texts;

use std::sync::LazyLock;

/// A function that fails by panicking.
type Target = fn(&[u8]);

/// All targets. `cargo xtask fuzz` reads the names from this table.
const TARGETS: &[(&str, Target)] = &[
    ("batch", formats::batch),
    ("checkout", places::checkout),
    ("config", places::config),
    ("conflict", ledger::conflict),
    ("document", ledger::document),
    ("escape", texts::escaped),
    ("git_config", formats::git_config),
    ("ids", texts::ids),
    ("import_issues", formats::import_issues),
    ("import_workflows", formats::import_workflows),
    ("job_log", places::job_log),
    ("merge", ledger::merged),
    ("operation", formats::operation),
    ("paths", texts::paths),
    ("plan", formats::plan),
    ("private_dir", places::private_dir),
    ("record", ledger::record),
    ("redact", texts::redacted),
    ("template", formats::template),
    ("time", texts::time),
    ("urls", texts::urls),
    ("yaml", formats::yaml_text),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("WAYPOST_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("WAYPOST_FUZZ_TARGET={name} is no target")).1
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| CHOSEN(data));

/// Splits an input into a number of parts at its zero bytes. Missing parts are empty.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut parts = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// Calls the rest of a target with the input as text, if it is one.
fn with_text(data: &[u8], target: impl FnOnce(&str)) {
    if let Ok(text) = std::str::from_utf8(data) {
        target(text);
    }
}
