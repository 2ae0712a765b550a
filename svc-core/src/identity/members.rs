//! Members: the people and agents of a workspace, and their skills.
//!
//! Routing skills say what work a member takes, and each member sets its own. Governance skills say what a
//! member's judgement counts for; others confer them, and nothing in this file changes them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::tokens::{self, Mint, MintedToken};
use super::workspaces::own_workspace;
use crate::capability::Capability::{ThreadTransition, TokenAdmin, WorkspaceRead};
use crate::capability::CapabilitySet;
use crate::error::{Code, Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::limits::{HANDLE_MAX, NAME_MAX, SKILL_MAX, SKILLS_MAX};
use crate::log::event::{Event, EventKind, Invalidates, Subject};
use crate::op::{Feature, Read, Surface, TypedOperation, Write, idempotent, read, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{FromValue, Param, ToParam, Value, columns};
use crate::text::{Handle, Items, Text};
use crate::time::Time;

/// Skills that say whose judgement counts.
///
/// Others confer and revoke them; a member never sets them for itself.
const GOVERNANCE_SKILLS: [&str; 2] = ["land_gate", "review"];

/// Maximum number of skills that `list_skills` returns.
const SKILLS_LISTED: i64 = 1000;

/// Whether a member is a person or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberKind {
    Human,
    Agent,
}

impl MemberKind {
    fn name(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Agent => "agent",
        }
    }

    /// The named set for a member's token if the request names no capabilities.
    pub fn default_set(self) -> CapabilitySet {
        match self {
            Self::Human => CapabilitySet::HumanAdmin,
            Self::Agent => CapabilitySet::AgentWorker,
        }
    }
}

impl ToParam for MemberKind {
    fn param(&self) -> Param<'_> {
        Param::Text(self.name())
    }
}

impl FromValue for MemberKind {
    fn from_value(value: Value) -> Result<Self> {
        match String::from_value(value)?.as_str() {
            "human" => Ok(Self::Human),
            "agent" => Ok(Self::Agent),
            other => Err(Error::internal(format!("a member has the unknown kind {other}"))),
        }
    }
}

/// A member of a workspace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Member {
    /// The member's id.
    pub id: MemberId,
    /// The workspace it belongs to.
    pub workspace_id: WorkspaceId,
    /// Its name in the workspace, which no other member has.
    pub handle: String,
    /// Whether it is a person or an agent.
    pub kind: MemberKind,
    /// A name for people to read; null if none was given.
    pub display_name: Option<String>,
    /// Its skills, routing and governance alike, sorted by name.
    pub skills: Vec<String>,
    /// When it joined.
    pub created_at: Time,
    /// Whether an administrator has frozen it, so that it may only read.
    pub frozen: bool,
    /// Whether it may use the service at all.
    pub active: bool,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    member_columns: Member as m {
        id,
        workspace_id,
        handle,
        kind,
        display_name,
        created_at,
        frozen = "m.frozen_at is not null",
        active = "m.deactivated_at is null",
        lsn,
    }
    read {
        names: Option<String> = "(select string_agg(s.skill, ',') from member_skills s where s.member_id = m.id)",
    }
    make { skills: names.map_or_else(Vec::new, |names| skill_names(&names)) }
    insert "insert into members" {}
}

/// A statement that selects whole members as `m`, with their skills; `$rest` is the rest of the statement.
macro_rules! member_select {
    ($rest:literal) => {
        concat!("select ", member_columns!(), " from members m ", $rest)
    };
}

/// Splits a list made by [`member_select`]: no skill's name contains a comma.
fn skill_names(list: &str) -> Vec<String> {
    let mut names: Vec<String> = list.split(',').map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// A member joined the workspace.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberCreated {
    /// The new member.
    member_id: MemberId,
    /// Its handle.
    handle: String,
    /// Whether it is a person or an agent.
    kind: MemberKind,
    /// Its name for people, if it has one.
    display_name: Option<String>,
}

impl Event for MemberCreated {
    const KIND: &'static str = "MemberCreated";
}

/// A member changed its routing skills.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberSkillsChanged {
    /// The member.
    member_id: MemberId,
    /// Routing skills that it has now and did not have before.
    added: Vec<String>,
    /// Routing skills that it had before and no longer has.
    removed: Vec<String>,
}

