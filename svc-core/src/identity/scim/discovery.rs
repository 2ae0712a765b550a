//! Discovery (RFC 7643, sections 5 to 8): the configuration, resource types and schemas that the service
//! supports.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::attributes::{AttributeSelection, ResourceKind};
use super::resource::{List, ResourceView};
use crate::error::{Error, Result};
use crate::limits::SCIM_COUNT_MAX;
use crate::op::Read;

const CONFIG_URN: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";
const RESOURCE_TYPE_URN: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const SCHEMA_URN: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";

/// A description of supported SCIM features, resource types or schemas.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Description {
    /// The description, in the form that RFC 7643 defines.
    #[serde(flatten)]
    described: Map<String, Value>,
}

fn to_resource(described: Value) -> Result<ResourceView<Description>> {
    ResourceView::of(described, &AttributeSelection::default())
}

/// Returns the SCIM features that the service supports.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetConfig {}

pub(super) fn get_config(_: &Read<'_>, _: &GetConfig) -> Result<ResourceView<Description>> {
    to_resource(json!({
        "schemas": [CONFIG_URN],
        "patch": {"supported": true},
        "bulk": {"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": true, "maxResults": SCIM_COUNT_MAX},
        "changePassword": {"supported": false},
        "sort": {"supported": false},
        "etag": {"supported": false},
        "authenticationSchemes": [{
            "type": "oauthbearertoken", "name": "OAuth Bearer Token",
            "description": "A token of the workspace that carries token:admin.", "primary": true,
        }],
        "meta": {"resourceType": "ServiceProviderConfig", "location": "/scim/v2/ServiceProviderConfig"},
    }))
}

/// Returns the resource types that the service supports: users and groups.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListResourceTypes {}

pub(super) fn list_resource_types(
    _: &Read<'_>,
    _: &ListResourceTypes,
) -> Result<List<ResourceView<Description>>> {
    list_descriptions([ResourceKind::User, ResourceKind::Group].map(describe_type))
}

fn list_descriptions(described: [Value; 2]) -> Result<List<ResourceView<Description>>> {
    let resources = described.into_iter().map(to_resource).collect::<Result<Vec<_>>>()?;
    Ok(List::of(resources, 1, 2))
}

/// Returns the description of a SCIM resource type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetResourceType {
    /// Name of the resource type: `User` or `Group`.
    id: String,
}

pub(super) fn get_resource_type(_: &Read<'_>, input: &GetResourceType) -> Result<ResourceView<Description>> {
    let kind = [ResourceKind::User, ResourceKind::Group].into_iter().find(|kind| kind.name() == input.id);
    to_resource(describe_type(kind.ok_or_else(|| Error::not_found("resource type"))?))
}

/// Describes a resource type (RFC 7643, section 6).
fn describe_type(kind: ResourceKind) -> Value {
    let name = kind.name();
    json!({
        "schemas": [RESOURCE_TYPE_URN],
        "id": name,
        "name": name,
        "endpoint": kind.endpoint(),
        "description": match kind {
            ResourceKind::User => "A person of the workspace",
            ResourceKind::Group => "A group of people, which carries no rights",
        },
        "schema": kind.schema(),
        "schemaExtensions": [],
        "meta": {"resourceType": "ResourceType", "location": format!("/scim/v2/ResourceTypes/{name}")},
    })
}

/// Returns the schemas of users and groups: their attributes, and whether each attribute can be changed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSchemas {}

pub(super) fn list_schemas(_: &Read<'_>, _: &ListSchemas) -> Result<List<ResourceView<Description>>> {
    list_descriptions([ResourceKind::User, ResourceKind::Group].map(describe_schema))
}

/// Returns the schema of a SCIM resource type.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSchema {
    /// URN of the schema, for example `urn:ietf:params:scim:schemas:core:2.0:User`.
    id: String,
}

pub(super) fn get_schema(_: &Read<'_>, input: &GetSchema) -> Result<ResourceView<Description>> {
    let kind = [ResourceKind::User, ResourceKind::Group].into_iter().find(|kind| kind.schema() == input.id);
    to_resource(describe_schema(kind.ok_or_else(|| Error::not_found("schema"))?))
}

/// Describes the schema of a resource type (RFC 7643, section 7).
fn describe_schema(kind: ResourceKind) -> Value {
    let attributes = match kind {
        ResourceKind::User => vec![
            text_attribute(
                "userName",
                "The person's handle, which may be an email, of 254 characters at most",
            )
            .required()
            .unique()
            .into_json(),
            text_attribute("displayName", "A name for people, which is set once and cut to 100 characters")
                .immutable()
                .into_json(),
            SchemaAttribute::new("active", "boolean", "Whether the person may use the service")
                .required()
                .into_json(),
        ],
        ResourceKind::Group => vec![
            text_attribute("displayName", "A name for people, of 256 characters at most")
                .required()
                .into_json(),
            describe_members(),
        ],
    };
    json!({
        "schemas": [SCHEMA_URN],
        "id": kind.schema(),
        "name": kind.name(),
        "description": kind.name(),
        "attributes": attributes,
        "meta": {"resourceType": "Schema", "location": format!("/scim/v2/Schemas/{}", kind.schema())},
    })
}

/// Returns the schema description of a group's attribute `members`.
fn describe_members() -> Value {
    let value = text_attribute("value", "The user's id").immutable().case_exact().required();
    let reference =
        SchemaAttribute::new("$ref", "reference", "Where the user is").immutable().case_exact().into_json();
    let kind = text_attribute("type", "Always User").immutable().into_json();
    let subs = json!([
        value.into_json(),
        with_member(reference, "referenceTypes", json!(["User"])),
        with_member(kind, "canonicalValues", json!(["User"])),
    ]);
    let members = SchemaAttribute::new("members", "complex", "The users in the group").into_json();
    with_member(with_member(members, "multiValued", json!(true)), "subAttributes", subs)
}

/// Returns the description with one more member, `name`.
fn with_member(mut described: Value, name: &str, value: Value) -> Value {
    if let Some(members) = described.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    described
}

/// Description of an attribute in a SCIM schema (RFC 7643, section 7).
struct SchemaAttribute {
    name: &'static str,
    r#type: &'static str,
    description: &'static str,
    required: bool,
    exact: bool,
    mutability: &'static str,
    uniqueness: &'static str,
}

/// Describes an attribute whose value is a text.
fn text_attribute(name: &'static str, description: &'static str) -> SchemaAttribute {
    SchemaAttribute::new(name, "string", description)
}

impl SchemaAttribute {
    fn new(name: &'static str, r#type: &'static str, description: &'static str) -> Self {
        let mutability = "readWrite";
        let uniqueness = "none";
        Self { name, r#type, description, required: false, exact: false, mutability, uniqueness }
    }

    fn required(self) -> Self {
        Self { required: true, ..self }
    }

    fn unique(self) -> Self {
        Self { uniqueness: "server", ..self }
    }

    fn immutable(self) -> Self {
        Self { mutability: "immutable", ..self }
    }

    fn case_exact(self) -> Self {
        Self { exact: true, ..self }
    }

    fn into_json(self) -> Value {
        json!({
            "name": self.name,
            "type": self.r#type,
            "description": self.description,
            "multiValued": false,
            "required": self.required,
            "caseExact": self.exact,
            "mutability": self.mutability,
            "returned": "default",
            "uniqueness": self.uniqueness,
        })
    }
}
