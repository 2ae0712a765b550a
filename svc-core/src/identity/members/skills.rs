//! Skills of members: routing skills and governance skills.
//!
//! Routing skills determine the work that a member is offered. Members set their own routing skills.
//! Governance skills determine where a member's judgement counts. Other members grant them; the module
//! `governance` contains these operations, and no function in this file changes governance skills.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Member, load_member};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{SKILL_MAX, SKILLS_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};
use crate::page::{Cursor, Page};
use crate::request::request;
use crate::store::{Engine, named_enum};
use crate::text::{Handle, Items};

named_enum! {
    /// A governance skill, which makes a member's land gate passes (`land_gate`) or approvals (`review`)
    /// count. Members cannot grant governance skills to themselves, or revoke their own.
    pub enum GovernanceSkill { LandGate = "land_gate", Review = "review" }
}

/// Skill that makes a member's land gate passes count in every thread.
pub(crate) const LAND_GATE_SKILL: &str = GovernanceSkill::LandGate.name();

/// Skill that makes a member's approvals count in the reviews of every thread.
pub(crate) const REVIEW_SKILL: &str = GovernanceSkill::Review.name();

/// Maximum number of skills that `list_skills` returns.
const SKILLS_LISTED_MAX: usize = 1000;

/// Maximum number of member-skill pairs that `list_skills` counts.
const SKILLS_COUNTED_MAX: i64 = 4000;

/// A member changed their routing skills.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberSkillsChanged {
    /// Id of the member whose skills changed.
    member_id: MemberId,
    /// Routing skills that the member added.
    added: Vec<String>,
    /// Routing skills that the member removed.
    removed: Vec<String>,
}

impl Event for MemberSkillsChanged {
    const KIND: &'static str = "MemberSkillsChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(member) = event.field("member_id") else { return Ok(()) };
        for skill in event.list("removed") {
            event.row("member_skills", [member.clone(), skill.clone()])?.remove()?;
        }
        for skill in event.list("added") {
            let row = event.row("member_skills", [member.clone(), skill.clone()])?;
            row.made().set("governance", false).keep()?;
        }
        Ok(())
    }
}

const SKILLS_OF: &str = "select skill, governance from member_skills where member_id = $1";

/// Returns a member's skills, both routing and governance, sorted by name.
pub(crate) fn skills_of(cx: &Read<'_>, member_id: MemberId) -> Result<Vec<String>> {
    let held: Vec<(String, bool)> = cx.query(SKILLS_OF, &[&member_id])?;
    let mut skills: Vec<String> = held.into_iter().map(|(skill, _)| skill).collect();
    skills.sort_unstable();
    Ok(skills)
}

/// Returns, for each skill in `skills`, the members who have it and are neither deactivated nor frozen.
///
/// The result contains members of the caller's workspace only.
pub(crate) fn available_members_by_skill(
    cx: &Read<'_>,
    skills: &[&str],
) -> Result<BTreeMap<String, BTreeSet<MemberId>>> {
    let sql = match cx.engine() {
        Engine::Sqlite => AVAILABLE_MEMBERS_WITH_SKILLS_SQLITE,
        Engine::Postgres => AVAILABLE_MEMBERS_WITH_SKILLS_POSTGRES,
    };
    let skills = serde_json::to_string(skills).map_err(Error::internal)?;
    let holders: Vec<(String, MemberId)> = cx.query(sql, &[&cx.caller().workspace_id, &skills])?;
    let mut found: BTreeMap<String, BTreeSet<MemberId>> = BTreeMap::new();
    for (skill, member) in holders {
        found.entry(skill).or_default().insert(member);
    }
    Ok(found)
}

macro_rules! available_members_with_skills {
    ($skills:literal) => {
        concat!(
            "select s.skill, m.id from ",
            $skills,
            " p join member_skills s on s.skill = p.value join members m on m.id = s.member_id
             where m.workspace_id = $1 and m.deactivated_at is null and m.frozen_at is null"
        )
    };
}

const AVAILABLE_MEMBERS_WITH_SKILLS_SQLITE: &str = available_members_with_skills!("json_each($2)");

const AVAILABLE_MEMBERS_WITH_SKILLS_POSTGRES: &str =
    available_members_with_skills!("jsonb_array_elements_text(cast(cast($2 as text) as jsonb))");

/// Returns all members of the caller's workspace who have a skill.
pub(crate) fn members_with_skill(cx: &Read<'_>, skill: &str) -> Result<BTreeSet<MemberId>> {
    let holders: Vec<(MemberId,)> = cx.query(MEMBERS_WITH_SKILL, &[&cx.caller().workspace_id, &skill])?;
    Ok(holders.into_iter().map(|(member,)| member).collect())
}

const MEMBERS_WITH_SKILL: &str = "
    select m.id from member_skills s join members m on m.id = s.member_id
    where m.workspace_id = $1 and s.skill = $2";

/// Returns whether a member of the caller's workspace has a skill.
pub(crate) fn member_has_skill(cx: &Read<'_>, member: MemberId, skill: &str) -> Result<bool> {
    let found: Option<(MemberId,)> =
        cx.one(MEMBER_WITH_SKILL, &[&cx.caller().workspace_id, &skill, &member])?;
    Ok(found.is_some())
}

const MEMBER_WITH_SKILL: &str = "
    select m.id from member_skills s join members m on m.id = s.member_id
    where m.workspace_id = $1 and s.skill = $2 and m.id = $3";

/// SQL condition: the member with the id `$id` has the skill `$skill`.
macro_rules! has_skill {
    ($id:literal, $skill:literal) => {
        concat!(
            "exists (select 1 from member_skills held where held.member_id = ",
            $id,
            " and held.skill = ",
            $skill,
            ")"
        )
    };
}
pub(crate) use has_skill;

