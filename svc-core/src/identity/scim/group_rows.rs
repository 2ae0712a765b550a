//! Reading and writing the rows of SCIM groups and of their members.

use uuid::Uuid;

use crate::error::Result;
use crate::id::{GroupId, MemberId, WorkspaceId};
use crate::log::event::RecordedEvent;
use crate::op::{Read, Write};
use crate::store::{Engine, columns};
use crate::time::Time;

/// Row of a SCIM group, without the group's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupRow {
    pub id: GroupId,
    pub workspace_id: WorkspaceId,
    pub display_name: String,
    pub external_id: Option<String>,
    pub created_at: Time,
    pub changed_at: Time,
    pub lsn: i64,
}

columns! {
    group_columns: GroupRow as g {
        id, workspace_id, display_name, external_id, created_at, changed_at, lsn
    }
    insert "insert into scim_groups" {}
}

/// SQL statement that selects groups of the workspace `$1`. `$rest` continues the statement.
macro_rules! groups {
    ($rest:literal) => {
        concat!("select ", group_columns!(), " from scim_groups g where g.workspace_id = $1 ", $rest)
    };
}

/// Returns a group of the caller's workspace, or `None` if no group has this id.
pub(super) fn find_group(cx: &Read<'_>, id: GroupId) -> Result<Option<GroupRow>> {
    cx.one(groups!("and g.id = $2"), &[&cx.caller().workspace_id, &id])
}

/// Returns groups with this id at the identity provider, up to `limit`, in the order of creation.
pub(super) fn groups_by_external_id(cx: &Read<'_>, external_id: &str, limit: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!(
        "and substr(g.external_id, 1, 200) = substr(cast($2 as text), 1, 200) and g.external_id = $2
         order by g.lsn limit $3"
    );
    cx.query(statement, &[&cx.caller().workspace_id, &external_id, &limit])
}

/// Returns groups that contain a member, up to `limit`, in the order of creation.
pub(super) fn groups_with_member(cx: &Read<'_>, member: MemberId, limit: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!(
        "and g.id in (select i.group_id from scim_group_members i where i.member_id = $2)
         order by g.lsn limit $3"
    );
    cx.query(statement, &[&cx.caller().workspace_id, &member, &limit])
}

/// Returns groups created after the log position `after_lsn`, up to `limit`, in the order of creation.
pub(super) fn groups_after(cx: &Read<'_>, after_lsn: i64, limit: i64) -> Result<Vec<GroupRow>> {
    cx.query(
        groups!("and g.lsn > $2 order by g.lsn limit $3"),
        &[&cx.caller().workspace_id, &after_lsn, &limit],
    )
}

/// Returns groups in the order of creation: skips the first `skip`, and returns up to `limit`.
pub(super) fn groups_page(cx: &Read<'_>, skip: i64, limit: i64) -> Result<Vec<GroupRow>> {
    let statement = groups!("order by g.lsn limit $3 offset $2");
    cx.query(statement, &[&cx.caller().workspace_id, &skip, &limit])
}

/// Returns the number of groups in the caller's workspace.
pub(super) fn count_groups(cx: &Read<'_>) -> Result<i64> {
    let counted: Option<(i64,)> =
        cx.one("select count(*) from scim_groups where workspace_id = $1", &[&cx.caller().workspace_id])?;
    Ok(counted.map_or(0, |(count,)| count))
}

/// Returns the ids of all members of a group.
pub(super) fn all_members(cx: &Read<'_>, group_id: GroupId) -> Result<Vec<MemberId>> {
    first_members(cx, group_id, i64::MAX)
}

/// Returns the ids of a group's members, up to `limit`, sorted by id.
pub(super) fn first_members(cx: &Read<'_>, group_id: GroupId, limit: i64) -> Result<Vec<MemberId>> {
    let found: Vec<(MemberId,)> = cx.query(MEMBERS_OF_GROUP, &[&group_id, &limit])?;
    Ok(found.into_iter().map(|(member,)| member).collect())
}

const MEMBERS_OF_GROUP: &str = "
    select member_id from scim_group_members where group_id = $1 order by group_id, member_id limit $2";

pub(super) fn insert_group(cx: &mut Write<'_>, group: &GroupRow) -> Result<()> {
    group.with_new_row(|row| cx.insert(row))
}

