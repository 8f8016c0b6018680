//! Saved answers, which make repeated requests idempotent.

use waypost_core::model::SavedAnswer;

table! {
    struct SavedAnswer as answer;
    /// Inserts only.
    pub(crate) const ANSWER_PUT: insert into answers;
    key {
        key: text,
    }
    columns {
        operation: text,
        request: text,
        answer: json,
        worktree_id: parsed,
        created_at: timestamp,
    }
}

/// By primary key.
pub(crate) const ANSWER_GET: &str = select!(answer, "answers WHERE key = ?1");
/// Along `answers_by_time`.
pub(crate) const ANSWER_FORGET: &str = "DELETE FROM answers WHERE created_at < ?1";
