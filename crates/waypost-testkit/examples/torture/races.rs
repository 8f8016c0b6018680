//! Runs every pair of operations on one issue at the same time: edits, moves between ledgers, sync, and git.
//!
//! Afterwards exactly one ledger has the issue, with every acknowledged comment and label, and every command works.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use waypost_testkit::{Dice, Run, Sandbox, pass};

use crate::Torture;
use crate::tally::Tally;

const LEDGER: &str = ".waypost/issues.jsonl";

/// Number of runs of each operation of a pair in a round.
const REPEATS: usize = 3;

/// Number of rounds after which new repositories are created.
const MAX_ROUNDS: usize = 25;

/// What the `pre-commit` framework does with unstaged changes around its hooks.
const PRE_COMMIT: &str = "
git diff --binary > .git/patch
git checkout -q -- .
sleep 0.05
test ! -s .git/patch || git apply .git/patch || { git checkout -q -- .; git apply .git/patch; }";

/// A filter with which git waits between reading and writing the file: how it cleans, and how it smudges.
const SLOW_FILTER: Option<[&str; 2]> = Some(["cat", "sleep 0.05; cat"]);

/// A filter that gives commits another spelling than the file.
const SORTING_FILTER: Option<[&str; 2]> = Some(["jq -S -c .", "cat"]);

/// A script that reads and writes each line as JSON.
const REWRITE: &str = r#"python3 -c '
import json, os
name = os.environ["LEDGER"]
lines = [line for line in open(name).read().splitlines()]
def again(line):
    try: return json.dumps(json.loads(line), sort_keys=True)
    except ValueError: return line
open(name, "w").write("".join(again(line) + "
" for line in lines))'"#;

/// An operation on one issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Comment,
    Label,
    Update,
    Close,
    Reopen,
    Claim,
    Release,
    Migrate,
    Propose,
    Withdraw,
    Accept,
    Sync,
    Checkout,
    Merge,
    Stash,
    Rebase,
    AddPatch,
    /// Adds a label and removes it.
    Unlabel,
    /// As the `pre-commit` framework does around its hooks: saves unstaged changes as a patch, and restores them.
    PreCommit,
    /// Saves what it read a while before.
    Editor,
    /// Writes every line of the ledger again, with other spaces and another order of fields.
    Rewrite,
    /// Discards all changes that are not staged.
    Discard,
    /// Discards all changes that are not committed.
    Reset,
    /// Searches and replaces in the file with `sed`, which writes a new file.
    Replace,
    /// Sorts the fields of every line with `jq`, into a new file.
    Sort,
}

use Operation::{
    Accept, AddPatch, Checkout, Claim, Close, Comment, Discard, Editor, Label, Merge, Migrate, PreCommit, Propose,
    Rebase, Release, Reopen, Replace, Reset, Rewrite, Sort, Stash, Sync, Unlabel, Update, Withdraw,
};

const EDITS: [Operation; 8] = [Comment, Label, Unlabel, Update, Close, Reopen, Claim, Release];
const MOVES: [Operation; 5] = [Migrate, Propose, Withdraw, Accept, Sync];
const OF_GIT: [Operation; 6] = [Checkout, Merge, Stash, Sync, Rebase, AddPatch];
/// Operations that take back changes of the ledger that are not committed. They are kept all the same.
const DISCARDS: [Operation; 7] = [PreCommit, Editor, Rewrite, Discard, Reset, Replace, Sort];

/// The acknowledged writes of a round, by their unique texts.
#[derive(Default)]
struct Written {
    comments: Vec<String>,
    labels: Vec<String>,
    /// Labels that were removed.
    removed: Vec<String>,
    /// All attempted texts of the notes, and whether any was acknowledged.
    notes: BTreeSet<String>,
    is_noted: bool,
    wrong: Vec<String>,
    acknowledged: u64,
    faults: u64,
}

pub(crate) fn races(torture: &Torture) -> Tally {
    let results = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let results = &results;
            scope.spawn(move || {
                let dice = Dice(torture.seed.wrapping_mul(31).wrapping_add(thread));
                let tally = if thread == 0 { in_git(torture, dice) } else { between_ledgers(torture, dice) };
                results.lock().expect("results").merge(tally);
            });
        }
    });
    results.into_inner().expect("results")
}

