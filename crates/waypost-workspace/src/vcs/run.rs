//! Runs the version control tools, with nothing of the repository's own making executed on the way.
//!
//! A repository's configuration may have been written by whoever wrote its content. Hooks, filters, file system
//! monitors, pagers and prompts are off; the environment does not redirect git to another repository.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use waypost_core::{Error, Result, url_text};

use super::sl_layout;
use crate::jobs;

/// Variables that would make git look at another repository, or run something.
const GIT_VARIABLES: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_EXTERNAL_DIFF",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
];

/// What every git command is told, over all configuration files.
const GIT_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.fsync", "all"),
    ("core.fsyncMethod", "fsync"),
    ("advice.detachedHead", "false"),
    ("protocol.ext.allow", "never"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// How the network may be reached. Other ways are programs, named by a URL.
const PROTOCOLS: &str = "file:git:http:https:ssh";

/// What answers at the other end. Left to the repository, it could be any program here.
pub(crate) const UPLOAD: &str = "--upload-pack=git-upload-pack";

/// What git-lfs itself writes as its filter. A repository that uses it needs it, and it is known.
const LFS: &[&str] = &[
    "git-lfs clean -- %f",
    "git-lfs smudge -- %f",
    "git-lfs smudge --skip -- %f",
    "git-lfs filter-process",
    "git-lfs filter-process --skip",
];

/// What the user says about the network. It is the user's, so it is heeded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// How long a command may take that talks to a remote; for ever, if nothing is said.
    pub limit: Option<Duration>,
    /// Whether the environment names a command for ssh.
    pub ssh: bool,
    /// Whether the environment names a program that knows passwords.
    pub askpass: bool,
}

/// Git in one place, hardened.
#[derive(Clone)]
pub(crate) struct Git {
    place: Vec<OsString>,
    settings: Vec<(String, String)>,
    /// The command for ssh that the user's own configuration names.
    ssh: Option<String>,
    /// Whether nothing is fetched that was not asked for: neither what a partial clone lacks, nor large files.
    is_offline: bool,
}

impl Git {
    /// Git in a worktree.
    pub(crate) fn in_worktree(path: &Path) -> Result<Git> {
        Git::hardened(vec!["-C".into(), path.into()], false)
    }

    /// Git on a repository, from no worktree in particular.
    pub(crate) fn of_repository(git_dir: &Path) -> Result<Git> {
        Git::hardened(vec![option("--git-dir=", git_dir)], false)
    }

