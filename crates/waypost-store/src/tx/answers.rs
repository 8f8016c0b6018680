//! The rows of saved answers.

use waypost_core::Result;
use waypost_core::model::SavedAnswer;
use waypost_core::store::AnswerTx;
use waypost_core::time::Timestamp;

use super::SqlTx;
use crate::cell::cells;
use crate::sql;

impl AnswerTx for SqlTx<'_> {
    fn answer_put(&mut self, answer: &SavedAnswer) -> Result<()> {
        self.put(answer)
    }

    fn answer_get(&mut self, key: &str) -> Result<Option<SavedAnswer>> {
        self.one(sql::ANSWER_GET, cells![key])
    }

    fn answer_forget(&mut self, before: Timestamp) -> Result<()> {
        self.run(sql::ANSWER_FORGET, cells![before])
    }
}
