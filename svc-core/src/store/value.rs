//! Values that are bound to statements and read from rows.
//!
//! The types are the same on both engines: integers and times are 64-bit, ids are UUIDs, hashed JSON is
//! canonical text.

use std::fmt;

use serde_json::Value as Json;
use uuid::Uuid;

use crate::Result;
use crate::error::Error;

/// A borrowed value for a statement's parameter.
///
/// The Debug form hides texts and bytes: the Postgres client logs every parameter, and messages or wrapped
/// keys must not be logged.
#[derive(Clone, Copy)]
pub enum Param<'a> {
    Null,
    Int(i64),
    Bool(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    Uuid(Uuid),
    /// A list of integers, as an array for `= any($n)`; Postgres only.
    Ints(&'a [i64]),
    /// A list of ids: an array for `= any($n)` on Postgres, a JSON array for `json_each($n)` on SQLite.
    Uuids(&'a [Uuid]),
}

impl fmt::Debug for Param<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => write!(f, "null"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Text(text) => write!(f, "text of {} bytes", text.len()),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Uuid(id) => write!(f, "{id}"),
            Self::Ints(numbers) => write!(f, "{numbers:?}"),
            Self::Uuids(ids) => write!(f, "{ids:?}"),
        }
    }
}

/// An owned value from a row. The Debug form hides texts and bytes, as that of [`Param`] does.
#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    /// A hash of 32 bytes, the content of most byte columns.
    Hash([u8; 32]),
    /// A UUID of 16 bytes.
    Uuid(Uuid),
}

impl Value {
    /// Copies a column's value.
    ///
    /// SQLite does not distinguish ids from other bytes, so 16 bytes are read as an id.
    pub(crate) fn from_column(column: Param<'_>) -> Self {
        match column {
            // Lists occur only as parameters.
            Param::Null | Param::Ints(_) | Param::Uuids(_) => Self::Null,
            Param::Int(number) => Self::Int(number),
            Param::Bool(truth) => Self::Bool(truth),
            Param::Text(text) => Self::Text(text.to_owned()),
            Param::Uuid(id) => Self::Uuid(id),
            Param::Bytes(bytes) => match (<[u8; 16]>::try_from(bytes), <[u8; 32]>::try_from(bytes)) {
                (Ok(id), _) => Self::Uuid(Uuid::from_bytes(id)),
                (_, Ok(hash)) => Self::Hash(hash),
                _ => Self::Bytes(bytes.to_vec()),
            },
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Int(_) => "integer",
            Self::Bool(_) => "boolean",
            Self::Text(_) => "text",
            Self::Bytes(_) | Self::Hash(_) => "bytes",
            Self::Uuid(_) => "uuid",
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.param().fmt(f)
    }
}

/// A type that can be bound to a statement's parameter.
pub trait ToParam {
    /// Returns the value to bind to the parameter.
    fn param(&self) -> Param<'_>;
}

macro_rules! to_param {
    ($($kind:ty => |$value:ident| $param:expr),* $(,)?) => {$(
        impl ToParam for $kind {
            fn param(&self) -> Param<'_> { let $value = self; $param }
        }
    )*};
}

to_param! {
    i64 => |v| Param::Int(*v),
    bool => |v| Param::Bool(*v),
    str => |v| Param::Text(v),
    String => |v| Param::Text(v),
    [u8] => |v| Param::Bytes(v),
    Vec<u8> => |v| Param::Bytes(v),
    [u8; 32] => |v| Param::Bytes(v),
    Uuid => |v| Param::Uuid(*v),
    [i64] => |v| Param::Ints(v),
    Vec<i64> => |v| Param::Ints(v),
    [Uuid] => |v| Param::Uuids(v),
    Vec<Uuid> => |v| Param::Uuids(v),
}

impl ToParam for Value {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Null => Param::Null,
            Self::Int(number) => Param::Int(*number),
            Self::Bool(truth) => Param::Bool(*truth),
            Self::Text(text) => Param::Text(text),
            Self::Bytes(bytes) => Param::Bytes(bytes),
            Self::Hash(bytes) => Param::Bytes(bytes),
            Self::Uuid(id) => Param::Uuid(*id),
        }
    }
}

impl<T: ToParam + ?Sized> ToParam for &T {
    fn param(&self) -> Param<'_> {
        (**self).param()
    }
}

impl<T: ToParam> ToParam for Option<T> {
    fn param(&self) -> Param<'_> {
        self.as_ref().map_or(Param::Null, ToParam::param)
    }
}

/// A type that can be read from a column.
pub trait FromValue: Sized {
    /// Converts the value of a column, or fails if the value is of another kind.
    fn from_value(value: Value) -> Result<Self>;
}

fn type_mismatch<T>(wanted: &str, found: &Value) -> Result<T> {
    Err(Error::internal(format!("a column holds {} where {wanted} was expected", found.type_name())))
}

impl FromValue for i64 {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Int(number) => Ok(number),
            other => type_mismatch("an integer", &other),
        }
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Bool(truth) => Ok(truth),
            Value::Int(0) => Ok(false),
            Value::Int(1) => Ok(true),
            other => type_mismatch("a boolean", &other),
        }
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Text(text) => Ok(text),
            other => type_mismatch("text", &other),
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Hash(bytes) => Ok(bytes.to_vec()),
            Value::Uuid(id) => Ok(id.as_bytes().to_vec()),
            other => type_mismatch("bytes", &other),
        }
    }
}

impl FromValue for [u8; 32] {
    fn from_value(value: Value) -> Result<Self> {
        if let Value::Hash(bytes) = value {
            return Ok(bytes);
        }
        let bytes = Vec::<u8>::from_value(value)?;
        <[u8; 32]>::try_from(bytes).map_err(|_| Error::internal("a column does not hold 32 bytes"))
    }
}

impl FromValue for Uuid {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Uuid(id) => Ok(id),
            Value::Bytes(bytes) => Uuid::from_slice(&bytes).map_err(Error::internal),
            other => type_mismatch("a UUID", &other),
        }
    }
}

impl FromValue for Json {
    fn from_value(value: Value) -> Result<Self> {
        serde_json::from_str(&String::from_value(value)?).map_err(Error::internal)
    }
}

impl FromValue for serde_json::Map<String, Json> {
    fn from_value(value: Value) -> Result<Self> {
        match Json::from_value(value)? {
            Json::Object(members) => Ok(members),
            _ => Err(Error::internal("a column holds JSON that is not an object")),
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Value) -> Result<Self> {
        match value {
            Value::Null => Ok(None),
            value => T::from_value(value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_text_and_no_bytes() {
        let shown = format!("{:?} {:?}", Param::Text("hush"), Param::Bytes(&[7, 7, 7]));
        assert_eq!(shown, "text of 4 bytes 3 bytes");
        assert_eq!(format!("{:?}", Value::Text("hush".to_owned())), "text of 4 bytes");
        assert_eq!(format!("{:?} {:?}", Value::Int(4), Param::Null), "4 null");
    }
}