/// Returns all pairs of an edit or a move with a move, and of edits with each other, in a random order.
fn pairs(moves: &[Operation], dice: &mut Dice) -> Vec<(Operation, Operation)> {
    let all: Vec<Operation> = EDITS.iter().chain(moves).copied().collect();
    let mut pairs: Vec<_> = all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other))).collect();
    // Pairs with a move come twice, because they are the most likely to lose data.
    pairs.extend(EDITS.iter().flat_map(|edit| moves.iter().map(move |one| (*edit, *one))));
    // Two programs of others acknowledge nothing.
    let is_foreign = |one: &Operation| *one != Sync && OF_GIT.iter().chain(&DISCARDS).any(|foreign| foreign == one);
    pairs.retain(|(one, other)| !is_foreign(one) || !is_foreign(other));
    // A label that is removed while its proposal is accepted may come back: docs/limits.md says so.
    pairs.retain(|pair| ![(Accept, Unlabel), (Unlabel, Accept)].contains(pair));
    dice.shuffle(&mut pairs);
    pairs
}

/// Races between the ledgers of a contributor: a fork, its planning repository, and another project.
fn between_ledgers(torture: &Torture, mut dice: Dice) -> Tally {
    let mut tally = Tally::default();
    while !torture.is_over() {
        let repositories = RaceRepositories::of_contributor(torture);
        let before = tally.violations.len();
        for pair in pairs(&MOVES, &mut dice).into_iter().take(MAX_ROUNDS) {
            if torture.is_over() || tally.violations.len() > before {
                break;
            }
            repositories.race(pair, &mut dice, &mut tally);
        }
        repositories.finish(before, &mut tally);
    }
    tally
}

/// Races with git, in one repository with two branches and a remote.
fn in_git(torture: &Torture, mut dice: Dice) -> Tally {
    let mut tally = Tally::default();
    while !torture.is_over() {
        let repositories = RaceRepositories::of_git(torture, *dice.pick(&[None, SLOW_FILTER, SORTING_FILTER]));
        let before = tally.violations.len();
        for pair in pairs(&[&OF_GIT[..], &DISCARDS].concat(), &mut dice).into_iter().take(MAX_ROUNDS) {
            if torture.is_over() || tally.violations.len() > before {
                break;
            }
            repositories.race(pair, &mut dice, &mut tally);
        }
        repositories.finish(before, &mut tally);
    }
    tally
}

/// Repositories that an issue moves between.
struct RaceRepositories {
    sandbox: Sandbox,
    way: PathBuf,
    /// The directories in which commands run. Moves start in the first one.
    homes: Vec<PathBuf>,
    /// Whether git changes the ledger, instead of moves by Waypost.
    is_git: bool,
}

impl RaceRepositories {
    fn of_contributor(torture: &Torture) -> RaceRepositories {
        let sandbox = Sandbox::new(torture.way());
        let upstream = sandbox.dir("upstream.git");
        sandbox.git(&upstream, ["init", "-q", "--bare", "-b", "main"]);
        let seed = sandbox.git_repo("seed");
        sandbox.dir("seed/.waypost");
        sandbox.write(seed.join(LEDGER), "{\"id\":\"up-1\",\"title\":\"Theirs\"}\n");
        sandbox.git(&seed, ["add", "."]);
        sandbox.git(&seed, ["commit", "-q", "-m", "ledger"]);
        sandbox.git(&seed, ["push", "-q", "../upstream.git", "main"]);
        sandbox.git(&sandbox.path("."), ["clone", "-q", "upstream.git", "fork"]);
        let (fork, planning) = (sandbox.path("fork"), sandbox.path("planning"));
        let other = sandbox.git_repo("other");
        let repositories =
            RaceRepositories { sandbox, way: torture.way.clone(), homes: vec![fork, planning, other], is_git: false };
        repositories.set_up(0, &["init", "--contributor", "--planning", "../planning"]);
        repositories.set_up(2, &["config", "--add-repo", "../planning"]);
        repositories
    }