    /// Git on a worktree with its own git directory, which somebody else may have changed.
    ///
    /// Neither `core.worktree` nor a file `commondir` leads it elsewhere.
    pub(crate) fn of_workspace(root: &Path) -> Result<Git> {
        let git_dir = root.join(".git");
        if !root.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Err(Error::refused(format!("{} is not the directory that was made", root.display())));
        }
        if !git_dir.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Err(Error::refused(format!("{} has no git directory of its own any more", root.display())));
        }
        // No option and no variable makes git ignore this file.
        if git_dir.join("commondir").symlink_metadata().is_ok() {
            return Err(Error::refused(format!("the git directory of {} leads to another one", root.display())));
        }
        Git::of_linked_worktree(root, &git_dir)
    }

    /// Git on a worktree whose git directory the caller has checked to be the right one.
    pub(crate) fn of_linked_worktree(root: &Path, git_dir: &Path) -> Result<Git> {
        let place = vec!["-C".into(), root.into(), option("--git-dir=", git_dir), option("--work-tree=", root)];
        Git::hardened(place, true)
    }

    /// Git on a repository that only Waypost writes. Its configuration need not be looked at.
    pub(crate) fn ours(git_dir: &Path, work_tree: Option<&Path>) -> Git {
        let mut place = vec![option("--git-dir=", git_dir)];
        if let Some(root) = work_tree {
            place.splice(0..0, ["-C".into(), root.into()]);
            place.push(option("--work-tree=", root));
        }
        Git::ours_at(place)
    }

    /// Git in a directory that need not be a repository.
    pub(crate) fn at(dir: &Path) -> Git {
        Git::ours_at(vec!["-C".into(), dir.into()])
    }

    /// Git in no repository, as the user's own configuration wants it.
    pub(crate) fn nowhere() -> Result<Git> {
        Git::hardened(vec!["-C".into(), "/".into()], false)
    }

    fn ours_at(place: Vec<OsString>) -> Git {
        Git { place, settings: settings(), ssh: None, is_offline: true }
    }

    /// Says one more thing over all configuration files. It is not shown to other users, as arguments are.
    pub(crate) fn with(mut self, key: &str, value: &str) -> Git {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A git command, still without its arguments.
    pub(crate) fn command(&self) -> Tool {
        let mut command = Command::new("git");
        command.args(&self.place);
        let tool = self.around(Tool::new("git", command));
        if !self.is_offline {
            return tool;
        }
        tool.env("GIT_NO_LAZY_FETCH", "1").env("GIT_LFS_SKIP_SMUDGE", "1").env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// A git command that may use the network: it asks nobody, and runs nothing that the repository names.
    pub(crate) fn network(&self, own: Own) -> Tool {
        self.around_network(self.command(), own)
    }

    /// Hardens every git that a tool starts.
    pub(crate) fn around(&self, mut tool: Tool) -> Tool {
        for variable in GIT_VARIABLES {
            tool.command.env_remove(variable);
        }
        tool = tool
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (key, value)) in self.settings.iter().enumerate() {
            tool = tool.env(&format!("GIT_CONFIG_KEY_{number}"), key).env(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        tool
    }

    /// Hardens how every git that a tool starts uses the network.
    pub(crate) fn around_network(&self, tool: Tool, own: Own) -> Tool {
        let tool = tool.env("GIT_ALLOW_PROTOCOL", PROTOCOLS).env("GIT_PROXY_COMMAND", "");
        // Fetching what a partial clone lacks would let the repository say by which program. We say it ourselves.
        let mut tool = tool.env("GIT_NO_LAZY_FETCH", "1").within(own.limit);
        // The user's own command may ask for a passphrase, which only the terminal's own group may.
        tool.is_apart = !own.ssh && self.ssh.is_none();
        if !own.ssh {
            // Over the repository's own core.sshCommand.
            tool = tool.env("GIT_SSH_COMMAND", self.ssh.as_deref().unwrap_or("ssh -oBatchMode=yes"));
        }
        if own.askpass { tool } else { tool.env("GIT_ASKPASS", "").env("SSH_ASKPASS_REQUIRE", "never") }
    }

    /// A git command that fetches this, and nothing that it was not asked for.
    pub(crate) fn fetch(&self, own: Own, remote: &str, refspec: &str) -> Tool {
        self.network(own).args([
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-prune-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            // In a partial clone the ledger would be left out.
            "--no-filter",
            UPLOAD,
            "--",
            remote,
            refspec,
        ])
    }

    /// Reads which programs the repository itself configures, and switches them off.
    fn hardened(place: Vec<OsString>, is_offline: bool) -> Result<Git> {
        let mut git = Git { place, settings: settings(), ssh: None, is_offline };
        let listed = git.command().args(["config", "--list", "--show-scope", "-z"]).stdout()?;
        let mut fields = listed.split('\0');
        let mut helpers = vec![("credential.helper", "")];
        let mut has_foreign_helper = false;
        while let (Some(scope), Some(assignment)) = (fields.next(), fields.next()) {
            let (key, value) = assignment.split_once('\n').unwrap_or((assignment, ""));
            let is_helper = key.starts_with("credential.") && key.ends_with(".helper");
            match (scope, key) {
                // The user's own, and ours.
                ("system" | "global", "core.sshcommand") => git.ssh = Some(value.to_owned()),
                ("system" | "global", _) if is_helper => helpers.push((key, value)),
                ("local" | "worktree", _) if is_helper => has_foreign_helper = true,
                ("local" | "worktree", _) => git.settings.extend(instead_of(key, value)),
                _ => {}
            }
        }
        if has_foreign_helper {
            // Nothing forgets all helpers that were named so far.
            git.settings.extend(helpers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        }
        Ok(git)
    }
}

fn settings() -> Vec<(String, String)> {
    GIT_SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

/// Returns what takes the place of a repository's own setting, if that would run a program.
fn instead_of(key: &str, value: &str) -> Vec<(String, String)> {
    let say = |key: String, value: &str| (key, value.to_owned());
    let Some((name, kind)) = key.rsplit_once('.') else { return Vec::new() };
    match (name.split('.').next(), kind) {
        (Some("filter"), "clean" | "smudge" | "process") if !LFS.contains(&value) => {
            vec![say(key.to_owned(), ""), say(format!("{name}.required"), "false")]
        }
        (Some("core"), "alternaterefscommand") => vec![say(key.to_owned(), "true")],
        _ => Vec::new(),
    }
}

/// A jj command in a directory, which saves every file.
pub(crate) fn jj(dir: &Path) -> Tool {
    // Not only those that jj thinks worth it.
    let settings = ["snapshot.auto-track=all()", "snapshot.max-new-file-size=1000000000000"];
    jj_as_it_is(dir).args(settings.map(|setting| format!("--config={setting}")))
}

/// A jj command in a directory, which saves the files that the user wants to be saved.
pub(crate) fn jj_as_it_is(dir: &Path) -> Tool {
    let mut command = Command::new("jj");
    command.current_dir(dir).args(["--no-pager", "--color=never"]);
    for setting in ["ui.editor='false'", "fsmonitor.backend=none", "signing.behavior=drop"] {
        command.arg(format!("--config={setting}"));
    }
    Tool::new("jj", command)
}

/// A Mercurial command in a directory, as scripts should run it.
pub(crate) fn hg(dir: &Path) -> Tool {
    let mut command = Command::new("hg");
    // The repository's own configuration could bring hooks and extensions, which are programs.
    command.current_dir(dir).env("HGPLAIN", "1").env("HGRCSKIPREPO", "1").args(["--noninteractive", "--pager=never"]);
    Tool::new("hg", command)
}

/// A Mercurial command that may use the network.
pub(crate) fn hg_network(dir: &Path, own: Own) -> Tool {
    hg(dir).env("SSH_ASKPASS_REQUIRE", "never").within(own.limit)
}

/// A Sapling command in a worktree, as scripts should run it. It is Mercurial's descendant, and heeds most of its words.
pub(crate) fn sl(root: &Path) -> Result<Tool> {
    // It always reads the repository's own configuration, so that must be harmless.
    sl_layout::check(root)?;
    let mut command = Command::new("sl");
    command.current_dir(root).env("HGPLAIN", "1").args(["--noninteractive", "--pager=never"]);
    let tool = Tool::new("sl", command);
    Ok(match git_of_sl(root)? {
        Some(git) => git.around(tool),
        None => tool,
    })
}

/// A Sapling command that may use the network.
pub(crate) fn sl_network(root: &Path, own: Own) -> Result<Tool> {
    let tool = sl(root)?.env("SSH_ASKPASS_REQUIRE", "never").within(own.limit);
    Ok(match git_of_sl(root)? {
        Some(git) => git.around_network(tool, own),
        None => tool,
    })
}

/// The git that Sapling runs on the commits of a repository, if it keeps them so. That has a configuration too.
fn git_of_sl(root: &Path) -> Result<Option<Git>> {
    sl_layout::git_dir(root)?.map(|git_dir| Git::of_repository(&git_dir)).transpose()
}

/// Returns the version of the git on the search path.
pub fn git_version() -> Result<String> {
    let version = Tool::new("git", Command::new("git")).arg("version").stdout()?;
    Ok(version.trim_start_matches("git version ").to_owned())
}

/// A command of one of the tools, about to run.
pub(crate) struct Tool {
    /// The tool and what it is asked to do, for people.
    name: String,
    is_named: bool,
    command: Command,
    /// How long it may take.
    limit: Option<Duration>,
    /// Whether it is ended together with everything that it started. Then it cannot ask anything of a terminal.
    is_apart: bool,
}

impl Tool {
    fn new(name: &str, mut command: Command) -> Self {
        // Messages are shown to people and matched by nobody, but one language keeps reports comparable.
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        // So that whoever tidies up after us finds it, should we be killed while it runs.
        command.env(jobs::TOOL_MARK, jobs::own_mark());
        Tool { name: name.to_owned(), is_named: false, command, limit: None, is_apart: true }
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            // The words up to the first option say what is asked: "git worktree add".
            let word = arg.as_ref().to_string_lossy();
            self.is_named |= word.starts_with('-') || self.name.split(' ').count() > 2;
            if !self.is_named {
                self.name = format!("{} {word}", self.name);
            }
            self.command.arg(arg);
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Says how long it may take.
    pub(crate) fn within(mut self, limit: Option<Duration>) -> Self {
        self.limit = limit;
        self
    }

    /// Feeds it these bytes and runs it. What it prints comes after it has read everything.
    pub(crate) fn fed(mut self, input: &[u8]) -> Result<String> {
        let cannot = |error| Error::unavailable(format!("cannot run {}", self.name)).because(error);
        log::debug!("run {}", self.line());
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                // It has seen enough, and says below why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other.map_err(cannot)?,
            }
        }
        let output = child.wait_with_output().map_err(cannot)?;
        self.check(output).map(|output| text_of(&output.stdout))
    }

    /// Runs it and returns what it printed, without the last newline.
    pub(crate) fn stdout(mut self) -> Result<String> {
        let output = self.run()?;
        self.check(output).map(|output| text_of(&output.stdout))
    }

    /// Runs it and returns the path it printed.
    pub(crate) fn path(mut self) -> Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt as _;
        let output = self.run()?;
        let mut bytes = self.check(output)?.stdout;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// Runs it and returns what it printed, byte for byte.
    pub(crate) fn bytes(mut self) -> Result<Vec<u8>> {
        let output = self.run()?;
        Ok(self.check(output)?.stdout)
    }

    /// Starts it, to ask it one thing after another.
    pub(crate) fn talk(mut self) -> Result<Conversation> {
        log::debug!("run {}", self.line());
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::internal(format!("{} has no pipes", self.name)));
        };
        // Read all the time: one that complains a lot would wait for a reader, and we for its answer.
        let read_complaints = move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).trim().to_owned()
        };
        let complaints = match std::thread::Builder::new().spawn(read_complaints) {
            Ok(thread) => thread,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(self.cannot_run(error));
            }
        };
        let (stdin, stdout) = (Some(stdin), Some(BufReader::new(stdout)));
        Ok(Conversation { name: self.name, child, stdin, stdout, complaints: Some(complaints) })
    }

    /// Runs it and returns whether it succeeded, for questions that are answered by the exit code.
    pub(crate) fn succeeds(mut self) -> Result<bool> {
        let output = self.run()?;
        if is_system_failure(&output) { self.check(output).map(|_| false) } else { Ok(output.status.success()) }
    }

    /// Runs it and returns what it printed. None if it ended with 1, which is how tools say that there is nothing.
    pub(crate) fn answer(self) -> Result<Option<String>> {
        Ok(self.answer_bytes()?.map(|printed| text_of(&printed)))
    }

    /// The same, byte for byte.
    pub(crate) fn answer_bytes(mut self) -> Result<Option<Vec<u8>>> {
        let output = self.run()?;
        if output.status.code() == Some(1) && !is_system_failure(&output) {
            return Ok(None);
        }
        self.check(output).map(|output| Some(output.stdout))
    }

    /// Runs it and returns its exit code, if no signal ended it.
    pub(crate) fn code(mut self) -> Result<Option<i32>> {
        Ok(self.run()?.status.code())
    }

    fn check(&self, output: Output) -> Result<Output> {
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said =
            said.trim().trim_start_matches("fatal: ").trim_start_matches("Error: ").trim_start_matches("abort: ");
        if let Some(signal) = output.status.signal() {
            return Err(Error::unavailable(format!("{} was ended by signal {signal}", self.name)));
        }
        if is_system_failure(&output) {
            return Err(Error::unavailable(format!("{} failed", self.name))
                .because(said)
                .hint("the disk or the system may have a problem; try again"));
        }
        Err(Error::conflict(format!("{} failed", self.name)).because(said))
    }

    fn run(&mut self) -> Result<Output> {
        log::debug!("run {}", self.line());
        match self.limit {
            Some(limit) => self.run_within(limit),
            None => self.command.output().map_err(|error| self.cannot_run(error)),
        }
    }

    /// Runs it, and ends it if it takes too long.
    fn run_within(&mut self, limit: Duration) -> Result<Output> {
        if self.is_apart {
            self.command.process_group(0);
        }
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (sender, receiver) = mpsc::channel();
        let (start, started) = mpsc::channel::<Child>();
        // Reads what the command prints, and waits for it. If the command does not end, this thread is left behind. It is
        // started first, because without it nothing would end the command.
        let wait = move || started.recv().map(|child| sender.send(child.wait_with_output()));
        std::thread::Builder::new().spawn(wait).map_err(|error| self.cannot_run(error))?;
        let child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let _ = start.send(child);
        if let Ok(output) = receiver.recv_timeout(limit) {
            return output.map_err(|error| self.cannot_run(error));
        }
        if let Some(process) = process {
            let kill = if self.is_apart { kill_process_group } else { kill_process };
            let _ = kill(process, Signal::KILL);
        }
        Err(Error::unavailable(format!("{} took longer than {limit:?}, and was ended", self.name)))
    }

    fn cannot_run(&self, error: io::Error) -> Error {
        let tool = self.command.get_program().to_string_lossy().into_owned();
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let ours = Error::unavailable(format!("cannot run {tool}")).because(error);
        if is_missing { ours.hint(format!("install {tool}")) } else { ours }
    }

    /// The command as one would type it, without our settings and without passwords.
    pub(crate) fn line(&self) -> String {
        // Without it, what is typed would go to the user's own index.
        let index = self.command.get_envs().filter(|(name, _)| *name == "GIT_INDEX_FILE");
        let index = index.filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        index.chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
    }
}

