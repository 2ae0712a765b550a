//! Enums whose variants have one-word names, which are the same on the wire and in the database.

/// Declares an enum whose variants have the same names on the wire and in the database.
///
/// `named_enum! { /// How urgent it is. pub(crate) enum Severity { Minor = "minor", Major = "major" } }`.
macro_rules! named_enum {
    ($(#[$meta:meta])* $scope:vis enum $name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[derive(schemars::JsonSchema)]
        $(#[$meta])*
        $scope enum $name { $(#[serde(rename = $word)] $variant),+ }

        $crate::argument::arguments! { $name }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the name of the variant on the wire and in the database.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::store::ToParam for $name {
            fn param(&self) -> $crate::store::Param<'_> {
                $crate::store::Param::Text(self.name())
            }
        }

        impl $crate::store::FromValue for $name {
            fn from_value(value: $crate::store::Value) -> $crate::Result<Self> {
                let word: String = $crate::store::FromValue::from_value(value)?;
                Self::ALL.iter().copied().find(|known| known.name() == word).ok_or_else(|| {
                    $crate::Error::internal(format!(concat!(stringify!($name), ": unknown word {}"), word))
                })
            }
        }
    };
}
pub(crate) use named_enum;

#[cfg(test)]
mod tests {
    use crate::store::{FromValue as _, Value};

    named_enum! {
        /// A traffic light.
        enum Light { Red = "red", AmberToo = "amber_too" }
    }

    #[test]
    fn a_variant_has_one_name_everywhere() {
        for light in Light::ALL {
            assert_eq!(serde_json::to_value(light).unwrap(), light.name());
            assert_eq!(serde_json::from_value::<Light>(light.name().into()).unwrap(), *light);
            assert_eq!(Light::from_value(Value::Text(light.name().to_owned())).unwrap(), *light);
        }
        assert!(Light::from_value(Value::Text("green".to_owned())).is_err());
    }
}