impl Event for MemberSkillsChanged {
    const KIND: &'static str = "MemberSkillsChanged";
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "members",
            vec![
                write("create_agent", create_agent)
                    .title("Add an agent")
                    .post("/workspaces/{workspace_id}/agents")
                    .needs(&[TokenAdmin])
                    .rest_only()
                    .created()
                    .refuses(&[Code::HandleTaken])
                    .example(|w| {
                        json!({
                            "workspace_id": w.id("workspace"), "handle": "builder", "display_name": "Builder",
                        })
                    }),
                read(LIST_MEMBERS, list_members)
                    .title("List members")
                    .get("/workspaces/{workspace_id}/members")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "kind": "agent", "limit": 10})),
                read("get_member", get_member)
                    .quick()
                    .title("Read a member")
                    .get("/members/{member_id}")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"member_id": w.id("agent")})),
                idempotent("set_skills", set_skills)
                    .title("Set your skills")
                    .put("/me/skills")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::Forbidden])
                    .example(|_| json!({"skills": ["python", "rust"]})),
                read("list_skills", list_skills)
                    .title("List the skills of a workspace")
                    .get("/workspaces/{workspace_id}/skills")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .events(vec![
            EventKind::of::<MemberCreated>(),
            EventKind::of::<MemberSkillsChanged>().invalidates(Invalidates::Rules),
        ])
}

/// Creates an agent in a workspace and returns it with its first token.
///
/// The token carries the named set `svc.agent.worker`. Its `secret` is shown only once.
///
/// Fails with 409 `handle-taken` if another member of the workspace has the handle; nothing is created then.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateAgent {
    /// The workspace that the agent joins. It must be yours.
    workspace_id: WorkspaceId,
    /// The agent's name in the workspace, such as `builder`. Upper-case letters are converted to lower case.
    handle: Handle<HANDLE_MAX>,
    /// A name for people to read.
    display_name: Option<Text<1, NAME_MAX>>,
}

/// A new member with its first token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MemberWithToken {
    /// The member.
    pub member: Member,
    /// The token, with its secret.
    pub token: MintedToken,
}

fn create_agent(cx: &mut Write<'_>, input: &CreateAgent) -> Result<MemberWithToken> {
    own_workspace(cx, input.workspace_id)?;
    let new = NewMember {
        workspace_id: input.workspace_id,
        handle: &input.handle,
        kind: MemberKind::Agent,
        display_name: input.display_name.as_deref(),
        surface: None,
    };
    check_handle_free(cx, &new)?;
    enrol_with_token(cx, &new, CapabilitySet::AgentWorker)
}

/// A member to create.
pub(crate) struct NewMember<'a> {
    pub workspace_id: WorkspaceId,
    pub handle: &'a str,
    pub kind: MemberKind,
    pub display_name: Option<&'a str>,
    /// The surface of the request, for the audit row if no member made it.
    pub surface: Option<Surface>,
}

const BY_HANDLE: &str = member_select!("where m.workspace_id = $1 and m.handle = $2");

/// The member called `handle`, if there is one.
pub(crate) fn member_called(
    cx: &Read<'_>,
    workspace_id: WorkspaceId,
    handle: &str,
) -> Result<Option<Member>> {
    cx.one(BY_HANDLE, &[&workspace_id, &handle])
}

/// Fails if another member of the workspace has the handle.
pub(crate) fn check_handle_free(cx: &Read<'_>, new: &NewMember<'_>) -> Result<()> {
    match cx.one::<Member>(BY_HANDLE, &[&new.workspace_id, &new.handle])? {
        None => Ok(()),
        Some(_) => {
            let detail = format!("the handle {} is in use in this workspace; choose another", new.handle);
            Err(Error::new(Code::HandleTaken, detail))
        }
    }
}

