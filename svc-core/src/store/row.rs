//! A row that was read from the database.
//!
//! Columns are taken from left to right, in the order of the statement's select list. Code that reads
//! millions of rows borrows their columns instead of copying them.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::value::{FromValue, Param, Value};
use crate::Result;
use crate::error::Error;
use crate::limits::ROW_BYTES;

/// One row of a result, consumed column by column.
#[derive(Debug)]
pub struct Row {
    columns: std::vec::IntoIter<Value>,
}

impl Row {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self { columns: columns.into_iter() }
    }

    /// Removes the next column and returns its value. Fails if no column remains or the value has another
    /// type.
    pub fn take<T: FromValue>(&mut self) -> Result<T> {
        let value =
            self.columns.next().ok_or_else(|| Error::internal("the row has fewer columns than are read"))?;
        T::from_value(value)
    }

    /// Returns the weight of the row in a read limited by bytes: the length of its texts and byte strings,
    /// plus [`ROW_BYTES`].
    pub(crate) fn weight(&self) -> usize {
        let bytes_of = |value: &Value| match value {
            Value::Null | Value::Int(_) | Value::Bool(_) => 0,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Hash(bytes) => bytes.len(),
            Value::Uuid(id) => id.as_bytes().len(),
        };
        self.columns.as_slice().iter().map(bytes_of).fold(ROW_BYTES, usize::saturating_add)
    }
}

/// A borrowed row, whose columns are not copied.
///
/// Columns are counted from 0. If a column contains a value of another kind than requested, the result is
/// `None`.
pub(crate) trait Columns {
    /// Returns the value of a column of any kind.
    fn column(&self, index: usize) -> Result<Param<'_>>;

    /// Returns the integer at a column.
    fn int(&self, index: usize) -> Option<i64> {
        match self.column(index) {
            Ok(Param::Int(number)) => Some(number),
            _ => None,
        }
    }

    /// Returns the text at a column.
    fn text(&self, index: usize) -> Option<&str> {
        match self.column(index) {
            Ok(Param::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the hash of 32 bytes at a column.
    fn hash(&self, index: usize) -> Option<[u8; 32]> {
        match self.column(index) {
            Ok(Param::Bytes(bytes)) => bytes.try_into().ok(),
            _ => None,
        }
    }

    /// Returns the id at a column, where the inner `None` means null.
    fn id(&self, index: usize) -> Option<Option<Uuid>> {
        match self.column(index) {
            Ok(Param::Null) => Some(None),
            Ok(Param::Uuid(id)) => Some(Some(id)),
            Ok(Param::Bytes(bytes)) => Uuid::from_slice(bytes).ok().map(Some),
            _ => None,
        }
    }
}

/// A function that visits the rows of a statement one by one, and returns whether to continue.
pub(crate) type Visitor<'v> = &'v mut dyn FnMut(&dyn Columns) -> ControlFlow<()>;

/// A type that can be read from an entire row.
pub trait FromRow: Sized {
    /// Reads the value from the next columns of the row.
    fn from_row(row: &mut Row) -> Result<Self>;
}

impl<T: FromValue> FromRow for (T,) {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok((row.take()?,))
    }
}

macro_rules! tuple_from_row {
    ($($name:ident),+) => {
        impl<$($name: FromValue),+> FromRow for ($($name,)+) {
            fn from_row(row: &mut Row) -> Result<Self> { Ok(($(row.take::<$name>()?,)+)) }
        }
    };
}

tuple_from_row!(A, B);
tuple_from_row!(A, B, C);
tuple_from_row!(A, B, C, D);
tuple_from_row!(A, B, C, D, E);
tuple_from_row!(A, B, C, D, E, F);
