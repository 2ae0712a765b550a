//! SCIM resources in responses: users, groups and lists, each with only the requested attributes.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::attributes::{AttributeSelection, ResourceKind, USER_URN};
use crate::error::{Error, Result};
use crate::id::{GroupId, MemberId};
use crate::identity::members::Person;
use crate::time::Time;

/// Schema URN of a SCIM list.
pub(super) const LIST_URN: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// A person, as a SCIM user. An attribute is absent if it has no value or was not requested.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScimUser", extend("required" = []))]
pub(super) struct User {
    schemas: [&'static str; 1],
    /// Id of the person as a member.
    id: MemberId,
    /// Id of the person at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    /// Handle of the person.
    user_name: String,
    /// Name of the person to show to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    /// Whether the person may use the service.
    active: bool,
    meta: Meta,
}

impl User {
    pub fn of(person: Person) -> Self {
        Self {
            schemas: [USER_URN],
            meta: Meta::of(
                ResourceKind::User,
                person.id,
                person.created_at,
                person.changed_at.unwrap_or(person.created_at),
            ),
            id: person.id,
            external_id: person.external_id,
            user_name: person.handle,
            display_name: person.display_name,
            active: person.active,
        }
    }
}

/// A SCIM group of people. An attribute is absent if it has no value or was not requested.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScimGroup", extend("required" = []))]
pub(super) struct Group {
    pub schemas: [&'static str; 1],
    /// Id of the group.
    pub id: GroupId,
    /// Id of the group at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Name of the group.
    pub display_name: String,
    /// Users in the group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<GroupMember>,
    pub meta: Meta,
}

/// A user in a SCIM group.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = []))]
pub(super) struct GroupMember {
    /// Id of the user.
    value: MemberId,
    /// URL of the user's SCIM resource.
    #[serde(rename = "$ref")]
    reference: String,
    /// Resource type of the member; always `User`.
    r#type: &'static str,
}

impl GroupMember {
    pub fn of(value: MemberId) -> Self {
        Self { value, reference: resource_path(ResourceKind::User, value), r#type: "User" }
    }
}

/// Metadata of a SCIM resource.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = []))]
pub(super) struct Meta {
    /// Resource type of the resource: `User` or `Group`.
    resource_type: &'static str,
    created: Time,
    last_modified: Time,
    /// URL of the resource.
    location: String,
}

impl Meta {
    pub fn of(kind: ResourceKind, id: impl std::fmt::Display, created: Time, last_modified: Time) -> Self {
        Self { resource_type: kind.name(), created, last_modified, location: resource_path(kind, id) }
    }
}

/// Returns the path of a resource. The frame adds the service's address before the path.
fn resource_path(kind: ResourceKind, id: impl std::fmt::Display) -> String {
    format!("/scim/v2{}/{id}", kind.endpoint())
}

/// A SCIM user or a SCIM group.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only the schema is read")]
pub(super) enum UserOrGroup {
    User(User),
    Group(Group),
}

/// A resource reduced to the requested attributes. The JSON schema is that of `T`.
#[derive(Debug)]
pub(super) struct ResourceView<T>(Value, PhantomData<fn() -> T>);

impl<T> ResourceView<T> {
    pub fn of<R: Serialize>(resource: R, attributes: &AttributeSelection) -> Result<Self> {
        let mut value = serde_json::to_value(resource).map_err(Error::internal)?;
        if let Some(members) = value.as_object_mut() {
            attributes.remove_unselected(members);
        }
        Ok(Self(value, PhantomData))
    }
}

impl<T> Serialize for ResourceView<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for ResourceView<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A page of a list of SCIM resources.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ScimList_{T}")]
pub(super) struct List<T> {
    schemas: [&'static str; 1],
    /// Number of matching resources on all pages.
    total_results: i64,
    /// Index of the first result on this page in the list of all matches, counted from 1.
    start_index: i64,
    /// Number of results on this page.
    items_per_page: usize,
    #[serde(rename = "Resources")]
    resources: Vec<T>,
}

impl<T> List<T> {
    pub fn of(resources: Vec<T>, start_index: i64, total_results: i64) -> Self {
        Self { schemas: [LIST_URN], total_results, start_index, items_per_page: resources.len(), resources }
    }
}

/// An empty response body.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Nothing {}
