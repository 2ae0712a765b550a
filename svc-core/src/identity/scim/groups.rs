//! SCIM groups: groups of people that an identity provider manages. These groups grant no rights in the
//! service.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use uuid::Uuid;

use super::attributes::{
    Attribute, AttributeNames, AttributeSelection, AttributeValue, GROUP_URN, ResourceKind,
};
use super::filter::{FilterTarget, bind_member_filter};
use super::group_rows::{self, GroupRow};
use super::patch::{
    AttributeChange, ChangeEffect, Operations, invalid_value_error, one_or_many, parse_changes,
};
use super::resource::{Group, GroupMember, Meta, Nothing, ResourceView};
use super::users::parse_external_id;
use super::values::{ExternalId, SchemaList, embedded_json, member_in_any_case};
use crate::error::{Error, Result};
use crate::id::{GroupId, MemberId};
use crate::identity::members;
use crate::identity::scim::Fault;
use crate::limits::{SCIM_GROUP_MEMBERS_MAX, SCIM_GROUP_NAME_MAX, SCIM_GROUPS_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};
use crate::schema::default_is;
use crate::text::{Items, Text};

/// A group of people was created or changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GroupChanged {
    /// Id of the group that was created or changed.
    group_id: GroupId,
    /// Whether the event created the group.
    created: bool,
    /// Name of the group after the event.
    display_name: String,
    /// Ids of the people who were added to the group.
    added: Vec<MemberId>,
    /// Ids of the people who were removed from the group.
    removed: Vec<MemberId>,
}

impl Event for GroupChanged {
    const KIND: &'static str = "GroupChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(id) = event.field("group_id") else { return Ok(()) };
        let group = event.row("scim_groups", [id.clone()])?;
        // Older events do not contain the field `created`.
        let group = match event.field("created") {
            Some(Value::Bool(true)) => group.made().set("created_at", event.at()).set("lsn", event.lsn()),
            _ => group,
        };
        group.copy("display_name").set("changed_at", event.at()).keep()?;
        for member in event.list("added") {
            event.row("scim_group_members", [id.clone(), member.clone()])?.made().keep()?;
        }
        for member in event.list("removed") {
            event.row("scim_group_members", [id.clone(), member.clone()])?.remove()?;
        }
        Ok(())
    }
}

/// A group of people was deleted. The people themselves were not deleted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GroupDeleted {
    /// Id of the deleted group.
    group_id: GroupId,
}

impl Event for GroupDeleted {
    const KIND: &'static str = "GroupDeleted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(id) = event.field("group_id") else { return Ok(()) };
        event.rows("scim_group_members", std::slice::from_ref(id), |member| member.remove())?;
        event.row("scim_groups", [id.clone()])?.remove()
    }
}

/// A group with its members, or with some of them if only some were read.
#[derive(Clone, Debug)]
pub(super) struct GroupWithMembers {
    pub row: GroupRow,
    pub members: Vec<MemberId>,
}

impl GroupWithMembers {
    /// Returns the group as a SCIM resource.
    pub fn into_resource(self) -> Group {
        let GroupRow { id, display_name, external_id, created_at, changed_at, .. } = self.row;
        Group {
            schemas: [GROUP_URN],
            id,
            external_id,
            display_name,
            members: self.members.into_iter().map(GroupMember::of).collect(),
            meta: Meta::of(ResourceKind::Group, id, created_at, changed_at),
        }
    }
}

impl FilterTarget for GroupWithMembers {
    fn value(&self, attribute: Attribute) -> AttributeValue<'_> {
        match attribute {
            Attribute::Id => AttributeValue::Text(self.row.id.to_string().into()),
            Attribute::ExternalId => match &self.row.external_id {
                Some(id) => AttributeValue::Text(id.as_str().into()),
                None => AttributeValue::Nothing,
            },
            Attribute::DisplayName => AttributeValue::Text(self.row.display_name.as_str().into()),
            Attribute::Members => AttributeValue::Ids(&self.members),
            Attribute::UserName | Attribute::Active => AttributeValue::Nothing,
            Attribute::Created => AttributeValue::Time(self.row.created_at),
            Attribute::LastModified => AttributeValue::Time(self.row.changed_at),
            Attribute::ResourceType => AttributeValue::Text(ResourceKind::Group.name().into()),
        }
    }
}

