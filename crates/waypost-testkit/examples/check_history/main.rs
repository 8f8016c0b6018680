//! Checks a recorded history: `check_history FILE`. It knows nothing of the product but its JSON answers.
//!
//! A history is a file with one JSON object a line. `head` names the exit codes that the run allows and how long a lease
//! lasts, `start` and `end` are the invocation and the completion of an operation, `state` is what the commands said at
//! the end. Exits with 1 and prints every violation if there is one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to the developer")]

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
