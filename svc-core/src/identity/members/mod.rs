//! Members: the people and agents of a workspace, and their skills.
//!
//! This file defines and loads members.
//!
//! - `skills`: the skills of members, and setting your own routing skills
//! - `governance`: granting and revoking the governance skills of other members
//! - `profile`: display names
//! - `frozen`: frozen members
//! - `people`: the people of a workspace, as a directory service sees them
//! - `user_name`: user names that a directory service sets for people
//! - `condition`: conditions for searching people

pub(crate) mod skills;
pub(crate) mod governance;
pub(crate) mod profile;
pub(crate) mod frozen;
mod user_name;
mod condition;
mod people;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::capability::CapabilitySet;
use crate::error::{Code, Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{CachedEntryKind, EventKind};
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::request;
use crate::store::{columns, named_enum};
use crate::text::APP_HANDLES;
use crate::time::Time;
pub(crate) use condition::{HANDLE_TESTS_MAX, HandleTest, OUTCOME_COUNT, PeopleCondition};
pub use frozen::MemberFreeze;
pub(crate) use frozen::{freeze, freeze_of, frozen_members, unfreeze};
pub(crate) use governance::GovernanceSkillConferred;
pub(crate) use people::{
    Person, clear_identity, count_matching_people, count_people, count_people_with_ids, find_person,
    find_person_by_user_name, mark_deactivated, mark_reactivated, matching_people, people_after,
    people_by_external_id, people_page, update_person,
};
pub(crate) use profile::MemberUpdated;
pub(crate) use skills::{
    LAND_GATE_SKILL, MemberSkillsChanged, REVIEW_SKILL, available_members_by_skill, has_skill,
    member_has_skill, members_with_skill, skills_of,
};
use skills::{list_skills, set_skills};
pub use user_name::AnyHandle;
pub(crate) use user_name::{UserName, normalise_user_name};

named_enum! {
    /// Whether a member is a person or an agent.
    pub enum MemberKind { Human = "human", Agent = "agent" }
}

impl MemberKind {
    /// Returns the named set of capabilities that new tokens of members of this kind have by default.
    pub fn default_capability_set(self) -> CapabilitySet {
        match self {
            Self::Human => CapabilitySet::HumanAdmin,
            Self::Agent => CapabilitySet::AgentWorker,
        }
    }
}

/// A person or an agent who is a member of a workspace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Member {
    /// Id of the member.
    pub id: MemberId,
    /// Id of the workspace that the member joined.
    pub workspace_id: WorkspaceId,
    /// Unique name of the member in the workspace.
    pub handle: String,
    /// Whether the member is a person or an agent.
    pub kind: MemberKind,
    /// Name of the member to show to people; null if the member has none.
    pub display_name: Option<String>,
    /// Routing and governance skills of the member, sorted by name.
    pub skills: Vec<String>,
    /// Time at which the member joined the workspace.
    pub created_at: Time,
    /// Time of the last change of the member's handle, display name or `active`; null if these never changed.
    pub changed_at: Option<Time>,
    /// Whether an administrator has frozen the member. A frozen member may only read.
    pub frozen: bool,
    /// Whether the member may use the service. False if the member was deactivated.
    pub active: bool,
    #[serde(skip)]
    pub(super) lsn: i64,
}

columns! {
    member_columns: Member as m {
        id,
        workspace_id,
        handle,
        kind,
        display_name,
        created_at,
        changed_at,
        frozen = "m.frozen_at is not null",
        active = "m.deactivated_at is null",
        lsn,
    }
    read {
        names: Option<String> =
            "(select string_agg(s.skill, ',') from member_skills s where s.member_id = m.id)",
    }
    make { skills: names.map_or_else(Vec::new, |names| split_skill_names(&names)) }
    insert "insert into members" {}
}

impl Member {
    /// Returns whether the member acts for an app. Such a member's authority is that of the app's
    /// installation.
    pub(super) fn is_app(&self) -> bool {
        self.handle.starts_with(APP_HANDLES)
    }

    /// Inserts the row of a new member.
    pub(super) fn insert(&self, cx: &mut Write<'_>) -> Result<()> {
        self.with_new_row(|row| cx.insert(row))
    }
}

impl<I> Answer<I> for Member {
    type Kept = MemberId;

    fn kept(&self) -> Option<MemberId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: MemberId) -> Result<Self> {
        load_member(cx, id)
    }
}

/// SQL statement that selects whole members as `m`, including their skills. `$rest` continues the statement.
macro_rules! member_select {
    ($rest:literal) => {
        concat!("select ", member_columns!(), " from members m ", $rest)
    };
}

/// SQL condition: the member with the id `$id` may make changes, because it is neither frozen nor
/// deactivated.
macro_rules! may_act {
    ($id:literal) => {
        concat!(
            "exists (select 1 from members able where able.id = ",
            $id,
            " and able.frozen_at is null and able.deactivated_at is null)"
        )
    };
}
pub(crate) use may_act;

/// Returns the ids and handles of members who are active and not frozen.
///
/// Only the first `scan_limit` members of the caller's workspace are examined.
pub(crate) fn available_members(cx: &Read<'_>, scan_limit: i64) -> Result<Vec<(MemberId, String)>> {
    cx.query(AVAILABLE_MEMBERS, &[&cx.caller().workspace_id, &scan_limit])
}

const AVAILABLE_MEMBERS: &str = "
    select m.id, m.handle from (
        select id, handle, lsn, deactivated_at, frozen_at from members
        where workspace_id = $1 order by lsn limit $2) m
    where m.deactivated_at is null and m.frozen_at is null order by m.lsn";

