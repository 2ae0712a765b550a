//! Conversion of a program's values into the JSON of an input's fields.

use serde_json::{Map, Value};

use crate::capability::{Capabilities, Capability, CapabilitySet};
use crate::hash::ArtifactSha;
use crate::id::Id;
use crate::mailbox::DeliveryAddress;
use crate::page::{Cursor, Limit};
use crate::spool::{FileContent, Upload};
use crate::text::{Change, Count, Handle, Items, Patch, Text};
use crate::time::Time;

/// A value that a program can give for a field of type `F`.
///
/// A text is given as anything that converts into a [`String`], a number as anything that converts into an
/// `i64`, a list as an iterator, and every other value by its type. The value is checked when the request is
/// made.
pub trait Argument<F> {
    /// Returns the JSON of the value.
    #[doc(hidden)]
    fn value(self) -> Value;

    /// Returns the file, if the value is a file.
    #[doc(hidden)]
    fn upload(&self) -> Option<Upload> {
        None
    }
}

/// A type of field that programs can give a value for.
///
/// Every field of a request has such a type.
pub trait Field {}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Field for Text<MIN, MAX, LINES> {}
impl<const MAX: usize> Field for Handle<MAX> {}
impl<const MIN: i64, const MAX: i64> Field for Count<MIN, MAX> {}
impl<T: Field, const MAX: usize> Field for Items<T, MAX> {}
impl<T: Field> Field for Option<T> {}
impl<T: Field> Field for Patch<T> {}
impl<T: Field> Field for Change<T> {}

impl<V: Into<String>, const MIN: usize, const MAX: usize, const LINES: bool> Argument<Text<MIN, MAX, LINES>>
    for V
{
    fn value(self) -> Value {
        Value::String(self.into())
    }
}

impl<V: Into<String>, const MAX: usize> Argument<Handle<MAX>> for V {
    fn value(self) -> Value {
        Value::String(self.into())
    }
}

impl<V: Into<i64>, const MIN: i64, const MAX: i64> Argument<Count<MIN, MAX>> for V {
    fn value(self) -> Value {
        Value::from(self.into())
    }
}

impl<T, V, const MAX: usize> Argument<Items<T, MAX>> for V
where
    V: IntoIterator,
    V::Item: Argument<T>,
{
    fn value(self) -> Value {
        self.into_iter().map(Argument::<T>::value).collect()
    }
}

impl<T, V: Argument<T>> Argument<Option<T>> for V {
    fn value(self) -> Value {
        Argument::<T>::value(self)
    }

    fn upload(&self) -> Option<Upload> {
        Argument::<T>::upload(self)
    }
}

impl<T, V: Argument<T>> Argument<Patch<T>> for V {
    fn value(self) -> Value {
        Argument::<T>::value(self)
    }

    fn upload(&self) -> Option<Upload> {
        Argument::<T>::upload(self)
    }
}

impl<T, V: Argument<T>> Argument<Change<T>> for V {
    fn value(self) -> Value {
        Argument::<T>::value(self)
    }

    fn upload(&self) -> Option<Upload> {
        Argument::<T>::upload(self)
    }
}

impl Field for Upload {}

impl Argument<Upload> for FileContent {
    fn value(self) -> Value {
        Value::Null
    }

    fn upload(&self) -> Option<Upload> {
        Some(Upload::File(self.spooled.clone()))
    }
}

impl Argument<Upload> for Map<String, Value> {
    fn value(self) -> Value {
        Value::Object(self)
    }
}

impl Argument<Upload> for Value {
    fn value(self) -> Value {
        self
    }
}

impl Argument<Map<String, Value>> for Value {
    fn value(self) -> Value {
        self
    }
}

impl Field for Capabilities {}

impl<V: IntoIterator<Item = Capability>> Argument<Capabilities> for V {
    fn value(self) -> Value {
        self.into_iter().map(Capability::name).collect()
    }
}

impl<K> Field for Cursor<K> {}

impl<V: Into<String>, K> Argument<Cursor<K>> for V {
    fn value(self) -> Value {
        Value::String(self.into())
    }
}

impl<T: Id> Field for T {}

impl<T: Id> Argument<uuid::Uuid> for T {
    fn value(self) -> Value {
        Value::String(Into::<uuid::Uuid>::into(self).to_string())
    }
}

impl<T: Id> Argument<T> for T {
    fn value(self) -> Value {
        Value::String(Into::<uuid::Uuid>::into(self).to_string())
    }
}

/// Lets types that are encoded in JSON be given as they are.
macro_rules! arguments {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::argument::Field for $type {}
        impl $crate::argument::Argument<$type> for $type {
            fn value(self) -> serde_json::Value {
                serde_json::to_value(self).unwrap_or_default()
            }
        }
    )*};
}

/// Lets types be given as text.
macro_rules! text_arguments {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::argument::Field for $type {}
        impl<V: Into<String>> $crate::argument::Argument<$type> for V {
            fn value(self) -> serde_json::Value {
                serde_json::Value::String(self.into())
            }
        }
    )*};
}

/// Lets types be given as a number.
macro_rules! number_arguments {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::argument::Field for $type {}
        impl<V: Into<i64>> $crate::argument::Argument<$type> for V {
            fn value(self) -> serde_json::Value {
                serde_json::Value::from(self.into())
            }
        }
    )*};
}

pub(crate) use {arguments, number_arguments, text_arguments};

arguments! {
    bool,
    f64,
    Value,
    Map<String, Value>,
    uuid::Uuid,
    CapabilitySet,
    Time,
}
text_arguments! { String, ArtifactSha, DeliveryAddress }
number_arguments! { Limit }
