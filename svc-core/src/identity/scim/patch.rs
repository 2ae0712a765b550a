//! Parsing the operations of a SCIM PATCH request (RFC 7644, section 3.5.2), which clients send in various
//! forms.
//!
//! Names of operations and of their members may be in any case. In an operation without a path, the value is
//! an object, and each member of the object is a separate change; the name of the member may be a path, such
//! as `name.givenName`. An operation on an attribute that is not stored is ignored, because identity
//! providers send all attributes that they have. The modules `users` and `groups` decide whether an invalid
//! operation fails the request.

use schemars::JsonSchema;
use scim_v2::filter::{PatchPath, ValFilter};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::attributes::{Attribute, PathMeaning, ResourceKind};
use super::filter::check_bounds;
use super::values::{DOCUMENT_TYPE, embedded_json, member_in_any_case, single_value};
use crate::error::{Error, Result};
use crate::identity::scim::Fault;
use crate::ignored;
use crate::limits::SCIM_OPERATIONS_MAX;
use crate::text::Items;

/// List of operations in a PATCH request.
pub(super) type Operations = Items<PatchOperation, SCIM_OPERATIONS_MAX>;

/// Deserializes a list of operations. Some clients send a single operation instead of a list.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Operations, D::Error> {
    let many = match Value::deserialize(deserializer)? {
        Value::Object(one) => Value::Array(vec![one.into()]),
        many => many,
    };
    Operations::deserialize(many).map_err(D::Error::custom)
}

/// An operation of a PATCH request that is not validated yet.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct PatchOperation(#[schemars(with = "OperationSchema")] Value);

/// JSON schema of a PATCH operation, in the form of RFC 7644.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only the schema is read")]
struct OperationSchema {
    /// The change to make: `add`, `replace` or `remove`.
    op: String,
    /// Path of the attribute to change. If absent, the operation changes all attributes in `value`.
    path: Option<String>,
    /// New value of the attribute.
    value: Option<Value>,
}

/// Members of a PATCH operation that the service reads.
struct OperationMembers<'o> {
    op: &'o str,
    path: Option<&'o str>,
    value: Option<&'o Value>,
}

impl PatchOperation {
    /// Returns the members `op`, `path` and `value`. Fails if one of them has the wrong type or `op` is
    /// missing.
    fn parse(&self) -> Result<OperationMembers<'_>> {
        let Value::Object(members) = &self.0 else { return Err(syntax_error("expected an object")) };
        let text = |name: &str| match member_in_any_case(members, name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim())),
            Some(_) => Err(syntax_error(&format!("its `{name}` is not a text"))),
        };
        Ok(OperationMembers {
            op: text("op")?.ok_or_else(|| syntax_error("its `op` is missing"))?,
            path: text("path")?.filter(|path| !path.is_empty()),
            value: member_in_any_case(members, "value"),
        })
    }
}

/// Returns the error for a malformed operation.
fn syntax_error(detail: &str) -> Error {
    Fault::InvalidSyntax.error(format!("an operation of `Operations`: {detail}"))
}

/// Effect of a PATCH operation on an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeEffect {
    Add,
    Replace,
    Remove,
}

/// A change to one attribute, as an operation of a PATCH request specifies it.
#[derive(Debug)]
pub(super) struct AttributeChange {
    pub effect: ChangeEffect,
    pub attribute: Attribute,
    /// Filter that selects the values to change; `None` to change all values.
    pub value_filter: Option<ValFilter>,
    pub value: Option<Value>,
}

impl AttributeChange {
    /// Returns the new value of a single-valued attribute, or null if the operation removes the attribute.
    pub fn single_value(&self) -> &Value {
        match (self.effect, &self.value) {
            (ChangeEffect::Remove, _) | (_, None) => &Value::Null,
            (_, Some(value)) => single_value(value),
        }
    }

