//! Loads a server with small writes on many connections, and prints the time of each.
//!
//! `load PORT TOKEN checkpoint|heartbeat CONNECTIONS READERS SECONDS` claims a task on each connection first, for an agent of
//! this run. The readers meanwhile ask for the next task, on connections of their own. A line is a name, the nanoseconds of all, and those of each.
//! All connections share one thread, so that the load takes as little as possible of the processors that the server needs.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::error::Error;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::LocalSet;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// The load of one run.
struct Load {
    port: u16,
    token: String,
    is_heartbeat: bool,
    barrier: Barrier,
    duration: Duration,
}

fn main() -> Result {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, token, kind, connections, readers, seconds] = args.as_slice() else {
        return Err("load PORT TOKEN checkpoint|heartbeat CONNECTIONS READERS SECONDS".into());
    };
    let (connections, readers): (usize, usize) = (connections.parse()?, readers.parse()?);
    let load = Rc::new(Load {
        port: port.parse()?,
        token: token.clone(),
        is_heartbeat: kind == "heartbeat",
        barrier: Barrier::new(connections + readers),
        duration: Duration::from_secs(seconds.parse()?),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let writers: Vec<_> = (0..connections).map(|number| spawn(&load, number, true)).collect();
        let readers: Vec<_> = (0..readers).map(|number| spawn(&load, number, false)).collect();
        for (name, tasks) in [("writes", writers), ("reads", readers)] {
            let (mut times, mut all) = (Vec::new(), Duration::ZERO);
            for task in tasks {
                let (each, whole) = task.await?.map_err(|error: String| error)?;
                times.extend(each.iter().map(|time| time.as_nanos().to_string()));
                all = all.max(whole);
            }
            println!("{name}\t{}\t{}", all.as_nanos(), times.join(" "));
        }
        Ok(())
    })
}

type Times = (Vec<Duration>, Duration);

fn spawn(load: &Rc<Load>, number: usize, is_writer: bool) -> tokio::task::JoinHandle<Result<Times, String>> {
    let load = Rc::clone(load);
    tokio::task::spawn_local(async move { client(&load, number, is_writer).await.map_err(|error| error.to_string()) })
}

/// Sends one request after the other. Returns their times, and the time of all.
async fn client(load: &Load, number: usize, is_writer: bool) -> Result<Times> {
    let stream = TcpStream::connect(("127.0.0.1", load.port)).await?;
    stream.set_nodelay(true)?;
    let kind = if is_writer { "writer" } else { "reader" };
    let mut connection = Connection { stream, answer: Vec::new() };
    let mut request = match (is_writer, load.is_heartbeat) {
        (false, _) => load.request("GET", "/api/v1/tasks/next?limit=1", kind, number, ""),
        (true, is_heartbeat) => {
            let checkpoint = claim(load, &mut connection, number).await?;
            let heartbeat = load.request("POST", "/api/v1/heartbeat", kind, number, "{}");
            if is_heartbeat { heartbeat } else { checkpoint }
        }
    };
    // The first request on a connection registers the agent.
    connection.exchange(&request).await?;
    load.barrier.wait().await;
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < load.duration {
        let start = Instant::now();
        connection.exchange(&request).await?;
        times.push(start.elapsed());
        if is_writer && !load.is_heartbeat && times.len().is_multiple_of(MAX_CHECKPOINTS) {
            request = claim(load, &mut connection, number).await?;
        }
    }
    Ok((times, begin.elapsed()))
}

/// A task takes at most 10,000 checkpoints.
const MAX_CHECKPOINTS: usize = 9_000;

/// Claims a task. Returns the request that adds a checkpoint to it.
async fn claim(load: &Load, connection: &mut Connection, number: usize) -> Result<Vec<u8>> {
    let claim = load.request("POST", "/api/v1/tasks/claim", "writer", number, "{\"budget\":500}");
    let claimed: Value = serde_json::from_slice(connection.exchange(&claim).await?)?;
    let claimed = claimed.get("data").unwrap_or(&claimed);
    let id = claimed["task"]["id"].as_str().ok_or_else(|| format!("no task in {claimed}"))?;
    let body = json!({ "epoch": claimed["lease"]["epoch"], "kind": "progress", "summary": "A step is done" });
    Ok(load.request("POST", &format!("/api/v1/tasks/{id}/checkpoint"), "writer", number, &body.to_string()))
}

impl Load {
    fn request(&self, method: &str, path: &str, kind: &str, number: usize, body: &str) -> Vec<u8> {
        let Load { port, token, .. } = self;
        // Agents of another run would hold the tasks of that run, too.
        let run = std::process::id();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Waypost-Agent: {kind}{run}-{number}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        head.into_bytes()
    }
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    /// Sends a request. Returns the body of a successful answer.
    async fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        const END: &[u8] = b"\r\n\r\n";
        self.stream.write_all(request).await?;
        self.answer.clear();
        let head = loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if let Some(end) = self.answer.windows(END.len()).position(|window| window == END) {
                break end + END.len();
            }
        };
        let text = std::str::from_utf8(&self.answer[..head])?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let is_ok = text.starts_with("HTTP/1.1 200");
        let end = head + length.ok_or("the answer has no length")?;
        while self.answer.len() < end {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
        }
        let body = &self.answer[head..end];
        if is_ok { Ok(body) } else { Err(String::from_utf8_lossy(body).into()) }
    }
}
