//! Where the ledger is, and why.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;
use waypost_core::{Error, Result};
use waypost_fs::read_small_file;
use waypost_workspace::{Checkout, ledger_branch};

use super::{DOT_DIR, Place, Source};
use crate::machine::config::Layer;

/// Where the ledger is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LedgerHome {
    /// Tracked in the main worktree.
    Main,
    /// Tracked in each worktree.
    Branch,
    /// On a branch of its own, whose file is in the private directory.
    Separate,
}

impl fmt::Display for LedgerHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LedgerHome::Main => "main",
            LedgerHome::Branch => "branch",
            LedgerHome::Separate => "separate",
        })
    }
}

impl FromStr for LedgerHome {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        [LedgerHome::Main, LedgerHome::Branch, LedgerHome::Separate]
            .into_iter()
            .find(|home| home.to_string() == text)
            .ok_or_else(|| {
                Error::invalid(format!("{text:?} is not a home of a ledger")).hint("it is main, branch or separate")
            })
    }
}

impl Place {
    /// Returns the home that the configuration sets, if it sets one.
    pub(super) fn configured_home(&self) -> Option<LedgerHome> {
        let setting = self.config.get("ledger.home").filter(|setting| setting.layer != Layer::Default)?;
        setting.value.to_string().parse().ok()
    }

    /// Returns the home of the ledger and the reason for it.
    pub fn ledger_home(&self) -> (LedgerHome, Source) {
        let is_bare = self.checkout.as_ref().is_some_and(|checkout| checkout.main_root.is_none());
        let rule = if is_bare {
            "the repository is bare: the default branch's, else this worktree's"
        } else {
            "the main worktree's"
        };
        let separate = self.checkout.as_ref().filter(|checkout| checkout.git_dir.is_some()).map(separate_ledger);
        match self.configured_home() {
            Some(LedgerHome::Separate) if separate.is_none() => (LedgerHome::Main, Source::new("default", rule)),
            Some(home) => (home, self.source_of("ledger.home", rule)),
            // Branches from before the configuration do not say it.
            None if separate.is_some_and(|ledger| ledger.exists()) => {
                (LedgerHome::Separate, Source::new("default", "this clone keeps the ledger's own branch, waypost"))
            }
            None => (LedgerHome::Main, Source::new("default", rule)),
        }
    }

    /// Returns the ledger's file and the reason for it. An existing beads ledger is used in place.
    pub fn ledger(&self) -> Option<(PathBuf, Source)> {
        let (home, source) = self.ledger_home();
        self.ledger_at(home, source)
    }

    /// Returns the ledger's file in a home that [`Place::ledger_home`] returned, and the reason for it.
    pub(crate) fn ledger_at(&self, home: LedgerHome, source: Source) -> Option<(PathBuf, Source)> {
        let checkout = self.checkout.as_ref()?;
        if let Some(workspace) = self.workspace.as_ref().filter(|workspace| workspace.is_confined) {
            // It may be in the private directory, the rest of which is closed.
            let ledger = workspace.registration.ledger.clone()?;
            return Some((ledger, Source::new("workspace", workspace.title())));
        }
        let root = match home {
            LedgerHome::Separate => return Some((separate_ledger(checkout), source)),
            LedgerHome::Branch => checkout.root.clone()?,
            LedgerHome::Main => self.home_worktree.clone()?,
        };
        let source = match &self.workspace {
            Some(workspace) if workspace.unreachable.is_some() => Source::new("workspace", workspace.title()),
            Some(workspace) => source.of_owner(workspace),
            None => source,
        };
        match ledger_in(&root) {
            (_, true) if self.takes_over && is_in_dolt(&root) => Some((own_ledger(&root), source)),
            (beads, true) => Some((beads, Source::new("default", "an existing beads ledger, used in place"))),
            (own, false) => Some((own, source)),
        }
    }

    /// Returns the place for a command that takes over the issues of beads.
    #[must_use]
    pub fn taking_over(self) -> Place {
        Place { takes_over: true, ..self }
    }

    /// Returns what in the worktree of the ledger looks like a ledger or settings and is not read, and why.
    pub fn unread_files(&self) -> Vec<String> {
        self.home_worktree.as_deref().map(unread_files).unwrap_or_default()
    }

    /// Returns whether there may be a ledger: its file, or in a new clone its branch.
    pub fn may_have_ledger(&self) -> bool {
        let is_branch_known = |checkout: &Checkout| {
            self.ledger_home().0 == LedgerHome::Separate && ledger_branch::is_ledger_branch_known(checkout)
        };
        self.ledger().is_some_and(|(path, _)| path.exists()) || self.checkout.as_ref().is_some_and(is_branch_known)
    }
}

/// Returns the file of a ledger that has a branch of its own.
pub(crate) fn separate_ledger(checkout: &Checkout) -> PathBuf {
    ledger_branch::ledger_branch_root(checkout).join(ledger_branch::LEDGER_PATH)
}

/// The paths that a ledger may have in a worktree: our own, then those of another tool.
pub(crate) const LEDGERS: &[&str] = &[".waypost/issues.jsonl", ".beads/issues.jsonl", ".beads/beads.jsonl"];

fn own_ledger(root: &Path) -> PathBuf {
    root.join(LEDGERS[0])
}

/// Returns the ledgers of another tool in a worktree.
fn ledgers_of_beads(root: &Path) -> impl Iterator<Item = PathBuf> {
    LEDGERS[1..].iter().map(|beads| root.join(beads)).filter(|beads| beads.is_file())
}

/// Returns the ledger in a worktree, and whether it is another tool's.
pub(crate) fn ledger_in(root: &Path) -> (PathBuf, bool) {
    let own = own_ledger(root);
    let beads = if own.exists() { None } else { ledgers_of_beads(root).next() };
    match beads {
        Some(beads) => (beads, true),
        None => (own, false),
    }
}

/// Returns whether beads keeps the issues of a worktree in Dolt and no ledger of ours took them over. It rewrites its file
/// from there, so nothing written into the file lasts.
pub(crate) fn is_in_dolt(root: &Path) -> bool {
    let metadata = || {
        let text = read_small_file(&root.join(".beads/metadata.json")).ok()??;
        serde_json::from_slice::<serde_json::Value>(&text).ok()
    };
    !own_ledger(root).exists() && metadata().is_some_and(|metadata| metadata["backend"] == "dolt")
}

/// Returns what in a worktree looks like a ledger or settings and is not read, and why.
fn unread_files(root: &Path) -> Vec<String> {
    let used = ledger_in(root).0;
    let unread = ledgers_of_beads(root).filter(|beads| *beads != used);
    let mut found: Vec<String> =
        unread.map(|beads| format!("{} is not read: the issues are in {}", beads.display(), used.display())).collect();
    let toml = root.join(".beads/config.toml");
    if toml.is_file() {
        let own = root.join(DOT_DIR).join("config.toml");
        found.push(format!("{} is not read: settings belong in {}", toml.display(), own.display()));
    }
    found
}