/// Creates a member. The caller has checked that it is allowed and that the handle is free.
pub(crate) fn enrol(cx: &mut Write<'_>, new: &NewMember<'_>) -> Result<Member> {
    let id: MemberId = cx.new_id()?;
    let display_name = new.display_name.map(str::to_owned);
    let event = MemberCreated {
        member_id: id,
        handle: new.handle.to_owned(),
        kind: new.kind,
        display_name: display_name.clone(),
    };
    let lsn = cx.emit_in(new.workspace_id, Subject::WORKSPACE.about(id), &event)?.lsn;
    let member = Member {
        id,
        workspace_id: new.workspace_id,
        handle: new.handle.to_owned(),
        kind: new.kind,
        display_name,
        skills: Vec::new(),
        created_at: cx.now(),
        frozen: false,
        active: true,
        lsn,
    };
    member.with_new_row(|row| cx.insert(row))?;
    let metadata = json!({"member_id": id, "handle": new.handle, "kind": new.kind});
    cx.audit_in(new.workspace_id, "member.create", named_surface(metadata, new.surface))?;
    Ok(member)
}

/// Adds the surface to an audit row's metadata, for requests that no member made.
pub(crate) fn named_surface(mut metadata: Json, surface: Option<Surface>) -> Json {
    if let (Some(surface), Some(members)) = (surface, metadata.as_object_mut()) {
        members.insert("surface".to_owned(), surface.name().into());
    }
    metadata
}

/// Creates a member and mints its first token.
pub(crate) fn enrol_with_token(
    cx: &mut Write<'_>,
    new: &NewMember<'_>,
    set: CapabilitySet,
) -> Result<MemberWithToken> {
    let member = enrol(cx, new)?;
    let mint = Mint { surface: new.surface, ..Mint::new(&member, set.capabilities()) };
    let token = tokens::issue(cx, &mint)?;
    Ok(MemberWithToken { member, token })
}

/// Returns the members of a workspace, in the order in which they joined.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListMembers {
    /// The workspace. It must be yours.
    pub workspace_id: WorkspaceId,
    /// Only the member with this handle.
    pub handle: Option<Handle<HANDLE_MAX>>,
    /// Only people, or only agents.
    pub kind: Option<MemberKind>,
    pub cursor: Option<Cursor>,
    pub limit: Option<Limit>,
}

/// Lists the members of a workspace.
pub const LIST_MEMBERS: TypedOperation<ListMembers, Page<Member>> = TypedOperation::new("list_members");

const OF_WORKSPACE: &str = member_select!(
    "where m.workspace_id = $1 and m.lsn > $2
       and (cast($3 as text) is null or m.handle = $3)
       and (cast($4 as text) is null or m.kind = $4)
     order by m.lsn limit $5"
);

fn list_members(cx: &Read<'_>, input: &ListMembers) -> Result<Page<Member>> {
    own_workspace(cx, input.workspace_id)?;
    let after = Cursor::after(input.cursor);
    let rows = cx.rows(
        OF_WORKSPACE,
        &[&input.workspace_id, &after, &input.handle, &input.kind, &rows_to_read(input.limit)],
    )?;
    Ok(Page::of(rows, input.limit, |member: &Member| member.lsn))
}

/// Returns a member of your workspace, with its skills.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetMember {
    /// The member.
    member_id: MemberId,
}

fn get_member(cx: &Read<'_>, input: &GetMember) -> Result<Member> {
    load_member(cx, input.member_id)
}

const BY_ID: &str = member_select!("where m.id = $1 and m.workspace_id = $2");

/// Loads a member of the caller's workspace.
pub(crate) fn load_member(cx: &Read<'_>, member_id: MemberId) -> Result<Member> {
    let found: Option<Member> = cx.one(BY_ID, &[&member_id, &cx.caller().workspace_id])?;
    found.ok_or_else(|| Error::not_found("member"))
}

const SKILLS_OF: &str = "select skill, governance from member_skills where member_id = $1";

/// Returns a member's skills, routing and governance alike, sorted by name.
pub(crate) fn skills_of(cx: &Read<'_>, member_id: MemberId) -> Result<Vec<String>> {
    let held: Vec<(String, bool)> = cx.query(SKILLS_OF, &[&member_id])?;
    let mut skills: Vec<String> = held.into_iter().map(|(skill, _)| skill).collect();
    skills.sort_unstable();
    Ok(skills)
}

