//! The one error type, and the closed list of kinds that decides how every surface answers.
//!
//! A message is lower case, has no full stop and names the object; the cause is kept apart and never
//! repeated in it; hints say what to type next.

use std::fmt;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is. The list is closed: programs decide by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A defect of Waypost, or of the machine below it.
    Internal,
    /// The request itself is wrong: flags, values, names.
    Invalid,
    /// What was named does not exist.
    NotFound,
    /// What was named fits several things.
    Ambiguous,
    /// The state does not allow it: illegal transition, already claimed.
    Conflict,
    /// The caller's lease was taken over or has expired.
    LeaseLost,
    /// There is no work to hand out.
    NothingToDo,
    /// It would lose work, or the caller's role does not allow it.
    Refused,
    /// The store, a lock or a repository cannot be reached. Never the same as "empty".
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

    /// The exit code of the process. Stable: scripts rely on it.
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

    /// The `code` of the JSON error. Stable as well.
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

/// What went wrong, for whoever has to do something about it.
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

/// What is known of a request that did not get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// It got through, and this is the answer.
    None,
    /// It had no effect.
    Request,
    /// It may have had its effect.
    Answer,
}

impl Error {
    /// Makes an error of a kind with its message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), hints: Vec::new(), cause: None, loss: Loss::None }))
    }

    /// A defect of ours.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// A request that cannot be right.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A name that fits nothing.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// A name that fits more than one thing.
    pub fn ambiguous(message: impl Into<String>) -> Self {
        Self::new(Kind::Ambiguous, message)
    }

    /// A state that does not allow the request.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// A request we decline to carry out.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    /// A store, lock or repository out of reach.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// Data that is not what was written.
    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Kind::Damaged, message)
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Keeps what lies below, for example the operating system's own words.
    #[must_use]
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.0.cause = Some(cause.to_string());
        self
    }

    /// Says where it happened, before the message.
    #[must_use]
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// Says that nothing happened, and that the same request may succeed a moment later.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.0.loss = Loss::Request;
        self
    }

    /// Says that everything may have happened although no answer came.
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.0.loss = Loss::Answer;
        self
    }

    /// Tells whether nothing happened, and the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        self.0.loss == Loss::Request
    }

    /// Tells whether everything may have happened: only asking again under the same key is safe.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.loss == Loss::Answer
    }

    /// Tells whether it makes sense to ask again under the same key.
    pub fn is_retriable(&self) -> bool {
        self.0.loss != Loss::None
    }

    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns the hints, in the order in which they were given.
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
    fn exit_codes_are_those_scripts_rely_on() {
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
    fn cause_stands_after_the_message_once() {
        let error = Error::unavailable("cannot open the store").because("disk is on fire");
        assert_eq!(error.to_string(), "cannot open the store");
        assert_eq!(error.full_message(), "cannot open the store: disk is on fire");
    }

    #[test]
    fn only_what_was_lost_on_its_way_is_asked_again() {
        let check = |error: Error, expected: [bool; 3]| {
            assert_eq!([error.is_retriable(), error.is_transient(), error.is_outcome_unknown()], expected);
        };
        check(Error::unavailable("no"), [false, false, false]);
        check(Error::unavailable("no").transient().hint("later"), [true, true, false]);
        check(Error::unavailable("no").outcome_unknown().within("here"), [true, false, true]);
    }
}
