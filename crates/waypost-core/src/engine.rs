//! Runs one operation in one transaction.
//!
//! Every surface calls the engine. Before it runs a write, and in the same transaction, it updates the rows of the
//! caller's repository and worktree, expires leases and applies other due transitions. So no record names an unknown
//! worktree, and no rule sees an expired lease.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::clock::{self, Anchor, StoreTime};
use crate::context::{Caller, OpContext};
use crate::digest::{fnv128, hex};
use crate::error::{Error, Result};
use crate::id::Entropy;
use crate::model::{Repository, SavedAnswer, Worktree, kind};
use crate::op::ownership;
use crate::op::repository::register;
use crate::op::{self, AnyAnswer, AnyOperation, Effect, IntoAnyOperation, Operation};
use crate::seeded::seeded_bug;
use crate::store::{Store, Tx};
use crate::time::Timestamp;
use crate::work::expire_due;

/// How long answers are saved for repeated requests.
const ANSWER_TTL_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Fields that a program gets as they are: the command of a job, and its input.
pub const UNREDACTED_FIELDS: &[&str] = &["command", "input"];
/// Number of events after which expired answers are deleted.
const ANSWER_CLEANUP_INTERVAL: u64 = 64;

/// Runs an operation that writes, in one transaction.
///
/// With a key, repeating the request has no further effect and returns the same answer.
pub fn write<O: IntoAnyOperation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    key: Option<&str>,
    operation: O,
) -> Result<O::Answer> {
    write_any(store, caller, entropy, key, &*operation.into_any())?.downcast()
}

/// Like [`write()`], with an operation of any type.
pub fn write_any(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    key: Option<&str>,
    operation: &dyn AnyOperation,
) -> Result<AnyAnswer> {
    let entry = operation.entry();
    debug_assert_eq!(entry.about.effect, Effect::Write, "{} does not write", entry.about.name);
    let own = drawn_key(store, entropy, key);
    let key = key.or(own.as_deref());
    Retry { is_repeatable: key.is_some(), uses_reserve: entry.uses_reserve }.run(store, |store| {
        let mut transaction = WriteTransaction::begin(store)?;
        let answer = transaction.step_any(caller, entropy, key, operation)?;
        transaction.commit()?;
        Ok(answer)
    })
}

/// Returns a copy of an operation without secrets in its arguments.
fn redacted(caller: &Caller, operation: &dyn AnyOperation) -> Result<Box<dyn AnyOperation>> {
    let mut arguments = operation.arguments()?;
    let has_secrets = caller.secrets.redact_json(&mut arguments, UNREDACTED_FIELDS);
    refuse_unstorable(&arguments)?;
    if has_secrets { (operation.entry().decode)(&arguments) } else { Ok(operation.copy()) }
}

/// Draws a key for a request without one. Where an answer can get lost, every request needs a key, so that a retry has
/// no second effect.
pub fn own_key(entropy: &mut dyn Entropy) -> String {
    format!("own-{}", draw(entropy))
}

/// Draws a key for a request without one, if the store's answers can get lost.
fn drawn_key(store: &dyn Store, entropy: &mut dyn Entropy, key: Option<&str>) -> Option<String> {
    (key.is_none() && store.is_remote()).then(|| own_key(entropy))
}

/// Decides whether a failed request is retried.
struct Retry {
    /// Whether the request is idempotent. Otherwise it is not retried if its outcome is unknown.
    is_repeatable: bool,
    /// As [`crate::op::StoreOperation::USES_RESERVE`].
    uses_reserve: bool,
}

impl Retry {
    /// Runs a request and retries it until it succeeds, fails for good, or the store's timeout passes.
    fn run<T>(&self, store: &mut dyn Store, mut attempt: impl FnMut(&mut dyn Store) -> Result<T>) -> Result<T> {
        store.begin_request();
        let answer = loop {
            match attempt(store) {
                Err(error) if self.is_retriable(&error) && self.prepare_retry(store) => {}
                answer => break answer,
            }
        };
        store.end_request();
        answer
    }

