//! The operations of a PATCH (RFC 7644, 3.5.2), as clients really send them.
//!
//! Names of operations may be in any case. Without a path the value is an object, each of whose members is a
//! change of its own; a member may be a path itself, such as `name.givenName`. What a resource does not have
//! but RFC 7643 knows is ignored, because identity providers send all that they have; in a path, what nobody
//! knows is refused.

use schemars::JsonSchema;
use scim_v2::filter::{AttrPath, PatchPath, ValFilter};
use serde::Deserialize;
use serde_json::Value;

use super::attributes::{Attribute, Kind, SchemaName};
use super::filter::check_bounds;
use crate::error::{Error, Result};
use crate::identity::scim::Fault;
use crate::limits::SCIM_OPERATIONS_MAX;
use crate::text::Items;

/// That of a PATCH.
pub(super) struct PatchSchema;

impl SchemaName for PatchSchema {
    const NAME: &'static str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
}

/// The operations of a PATCH.
pub(super) type Operations = Items<PatchOperation, SCIM_OPERATIONS_MAX>;

/// One change of a resource.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(super) struct PatchOperation {
    /// `add`, `replace` or `remove`.
    op: String,
    /// What is changed; without it, all that the value has.
    #[serde(default)]
    path: Option<String>,
    /// What it becomes.
    #[serde(default)]
    value: Option<Value>,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Add,
    Replace,
    Remove,
}

/// A change of one attribute.
#[derive(Debug)]
pub(super) struct Change {
    pub does: Does,
    pub attribute: Attribute,
    /// Which values of it, if not all.
    pub of: Option<ValFilter>,
    pub value: Option<Value>,
}

impl Change {
    /// Returns the value, which must be a text.
    pub fn text(&self) -> Result<&str> {
        self.value.as_ref().and_then(Value::as_str).ok_or_else(|| unfit("expected a text"))
    }

    /// Returns the value, which may be null.
    pub fn some_text(&self) -> Result<Option<&str>> {
        match (self.does, &self.value) {
            (Does::Remove, _) | (_, Some(Value::Null)) => Ok(None),
            _ => self.text().map(Some),
        }
    }
}

/// Returns the error of a value that an attribute cannot have.
pub(super) fn unfit(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Fault::InvalidValue.error(detail)
}

/// Returns the changes of the attributes of a resource, in order.
pub(super) fn changes(kind: Kind, operations: &Operations) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for operation in operations.iter() {
        let does = match operation.op.to_ascii_lowercase().as_str() {
            "add" => Does::Add,
            "replace" => Does::Replace,
            "remove" => Does::Remove,
            _ => return Err(Fault::InvalidSyntax.error("`op`: expected add, replace or remove")),
        };
        match operation.path.as_deref().map(str::trim).filter(|path| !path.is_empty()) {
            Some(path) => changes.extend(at_path(kind, does, path, operation.value.clone())?),
            None if does == Does::Remove => return Err(Fault::NoTarget.error("`remove` needs a path")),
            None => {
                let Some(Value::Object(members)) = &operation.value else {
                    return Err(unfit("without a path the value is an object"));
                };
                for (name, value) in members {
                    changes.extend(of_member(kind, does, name, value));
                }
            }
        }
    }
    Ok(changes)
}

/// Returns the changes that one member of a value without a path asks for. What is not announced is ignored.
fn of_member(kind: Kind, does: Does, name: &str, value: &Value) -> Vec<Change> {
    if let (true, Value::Object(members)) = (name.eq_ignore_ascii_case(kind.schema()), value) {
        // The attributes of the schema, below its name.
        let below = members.iter().filter_map(|(name, value)| of_attribute(kind, does, name, value));
        return below.collect();
    }
    of_attribute(kind, does, name, value).into_iter().collect()
}

fn of_attribute(kind: Kind, does: Does, name: &str, value: &Value) -> Option<Change> {
    let path = parsed(name).ok()?;
    let PatchPath::Attr(path) = path else { return None };
    let attribute = kind.attribute(&path).filter(|attribute| is_writable(*attribute))?;
    Some(Change { does, attribute, of: None, value: Some(value.clone()) })
}

fn is_writable(attribute: Attribute) -> bool {
    !matches!(
        attribute,
        Attribute::Id | Attribute::Created | Attribute::LastModified | Attribute::ResourceType
    )
}

/// Returns the change at a path; none if what it names is known and ignored.
fn at_path(kind: Kind, does: Does, path: &str, value: Option<Value>) -> Result<Option<Change>> {
    let (path, of, sub) = match parsed(path)? {
        PatchPath::Attr(path) => (path, None, None),
        PatchPath::Value(path) => (path.attr, Some(path.filter), path.sub_attr),
    };
    let is_read_only = ["id", "meta", "groups"].iter().any(|name| path.name.eq_ignore_ascii_case(name));
    match kind.attribute(&path) {
        _ if is_read_only => Err(Fault::Mutability.error("the attribute cannot be changed")),
        Some(Attribute::Members) if sub.is_none() && path.sub_attr.is_none() => {
            Ok(Some(Change { does, attribute: Attribute::Members, of, value }))
        }
        Some(attribute) if of.is_none() && attribute != Attribute::Members => {
            Ok(Some(Change { does, attribute, of, value }))
        }
        None if is_known(&path) => Ok(None),
        _ => Err(Fault::InvalidPath.error("`path`: names an attribute that there is not")),
    }
}

