//! Removes old records from the store, with the files of removed jobs.

use std::io::ErrorKind;
use std::path::PathBuf;

use waypost_core::id::JobId;
use waypost_core::op::{CollectGarbage, Collected, FindGarbage, FoundGarbage, ListSummaries};
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, remove_tree};

use crate::app::session::Session;
use crate::work::workspaces;

/// Returns how many records ended so long ago and may be removed.
pub fn find_garbage(session: &mut Session, older_than_ms: u64) -> Result<FoundGarbage> {
    session.call(FindGarbage { older_than_ms })
}

/// Removes the records that ended so long ago, part by part: other processes write in between, and a crash leaves a
/// consistent store.
pub fn collect_garbage(session: &mut Session, older_than_ms: u64) -> Result<Collected> {
    let mut all = session.call(CollectGarbage { older_than_ms })?;
    while all.has_more {
        let part = session.call(CollectGarbage { older_than_ms })?;
        all.removed.add(part.removed);
        all.has_more = part.has_more;
    }
    remove_files_of_jobs(session)?;
    Ok(all)
}

/// Removes the output and the context of jobs that were removed from the store, also by an earlier run that crashed.
fn remove_files_of_jobs(session: &mut Session) -> Result<()> {
    let Ok(root) = workspaces::root(session) else { return Ok(()) };
    let dir = root.join("jobs");
    let cannot = |error| Error::unavailable(format!("cannot read {}", dir.display())).because(error);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(error)),
    };
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(cannot)?;
        if let Some(name) = entry.file_name().to_str().filter(|name| name.parse::<JobId>().is_ok()) {
            found.push((name.to_owned(), entry.path()));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    // Jobs of other stores have their files here too.
    let subjects = found.iter().map(|(name, _)| name.clone()).collect();
    let summaries = session.call(ListSummaries { subjects, limit: 0 })?.summaries;
    for (_, path) in found.iter().filter(|(name, _)| summaries.iter().any(|summary| summary.subject == *name)) {
        let identity = FileIdentity::of_entry(path)
            .map_err(|error| Error::unavailable(format!("cannot access {}", path.display())).because(error))?;
        remove_tree(path, identity)?;
    }
    Ok(())
}
