//! Encodes parameters as the types that the Postgres server inferred, and decodes the columns of results.

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use super::super::row::{Columns, Row};
use super::super::value::{Param, ToParam as _, Value};
use crate::error::{Error, Result};

/// An owned parameter, for deferred statements.
#[derive(Debug)]
pub(super) enum OwnedParam {
    Single(Value),
    Ints(Vec<i64>),
    Uuids(Vec<Uuid>),
    List(Vec<OwnedParam>),
}

impl OwnedParam {
    pub fn from_param(param: &Param<'_>) -> Self {
        Self::Single(match param {
            Param::Null => Value::Null,
            Param::Int(number) => Value::Int(*number),
            Param::Bool(truth) => Value::Bool(*truth),
            Param::Text(text) => Value::Text((*text).to_owned()),
            Param::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Param::Uuid(id) => Value::Uuid(*id),
            Param::Ints(numbers) => return Self::Ints(numbers.to_vec()),
            Param::Uuids(ids) => return Self::Uuids(ids.to_vec()),
        })
    }

    fn as_param(&self) -> Option<Param<'_>> {
        Some(match self {
            Self::Single(value) => value.param(),
            Self::Ints(numbers) => Param::Ints(numbers),
            Self::Uuids(ids) => Param::Uuids(ids),
            Self::List(_) => return None,
        })
    }
}

type EncodeResult = std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

impl ToSql for OwnedParam {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> EncodeResult {
        match (self, self.as_param()) {
            (Self::List(items), _) => items.to_sql(ty, out),
            (_, Some(param)) => param.to_sql(ty, out),
            (_, None) => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Encodes a value as the type that the server inferred for the parameter.
impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> EncodeResult {
        match (self, ty) {
            (Param::Null, _) => Ok(IsNull::Yes),
            (Param::Int(number), &Type::INT8) => number.to_sql(ty, out),
            (Param::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(ty, out),
            (Param::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Param::Bool(truth), &Type::BOOL) => truth.to_sql(ty, out),
            (Param::Text(text), _) if <&str as ToSql>::accepts(ty) => text.to_sql(ty, out),
            (Param::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            (Param::Uuid(id), &Type::UUID) => id.to_sql(ty, out),
            (Param::Ints(numbers), _) if matches!(ty.kind(), Kind::Array(_)) => numbers.to_sql(ty, out),
            (Param::Uuids(ids), _) if matches!(ty.kind(), Kind::Array(_)) => ids.to_sql(ty, out),
            (param, ty) => Err(format!("{param:?} does not fit a parameter of type {ty}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub(super) fn decode_row(row: &tokio_postgres::Row) -> Result<Row> {
    let values = (0..row.len()).map(|index| row.column(index).map(Value::from_column));
    values.collect::<Result<_>>().map(Row::new)
}

impl Columns for tokio_postgres::Row {
    fn column(&self, index: usize) -> Result<Param<'_>> {
        let ty = self.columns().get(index).map(tokio_postgres::Column::type_);
        let found = match ty {
            Some(&Type::INT8) => self.try_get::<_, Option<i64>>(index).map(|found| found.map(Param::Int)),
            Some(&Type::INT4) => self
                .try_get::<_, Option<i32>>(index)
                .map(|found| found.map(|number| Param::Int(number.into()))),
            Some(&Type::INT2) => self
                .try_get::<_, Option<i16>>(index)
                .map(|found| found.map(|number| Param::Int(number.into()))),
            Some(&Type::BOOL) => self.try_get::<_, Option<bool>>(index).map(|found| found.map(Param::Bool)),
            Some(&(Type::TEXT | Type::VARCHAR | Type::NAME)) => {
                self.try_get::<_, Option<&str>>(index).map(|found| found.map(Param::Text))
            }
            Some(&Type::BYTEA) => {
                self.try_get::<_, Option<&[u8]>>(index).map(|found| found.map(Param::Bytes))
            }
            Some(&Type::UUID) => self.try_get::<_, Option<Uuid>>(index).map(|found| found.map(Param::Uuid)),
            Some(&Type::VOID) => Ok(None),
            other => return Err(Error::internal(format!("a column of type {other:?} cannot be read"))),
        };
        found.map(|found| found.unwrap_or(Param::Null)).map_err(Error::internal)
    }
}
