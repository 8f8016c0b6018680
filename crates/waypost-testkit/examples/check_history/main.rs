//! Checks a recorded history: `check_history FILE`. It depends only on the JSON answers of `way`.
//!
//! A history is a file with one JSON object per line. `head` has the allowed exit codes and the duration of a lease, `start`
//! and `end` are the start and the end of an operation, `state` is the final state as the commands report it. Prints every
//! violation, and exits with 1 if there is one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints for the developer")]

mod history;
mod rules;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(file) = std::env::args().nth(1) else {
        eprintln!("Usage: check_history FILE");
        return ExitCode::from(2);
    };
    let history = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    match history.and_then(|text| history::History::parse(&text)) {
        Ok(history) => report(&history),
        Err(message) => {
            eprintln!("{file}: {message}");
            ExitCode::from(2)
        }
    }
}

fn report(history: &history::History) -> ExitCode {
    let violations = rules::check(history);
    for violation in &violations {
        println!("{violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
