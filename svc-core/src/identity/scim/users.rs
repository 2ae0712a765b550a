//! SCIM users: operations on the people of the workspace.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::attributes::{Attribute, AttributeNames, AttributeSelection, AttributeValue, ResourceKind};
use super::filter::FilterTarget;
use super::patch::{
    AttributeChange, ChangeEffect, Operations, invalid_value_error, one_or_many, parse_changes,
};
use super::resource::{Nothing, ResourceView, User};
use super::values::{DOCUMENT_TYPE, DisplayText, ExternalId, LenientBool, SchemaList, single_value};
use crate::error::{Error, Result};
use crate::id::MemberId;
use crate::identity::enrol::{NewMember, check_handle_free, create_member};
use crate::identity::member_ends;
use crate::identity::members::{self, MemberKind, MemberUpdated, Person, UserName};
use crate::identity::scim::Fault;
use crate::ignored;
use crate::log::event::Subject;
use crate::op::{Read, Surface, Write};

impl FilterTarget for Person {
    fn value(&self, attribute: Attribute) -> AttributeValue<'_> {
        let text = |text: &'_ Option<String>| -> AttributeValue<'static> {
            text.as_ref().map_or(AttributeValue::Nothing, |text| AttributeValue::Text(text.clone().into()))
        };
        match attribute {
            Attribute::Id => AttributeValue::Text(self.id.to_string().into()),
            Attribute::ExternalId => text(&self.external_id),
            Attribute::UserName => AttributeValue::Text(self.handle.as_str().into()),
            Attribute::DisplayName => text(&self.display_name),
            Attribute::Active => AttributeValue::Flag(self.active),
            Attribute::Members => AttributeValue::Nothing,
            Attribute::Created => AttributeValue::Time(self.created_at),
            Attribute::LastModified => AttributeValue::Time(self.changed_at.unwrap_or(self.created_at)),
            Attribute::ResourceType => AttributeValue::Text(ResourceKind::User.name().into()),
        }
    }
}

/// Creates a person in the workspace and returns the person as a SCIM user.
///
/// The new person has no token. Mint a token for the person, or let the person sign in at an identity
/// provider with the handle as the email address. Attributes that `GET /scim/v2/Schemas` does not list are
/// ignored. An invalid `displayName` never fails a request.
///
/// Fails with 409 `handle-taken` if another member of the workspace has the handle, ignoring case.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateUser {
    /// Schema URNs of the resource. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// Handle of the person, which may be an email address. Case is ignored.
    user_name: UserName,
    /// Id of the person at the identity provider.
    external_id: Option<ExternalId>,
    /// Name of the person to show to people. SCIM cannot change the name later. A name that is too long is
    /// shortened.
    display_name: Option<DisplayText>,
    /// Whether the person may use the service. Default: true.
    active: Option<LenientBool>,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn create(cx: &mut Write<'_>, input: &CreateUser) -> Result<ResourceView<User>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let new = NewMember {
        workspace_id: cx.caller().workspace_id,
        handle: &input.user_name,
        kind: MemberKind::Human,
        display_name: input.display_name.as_ref().and_then(|DisplayText(name)| name.as_deref()),
        surface: Some(Surface::Scim),
    };
    check_handle_free(cx, &new).map_err(with_scim_uniqueness)?;
    let member = create_member(cx, &new)?;
    let mut person = Person {
        id: member.id,
        handle: member.handle,
        external_id: input.external_id.clone().and_then(|ExternalId(id)| id),
        display_name: member.display_name,
        active: true,
        created_at: member.created_at,
        changed_at: None,
        lsn: member.lsn,
    };
    if person.external_id.is_some() {
        members::update_person(cx, &person)?;
    }
    if input.active == Some(LenientBool(false)) {
        member_ends::deactivate(cx, person.id)?;
        (person.active, person.changed_at) = (false, Some(cx.now()));
    }
    ResourceView::of(User::of(person), &asked)
}

