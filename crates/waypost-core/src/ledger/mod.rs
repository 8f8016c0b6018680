//! The issues of a repository: the meaning of a ledger line, and the rules among issues.
//!
//! The file is the authority, so nothing here may lose a byte of it. A [`record::Record`] keeps the spelling of every
//! value except those a caller sets; a [`document::Document`] keeps every line it does not understand.
//! [`issue::Issue`] is the typed view that the rules use, read leniently from any dialect.

pub mod appended;
pub mod audit;
pub mod change;
pub mod conflict;
pub mod cycle;
pub mod difference;
pub mod document;
pub mod issue;
pub mod issue_id;
pub mod kept;
pub mod mark;
pub mod merge;
pub mod moved;
pub mod ready;
pub mod record;
pub mod role;
pub mod vocabulary;