request! {
    /// Replaces the skills that determine which threads you are offered, and returns your member record.
    ///
    /// A thread that requires skills is offered only to members who have all of the required skills. Your
    /// governance skills `land_gate` and `review`, which only other members can grant, do not change.
    ///
    /// Fails with 403 `forbidden` if `skills` contains a governance skill, or if you act as a delegate.
    #[derive(Serialize)]
    pub(super) struct SetSkills {
        /// The complete list of your routing skills, such as `python`.
        ///
        /// Upper-case letters are converted to lower case. An empty list removes all routing skills.
        skills: Items<Handle<SKILL_MAX>, SKILLS_MAX>,
    }

    set_skills(skills: Items<Handle<SKILL_MAX>, SKILLS_MAX>) -> Member
}

const ADD_SKILL: &str = "insert into member_skills (member_id, skill, governance) values ($1, $2, false)";

const REMOVE_SKILL: &str =
    "delete from member_skills where member_id = $1 and skill = $2 and governance = false";

pub(super) fn set_skills(cx: &mut Write<'_>, input: &SetSkills) -> Result<Member> {
    let mut me = load_member(cx, cx.caller().member_id()?)?;
    let wanted: BTreeSet<String> = input.skills.iter().map(|skill| skill.to_string()).collect();
    check_no_governance_skill(&wanted)?;
    let held: Vec<(String, bool)> = cx.query(SKILLS_OF, &[&me.id])?;
    let routing = held.into_iter().filter(|(_, governance)| !governance).map(|(skill, _)| skill).collect();
    let (added, removed) = added_and_removed(&routing, &wanted);
    if added.is_empty() && removed.is_empty() {
        return Ok(me);
    }
    for skill in &added {
        cx.execute(1, ADD_SKILL, &[&me.id, skill])?;
    }
    for skill in &removed {
        cx.execute(1, REMOVE_SKILL, &[&me.id, skill])?;
    }
    cx.emit(Subject::WORKSPACE.about(me.id), &MemberSkillsChanged { member_id: me.id, added, removed })?;
    me.skills = skills_of(cx, me.id)?;
    Ok(me)
}

/// Fails if `skills` contains a governance skill, which only other members can grant.
fn check_no_governance_skill(skills: &BTreeSet<String>) -> Result<()> {
    match GovernanceSkill::ALL.iter().map(|skill| skill.name()).find(|skill| skills.contains(*skill)) {
        None => Ok(()),
        Some(skill) => Err(Error::forbidden(format!(
            "{skill} is a governance skill: a member with channel:admin confers it, not its holder"
        ))),
    }
}

/// Returns the skills to add and the skills to remove, in this order, to change the set `before` into
/// `after`.
fn added_and_removed(before: &BTreeSet<String>, after: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    (after.difference(before).cloned().collect(), before.difference(after).cloned().collect())
}

request! {
    /// Returns the skills of a workspace's active members, with the number of members who have each skill.
    ///
    /// The most common skills are listed first, up to 1000. Only the first 2000 members of the workspace are
    /// counted, and up to 4000 of their skills.
    pub(super) struct ListSkills {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
    }

    list_skills() -> Page<SkillCount>
}

/// A skill, with the number of active members of the workspace who have it.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SkillCount {
    /// Name of the skill, such as `rust`.
    pub skill: String,
    /// Whether the skill is a governance skill, which only other members can grant.
    pub governance: bool,
    /// Number of active members who have the skill.
    pub members: i64,
    /// Whether more members may have the skill than were counted, because the workspace has too many members
    /// to count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

pub(super) fn list_skills(cx: &Read<'_>, input: &ListSkills) -> Result<Page<SkillCount>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let horizon = cx.horizon(MEMBER_HORIZON, &[&workspace_id], 0)?;
    let counted: Vec<(String, bool, i64)> =
        cx.query(SKILL_COUNTS, &[&workspace_id, &horizon.up_to(), &SKILLS_COUNTED_MAX])?;
    let all = counted.iter().fold(0_i64, |all, (.., members)| all.saturating_add(*members));
    let at_least = horizon.0.is_some() || all >= SKILLS_COUNTED_MAX;
    let items = counted.into_iter().take(SKILLS_LISTED_MAX);
    let items = items.map(|(skill, governance, members)| SkillCount { skill, governance, members, at_least });
    Ok(Page::rest_after_index(items.collect(), input.cursor))
}

const MEMBER_HORIZON: &str =
    "select lsn from members where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

const SKILL_COUNTS: &str = "
    select skill, governance, count(*) from (
        select s.skill, s.governance from members m join member_skills s on s.member_id = m.id
        where m.workspace_id = $1 and m.lsn <= $2 and m.deactivated_at is null
        order by m.lsn limit $3) counted
    group by skill, governance order by count(*) desc, skill";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn set(skills: &[&str]) -> BTreeSet<String> {
        skills.iter().map(|skill| (*skill).to_owned()).collect()
    }

    #[test]
    fn members_cannot_set_their_own_governance_skills() {
        assert!(check_no_governance_skill(&set(&["python", "reviewer"])).is_ok());
        for skill in [LAND_GATE_SKILL, REVIEW_SKILL] {
            assert_eq!(
                check_no_governance_skill(&set(&["python", skill])).unwrap_err().code(),
                Code::Forbidden
            );
        }
    }

    #[test]
    fn only_what_differs_is_changed() {
        let (added, removed) = added_and_removed(&set(&["a", "b"]), &set(&["b", "c"]));
        assert_eq!((added, removed), (vec!["c".to_owned()], vec!["a".to_owned()]));
        assert_eq!(added_and_removed(&set(&["a"]), &set(&["a"])), (vec![], vec![]));
    }
}
