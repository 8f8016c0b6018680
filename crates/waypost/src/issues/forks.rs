//! What a pull request must not show: issues of one clone in the ledger of a project that another person maintains.
//!
//! A first issue in a clone that looks like a fork must not end up in a pull request by accident: until the user chooses a
//! role, the tracked directory is hidden from version control. A note says so once. A maintainer's choice (`way init`, a role
//! or a routing mode) makes the directory visible again. A contributor's does so once none of their private issues is in it.

use std::collections::HashSet;
use std::path::Path;

use waypost_core::ledger::document::Document;
use waypost_core::ledger::record::Record;
use waypost_core::ledger::role::Role;
use waypost_core::{Error, Result};
use waypost_fs::read_small_file;
use waypost_workspace::history::{History, tracked_by};
use waypost_workspace::ledger_branch::{LEDGER_BRANCH, LEDGER_PATH};
use waypost_workspace::upstream::Upstream;
use waypost_workspace::{Checkout, worktrees};

use crate::issues::repos::{Repo, is_contributor, primary, role};
use crate::machine::place::{DOT_DIR, LEDGERS, Place};

/// The file in the private directory that records what was decided about this clone.
const STATE_FILE: &str = "fork";

/// The pattern that hides the tracked directory.
const PATTERN: &str = "/.waypost/";

/// Whether the tracked directory is hidden.
const HIDDEN: &str = "hidden\n";
const VISIBLE: &str = "visible\n";
/// It is visible to a contributor: when it became so, none of their private issues was in it.
const VISIBLE_TO_CONTRIBUTOR: &str = "visible to a contributor\n";

/// Hides the tracked directory of a clone that looks like a fork and whose user has not chosen a role. Returns a note the
/// first time. If the user has chosen meanwhile, makes the directory visible again.
pub(crate) fn check(place: &Place) -> Result<Option<String>> {
    let Some(checkout) = &place.checkout else { return Ok(None) };
    let has_routing = place.config.text("routing.mode").is_some();
    let (role, source) = role(place);
    if role != Role::Contributor && source.source == "default" && !has_routing {
        // Nothing is to be hidden, and nothing that is hidden was chosen.
        return Ok(None);
    }
    let state = read_small_file(&checkout.private_dir.join(STATE_FILE)).ok().flatten();
    let state = state.and_then(|state| String::from_utf8(state).ok());
    match state.as_deref() {
        Some(state) if state != visible(place) && (has_routing || source.source != "default") => {
            record_chosen_role(place).map(|()| None)
        }
        Some(_) => Ok(None),
        None if has_routing => Ok(None),
        None => {
            if role != Role::Contributor || source.source != "default" {
                return Ok(None);
            }
            let is_hidden = hide(place)?;
            write_state(checkout, if is_hidden { HIDDEN } else { VISIBLE })?;
            let hidden = if is_hidden { "; until you choose, git does not see .waypost" } else { "" };
            Ok(Some(format!(
                "you may not have write access to this project: {}{hidden}. Choose: way init --contributor keeps your issues \
                 in a planning repository of your own; way init --maintainer keeps them here",
                source.because
            )))
        }
    }
}

/// Records that the user has chosen, and makes the tracked directory visible again, unless a pull request would then show
/// private issues of a contributor.
pub fn record_chosen_role(place: &Place) -> Result<()> {
    let Some(checkout) = &place.checkout else { return Ok(()) };
    let state = std::fs::read_to_string(checkout.private_dir.join(STATE_FILE)).unwrap_or_default();
    if state == visible(place) {
        return Ok(());
    }
    let hides = !state.is_empty() && is_contributor(place) && !private_issues(&primary(place)?)?.is_empty();
    match (state.as_str(), &place.home_worktree) {
        (HIDDEN, _) if hides => return Ok(()),
        (HIDDEN, _) => worktrees::include(checkout, PATTERN)?,
        // The choice of a maintainer made it visible. What the project tracks cannot be hidden.
        (VISIBLE, Some(root)) if hides && tracked_by(&root.join(DOT_DIR))?.is_none() => {
            worktrees::exclude(checkout, PATTERN)?;
            return write_state(checkout, HIDDEN);
        }
        _ => {}
    }
    write_state(checkout, visible(place))
}

