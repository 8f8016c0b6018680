//! Cases that are measured together, and the table of what came out.
//!
//! Every round runs every case once, so that a busy moment meets all of them. Medians are compared.

use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{cpu_time, peak_memory, wall_time};
use crate::Result;

/// How long one case may take in all, if nobody says. A slow one sits out some rounds, evenly.
const BUDGET: Duration = Duration::from_secs(6);

/// How many rounds take processor time, with the cases that are not slow.
const CPU_ROUNDS: u32 = 5;

/// Of a case that takes longer, processor time is taken once.
const SLOW: Duration = Duration::from_millis(500);

/// All that is measured in one run.
#[derive(Default)]
pub(super) struct Cases<'a>(Vec<Case<'a>>);

/// Names a case that others are compared with.
#[derive(Clone, Copy)]
pub(super) struct CaseId(usize);

/// What a case is compared with.
pub(super) struct Yardstick {
    /// Cases whose times are added up, each so many times.
    pub(super) parts: Vec<(u32, CaseId)>,
    /// A time that is added to them, where the bar is one.
    pub(super) time: Duration,
    /// How many times their sum it may take.
    pub(super) bar: Option<f64>,
}

/// Compares with one other case, under a bar.
pub(super) fn at_most(bar: f64, other: CaseId) -> Yardstick {
    Yardstick { parts: vec![(1, other)], time: Duration::ZERO, bar: Some(bar) }
}

/// Compares with a time, which is the bar.
pub(super) fn within(time: Duration) -> Yardstick {
    Yardstick { parts: Vec::new(), time, bar: Some(1.0) }
}

/// Compares with one other case, to know and not to judge.
pub(super) fn beside(other: CaseId) -> Yardstick {
    Yardstick { parts: vec![(1, other)], time: Duration::ZERO, bar: None }
}

struct Case<'a> {
    name: String,
    yardstick: Option<Yardstick>,
    work: Work<'a>,
    /// What its runs took, with what came before them.
    spent: Duration,
    times: Vec<Duration>,
    cpu_times: Vec<Duration>,
    /// The most memory it had at once, in KiB.
    peak: Option<u64>,
}

enum Work<'a> {
    /// A whole process. What happens before its command is returned is not timed.
    Program(Box<dyn FnMut() -> Result<Command> + 'a>),
    /// Something done in this process.
    Inside(Box<dyn FnMut() -> Result + 'a>),
}

impl<'a> Cases<'a> {
    /// Adds a program, which `command` prepares anew for every run.
    pub(super) fn program(
        &mut self,
        name: impl Into<String>,
        yardstick: impl Into<Option<Yardstick>>,
        command: impl FnMut() -> Result<Command> + 'a,
    ) -> CaseId {
        self.add(name.into(), yardstick.into(), Work::Program(Box::new(command)))
    }

    /// Adds something that this process does itself.
    pub(super) fn inside(&mut self, name: impl Into<String>, work: impl FnMut() -> Result + 'a) -> CaseId {
        self.add(name.into(), None, Work::Inside(Box::new(work)))
    }

    fn add(&mut self, name: String, yardstick: Option<Yardstick>, work: Work<'a>) -> CaseId {
        self.0.push(Case {
            name,
            yardstick,
            work,
            spent: Duration::ZERO,
            times: Vec::new(),
            cpu_times: Vec::new(),
            peak: None,
        });
        CaseId(self.0.len() - 1)
    }

    /// Runs everything once to warm up, then in rounds, then some more to see what it uses.
    pub(super) fn measure(&mut self, rounds: u32) -> Result {
        self.measure_within(BUDGET, rounds)
    }

    /// The same with another time that one case may take in all.
    pub(super) fn measure_within(&mut self, budget: Duration, rounds: u32) -> Result {
        eprintln!("warming up {} cases", self.0.len());
        self.each(Case::warm_up)?;
        eprintln!("measuring, at most {rounds} rounds");
        for round in 0..rounds {
            self.each(|case| case.take_time(budget * round / rounds))?;
        }
        eprintln!("looking at processor time and memory");
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
            let ratio = case.yardstick.as_ref().map(|yardstick| self.ratio(case, yardstick));
            let bar = case.yardstick.as_ref().and_then(|yardstick| yardstick.bar);
            let is_missed = ratio.zip(bar).is_some_and(|(ratio, bar)| ratio > bar);
            let line = format!(
                "{:<width$} {:>6} {:>9.3} {:>8} {:>8} {:>7} {:>4} {:<6}  {}",
                case.name,
                case.times.len(),
                milliseconds(case.time()),
                cpu.unwrap_or_default(),
                peak.unwrap_or_default(),
                ratio.map(shown).unwrap_or_default(),
                bar.map(|bar| bar.to_string()).unwrap_or_default(),
                if is_missed { "MISSED" } else { "" },
                case.yardstick.as_ref().map(|yardstick| self.name(yardstick)).unwrap_or_default(),
            );
            println!("{}", line.trim_end());
            if is_missed {
                missed.push(case.name.as_str());
            }
        }
        if self.0.iter().all(|case| case.peak.is_none()) {
            println!("GNU time (Debian package time) is not installed: memory is not known");
        }
        if enforce && !missed.is_empty() {
            return Err(format!("bars missed: {}", missed.join("; ")));
        }
        Ok(())
    }

    fn ratio(&self, case: &Case, yardstick: &Yardstick) -> f64 {
        let whole: Duration = yardstick.parts.iter().map(|(times, part)| self.0[part.0].time() * *times).sum();
        case.time().as_secs_f64() / (whole + yardstick.time).as_secs_f64()
    }

    fn name(&self, yardstick: &Yardstick) -> String {
        let parts = yardstick.parts.iter().map(|(times, part)| match times {
            1 => self.0[part.0].name.clone(),
            _ => format!("{times} x {}", self.0[part.0].name),
        });
        let time = (!yardstick.time.is_zero()).then(|| format!("{:?}", yardstick.time));
        parts.chain(time).collect::<Vec<_>>().join(" + ")
    }
}

impl Case<'_> {
    /// Runs it once, in the way that says the most if it fails.
    fn warm_up(&mut self) -> Result {
        match &mut self.work {
            Work::Program(command) => cpu_time(&mut command()?).map(drop),
            Work::Inside(work) => work(),
        }
    }

    /// Runs it once, unless it has spent more than it may have by now.
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
        let is_wanted = self.cpu_times.is_empty() || self.time() < SLOW;
        if let Work::Program(command) = &mut self.work
            && is_wanted
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

/// Returns a ratio with the digits that say something.
pub(super) fn shown(ratio: f64) -> String {
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
