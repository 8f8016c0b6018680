//! Identification of the caller: the name under which a request runs.

use axum::http::HeaderMap;
use waypost_core::{Error, Result};

use super::Shared;
use super::text::text_header;
use waypost::app::Who;
use waypost::serving::{Grant, Role};

/// Returns the caller of a request. The token of an agent acts for that agent only.
pub(super) fn identify(shared: &Shared, grant: &Grant, headers: &HeaderMap) -> Result<Who> {
    let agent = text_header(headers, "waypost-agent")?;
    let actor = text_header(headers, "waypost-actor")?;
    if let Some(own) = &grant.agent {
        if agent.as_ref().is_some_and(|agent| agent != own) {
            return Err(Error::refused(format!("this token belongs to {own} and cannot act for another agent")));
        }
        return Ok(Who { actor: own.clone(), agent: Some(own.clone()) });
    }
    if grant.role != Role::Admin {
        return Ok(Who { actor: grant.role.as_str().to_owned(), agent: None });
    }
    let actor = actor.or_else(|| agent.clone()).unwrap_or_else(|| shared.actor.clone());
    Ok(Who { actor, agent })
}