/// Adds the `scimType` of RFC 7644 to the error for a handle that another member has.
fn with_scim_uniqueness(error: Error) -> Error {
    error.with("scimType", "uniqueness")
}

/// Returns a person of the workspace as a SCIM user.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GetUser {
    /// Id of the user, which is the id of the person as a member.
    id: String,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn get(cx: &Read<'_>, input: &GetUser) -> Result<ResourceView<User>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    ResourceView::of(User::of(load_user(cx, &input.id)?), &asked)
}

/// Loads a person of the caller's workspace. Fails with *not found* also if `id` is not a valid id.
fn load_user(cx: &Read<'_>, id: &str) -> Result<Person> {
    let found = match id.parse::<uuid::Uuid>() {
        Ok(id) => members::find_person(cx, MemberId::from(id))?,
        Err(_) => None,
    };
    found.ok_or_else(|| Error::not_found("user"))
}

/// Replaces the attributes of a person that SCIM can change, and returns the person as a SCIM user.
///
/// If `externalId` is absent, the stored id is removed. If `active` is absent, its value does not change.
/// `displayName` is set only if the person has no display name yet. `active: false` ends the person's tokens,
/// including derived and exchanged ones, the person's sessions and claims, and the delegation grants by which
/// the person acts for others. `active: true` restores none of these. No other attribute can make such a
/// change fail: if `active: false` is sent, or `active: true` for an inactive person, the server ignores
/// invalid values and handles that are in use.
///
/// Fails with 403 `forbidden` if the request would deactivate a person who is you, or who has a token with
/// `operator:global` or `audit:read-global` while your token lacks that capability; 409 `handle-taken` if
/// another member has the handle.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReplaceUser {
    /// Id of the user.
    id: String,
    /// Schema URNs of the resource. The service ignores them.
    #[serde(rename = "schemas")]
    _schemas: Option<SchemaList>,
    /// Handle of the person, which may be an email address. Case is ignored.
    #[schemars(with = "UserName")]
    user_name: Option<Value>,
    /// Id of the person at the identity provider.
    #[schemars(with = "Option<ExternalId>")]
    external_id: Option<Value>,
    /// Name of the person to show to people; ignored if the person has a name. A name that is too long is
    /// shortened.
    display_name: Option<DisplayText>,
    /// Whether the person may use the service.
    active: Option<LenientBool>,
    /// Names of the attributes to return, separated by commas. Default: all attributes.
    attributes: Option<AttributeNames>,
    /// Names of attributes to omit from the response, separated by commas.
    excluded_attributes: Option<AttributeNames>,
}

pub(super) fn replace(cx: &mut Write<'_>, input: &ReplaceUser) -> Result<Option<ResourceView<User>>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let person = load_user(cx, &input.id)?;
    let sent = |value: &'_ Option<Value>| value.clone().unwrap_or_default();
    let mut wanted = RequestedValues::of(person.clone());
    wanted.active = input.active.map(|LenientBool(active)| active);
    wanted.set_handle(parse_handle(&sent(&input.user_name)));
    wanted.set_external_id(parse_external_id(&sent(&input.external_id)));
    wanted.person.display_name = resulting_display_name(&person, input.display_name.as_ref());
    let wanted = wanted.resolve(cx, &person)?;
    let person = apply_changes(cx, &person, wanted)?;
    person.map(|person| ResourceView::of(User::of(person), &asked)).transpose()
}

/// Changes a person with SCIM PATCH operations, and returns the person. Either all operations are applied or
/// none.
///
/// The documentation of `PUT` describes the effect of `active`, and the values that are ignored. Operations
/// on attributes that the service does not store are ignored. An operation on `displayName` is ignored if the
/// person already has a display name.
///
/// Fails with 403 `forbidden` if the request would deactivate a person who is you, or who has a token with
/// `operator:global` or `audit:read-global` while your token lacks that capability; 409 `handle-taken` if
/// another member has the handle.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PatchUser {
    /// Id of the user.
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

