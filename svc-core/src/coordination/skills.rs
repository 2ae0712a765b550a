//! Required skills: which skills a member must have to claim a thread. Each set is stored once for its workspace
//! and known by a small number, so that a claimer looks at the few sets it covers and not at every thread. Sets
//! are never removed; the empty one is a set like any other. Members' own skills are not kept here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::threads::{self, Thread};
use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::id::ThreadId;
use crate::limits::{SKILL_MAX, SKILLS_MAX};
use crate::log::event::{Event, EventKind};
use crate::op::{Feature, Read, Write, idempotent};
use crate::store::{FromValue, Value};
use crate::text::{Handle, Items};

/// The name of a skill.
pub(crate) type Skill = Handle<SKILL_MAX>;

/// A set of skills in its stored form: sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkillSet(Vec<String>);

/// What separates the names of a stored set; no skill's name contains it.
const SEPARATOR: char = ',';

impl SkillSet {
    /// The set of `skills`, however often and in whatever order they are named.
    pub fn of(skills: &[Skill]) -> Self {
        let unique: BTreeSet<&str> = skills.iter().map(|skill| &**skill).collect();
        Self(unique.into_iter().map(str::to_owned).collect())
    }

    /// The names, sorted.
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

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                idempotent("set_required_skills", set_required_skills)
                    .title("Set the skills that a thread requires")
                    .put("/threads/{thread_id}/required-skills")
                    .needs(&[ThreadTransition])
                    .example(|w| json!({"thread_id": w.thread_id, "required_skills": ["python"]})),
            ],
        )
        .events(vec![EventKind::of::<ThreadSkillsChanged>()])
}

/// The required skills of a thread were replaced.
#[derive(Serialize, JsonSchema)]
struct ThreadSkillsChanged<'a> {
    /// The skills that a member must have from now on to claim the thread.
    required_skills: &'a [String],
}

impl Event for ThreadSkillsChanged<'_> {
    const KIND: &'static str = "ThreadSkillsChanged";
}

/// Replaces the skills that a member must have to claim the thread. An empty list lets anybody claim it. A claim
/// that is held goes on. Answers the thread; 409 `wrong-state` when it is archived.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetRequiredSkills {
    /// The thread.
    thread_id: ThreadId,
    /// All the skills that are required from now on.
    required_skills: Items<Skill, SKILLS_MAX>,
}

fn set_required_skills(cx: &mut Write<'_>, input: &SetRequiredSkills) -> Result<Thread> {
    let mut thread = threads::visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let set = SkillSet::of(&input.required_skills);
    if set.0 == thread.required_skills {
        return Ok(thread);
    }
    let id = intern(cx, &set)?;
    cx.execute(1, SET_SKILLS, &[&thread.id, &id])?;
    cx.emit(thread.place(), &ThreadSkillsChanged { required_skills: &set.0 })?;
    thread.skill_set = id;
    thread.required_skills = set.into_names();
    Ok(thread)
}

const SET_SKILLS: &str = "update threads set skill_set = $2 where id = $1";

/// The number of `set` in the caller's workspace, storing it if it is new.
pub(crate) fn intern(cx: &mut Write<'_>, set: &SkillSet) -> Result<i64> {
    let workspace = cx.caller().workspace_id;
    let known = catalogue(cx)?;
    let text = set.text();
    if let Some(id) = known.by_text.get(&text) {
        return Ok(*id);
    }
    let id = known.sets.last().map_or(0, |(last, _)| *last).saturating_add(1);
    cx.execute(1, ADD_SET, &[&workspace, &id, &text])?;
    cx.forget()?;
    Ok(id)
}

const ADD_SET: &str = "insert into skill_sets (workspace_id, id, skills) values ($1, $2, $3)";

/// A workspace's sets with their numbers, in the order of the numbers.
pub(crate) type Sets = Arc<Vec<(i64, Vec<String>)>>;

/// Every set that a thread of the caller's workspace requires or once required.
pub(crate) fn sets(cx: &Read<'_>) -> Result<Sets> {
    catalogue(cx).map(|known| known.sets)
}

/// A workspace's sets, to be found by number and by text.
#[derive(Clone)]
struct Catalogue {
    sets: Sets,
    by_text: Arc<HashMap<String, i64>>,
}

/// There is one catalogue for each workspace.
const ONLY: [u8; 32] = [0; 32];

fn catalogue(cx: &Read<'_>) -> Result<Catalogue> {
    cx.remembered(&ONLY, || {
        let rows: Vec<(i64, String)> = cx.query(ALL_SETS, &[&cx.caller().workspace_id])?;
        let sets = rows.iter().map(|(id, text)| (*id, SkillSet::parse(text).into_names())).collect();
        let by_text = rows.into_iter().map(|(id, text)| (text, id)).collect();
        Ok(Catalogue { sets: Arc::new(sets), by_text: Arc::new(by_text) })
    })
}

const ALL_SETS: &str = "select id, skills from skill_sets where workspace_id = $1 order by id";

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
    fn no_skill_contains_the_separator() {
        assert!(Skill::new("a,b").is_err());
    }
}
