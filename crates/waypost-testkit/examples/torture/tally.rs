//! The counters and the violations of a part.

use std::fmt;

/// Maximum number of recorded violations: one defect can cause many.
const MAX_VIOLATIONS: usize = 200;

/// Maximum number of violations whose directories are kept.
const MAX_EVIDENCE: usize = 20;

/// Maximum length of the text of a violation. The evidence has the rest.
const MAX_TEXT_CHARS: usize = 600;

/// The counters and the violations of a part.
#[derive(Default, Clone)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) faults: u64,
    pub(crate) kills: u64,
    pub(crate) acknowledged: u64,
    pub(crate) violations: Vec<String>,
}

impl Tally {
    /// Records and prints a violation.
    pub(crate) fn violation(&mut self, text: impl Into<String>) {
        let text: String = text.into().chars().take(MAX_TEXT_CHARS).collect();
        if self.violations.len() < MAX_VIOLATIONS {
            println!("VIOLATION {text}");
            self.violations.push(text);
        }
    }

    /// Returns whether to keep the evidence of the violations since `before`: that of the first few is enough.
    pub(crate) fn is_worth_keeping(&self, before: usize) -> bool {
        self.violations.len() > before && before < MAX_EVIDENCE
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.rounds += other.rounds;
        self.faults += other.faults;
        self.kills += other.kills;
        self.acknowledged += other.acknowledged;
        self.violations.extend(other.violations);
    }

    /// Returns a line of the summary table.
    pub(crate) fn row(&self, name: &str) -> String {
        let Tally { rounds, faults, kills, acknowledged, violations } = self;
        format!("{name:<10} {rounds:>8} {faults:>8} {kills:>8} {acknowledged:>13} {:>11}", violations.len())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { rounds, faults, kills, acknowledged, violations } = self;
        write!(
            f,
            "{rounds} rounds, {faults} faults, {kills} kills, {acknowledged} acknowledged writes, {} violations",
            violations.len()
        )
    }
}