pub(super) fn patch(cx: &mut Write<'_>, input: &PatchUser) -> Result<Option<ResourceView<User>>> {
    let asked = AttributeSelection::new(input.attributes.as_ref(), input.excluded_attributes.as_ref())?;
    let person = load_user(cx, &input.id)?;
    let wanted = requested_values(&person, &input.operations).resolve(cx, &person)?;
    let person = apply_changes(cx, &person, wanted)?;
    person.map(|person| ResourceView::of(User::of(person), &asked)).transpose()
}

/// Values of a person that a request specifies.
struct RequestedValues {
    person: Person,
    /// Requested value of `active`; `None` if the request does not contain `active`.
    active: Option<bool>,
    /// Errors of the invalid values in the request, each with the name of its attribute.
    invalid_values: Vec<(&'static str, Error)>,
}

impl RequestedValues {
    fn of(person: Person) -> Self {
        Self { person, active: None, invalid_values: Vec::new() }
    }

    fn set_handle(&mut self, handle: Result<String>) {
        match handle {
            Ok(handle) => self.person.handle = handle,
            Err(error) => self.invalid_values.push((Attribute::UserName.name(), error)),
        }
    }

    fn set_active(&mut self, active: Result<bool>) {
        match active {
            Ok(active) => self.active = Some(active),
            Err(error) => self.invalid_values.push((Attribute::Active.name(), error)),
        }
    }

    fn set_external_id(&mut self, external_id: Result<Option<String>>) {
        match external_id {
            Ok(external_id) => self.person.external_id = external_id,
            Err(error) => self.invalid_values.push((Attribute::ExternalId.name(), error)),
        }
    }

