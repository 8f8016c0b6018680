//! MCP: tools and resources for agents, over standard input and output or over HTTP.
//!
//! The only place that knows the SDK. `tools.rs` says which tools there are and what each asks for, `answers.rs`
//! how much of an answer is worth an agent's attention.

mod answers;
mod stdin;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ContentBlock, ErrorData, Implementation, InitializeResult, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ServerCapabilities, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer, ServerInitializeError, ServiceExt};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use waypost_core::nearest::nearest;
use waypost_core::{Error, Result};
use waypost_fs::check_threads;

use answers::Answer;
use stdin::Stdin;
use waypost::host::{Call, Host, Who};

/// How long answers may still be written after nobody asks any more.
const FAREWELL: Duration = Duration::from_millis(700);

const INSTRUCTIONS: &str = "Waypost is the shared memory of agents at work: the plan, who works on what, how far it got. \
Begin with prime, take work with next, note progress with checkpoint, end with finish. agent is a name of your own, the \
same in every call; epoch comes from next.";

const STATUS: &str = "waypost://status";
const CONTEXT: &str = "waypost://context/";

/// Serves one client over standard input and output, until it closes its end.
///
/// `who` counts where the client does not say who it is. It is believed what it says, since whoever started it is.
pub fn serve_stdio(host: Arc<dyn Host>, who: Who) -> Result<()> {
    let cannot = |error| Error::unavailable("cannot begin to serve").because(error);
    // The runtime panics if it cannot start its first thread; it reads, writes and asks the host in threads. The first one
    // stays, so that later it only has to wait for a thread.
    check_threads(3).map_err(cannot)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(Duration::from_hours(24 * 365))
        .build()
        .map_err(cannot)?;
    let served = runtime.block_on(async {
        let (stdin, closed) = Stdin::new();
        let asker = Asker { who, is_fixed: false, may: Arc::new(|_, _| Ok(())) };
        let tools = Tools { host, asker: Some(asker) };
        let running = match tools.serve((stdin, tokio::io::stdout())).await {
            Ok(running) => running,
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(Error::invalid("the client did not introduce itself").because(error)),
        };
        let ended = async {
            closed.await;
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            _ = running.waiting() => {}
            () = ended => {}
        }
        Ok(())
    });
    // A call that still waits for the store is given up: nobody would hear its answer.
    runtime.shutdown_background();
    served
}

/// From where requests over HTTP may come.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// What the server may be called: host names, with or without a port.
    pub hosts: Vec<String>,
    /// Whose pages may ask: origins, with `*` for any port.
    pub origins: Vec<String>,
}

impl Default for Allowed {
    /// This machine alone.
    fn default() -> Allowed {
        let owned = |names: [&str; 3]| names.map(str::to_owned).to_vec();
        Allowed {
            hosts: owned(["localhost", "127.0.0.1", "::1"]),
            origins: owned(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]),
        }
    }
}

/// Who sent a request over HTTP, and what it may ask. Whoever checked the token puts it among the request's extensions.
#[derive(Clone)]
pub struct Asker {
    /// In whose name it asks.
    pub who: Who,
    /// Whether it cannot act as another agent than that, or as one at all.
    pub is_fixed: bool,
    /// Refuses operations, with their arguments, that the token is not for.
    pub may: May,
}

/// Refuses an operation with its arguments, or does not.
pub type May = Arc<dyn Fn(&str, &Value) -> Result<()> + Send + Sync>;

/// Returns the service that answers `/mcp`. Every request stands for itself, so clients leave nothing behind.
///
/// Whoever nests it checks the token first, and says by an [`Asker`] who it is. Without one, nothing is answered. Host and
/// origin are checked here once more.
pub fn http_service(
    host: Arc<dyn Host>,
    allowed: Allowed,
) -> StreamableHttpService<impl ServerHandler, NeverSessionManager> {
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(allowed.hosts)
        .with_allowed_origins(allowed.origins)
        .enforce_origin_validation();
    let tools = move || Ok(Tools { host: Arc::clone(&host), asker: None });
    StreamableHttpService::new(tools, Arc::default(), config)
}

/// The tools before a host.
struct Tools {
    host: Arc<dyn Host>,
    /// Who asks, if there is only one. Otherwise each request says it.
    asker: Option<Asker>,
}

impl Tools {
    fn asker(&self, context: &RequestContext<RoleServer>) -> Result<Asker, ErrorData> {
        let request = context.extensions.get::<http::request::Parts>();
        let said = request.and_then(|request| request.extensions.get::<Asker>());
        let asker = self.asker.as_ref().or(said).cloned();
        asker.ok_or_else(|| ErrorData::invalid_request("nobody said in whose name this is", None))
    }

