//! Appends to the output of a job that the store keeps for other machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::OpContext;
use crate::error::{Error, Result};
use crate::model::LogPiece;
use crate::op::{Audience, Effect, Operation, StoreOperation};
use crate::work::jobs;

/// The size up to which output is appended to the last piece, so that a job which prints little at a time has few pieces.
const PIECE_BYTES: usize = 16 * 1024;
/// The maximum size of the output in one request.
const MAX_BYTES: usize = 256 * 1024;

/// Appends to the output of a job that the store keeps for other machines. Like a heartbeat, it is not an event.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AppendLog {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The position of the first byte in the output.
    pub from: u64,
    /// The output, in which every byte stands for one byte.
    pub text: String,
    /// The number of bytes to keep, from the end of the output.
    pub keep: u64,
}

/// The answer to [`AppendLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogEnd {
    /// The position after the last byte that the store has.
    pub next: u64,
}

impl Operation for AppendLog {
    const NAME: &'static str = "append_log";
    const SUMMARY: &'static str = "Append to the output of a job";
    const EFFECT: Effect = Effect::Write;
    const AUDIENCE: Audience = Audience::Internal;
    type Answer = LogEnd;
}

impl StoreOperation for AppendLog {
    fn run(self, cx: &mut OpContext<'_>) -> Result<LogEnd> {
        if self.text.len() > MAX_BYTES {
            return Err(Error::invalid(format!("a piece of a log has at most {MAX_BYTES} bytes")));
        }
        let job_id = jobs::find_job(cx, &self.job)?.id;
        let last = cx.tx.log_last(&job_id)?;
        let end = last.as_ref().map_or(0, LogPiece::next_byte);
        // An earlier request arrived, but its answer was lost.
        if self.from < end || self.text.is_empty() {
            return Ok(LogEnd { next: end });
        }
        let piece = match last {
            Some(last) if end == self.from && last.text.len() + self.text.len() <= PIECE_BYTES => {
                LogPiece { text: last.text + &self.text, ..last }
            }
            _ => LogPiece { job_id, first_byte: self.from, text: self.text },
        };
        cx.tx.log_put(&piece)?;
        let next = piece.next_byte();
        cx.tx.log_trim(&piece.job_id, next.saturating_sub(self.keep))?;
        Ok(LogEnd { next })
    }
}
