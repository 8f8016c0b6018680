//! The answer of an operation whose type the caller does not know.

use std::any::Any;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};

/// The answer of any operation. It keeps the type that the operation returned, so that it is encoded once, in the form that
/// the caller needs, and by the thread that needs it.
pub struct AnyAnswer(Inner);

enum Inner {
    Tree(Value),
    Typed(Box<dyn Encode>),
}

/// A value that has a JSON form. (`Serialize` cannot be used as a trait object.)
trait Encode: Send {
    fn to_tree(&self) -> serde_json::Result<Value>;
    fn write_to(&self, text: &mut Vec<u8>) -> serde_json::Result<()>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Serialize + Send + 'static> Encode for T {
    fn to_tree(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }

    fn write_to(&self, text: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(text, self)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

impl AnyAnswer {
    /// Wraps an answer.
    pub fn new(answer: impl Serialize + Send + 'static) -> AnyAnswer {
        AnyAnswer(Inner::Typed(Box::new(answer)))
    }

    /// Returns the answer as its operation returned it.
    pub fn downcast<A: 'static>(self) -> Result<A> {
        let answer = match self.0 {
            Inner::Typed(answer) => answer.into_any().downcast::<A>().ok(),
            Inner::Tree(_) => None,
        };
        answer.map(|answer| *answer).ok_or_else(another_type)
    }

    /// Returns the answer as its operation returned it, to read or to complete it.
    pub fn downcast_mut<A: 'static>(&mut self) -> Result<&mut A> {
        let answer = match &mut self.0 {
            // Of the value in the box: the box itself is encoded, too.
            Inner::Typed(answer) => (**answer).as_any().downcast_mut::<A>(),
            Inner::Tree(_) => None,
        };
        answer.ok_or_else(another_type)
    }

    /// Returns the answer as a JSON value.
    pub fn into_tree(self) -> Result<Value> {
        match self.0 {
            Inner::Tree(tree) => Ok(tree),
            Inner::Typed(answer) => answer.to_tree().map_err(not_json),
        }
    }

    /// Returns a copy of the answer as a JSON value.
    pub fn to_tree(&self) -> Result<Value> {
        match &self.0 {
            Inner::Tree(tree) => Ok(tree.clone()),
            Inner::Typed(answer) => answer.to_tree().map_err(not_json),
        }
    }

    /// Appends the answer as JSON text.
    pub fn write_to(&self, text: &mut Vec<u8>) -> Result<()> {
        match &self.0 {
            Inner::Tree(tree) => tree.write_to(text),
            Inner::Typed(answer) => answer.write_to(text),
        }
        .map_err(not_json)
    }
}

impl From<Value> for AnyAnswer {
    fn from(tree: Value) -> AnyAnswer {
        AnyAnswer(Inner::Tree(tree))
    }
}

fn another_type() -> Error {
    Error::internal("the answer is of another type")
}

fn not_json(error: serde_json::Error) -> Error {
    Error::internal("the answer is not JSON").because(error)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_the_same_json_in_every_form() {
        #[derive(Serialize)]
        struct Measured {
            cost: f64,
            count: u64,
        }
        let expected = json!({ "cost": 0.1, "count": 18_446_744_073_709_551_615_u64 });
        let typed = AnyAnswer::new(Measured { cost: 0.1, count: u64::MAX });
        for answer in [typed, AnyAnswer::from(expected.clone())] {
            let mut text = b"answer: ".to_vec();
            answer.write_to(&mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), format!("answer: {expected}"));
            assert_eq!(answer.to_tree().unwrap(), expected);
            assert_eq!(answer.into_tree().unwrap(), expected);
        }
    }
}
