//! Requests: what a program passes to an operation that it calls by type.
//!
//! The macro `request!` declares the input of an operation and, in a module with the operation's name, the
//! request that a program builds for it. A request holds the input as JSON, so the decoder checks it like a
//! request from the network, and a call with an invalid value fails as the same JSON would.

use std::any::TypeId;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::argument::{Argument, Field};
use crate::error::{Error, Result};
use crate::op::{Input, Operation, Table};
use crate::page::{Page, Position};
use crate::spool::Upload;

/// Fails to compile unless programs can give a value for a field of type `F`.
pub(crate) const fn assert_field<F: Field>() {}

/// A type of field for a required value of type `K`: `K` itself, or `Option<K>` if the value arrives apart
/// from the JSON.
pub(crate) trait RequiredAs<K> {}

impl<K> RequiredAs<K> for K {}
impl<K> RequiredAs<K> for Option<K> {}

/// Fails to compile unless `field` is for a required value of type `K`.
pub(crate) const fn assert_required<K, F: RequiredAs<K>>(_field: &F) {}

/// A request for an operation, to be passed to a call.
///
/// Each operation has one type, which has the operation's name: [`CreateThread`](crate::api::CreateThread)
/// is the request for `create_thread`. Only this crate implements it.
pub trait Request: Serialize + Members + Send + Sync + 'static {
    /// Name of the operation, such as `create_thread`.
    const NAME: &'static str;

    /// Type of the operation's output.
    type Output: 'static;
}

/// A request for a list, which returns one page at a time.
pub trait List: Request {
    /// Type of the items.
    type Item;

    /// Returns the items of a page, and the cursor of the next page.
    #[doc(hidden)]
    fn page(output: Self::Output) -> (Vec<Self::Item>, Option<String>);
}

impl<R: Request> List for R
where
    R::Output: PagedOutput,
{
    type Item = <R::Output as PagedOutput>::Item;

    fn page(output: R::Output) -> (Vec<Self::Item>, Option<String>) {
        output.into_items_and_cursor()
    }
}

/// An output with a page of items.
#[doc(hidden)]
pub trait PagedOutput {
    /// Type of the items.
    type Item;

    /// Returns the items, and the cursor of the next page.
    fn into_items_and_cursor(self) -> (Vec<Self::Item>, Option<String>);
}

impl<T, K: Position> PagedOutput for Page<T, K> {
    type Item = T;

    fn into_items_and_cursor(self) -> (Vec<T>, Option<String>) {
        (self.items, self.next_cursor.map(String::from))
    }
}

impl Table {
    /// Returns the operation that `R` is a request for.
    pub fn operation_of<R: Request>(&self) -> Result<&Arc<Operation>> {
        let found = self.operation(R::NAME).filter(|it| it.run.output_type == TypeId::of::<R::Output>());
        found.ok_or_else(|| Error::internal(format!("the table has no operation {}", R::NAME)))
    }
}

/// Access to the fields of a request.
pub trait Members: Sized {
    /// Returns the fields that a program has set.
    #[doc(hidden)]
    fn fields(&self) -> &Fields;

    /// Returns the request for the page that begins at a cursor.
    #[doc(hidden)]
    fn at_cursor(self, cursor: String) -> Self;
}

/// The fields of a request, or of an object in it, that a program has set.
#[derive(Clone, Default, Serialize)]
#[serde(transparent)]
pub struct Fields {
    members: Map<String, Value>,
    #[serde(skip)]
    file: Option<Upload>,
}

/// Prints the names of the fields, because values can be secrets.
impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.members.keys()).finish()
    }
}

impl Fields {
    /// Sets the field `name`.
    pub(crate) fn with<F>(mut self, name: &str, value: impl Argument<F>) -> Self {
        match value.upload() {
            Some(file) => self.file = Some(file),
            None => {
                self.members.insert(name.to_owned(), value.value());
            }
        }
        self
    }

    /// Sets the field `name` to null.
    pub(crate) fn with_null(mut self, name: &str) -> Self {
        self.members.insert(name.to_owned(), Value::Null);
        self
    }

