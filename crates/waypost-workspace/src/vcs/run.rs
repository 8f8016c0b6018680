//! Runs the version control tools, hardened so that a repository cannot make them execute its own programs.
//!
//! The author of a repository's content may also have written its configuration, so git reads one that we wrote
//! (`own_git_dir.rs`): [`Git`] has no way to run with a repository's own. Hooks, pagers and prompts are off, and the
//! environment does not redirect git to another repository.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use waypost_core::{Error, Result, url_text};
use waypost_fs::read_small_file;

use super::own_git_dir::OwnGitDir;
use super::{git_layout, jj_layout, sl_layout};
use crate::sandbox::{JobSandbox, NO_SANDBOX};
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

/// The maximum time of a tool that works in the workspace of a job: a pipe in the place of a file would keep it for ever.
const WORKSPACE_TIMEOUT: Duration = Duration::from_mins(10);

/// The transports that git may use. Others are programs that a URL names.
const ALLOWED_PROTOCOLS: &str = "file:git:http:https:ssh";

/// Settings of every command. They override the user's configuration, too.
const FIXED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.fsync", "all"),
    ("core.fsyncMethod", "fsync"),
    // Git would run itself in the repositories that objects are borrowed from, with their configuration.
    ("core.alternateRefsCommand", "true"),
    ("advice.detachedHead", "false"),
    ("protocol.ext.allow", "never"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // A relative path would be relative to a directory of ours.
    ("worktree.useRelativePaths", "false"),
];

/// Fixes the program that answers a fetch. A user's configuration could name another one for a remote.
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
    /// Where git has its configuration from.
    own: Option<Arc<OwnGitDir>>,
    place: Vec<OsString>,
    /// The repository that every git of a tool uses.
    variables: Vec<(&'static str, OsString)>,
    settings: Vec<(OsString, OsString)>,
    /// The words that start it in the sandbox of the job whose workspace it is; none elsewhere.
    sandbox: Arc<[OsString]>,
    /// Whether git fetches nothing implicitly: neither missing objects of a partial clone nor large files.
    is_offline: bool,
}

impl Git {
    /// Git in a worktree.
    pub(crate) fn in_worktree(path: &Path) -> Result<Git> {
        let is_root = |root: &Path| {
            let is_marked = |dir: &&Path| dir.join(".git").symlink_metadata().is_ok();
            surroundings::resolve(path).canonicalize().is_ok_and(|path| path.ancestors().find(is_marked) == Some(root))
        };
        if let Some(job) = JobSandbox::of(path)?.filter(|job| is_root(&job.root))
            && let (Some(git_dir), Some(common_dir)) = (&job.git_dir, &job.common_dir)
        {
            return Git::of_job_worktree(&job, git_dir, common_dir);
        }
        let found = git_layout::locate(path)?;
        let place = vec!["-C".into(), path.into()];
        Git::at(place, &found.git_dir, &found.common_dir, Some(&found.root), false)
    }

    /// Git on the worktree of a job. Its file `.git` is the job's, so it leads nowhere else.
    fn of_job_worktree(job: &JobSandbox, git_dir: &Path, common_dir: &Path) -> Result<Git> {
        let mark = job.root.join(".git");
        let line = read_small_file(&mark)?.unwrap_or_default();
        let named = line.trim_ascii_end().strip_prefix(b"gitdir: ").map(OsStr::from_bytes);
        if named.map(|named| job.root.join(named)).as_deref() != Some(git_dir) {
            return Err(Error::refused(format!("{} does not lead to {} any more", mark.display(), git_dir.display()))
                .because("a job changed it")
                .hint(format!("put the line back: gitdir: {}", git_dir.display())));
        }
        let place = vec![
            "-C".into(),
            job.root.clone().into(),
            option("--git-dir=", git_dir),
            option("--work-tree=", &job.root),
        ];
        Git::at(place, git_dir, common_dir, Some(&job.root), true)
    }

    /// Git on a repository, without a worktree.
    pub(crate) fn of_repository(git_dir: &Path) -> Result<Git> {
        let common_dir = git_layout::common_dir(git_dir)?;
        Git::at(vec![option("--git-dir=", git_dir)], git_dir, &common_dir, None, false)
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
        Git::at(place, git_dir, &git_layout::common_dir(git_dir)?, Some(root), true)
    }

