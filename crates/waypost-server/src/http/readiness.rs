//! Whether the store can be written now.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use waypost_core::Error;

use super::lock;
use waypost::host::Host;

/// How long a probe may take before the store counts as out of reach.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// An answer is good for so long: anyone may ask, and must not keep the store busy by that.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// What a probe has found; nothing while it waits for the store.
type Found = Option<Result<(), String>>;

/// The latest probe. There is one at a time, also while the store hangs.
#[derive(Default)]
pub(super) struct Readiness {
    latest: Mutex<Option<(Instant, watch::Receiver<Found>)>>,
}

impl Readiness {
    /// Finds out whether a write would get through; an error says why not, in words that anyone may read.
    pub(super) async fn check(&self, host: &dyn Host) -> Result<(), String> {
        let mut probe = self.probe(host);
        let found = match tokio::time::timeout(PROBE_TIMEOUT, probe.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) => Some(Err("the store gave no answer".to_owned())),
            Err(_) => Some(Err("the store did not answer in time".to_owned())),
        };
        found.unwrap_or(Ok(()))
    }

    /// Returns the latest probe, or begins one if that is too old.
    fn probe(&self, host: &dyn Host) -> watch::Receiver<Found> {
        let mut latest = lock(&self.latest);
        if let Some((began, probe)) = &*latest {
            let is_waiting = probe.borrow().is_none() && probe.has_changed().is_ok();
            if is_waiting || began.elapsed() < PROBE_INTERVAL {
                return probe.clone();
            }
        }
        let (sender, probe) = watch::channel(None);
        host.probe(Box::new(move |found| drop(sender.send(Some(found.map_err(|error| public_reason(&error)))))));
        *latest = Some((Instant::now(), probe.clone()));
        probe
    }
}

/// Returns the reason without paths and addresses: the client has shown no token.
fn public_reason(error: &Error) -> String {
    let message = error.to_string();
    message.split(' ').filter(|word| !word.contains(['/', '@'])).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_reason_names_no_path() {
        let error = Error::unavailable("the store /home/me/state.db is gone: it was moved").because("/home/me");
        assert_eq!(public_reason(&error), "the store is gone: it was moved");
    }
}
