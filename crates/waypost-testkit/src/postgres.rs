//! A PostgreSQL server for tests, on a socket in a temporary directory.
//!
//! A shell stops it when the process that started it ends, even after a crash. `WAYPOST_TEST_POSTGRES` is the URL of a
//! server to use instead, for tests that do not stop it. Without any server tests fail.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::sandbox::{UNPRIVILEGED_UID, is_root};

/// A running server.
pub struct Postgres {
    /// The shell, which outlives this process, deletes it.
    dir: PathBuf,
    programs: PathBuf,
    /// A shell that stops the server when its standard input is closed.
    keeper: Child,
}

impl Postgres {
    /// Starts a server with further settings in the syntax of `postgresql.conf`.
    pub fn start(settings: &[&str]) -> Postgres {
        let programs = programs();
        let dir = server_dir();
        let data = dir.join("data");
        let mut initdb = unprivileged(&programs.join("initdb"), &dir);
        // Faster: do not sync new files, and use the built-in locale.
        initdb.args(["--no-sync", "--no-instructions", "--auth=trust", "--username=postgres", "--encoding=UTF8"]);
        check(initdb.args(["--locale=C.UTF-8", "--pgdata"]).arg(&data));
        let server = Postgres::with_keeper(dir, programs);
        // In the file, because ALTER SYSTEM cannot change settings of the command line.
        let mut file = std::fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).expect("settings");
        writeln!(file, "unix_socket_directories = '{}'", server.dir.display()).expect("settings");
        for setting in ["listen_addresses = ''", "max_connections = 200"].iter().chain(settings) {
            writeln!(file, "{setting}").expect("settings");
        }
        let version = std::fs::read_to_string(data.join("PG_VERSION")).expect("a version");
        if version.trim().parse::<u32>().is_ok_and(|version| version >= 14) {
            // Otherwise it syncs a thousand files one by one after a crash, which takes seconds.
            writeln!(file, "recovery_init_sync_method = syncfs").expect("settings");
        }
        server.resume();
        server
    }

    /// Returns a server for existing data, and starts the shell that stops it when this process ends.
    fn with_keeper(dir: PathBuf, programs: PathBuf) -> Postgres {
        let keeper = unprivileged(Path::new("/bin/sh"), &dir)
            .args([
                "-c",
                "read -r _; \"$1\" stop --silent --mode=immediate --pgdata=\"$2/data\"; rm -rf \"$2\"",
                "keeper",
            ])
            .args([programs.join("pg_ctl"), dir.clone()])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal must not reach it.
            .process_group(0)
            .spawn()
            .expect("a shell");
        Postgres { dir, programs, keeper }
    }

    /// Starts an asynchronous standby of this server, and waits until it has caught up.
    #[must_use]
    pub fn standby(&self) -> Postgres {
        let dir = server_dir();
        let data = dir.join("data");
        let mut backup = unprivileged(&self.programs.join("pg_basebackup"), &dir);
        backup.args(["--username=postgres", "--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--host"]);
        check(backup.arg(&self.dir).arg("--pgdata").arg(&data));
        let standby = Postgres::with_keeper(dir, self.programs.clone());
        let mut file = std::fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).expect("settings");
        writeln!(file, "unix_socket_directories = '{}'", standby.dir.display()).expect("settings");
        standby.resume();
        let since = std::time::Instant::now();
        let has_all = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()";
        while self.psql(has_all).trim() != "1" {
            assert!(since.elapsed() < std::time::Duration::from_mins(1), "the standby does not catch up");
        }
        standby
    }

    /// Promotes a standby to the primary server.
    pub fn promote(&self) {
        check(&mut self.pg_ctl("promote"));
    }

    /// Runs statements, and returns the rows of the last one.
    pub fn psql(&self, statements: &str) -> String {
        let mut psql = unprivileged(&self.programs.join("psql"), &self.dir);
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--username=postgres", "--host"]);
        psql.arg(&self.dir).args(["--dbname=postgres", "--set=ON_ERROR_STOP=1", "--command", statements]);
        output(&mut psql)
    }

    /// Copies a schema to another server, like restoring a backup.
    pub fn copy_schema(&self, schema: &str, to: &Postgres) {
        let mut dump = unprivileged(&self.programs.join("pg_dump"), &self.dir);
        dump.args(["--username=postgres", "--dbname=postgres", "--schema", schema, "--host"]).arg(&self.dir);
        let file = to.dir.join("dump.sql");
        let written = std::fs::File::create(&file).and_then(|mut file| file.write_all(output(&mut dump).as_bytes()));
        written.expect("a file");
        let _ = to.psql(&format!("\\i {}", file.display()));
    }

    /// Returns the URL of a schema of this server.
    pub fn url_of(&self, schema: &str) -> String {
        format!("postgres://postgres@{}/postgres?schema={schema}", percent_encoded(&self.dir))
    }

    /// Returns the server that the tests of this process share.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start(&[]))
    }

    /// Returns the URL of an empty schema of this server.
    pub fn url(&self) -> String {
        self.url_of(&fresh_name())
    }

    /// Returns the directory of the server's socket and data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Crashes and restarts the server.
    pub fn crash(&self) {
        check(self.pg_ctl("restart").arg("--mode=immediate").arg("--log").arg(self.dir.join("log")));
    }

    /// Crashes the server. [`Postgres::resume`] starts it again.
    pub fn stop(&self) {
        check(self.pg_ctl("stop").arg("--mode=immediate"));
    }

    /// Starts the server again after [`Postgres::stop`].
    pub fn resume(&self) {
        check(self.pg_ctl("start").arg("--log").arg(self.dir.join("log")));
    }

    /// Restarts the server in an orderly way: it ends its sessions first.
    pub fn restart(&self) {
        check(self.pg_ctl("restart").arg("--mode=fast").arg("--log").arg(self.dir.join("log")));
    }

    /// Suspends all processes of the server: connections stay open, and nothing answers. Dropping the returned value
    /// resumes them.
    pub fn freeze(&self) -> Frozen {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).expect("a running server");
        let postmaster: i32 = file.lines().next().and_then(|line| line.trim().parse().ok()).expect("a process");
        let mut frozen = Frozen(Vec::new());
        // The postmaster first, so that it starts no other process.
        frozen.stop(postmaster);
        for process in std::fs::read_dir("/proc").expect("processes").flatten() {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
            if let Some(process) = process.file_name().to_str().and_then(|name| name.parse().ok())
                && parent == Some(postmaster)
            {
                frozen.stop(process);
            }
        }
        frozen
    }

    fn pg_ctl(&self, what: &str) -> Command {
        let mut command = unprivileged(&self.programs.join("pg_ctl"), &self.dir);
        command.args([what, "--silent", "--wait", "--timeout=60", "--pgdata"]).arg(self.dir.join("data"));
        command
    }
}

