//! Values on their way to a database and back, of the four kinds that every one of them has.

use serde::Serialize;
use serde::de::DeserializeOwned;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};

/// One value of a row, or of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::Text(text.clone())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Int(i64::from(number))
    }
}

impl From<i32> for Cell {
    fn from(number: i32) -> Cell {
        Cell::Int(i64::from(number))
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Int(number)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Real(number)
    }
}

impl From<bool> for Cell {
    fn from(is: bool) -> Cell {
        Cell::Int(i64::from(is))
    }
}

impl From<Timestamp> for Cell {
    fn from(moment: Timestamp) -> Cell {
        Cell::Int(moment.as_millis())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// What is stored as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<Cell> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::internal("something to be stored is not JSON").because(error))?;
    Ok(Cell::Text(text))
}

/// Makes the parameters of a statement.
macro_rules! cells {
    ($($value:expr),* $(,)?) => {
        &[$($crate::cell::Cell::from($value)),*]
    };
}

pub(crate) use cells;

/// A row, read from its first column to its last.
pub(crate) struct Row {
    cells: std::vec::IntoIter<Cell>,
    column: usize,
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Row {
        Row { cells: cells.into_iter(), column: 0 }
    }

    fn next(&mut self) -> Cell {
        self.column += 1;
        self.cells.next().unwrap_or(Cell::Null)
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> Error {
        Error::damaged(format!("column {} of a row cannot be read", self.column)).because(why)
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.maybe_text()?.ok_or_else(|| self.unreadable("it is empty"))
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>> {
        match self.next() {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(text)),
            other => Err(self.unreadable(format!("{other:?} is not a text"))),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.maybe_int()?.ok_or_else(|| self.unreadable("it is empty"))
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>> {
        match self.next() {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(number)),
            other => Err(self.unreadable(format!("{other:?} is not a whole number"))),
        }
    }

    pub(crate) fn maybe_real(&mut self) -> Result<Option<f64>> {
        match self.next() {
            Cell::Null => Ok(None),
            Cell::Real(number) => Ok(Some(number)),
            other => Err(self.unreadable(format!("{other:?} is not a number"))),
        }
    }

    /// A whole number of a smaller type.
    pub(crate) fn number<T: TryFrom<i64, Error: std::fmt::Display>>(&mut self) -> Result<T> {
        let number = self.int()?;
        T::try_from(number).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn maybe_number<T: TryFrom<i64, Error: std::fmt::Display>>(&mut self) -> Result<Option<T>> {
        let number = self.maybe_int()?;
        number.map(T::try_from).transpose().map_err(|error| self.unreadable(error))
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.int()? != 0)
    }

    pub(crate) fn moment(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    pub(crate) fn maybe_moment(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp::from_millis))
    }

    /// An id, or a word of a closed list.
    pub(crate) fn parsed<T: std::str::FromStr<Err = Error>>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().map_err(|error: Error| self.unreadable(error))
    }

    pub(crate) fn maybe_parsed<T: std::str::FromStr<Err = Error>>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_text()?;
        text.map(|text| text.parse()).transpose().map_err(|error: Error| self.unreadable(error))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_text()?;
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| self.unreadable(error))
    }
}
