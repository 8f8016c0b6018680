//! The cost of a server: many clients at a steady rate, and its memory.
//!
//! Clients are threads of this process, each with a persistent connection.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::options::Options;
use super::results::{Bar, Part, Row};
use super::scratch::{Scratch, remove_files};
use crate::Result;

/// The crowd: number of clients, time between two writes of a client, duration, and maximum 99th percentile.
const CROWD: usize = 150;
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
const SECONDS: u32 = 20;
const P99_BAR: Duration = Duration::from_millis(50);

/// Number of connections when memory is measured, and the maximum memory in MiB.
const CONNECTED: usize = 200;
const IDLE_BAR_MIB: f64 = 30.0;
const CONNECTED_BAR_MIB: f64 = 100.0;

const CROWD_ROW: &str = "claims, checkpoints and finishes";

/// Number of tasks of one workflow.
const TASKS: usize = 500;

pub(super) fn measure(options: &Options, scratch: &Scratch, part: &mut Part) -> Result {
    let seconds = options.rounds.unwrap_or(options.pick(SECONDS, 2)).min(SECONDS);
    let server = Server::start(scratch, "served")?;
    let idle = server.memory()?;
    if options.wants(CROWD_ROW) || options.wants("failed writes") {
        let per_second = 1000 / WRITE_INTERVAL.as_millis();
        let title = format!("{CROWD} clients with {per_second} writes per second each, {seconds} s");
        part.section(&title, || {
            server.fill("crowd", CROWD * (writes_in(seconds) as usize / 3 + 1))?;
            let (row, failed) = crowd(&server, seconds)?;
            let p99 = row.percentile(99);
            let wrong = Row::new("failed writes").compared(f64::from(failed), Some(Bar::AtMost(0.0)), "none");
            Ok(vec![row.within(p99, P99_BAR), wrong])
        });
    }
    let names = ["memory of the idle server", "memory of the server with 200 clients"];
    if names.iter().any(|name| options.wants(name)) {
        part.section("memory, the second after all other measurements", || {
            let used = [(names[0], idle, IDLE_BAR_MIB), (names[1], connected(&server)?, CONNECTED_BAR_MIB)];
            let row = |(name, used, bar): (&str, f64, f64)| {
                Row::with_value(name, used, "MiB").compared(used / bar, Some(Bar::AtMost(1.0)), format!("{bar} MiB"))
            };
            Ok(used.map(row).into())
        });
    }
    Ok(())
}

/// A running `way serve`.
struct Server {
    child: Child,
    port: u16,
    token: String,
}

impl Server {
    fn start(scratch: &Scratch, name: &str) -> Result<Server> {
        let repo = scratch.repository(name)?;
        remove_files(&repo.join(".git/waypost"), "state.db")?;
        let mut command = scratch.way(&repo, ["serve", "--port", "0", "--json"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let line = first_line(&mut child)?;
        let field = |name: &str| -> Result<&str> {
            let from = line.split_once(&format!("\"{name}\":\"")).ok_or_else(|| format!("no {name} in {line}"))?.1;
            Ok(from.split('"').next().unwrap_or_default())
        };
        let port = field("url")?.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("no port")?;
        let token = std::fs::read_to_string(field("token")?).map_err(|error| error.to_string())?.trim().to_owned();
        Ok(Server { child, port, token })
    }

    fn client(&self, agent: &str) -> Result<Client> {
        let token = &self.token;
        let head = format!(
            "Host: 127.0.0.1:{}\r\nAuthorization: Bearer {token}\r\nWaypost-Agent: {agent}\r\nContent-Type: application/json\r\n",
            self.port
        );
        Client::connect(self.port, head)
    }

    /// Returns its resident memory, in MiB.
    fn memory(&self) -> Result<f64> {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0).ok_or_else(|| "/proc does not report the memory".to_owned())
    }

    /// Creates workflows with at least this many claimable tasks.
    fn fill(&self, name: &str, tasks: usize) -> Result {
        let mut client = self.client("filler")?;
        for number in 0..tasks.div_ceil(TASKS) {
            let list: Vec<String> = (0..TASKS.min(tasks)).map(|task| format!("{{\"name\":\"t{task}\"}}")).collect();
            let list = list.join(",");
            let body = format!("{{\"name\":\"{name}-{number}\",\"start\":true,\"plan\":{{\"tasks\":[{list}]}}}}");
            client.post("/api/v1/workflows", &body)?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn first_line(child: &mut Child) -> Result<String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    Ok(line)
}

/// A persistent connection.
struct Client {
    stream: BufReader<TcpStream>,
    head: String,
}

impl Client {
    fn connect(port: u16, head: String) -> Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Client { stream: BufReader::new(stream), head })
    }

    /// Sends a POST request. Returns the body of a successful answer.
    fn post(&mut self, path: &str, body: &str) -> Result<String> {
        let request = format!("POST {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        let broken = |error: std::io::Error| error.to_string();
        self.stream.get_mut().write_all(request.as_bytes()).map_err(broken)?;
        let (mut status, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).map_err(broken)?;
            if line.trim().is_empty() {
                break;
            }
            if status.is_empty() {
                status.clone_from(&line);
            }
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().map_err(|_| format!("no length in {line}"))?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).map_err(broken)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        if status.starts_with("HTTP/1.1 200") { Ok(body) } else { Err(format!("{}: {body}", status.trim())) }
    }
}

/// Returns the task and the epoch of a claim.
fn claimed(answer: &str) -> Result<(String, String)> {
    let after = |text: &str, beginning: &str| text.split_once(beginning).map(|(_, rest)| rest.to_owned());
    let id = after(answer, "\"task\":{\"id\":\"").and_then(|rest| rest.split('"').next().map(str::to_owned));
    let epoch = after(answer, "\"lease\":{").and_then(|rest| after(&rest, "\"epoch\":"));
    let epoch = epoch.and_then(|rest| rest.split([',', '}']).next().map(str::to_owned));
    id.zip(epoch).ok_or_else(|| format!("no claim in {answer}"))
}

fn timed(work: impl FnOnce() -> Result<String>) -> Result<(String, Duration)> {
    let begin = Instant::now();
    let answer = work()?;
    Ok((answer, begin.elapsed()))
}

fn writes_in(seconds: u32) -> u32 {
    seconds * u32::try_from(1000 / WRITE_INTERVAL.as_millis()).unwrap_or(10)
}

/// The schedule of the writes of one client.
struct Pace {
    writes: u32,
    begin: Instant,
    /// Nothing is ever sent: a receive ends with its timeout.
    pause: (Sender<()>, Receiver<()>),
}

impl Pace {
    fn new(number: usize, writes: u32) -> Pace {
        // Spread the clients over one interval.
        let offset = WRITE_INTERVAL * u32::try_from(number).unwrap_or(0) / u32::try_from(CROWD).unwrap_or(1);
        Pace { writes, begin: Instant::now() + offset, pause: channel() }
    }

