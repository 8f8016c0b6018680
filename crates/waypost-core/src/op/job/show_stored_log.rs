//! Reads the output of a job that the store keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::context::{Authority, OpContext};
use crate::error::{Error, Result};
use crate::op::{Access, Audience, Effect, Operation, StoreOperation};
use crate::work::jobs;

/// The maximum number of pieces in one answer.
const MAX_PIECES: u32 = 64;

/// Reads the output of a job that the store keeps: from a position, or the end of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ShowStoredLog {
    /// The job: its id, or a prefix of it.
    pub job: String,
    /// The position of the first byte [default: `limit` bytes before the end].
    #[serde(default)]
    pub from: Option<u64>,
    /// The maximum number of bytes.
    pub limit: u64,
}

/// The answer to [`ShowStoredLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredLog {
    /// Whether the store has any output of the job.
    pub is_stored: bool,
    /// The position of the first byte: the requested one, or the first that the store still has.
    pub from: u64,
    /// The output.
    pub text: String,
}

impl Operation for ShowStoredLog {
    const NAME: &'static str = "show_stored_log";
    const SUMMARY: &'static str = "Read the output of a job that the store keeps";
    const EFFECT: Effect = Effect::Read;
    const ACCESS: Access = Access::AGENTS;
    const AUDIENCE: Audience = Audience::Client;
    type Answer = StoredLog;
}

impl StoreOperation for ShowStoredLog {
    fn run(self, cx: &mut OpContext<'_>) -> Result<StoredLog> {
        let job = jobs::find_job(cx, &self.job)?;
        if cx.caller.authority == Authority::Agent {
            let caller = cx.tx.agent_named(cx.caller.name())?.map(|agent| agent.id);
            if caller.is_none() || caller != job.agent_id {
                return Err(Error::refused("the log of a job is for admins and for the agent of the job"));
            }
        }
        let job = job.id;
        let Some(last) = cx.tx.log_last(&job)? else {
            return Ok(StoredLog { is_stored: false, from: self.from.unwrap_or_default(), text: String::new() });
        };
        let wanted = self.from.unwrap_or_else(|| last.next_byte().saturating_sub(self.limit));
        let mut found = StoredLog { is_stored: true, from: wanted, text: String::new() };
        for piece in cx.tx.log_list(&job, wanted, MAX_PIECES)? {
            let next = found.from + found.text.len() as u64;
            if found.text.is_empty() {
                found.from = wanted.max(piece.first_byte);
            } else if next != piece.first_byte {
                // Output between the two was never stored. The next request continues after it.
                break;
            }
            let skipped = usize::try_from(found.from.max(piece.first_byte) - piece.first_byte).unwrap_or(usize::MAX);
            let left = usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_sub(found.text.len());
            let skipped = piece.text.ceil_char_boundary(skipped.min(piece.text.len()));
            if found.text.is_empty() {
                found.from = piece.first_byte + skipped as u64;
            }
            let part = &piece.text[skipped..];
            found.text.push_str(&part[..part.floor_char_boundary(left.min(part.len()))]);
            if part.len() > left {
                break;
            }
        }
        Ok(found)
    }
}
