//! Decides whether two footprint items overlap, and defines the form in which the database finds overlapping
//! items.
//!
//! Lanes, crates, branches and slots overlap if their values are equal. Paths and globs are compared by
//! prefixes: the prefix of a path is its text with `/` at the end, and that of a glob is its text before the
//! first wildcard. Two paths or globs overlap if one prefix begins with the other. Nothing here reads the
//! database.

use super::names::{ItemKind, comparison_form, slot_key, unify_case};
use super::repo::RepoKey;
use super::value::{Footprint, FootprintItem, FootprintMode};
use crate::limits::FOOTPRINT_ITEM_MAX;
use crate::store::{Param, ToParam};

/// A group of footprint items that are compared only with items of the same group. Paths and globs form one
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ItemSpace {
    Lane,
    Crate,
    Branch,
    Path,
    Slot,
}

impl ItemSpace {
    /// Returns the name of the space in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Crate => "crate",
            Self::Branch => "branch",
            Self::Path => "path",
            Self::Slot => "slot",
        }
    }
}

impl ToParam for ItemSpace {
    fn param(&self) -> Param<'_> {
        Param::Text(self.name())
    }
}

/// A footprint item in the normalized form that overlap checks compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Extent {
    /// The key of the repository; empty for a slot, because the whole workspace shares slots.
    pub repo_key: RepoKey,
    pub space: ItemSpace,
    /// The prefix of a path or glob; for other items the whole value.
    pub prefix: String,
    /// Whether the item conflicts with shared items too; always true for branches and slots.
    pub exclusive: bool,
}

impl Extent {
    fn of(item: &FootprintItem, repo: &RepoKey, mode: FootprintMode) -> Self {
        let value = comparison_form(item.kind, &item.value);
        let prefix = match item.kind {
            ItemKind::Lane | ItemKind::Crate | ItemKind::Branch => value.into_owned(),
            ItemKind::Path => path_prefix(&value),
            ItemKind::Glob => glob_prefix(&value),
            ItemKind::Slot => slot_key(&value),
        };
        Self::new(item.kind, prefix, repo, mode)
    }

    /// Returns the extent that earlier versions recorded for an item, or `None` if it equals the current
    /// extent.
    fn of_earlier_version(item: &FootprintItem, repo: &RepoKey, mode: FootprintMode) -> Option<Self> {
        let prefix = match item.kind {
            ItemKind::Lane | ItemKind::Crate | ItemKind::Branch => item.value.clone(),
            ItemKind::Path => path_prefix(&item.value),
            ItemKind::Glob => glob_prefix(&item.value),
            ItemKind::Slot => unify_case(&item.value),
        };
        let former = Self::new(item.kind, prefix, repo, mode);
        Some(former).filter(|former| *former != Self::of(item, repo, mode))
    }

    fn new(kind: ItemKind, prefix: String, repo: &RepoKey, mode: FootprintMode) -> Self {
        let space = match kind {
            ItemKind::Lane => ItemSpace::Lane,
            ItemKind::Crate => ItemSpace::Crate,
            ItemKind::Branch => ItemSpace::Branch,
            ItemKind::Path | ItemKind::Glob => ItemSpace::Path,
            ItemKind::Slot => ItemSpace::Slot,
        };
        Self {
            repo_key: if space == ItemSpace::Slot { RepoKey::default() } else { repo.clone() },
            exclusive: mode == FootprintMode::Exclusive
                || matches!(space, ItemSpace::Branch | ItemSpace::Slot),
            space,
            prefix,
        }
    }