/// Replaces your routing skills and returns you, as a member.
///
/// Routing skills say what work you take: a thread that requires skills is offered only to members who have
/// all of them. The governance skills `land_gate` and `review` are conferred by others, and those that you
/// have stay.
///
/// Fails with 403 `forbidden` if `skills` names a governance skill, or if you act as a delegate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetSkills {
    /// All your routing skills from now on, such as `python`.
    ///
    /// Upper-case letters are converted to lower case; an empty list removes all.
    skills: Items<Handle<SKILL_MAX>, SKILLS_MAX>,
}

const ADD_SKILL: &str = "insert into member_skills (member_id, skill, governance) values ($1, $2, false)";

const REMOVE_SKILL: &str =
    "delete from member_skills where member_id = $1 and skill = $2 and governance = false";

fn set_skills(cx: &mut Write<'_>, input: &SetSkills) -> Result<Member> {
    if cx.caller().grant.is_some() {
        return Err(Error::forbidden("only the member itself can set its skills, not a delegate"));
    }
    let mut me = load_member(cx, cx.caller().member_id()?)?;
    let wanted: BTreeSet<String> = input.skills.iter().map(|skill| skill.to_string()).collect();
    refuse_governance(&wanted)?;
    let held: Vec<(String, bool)> = cx.query(SKILLS_OF, &[&me.id])?;
    let routing = held.into_iter().filter(|(_, governance)| !governance).map(|(skill, _)| skill).collect();
    let (added, removed) = difference(&routing, &wanted);
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

/// Fails if `skills` contains a skill that only others can confer.
fn refuse_governance(skills: &BTreeSet<String>) -> Result<()> {
    match GOVERNANCE_SKILLS.iter().find(|skill| skills.contains(**skill)) {
        None => Ok(()),
        Some(skill) => Err(Error::forbidden(format!(
            "{skill} is a governance skill: a member with channel:admin confers it, not its holder"
        ))),
    }
}

/// Returns what only `after` contains, and what only `before` contains.
fn difference(before: &BTreeSet<String>, after: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    (after.difference(before).cloned().collect(), before.difference(after).cloned().collect())
}

/// Returns the skills of a workspace's active members, with the number of members that have each.
///
/// The most common skills come first; at most 1000 are returned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListSkills {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
}

/// A skill that an active member of the workspace has.
#[derive(Debug, Serialize, JsonSchema)]
struct SkillCount {
    /// The skill.
    skill: String,
    /// Whether it is a governance skill, which others confer.
    governance: bool,
    /// The number of active members that have it.
    members: i64,
}

columns! { skill_count_columns: SkillCount as s { skill, governance, members = "count(*)" } }

const SKILL_COUNTS: &str = concat!(
    "select ",
    skill_count_columns!(),
    " from members m join member_skills s on s.member_id = m.id
     where m.workspace_id = $1 and m.deactivated_at is null
     group by s.skill, s.governance
     order by count(*) desc, s.skill limit $2"
);

fn list_skills(cx: &Read<'_>, input: &ListSkills) -> Result<Page<SkillCount>> {
    own_workspace(cx, input.workspace_id)?;
    let items = cx.query(SKILL_COUNTS, &[&input.workspace_id, &SKILLS_LISTED])?;
    Ok(Page::whole(items))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(skills: &[&str]) -> BTreeSet<String> {
        skills.iter().map(|skill| (*skill).to_owned()).collect()
    }

    #[test]
    fn governance_skills_are_not_set_by_oneself() {
        assert!(refuse_governance(&set(&["python", "reviewer"])).is_ok());
        for skill in GOVERNANCE_SKILLS {
            assert_eq!(refuse_governance(&set(&["python", skill])).unwrap_err().code(), Code::Forbidden);
        }
    }

    #[test]
    fn only_what_differs_is_changed() {
        let (added, removed) = difference(&set(&["a", "b"]), &set(&["b", "c"]));
        assert_eq!((added, removed), (vec!["c".to_owned()], vec!["a".to_owned()]));
        assert_eq!(difference(&set(&["a"]), &set(&["a"])), (vec![], vec![]));
    }

    #[test]
    fn a_kind_is_stored_as_it_is_written() {
        for kind in [MemberKind::Human, MemberKind::Agent] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert_eq!(MemberKind::from_value(Value::Text(kind.name().to_owned())).unwrap(), kind);
        }
    }
}
