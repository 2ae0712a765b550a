//! SCIM 2.0 (RFC 7643, RFC 7644): managing the people of a workspace from an identity provider.
//!
//! SCIM users are the people of the token's workspace, without agents and removed people. A user's `userName`
//! is the person's handle; case is ignored. `displayName` can be set only once: later values are ignored, and
//! so are attributes that the schemas do not list. Attributes with an effect are validated: `userName`,
//! `active`, `externalId`, and the name and members of a group. Decorative attributes never fail a request,
//! and no other attribute prevents `active` from removing or restoring access. Groups grant no rights.
//! `identity::member_ends` defines what `active: false` ends; `active: true` restores none of it.
//!
//! A request that fails changes nothing: a PATCH is first applied in memory. An error contains an error type
//! of RFC 7644 (`scimType`) in addition to the code of the service. The frame of the routes encodes errors as
//! that RFC defines.
//!
//! - `values`: parsing values of attributes, which clients send in various forms
//! - `attributes`: the attributes, and their selection for a response
//! - `filter`: parsing filters, and comparing them with resources
//! - `selection`: filters that the database evaluates
//! - `patch`: parsing the operations of a PATCH request
//! - `resource`: the types of returned resources
//! - `users`, `groups`: the operations on users and groups
//! - `group_rows`: reading and writing the tables of groups
//! - `list`: lists and searches of users and groups
//! - `discovery`: descriptions of the supported features

mod values;
mod attributes;
mod filter;
mod selection;
mod patch;
mod resource;
mod users;
mod group_rows;
mod groups;
mod list;
mod discovery;

use serde_json::json;

use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Error};
use crate::identity::member_ends::MemberRemoved;
use crate::log::event::{Event, EventKind};
use crate::op::{
    Effect, Feature, Fixture, Frame, Operation, Records, Sample, changing, destructive, idempotent, read,
    without_idempotency_keys, without_requests, write,
};
use groups::{CreateGroup, DeleteGroup, PatchGroup, ReplaceGroup};
use resource::{Group, Nothing, ResourceView, User};
use users::{CreateUser, DeleteUser, PatchUser, ReplaceUser};

/// Type of an error in a request, with the names that RFC 7644 (section 3.12) defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    InvalidFilter,
    InvalidPath,
    InvalidSyntax,
    InvalidValue,
    Mutability,
    NoTarget,
    TooMany,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::InvalidFilter => "invalidFilter",
            Self::InvalidPath => "invalidPath",
            Self::InvalidSyntax => "invalidSyntax",
            Self::InvalidValue => "invalidValue",
            Self::Mutability => "mutability",
            Self::NoTarget => "noTarget",
            Self::TooMany => "tooMany",
        }
    }

    fn error(self, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::malformed(detail).with("scimType", self.name())
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("scim", users_and_groups())
        .operations("scim", searches_and_discovery())
        .events(vec![EventKind::of::<groups::GroupChanged>(), EventKind::of::<groups::GroupDeleted>()])
        .projector(&[MemberRemoved::KIND], group_rows::remove_people_from_groups)
        .sample(
            Sample::new("person", "create_scim_user", |_| json!({"userName": "mary@corp.example"}))
                .id_at("/id"),
        )
        .sample(
            Sample::new(
                "scim_group",
                "create_scim_group",
                |w| json!({"displayName": "Engineers", "members": [{"value": w.id("person")}]}),
            )
            .id_at("/id"),
        )
        .records(vec![
            Records::table("scim_groups", "lsn id")
                .after("workspaces")
                .ids("id workspace_id")
                .texts("display_name external_id")
                .times("created_at changed_at")
                .ints("lsn")
                .proven("id", "display_name created_at changed_at lsn")
                .unproven("external_id", "an id at the identity provider, which is in no event"),
            Records::table("scim_group_members", "group_id member_id")
                .through("group_id", "scim_groups")
                .after("members")
                .ids("group_id member_id")
                .proven("group_id member_id", ""),
        ])
}

without_requests! {
    CreateUser, users::GetUser, ReplaceUser, PatchUser, DeleteUser,
    CreateGroup, groups::GetGroup, ReplaceGroup, PatchGroup, DeleteGroup,
    list::ListResources, list::SearchResources,
    discovery::GetConfig, discovery::ListResourceTypes, discovery::GetResourceType,
    discovery::ListSchemas, discovery::GetSchema,
}

/// Adds to an operation the frame of SCIM routes and the capability that all SCIM operations need.
fn scim_operation(operation: Operation) -> Operation {
    operation.framed(Frame::Scim).needs(&[TokenAdmin])
}

