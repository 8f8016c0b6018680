//! Values on their way to a database and back, of the four types that every database has.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result, path_text};

/// One value of a row, or one parameter of a statement.
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
    fn from(flag: bool) -> Cell {
        Cell::Int(i64::from(flag))
    }
}

impl From<Timestamp> for Cell {
    fn from(time: Timestamp) -> Cell {
        Cell::Int(time.as_millis())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// Returns a value as JSON text.
pub(crate) fn json(value: &impl Serialize) -> Result<Cell> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::internal("a value cannot be stored as JSON").because(error))?;
    Ok(Cell::Text(text))
}

/// Makes the parameters of a statement.
macro_rules! cells {
    ($($value:expr),* $(,)?) => {
        &[$($crate::cell::Cell::from($value)),*]
    };
}

/// Makes a parameter of a field, by the name of the [`Row`] method that reads it.
macro_rules! to_cell {
    (text, $value:expr) => {
        $crate::cell::Cell::from(AsRef::<str>::as_ref(&$value))
    };
    (maybe_text, $value:expr) => {
        $crate::cell::Cell::from($value.as_deref())
    };
    (parsed, $value:expr) => {
        $crate::cell::Cell::from($value.as_str())
    };
    (maybe_parsed, $value:expr) => {
        $value.as_ref().map_or($crate::cell::Cell::Null, |value| $crate::cell::Cell::from(value.as_str()))
    };
    (json, $value:expr) => {
        $crate::cell::json(&$value)?
    };
    (maybe_json, $value:expr) => {
        $value.as_ref().map($crate::cell::json).transpose()?.unwrap_or($crate::cell::Cell::Null)
    };
    (path, $value:expr) => {
        $crate::cell::Cell::from(waypost_core::path_text::to_text(&$value))
    };
    (maybe_path, $value:expr) => {
        $crate::cell::Cell::from($value.as_deref().map(waypost_core::path_text::to_text))
    };
    // Numbers, flags and times.
    ($codec:ident, $value:expr) => {
        $crate::cell::Cell::from($value)
    };
}

pub(crate) use {cells, to_cell};

/// A value of a row that a database still holds.
#[derive(Debug)]
pub(crate) enum CellRef<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a str),
}

/// The values of a row, by the position of their columns.
pub(crate) trait Columns {
    /// Returns a value, or the reason why it cannot be read.
    fn get(&self, column: usize) -> Result<CellRef<'_>, String>;
}

impl Columns for Vec<Cell> {
    fn get(&self, column: usize) -> Result<CellRef<'_>, String> {
        match self.as_slice().get(column).ok_or("it is missing")? {
            Cell::Null => Ok(CellRef::Null),
            Cell::Int(number) => Ok(CellRef::Int(*number)),
            Cell::Real(number) => Ok(CellRef::Real(*number)),
            Cell::Text(text) => Ok(CellRef::Text(text)),
        }
    }
}

/// A row, read from its first column to its last.
pub(crate) struct Row<'a> {
    columns: &'a dyn Columns,
    column: usize,
}

impl<'a> Row<'a> {
    pub(crate) fn new(columns: &'a dyn Columns) -> Row<'a> {
        Row { columns, column: 0 }
    }

    fn next(&mut self) -> Result<CellRef<'a>> {
        self.column += 1;
        self.columns.get(self.column - 1).map_err(|reason| self.unreadable(reason))
    }

    fn unreadable(&self, reason: impl std::fmt::Display) -> Error {
        Error::damaged(format!("column {} of a row cannot be read", self.column))
            .because(reason)
            .hint("way doctor says more")
    }

    fn str(&mut self) -> Result<&'a str> {
        self.maybe_str()?.ok_or_else(|| self.unreadable("it is empty"))
    }

    fn maybe_str(&mut self) -> Result<Option<&'a str>> {
        match self.next()? {
            CellRef::Null => Ok(None),
            CellRef::Text(text) => Ok(Some(text)),
            other => Err(self.unreadable(format!("{other:?} is not a text"))),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.str().map(str::to_owned)
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>> {
        Ok(self.maybe_str()?.map(str::to_owned))
    }

    /// Reads a path that [`path_text`] encoded.
    pub(crate) fn path(&mut self) -> Result<PathBuf> {
        Ok(path_text::from_text(self.str()?))
    }

    pub(crate) fn maybe_path(&mut self) -> Result<Option<PathBuf>> {
        Ok(self.maybe_str()?.map(path_text::from_text))
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.maybe_int()?.ok_or_else(|| self.unreadable("it is empty"))
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>> {
        match self.next()? {
            CellRef::Null => Ok(None),
            CellRef::Int(number) => Ok(Some(number)),
            other => Err(self.unreadable(format!("{other:?} is not an integer"))),
        }
    }

    pub(crate) fn maybe_real(&mut self) -> Result<Option<f64>> {
        match self.next()? {
            CellRef::Null => Ok(None),
            CellRef::Real(number) => Ok(Some(number)),
            other => Err(self.unreadable(format!("{other:?} is not a number"))),
        }
    }

    /// Reads an integer of a smaller type.
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

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    pub(crate) fn maybe_timestamp(&mut self) -> Result<Option<Timestamp>> {
        Ok(self.maybe_int()?.map(Timestamp::from_millis))
    }

    /// Reads an id or an enum value.
    pub(crate) fn parsed<T: std::str::FromStr<Err = Error>>(&mut self) -> Result<T> {
        let text = self.str()?;
        text.parse().map_err(|error: Error| self.unreadable(error))
    }

    pub(crate) fn maybe_parsed<T: std::str::FromStr<Err = Error>>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_str()?;
        text.map(str::parse).transpose().map_err(|error: Error| self.unreadable(error))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T> {
        let text = self.str()?;
        serde_json::from_str(text).map_err(|error| self.unreadable(error))
    }

    pub(crate) fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let text = self.maybe_str()?;
        text.map(serde_json::from_str).transpose().map_err(|error| self.unreadable(error))
    }
}

/// Reads a row of one column, an id or an enum value.
pub(crate) fn one_parsed<T: std::str::FromStr<Err = Error>>(row: &mut Row<'_>) -> Result<T> {
    row.parsed()
}

/// Reads a row of one column, a number.
pub(crate) fn one_number<T: TryFrom<i64, Error: std::fmt::Display>>(row: &mut Row<'_>) -> Result<T> {
    row.number()
}
