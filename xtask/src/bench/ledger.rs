//! The cost of commands on issues: with a warm and a cold index, by ledger size, and by number of processes.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::cases::{Baseline, CaseId, Cases, at_most, beside, wall_time, within};
use super::issues::{self, Issue};
use super::options::Options;
use super::results::{Part, Row, thousands};
use super::scratch::{Scratch, create_dir, remove_files, write};
use crate::{Result, run};

const ROUNDS: u32 = 100;
const QUICK_ROUNDS: u32 = 5;

/// Numbers of issues.
const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const QUICK_SIZES: [usize; 3] = [100, 1_000, 10_000];
/// The number of issues with a maximum time of `way add`.
const LIMITED_SIZE: usize = 10_000;

/// Numbers of processes that add issues at once, and for how long.
const PROCESSES: [usize; 2] = [1, 150];
const SECONDS: u64 = 5;

/// Maximum time of a process that merges 1,000 issues.
const MERGE_BAR: Duration = Duration::from_millis(50);

/// Maximum ratio of the usual queries to a trivial program, and with a hundred times as many issues.
const QUERY_BAR: f64 = 3.0;
const QUERY_GROWTH_BAR: f64 = 1.3;

/// Maximum time of `way add`.
const ADD_BAR: Duration = Duration::from_millis(30);

/// Maximum time of `ready()` in the library.
const LIBRARY_BAR: Duration = Duration::from_micros(50);

/// Maximum wait of one of the most processes.
const WAIT_BAR: Duration = Duration::from_secs(2);

#[expect(clippy::unnecessary_wraps, reason = "as the other benchmarks")]
pub(super) fn measure(options: &Options, scratch: &Scratch, part: &mut Part) -> Result {
    let bench = Bench { scratch, sizes: options.pick(SIZES, QUICK_SIZES), three: OnceCell::new() };
    let mut cases = Cases::default();
    bench.add_cases(&mut cases);
    cases.measure(options, options.rounds(ROUNDS, QUICK_ROUNDS), part);
    bench.add_processes(part, options);
    bench.add_library(part, options);
    Ok(())
}

struct Bench<'a> {
    scratch: &'a Scratch,
    /// Three numbers of issues.
    sizes: [usize; 3],
    three: OnceCell<[PathBuf; 3]>,
}

impl<'a> Bench<'a> {
    fn add_cases(&'a self, cases: &mut Cases<'a>) {
        let scratch = self.scratch;
        let trivial = cases.program("trivial program", None, || Ok(scratch.command(&scratch.trivial, &scratch.dir)));
        let ready = self.add_queries(cases, trivial);
        let [_, middle, _] = self.sizes;
        cases.program(format!("way ready, 3 x {}", thousands(middle)), at_most(QUERY_BAR, trivial), || {
            Ok(scratch.way(&self.three()?[0], ["ready"]))
        });
        self.add_cold_index(cases);
        self.add_changed_line(cases, ready);
        self.add_changes(cases, trivial);
        self.add_merge(cases);
    }

    /// Adds queries on unchanged ledgers, at every size. Returns `way ready` with the middle one.
    fn add_queries(&'a self, cases: &mut Cases<'a>, trivial: CaseId) -> CaseId {
        const QUERIES: [(&str, &[&str]); 3] =
            [("way ready", &["ready"]), ("way list --limit 50", &["list", "--limit", "50"]), ("way show", &["show"])];
        let mut smallest: Vec<CaseId> = Vec::new();
        let mut readies = Vec::new();
        for (position, count) in self.sizes.into_iter().enumerate() {
            let ledger = self.ledger("read", count);
            let mut ids = Vec::new();
            for (number, (name, args)) in QUERIES.into_iter().enumerate() {
                let small = smallest.get(number).copied();
                let baseline = match (small, position) {
                    (None, _) => beside(trivial),
                    (Some(_), 1) => at_most(QUERY_BAR, trivial),
                    (Some(small), _) => at_most(QUERY_GROWTH_BAR, small),
                };
                let ledger = Rc::clone(&ledger);
                let id = cases.program(format!("{name}, {}", thousands(count)), baseline, move || {
                    let made = ledger.made()?;
                    let mut command = self.scratch.way(&made.repo, args);
                    if args == ["show"] {
                        command.arg(made.issues[made.issues.len() / 2].id());
                    }
                    Ok(command)
                });
                ids.push(id);
            }
            readies.push(ids[0]);
            if smallest.is_empty() {
                smallest = ids;
            }
        }
        readies[1]
    }

