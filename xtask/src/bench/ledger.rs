//! The cost of commands on issues: with a warm and a cold index, by ledger size, and compared with Taskwarrior.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cases::{Baseline, CaseId, Cases, at_most, beside, within};
use super::issues::{self, Issue};
use super::options::Options;
use super::scratch::{Scratch, create_dir, remove_files, write};
use super::taskwarrior;
use crate::{Result, run};

const ROUNDS: u32 = 100;

/// Maximum time of a process that merges 1,000 issues.
const MERGE_BAR: Duration = Duration::from_millis(50);

/// Maximum time of a process that prunes 2,000 issues.
const PRUNE_BAR: Duration = Duration::from_millis(150);

/// Maximum ratio of a command that only reads an index, with ten or a hundred times as many issues.
const GROWTH_BAR: f64 = 1.5;

/// Maximum time of `ready()` in the library.
const LIBRARY_BAR_NANOS: u32 = 50_000;

pub(super) fn measure(options: &Options) -> Result {
    let scratch = Scratch::prepare()?;
    let hydrate = scratch.program("hydrate")?;
    let three = three_ledgers(&scratch)?;
    let mut cases = Cases::default();
    let trivial = cases.program("trivial program", None, || Ok(scratch.command(&scratch.trivial, &scratch.dir)));
    let ready = add_queries(&mut cases, &scratch, trivial)?;
    cases.program("way ready, 3 x 10,000", at_most(3.0, trivial), || Ok(scratch.way(&three[0], ["ready"])));
    add_cold_index(&mut cases, &scratch, hydrate)?;
    add_changed_line(&mut cases, &scratch, ready)?;
    add_writes(&mut cases, &scratch, trivial)?;
    add_merge(&mut cases, &scratch)?;
    add_prune(&mut cases, &scratch)?;
    add_growth(&mut cases, &scratch)?;
    if taskwarrior::is_installed() {
        add_taskwarrior(&mut cases, &scratch)?;
    } else {
        eprintln!("Taskwarrior (Debian package taskwarrior) is not installed: no comparison with it");
    }
    cases.measure(options.rounds.unwrap_or(ROUNDS))?;
    let reported = cases.report(options.enforce);
    library_ready(&scratch, &three, options.enforce)?;
    reported
}

/// Adds queries on unchanged ledgers. Returns `way ready` with 10,000 issues.
fn add_queries<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch, trivial: CaseId) -> Result<CaseId> {
    let medium = Ledger::make(scratch, "ledger-10000", 10_000, "bx")?;
    let small = Ledger::make(scratch, "ledger-1000", 1000, "bx")?;
    let large = Ledger::make(scratch, "ledger-100000", 100_000, "bx")?;

    let words = ["search", "parser", "cache", "--limit", "50"];
    let repo = medium.repo.clone();
    let [ready, ..] = medium.add_queries(cases, scratch, "10,000", |_| at_most(3.0, trivial));
    cases.program("way search, two words, 10,000", beside(trivial), move || Ok(scratch.way(&repo, words)));
    let small = small.add_queries(cases, scratch, "1,000", |_| beside(trivial));
    large.add_queries(cases, scratch, "100,000", |query| at_most(1.3, small[query]));
    Ok(ready)
}

/// Adds the first query without an index.
fn add_cold_index<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch, hydrate: PathBuf) -> Result {
    let Ledger { repo, file, .. } = Ledger::make(scratch, "ledger-10000-cold", 10_000, "bx")?;
    let dir = scratch.dir.clone();
    let hydrate = cases.program("parse and insert, 10,000", None, move || {
        remove_files(&dir, "hydrated.db")?;
        let mut command = scratch.command(&hydrate, &dir);
        command.arg(&file).arg("hydrated.db");
        Ok(command)
    });
    cases.program("way ready, 10,000, no index", at_most(2.0, hydrate), move || {
        delete_index(&repo)?;
        Ok(scratch.way(&repo, ["ready"]))
    });
    Ok(())
}

