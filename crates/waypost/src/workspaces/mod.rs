//! Workspaces, in the store's sight: written down, then made; looked at, saved, and then removed.
//!
//! What `waypost_workspace` makes and removes, the store remembers. A row is written before the first file, and the last
//! file goes before the row says so; whoever looks next finishes what a crash left half done.

mod create;
mod deliver;
mod places;
mod pool;
mod records;
mod remove;
mod rules;
mod snapshots;

pub use create::{Created, WorkspaceRequest, create, enter, reuse, trust};
pub use deliver::{Delivered, deliver, merged, note_pull_request, open_pull_request};
pub use places::{machine, root};
pub use pool::{clean_up, pool, warm};
pub use records::{find, heal, is_pooled, list, measure, pin, plan_of, whose};
pub use remove::{Examined, Force, Removed, examine, remove};
pub use rules::{Rules, Verdict, collect, judge, upkeep, usual_rules};
pub use snapshots::{damaged_mirrors, export, restore, saved, snapshot, snapshots};
