//! Rows of a foreign database as plain values.
//!
//! The store reads them from another program's file; `waypost-import` makes workflows of them. Neither depends on the other.

use std::collections::BTreeMap;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// Nothing.
    Null,
    /// A whole number.
    Int(i64),
    /// Another number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One row, by column.
pub type Row = BTreeMap<String, Datum>;

/// The rows of tables, by table.
pub type Tables = BTreeMap<String, Vec<Row>>;
