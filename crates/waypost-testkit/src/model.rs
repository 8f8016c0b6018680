//! A server that plays a language model, so that tests run real coding agents without a network.
//!
//! It speaks the protocols of Anthropic Messages, OpenAI Responses, OpenAI chat completions and Gemini, each streamed or
//! whole. A script decides every turn of the assistant: a text, or the call of a tool. The server records every request, so
//! that a test can assert which tools the agent offered and what the model saw of their results.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

/// How long a connection may be silent.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// A turn of the assistant.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// A text, which ends the turn of the agent.
    Say(String),
    /// The call of a tool, named as the agent offers it.
    Call {
        /// The name of the tool.
        tool: String,
        /// The namespace of the tool, for Codex.
        namespace: Option<String>,
        /// Its arguments.
        arguments: Value,
    },
}

impl Turn {
    /// A text.
    pub fn say(text: &str) -> Turn {
        Turn::Say(text.to_owned())
    }
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Messages,
    Responses,
    Completions,
    Gemini,
}

/// A request to the model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The path, without the query.
    pub path: String,
    /// The body as it was sent.
    pub body: Value,
    /// The number of turns that the assistant has had in this conversation.
    pub turn: usize,
    /// The names of the tools that the agent offers, each with its namespace.
    pub tools: Vec<(Option<String>, String)>,
    /// The results of tools, in order, as the model sees them.
    pub results: Vec<String>,
}

impl ModelRequest {
    /// Calls the offered tool whose name is this one, or ends with it after an underscore. Agents add the name of the MCP
    /// server in several ways.
    pub fn call(&self, tool: &str, arguments: Value) -> Turn {
        let is_named = |name: &str| {
            name.strip_suffix(tool).is_some_and(|start| start.is_empty() || start.ends_with(['_', '.', '-', '/']))
        };
        match self.tools.iter().find(|(_, name)| is_named(name)) {
            Some((namespace, name)) => Turn::Call { tool: name.clone(), namespace: namespace.clone(), arguments },
            None => Turn::Say(format!("no tool {tool} is offered: {:?}", self.tools)),
        }
    }
}

type Script = dyn Fn(&ModelRequest) -> Turn + Send + Sync;

struct Shared {
    script: Box<Script>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Paths that this server does not have.
    unknown: Mutex<Vec<String>>,
    is_stopped: AtomicBool,
}

/// A running server.
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Model {
    /// Starts a server on loopback. The script gets every request that offers tools; others, such as those for the title of
    /// a conversation, are answered with a constant text.
    pub fn start(script: impl Fn(&ModelRequest) -> Turn + Send + Sync + 'static) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            requests: Mutex::default(),
            unknown: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                // A client that closes its end early is not a failure of the test.
                std::thread::spawn(move || drop(shared.serve(&stream)));
            }
        });
        Model { address, shared }
    }

    /// Returns its address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests of conversations with tools so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the methods and paths that were asked for and do not exist.
    pub fn unknown_paths(&self) -> Vec<String> {
        self.shared.unknown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    /// Answers one request and closes the connection.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let Some((method, target, body)) = read_request(&mut BufReader::new(stream))? else { return Ok(()) };
        let path = target.split('?').next().unwrap_or_default();
        let Some((kind, text)) = self.answer(&method, path, body) else {
            self.unknown.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{method} {path}"));
            let error = json!({ "type": "error", "error": { "type": "not_found_error", "message": "not found" } });
            return respond(stream, "404 Not Found", JSON, &error.to_string());
        };
        respond(stream, "200 OK", kind, &text)
    }

    /// Returns the media type and the body of an answer. None for an unknown path.
    fn answer(&self, method: &str, path: &str, body: Value) -> Option<(&'static str, String)> {
        let whole = |value: Value| Some((JSON, value.to_string()));
        if method == "GET" && path.ends_with("/models") {
            let model = json!({ "id": "scripted", "object": "model", "created": 0, "owned_by": "test" });
            return whole(json!({ "object": "list", "data": [model] }));
        }
        if method != "POST" {
            return None;
        }
        if path.ends_with("/messages/count_tokens") {
            return whole(json!({ "input_tokens": 100 }));
        }
        if path.ends_with(":countTokens") {
            return whole(json!({ "totalTokens": 100 }));
        }
        let protocol = match path {
            path if path.ends_with("/messages") => Protocol::Messages,
            path if path.ends_with("/responses") => Protocol::Responses,
            path if path.ends_with("/chat/completions") => Protocol::Completions,
            path if path.ends_with("enerateContent") => Protocol::Gemini,
            _ => return None,
        };
        let is_streamed = body["stream"] == true || path.ends_with(":streamGenerateContent");
        let request = protocol.read(path, body);
        let turn = if request.tools.is_empty() {
            Turn::say("ok")
        } else {
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            (self.script)(&request)
        };
        let number = request.turn;
        match (protocol, is_streamed) {
            (Protocol::Messages, true) => Some((SSE, messages::stream(&turn, number))),
            (Protocol::Messages, false) => whole(messages::whole(&turn, number)),
            (Protocol::Responses, true) => Some((SSE, responses::stream(&turn, number))),
            (Protocol::Responses, false) => whole(responses::whole(&turn, number)),
            (Protocol::Completions, true) => Some((SSE, completions::stream(&turn, number))),
            (Protocol::Completions, false) => whole(completions::whole(&turn, number)),
            (Protocol::Gemini, true) => Some((SSE, event(None, &gemini::whole(&turn)))),
            (Protocol::Gemini, false) => whole(gemini::whole(&turn)),
        }
    }
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

