//! Cases that are measured together, and the table of their results.
//!
//! Every round runs every case once, so that load on the machine affects all of them. Medians are compared.

use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{cpu_time, peak_memory, wall_time};
use crate::Result;

/// Default time budget of one case. A slow case skips some rounds.
const DEFAULT_BUDGET: Duration = Duration::from_secs(6);

/// Number of rounds that measure processor time.
const CPU_ROUNDS: u32 = 5;

/// The processor time of a slower case is measured once.
const SLOW_CASE: Duration = Duration::from_millis(500);

/// The cases of one run.
#[derive(Default)]
pub(super) struct Cases<'a>(Vec<Case<'a>>);

/// Identifies a case, for comparisons.
#[derive(Clone, Copy)]
pub(super) struct CaseId(usize);

/// The baseline of a case.
pub(super) struct Baseline {
    /// Cases whose times are added, each with a factor.
    pub(super) parts: Vec<(u32, CaseId)>,
    /// A constant time that is added to them.
    pub(super) time: Duration,
    /// Maximum ratio of the case to the sum.
    pub(super) bar: Option<f64>,
}

/// Compares with one other case, with a bar.
pub(super) fn at_most(bar: f64, other: CaseId) -> Baseline {
    Baseline { parts: vec![(1, other)], time: Duration::ZERO, bar: Some(bar) }
}

/// Compares with a maximum time.
pub(super) fn within(time: Duration) -> Baseline {
    Baseline { parts: Vec::new(), time, bar: Some(1.0) }
}

/// Compares with one other case, without a bar.
pub(super) fn beside(other: CaseId) -> Baseline {
    Baseline { parts: vec![(1, other)], time: Duration::ZERO, bar: None }
}

struct Case<'a> {
    name: String,
    baseline: Option<Baseline>,
    work: Work<'a>,
    /// Total time of its runs, with their preparation.
    spent: Duration,
    times: Vec<Duration>,
    cpu_times: Vec<Duration>,
    /// Peak memory, in KiB.
    peak: Option<u64>,
}

