//! Defects on purpose: `cargo xtask seeded` plants each, and fails if no test notices it.

/// The variable that names the planted defect.
pub const VARIABLE: &str = "WAYPOST_SEEDED_BUG";

/// Returns whether the program is to behave as if it had this defect. A normal build never does.
#[cfg(not(waypost_seeded_bugs))]
#[inline]
pub const fn seeded_bug(_name: &str) -> bool {
    false
}

/// Returns whether the environment names this defect.
#[cfg(waypost_seeded_bugs)]
pub fn seeded_bug(name: &str) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|planted| planted == name)
}
