//! Field types that enforce their own limits.
//!
//! Validation and the published schema use the same numbers, so the two cannot disagree. Lengths are in
//! Unicode scalar values.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::store::{Param, ToParam};

/// One line of `MIN` to `MAX` characters, such as a name or a title.
///
/// The text is shown in lists, terminals and logs, so it must not contain control characters, line breaks, or
/// characters that change the direction of the surrounding text. With `LINES`, as in [`Prose`], it may
/// contain all of these.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text<const MIN: usize, const MAX: usize, const LINES: bool = false>(String);

/// Text of `MIN` to `MAX` characters on any number of lines, without NUL, which Postgres cannot store.
pub type Prose<const MIN: usize, const MAX: usize> = Text<MIN, MAX, true>;

impl<const MIN: usize, const MAX: usize, const LINES: bool> Text<MIN, MAX, LINES> {
    /// Creates the text after checking its length and characters.
    pub fn new(text: String) -> Result<Self, String> {
        let length = text.chars().count();
        if length < MIN || length > MAX {
            return Err(format!("expected {MIN} to {MAX} characters, found {length}"));
        }
        let rejected = |c: &char| if LINES { *c == '\0' } else { is_forbidden_in_line(*c) };
        match text.chars().find(rejected) {
            Some('\0') => Err("the character NUL is not allowed".to_owned()),
            Some(found) => Err(format!(
                "the character U+{:04X} is not allowed: expected one line without control characters",
                u32::from(found)
            )),
            None => Ok(Self(text)),
        }
    }

    /// Converts an external text to a valid one. Returns `None` if fewer than `MIN` characters remain.
    ///
    /// Each character that is not allowed is replaced by a space, and a text that is too long is cut.
    pub fn cut(text: &str) -> Option<Self> {
        let rejected = |c: char| if LINES { c == '\0' } else { is_forbidden_in_line(c) };
        let allowed: String =
            text.trim().chars().map(|c| if rejected(c) { ' ' } else { c }).take(MAX).collect();
        Self::new(allowed.trim().to_owned()).ok()
    }

    /// Returns a regular expression (ECMA-262) for the allowed characters.
    fn pattern() -> &'static str {
        if LINES {
            r"^[^\u0000]*$"
        } else {
            r"^[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$"
        }
    }
}

/// Returns whether `c` is a control character, a line or paragraph separator, or a bidirectional control.
fn is_forbidden_in_line(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> Deref for Text<MIN, MAX, LINES> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MIN: usize, const MAX: usize, const LINES: bool> Deserialize<'de> for Text<MIN, MAX, LINES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> JsonSchema for Text<MIN, MAX, LINES> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("{}{MIN}To{MAX}", if LINES { "Prose" } else { "Text" }).into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": MIN, "maxLength": MAX, "pattern": Self::pattern()})
    }
}

impl<const MIN: usize, const MAX: usize, const LINES: bool> ToParam for Text<MIN, MAX, LINES> {
    fn param(&self) -> Param<'_> {
        Param::Text(&self.0)
    }
}

/// A name that can be used in a path or URL.
///
/// A handle has up to `MAX` lower-case letters, digits, `.`, `_` and `-`, and begins with a letter or digit.
/// Input is converted to lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Handle<const MAX: usize>(String);

/// Prefix that only the handles of apps have.
pub(crate) const APP_HANDLES: &str = "app:";
/// Prefix that only the handles of removed people have.
pub(crate) const DELETED_HANDLES: &str = "deleted:";
/// Reserved prefixes of handles: for apps, other services and removed people. A chosen handle must not have
/// one.
const RESERVED_HANDLE_PREFIXES: [&str; 3] = [APP_HANDLES, "peer:", DELETED_HANDLES];

