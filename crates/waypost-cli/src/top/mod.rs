//! `way top`: a screen that shows who has to act next, and follows the store.
//!
//! [`model`] decides what a key or new data changes, [`view`] draws it; both are pure, and use
//! [`text`]. [`load`] reads the store, [`terminal`] has the terminal and its keys, and [`mod@run`] connects them.

mod load;
mod model;
mod run;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod view;

pub(crate) use load::Wanted;
pub(crate) use run::{Options, run};
pub(crate) use terminal::check_terminal;
