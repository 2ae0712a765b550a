//! SCIM attributes: their names, and the selection of the attributes that a response contains.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use scim_v2::filter::AttrPath;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::error::Result;
use crate::id::MemberId;
use crate::identity::scim::Fault;
use crate::limits::SCIM_ATTRIBUTES_MAX;
use crate::time::Time;

/// Schema URN of SCIM users.
pub(super) const USER_URN: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
/// Schema URN of SCIM groups.
pub(super) const GROUP_URN: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";

/// Kind of SCIM resource: user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKind {
    User,
    Group,
}

impl ResourceKind {
    /// Returns the name of the kind, as it appears in `meta.resourceType`.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
        }
    }

    /// Returns the schema URN of this kind of resource.
    pub fn schema(self) -> &'static str {
        match self {
            Self::User => USER_URN,
            Self::Group => GROUP_URN,
        }
    }

    /// Returns the path of the resources of this kind, relative to `/scim/v2`.
    pub fn endpoint(self) -> &'static str {
        match self {
            Self::User => "/Users",
            Self::Group => "/Groups",
        }
    }

    /// Returns the meaning of an attribute path for this kind of resource, or `None` if the path is
    /// undefined.
    pub fn path_meaning(self, path: &AttrPath) -> Option<PathMeaning> {
        use PathMeaning::{Constant, NotStored, Stored};
        if path.uri.as_ref().is_some_and(|uri| !uri.eq_ignore_ascii_case(self.schema())) {
            return is_extension(path).then_some(NotStored);
        }
        let sub = path.sub_attr.as_ref().map(|sub| sub.to_ascii_lowercase());
        let named = match (self, &*path.name.to_ascii_lowercase(), sub.as_deref()) {
            (_, "id", None) => Stored(Attribute::Id),
            (_, "externalid", None) => Stored(Attribute::ExternalId),
            (_, "displayname", None) => Stored(Attribute::DisplayName),
            (_, "schemas", None) => Constant(Attribute::Id, AttributeValue::Text(self.schema().into())),
            (_, "meta", Some("created")) => Stored(Attribute::Created),
            (_, "meta", Some("lastmodified")) => Stored(Attribute::LastModified),
            (_, "meta", None | Some("resourcetype")) => Stored(Attribute::ResourceType),
            (_, "meta", Some("location")) => PathMeaning::Address(Attribute::Id),
            (_, "meta", Some(_)) => NotStored,
            (Self::User, "username", None) => Stored(Attribute::UserName),
            (Self::User, "active", None) => Stored(Attribute::Active),
            // A person's only email address is the user name.
            (Self::User, "emails", None | Some("value")) => Stored(Attribute::UserName),
            (Self::User, "emails", Some("type")) => {
                Constant(Attribute::UserName, AttributeValue::Text("work".into()))
            }
            (Self::User, "emails", Some("primary")) => {
                Constant(Attribute::UserName, AttributeValue::Flag(true))
            }
            (Self::User, name, None) if UNSTORED_ATTRIBUTES.contains(&name) => NotStored,
            (Self::User, name, _) if UNSTORED_COMPLEX_ATTRIBUTES.contains(&name) => NotStored,
            (Self::Group, "members", None | Some("value")) => Stored(Attribute::Members),
            (Self::Group, "members", Some("ref")) => PathMeaning::Address(Attribute::Members),
            (Self::Group, "members", Some("type")) => {
                Constant(Attribute::Members, AttributeValue::Text(Self::User.name().into()))
            }
            (Self::Group, "members", Some(_)) => NotStored,
            _ => return None,
        };
        Some(named)
    }
}

