//! The output of a job in a store that several machines share, so that each of them can read it.
//!
//! The whole output is in a file on the machine that ran the job. The store gets the end of it, in pieces: see
//! `docs/decisions/119-shared-logs.md`.

use std::path::PathBuf;

use waypost_core::Result;
use waypost_core::model::Job;
use waypost_core::op::{AppendLog, ShowStoredLog, StoredLog};
use waypost_workspace::job_log;

use super::{complete_characters, log_path};
use crate::app::session::Session;
use crate::machine::bytes;

/// Maximum size of one request.
const PIECE_BYTES: u64 = 64 * 1024;
/// Maximum size of the output that is stored at once while the job runs. The rest follows with the next check.
const MAX_LIVE_BYTES: u64 = 256 * 1024;

/// Stores the output of a running job.
pub(super) struct SharedLog {
    job: String,
    log: PathBuf,
    /// The position up to which the store has the output.
    at: u64,
    /// How much the store keeps.
    keep: u64,
}

impl SharedLog {
    /// Returns none if no other machine uses the store, or if the user wants none of the output in it.
    pub(super) fn of(session: &Session, job: &Job) -> Result<Option<SharedLog>> {
        let keep =
            session.place.config.text("jobs.shared_log").and_then(|text| bytes::parse(&text)).unwrap_or_default();
        if !session.is_remote() || keep == 0 {
            return Ok(None);
        }
        Ok(Some(SharedLog { job: job.id.to_string(), log: log_path(session, &job.id)?, at: 0, keep }))
    }

    /// Stores new output.
    pub(super) fn update(&mut self, session: &mut Session) -> Result<()> {
        self.store(session, MAX_LIVE_BYTES, false)
    }

    /// Stores the rest of the output of a job that has ended.
    pub(super) fn finish(&mut self, session: &mut Session) -> Result<()> {
        self.store(session, u64::MAX, true)
    }

    fn store(&mut self, session: &mut Session, max: u64, is_end: bool) -> Result<()> {
        let end = job_log::tail(&self.log, 1).next();
        // Output that the store would discard at once is not sent.
        self.at = self.at.max(end.saturating_sub(self.keep));
        let until = end.min(self.at.saturating_add(max));
        while self.at < until {
            let mut part = job_log::read_from(&self.log, self.at, PIECE_BYTES.min(until - self.at));
            let is_last = part.next() >= end;
            if !(is_end && is_last) {
                part.bytes.truncate(complete_characters(&part.bytes));
            }
            if part.bytes.is_empty() {
                break;
            }
            let piece =
                AppendLog { job: self.job.clone(), from: part.from, text: one_byte_each(&part.bytes), keep: self.keep };
            // The store has more if the answer to an earlier request was lost.
            self.at = session.write(piece)?.next.max(part.next());
        }
        Ok(())
    }
}

/// Decodes output so that every byte stays one byte.
fn one_byte_each(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().map(|char| if char == '\0' { '?' } else { char }));
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

/// Reads the output of a job in the store: from a position, or the end of it.
pub fn read_stored(session: &mut Session, job: &str, from: Option<u64>, limit: u64) -> Result<StoredLog> {
    session.read(ShowStoredLog { job: job.to_owned(), from, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_the_output_is_one_byte_of_the_text() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"plain\n", "plain\n"),
            ("ü🙂".as_bytes(), "ü🙂"),
            (b"a\xffb\0c", "a?b?c"),
            (b"\xf0\x9f\x99", "???"),
        ] {
            assert_eq!(one_byte_each(bytes), text);
            assert_eq!(one_byte_each(bytes).len(), bytes.len());
        }
    }
}