    /// Returns the exclusive upper bound, in byte order, of the texts that this extent's prefix covers.
    ///
    /// The prefix of a path or glob covers all texts that begin with it; the prefix of other items covers
    /// only itself.
    pub fn upper_bound(&self) -> String {
        if self.space != ItemSpace::Path {
            // A value contains no control characters, so no other value sorts before this text.
            return format!("{}\u{1}", self.prefix);
        }
        let mut end: Vec<char> = self.prefix.chars().collect();
        while let Some(last) = end.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                end.push(next);
                return end.into_iter().collect();
            }
        }
        // No text sorts after all texts with this prefix, but this text is longer than any prefix.
        char::MAX.to_string().repeat(FOOTPRINT_ITEM_MAX + 2)
    }

    /// Returns whether this extent and `other` overlap, regardless of the modes of the two extents.
    #[cfg(test)]
    pub fn overlaps(&self, other: &Self) -> bool {
        let same_space = self.space == other.space && self.repo_key == other.repo_key;
        same_space
            && match self.space {
                ItemSpace::Path => {
                    self.prefix.starts_with(&other.prefix) || other.prefix.starts_with(&self.prefix)
                }
                _ => self.prefix == other.prefix,
            }
    }
}

/// Returns the extents of a footprint, in the order of its items.
///
/// Several items can have the same extent, such as `src/*` and `src/?`.
pub(crate) fn extents(footprint: &Footprint) -> Vec<Extent> {
    let repo = footprint.repo_key();
    footprint.items.iter().map(|item| Extent::of(item, &repo, footprint.mode)).collect()
}

/// Returns the current extents of a footprint, followed by the extents that earlier versions recorded for it.
pub(crate) fn current_and_earlier_extents(footprint: &Footprint) -> Vec<Extent> {
    let repo = footprint.repo_key();
    let mut all = extents(footprint);
    all.extend(
        footprint.items.iter().filter_map(|item| Extent::of_earlier_version(item, &repo, footprint.mode)),
    );
    all
}

/// Returns the prefix of a path and of all paths below it.
fn path_prefix(path: &str) -> String {
    if path == "." { String::new() } else { format!("{path}/") }
}