/// Adds the first query after another program changed one title.
fn add_changed_line<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch, warm: CaseId) -> Result {
    let Ledger { repo, file, mut issues } = Ledger::make(scratch, "ledger-10000-changed", 10_000, "bx")?;
    let mut rest = issues.split_off(issues.len() / 2);
    let mut issue = rest.remove(0);
    let (before, after) = (issues::lines(&issues), issues::lines(&rest));
    let mut edits = 0;
    cases.program("way ready, 10,000, one line changed", at_most(5.0, warm), move || {
        edits += 1;
        issue.title = format!("Changed {edits} times");
        write(&file, &[&before, &issues::lines(std::slice::from_ref(&issue)), &after])?;
        Ok(scratch.way(&repo, ["ready"]))
    });
    Ok(())
}

/// Adds changes, compared with the minimal durable replacement of a file.
fn add_writes<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch, trivial: CaseId) -> Result {
    let Ledger { repo, issues, .. } = Ledger::make(scratch, "ledger-1000-written", 1000, "bx")?;
    let dir = scratch.dir.join("replaced");
    create_dir(&dir)?;
    let text = issues::lines(&issues);
    let replace = cases.inside("durable replacement, 1,000", move || replace(&dir, &text));
    let parts = vec![(3, replace), (1, trivial)];
    let least = || Baseline { parts: parts.clone(), time: Duration::ZERO, bar: Some(1.0) };

    let add = repo.clone();
    cases.program("way add, 1,000", least(), move || Ok(scratch.way(&add, ["add", "Measure once more"])));
    let mut open = issues.into_iter().filter(Issue::is_open);
    cases.program("way close, 1,000", least(), move || {
        let issue = open.next().ok_or("every issue is closed: use fewer rounds")?;
        Ok(scratch.way(&repo, ["close", &issue.id]))
    });
    Ok(())
}

/// Adds a three-way merge: one side changed 30 issues, the other 40, and 10 of them are the same.
fn add_merge<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch) -> Result {
    let Ledger { repo, mut issues, .. } = Ledger::make(scratch, "ledger-1000-merged", 1000, "bx")?;
    let version = |name: &str, issues: &[Issue]| write(&repo.join(name), &[&issues::lines(issues)]);
    version("base", &issues)?;
    for (name, changed) in [("ours", 0..30), ("theirs", 20..60)] {
        let before: Vec<String> = issues[changed.clone()].iter().map(|issue| issue.title.clone()).collect();
        for issue in &mut issues[changed.clone()] {
            issue.title = format!("Changed by {name}");
        }
        version(name, &issues)?;
        for (issue, title) in issues[changed].iter_mut().zip(before) {
            issue.title = title;
        }
    }
    let args = ["merge-driver", "base", "ours", "theirs", "--output", "merged"];
    cases.program("way merge-driver, 1,000", within(MERGE_BAR), move || Ok(scratch.way(&repo, args)));
    Ok(())
}

/// Adds pruning of closed issues. Four times as many issues take at most six times as long: more would not be linear.
fn add_prune<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch) -> Result {
    let mut add = |name: &str, count: u64, baseline: Baseline| -> Result<CaseId> {
        let Ledger { repo, .. } = Ledger::make_closed(scratch, &format!("ledger-{count}-closed"), count, "bx")?;
        let args = ["prune", "--dry-run", "--closed-before", "2099-01-01"];
        Ok(cases.program(format!("way prune, {name} closed"), baseline, move || Ok(scratch.way(&repo, args))))
    };
    let small = add("2,000", 2_000, within(PRUNE_BAR))?;
    add("8,000", 8_000, at_most(6.0, small))?;
    Ok(())
}