/// Display name of a group. Identity providers find groups by this name.
type GroupName = Text<1, SCIM_GROUP_NAME_MAX>;

/// A user who is in a group.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema is read")]
struct GroupUser {
    /// Id of the user.
    value: String,
}

/// Ids of the users in a group, as texts. Clients send these ids in various forms.
#[derive(Clone, Debug)]
struct GroupMemberIds(Vec<String>);

impl GroupMemberIds {
    /// Parses a list of members or a single member. Each member is a user's id, or an object with the id as
    /// `value`.
    fn of(value: &Value) -> std::result::Result<Self, String> {
        let value = embedded_json(value);
        let items = match &*value {
            Value::Null => &[],
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        if items.len() > SCIM_GROUP_MEMBERS_MAX {
            return Err(format!("expected at most {SCIM_GROUP_MEMBERS_MAX} members, found {}", items.len()));
        }
        let id = |item: &Value| match &*embedded_json(item) {
            Value::String(id) => Some(id.clone()),
            Value::Object(members) => {
                member_in_any_case(members, "value").and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        };
        let ids = items.iter().map(id).collect::<Option<Vec<_>>>();
        ids.map(Self).ok_or_else(|| "a member has a value, which is an id".to_owned())
    }
}

impl<'de> Deserialize<'de> for GroupMemberIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::of(&Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for GroupMemberIds {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "GroupUsers".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Items::<GroupUser, SCIM_GROUP_MEMBERS_MAX>::json_schema(generator)
    }
}

/// Creates a group of people in the workspace, and returns the group.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateGroup {
    /// Schema URNs of the resource. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// Name of the group.
    display_name: GroupName,
    /// Id of the group at the identity provider.
    external_id: Option<ExternalId>,
    /// Members of the group, which must be users of the workspace.
    members: Option<GroupMemberIds>,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn create(cx: &mut Write<'_>, input: &CreateGroup) -> Result<ResourceView<Group>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    if group_rows::count_groups(cx)? >= SCIM_GROUPS_MAX {
        return Err(invalid_value_error(format!("a workspace has at most {SCIM_GROUPS_MAX} groups")));
    }
    let wanted = distinct_member_ids(input.members.as_ref())?;
    let added: Vec<MemberId> = wanted.into_iter().collect();
    check_all_are_people(cx, &added)?;
    let (id, now): (GroupId, _) = (cx.new_id()?, cx.now());
    let display_name = input.display_name.to_string();
    let external_id = input.external_id.clone().and_then(|ExternalId(id)| id);
    let removed = Vec::new();
    let event = GroupChanged { group_id: id, created: true, display_name, added, removed };
    let lsn = cx.emit(Subject::WORKSPACE, &event)?.lsn;
    let row = GroupRow {
        id,
        workspace_id: cx.caller().workspace_id,
        display_name: event.display_name,
        external_id,
        created_at: now,
        changed_at: now,
        lsn,
    };
    group_rows::insert_group(cx, &row)?;
    group_rows::add_members(cx, id, &event.added)?;
    ResourceView::of(GroupWithMembers { row, members: event.added }.into_resource(), &asked)
}

/// Returns the distinct user ids in a request. Fails if a text is not an id.
fn distinct_member_ids(member_ids: Option<&GroupMemberIds>) -> Result<BTreeSet<MemberId>> {
    member_ids.into_iter().flat_map(|GroupMemberIds(ids)| ids).map(|id| parse_member_id(id)).collect()
}

/// Parses the id of a user in a value of `members`.
fn parse_member_id(text: &str) -> Result<MemberId> {
    text.parse::<Uuid>()
        .map(MemberId::from)
        .map_err(|_| invalid_value_error("`members`: not the id of a user"))
}

/// Fails unless every id in `ids` is that of a person in the caller's workspace.
fn check_all_are_people(cx: &Read<'_>, ids: &[MemberId]) -> Result<()> {
    if members::count_people_with_ids(cx, ids)? < ids.len() {
        return Err(invalid_value_error("`members`: not a user of this workspace"));
    }
    Ok(())
}

/// Returns a group of people as a SCIM group.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GetGroup {
    /// Id of the group.
    id: String,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn get(cx: &Read<'_>, input: &GetGroup) -> Result<ResourceView<Group>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let row = load_group(cx, &input.id)?;
    let members = if asked.includes("members") { group_rows::all_members(cx, row.id)? } else { Vec::new() };
    ResourceView::of(GroupWithMembers { row, members }.into_resource(), &asked)
}

/// Loads a group of the caller's workspace. Fails with *not found* also if `id` is not a valid id.
fn load_group(cx: &Read<'_>, id: &str) -> Result<GroupRow> {
    let found = match id.parse::<Uuid>() {
        Ok(id) => group_rows::find_group(cx, GroupId::from(id))?,
        Err(_) => None,
    };
    found.ok_or_else(|| Error::not_found("group"))
}

/// Replaces the name, the external id and the members of a group, and returns the group.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReplaceGroup {
    /// Id of the group.
    id: String,
    /// Schema URNs of the resource. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// Name of the group.
    display_name: GroupName,
    /// Id of the group at the identity provider.
    #[schemars(transform = default_is("nothing"))]
    external_id: Option<ExternalId>,
    /// Members of the group. Default: none.
    members: Option<GroupMemberIds>,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn replace(cx: &mut Write<'_>, input: &ReplaceGroup) -> Result<ResourceView<Group>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let before = load_group(cx, &input.id)?;
    let wanted = GroupRow {
        display_name: input.display_name.to_string(),
        external_id: input.external_id.clone().and_then(|ExternalId(id)| id),
        ..before.clone()
    };
    let were = group_rows::all_members(cx, before.id)?.into_iter().collect();
    let after = apply_changes(cx, &before, wanted, &were, distinct_member_ids(input.members.as_ref())?)?;
    ResourceView::of(after.into_resource(), &asked)
}

/// Changes a group with SCIM PATCH operations, and returns the group. Either all operations are applied or
/// none.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PatchGroup {
    /// Id of the group.
    id: String,
    /// Schema URNs of the request. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// Operations to apply, in this order.
    #[serde(rename = "Operations", deserialize_with = "one_or_many")]
    operations: Operations,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn patch(cx: &mut Write<'_>, input: &PatchGroup) -> Result<ResourceView<Group>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let before = load_group(cx, &input.id)?;
    let were: BTreeSet<MemberId> = group_rows::all_members(cx, before.id)?.into_iter().collect();
    let mut wanted = before.clone();
    let mut members = were.clone();
    let changes = parse_changes(ResourceKind::Group, &input.operations).collect::<Result<Vec<_>>>()?;
    for change in changes.into_iter().flatten() {
        match change.attribute {
            Attribute::Members => apply_member_change(&mut members, &change)?,
            Attribute::ExternalId => wanted.external_id = parse_external_id(change.single_value())?,
            Attribute::DisplayName if change.effect == ChangeEffect::Remove => {
                return Err(Fault::Mutability.error("the attribute is required"));
            }
            Attribute::DisplayName => {
                let name = GroupName::new(change.text()?.to_owned());
                let name = name.map_err(|detail| invalid_value_error(format!("`displayName`: {detail}")))?;
                wanted.display_name = name.to_string();
            }
            _ => {}
        }
    }
    let after = apply_changes(cx, &before, wanted, &were, members)?;
    ResourceView::of(after.into_resource(), &asked)
}

/// Applies one change of a PATCH request to a set of group members, in memory.
fn apply_member_change(members: &mut BTreeSet<MemberId>, change: &AttributeChange) -> Result<()> {
    let sent = || match &change.value {
        Some(value) => {
            GroupMemberIds::of(value).map_err(|detail| invalid_value_error(format!("`members`: {detail}")))
        }
        None => Err(invalid_value_error("`members`: expected a list of members")),
    };
    let named = || distinct_member_ids(Some(&sent()?));
    match (change.effect, &change.value_filter) {
        (ChangeEffect::Remove, Some(of)) => {
            let of = bind_member_filter(of)?;
            members.retain(|member| !of.matches(&SingleMember([*member])));
        }
        // Some clients send the members to remove as the value.
        (ChangeEffect::Remove, None) => match &change.value {
            None | Some(Value::Null) => members.clear(),
            Some(_) => {
                // Removing a user who is not in the group changes nothing.
                let GroupMemberIds(named) = sent()?;
                let named: BTreeSet<MemberId> =
                    named.iter().filter_map(|id| parse_member_id(id).ok()).collect();
                members.retain(|member| !named.contains(member));
            }
        },
        (_, Some(_)) => return Err(Fault::InvalidPath.error("`path`: members are added by their ids")),
        (ChangeEffect::Add, None) => members.extend(named()?),
        (ChangeEffect::Replace, None) => *members = named()?,
    }
    Ok(())
}

/// A single member of a group, as the target of the filter in a PATCH path.
struct SingleMember([MemberId; 1]);

impl FilterTarget for SingleMember {
    fn value(&self, attribute: Attribute) -> AttributeValue<'_> {
        if attribute == Attribute::Members { AttributeValue::Ids(&self.0) } else { AttributeValue::Nothing }
    }
}