    /// Git in a directory in which it makes a repository.
    pub(crate) fn that_makes(dir: &Path) -> Git {
        let (place, settings) = (vec!["-C".into(), dir.into()], fixed());
        Git { own: None, place, variables: Vec::new(), settings, sandbox: Arc::default(), is_offline: true }
    }

    /// Git outside of any repository, with the user's own configuration.
    pub(crate) fn without_repository() -> Result<Git> {
        let own = OwnGitDir::of_nothing()?;
        let variables = vec![("GIT_DIR", own.path().into())];
        let place = vec!["-C".into(), "/".into()];
        let (own, settings) = (Some(Arc::new(own)), fixed());
        Ok(Git { own, place, variables, settings, sandbox: Arc::default(), is_offline: false })
    }

    fn at(
        place: Vec<OsString>,
        git_dir: &Path,
        common_dir: &Path,
        work_tree: Option<&Path>,
        is_offline: bool,
    ) -> Result<Git> {
        // Git changes its directory before it uses these.
        let absolute = |path: &Path| {
            std::path::absolute(surroundings::resolve(path))
                .map_err(|error| Error::unavailable(format!("cannot read {}", path.display())).because(error))
        };
        let (git_dir, common_dir) = (absolute(git_dir)?, absolute(common_dir)?);
        let job = match JobSandbox::of(work_tree.unwrap_or(&git_dir))? {
            None => JobSandbox::of(&git_dir)?,
            job => job,
        };
        if job.is_some() {
            check_job_files(&git_dir)?;
        }
        let own = OwnGitDir::of(&git_dir, &common_dir, job.is_some())?;
        let sandbox = job.map(|job| own.start_in(&job)).transpose()?.unwrap_or_default().into();
        let mut variables = vec![("GIT_DIR", git_dir.into()), ("GIT_COMMON_DIR", own.path().into())];
        if let Some(root) = work_tree {
            variables.push(("GIT_WORK_TREE", absolute(root)?.into()));
        }
        Ok(Git { own: Some(Arc::new(own)), place, variables, settings: fixed(), sandbox, is_offline })
    }

    /// Returns the git directory of the worktree.
    pub(crate) fn git_dir(&self) -> Result<PathBuf> {
        self.command().args(["rev-parse", "--absolute-git-dir"]).path()
    }

    /// Returns a path for a temporary file that no other process uses.
    pub(crate) fn temporary(&self, kind: &str) -> Result<PathBuf> {
        let own = self.own.as_ref().ok_or_else(|| Error::internal("git has no directory of its own here"))?;
        Ok(own.temporary(kind))
    }

