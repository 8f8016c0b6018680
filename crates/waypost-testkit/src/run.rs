//! The result of a process.

use std::process::Output;

use serde_json::Value;

/// The result of a process that has ended. The test must check it.
#[must_use]
#[derive(Debug, Clone)]
pub struct Run {
    /// Its exit code; -1 if a signal killed it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Run {
    /// Converts the output of a process that the test started itself.
    pub fn of(output: &Output) -> Self {
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects success and an empty standard error.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.code == 0 && self.stderr.is_empty(), "expected success: {self:#?}");
        self
    }

    /// Expects an exit code and an error message.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        assert!(!self.stderr.is_empty(), "expected an error message: {self:#?}");
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

    /// Returns standard output, standard error and the exit code as one text, for snapshots.
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
