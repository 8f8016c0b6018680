//! A team of agents that works on one workflow.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use waypost::app::session::Session;
use waypost::machine::Variables;
use waypost::machine::place::{Place, Request};
use waypost_testkit::{Run, Sandbox};

use crate::support::sandbox;

/// A repository with a store, and a clock that the test controls.
pub(crate) struct Team {
    pub(crate) sandbox: Sandbox,
    pub(crate) repo: PathBuf,
    pub(crate) seconds: Cell<i64>,
}

impl Team {
    pub(crate) fn new() -> Team {
        let sandbox = sandbox();
        let repo = sandbox.git_repo("repo");
        Team { sandbox, repo, seconds: Cell::new(0) }
    }

    /// A team with a workflow `w` that is running.
    pub(crate) fn with(plan: &str) -> Team {
        let team = Team::new();
        let run = team.fed("workflow create w --plan - --start --json", plan);
        assert_eq!(run.data()["status"], "in_progress");
        team
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: i64) {
        self.seconds.set(self.seconds.get() + seconds);
    }

    pub(crate) fn clock(&self) -> OsString {
        let start = 1_767_225_600;
        jiff::Timestamp::from_second(start + self.seconds.get()).unwrap().to_string().into()
    }

    /// Returns a command for a command line. Arguments with spaces are in single quotes.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.sandbox.way_command(&self.repo);
        command.env("WAYPOST_TEST_CLOCK", self.clock()).args(words(line));
        command
    }

    /// Runs a command line.
    #[track_caller]
    pub(crate) fn way(&self, line: &str) -> Run {
        self.fed(line, "")
    }

    /// Runs a command line that must succeed, and returns its answer.
    #[track_caller]
    pub(crate) fn data(&self, line: &str) -> Value {
        self.way(&format!("{line} --json")).data()
    }

    /// Runs a command line that must be refused, and returns the error.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, line: &str) -> Value {
        self.way(&format!("{line} --json")).fails(code).error()
    }

    /// Runs a command line with something on its standard input.
    #[track_caller]
    pub(crate) fn fed(&self, line: &str, input: &str) -> Run {
        self.sandbox.run(&mut self.command(line), input)
    }

    /// Opens the store in this process, as the library does.
    pub(crate) fn session(&self, agent: &str) -> Session {
        let home = self.sandbox.path("home");
        let variables: Variables =
            [("HOME", home.into_os_string()), ("WAYPOST_TEST_CLOCK", self.clock())].into_iter().collect();
        let agent = Some(agent.to_owned());
        let request = Request { cwd: self.repo.clone(), variables, agent, ..Request::default() };
        Session::open(Place::resolve(request).unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn status(&self, task: &str) -> String {
        self.data(&format!("task show {task}"))["status"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut is_quoted, mut was_quoted) = (false, false);
    for char in line.chars() {
        match char {
            '\'' => (is_quoted, was_quoted) = (!is_quoted, true),
            ' ' if !is_quoted => {
                if was_quoted || !words.last().unwrap().is_empty() {
                    words.push(String::new());
                }
                was_quoted = false;
            }
            char => words.last_mut().unwrap().push(char),
        }
    }
    if !was_quoted && words.last().unwrap().is_empty() {
        words.pop();
    }
    words
}