pub(super) fn update_group(cx: &mut Write<'_>, group: &GroupRow) -> Result<()> {
    cx.execute(1, UPDATE_GROUP, &[&group.id, &group.display_name, &group.external_id, &group.changed_at])
}

const UPDATE_GROUP: &str =
    "update scim_groups set display_name = $2, external_id = $3, changed_at = $4 where id = $1";

/// Returns pairs of a group and a member of the group, up to `limit`, sorted by group and member.
pub(super) fn members_of_groups(
    cx: &Read<'_>,
    groups: &[GroupRow],
    limit: i64,
) -> Result<Vec<(GroupId, MemberId)>> {
    let sql = match cx.engine() {
        Engine::Sqlite => MEMBERS_OF_GROUPS_SQLITE,
        Engine::Postgres => MEMBERS_OF_GROUPS_POSTGRES,
    };
    let ids: Vec<Uuid> = groups.iter().map(|group| group.id.uuid()).collect();
    cx.query(sql, &[&ids, &limit])
}

macro_rules! select_members_of_groups {
    ($groups:literal) => {
        concat!(
            "select group_id, member_id from scim_group_members where group_id ",
            $groups,
            " order by group_id, member_id limit $2"
        )
    };
}

const MEMBERS_OF_GROUPS_SQLITE: &str =
    select_members_of_groups!("in (select unhex(value) from json_each($1))");

const MEMBERS_OF_GROUPS_POSTGRES: &str = select_members_of_groups!("= any(cast($1 as uuid[]))");

/// Adds people to a group. The people must not be in the group yet.
pub(super) fn add_members(cx: &mut Write<'_>, group: GroupId, members: &[MemberId]) -> Result<()> {
    change_members(cx, group, members, [ADD_MEMBERS_SQLITE, ADD_MEMBERS_POSTGRES])
}

const ADD_MEMBERS_SQLITE: &str =
    "insert into scim_group_members (group_id, member_id) select $1, unhex(value) from json_each($2)";

const ADD_MEMBERS_POSTGRES: &str =
    "insert into scim_group_members (group_id, member_id) select $1, unnest(cast($2 as uuid[]))";

/// Removes people from a group. All of the people must be in the group.
pub(super) fn remove_members(cx: &mut Write<'_>, group: GroupId, members: &[MemberId]) -> Result<()> {
    change_members(cx, group, members, [REMOVE_MEMBERS_SQLITE, REMOVE_MEMBERS_POSTGRES])
}

const REMOVE_MEMBERS_SQLITE: &str = "
    delete from scim_group_members
    where group_id = $1 and member_id in (select unhex(value) from json_each($2))";

const REMOVE_MEMBERS_POSTGRES: &str =
    "delete from scim_group_members where group_id = $1 and member_id = any(cast($2 as uuid[]))";

/// Adds or removes members of a group with one SQL statement, which depends on the database engine.
fn change_members(
    cx: &mut Write<'_>,
    group: GroupId,
    members: &[MemberId],
    [sqlite, postgres]: [&'static str; 2],
) -> Result<()> {
    if members.is_empty() {
        return Ok(());
    }
    let sql = match cx.engine() {
        Engine::Sqlite => sqlite,
        Engine::Postgres => postgres,
    };
    let ids: Vec<Uuid> = members.iter().map(|member| member.uuid()).collect();
    cx.execute(members.len() as u64, sql, &[&group, &ids])
}

pub(super) fn delete_group(cx: &mut Write<'_>, group: GroupId) -> Result<()> {
    cx.execute_any("delete from scim_group_members where group_id = $1", &[&group])?;
    cx.execute(1, "delete from scim_groups where id = $1", &[&group])
}

/// Removes permanently removed people from all groups.
pub(super) fn remove_people_from_groups(cx: &mut Write<'_>, removals: &[RecordedEvent]) -> Result<()> {
    let mut removed = removals.iter().filter_map(|event| event.subject.member_id);
    removed.try_for_each(|member| cx.execute_any(REMOVE_FROM_ALL_GROUPS, &[&member]))
}

const REMOVE_FROM_ALL_GROUPS: &str = "delete from scim_group_members where member_id = $1";