    /// Adds the first query without an index.
    fn add_cold_index(&'a self, cases: &mut Cases<'a>) {
        for count in self.sizes {
            let ledger = self.ledger("cold", count);
            let dir = &self.scratch.dir;
            let read = Rc::clone(&ledger);
            let size = thousands(count);
            let hydrate = cases.program(format!("parse and insert, {size}"), None, move || {
                remove_files(dir, "hydrated.db")?;
                let mut command = self.scratch.program(["hydrate"]);
                command.arg(&read.made()?.file).arg(dir.join("hydrated.db"));
                Ok(command)
            });
            // With few issues, both mostly measure the start of a program.
            let baseline = if count < 1_000 { beside(hydrate) } else { at_most(2.0, hydrate) };
            cases.program(format!("way ready, no index, {size}"), baseline, move || {
                let repo = &ledger.made()?.repo;
                delete_index(repo)?;
                Ok(self.scratch.way(repo, ["ready"]))
            });
        }
    }

    /// Adds the first query after another program changed one title.
    fn add_changed_line(&'a self, cases: &mut Cases<'a>, warm: CaseId) {
        let [_, middle, _] = self.sizes;
        let ledger = self.ledger("edited", middle);
        let mut edits = 0;
        let name = format!("way ready, one line changed, {}", thousands(middle));
        cases.program(name, at_most(5.0, warm), move || {
            let made = ledger.made()?;
            edits += 1;
            let (before, rest) = made.issues.split_at(made.issues.len() / 2);
            let (issue, after) = rest.split_first().ok_or("the ledger is empty")?;
            let mut issue = issue.clone();
            issue.set_title(format!("Changed {edits} times"));
            let changed = issues::lines(std::slice::from_ref(&issue));
            write(&made.file, &[&issues::lines(before), &changed, &issues::lines(after)])?;
            Ok(self.scratch.way(&made.repo, ["ready"]))
        });
    }

    /// Adds changes, compared with the minimal durable replacement of the same file, and `way add` also with a maximum time.
    fn add_changes(&'a self, cases: &mut Cases<'a>, trivial: CaseId) {
        let scratch = self.scratch;
        for count in &self.sizes[..2] {
            let ledger = self.ledger("changed", *count);
            let size = thousands(*count);
            let replaced = Rc::clone(&ledger);
            let text = OnceCell::new();
            let replacement = cases.inside(format!("durable replacement, {size}"), move || {
                let made = replaced.made()?;
                replace(&scratch.dir.join("replaced"), text.get_or_init(|| issues::lines(&made.issues)))
            });
            let replacements =
                || Baseline { parts: vec![(2, replacement), (1, trivial)], time: Duration::ZERO, bar: Some(1.0) };
            let mut names = vec![(format!("way add, {size}"), replacements())];
            names.extend((*count == LIMITED_SIZE).then(|| (format!("way add, again, {size}"), within(ADD_BAR))));
            for (name, baseline) in names {
                let ledger = Rc::clone(&ledger);
                cases.program(name, baseline, move || {
                    Ok(scratch.way(&ledger.made()?.repo, ["add", "Measure once more"]))
                });
            }
            let mut closed = 0;
            cases.program(format!("way close, {size}"), replacements(), move || {
                closed += 1;
                let made = ledger.made()?;
                let issue = made.issues.iter().filter(|issue| issue.is_open()).nth(closed);
                let issue = issue.ok_or("every issue is closed: use fewer rounds")?;
                Ok(scratch.way(&made.repo, ["close", issue.id()]))
            });
        }
    }

    /// Adds a three-way merge: one side changed 30 issues, the other 40, and 10 of them are the same.
    fn add_merge(&'a self, cases: &mut Cases<'a>) {
        let ledger = self.ledger("merged", 1_000);
        let args = ["merge-driver", "base", "ours", "theirs", "--output", "merged"];
        let is_written = OnceCell::new();
        cases.program("way merge-driver, 1,000", within(MERGE_BAR), move || {
            let Made { repo, issues, .. } = ledger.made()?;
            if is_written.set(()).is_ok() {
                for (name, changed) in [("base", 0..0), ("ours", 0..30), ("theirs", 20..60)] {
                    let mut version = issues.clone();
                    for issue in &mut version[changed] {
                        issue.set_title(format!("Changed by {name}"));
                    }
                    write(&repo.join(name), &[&issues::lines(&version)])?;
                }
            }
            Ok(self.scratch.way(repo, args))
        });
    }

