//! Workspaces, which isolate teams from each other.
//!
//! A credential is valid for one workspace. A request whose path contains the id of another workspace fails
//! as if that workspace did not exist. [`super::setup`] creates workspaces.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::argument::{Argument, Field};
use crate::capability::Capability::{OperatorGlobal, TokenAdmin, WorkspaceRead};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{HANDLE_MAX, NAME_MAX};
use crate::log::event::{Event, EventKind, Subject, WorkspaceCreated};
use crate::log::keys;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Effect, Feature, Read, Records, Write, WriteNeeds, changing, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::OF_CALLER;
use crate::store::columns;
use crate::text::{Change, Handle, Text};
use crate::time::Time;

/// A workspace, which contains a team's channels, threads, members and log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Workspace {
    /// Id of the workspace.
    pub id: WorkspaceId,
    /// Name of the workspace, to show to people.
    pub name: String,
    /// Handle of the workspace, a changeable alias of the id; null if it has none. References always use the
    /// id.
    pub handle: Option<String>,
    /// Time at which the workspace was created.
    pub created_at: Time,
    /// Position of the workspace's creation in the instance's log. Lists of workspaces are sorted by this
    /// position.
    #[serde(skip)]
    lsn: i64,
}

columns! {
    workspace_columns: Workspace as w { id, name, handle, created_at, lsn }
    insert "insert into workspaces" {}
}

impl<I> Answer<I> for Workspace {
    type Kept = WorkspaceId;

    fn kept(&self) -> Option<WorkspaceId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: WorkspaceId) -> Result<Self> {
        check_own_workspace(cx, id)?;
        load_workspace(cx, id)
    }
}

/// The name of a workspace was changed.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceUpdated {
    /// New name of the workspace.
    name: String,
}

impl Event for WorkspaceUpdated {
    const KIND: &'static str = "WorkspaceUpdated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("workspaces", "$workspace")?.copy("name").keep()
    }
}

/// The handle of a workspace was changed.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceHandleChanged {
    /// New handle of the workspace.
    handle: String,
}

impl Event for WorkspaceHandleChanged {
    const KIND: &'static str = "WorkspaceHandleChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("workspaces", "$workspace")?.copy("handle").keep()
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "workspaces",
            vec![
                read("list_workspaces", list_workspaces)
                    .title("List workspaces")
                    .when("List the workspaces that you may see. Use `whoami` for your own workspace.")
                    .detailed()
                    .get("/workspaces")
                    .needs(&[WorkspaceRead])
                    .example(|_| json!({"limit": 10})),
                read("get_workspace", get_workspace)
                    .quick()
                    .title("Read a workspace")
                    .when(
                        "Get the name and handle of the workspace. Use `get_workspace_context` to see your \
                         open work in it.",
                    )
                    .get("/workspaces/{workspace_id}")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
                idempotent("update_workspace", update_workspace)
                    .title("Rename a workspace")
                    .when("Rename the workspace. Use `set_workspace_handle` to change its handle.")
                    .patch("/workspaces/{workspace_id}")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "name": "Night shift"})),
                // If two workspaces request the same handle simultaneously, the lock on the head of the
                // instance's log serialises the requests.
                changing("set_workspace_handle", Effect::Idempotent)
                    .wants(|_| WriteNeeds::workspace(WorkspaceId::INSTANCE))
                    .run(set_workspace_handle)
                    .title("Set the handle of a workspace")
                    .when(
                        "Set the handle of the workspace, a human-readable alias of its id. Use \
                     `update_workspace` to change its name.",
                    )
                    .put("/workspaces/{workspace_id}/handle")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::HandleTaken])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "handle": "night-shift"})),
            ],
        )
        .events(vec![
            EventKind::of::<WorkspaceCreated>(),
            EventKind::of::<WorkspaceUpdated>(),
            EventKind::of::<WorkspaceHandleChanged>(),
        ])
        .records(vec![
            Records::table("workspaces", "id")
                .with_workspace_column("id")
                .ids("id")
                .texts("name handle")
                .times("created_at")
                .instance_positions("lsn")
                .derived("state charged_to")
                .proven("id", "name handle created_at"),
        ])
}

/// Id of the caller's own workspace or of the caller. A request may omit this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnId<I>(Option<I>);

