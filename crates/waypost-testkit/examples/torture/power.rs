//! Power cuts: records every write and flush of a file system, and builds images that a disk may have after a cut.
//!
//! An image has every write before the last flush, and any part of the later ones. Mounting it replays its journal. Then
//! everything acknowledged before the cut must be present, and every command must work.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use waypost_testkit::{Dice, Run, Sandbox};

use crate::Torture;
use crate::disk::{FILE_SYSTEMS, FileSystem, LoopDevice, missing, run};
use crate::fuse::{Entry, Log, RecordingDisk};
use crate::tally::Tally;

/// An acknowledged write, and the length of the log at that moment.
struct Acknowledged {
    position: usize,
    what: Promise,
}

/// An effect that must be present from then on.
#[derive(Debug, Clone)]
enum Promise {
    Issue(String),
    Closed(String),
    Checkpoint {
        task: String,
        text: String,
    },
    Completed(String),
    /// A snapshot of a workspace, with the text of one of its files.
    Snapshot {
        id: String,
        text: String,
    },
}

pub(crate) fn power(torture: &Torture) -> Tally {
    let mut tally = Tally::default();
    if let Some(missing) = missing() {
        tally.violation(format!(
            "power cuts need root, FUSE, loop devices and mkfs: {missing}; skip them with --without power"
        ));
        return tally;
    }
    let mut dice = torture.dice();
    while tally.rounds == 0 || !torture.is_over() {
        for (number, kind) in (0_u32..).zip(&FILE_SYSTEMS) {
            let share = torture.left() / (3 - number);
            let time = share.min(Duration::from_mins(1));
            match cut(torture, kind, time, &mut dice) {
                Ok(found) => tally.merge(found),
                Err(message) => tally.violation(format!("{}: {message}", kind.name)),
            }
            println!("  {}: {tally}", kind.name);
        }
    }
    tally
}

/// Runs a workload on one file system, and checks images of it.
fn cut(torture: &Torture, kind: &FileSystem, time: Duration, dice: &mut Dice) -> Result<Tally, String> {
    let until = Instant::now() + time;
    let recording = Recording::new(kind)?;
    let (sandbox, log, acknowledged) = recording.record(torture, kind, Instant::now() + time / 4, dice)?;
    let mut tally = Tally { acknowledged: acknowledged.len() as u64, ..Tally::default() };
    let entries = std::mem::take(&mut *log.lock().expect("the log"));
    while tally.rounds == 0 || Instant::now() < until {
        tally.rounds += 1;
        tally.faults += 1;
        let position = cut_position(&entries, &acknowledged, dice);
        let image = recording.image(&entries[..position], dice)?;
        let promises: Vec<&Promise> =
            acknowledged.iter().filter(|one| one.position <= position).map(|one| &one.what).collect();
        let before = tally.violations.len();
        let when = format!("{} cut at {position} of {}", kind.name, entries.len());
        recording.check(kind, &image, &sandbox, &promises, &when, &mut tally);
        if tally.is_worth_keeping(before) {
            println!("evidence: {}", keep(&image));
        }
    }
    Ok(tally)
}

/// Chooses a cut: at an acknowledgement, after a flush, or anywhere.
fn cut_position(entries: &[Entry], acknowledged: &[Acknowledged], dice: &mut Dice) -> usize {
    let anywhere = usize::try_from(dice.below(entries.len() as u64 + 1)).expect("an index");
    match dice.below(3) {
        0 => dice.pick(acknowledged).position,
        1 => {
            let flushes: Vec<usize> =
                (1..=entries.len()).filter(|end| matches!(entries[end - 1], Entry::Flush)).collect();
            if flushes.is_empty() { anywhere } else { *dice.pick(&flushes) }
        }
        _ => anywhere,
    }
}

/// The directories and files of one recording.
struct Recording {
    dir: tempfile::TempDir,
    base: PathBuf,
    /// The mount point of the file system, while it is recorded and afterwards.
    mountpoint: PathBuf,
}

