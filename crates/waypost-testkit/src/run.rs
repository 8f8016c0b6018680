//! What a process left behind.

use std::process::Output;

use serde_json::Value;

/// A process that has ended. Somebody must look at how.
#[must_use]
#[derive(Debug, Clone)]
pub struct Run {
    /// Its exit code; -1 if a signal ended it.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Run {
    /// Takes what a process left behind that was started by hand.
    pub fn of(output: &Output) -> Self {
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects success, and no complaints.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.code == 0 && self.stderr.is_empty(), "expected success: {self:#?}");
        self
    }

    /// Expects an exit code.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(!self.stderr.is_empty(), "a failure says why: {self:#?}");
        self
    }

    /// Returns the `data` of a JSON answer.
    #[track_caller]
    pub fn data(self) -> Value {
        let run = self.ok();
        let mut answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:#?}"));
        assert_eq!(answer["schema"], "waypost/1");
        assert!(answer["warnings"].is_array());
        answer["data"].take()
    }

    /// Returns the `error` of a JSON failure.
    #[track_caller]
    pub fn error(&self) -> Value {
        let mut answer: Value = serde_json::from_str(&self.stderr).unwrap_or_else(|error| panic!("{error}: {self:#?}"));
        assert_eq!(answer["schema"], "waypost/1");
        answer["error"].take()
    }

    /// Returns everything as one text, for comparing whole outputs.
    pub fn whole(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            text.push_str("--- stderr\n");
            text.push_str(&self.stderr);
        }
        if self.code != 0 {
            text.push_str("--- exit code ");
            text.push_str(&self.code.to_string());
            text.push('\n');
        }
        text
    }
}