fn parsed(path: &str) -> Result<PatchPath> {
    check_bounds(path, Fault::InvalidPath)?;
    path.parse().map_err(|_| Fault::InvalidPath.error("`path`: expected the name of an attribute"))
}

/// The attributes of users in RFC 7643 (4.1) that are ignored.
const KNOWN: [&str; 18] = [
    "schemas",
    "name",
    "nickName",
    "profileUrl",
    "title",
    "userType",
    "preferredLanguage",
    "locale",
    "timezone",
    "password",
    "emails",
    "phoneNumbers",
    "ims",
    "photos",
    "addresses",
    "entitlements",
    "roles",
    "x509Certificates",
];

/// Whether RFC 7643 or an extension knows the attribute.
fn is_known(path: &AttrPath) -> bool {
    let is_extension = path.uri.as_ref().is_some_and(|uri| {
        let uri = uri.to_ascii_lowercase();
        uri.starts_with("urn:") && !uri.starts_with("urn:ietf:params:scim:schemas:core:")
    });
    is_extension || KNOWN.iter().any(|name| path.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::error::Code;
    use crate::strangers;

    /// The changes of a PATCH as texts, or the type of its error.
    fn read(kind: Kind, operations: Value) -> std::result::Result<Vec<String>, String> {
        let operations: Operations = serde_json::from_value(operations).unwrap();
        let found = changes(kind, &operations).map_err(|error| {
            let problem = serde_json::to_value(error.problem()).unwrap();
            problem["scimType"].as_str().unwrap().to_owned()
        })?;
        let shown = |change: &Change| {
            let value = change.value.as_ref().map(Value::to_string).unwrap_or_default();
            let of = change.of.as_ref().map(|of| format!("[{of}]")).unwrap_or_default();
            format!("{:?} {:?}{of} {value}", change.does, change.attribute)
        };
        Ok(found.iter().map(shown).collect())
    }

    #[test]
    fn operations_are_read_as_clients_send_them() {
        let enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
        let cases = [
            (json!([{"op": "Replace", "path": "active", "value": "False"}]), Ok("Replace Active \"False\"")),
            (json!([{"op": "replace", "value": {"active": false, "id": "x"}}]), Ok("Replace Active false")),
            (
                json!([{"op": "Add", "value": {"name.givenName": "A", "displayName": "B", "x": 1}}]),
                Ok("Add DisplayName \"B\""),
            ),
            (
                json!([{"op": "add", "value": {super::super::attributes::USER: {"userName": "a"}}}]),
                Ok("Add UserName \"a\""),
            ),
            (json!([{"op": "add", "path": "emails[type eq \"work\"].value", "value": "a"}]), Ok("")),
            (json!([{"op": "add", "path": format!("{enterprise}:department"), "value": "a"}]), Ok("")),
            (json!([{"op": "remove", "path": "externalId"}]), Ok("Remove ExternalId ")),
            (json!([{"op": "remove"}]), Err("noTarget")),
            (json!([{"op": "move", "path": "active"}]), Err("invalidSyntax")),
            (json!([{"op": "add", "path": "shoeSize", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "active.x", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "userName[a eq 1]", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "((", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "replace", "path": "id", "value": "1"}]), Err("mutability")),
            (json!([{"op": "replace", "path": "meta.created", "value": "1"}]), Err("mutability")),
            (json!([{"op": "replace", "value": 1}]), Err("invalidValue")),
        ];
        for (operations, wanted) in cases {
            let found = read(Kind::User, operations.clone());
            let wanted = wanted
                .map_err(str::to_owned)
                .map(|one: &str| if one.is_empty() { Vec::new() } else { vec![one.to_owned()] });
            assert_eq!(found, wanted, "{operations}");
        }
        let members = json!([{"op": "remove", "path": "members[value eq \"1\"]"}]);
        assert_eq!(read(Kind::Group, members), Ok(vec!["Remove Members[value eq \"1\"] ".to_owned()]));
    }

    const PIECES: [&str; 23] = [
        "members",
        "userName",
        "emails",
        "[",
        "]",
        "value",
        " eq ",
        "\"a\"",
        "\"",
        ".",
        ":",
        "urn:a:b",
        "(",
        ")",
        " ",
        "\\",
        "é",
        "1",
        "-",
        " and ",
        "\u{0}",
        "members[value eq \"a\"]",
        "emails[type eq \"work\"].value",
    ];

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// Whatever is sent as a path names an attribute, is ignored, or is refused.
        #[test]
        fn anything_is_a_path_or_refused(sent in strangers::texts(&PIECES)) {
            for (path, kind) in sent.iter().zip([Kind::User, Kind::Group].into_iter().cycle()) {
                if let Err(error) = at_path(kind, Does::Add, path, None) {
                    prop_assert_eq!(error.code(), Code::Malformed, "{}", path);
                }
            }
        }
    }
}
