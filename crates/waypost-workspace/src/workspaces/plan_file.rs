//! The file in a workspace's directory that holds its plan.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use waypost_core::{Error, Result};
use waypost_fs::replace;

use super::model::Plan;

/// The file's name.
const NAME: &str = "plan.json";

/// Returns whether a directory was made for this very plan. An empty one was, and no more came of it.
pub(super) fn is_of(plan: &Plan, home: &Path) -> Result<bool> {
    match fs::read(home.join(NAME)) {
        Ok(mark) => Ok(serde_json::from_slice::<Plan>(&mark).is_ok_and(|marked| {
            // Taken from the pool a moment ago: it lies here and says that it lies there.
            let is_slot = marked.mirror == plan.mirror && marked.home() != home && marked.workspaces != plan.workspaces;
            marked == *plan || is_slot
        })),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // Or only the beginning of its mark.
            let is_beginning = |name: &str| name.starts_with(".plan.json.");
            let mut names = home.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name());
            Ok(home.is_dir() && names.all(|name| name.to_str().is_some_and(is_beginning)))
        }
        Err(error) => Err(Error::unavailable(format!("cannot read {}", home.display())).because(error)),
    }
}

/// Writes down what a directory is.
pub(super) fn write(plan: &Plan, home: &Path) -> Result<()> {
    let mark = serde_json::to_vec_pretty(plan).map_err(|error| Error::internal(error.to_string()))?;
    replace(&home.join(NAME), &mark, 0o600)
        .map_err(|error| Error::unavailable(format!("cannot write in {}", home.display())).because(error))
}

/// Reads the plan of a directory. None if there is none that can be read.
pub(super) fn read(home: &Path) -> Option<Plan> {
    serde_json::from_slice(&fs::read(home.join(NAME)).ok()?).ok()
}
