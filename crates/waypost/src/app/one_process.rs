//! The executor for one client that sends one call at a time: MCP over standard input and output.

use std::sync::Mutex;
use std::time::Duration;

use waypost_core::op::OperationEntry;
use waypost_core::{Kind, Result};

use super::{Call, Reply, Who, lock};
use crate::place::{Place, StoreChoice};
use crate::session::Session;

/// Runs operations in one session.
pub(super) struct OneProcess {
    place: Place,
    session: Mutex<Option<Session>>,
    /// The store opened last. If its file is missing later, calls fail instead of creating a new store.
    opened: Mutex<Option<StoreChoice>>,
}

impl OneProcess {
    pub(super) fn new(place: Place) -> OneProcess {
        OneProcess { place, session: Mutex::new(None), opened: Mutex::new(None) }
    }

    /// Returns the current place: branch and settings can change while a client is connected.
    pub(super) fn place(&self) -> Result<Place> {
        let place = self.place.again()?;
        let is_known = *lock(&self.opened) == Some(place.store()?);
        Ok(if is_known { place.with_existing_store() } else { place })
    }

    /// Runs `work` with the session, in the name of a caller.
    pub(super) fn with_session<T>(&self, who: &Who, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let place = self.place()?.used_by(&who.actor, who.agent.as_deref());
        let mut kept = lock(&self.session);
        let mut session = match kept.take() {
            Some(session) if session.choice == place.store()? => session.moved_to(place)?,
            _ => Session::open(place)?,
        };
        *lock(&self.opened) = Some(session.choice.clone());
        session.act_as(who.actor.clone(), who.agent.clone());
        // A call that failed may have left warnings.
        drop(session.warnings().take());
        let result = work(&mut session);
        // Reopen a store that was unreachable.
        if !matches!(&result, Err(error) if error.kind() == Kind::Unavailable) {
            *kept = Some(session);
        }
        result
    }

    /// Runs an operation of the store.
    pub(super) fn run(&self, entry: &OperationEntry, call: Call) -> Result<Reply> {
        let Call { arguments, who, key, .. } = call;
        self.with_session(&who, |session| session.call_json(entry, key.as_deref(), arguments))
    }

    pub(super) fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        Session::open(self.place()?)?.wait(last, timeout)
    }
}
