//! The rows of saved answers.

use waypost_core::error::{Error, Result};
use waypost_core::model::SavedAnswer;
use waypost_core::store::AnswerTx;
use waypost_core::time::Timestamp;

use super::MemoryTx;

impl AnswerTx for MemoryTx<'_> {
    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()> {
        self.need_worktree(&answer.worktree_id)?;
        if self.rows.answers.insert(answer.key.clone(), answer.clone()).is_some() {
            return Err(Error::internal(format!("there is an answer to {} already", answer.key)));
        }
        Ok(())
    }

    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>> {
        Ok(self.rows.answers.get(key).cloned())
    }

    fn answer_forget(&mut self, before: Timestamp) -> Result<()> {
        self.rows.answers.retain(|_, answer| answer.created_at >= before);
        Ok(())
    }
}