    fn of_git(torture: &Torture, filter: Option<[&str; 2]>) -> RaceRepositories {
        let sandbox = Sandbox::new(torture.way());
        let remote = sandbox.dir("remote.git");
        sandbox.git(&remote, ["init", "-q", "--bare", "-b", "main"]);
        let repo = sandbox.git_repo("repo");
        sandbox.git(&repo, ["remote", "add", "origin", "../remote.git"]);
        let repositories =
            RaceRepositories { sandbox, way: torture.way.clone(), homes: vec![repo.clone()], is_git: true };
        repositories.set_up(0, &["init"]);
        repositories.set_up(0, &["add", "first"]);
        repositories.git(&["add", "."]);
        repositories.git(&["commit", "-q", "-m", "ledger"]);
        repositories.git(&["push", "-q", "-u", "origin", "main"]);
        if let Some([clean, smudge]) = filter {
            // It is the user's own, so it runs for way, too.
            repositories.git(&["config", "--global", "filter.foreign.clean", clean]);
            repositories.git(&["config", "--global", "filter.foreign.smudge", smudge]);
            repositories.sandbox.write(repo.join(".git/info/attributes"), format!("{LEDGER} filter=foreign\n"));
        }
        repositories
    }

    fn command(&self, home: usize, args: &[&str]) -> Command {
        let mut command = self.sandbox.way_command(&self.homes[home]);
        command.args(args).env_remove("WAYPOST_TEST_CLOCK");
        command
    }

    /// Runs a command outside a race.
    fn way(&self, home: usize, args: &[&str]) -> Run {
        Run::of(&self.command(home, args).output().expect("way"))
    }

    /// Runs a command that prepares races, which must succeed.
    fn set_up(&self, home: usize, args: &[&str]) {
        let run = self.way(home, args);
        assert_eq!(run.code, 0, "{args:?}: {run:#?}");
    }

    /// Runs git outside a race. It may fail. Returns its output.
    fn git(&self, args: &[&str]) -> String {
        Run::of(&self.sandbox.command("git", &self.homes[0]).args(args).output().expect("git")).stdout
    }

