//! Benchmarks with bars. Bars are ratios where possible, so that the speed of the machine cancels out.

mod cases;
mod issues;
mod ledger;
mod options;
mod page;
mod random;
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

/// Adds the rows of a benchmark.
type Measure = fn(&Options, &Scratch, &mut Part) -> Result;

/// All benchmarks, by name. `cargo xtask ci` runs each in its quick form.
const PARTS: [(&str, Measure); 5] = [
    ("startup", startup::measure),
    ("ledger", ledger::measure),
    ("store", store::measure),
    ("server", server::measure),
    ("workspace", workspace::measure),
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
    let mut facts = page::facts(options);
    let (mut parts, mut failures, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
    for (name, measure) in chosen {
        println!("\n== {name}");
        let begin = Instant::now();
        let mut part = measured(measure, options, &scratch);
        let mut reported = part.report(options);
        if options.enforce && reported.is_err() {
            println!("measured again: another program may have kept the machine busy");
            part = measured(measure, options, &scratch);
            reported = part.report(options);
        }
        seconds.push(format!("{name} {:.0} s", begin.elapsed().as_secs_f64()));
        if let Err(error) = reported {
            failures.push(format!("{name}: {error}"));
        } else if is_all && let Some(failure) = part.failures.first() {
            failures.push(format!("{name}: {failure}"));
        }
        parts.push((name, part));
    }
    println!("\nmeasured: {}", seconds.join(", "));
    if is_all && options.only.is_none() {
        facts.push(("time of each benchmark", seconds.join(", ")));
        page::write(options, &facts, &parts)?;
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

fn measured(measure: Measure, options: &Options, scratch: &Scratch) -> Part {
    let mut part = Part::default();
    if let Err(error) = measure(options, scratch, &mut part) {
        part.fail(error);
    }
    part
}