/// How tools word it that the system let them down. They run in a locale in which these are the words.
const SYSTEM_FAILURES: &[&str] = &[
    "Input/output error",
    "Cannot allocate memory",
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "Stale file handle",
    "Structure needs cleaning",
    // We only start git where we found a repository a moment ago: it could not read it.
    "not a git repository",
];

/// Tells whether a tool failed for a reason that has nothing to do with what it was asked.
fn is_system_failure(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let is_worded = || SYSTEM_FAILURES.iter().any(|words| said.contains(words));
    !output.status.success() && (output.status.signal().is_some() || is_worded())
}

/// Returns a word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    let word = url_text::without_password(&word.to_string_lossy());
    let is_plain = |char: char| char.is_alphanumeric() || "-_=+,./:@%^{}".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns what was printed, without the last newline.
fn text_of(printed: &[u8]) -> String {
    String::from_utf8_lossy(printed.strip_suffix(b"\n").unwrap_or(printed)).into_owned()
}

/// A tool that answers one question after another. It ends with the conversation.
pub(crate) struct Conversation {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    complaints: Option<JoinHandle<String>>,
}

impl Conversation {
    /// Says something to it.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let said = match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes).and_then(|()| stdin.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        said.map_err(|error| self.ended(&error))
    }

    /// Returns the next line of its answer, without the newline.
    pub(crate) fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = match &mut self.stdout {
            Some(stdout) => stdout.read_until(b'\n', &mut line),
            None => Ok(0),
        };
        match read {
            Ok(_) if line.ends_with(b"\n") => Ok(String::from_utf8_lossy(&line[..line.len() - 1]).into_owned()),
            Ok(_) => Err(self.ended(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.ended(&error)),
        }
    }

    /// Returns so many bytes of its answer.
    pub(crate) fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match &mut self.stdout {
            Some(stdout) => stdout.take(count).read_to_end(&mut bytes),
            None => Ok(0),
        };
        match read {
            Ok(_) if bytes.len() as u64 == count => Ok(bytes),
            Ok(_) => Err(self.ended(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.ended(&error)),
        }
    }

    /// Ends it, and says why it did not answer: in its own words, if it had any.
    fn ended(&mut self, error: &io::Error) -> Error {
        self.end();
        let said = self.complaints.take().and_then(|complaints| complaints.join().ok()).unwrap_or_default();
        let said = said.trim_start_matches("fatal: ").trim_start_matches("abort: ");
        let ended = Error::unavailable(format!("{} does not answer", self.name));
        if said.is_empty() { ended.because(error) } else { ended.because(said) }
    }

    /// Hangs up, and waits for it to notice.
    fn end(&mut self) {
        drop((self.stdin.take(), self.stdout.take()));
        let _ = self.child.wait();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lets somebody change a file in an editor, which may be any command line.
pub fn run_editor(editor: &str, file: &Path) -> Result<()> {
    log::debug!("run {editor} {}", file.display());
    // As git does it: the shell splits the words, and the file is one word whatever is in its name.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    let status = command.status().map_err(|error| Error::unavailable("cannot start the editor").because(error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::invalid(format!("the editor {editor:?} failed: {status}"))
        .hint("set VISUAL or EDITOR to one that works"))
}

