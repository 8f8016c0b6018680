//! Processes that are killed or run out of something at any moment.

mod faults;
mod kills;
mod processes;
mod resume;
mod stopped;
mod storm;
