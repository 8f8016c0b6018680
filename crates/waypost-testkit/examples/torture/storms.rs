//! Workloads with one kind of fault each: killed and suspended processes, a restarting server, a wrong clock.

use std::time::Duration;

use waypost_testkit::{Dice, Postgres, pass};

use crate::Torture;
use crate::tally::Tally;
use crate::workload::{Faults, Workload, faketime};

/// Maximum length of a round: a fresh store shows other defects than an old one.
const MAX_ROUND: Duration = Duration::from_secs(40);

/// Number of parallel workers.
const WORKERS: usize = 12;

/// Runs rounds until the time is over. `round` gets the duration of its workload.
fn rounds(torture: &Torture, mut round: impl FnMut(&Torture, Duration) -> Tally) -> Tally {
    let mut tally = Tally::default();
    let mut dice = torture.dice();
    while tally.rounds == 0 || torture.left() > Duration::from_secs(15) {
        // Draining and checking take about as long as a lease and half a workload.
        let time = (torture.left() / 2).clamp(Duration::from_secs(4), MAX_ROUND);
        let seed = dice.fork().0;
        let of_round =
            Torture { way: torture.way.clone(), checker: torture.checker.clone(), seed, deadline: torture.deadline };
        tally.merge(round(&of_round, time));
        println!("  {tally}");
    }
    tally
}

/// Leases are short, so that another worker soon continues the task of a killed one.
const LEASE: Duration = Duration::from_secs(5);

pub(crate) fn storm(torture: &Torture) -> Tally {
    let faults = Faults { killed: 10, stopped: 4, ..Faults::default() };
    rounds(torture, |torture, time| {
        Workload::new(torture, None, faults.clone(), LEASE).run(torture, time, WORKERS, |_| 0)
    })
}

/// Restarts the server every few seconds, in an orderly way or by a crash.
pub(crate) fn postgres(torture: &Torture) -> Tally {
    let server = Postgres::start(&[]);
    let faults = Faults { killed: 4, stopped: 2, allowed: &[8], ..Faults::default() };
    rounds(torture, |torture, time| {
        let seed = torture.seed;
        let load = Workload::new(torture, Some(server.url()), faults.clone(), LEASE);
        load.run(torture, time, WORKERS, |time| restart(&server, Dice(seed), time))
    })
}

/// Restarts the server repeatedly. Returns the number of restarts.
fn restart(server: &Postgres, mut dice: Dice, time: Duration) -> u64 {
    let start = std::time::Instant::now();
    let mut restarts = 0;
    while start.elapsed() < time {
        restarts += 1;
        pass(Duration::from_millis(1_000 + dice.below(3_000)));
        if dice.percent(50) {
            server.crash();
        } else {
            server.restart();
        }
    }
    restarts
}

/// Gives every tenth command a wrong clock.
pub(crate) fn clock(torture: &Torture) -> Tally {
    if faketime().is_none() {
        let mut tally = Tally::default();
        tally.violation(
            "libfaketime is missing: install the package faketime, or leave this part out with --without clock",
        );
        return tally;
    }
    let shifts = &["+5y", "+8d", "+3h", "+90s", "-90s", "-3h", "-400d"];
    let faults = Faults { killed: 2, shifts, allowed: &[8], ..Faults::default() };
    rounds(torture, |torture, time| {
        Workload::new(torture, None, faults.clone(), LEASE).run(torture, time, WORKERS, |_| 0)
    })
}
