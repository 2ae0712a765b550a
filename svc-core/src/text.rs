//! Field types that carry their own limits: what they accept and what the published schema says come from the
//! same numbers, so the two cannot disagree. Lengths are in Unicode scalar values.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::store::{Param, ToParam};

/// Text of `MIN` to `MAX` characters, without NUL (which Postgres cannot store).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text<const MIN: usize, const MAX: usize>(String);

impl<const MIN: usize, const MAX: usize> Text<MIN, MAX> {
    /// Checks the length and the characters.
    pub fn new(text: String) -> Result<Self, String> {
        let length = text.chars().count();
        if length < MIN || length > MAX {
            return Err(format!("expected {MIN} to {MAX} characters, found {length}"));
        }
        if text.contains('\0') {
            return Err("the character NUL is not allowed".to_owned());
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> Deref for Text<MIN, MAX> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for Text<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Text{MIN}To{MAX}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": MIN, "maxLength": MAX})
    }
}

impl<const MIN: usize, const MAX: usize> ToParam for Text<MIN, MAX> {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

/// A name that may stand in a path or an address: lower-case letters, digits, `.`, `_` and `-`, beginning with
/// a letter or digit, at most `MAX` characters. Input is lower-cased.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Handle<const MAX: usize>(String);

impl<const MAX: usize> Handle<MAX> {
    /// Lower-cases and checks the text.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.to_lowercase();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let fits = text.len() <= MAX
            && text.starts_with(plain)
            && text.chars().all(|c| plain(c) || matches!(c, '.' | '_' | '-'));
        if fits {
            Ok(Self(text))
        } else {
            Err(format!("expected 1 to {MAX} of a-z, 0-9, '.', '_', '-', beginning with a letter or digit"))
        }
    }
}

impl<const MAX: usize> Deref for Handle<MAX> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Handle<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<const MAX: usize> JsonSchema for Handle<MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Handle{MAX}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": MAX, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"})
    }
}

impl<const MAX: usize> ToParam for Handle<MAX> {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Count<MIN, MAX> {
    /// Checks the bounds.
    pub fn new(number: i64) -> Result<Self, String> {
        if (MIN..=MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(format!("expected {MIN} to {MAX}, found {number}"))
        }
    }

    /// The number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(i64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Count{MIN}To{MAX}").into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

impl<const MIN: i64, const MAX: i64> ToParam for Count<MIN, MAX> {
    fn param(&self) -> Param<'_> {
        Param::Int(self.0)
    }
}

/// A list of at most `MAX` items without repetition of the limit at each use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Items<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Default for Items<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> Deref for Items<T, MAX> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for Items<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(deserializer)?;
        if items.len() > MAX {
            return Err(de::Error::custom(format!("expected at most {MAX} items, found {}", items.len())));
        }
        Ok(Self(items))
    }
}

impl<T: JsonSchema, const MAX: usize> JsonSchema for Items<T, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("UpTo{MAX}{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "array", "items": generator.subschema_for::<T>(), "maxItems": MAX})
    }
}

/// A field of a PATCH that can be cleared: absent keeps the value, `null` clears it, anything else sets it.
/// Always used with `#[serde(default)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The field was absent.
    #[default]
    Keep,
    /// The field was `null`.
    Clear,
    /// The field had a value.
    Set(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}

impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Patch{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
    fn _schemars_private_is_option() -> bool {
        true
    }
}

/// A field of a PATCH that cannot be cleared: absent keeps the value, `null` is refused.
/// Always used with `#[serde(default)]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// The field was absent.
    #[default]
    Keep,
    /// The field had a value.
    Set(T),
}

impl<T> Change<T> {
    /// The new value, if there is one.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Keep => None,
            Self::Set(value) => Some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::Set)
    }
}

impl<T: JsonSchema> JsonSchema for Change<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Change{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// The known name that `name` is most likely a slip of.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate));
    scored
        .filter(|(score, _)| *score > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Text as the manual's roff shows it literally.
pub(crate) fn roff(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    if text.starts_with('.') {
        shown.push_str("\\&");
    }
    for character in text.chars() {
        match character {
            '\\' => shown.push_str("\\e"),
            '-' => shown.push_str("\\-"),
            '\'' => shown.push_str("\\(aq"),
            '^' => shown.push_str("\\(ha"),
            '~' => shown.push_str("\\(ti"),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_and_stated() {
        assert!(serde_json::from_str::<Text<1, 3>>("\"äöü\"").is_ok());
        assert!(serde_json::from_str::<Text<1, 3>>("\"\"").is_err());
        assert!(serde_json::from_str::<Text<1, 3>>("\"a\\u0000\"").is_err());
        assert!(serde_json::from_str::<Count<1, 10>>("11").is_err());
        assert!(serde_json::from_str::<Items<i64, 1>>("[1,2]").is_err());
        assert_eq!(&*Handle::<8>::new("Ada").unwrap(), "ada");
        assert!(Handle::<8>::new("-ada").is_err());
        let schema = schemars::schema_for!(Text<1, 3>);
        assert_eq!(schema.get("maxLength"), Some(&3.into()));
    }

    #[test]
    fn absent_and_null_differ() {
        #[derive(Deserialize)]
        struct Input {
            #[serde(default)]
            note: Patch<String>,
            #[serde(default)]
            name: Change<String>,
        }
        let absent: Input = serde_json::from_str("{}").unwrap();
        assert_eq!((absent.note, absent.name), (Patch::Keep, Change::Keep));
        let null: Input = serde_json::from_str(r#"{"note":null}"#).unwrap();
        assert_eq!(null.note, Patch::Clear);
        assert!(serde_json::from_str::<Input>(r#"{"name":null}"#).is_err());
    }
}
