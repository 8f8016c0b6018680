//! Adds two issues to a repository, makes one wait for the other, and prints what is ready.
//!
//! `cargo run -p waypost --example add_issue -- PATH`
#![expect(clippy::print_stdout, reason = "an example prints")]

use waypost::Result;
use waypost::issues::ledger::{DependencyKind, Edit, Ledger};

fn main() -> Result<()> {
    let repository = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let ledger = Ledger::open(repository)?;
    let titled = |title: &str| Edit { title: Some(title.to_owned()), ..Edit::default() };
    // One atomic change: either both issues and the dependency are written, or nothing.
    let (wall, roof) = ledger.transaction(|transaction| {
        let wall = transaction.add(&titled("Build the wall").into())?;
        let roof = transaction.add(&titled("Put the roof on it").into())?;
        transaction.depend(&roof, &wall, DependencyKind::Blocks)?;
        Ok((wall, roof))
    })?;
    for issue in ledger.ready()?.iter() {
        println!("ready: {}", issue.title);
    }
    ledger.close(&wall, Some("it stands"))?;
    println!("then: {}", ledger.get(&roof)?.title);
    Ok(())
}
