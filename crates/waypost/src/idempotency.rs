//! Requests that are done once although they are not done in the store: changes to issues, and running jobs.
//!
//! The store remembers the answer, but only after it was done elsewhere. If the process ends between the two, whoever asks
//! again finds what was done: an issue and a comment have an id that follows from the key, and a job is written down
//! under it. All other changes to issues say what is to be, so made twice they come to the same, or are refused: an issue
//! that was given back cannot be given back again.

use crate::host::Who;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::context::OpContext;
use waypost_core::model::SavedAnswer;
use waypost_core::op::{Effect, Operation};
use waypost_core::{Error, Kind, Result};

use crate::session::Session;
use crate::tokens::hash;

/// Does something once: the same key gives the same answer.
pub(crate) fn once(
    mut ask: impl FnMut(Step) -> Result<Option<Answered>>,
    who: &Who,
    key: &str,
    operation: &str,
    arguments: &Value,
    run: impl FnOnce() -> Result<Value>,
) -> Result<Value> {
    // Looked at before anything is done: the store would refuse it when it is too late.
    if key.is_empty() || key.len() > 200 || key.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{key:?} cannot be a key")).hint("1 to 200 bytes on one line"));
    }
    let request = hash(&format!("{}\0{arguments}", who.agent.as_ref().unwrap_or(&who.actor)));
    let is_same = |known: &Answered| known.operation == operation && known.request == request;
    let known = |known: Answered| {
        if is_same(&known) {
            return Ok(known.answer);
        }
        Err(Error::conflict(format!("the key {key:?} was used for another request"))
            .hint("a key belongs to one request of one caller: take a new one"))
    };
    if let Some(before) = ask(Step::Recall(key.to_owned()))? {
        return known(before);
    }
    let answer = run()?;
    let answered = Answered { operation: operation.to_owned(), request: request.clone(), answer: answer.clone() };
    match ask(Step::Keep(key.to_owned(), answered)) {
        Ok(_) => Ok(answer),
        // Another process did the same meanwhile, and was first.
        Err(error) if error.kind() == Kind::Conflict => match ask(Step::Recall(key.to_owned()))? {
            Some(theirs) => known(theirs),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// What is asked of the store for that.
pub(crate) enum Step {
    /// Which answer was given to a key.
    Recall(String),
    /// To remember one.
    Keep(String, Answered),
}

impl Step {
    /// Asks a session.
    pub(crate) fn ask(self, session: &mut Session) -> Result<Option<Answered>> {
        match self {
            Step::Recall(key) => session.read(Recall { key }).map(|recalled| recalled.answered),
            Step::Keep(key, answered) => {
                session.write_once(Some(&key), Keep { answered }).map(|kept| Some(kept.answered))
            }
        }
    }
}

/// Returns the answer that the store gave to an operation of its own with this key.
pub(crate) fn of_store<O: Operation>(session: &mut Session, key: &str) -> Result<Option<O::Answer>> {
    let known = session.read(Recall { key: key.to_owned() })?.answered.filter(|known| known.operation == O::NAME);
    let read = |known: Answered| serde_json::from_value(known.answer);
    known
        .map(read)
        .transpose()
        .map_err(|error| Error::damaged(format!("the answer to {key:?} cannot be read")).because(error))
}

/// An answer that was given.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Answered {
    operation: String,
    request: String,
    answer: Value,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Recall {
    key: String,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Recalled {
    answered: Option<Answered>,
}

impl Operation for Recall {
    const NAME: &'static str = "recall";
    const SUMMARY: &'static str = "Return the answer to a key";
    const EFFECT: Effect = Effect::Read;
    type Answer = Recalled;

    fn run(self, cx: &mut OpContext<'_>) -> Result<Recalled> {
        let Some(SavedAnswer { operation, request, answer, .. }) = cx.tx.answer_get(&self.key)? else {
            return Ok(Recalled { answered: None });
        };
        if operation != Keep::NAME {
            return Ok(Recalled { answered: Some(Answered { operation, request, answer }) });
        }
        let kept: Keep = serde_json::from_value(answer)
            .map_err(|error| Error::damaged(format!("the answer to {:?} cannot be read", self.key)).because(error))?;
        Ok(Recalled { answered: Some(kept.answered) })
    }
}

/// Remembers an answer. It is one itself, which is kept as those of the store are.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Keep {
    answered: Answered,
}

impl Operation for Keep {
    const NAME: &'static str = "keep";
    const SUMMARY: &'static str = "Remember the answer to a key";
    const EFFECT: Effect = Effect::Write;
    type Answer = Keep;

    /// Has no event of its own: what it is about has one where it was done, or stands in a ledger.
    fn run(self, _: &mut OpContext<'_>) -> Result<Keep> {
        Ok(self)
    }
}