impl<I: Field> Field for OwnId<I> {}

impl<I: Argument<I>> Argument<OwnId<I>> for I {
    fn value(self) -> serde_json::Value {
        Argument::<I>::value(self)
    }
}

impl<I> Default for OwnId<I> {
    fn default() -> Self {
        Self(None)
    }
}

/// Id of the caller's own workspace. A request may omit this id.
pub type OwnWorkspaceId = OwnId<WorkspaceId>;

impl OwnWorkspaceId {
    /// Returns the id of the caller's workspace.
    ///
    /// Fails with 404 `not-found` if the input contains the id of another workspace, or if the caller has no
    /// workspace.
    pub(crate) fn of(self, cx: &Read<'_>) -> Result<WorkspaceId> {
        let own = cx.caller().workspace_id;
        check_own_workspace(cx, self.0.unwrap_or(own))?;
        if self.0.is_none() && own == WorkspaceId::INSTANCE {
            return Err(Error::not_found("workspace"));
        }
        Ok(own)
    }
}

impl<I> From<I> for OwnId<I> {
    fn from(id: I) -> Self {
        Self(Some(id))
    }
}

/// Schema of an optional id, which is omitted from the inputs of tools.
impl<I: JsonSchema> JsonSchema for OwnId<I> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Own{}", I::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = I::json_schema(generator);
        schema.insert(OF_CALLER.to_owned(), true.into());
        schema
    }
    fn _schemars_private_is_option() -> bool {
        true
    }
}

