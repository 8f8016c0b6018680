//! Operations of the application: they use ledgers, files or processes beside the store.
//!
//! Operations of the store are in [`waypost_core::op`]. [`crate::app`] runs both.

use serde_json::Value;
use waypost_core::Result;
use waypost_core::op::{AnyAnswer, Description, Operation, decode, encode};

use crate::app::lazy_session::LazySession;
use crate::app::session::{Session, Warnings};
use crate::machine::place::Place;

/// The identity of a caller. The authentication layer sets it, never the request itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The author of writes.
    pub actor: String,
    /// The agent that claims work and sends messages.
    pub agent: Option<String>,
}

impl Who {
    /// A person: the author of changes.
    pub fn person(name: impl Into<String>) -> Who {
        Who { actor: name.into(), agent: None }
    }

    /// An agent, which is registered on first use.
    pub fn agent(name: impl Into<String>) -> Who {
        let name = name.into();
        Who { actor: name.clone(), agent: Some(name) }
    }
}

/// The answer of an operation, and the warnings about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<A = Value> {
    /// The answer.
    pub answer: A,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

impl<A> Reply<A> {
    /// A reply without warnings.
    pub fn of(answer: A) -> Reply<A> {
        Reply { answer, warnings: Vec::new() }
    }
}

impl Reply<AnyAnswer> {
    /// Returns the reply with the answer as a JSON value.
    pub fn into_tree(self) -> Result<Reply> {
        Ok(Reply { answer: self.answer.into_tree()?, warnings: self.warnings })
    }
}

impl From<Reply> for Reply<AnyAnswer> {
    fn from(reply: Reply) -> Reply<AnyAnswer> {
        Reply { answer: reply.answer.into(), warnings: reply.warnings }
    }
}

/// An operation of the application.
pub trait AppOperation: Operation {
    /// Whether it ends soon. A server runs short operations on sessions that are open already, and few run at a time.
    const IS_SHORT: bool = false;

    /// Runs the operation.
    fn run(self, cx: &mut AppContext<'_>) -> Result<Self::Answer>;
}

/// Everything an operation of the application may use.
pub struct AppContext<'a> {
    /// The place of the caller.
    pub place: &'a Place,
    /// The idempotency key.
    pub key: Option<&'a str>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
    session: OpenSession<'a>,
}

/// A session, opened on first use unless the caller has one.
enum OpenSession<'a> {
    Own(Option<Box<Session>>),
    Callers(&'a mut Session),
}

impl<'a> AppContext<'a> {
    /// Creates a context that opens a session if the operation needs one.
    pub fn new(place: &'a Place, key: Option<&'a str>) -> AppContext<'a> {
        AppContext { place, key, warnings: Vec::new(), session: OpenSession::Own(None) }
    }

    /// Creates a context with an open session.
    pub fn with_session(place: &'a Place, session: &'a mut Session) -> AppContext<'a> {
        AppContext { place, key: None, warnings: Vec::new(), session: OpenSession::Callers(session) }
    }

    /// Removes and returns the warnings of the operation and of its session.
    fn take_warnings(&mut self) -> Vec<String> {
        let mut warnings = std::mem::take(&mut self.warnings);
        match &self.session {
            OpenSession::Callers(session) => warnings.extend(session.warnings().take()),
            OpenSession::Own(Some(session)) => warnings.extend(session.warnings().take()),
            OpenSession::Own(None) => {}
        }
        warnings
    }

    /// Gives the session that this context opened, or one that is not open yet, to an operation that keeps it.
    pub(crate) fn take_session(&mut self) -> LazySession {
        let opened = match &mut self.session {
            OpenSession::Own(session) => session.take(),
            OpenSession::Callers(_) => None,
        };
        match opened {
            Some(session) => LazySession::from(*session),
            None => LazySession::new(self.place.clone(), Warnings::default()),
        }
    }

    /// Returns the session of the caller.
    pub fn session(&mut self) -> Result<&mut Session> {
        match &mut self.session {
            OpenSession::Callers(session) => Ok(session),
            OpenSession::Own(Some(session)) => Ok(session),
            OpenSession::Own(slot @ None) => Ok(slot.insert(Box::new(Session::open(self.place.clone())?))),
        }
    }
}

impl Session {
    /// Runs an operation of the application in this session.
    pub fn call_app<O: AppOperation>(&mut self, operation: O) -> Result<O::Answer> {
        let (place, warnings) = (self.place.clone(), self.warnings().clone());
        let mut cx = AppContext::with_session(&place, self);
        let answer = operation.run(&mut cx)?;
        warnings.add(cx.warnings);
        Ok(answer)
    }
}

/// One row of the table of application operations.
pub struct AppEntry {
    /// Its description.
    pub about: Description,
    /// As [`AppOperation::IS_SHORT`].
    pub is_short: bool,
    /// Runs it with its arguments and its answer as JSON.
    pub run: fn(&mut AppContext<'_>, &Value) -> Result<Value>,
}

impl AppEntry {
    /// Returns the row of an operation.
    pub const fn of<O: AppOperation>() -> AppEntry {
        AppEntry { about: Description::of::<O>(), is_short: O::IS_SHORT, run: run_json::<O> }
    }

    /// Runs the operation and collects its warnings.
    pub fn reply(&self, mut cx: AppContext<'_>, arguments: &Value) -> Result<Reply> {
        let answer = (self.run)(&mut cx, arguments)?;
        Ok(Reply { answer, warnings: cx.take_warnings() })
    }
}

fn run_json<O: AppOperation>(cx: &mut AppContext<'_>, arguments: &Value) -> Result<Value> {
    encode::<O>(&decode::<O>(arguments)?.run(cx)?)
}