/// Changes a group to the values in `after` and to `members_after`, and returns the group.
fn apply_changes(
    cx: &mut Write<'_>,
    before: &GroupRow,
    mut after: GroupRow,
    members_before: &BTreeSet<MemberId>,
    members_after: BTreeSet<MemberId>,
) -> Result<GroupWithMembers> {
    let added: Vec<MemberId> = members_after.difference(members_before).copied().collect();
    let removed: Vec<MemberId> = members_before.difference(&members_after).copied().collect();
    if members_after.len() > SCIM_GROUP_MEMBERS_MAX {
        return Err(invalid_value_error(format!("a group has at most {SCIM_GROUP_MEMBERS_MAX} members")));
    }
    if after == *before && added.is_empty() && removed.is_empty() {
        return Ok(GroupWithMembers { row: after, members: members_after.into_iter().collect() });
    }
    check_all_are_people(cx, &added)?;
    after.changed_at = cx.now();
    group_rows::update_group(cx, &after)?;
    group_rows::add_members(cx, after.id, &added)?;
    group_rows::remove_members(cx, after.id, &removed)?;
    let display_name = after.display_name.clone();
    let group_id = after.id;
    let created = false;
    let changed = GroupChanged { group_id, created, display_name, added, removed };
    cx.emit(Subject::WORKSPACE, &changed)?;
    Ok(GroupWithMembers { row: after, members: members_after.into_iter().collect() })
}

/// Deletes a group. The people in the group are not deleted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteGroup {
    /// Id of the group.
    id: String,
}

pub(super) fn delete(cx: &mut Write<'_>, input: &DeleteGroup) -> Result<Nothing> {
    let group = load_group(cx, &input.id)?;
    group_rows::delete_group(cx, group.id)?;
    cx.emit(Subject::WORKSPACE, &GroupDeleted { group_id: group.id })?;
    Ok(Nothing {})
}
