//! The line with which git runs this program as a merge driver.

use crate::surroundings;

/// The driver's name in git's configuration.
pub const DRIVER_NAME: &str = "waypost";

/// The arguments of the driver's command line. Git replaces the placeholders with files.
pub(super) const ARGUMENTS: &str = " merge-driver %O %A %B %P";

/// Returns the command line with which git runs this program as the merge driver.
pub(super) fn own_driver() -> Option<String> {
    Some(format!("{}{ARGUMENTS}", own_word()?))
}

/// Returns the shell word that starts the running program: its name if `PATH` finds it, else its path.
fn own_word() -> Option<String> {
    let own = surroundings::own_program().and_then(std::fs::canonicalize).ok()?;
    let name = own.file_name()?.to_str()?;
    let path = surroundings::variable("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    let word = match found {
        Some(found) if std::fs::canonicalize(&found).is_ok_and(|found| found == own) => name,
        // Git would expand a percent sign.
        _ => own.to_str().filter(|path| !path.contains(['%', '\n']))?,
    };
    let is_plain = word.chars().all(|char| char.is_ascii_alphanumeric() || "/._-+".contains(char));
    Some(if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) })
}