/// Returns the state of a directory that is visible to the user.
fn visible(place: &Place) -> &'static str {
    if is_contributor(place) { VISIBLE_TO_CONTRIBUTOR } else { VISIBLE }
}

/// Returns an error if the tracked directory is hidden because the user has not chosen a role.
pub(crate) fn require_choice(private_dir: &Path) -> Result<()> {
    if std::fs::read_to_string(private_dir.join(STATE_FILE)).is_ok_and(|state| state == HIDDEN) {
        return Err(Error::refused("this clone looks like a fork, and you have not chosen where its issues belong")
            .hint("to keep them in a planning repository of your own: way init --contributor")
            .hint("to keep them in this repository: way init --maintainer"));
    }
    Ok(())
}

/// The issues of a project's ledger that commits have. The others are private to this clone, except proposals.
pub(crate) struct Committed(Option<HashSet<String>>);

impl Committed {
    /// Reads the ledger of the checked-out commit, and that of the project's default branch as it was fetched last.
    pub(crate) fn of(repo: &Repo) -> Result<Committed> {
        let path = repo.file.path().strip_prefix(&repo.root).ok().and_then(Path::to_str).unwrap_or_default();
        let history = if repo.is_separate() {
            History::of_branch(&repo.checkout, LEDGER_BRANCH, LEDGER_PATH)?
        } else {
            History::of(&repo.checkout, &repo.root, path, LEDGERS)?
        };
        // Without version control there are no pull requests.
        let Some(mut history) = history else { return Ok(Committed(None)) };
        let mut ids = HashSet::new();
        for content in std::mem::take(&mut history.base).iter().flatten() {
            ids.extend(ids_of(history.read(content)?.unwrap_or_default()));
        }
        if let Some(upstream) = Upstream::of(&repo.checkout)? {
            ids.extend(ids_of(upstream.read(path)?.unwrap_or_default()));
        }
        Ok(Committed(Some(ids)))
    }

    /// Returns whether a commit has an issue.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|ids| ids.contains(id))
    }

    /// Returns whether a record of the ledger's file is private to this clone.
    pub(crate) fn lacks(&self, record: &Record) -> bool {
        let Some(committed) = &self.0 else { return false };
        record.text("visibility").as_deref() != Some("proposed")
            && record.text("id").is_some_and(|id| !committed.contains(&id))
    }
}

/// Returns the ids of the issues in a project's ledger that are private to this clone.
pub(crate) fn private_issues(repo: &Repo) -> Result<Vec<String>> {
    let document = repo.file.read()?;
    if document.is_empty() {
        return Ok(Vec::new());
    }
    let committed = Committed::of(repo)?;
    let private = records(&document).filter(|record| committed.lacks(record));
    Ok(private.filter_map(|record| record.text("id")).collect())
}

fn ids_of(bytes: Vec<u8>) -> Vec<String> {
    records(&Document::parse(bytes)).filter_map(|record| record.text("id")).collect()
}

fn records(document: &Document) -> impl Iterator<Item = Record> {
    (0..document.len()).filter_map(|place| document.record(place).ok())
}

/// Hides the tracked directory from the status of this clone. Returns false if it exists, because the project tracks it or
/// the user uses it already, or if the version control system has no list of patterns for one clone.
fn hide(place: &Place) -> Result<bool> {
    let (Some(checkout), Some(root)) = (&place.checkout, &place.home_worktree) else { return Ok(false) };
    let hides = checkout.git_dir.is_some() && !root.join(DOT_DIR).exists();
    if hides {
        worktrees::exclude(checkout, PATTERN)?;
    }
    Ok(hides)
}

fn write_state(checkout: &Checkout, state: &str) -> Result<()> {
    let file = checkout.private_dir.join(STATE_FILE);
    checkout.private_dir.create()?;
    waypost_fs::replace(&file, state.as_bytes(), 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write {}", file.display())).because(error))
}