enum Work<'a> {
    /// A process. Preparing its command is not timed.
    Program(Box<dyn FnMut() -> Result<Command> + 'a>),
    /// A function in this process.
    Inside(Box<dyn FnMut() -> Result + 'a>),
}

impl<'a> Cases<'a> {
    /// Adds a program. `command` prepares every run.
    pub(super) fn program(
        &mut self,
        name: impl Into<String>,
        baseline: impl Into<Option<Baseline>>,
        command: impl FnMut() -> Result<Command> + 'a,
    ) -> CaseId {
        self.add(name.into(), baseline.into(), Work::Program(Box::new(command)))
    }

    /// Adds a function that runs in this process.
    pub(super) fn inside(&mut self, name: impl Into<String>, work: impl FnMut() -> Result + 'a) -> CaseId {
        self.add(name.into(), None, Work::Inside(Box::new(work)))
    }

    fn add(&mut self, name: String, baseline: Option<Baseline>, work: Work<'a>) -> CaseId {
        self.0.push(Case {
            name,
            baseline,
            work,
            spent: Duration::ZERO,
            times: Vec::new(),
            cpu_times: Vec::new(),
            peak: None,
        });
        CaseId(self.0.len() - 1)
    }

    /// Runs every case once to warm up, then in rounds, then again to measure processor time and memory.
    pub(super) fn measure(&mut self, rounds: u32) -> Result {
        self.measure_within(DEFAULT_BUDGET, rounds)
    }

    /// Does the same with another time budget of one case.
    pub(super) fn measure_within(&mut self, budget: Duration, rounds: u32) -> Result {
        eprintln!("warming up {} cases", self.0.len());
        self.each(Case::warm_up)?;
        eprintln!("measuring, at most {rounds} rounds");
        for round in 0..rounds {
            self.each(|case| case.take_time(budget * round / rounds))?;
        }
        eprintln!("measuring processor time and memory");
        for _ in 0..CPU_ROUNDS {
            self.each(Case::take_cpu_time)?;
        }
        self.each(Case::take_peak)
    }

    fn each(&mut self, step: impl Fn(&mut Case<'a>) -> Result) -> Result {
        self.0.iter_mut().try_for_each(|case| step(case).map_err(|error| format!("{}: {error}", case.name)))
    }

    /// Prints the table. If `enforce`, a missed bar is an error.
    pub(super) fn report(&self, enforce: bool) -> Result {
        let width = self.0.iter().map(|case| case.name.len()).max().unwrap_or(0);
        let mut missed = Vec::new();
        println!(
            "\n{:<width$} {:>6} {:>9} {:>8} {:>8} {:>7} {:>4}         against",
            "medians", "rounds", "ms", "CPU ms", "peak MiB", "ratio", "bar"
        );
        for case in &self.0 {
            let cpu = median(&case.cpu_times).map(|cpu| format!("{:.2}", milliseconds(cpu)));
            let peak = case.peak.map(|kib| format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024));
            let ratio = case.baseline.as_ref().map(|baseline| self.ratio(case, baseline));
            let bar = case.baseline.as_ref().and_then(|baseline| baseline.bar);
            let is_missed = ratio.zip(bar).is_some_and(|(ratio, bar)| ratio > bar);
            let line = format!(
                "{:<width$} {:>6} {:>9.3} {:>8} {:>8} {:>7} {:>4} {:<6}  {}",
                case.name,
                case.times.len(),
                milliseconds(case.time()),
                cpu.unwrap_or_default(),
                peak.unwrap_or_default(),
                ratio.map(format_ratio).unwrap_or_default(),
                bar.map(|bar| bar.to_string()).unwrap_or_default(),
                if is_missed { "MISSED" } else { "" },
                case.baseline.as_ref().map(|baseline| self.name(baseline)).unwrap_or_default(),
            );
            println!("{}", line.trim_end());
            if is_missed {
                missed.push(case.name.as_str());
            }
        }
        if self.0.iter().all(|case| case.peak.is_none()) {
            println!("GNU time (Debian package time) is not installed: no memory measured");
        }
        if enforce && !missed.is_empty() {
            return Err(format!("bars missed: {}", missed.join("; ")));
        }
        Ok(())
    }

    fn ratio(&self, case: &Case, baseline: &Baseline) -> f64 {
        let whole: Duration = baseline.parts.iter().map(|(times, part)| self.0[part.0].time() * *times).sum();
        case.time().as_secs_f64() / (whole + baseline.time).as_secs_f64()
    }

    fn name(&self, baseline: &Baseline) -> String {
        let parts = baseline.parts.iter().map(|(times, part)| match times {
            1 => self.0[part.0].name.clone(),
            _ => format!("{times} x {}", self.0[part.0].name),
        });
        let time = (!baseline.time.is_zero()).then(|| format!("{:?}", baseline.time));
        parts.chain(time).collect::<Vec<_>>().join(" + ")
    }
}

impl Case<'_> {
    /// Runs it once, in the way that gives the best error message.
    fn warm_up(&mut self) -> Result {
        match &mut self.work {
            Work::Program(command) => cpu_time(&mut command()?).map(drop),
            Work::Inside(work) => work(),
        }
    }

    /// Runs it once, unless it has exceeded its budget so far.
    fn take_time(&mut self, allowance: Duration) -> Result {
        if self.spent > allowance {
            return Ok(());
        }
        let start = Instant::now();
        let time = match &mut self.work {
            Work::Program(command) => wall_time(&mut command()?)?,
            Work::Inside(work) => work().map(|()| start.elapsed())?,
        };
        self.times.push(time);
        self.spent += start.elapsed();
        Ok(())
    }

    fn take_cpu_time(&mut self) -> Result {
        let is_needed = self.cpu_times.is_empty() || self.time() < SLOW_CASE;
        if let Work::Program(command) = &mut self.work
            && is_needed
        {
            self.cpu_times.extend(cpu_time(&mut command()?)?);
        }
        Ok(())
    }

    fn take_peak(&mut self) -> Result {
        if let Work::Program(command) = &mut self.work {
            self.peak = peak_memory(&command()?)?;
        }
        Ok(())
    }

    fn time(&self) -> Duration {
        median(&self.times).expect("the first round runs every case")
    }
}

/// Formats a ratio with its significant digits.
pub(super) fn format_ratio(ratio: f64) -> String {
    if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
