//! The ledger on disk, and its index.
//!
//! The file is the only authority on issues. It is never rebuilt from anything else; a change is made to what the file
//! says at that moment, under a lock, and the file is replaced at once or not at all. The index answers questions
//! without reading the file, as long as the file is the one it was made from.

mod file;
mod index;
mod ledgers;
mod tool_locks;

pub use file::{LedgerFile, LedgerLocks};
pub use index::{Counts, Filter, Index, IndexedIssue, Range, Sort, Summary};
pub use ledgers::{Draft, Ledgers};