    /// Returns the fields as a JSON object.
    pub(crate) fn into_value(self) -> Value {
        Value::Object(self.members)
    }

    /// Returns the input of a call with these fields.
    pub fn input(&self) -> Result<Input> {
        let body = serde_json::to_vec(&self.members).map_err(Error::internal)?;
        Ok(Input { file: self.file.clone(), ..Input::json(body) })
    }
}

/// Declares an operation's input, and the request for the operation in a module of the same name.
///
/// `request! { struct Input { fields } operation(required: Type) clears(field => clear_field) -> Output }`.
/// The required fields are the parameters of `new`. Each field has a setter, and each field that null clears
/// has a method for that.
macro_rules! request {
    (
        $(#[$($about:tt)*])*
        $vis:vis struct $name:ident {
            $($(#[$($attribute:tt)*])* $field_vis:vis $field:ident: $type:ty,)*
        }

        $operation:ident($($required:ident: $kind:ty),*)
            $(clears($($cleared:ident => $clear:ident),*))? -> $output:ty
    ) => {
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$($about)*])*
        $vis struct $name {
            $($(#[$($attribute)*])* $field_vis $field: $type,)*
        }

        impl $crate::op::InputType<$output> for $name {
            const REQUEST: Option<$crate::op::RequestShape> = Some($crate::op::RequestShape {
                operation: stringify!($operation),
                required: &[$(stringify!($required)),*],
                fields: &[$($crate::request::wire_name!({ $(#[$($attribute)*])* } $field)),*],
                cleared: &[$($(stringify!($cleared)),*)?],
            });
        }

        #[doc = concat!("The request for `", stringify!($operation), "`.")]
        pub mod $operation {
            use super::*;

            $crate::request::builder! {
                $(#[$($about)*])*
                $name {
                    $($(#[$($attribute)*])* $field: $type,)*
                }
                new($($required: $kind),*)
                clears($($($cleared => $clear),*)?)
            }

            impl $crate::request::Request for $name {
                const NAME: &'static str = stringify!($operation);
                type Output = $output;
            }

            // The required fields have the types that the macro was given.
            const _: fn(&super::$name) = |_input| {
                $($crate::request::assert_required::<$kind, _>(&_input.$required);)*
            };
        }
    };
}

/// Declares an object within inputs, and its builder in the module `module`.
///
/// `object! { struct Object { fields } module::Builder(required: Type) for Field }`: the builder can be given
/// for a field of type `Field`, which is mostly the object itself.
macro_rules! object {
    (
        $(#[$($about:tt)*])*
        $vis:vis struct $name:ident {
            $($(#[$($attribute:tt)*])* $field_vis:vis $field:ident: $type:ty,)*
        }

        $module:ident::$builder:ident($($required:ident: $kind:ty),*) for $target:ty
    ) => {
        $(#[$($about)*])*
        $vis struct $name {
            $($(#[$($attribute)*])* $field_vis $field: $type,)*
        }

        #[doc = concat!("The object `", stringify!($builder), "`.")]
        pub mod $module {
            use super::*;

            $crate::request::builder! {
                $(#[$($about)*])*
                $builder {
                    $($(#[$($attribute)*])* $field: $type,)*
                }
                new($($required: $kind),*)
                clears()
            }

            impl $crate::argument::Field for $target {}

            impl $crate::argument::Argument<$target> for $builder {
                fn value(self) -> serde_json::Value {
                    self.0.into_value()
                }
            }

            impl $crate::argument::Argument<$target> for $target {
                fn value(self) -> serde_json::Value {
                    serde_json::to_value(self).unwrap_or_default()
                }
            }
        }
    };
}

/// Lets outputs be used like the object that they contain, whose fields are also theirs in JSON.
macro_rules! dereferences {
    ($($output:ty => $field:ident: $target:ty),+ $(,)?) => {$(
        impl std::ops::Deref for $output {
            type Target = $target;

            fn deref(&self) -> &$target {
                &self.$field
            }
        }
    )+};
}

/// Prints outputs that contain a secret by their id alone.
macro_rules! debug_without_secret {
    ($($output:ty),+ $(,)?) => {$(
        impl std::fmt::Debug for $output {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($output), "({})"), self.id)
            }
        }
    )+};
}

/// Lets outputs that contain a page be listed.
macro_rules! paged_outputs {
    ($($output:ty => $field:ident: $item:ty),+ $(,)?) => {$(
        impl $crate::request::PagedOutput for $output {
            type Item = $item;

            fn into_items_and_cursor(self) -> (Vec<$item>, Option<String>) {
                self.$field.into_items_and_cursor()
            }
        }
    )+};
}

/// Declares a JSON object that a program builds field by field.
macro_rules! builder {
    (
        $(#[$($about:tt)*])*
        $name:ident {
            $($(#[$($attribute:tt)*])* $field:ident: $type:ty,)*
        }
        new($($required:ident: $kind:ty),*)
        clears($($cleared:ident => $clear:ident),*)
    ) => {
        $crate::request::documented! {
            { $(#[$($about)*])* } []
            #[derive(Clone, Debug, serde::Serialize)]
            #[serde(transparent)]
            pub struct $name($crate::request::Fields);
        }

        impl $name {
            /// Creates the object from its required fields.
            pub fn new($($required: impl $crate::argument::Argument<$kind>),*) -> Self {
                Self(
                    $crate::request::Fields::default()
                        $(.with::<$kind>(stringify!($required), $required))*
                )
            }

            $($crate::request::documented! {
                { $(#[$($attribute)*])* } [
                    #[doc = concat!("Sets `", stringify!($field), "`.")]
                    #[doc = ""]
                ]
                #[must_use]
                pub fn $field(self, value: impl $crate::argument::Argument<$type>) -> Self {
                    let name = $crate::request::wire_name!({ $(#[$($attribute)*])* } $field);
                    Self(self.0.with::<$type>(name, value))
                }
            })*

            $(
                #[doc = concat!("Clears `", stringify!($cleared), "`.")]
                #[must_use]
                pub fn $clear(self) -> Self {
                    Self(self.0.with_null(stringify!($cleared)))
                }
            )*
        }

        $crate::request::default_without_required! { $name ($($required)*) }

        impl $crate::request::Members for $name {
            fn fields(&self) -> &$crate::request::Fields {
                &self.0
            }

            fn at_cursor(self, cursor: String) -> Self {
                Self(self.0.with::<String>("cursor", cursor))
            }
        }

        // Programs can give a value for every field.
        const _: () = {
            $($crate::request::assert_field::<$type>();)*
        };
    };
}

/// Implements `Default` for a builder without required fields.
macro_rules! default_without_required {
    ($name:ident ()) => {
        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    ($name:ident ($($required:ident)+)) => {};
}

/// Returns the name of a field on the wire, which an attribute of serde may set.
macro_rules! wire_name {
    ({} $field:ident) => { stringify!($field) };
    ({ #[serde(rename = $name:literal)] $($rest:tt)* } $field:ident) => { $name };
    ({ #[$($other:tt)*] $($rest:tt)* } $field:ident) => {
        $crate::request::wire_name!({ $($rest)* } $field)
    };
}

/// Emits an item with the doc comments among the given attributes, after those in brackets.
macro_rules! documented {
    ({} [$($kept:tt)*] $($item:tt)*) => { $($kept)* $($item)* };
    ({ #[doc = $text:literal] $($rest:tt)* } [$($kept:tt)*] $($item:tt)*) => {
        $crate::request::documented! { { $($rest)* } [$($kept)* #[doc = $text]] $($item)* }
    };
    ({ #[$($other:tt)*] $($rest:tt)* } [$($kept:tt)*] $($item:tt)*) => {
        $crate::request::documented! { { $($rest)* } [$($kept)*] $($item)* }
    };
}

pub(crate) use {
    builder, debug_without_secret, default_without_required, dereferences, documented, object, paged_outputs,
    request, wire_name,
};