    fn is_retriable(&self, error: &Error) -> bool {
        error.is_retriable() && (self.is_repeatable || !error.is_outcome_unknown())
    }

    /// Prepares the store for the next attempt. Returns whether there may be one.
    fn prepare_retry(&self, store: &mut dyn Store) -> bool {
        (self.uses_reserve && store.free_reserve()) || store.may_retry()
    }
}

/// Returns 128 random bits as text.
fn draw(entropy: &mut dyn Entropy) -> String {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    hex(&bytes)
}

/// A write transaction with one or more steps. All steps share one moment, so transitions that are due are applied
/// once: nothing becomes due between two steps.
pub struct WriteTransaction<'a> {
    tx: Box<dyn Tx + 'a>,
    now: Timestamp,
    /// The anchor of the store's time, if it has to be written.
    anchor: Option<Anchor>,
    /// The shift of all deadlines.
    shift_ms: i64,
    has_expired: bool,
    /// The repositories and worktrees whose rows were updated in this transaction. If a later step changes such a row,
    /// the next transaction updates it again.
    registered: Vec<(Arc<Repository>, Arc<Worktree>)>,
}

impl<'a> WriteTransaction<'a> {
    /// Begins a write transaction. Waits for other writers.
    pub fn begin(store: &'a mut dyn Store) -> Result<WriteTransaction<'a>> {
        let mut tx = store.begin_write()?;
        let remembered = tx.clock_get()?;
        let StoreTime { now, anchor, shift_ms } = clock::store_time(&remembered, &tx.clock()?);
        let anchor = (anchor != remembered.anchor).then_some(anchor);
        Ok(WriteTransaction { tx, now, anchor, shift_ms, has_expired: false, registered: Vec::new() })
    }

    /// Returns the number of writes so far: see [`Tx::writes`].
    pub fn writes(&self) -> u64 {
        self.tx.writes()
    }

    /// Sets a savepoint: see [`Tx::mark`].
    pub fn mark(&mut self) -> Result<()> {
        self.tx.mark()
    }

    /// Rolls back to the savepoint, after a step has failed.
    pub fn undo(&mut self) -> Result<()> {
        self.tx.undo()
    }

    /// Commits all steps.
    pub fn commit(self) -> Result<()> {
        self.tx.commit()
    }

    /// Runs an operation. After an error, the caller has to [`undo`](Self::undo) the step before it commits other
    /// steps.
    pub fn step<O: IntoAnyOperation>(
        &mut self,
        caller: &Caller,
        entropy: &mut dyn Entropy,
        key: Option<&str>,
        operation: O,
    ) -> Result<O::Answer> {
        self.step_any(caller, entropy, key, &*operation.into_any())?.downcast()
    }

    /// Like [`step`](Self::step), with an operation of any type.
    pub fn step_any(
        &mut self,
        caller: &Caller,
        entropy: &mut dyn Entropy,
        key: Option<&str>,
        operation: &dyn AnyOperation,
    ) -> Result<AnyAnswer> {
        let entry = operation.entry();
        debug_assert_eq!(entry.about.effect, Effect::Write, "{} does not write", entry.about.name);
        self.run(caller, entropy, key, redacted(caller, operation)?)
    }

    fn run(
        &mut self,
        caller: &Caller,
        entropy: &mut dyn Entropy,
        key: Option<&str>,
        operation: Box<dyn AnyOperation>,
    ) -> Result<AnyAnswer> {
        let request = match key {
            Some(key) => Some(Keyed { key, request: digest(caller, &operation.arguments()?) }),
            None => None,
        };
        if let Some(Keyed { key, .. }) = &request
            && (key.is_empty() || key.len() > 200 || key.chars().any(char::is_control))
        {
            return Err(Error::invalid(format!("{key:?} cannot be a key")).hint("1 to 200 bytes on one line"));
        }
        let WriteTransaction { tx, now, anchor, shift_ms, has_expired, registered } = self;
        let (tx, now) = (&mut **tx, *now);
        let is_registered = registered.iter().any(|(r, w)| (r, w) == (&caller.repository, &caller.worktree));
        tx.prefetch(&mut |tx| {
            request.as_ref().map(|request| tx.answer_get(request.key)).transpose()?;
            if !is_registered {
                tx.repository_get(&caller.repository.id)?;
                tx.worktree_get(&caller.worktree.id)?;
            }
            if !*has_expired && *shift_ms == 0 {
                tx.due_count(now)?;
            }
            tx.agent_named(caller.name()).map(drop)
        })?;
        if let Some(request) = &request
            && let Some(saved) = tx.answer_get(request.key)?
        {
            return request.restore(&*operation, &saved);
        }
        let mut cx = OpContext { tx, caller, entropy, now };
        if !is_registered {
            register::bring_up_to_date(&mut cx)?;
        }
        if !*has_expired {
            move_clock(&mut cx, anchor.as_ref(), *shift_ms)?;
            expire_due::expire_due(&mut cx)?;
        }
        ownership::check(&mut cx, &*operation)?;
        let name = operation.entry().about.name;
        let answer = operation.run_any(&mut cx)?;
        let now = cx.now;
        if let Some(Keyed { key, request }) = request.filter(|_| !seeded_bug("lose_key")) {
            tx.answer_put(&SavedAnswer {
                key: key.to_owned(),
                operation: name.to_owned(),
                request,
                answer: answer.to_tree()?,
                worktree_id: caller.worktree.id.clone(),
                created_at: now,
            })?;
            if tx.event_last()?.is_multiple_of(ANSWER_CLEANUP_INTERVAL) {
                tx.answer_forget(Timestamp::from_millis(now.as_millis() - ANSWER_TTL_MS))?;
            }
        }
        if !is_registered {
            tx.worktree_touch(&caller.worktree.id, now)?;
            registered.push((Arc::clone(&caller.repository), Arc::clone(&caller.worktree)));
        }
        *has_expired = true;
        Ok(answer)
    }
}

/// Writes the new anchor and shifts the deadlines: see [`clock`].
fn move_clock(cx: &mut OpContext<'_>, anchor: Option<&Anchor>, shift_ms: i64) -> Result<()> {
    if let Some(anchor) = anchor {
        cx.tx.anchor_put(anchor)?;
    }
    if shift_ms != 0 {
        cx.tx.deadlines_shift(shift_ms, cx.now)?;
        cx.event(kind::STORE_CLOCK_MOVED, "store", json!({ "by_ms": shift_ms }))?;
    }
    Ok(())
}

/// Runs an operation that only reads.
pub fn read<O: IntoAnyOperation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: O,
) -> Result<O::Answer> {
    read_any(store, caller, entropy, &*operation.into_any())?.downcast()
}

