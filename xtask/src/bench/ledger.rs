//! The cost of commands on issues: with a warm and a cold index, by ledger size, by number of processes, and compared with
//! Taskwarrior and git.

use std::cell::OnceCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::cases::{Baseline, CaseId, Cases, at_most, beside, within};
use super::issues::{self, Issue};
use super::options::Options;
use super::percentiles::{Row, Table};
use super::process::wall_time;
use super::results::{self, thousands};
use super::scratch::{Scratch, create_dir, remove_files, write};
use super::taskwarrior;
use crate::{Result, run, tools};

const ROUNDS: u32 = 100;
const QUICK_ROUNDS: u32 = 5;

/// Numbers of issues.
const SIZES: [u64; 3] = [1_000, 10_000, 100_000];
const QUICK_SIZES: [u64; 3] = [300, 1_000, 3_000];

/// Numbers of processes that add issues at once, and for how long.
const PROCESSES: [usize; 4] = [1, 10, 50, 150];
const SECONDS: u64 = 5;

/// Maximum time of a process that merges 1,000 issues.
const MERGE_BAR: Duration = Duration::from_millis(50);

/// Maximum time of a process that prunes 1,000 issues, and its growth with ten times as many. More would not be linear.
const PRUNE_BAR: Duration = Duration::from_millis(100);
const PRUNE_GROWTH_BAR: f64 = 15.0;

/// Maximum ratio of a command that only reads an index, with ten or a hundred times as many issues.
const GROWTH_BAR: f64 = 1.5;

/// Maximum ratio of the usual queries to a trivial program, and with a hundred times as many issues.
const QUERY_BAR: f64 = 3.0;
const QUERY_GROWTH_BAR: f64 = 1.3;

/// Maximum time of `ready()` in the library.
const LIBRARY_BAR_NANOS: u32 = 50_000;

pub(super) fn measure(options: &Options) -> Result {
    let scratch = Scratch::prepare(options)?;
    if !taskwarrior::is_installed() && options.wants("task ") {
        tools::install_packages(&["taskwarrior"]);
    }
    let bench = Bench {
        scratch: &scratch,
        sizes: options.pick(SIZES, QUICK_SIZES),
        hydrate: scratch.program("hydrate")?,
        three: OnceCell::new(),
    };
    let mut cases = Cases::default();
    bench.add_cases(&mut cases);
    let measured = cases.measure(options, options.rounds(ROUNDS, QUICK_ROUNDS));
    let mut table = Table::default();
    bench.add_processes(&mut table, options);
    bench.add_sizes(&mut table, options);
    bench.add_library(&mut table, options);
    let records = [cases.records(), table.records()].concat();
    let failures: Vec<String> =
        cases.failures().iter().chain(table.failures()).chain(measured.as_ref().err()).cloned().collect();
    if options.only.is_none() || !records.is_empty() {
        results::save(&scratch, options, &records, &failures)?;
    } else {
        return measured;
    }
    let reported = if cases.records().is_empty() { Ok(()) } else { cases.report(options.enforce) };
    reported.and(table.report(options.enforce))
}

