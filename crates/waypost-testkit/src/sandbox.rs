//! A directory with its own home, in which commands do not see the settings of this machine.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use waypost_core::seeded;

use crate::processes::kill_processes_in;
use crate::run::Run;
use crate::tools::find_jj;
use crate::{hg, jj};

/// The id of the system's unprivileged user, who owns no files.
pub const UNPRIVILEGED_UID: u32 = 65534;

/// The variable that names the file with the counts of a program that is instrumented to measure coverage.
const PROFILE_FILE: &str = "LLVM_PROFILE_FILE";

/// A secret in the environment of every command: no file may contain it when a test ends.
const CANARY: (&str, &str) = ("SANDBOX_PASSWORD", "canary-5f0d41e7c9a84b62");
/// Larger files are not searched for it.
const MAX_SEARCHED_BYTES: u64 = 4 * 1024 * 1024;

/// Runs a `way` command with this input in the test's own process. Returns None if the command needs a process of its own.
pub type Runner = fn(&Command, &[u8]) -> Option<Run>;

/// A directory with its own home.
pub struct Sandbox {
    dir: TempDir,
    root: PathBuf,
    way: PathBuf,
    runner: Runner,
}

/// A secret of the environment in any file fails the test: `way` copies nothing from its environment that it does not need.
/// A test that fails leaves no process behind, which would disturb the others.
impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            kill_processes_in(&self.root);
        } else {
            let found = self.files_with_canary();
            assert!(found.is_empty(), "{} is in {found:?}", CANARY.0);
        }
    }
}

impl Sandbox {
    /// Creates a sandbox for a `way` binary.
    pub fn new(way: &str) -> Self {
        Sandbox::of(crate::temp_dir(), way)
    }

    /// Creates a sandbox for a `way` binary whose commands also run in this process.
    pub fn with_runner(way: &str, runner: Runner) -> Self {
        let mut sandbox = Sandbox::new(way);
        sandbox.runner = runner;
        sandbox
    }

    /// Creates a sandbox in a directory, for a `way` binary.
    pub fn below(parent: &Path, way: &str) -> Self {
        Sandbox::of(tempfile::Builder::new().prefix("waypost-").tempdir_in(parent).expect("a directory"), way)
    }

    fn of(dir: TempDir, way: &str) -> Self {
        let root = dir.path().canonicalize().expect("a temporary directory");
        std::fs::create_dir(root.join("home")).expect("a home");
        std::fs::File::create(root.join("empty")).expect("an empty file");
        Sandbox { dir, root, way: PathBuf::from(way), runner: |_, _| None }
    }