/// Like [`read`], with an operation of any type.
pub fn read_any(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: &dyn AnyOperation,
) -> Result<AnyAnswer> {
    debug_assert_eq!(operation.entry().about.effect, Effect::Read);
    refuse_unstorable(&operation.arguments()?)?;
    query(store, |tx| {
        let now = tx.now()?;
        operation.copy().run_any(&mut OpContext { tx, caller, entropy, now })
    })
}

/// Like [`read`], but runs nothing and returns None if transitions are due that no write has applied yet.
pub fn read_if_current<O: IntoAnyOperation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: O,
) -> Result<Option<O::Answer>> {
    read_any_if_current(store, caller, entropy, &*operation.into_any())?.map(AnyAnswer::downcast).transpose()
}

/// Like [`read_if_current`], with an operation of any type.
pub fn read_any_if_current(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    operation: &dyn AnyOperation,
) -> Result<Option<AnyAnswer>> {
    debug_assert_eq!(operation.entry().about.effect, Effect::Read);
    refuse_unstorable(&operation.arguments()?)?;
    query_if_current(store, |tx, now| operation.copy().run_any(&mut OpContext { tx, caller, entropy, now }))
}

/// Two answers, as they were at one moment of the store's time.
pub type AtOnce<One, Other> = (<One as Operation>::Answer, <Other as Operation>::Answer, Timestamp);

