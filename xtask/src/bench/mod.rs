//! Benchmarks with bars. Bars are ratios where possible, so that the speed of the machine cancels out.

mod cases;
mod dashboard;
mod issues;
mod ledger;
mod machine;
mod options;
mod page;
mod percentiles;
mod process;
mod repository;
mod results;
mod scratch;
mod server;
mod startup;
mod store;
mod workspace;

use std::time::Instant;

pub(crate) use options::Options;
use results::Part;
use scratch::Scratch;

use crate::Result;

/// Runs a benchmark.
type Measure = fn(&Options, &Scratch) -> Result<Part>;

/// All benchmarks, by name. `cargo xtask ci` runs each in its quick form.
const PARTS: [(&str, Measure); 6] = [
    ("startup", startup::measure),
    ("ledger", ledger::measure),
    ("store", store::measure),
    ("server", server::measure),
    ("workspace", workspace::measure),
    ("dashboard", dashboard::measure),
];

/// Returns the names of all benchmarks.
pub(crate) fn names() -> Vec<&'static str> {
    PARTS.map(|(name, _)| name).into()
}

/// Runs the named benchmark, or all of them, and prints tables. The results of all of them become a page.
pub(crate) fn run(options: &Options) -> Result {
    let is_all = options.subject == "all";
    let chosen: Vec<_> = PARTS.into_iter().filter(|(name, _)| is_all || *name == options.subject).collect();
    if chosen.is_empty() {
        return Err(crate::USAGE.to_owned());
    }
    let scratch = Scratch::prepare(options)?;
    let mut machine = machine::facts(options);
    let (mut parts, mut failures, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for (name, measure) in chosen {
        println!("\n== {name}");
        let begin = Instant::now();
        let part = measure(options, &scratch).unwrap_or_else(|error| {
            let mut part = Part::default();
            part.fail(error);
            part
        });
        seconds.push(format!("{name} {:.0} s", begin.elapsed().as_secs_f64()));
        if let Err(error) = part.report(options) {
            failures.push(format!("{name}: {error}"));
        } else if is_all && let Some(failure) = part.failures.first() {
            failures.push(format!("{name}: {failure}"));
        }
        parts.push((name, part));
    }
    println!("\nmeasured: {}", seconds.join(", "));
    if is_all && options.only.is_none() {
        machine.push(("time of each benchmark", seconds.join(", ")));
        page::write(options, &machine, &parts)?;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