/// Fails if a handle, in lower case, has a reserved prefix.
pub(crate) fn check_handle_not_reserved(handle: &str) -> Result<(), String> {
    match RESERVED_HANDLE_PREFIXES.iter().find(|prefix| handle.starts_with(**prefix)) {
        None => Ok(()),
        Some(prefix) => Err(format!("handles that begin with {prefix:?} are reserved")),
    }
}

impl<const MAX: usize> Handle<MAX> {
    /// Creates the handle after converting the text to lower case and checking it.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.to_lowercase();
        check_handle_not_reserved(&text)?;
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
        json_schema!({
            "type": "string", "minLength": 1, "maxLength": MAX, "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
        })
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
    /// Creates the number after checking its bounds.
    pub fn new(number: i64) -> Result<Self, String> {
        if (MIN..=MAX).contains(&number) {
            Ok(Self(number))
        } else {
            Err(format!("expected {MIN} to {MAX}, found {number}"))
        }
    }

    /// Returns the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(deserializer.deserialize_i64(WholeNumber)?).map_err(de::Error::custom)
    }
}

/// A visitor that reads a whole number in any JSON notation. JSON has one kind of number, so `24.0` is 24.
struct WholeNumber;

/// 2^53, up to which a double represents every whole number exactly.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;

impl de::Visitor<'_> for WholeNumber {
    type Value = i64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(|_| E::custom(format!("the number {number} is too large")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<i64, E> {
        if number.fract() != 0.0 || number.abs() > EXACT_DOUBLES {
            return Err(E::custom(format!("expected a whole number, found {number}")));
        }
        // The number is formatted without a fraction and parsed again, because a cast from a float reports no
        // failure.
        format!("{number:.0}").parse().map_err(E::custom)
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

/// Returns the schema with a description, which applies to fields of the type without a doc comment.
pub(crate) fn described(mut schema: Schema, description: impl Into<String>) -> Schema {
    schema.insert("description".to_owned(), description.into().into());
    schema
}

/// A list of up to `MAX` items. The type checks the limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Items<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> Items<T, MAX> {
    /// Drops the items for which `keep` returns false.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }

    /// Converts each item with `change`. Fails with the first error that `change` returns.
    pub(crate) fn try_map<U, E>(self, change: impl FnMut(T) -> Result<U, E>) -> Result<Items<U, MAX>, E> {
        self.0.into_iter().map(change).collect::<Result<_, E>>().map(Items)
    }
}

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

/// Keyword in the schema of a field in which null has a meaning.
pub(crate) const NULL_CLEARS: &str = "x-null-clears";

/// A field of a PATCH that can be cleared: absent keeps the value, `null` clears it, any other value replaces
/// it.
///
/// Always use this type with `#[serde(default)]`, and with `skip_serializing_if` if it is encoded.
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

impl<T> Patch<T> {
    /// Returns whether the field was absent.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Keep | Self::Clear => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
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
        let mut schema = Option::<T>::json_schema(generator);
        schema.insert(NULL_CLEARS.to_owned(), true.into());
        schema
    }
    fn _schemars_private_is_option() -> bool {
        true
    }
}

/// A field of a PATCH that cannot be cleared: absent keeps the value.
///
/// The decoder of inputs treats `null` as absent. Always use this type with `#[serde(default)]`, and with
/// `skip_serializing_if` if it is encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Change<T> {
    /// The field was absent.
    #[default]
    Keep,
    /// The field had a value.
    Set(T),
}

impl<T> Change<T> {
    /// Returns the new value, or `None` if the field was absent.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Keep => None,
            Self::Set(value) => Some(value),
        }
    }

    /// Returns whether the field was absent.
    pub fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }
}

impl<T: Serialize> Serialize for Change<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.get().serialize(serializer)
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

/// Returns the length of a text, in characters.
pub(crate) fn characters(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

/// Maximum characters of the caller's input that an error message repeats.
const ECHO_MAX_CHARS: usize = 200;

/// Shortens the caller's input for an error message by cutting off the end of a long text.
pub fn echo(sent: &str) -> Cow<'_, str> {
    match sent.char_indices().nth(ECHO_MAX_CHARS).and_then(|(end, _)| sent.get(..end)) {
        Some(beginning) => Cow::Owned(format!("{beginning}...")),
        None => Cow::Borrowed(sent),
    }
}