    /// Returns the files that contain the secret of the environment. Files that are compressed, or deleted meanwhile, are not
    /// found.
    pub fn files_with_canary(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let device = std::fs::metadata(&self.root).map_or(0, |root| root.dev());
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
                let Ok(metadata) = path.symlink_metadata() else { continue };
                if metadata.is_dir() && metadata.dev() == device {
                    dirs.push(path);
                } else if metadata.is_file() && metadata.len() <= MAX_SEARCHED_BYTES {
                    let content = std::fs::read(&path).unwrap_or_default();
                    if contains(&content, CANARY.1.as_bytes()) {
                        found.push(path);
                    }
                }
            }
        }
        found
    }

    /// Returns a path in it.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Creates a directory in it.
    pub fn dir(&self, relative: impl AsRef<Path>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(&path).expect("a directory");
        path
    }

    /// Creates a git repository with one commit on `main`.
    pub fn git_repo(&self, relative: impl AsRef<Path>) -> PathBuf {
        static TEMPLATE: Template = Template::new(|sandbox| {
            let repo = sandbox.dir("repo");
            // Without sample hooks: tests make thousands of copies.
            sandbox.git(&repo, ["init", "-q", "-b", "main", "--template="]);
            sandbox.dir("repo/.git/hooks");
            sandbox.dir("repo/.git/info");
            sandbox.write("repo/file", "content\n");
            sandbox.git(&repo, ["add", "file"]);
            sandbox.git(&repo, ["commit", "-q", "-m", "first"]);
            repo
        });
        self.copy(&TEMPLATE, relative)
    }

    /// Copies the directory of a template. Returns the copy.
    pub fn copy(&self, template: &Template, to: impl AsRef<Path>) -> PathBuf {
        let (files, made_in) = template.made.get_or_init(|| {
            let sandbox = Sandbox::new("");
            (Files::read(&(template.make)(&sandbox)), sandbox.root.clone())
        });
        let dir = self.dir(to);
        files.write(&dir, made_in, &self.root);
        dir
    }

    /// Creates a jj repository, colocated with git or not.
    #[track_caller]
    pub fn jj_repo(&self, relative: impl AsRef<Path>, colocated: bool) -> PathBuf {
        let repo = self.dir(relative);
        self.jj(&repo, ["git", "init", if colocated { "--colocate" } else { "--no-colocate" }]);
        repo
    }

    /// Creates a Mercurial repository with one commit.
    #[track_caller]
    pub fn hg_repo(&self, relative: impl AsRef<Path>) -> PathBuf {
        let repo = self.dir(relative);
        self.hg(&repo, ["init"]);
        self.write(repo.join("file"), "content\n");
        self.hg(&repo, ["commit", "-q", "-A", "-m", "first"]);
        repo
    }

    /// Writes a file.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        #[expect(clippy::disallowed_methods, reason = "a file of a test does not have to survive a power cut")]
        std::fs::write(self.path(path), content).expect("a file");
    }

    /// Writes a program. Another process writes it: a child that a test starts at the same time inherits the open files of this
    /// one until it runs its own program, and the system runs no file that is open for writing.
    #[track_caller]
    pub fn program(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(self.path(path)).stdin(Stdio::piped());
        let mut writer = writer.spawn().expect("a shell");
        writer.stdin.take().expect("its input").write_all(text.as_ref()).expect("a program");
        assert!(writer.wait().expect("the end of the shell").success());
    }

    /// Runs git, which must succeed. Returns its output.
    #[track_caller]
    pub fn git<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> String {
        self.tool(self.command("git", dir).args(args))
    }

    /// Runs jj, which must succeed. Returns its output.
    #[track_caller]
    pub fn jj<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> String {
        self.tool(self.command(jj(), dir).args(args))
    }

    /// Runs Mercurial, which must succeed. Returns its output.
    #[track_caller]
    pub fn hg<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> String {
        self.tool(self.command(hg(), dir).args(args))
    }

    /// Runs `way` in a directory.
    #[track_caller]
    pub fn way<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Run {
        self.run(self.way_command(dir).args(args), "")
    }

    /// Runs a `way` command with this standard input: in this process if that is possible.
    #[track_caller]
    pub fn run(&self, command: &mut Command, input: impl AsRef<[u8]>) -> Run {
        (self.runner)(command, input.as_ref()).unwrap_or_else(|| run_with_input(command, input.as_ref()))
    }

    /// Runs `way` with further environment variables.
    #[track_caller]
    pub fn way_with<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        variables: &[(&str, &OsStr)],
        args: impl IntoIterator<Item = A>,
    ) -> Run {
        self.run(self.way_command(dir).envs(variables.iter().copied()).args(args), "")
    }

    /// Runs `way` with further environment variables in a process of its own, for a test that kills it.
    #[track_caller]
    pub fn way_process<A: AsRef<OsStr>>(
        &self,
        dir: &Path,
        variables: &[(&str, &OsStr)],
        args: impl IntoIterator<Item = A>,
    ) -> Run {
        run(self.way_command(dir).envs(variables.iter().copied()).args(args))
    }

    /// Runs `way` as a user without root privileges. [`Sandbox::give_away`] makes that user the owner of files.
    #[track_caller]
    pub fn way_unprivileged<A: AsRef<OsStr>>(&self, dir: &Path, args: impl IntoIterator<Item = A>) -> Run {
        let mut command = self.way_command(dir);
        command.args(args);
        if is_root() {
            let way = self.path("way");
            if !way.exists() {
                // `cp` copies it, because a file that is open for writing cannot be executed, and a fork of a parallel
                // test would keep the file of this process open for a moment.
                self.tool(self.command("cp", &self.root).arg(&self.way).arg(&way));
            }
            let mut copy = Command::new(way);
            copy.args(command.get_args()).current_dir(dir).env_clear();
            copy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            if std::env::var_os(PROFILE_FILE).is_some() {
                // That user may not write the file.
                copy.env(PROFILE_FILE, "/dev/null");
            }
            copy.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
            command = copy;
        }
        run(&mut command)
    }

    /// Makes the user of [`Sandbox::way_unprivileged`] the owner of everything in a directory.
    pub fn give_away(&self, path: &Path) {
        if !is_root() {
            return;
        }
        let owner = format!("{UNPRIVILEGED_UID}:{UNPRIVILEGED_UID}");
        self.tool(self.command("chmod", &self.root).arg("a+rx").arg(&self.root));
        self.tool(self.command("chown", &self.root).args(["-R", &owner]).arg(path));
    }

    /// Returns a hermetic `way` command.
    pub fn way_command(&self, dir: &Path) -> Command {
        self.command(&self.way, dir)
    }

    /// Returns a `way` command whose wall clock is wrong by some seconds.
    pub fn way_command_shifted(&self, dir: &Path, seconds: i64) -> Command {
        let shift = self.path("shift_clock");
        if !shift.exists() {
            self.write("shift_clock.c", include_str!("shift_clock.c"));
            self.tool(self.command("cc", &self.root).args(["-O1", "-o", "shift_clock", "shift_clock.c"]));
        }
        let mut command = self.command(shift, dir);
        command.arg(seconds.to_string()).arg(&self.way).env_remove("WAYPOST_TEST_CLOCK");
        command
    }

    /// Returns a command that sees only the programs of this machine, not its settings.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        if let Some(dir) = find_jj().as_deref().and_then(Path::parent) {
            path = std::env::join_paths(std::iter::once(dir.to_owned()).chain(std::env::split_paths(&path)))
                .expect("directories without colons");
        }
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("USER", "tester")
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env(CANARY.0, CANARY.1)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.root.parent().unwrap_or(Path::new("/")))
            .env("HGRCPATH", self.path("empty"))
            .env("HGUSER", "tester")
            .env("JJ_CONFIG", self.path("empty"))
            .env("JJ_USER", "tester")
            .env("JJ_EMAIL", "tester@example.org")
            .env("WAYPOST_TEST_CLOCK", "2026-01-01T00:00:00Z")
            .stdin(Stdio::null());
        // Where an instrumented program counts the lines that it runs.
        command.envs(std::env::var_os(PROFILE_FILE).map(|file| (PROFILE_FILE, file)));
        // A planted defect is one of every process.
        command.envs(std::env::var_os(seeded::VARIABLE).map(|bug| (seeded::VARIABLE, bug)));
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "tester")
                .env(format!("GIT_{role}_EMAIL"), "tester@example.org")
                .env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
        }
        command
    }

    /// Normalizes output: the sandbox becomes `/sandbox`, and ids are numbered in order of appearance.
    pub fn normalized(&self, text: &str) -> String {
        let text = text.replace(&*self.root.to_string_lossy(), "/sandbox");
        let mut seen: Vec<String> = Vec::new();
        let mut normal = String::new();
        let mut rest = text.as_str();
        while let Some((at, prefix)) =
            ["wt_", "rp_"].iter().filter_map(|prefix| Some((rest.find(prefix)?, prefix))).min()
        {
            let end = at + prefix.len() + 12;
            normal.push_str(&rest[..at]);
            let id = rest.get(at..end).filter(|id| id[prefix.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
            let Some(id) = id else {
                normal.push_str(prefix);
                rest = &rest[at + prefix.len()..];
                continue;
            };
            if !seen.iter().any(|known| known == id) {
                seen.push(id.to_owned());
            }
            let number = seen.iter().position(|known| known == id).unwrap_or_default() + 1;
            // As wide as an id, so that columns stay aligned.
            write!(normal, "{prefix}{number:012}").expect("writing to a string cannot fail");
            rest = &rest[end..];
        }
        normal.push_str(rest);
        normal
    }

    /// Keeps the directory, for debugging after a failure.
    pub fn keep(mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        self.root.clone()
    }

    #[track_caller]
    #[expect(clippy::unused_self, reason = "a tool runs in a sandbox")]
    fn tool(&self, command: &mut Command) -> String {
        let ran = run(command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:#?}");
        ran.stdout
    }
}

/// Returns whether this process is root, so that file permissions do not stop it.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[track_caller]
fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Run::of(&output)
}

#[track_caller]
fn run_with_input(command: &mut Command, input: &[u8]) -> Run {
    if input.is_empty() {
        return run(command);
    }
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        // It may end without reading everything.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("its output")
    });
    Run::of(&output)
}

