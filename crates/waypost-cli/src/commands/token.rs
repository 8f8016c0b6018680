//! `way token`

use std::process::ExitCode;

use serde_json::{Value, json};
use waypost::serving::Role;
use waypost_core::Result;

use crate::CommandContext;
use crate::spans::parse_duration;
use crate::ui::{BOLD, DIM, cell, header, styled};
use waypost::serving::{OWNER_TOKEN_ID, Token, TokenRequest, Tokens};

/// Create and revoke tokens for clients of way serve
///
/// A token identifies its client: every request with the token of an agent counts as that agent's. The token is shown
/// once; only its hash is stored, beside the store.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  way token create --agent builder                 for one agent
  way token create --agent builder --expires 12h
  way token create --role read-only                for a dashboard, or Prometheus
  way token revoke tok_1a2b3c4d
  way token rotate own                             your own, stored in ~/.waypost/token")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a token, and print it
    Create(CreateArgs),
    /// List tokens
    List,
    /// Revoke a token at once
    Revoke {
        /// Id of the token
        id: String,
    },
    /// Replace the secret of a token; the old secret stops working at once
    Rotate {
        /// Id of the token; own for your own token
        id: String,
    },
}

#[derive(clap::Args)]
struct CreateArgs {
    /// Role of the client: admin, agent, job or read-only [default: agent]
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Id of the only task that a job token may access
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Time until the token expires, e.g. 12h [default: never]
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    expires: Option<u64>,
}

pub(crate) fn run(cx: &mut CommandContext, args: &Args) -> Result<ExitCode> {
    let place = cx.place()?;
    let tokens = Tokens::of(&place)?;
    match &args.command {
        Command::Create(args) => {
            let role = args.role.as_deref().map_or(Ok(Role::Agent), str::parse)?;
            let agent = matches!(role, Role::Agent | Role::Job).then(|| place.agent()).flatten();
            let request = TokenRequest { role, agent, task: args.task.clone(), ttl_ms: args.expires };
            let (token, secret) = tokens.create(request)?;
            show(cx, &token, &secret)?;
        }
        Command::List => {
            let all = tokens.list()?;
            cx.ui.answer(&all.iter().map(public).collect::<Vec<_>>(), |text| {
                let row = |token: &Token| {
                    vec![
                        styled(BOLD, &token.id),
                        cell(token.role.as_str()),
                        cell(token.agent.as_deref().unwrap_or("-")),
                        cell(token.task.as_deref().unwrap_or("-")),
                        styled(DIM, token.expires_at.map_or("never".to_owned(), |end| end.to_string())),
                    ]
                };
                text.list(header(["ID", "ROLE", "AGENT", "TASK", "EXPIRES"]), all.iter().map(row));
            })?;
            if all.is_empty() {
                cx.ui.note("no tokens yet; to create one: way token create --role ROLE");
            }
        }
        Command::Revoke { id } => {
            let token = tokens.revoke(id)?;
            cx.ui.answer(&public(&token), |text| text.line(format!("Revoked {id}")))?;
        }
        Command::Rotate { id } if id == OWNER_TOKEN_ID => {
            let path = tokens.rotate_owner_token()?;
            cx.ui.answer(&json!({ "id": OWNER_TOKEN_ID, "path": path }), |text| {
                text.line(format!("Wrote a new token to {}", path.display()));
            })?;
        }
        Command::Rotate { id } => {
            let (token, secret) = tokens.rotate(id)?;
            show(cx, &token, &secret)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(cx: &mut CommandContext, token: &Token, secret: &str) -> Result<()> {
    let mut data = public(token);
    data["token"] = json!(secret);
    cx.ui.answer(&data, |text| text.line(secret))?;
    cx.ui.note(&format!("{} is shown only once; clients pass it in WAYPOST_TOKEN", token.id));
    Ok(())
}

/// Returns the public fields of a token, without its hash.
fn public(token: &Token) -> Value {
    let Token { id, role, agent, task, created_at, expires_at, .. } = token;
    json!({
        "id": id, "role": role, "agent": agent, "task": task, "created_at": created_at, "expires_at": expires_at,
    })
}