    /// Asks the host, beside the threads that read and write messages.
    async fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Host) -> Result<T> + Send + 'static,
    ) -> Result<Result<T>, ErrorData> {
        let host = Arc::clone(&self.host);
        let asked = tokio::task::spawn_blocking(move || ask(&*host)).await;
        asked.map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

impl Asker {
    /// Returns in whose name a call with this argument is.
    fn named(&self, agent: Option<String>) -> Result<Who> {
        match agent {
            Some(agent) if self.is_fixed && self.who.agent.as_ref() != Some(&agent) => {
                let known = self.who.agent.as_ref().unwrap_or(&self.who.actor);
                Err(Error::refused(format!("you are {known}, and cannot act as {agent}")).hint("leave agent out"))
            }
            Some(agent) if !self.is_fixed => Ok(Who { actor: agent.clone(), agent: Some(agent) }),
            _ => Ok(self.who.clone()),
        }
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_resources().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new("waypost", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::TABLE.iter().map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::named(&request.name) else {
            let near = nearest(&request.name, tools::TABLE.iter().map(|tool| tool.name));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(ErrorData::invalid_params(format!("there is no tool {:?}{hint}", request.name), None));
        };
        let asker = self.asker(&context)?;
        let arguments = request.arguments.unwrap_or_default();
        let answer = self.ask(move |host| call(host, tool, &asker, arguments)).await?;
        Ok(encoded(answer).into())
    }

    /// There are none, and nobody is told that there could be.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let status = Resource::new(STATUS, "status")
            .with_description("How everything stands")
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(vec![status]))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let context = ResourceTemplate::new(format!("{CONTEXT}{{task}}"), "context")
            .with_description("What whoever works on a task has to know")
            .with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![context]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (tool, arguments) = if request.uri == STATUS {
            ("status", json!({}))
        } else if let Some(task) = request.uri.strip_prefix(CONTEXT).and_then(decoded) {
            ("context", json!({ "task": task }))
        } else {
            return Err(ErrorData::resource_not_found(format!("there is no resource {:?}", request.uri), None));
        };
        let (Some(tool), Value::Object(arguments)) = (tools::named(tool), arguments) else {
            return Err(ErrorData::internal_error("a resource has no tool", None));
        };
        let asker = self.asker(&context)?;
        let answer = self.ask(move |host| call(host, tool, &asker, arguments)).await?;
        let answer = answer.map_err(|error| {
            let data = Some(complaint(&error));
            match error.kind() {
                waypost_core::Kind::NotFound => ErrorData::resource_not_found(error.full_message(), data),
                _ => ErrorData::internal_error(error.full_message(), data),
            }
        })?;
        let (text, kind) = if request.uri == STATUS {
            (answer.data.to_string(), "application/json")
        } else {
            (answer.text, "text/plain")
        };
        let contents = ResourceContents::text(text, request.uri).with_mime_type(kind);
        Ok(ReadResourceResult::new(vec![contents]).into())
    }
}

/// Turns a call of a tool into a call of its operation.
fn call(
    host: &dyn Host,
    tool: &tools::Tool,
    asker: &Asker,
    mut arguments: serde_json::Map<String, Value>,
) -> Result<Answer> {
    arguments.retain(|_, value| !value.is_null());
    tool.check(&arguments)?;
    let agent = match arguments.remove("agent") {
        None => None,
        Some(Value::String(agent)) if !agent.trim().is_empty() => Some(agent),
        Some(_) => return Err(Error::invalid("agent is a name").hint("say a name of your own, in every call the same")),
    };
    let who = asker.named(agent)?;
    if !tool.is_read_only && who.agent.is_none() {
        return Err(Error::invalid(format!("{} needs to know who you are", tool.name))
            .hint("say agent: a name of your own, in every call the same"));
    }
    let tools::Asked { operation, arguments, key } = (tool.ask)(arguments)?;
    (asker.may)(operation, &arguments)?;
    let answer = host.call(Call { operation: operation.to_owned(), arguments, who, key })?;
    Ok(answers::shown(operation, answer))
}

fn described(tool: &tools::Tool) -> Tool {
    let annotations = ToolAnnotations::new()
        .read_only(tool.is_read_only)
        .destructive(tool.is_destructive)
        .idempotent(tool.is_idempotent)
        .open_world(false);
    Tool::new(tool.name, tool.description, tool.schema()).with_annotations(annotations)
}

fn encoded(answer: Result<Answer>) -> CallToolResult {
    match answer {
        Ok(Answer { data, text }) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(data);
            result
        }
        Err(error) => {
            let lines = [format!("{}: {}", error.kind().code(), error.full_message())].into_iter();
            let lines = lines.chain(error.hints().iter().map(|hint| format!("hint: {hint}")));
            let mut result = CallToolResult::error(vec![ContentBlock::text(lines.collect::<Vec<_>>().join("\n"))]);
            result.structured_content = Some(complaint(&error));
            result
        }
    }
}

/// What went wrong, as the command line says it to programs.
fn complaint(error: &Error) -> Value {
    json!({ "error": {
        "code": error.kind().code(), "message": error.full_message(), "hints": error.hints(),
    } })
}

/// Returns a part of a URI without its percent signs. None if that is no text.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_uri_is_read_without_its_percent_signs() {
        for (part, text) in
            [("t_1", Some("t_1")), ("a%2Fb%20c", Some("a/b c")), ("a%2", None), ("%ff", None), ("", None)]
        {
            assert_eq!(decoded(part).as_deref(), text, "{part}");
        }
    }

    #[test]
    fn whoever_has_a_token_of_an_agent_cannot_act_as_another() {
        let who = |agent: Option<&str>| Who { actor: "ann".to_owned(), agent: agent.map(str::to_owned) };
        let named = |who: Who, is_fixed, agent: Option<&str>| {
            let asker = Asker { who, is_fixed, may: Arc::new(|_, _| Ok(())) };
            asker.named(agent.map(str::to_owned)).map(|who| who.agent)
        };
        assert_eq!(named(who(Some("a")), true, None).unwrap().as_deref(), Some("a"));
        assert_eq!(named(who(Some("a")), true, Some("a")).unwrap().as_deref(), Some("a"));
        assert_eq!(named(who(Some("a")), true, Some("b")).unwrap_err().kind(), waypost_core::Kind::Refused);
        assert_eq!(named(who(Some("a")), false, Some("b")).unwrap().as_deref(), Some("b"));
        assert_eq!(named(who(None), true, Some("b")).unwrap_err().kind(), waypost_core::Kind::Refused);
        assert_eq!(named(who(None), false, None).unwrap(), None);
    }
}
