//! Sets of required skills: the skills that a member must have to claim a thread.
//!
//! Each set is stored once per workspace under a small id. So a claim reads the few sets that the claimer's
//! skills cover, and not every thread. Sets are never removed; the empty set is stored like any other set.
//! The members' own skills are stored elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::Result;
use crate::error::Error;
use crate::hash::sha256;
use crate::limits::{SKILL_MAX, SKILL_SETS_MAX};
use crate::log::cache::{Cached, Lifetime, SINGLE_ENTRY};
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};
use crate::store::{FromValue, Value, new_row};
use crate::text::Handle;

pub(crate) type Skill = Handle<SKILL_MAX>;

/// A set of skills in its stored form: sorted, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkillSet(Vec<String>);

/// Separates the names in the text of a stored set; no skill's name contains this character.
const SEPARATOR: char = ',';

impl SkillSet {
    /// Returns the set of `skills`, which may be unsorted and contain duplicates.
    pub fn of(skills: &[Skill]) -> Self {
        let unique: BTreeSet<&str> = skills.iter().map(|skill| &**skill).collect();
        Self(unique.into_iter().map(str::to_owned).collect())
    }

    /// Returns the sorted names of the skills in the set.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Converts the set to the sorted names of its skills.
    pub fn into_names(self) -> Vec<String> {
        self.0
    }

    fn text(&self) -> String {
        self.0.join(",")
    }

    fn parse(text: &str) -> Self {
        Self(text.split(SEPARATOR).filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }
}

impl FromValue for SkillSet {
    fn from_value(value: Value) -> Result<Self> {
        String::from_value(value).map(|text| Self::parse(&text))
    }
}

/// Returns the id of `set` in the caller's workspace, and stores the set if it is new.
///
/// Fails with `wrong-state` if the set is new and the workspace already has [`SKILL_SETS_MAX`] sets.
pub(crate) fn intern(cx: &mut Write<'_>, set: &SkillSet) -> Result<i64> {
    let text = set.text();
    if let Some(id) = load_cached_sets(cx)?.id_of(&text) {
        return Ok(id);
    }
    let known = load_all_sets(cx)?;
    if let Some(id) = known.id_of(&text) {
        return Ok(id);
    }
    if known.by_id.len() >= SKILL_SETS_MAX {
        return Err(Error::wrong_state(format!(
            "the workspace has {SKILL_SETS_MAX} different sets of required skills: use a set that a thread \
             requires or once required"
        )));
    }
    let workspace_id = cx.caller().workspace_id;
    let id = known.newest_id().saturating_add(1);
    let hash = hash_of(&text);
    cx.insert(&new_row!("insert into skill_sets" { workspace_id, id, skills: text, hash }))?;
    Ok(id)
}

/// Returns the set of required skills in an event's payload, as its stored text.
pub(crate) fn skills_in_event(event: &ReplayedEvent<'_>) -> Option<String> {
    let names = event.field("required_skills")?.as_array()?;
    Some(names.iter().filter_map(|name| name.as_str()).collect::<Vec<_>>().join(","))
}

/// SQL expression for the stored text of the skill set of the thread `t`.
pub(crate) const SKILLS_TEXT_SQL: &str =
    "(select s.skills from skill_sets s where s.workspace_id = t.workspace_id and s.id = t.skill_set)";

/// Returns the hash of a set's text, by which the set is looked up.
pub(crate) fn hash_of(text: &str) -> [u8; 32] {
    sha256(text.as_bytes())
}

/// The sets that threads of a workspace require or once required, cached per connection.
///
/// Sets are never changed or removed, so cached ones stay valid, and only newer ones can be missing.
#[derive(Clone, Default)]
pub(crate) struct SkillSets {
    /// The id and the sorted skill names of each set, in ascending order of the ids.
    by_id: Arc<Vec<(i64, Arc<[String]>)>>,
    /// The id of each set, by its stored text.
    by_text: Arc<HashMap<String, i64>>,
}

impl Cached for SkillSets {
    const LIFETIME: Lifetime = Lifetime::Connection;
}

impl SkillSets {
    /// Returns the id of the newest cached set, or 0 if there is none.
    pub fn newest_id(&self) -> i64 {
        self.by_id.last().map_or(0, |(id, _)| *id)
    }