    /// Yields each write when it is due.
    fn beats(&self) -> impl Iterator<Item = u32> {
        (0..self.writes).inspect(move |write| {
            let due = self.begin + WRITE_INTERVAL * *write;
            let _ = self.pause.1.recv_timeout(due.saturating_duration_since(Instant::now()));
        })
    }
}

/// Lets many clients write on schedule. Returns the times, and the number of failed writes.
fn crowd(server: &Server, seconds: u32) -> Result<(Row, u32)> {
    let writes = writes_in(seconds);
    let results = Mutex::new((Vec::new(), 0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..CROWD {
            let results = &results;
            scope.spawn(move || {
                let mine = crowd_client(server, number, &Pace::new(number, writes));
                let (mine, wrong) = mine.unwrap_or_else(|error| {
                    eprintln!("{error}");
                    (Vec::new(), writes)
                });
                if let Ok(mut results) = results.lock() {
                    results.0.extend(mine);
                    results.1 += wrong;
                }
            });
        }
    });
    let (times, failed) = results.into_inner().map_err(|error| error.to_string())?;
    Ok((Row { times, all: Some(begin.elapsed()), ..Row::new(CROWD_ROW) }, failed))
}

fn crowd_client(server: &Server, number: usize, pace: &Pace) -> Result<(Vec<Duration>, u32)> {
    let mut client = server.client(&format!("crowd{number}"))?;
    let (mut times, mut failed, mut held) = (Vec::new(), 0, None);
    for write in pace.beats() {
        let (path, body) = match (&held, write % 3) {
            (None, _) => ("/api/v1/tasks/claim".to_owned(), "{\"budget\":500}".to_owned()),
            (Some((id, epoch)), 2) => {
                (format!("/api/v1/tasks/{id}/finish"), format!("{{\"epoch\":{epoch},\"outcome\":\"done\"}}"))
            }
            (Some((id, epoch)), _) => (
                format!("/api/v1/tasks/{id}/checkpoint"),
                format!("{{\"epoch\":{epoch},\"kind\":\"progress\",\"summary\":\"half\"}}"),
            ),
        };
        let is_last = path.ends_with("finish");
        match timed(|| client.post(&path, &body)) {
            Ok((answer, time)) => {
                times.push(time);
                held = match held {
                    None => Some(claimed(&answer)?),
                    Some(_) if is_last => None,
                    kept => kept,
                };
            }
            Err(error) => {
                eprintln!("{path}: {error}");
                failed += 1;
            }
        }
    }
    Ok((times, failed))
}

/// Returns the memory of the server with many clients.
fn connected(server: &Server) -> Result<f64> {
    let mut clients: Vec<Client> =
        (0..CONNECTED).map(|number| server.client(&format!("m{number}"))).collect::<Result<_>>()?;
    for client in &mut clients {
        client.post("/api/v1/heartbeat", "{}")?;
    }
    server.memory()
}
