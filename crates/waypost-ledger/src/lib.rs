//! The ledger on disk.
//!
//! The file is the only authority on issues. It is read whole and never rebuilt from anything else; a change is made
//! to what the file says at that moment, under a lock, and the file is replaced at once or not at all.

mod file;

pub use file::LedgerFile;