    /// Returns the new value of the attribute as text. Fails if the value is not a text.
    pub fn text(&self) -> Result<&str> {
        self.single_value()
            .as_str()
            .ok_or_else(|| invalid_value_error(format!("`{}`: expected a text", self.attribute.name())))
    }
}

/// Returns the error for a value that is invalid for an attribute.
pub(super) fn invalid_value_error(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Fault::InvalidValue.error(detail)
}

/// Returns the changes of each operation, in order. The result contains an error for each invalid operation.
pub(super) fn parse_changes(
    kind: ResourceKind,
    operations: &Operations,
) -> impl Iterator<Item = Result<Vec<AttributeChange>>> {
    operations.iter().map(move |operation| parse_operation(kind, operation.parse()?))
}

/// Returns the changes that one operation makes: one change, or one for each attribute in `value`.
fn parse_operation(kind: ResourceKind, operation: OperationMembers<'_>) -> Result<Vec<AttributeChange>> {
    let path = operation.path.filter(|path| !path.eq_ignore_ascii_case(kind.schema()));
    let target = match path {
        Some(path) => match resolve_target(kind, path)? {
            PatchTarget::Stored(attribute, value_filter) => Some((attribute, value_filter)),
            PatchTarget::NotStored => {
                ignored::note(DOCUMENT_TYPE, path, "it is not kept");
                return Ok(Vec::new());
            }
        },
        None => None,
    };
    let effect = match operation.op.to_ascii_lowercase().as_str() {
        "add" => ChangeEffect::Add,
        "replace" => ChangeEffect::Replace,
        "remove" => ChangeEffect::Remove,
        _ => return Err(syntax_error("its `op` is not add, replace or remove")),
    };
    if let Some((attribute, value_filter)) = target {
        return Ok(vec![AttributeChange {
            effect,
            attribute,
            value_filter,
            value: operation.value.cloned(),
        }]);
    }
    if effect == ChangeEffect::Remove {
        return Err(Fault::NoTarget.error("`remove` needs a path"));
    }
    let sent = operation.value.map(|value| match value {
        Value::Array(items) if items.len() == 1 => items.first().unwrap_or(value),
        _ => value,
    });
    match sent.map(embedded_json).as_deref() {
        Some(Value::Object(members)) => Ok(changes_without_path(kind, effect, members)),
        _ => Err(invalid_value_error("without a path the value is an object")),
    }
}

/// Returns the changes of an operation without a path. Attributes that are not stored are ignored.
fn changes_without_path(
    kind: ResourceKind,
    effect: ChangeEffect,
    members: &Map<String, Value>,
) -> Vec<AttributeChange> {
    let mut changes = Vec::new();
    for (name, value) in members {
        match value {
            // The member's name is the URN of the schema, and its value contains attributes of that schema.
            Value::Object(below) if name.eq_ignore_ascii_case(kind.schema()) => {
                changes.extend(changes_without_path(kind, effect, below));
            }
            _ => match resolve_target(kind, name) {
                Ok(PatchTarget::Stored(attribute, value_filter)) => {
                    changes.push(AttributeChange {
                        effect,
                        attribute,
                        value_filter,
                        value: Some(value.clone()),
                    });
                }
                Ok(PatchTarget::NotStored) | Err(_) => ignored::note(DOCUMENT_TYPE, name, "it is not kept"),
            },
        }
    }
    changes
}

/// Attribute that a PATCH operation changes.
enum PatchTarget {
    Stored(Attribute, Option<ValFilter>),
    NotStored,
}

