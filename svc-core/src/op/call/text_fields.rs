//! Decodes text fields of a path or a query. The target type determines how a text is parsed.

use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::error::Error;
use crate::op::call::faults::{self, Fault};
use crate::text::echo;

/// The reason why an input was rejected, as a message for the caller.
#[derive(Debug)]
pub(super) struct DecodeError {
    /// Path of the rejected field, or `None` if the fault concerns the whole input.
    pub field: Option<String>,
    pub detail: String,
}

impl DecodeError {
    pub fn new(detail: impl Into<String>) -> Self {
        Self { field: None, detail: detail.into() }
    }

    /// Creates the error of the rejected field `field`.
    pub fn in_field(field: &str, error: impl std::fmt::Display) -> Self {
        Self { field: Some(field.to_owned()), detail: error.to_string() }
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.field {
            Some(field) => write!(f, "`{}`: {}", echo(field), self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        match error.field {
            Some(field) => faults::malformed_input(&[Fault::new(&field, error.detail)]),
            None => Self::malformed(error.detail),
        }
    }
}

/// All texts of one field. A list has one text per item.
pub(super) type Texts<'r> = Vec<&'r str>;

/// A text field, which the target type parses.
///
/// Numbers are read as 64-bit integers; the type checks the range.
pub(super) struct TextValue<'r>(pub Texts<'r>);

impl<'r> TextValue<'r> {
    /// Returns the only text of the field. Fails if the field occurs more than once.
    pub fn single_text(self) -> Result<&'r str, DecodeError> {
        let mut texts = self.0.into_iter();
        match (texts.next(), texts.next()) {
            (Some(text), None) => Ok(text),
            _ => Err(DecodeError::new("given more than once")),
        }
    }

    fn parse<T: std::str::FromStr>(self, expected: &str) -> Result<T, DecodeError> {
        let text = self.single_text()?;
        text.parse().map_err(|_| DecodeError::new(format!("expected {expected}, found \"{}\"", echo(text))))
    }
}

macro_rules! parse_numbers {
    ($($method:ident => $visit:ident: $number:ty, $expected:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            visitor.$visit(self.parse::<$number>($expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for TextValue<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_str(self.single_text()?)
    }

    parse_numbers! {
        deserialize_bool => visit_bool: bool, "true or false";
        deserialize_i8 => visit_i64: i64, "a whole number";
        deserialize_i16 => visit_i64: i64, "a whole number";
        deserialize_i32 => visit_i64: i64, "a whole number";
        deserialize_i64 => visit_i64: i64, "a whole number";
        deserialize_u8 => visit_u64: u64, "a whole number";
        deserialize_u16 => visit_u64: u64, "a whole number";
        deserialize_u32 => visit_u64: u64, "a whole number";
        deserialize_u64 => visit_u64: u64, "a whole number";
        deserialize_f32 => visit_f64: f64, "a number";
        deserialize_f64 => visit_f64: f64, "a number";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_enum(self.single_text()?.into_deserializer())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_seq(TextItems(self.0.into_iter()))
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A repeated text field, decoded as a list.
struct TextItems<'r>(std::vec::IntoIter<&'r str>);

impl<'de> SeqAccess<'de> for TextItems<'_> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        self.0.next().map(|text| seed.deserialize(TextValue(vec![text]))).transpose()
    }
}
