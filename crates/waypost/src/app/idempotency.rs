//! Idempotency keys for operations outside the store: changes to issues, and running jobs.
//!
//! The store saves the answer only after the operation ran elsewhere. If the process ends between the two, a retry
//! finds the result: the id of an issue or a comment derives from the key, and a job is recorded under it. All other
//! changes to issues set a final state, so a repetition has no effect or is refused: a released issue cannot be
//! released again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use waypost_core::context::OpContext;
use waypost_core::model::SavedAnswer;
use waypost_core::op::{
    AnyOperation, Effect, IntoAnyOperation, Operation, StoreOperation, current_name, decode_answer,
};
use waypost_core::seeded::seeded_bug;
use waypost_core::{Error, Kind, Result, tree};

use crate::app::operation::{Reply, Who};
use crate::app::session::Session;
use crate::serving::tokens::hash_token;

/// Runs an operation at most once per key: a repetition returns the saved answer.
pub(crate) fn once(
    mut store: impl FnMut(Step) -> Result<Option<Answered>>,
    who: &Who,
    key: &str,
    operation: &str,
    arguments: &Value,
    run: impl FnOnce() -> Result<Reply>,
) -> Result<Reply> {
    // Validated before the operation runs: the store would reject the key only afterwards.
    if key.is_empty() || key.len() > 200 || key.chars().any(char::is_control) {
        return Err(Error::invalid(format!("invalid idempotency key {key:?}"))
            .hint("a key has 1 to 200 bytes and no control characters"));
    }
    let request = hash_token(&format!("{}\0{arguments}", who.agent.as_ref().unwrap_or(&who.actor)));
    let is_same = |known: &Answered| current_name(&known.operation) == operation && known.request == request;
    let known = |known: Answered| {
        if is_same(&known) {
            return Ok(Reply { answer: known.answer, warnings: known.warnings });
        }
        Err(Error::conflict(format!("the key {key:?} was used for another request"))
            .hint("use a new key for each request"))
    };
    if let Some(before) = store(Step::Recall(key.to_owned()))?.filter(|_| !seeded_bug("forget_outside_key")) {
        return known(before);
    }
    let reply = run()?;
    let Reply { answer, warnings } = reply.clone();
    let answered = Answered { operation: operation.to_owned(), request: request.clone(), answer, warnings };
    match store(Step::Keep(key.to_owned(), answered)) {
        Ok(_) => Ok(reply),
        // Another process ran the same request and saved its answer first.
        Err(error) if error.kind() == Kind::Conflict => match store(Step::Recall(key.to_owned()))? {
            Some(first) => known(first),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// An access to the saved answers.
pub(crate) enum Step {
    /// Returns the saved answer of a key.
    Recall(String),
    /// Saves an answer.
    Keep(String, Answered),
}

impl Step {
    /// Runs the step in a session.
    pub(crate) fn run(self, session: &mut Session) -> Result<Option<Answered>> {
        match self {
            Step::Recall(key) => session.read(Recall { key }).map(|recalled| recalled.answered),
            Step::Keep(key, answered) => {
                session.write_once(Some(&key), Keep { answered }).map(|kept| Some(kept.answered))
            }
        }
    }
}

/// Returns the answer of a store operation that ran with this key.
pub(crate) fn stored_answer<O: Operation>(session: &mut Session, key: &str) -> Result<Option<O::Answer>> {
    let known = session
        .read(Recall { key: key.to_owned() })?
        .answered
        .filter(|known| current_name(&known.operation) == O::NAME);
    let read = |known: Answered| decode_answer::<O>(&known.answer);
    known
        .map(read)
        .transpose()
        .map_err(|error| Error::damaged(format!("cannot decode the saved answer of key {key:?}")).because(error))
}

/// A saved answer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Answered {
    operation: String,
    request: String,
    answer: Value,
    #[serde(default)]
    warnings: Vec<String>,
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
    const SUMMARY: &'static str = "Return the saved answer of a key";
    const EFFECT: Effect = Effect::Read;
    type Answer = Recalled;
}

impl IntoAnyOperation for Recall {
    fn into_any(self) -> Box<dyn AnyOperation> {
        Box::new(self)
    }
}

impl StoreOperation for Recall {
    fn run(self, cx: &mut OpContext<'_>) -> Result<Recalled> {
        let Some(SavedAnswer { operation, request, answer, .. }) = cx.tx.answer_get(&self.key)? else {
            return Ok(Recalled { answered: None });
        };
        if operation != Keep::NAME {
            return Ok(Recalled { answered: Some(Answered { operation, request, answer, warnings: Vec::new() }) });
        }
        let kept: Keep = tree::decode(&answer).map_err(|error| {
            Error::damaged(format!("cannot decode the saved answer of key {:?}", self.key)).because(error)
        })?;
        Ok(Recalled { answered: Some(kept.answered) })
    }
}

/// Saves an answer. The operation returns the answer that it was given, so the engine stores it under the key like the
/// answer of any other operation.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Keep {
    answered: Answered,
}

impl Operation for Keep {
    const NAME: &'static str = "keep";
    const SUMMARY: &'static str = "Save the answer of a key";
    const EFFECT: Effect = Effect::Write;
    type Answer = Keep;
}

impl IntoAnyOperation for Keep {
    fn into_any(self) -> Box<dyn AnyOperation> {
        Box::new(self)
    }
}

impl StoreOperation for Keep {
    /// Records no event: the operation itself did, or changed a ledger.
    fn run(self, _: &mut OpContext<'_>) -> Result<Keep> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_outside_of_the_store_runs_its_operation_once() {
        let (saved, runs) = (RefCell::new(HashMap::new()), Cell::new(0));
        let store = |step: Step| match step {
            Step::Recall(key) => Ok(saved.borrow().get(&key).cloned()),
            Step::Keep(key, answered) => Ok(saved.borrow_mut().insert(key, answered)),
        };
        let close = |key: &str, issue: &str| {
            once(store, &Who::person("kim"), key, "close_issue", &json!({ "issue": issue }), || {
                runs.set(runs.get() + 1);
                Ok(Reply { answer: json!(runs.get()), warnings: Vec::new() })
            })
        };
        assert_eq!(close("k", "a").unwrap().answer, 1);
        assert_eq!(close("k", "a").unwrap().answer, 1);
        assert_eq!(close("k", "b").unwrap_err().kind(), Kind::Conflict);
        assert_eq!(close("l", "a").unwrap().answer, 2);
        assert_eq!(runs.get(), 2);
    }
}