    /// Adds processes that each add one issue after the other, all at once on one ledger.
    fn add_processes(&self, part: &mut Part, options: &Options) {
        let seconds = Duration::from_secs(options.pick(SECONDS, 1));
        for processes in PROCESSES {
            let name = format!("way add by processes, {}", thousands(processes));
            if !options.wants(&name) {
                continue;
            }
            part.section(&format!("Ledger, {processes} at once run way add for {seconds:?}"), || {
                let made = Ledger::new(self.scratch, "crowd", 1_000, "bx").make()?;
                wall_time(&mut self.scratch.way(&made.repo, ["add", "The first one"]))?;
                let begin = Instant::now();
                let each: Vec<Result<Vec<Duration>>> = std::thread::scope(|scope| {
                    let add = || {
                        let mut times = Vec::new();
                        while begin.elapsed() < seconds {
                            times.push(wall_time(&mut self.scratch.way(&made.repo, ["add", "One of many"]))?);
                        }
                        Ok(times)
                    };
                    let threads: Vec<_> = (0..processes).map(|_| scope.spawn(add)).collect();
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap_or_else(|_| Err("it ended".to_owned())))
                        .collect()
                });
                let all = Some(begin.elapsed());
                let times = each.into_iter().collect::<Result<Vec<_>>>()?.concat();
                let mut row = Row { times, all, ..Row::new(name.clone()) };
                if Some(&processes) == PROCESSES.last() {
                    let longest = row.percentile(100);
                    row = row.within(longest, WAIT_BAR);
                }
                let added = issues_in(&made.file)? - 1_001;
                if added != row.times.len() {
                    return Err(format!("{} of {} added issues are in the ledger", added, row.times.len()));
                }
                Ok(vec![row])
            });
        }
    }

    /// Adds `ready()` of the library on three unchanged ledgers. Its bar is a time and not a ratio, because it only reads the
    /// metadata of a few files.
    fn add_library(&self, part: &mut Part, options: &Options) {
        let name = "ready() of the library, nothing changed";
        if !options.wants(name) {
            return;
        }
        part.section("Library, three ledgers", || {
            let times = options.pick("10000", "100");
            let mut args = vec![OsStr::new("poll"), OsStr::new(times)];
            args.extend(self.three()?.iter().map(|repo| repo.as_os_str()));
            let rows = self.scratch.rows(args)?.into_iter();
            let row = |row: Row| Row { name: name.to_owned(), ..row };
            Ok(rows
                .map(row)
                .map(|row| {
                    let median = row.median();
                    row.within(median, LIBRARY_BAR)
                })
                .collect())
        });
    }

    fn ledger(&'a self, kind: &'static str, count: usize) -> Rc<Ledger<'a>> {
        Rc::new(Ledger::new(self.scratch, kind, count, "bx"))
    }

    /// Returns three repositories. The first one also reads the ledgers of the others.
    fn three(&self) -> Result<&[PathBuf; 3]> {
        if let Some(three) = self.three.get() {
            return Ok(three);
        }
        let [_, middle, _] = self.sizes;
        let make = |prefix| Ledger::new(self.scratch, "library", middle, prefix).make().map(|made| made.repo);
        let repos = [make("one")?, make("two")?, make("three")?];
        for other in &repos[1..] {
            // Not written as a file: `way` refuses a private directory that it did not make.
            run(self.scratch.way(&repos[0], ["config", "--add-repo"]).arg(other))?;
        }
        Ok(self.three.get_or_init(|| repos))
    }
}

/// A ledger in its own repository, without an index. It is written when the first case needs it.
struct Ledger<'a> {
    scratch: &'a Scratch,
    kind: &'static str,
    count: usize,
    prefix: &'static str,
    made: OnceCell<Made>,
}

struct Made {
    repo: PathBuf,
    file: PathBuf,
    issues: Vec<Issue>,
}

impl<'a> Ledger<'a> {
    fn new(scratch: &'a Scratch, kind: &'static str, count: usize, prefix: &'static str) -> Self {
        Self { scratch, kind, count, prefix, made: OnceCell::new() }
    }

    fn made(&self) -> Result<&Made> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = self.make()?;
        Ok(self.made.get_or_init(|| made))
    }

    fn make(&self) -> Result<Made> {
        let name = format!("ledger-{}-{}-{}", self.count, self.kind, self.prefix);
        eprintln!("writing a ledger of {} issues: {name}", self.count);
        let repo = self.scratch.repository(&name)?;
        let issues = issues::issues(self.count, self.prefix);
        let file = repo.join(".waypost/issues.jsonl");
        create_dir(&repo.join(".waypost"))?;
        delete_index(&repo)?;
        // Else the issues that an earlier run added, and no commit has, would come back.
        remove_files(&repo.join(".git/waypost"), "ledger.kept")?;
        write(&file, &[&issues::lines(&issues)])?;
        Ok(Made { repo, file, issues })
    }
}

fn delete_index(repo: &Path) -> Result {
    remove_files(&repo.join(".git/waypost"), "index")
}

/// Replaces a file durably, with the minimal number of steps.
fn replace(dir: &Path, text: &str) -> Result {
    create_dir(dir)?;
    let (new, old) = (dir.join("new"), dir.join("old"));
    write(&new, &[text])?;
    let synced = std::fs::rename(&new, &old).and_then(|()| File::open(dir)?.sync_all());
    synced.map_err(|error| format!("{}: {error}", old.display()))
}

/// Returns the number of lines of a ledger that have an issue.
fn issues_in(file: &Path) -> Result<usize> {
    Ok(crate::tidy::read(file)?.lines().filter(|line| line.starts_with("{\"id\":")).count())
}