/// Runs a command line in a directory, at most for so long, with what it says appended to a file.
///
/// Returns its exit code, and whether it was ended for taking too long. Nothing that it started outlives it, unless that
/// left its process group.
pub(crate) fn run_setup(
    command_line: &str,
    dir: &Path,
    log: std::fs::File,
    variables: &[(String, String)],
    patience: Duration,
) -> Result<(Option<i32>, bool)> {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    let cannot = |error| Error::unavailable("cannot run the set-up command").because(error);
    let mut command = Command::new("sh");
    command.arg("-c").arg(command_line).current_dir(dir).process_group(0).stdin(Stdio::null());
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value))).env(jobs::TOOL_MARK, jobs::own_mark());
    command.stdout(log.try_clone().map_err(cannot)?).stderr(log);
    log::debug!("run {command_line}");
    let mut child = command.spawn().map_err(cannot)?;
    let id = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::Builder::new().spawn(move || {
        // It stays there for who waits for it, so that nobody else gets its number.
        let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = sender.send(());
    });
    // Without the thread the sender is gone, and the command is ended at once.
    let is_late = receiver.recv_timeout(patience).is_err();
    let _ = kill_process_group(id, Signal::KILL);
    let waiting = waiting.map(std::thread::JoinHandle::join);
    let status = child.wait().map_err(cannot)?;
    waiting.map_err(cannot)?.map_err(|_| Error::internal("the thread that waits for the set-up command is gone"))?;
    Ok((status.code(), is_late))
}

