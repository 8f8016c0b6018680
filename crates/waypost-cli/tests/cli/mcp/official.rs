//! The same session with the client of the SDK that the server uses, over both transports.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use rmcp::model::{CallToolRequestParams, ReadResourceRequestParams, ResourceContents};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, UnixSocketHttpClient};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::Value;
use tokio::net::unix::pipe::{Receiver, Sender};
use waypost_core::escape::EXPLANATION;

use super::served::Served;
use super::{life, state, team, typed};

/// Runs the session, and closes the client.
async fn live(client: RunningService<RoleClient, ()>) {
    let info = client.peer_info().expect("the session is initialized");
    assert_eq!(info.server_info.as_ref().map(|server| server.name.as_str()), Some("waypost"));
    assert_eq!(client.list_all_tools().await.unwrap().len(), 11);
    for (_, tool, arguments) in life() {
        let Value::Object(fields) = arguments else { panic!("{arguments} are no arguments") };
        let result = client.call_tool(CallToolRequestParams::new(tool).with_arguments(fields)).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{tool}: {result:?}");
        assert!(result.structured_content.is_some(), "{tool}: {result:?}");
    }
    let context = client.read_resource(ReadResourceRequestParams::new("waypost://context/w%2Fa")).await.unwrap();
    let Some(ResourceContents::TextResourceContents { text, .. }) = context.contents.first() else {
        panic!("{context:?}")
    };
    assert!(text.starts_with(&format!("{EXPLANATION}\n\n## Task\na (")), "{text}");
    client.cancel().await.unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn c12_the_official_client_in_rust_ends_in_the_same_state() {
    let expected = typed();
    let team = team();
    let mut child = team.command("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (OwnedFd::from(child.stdin.take().unwrap()), OwnedFd::from(child.stdout.take().unwrap()));
    runtime().block_on(async {
        let streams = (Receiver::from_owned_fd(stdout).unwrap(), Sender::from_owned_fd(stdin).unwrap());
        live(().serve(streams).await.unwrap()).await;
    });
    assert!(child.wait().unwrap().success());
    assert_eq!(state(&team), expected);
}

#[test]
fn c12_the_official_client_in_rust_ends_in_the_same_state_over_http() {
    let expected = typed();
    let team = team();
    let (_served, said) = Served::start(&team);
    runtime().block_on(async {
        let socket = UnixSocketHttpClient::new(said["socket"].as_str().unwrap(), "http://localhost/mcp");
        let token = std::fs::read_to_string(said["token"].as_str().unwrap()).unwrap();
        let config = StreamableHttpClientTransportConfig::with_uri("http://localhost/mcp").auth_header(token.trim());
        let transport = StreamableHttpClientTransport::with_client(socket, config);
        live(().serve(transport).await.unwrap()).await;
    });
    assert_eq!(state(&team), expected);
}
