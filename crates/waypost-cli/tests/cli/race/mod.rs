//! Many processes at once, and other programs that write at the same time.

mod crowds;
mod ledger;
