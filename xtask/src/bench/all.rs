//! All benchmarks, one after the other, and the page with their results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use serde_json::json;

use super::options::{Options, Subject};
use super::scratch::{Scratch, bench_dir, create_dir, remove_files, write};
use super::{machine, page, results};
use crate::Result;

const PARTS: [Subject; 6] =
    [Subject::Startup, Subject::Ledger, Subject::Store, Subject::Server, Subject::Workspace, Subject::Dashboard];

/// Runs every benchmark. One that fails is an error in the end, and the page has the results of the others.
pub(super) fn measure(options: &Options, run: fn(&Options) -> Result) -> Result {
    if options.only.is_some() {
        return Err("--only selects rows of one benchmark: name it instead of all".to_owned());
    }
    let begin = Instant::now();
    // Building takes longer than measuring.
    let scratch = Scratch::prepare(options)?;
    scratch.build_programs()?;
    let mut report = vec![format!("{:>7.1} s  build", begin.elapsed().as_secs_f64())];
    let dir = results::dir(&bench_dir(), options);
    create_dir(&dir)?;
    remove_files(&dir, "")?;
    let mut facts: Vec<_> = machine::facts(options).into_iter().map(|(name, value)| json!([name, value])).collect();
    let mut failures = Vec::new();
    let measuring = Instant::now();
    for subject in PARTS {
        let name = subject.name();
        println!("\n== {name}");
        let begin = Instant::now();
        let part = Options { subject, is_built: true, ..options.clone() };
        let ended = catch_unwind(AssertUnwindSafe(|| run(&part))).unwrap_or_else(|_| Err("it panicked".to_owned()));
        let missing = match results::load(&dir, name) {
            Ok(Some(part)) if part.failures.is_empty() => Ok(()),
            Ok(Some(part)) => Err(part.failures.join("\n")),
            Ok(None) => Err("it has no results".to_owned()),
            Err(error) => Err(error),
        };
        let mut verdict = "";
        if let Err(error) = ended.and(missing) {
            eprintln!("FAILED: {name}: {error}");
            failures.push(format!("{name}: {error}"));
            verdict = "  FAILED";
        }
        report.push(format!("{:>7.1} s  {name}{verdict}", begin.elapsed().as_secs_f64()));
    }
    report.push(format!("{:>7.1} s  all, without the build", measuring.elapsed().as_secs_f64()));
    facts.push(json!(["compared programs", machine::compared()]));
    write(&dir.join("machine.json"), &[&format!("{:#}\n", json!(facts))])?;
    let written = page::write(options);
    println!("\n{}", report.join("\n"));
    written?;
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}