struct Bench<'a> {
    scratch: &'a Scratch,
    /// Three numbers of issues.
    sizes: [u64; 3],
    hydrate: PathBuf,
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
        self.add_prune(cases);
        self.add_merge(cases);
        self.add_git(cases);
        if taskwarrior::is_installed() {
            self.add_taskwarrior(cases);
        } else {
            eprintln!("Taskwarrior (Debian package taskwarrior) is not installed: no comparison with it");
        }
    }

    /// Adds queries on unchanged ledgers, at every size. Returns `way ready` with the middle one.
    fn add_queries(&'a self, cases: &mut Cases<'a>, trivial: CaseId) -> CaseId {
        // Their cost should not depend on the size.
        const QUERIES: [(&str, &[&str]); 3] =
            [("way ready", &["ready"]), ("way list --limit 50", &["list", "--limit", "50"]), ("way show", &["show"])];
        const FURTHER: [(&str, &[&str]); 6] = [
            ("way stats", &["stats"]),
            ("way search, a common word", &["search", "parser"]),
            ("way search, two words", &["search", "parser", "cache", "--limit", "50"]),
            ("way list --status closed", &["list", "--status", "closed"]),
            ("way list --sort updated", &["list", "--sort", "updated"]),
            ("way list --label", &["list", "--label", "backend"]),
        ];
        let mut smallest: Vec<CaseId> = Vec::new();
        let mut readies = Vec::new();
        for (position, count) in self.sizes.into_iter().enumerate() {
            let ledger = self.ledger("read", count);
            let mut ids = Vec::new();
            for (number, (name, args)) in QUERIES.into_iter().chain(FURTHER).enumerate() {
                let small = smallest.get(number).copied();
                let baseline = match (small, position) {
                    (None, _) => beside(trivial),
                    (Some(_), 1) if number < QUERIES.len() => at_most(QUERY_BAR, trivial),
                    (Some(small), _) if number < QUERIES.len() => at_most(QUERY_GROWTH_BAR, small),
                    (Some(small), _) => at_most(GROWTH_BAR, small),
                };
                let ledger = Rc::clone(&ledger);
                let id = cases.program(format!("{name}, {}", thousands(count)), baseline, move || {
                    let made = ledger.made()?;
                    let mut command = self.scratch.way(&made.repo, args);
                    if args == ["show"] {
                        command.arg(&made.issues[made.issues.len() / 2].id);
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
                let mut command = self.scratch.command(&self.hydrate, dir);
                command.arg(&read.made()?.file).arg("hydrated.db");
                Ok(command)
            });
            cases.program(format!("way ready, no index, {size}"), at_most(2.0, hydrate), move || {
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
            issue.title = format!("Changed {edits} times");
            let changed = issues::lines(std::slice::from_ref(&issue));
            write(&made.file, &[&issues::lines(before), &changed, &issues::lines(after)])?;
            Ok(self.scratch.way(&made.repo, ["ready"]))
        });
    }

    /// Adds changes at every size. They are compared with the minimal durable replacement of the same file.
    fn add_changes(&'a self, cases: &mut Cases<'a>, trivial: CaseId) {
        let scratch = self.scratch;
        for count in self.sizes {
            let ledger = self.ledger("changed", count);
            let size = thousands(count);
            let replaced = Rc::clone(&ledger);
            let replace = cases.inside(format!("durable replacement, {size}"), {
                let text = OnceCell::new();
                move || {
                    let text: &String = match text.get() {
                        Some(text) => text,
                        None => text.get_or_init(|| {
                            replaced.made().map(|made| issues::lines(&made.issues)).unwrap_or_default()
                        }),
                    };
                    replace(&scratch.dir.join("replaced"), text)
                }
            });
            let at_most_replacements = |replacements| Baseline {
                parts: vec![(replacements, replace), (1, trivial)],
                time: Duration::ZERO,
                bar: Some(1.0),
            };
            let (add, update, close) = (Rc::clone(&ledger), Rc::clone(&ledger), ledger);
            cases.program(format!("way add, {size}"), at_most_replacements(2), move || {
                Ok(scratch.way(&add.made()?.repo, ["add", "Measure once more"]))
            });
            let mut rounds = 0;
            cases.program(format!("way update, {size}"), at_most_replacements(3), move || {
                rounds += 1;
                let made = update.made()?;
                let issue = made.issues.iter().find(|issue| issue.is_open()).ok_or("no issue is open")?;
                Ok(scratch.way(&made.repo, ["update", &issue.id, "--title", &format!("Changed {rounds} times")]))
            });
            let mut closed = 0;
            cases.program(format!("way close, {size}"), at_most_replacements(3), move || {
                closed += 1;
                let made = close.made()?;
                let issue = made.issues.iter().filter(|issue| issue.is_open()).nth(closed);
                let issue = issue.ok_or("every issue is closed: use fewer rounds")?;
                Ok(scratch.way(&made.repo, ["close", &issue.id]))
            });
        }
    }

    /// Adds pruning of closed issues.
    fn add_prune(&'a self, cases: &mut Cases<'a>) {
        let mut smaller: Option<CaseId> = None;
        for count in self.sizes {
            let ledger = Rc::new(Ledger { is_closed: true, ..Ledger::new(self.scratch, "closed", count, "bx") });
            let baseline = smaller.map_or_else(|| within(PRUNE_BAR), |smaller| at_most(PRUNE_GROWTH_BAR, smaller));
            let args = ["prune", "--dry-run", "--closed-before", "2099-01-01"];
            smaller = Some(cases.program(format!("way prune, {}", thousands(count)), baseline, move || {
                Ok(self.scratch.way(&ledger.made()?.repo, args))
            }));
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
                        issue.title = format!("Changed by {name}");
                    }
                    write(&repo.join(name), &[&issues::lines(&version)])?;
                }
            }
            Ok(self.scratch.way(repo, args))
        });
    }

    /// Adds git on the same file: its status, and a commit of one added line, which git does not sync by default.
    fn add_git(&'a self, cases: &mut Cases<'a>) {
        for count in self.sizes {
            let ledger = Rc::new(Ledger { is_committed: true, ..Ledger::new(self.scratch, "git", count, "bx") });
            let status = Rc::clone(&ledger);
            cases.program(format!("git status, {}", thousands(count)), None, move || {
                let mut command = self.git(&status.made()?.repo);
                command.args(["status", "--porcelain"]);
                Ok(command)
            });
            let mut lines = 0;
            cases.program(format!("git commit, {}", thousands(count)), None, move || {
                lines += 1;
                let made = ledger.made()?;
                let line = issues::lines(&made.issues[..1]).replacen("bx-", &format!("bx-more{lines}-"), 1);
                append(&made.file, &line)?;
                let mut command = self.git(&made.repo);
                command.args(["commit", "--quiet", "--all", "--message", "One more issue"]);
                Ok(command)
            });
        }
    }

    fn git(&self, repo: &Path) -> Command {
        let mut command = self.scratch.command(Path::new("git"), repo);
        command.args(["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]);
        command
    }

    /// Adds Taskwarrior, and `way` compared with it. The largest size would take it minutes to import.
    fn add_taskwarrior(&'a self, cases: &mut Cases<'a>) {
        for count in self.sizes.into_iter().take(2) {
            let ledger = self.ledger("beside", count);
            let tasks: Rc<OnceCell<PathBuf>> = Rc::default();
            for args in [&["add", "x"][..], &["list"]] {
                let (tasks, issues, ledger) = (Rc::clone(&tasks), Rc::clone(&ledger), Rc::clone(&ledger));
                let name = format!("{}, {}", args.join(" "), thousands(count));
                let taskwarrior_case = cases.program(format!("task {name}"), None, move || {
                    if tasks.get().is_none() {
                        let dir = self.scratch.dir.join(format!("taskwarrior-{count}"));
                        taskwarrior::import(self.scratch, &dir, &issues.made()?.issues)?;
                        let _ = tasks.set(dir);
                    }
                    let dir = tasks.get().ok_or("no tasks were imported")?;
                    Ok(taskwarrior::command(self.scratch, dir, args))
                });
                cases.program(format!("way {name}"), beside(taskwarrior_case), move || {
                    Ok(self.scratch.way(&ledger.made()?.repo, args))
                });
            }
        }
    }

    /// Adds processes that each add one issue after the other, all at once on one ledger.
    fn add_processes(&self, table: &mut Table, options: &Options) {
        let seconds = Duration::from_secs(options.pick(SECONDS, 1));
        for processes in PROCESSES {
            let name = format!("way add by processes, {}", thousands(processes as u64));
            if !options.wants(&name) {
                continue;
            }
            table.section(&format!("Ledger, {processes} at once run way add for {seconds:?}"), || {
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
                let mut row = Row::new(name.clone());
                row.all = begin.elapsed();
                row.times = each.into_iter().collect::<Result<Vec<_>>>()?.concat();
                let added = issues_in(&made.file)? - 1_001;
                if added != row.times.len() {
                    return Err(format!("{} of {} added issues are in the ledger", added, row.times.len()));
                }
                Ok(vec![row])
            });
        }
    }

    /// Adds the sizes of the ledger and of its index.
    fn add_sizes(&self, table: &mut Table, options: &Options) {
        let [.., count] = self.sizes;
        let names = ["ledger per issue", "index per issue", "index with words per issue"];
        if !names.iter().any(|name| options.wants(name)) {
            return;
        }
        table.section(&format!("Ledger, bytes per issue, {}", thousands(count)), || {
            let made = Ledger::new(self.scratch, "sizes", count, "bx").make()?;
            #[expect(clippy::cast_precision_loss, reason = "sizes of files")]
            let row = |name: &str, bytes: u64| Row::with_value(name, bytes as f64 / count as f64, "bytes");
            let index = || -> Result<u64> { bytes_in(&made.repo.join(".git/waypost"), ".index.db") };
            let ledger = std::fs::metadata(&made.file).map_err(|error| error.to_string())?.len();
            wall_time(&mut self.scratch.way(&made.repo, ["ready"]))?;
            let before = index()?;
            wall_time(&mut self.scratch.way(&made.repo, ["search", "parser"]))?;
            Ok(vec![row(names[0], ledger), row(names[1], before), row(names[2], index()?)])
        });
    }

    /// Adds `ready()` of the library on three unchanged ledgers. Its bar is a time and not a ratio, because it only reads the
    /// metadata of a few files.
    fn add_library(&self, table: &mut Table, options: &Options) {
        let name = "ready() of the library, nothing changed";
        if !options.wants(name) {
            return;
        }
        table.section("Library, three ledgers", || {
            let poll = self.scratch.program("poll")?;
            let mut command = self.scratch.command(&poll, &self.scratch.dir);
            let output = command.arg(options.pick("10000", "100")).args(self.three()?).stdout(Stdio::piped()).output();
            let output = output.map_err(|error| format!("cannot run poll: {error}"))?;
            let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let nanos = answer.rsplit(' ').nth(1).and_then(|nanos| nanos.parse::<u32>().ok());
            let nanos = nanos.ok_or_else(|| format!("poll failed: {}", String::from_utf8_lossy(&output.stderr)))?;
            let mut row = Row::new(name.to_owned());
            row.push(Duration::from_nanos(nanos.into()));
            let bar = super::percentiles::Bar::AtMost(1.0);
            row.compare(f64::from(nanos) / f64::from(LIBRARY_BAR_NANOS), Some(bar), &format!("{LIBRARY_BAR_NANOS} ns"));
            Ok(vec![row])
        });
    }

    fn ledger(&'a self, kind: &'static str, count: u64) -> Rc<Ledger<'a>> {
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
    count: u64,
    prefix: &'static str,
    /// Whether all issues are closed, and committed: only committed issues are pruned.
    is_closed: bool,
    is_committed: bool,
    made: OnceCell<Made>,
}

struct Made {
    repo: PathBuf,
    file: PathBuf,
    issues: Vec<Issue>,
}

impl<'a> Ledger<'a> {
    fn new(scratch: &'a Scratch, kind: &'static str, count: u64, prefix: &'static str) -> Self {
        Self { scratch, kind, count, prefix, is_closed: false, is_committed: false, made: OnceCell::new() }
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
        let mut issues = issues::issues(self.count, self.prefix);
        if self.is_closed {
            for issue in &mut issues {
                issue.status = "closed";
            }
        }
        let file = repo.join(".waypost/issues.jsonl");
        create_dir(&repo.join(".waypost"))?;
        delete_index(&repo)?;
        write(&file, &[&issues::lines(&issues)])?;
        if self.is_closed || self.is_committed {
            let git = || {
                let mut command = Command::new("git");
                command.current_dir(&repo).args(["-c", "user.name=bench", "-c", "user.email=bench@example.org"]);
                command
            };
            run(git().args(["add", "--force", ".waypost/issues.jsonl"]))?;
            run(git().args(["commit", "--quiet", "--allow-empty", "-m", "Issues"]))?;
        }
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

fn append(file: &Path, line: &str) -> Result {
    use std::io::Write as _;
    let opened = File::options().append(true).open(file);
    opened.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns the number of lines of a ledger that have an issue.
fn issues_in(file: &Path) -> Result<usize> {
    Ok(crate::tidy::read(file)?.lines().filter(|line| line.starts_with("{\"id\":")).count())
}

/// Returns the bytes of the files in a directory whose names start with a prefix.
pub(super) fn bytes_in(dir: &Path, prefix: &str) -> Result<u64> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let files = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    Ok(files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum())
}