/// Returns the attribute that a path refers to. Fails if the path is invalid or the attribute cannot be
/// changed.
fn resolve_target(kind: ResourceKind, path: &str) -> Result<PatchTarget> {
    let unknown = || Fault::InvalidPath.error("`path`: names an attribute that there is not");
    check_bounds(path, Fault::InvalidPath)?;
    let Ok(parsed) = path.parse::<PatchPath>() else {
        // If the path begins with the name of an attribute that is not stored, the text after the name may be
        // invalid.
        let name: String = path.chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
        let is_kept = ["id", "meta"].iter().any(|kept| name.eq_ignore_ascii_case(kept))
            || Attribute::CHANGEABLE.iter().any(|kept| name.eq_ignore_ascii_case(kept.name()));
        return match name.is_empty() || is_kept || name.eq_ignore_ascii_case("urn") {
            true => Err(Fault::InvalidPath.error("`path`: expected the name of an attribute")),
            false => Ok(PatchTarget::NotStored),
        };
    };
    let (path, of, sub) = match parsed {
        PatchPath::Attr(path) => (path, None, None),
        PatchPath::Value(path) => (path.attr, Some(path.filter), path.sub_attr),
    };
    let kept = Attribute::CHANGEABLE.iter().find(|kept| path.name.eq_ignore_ascii_case(kept.name()));
    let whole = scim_v2::filter::AttrPath { sub_attr: None, ..path.clone() };
    match (kept, kind.path_meaning(&whole)) {
        // Only the id of a member is stored.
        (Some(Attribute::Members), Some(PathMeaning::Stored(Attribute::Members))) => {
            let subs = [path.sub_attr.as_deref(), sub.as_deref()];
            match subs.iter().flatten().next() {
                None => Ok(PatchTarget::Stored(Attribute::Members, of)),
                Some(sub) if sub.eq_ignore_ascii_case("value") => Err(unknown()),
                Some(_) => Ok(PatchTarget::NotStored),
            }
        }
        (Some(_), Some(PathMeaning::Stored(attribute))) => match of.is_none() && path.sub_attr.is_none() {
            true => Ok(PatchTarget::Stored(attribute, None)),
            false => Err(unknown()),
        },
        (None, Some(PathMeaning::Stored(Attribute::Id | Attribute::ResourceType))) => {
            Err(Fault::Mutability.error("the attribute cannot be changed"))
        }
        _ => Ok(PatchTarget::NotStored),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::attributes::USER_URN;
    use super::*;
    use crate::error::Code;
    use crate::strangers;

    /// Returns the changes of a PATCH request as texts, or the `scimType` of its error.
    fn read(kind: ResourceKind, operations: Value) -> std::result::Result<Vec<String>, String> {
        let operations: Operations = serde_json::from_value(operations).unwrap();
        let found = parse_changes(kind, &operations).collect::<Result<Vec<_>>>().map_err(|error| {
            let problem = serde_json::to_value(error.problem()).unwrap();
            problem["scimType"].as_str().unwrap().to_owned()
        })?;
        let shown = |change: &AttributeChange| {
            let value = change.value.as_ref().map(Value::to_string).unwrap_or_default();
            let of = change.value_filter.as_ref().map(|of| format!("[{of}]")).unwrap_or_default();
            format!("{:?} {:?}{of} {value}", change.effect, change.attribute)
        };
        Ok(found.iter().flatten().map(shown).collect())
    }

    #[test]
    fn operations_are_read_as_clients_send_them() {
        let enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
        let cases = [
            (json!([{"op": "Replace", "path": "active", "value": "False"}]), Ok("Replace Active \"False\"")),
            (
                json!([{"OP": "REPLACE", "Path": " active ", "Value": ["true"]}]),
                Ok("Replace Active [\"true\"]"),
            ),
            (json!([{"op": "replace", "value": {"active": false, "id": "x"}}]), Ok("Replace Active false")),
            (json!([{"op": "replace", "value": "{\"active\":false}"}]), Ok("Replace Active false")),
            (json!([{"op": "replace", "value": ["{\"active\":false}"]}]), Ok("Replace Active false")),
            (
                json!([{"op": "Add", "value": {"name.givenName": "A", "displayName": "B", "x": 1}}]),
                Ok("Add DisplayName \"B\""),
            ),
            (json!([{"op": "add", "value": {USER_URN: {"userName": "a"}}}]), Ok("Add UserName \"a\"")),
            (json!([{"op": "add", "path": USER_URN, "value": {"userName": "a"}}]), Ok("Add UserName \"a\"")),
            (
                json!([{"op": "add", "path": format!("{USER_URN}:active"), "value": true}]),
                Ok("Add Active true"),
            ),
            (json!([{"op": "add", "path": "emails[type eq \"work\"].value", "value": "a"}]), Ok("")),
            (json!([{"op": "add", "path": format!("{enterprise}:department"), "value": "a"}]), Ok("")),
            (json!([{"op": "remove", "path": "externalId"}]), Ok("Remove ExternalId ")),
            // Attributes that are not stored are ignored, even in an invalid operation.
            (json!([{"op": "add", "path": "shoeSize", "value": 1}]), Ok("")),
            (json!([{"op": "move", "path": "title"}]), Ok("")),
            (json!([{"op": "replace", "path": "name.familyName"}]), Ok("")),
            (json!([{"op": "remove", "path": "emails[type eq work].value"}]), Ok("")),
            (json!([{"op": "replace", "path": "groups", "value": []}]), Ok("")),
            (json!([{"op": "replace", "path": format!("{enterprise}:active"), "value": 1}]), Ok("")),
            (json!([{"op": "replace", "path": format!("{enterprise}:id"), "value": 1}]), Ok("")),
            (json!([{"op": "remove"}]), Err("noTarget")),
            (json!([{"op": "move", "path": "active"}]), Err("invalidSyntax")),
            (json!([{"op": "add", "path": "active.x", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "userName[a eq 1]", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "active[[", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "add", "path": "((", "value": 1}]), Err("invalidPath")),
            (json!([{"op": "replace", "path": "id", "value": "1"}]), Err("mutability")),
            (json!([{"op": "replace", "path": "meta.created", "value": "1"}]), Err("mutability")),
            (json!([{"op": "replace", "value": 1}]), Err("invalidValue")),
            (json!([{}]), Err("invalidSyntax")),
            (json!([{"path": "active"}]), Err("invalidSyntax")),
            (json!([{"op": 1}]), Err("invalidSyntax")),
            (json!([{"op": "add", "path": []}]), Err("invalidSyntax")),
            (json!([null]), Err("invalidSyntax")),
            (json!(["active"]), Err("invalidSyntax")),
        ];
        for (operations, wanted) in cases {
            let found = read(ResourceKind::User, operations.clone());
            let wanted = wanted
                .map_err(str::to_owned)
                .map(|one: &str| if one.is_empty() { Vec::new() } else { vec![one.to_owned()] });
            assert_eq!(found, wanted, "{operations}");
        }
        for (path, wanted) in [
            ("members[value eq \"1\"]", Ok(vec!["Remove Members[value eq \"1\"] ".to_owned()])),
            ("members", Ok(vec!["Remove Members ".to_owned()])),
            ("members.display", Ok(Vec::new())),
            ("members[value eq \"1\"].display", Ok(Vec::new())),
            ("active", Ok(Vec::new())),
            ("members.value", Err("invalidPath".to_owned())),
        ] {
            assert_eq!(read(ResourceKind::Group, json!([{"op": "remove", "path": path}])), wanted, "{path}");
        }
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

        /// Any text as a path refers to a stored attribute, is ignored, or is rejected.
        #[test]
        fn anything_is_a_path_or_refused(sent in strangers::texts(&PIECES)) {
            let kinds = [ResourceKind::User, ResourceKind::Group].into_iter().cycle();
            for (path, kind) in sent.iter().zip(kinds) {
                if let Err(error) = resolve_target(kind, path) {
                    prop_assert_eq!(error.code(), Code::Malformed, "{}", path);
                }
            }
        }
    }
}