    /// Runs a pair of operations on a new issue at the same time, and checks the result.
    fn race(&self, pair: (Operation, Operation), dice: &mut Dice, tally: &mut Tally) {
        tally.rounds += 1;
        let Some(issue) = self.prepare(pair, tally) else { return };
        let (mut one, mut other) = (dice.fork(), dice.fork());
        let mut written = Written::default();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| self.repeat(pair.0, &issue, "a", &mut one));
            let second = scope.spawn(|| self.repeat(pair.1, &issue, "b", &mut other));
            for done in [first.join(), second.join()] {
                written.merge(done.expect("a thread of the race"));
            }
        });
        tally.acknowledged += written.acknowledged;
        tally.faults += written.faults;
        let description = format!("{:?} x {:?} on {issue}", pair.0, pair.1);
        for wrong in &written.wrong {
            tally.violation(format!("{description}: {wrong}"));
        }
        if self.is_git {
            self.check_in_git(pair, &issue, &written, &description, tally);
            self.reset_git();
        } else {
            self.complete_moves(pair, &issue);
            self.check_ledgers(&issue, &written, &description, tally);
        }
        self.check_commands(&issue, &description, tally);
    }

    /// Creates an issue in a state in which the pair can change it.
    fn prepare(&self, pair: (Operation, Operation), tally: &mut Tally) -> Option<String> {
        let added = self.way(0, &["add", "racing", "--json"]);
        let answer: Value = serde_json::from_str(&added.stdout).unwrap_or_default();
        let Some(issue) = answer["data"]["id"].as_str() else {
            tally.violation(format!("add does not work: {}", added.whole()));
            return None;
        };
        if [pair.0, pair.1].iter().any(|one| [Withdraw, Accept].contains(one)) {
            let _ = self.way(0, &["propose", issue]);
        }
        if self.is_git {
            self.git(&["commit", "-q", "-a", "-m", "racing"]);
            self.git(&["checkout", "-q", "-B", "side"]);
            let _ = self.way(0, &["add", "on the side"]);
            self.git(&["commit", "-q", "-a", "-m", "side"]);
            self.git(&["checkout", "-q", "main"]);
            if [pair.0, pair.1].contains(&Merge) {
                let _ = self.way(0, &["add", "on main"]);
                self.git(&["commit", "-q", "-a", "-m", "main"]);
            }
        }
        Some(issue.to_owned())
    }

    fn repeat(&self, operation: Operation, issue: &str, thread: &str, dice: &mut Dice) -> Written {
        let mut written = Written::default();
        for number in 0..REPEATS {
            pass(Duration::from_micros(dice.below(30_000)));
            let token = format!("{thread}{number}-{}", dice.below(1 << 30));
            self.operate(operation, number, issue, &token, dice, &mut written);
        }
        written
    }

    fn operate(
        &self,
        operation: Operation,
        number: usize,
        issue: &str,
        token: &str,
        dice: &mut Dice,
        written: &mut Written,
    ) {
        let home = usize::try_from(dice.below(self.homes.len() as u64)).expect("a home");
        let filter = format!("id={issue}");
        let target = if number.is_multiple_of(2) { "../other" } else { "../planning" };
        let args: Vec<&str> = match operation {
            Comment => vec!["comment", issue, token],
            Label => vec!["label", "add", issue, token],
            Update => vec!["update", issue, "--notes", token],
            Close => vec!["close", issue],
            Reopen => vec!["reopen", issue],
            Claim => vec!["claim", issue, "--agent", token],
            Release => vec!["release", issue, "--force"],
            Migrate => vec!["migrate", "--move-to", target, "--filter", &filter],
            Propose => vec!["propose", issue],
            Withdraw => vec!["withdraw", issue],
            Accept => vec!["accept", issue, "--role", "maintainer"],
            Sync => vec!["sync"],
            Checkout => return self.disturb(&[&["checkout", "-q", "side"], &["checkout", "-q", "main"]]),
            Merge => return self.disturb(&[&["merge", "-q", "--no-edit", "side"]]),
            Stash => return self.disturb(&[&["stash", "-q"], &["stash", "pop", "-q"]]),
            Rebase => return self.disturb(&[&["rebase", "-q", "--autostash", "side"], &["rebase", "--abort"]]),
            AddPatch => return self.script("printf 'y\nn\ny\n' | git add -p; git commit -q -m part"),
            PreCommit => return self.script(PRE_COMMIT),
            Editor => return self.script("cat $LEDGER > .git/buffer; sleep 0.05; cat .git/buffer > $LEDGER"),
            Rewrite => return self.script(REWRITE),
            Discard => return self.disturb(&[&["checkout", "-q", "--", "."]]),
            Reset => return self.disturb(&[&["reset", "-q", "--hard"]]),
            Replace => return self.script(r#"sed -i 's/":/": /' $LEDGER"#),
            Sort => return self.script("jq -S -c . $LEDGER > .git/sorted && mv .git/sorted $LEDGER"),
            Unlabel => {
                let _ = self.run(home, &["label", "add", issue, token], dice, written);
                vec!["label", "rm", issue, token]
            }
        };
        let home = match operation {
            Migrate => 2,
            Propose | Withdraw | Accept => 0,
            _ => home,
        };
        if operation == Update {
            written.notes.insert(token.to_owned());
        }
        let run = self.run(home, &args, dice, written);
        written.note(operation, token, &args, &run);
    }

    /// Runs a command. Sometimes slows it down at system calls where races are likely.
    fn run(&self, home: usize, args: &[&str], dice: &mut Dice, written: &mut Written) -> Run {
        let mut command = self.command(home, args);
        if dice.percent(40) {
            let call = dice.pick(&["fsync", "fdatasync", "renameat2", "rename", "flock", "openat"]);
            let delay = if *call == "openat" { 200 } else { 4_000 + dice.below(20_000) };
            let mut slow = self.sandbox.command("strace", &self.homes[home]);
            slow.env_remove("WAYPOST_TEST_CLOCK").args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}")]);
            slow.args(["-e", &format!("inject={call}:delay_enter={delay}")]).arg(&self.way).args(args);
            command = slow;
            written.faults += 1;
        }
        Run::of(&command.stdin(Stdio::null()).output().expect("way"))
    }

    /// Lets other programs change the ledger. They may fail.
    fn script(&self, script: &str) {
        let mut command = self.sandbox.command("sh", &self.homes[0]);
        let _ = command.args(["-c", script]).env("LEDGER", LEDGER).output().expect("sh");
    }

    /// Lets git change the ledger. Git may refuse.
    fn disturb(&self, commands: &[&[&str]]) {
        for args in commands {
            self.git(args);
        }
    }

    /// Completes unfinished moves, so that one ledger has the issue.
    fn complete_moves(&self, pair: (Operation, Operation), issue: &str) {
        if self.copies(issue).iter().any(|(home, _)| *home == 2) {
            let _ = self.way(2, &["migrate", "--move-to", "../planning", "--filter", &format!("id={issue}")]);
        }
        if [pair.0, pair.1].contains(&Accept) {
            self.push_and_sync();
            // Changes in the planning repository since then are proposed again, as sync advises.
            if self.copies(issue).len() > 1 && self.way(0, &["propose", issue]).code == 0 {
                self.push_and_sync();
            }
        }
        if self.copies(issue).len() > 1 {
            let _ = self.way(0, &["withdraw", issue]);
        }
    }

    /// Commits and pushes the ledger of the fork, and syncs the planning repository.
    fn push_and_sync(&self) {
        self.git(&["commit", "-q", "-a", "-m", "accepted"]);
        self.git(&["push", "-q"]);
        let _ = self.way(0, &["sync"]);
    }

    /// Returns the records of an issue, with the repository of each.
    fn copies(&self, issue: &str) -> Vec<(usize, Value)> {
        let in_home = |(number, home): (usize, &PathBuf)| {
            let records: Vec<Value> = ledger(home).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            records
                .into_iter()
                .filter(|record| record["id"] == issue)
                .map(move |record| (number, record))
                .collect::<Vec<_>>()
        };
        self.homes.iter().enumerate().flat_map(in_home).collect()
    }

    /// Checks that one ledger has the issue, with all acknowledged writes.
    fn check_ledgers(&self, issue: &str, written: &Written, description: &str, tally: &mut Tally) {
        let copies = self.copies(issue);
        let [(_, record)] = copies.as_slice() else {
            let places: Vec<usize> = copies.iter().map(|(home, _)| *home).collect();
            return tally.violation(format!("{description}: the issue is in {} ledgers: {places:?}", copies.len()));
        };
        for lost in written.lost(record) {
            tally.violation(format!("{description}: {lost} is lost: {record}"));
        }
    }

    /// Checks that every acknowledged write is in the ledger, a commit or a stash, and that no removed label came back.
    fn check_in_git(
        &self,
        pair: (Operation, Operation),
        issue: &str,
        written: &Written,
        description: &str,
        tally: &mut Tally,
    ) {
        let shown = self.way(0, &["show", issue, "--json"]).stdout;
        let is_brought_back = |label: &&String| shown.contains(&format!("\"{label}\""));
        // Git can bring back what it stashed or committed.
        if [pair.0, pair.1].iter().all(|one| ![Checkout, Merge, Stash, Rebase].contains(one)) {
            for label in written.removed.iter().filter(is_brought_back) {
                tally.violation(format!("{description}: the removed label {label} is back"));
            }
        }
        let mut all = ledger(&self.homes[0]) + &shown;
        let refs = self.git(&["for-each-ref", "--format=%(objectname)"]);
        let stashes = self.git(&["log", "-g", "--format=%H", "refs/stash"]);
        for commit in refs.lines().chain(stashes.lines()) {
            all += &self.git(&["show", &format!("{commit}:{LEDGER}")]);
        }
        let tokens = written.comments.iter().chain(&written.labels).map(String::as_str).chain([issue]);
        for token in tokens.filter(|token| !all.contains(*token)) {
            tally.violation(format!("{description}: {token} is lost"));
        }
    }

    /// Returns git to one branch with everything committed.
    fn reset_git(&self) {
        if ledger(&self.homes[0]).contains("<<<<<<<") {
            let _ = self.way(0, &["resolve"]);
        }
        self.git(&["rebase", "--abort"]);
        self.git(&["merge", "--abort"]);
        self.git(&["stash", "clear"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "tidy"]);
        self.git(&["checkout", "-q", "-f", "main"]);
    }

    /// Checks that each command works afterwards.
    fn check_commands(&self, issue: &str, description: &str, tally: &mut Tally) {
        let home = self.copies(issue).first().map(|(home, _)| *home);
        let Some(home) = home else {
            if self.is_git {
                tally.violation(format!("{description}: the issue is missing in the ledger"));
            }
            return;
        };
        let _ = self.way(home, &["release", issue, "--force"]);
        for args in [
            &["comment", issue, "afterwards"][..],
            &["label", "add", issue, "afterwards"],
            &["update", issue, "--notes", "afterwards"],
            // An agent of the race may still hold the issue.
            &["close", issue, "--force"],
            &["reopen", issue, "--force"],
            &["doctor"],
        ] {
            let run = self.way(home, &[args, &["--role", "maintainer"]].concat());
            if run.code != 0 {
                tally.violation(format!("{description}: afterwards {args:?} fails: {}", run.whole()));
            }
        }
    }

    /// Checks all repositories, and keeps them after a violation.
    fn finish(self, before: usize, tally: &mut Tally) {
        if tally.violations.len() == before {
            for home in 0..self.homes.len() {
                for args in [&["doctor"][..], &["list", "--all"], &["sync"]] {
                    let run = self.way(home, args);
                    // A repository without a remote has nothing to sync.
                    if run.code != 0 && !(args == ["sync"] && run.code == 6) {
                        let place = self.homes[home].display();
                        tally.violation(format!("{args:?} in {place} after the races: {}", run.whole()));
                    }
                }
            }
        }
        if tally.is_worth_keeping(before) {
            println!("evidence: {}", self.sandbox.keep().display());
        }
    }
}

