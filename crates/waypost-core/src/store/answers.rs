//! The rows of saved answers.

use crate::error::Result;
use crate::model::SavedAnswer;
use crate::time::Timestamp;

/// The part of a transaction that is about saved answers.
pub trait AnswerTx {
    /// Saves an answer.
    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()>;
    /// Returns the answer saved under a key.
    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>>;
    /// Deletes answers that were saved before a moment.
    fn answer_forget(&mut self, before: Timestamp) -> Result<()>;
}