/// Splits the comma-separated skills that [`member_select`] returns, and sorts them. Names of skills contain
/// no commas.
fn split_skill_names(joined_names: &str) -> Vec<String> {
    let mut names: Vec<String> = joined_names.split(',').map(str::to_owned).collect();
    names.sort_unstable();
    names
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "members",
            vec![
                read("list_members", list_members)
                    .title("List members")
                    .when(
                        "List members, for example to find one for `hand_off_claim`. Use `list_presence` to \
                         see which are online.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/members")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "kind": "agent", "limit": 10})),
                read("get_member", get_member)
                    .quick()
                    .title("Read a member")
                    .when(
                        "Get one member and the member's skills. Use `list_members` to find the id, and \
                         `whoami` for yourself.",
                    )
                    .get("/members/{member_id}")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"member_id": w.id("agent")})),
                idempotent("set_skills", set_skills)
                    .title("Set your skills")
                    .when("Replace your routing skills, which determine the threads that you are offered.")
                    .put("/me/skills")
                    .needs(&[ThreadTransition])
                    .personal()
                    .refuses(&[Code::Forbidden])
                    .example(|_| json!({"skills": ["python", "rust"]})),
                read("list_skills", list_skills)
                    .detailed()
                    .title("List the skills of a workspace")
                    .when(
                        "List the skills that members have, and how many members have each. Call it before \
                         you set `required_skills`.",
                    )
                    .get("/workspaces/{workspace_id}/skills")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .operations("members", governance::operations())
        .operations("identity", profile::operations())
        .events(vec![
            EventKind::of::<MemberSkillsChanged>().invalidates(CachedEntryKind::Rules),
            EventKind::of::<GovernanceSkillConferred>().invalidates(CachedEntryKind::Rules),
            EventKind::of::<governance::GovernanceSkillRevoked>().invalidates(CachedEntryKind::Rules),
            EventKind::of::<profile::MemberUpdated>().invalidates(CachedEntryKind::Access),
        ])
        .sample(governance::judge_sample())
        .records(vec![
            Records::table("members", "lsn id")
                .after("workspaces")
                .ids("id workspace_id")
                .later_ids("frozen_by")
                .texts("handle kind display_name frozen_reason external_id")
                .times("created_at frozen_at deactivated_at changed_at removed_at")
                .ints("lsn")
                .proven(
                    "id",
                    "handle kind display_name created_at frozen_at frozen_by frozen_reason deactivated_at \
                     changed_at removed_at lsn",
                )
                .unproven("external_id", "says who a person is elsewhere, which no event does"),
            Records::table("member_skills", "member_id skill")
                .through("member_id", "members")
                .ids("member_id")
                .texts("skill")
                .bools("governance")
                .proven("member_id skill", "governance"),
        ])
}

const MEMBER_BY_HANDLE: &str = member_select!("where m.workspace_id = $1 and m.handle = $2");

/// Returns the member with this handle, or `None` if the workspace has no member with the handle.
pub(crate) fn member_with_handle(
    cx: &Read<'_>,
    workspace_id: WorkspaceId,
    handle: &str,
) -> Result<Option<Member>> {
    cx.one(MEMBER_BY_HANDLE, &[&workspace_id, &handle])
}

request! {
    /// Returns the members of a workspace, in the order in which they joined.
    #[derive(Debug, Serialize)]
    pub struct ListMembers {
        /// The workspace. It must be yours.
        pub workspace_id: OwnWorkspaceId,
        /// Return only the member with this handle, ignoring case.
        pub handle: Option<AnyHandle>,
        /// Return only members of this kind: people or agents.
        pub kind: Option<MemberKind>,
        pub cursor: Option<Cursor>,
        pub limit: Option<Limit>,
    }

    list_members() -> Page<Member>
}

const MEMBERS_OF_WORKSPACE: &str = member_select!(
    "where m.workspace_id = $1 and m.lsn > $2
       and (cast($3 as text) is null or m.handle = $3)
       and (cast($4 as text) is null or m.kind = $4)
     and m.lsn <= $6 order by m.lsn limit $5"
);

const MEMBER_HORIZON: &str =
    "select lsn from members where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

fn list_members(cx: &Read<'_>, input: &ListMembers) -> Result<Page<Member>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    // Without a filter by kind, every examined row is returned, so no horizon is needed.
    let horizon = match input.kind {
        Some(_) => cx.horizon(MEMBER_HORIZON, &[&workspace_id], after)?,
        None => ScanHorizon(None),
    };
    let limit = rows_to_read(input.limit);
    let last = horizon.up_to();
    let rows =
        cx.rows(MEMBERS_OF_WORKSPACE, &[&workspace_id, &after, &input.handle, &input.kind, &limit, &last])?;
    Ok(Page::within(horizon, rows, input.limit, |member: &Member| member.lsn))
}

request! {
    /// Returns a member of your workspace with the member's skills.
    struct GetMember {
        /// The member to return.
        member_id: MemberId,
    }

    get_member(member_id: MemberId) -> Member
}

fn get_member(cx: &Read<'_>, input: &GetMember) -> Result<Member> {
    load_member(cx, input.member_id)
}

const MEMBER_BY_ID: &str = member_select!("where m.id = $1 and m.workspace_id = $2");

/// Loads a member by its id. Fails with *not found* unless the member is in the caller's workspace.
pub(crate) fn load_member(cx: &Read<'_>, member_id: MemberId) -> Result<Member> {
    let found: Option<Member> = cx.one(MEMBER_BY_ID, &[&member_id, &cx.caller().workspace_id])?;
    found.ok_or_else(|| Error::not_found("member"))
}
