//! Uncommitted changes of the checkout from which a job is started.

use waypost_core::Result;
use waypost_core::model::Strategy;
use waypost_workspace::workspaces as tools;

use crate::app::session::Session;

/// Returns a warning if the checkout has uncommitted changes that jobs with this strategy do not see. `on` is what the jobs
/// start from instead of the head.
pub fn uncommitted_warning(session: &Session, strategy: Option<Strategy>, on: Option<&str>) -> Result<Option<String>> {
    let Some(checkout) = &session.place.checkout else { return Ok(None) };
    let configured = session.place.config.text("workspaces.strategy").and_then(|word| word.parse().ok());
    if matches!(strategy.or(configured), Some(Strategy::Copy | Strategy::InPlace)) {
        return Ok(None);
    }
    let Some(found) = tools::uncommitted(checkout)? else { return Ok(None) };
    let files = waypost_core::words::count(found.files, "file");
    let head = || format!("HEAD ({})", found.head.chars().take(12).collect::<String>());
    let on = on.map_or_else(head, str::to_owned);
    Ok(Some(format!("this works on {on}, without the uncommitted changes of {files}")))
}