/// Makes a directory a git repository, with nothing in it that a template would bring.
pub fn init_git(path: &Path) -> Result<()> {
    let mut command = Command::new("git");
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    Tool::new("git", command).args(["init", "--quiet", "--template="]).arg("--").arg(path).stdout().map(drop)
}

/// Opens a pull request for a branch that was pushed, with GitHub's own program. Returns its address.
///
/// It runs in a checkout of the user's own: a job may have written anything into the configuration of its workspace.
pub(crate) fn open_pull_request(checkout: &Path, branch: &str, title: &str) -> Result<String> {
    let mut command = Command::new("gh");
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    command.env("GH_PROMPT_DISABLED", "1").current_dir(checkout);
    let create = ["pr", "create", "--head", branch, "--title", title, "--body", ""];
    let said = Tool::new("gh", command).args(create).stdout()?;
    let url = said.lines().rev().find(|line| line.starts_with("https://"));
    url.map(str::to_owned).ok_or_else(|| Error::unavailable("gh did not say where the pull request is").because(said))
}

/// Runs a program to its end, with these variables beside the others; an empty one is taken away. Returns its exit code,
/// and what it printed and complained about.
pub fn run_step(
    program: &Path,
    arguments: &[&str],
    dir: &Path,
    variables: &[(String, PathBuf)],
) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir).stdin(Stdio::null());
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    for (name, value) in variables {
        if value.as_os_str().is_empty() {
            command.env_remove(name);
        } else {
            command.env(name, value);
        }
    }
    let output = command.output().map_err(|error| Error::unavailable("cannot start it").because(error))?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
}
