//! The things Waypost remembers, as plain data.

mod event;
mod repository;
mod worktree;

pub use event::{Event, EventQuery, NewEvent, kind};
pub use repository::{Repository, Vcs};
pub use worktree::Worktree;
