//! The three homes of a ledger, and moving a ledger from one to another.
//!
//! `main`: tracked in the main worktree. `branch`: each worktree has its own tracked copy. `separate`: a branch of its own,
//! whose file is in the private directory of the clone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use waypost_core::ledger::conflict;
use waypost_core::ledger::document::Document;
use waypost_core::ledger::issue::Issue;
use waypost_core::ledger::merge::merge;
use waypost_core::ledger::record::Record;
use waypost_core::model::Vcs;
use waypost_core::{Error, Result};
use waypost_fs::read_small_file;
use waypost_ledger::LedgerFile;
use waypost_workspace::{Checkout, ledger_branch};

use crate::issues::repos::{Repo, check_inside};
use crate::machine::config::{self, Layer, Value, key_named};
use crate::machine::place::{LEDGERS, LedgerHome, Place, ledger_in, separate_ledger};

/// The file in the private directory that records which branch the main worktree had last.
const BRANCH_FILE: &str = "ledger-branch";

/// The result of moving a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedHome {
    /// The former home.
    pub from: LedgerHome,
    /// The new home.
    pub to: LedgerHome,
    /// The ledger's file in the new home.
    pub path: PathBuf,
    /// The number of issues.
    pub issues: usize,
    /// Files of the former home, which are removed or, if they are tracked, empty.
    pub removed: Vec<PathBuf>,
    /// Tracked files that the user has to commit.
    pub to_commit: Vec<PathBuf>,
}

/// Moves the ledger to another home with all its issues, and records the home in the tracked configuration. Moving it
/// where it is adds issues that a worktree still has from before. A dry run changes nothing.
pub fn change_home(place: &Place, to: LedgerHome, dry_run: bool) -> Result<MovedHome> {
    let checkout = place.require_checkout()?;
    if to == LedgerHome::Separate {
        ledger_branch::check_ledger_branch(checkout)?;
    }
    let from = place.ledger_home().0;
    let Some(main) = place.home_worktree.clone() else {
        return Err(
            Error::invalid("there is no worktree for tracked files").hint("create one first: way worktree add BRANCH")
        );
    };
    let current = checkout.root.clone().unwrap_or_else(|| main.clone());
    let root = match to {
        LedgerHome::Main => main.clone(),
        LedgerHome::Branch => current.clone(),
        LedgerHome::Separate => ledger_branch::ledger_branch_root(checkout),
    };
    let separate = separate_ledger(checkout);
    let path = if to == LedgerHome::Separate { separate.clone() } else { ledger_in(&root).0 };
    let target = Repo::of(checkout.clone(), root.clone(), path.clone());
    let in_main = ledger_in(&main).0;
    let mut sources: Vec<PathBuf> = match from {
        LedgerHome::Main => vec![in_main.clone()],
        LedgerHome::Branch => checkout.worktrees().into_iter().map(|listed| ledger_in(&listed.path).0).collect(),
        // Copies that branches still have from before.
        LedgerHome::Separate if to == from => vec![in_main.clone(), ledger_in(&current).0],
        LedgerHome::Separate => vec![separate.clone()],
    };
    let has_content = |source: &Path| source.metadata().is_ok_and(|file| file.len() > 0);
    sources.retain(|source| *source != path && has_content(source));
    sources.sort();
    sources.dedup();
    // Copies in other worktrees belong to other branches; they are not read any more.
    let is_removed = |source: &&PathBuf| **source == separate || (**source == in_main && to == LedgerHome::Separate);
    let removed: Vec<PathBuf> = sources.iter().filter(is_removed).cloned().collect();
    check_inside(&path, &target.root)?;
    let union = |current: &[u8]| unite(current, &sources);
    let content = if dry_run {
        union(&target.file.read()?.to_bytes())?
    } else {
        if to == LedgerHome::Separate {
            ledger_branch::start_ledger_branch(checkout, &main, LEDGERS)?;
            target.clone().check_out()?;
        }
        target.file.rewrite(union)?
    };
    let issues = ids(&content).len();
    let mut to_commit = Vec::new();
    if !dry_run {
        to_commit.extend(write_config(place, to)?);
        for source in &removed {
            // A clone that does not know of the move yet may change the tracked file: git merges its lines into an empty one,
            // and would lose them with one that is gone.
            remove_merged(source, &target.file, *source == in_main)?;
        }
    }
    if checkout.vcs != Vcs::None {
        to_commit.extend(removed.iter().filter(|file| **file != separate).cloned());
        to_commit.extend(Some(path.clone()).filter(|_| to != LedgerHome::Separate && from != to));
    }
    Ok(MovedHome { from, to, path, issues, removed, to_commit })
}

/// Merges the ledgers of several files into one. No issue of any of them gets lost.
fn unite(current: &[u8], sources: &[PathBuf]) -> Result<Vec<u8>> {
    let mut united = resolved(current.to_vec());
    for source in sources {
        let bytes = std::fs::read(source)
            .map_err(|error| Error::unavailable(format!("cannot read {}", source.display())).because(error))?;
        let other = resolved(bytes);
        united = if united.is_empty() { other } else { merge(None, &united, &other) };
    }
    Ok(united.to_bytes())
}

fn resolved(bytes: Vec<u8>) -> Document {
    let document = Document::parse(bytes);
    conflict::read(document)
}

