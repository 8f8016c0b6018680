//! Makes workspaces from the command line. `cargo xtask bench workspace` measures it as a whole process.
//!
//! `workspace make|warm|take|remove SOURCE DIRECTORY NAME [STRATEGY [BASE]]`, with workspaces and mirrors in DIRECTORY.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::path::Path;

use waypost_core::path_text;
use waypost_workspace::workspaces::{self, Made, MakeOptions, Name, Places, Plan, Request, Source, Strategy};
use waypost_workspace::{Environment, NetworkOptions, detect};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [verb, source, dir, name, rest @ ..] = args.as_slice() else {
        return Err("make|warm|take|remove SOURCE DIRECTORY NAME [STRATEGY [BASE]]".into());
    };
    let dir = Path::new(dir);
    if *verb == "remove" {
        let (plan, made): (Plan, Made) = serde_json::from_slice(&std::fs::read(note(dir, name))?)?;
        let identity = made.identity.ok_or("it is the checkout itself")?;
        return Ok(workspaces::remove(&plan, identity, workspaces::Work::MustBeSafe)?);
    }
    let strategy: Option<Strategy> = match rest.first() {
        Some(strategy) => Some(serde_json::from_value((*strategy).into())?),
        None => None,
    };
    let checkout = detect(Path::new(source), &Environment::default())?.ok_or("there is no repository")?;
    let name = Name::try_from((*name).to_owned())?;
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
    let made = match *verb {
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