impl Recording {
    fn new(kind: &FileSystem) -> Result<Recording, String> {
        let dir = waypost_testkit::temp_dir();
        let (base, mountpoint) = (dir.path().join("base"), dir.path().join("mnt"));
        for name in ["mnt", "fuse"] {
            std::fs::create_dir(dir.path().join(name)).map_err(|error| error.to_string())?;
        }
        kind.make(&base)?;
        Ok(Recording { dir, base, mountpoint })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Prepares a repository, then records the writes of a workload.
    fn record(
        &self,
        torture: &Torture,
        kind: &FileSystem,
        until: Instant,
        dice: &mut Dice,
    ) -> Result<(SandboxPath, Log, Vec<Acknowledged>), String> {
        let device = LoopDevice::over(&self.base)?;
        let mounted = kind.mount(&device.path, &self.mountpoint)?;
        let sandbox = Sandbox::below(&self.mountpoint, torture.way());
        let repo = sandbox.git_repo("repo");
        drop(mounted);
        drop(device);
        copy(&self.base, &self.path("current"))?;
        let disk =
            RecordingDisk::mount(&self.path("current"), &self.path("fuse")).map_err(|error| error.to_string())?;
        let device = LoopDevice::over(&disk.file())?;
        let mounted = kind.mount(&device.path, &self.mountpoint)?;
        let mut author =
            Author { sandbox: &sandbox, repo: &repo, log: &disk.log, acknowledged: Vec::new(), written: 0 };
        author.work(until, dice);
        let acknowledged = author.acknowledged;
        mounted.sync()?;
        // The directory of the sandbox is part of the image.
        let sandbox = SandboxPath { sandbox, repo };
        drop(mounted);
        drop(device);
        let log = Log::clone(&disk.log);
        drop(disk);
        Ok((sandbox, log, acknowledged))
    }

    /// Builds an image that a disk may have after these requests.
    fn image(&self, entries: &[Entry], dice: &mut Dice) -> Result<PathBuf, String> {
        let image = self.path("image");
        copy(&self.base, &image)?;
        let file = std::fs::OpenOptions::new().write(true).open(&image).map_err(|error| error.to_string())?;
        let safe = entries.iter().rposition(|entry| matches!(entry, Entry::Flush)).map_or(0, |last| last + 1);
        // Keep none, all or some of the writes that were not flushed.
        let chance = *dice.pick(&[0, 100, 50, 80, 20]);
        for (number, entry) in entries.iter().enumerate() {
            if let Entry::Write { offset, data } = entry
                && (number < safe || dice.percent(chance))
            {
                file.write_all_at(data, *offset).map_err(|error| error.to_string())?;
            }
        }
        Ok(image)
    }

    /// Mounts an image as after a restart, and checks every promise.
    fn check(
        &self,
        kind: &FileSystem,
        image: &Path,
        sandbox: &SandboxPath,
        promises: &[&Promise],
        when: &str,
        tally: &mut Tally,
    ) {
        let restarted = LoopDevice::over(image).and_then(|device| {
            let mounted = kind.mount(&device.path, &self.mountpoint)?;
            Ok((mounted, device))
        });
        match restarted {
            Err(message) => tally.violation(format!("{when}: {message}")),
            Ok(_mounted) => {
                let boot = self.path("boot_id");
                sandbox.sandbox.write(&boot, "00000000-0000-4000-8000-000000000000\n");
                let survivor = Survivor { sandbox, boot: &boot, when };
                survivor.check(promises, tally);
            }
        }
    }
}

/// Keeps an image. Returns its path.
fn keep(image: &Path) -> String {
    let kept = std::env::temp_dir().join(format!("waypost-power-{}-{}", std::process::id(), image_number()));
    let copied = copy(image, &kept);
    copied.map_or_else(|error| error, |()| format!("{} (after the checks ran on it)", kept.display()))
}

fn image_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A sandbox on a file system that is mounted only at times.
struct SandboxPath {
    sandbox: Sandbox,
    repo: PathBuf,
}

/// Copies a sparse file.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    run(Command::new("cp").arg("--sparse=always").arg(from).arg(to)).map(drop)
}

