//! Workspaces: the isolation between teams.
//!
//! A credential belongs to one workspace, and a path that names another is treated as if that workspace did
//! not exist. Workspaces are created in [`super::setup`].

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::Capability::{OperatorGlobal, TokenAdmin, WorkspaceRead};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{HANDLE_MAX, NAME_MAX};
use crate::log::event::{Event, EventKind, Subject, WorkspaceCreated};
use crate::log::keys;
use crate::log::replay::Replayed;
use crate::op::{Answer, Effect, Feature, Read, Records, Write, WriteNeeds, changing, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::schema::OF_CALLER;
use crate::store::columns;
use crate::text::{Change, Handle, Text};
use crate::time::Time;

/// A workspace: a team's channels, threads, members and log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Workspace {
    /// The workspace's id.
    pub id: WorkspaceId,
    /// Its name for people.
    pub name: String,
    /// An alias that can be changed; null while it has none. References always use the id.
    pub handle: Option<String>,
    /// When it was created.
    pub created_at: Time,
    /// The position of its creation in the instance's log, by which the list is ordered.
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
        own_workspace(cx, id)?;
        load_workspace(cx, id)
    }
}

/// A workspace was renamed.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceUpdated {
    /// The new name.
    name: String,
}

impl Event for WorkspaceUpdated {
    const KIND: &'static str = "WorkspaceUpdated";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        event.row_of("workspaces", "$workspace")?.copy("name").keep()
    }
}

/// The handle of a workspace was changed.
#[derive(Debug, Serialize, JsonSchema)]
struct WorkspaceHandleChanged {
    /// The new handle.
    handle: String,
}

impl Event for WorkspaceHandleChanged {
    const KIND: &'static str = "WorkspaceHandleChanged";

    fn replay(event: &Replayed<'_>) -> Result<()> {
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
                    .when("Use to see which workspaces there are; `whoami` has yours.")
                    .detailed()
                    .get("/workspaces")
                    .needs(&[WorkspaceRead])
                    .example(|_| json!({"limit": 10})),
                read("get_workspace", get_workspace)
                    .quick()
                    .title("Read a workspace")
                    .when(
                        "Use to get a workspace's name and handle; what is to be done there is in \
                         `get_workspace_context`.",
                    )
                    .get("/workspaces/{workspace_id}")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
                idempotent("update_workspace", update_workspace)
                    .title("Rename a workspace")
                    .when("Use to change the workspace's name; `set_workspace_handle` changes its handle.")
                    .patch("/workspaces/{workspace_id}")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "name": "Night shift"})),
                // Two workspaces that request the same handle at once serialise on the head of the instance.
                changing("set_workspace_handle", Effect::Idempotent)
                    .wants(|_| WriteNeeds::workspace(WorkspaceId::INSTANCE))
                    .run(set_workspace_handle)
                .title("Set the handle of a workspace")
                .when(
                    "Use to change the workspace's handle, an alias of its id; `update_workspace` changes \
                     its name.",
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
                .by_workspace_in("id")
                .ids("id")
                .texts("name handle")
                .times("created_at")
                .instance_positions("lsn")
                .derived("state charged_to")
                .proven("id", "name handle created_at"),
        ])
}

/// The id of the caller's own workspace, or of the caller, which an input may omit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnId<I>(Option<I>);

impl<I> Default for OwnId<I> {
    fn default() -> Self {
        Self(None)
    }
}

/// The caller's workspace.
pub type OwnWorkspaceId = OwnId<WorkspaceId>;

