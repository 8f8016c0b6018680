//! Cases that are measured together.
//!
//! Every round runs every case once, so that load on the machine affects all of them. Medians are compared.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::options::Options;
use super::results::{Bar, Part, Row};
use crate::Result;

/// Default time budgets of one case, and of one in a quick benchmark. A slow case skips some rounds.
const DEFAULT_BUDGET: Duration = Duration::from_secs(6);
const QUICK_BUDGET: Duration = Duration::from_millis(500);

/// The cases of one run.
#[derive(Default)]
pub(super) struct Cases<'a> {
    cases: Vec<Case<'a>>,
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
    /// Runs it once, and returns its time. What prepares the run is not timed.
    work: Box<dyn FnMut() -> Result<Duration> + 'a>,
    /// Total time of its runs, with their preparation.
    spent: Duration,
    times: Vec<Duration>,
    /// Whether it is measured: `--only` wants it, or a case that is compared with it, and it has not failed.
    is_measured: bool,
}

impl<'a> Cases<'a> {
    /// Adds a program. `command` prepares every run.
    pub(super) fn program(
        &mut self,
        name: impl Into<String>,
        baseline: impl Into<Option<Baseline>>,
        mut command: impl FnMut() -> Result<Command> + 'a,
    ) -> CaseId {
        self.add(name.into(), baseline.into(), Box::new(move || wall_time(&mut command()?)))
    }

    /// Adds a function that runs in this process.
    pub(super) fn inside(&mut self, name: impl Into<String>, mut work: impl FnMut() -> Result + 'a) -> CaseId {
        let timed = move || {
            let start = Instant::now();
            work().map(|()| start.elapsed())
        };
        self.add(name.into(), None, Box::new(timed))
    }

    fn add(
        &mut self,
        name: String,
        baseline: Option<Baseline>,
        work: Box<dyn FnMut() -> Result<Duration> + 'a>,
    ) -> CaseId {
        self.cases.push(Case { name, baseline, work, spent: Duration::ZERO, times: Vec::new(), is_measured: true });
        CaseId(self.cases.len() - 1)
    }

    /// Runs every case once to warm up, then in rounds. A case that fails is left out, and so are those that are compared
    /// with it.
    pub(super) fn measure(self, options: &Options, rounds: u32, part: &mut Part) {
        self.measure_within(options.pick(DEFAULT_BUDGET, QUICK_BUDGET), options, rounds, part);
    }

    /// Does the same with another time budget of one case.
    pub(super) fn measure_within(mut self, budget: Duration, options: &Options, rounds: u32, part: &mut Part) {
        self.select(options);
        eprintln!("measuring {} cases, at most {rounds} rounds", self.cases.iter().filter(|it| it.is_measured).count());
        for round in 0..=rounds {
            for case in self.cases.iter_mut().filter(|case| case.is_measured) {
                if case.spent > budget * round / (rounds + 1) {
                    continue;
                }
                let start = Instant::now();
                match (case.work)() {
                    // The first round is to warm up.
                    Ok(_) if round == 0 => {}
                    Ok(time) => {
                        case.times.push(time);
                        case.spent += start.elapsed();
                    }
                    Err(error) => {
                        part.fail(format!("{}: {error}", case.name));
                        case.is_measured = false;
                    }
                }
            }
        }
        part.rows.extend(self.cases.iter().filter(|case| case.is_measured).map(|case| self.row(case)));
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

    fn row(&self, case: &Case<'a>) -> Row {
        let row = Row { times: case.times.clone(), ..Row::new(case.name.clone()) };
        let Some(baseline) = &case.baseline else { return row };
        let mut whole = baseline.time;
        let mut names = Vec::new();
        for (times, CaseId(part)) in &baseline.parts {
            let part = &self.cases[*part];
            if part.times.is_empty() {
                return row;
            }
            whole += Row { times: part.times.clone(), ..Row::default() }.median() * *times;
            names.push(if *times == 1 { part.name.clone() } else { format!("{times} x {}", part.name) });
        }
        names.extend((!baseline.time.is_zero()).then(|| format!("{:?}", baseline.time)));
        let ratio = row.median().as_secs_f64() / whole.as_secs_f64();
        row.compared(ratio, baseline.bar.map(Bar::AtMost), names.join(" + "))
    }
}

/// Runs a program and returns its time. If it fails, the error has what it printed.
pub(super) fn wall_time(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    let time = start.elapsed();
    if status.success() {
        return Ok(time);
    }
    let mut printed = String::new();
    let _ = child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut printed));
    Err(format!("{status}\n{printed}").trim_end().to_owned())
}
