//! The file in a workspace's directory that holds its plan.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::replace;

use super::model::Plan;

/// The file's name.
const NAME: &str = "plan.json";

/// Returns whether a directory was made for this plan. An empty one was: making it was interrupted.
pub(super) fn is_of(plan: &Plan, home: &Path) -> Result<bool> {
    match fs::read(home.join(NAME)) {
        Ok(content) => Ok(serde_json::from_slice::<Plan>(&content).is_ok_and(|written| {
            // It was just taken from the pool: it has moved, but still holds the plan of the slot.
            let is_slot =
                written.mirror == plan.mirror && written.home() != home && written.workspaces != plan.workspaces;
            written == *plan || is_slot
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The write of the plan may have been interrupted.
            let is_partial = |name: &str| name.starts_with(".plan.json.");
            let mut names = home.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
            Ok(home.is_dir() && names.all(|name| name.to_str().is_some_and(is_partial)))
        }
        Err(error) => Err(Error::unavailable(format!("cannot read {}", home.display())).because(error)),
    }
}

/// Writes a plan into its directory.
pub(super) fn write(plan: &Plan, home: &Path) -> Result<()> {
    let content = serde_json::to_vec_pretty(plan).map_err(|error| Error::internal(error.to_string()))?;
    replace(&home.join(NAME), &content, 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write in {}", home.display())).because(error))
}

/// Reads the plan of a directory. None if there is none that can be read.
pub(super) fn read(home: &Path) -> Option<Plan> {
    serde_json::from_slice(&fs::read(home.join(NAME)).ok()?).ok()
}