/// Removes or empties a file of the former home, after a last merge of changes that another program made meanwhile.
fn remove_merged(source: &Path, target: &LedgerFile, stays: bool) -> Result<()> {
    let sources = [source.to_owned()];
    target.rewrite(|current| unite(current, &sources))?;
    if stays {
        return waypost_fs::replace(source, b"", 0o644)
            .map_err(|error| Error::unavailable(format!("cannot empty {}", source.display())).because(error));
    }
    std::fs::remove_file(source)
        .map_err(|error| Error::unavailable(format!("cannot remove {}", source.display())).because(error))?;
    if let Some(dir) = source.parent() {
        // Only if it is empty.
        let _ = std::fs::remove_dir(dir);
    }
    Ok(())
}

/// Writes the home into the tracked configuration, and into personal ones that would override it. Returns the tracked file.
fn write_config(place: &Place, to: LedgerHome) -> Result<Option<PathBuf>> {
    let checkout = place.require_checkout()?;
    let key = key_named("ledger.home")?;
    let value = Value::Text(to.to_string());
    checkout.private_dir.create()?;
    let lock = checkout.private_dir.join("lock");
    let setting = place.config.get(key.name);
    match setting.as_ref().map(|setting| setting.layer) {
        Some(Layer::Environment | Layer::Flag) => {
            return Err(Error::invalid("ledger.home is set for this command only, so it cannot be changed")
                .hint("run the command without --config ledger.home and without WAYPOST_LEDGER_HOME"));
        }
        Some(Layer::Private) => config::set(&checkout.private_dir.join("config.toml"), &lock, key, &value)?,
        _ => {}
    }
    let is_same = setting.is_some_and(|setting| setting.layer == Layer::Shared && setting.value == value);
    if is_same {
        return Ok(None);
    }
    let file = place.check_tracked("config.toml")?;
    if let Some(dir) = file.parent() {
        waypost_fs::create_durable_dir(dir)
            .map_err(|error| Error::unavailable(format!("cannot create {}", dir.display())).because(error))?;
    }
    config::set(&file, &lock, key, &value)?;
    Ok(Some(file))
}

/// Returns a note about issues that this clone has, but that its ledger does not show: those of another branch.
pub(crate) fn hidden_issues(place: &Place) -> Result<Option<String>> {
    let Some(checkout) = &place.checkout else { return Ok(None) };
    let (home, source) = place.ledger_home();
    if home != LedgerHome::Main {
        return Ok(None);
    }
    let Some((path, _)) = place.ledger_at(home, source.clone()) else { return Ok(None) };
    if !path.exists() && !checkout.private_dir.join(BRANCH_FILE).exists() {
        // This clone has no issues yet.
        return Ok(if source.source == "default" { unused_branch(place) } else { None });
    }
    let (Some(branch), Some(root)) = (checkout.main_branch(), &checkout.main_root) else { return Ok(None) };
    // Before the comparison: the note is shown once, even if the comparison fails.
    let known = record_branch(checkout, &branch);
    let (Some(former), Some(name)) = (known.as_deref(), path.strip_prefix(root).ok().and_then(Path::to_str)) else {
        return Ok(None);
    };
    let Some(committed) = ledger_branch::read_on_branch(checkout, former, name)? else { return Ok(None) };
    let shown = std::fs::read(&path).unwrap_or_default();
    let shown = ids(&shown);
    let hidden = ids(&committed).difference(&shown).count();
    Ok((hidden > 0).then(|| {
        let (issues, are) = if hidden == 1 { ("issue", "is") } else { ("issues", "are") };
        format!(
            "{hidden} {issues} of branch {former} {are} not on {branch}, which is checked out now; git switch {former} shows them \
             again, and way migrate --home separate keeps issues apart from branches"
        )
    }))
}

/// Records the branch of the main worktree, unless one is recorded: a change of branch is for [`hidden_issues`] to note.
pub(crate) fn record_first_branch(place: &Place) {
    if let Some(checkout) = &place.checkout
        && !checkout.private_dir.join(BRANCH_FILE).exists()
        && let Some(branch) = checkout.main_branch()
    {
        record_branch(checkout, &branch);
    }
}

/// Records the branch of the main worktree, and returns the one that was recorded before, if it was another one.
#[expect(clippy::disallowed_methods, reason = "a lost or torn record costs a note, and need not cost a sync")]
fn record_branch(checkout: &Checkout, branch: &str) -> Option<String> {
    let record = checkout.private_dir.join(BRANCH_FILE);
    let known = read_small_file(&record).ok().flatten().and_then(|known| String::from_utf8(known).ok());
    let known = known.map(|known| known.trim_end().to_owned());
    if known.as_deref() == Some(branch) {
        return None;
    }
    checkout.private_dir.create().ok()?;
    // If it cannot be written, the note would be shown by every command.
    std::fs::write(&record, format!("{branch}\n")).ok().and(known)
}

/// Returns a note if a repository without a ledger knows a branch that may have it.
fn unused_branch(place: &Place) -> Option<String> {
    let checkout = place.checkout.as_ref()?;
    let is_known = ledger_branch::is_ledger_branch_known(checkout);
    let name = ledger_branch::LEDGER_BRANCH_NAME;
    is_known.then(|| {
        format!("this repository has a branch {name}; if it holds the issues: way config set ledger.home separate")
    })
}

/// Returns the ids of the issues in a ledger, except deleted ones.
fn ids(bytes: &[u8]) -> HashSet<String> {
    let document = resolved(bytes.to_vec());
    let lines = document.lines().filter_map(|line| std::str::from_utf8(line).ok());
    let records = lines.filter_map(|line| Record::parse(line).ok());
    let issues = records.filter_map(|record| Issue::read(&record).map(|(issue, _)| issue));
    issues.filter(|issue| issue.status != "tombstone").map(|issue| issue.id).collect()
}
