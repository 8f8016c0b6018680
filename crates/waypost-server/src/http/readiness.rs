//! The readiness probe: whether the store is writable now.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use waypost_core::Error;

use super::lock;
use waypost::app::App;

/// A probe that takes longer counts as unreachable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is cached: the probe needs no token, so requests must not be able to keep the store busy.
const PROBE_INTERVAL: Duration = Duration::from_millis(200);

/// The result of a probe; `None` while it runs.
type ProbeResult = Option<Result<(), String>>;

/// The latest probe. At most one runs at a time, even while the store hangs.
#[derive(Default)]
pub(super) struct Readiness {
    latest: Mutex<Option<(Instant, watch::Receiver<ProbeResult>)>>,
}

impl Readiness {
    /// Returns whether a write would succeed. The error text is safe to show without a token.
    pub(super) async fn check(&self, app: &App) -> Result<(), String> {
        let mut probe = self.probe(app);
        let found = match tokio::time::timeout(PROBE_TIMEOUT, probe.wait_for(Option::is_some)).await {
            Ok(Ok(found)) => found.clone(),
            Ok(Err(_)) => Some(Err("the store did not answer".to_owned())),
            Err(_) => Some(Err("the store did not answer in time".to_owned())),
        };
        found.unwrap_or(Ok(()))
    }

    /// Returns the latest probe, or starts one if that is too old.
    fn probe(&self, app: &App) -> watch::Receiver<ProbeResult> {
        let mut latest = lock(&self.latest);
        if let Some((started_at, probe)) = &*latest {
            let is_waiting = probe.borrow().is_none() && probe.has_changed().is_ok();
            if is_waiting || started_at.elapsed() < PROBE_INTERVAL {
                return probe.clone();
            }
        }
        let (sender, probe) = watch::channel(None);
        app.probe(Box::new(move |found| drop(sender.send(Some(found.map_err(|error| public_reason(&error)))))));
        *latest = Some((Instant::now(), probe.clone()));
        probe
    }
}

/// Removes paths and addresses from the message: the client is not authenticated.
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