/// Runs commands, and records when each was acknowledged.
struct Author<'a> {
    sandbox: &'a Sandbox,
    repo: &'a Path,
    log: &'a Log,
    acknowledged: Vec<Acknowledged>,
    written: u64,
}

impl Author<'_> {
    fn work(&mut self, until: Instant, dice: &mut Dice) {
        // The first workspace creates the mirror, so it comes early.
        self.workspace();
        while Instant::now() < until {
            match dice.below(9) {
                8 => self.issues_at_once(),
                0 => self.workspace(),
                1..4 => self.task(),
                _ => self.issue(),
            }
        }
    }

    /// Runs a command. Returns its data if it succeeded.
    fn way(&mut self, args: &[&str]) -> Option<Value> {
        let mut command = self.sandbox.way_command(self.repo);
        let run = Run::of(&command.env_remove("WAYPOST_TEST_CLOCK").args(args).arg("--json").output().ok()?);
        let mut answer: Value = serde_json::from_str(&run.stdout).ok()?;
        (run.code == 0).then(|| answer["data"].take())
    }

    fn promise(&mut self, what: Promise) {
        let position = self.log.lock().expect("the log").len();
        self.acknowledged.push(Acknowledged { position, what });
    }

    fn fresh(&mut self) -> String {
        self.written += 1;
        format!("text{}", self.written)
    }

    fn issue(&mut self) {
        let title = self.fresh();
        let Some(added) = self.way(&["add", &title]) else { return };
        self.promise(Promise::Issue(title.clone()));
        let id = added["id"].as_str().unwrap_or_default();
        if self.written.is_multiple_of(3) && self.way(&["close", id]).is_some() {
            self.promise(Promise::Closed(title));
        }
    }

    /// Adds issues from several processes at once, which become durable together.
    fn issues_at_once(&mut self) {
        let mut writers = Vec::new();
        for _ in 0..6 {
            let title = self.fresh();
            let mut command = self.sandbox.way_command(self.repo);
            command.env_remove("WAYPOST_TEST_CLOCK").args(["add", &title]).stdout(Stdio::null()).stderr(Stdio::null());
            writers.extend(command.spawn().ok().map(|child| (title, child)));
        }
        while !writers.is_empty() {
            let mut running = Vec::new();
            for (title, mut child) in writers {
                match child.try_wait() {
                    Ok(Some(status)) if status.success() => self.promise(Promise::Issue(title)),
                    Ok(None) => running.push((title, child)),
                    _ => {}
                }
            }
            writers = running;
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }

    fn task(&mut self) {
        let name = self.fresh();
        self.sandbox.write(self.repo.join(".git/plan.json"), r#"{"tasks": [{"name": "only"}]}"#);
        if self.way(&["workflow", "create", &name, "--plan", ".git/plan.json", "--start"]).is_none() {
            return;
        }
        let Some(claimed) = self.way(&["task", "claim", "--workflow", &name, "--agent", "me", "--budget", "100"])
        else {
            return;
        };
        let task = claimed["task"]["id"].as_str().unwrap_or_default().to_owned();
        let text = self.fresh();
        let note = ["task", "checkpoint", &task, "--type", "progress", "--summary", &text, "--agent", "me"];
        if self.way(&note).is_some() {
            self.promise(Promise::Checkpoint { task: task.clone(), text });
        }
        if self.way(&["task", "done", &task, "--outcome", "done", "--agent", "me"]).is_some() {
            self.promise(Promise::Completed(task));
        }
    }

    fn workspace(&mut self) {
        let Some(made) = self.way(&["ws", "new"]) else { return };
        let text = self.fresh();
        let (id, path) = (made["id"].as_str().unwrap_or_default(), made["path"].as_str().unwrap_or_default());
        self.sandbox.write(Path::new(path).join("precious"), &text);
        if let Some(saved) = self.way(&["ws", "snapshot", id]) {
            let id = saved["id"].as_str().unwrap_or_default().to_owned();
            self.promise(Promise::Snapshot { id, text });
        }
    }
}

/// Checks a file system after a power cut.
struct Survivor<'a> {
    sandbox: &'a SandboxPath,
    /// A file with a new boot id, because the machine restarted.
    boot: &'a Path,
    when: &'a str,
}

