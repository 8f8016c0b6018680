//! The executor for one client that sends one call at a time: MCP over standard input and output.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use waypost_core::op::{Heartbeat, ListLeases, OperationEntry};
use waypost_core::{Kind, Result};

use super::{Call, Reply, Who, lock};
use crate::app::session::Session;
use crate::machine::denied;
use crate::machine::place::{Place, StoreChoice};

/// Runs operations in one session.
pub(super) struct OneProcess {
    place: Place,
    session: Mutex<Option<Session>>,
    /// The store opened last. If its file is missing later, calls fail instead of creating a new store.
    opened: Mutex<Option<StoreChoice>>,
    /// The agents that called since the client connected.
    agents: Mutex<BTreeSet<String>>,
}

impl OneProcess {
    pub(super) fn new(place: Place) -> OneProcess {
        OneProcess { place, session: Mutex::new(None), opened: Mutex::new(None), agents: Mutex::default() }
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
        let result = work(&mut session).map_err(|error| denied::explain_denied(error, &session.place));
        // Reopen a store that was unreachable.
        if !matches!(&result, Err(error) if error.kind() == Kind::Unavailable) {
            *kept = Some(session);
        }
        result
    }

    /// Runs an operation of the store.
    pub(super) fn run(&self, entry: &OperationEntry, call: Call) -> Result<Reply> {
        let Call { arguments, who, key, .. } = call;
        self.with_session(&who, |session| session.call_json(entry, key.as_deref(), &arguments))
    }

    /// Remembers an agent that called: its leases are renewed while its client is connected.
    pub(super) fn note(&self, who: &Who) {
        lock(&self.agents).extend(who.agent.clone());
    }

    /// Renews the leases of the agents that called. Returns the time until the next renewal, None if they hold none.
    pub(super) fn renew_leases(&self) -> Result<Option<Duration>> {
        let agents = lock(&self.agents).clone();
        let mut next = None;
        for agent in agents {
            let who = Who { actor: agent.clone(), agent: Some(agent.clone()) };
            let held = self.with_session(&who, |session| {
                let (mut held, now) = (session.read(ListLeases {})?.leases, session.now()?);
                held.retain(|seen| seen.holder_name == agent && !seen.lease.is_unlimited());
                if held.iter().any(|seen| seen.lease.is_renewal_due(now)) {
                    session.write(Heartbeat::default())?;
                }
                Ok(held)
            })?;
            let shortest = held.iter().map(|seen| seen.lease.ttl_ms / 3).min();
            next = next.into_iter().chain(shortest).min();
        }
        Ok(next.map(Duration::from_millis))
    }

    pub(super) fn wait(&self, last: u64, timeout: Duration) -> Result<()> {
        Session::open(self.place()?)?.wait(last, timeout)
    }
}
