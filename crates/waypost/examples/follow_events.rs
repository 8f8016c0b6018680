//! Prints what happened in a store, and then follows it: every change is an event with a number, so nothing is missed.
//!
//! `cargo run -p waypost --example follow_events -- PATH [COUNT]` ends after this many events.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use waypost::Result;
use waypost::app::session::Session;
use waypost::machine::place::Place;
use waypost::model::EventQuery;
use waypost::op::ListEvents;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let repository = args.next().unwrap_or_else(|| ".".to_owned());
    let mut left: usize = args.next().and_then(|count| count.parse().ok()).unwrap_or(usize::MAX);
    let mut session = Session::open(Place::at(repository)?)?;
    let mut since = 0;
    loop {
        let query =
            EventQuery { since: Some(since), worktree_id: None, kind: None, subject: None, after: None, limit: 100 };
        let page = session.call(ListEvents { query })?;
        for event in &page.events {
            println!("{:>4}  {}  {}  {}", event.sequence, event.actor, event.kind, event.subject);
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
        since = page.position;
        // Returns as soon as any process writes.
        session.wait(since, Duration::from_mins(1))?;
    }
}