/// Suspended processes of a server.
pub struct Frozen(Vec<Pid>);

impl Frozen {
    fn stop(&mut self, process: i32) {
        let process = Pid::from_raw(process).expect("a process");
        // A process that has ended does not answer either.
        if kill_process(process, Signal::STOP).is_ok() {
            self.0.push(process);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.0 {
            let _ = kill_process(*process, Signal::CONT);
        }
    }
}

/// A connection pooler in front of a server, in transaction mode.
pub struct Pooler {
    dir: PathBuf,
    /// A shell that stops the pooler when its standard input is closed.
    keeper: Child,
}

impl Pooler {
    /// Starts a pooler with this many connections.
    pub fn start(server: &Postgres, connections: u32) -> Pooler {
        let program = crate::pgbouncer();
        let dir = server.dir.join("pool");
        check(unprivileged(Path::new("/bin/mkdir"), &server.dir).arg(&dir));
        let settings = format!(
            "[databases]\npostgres = host={} dbname=postgres user=postgres\n[pgbouncer]\nlisten_addr =\n\
            unix_socket_dir = {}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\n\
            max_client_conn = 500\nquery_wait_timeout = 60\n",
            server.dir.display(),
            dir.display()
        );
        let file = dir.join("pgbouncer.ini");
        let written = std::fs::File::create(&file).and_then(|mut file| file.write_all(settings.as_bytes()));
        written.expect("settings");
        let keeper = unprivileged(Path::new("/bin/sh"), &dir)
            .args(["-c", "\"$1\" --quiet \"$2\" & read -r _; kill $!; wait", "keeper"])
            .args([&program, &file])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let socket = dir.join(".s.PGSQL.6432");
        let since = std::time::Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(since.elapsed() < std::time::Duration::from_mins(1), "pgbouncer does not start");
            crate::pause();
        }
        Pooler { dir, keeper }
    }

    /// Returns the URL of an empty schema.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}:6432/postgres?schema={}", percent_encoded(&self.dir), fresh_name())
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Returns the URL of an empty schema, on the server named by `WAYPOST_TEST_POSTGRES` or on the shared one.
pub fn postgres_url() -> String {
    match std::env::var("WAYPOST_TEST_POSTGRES") {
        Ok(url) => format!("{url}{}schema={}", if url.contains('?') { "&" } else { "?" }, fresh_name()),
        Err(_) => Postgres::shared().url(),
    }
}

/// Returns a unique schema name.
fn fresh_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let since = std::fs::metadata("/proc/self").and_then(|own| own.modified()).expect("a process");
    let since = since.duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis();
    format!("test_{}_{since}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Creates a directory for a server.
fn server_dir() -> PathBuf {
    let dir = tempfile::Builder::new().prefix("waypost-pg-").tempdir().map(TempDir::keep).expect("a directory");
    if is_root() {
        std::os::unix::fs::chown(&dir, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID))
            .expect("the unprivileged user owns the directory");
    }
    dir
}

/// Returns the program directory of the newest PostgreSQL.
fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let found = debian.into_iter().rev().chain(std::env::split_paths(&path)).find(|dir| dir.join("initdb").is_file());
    found.expect("PostgreSQL is not installed; cargo xtask test installs it, or set WAYPOST_TEST_POSTGRES to a URL")
}

/// Returns a command without root privileges, because the programs of PostgreSQL refuse to run as root.
fn unprivileged(program: &Path, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).stdout(Stdio::null());
    if is_root() {
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    }
    command
}

#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
fn check(command: &mut Command) {
    let output = command.stderr(Stdio::piped()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Percent-encodes the slashes of a socket directory, for the host of a URL.
fn percent_encoded(dir: &Path) -> String {
    dir.to_str().expect("a temporary directory with a plain name").replace('/', "%2F")
}
