//! Makes workspaces, with the library alone.

use std::path::Path;

use waypost_core::path_text;
use waypost_workspace::workspaces::{self, Made, MakeOptions, Name, Places, Plan, Request, Source, Strategy};
use waypost_workspace::{Environment, NetworkOptions, detect};

use crate::Result;

/// Runs a verb on the workspace of a name. Workspaces and mirrors are in `dir`.
pub(crate) fn run(verb: &str, source: &str, dir: &Path, name: &str, rest: &[&str]) -> Result {
    if verb == "remove" {
        let (plan, made): (Plan, Made) = serde_json::from_slice(&std::fs::read(note(dir, name))?)?;
        let identity = made.identity.ok_or("it is the checkout itself")?;
        return Ok(workspaces::remove(&plan, identity, workspaces::Work::MustBeSafe)?);
    }
    let strategy: Option<Strategy> = match rest.first() {
        Some(strategy) => Some(serde_json::from_value((*strategy).into())?),
        None => None,
    };
    let checkout = detect(Path::new(source), &Environment::default())?.ok_or("there is no repository")?;
    let name = Name::try_from(name.to_owned())?;
    let plan = workspaces::plan(&Request {
        places: Places { workspaces: &dir.join("workspaces"), mirrors: &dir.join("mirrors") },
        name: &name,
        source: Source::Checkout(&checkout),
        base: rest.get(1).copied(),
        commit: None,
        branch: None,
        strategy,
        network: NetworkOptions::default(),
    })?;
    let options = MakeOptions::default();
    let made = match verb {
        "warm" => {
            let slot = workspaces::warm(&plan, &options)?;
            println!("{}", path_text::to_text(&slot.plan.workspace));
            return Ok(());
        }
        "make" => workspaces::make(&plan, &options)?,
        "take" => workspaces::take(&plan, &options)?.ok_or("the pool is empty")?,
        _ => return Err("make, warm, take or remove?".into()),
    };
    waypost_fs::replace(&note(dir, name.as_str()), &serde_json::to_vec(&(&plan, &made))?, 0o600)?;
    println!("{}", path_text::to_text(&plan.workspace));
    Ok(())
}

/// The file in which this program records a workspace, instead of a store.
fn note(dir: &Path, name: &str) -> std::path::PathBuf {
    dir.join(format!("{name}.json"))
}