impl Written {
    fn merge(&mut self, other: Written) {
        self.comments.extend(other.comments);
        self.labels.extend(other.labels);
        self.removed.extend(other.removed);
        self.notes.extend(other.notes);
        self.is_noted |= other.is_noted;
        self.wrong.extend(other.wrong);
        self.acknowledged += other.acknowledged;
        self.faults += other.faults;
    }

    /// Records the result of a command.
    fn note(&mut self, operation: Operation, token: &str, args: &[&str], run: &Run) {
        if ![0, 3, 4, 5, 6, 7].contains(&run.code) || run.stderr.contains("panicked") {
            self.wrong.push(format!("{args:?}: {}", run.whole()));
        }
        if run.code != 0 {
            return;
        }
        self.acknowledged += 1;
        match operation {
            Comment => self.comments.push(token.to_owned()),
            Label => self.labels.push(token.to_owned()),
            Unlabel => self.removed.push(token.to_owned()),
            Update => self.is_noted = true,
            _ => {}
        }
    }

    /// Returns the acknowledged writes that a record lacks.
    fn lost(&self, record: &Value) -> Vec<String> {
        let has = |list: &Value, token: &String| list.as_array().into_iter().flatten().any(|one| one == token);
        let texts: Value = record["comments"].as_array().into_iter().flatten().map(|one| one["text"].clone()).collect();
        // Of concurrent updates of the notes, one is in the field, and the others become comments.
        let is_noted = record["notes"].as_str().is_some_and(|notes| self.notes.iter().any(|note| notes.contains(note)));
        let comments =
            self.comments.iter().filter(|token| !has(&texts, token)).map(|token| format!("the comment {token}"));
        let labels =
            self.labels.iter().filter(|token| !has(&record["labels"], token)).map(|token| format!("the label {token}"));
        let removed = self
            .removed
            .iter()
            .filter(|token| has(&record["labels"], token))
            .map(|token| format!("the end of {token}"));
        let notes = (self.is_noted && !is_noted).then(|| "the update of the notes".to_owned());
        comments.chain(labels).chain(removed).chain(notes).collect()
    }
}

fn ledger(home: &Path) -> String {
    std::fs::read_to_string(home.join(LEDGER)).unwrap_or_default()
}
