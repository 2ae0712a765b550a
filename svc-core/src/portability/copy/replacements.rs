//! The ids and hashes of a file, and their replacements in a copy.
//!
//! A replaced id keeps its time, so objects that are ordered by id keep their order, except within one
//! millisecond. In text, only a complete UUID or `sha256:` followed by 64 digits is replaced, and only if it
//! is an id or hash of the file. A replacement has the same length as the original.

use std::borrow::Cow;

use uuid::Uuid;

use crate::Result;
use crate::hash::{format_hash, parse_hash, sha256};
use crate::spool::SpoolFolder;
use crate::store::Scratch;

/// The ids and hashes of a file, each with its replacement in a copy.
pub(super) struct Replacements {
    by_original: Scratch,
    /// Seed for generating new ids.
    seed: [u8; 32],
}

/// Length in bytes of an id in text.
const ID_LEN: usize = 36;
/// Length in bytes of a hash in text, with its prefix.
const HASH_LEN: usize = 71;
const HASH_PREFIX: &str = "sha256:";

impl Replacements {
    pub fn new(spools: &SpoolFolder, seed: [u8; 32]) -> Result<Self> {
        Ok(Self { by_original: Scratch::create(spools)?, seed })
    }

    /// Adds an id of the file, with a generated replacement.
    pub fn add_id(&self, id: Uuid) -> Result<()> {
        if id.is_nil() {
            // The nil UUID is the id of the instance.
            return Ok(());
        }
        self.set_id(id, self.generate_id(id))
    }

    /// Sets the replacement of an id.
    pub fn set_id(&self, old: Uuid, new: Uuid) -> Result<()> {
        self.by_original.put(old.as_bytes(), new.as_bytes())
    }

    /// Sets the replacement of a hash.
    pub fn set_hash(&self, old: [u8; 32], new: [u8; 32]) -> Result<()> {
        self.by_original.put(&old, &new)
    }

    /// Returns the replacement of an id, or the id itself if the file does not contain the id.
    pub fn replacement_id(&self, old: Uuid) -> Result<Uuid> {
        Ok(self.find_replacement_id(old)?.unwrap_or(old))
    }

    /// Returns the replacement of a hash, or `None` if the file does not contain the hash.
    pub fn replacement_hash(&self, old: &str) -> Result<Option<String>> {
        let Some(old) = parse_hash(old) else { return Ok(None) };
        Ok(self.by_original.get::<[u8; 32]>(&old)?.map(|new| format_hash(&new)))
    }

    /// Returns the replacement of an id, or `None` if the file does not contain the id.
    fn find_replacement_id(&self, old: Uuid) -> Result<Option<Uuid>> {
        Ok(self.by_original.get(old.as_bytes())?.map(Uuid::from_bytes))
    }

    /// Generates an id with the same time, version and variant as `old`.
    fn generate_id(&self, old: Uuid) -> Uuid {
        const TIME: u128 = 0xffff_ffff_ffff << 80;
        const VERSION: u128 = 0xf << 76;
        const VARIANT: u128 = 0b11 << 62;
        let hash = sha256(&[self.seed.as_slice(), old.as_bytes()].concat());
        let random = hash.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        let kept = TIME | VERSION | VARIANT;
        Uuid::from_u128((old.as_u128() & kept) | (random & !kept))
    }

    /// Returns a text in which all ids and hashes of the file are replaced.
    pub fn replace_in<'t>(&self, text: &'t str) -> Result<Cow<'t, str>> {
        let mut renamed = String::new();
        let mut copied = 0;
        let mut offset = 0;
        while offset < text.len() {
            let found = if can_begin_at(text, offset) { self.replacement_at(text, offset)? } else { None };
            let Some((len, new)) = found else {
                offset = offset.saturating_add(1);
                continue;
            };
            renamed.push_str(text.get(copied..offset).unwrap_or_default());
            renamed.push_str(&new);
            offset = offset.saturating_add(len);
            copied = offset;
        }
        if copied == 0 {
            return Ok(Cow::Borrowed(text));
        }
        renamed.push_str(text.get(copied..).unwrap_or_default());
        Ok(Cow::Owned(renamed))
    }

    /// Returns the length of the id or hash at a position of a text, and its replacement.
    fn replacement_at(&self, text: &str, offset: usize) -> Result<Option<(usize, String)>> {
        let Some(rest) = text.get(offset..) else { return Ok(None) };
        if let Some(id) = rest.get(..ID_LEN).filter(|id| has_uuid_hyphens(id) && can_end_at(rest, ID_LEN)) {
            let Ok(id) = Uuid::try_parse(id) else { return Ok(None) };
            return Ok(self.find_replacement_id(id)?.map(|new| (ID_LEN, new.to_string())));
        }
        if rest.starts_with(HASH_PREFIX) && can_end_at(rest, HASH_LEN) {
            let Some(hash) = rest.get(..HASH_LEN).and_then(parse_hash) else { return Ok(None) };
            return Ok(self.by_original.get(&hash)?.map(|new| (HASH_LEN, format_hash(&new))));
        }
        Ok(None)
    }
}

fn has_uuid_hyphens(id: &str) -> bool {
    [8, 13, 18, 23].iter().all(|place| id.as_bytes().get(*place) == Some(&b'-'))
}

