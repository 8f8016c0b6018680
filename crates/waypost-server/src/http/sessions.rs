//! The sessions of browsers.
//!
//! A browser holds nothing that another program could use. It exchanges the code of a login link, or a token that the user
//! typed in, for the secret of a session, and sends that as a bearer token. There are no cookies: browsers send these to every
//! port of a machine. A secret is valid for this process alone. It ends with the token of the one who logged in: a program that
//! listens on the same port later gets nothing of value from a page that is still open.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use waypost_core::digest::hex;
use waypost_core::{Error, Result};

use super::lock;
use super::text::hash;

/// How long a browser stays logged in.
const SESSION_TTL: Duration = Duration::from_hours(12);
/// How long a login code is valid.
const CODE_TTL: Duration = Duration::from_mins(5);
/// Maximum sessions of one token. A further one ends the oldest.
const MAX_SESSIONS: usize = 64;
/// Begins each secret, so that it is not looked up among the tokens.
pub(super) const PREFIX: &str = "ways_";
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// All sessions, and the login codes.
pub(super) struct Sessions {
    /// The hashes of login codes, with their expiration.
    codes: Mutex<HashMap<[u8; 32], Instant>>,
    /// By the hashes of their secrets.
    open: Mutex<HashMap<[u8; 32], Session>>,
}

struct Session {
    ends_at: Instant,
    holder: Holder,
}

/// Whose rights a session has.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// Those of the owner, who opened a login link. It has the hash of the owner's token at that time.
    Owner(String),
    /// Those of a token.
    Token(String),
}

impl Sessions {
    /// Begins without sessions. The code, if there is one, is valid from now on.
    pub(super) fn new(code: Option<&str>, now: Instant) -> Sessions {
        let codes = code.iter().map(|code| (hash(code), now + CODE_TTL)).collect();
        Sessions { codes: Mutex::new(codes), open: Mutex::default() }
    }

    /// Returns whether a login code is valid. It is not valid a second time.
    pub(super) fn use_code(&self, code: &str, now: Instant) -> bool {
        lock(&self.codes).remove(&hash(code)).is_some_and(|end| now < end)
    }

    /// Begins a session, and returns its secret.
    pub(super) fn begin(&self, holder: Holder, now: Instant) -> Result<String> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| Error::internal("cannot read random bytes"))?;
        let secret = format!("{PREFIX}{}", hex(&bytes));
        let mut open = lock(&self.open);
        open.retain(|_, session| now < session.ends_at);
        let own = open.iter().filter(|(_, session)| session.holder == holder);
        let own: Vec<([u8; 32], Instant)> = own.map(|(id, session)| (*id, session.ends_at)).collect();
        if own.len() >= MAX_SESSIONS
            && let Some((oldest, _)) = own.iter().min_by_key(|(_, ends_at)| *ends_at)
        {
            open.remove(oldest);
        }
        open.insert(hash(&secret), Session { ends_at: now + SESSION_TTL, holder });
        Ok(secret)
    }

    /// Returns whose rights a session has. None if it has ended.
    pub(super) fn holder(&self, session: &[u8; 32], now: Instant) -> Option<Holder> {
        lock(&self.open).get(session).filter(|session| now < session.ends_at).map(|session| session.holder.clone())
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &[u8; 32]) {
        lock(&self.open).remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_valid_once_and_for_five_minutes() {
        let now = Instant::now();
        let sessions = Sessions::new(Some("code"), now);
        assert!(!sessions.use_code("cod", now) && !sessions.use_code("", now));
        assert!(sessions.use_code("code", now));
        assert!(!sessions.use_code("code", now), "a second time");
        assert!(!Sessions::new(Some("code"), now).use_code("code", now + CODE_TTL), "too late");
        assert!(!Sessions::new(None, now).use_code("", now));
    }

    #[test]
    fn a_secret_is_worth_nothing_after_its_end_and_in_another_process() {
        let now = Instant::now();
        let (sessions, other) = (Sessions::new(None, now), Sessions::new(None, now));
        let secret = sessions.begin(Holder::Owner("hash".to_owned()), now).unwrap();
        assert!(secret.starts_with(PREFIX) && secret.len() == PREFIX.len() + 64, "{secret}");
        let id = hash(&secret);
        assert!(sessions.holder(&id, now + SESSION_TTL.saturating_sub(Duration::from_secs(1))).is_some());
        assert!(sessions.holder(&id, now + SESSION_TTL).is_none(), "expired");
        assert!(other.holder(&id, now).is_none(), "another server");
        assert!(sessions.holder(&hash(&secret.to_uppercase()), now).is_none());
        sessions.end(&id);
        assert!(sessions.holder(&id, now).is_none(), "logged out");
    }

    #[test]
    fn logins_of_one_token_end_neither_each_other_nor_those_of_others_below_the_limit() {
        let now = Instant::now();
        let sessions = Sessions::new(None, now);
        let owner = hash(&sessions.begin(Holder::Owner("hash".to_owned()), now).unwrap());
        let token = || Holder::Token("wayt_a".to_owned());
        let first = hash(&sessions.begin(token(), now).unwrap());
        for later in 1..MAX_SESSIONS as u64 {
            let _ = sessions.begin(token(), now + Duration::from_secs(later)).unwrap();
        }
        assert!(sessions.holder(&first, now).is_some());
        let last = hash(&sessions.begin(token(), now + Duration::from_secs(1000)).unwrap());
        assert!(sessions.holder(&first, now).is_none(), "the oldest one ends");
        assert!(sessions.holder(&last, now).is_some() && sessions.holder(&owner, now).is_some());
    }
}