impl OwnWorkspaceId {
    /// Returns the caller's workspace.
    ///
    /// Fails if the input names another one, because for the caller others do not exist, and for a caller
    /// without a workspace.
    pub(crate) fn of(self, cx: &Read<'_>) -> Result<WorkspaceId> {
        let own = cx.caller().workspace_id;
        own_workspace(cx, self.0.unwrap_or(own))?;
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

/// The schema of an id that is not required, and that tools do not have.
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

/// Fails if a path names a workspace other than the caller's: for the caller, others do not exist.
pub(crate) fn own_workspace(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<()> {
    if cx.caller().workspace_id == workspace_id { Ok(()) } else { Err(Error::not_found("workspace")) }
}

/// Returns the workspaces that you may see, oldest first.
///
/// With a token that carries `operator:global`, these are all workspaces of the instance; otherwise only your
/// own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWorkspaces {
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

const ALL: &str = concat!(
    "select ",
    workspace_columns!(),
    " from workspaces w where w.lsn > $1 and w.state = 'live' order by w.lsn limit $2"
);

fn list_workspaces(cx: &Read<'_>, input: &ListWorkspaces) -> Result<Page<Workspace>> {
    if !cx.caller().capabilities.has(OperatorGlobal) {
        return Ok(Page::whole(vec![load_workspace(cx, cx.caller().workspace_id)?]));
    }
    let rows = cx.rows(ALL, &[&Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |workspace: &Workspace| workspace.lsn))
}

/// Returns a workspace: its name and handle.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkspace {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
}

fn get_workspace(cx: &Read<'_>, input: &GetWorkspace) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    load_workspace(cx, workspace_id)
}

const BY_ID: &str =
    concat!("select ", workspace_columns!(), " from workspaces w where w.id = $1 and w.state = 'live'");

/// Loads a workspace.
pub(crate) fn load_workspace(cx: &Read<'_>, workspace_id: WorkspaceId) -> Result<Workspace> {
    cx.one(BY_ID, &[&workspace_id])?.ok_or_else(|| Error::not_found("workspace"))
}

/// Changes a workspace's name and returns the workspace.
///
/// Absent fields keep their value.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateWorkspace {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    /// The new name.
    #[serde(default, skip_serializing_if = "Change::is_keep")]
    name: Change<Text<1, NAME_MAX>>,
}

const RENAME: &str = "update workspaces set name = $2 where id = $1";

fn update_workspace(cx: &mut Write<'_>, input: &UpdateWorkspace) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    let mut workspace = load_workspace(cx, workspace_id)?;
    let Some(name) = input.name.get().filter(|name| ***name != *workspace.name) else { return Ok(workspace) };
    cx.emit(Subject::WORKSPACE, &WorkspaceUpdated { name: name.to_string() })?;
    cx.execute(1, RENAME, &[&workspace_id, name])?;
    workspace.name = name.to_string();
    Ok(workspace)
}

/// Sets the handle of a workspace, an alias of its id for people, and returns the workspace.
///
/// No two workspaces of the instance have the same handle. The old one is free at once; references always use
/// the id.
///
/// Fails with 409 `handle-taken` if another workspace has the handle.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetWorkspaceHandle {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    /// The new handle, such as `night-shift`. Upper-case letters are converted to lower case.
    handle: Handle<HANDLE_MAX>,
}

fn set_workspace_handle(cx: &mut Write<'_>, input: &SetWorkspaceHandle) -> Result<Workspace> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = load_workspace(cx, workspace_id)?;
    match cx.one::<(WorkspaceId,)>(BY_HANDLE, &[&input.handle])? {
        Some((id,)) if id == workspace.id => return Ok(workspace),
        Some(_) => {
            let detail = format!("another workspace has the handle {}", &*input.handle);
            return Err(Error::new(Code::HandleTaken, detail));
        }
        None => {}
    }
    let handle = input.handle.to_string();
    cx.emit(Subject::WORKSPACE, &WorkspaceHandleChanged { handle: handle.clone() })?;
    cx.execute(1, SET_HANDLE, &[&workspace.id, &input.handle])?;
    Ok(Workspace { handle: Some(handle), ..workspace })
}

const BY_HANDLE: &str = "select id from workspaces where handle = $1";

const SET_HANDLE: &str = "update workspaces set handle = $2 where id = $1";

/// The condition that a column names a workspace for periodic work.
///
/// A workspace that is being imported or erased is excluded: no member knows of it, and its log cannot be
/// continued.
macro_rules! is_live {
    ($workspace:literal) => {
        concat!("exists (select 1 from workspaces l where l.id = ", $workspace, " and l.state = 'live')")
    };
}
pub(crate) use is_live;

/// Returns the workspaces after `last` in the order of their ids, for periodic work in all of them.
pub(crate) fn next(cx: &Read<'_>, last: Option<WorkspaceId>, most: i64) -> Result<Vec<WorkspaceId>> {
    let after = last.map(WorkspaceId::uuid).unwrap_or_default();
    let next: Vec<(WorkspaceId,)> = cx.query(NEXT, &[&after, &most])?;
    Ok(next.into_iter().map(|(workspace,)| workspace).collect())
}

const NEXT: &str = concat!(
    "select w.id from workspaces w where w.id > $1 and ",
    is_live!("w.id"),
    " order by w.id limit $2"
);

const ANY: &str = "select id from workspaces limit 1";

/// Returns whether the instance has a workspace.
pub(crate) fn any_exists(cx: &Read<'_>) -> Result<bool> {
    Ok(cx.one::<(WorkspaceId,)>(ANY, &[])?.is_some())
}

