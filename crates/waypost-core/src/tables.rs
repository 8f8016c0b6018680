//! Rows of a foreign database as plain values.
//!
//! `waypost-store` reads the rows from another program's file, and `waypost-import` converts them to workflows. Neither
//! crate depends on the other.

use std::collections::BTreeMap;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One row: values by column name.
pub type Row = BTreeMap<String, Datum>;

/// Rows by table name.
pub type Tables = BTreeMap<String, Vec<Row>>;
