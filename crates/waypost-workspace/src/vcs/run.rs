//! Runs the version control tools, hardened so that a repository cannot make them execute its own programs.
//!
//! The author of a repository's content may also have written its configuration. Hooks, filters, file system monitors,
//! pagers and prompts are off, and the environment does not redirect git to another repository.

use std::collections::BTreeSet;
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

use super::git_settings::{self, Allowed};
use super::sl_layout;
use crate::{jobs, surroundings};

/// Variables that would redirect git to another repository, or make it run a program.
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

/// The transports that git may use. Others are programs that a URL names.
const ALLOWED_PROTOCOLS: &str = "file:git:http:https:ssh";

/// Fixes the program that answers a fetch. A repository's configuration could name any program here.
pub(crate) const UPLOAD_PACK: &str = "--upload-pack=git-upload-pack";

/// The beginning of the hint to install a tool.
const INSTALL: &str = "install ";

/// Returns whether a command failed because its tool is not installed.
pub(crate) fn is_not_installed(error: &Error) -> bool {
    error.hints().iter().any(|hint| hint.starts_with(INSTALL))
}

/// The user's own settings for commands that use the network.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkOptions {
    /// The timeout of a command that uses the network [default: no limit].
    pub timeout: Option<Duration>,
    /// Whether the environment names an ssh command.
    pub ssh: bool,
    /// Whether the environment names a program that provides passwords.
    pub askpass: bool,
}

/// Git for one directory or repository, hardened.
#[derive(Clone)]
pub(crate) struct Git {
    place: Vec<OsString>,
    settings: Vec<(String, String)>,
    /// The filters that the repository configures and that do not run.
    filters_off: BTreeSet<String>,
    /// The ssh command that the user's own configuration names.
    ssh: Option<String>,
    /// Whether git fetches nothing implicitly: neither missing objects of a partial clone nor large files.
    is_offline: bool,
}

impl Git {
    /// Git in a worktree.
    pub(crate) fn in_worktree(path: &Path) -> Result<Git> {
        Git::hardened(vec!["-C".into(), path.into()], false)
    }

    /// Git on a repository, without a worktree.
    pub(crate) fn of_repository(git_dir: &Path) -> Result<Git> {
        Git::hardened(vec![option("--git-dir=", git_dir)], false)
    }