/// Fails with 404 `not-found` unless `workspace_id` is the caller's workspace.
pub(crate) fn check_own_workspace(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<()> {
    if cx.caller().workspace_id == workspace_id { Ok(()) } else { Err(Error::not_found("workspace")) }
}

request! {
    /// Returns the workspaces that you may see, oldest first.
    ///
    /// With `operator:global`, you see all workspaces of the instance; otherwise only your own.
    struct ListWorkspaces {
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_workspaces() -> Page<Workspace>
}

const LIVE_WORKSPACES: &str = concat!(
    "select ",
    workspace_columns!(),
    " from workspaces w where w.lsn > $1 and w.state = 'live' order by w.lsn limit $2"
);

fn list_workspaces(cx: &Read<'_>, input: &ListWorkspaces) -> Result<Page<Workspace>> {
    if !cx.caller().capabilities.has(OperatorGlobal) {
        return Ok(Page::whole(vec![load_workspace(cx, cx.caller().workspace_id)?]));
    }
    let rows = cx.rows(LIVE_WORKSPACES, &[&Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |workspace: &Workspace| workspace.lsn))
}

request! {
    /// Returns a workspace with its name and handle.
    struct GetWorkspace {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
    }

    get_workspace() -> Workspace
}

fn get_workspace(cx: &Read<'_>, input: &GetWorkspace) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    load_workspace(cx, workspace_id)
}

const WORKSPACE_BY_ID: &str =
    concat!("select ", workspace_columns!(), " from workspaces w where w.id = $1 and w.state = 'live'");

/// Loads a live workspace. The caller must have checked the access to the workspace.
pub(crate) fn load_workspace(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<Workspace> {
    cx.one(WORKSPACE_BY_ID, &[&workspace_id])?.ok_or_else(|| Error::not_found("workspace"))
}

request! {
    /// Changes the name of a workspace, and returns the workspace.
    ///
    /// Absent fields keep their value.
    #[derive(Serialize)]
    struct UpdateWorkspace {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// New name of the workspace.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        name: Change<Text<1, NAME_MAX>>,
    }

    update_workspace() -> Workspace
}

const RENAME_WORKSPACE: &str = "update workspaces set name = $2 where id = $1";

fn update_workspace(cx: &mut Write<'_>, input: &UpdateWorkspace) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    let mut workspace = load_workspace(cx, workspace_id)?;
    let Some(name) = input.name.get().filter(|name| ***name != *workspace.name) else { return Ok(workspace) };
    cx.emit(Subject::WORKSPACE, &WorkspaceUpdated { name: name.to_string() })?;
    cx.execute(1, RENAME_WORKSPACE, &[&workspace_id, name])?;
    workspace.name = name.to_string();
    Ok(workspace)
}

request! {
    /// Sets the handle of a workspace, a human-readable alias of its id, and returns the workspace.
    ///
    /// The handle is unique in the instance. The old handle becomes free immediately.
    ///
    /// References always use the id.
    ///
    /// Fails with 409 `handle-taken` if another workspace has the handle.
    #[derive(Serialize)]
    struct SetWorkspaceHandle {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// New handle, such as `night-shift`. Upper-case letters are converted to lower case.
        handle: Handle<HANDLE_MAX>,
    }

    set_workspace_handle(handle: Handle<HANDLE_MAX>) -> Workspace
}

fn set_workspace_handle(cx: &mut Write<'_>, input: &SetWorkspaceHandle) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = load_workspace(cx, workspace_id)?;
    match cx.one::<(WorkspaceId,)>(WORKSPACE_BY_HANDLE, &[&input.handle])? {
        Some((id,)) if id == workspace.id => return Ok(workspace),
        Some(_) => {
            let detail = format!("another workspace has the handle {}", &*input.handle);
            return Err(Error::new(Code::HandleTaken, detail));
        }
        None => {}
    }
    let handle = input.handle.to_string();
    cx.emit(Subject::WORKSPACE, &WorkspaceHandleChanged { handle: handle.clone() })?;
    cx.execute(1, SET_WORKSPACE_HANDLE, &[&workspace.id, &input.handle])?;
    Ok(Workspace { handle: Some(handle), ..workspace })
}

const WORKSPACE_BY_HANDLE: &str = "select id from workspaces where handle = $1";

const SET_WORKSPACE_HANDLE: &str = "update workspaces set handle = $2 where id = $1";

/// SQL condition that a column contains the id of a live workspace. Periodic work is limited to live
/// workspaces.
///
/// A workspace that is being imported or erased is not live: members cannot see the workspace, and nothing
/// may be appended to its log.
macro_rules! is_live {
    ($workspace:literal) => {
        concat!("exists (select 1 from workspaces l where l.id = ", $workspace, " and l.state = 'live')")
    };
}
pub(crate) use is_live;

/// Returns live workspaces with ids after `after_id`, up to `limit`, in the order of their ids.
///
/// Used for periodic work in all workspaces.
pub(crate) fn next(cx: &Read<'_>, after_id: Option<WorkspaceId>, limit: i64) -> Result<Vec<WorkspaceId>> {
    let after = after_id.map(WorkspaceId::uuid).unwrap_or_default();
    let next: Vec<(WorkspaceId,)> = cx.query(NEXT_LIVE_WORKSPACES, &[&after, &limit])?;
    Ok(next.into_iter().map(|(workspace,)| workspace).collect())
}

const NEXT_LIVE_WORKSPACES: &str = concat!(
    "select w.id from workspaces w where w.id > $1 and ",
    is_live!("w.id"),
    " order by w.id limit $2"
);

const ANY_WORKSPACE: &str = "select id from workspaces limit 1";

/// Returns whether the instance has a workspace, live or not.
pub(crate) fn has_any_workspace(cx: &Read<'_>) -> Result<bool> {
    Ok(cx.one::<(WorkspaceId,)>(ANY_WORKSPACE, &[])?.is_some())
}

/// Query for the ids of all live workspaces.
pub(crate) const LIVE_IDS: &str = "select id from workspaces where state = 'live' order by id";

/// Query for the workspace `$1`, which selects a row only if the workspace is live.
pub(crate) const IS_LIVE: &str = "select id from workspaces where id = $1 and state = 'live'";

/// State of a workspace whose rows are still being imported. Such a workspace is hidden.
pub(crate) const IMPORTING: &str = "importing";

/// State of a visible workspace, which its members can use.
pub(crate) const LIVE: &str = "live";

/// State of a workspace whose rows are being removed.
const ERASING: &str = "erasing";

/// Returns whether the instance has no live workspace other than this one.
pub(crate) fn is_only_live_workspace(cx: &Read<'_>, workspace: WorkspaceId) -> Result<bool> {
    Ok(cx.one::<(WorkspaceId,)>(OTHER_LIVE_WORKSPACE, &[&workspace])?.is_none())
}

const OTHER_LIVE_WORKSPACE: &str = "select id from workspaces where id <> $1 and state = 'live' limit 1";

/// Hides a workspace that is about to be erased. The workspace's handle becomes free.
pub(crate) fn hide(cx: &mut Write<'_>, workspace: WorkspaceId) -> Result<()> {
    cx.execute(1, HIDE_WORKSPACE, &[&workspace, &ERASING])
}

const HIDE_WORKSPACE: &str =
    "update workspaces set state = $2, handle = null where id = $1 and state = 'live'";

/// Returns the first workspace with an id after `after_id` that is being erased, or `None`.
pub(crate) fn erasing(cx: &Read<'_>, after_id: WorkspaceId) -> Result<Option<WorkspaceId>> {
    Ok(cx
        .one::<(WorkspaceId,)>(NEXT_ERASING_WORKSPACE, &[&ERASING, &after_id])?
        .map(|(workspace,)| workspace))
}

const NEXT_ERASING_WORKSPACE: &str =
    "select id from workspaces where state = $1 and id > $2 order by id limit 1";

/// Returns the state of a workspace, or `None` if the workspace does not exist.
pub(crate) fn workspace_state(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<String>> {
    Ok(cx.one::<(String,)>(STATE_OF_WORKSPACE, &[&workspace])?.map(|(state,)| state))
}

const STATE_OF_WORKSPACE: &str = "select state from workspaces where id = $1";

/// Returns the name of a workspace in any state. Fails if the workspace does not exist.
pub(crate) fn workspace_name(cx: &Read<'_>, workspace: WorkspaceId) -> Result<String> {
    let name: Option<(String,)> = cx.one(NAME_OF_WORKSPACE, &[&workspace])?;
    name.map(|(name,)| name).ok_or_else(|| Error::not_found("workspace"))
}

const NAME_OF_WORKSPACE: &str = "select name from workspaces where id = $1";

/// Returns the handle if no workspace has it, otherwise `None`.
pub(crate) fn handle_if_free<'h>(cx: &Read<'_>, handle: Option<&'h str>) -> Result<Option<&'h str>> {
    let Some(handle) = handle else { return Ok(None) };
    let taken: Option<(WorkspaceId,)> = cx.one(WORKSPACE_BY_HANDLE, &[&handle])?;
    Ok(taken.is_none().then_some(handle))
}

/// Makes an imported workspace visible under a handle, which must be free.
///
/// `lsn` is the position of the event in the instance's log that refers to the workspace.
///
/// After this, the workspace shares the limits of the workspace `charged_to`.
pub(crate) fn show(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    (lsn, handle, charged_to): (i64, Option<&str>, Option<WorkspaceId>),
) -> Result<()> {
    cx.execute(1, SHOW_WORKSPACE, &[&workspace, &lsn, &handle, &charged_to])
}

const SHOW_WORKSPACE: &str = "
    update workspaces set state = 'live', lsn = $2, handle = $3, charged_to = $4
    where id = $1 and state = 'importing'";

/// Creates an empty workspace. The caller must have checked that the request is allowed.
///
/// If two requests create the first workspace simultaneously, the event in the instance's log ensures that
/// only one of them is committed.
pub(crate) fn create_empty_workspace(cx: &mut Write<'_>, name: &str) -> Result<Workspace> {
    let id: WorkspaceId = cx.new_id()?;
    let created = WorkspaceCreated { workspace_id: id, name: name.to_owned() };
    let lsn = cx.emit_in(WorkspaceId::INSTANCE, Subject::WORKSPACE, &created)?.lsn;
    cx.begin_log(id)?;
    cx.emit_in(id, Subject::WORKSPACE, &created)?;
    cx.audit_in(WorkspaceId::INSTANCE, "workspace.create", json!({"workspace_id": id, "name": name}))?;
    let created_at = cx.now();
    let workspace = Workspace { id, name: name.to_owned(), handle: None, created_at, lsn };
    workspace.with_new_row(|row| cx.insert(row))?;
    // The key is in use after the first workspace exists: a process with another key is rejected.
    let key = cx.sealer().current_id().to_vec();
    let sealed = cx.sealer().check_value(&key)?;
    cx.execute_any(keys::ADD_CHECK_VALUE, &[&key, &sealed, &created_at])?;
    Ok(workspace)
}
