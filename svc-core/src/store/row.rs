//! A row that was read. Columns are taken from left to right, in the order of the statement's select list.

use super::value::{FromValue, Value};
use crate::Result;
use crate::error::Error;

/// One row, consumed column by column.
#[derive(Debug)]
pub struct Row {
    columns: std::vec::IntoIter<Value>,
}

impl Row {
    pub(crate) fn new(columns: Vec<Value>) -> Self {
        Self { columns: columns.into_iter() }
    }

    /// Takes the next column.
    pub fn take<T: FromValue>(&mut self) -> Result<T> {
        let value =
            self.columns.next().ok_or_else(|| Error::internal("the row has fewer columns than are read"))?;
        T::from_value(value)
    }
}

/// What a whole row can be read into.
pub trait FromRow: Sized {
    /// Takes the columns it is made of.
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
