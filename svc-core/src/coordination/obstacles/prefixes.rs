//! Finds the known prefixes of a text, using only the sort order of the prefixes.
//!
//! A prefix sorts before each text that begins with it, and all texts between the two begin with the prefix
//! as well. So the longest remaining candidate is the common beginning of the text and the nearest prefix
//! that sorts before the text. The cost depends neither on the number of prefixes, nor on the number of
//! prefixes that share a folder. Nothing here reads the database.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;
use crate::coordination::footprint::{Extent, RepoKey};

/// The prefixes with which a text is compared: those of all claims in a repository, or only of exclusive
/// claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PrefixScope {
    pub repo_key: RepoKey,
    /// Whether the text is touched exclusively, so that the prefixes of shared claims count too.
    pub exclusive: bool,
}

impl PrefixScope {
    pub fn of(extent: &Extent) -> Self {
        Self { repo_key: extent.repo_key.clone(), exclusive: extent.exclusive }
    }
}

/// Texts whose nearest prefix must still be looked up, each with the number of its first bytes that another
/// entry covers: shorter prefixes are found by that entry.
type PendingTexts = BTreeMap<(PrefixScope, String), usize>;

/// Returns beginnings of the texts in `texts`, including every known prefix with which one of these texts
/// begins.
///
/// `find_nearest` returns, for each text, the greatest prefix that sorts before the text, or `None`. It is
/// called up to a dozen times, because each call halves the remaining text. A beginning that several texts of
/// one scope share is looked up once.
pub(super) fn candidate_prefixes(
    texts: impl IntoIterator<Item = (PrefixScope, String)>,
    mut find_nearest: impl FnMut(&[&(PrefixScope, String)]) -> Result<Vec<Option<String>>>,
) -> Result<BTreeMap<PrefixScope, BTreeSet<String>>> {
    let mut found: BTreeMap<PrefixScope, BTreeSet<String>> = BTreeMap::new();
    let mut open: PendingTexts = texts.into_iter().map(|text| (text, 0)).collect();
    while !open.is_empty() {
        let asked: Vec<&(PrefixScope, String)> = open.keys().collect();
        let before = find_nearest(&asked)?;
        let mut left = PendingTexts::new();
        for (((place, text), &from), before) in open.iter().zip(before) {
            let Some(before) = before else { continue };
            let common = common_prefix(text, &before);
            if common.len() < from {
                continue;
            }
            let found = found.entry(place.clone()).or_default();
            found.insert(common.to_owned());
            let (lower, _) = common.split_at(common.floor_char_boundary(from.midpoint(common.len())));
            for (text, from) in [(common, lower.len()), (lower, from)] {
                if text.len() > from {
                    found.insert(text.to_owned());
                    let known = left.entry((place.clone(), text.to_owned()));
                    known.and_modify(|known| *known = from.min(*known)).or_insert(from);
                }
            }
        }
        open = left;
    }
    Ok(found)
}

/// Returns the common beginning of two texts.
fn common_prefix<'t>(text: &'t str, other: &str) -> &'t str {
    let end = text.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    text.split_at(text.floor_char_boundary(end)).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the prefixes with which texts begin, and the numbers of lookups and of texts looked up.
    fn walk(prefixes: &BTreeSet<String>, texts: &[String]) -> (BTreeSet<String>, usize, usize) {
        let mut rounds = 0;
        let mut steps = 0;
        let found =
            candidate_prefixes(texts.iter().map(|text| (PrefixScope::default(), text.clone())), |asked| {
                rounds += 1;
                steps += asked.len();
                let before = |text: &str| prefixes.range(..text.to_owned()).next_back().cloned();
                Ok(asked.iter().map(|(_, text)| before(text)).collect())
            });
        (found.unwrap().remove(&PrefixScope::default()).unwrap_or_default(), rounds, steps)
    }

    fn texts(numbers: usize, text: impl Fn(usize) -> String) -> Vec<String> {
        (0..numbers).map(text).collect()
    }

    #[test]
    fn what_shares_a_folder_costs_no_steps() {
        let bs = |number| "b".repeat(number);
        let deep = |number| "a/".repeat(number);
        for (name, prefixes, from, rounds_max, steps_max) in [
            (
                "globs of one folder",
                texts(4200, |n| format!("s/{n:04}")),
                texts(100, |n| format!("s/x{n}/")),
                4,
                104,
            ),
            (
                "files of a tree",
                texts(9700, |n| format!("c/c{}/src/f{n}.rs/", n % 97)),
                texts(20, |n| format!("c/c{n}/src/new/deep/file.rs/")),
                4,
                110,
            ),
            (
                "a branch at each character",
                texts(495, |n| bs(n) + "a"),
                texts(100, |n| format!("{}{n:03}/", bs(495))),
                12,
                1200,
            ),
            ("each character", texts(495, bs), texts(100, |n| format!("{}{n:03}/", bs(495))), 12, 1200),
            (
                "a folder at each character",
                texts(250, deep),
                texts(100, |n| format!("{}{n:03}/", deep(245))),
                12,
                1200,
            ),
        ] {
            let prefixes = prefixes.into_iter().collect();
            let (_, rounds, steps) = walk(&prefixes, &from);
            assert!(rounds <= rounds_max && steps <= steps_max, "{name}: {rounds} rounds, {steps} steps");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        let part = prop::sample::select(vec!["a", "b", "/", "\u{e4}", "\u{e5}", "\u{10ffff}", "\u{10fffe}"]);
        prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn nothing_with_which_a_text_begins_is_left_out(
            prefixes in prop::collection::btree_set(text(), 0..40),
            texts in prop::collection::vec(text(), 1..4),
        ) {
            let (found, ..) = walk(&prefixes, &texts);
            for text in &texts {
                for prefix in prefixes.iter().filter(|prefix| *prefix != text && text.starts_with(*prefix)) {
                    prop_assert!(found.contains(prefix), "{prefix:?} of {text:?} in {found:?}");
                }
            }
            for found in &found {
                prop_assert!(texts.iter().any(|text| text.starts_with(found)), "{found:?}");
            }
        }
    }
}