/// Meaning of an attribute path in a filter or a PATCH operation.
#[derive(Debug)]
pub(super) enum PathMeaning {
    Stored(Attribute),
    /// The URL of the resource whose id the attribute contains.
    Address(Attribute),
    /// A constant that accompanies each value of the attribute.
    Constant(Attribute, AttributeValue<'static>),
    /// A standard attribute that the service does not store. No resource has a value for such an attribute.
    NotStored,
}

/// Simple attributes of users (RFC 7643, section 4.1) that the service does not store, in lower case.
const UNSTORED_ATTRIBUTES: [&str; 8] =
    ["nickname", "profileurl", "title", "usertype", "preferredlanguage", "locale", "timezone", "password"];

/// Attributes of users with sub-attributes (RFC 7643, section 4.1) that the service does not store, in lower
/// case.
const UNSTORED_COMPLEX_ATTRIBUTES: [&str; 10] = [
    "name",
    "emails",
    "phonenumbers",
    "ims",
    "photos",
    "addresses",
    "groups",
    "entitlements",
    "roles",
    "x509certificates",
];

/// Returns whether a path refers to an attribute of an extension schema.
fn is_extension(path: &AttrPath) -> bool {
    path.uri.as_ref().is_some_and(|uri| {
        let uri = uri.to_ascii_lowercase();
        uri.starts_with("urn:") && !uri.starts_with("urn:ietf:params:scim:schemas:core:")
    })
}

/// A stored attribute of users or groups, which filters can compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Id,
    ExternalId,
    UserName,
    DisplayName,
    Active,
    Members,
    Created,
    LastModified,
    ResourceType,
}

impl Attribute {
    /// Attributes that a PATCH request can change.
    pub const CHANGEABLE: [Self; 5] =
        [Self::UserName, Self::Active, Self::ExternalId, Self::DisplayName, Self::Members];

    /// Returns the name of the attribute.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::ExternalId => "externalId",
            Self::UserName => "userName",
            Self::DisplayName => "displayName",
            Self::Active => "active",
            Self::Members => "members",
            Self::Created => "meta.created",
            Self::LastModified => "meta.lastModified",
            Self::ResourceType => "meta.resourceType",
        }
    }
}

/// Value of an attribute in a user or a group.
#[derive(Clone, Debug)]
pub(super) enum AttributeValue<'a> {
    Nothing,
    Flag(bool),
    Text(Cow<'a, str>),
    Time(Time),
    Ids(&'a [MemberId]),
}

/// Names of attributes in a request: a JSON list, or a string separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AttributeNames<const LIST: bool = false>(Vec<String>);

impl<'de, const LIST: bool> Deserialize<'de> for AttributeNames<LIST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Vec<String>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("names of attributes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Vec<String>, E> {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(names.map(str::to_owned).collect())
            }
            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut items: A,
            ) -> std::result::Result<Vec<String>, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = items.next_element::<String>()? {
                    names.push(name);
                }
                Ok(names)
            }
        }
        let names = deserializer.deserialize_any(NamesVisitor)?;
        if names.len() > SCIM_ATTRIBUTES_MAX {
            return Err(de::Error::custom(format!(
                "expected at most {SCIM_ATTRIBUTES_MAX} names of attributes"
            )));
        }
        Ok(Self(names))
    }
}

impl<const LIST: bool> JsonSchema for AttributeNames<LIST> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        if LIST { "NameList".into() } else { "Names".into() }
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        if LIST {
            json_schema!({"type": "array", "items": {"type": "string"}, "maxItems": SCIM_ATTRIBUTES_MAX})
        } else {
            json_schema!({"type": "string"})
        }
    }
}

/// Selection of the attributes to return: all, only some, or all but some. A response always contains `id`
/// and `schemas`.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeSelection {
    included: Option<Vec<AttributeName>>,
    excluded: Vec<AttributeName>,
}

/// Name of an attribute and optionally of a sub-attribute, in lower case.
type AttributeName = (String, Option<String>);

impl AttributeSelection {
    /// Creates the selection. Fails if a request contains both attributes to return and attributes to
    /// exclude.
    pub fn new<const LIST: bool>(
        attributes: Option<&AttributeNames<LIST>>,
        excluded: Option<&AttributeNames<LIST>>,
    ) -> Result<Self> {
        let names = |names: &AttributeNames<LIST>| {
            names.0.iter().map(|name| parse_attribute_name(name)).collect::<Vec<AttributeName>>()
        };
        let included = attributes.map(names).filter(|included| !included.is_empty());
        let excluded = excluded.map(names).unwrap_or_default();
        if included.is_some() && !excluded.is_empty() {
            return Err(Fault::InvalidValue.error("name either attributes or excludedAttributes, not both"));
        }
        Ok(Self { included, excluded })
    }

