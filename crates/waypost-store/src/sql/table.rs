//! Macros that turn one list of columns into everything that a table needs.
//!
//! `table!` lists the columns of a table once, each with the name of the [`Row`] method that reads it.
//! From the list it makes a macro with the column names for `select!`, the statement that stores a row, and the code
//! that reads a row and binds its values. All statements are constant strings, so both backends can prepare them once.

use waypost_core::Result;

use crate::cell::{Cell, Row};

/// A value that can be read from a row of its table.
pub(crate) trait FromRow: Sized {
    fn from_row(row: &mut Row<'_>) -> Result<Self>;
}

/// A value that can be stored as a row of its table.
pub(crate) trait ToRow {
    /// The statement that stores it.
    const PUT: &'static str;

    /// Returns the parameters of the statement.
    fn to_cells(&self) -> Result<Vec<Cell>>;
}

/// Values that replace some columns of an existing row.
pub(crate) trait ToUpdate {
    /// The statement that replaces them.
    const UPDATE: &'static str;

    /// Returns the parameters of the statement, with the primary key first.
    fn to_cells(&self, key: &str) -> Result<Vec<Cell>>;
}

/// `SELECT` with all columns of a table, in the order in which [`FromRow`] reads them.
macro_rules! select {
    ($columns:ident, $rest:literal) => {
        concat!("SELECT ", $columns!(), " FROM ", $rest)
    };
}

/// Lists the columns of a table.
///
/// `struct Task as task` reads a `Task` and defines the macro `task!()`, which returns the names of the columns. A `put`
/// statement either inserts (a row with the same key is an error) or upserts (a row with the same key is replaced in
/// place, because deleting it first would break references to it). `computed` columns are stored and not read.
macro_rules! table {
    (
        struct $type:ident as $columns:ident;
        columns { $($column:ident: $codec:ident,)* }
    ) => {
        macro_rules! $columns {
            () => {
                column_names!($($column)*)
            };
        }

        impl $crate::sql::FromRow for $type {
            fn from_row(row: &mut $crate::cell::Row<'_>) -> waypost_core::Result<Self> {
                Ok($type { $($column: row.$codec()?,)* })
            }
        }
    };
    (
        struct $type:ident as $columns:ident;
        $(#[$comment:meta])*
        pub(crate) const $put:ident: $mode:ident into $table:ident;
        key { $($key:ident: $key_codec:ident,)* }
        columns { $($column:ident: $codec:ident,)* }
        $(computed { $($computed:ident: $value:path,)* })?
    ) => {
        table! {
            struct $type as $columns, stored from $type;
            $(#[$comment])*
            pub(crate) const $put: $mode into $table;
            key { $($key: $key_codec,)* }
            columns { $($column: $codec,)* }
            $(computed { $($computed: $value,)* })?
        }
    };
    (
        struct $type:ident as $columns:ident, stored from $source:ty;
        $(#[$comment:meta])*
        pub(crate) const $put:ident: $mode:ident into $table:ident;
        key { $($key:ident: $key_codec:ident,)* }
        columns { $($column:ident: $codec:ident,)* }
        $(computed { $($computed:ident: $value:path,)* })?
    ) => {
        table! {
            struct $type as $columns;
            columns { $($key: $key_codec,)* $($column: $codec,)* }
        }

        $(#[$comment])*
        pub(crate) const $put: &str = concat!(
            "INSERT INTO ",
            stringify!($table),
            " (",
            column_names!($($key)* $($column)* $($($computed)*)?),
            ") VALUES (",
            placeholders!($($key)* $($column)* $($($computed)*)?),
            ")",
            on_conflict!($mode ($($key)*) ($($column)* $($($computed)*)?)),
        );

        impl $crate::sql::ToRow for $source {
            const PUT: &'static str = $put;

            fn to_cells(&self) -> waypost_core::Result<Vec<$crate::cell::Cell>> {
                Ok(vec![
                    $($crate::cell::to_cell!($key_codec, self.$key),)*
                    $($crate::cell::to_cell!($codec, self.$column),)*
                    $($($crate::cell::Cell::from($value(self)),)*)?
                ])
            }
        }
    };
}

/// Lists the columns that an update replaces. The primary key is parameter 1.
macro_rules! update {
    (
        $(#[$comment:meta])*
        pub(crate) const $update:ident: $table:ident by $key:ident from $source:ty;
        columns { $($column:ident: $codec:ident,)* }
        $(computed { $($computed:ident: $value:path,)* })?
    ) => {
        $(#[$comment])*
        pub(crate) const $update: &str = concat!(
            "UPDATE ",
            stringify!($table),
            " SET ",
            assignments!($($column)* $($($computed)*)?),
            " WHERE ",
            stringify!($key),
            " = ?1",
        );

        impl $crate::sql::ToUpdate for $source {
            const UPDATE: &'static str = $update;

            fn to_cells(&self, key: &str) -> waypost_core::Result<Vec<$crate::cell::Cell>> {
                Ok(vec![
                    $crate::cell::Cell::from(key),
                    $($crate::cell::to_cell!($codec, self.$column),)*
                    $($($crate::cell::Cell::from($value(self)),)*)?
                ])
            }
        }
    };
}

/// `a, b, c`.
macro_rules! column_names {
    ($first:ident $($column:ident)*) => {
        concat!(stringify!($first), $(", ", stringify!($column)),*)
    };
}

/// `?1, ?2, ?3`, one for each column.
macro_rules! placeholders {
    (@number () ($($placeholder:literal)*) ($($unused:literal)*)) => {
        concat!($($placeholder),*)
    };
    (@number ($column:ident $($rest:ident)*) ($($placeholder:literal)*) ($next:literal $($unused:literal)*)) => {
        placeholders!(@number ($($rest)*) ($($placeholder)* $next) ($($unused)*))
    };
    ($($column:ident)*) => {
        placeholders!(@number ($($column)*) () (
            "?1" ", ?2" ", ?3" ", ?4" ", ?5" ", ?6" ", ?7" ", ?8" ", ?9" ", ?10" ", ?11" ", ?12" ", ?13" ", ?14" ", ?15"
            ", ?16" ", ?17" ", ?18" ", ?19" ", ?20" ", ?21" ", ?22" ", ?23" ", ?24" ", ?25" ", ?26" ", ?27" ", ?28"
            ", ?29" ", ?30" ", ?31" ", ?32" ", ?33" ", ?34" ", ?35" ", ?36" ", ?37" ", ?38" ", ?39" ", ?40" ", ?41"
            ", ?42" ", ?43" ", ?44" ", ?45" ", ?46" ", ?47" ", ?48"
        ))
    };
}

/// `a = ?2, b = ?3`, one for each column.
macro_rules! assignments {
    (@number () ($first:ident $first_value:literal $($column:ident $value:literal)*) ($($unused:literal)*)) => {
        concat!(stringify!($first), $first_value, $(", ", stringify!($column), $value),*)
    };
    (
        @number ($column:ident $($rest:ident)*) ($($numbered:ident $value:literal)*)
        ($next:literal $($unused:literal)*)
    ) => {
        assignments!(@number ($($rest)*) ($($numbered $value)* $column $next) ($($unused)*))
    };
    ($($column:ident)*) => {
        assignments!(@number ($($column)*) () (
            " = ?2" " = ?3" " = ?4" " = ?5" " = ?6" " = ?7" " = ?8" " = ?9" " = ?10" " = ?11" " = ?12" " = ?13" " = ?14"
            " = ?15" " = ?16"
        ))
    };
}

/// The end of an upsert: replaces every column except the key. Empty for an insert.
macro_rules! on_conflict {
    (insert ($($key:ident)*) ($($column:ident)*)) => {
        ""
    };
    (upsert ($($key:ident)*) ($first:ident $($column:ident)*)) => {
        concat!(
            " ON CONFLICT (",
            column_names!($($key)*),
            ") DO UPDATE SET ",
            stringify!($first),
            " = excluded.",
            stringify!($first),
            $(", ", stringify!($column), " = excluded.", stringify!($column)),*
        )
    };
}