/// Runs two operations like [`read_if_current`], in one transaction.
pub fn read_both_if_current<One: IntoAnyOperation, Other: IntoAnyOperation>(
    store: &mut dyn Store,
    caller: &Caller,
    entropy: &mut dyn Entropy,
    one: One,
    other: Other,
) -> Result<Option<AtOnce<One, Other>>> {
    let (one, other) = (one.into_any(), other.into_any());
    for operation in [&one, &other] {
        debug_assert_eq!(operation.entry().about.effect, Effect::Read);
        refuse_unstorable(&operation.arguments()?)?;
    }
    let answers = query_if_current(store, |tx, now| {
        let one = one.copy().run_any(&mut OpContext { tx, caller, entropy, now })?;
        let other = other.copy().run_any(&mut OpContext { tx, caller, entropy, now })?;
        Ok((one, other, now))
    })?;
    answers.map(|(one, other, now)| Ok((one.downcast()?, other.downcast()?, now))).transpose()
}

/// Runs reads in a read transaction. Retries them if the connection to the store is lost.
pub fn query<T>(store: &mut dyn Store, mut reads: impl FnMut(&mut dyn Tx) -> Result<T>) -> Result<T> {
    Retry { is_repeatable: true, uses_reserve: false }.run(store, |store| reads(&mut *store.begin_read()?))
}

/// Runs reads in a read transaction, unless transitions are due in it that no write has applied yet: then returns None.
fn query_if_current<T>(
    store: &mut dyn Store,
    mut reads: impl FnMut(&mut dyn Tx, Timestamp) -> Result<T>,
) -> Result<Option<T>> {
    query(store, |tx| {
        let now = tx.now()?;
        if tx.due_count(now)? > 0 { Ok(None) } else { reads(tx, now).map(Some) }
    })
}

/// A request with an idempotency key.
struct Keyed<'a> {
    key: &'a str,
    request: String,
}

impl Keyed<'_> {
    /// Returns the saved answer.
    fn restore(&self, operation: &dyn AnyOperation, saved: &SavedAnswer) -> Result<AnyAnswer> {
        let entry = operation.entry();
        if op::current_name(&saved.operation) != entry.about.name
            || (saved.request != self.request && !seeded_bug("reuse_key"))
        {
            return Err(Error::conflict(format!("the key {:?} was used for another request", self.key))
                .hint("a key belongs to one request of one caller: take a new one"));
        }
        let answer = (entry.decode_answer)(&saved.answer);
        answer.map_err(|error| Error::damaged(format!("the answer to {:?} cannot be read", self.key)).because(error))
    }
}

/// Refuses NUL characters and integers beyond the range of SQL: a database would change or reject them.
fn refuse_unstorable(arguments: &Value) -> Result<()> {
    match arguments {
        Value::String(text) => refuse_nul(text),
        Value::Number(number) if number.as_u64().is_some_and(|number| i64::try_from(number).is_err()) => {
            Err(Error::invalid(format!("{number} is too large: numbers go up to {}", i64::MAX)))
        }
        Value::Array(items) => items.iter().try_for_each(refuse_unstorable),
        Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            refuse_nul(key)?;
            refuse_unstorable(value)
        }),
        _ => Ok(()),
    }
}

fn refuse_nul(text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid("text contains a NUL character, which cannot be stored"));
    }
    Ok(())
}

/// Returns a digest of caller and arguments. The caller is part of it, so that a key never returns another caller's
/// answer. FNV-1a over 128 bits suffices, because a collision gains an attacker nothing.
fn digest(caller: &Caller, request: &Value) -> String {
    format!("{:032x}", fnv128(format!("{}\0{request}", caller.name()).as_bytes()))
}