    /// Returns the person with the requested values. Fails if a requested value is invalid.
    ///
    /// If the request removes or restores access, invalid values of other attributes are ignored, so that
    /// they cannot prevent the change.
    fn resolve(mut self, cx: &Read<'_>, person: &Person) -> Result<Person> {
        if self.person.handle != person.handle
            && let Err(error) = check_user_name_free(cx, &self.person.handle)
        {
            if error.code().status() >= 500 {
                return Err(error);
            }
            self.person.handle.clone_from(&person.handle);
            self.invalid_values.push((Attribute::UserName.name(), error));
        }
        for (name, error) in self.invalid_values {
            let is_ignored = match self.active {
                Some(false) => true,
                // An invalid value of `active` never restores access.
                Some(true) => !person.active && name != Attribute::Active.name(),
                None => false,
            };
            if !is_ignored {
                return Err(error);
            }
            ignored::note(DOCUMENT_TYPE, name, "it cannot be what is sent beside `active`");
        }
        Ok(Person { active: self.active.unwrap_or(person.active), ..self.person })
    }
}

/// Returns the values that the PATCH operations specify for a person.
fn requested_values(person: &Person, operations: &Operations) -> RequestedValues {
    let mut wanted = RequestedValues::of(person.clone());
    for found in parse_changes(ResourceKind::User, operations) {
        match found {
            Ok(changes) => changes.iter().for_each(|change| apply_change(&mut wanted, change)),
            Err(error) => wanted.invalid_values.push(("Operations", error)),
        }
    }
    wanted
}

/// Applies one change of a PATCH request to the requested values, in memory.
fn apply_change(requested: &mut RequestedValues, change: &AttributeChange) {
    let required = || Fault::Mutability.error("the attribute is required");
    match (change.attribute, change.effect) {
        (Attribute::UserName, ChangeEffect::Remove) => requested.set_handle(Err(required())),
        (Attribute::UserName, _) => requested.set_handle(parse_handle(change.single_value())),
        (Attribute::Active, ChangeEffect::Remove) => requested.set_active(Err(required())),
        (Attribute::Active, _) => {
            let active = change.value.as_ref().and_then(LenientBool::of);
            requested
                .set_active(active.ok_or_else(|| invalid_value_error("`active`: expected true or false")));
        }
        (Attribute::ExternalId, _) => requested.set_external_id(parse_external_id(change.single_value())),
        (Attribute::DisplayName, _) if requested.person.display_name.is_none() => {
            let name = DisplayText::of(Attribute::DisplayName.name(), change.single_value());
            requested.person.display_name = resulting_display_name(&requested.person, Some(&name));
        }
        _ => {}
    }
}

/// Returns the display name of a person after a request: the stored name, or the requested name if none was
/// stored.
fn resulting_display_name(person: &Person, requested: Option<&DisplayText>) -> Option<String> {
    let requested = || requested.and_then(|DisplayText(name)| name.as_deref()).map(str::to_owned);
    person.display_name.clone().or_else(requested)
}

/// Returns the handle in a value of `userName`. Fails if the value is not a valid user name.
fn parse_handle(value: &Value) -> Result<String> {
    let name = match single_value(value) {
        Value::String(text) => UserName::new(text),
        Value::Null => Err("missing".to_owned()),
        _ => Err("expected a text".to_owned()),
    };
    name.map(|name| name.to_string()).map_err(|detail| invalid_value_error(format!("`userName`: {detail}")))
}

/// Returns the id at the identity provider in a value of `externalId`. Fails if the value is invalid.
pub(super) fn parse_external_id(value: &Value) -> Result<Option<String>> {
    let id =
        ExternalId::of(value).map_err(|detail| invalid_value_error(format!("`externalId`: {detail}")))?;
    Ok(id.0)
}

/// Changes a person to the values in `after`, and returns the person.
///
/// Returns `None` while the deactivated person still has claims to end.
fn apply_changes(cx: &mut Write<'_>, before: &Person, after: Person) -> Result<Option<Person>> {
    // Claims that remain after an interrupted deactivation end before the person is reactivated.
    if !before.active && cx.end_some(before.id)? {
        return Ok(None);
    }
    let after = if after == *before { after } else { write_changes(cx, before, after)? };
    if !after.active && cx.end_some(after.id)? {
        return Ok(None);
    }
    Ok(Some(after))
}

/// Writes the values in `after` to a person's row, emits the events, and returns the person.
fn write_changes(cx: &mut Write<'_>, before: &Person, mut after: Person) -> Result<Person> {
    after.changed_at = Some(cx.now());
    if (Person { active: after.active, changed_at: after.changed_at, ..before.clone() }) != after {
        members::update_person(cx, &after)?;
        let updated = MemberUpdated {
            member_id: after.id,
            handle: after.handle.clone(),
            display_name: after.display_name.clone(),
        };
        cx.emit(Subject::WORKSPACE.about(after.id), &updated)?;
    }
    match (before.active, after.active) {
        (true, false) => member_ends::deactivate(cx, after.id)?,
        (false, true) => member_ends::reactivate(cx, after.id)?,
        _ => {}
    }
    Ok(after)
}

/// Fails if another member has the handle, or if the handle is reserved.
fn check_user_name_free(cx: &Read<'_>, handle: &str) -> Result<()> {
    let workspace_id = cx.caller().workspace_id;
    let kind = MemberKind::Human;
    let wanted = NewMember { workspace_id, handle, kind, display_name: None, surface: None };
    check_handle_free(cx, &wanted).map_err(with_scim_uniqueness)
}

/// Permanently removes a person. The person is deactivated, the handle becomes free, and SCIM no longer finds
/// the person.
///
/// The server deletes the person's identifying data: the display name, the id at the identity provider, and
/// the links to identities for signing in. The person's work remains, under the same member id.
///
/// Fails with 403 `forbidden` if the person is you, or has a token with `operator:global` or
/// `audit:read-global` while your token lacks that capability.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteUser {
    /// Id of the user.
    id: String,
}

pub(super) fn delete(cx: &mut Write<'_>, input: &DeleteUser, (): &mut ()) -> Result<Option<Nothing>> {
    let person = load_user(cx, &input.id)?;
    if person.active {
        member_ends::deactivate(cx, person.id)?;
    }
    if cx.end_some(person.id)? {
        return Ok(None);
    }
    member_ends::remove(cx, person.id)?;
    Ok(Some(Nothing {}))
}