/// Reads a request: its method, its target and its body as JSON. None if the client closed the connection.
fn read_request(stream: &mut BufReader<&TcpStream>) -> std::io::Result<Option<(String, String, Value)>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (mut length, mut is_chunked) = (0, false);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        is_chunked |= header.starts_with("transfer-encoding:") && header.ends_with("chunked");
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
            stream.by_ref().take(size).read_to_end(&mut body)?;
            // Every chunk, also the empty last one, ends with an empty line.
            stream.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else {
        stream.by_ref().take(length).read_to_end(&mut body)?;
    }
    Ok(Some((method, target, serde_json::from_slice(&body).unwrap_or_default())))
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Formats a server-sent event.
fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n")
}

/// Formats events whose name is their type.
fn events(list: impl IntoIterator<Item = Value>) -> String {
    list.into_iter().map(|data| event(data["type"].as_str(), &data)).collect()
}

/// Returns the text in a content, which is a text or a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().map(|part| part["text"].as_str().map_or_else(|| part.to_string(), str::to_owned)).collect()
        }
        other => other.to_string(),
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

impl Protocol {
    /// Reads a request.
    fn read(self, path: &str, body: Value) -> ModelRequest {
        let name = |tool: &Value| Some((None, tool["name"].as_str()?.to_owned()));
        let (turn, tools, results): (usize, Vec<_>, Vec<_>) = match self {
            Protocol::Messages => {
                let blocks = items(&body["messages"]).flat_map(|message| items(&message["content"]));
                let results = blocks.filter(|block| block["type"] == "tool_result");
                (
                    items(&body["messages"]).filter(|message| message["role"] == "assistant").count(),
                    items(&body["tools"]).filter_map(name).collect(),
                    results.map(|block| text_of(&block["content"])).collect(),
                )
            }
            Protocol::Responses => {
                let is_turn = |item: &&Value| {
                    let kind = item["type"].as_str().unwrap_or_default();
                    ["function_call", "custom_tool_call", "local_shell_call"].contains(&kind)
                        || item["role"] == "assistant"
                };
                let is_result =
                    |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
                (
                    items(&body["input"]).filter(is_turn).count(),
                    items(&body["tools"]).flat_map(responses::names).collect(),
                    items(&body["input"]).filter(is_result).map(|item| text_of(&item["output"])).collect(),
                )
            }
            Protocol::Completions => {
                let results = items(&body["messages"]).filter(|message| message["role"] == "tool");
                (
                    items(&body["messages"]).filter(|message| message["role"] == "assistant").count(),
                    items(&body["tools"]).filter_map(|tool| name(&tool["function"])).collect(),
                    results.map(|message| text_of(&message["content"])).collect(),
                )
            }
            Protocol::Gemini => {
                let parts = items(&body["contents"]).flat_map(|content| items(&content["parts"]));
                let results =
                    parts.map(|part| &part["functionResponse"]["response"]).filter(|result| !result.is_null());
                (
                    items(&body["contents"]).filter(|content| content["role"] == "model").count(),
                    items(&body["tools"])
                        .flat_map(|tool| items(&tool["functionDeclarations"]))
                        .filter_map(name)
                        .collect(),
                    results.map(Value::to_string).collect(),
                )
            }
        };
        ModelRequest { path: path.to_owned(), turn, tools, results, body }
    }
}

/// Anthropic Messages.
mod messages {
    use serde_json::{Value, json};

    use super::{Turn, events};

    /// Returns the block of a turn, and the reason why the turn ends.
    fn block(turn: &Turn, number: usize) -> (Value, &'static str) {
        match turn {
            Turn::Say(text) => (json!({ "type": "text", "text": text }), "end_turn"),
            Turn::Call { tool, arguments, .. } => {
                let id = format!("toolu_{number:04}");
                (json!({ "type": "tool_use", "id": id, "name": tool, "input": arguments }), "tool_use")
            }
        }
    }

    pub(super) fn whole(turn: &Turn, number: usize) -> Value {
        let (block, reason) = block(turn, number);
        json!({
            "id": format!("msg_{number:04}"), "type": "message", "role": "assistant", "model": "scripted",
            "content": [block], "stop_reason": reason, "stop_sequence": null,
            "usage": { "input_tokens": 10, "output_tokens": 10 },
        })
    }

