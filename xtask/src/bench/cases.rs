//! Cases that are measured together, and the table of their results.
//!
//! Every round runs every case once, so that load on the machine affects all of them. Medians are compared.

use std::process::Command;
use std::time::{Duration, Instant};

use super::options::Options;
use super::process::{peak_memory, usage, wall_time};
use super::results::{Bar, Compared, Part, Record, spread};
use crate::Result;

/// Default time budgets of one case, and of one in a quick benchmark. A slow case skips some rounds.
const DEFAULT_BUDGET: Duration = Duration::from_secs(6);
const QUICK_BUDGET: Duration = Duration::from_millis(500);

/// Number of rounds that measure processor time.
const CPU_ROUNDS: u32 = 5;

/// The processor time of a slower case is measured once.
const SLOW_CASE: Duration = Duration::from_millis(500);

/// The cases of one run.
#[derive(Default)]
pub(super) struct Cases<'a> {
    cases: Vec<Case<'a>>,
    /// Cases that could not be measured, with the error.
    failures: Vec<String>,
}

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
    /// Bytes written, as often as processor time was measured.
    written: Vec<u64>,
    /// Whether it is measured: `--only` wants it, or a case that is compared with it, and it has not failed.
    is_measured: bool,
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
        self.cases.push(Case {
            name,
            baseline,
            work,
            spent: Duration::ZERO,
            times: Vec::new(),
            cpu_times: Vec::new(),
            peak: None,
            written: Vec::new(),
            is_measured: true,
        });
        CaseId(self.cases.len() - 1)
    }

    /// Runs every case once to warm up, then in rounds, then again to measure processor time and memory.
    ///
    /// A case that fails is left out, and so are those that are compared with it.
    pub(super) fn measure(self, options: &Options, rounds: u32) -> Part {
        self.measure_within(options.pick(DEFAULT_BUDGET, QUICK_BUDGET), options, rounds)
    }

    /// Does the same with another time budget of one case.
    pub(super) fn measure_within(mut self, budget: Duration, options: &Options, rounds: u32) -> Part {
        self.select(options);
        eprintln!("warming up {} cases", self.measured().count());
        self.each(Case::warm_up);
        eprintln!("measuring, at most {rounds} rounds");
        for round in 0..rounds {
            self.each(|case| case.take_time(budget * round / rounds));
        }
        eprintln!("measuring processor time and memory");
        for _ in 0..options.pick(CPU_ROUNDS, 1) {
            self.each(Case::take_usage);
        }
        self.each(Case::take_peak);
        let records = self.measured().map(|case| self.record(case)).collect();
        Part { records, failures: self.failures }
    }

    /// Selects the cases that are measured.
    fn select(&mut self, options: &Options) {
        let mut wanted: Vec<bool> = self.cases.iter().map(|case| options.wants(&case.name)).collect();
        // A case is compared with earlier ones only.
        for number in (0..self.cases.len()).rev() {
            if wanted[number] {
                let parts = self.cases[number].baseline.iter().flat_map(|baseline| &baseline.parts);
                parts.for_each(|(_, part)| wanted[part.0] = true);
            }
        }
        for (case, wanted) in self.cases.iter_mut().zip(&wanted) {
            case.is_measured = *wanted;
        }
    }

    fn each(&mut self, step: impl Fn(&mut Case<'a>) -> Result) {
        for case in self.cases.iter_mut().filter(|case| case.is_measured) {
            if let Err(error) = step(case) {
                let failure = format!("{}: {error}", case.name);
                eprintln!("FAILED: {failure}");
                self.failures.push(failure);
                case.is_measured = false;
            }
        }
    }

    fn measured(&self) -> impl Iterator<Item = &Case<'a>> {
        self.cases.iter().filter(|case| case.is_measured)
    }

    fn record(&self, case: &Case) -> Record {
        let comparison = case.baseline.as_ref().and_then(|baseline| {
            let ratio = self.ratio(case, baseline)?;
            Some(Compared { ratio, bar: baseline.bar.map(Bar::AtMost), against: self.name(baseline) })
        });
        let mut written = case.written.clone();
        written.sort_unstable();
        #[expect(clippy::cast_precision_loss, reason = "sizes of files and of memory")]
        Record {
            name: case.name.clone(),
            runs: case.times.len(),
            times: spread(&case.times),
            rate: None,
            cpu: median(&case.cpu_times).map(milliseconds),
            peak: case.peak.map(|kib| kib as f64 / 1024.0),
            written: written.get(written.len() / 2).map(|bytes| *bytes as f64 / 1000.0),
            value: None,
            comparison,
        }
    }

    /// Returns the ratio of a case to its baseline, unless a part of this was not measured.
    fn ratio(&self, case: &Case, baseline: &Baseline) -> Option<f64> {
        let parts = baseline.parts.iter().map(|(times, part)| Some(median(&self.cases[part.0].times)? * *times));
        let whole: Duration = parts.sum::<Option<Duration>>()?;
        Some(median(&case.times)?.as_secs_f64() / (whole + baseline.time).as_secs_f64())
    }

    fn name(&self, baseline: &Baseline) -> String {
        let parts = baseline.parts.iter().map(|(times, part)| match times {
            1 => self.cases[part.0].name.clone(),
            _ => format!("{times} x {}", self.cases[part.0].name),
        });
        let time = (!baseline.time.is_zero()).then(|| format!("{:?}", baseline.time));
        parts.chain(time).collect::<Vec<_>>().join(" + ")
    }
}

impl Case<'_> {
    /// Runs it once, in the way that gives the best error message.
    fn warm_up(&mut self) -> Result {
        match &mut self.work {
            Work::Program(command) => usage(&mut command()?).map(drop),
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

    fn take_usage(&mut self) -> Result {
        let is_needed = self.cpu_times.is_empty() || median(&self.times).is_some_and(|time| time < SLOW_CASE);
        if let Work::Program(command) = &mut self.work
            && is_needed
        {
            let used = usage(&mut command()?)?;
            self.cpu_times.extend(used.cpu);
            self.written.extend(used.written);
        }
        Ok(())
    }

    fn take_peak(&mut self) -> Result {
        if let Work::Program(command) = &mut self.work {
            self.peak = peak_memory(&command()?)?;
        }
        Ok(())
    }
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
