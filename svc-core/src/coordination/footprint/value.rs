//! Footprints as callers write them: the items of a repository, and the slots, that a thread will touch.
//!
//! An item is normalised when it is parsed, so that equal items have equal values. Nothing here reads the
//! database.

use std::borrow::Cow;
use std::collections::HashSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::names::{self, INVISIBLE, ItemKind, slot_key};
use super::repo::{Repo, RepoKey};
use crate::error::{Error, Result};
use crate::limits::{FOOTPRINT_ITEM_MAX, FOOTPRINT_ITEMS_MAX};
use crate::request::object;
use crate::schema::brief;
use crate::text::{Items, Text, described};

/// Whether a footprint may overlap the footprints of other claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum FootprintMode {
    #[default]
    Exclusive,
    Shared,
}

crate::argument::arguments! { FootprintMode }

impl FootprintMode {
    /// Returns the mode's name on the wire and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

/// A footprint item: a file, folder or resource that a thread will touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "SentItem")]
#[non_exhaustive]
pub struct FootprintItem {
    pub kind: ItemKind,
    pub value: String,
}

impl FootprintItem {
    /// Returns the slot key of an item that is a slot, or `None` for any other item.
    pub fn slot_key(&self) -> Option<String> {
        (self.kind == ItemKind::Slot).then(|| slot_key(&self.value))
    }
}

object! {
    /// An unchecked item in a request.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SentItem {
        kind: ItemKind,
        value: Text<1, FOOTPRINT_ITEM_MAX>,
    }

    new_item::NewFootprintItem(kind: ItemKind, value: Text<1, FOOTPRINT_ITEM_MAX>) for FootprintItem
}

impl TryFrom<SentItem> for FootprintItem {
    type Error = String;

    fn try_from(SentItem { kind, value }: SentItem) -> Result<Self, String> {
        let value = names::parse_name(kind, &value)?;
        Ok(Self { kind, value })
    }
}

/// An item from the database, possibly in a form that callers can no longer send.
#[derive(Deserialize)]
pub(super) struct StoredItem(SentItem);

impl TryFrom<StoredItem> for FootprintItem {
    type Error = String;

    fn try_from(StoredItem(SentItem { kind, value }): StoredItem) -> Result<Self, String> {
        Ok(Self { kind, value: names::parse_stored_name(kind, &value)? })
    }
}

/// The name of a slot, in the form that footprint items have.
#[derive(Debug, Serialize, Deserialize)]
#[serde(try_from = "Text<1, FOOTPRINT_ITEM_MAX>")]
pub struct SlotName(String);

crate::argument::text_arguments! { SlotName }

impl TryFrom<Text<1, FOOTPRINT_ITEM_MAX>> for SlotName {
    type Error = String;

    fn try_from(sent: Text<1, FOOTPRINT_ITEM_MAX>) -> Result<Self, String> {
        names::parse_name(ItemKind::Slot, &sent).map(Self)
    }
}

impl std::ops::Deref for SlotName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for SlotName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "SlotName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        name_schema()
    }
}

/// Returns the schema of a single-line name without invisible characters and without spaces at its ends.
fn name_schema() -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": FOOTPRINT_ITEM_MAX,
        "pattern": format!(r"^[^\s{INVISIBLE}](?:[^{INVISIBLE}]*[^\s{INVISIBLE}])?$"),
    })
}

/// Returns an ECMA-262 regular expression for the values that a path or glob item may have.
///
/// Each segment is any text except `..`, without invisible characters.
fn path_pattern() -> String {
    let any = format!(r"[^/\\{INVISIBLE}]");
    let no_dot = format!(r"[^/.\\{INVISIBLE}]");
    let part = format!(r"(?:{no_dot}{any}*|\.(?:{no_dot}{any}*)?|\.\.{any}+)");
    format!("^/*(?:{part}(?:/+{part})*/*)?$")
}