/// Prefix of the secrets that the service issues.
pub(crate) const SECRET_PREFIX: &str = "svc_";
/// Minimum characters after the prefix for a text to count as a secret. Names such as `svc_session` are
/// shorter.
const SECRET_MIN_CHARS: usize = 24;

/// Removes secrets from a message.
///
/// Callers may send a secret in the wrong field or path, and problems are logged.
pub(crate) fn redact_secrets(message: Cow<'static, str>) -> Cow<'static, str> {
    if !message.contains(SECRET_PREFIX) {
        return message;
    }
    let mut kept = String::with_capacity(message.len());
    let mut rest: &str = &message;
    while let Some((before, after)) = rest.split_once(SECRET_PREFIX) {
        let is_of_secret = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let end = after.find(|c| !is_of_secret(c)).unwrap_or(after.len());
        kept.push_str(before);
        kept.push_str(SECRET_PREFIX);
        rest = after;
        if end >= SECRET_MIN_CHARS {
            kept.push_str("...");
            rest = after.get(end..).unwrap_or_default();
        }
    }
    kept.push_str(rest);
    kept.into()
}

/// Shortens a message from another library, which may quote a long input, to its beginning and its end.
pub(crate) fn shortened(message: Cow<'static, str>) -> Cow<'static, str> {
    if message.len() <= MESSAGE_MAX_BYTES {
        return message;
    }
    let beginning = message.floor_char_boundary(ECHO_MAX_CHARS);
    let end = message.len().saturating_sub(ECHO_MAX_CHARS);
    let parts = message.get(..beginning).zip(message.get(message.ceil_char_boundary(end)..));
    parts.map(|(beginning, end)| format!("{beginning} ... {end}")).unwrap_or_default().into()
}

/// Maximum bytes of a message that is not shortened. Only messages that repeat long input exceed this number.
const MESSAGE_MAX_BYTES: usize = 2000;

/// Maximum characters of a name for which a similar one is searched, because the cost grows with the length.
const NEAREST_MAX_CHARS: usize = 64;

/// Returns the known name that `name` is most likely a misspelling of.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if name.chars().nth(NEAREST_MAX_CHARS).is_some() {
        return None;
    }
    let scored = known.iter().map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate));
    scored
        .filter(|(score, _)| *score > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked_and_published() {
        assert!(serde_json::from_str::<Text<1, 3>>("\"äöü\"").is_ok());
        assert!(serde_json::from_str::<Text<1, 3>>("\"\"").is_err());
        assert!(serde_json::from_str::<Count<1, 10>>("11").is_err());
        assert!(serde_json::from_str::<Items<i64, 1>>("[1,2]").is_err());
        assert_eq!(&*Handle::<8>::new("Ada").unwrap(), "ada");
        assert!(Handle::<8>::new("-ada").is_err());
        for reserved in ["app:ada", "App:ada", "peer:", "PEER:a"] {
            assert!(Handle::<64>::new(reserved).unwrap_err().contains("reserved"), "{reserved}");
        }
        let schema = schemars::schema_for!(Text<1, 3>);
        assert_eq!(schema.get("maxLength"), Some(&3.into()));
    }

    #[test]
    fn a_whole_number_may_be_written_as_any_json_number() {
        let read = |text: &str| serde_json::from_str::<Count<-100, { i64::MAX }>>(text).map(Count::get);
        for (text, number) in [("24.0", 24), ("2.4e1", 24), ("-0.0", 0), ("9223372036854775807", i64::MAX)] {
            assert_eq!(read(text).unwrap(), number, "{text}");
        }
        for bad in ["24.5", "1e300", "18446744073709551615", "\"24\"", "true", "null"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_message_repeats_no_secret() {
        let secret = format!("svc_{}", "aB3-_".repeat(9));
        for (message, wanted) in [
            (format!("invalid type: string \"{secret}\", expected a map"), "string \"svc_...\", expected"),
            (format!("no route /x/{secret}/y"), "/x/svc_.../y"),
            (format!("{secret} svc_share_{secret}"), "svc_... svc_..."),
            ("svc_session is a cookie".to_owned(), "svc_session is"),
        ] {
            let kept = redact_secrets(message.clone().into());
            assert!(kept.contains(wanted) && !kept.contains("aB3"), "{message}: {kept}");
        }
    }

    #[test]
    fn one_line_has_no_control_characters_and_prose_may() {
        let controls = (0..0x20).chain(0x7f..=0x9f).filter_map(char::from_u32);
        let directions =
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        for rejected in controls.chain(directions.chars()).chain(['\u{2028}', '\u{2029}']) {
            let text = format!("a{rejected}b");
            assert!(Text::<1, 9>::new(text.clone()).is_err(), "U+{:04X}", u32::from(rejected));
            assert_eq!(Prose::<1, 9>::new(text).is_ok(), rejected != '\0', "U+{:04X}", u32::from(rejected));
        }
        for good in ["naïve — 日本", "שלום", "👩\u{200d}🚀", "\u{a0}\u{200b}"] {
            assert!(Text::<1, 20>::new(good.to_owned()).is_ok(), "{good}");
        }
        let message = Text::<1, 9>::new("\u{1b}[31m".to_owned()).unwrap_err();
        assert!(message.contains("U+001B"), "{message}");
    }

    #[test]
    fn what_others_have_written_is_cut_to_size() {
        let external = |text: &str| Text::<1, 4>::cut(text).as_deref().map(str::to_owned);
        for (text, wanted) in [
            ("ada", Some("ada")),
            ("  ada  ", Some("ada")),
            ("äöüßä", Some("äöüß")),
            ("abc def", Some("abc")),
            ("a\nb", Some("a b")),
            ("\u{202e}ada\0", Some("ada")),
            ("", None),
            (" \t", None),
        ] {
            assert_eq!(external(text).as_deref(), wanted, "{text:?}");
        }
    }

    #[test]
    fn long_input_is_repeated_in_part() {
        assert_eq!(echo("näme"), "näme");
        let long = "ä".repeat(100_000);
        assert_eq!(echo(&long).chars().count(), ECHO_MAX_CHARS + 3);
        assert_eq!(echo(&long[..2 * ECHO_MAX_CHARS]).chars().count(), ECHO_MAX_CHARS);
        let message = shortened(format!("`name`: {long}, expected a number").into());
        assert!(message.len() < 2 * ECHO_MAX_CHARS + 10 && message.starts_with("`name`: ä"), "{message}");
        assert!(message.ends_with("ä, expected a number"), "{message}");
        assert_eq!(shortened("short".into()), "short");
    }

    #[test]
    fn only_short_names_get_a_suggestion() {
        assert_eq!(nearest("limitt", &["limit", "tag"]), Some("limit"));
        assert_eq!(nearest(&"limit".repeat(20), &["limitlimitlimit"]), None);
    }

    #[test]
    fn absent_and_null_differ() {
        #[derive(Deserialize)]
        struct Input {
            #[serde(default, skip_serializing_if = "Patch::is_keep")]
            note: Patch<String>,
            #[serde(default, skip_serializing_if = "Change::is_keep")]
            name: Change<String>,
        }
        let absent: Input = serde_json::from_str("{}").unwrap();
        assert_eq!((absent.note, absent.name), (Patch::Keep, Change::Keep));
        let null: Input = serde_json::from_str(r#"{"note":null}"#).unwrap();
        assert_eq!(null.note, Patch::Clear);
        assert!(serde_json::from_str::<Input>(r#"{"name":null}"#).is_err());
    }
}