    /// Returns the cached sets that are newer than the set with this id.
    pub fn newer_than(&self, id: i64) -> &[(i64, Arc<[String]>)] {
        let known = self.by_id.partition_point(|(other, _)| *other <= id);
        self.by_id.get(known..).unwrap_or_default()
    }

    fn id_of(&self, text: &str) -> Option<i64> {
        self.by_text.get(text).copied()
    }

    fn extend(&mut self, rows: Vec<(i64, String)>) {
        let by_id = Arc::make_mut(&mut self.by_id);
        let by_text = Arc::make_mut(&mut self.by_text);
        for (id, text) in rows {
            by_id.push((id, SkillSet::parse(&text).into_names().into()));
            by_text.insert(text, id);
        }
    }
}

/// Returns the cached sets of the caller's workspace, and reads all sets first if the connection has cached
/// none.
pub(crate) fn load_cached_sets(cx: &Read<'_>) -> Result<SkillSets> {
    match cx.cached(&SINGLE_ENTRY) {
        Some(known) => Ok(known),
        None => load_all_sets(cx),
    }
}

/// Returns every set of the caller's workspace, after reading the sets that are not cached.
pub(crate) fn load_all_sets(cx: &Read<'_>) -> Result<SkillSets> {
    cx.with_cached(&SINGLE_ENTRY, |known: &mut SkillSets| {
        let newer = cx.query(SETS_AFTER, &[&cx.caller().workspace_id, &known.newest_id()])?;
        known.extend(newer);
        Ok(known.clone())
    })
}

/// Returns the sorted names of the skills in the set with this id.
pub(crate) fn load_names(cx: &Read<'_>, id: i64) -> Result<Vec<String>> {
    let found: Option<(SkillSet,)> = cx.one(SET, &[&cx.caller().workspace_id, &id])?;
    let (set,) = found.ok_or_else(|| Error::internal("a thread's set of required skills is missing"))?;
    Ok(set.into_names())
}

const SET: &str = "select skills from skill_sets where workspace_id = $1 and id = $2";

const SETS_AFTER: &str = "select id, skills from skill_sets where workspace_id = $1 and id > $2 order by id";

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> SkillSet {
        SkillSet::of(&names.iter().map(|name| Skill::new(name).unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn a_set_has_one_stored_form() {
        assert_eq!(set(&["rust", "python", "Rust"]).text(), "python,rust");
        assert_eq!(set(&["rust", "python"]), set(&["python", "rust", "rust"]));
        for names in [&[][..], &["a"], &["b", "a"]] {
            assert_eq!(SkillSet::parse(&set(names).text()), set(names));
        }
        assert_eq!(set(&[]).text(), "");
    }

    #[test]
    fn sets_are_known_up_to_the_newest() {
        let mut sets = SkillSets::default();
        assert_eq!((sets.newest_id(), sets.newer_than(0).len()), (0, 0));
        sets.extend(vec![(1, String::new()), (2, "rust".to_owned())]);
        let earlier = sets.clone();
        sets.extend(vec![(3, "go,rust".to_owned())]);
        assert_eq!((sets.newest_id(), earlier.newest_id()), (3, 2));
        assert_eq!((sets.id_of("go,rust"), earlier.id_of("go,rust")), (Some(3), None));
        assert_eq!(sets.newer_than(1).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(*sets.newer_than(2)[0].1, ["go", "rust"]);
    }

    #[test]
    fn no_skill_contains_the_separator() {
        assert!(Skill::new("a,b").is_err());
    }
}
