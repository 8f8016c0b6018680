//! The error type, and the closed list of kinds from which every surface derives its exit code or status.
//!
//! A message is lower case, has no full stop and names the object. The cause is separate and never repeated in the
//! message. Hints suggest the next command.

use std::fmt;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure. The list is closed: programs rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A defect of Waypost, or of the machine below it.
    Internal,
    /// The request itself is wrong: flags, values, names.
    Invalid,
    /// The named object does not exist.
    NotFound,
    /// The name matches several objects.
    Ambiguous,
    /// The state does not allow it: illegal transition, already claimed.
    Conflict,
    /// The caller's lease has expired, or another agent holds it.
    LeaseLost,
    /// There is no task to claim.
    NothingToDo,
    /// The request would lose work, or the caller's role does not allow it.
    Refused,
    /// The store, a lock or a repository is unreachable. This never means "empty".
    Unavailable,
    /// Data on disk is not what was written.
    Damaged,
}

impl Kind {
    /// All kinds, in the order of their exit codes.
    pub const ALL: [Kind; 10] = [
        Kind::Internal,
        Kind::Invalid,
        Kind::NotFound,
        Kind::Ambiguous,
        Kind::Conflict,
        Kind::LeaseLost,
        Kind::NothingToDo,
        Kind::Refused,
        Kind::Unavailable,
        Kind::Damaged,
    ];

    /// Returns the exit code of the process. Stable: scripts rely on it.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Internal => 1,
            Kind::Invalid => 2,
            Kind::NotFound | Kind::Ambiguous => 3,
            Kind::Conflict => 4,
            Kind::LeaseLost => 5,
            Kind::NothingToDo => 6,
            Kind::Refused => 7,
            Kind::Unavailable => 8,
            Kind::Damaged => 9,
        }
    }

    /// Returns the `code` of the JSON error. Stable as well.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Internal => "internal",
            Kind::Invalid => "invalid",
            Kind::NotFound => "not_found",
            Kind::Ambiguous => "ambiguous",
            Kind::Conflict => "conflict",
            Kind::LeaseLost => "lease_lost",
            Kind::NothingToDo => "nothing_to_do",
            Kind::Refused => "refused",
            Kind::Unavailable => "unavailable",
            Kind::Damaged => "damaged",
        }
    }
}

/// A failure, with a message, hints and a cause.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    cause: Option<String>,
    loss: Loss,
}

/// The effect of a request that failed on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The store received the request, and this error is its answer.
    None,
    /// The request had no effect.
    Request,
    /// The request may have had its effect; the answer is lost.
    Answer,
}

impl Error {
    /// Makes an error.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hints: Vec::new(), cause: None, loss: Loss::None }))
    }

    /// Makes an error for a defect of Waypost.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Makes an error for a wrong request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// Makes an error for a name that matches nothing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// Makes an error for a name that matches several objects.
    pub fn ambiguous(message: impl Into<String>) -> Self {
        Self::new(Kind::Ambiguous, message)
    }

    /// Makes an error for a state that does not allow the request.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// Makes an error for a request that is declined.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// Makes an error for an unreachable store, lock or repository.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// Makes an error for data that differs from what was written.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, message)
    }

    /// Adds a hint: what the reader can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Sets the cause, for example the message of the operating system.
    #[must_use]
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    /// Prefixes the message with the place of the failure.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// Marks the request as without effect, and a retry as useful.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.0.loss = Loss::Request;
        self
    }

    /// Marks the outcome as unknown: the request may have had its effect.
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.0.loss = Loss::Answer;
        self
    }

    /// Returns whether the request had no effect and a retry may succeed.
    pub fn is_transient(&self) -> bool {
        self.0.loss == Loss::Request
    }

    /// Returns whether the request may have had its effect: only a retry with the same key is safe.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.loss == Loss::Answer
    }

    /// Returns whether a retry with the same key may succeed.
    pub fn is_retriable(&self) -> bool {
        self.0.loss != Loss::None
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the hints, in the order in which they were added.
    pub fn hints(&self) -> &[String] {
        &self.0.hints
    }

    /// Returns the message and its cause as one line.
    pub fn full_message(&self) -> String {
        match &self.0.cause {
            Some(cause) => format!("{}: {cause}", self.0.message),
            None => self.0.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_stable() {
        let table: Vec<_> = Kind::ALL.iter().map(|kind| (kind.code(), kind.exit_code())).collect();
        assert_eq!(
            table,
            [
                ("internal", 1),
                ("invalid", 2),
                ("not_found", 3),
                ("ambiguous", 3),
                ("conflict", 4),
                ("lease_lost", 5),
                ("nothing_to_do", 6),
                ("refused", 7),
                ("unavailable", 8),
                ("damaged", 9),
            ]
        );
    }

    #[test]
    fn the_full_message_has_the_cause_once_after_the_message() {
        let error = Error::unavailable("cannot open the store").because("disk is on fire");
        assert_eq!(error.to_string(), "cannot open the store");
        assert_eq!(error.full_message(), "cannot open the store: disk is on fire");
    }

    #[test]
    fn only_lost_requests_and_answers_are_retriable() {
        let check = |error: Error, expected: [bool; 3]| {
            assert_eq!([error.is_retriable(), error.is_transient(), error.is_outcome_unknown()], expected);
        };
        check(Error::unavailable("no"), [false, false, false]);
        check(Error::unavailable("no").transient().hint("later"), [true, true, false]);
        check(Error::unavailable("no").outcome_unknown().within("here"), [true, false, true]);
    }
}
