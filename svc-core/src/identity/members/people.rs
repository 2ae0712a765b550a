//! The people of a workspace, as a directory service sees them: without agents and removed people.
//!
//! This file only reads and writes rows. `identity::member_ends` checks that a person may be deactivated and
//! ends the person's credentials and claims. `identity::scim` presents people as SCIM resources.

use uuid::Uuid;

use super::condition::{PeopleCondition, matches_condition, outcome_bit};
use super::user_name::normalise_user_name;
use crate::error::Result;
use crate::id::MemberId;
use crate::op::{Read, Write};
use crate::store::{Engine, columns};
use crate::text::DELETED_HANDLES;
use crate::time::Time;

/// A person of a workspace, as a directory service sees the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub id: MemberId,
    pub handle: String,
    pub external_id: Option<String>,
    pub display_name: Option<String>,
    pub active: bool,
    pub created_at: Time,
    pub changed_at: Option<Time>,
    pub lsn: i64,
}

columns! {
    person_columns: Person as m {
        id,
        handle,
        external_id,
        display_name,
        active = "m.deactivated_at is null",
        created_at,
        changed_at,
        lsn,
    }
}

/// SQL statement that selects people of the workspace `$1`. `$rest` continues the statement.
macro_rules! people {
    ($rest:expr) => {
        concat!(
            "select ",
            person_columns!(),
            " from members m where m.workspace_id = $1 and m.kind = 'human' and m.removed_at is null ",
            $rest
        )
    };
}

/// Returns a person of the caller's workspace, or `None` if no person has this id.
pub(crate) fn find_person(cx: &Read<'_>, id: MemberId) -> Result<Option<Person>> {
    cx.one(people!("and m.id = $2"), &[&cx.caller().workspace_id, &id])
}

/// Returns the number of ids in `ids` that are ids of people in the caller's workspace. The ids must be
/// distinct.
pub(crate) fn count_people_with_ids(cx: &Read<'_>, ids: &[MemberId]) -> Result<usize> {
    let sql = match cx.engine() {
        Engine::Sqlite => COUNT_PEOPLE_BY_ID_SQLITE,
        Engine::Postgres => COUNT_PEOPLE_BY_ID_POSTGRES,
    };
    let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
    let (count,) = cx.one::<(i64,)>(sql, &[&cx.caller().workspace_id, &ids])?.unwrap_or_default();
    Ok(usize::try_from(count).unwrap_or_default())
}

macro_rules! count_people_by_id {
    ($ids:literal) => {
        concat!(
            "select count(*) from members m
             where m.workspace_id = $1 and m.kind = 'human' and m.removed_at is null and m.id ",
            $ids
        )
    };
}

const COUNT_PEOPLE_BY_ID_SQLITE: &str = count_people_by_id!("in (select unhex(value) from json_each($2))");

const COUNT_PEOPLE_BY_ID_POSTGRES: &str = count_people_by_id!("= any(cast($2 as uuid[]))");

/// Returns the person with this user name, ignoring case, or `None` if no person has the name.
pub(crate) fn find_person_by_user_name(cx: &Read<'_>, name: &str) -> Result<Option<Person>> {
    let Some(handle) = normalise_user_name(name) else { return Ok(None) };
    cx.one(people!("and m.handle = $2"), &[&cx.caller().workspace_id, &handle])
}

/// Returns people with this id at the identity provider, up to `limit`, in the order in which they joined.
pub(crate) fn people_by_external_id(cx: &Read<'_>, external_id: &str, limit: i64) -> Result<Vec<Person>> {
    let statement = people!(
        "and substr(m.external_id, 1, 200) = substr(cast($2 as text), 1, 200) and m.external_id = $2
         order by m.lsn limit $3"
    );
    cx.query(statement, &[&cx.caller().workspace_id, &external_id, &limit])
}

/// Returns people who joined after the log position `after_lsn`, up to `limit`, in the order in which they
/// joined.
pub(crate) fn people_after(cx: &Read<'_>, after_lsn: i64, limit: i64) -> Result<Vec<Person>> {
    let statement = people!("and m.lsn > $2 order by m.lsn limit $3");
    cx.query(statement, &[&cx.caller().workspace_id, &after_lsn, &limit])
}

