//! `way serve`: the same store over a network, for callers with a token.

mod access;
mod clients;
mod conforming;
mod describing;
mod following;
mod identity;
mod jobs;
mod life;
mod limits;
mod loading;
mod pages;
mod replacing;
mod repositories;
mod rights;
mod roles;
mod settings;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use waypost_core::op::Description;
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

/// A server, its sandbox, and the repository that it was started in.
pub(crate) struct Server {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    pub(crate) child: Child,
    /// The line that it printed at its start.
    pub(crate) said: Value,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start(args: &[&str]) -> Server {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        Server::start_in(sandbox, repo, args)
    }

    pub(crate) fn start_in(sandbox: Sandbox, repo: PathBuf, args: &[&str]) -> Server {
        let (child, said, token) = Server::launch(&sandbox, &repo, args);
        Server { sandbox, repo, child, said, token }
    }

    /// Kills the server and starts another one in its place.
    pub(crate) fn restart(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        (self.child, self.said, self.token) = Server::launch(&self.sandbox, &self.repo, &[]);
    }

    pub(crate) fn launch(sandbox: &Sandbox, repo: &Path, args: &[&str]) -> (Child, Value, String) {
        Server::launch_with(sandbox, sandbox.way_command(repo), args)
    }

    pub(crate) fn launch_with(sandbox: &Sandbox, mut command: Command, args: &[&str]) -> (Child, Value, String) {
        let log = std::fs::File::create(sandbox.path("log")).unwrap();
        command.args(["serve", "--port", "0", "--json"]).args(args).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || std::fs::read_to_string(sandbox.path("log")).unwrap();
        let mut said: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line} {}", log()));
        let said = said["data"].take();
        let token = std::fs::read_to_string(said["token"].as_str().unwrap()).unwrap().trim().to_owned();
        (child, said, token)
    }

    pub(crate) fn url(&self) -> &str {
        self.said["url"].as_str().unwrap()
    }

    pub(crate) fn host(&self) -> &str {
        self.url().strip_prefix("http://").unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        PathBuf::from(self.said["socket"].as_str().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.sandbox.path("log")).unwrap()
    }

    /// Runs a command beside the server, on the store itself.
    pub(crate) fn way(&self, args: &[&str]) -> Run {
        self.sandbox.way(&self.repo, args)
    }

    /// Runs a command on the server.
    pub(crate) fn remote(&self, args: &[&str]) -> Run {
        self.sandbox.way_with(&self.repo, &[("WAYPOST_DB", OsStr::new(self.url()))], args)
    }

    /// Runs a command on the server with a token.
    pub(crate) fn remote_as(&self, token: &str, args: &[&str]) -> Run {
        let variables = [("WAYPOST_DB", OsStr::new(self.url())), ("WAYPOST_TOKEN", OsStr::new(token))];
        self.sandbox.way_with(&self.repo, &variables, args)
    }

    /// Makes a token.
    pub(crate) fn token(&self, args: &[&str]) -> String {
        let data = self.way(&[&["token", "create", "--json"], args].concat()).data();
        data["token"].as_str().unwrap().to_owned()
    }

    /// Begins a request as the owner.
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        let ask =
            Ask { server: self, method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: None };
        ask.with("Host", self.host()).with("Authorization", &format!("Bearer {}", self.token))
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask("GET", path).send()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path).json(body).send()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request under construction.
pub(crate) struct Ask<'a> {
    pub(crate) server: &'a Server,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Ask<'_> {
    /// Sets a header, replacing an earlier one; with an empty value it is not sent.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = Some(body.to_string().into_bytes());
        self.with("Content-Type", "application/json")
    }

    /// Sets a body of this many bytes. One byte more than the limit is the only excess for which the answer is sure to
    /// arrive: the server closes the connection without reading more, which may destroy an answer on its way.
    pub(crate) fn json_of_size(self, bytes: usize) -> Self {
        let around = json!({ "name": "" }).to_string().len();
        self.json(&json!({ "name": "x".repeat(bytes - around) }))
    }

    pub(crate) fn by(self, token: &str) -> Self {
        self.with("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if let Some(body) = &self.body {
            write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        head + "\r\n"
    }

    /// Sends it, and reads the whole answer.
    pub(crate) fn send(self) -> Reply {
        let ask = self.with("Connection", "close");
        let mut stream = ask.open();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Reply::read(&answer)
    }

    /// Sends the request and returns the open connection.
    pub(crate) fn open(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.host()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(self.head().as_bytes()).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(self.body.as_deref().unwrap_or_default());
        stream
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn read(bytes: &[u8]) -> Reply {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Reply { status, headers, body: body.to_owned() }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let json: Value = serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        assert_eq!(json["schema"], "waypost/1");
        json
    }

    /// Expects success, and returns its data.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        let mut json = self.json();
        assert!(json["warnings"].is_array());
        json["data"].take()
    }

    /// Expects a failure, and returns its code.
    #[track_caller]
    pub(crate) fn fails(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let error = &self.json()["error"];
        assert!(error["hints"].is_array() && error["message"].is_string(), "{self:?}");
        error["code"].as_str().unwrap().to_owned()
    }
}

/// The documented maximum size of a request's body.
pub(crate) const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Maximum memory that a server keeps for each client that left, in KiB. A leaked session would take more.
pub(crate) const MAX_LEAK_PER_CLIENT_KIB: u64 = 10;

/// Returns the resident memory of a process.
pub(crate) fn resident_kib(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Returns the peak memory of a process.
fn peak_kib(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Returns the schema of an operation's arguments.
fn schema(about: &Description) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    (about.schema)(&mut settings.into_generator()).to_value()
}

/// A plan of two tasks, one after the other.
fn plan() -> Value {
    json!({ "summary": "ship it", "tasks": [
        { "name": "build", "description": "compile", "acceptance": ["it links"] },
        { "name": "test", "depends_on": ["build"], "priority": 1 },
    ] })
}

/// Replaces ids by numbers in order of appearance, so that two runs can be compared.
fn numbered(text: &str) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut normal = String::new();
    let mut rest = text;
    let prefixes = ["wf_", "tk_", "cp_", "ag_", "msg_", "wt_", "rp_"];
    while let Some((at, prefix)) = prefixes.iter().filter_map(|prefix| Some((rest.find(prefix)?, *prefix))).min() {
        let end = at + prefix.len() + 12;
        normal.push_str(&rest[..at]);
        let id = rest.get(at..end).filter(|id| id[prefix.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let Some(id) = id else {
            normal.push_str(prefix);
            rest = &rest[at + prefix.len()..];
            continue;
        };
        let number = seen.iter().position(|known| known == id).unwrap_or_else(|| {
            seen.push(id.to_owned());
            seen.len() - 1
        });
        write!(normal, "{prefix}{number:012}").unwrap();
        rest = &rest[end..];
    }
    normal + rest
}

/// Returns the whole content of a store in comparable form.
fn state(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    let questions: &[&[&str]] = &[
        &["workflow", "list", "--all", "--json"],
        &["task", "list", "--workflow", "release", "--json"],
        &["task", "show", "release/build", "--json"],
        &["task", "show", "release/test", "--json"],
        &["agent", "list", "--json"],
        &["events", "--limit", "500", "--json"],
    ];
    let ask = |args: &&[&str]| {
        let said = sandbox.way(repo, *args).ok().stdout;
        numbered(&said.replace(&*sandbox.path("").to_string_lossy(), "/sandbox/"))
    };
    questions.iter().map(ask).collect()
}