/// Adds commands at three sizes. Those that only read an index cost the same at each. A change still copies the file.
fn add_growth<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch) -> Result {
    const FLAT: [(&str, &[&str]); 5] = [
        ("way stats", &["stats"]),
        ("way search, a common word", &["search", "parser"]),
        ("way list --status closed", &["list", "--status", "closed"]),
        ("way list --sort updated", &["list", "--sort", "updated"]),
        ("way list --label", &["list", "--label", "backend"]),
    ];
    let mut smallest: Vec<CaseId> = Vec::new();
    for (size, count) in [("1,000", 1_000), ("10,000", 10_000), ("100,000", 100_000)] {
        let Ledger { repo, .. } = Ledger::make(scratch, &format!("ledger-{count}-read"), count, "bx")?;
        let mut ids = Vec::new();
        for (number, (name, args)) in FLAT.into_iter().enumerate() {
            let (repo, baseline) = (repo.clone(), smallest.get(number).map(|small| at_most(GROWTH_BAR, *small)));
            ids.push(cases.program(format!("{name}, {size}"), baseline, move || Ok(scratch.way(&repo, args))));
        }
        let Ledger { repo, issues, .. } = Ledger::make(scratch, &format!("ledger-{count}-changed"), count, "bx")?;
        let mut open = issues.into_iter().filter(Issue::is_open).map(|issue| issue.id);
        let updated = open.next().ok_or("no issue is open")?;
        let baseline = |number: usize| smallest.get(number).map(|small| beside(*small));
        let add = repo.clone();
        ids.push(cases.program(format!("way add, {size}, growth"), baseline(FLAT.len()), move || {
            Ok(scratch.way(&add, ["add", "Measure growth"]))
        }));
        let (changed, mut rounds) = (repo.clone(), 0);
        ids.push(cases.program(format!("way update, {size}, growth"), baseline(FLAT.len() + 1), move || {
            rounds += 1;
            Ok(scratch.way(&changed, ["update", &updated, "--title", &format!("Changed {rounds} times")]))
        }));
        ids.push(cases.program(format!("way close, {size}, growth"), baseline(FLAT.len() + 2), move || {
            let id = open.next().ok_or("every issue is closed: use fewer rounds")?;
            Ok(scratch.way(&repo, ["close", &id]))
        }));
        if smallest.is_empty() {
            smallest = ids;
        }
    }
    Ok(())
}

/// Adds Taskwarrior, and `way` compared with it.
fn add_taskwarrior<'a>(cases: &mut Cases<'a>, scratch: &'a Scratch) -> Result {
    let ledger = Ledger::make(scratch, "ledger-1000-beside", 1000, "bx")?;
    let tasks = scratch.dir.join("taskwarrior");
    taskwarrior::import(scratch, &tasks, &ledger.issues)?;
    for args in [&["add", "x"][..], &["list"]] {
        let (tasks, repo) = (tasks.clone(), ledger.repo.clone());
        let command = args.join(" ");
        let taskwarrior_case = cases
            .program(format!("task {command}, 1,000"), None, move || Ok(taskwarrior::command(scratch, &tasks, args)));
        cases.program(format!("way {command}, 1,000"), beside(taskwarrior_case), move || Ok(scratch.way(&repo, args)));
    }
    Ok(())
}

/// Creates three repositories. The first one also reads the ledgers of the others.
fn three_ledgers(scratch: &Scratch) -> Result<[PathBuf; 3]> {
    let make = |prefix| Ledger::make(scratch, &format!("library-{prefix}"), 10_000, prefix);
    let repos = [make("one")?.repo, make("two")?.repo, make("three")?.repo];
    for other in &repos[1..] {
        // Not written as a file: `way` refuses a private directory that it did not make.
        run(scratch.way(&repos[0], ["config", "--add-repo"]).arg(other))?;
    }
    Ok(repos)
}

