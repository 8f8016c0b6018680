//! The sessions of browsers.
//!
//! A session belongs to this process and to the name and port under which the browser logged in: the cookie is worth nothing
//! for another server, although browsers send it to every port of the machine. It ends with the owner's token.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use waypost_core::digest::hex;
use waypost_core::{Error, Result};

use super::lock;
use super::text::hash;

/// How long a browser stays logged in.
const SESSION_TTL: Duration = Duration::from_hours(12);
/// Random bytes of a cookie.
const SECRET_BYTES: usize = 32;

/// All sessions.
pub(super) struct Sessions {
    /// The name of the cookie, which is random: a server that listens on the same port later uses another one.
    cookie: String,
    open: Mutex<HashMap<[u8; 32], Session>>,
}

struct Session {
    ends_at: Instant,
    /// The `Host` of the login.
    host: String,
    /// The hash of the owner's token at the login.
    owner: String,
}

impl Sessions {
    pub(super) fn new() -> Result<Sessions> {
        let mut id = [0; 4];
        fill(&mut id)?;
        Ok(Sessions { cookie: format!("waypost-{}", hex(&id)), open: Mutex::default() })
    }

    /// Begins a session. Returns the value of the `Set-Cookie` header.
    pub(super) fn begin(&self, host: &str, owner: Option<String>) -> Result<String> {
        let owner = owner.ok_or_else(|| Error::unavailable("the owner's token cannot be read"))?;
        let mut bytes = [0; SECRET_BYTES];
        fill(&mut bytes)?;
        let secret = hex(&bytes);
        let now = Instant::now();
        let mut open = lock(&self.open);
        open.retain(|_, session| session.ends_at > now);
        open.insert(hash(&secret), Session { ends_at: now + SESSION_TTL, host: host.to_ascii_lowercase(), owner });
        Ok(self.set_cookie(&secret, SESSION_TTL))
    }

    /// Ends a session. Returns the value of the `Set-Cookie` header that removes the cookie.
    pub(super) fn end(&self, session: &[u8; 32]) -> String {
        lock(&self.open).remove(session);
        self.set_cookie("", Duration::ZERO)
    }

    fn set_cookie(&self, value: &str, age: Duration) -> String {
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}", self.cookie, age.as_secs())
    }

    /// Returns the hash of the cookie of a request.
    pub(super) fn cookie(&self, headers: &HeaderMap) -> Option<[u8; 32]> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, value)| hash(value))
    }

    /// Returns whether a session is valid, with this token of the owner.
    pub(super) fn is_valid(&self, session: &[u8; 32], owner: Option<&str>, now: Instant) -> bool {
        let open = lock(&self.open);
        open.get(session).is_some_and(|session| session.ends_at > now && Some(session.owner.as_str()) == owner)
    }

    /// Returns whether a session began under this `Host`.
    pub(super) fn is_of_host(&self, session: &[u8; 32], host: &str) -> bool {
        lock(&self.open).get(session).is_some_and(|session| session.host.eq_ignore_ascii_case(host))
    }
}

fn fill(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|_| Error::internal("cannot read random bytes"))
}