/// Returns whether an id or hash may begin at this position.
///
/// An id or hash may also begin after a JSON escape sequence, so that the same ids and hashes are found in a
/// text and in its JSON form.
fn can_begin_at(text: &str, offset: usize) -> bool {
    let Some(before) = text.get(..offset) else { return false };
    let is_letter = before.bytes().next_back().is_some_and(|last| last.is_ascii_alphanumeric());
    let ends_with_escape = || {
        let is_short = ["\\b", "\\f", "\\n", "\\r", "\\t"].iter().any(|escape| before.ends_with(escape));
        let long = before.len().checked_sub(6).and_then(|from| before.get(from..));
        is_short || long.is_some_and(|long| long.starts_with("\\u"))
    };
    !is_letter || ends_with_escape()
}

fn can_end_at(text: &str, offset: usize) -> bool {
    text.as_bytes().get(offset).is_none_or(|next| !next.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spool::SpoolLimits;

    fn replacements() -> (tempfile::TempDir, Replacements) {
        let folder = tempfile::tempdir().unwrap();
        let spools = SpoolFolder::new(folder.path().to_owned(), SpoolLimits::default());
        let replacements = Replacements::new(&spools, [3; 32]).unwrap();
        (folder, replacements)
    }

    const KNOWN: Uuid = Uuid::from_u128(0x0190_aaaa_bbbb_7ccc_8ddd_eeee_ffff_0001);
    const OTHER: Uuid = Uuid::from_u128(0x0190_aaaa_bbbb_7ccc_8ddd_eeee_ffff_0002);

    #[test]
    fn a_fresh_id_keeps_time_version_and_variant() {
        let (_folder, replacements) = replacements();
        replacements.add_id(KNOWN).unwrap();
        replacements.add_id(Uuid::nil()).unwrap();
        let new = replacements.replacement_id(KNOWN).unwrap();
        assert_ne!(new, KNOWN);
        assert_eq!(new.as_bytes()[..6], KNOWN.as_bytes()[..6]);
        assert_eq!((new.get_version_num(), new.get_variant()), (7, KNOWN.get_variant()));
        assert_eq!(replacements.replacement_id(OTHER).unwrap(), OTHER);
        assert_eq!(replacements.replacement_id(Uuid::nil()).unwrap(), Uuid::nil());
    }

    #[test]
    fn whole_ids_and_hashes_of_the_file_are_replaced_and_nothing_else() {
        let (_folder, replacements) = replacements();
        replacements.add_id(KNOWN).unwrap();
        replacements.set_hash([1; 32], [2; 32]).unwrap();
        let new = replacements.replacement_id(KNOWN).unwrap();
        let old_hash = format_hash(&[1; 32]);
        let new_hash = format_hash(&[2; 32]);
        let upper = KNOWN.to_string().to_uppercase();
        let cases = [
            (format!("{KNOWN}"), format!("{new}")),
            (format!("é{KNOWN}é, {upper}."), format!("é{new}é, {new}.")),
            (format!("svc:thread/{KNOWN}#1 {KNOWN}-{KNOWN}"), format!("svc:thread/{new}#1 {new}-{new}")),
            (format!("{{\"{KNOWN}\":\"a\\n{KNOWN}\"}}"), format!("{{\"{new}\":\"a\\n{new}\"}}")),
            (format!("\\u0007{KNOWN}"), format!("\\u0007{new}")),
            (format!("<{old_hash}>{old_hash}"), format!("<{new_hash}>{old_hash}")),
            (format!("{OTHER} a{KNOWN} {KNOWN}0"), format!("{OTHER} a{KNOWN} {KNOWN}0")),
            (format!("{old_hash}0 {}", format_hash(&[2; 32])), format!("{old_hash}0 {new_hash}")),
            (KNOWN.simple().to_string(), KNOWN.simple().to_string()),
        ];
        for (text, renamed) in cases {
            // Text right after a replaced hash may be replaced too.
            let renamed = renamed.replace(&format!(">{old_hash}"), &format!(">{new_hash}"));
            assert_eq!(replacements.replace_in(&text).unwrap(), renamed, "{text}");
        }
    }

    proptest! {
        /// Renaming a text and renaming the JSON form of that text have the same result.
        #[test]
        fn a_text_and_its_json_are_renamed_alike(
            before in "\\PC{0,8}[\n\t\u{1}\"\\\\ a]?",
            after in "\\PC{0,8}",
        ) {
            let (_folder, replacements) = replacements();
            replacements.add_id(KNOWN).unwrap();
            let text = format!("{before}{KNOWN}{after}");
            let renamed = replacements.replace_in(&text).unwrap().into_owned();
            prop_assert_eq!(renamed.len(), text.len());
            let new = replacements.replacement_id(KNOWN).unwrap().to_string();
            let put_back = renamed.replace(&new, &KNOWN.to_string());
            prop_assert_eq!(put_back, text.as_str());
            let json = serde_json::to_string(&text).unwrap();
            let json: String = serde_json::from_str(&replacements.replace_in(&json).unwrap()).unwrap();
            prop_assert_eq!(json, renamed);
        }
    }
}