/// Returns the prefix of every path that a glob can match.
fn glob_prefix(glob: &str) -> String {
    match glob.find(['*', '?', '[', '{']) {
        Some(end) => glob.get(..end).unwrap_or_default().to_owned(),
        None => path_prefix(glob),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn footprint(mode: &str, repo: &str, items: &[(&str, &str)]) -> Footprint {
        let item = |(kind, value): &(&str, &str)| json!({"kind": kind, "value": value});
        let listed = Value::Array(items.iter().map(item).collect());
        serde_json::from_value(json!({"repo": repo, "mode": mode, "items": listed})).unwrap()
    }

    fn extent(kind: &str, value: &str) -> Extent {
        extents(&footprint("exclusive", "a/b", &[(kind, value)])).remove(0)
    }

    #[test]
    fn overlaps_are_as_agreed() {
        let table = [
            (("path", "src"), ("path", "src/lib.rs"), true),
            (("path", "src"), ("path", "src"), true),
            (("path", "src"), ("path", "srcs"), false),
            (("path", "src/co"), ("path", "src/core"), false),
            (("path", "."), ("path", "anything/at/all"), true),
            (("glob", "src/**"), ("path", "src/a/b.rs"), true),
            (("glob", "src/**"), ("path", "src"), true),
            (("glob", "src/**"), ("path", "tests"), false),
            (("glob", "src/co*"), ("path", "src/core/x.rs"), true),
            (("glob", "src/co*"), ("path", "src"), true),
            (("glob", "src/co*"), ("path", "src/d"), false),
            (("glob", "src/co*"), ("glob", "src/c?"), true),
            (("glob", "*.rs"), ("path", "docs"), true),
            (("glob", "[ab]/x"), ("path", "c"), true),
            (("glob", "src/{a,b}"), ("glob", "src/c*"), true),
            (("glob", "src"), ("path", "src/x"), true),
            (("path", "src/*"), ("path", "src/x"), false),
            (("path", "src"), ("crate", "src"), false),
            (("path", "Src"), ("path", "src"), false),
            (("lane", "docs"), ("lane", "docs"), true),
            (("lane", "docs"), ("lane", "docs/a"), false),
            (("lane", "docs"), ("branch", "docs"), false),
            (("slot", "GPU"), ("slot", "gpu"), true),
            (("path", "docs/\u{fc}ber.md"), ("path", "docs/u\u{308}ber.md"), true),
            (("path", "docs/\u{fc}ber"), ("glob", "docs/u\u{308}*"), true),
            (("lane", "\u{e4}"), ("lane", "a\u{308}"), true),
            (("crate", "\u{e4}"), ("crate", "a\u{308}"), true),
            (("slot", "\u{c4}"), ("slot", "a\u{308}"), true),
            (("branch", "main"), ("branch", "refs/heads/main"), true),
            (("branch", "Main"), ("branch", "main"), false),
            (("branch", "main"), ("branch", "refs/tags/main"), false),
            (("path", "refs/heads/main"), ("path", "main"), false),
        ];
        for ((a_kind, a), (b_kind, b), wanted) in table {
            let one = extent(a_kind, a);
            let other = extent(b_kind, b);
            assert_eq!((one.overlaps(&other), other.overlaps(&one)), (wanted, wanted), "{a} {b}");
        }
        let elsewhere = |kind, value| extents(&footprint("shared", "a/c", &[(kind, value)])).remove(0);
        assert!(!extent("path", "src").overlaps(&elsewhere("path", "src")));
        assert!(extent("slot", "gpu").overlaps(&elsewhere("slot", "gpu")), "slots belong to the workspace");
    }

    #[test]
    fn an_item_in_a_form_that_is_not_taken_any_longer_is_compared_like_others() {
        let stored = |kind: ItemKind, value: &str| FootprintItem { kind, value: value.to_owned() };
        let repo = RepoKey::default();
        for (kind, old, new) in [
            (ItemKind::Path, "docs/u\u{308}ber", "docs/\u{fc}ber"),
            (ItemKind::Branch, "refs/heads/main", "main"),
            (ItemKind::Slot, "U\u{308}", "\u{fc}"),
        ] {
            let old = stored(kind, old);
            let new = stored(kind, new);
            let extent = |item| Extent::of(item, &repo, FootprintMode::Exclusive);
            assert_eq!(extent(&old), extent(&new), "{kind:?}");
            let former = Extent::of_earlier_version(&old, &repo, FootprintMode::Exclusive).unwrap();
            assert!(former.prefix.starts_with(&old.value.to_lowercase()), "{former:?}");
            assert_eq!(Extent::of_earlier_version(&new, &repo, FootprintMode::Exclusive), None, "{kind:?}");
        }
    }

    #[test]
    fn a_branch_and_a_slot_are_exclusive_in_any_mode() {
        let shared = footprint("shared", "a/b", &[("branch", "main"), ("path", "src"), ("slot", "gpu")]);
        let exclusive: Vec<bool> = extents(&shared).iter().map(|extent| extent.exclusive).collect();
        assert_eq!(exclusive, [true, false, true]);
    }

    /// Generates paths of a few segments and characters, so that many overlap, and some hostile ones.
    fn value() -> impl Strategy<Value = (&'static str, String)> {
        let part = prop_oneof![
            Just("a"),
            Just("ab"),
            Just("b"),
            Just("A"),
            Just("a*"),
            Just("?"),
            Just("[x]"),
            Just("{a,b}"),
            Just("%"),
            Just("_"),
            Just("\u{e4}"),
            Just("\u{10ffff}"),
            Just("."),
            Just(""),
            Just("0"),
            Just("-"),
            Just("a b"),
            Just("'"),
            Just("\""),
        ];
        let kind = prop_oneof![Just("path"), Just("glob")];
        (kind, proptest::collection::vec(part, 1..4))
            .prop_map(|(kind, parts)| (kind, parts.join("/")))
            .prop_filter("an item has a value", |(_, value)| !value.is_empty())
    }

    /// Returns whether two items touch a common path, by comparing the items' prefixes character by
    /// character.
    fn overlaps_naively(one: (&str, &str), other: (&str, &str)) -> bool {
        let prefix = |(kind, value): (&str, &str)| -> Vec<char> {
            let parts: Vec<&str> = value.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
            let text: Vec<char> = parts.join("/").chars().collect();
            match text.iter().position(|c| kind == "glob" && "*?[{".contains(*c)) {
                Some(end) => text[..end].to_vec(),
                None if text.is_empty() => text,
                None => text.into_iter().chain(['/']).collect(),
            }
        };
        prefix(one).iter().zip(&prefix(other)).all(|(a, b)| a == b)
    }

    /// Returns whether a shell's glob matches a whole text: `*` and `?` in one segment, `**` across segments.
    fn matches(glob: &[char], text: &[char]) -> bool {
        match (glob, text) {
            ([], _) => text.is_empty(),
            (['*', '*', rest @ ..], _) => (0..=text.len()).any(|at| matches(rest, &text[at..])),
            (['*', rest @ ..], _) => {
                let part = text.iter().position(|c| *c == '/').unwrap_or(text.len());
                (0..=part).any(|at| matches(rest, &text[at..]))
            }
            (['?', rest @ ..], [first, others @ ..]) => *first != '/' && matches(rest, others),
            (['[', rest @ ..], [first, others @ ..]) => {
                let Some(end) = rest.iter().position(|c| *c == ']') else { return false };
                rest[..end].contains(first) && matches(&rest[end + 1..], others)
            }
            (['{', rest @ ..], _) => {
                let Some(end) = rest.iter().position(|c| *c == '}') else { return false };
                rest[..end].split(|c| *c == ',').any(|choice| {
                    text.starts_with(choice) && matches(&rest[end + 1..], &text[choice.len()..])
                })
            }
            ([wanted, rest @ ..], [first, others @ ..]) => wanted == first && matches(rest, others),
            _ => false,
        }
    }

    /// Returns whether an item covers a file, because it matches the file or a folder above the file.
    fn touches((kind, value): &(&str, String), file: &str) -> bool {
        let value: Vec<&str> = value.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        let value: Vec<char> = value.join("/").chars().collect();
        let ends = file.match_indices('/').map(|(at, _)| at).chain([file.len()]);
        let mut above = ends.map(|at| file[..at].chars().collect::<Vec<char>>());
        match *kind {
            "glob" => above.any(|text| matches(&value, &text)),
            _ => value.is_empty() || above.any(|text| text == value),
        }
    }

    /// Generates paths of files from the same segments as [`value`], so that items cover many of these files.
    fn file() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["a", "ab", "b", "A", "x", "ax", "a*", "0"]);
        proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #[test]
        fn two_items_that_touch_one_file_overlap(
            one in value(),
            other in value(),
            files in proptest::collection::vec(file(), 30),
        ) {
            let shared = files.iter().find(|file| touches(&one, file) && touches(&other, file));
            if let Some(file) = shared {
                let a = extent(one.0, &one.1);
                let b = extent(other.0, &other.1);
                prop_assert!(a.overlaps(&b), "both touch {}", file);
            }
        }

        #[test]
        fn overlap_is_that_of_a_naive_matcher(one in value(), other in value()) {
            let a = extent(one.0, &one.1);
            let b = extent(other.0, &other.1);
            let wanted = overlaps_naively((one.0, &one.1), (other.0, &other.1));
            prop_assert_eq!(a.overlaps(&b), wanted);
            // The comparison that the database makes has the same result.
            let below = b.prefix >= a.prefix && b.prefix < a.upper_bound();
            prop_assert_eq!(a.prefix.starts_with(&b.prefix) || below, wanted);
        }
    }
}