/// A directory that is made once, and copied by the tests that need one.
pub struct Template {
    make: fn(&Sandbox) -> PathBuf,
    made: OnceLock<(Files, PathBuf)>,
}

impl Template {
    /// A template that a function makes in a sandbox of its own. The function returns the directory to copy.
    pub const fn new(make: fn(&Sandbox) -> PathBuf) -> Template {
        Template { make, made: OnceLock::new() }
    }
}

/// The files of a directory, in memory.
struct Files(Vec<(PathBuf, Option<Vec<u8>>, Permissions)>);

impl Files {
    fn read(dir: &Path) -> Files {
        let mut found = Vec::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(relative) = dirs.pop() {
            for entry in std::fs::read_dir(dir.join(&relative)).expect("a directory") {
                let entry = entry.expect("an entry");
                let (path, metadata) = (relative.join(entry.file_name()), entry.metadata().expect("its metadata"));
                let content = if metadata.is_dir() {
                    dirs.push(path.clone());
                    None
                } else {
                    Some(std::fs::read(entry.path()).expect("a file"))
                };
                found.push((path, content, metadata.permissions()));
            }
        }
        Files(found)
    }

    /// Writes them into a directory. Configuration files name another sandbox then.
    fn write(&self, dir: &Path, made_in: &Path, sandbox: &Path) {
        for (name, content, permissions) in &self.0 {
            let path = dir.join(name);
            let moved = content.as_deref().filter(|_| name.ends_with("config")).map(|content| {
                String::from_utf8_lossy(content).replace(&*made_in.to_string_lossy(), &sandbox.to_string_lossy())
            });
            match moved.as_ref().map(String::as_bytes).or(content.as_deref()) {
                None => std::fs::create_dir_all(&path).expect("a directory"),
                #[expect(clippy::disallowed_methods, reason = "a file of a test does not have to survive a power cut")]
                Some(content) => std::fs::write(&path, content).expect("a file"),
            }
            std::fs::set_permissions(&path, permissions.clone()).expect("permissions");
        }
    }
}

/// Returns whether bytes contain others. The standard library finds the first byte, because this is not optimised.
fn contains(mut bytes: &[u8], wanted: &[u8]) -> bool {
    let Some((first, rest)) = wanted.split_first() else { return true };
    // Reading from memory does not fail, and ends with 0 bytes.
    while bytes.skip_until(*first).is_ok_and(|skipped| skipped > 0) {
        if bytes.starts_with(rest) {
            return true;
        }
    }
    false
}