    /// Returns whether the repository configures this filter, and it does not run.
    pub(crate) fn is_filter_off(&self, filter: &str) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_filter_off(filter))
    }

    /// Git that stores no file whose filter does not run: content that git-crypt should have encrypted, for example. For
    /// commits that leave this machine.
    pub(crate) fn for_commits(&self) -> Git {
        // In a clone that is locked, the filter of git-crypt is not configured.
        let filters = self.own.iter().flat_map(|own| own.filters_off()).chain(["git-crypt".into()]);
        let required = filters.map(|filter| {
            let mut key = OsString::from("filter.");
            key.push(filter);
            key.push(".required");
            (key, OsString::from("true"))
        });
        Git { settings: self.settings.iter().cloned().chain(required).collect(), ..self.clone() }
    }

    /// Git that fetches nothing implicitly.
    pub(crate) fn offline(mut self) -> Git {
        self.is_offline = true;
        self
    }

    /// Overrides a setting. Unlike an argument, it is not visible to other users of the machine.
    pub(crate) fn with_setting(mut self, key: &str, value: impl Into<OsString>) -> Git {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Returns the configuration of a new worktree that has the same files as this one. None if it has all.
    pub(crate) fn sparse_config(&self) -> Option<Vec<u8>> {
        self.own.as_ref()?.sparse_config()
    }

    /// Returns the option of a fetch from this repository, which is on this machine: it is read with our configuration.
    pub(crate) fn upload_pack(&self) -> OsString {
        let mut option = OsString::from("--upload-pack=");
        if let Some(own) = &self.own {
            option.push("GIT_COMMON_DIR=");
            option.push(shell_word(own.path().as_os_str()));
            option.push(" ");
        }
        for word in self.sandbox.iter() {
            option.push(shell_word(word));
            option.push(" ");
        }
        option.push("git-upload-pack");
        option
    }

    /// A git command without arguments yet.
    pub(crate) fn command(&self) -> Tool {
        let tool = self.harden(Tool::in_sandbox("git", &self.sandbox, |command| {
            command.args(&self.place);
        }));
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
        for (name, value) in &self.variables {
            tool = tool.env(name, value);
        }
        tool = tool
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_ALLOW_PROTOCOL", ALLOWED_PROTOCOLS)
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (number, (key, value)) in self.settings.iter().enumerate() {
            tool = tool.env(&format!("GIT_CONFIG_KEY_{number}"), key).env(&format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        tool.own.extend(self.own.clone());
        tool
    }

    /// Hardens how every git that a tool starts uses the network.
    pub(crate) fn harden_network(&self, tool: Tool, network: NetworkOptions) -> Tool {
        // An implicit fetch would prompt.
        let tool = tool.env("GIT_PROXY_COMMAND", "").env("GIT_NO_LAZY_FETCH", "1");
        let mut tool = tool.timeout(network.timeout);
        let ssh = if network.ssh { None } else { self.ssh_of_user() };
        // The user's own ssh command may prompt for a passphrase. Only the terminal's foreground process group can.
        tool.has_own_group = !network.ssh && ssh.is_none();
        if !network.ssh {
            tool = tool.env("GIT_SSH_COMMAND", ssh.unwrap_or_else(|| "ssh -oBatchMode=yes".into()));
        }
        if network.askpass { tool } else { tool.env("GIT_ASKPASS", "").env("SSH_ASKPASS_REQUIRE", "never") }
    }

    /// Returns the ssh command that the user's own configuration names.
    fn ssh_of_user(&self) -> Option<String> {
        self.command().args(["config", "--get", "core.sshCommand"]).stdout_or_none().ok().flatten()
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
}

/// Refuses links and special files where git expects files of its own, in a git directory that a job can change. In its sandbox
/// they harm nothing, but a tool would wait for a pipe, or fail without a reason that a person understands.
fn check_job_files(git_dir: &Path) -> Result<()> {
    const DIRS: [&str; 9] =
        ["info", "logs", "logs/refs", "modules", "objects", "objects/info", "objects/pack", "refs", "refs/heads"];
    const FILES: [&str; 17] = [
        "COMMIT_EDITMSG",
        "FETCH_HEAD",
        "HEAD",
        "MERGE_HEAD",
        "ORIG_HEAD",
        "commondir",
        "config",
        "config.worktree",
        "gitdir",
        "index",
        "info/attributes",
        "info/exclude",
        "info/sparse-checkout",
        "logs/HEAD",
        "objects/info/alternates",
        "packed-refs",
        "shallow",
    ];
    let names = DIRS.iter().map(|name| (name, true)).chain(FILES.iter().map(|name| (name, false)));
    for (name, is_dir) in names {
        let path = git_dir.join(name);
        let Ok(found) = path.symlink_metadata() else { continue };
        if if is_dir { found.is_dir() } else { found.is_file() } {
            continue;
        }
        let what = if found.is_symlink() { "a link" } else { "not what git makes" };
        return Err(Error::refused(format!("{} is {what}, so Waypost does not run git there", path.display()))
            .because("a job put it there")
            .hint("delete it, or delete the workspace with all work in it: way ws rm --discard"));
    }
    Ok(())
}

fn fixed() -> Vec<(OsString, OsString)> {
    FIXED.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

/// Sets a value in a configuration file. No other file is read or changed.
pub(crate) fn set_config(file: &Path, key: &str, value: impl AsRef<OsStr>) -> Result<()> {
    config_command(file)?.arg(key).arg(value).stdout().map(drop)
}

/// Removes all values of a key from a configuration file. No other file is read or changed.
pub(crate) fn unset_config(file: &Path, key: &str) -> Result<()> {
    config_command(file)?.args(["--unset-all", key]).stdout().map(drop)
}

fn config_command(file: &Path) -> Result<Tool> {
    Ok(Git::without_repository()?.command().args(["config", "--no-includes", "--file"]).arg(file))
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

/// A jj command that snapshots every file.
pub(crate) fn jj(dir: &Path) -> Result<Tool> {
    // Also large and untracked files, which jj leaves out by default.
    let settings = ["snapshot.auto-track=all()", "snapshot.max-new-file-size=1000000000000"];
    Ok(jj_with_user_settings(dir)?.args(settings.map(|setting| format!("--config={setting}"))))
}

/// A jj command that snapshots the files that the user's settings select.
pub(crate) fn jj_with_user_settings(dir: &Path) -> Result<Tool> {
    // jj obeys a configuration in the repository, so that must be harmless.
    jj_layout::check(dir)?;
    // jj would run git with the configuration of the repository. None of our commands needs it.
    let no_git = "git.executable-path='false'";
    let settings = ["ui.editor='false'", "fsmonitor.backend=none", "signing.behavior=drop", no_git];
    Ok(Tool::in_dir("jj", dir, None, |command| {
        command.args(["--no-pager", "--color=never"]);
        command.args(settings.map(|setting| format!("--config={setting}")));
    }))
}

/// A Mercurial command, in the mode for scripts.
pub(crate) fn hg(dir: &Path) -> Tool {
    hg_with(dir, None)
}

/// A Mercurial command that may also write temporary files.
pub(crate) fn hg_with(dir: &Path, scratch: Option<&Scratch>) -> Tool {
    // The repository's own configuration could name hooks and extensions, which are programs.
    Tool::in_dir("hg", dir, scratch, |command| {
        command.env("HGPLAIN", "1").env("HGRCSKIPREPO", "1").args(["--noninteractive", "--pager=never"]);
    })
}

/// A Mercurial command that may use the network.
pub(crate) fn hg_network(dir: &Path, network: NetworkOptions) -> Tool {
    hg(dir).env("SSH_ASKPASS_REQUIRE", "never").timeout(network.timeout)
}

/// A Sapling command, in the mode for scripts. Sapling descends from Mercurial and obeys most of its variables.
pub(crate) fn sl(root: &Path) -> Result<Tool> {
    // Sapling always reads the repository's configuration, so that must be harmless.
    sl_layout::check(root)?;
    let tool = Tool::in_dir("sl", root, None, |command| {
        command.env("HGPLAIN", "1").args(["--noninteractive", "--pager=never"]);
    });
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

/// A directory for temporary files, for one tool.
#[derive(Clone)]
pub(crate) struct Scratch(Arc<OwnGitDir>);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch> {
        Ok(Scratch(Arc::new(OwnGitDir::of_nothing()?)))
    }

    /// Returns a path that no other process uses.
    pub(crate) fn temporary(&self, kind: &str) -> PathBuf {
        self.0.temporary(kind)
    }
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
    /// The directories that git uses as long as it runs.
    own: Vec<Arc<OwnGitDir>>,
    /// How many words start the sandbox that it runs in.
    hidden_words: usize,
    /// Why it cannot run at all.
    failed: Option<Error>,
}

impl Tool {
    fn new(name: &str, mut command: Command) -> Self {
        // A fixed locale makes system failures recognizable and bug reports comparable.
        command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        // If this process is killed meanwhile, the process that cleans up finds the tool by this mark.
        command.env(jobs::TOOL_MARK, jobs::own_mark());
        Tool {
            name: name.to_owned(),
            is_named: false,
            command,
            timeout: None,
            has_own_group: true,
            own: Vec::new(),
            hidden_words: 0,
            failed: None,
        }
    }

    /// A tool that these words start in the sandbox of a job, if there are any.
    fn in_sandbox(name: &str, sandbox: &[OsString], prepare: impl FnOnce(&mut Command)) -> Self {
        let Some((helper, words)) = sandbox.split_first() else {
            let mut command = surroundings::command(name);
            prepare(&mut command);
            return Tool::new(name, command);
        };
        let mut command = surroundings::command(helper);
        command.args(words).arg(name);
        prepare(&mut command);
        let tool = Tool::new(name, command);
        Tool { hidden_words: sandbox.len(), timeout: Some(WORKSPACE_TIMEOUT), ..tool }
    }

    /// A tool in a directory, in the sandbox of the job whose workspace that is.
    fn in_dir(name: &str, dir: &Path, scratch: Option<&Scratch>, prepare: impl FnOnce(&mut Command)) -> Self {
        let started = JobSandbox::of(dir).and_then(|job| {
            let Some(job) = job else { return Ok((Vec::new(), None)) };
            let scratch = scratch.map_or_else(Scratch::new, |scratch| Ok(scratch.clone()))?;
            Ok((scratch.0.start_in(&job)?, Some(scratch.0)))
        });
        let (sandbox, own, failed) = match started {
            Ok((sandbox, own)) => (sandbox, own, None),
            Err(error) => (Vec::new(), None, Some(error)),
        };
        let mut tool = Tool::in_sandbox(name, &sandbox, prepare);
        tool.command.current_dir(dir);
        tool.own.extend(own);
        Tool { failed, ..tool }
    }

    /// Starts it. It is killed at the end of its time, unless the guard is dropped before.
    fn spawn(&mut self) -> Result<(Child, mpsc::Sender<()>)> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        if self.timeout.is_some() {
            self.command.process_group(0);
        }
        let child = self.command.spawn().map_err(|error| self.cannot_run(error))?;
        let (guard, is_over) = mpsc::channel();
        if let Some(timeout) = self.timeout {
            let id = Pid::from_child(&child);
            // Without the thread there is no limit, which is no reason to fail.
            let _ = std::thread::Builder::new().spawn(move || {
                if is_over.recv_timeout(timeout) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let _ = kill_process_group(id, Signal::KILL);
                }
            });
        }
        Ok((child, guard))
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

    /// Keeps the directory of another git until it has run.
    pub(crate) fn using(mut self, git: &Git) -> Self {
        self.own.extend(git.own.clone());
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
        log::debug!("run {}", self.line());
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (mut child, _guard) = self.spawn()?;
        let cannot = |error| Error::unavailable(format!("cannot run {}", self.name)).because(error);
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
        let (mut child, _guard) = self.spawn()?;
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
        let (mut child, guard) = self.spawn()?;
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
        let (stderr_reader, guards) = (Some(stderr_reader), (self.own, guard));
        Ok(Conversation { name: self.name, child, stdin, stdout, stderr_reader, _guards: guards })
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
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
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
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args()).skip(self.hidden_words);
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
    NO_SANDBOX,
    "bwrap: ",
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
    shell_word(OsStr::new(&word)).to_string_lossy().into_owned()
}

/// Quotes a word for the shell, whatever it contains.
fn shell_word(word: &OsStr) -> OsString {
    let quoted = word
        .as_bytes()
        .iter()
        .flat_map(|byte| if *byte == b'\'' { r"'\''".as_bytes() } else { std::slice::from_ref(byte) });
    OsString::from_vec(std::iter::once(&b'\'').chain(quoted).chain(std::iter::once(&b'\'')).copied().collect())
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
    _guards: (Vec<Arc<OwnGitDir>>, mpsc::Sender<()>),
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
    Git::that_makes(path).command().args(["init", "--quiet", "--template="]).stdout()?;
    let commit = ["commit", "--quiet", "--allow-empty", "--no-verify", "--no-gpg-sign", "--message=Start"];
    Git::in_worktree(path)?.command().args(commit).stdout().map(drop).map_err(|error| {
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
    command.env("GH_PROMPT_DISABLED", "1").current_dir(checkout);
    let create = ["pr", "create", "--head", branch, "--title", title, "--body", ""];
    // It runs git, and asks it for the remotes.
    let output = Git::in_worktree(checkout)?.harden(Tool::new("gh", command)).args(create).stdout()?;
    let url = output.lines().rev().find(|line| line.starts_with("https://"));
    url.map(str::to_owned)
        .ok_or_else(|| Error::unavailable("gh did not print the URL of the pull request").because(output))
}

/// A program that `way demo` and `way top` run as their user would.
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

    /// Runs it until it ends.
    pub fn run(&self) -> Result<StepResult> {
        let output = self.command().output().map_err(|error| self.cannot_start(error))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(StepResult { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) })
    }

    /// Starts it in the background, with the output of this process, and in a process group of its own: a Ctrl-C on the
    /// terminal does not reach it. Its input is a pipe that ends when this process does.
    pub fn start(&self) -> Result<BackgroundStep> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).process_group(0);
        Ok(BackgroundStep { child: command.spawn().map_err(|error| self.cannot_start(error))? })
    }
}

/// A [`Step`] in the background.
pub struct BackgroundStep {
    child: Child,
}

impl BackgroundStep {
    /// Waits until it ends, and returns whether it succeeded. `is_over`, which waits a moment, ends its input.
    pub fn wait(mut self, is_over: impl Fn() -> bool) -> Result<bool> {
        loop {
            let status = self.child.try_wait();
            if let Some(status) =
                status.map_err(|error| Error::unavailable("cannot wait for a program").because(error))?
            {
                return Ok(status.success());
            }
            if is_over() {
                drop(self.child.stdin.take());
            }
        }
    }
}