/// Selects the ids of all live workspaces.
pub(crate) const LIVE_IDS: &str = "select id from workspaces where state = 'live' order by id";

/// Selects the workspace `$1` if it is live.
pub(crate) const IS_LIVE: &str = "select id from workspaces where id = $1 and state = 'live'";

/// The state of a workspace whose rows are still being imported, and which is hidden.
pub(crate) const IMPORTING: &str = "importing";

/// The state of a visible workspace.
pub(crate) const LIVE: &str = "live";

/// The state of a workspace whose rows are being removed.
const ERASING: &str = "erasing";

/// Returns whether the instance has no other workspace.
pub(crate) fn is_the_only_one(cx: &Read<'_>, workspace: WorkspaceId) -> Result<bool> {
    Ok(cx.one::<(WorkspaceId,)>(ANOTHER, &[&workspace])?.is_none())
}

const ANOTHER: &str = "select id from workspaces where id <> $1 and state = 'live' limit 1";

/// Hides a workspace that is being erased. Its handle is free.
pub(crate) fn hide(cx: &mut Write<'_>, workspace: WorkspaceId) -> Result<()> {
    cx.execute(1, HIDE, &[&workspace, &ERASING])
}

const HIDE: &str = "update workspaces set state = $2, handle = null where id = $1 and state = 'live'";

/// Returns the next workspace after `after` that is being erased, if there is one.
pub(crate) fn erasing(cx: &Read<'_>, after: WorkspaceId) -> Result<Option<WorkspaceId>> {
    Ok(cx.one::<(WorkspaceId,)>(IS_ERASING, &[&ERASING, &after])?.map(|(workspace,)| workspace))
}

const IS_ERASING: &str = "select id from workspaces where state = $1 and id > $2 order by id limit 1";

/// Returns the state of a workspace, if there is one.
pub(crate) fn state_of(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<String>> {
    Ok(cx.one::<(String,)>(STATE, &[&workspace])?.map(|(state,)| state))
}

const STATE: &str = "select state from workspaces where id = $1";

/// Returns the name of a workspace, whatever its state.
pub(crate) fn name_of(cx: &Read<'_>, workspace: WorkspaceId) -> Result<String> {
    let name: Option<(String,)> = cx.one(NAME, &[&workspace])?;
    name.map(|(name,)| name).ok_or_else(|| Error::not_found("workspace"))
}

const NAME: &str = "select name from workspaces where id = $1";

/// Returns a handle, if no workspace has it.
pub(crate) fn if_free<'h>(cx: &Read<'_>, handle: Option<&'h str>) -> Result<Option<&'h str>> {
    let Some(handle) = handle else { return Ok(None) };
    let taken: Option<(WorkspaceId,)> = cx.one(BY_HANDLE, &[&handle])?;
    Ok(taken.is_none().then_some(handle))
}

/// Makes an imported workspace visible under its handle, which is free; the instance's log names it at `lsn`.
///
/// It shares the limits of `charged_to` from then on.
pub(crate) fn show(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    (lsn, handle, charged_to): (i64, Option<&str>, Option<WorkspaceId>),
) -> Result<()> {
    cx.execute(1, SHOW, &[&workspace, &lsn, &handle, &charged_to])
}

const SHOW: &str = "
    update workspaces set state = 'live', lsn = $2, handle = $3, charged_to = $4
    where id = $1 and state = 'importing'";

/// Creates an empty workspace. The caller must have checked that it is allowed.
///
/// The event in the instance's log also ensures that of two first workspaces created at once only one is
/// committed.
pub(crate) fn create(cx: &mut Write<'_>, name: &str) -> Result<Workspace> {
    let id: WorkspaceId = cx.new_id()?;
    let created = WorkspaceCreated { workspace_id: id, name: name.to_owned() };
    let lsn = cx.emit_in(WorkspaceId::INSTANCE, Subject::WORKSPACE, &created)?.lsn;
    cx.begin_log(id)?;
    cx.emit_in(id, Subject::WORKSPACE, &created)?;
    cx.audit_in(WorkspaceId::INSTANCE, "workspace.create", json!({"workspace_id": id, "name": name}))?;
    let created_at = cx.now();
    let workspace = Workspace { id, name: name.to_owned(), handle: None, created_at, lsn };
    workspace.with_new_row(|row| cx.insert(row))?;
    // From the first workspace on, the key is in use: a process with another key is rejected.
    let key = cx.sealer().current_id().to_vec();
    let sealed = cx.sealer().check_value(&key)?;
    cx.execute_any(keys::RECORD, &[&key, &sealed, &created_at])?;
    Ok(workspace)
}