    pub(super) fn stream(turn: &Turn, number: usize) -> String {
        let (mut start, reason) = block(turn, number);
        let mut message = whole(turn, number);
        (message["content"], message["stop_reason"]) = (json!([]), Value::Null);
        let delta = match turn {
            Turn::Say(text) => {
                start["text"] = json!("");
                json!({ "type": "text_delta", "text": text })
            }
            Turn::Call { arguments, .. } => {
                start["input"] = json!({});
                json!({ "type": "input_json_delta", "partial_json": arguments.to_string() })
            }
        };
        events([
            json!({ "type": "message_start", "message": message }),
            json!({ "type": "content_block_start", "index": 0, "content_block": start }),
            json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
            json!({ "type": "content_block_stop", "index": 0 }),
            json!({
                "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
                "usage": { "output_tokens": 10 },
            }),
            json!({ "type": "message_stop" }),
        ])
    }
}

/// OpenAI Responses.
mod responses {
    use serde_json::{Value, json};

    use super::{Turn, events, items};

    /// Returns the names in an offered tool, which may be a namespace of tools.
    pub(super) fn names(tool: &Value) -> Vec<(Option<String>, String)> {
        let name = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default().to_owned();
        if tool["type"] != "namespace" {
            return vec![(None, name)];
        }
        let inner = items(&tool["tools"]).filter_map(|inner| inner["name"].as_str());
        inner.map(|inner| (Some(name.clone()), inner.to_owned())).collect()
    }

    fn item(turn: &Turn, number: usize) -> Value {
        match turn {
            Turn::Say(text) => json!({
                "type": "message", "id": format!("msg_{number:04}"), "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            }),
            Turn::Call { tool, namespace, arguments } => {
                let mut call = json!({
                    "type": "function_call", "id": format!("fc_{number:04}"), "call_id": format!("call_{number:04}"),
                    "name": tool, "arguments": arguments.to_string(), "status": "completed",
                });
                if let Some(namespace) = namespace {
                    call["namespace"] = json!(namespace);
                }
                call
            }
        }
    }

    pub(super) fn whole(turn: &Turn, number: usize) -> Value {
        json!({
            "id": format!("resp_{number:04}"), "object": "response", "created_at": 0, "status": "completed",
            "model": "scripted", "output": [item(turn, number)],
            "usage": {
                "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 10,
                "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 20,
            },
        })
    }

    pub(super) fn stream(turn: &Turn, number: usize) -> String {
        let response = whole(turn, number);
        let mut created = response.clone();
        (created["status"], created["output"], created["usage"]) = (json!("in_progress"), json!([]), Value::Null);
        let item = item(turn, number);
        events([
            json!({ "type": "response.created", "sequence_number": 0, "response": created }),
            json!({ "type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item }),
            json!({ "type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item }),
            json!({ "type": "response.completed", "sequence_number": 3, "response": response }),
        ])
    }
}

/// OpenAI chat completions.
mod completions {
    use serde_json::{Value, json};

    use super::{Turn, event};

    fn choice(turn: &Turn, number: usize) -> (Value, &'static str) {
        match turn {
            Turn::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
            Turn::Call { tool, arguments, .. } => {
                let function = json!({ "name": tool, "arguments": arguments.to_string() });
                let id = format!("call_{number:04}");
                let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
                (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
            }
        }
    }

    fn answer(object: &str, number: usize, choice: &Value) -> Value {
        json!({
            "id": format!("chatcmpl-{number:04}"), "object": object, "created": 0, "model": "scripted",
            "choices": [choice],
            "usage": { "prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20 },
        })
    }

    pub(super) fn whole(turn: &Turn, number: usize) -> Value {
        let (message, reason) = choice(turn, number);
        answer("chat.completion", number, &json!({ "index": 0, "message": message, "finish_reason": reason }))
    }

    pub(super) fn stream(turn: &Turn, number: usize) -> String {
        let (delta, reason) = choice(turn, number);
        let chunk = |choice: Value| event(None, &answer("chat.completion.chunk", number, &choice));
        let first = chunk(json!({ "index": 0, "delta": delta, "finish_reason": null }));
        let last = chunk(json!({ "index": 0, "delta": {}, "finish_reason": reason }));
        format!("{first}{last}data: [DONE]\n\n")
    }
}

/// Gemini.
mod gemini {
    use serde_json::{Value, json};

    use super::Turn;

    pub(super) fn whole(turn: &Turn) -> Value {
        let part = match turn {
            Turn::Say(text) => json!({ "text": text }),
            Turn::Call { tool, arguments, .. } => json!({ "functionCall": { "name": tool, "args": arguments } }),
        };
        json!({
            "candidates": [{ "index": 0, "content": { "role": "model", "parts": [part] }, "finishReason": "STOP" }],
            "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20 },
            "modelVersion": "scripted", "responseId": "scripted",
        })
    }
}