fn users_and_groups() -> Vec<Operation> {
    let user = |w: &Fixture| json!({"id": w.id("person")});
    let group = |w: &Fixture| json!({"id": w.id("scim_group")});
    vec![
        scim_operation(write("create_scim_user", users::create))
            .title("Create a SCIM user")
            .post("/scim/v2/Users")
            .created()
            .refuses(&[Code::HandleTaken])
            .example(|_| json!({"userName": "grace@corp.example", "displayName": "Grace", "active": true})),
        scim_operation(read("get_scim_user", users::get))
            .title("Read a SCIM user")
            .get("/scim/v2/Users/{id}")
            .example(user),
        scim_operation(changing("replace_scim_user", Effect::Idempotent).in_steps(users::replace))
            .title("Replace a SCIM user")
            .put("/scim/v2/Users/{id}")
            .refuses(&[Code::Forbidden, Code::HandleTaken])
            .example(|w| {
                json!({"id": w.id("person"), "userName": "mary@corp.example", "externalId": "00u1",
                       "active": true})
            }),
        scim_operation(changing("patch_scim_user", Effect::Idempotent).in_steps(users::patch))
            .title("Change a SCIM user")
            .patch("/scim/v2/Users/{id}")
            .refuses(&[Code::Forbidden, Code::HandleTaken])
            .example(|w| {
                json!({"id": w.id("person"),
                       "Operations": [{"op": "replace", "path": "active", "value": false}]})
            }),
        scim_operation(changing("delete_scim_user", Effect::Destructive).in_resumed_steps(users::delete))
            .title("Remove a SCIM user")
            .delete("/scim/v2/Users/{id}")
            .no_content()
            .refuses(&[Code::Forbidden])
            .example(user),
        scim_operation(write("create_scim_group", groups::create))
            .title("Create a SCIM group")
            .post("/scim/v2/Groups")
            .created()
            .example(|w| json!({"displayName": "Reviewers", "members": [{"value": w.id("person")}]})),
        scim_operation(read("get_scim_group", groups::get))
            .title("Read a SCIM group")
            .get("/scim/v2/Groups/{id}")
            .example(group),
        scim_operation(idempotent("replace_scim_group", groups::replace))
            .title("Replace a SCIM group")
            .put("/scim/v2/Groups/{id}")
            .example(|w| json!({"id": w.id("scim_group"), "displayName": "All engineers", "members": []})),
        scim_operation(idempotent("patch_scim_group", groups::patch))
            .title("Change a SCIM group")
            .patch("/scim/v2/Groups/{id}")
            .example(|w| {
                json!({"id": w.id("scim_group"), "Operations": [
                    {"op": "add", "path": "members", "value": [{"value": w.id("person")}]}]})
            }),
        scim_operation(destructive("delete_scim_group", groups::delete))
            .title("Delete a SCIM group")
            .delete("/scim/v2/Groups/{id}")
            .no_content()
            .example(group),
    ]
}

without_idempotency_keys! {
    CreateUser => ResourceView<User>,
    ReplaceUser => ResourceView<User>,
    PatchUser => ResourceView<User>,
    DeleteUser => Nothing,
    CreateGroup => ResourceView<Group>,
    ReplaceGroup => ResourceView<Group>,
    PatchGroup => ResourceView<Group>,
    DeleteGroup => Nothing,
}

fn searches_and_discovery() -> Vec<Operation> {
    let by_name = |_: &Fixture| json!({"filter": "userName eq \"mary@corp.example\"", "count": 10});
    let groups = |_: &Fixture| json!({"filter": "displayName sw \"Eng\"", "excludedAttributes": "members"});
    vec![
        scim_operation(read("list_scim_users", list::list_users))
            .title("List SCIM users")
            .get("/scim/v2/Users")
            .example(by_name),
        scim_operation(read("search_scim_users", list::search_users))
            .title("Search SCIM users")
            .post("/scim/v2/Users/.search")
            .example(by_name),
        scim_operation(read("list_scim_groups", list::list_groups))
            .title("List SCIM groups")
            .get("/scim/v2/Groups")
            .example(groups),
        scim_operation(read("search_scim_groups", list::search_groups))
            .title("Search SCIM groups")
            .post("/scim/v2/Groups/.search")
            .example(|_| json!({"filter": "displayName sw \"Eng\"", "excludedAttributes": ["members"]})),
        scim_operation(read("search_scim", list::search_all))
            .title("Search all SCIM resources")
            .post("/scim/v2/.search")
            .example(|_| json!({"startIndex": 1, "count": 10})),
        scim_operation(read("get_scim_config", discovery::get_config))
            .title("Read the SCIM configuration")
            .get("/scim/v2/ServiceProviderConfig")
            .example(|_| json!({})),
        scim_operation(read("list_scim_resource_types", discovery::list_resource_types))
            .title("List the SCIM resource types")
            .get("/scim/v2/ResourceTypes")
            .example(|_| json!({})),
        scim_operation(read("get_scim_resource_type", discovery::get_resource_type))
            .title("Read a SCIM resource type")
            .get("/scim/v2/ResourceTypes/{id}")
            .example(|_| json!({"id": "User"})),
        scim_operation(read("list_scim_schemas", discovery::list_schemas))
            .title("List the SCIM schemas")
            .get("/scim/v2/Schemas")
            .example(|_| json!({})),
        scim_operation(read("get_scim_schema", discovery::get_schema))
            .title("Read a SCIM schema")
            .get("/scim/v2/Schemas/{id}")
            .example(|_| json!({"id": attributes::USER_URN})),
    ]
}