    /// Returns whether a response contains the attribute or one of its sub-attributes.
    pub fn includes(&self, attribute: &str) -> bool {
        let named = |(name, sub): &AttributeName| name == attribute && sub.is_none();
        match &self.included {
            Some(included) => included.iter().any(|(name, _)| name == attribute),
            None => !self.excluded.iter().any(named),
        }
    }

    /// Removes the attributes that were not requested from a resource.
    pub fn remove_unselected(&self, resource: &mut Map<String, Value>) {
        resource.retain(|name, value| {
            let name = name.to_ascii_lowercase();
            if matches!(&*name, "id" | "schemas") {
                return true;
            }
            if let Some(included) = &self.included {
                let of_name: Vec<&AttributeName> =
                    included.iter().filter(|(asked, _)| *asked == name).collect();
                if of_name.iter().all(|(_, sub)| sub.is_some()) {
                    let subs = |sub: &str| of_name.iter().any(|(_, asked)| asked.as_deref() == Some(sub));
                    retain_members(value, &subs);
                }
                return !of_name.is_empty();
            }
            let of_name: Vec<&AttributeName> =
                self.excluded.iter().filter(|(asked, _)| *asked == name).collect();
            let subs = |sub: &str| !of_name.iter().any(|(_, asked)| asked.as_deref() == Some(sub));
            retain_members(value, &subs);
            of_name.iter().all(|(_, sub)| sub.is_some())
        });
    }
}

/// Removes the members whose names `keeps` rejects, from an object or from each object in a list.
fn retain_members(value: &mut Value, keeps: &dyn Fn(&str) -> bool) {
    match value {
        Value::Object(members) => members.retain(|name, _| keeps(&name.to_ascii_lowercase())),
        Value::Array(items) => items.iter_mut().for_each(|item| retain_members(item, keeps)),
        _ => {}
    }
}

/// Parses the name of an attribute, ignoring the schema URN that may precede the name.
fn parse_attribute_name(text: &str) -> AttributeName {
    let plain = text.rsplit(':').next().unwrap_or_default().to_ascii_lowercase();
    match plain.split_once('.') {
        Some((name, sub)) => (name.to_owned(), Some(sub.to_owned())),
        None => (plain, None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_has_what_was_asked_for_and_always_the_id() {
        let whole = json!({"schemas": [USER_URN], "id": "1", "userName": "ada",
                           "members": [{"value": "2", "display": "b"}],
                           "meta": {"created": "x", "location": "y"}});
        let shaped = |attributes: &str, excluded: &str| {
            let names = |text: &str| serde_json::from_value::<AttributeNames>(json!(text)).unwrap();
            let asked = AttributeSelection::new(Some(&names(attributes)), Some(&names(excluded))).unwrap();
            let mut shaped = whole.as_object().unwrap().clone();
            asked.remove_unselected(&mut shaped);
            shaped.remove("schemas").unwrap();
            Value::Object(shaped)
        };
        assert_eq!(shaped("USERNAME", ""), json!({"id": "1", "userName": "ada"}));
        assert_eq!(shaped(&format!("{USER_URN}:userName"), ""), json!({"id": "1", "userName": "ada"}));
        assert_eq!(shaped("meta.created, none", ""), json!({"id": "1", "meta": {"created": "x"}}));
        assert_eq!(shaped("members.value", ""), json!({"id": "1", "members": [{"value": "2"}]}));
        let rest = shaped("", "userName,id,members,meta.location");
        assert_eq!(rest, json!({"id": "1", "meta": {"created": "x"}}));
        let both: AttributeNames = serde_json::from_value(json!(["a"])).unwrap();
        assert!(AttributeSelection::new(Some(&both), Some(&both)).is_err());
    }
}