impl JsonSchema for FootprintItem {
    fn schema_name() -> Cow<'static, str> {
        "FootprintItem".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let value = described(
            name_schema(),
            "Overlaps only an equal value; case matters, except for a slot. A branch is a name that git \
             check-ref-format accepts; a leading refs/heads/ is removed.",
        );
        json_schema!({
            "description": "A path, glob, lane, crate, branch or slot that a thread will touch. It is stored \
                            in Unicode's form NFC; blanks at its ends and invisible characters are rejected.",
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "kind": {
                            "type": "string", "enum": ["lane", "crate", "branch", "slot"],
                            "description": "Kind of the item. A slot is a resource of the workspace, \
                                            regardless of the repository; case does not matter in its name.",
                        },
                        "value": value,
                    },
                    "required": ["kind", "value"],
                    "additionalProperties": false,
                },
                {
                    "type": "object",
                    "properties": {
                        "kind": {
                            "type": "string", "enum": ["path", "glob"],
                            "description": "A path covers itself and everything below it, a glob every \
                                            path that begins with its text before the first of `*`, \
                                            `?`, `[`, `{`.",
                        },
                        "value": {
                            "description": "From the root of the repository, with `/`; `.` is the whole \
                                            repository. Overlaps a path or glob that can match the same \
                                            files.",
                            "type": "string", "minLength": 1, "maxLength": FOOTPRINT_ITEM_MAX,
                            "pattern": path_pattern(),
                        },
                    },
                    "required": ["kind", "value"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

object! {
    /// The items of one repository, and the slots of the workspace, that a thread will touch.
    ///
    /// While the thread has a live claim, no thread whose footprint conflicts with this one can be claimed.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(extend("x-sample" = {"repo": "acme/app", "items": [{"kind": "path", "value": "src"}]}))]
    #[non_exhaustive]
    pub struct Footprint {
        /// The repository, as `owner/name`; a clone URL is accepted. Optional if all items are slots.
        #[schemars(transform = brief("`owner/name` or a clone URL. Optional if all items are slots."))]
        pub repo: Option<Repo>,
        /// `exclusive` conflicts with all overlapping footprints, `shared` only with exclusive ones. Default:
        /// `exclusive`.
        ///
        /// A branch is always exclusive.
        #[serde(default)]
        pub mode: FootprintMode,
        /// The items and slots. An empty list clears the footprint.
        pub items: Items<FootprintItem, FOOTPRINT_ITEMS_MAX>,
    }

    new_footprint::NewFootprint(items: Items<FootprintItem, FOOTPRINT_ITEMS_MAX>) for Footprint
}

impl Footprint {
    /// Returns the key of the footprint's repository, or an empty key if the footprint has no repository.
    pub fn repo_key(&self) -> RepoKey {
        self.repo.as_ref().map(Repo::key).unwrap_or_default()
    }

    /// Returns the footprint in its stored form, without repeated items, or `None` if it has no items.
    ///
    /// Fails with `malformed` for the input field `repo_field` if not all items are slots and the footprint
    /// has no repository.
    pub fn into_stored_form(mut self, repo_field: &str) -> Result<Option<Self>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        if self.repo.is_none() && self.items.iter().any(|item| item.kind != ItemKind::Slot) {
            return Err(Error::in_field(repo_field, "missing, although not all items are slots"));
        }
        let mut seen = HashSet::new();
        self.items.retain(|item| {
            let key = item.slot_key().unwrap_or_else(|| item.value.clone());
            seen.insert((item.kind, key))
        });
        Ok(Some(self))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn item(kind: &str, value: &str) -> Result<FootprintItem, String> {
        serde_json::from_value(json!({"kind": kind, "value": value})).map_err(|error| error.to_string())
    }

    fn footprint(value: Value) -> Result<Option<Value>> {
        let sent: Footprint = serde_json::from_value(value).map_err(|e| Error::malformed(e.to_string()))?;
        Ok(sent.into_stored_form("repo")?.map(|footprint| serde_json::to_value(footprint).unwrap()))
    }

    #[test]
    fn equal_paths_are_written_alike() {
        for (sent, wanted) in [
            ("src/lib.rs", "src/lib.rs"),
            ("./src//lib.rs", "src/lib.rs"),
            ("/src/./lib.rs/", "src/lib.rs"),
            (".", "."),
            ("./", "."),
            ("/", "."),
            ("///.//", "."),
            ("..a/b..", "..a/b.."),
            (".../x", ".../x"),
            ("src/**/*.rs", "src/**/*.rs"),
            ("a b/\u{e4}", "a b/\u{e4}"),
        ] {
            for kind in ["path", "glob"] {
                assert_eq!(item(kind, sent).unwrap().value, wanted, "{sent}");
            }
        }
        assert_eq!(item("lane", "feature//x/").unwrap().value, "feature//x/", "only paths lose parts");
    }

    #[test]
    fn paths_that_leave_the_repository_are_rejected() {
        for sent in ["..", "../x", "a/../b", "a/..", "/..", "a\\b", "a\u{0}", "a\nb", "\u{202e}a", ""] {
            for kind in ["path", "glob"] {
                assert!(item(kind, sent).is_err(), "{sent:?}");
            }
        }
        assert!(item("path", &"a".repeat(FOOTPRINT_ITEM_MAX)).is_ok());
        assert!(item("path", &"a".repeat(FOOTPRINT_ITEM_MAX + 1)).is_err());
        assert!(item("file", "a").is_err());
        assert!(
            serde_json::from_value::<FootprintItem>(json!({"kind": "path", "value": "a", "x": 1})).is_err()
        );
    }

    #[test]
    fn a_footprint_is_stored_without_repetition() {
        let sent = json!({"repo": "https://host/Acme/App.git", "items": [
            {"kind": "path", "value": "src/"}, {"kind": "path", "value": "./src"},
            {"kind": "crate", "value": "src"}, {"kind": "slot", "value": "GPU"},
            {"kind": "slot", "value": "gpu"},
        ]});
        let wanted = json!({"repo": "Acme/App", "mode": "exclusive", "items": [
            {"kind": "path", "value": "src"}, {"kind": "crate", "value": "src"},
            {"kind": "slot", "value": "GPU"},
        ]});
        assert_eq!(footprint(sent).unwrap(), Some(wanted));
    }

    #[test]
    fn only_slots_belong_to_no_repository() {
        let slot = json!({"kind": "slot", "value": "gpu"});
        assert!(footprint(json!({"items": [slot]})).unwrap().is_some());
        assert_eq!(footprint(json!({"items": []})).unwrap(), None);
        assert!(footprint(json!({"items": [slot, {"kind": "lane", "value": "docs"}]})).is_err());
        let many = vec![slot; FOOTPRINT_ITEMS_MAX + 1];
        assert!(footprint(json!({"items": many})).is_err());
    }

    /// Generates paths of segments that are hostile, or nearly so.
    fn hostile() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            prop::sample::select(vec![
                "a", "src", ".", "..", "...", "..a", "a..", "", " ", "~", "*", "**", "{a,b}", "[", "\\",
                "a\\..", "\0", "\n", "\t", "\u{7f}", "\u{85}", "\u{202e}", "\u{2028}", "\u{feff}", "%2e%2e",
                "\u{ff0f}", "\u{2215}", "C:", "-rf", "$(x)", "'", "\"", "\u{e4}", "a\u{308}",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(|c| c.to_string()),
            "[a-z]{1,200}",
        ];
        prop::collection::vec(part, 0..7).prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #[test]
        fn a_path_is_below_the_root_or_rejected(sent in hostile()) {
            let breaks = |c: char| {
                c.is_control() || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
                    || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            };
            let leaves = sent.split('/').any(|part| part == "..") || sent.contains('\\');
            let hides = sent.contains(names::is_invisible);
            // Normalising keeps the order of segments, and the path that a caller could have meant.
            let nfc = names::to_nfc(&sent);
            let meant: Vec<&str> = nfc.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            let stored = if meant.is_empty() { ".".to_owned() } else { meant.join("/") };
            let has_ends = sent.trim() == sent && stored.trim() == stored;
            let lengths = [sent.chars().count(), stored.chars().count()];
            let fits = lengths.iter().all(|length| (1..=FOOTPRINT_ITEM_MAX).contains(length));
            let wanted = !leaves && !hides && !sent.contains(breaks) && has_ends && fits;
            for kind in ["path", "glob"] {
                let found = item(kind, &sent);
                prop_assert_eq!(found.is_ok(), wanted, "{:?}: {:?}", &sent, &found);
                let Ok(FootprintItem { value, .. }) = found else { continue };
                let parts: Vec<&str> = value.split('/').collect();
                let is_plain = |part: &&str| !part.is_empty() && *part != "." && *part != "..";
                prop_assert!(value == "." || parts.iter().all(is_plain), "{value:?}");
                prop_assert_eq!(&item(kind, &value).unwrap().value, &value, "read again");
                prop_assert_eq!(value, &*stored);
            }
        }
    }
}