/// Returns people in the order in which they joined: skips the first `skip`, and returns up to `limit`.
pub(crate) fn people_page(cx: &Read<'_>, skip: i64, limit: i64) -> Result<Vec<Person>> {
    let statement = people!("order by m.lsn limit $3 offset $2");
    cx.query(statement, &[&cx.caller().workspace_id, &skip, &limit])
}

/// Returns the number of people in the caller's workspace.
pub(crate) fn count_people(cx: &Read<'_>) -> Result<i64> {
    let counted: Option<(i64,)> = cx.one(COUNT_PEOPLE, &[&cx.caller().workspace_id])?;
    Ok(counted.map_or(0, |(count,)| count))
}

const COUNT_PEOPLE: &str = "
    select count(*) from members m
    where m.workspace_id = $1 and m.kind = 'human' and m.removed_at is null";

/// Returns the number of people in the caller's workspace who match a condition.
pub(crate) fn count_matching_people(cx: &Read<'_>, condition: &PeopleCondition) -> Result<i64> {
    let ([first, second, third], [one, two, three], outcomes) = condition.sql_params();
    let workspace = cx.caller().workspace_id;
    let counted: Option<(i64,)> =
        cx.one(COUNT_MATCHING_PEOPLE, &[&workspace, &first, &second, &third, &one, &two, &three, &outcomes])?;
    Ok(counted.map_or(0, |(count,)| count))
}

const COUNT_MATCHING_PEOPLE: &str = concat!(
    "select count(*) from members m where m.workspace_id = $1 and m.kind = 'human' and m.removed_at is null ",
    matches_condition!("")
);

/// Returns people who match a condition, in the order in which they joined: skips the first `skip`, and
/// returns up to `limit`.
pub(crate) fn matching_people(
    cx: &Read<'_>,
    condition: &PeopleCondition,
    skip: i64,
    limit: i64,
) -> Result<Vec<Person>> {
    let ([first, second, third], [one, two, three], outcomes) = condition.sql_params();
    let workspace = cx.caller().workspace_id;
    cx.query(
        MATCHING_PEOPLE,
        &[&workspace, &first, &second, &third, &one, &two, &three, &outcomes, &skip, &limit],
    )
}

const MATCHING_PEOPLE: &str = people!(matches_condition!("order by m.lsn limit $10 offset $9"));

/// Writes the columns that a directory service can change: handle, display name, external id and time of
/// change.
pub(crate) fn update_person(cx: &mut Write<'_>, person: &Person) -> Result<()> {
    let Person { id, handle, external_id, display_name, changed_at, .. } = person;
    cx.execute(1, UPDATE_PERSON, &[id, handle, external_id, display_name, changed_at])
}

const UPDATE_PERSON: &str = "
    update members set handle = $2, external_id = $3, display_name = $4, changed_at = $5 where id = $1";

/// Marks a member as deactivated at the current time.
pub(crate) fn mark_deactivated(cx: &mut Write<'_>, id: MemberId) -> Result<()> {
    let now = cx.now();
    cx.execute(1, DEACTIVATE_MEMBER, &[&id, &now])
}

const DEACTIVATE_MEMBER: &str =
    "update members set deactivated_at = $2, changed_at = $2 where id = $1 and deactivated_at is null";

/// Marks a member as active again.
pub(crate) fn mark_reactivated(cx: &mut Write<'_>, id: MemberId) -> Result<()> {
    let now = cx.now();
    cx.execute(1, REACTIVATE_MEMBER, &[&id, &now])
}

const REACTIVATE_MEMBER: &str = "
    update members set deactivated_at = null, changed_at = $2
    where id = $1 and deactivated_at is not null and removed_at is null";

/// Removes the identifying data of a person. The row remains, because events and audit rows refer to the id.
pub(crate) fn clear_identity(cx: &mut Write<'_>, id: MemberId) -> Result<()> {
    let handle = format!("{DELETED_HANDLES}{id}");
    let now = cx.now();
    cx.execute(1, CLEAR_IDENTITY, &[&id, &handle, &now])
}

const CLEAR_IDENTITY: &str = "
    update members
    set handle = $2, display_name = null, external_id = null, removed_at = $3, changed_at = $3
    where id = $1 and removed_at is null";