    /// Git on a workspace with its own git directory, which a job may have changed.
    ///
    /// Neither `core.worktree` nor a file `commondir` redirects it.
    pub(crate) fn of_workspace(root: &Path) -> Result<Git> {
        let git_dir = root.join(".git");
        if !root.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Err(Error::refused(format!("{} is not the directory that Waypost made", root.display())));
        }
        if !git_dir.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            return Err(Error::refused(format!("{} does not have its own git directory any more", root.display())));
        }
        // No option and no variable makes git ignore this file.
        if git_dir.join("commondir").symlink_metadata().is_ok() {
            return Err(Error::refused(format!("the git directory of {} points to another one", root.display())));
        }
        Git::of_linked_worktree(root, &git_dir)
    }

    /// Git on a worktree whose git directory the caller has checked to be the right one.
    pub(crate) fn of_linked_worktree(root: &Path, git_dir: &Path) -> Result<Git> {
        let place = vec!["-C".into(), root.into(), option("--git-dir=", git_dir), option("--work-tree=", root)];
        Git::hardened(place, true)
    }

    /// Git on a repository that only Waypost writes, so that its configuration needs no check.
    pub(crate) fn trusted(git_dir: &Path, work_tree: Option<&Path>) -> Git {
        let mut place = vec![option("--git-dir=", git_dir)];
        if let Some(root) = work_tree {
            place.splice(0..0, ["-C".into(), root.into()]);
            place.push(option("--work-tree=", root));
        }
        Git::trusted_at(place)
    }

    /// Git in a directory that need not be a repository.
    pub(crate) fn in_directory(dir: &Path) -> Git {
        Git::trusted_at(vec!["-C".into(), dir.into()])
    }

    /// Git outside of any repository, with the user's own configuration.
    pub(crate) fn without_repository() -> Result<Git> {
        Git::hardened(vec!["-C".into(), "/".into()], false)
    }

    fn trusted_at(place: Vec<OsString>) -> Git {
        Git { place, settings: git_settings::fixed(), filters_off: BTreeSet::new(), ssh: None, is_offline: true }
    }

    /// Returns whether the repository configures this filter, and it does not run.
    pub(crate) fn is_filter_off(&self, filter: &str) -> bool {
        self.filters_off.contains(filter)
    }

    /// Git that stores no file whose filter does not run: content that git-crypt should have encrypted, for example. For
    /// commits that leave this machine.
    pub(crate) fn for_commits(&self) -> Git {
        // In a clone that is locked, the filter of git-crypt is not configured.
        let filters = self.filters_off.iter().map(String::as_str).chain(["git-crypt"]);
        let required = filters.map(|filter| (format!("filter.{filter}.required"), "true".to_owned()));
        Git { settings: self.settings.iter().cloned().chain(required).collect(), ..self.clone() }
    }

    /// Overrides a setting. Unlike an argument, it is not visible to other users of the machine.
    pub(crate) fn with_setting(mut self, key: &str, value: &str) -> Git {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A git command without arguments yet.
    pub(crate) fn command(&self) -> Tool {
        let mut command = surroundings::command("git");
        command.args(&self.place);
        let tool = self.harden(Tool::new("git", command));
        if !self.is_offline {
            return tool;
        }
        tool.env("GIT_NO_LAZY_FETCH", "1").env("GIT_LFS_SKIP_SMUDGE", "1").env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// A git command that may use the network. It prompts for nothing, and runs no program that the repository names.
    pub(crate) fn network(&self, network: NetworkOptions) -> Tool {
        self.harden_network(self.command(), network)
    }

    /// Hardens every git that a tool starts.
    pub(crate) fn harden(&self, mut tool: Tool) -> Tool {
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
    pub(crate) fn harden_network(&self, tool: Tool, network: NetworkOptions) -> Tool {
        let tool = tool.env("GIT_ALLOW_PROTOCOL", ALLOWED_PROTOCOLS).env("GIT_PROXY_COMMAND", "");
        // An implicit fetch would run the program that the repository names.
        let mut tool = tool.env("GIT_NO_LAZY_FETCH", "1").timeout(network.timeout);
        // The user's own ssh command may prompt for a passphrase. Only the terminal's foreground process group can.
        tool.has_own_group = !network.ssh && self.ssh.is_none();
        if !network.ssh {
            // Overrides the repository's core.sshCommand.
            tool = tool.env("GIT_SSH_COMMAND", self.ssh.as_deref().unwrap_or("ssh -oBatchMode=yes"));
        }
        if network.askpass { tool } else { tool.env("GIT_ASKPASS", "").env("SSH_ASKPASS_REQUIRE", "never") }
    }

    /// A git command that fetches one refspec and nothing else.
    pub(crate) fn fetch(&self, network: NetworkOptions, remote: &str, refspec: &str) -> Tool {
        self.network(network).args([
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-prune-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            // In a partial clone, a filter would leave out the ledger.
            "--no-filter",
            UPLOAD_PACK,
            "--",
            remote,
            refspec,
        ])
    }

    /// Reads the repository's configuration, and overrides what is not known to be harmless.
    fn hardened(place: Vec<OsString>, is_offline: bool) -> Result<Git> {
        let git = Git { is_offline, ..Git::trusted_at(place) };
        let listed = git.command().args(["config", "--list", "--show-scope", "-z"]).stdout()?;
        let Allowed { settings, filters_off, ssh } = git_settings::allowed(&listed);
        Ok(Git { settings, filters_off, ssh, ..git })
    }
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

/// A jj command that snapshots every file.
pub(crate) fn jj(dir: &Path) -> Tool {
    // Also large and untracked files, which jj leaves out by default.
    let settings = ["snapshot.auto-track=all()", "snapshot.max-new-file-size=1000000000000"];
    jj_with_user_settings(dir).args(settings.map(|setting| format!("--config={setting}")))
}

/// A jj command that snapshots the files that the user's settings select.
pub(crate) fn jj_with_user_settings(dir: &Path) -> Tool {
    let mut command = surroundings::command("jj");
    command.current_dir(dir).args(["--no-pager", "--color=never"]);
    for setting in ["ui.editor='false'", "fsmonitor.backend=none", "signing.behavior=drop", "git.executable-path='git'"]
    {
        command.arg(format!("--config={setting}"));
    }
    Tool::new("jj", command)
}

/// A Mercurial command, in the mode for scripts.
pub(crate) fn hg(dir: &Path) -> Tool {
    let mut command = surroundings::command("hg");
    // The repository's own configuration could name hooks and extensions, which are programs.
    command.current_dir(dir).env("HGPLAIN", "1").env("HGRCSKIPREPO", "1").args(["--noninteractive", "--pager=never"]);
    Tool::new("hg", command)
}

/// A Mercurial command that may use the network.
pub(crate) fn hg_network(dir: &Path, network: NetworkOptions) -> Tool {
    hg(dir).env("SSH_ASKPASS_REQUIRE", "never").timeout(network.timeout)
}

/// A Sapling command, in the mode for scripts. Sapling descends from Mercurial and obeys most of its variables.
pub(crate) fn sl(root: &Path) -> Result<Tool> {
    // Sapling always reads the repository's configuration, so that must be harmless.
    sl_layout::check(root)?;
    let mut command = surroundings::command("sl");
    command.current_dir(root).env("HGPLAIN", "1").args(["--noninteractive", "--pager=never"]);
    let tool = Tool::new("sl", command);
    Ok(match git_of_sl(root)? {
        Some(git) => git.harden(tool),
        None => tool,
    })
}

/// A Sapling command that may use the network.
pub(crate) fn sl_network(root: &Path, network: NetworkOptions) -> Result<Tool> {
    let tool = sl(root)?.env("SSH_ASKPASS_REQUIRE", "never").timeout(network.timeout);
    Ok(match git_of_sl(root)? {
        Some(git) => git.harden_network(tool, network),
        None => tool,
    })
}

/// The git that Sapling runs on its commits, if it stores them in git. That repository has a configuration too.
fn git_of_sl(root: &Path) -> Result<Option<Git>> {
    sl_layout::git_dir(root)?.map(|git_dir| Git::of_repository(&git_dir)).transpose()
}

/// Returns the version of the git on the search path.
pub fn git_version() -> Result<String> {
    let version = Tool::new("git", surroundings::command("git")).arg("version").stdout()?;
    Ok(version.trim_start_matches("git version ").to_owned())
}

/// A command of one of the tools, ready to run.
pub(crate) struct Tool {
    /// The tool and its subcommand, for messages.
    name: String,
    is_named: bool,
    command: Command,
    /// The maximum run time.
    timeout: Option<Duration>,
    /// Whether it runs in its own process group, so that a timeout kills its children too. It cannot prompt on the
    /// terminal then.
    has_own_group: bool,
}

impl Tool {
    fn new(name: &str, mut command: Command) -> Self {
        // A fixed locale makes system failures recognizable and bug reports comparable.
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        // If this process is killed meanwhile, the process that cleans up finds the tool by this mark.
        command.env(jobs::TOOL_MARK, jobs::own_mark());
        Tool { name: name.to_owned(), is_named: false, command, timeout: None, has_own_group: true }
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        for arg in args {
            // The words up to the first option name the command: "git worktree add".
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

    /// Limits the run time.
    pub(crate) fn timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs it with this input and returns its output without the last newline. It must read all input before it
    /// prints.
    pub(crate) fn stdout_with_input(mut self, input: &[u8]) -> Result<String> {
        let cannot = |error| Error::unavailable(format!("cannot run {}", self.name)).because(error);
        log::debug!("run {}", self.line());
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(cannot)?;
        if let Some(mut stdin) = child.stdin.take() {
            match stdin.write_all(input) {
                // It stopped reading; its exit status tells why.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other.map_err(cannot)?,
            }
        }
        let output = child.wait_with_output().map_err(cannot)?;
        self.check(output).map(|output| text_of(&output.stdout))
    }

    /// Runs it and returns its output without the last newline.
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

    /// Runs it and returns its output, byte for byte.
    pub(crate) fn bytes(mut self) -> Result<Vec<u8>> {
        let output = self.run()?;
        Ok(self.check(output)?.stdout)
    }

    /// Runs it and returns the beginning of its output, and whether there is more. It is ended then.
    pub(crate) fn first_bytes(mut self, max_bytes: u64) -> Result<(Vec<u8>, bool)> {
        log::debug!("run {}", self.line());
        self.command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let mut bytes = Vec::new();
        let read = match child.stdout.take() {
            Some(stdout) => stdout.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes),
            None => Ok(0),
        };
        let is_cut = bytes.len() as u64 > max_bytes;
        if is_cut || read.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| self.cannot_run(error))?;
        read.map_err(|error| self.cannot_run(error))?;
        if !is_cut && !status.success() {
            return Err(Error::conflict(format!("{} failed", self.name)));
        }
        bytes.truncate(usize::try_from(max_bytes).unwrap_or(usize::MAX));
        Ok((bytes, is_cut))
    }

    /// Starts it for a series of requests.
    pub(crate) fn converse(mut self) -> Result<Conversation> {
        log::debug!("run {}", self.line());
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::internal(format!("{} has no pipes", self.name)));
        };
        // Reading stderr in a thread prevents a deadlock: a tool that fills the pipe would block before it answers.
        let read_stderr = move || {
            let mut message = Vec::new();
            let _ = stderr.read_to_end(&mut message);
            String::from_utf8_lossy(&message).trim().to_owned()
        };
        let stderr_reader = match std::thread::Builder::new().spawn(read_stderr) {
            Ok(thread) => thread,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(self.cannot_run(error));
            }
        };
        let (stdin, stdout) = (Some(stdin), Some(BufReader::new(stdout)));
        Ok(Conversation { name: self.name, child, stdin, stdout, stderr_reader: Some(stderr_reader) })
    }

    /// Runs it and returns whether it succeeded.
    pub(crate) fn succeeds(mut self) -> Result<bool> {
        let output = self.run()?;
        if is_system_failure(&output) { self.check(output).map(|_| false) } else { Ok(output.status.success()) }
    }

    /// Runs it and returns its output. None if it exits with 1, by which tools report that nothing was found.
    pub(crate) fn stdout_or_none(self) -> Result<Option<String>> {
        Ok(self.bytes_or_none()?.map(|printed| text_of(&printed)))
    }

    /// The same, byte for byte.
    pub(crate) fn bytes_or_none(mut self) -> Result<Option<Vec<u8>>> {
        let output = self.run()?;
        if output.status.code() == Some(1) && !is_system_failure(&output) {
            return Ok(None);
        }
        self.check(output).map(|output| Some(output.stdout))
    }

    /// Runs it and returns whether it succeeded, with its output. False if it exits with 1, by which git reports conflicts.
    pub(crate) fn bytes_or_failed(mut self) -> Result<(bool, Vec<u8>)> {
        let output = self.run()?;
        if output.status.code() == Some(1) && !is_system_failure(&output) {
            return Ok((false, output.stdout));
        }
        self.check(output).map(|output| (true, output.stdout))
    }

    /// Runs it and returns its exit code; none if a signal killed it.
    pub(crate) fn code(mut self) -> Result<Option<i32>> {
        Ok(self.run()?.status.code())
    }

    fn check(&self, output: Output) -> Result<Output> {
        if output.status.success() {
            return Ok(output);
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message =
            message.trim().trim_start_matches("fatal: ").trim_start_matches("Error: ").trim_start_matches("abort: ");
        if let Some(signal) = output.status.signal() {
            return Err(Error::unavailable(format!("{} was killed by signal {signal}", self.name)));
        }
        if is_system_failure(&output) {
            return Err(Error::unavailable(format!("{} failed", self.name))
                .because(message)
                .hint("the disk or the system may have a problem; try again"));
        }
        Err(Error::conflict(format!("{} failed", self.name)).because(message))
    }

    fn run(&mut self) -> Result<Output> {
        log::debug!("run {}", self.line());
        match self.timeout {
            Some(timeout) => self.run_with_timeout(timeout),
            None => self.command.output().map_err(|error| self.cannot_run(error)),
        }
    }

    /// Runs it and kills it on timeout.
    fn run_with_timeout(&mut self, timeout: Duration) -> Result<Output> {
        if self.has_own_group {
            self.command.process_group(0);
        }
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (sender, receiver) = mpsc::channel();
        let (start, started) = mpsc::channel::<Child>();
        // This thread reads the output and waits for the command. It is left behind if the command does not exit. It
        // starts first: without it there would be no timeout.
        let wait = move || started.recv().map(|child| sender.send(child.wait_with_output()));
        std::thread::Builder::new().spawn(wait).map_err(|error| self.cannot_run(error))?;
        let child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let _ = start.send(child);
        if let Ok(output) = receiver.recv_timeout(timeout) {
            return output.map_err(|error| self.cannot_run(error));
        }
        if let Some(process) = process {
            let kill = if self.has_own_group { kill_process_group } else { kill_process };
            let _ = kill(process, Signal::KILL);
        }
        Err(Error::unavailable(format!("{} took longer than {timeout:?} and was killed", self.name)))
    }

    fn cannot_run(&self, error: io::Error) -> Error {
        let tool = self.command.get_program().to_string_lossy().into_owned();
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let cannot_run = Error::unavailable(format!("cannot run {tool}")).because(error);
        if is_missing { cannot_run.hint(format!("{INSTALL}{tool}")) } else { cannot_run }
    }

    /// The command as a user would type it, without hardening settings and passwords.
    pub(crate) fn line(&self) -> String {
        // Without this variable, the typed command would change the user's own index.
        let index = self.command.get_envs().filter(|(name, _)| *name == "GIT_INDEX_FILE");
        let index = index.filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        index.chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
    }
}

/// Messages that tools print when the system fails, in the locale in which they run.
const SYSTEM_FAILURES: &[&str] = &[
    "Input/output error",
    "Cannot allocate memory",
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "Stale file handle",
    "Structure needs cleaning",
    // Detection found a repository a moment ago, so git could not read it.
    "not a git repository",
];

/// Returns whether a tool failed because of the system, not because of its arguments.
fn is_system_failure(output: &Output) -> bool {
    let message = String::from_utf8_lossy(&output.stderr);
    let is_system_message = || SYSTEM_FAILURES.iter().any(|words| message.contains(words));
    !output.status.success() && (output.status.signal().is_some() || is_system_message())
}

/// Quotes a word for the shell.
fn quoted(word: &OsStr) -> String {
    let word = url_text::without_password(&word.to_string_lossy());
    let is_plain = |char: char| char.is_alphanumeric() || "-_=+,./:@%^{}".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns output as text, without the last newline.
fn text_of(printed: &[u8]) -> String {
    String::from_utf8_lossy(printed.strip_suffix(b"\n").unwrap_or(printed)).into_owned()
}

/// A running tool that answers a series of requests. It exits when this is dropped.
pub(crate) struct Conversation {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    stderr_reader: Option<JoinHandle<String>>,
}

impl Conversation {
    /// Writes to its standard input.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match &mut self.stdin {
            Some(stdin) => stdin.write_all(bytes).and_then(|()| stdin.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|error| self.stop_with_error(&error))
    }

    /// Reads the next line of its output, without the newline.
    pub(crate) fn read_line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = match &mut self.stdout {
            Some(stdout) => stdout.read_until(b'\n', &mut line),
            None => Ok(0),
        };
        match read {
            Ok(_) if line.ends_with(b"\n") => Ok(String::from_utf8_lossy(&line[..line.len() - 1]).into_owned()),
            Ok(_) => Err(self.stop_with_error(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.stop_with_error(&error)),
        }
    }

    /// Reads this many bytes of its output.
    pub(crate) fn read_bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match &mut self.stdout {
            Some(stdout) => stdout.take(count).read_to_end(&mut bytes),
            None => Ok(0),
        };
        match read {
            Ok(_) if bytes.len() as u64 == count => Ok(bytes),
            Ok(_) => Err(self.stop_with_error(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.stop_with_error(&error)),
        }
    }

    /// Stops it, and returns an error with its own message, if it printed one.
    fn stop_with_error(&mut self, error: &io::Error) -> Error {
        self.stop();
        let message = self.stderr_reader.take().and_then(|stderr_reader| stderr_reader.join().ok()).unwrap_or_default();
        let message = message.trim_start_matches("fatal: ").trim_start_matches("abort: ");
        let stopped = Error::unavailable(format!("{} does not answer", self.name));
        if message.is_empty() { stopped.because(error) } else { stopped.because(message) }
    }

    /// Closes its pipes and waits for it to exit.
    fn stop(&mut self) {
        drop((self.stdin.take(), self.stdout.take()));
        let _ = self.child.wait();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens a file in an editor, which may be any command line, and waits for it.
pub fn run_editor(editor: &str, file: &Path) -> Result<()> {
    log::debug!("run {editor} {}", file.display());
    // As git does it: the shell splits the command line, and the file stays one word whatever its name contains.
    let cannot = |error| Error::unavailable("cannot start the editor").because(error);
    let mut command = surroundings::interactive_command("sh").map_err(cannot)?;
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    let status = command.status().map_err(cannot)?;
    if status.success() {
        return Ok(());
    }
    Err(Error::invalid(format!("the editor {editor:?} failed: {status}"))
        .hint("set VISUAL or EDITOR to an editor that works"))
}

/// Runs a command line in a directory with a timeout and these environment variables only, and appends its output to a file.
///
/// Returns its exit code, and whether it was killed because of the timeout. Its children are killed with it, unless
/// they left its process group.
pub(crate) fn run_setup(
    command_line: &str,
    dir: &Path,
    log: std::fs::File,
    variables: &[(OsString, OsString)],
    timeout: Duration,
) -> Result<(Option<i32>, bool)> {
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
    let cannot = |error| Error::unavailable("cannot run the set-up command").because(error);
    let mut command = Command::new("sh");
    command.arg("-c").arg(command_line).current_dir(dir).env_clear().process_group(0).stdin(Stdio::null());
    command.envs(variables.iter().map(|(name, value)| (name, value))).env(jobs::TOOL_MARK, jobs::own_mark());
    command.stdout(log.try_clone().map_err(cannot)?).stderr(log);
    log::debug!("run {command_line}");
    let mut child = command.spawn().map_err(cannot)?;
    let id = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let waiting = std::thread::Builder::new().spawn(move || {
        // NOWAIT keeps the zombie until `wait` below, so that no other process gets its id.
        let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = sender.send(());
    });
    // If the thread could not start, the sender is gone, and the command is killed at once.
    let is_late = receiver.recv_timeout(timeout).is_err();
    let _ = kill_process_group(id, Signal::KILL);
    let waiting = waiting.map(std::thread::JoinHandle::join);
    let status = child.wait().map_err(cannot)?;
    waiting.map_err(cannot)?.map_err(|_| Error::internal("the thread that waits for the set-up command panicked"))?;
    Ok((status.code(), is_late))
}

/// Makes a directory a git repository with an empty first commit, without files from a template.
pub fn init_git(path: &Path) -> Result<()> {
    let git = || {
        let mut command = surroundings::command("git");
        for variable in GIT_VARIABLES {
            command.env_remove(variable);
        }
        Tool::new("git", command)
    };
    git().args(["init", "--quiet", "--template="]).arg("--").arg(path).stdout()?;
    let commit = ["commit", "--quiet", "--allow-empty", "--no-verify", "--no-gpg-sign", "--message=Start"];
    git().arg("-C").arg(path).args(commit).stdout().map(drop).map_err(|error| {
        Error::refused("git cannot make the first commit")
            .because(error.full_message())
            .hint("if your identity is missing: git config --global user.name and user.email")
    })
}

/// Opens a pull request for a pushed branch with `gh`. Returns its URL.
///
/// It runs in the user's own checkout, because a job may have changed the configuration of its workspace.
pub(crate) fn open_pull_request(checkout: &Path, branch: &str, title: &str) -> Result<String> {
    let mut command = surroundings::command("gh");
    for variable in GIT_VARIABLES {
        command.env_remove(variable);
    }
    command.env("GH_PROMPT_DISABLED", "1").current_dir(checkout);
    let create = ["pr", "create", "--head", branch, "--title", title, "--body", ""];
    let output = Tool::new("gh", command).args(create).stdout()?;
    let url = output.lines().rev().find(|line| line.starts_with("https://"));
    url.map(str::to_owned)
        .ok_or_else(|| Error::unavailable("gh did not print the URL of the pull request").because(output))
}

/// A program that `way demo` runs as its user would.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [&'a str],
    /// The directory it runs in.
    pub dir: &'a Path,
    /// Additional environment variables; an empty value unsets one.
    pub variables: &'a [(OsString, OsString)],
}

/// The result of a [`Step`].
#[derive(Clone, Debug)]
pub struct StepResult {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Step<'_> {
    fn command(&self) -> Command {
        let mut command = surroundings::command(self.program);
        command.args(self.arguments).current_dir(self.dir).stdin(Stdio::null());
        for variable in GIT_VARIABLES {
            command.env_remove(variable);
        }
        for (name, value) in self.variables {
            if value.is_empty() {
                command.env_remove(name);
            } else {
                command.env(name, value);
            }
        }
        command
    }

    fn cannot_start(&self, error: std::io::Error) -> Error {
        Error::unavailable(format!("cannot start {}", self.program.display())).because(error)
    }

    /// Runs it until it ends. `on_line` gets each line of its standard output as soon as it is printed.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<StepResult> {
        let mut command = self.command();
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|error| self.cannot_start(error))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = std::thread::scope(|scope| {
            let errors = scope.spawn(|| {
                let mut text = Vec::new();
                // A stream that cannot be read any more has ended.
                let _ = err.map(|mut err| err.read_to_end(&mut text));
                String::from_utf8_lossy(&text).into_owned()
            });
            let mut stdout = String::new();
            for line in out.map(BufReader::new).into_iter().flat_map(|out| out.split(b'\n')).map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                on_line(&line);
                stdout.push_str(&line);
                stdout.push('\n');
            }
            (stdout, errors.join().unwrap_or_default())
        });
        let status = child.wait().map_err(|error| self.cannot_start(error))?;
        Ok(StepResult { code: status.code(), stdout, stderr })
    }

    /// Starts it in the background, without output and in a process group of its own: a Ctrl-C on the terminal does not
    /// reach it. Its input is a pipe that ends when this process does.
    pub fn start(&self) -> Result<BackgroundStep> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Ok(BackgroundStep { child: command.spawn().map_err(|error| self.cannot_start(error))? })
    }
}

/// A [`Step`] in the background.
pub struct BackgroundStep {
    child: Child,
}

impl BackgroundStep {
    /// Sends it SIGTERM.
    pub fn terminate(&self) {
        // It is not waited for yet, so its id is not used again.
        let _ = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).map(|pid| kill_process(pid, Signal::TERM));
    }

    /// Waits until it ends.
    pub fn wait(mut self) {
        let _ = self.child.wait();
    }
}
