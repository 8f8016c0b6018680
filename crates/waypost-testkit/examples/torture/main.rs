//! Stress-tests the real binary for a given time, and reports lost writes, duplicate writes and stuck tasks.
//!
//! `cargo xtask torture` builds and runs it. Every part has a name, a seed and a share of the time. After a violation the
//! evidence is kept: the directory with the repositories and stores, and the recorded history.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints for the developer")]

mod disk;
mod fuse;
mod power;
mod races;
mod scene;
mod storms;
mod sweep;
mod tally;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tally::Tally;
use waypost_testkit::Dice;

const USAGE: &str = "\
Usage: torture [--minutes N] [--only NAME]... [--without NAME]... [--seed N]

Parts: storm, serve, jobs, races, faults, kills, power, postgres, clock";

/// A kind of torture.
struct Part {
    name: &'static str,
    /// Its share of the time, relative to the sum of all shares.
    share: u32,
    /// The fewest acknowledged writes in a minute: a part whose writes all fail shows nothing.
    least: u32,
    run: fn(&Torture) -> Tally,
}

const PARTS: [Part; 9] = [
    Part { name: "storm", share: 4, least: 60, run: storms::storm },
    Part { name: "serve", share: 3, least: 60, run: storms::serve },
    Part { name: "jobs", share: 3, least: 20, run: storms::jobs },
    Part { name: "races", share: 5, least: 60, run: races::races },
    Part { name: "faults", share: 5, least: 30, run: sweep::faults },
    Part { name: "kills", share: 4, least: 20, run: sweep::kills },
    Part { name: "power", share: 5, least: 10, run: power::power },
    Part { name: "postgres", share: 4, least: 60, run: storms::postgres },
    Part { name: "clock", share: 3, least: 60, run: storms::clock },
];

/// The time and the programs of one part.
pub(crate) struct Torture {
    way: PathBuf,
    checker: PathBuf,
    seed: u64,
    deadline: Instant,
}

impl Torture {
    fn way(&self) -> &str {
        self.way.to_str().expect("a build directory with a plain name")
    }

    fn dice(&self) -> Dice {
        Dice(self.seed)
    }

    /// Returns the remaining time.
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// The options of the command line.
struct Options {
    minutes: f64,
    seed: u64,
    parts: Vec<&'static Part>,
}

impl Options {
    fn parse(args: &[String]) -> Option<Options> {
        let (mut minutes, mut seed, mut only, mut without) = (30.0, None, Vec::new(), Vec::new());
        for pair in args.chunks(2) {
            let [name, value] = pair else { return None };
            match name.as_str() {
                "--minutes" => minutes = value.parse().ok().filter(|minutes: &f64| *minutes > 0.0)?,
                "--seed" => seed = Some(value.parse().ok()?),
                "--only" => only.push(PARTS.iter().find(|part| part.name == value)?.name),
                "--without" => without.push(PARTS.iter().find(|part| part.name == value)?.name),
                _ => return None,
            }
        }
        let is_selected =
            |part: &&Part| (only.is_empty() || only.contains(&part.name)) && !without.contains(&part.name);
        let parts = PARTS.iter().filter(is_selected).collect();
        Some(Options { minutes, seed: seed.unwrap_or_else(random_seed), parts })
    }
}

/// Returns a random seed.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0) % 1_000_000_000
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = Options::parse(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let examples = std::env::current_exe().expect("this program").parent().expect("a directory").to_owned();
    let way = examples.parent().expect("a build directory").join("way");
    let shares: u32 = options.parts.iter().map(|part| part.share).sum();
    println!("torture for {} minutes, seed {}", options.minutes, options.seed);
    let mut results = Vec::new();
    for part in &options.parts {
        let time = Duration::from_secs_f64(options.minutes * 60.0 * f64::from(part.share) / f64::from(shares));
        println!("{}: {time:.0?}; repeat it with --only {} --seed {}", part.name, part.name, options.seed);
        let checker = examples.join("check_history");
        let torture = Torture { way: way.clone(), checker, seed: options.seed, deadline: Instant::now() + time };
        let start = Instant::now();
        let mut tally = (part.run)(&torture);
        if tally.rounds == 0 && tally.violations.is_empty() {
            tally.violation(format!("{}: the time was too short for one round", part.name));
        }
        let least = u64::from(part.least) * start.elapsed().as_secs() / 60;
        if tally.acknowledged < least {
            tally.violation(format!("{}: fewer than {least} writes were acknowledged", part.name));
        }
        println!("{}: {tally} in {:.0?}", part.name, start.elapsed());
        results.push((part.name, tally));
    }
    summary(&results)
}

/// Prints the summary table, and all violations again.
fn summary(results: &[(&str, Tally)]) -> ExitCode {
    println!(
        "\n{:<10} {:>8} {:>8} {:>8} {:>13} {:>11}",
        "part", "rounds", "faults", "kills", "acknowledged", "violations"
    );
    let mut total = Tally::default();
    for (name, tally) in results {
        println!("{}", tally.row(name));
        total.merge(tally.clone());
    }
    println!("{}", total.row("total"));
    for violation in &total.violations {
        println!("VIOLATION {violation}");
    }
    if total.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