/// Measures `ready()` of the library on three unchanged ledgers. Its bar is a time and not a ratio, because it only reads the
/// metadata of a few files.
fn library_ready(scratch: &Scratch, repos: &[PathBuf], enforce: bool) -> Result {
    let poll = scratch.program("poll")?;
    let output = scratch.command(&poll, &scratch.dir).arg("10000").args(repos).stdout(Stdio::piped()).output();
    let output = output.map_err(|error| format!("cannot run poll: {error}"))?;
    let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let nanos = answer.rsplit(' ').nth(1).and_then(|nanos| nanos.parse::<u32>().ok());
    let nanos = nanos.ok_or_else(|| format!("poll failed: {}", String::from_utf8_lossy(&output.stderr)))?;
    let is_missed = nanos > LIBRARY_BAR_NANOS;
    let verdict = if is_missed { "  MISSED" } else { "" };
    println!("\nlibrary, ready() of 3 x 10,000, nothing changed: {answer} (bar {LIBRARY_BAR_NANOS} ns){verdict}");
    if enforce && is_missed { Err("bar missed: the library's ready()".to_owned()) } else { Ok(()) }
}

/// A ledger in its own repository, without an index.
struct Ledger {
    repo: PathBuf,
    file: PathBuf,
    issues: Vec<Issue>,
}

impl Ledger {
    fn make(scratch: &Scratch, name: &str, count: u64, prefix: &str) -> Result<Self> {
        eprintln!("writing a ledger of {count} issues: {name}");
        let repo = scratch.repository(name)?;
        let issues = issues::issues(count, prefix);
        let file = repo.join(".waypost/issues.jsonl");
        create_dir(&repo.join(".waypost"))?;
        delete_index(&repo)?;
        write(&file, &[&issues::lines(&issues)])?;
        Ok(Self { repo, file, issues })
    }

    /// Makes a ledger of closed issues, and commits it: only committed issues are pruned.
    fn make_closed(scratch: &Scratch, name: &str, count: u64, prefix: &str) -> Result<Self> {
        let mut ledger = Ledger::make(scratch, name, count, prefix)?;
        ledger.issues.iter_mut().for_each(|issue| issue.status = "closed");
        write(&ledger.file, &[&issues::lines(&ledger.issues)])?;
        let git = || {
            let mut command = Command::new("git");
            command.current_dir(&ledger.repo).args(["-c", "user.name=bench", "-c", "user.email=bench@example.org"]);
            command
        };
        run(git().args(["add", "--force", ".waypost/issues.jsonl"]))?;
        run(git().args(["commit", "--quiet", "--allow-empty", "-m", "Issues"]))?;
        Ok(ledger)
    }

    /// Adds the queries whose cost should not depend on the size.
    fn add_queries<'a>(
        &self,
        cases: &mut Cases<'a>,
        scratch: &'a Scratch,
        size: &str,
        baseline: impl Fn(usize) -> Baseline,
    ) -> [CaseId; 3] {
        let id = self.issues[self.issues.len() / 2].id.as_str();
        let queries = [
            ("way ready", &["ready"][..]),
            ("way list --limit 50", &["list", "--limit", "50"]),
            ("way show", &["show", id]),
        ];
        let mut query = 0;
        queries.map(|(name, args)| {
            let (repo, args): (_, Vec<String>) = (self.repo.clone(), args.iter().map(ToString::to_string).collect());
            let baseline = baseline(query);
            query += 1;
            cases.program(format!("{name}, {size}"), baseline, move || Ok(scratch.way(&repo, &args)))
        })
    }
}

fn delete_index(repo: &Path) -> Result {
    remove_files(&repo.join(".git/waypost"), "index")
}

/// Replaces a file durably, with the minimal number of steps.
fn replace(dir: &Path, text: &str) -> Result {
    let (new, old) = (dir.join("new"), dir.join("old"));
    write(&new, &[text])?;
    let synced = std::fs::rename(&new, &old).and_then(|()| File::open(dir)?.sync_all());
    synced.map_err(|error| format!("{}: {error}", old.display()))
}