impl Survivor<'_> {
    /// Runs a command as after a restart.
    fn run(&self, args: &[&str]) -> Run {
        let script = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
        let own = self.sandbox.sandbox.way_command(&self.sandbox.repo);
        let mut command = self.sandbox.sandbox.command("unshare", &self.sandbox.repo);
        command.env_remove("WAYPOST_TEST_CLOCK").args(["--mount", "--propagation", "private", "sh", "-c", script]);
        command.arg(self.boot).arg(own.get_program()).args(args);
        Run::of(&command.output().expect("unshare"))
    }

    /// Runs a command that must work.
    fn way(&self, args: &[&str], tally: &mut Tally) -> Value {
        let run = self.run(&[args, &["--json"]].concat());
        if run.code != 0 {
            tally.violation(format!("{}: {args:?} fails: {}", self.when, run.whole()));
        }
        serde_json::from_str::<Value>(&run.stdout).map(|mut answer| answer["data"].take()).unwrap_or_default()
    }

    fn check(&self, promises: &[&Promise], tally: &mut Tally) {
        let issues = self.way(&["list", "--all", "--limit", "0"], tally);
        let events = self.way(&["events", "--since", "0", "--limit", "1000000"], tally);
        self.way(&["task", "list"], tally);
        let snapshots = self.way(&["ws", "snapshots"], tally);
        for promise in promises {
            if !is_kept(promise, &issues, &events, &snapshots) {
                tally.violation(format!("{}: acknowledged and lost: {promise:?}", self.when));
            }
        }
        let saved = promises.iter().rev().find_map(|promise| match promise {
            Promise::Snapshot { id, text } => Some((id, text)),
            _ => None,
        });
        if let Some((id, text)) = saved {
            let restored = self.way(&["ws", "restore", id], tally);
            let path = restored["workspace"]["path"].as_str().unwrap_or_default();
            if std::fs::read_to_string(Path::new(path).join("precious")).ok().as_ref() != Some(text) {
                tally.violation(format!("{}: the snapshot {id} does not have {text}", self.when));
            }
        }
        self.way(&["ws", "new"], tally);
        self.way(&["add", "after the cut"], tally);
        self.way(&["workflow", "create", "after"], tally);
        for args in [&["db", "check"][..], &["doctor"]] {
            self.way(args, tally);
        }
    }
}

/// Returns whether the answers contain a promised effect.
fn is_kept(promise: &Promise, issues: &Value, events: &Value, snapshots: &Value) -> bool {
    let any = |list: &Value, is_it: &dyn Fn(&Value) -> bool| list.as_array().into_iter().flatten().any(is_it);
    match promise {
        Promise::Issue(title) => any(issues, &|issue| issue["title"] == *title),
        Promise::Closed(title) => any(issues, &|issue| issue["title"] == *title && issue["status"] == "closed"),
        Promise::Checkpoint { task, text } => any(events, &|event| {
            event["kind"] == "task.checkpointed" && event["subject"] == *task && event["data"]["summary"] == *text
        }),
        Promise::Completed(task) => {
            any(events, &|event| event["kind"] == "task.completed" && event["subject"] == *task)
        }
        Promise::Snapshot { id, .. } => any(snapshots, &|one| one["id"] == *id),
    }
}
