//! Governance skills: skills that a member must have for the member's reviews or land gate passes to count.
//!
//! A member with `channel:admin` grants governance skills to other members and revokes them. Members cannot
//! grant themselves such a skill or revoke their own.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::skills::{GovernanceSkill, skills_of};
use super::{Member, load_member};
use crate::capability::Capability::ChannelAdmin;
use crate::error::{Code, Error, Result};
use crate::id::MemberId;
use crate::identity::authority::check_is_not_caller;
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Operation, Read, Sample, Write, destructive, idempotent};
use crate::request::request;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        idempotent("confer_skill", confer_skill)
            .title("Grant a governance skill")
            .when(
                "Grant another member a governance skill: `review` or `land_gate`. Use `set_skills` for your \
                 own routing skills.",
            )
            .put("/members/{member_id}/governance-skills/{skill}")
            .needs(&[ChannelAdmin])
            .refuses(&[Code::Forbidden])
            .example(|w| json!({"member_id": w.id("agent"), "skill": "review"})),
        destructive("revoke_skill", revoke_skill)
            .title("Revoke a governance skill")
            .when("Revoke a governance skill, `review` or `land_gate`, of another member.")
            .delete("/members/{member_id}/governance-skills/{skill}")
            .needs(&[ChannelAdmin])
            .refuses(&[Code::Forbidden, Code::NotFound])
            .example(|w| json!({"member_id": w.id("judge"), "skill": "land_gate"})),
    ]
}

/// Creates the sample of a member who has a governance skill.
pub(super) fn judge_sample() -> Sample {
    Sample::new(
        "judge",
        "create_agent",
        |w| json!({"workspace_id": w.id("workspace"), "handle": "judge", "display_name": "Judge"}),
    )
    .id_at("/member/id")
    .then("confer_skill", |w| json!({"member_id": w.id("judge"), "skill": "land_gate"}))
}

/// A governance skill was granted to a member.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GovernanceSkillConferred {
    /// Id of the member who received the skill.
    member_id: MemberId,
    /// The governance skill that was granted.
    skill: GovernanceSkill,
}

impl Event for GovernanceSkillConferred {
    const KIND: &'static str = "GovernanceSkillConferred";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("member_skills", "member_id skill")?.made().set("governance", true).keep()
    }
}

/// A governance skill of a member was revoked.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GovernanceSkillRevoked {
    /// Id of the member who lost the skill.
    member_id: MemberId,
    /// The governance skill that was revoked.
    skill: GovernanceSkill,
}

impl Event for GovernanceSkillRevoked {
    const KIND: &'static str = "GovernanceSkillRevoked";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("member_skills", "member_id skill")?.remove()
    }
}

request! {
    /// Grants a governance skill, `review` or `land_gate`, to another member, and returns that member.
    ///
    /// From then on, the member's judgements count wherever the skill is required.
    ///
    /// Granting a skill that the member already has changes nothing.
    ///
    /// Fails with 403 `forbidden` if the member is you or, under delegation, the subject or the delegate.
    #[derive(Serialize)]
    struct ConferSkill {
        /// The member to grant the skill to.
        member_id: MemberId,
        /// The skill: `land_gate` or `review`.
        skill: GovernanceSkill,
    }

    confer_skill(member_id: MemberId, skill: GovernanceSkill) -> Member
}

fn confer_skill(cx: &mut Write<'_>, input: &ConferSkill) -> Result<Member> {
    let member = load_member(cx, input.member_id)?;
    check_is_not_caller(cx.caller(), member.id, "grant itself a governance skill")?;
    if has_governance_skill(cx, member.id, input.skill)? {
        return Ok(member);
    }
    cx.execute(1, INSERT_GOVERNANCE_SKILL, &[&member.id, &input.skill])?;
    let conferred = GovernanceSkillConferred { member_id: member.id, skill: input.skill };
    cx.emit(Subject::WORKSPACE.about(member.id), &conferred)?;
    Ok(Member { skills: skills_of(cx, member.id)?, ..member })
}

const INSERT_GOVERNANCE_SKILL: &str =
    "insert into member_skills (member_id, skill, governance) values ($1, $2, true)";

request! {
    /// Revokes a governance skill, `review` or `land_gate`, of another member, and returns that member.
    ///
    /// The member's verdicts that require the skill no longer count, including earlier verdicts.
    ///
    /// Fails with 403 `forbidden` if the member is you or, under delegation, the subject or the delegate; 404
    /// `not-found` if the member does not have the skill.
    #[derive(Serialize)]
    struct RevokeSkill {
        /// The member who loses the skill.
        member_id: MemberId,
        /// The skill: `land_gate` or `review`.
        skill: GovernanceSkill,
    }

    revoke_skill(member_id: MemberId, skill: GovernanceSkill) -> Member
}

fn revoke_skill(cx: &mut Write<'_>, input: &RevokeSkill) -> Result<Member> {
    let member = load_member(cx, input.member_id)?;
    check_is_not_caller(cx.caller(), member.id, "revoke its own governance skill")?;
    if !has_governance_skill(cx, member.id, input.skill)? {
        return Err(Error::not_found("governance skill of the member"));
    }
    cx.execute(1, DELETE_GOVERNANCE_SKILL, &[&member.id, &input.skill])?;
    let revoked = GovernanceSkillRevoked { member_id: member.id, skill: input.skill };
    cx.emit(Subject::WORKSPACE.about(member.id), &revoked)?;
    Ok(Member { skills: skills_of(cx, member.id)?, ..member })
}

const DELETE_GOVERNANCE_SKILL: &str =
    "delete from member_skills where member_id = $1 and skill = $2 and governance = true";

/// Returns whether another member has granted this governance skill to the member.
fn has_governance_skill(cx: &Read<'_>, member: MemberId, skill: GovernanceSkill) -> Result<bool> {
    Ok(cx.one::<(bool,)>(GOVERNANCE_SKILL, &[&member, &skill])?.is_some())
}

const GOVERNANCE_SKILL: &str =
    "select governance from member_skills where member_id = $1 and skill = $2 and governance = true";
