//! The ledger on disk, and its index.
//!
//! The file is the only authority on issues. It is never rebuilt from anything else: a writer takes the lock, reads the
//! file, changes its content and replaces it atomically. The index answers queries without reading the file, as long as
//! the file is the one it was built from.

mod draft;
mod file;
mod index;
mod intents;
mod kept;
mod ledgers;
mod tool_locks;

pub use draft::Draft;
pub use file::{LedgerFile, LedgerLocks};
pub use index::{
    COMMON_WORDS, Counts, Damage, Field, Filter, Index, IndexedIssue, MAX_SEARCH, Order, Position, Range, Sort,
    Summary, Window,
};
pub use ledgers::Ledgers;
