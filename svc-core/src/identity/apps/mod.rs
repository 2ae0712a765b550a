//! Apps: programs that an administrator installs in a workspace, where each app acts as its own agent member.
//!
//! An app that is not installed is only a name. Installing the app creates the member `app:<slug>`, fixes the
//! capabilities for the life of the installation, and issues a client id and a client secret, with which the
//! app requests its own tokens. Every token of the member depends on the installation: no token has
//! capabilities that the installation was not granted, and revoking the installation ends all of its tokens.
//! This file defines apps and their events.

pub(crate) mod installations;
pub(crate) mod tokens;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capabilities;
use crate::capability::Capability::{MessagePost, TokenAdmin, WorkspaceRead};
use crate::error::{Code, Error, Result};
use crate::id::{AppId, InstallationId, MemberId, TokenId, WorkspaceId};
use crate::identity::tokens::{Quotas, capability_bits, mark_listed_revoked, quota_of};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{APP_SLUG_MAX, NAME_MAX};
use crate::log::event::{CachedEntryKind, Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, Effect, Feature, Frame, Read, Records, Sample, Write, changing, destructive, read, write,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::text::{Handle, Text};
use crate::time::Time;
pub(crate) use installations::acts_for_installed_app;
use installations::{install_app, list_app_installations, revoke_app_installation};
use tokens::{client_workspace, mint_app_token, request_app_token};

/// An app that was created in a workspace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct App {
    /// Id of the app.
    pub id: AppId,
    /// Id of the workspace that the app was created in.
    pub workspace_id: WorkspaceId,
    /// Unique name of the app in the workspace. The app's agent member has the handle `app:<slug>`.
    pub slug: String,
    /// Name of the app, to show to people.
    pub name: String,
    /// The member who created the app; null for the service itself.
    pub created_by: Option<MemberId>,
    /// Time at which the app was created.
    pub created_at: Time,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    app_columns: App as a { id, workspace_id, slug, name, created_by, created_at, lsn }
    insert "insert into apps" {}
}

/// An app was created in a workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct AppCreated {
    /// Id of the new app.
    app_id: AppId,
    /// Unique name of the app in the workspace.
    slug: String,
    /// Name of the app, to show to people.
    name: String,
}

impl Event for AppCreated {
    const KIND: &'static str = "AppCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let app = event.row_of("apps", "app_id")?.made().copy("slug name");
        let app = app.set("created_by", event.subject()).set("created_at", event.at());
        app.set("lsn", event.lsn()).keep()
    }
}

/// An app was installed in a workspace.
#[derive(Debug, Serialize, JsonSchema)]
struct AppInstalled {
    /// Id of the new installation.
    installation_id: InstallationId,
    /// Id of the installed app.
    app_id: AppId,
    /// Id of the agent member that the app acts as.
    bot_member_id: MemberId,
    /// Maximum capabilities of the installation's tokens.
    granted_capabilities: Capabilities,
    /// Whether an earlier installation of the app created the agent member.
    bot_member_reused: bool,
    /// Usage quotas that all tokens of the installation share; null if only the service's limits apply.
    quotas: Option<Quotas>,
}

impl Event for AppInstalled {
    const KIND: &'static str = "AppInstalled";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("app_installations", "installation_id")?.made().copy("app_id bot_member_id");
        let row = row.set_known("capabilities", capability_bits(event, "granted_capabilities"));
        let row = row.set_known("quota", event.field("quotas").map(quota_of));
        let row = row.set("installed_by", event.subject()).set("installed_at", event.at());
        row.clear("revoked_at").set("lsn", event.lsn()).keep()
    }
}

/// An installation of an app was revoked, together with its tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct AppUninstalled {
    /// Id of the revoked installation.
    installation_id: InstallationId,
    /// Id of the app that was installed.
    app_id: AppId,
    /// Id of the agent member that the app acted as.
    bot_member_id: MemberId,
    /// Ids of the tokens that ended with the installation, including derived tokens.
    token_ids: Vec<TokenId>,
}

impl Event for AppUninstalled {
    const KIND: &'static str = "AppUninstalled";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let installation = event.row_of("app_installations", "installation_id")?;
        installation.set("revoked_at", event.at()).keep()?;
        mark_listed_revoked(event)
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "apps",
            vec![
                write("create_app", create_app)
                    .title("Create an app")
                    .when("Create an app in the workspace. The app can do nothing until it is installed.")
                    .post("/workspaces/{workspace_id}/apps")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[Code::NameTaken])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "slug": "release-notes",
                               "name": "Release notes"})
                    }),
                read("list_apps", list_apps)
                    .title("List the apps of a workspace")
                    .when(
                        "List the apps of the workspace. Use `list_app_installations` to see which are \
                         installed.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/apps")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                write("install_app", install_app)
                    .title("Install an app")
                    .post("/workspaces/{workspace_id}/apps/{app_id}/install")
                    .needs(&[TokenAdmin])
                    .rest_only()
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "app_id": w.id("app"),
                               "granted_capabilities": [WorkspaceRead, MessagePost]})
                    }),
                read("list_app_installations", list_app_installations)
                    .title("List the app installations of a workspace")
                    .when(
                        "List the app installations of the workspace. Use `list_apps` for all apps, \
                         installed or not.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/app-installations")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                write("mint_app_token", mint_app_token)
                    .title("Mint a token for an installed app")
                    .when("Mint a token for an installed app. Use `mint_token` for a member's token.")
                    .post("/workspaces/{workspace_id}/app-installations/{installation_id}/tokens")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "installation_id": w.id("installation"),
                               "label": "first token", "capabilities": [WorkspaceRead]})
                    }),
                destructive("revoke_app_installation", revoke_app_installation)
                    .title("Revoke an app installation")
                    .when("Revoke an app installation and all tokens of the app.")
                    .delete("/workspaces/{workspace_id}/app-installations/{installation_id}")
                    .needs(&[TokenAdmin])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"),
                               "installation_id": w.id("revoked_installation")})
                    }),
                changing("request_app_token", Effect::Write)
                    .preflight(client_workspace)
                    .run(request_app_token)
                    .title("Get a token as an installed app")
                    .post("/oauth/app/token")
                    .framed(Frame::AppToken)
                    .open_to_all()
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"grant_type": "client_credentials", "client_id": w.id("installation"),
                               "client_secret": "svc_secret", "scope": WorkspaceRead})
                    }),
            ],
        )
        .events(vec![
            EventKind::of::<AppCreated>(),
            EventKind::of::<AppInstalled>(),
            EventKind::of::<AppUninstalled>().invalidates(CachedEntryKind::Access),
        ])
        .sample(app_sample(
            "app",
            |w| json!({"workspace_id": w.id("workspace"), "slug": "triage", "name": "Triage"}),
        ))
        .sample(app_sample(
            "installed_app",
            |w| json!({"workspace_id": w.id("workspace"), "slug": "reports", "name": "Reports"}),
        ))
        .sample(Sample::new("installation", "install_app", |w| {
            json!({"workspace_id": w.id("workspace"), "app_id": w.id("installed_app"),
                   "granted_capabilities": [WorkspaceRead, MessagePost]})
        }))
        .sample(app_sample(
            "retired_app",
            |w| json!({"workspace_id": w.id("workspace"), "slug": "archive", "name": "Archive"}),
        ))
        .sample(Sample::new("revoked_installation", "install_app", |w| {
            json!({"workspace_id": w.id("workspace"), "app_id": w.id("retired_app"),
                   "granted_capabilities": [WorkspaceRead]})
        }))
        .records(vec![
            Records::table("apps", "lsn id")
                .after("members")
                .ids("id workspace_id created_by")
                .texts("slug name")
                .times("created_at")
                .ints("lsn")
                .proven("id", "slug name created_by created_at lsn"),
            Records::table("app_installations", "lsn id")
                .erased_first()
                .after("apps")
                .ids("id workspace_id app_id bot_member_id installed_by")
                .ints("capabilities quota lsn")
                .times("installed_at revoked_at")
                .secrets("client_secret_hash")
                .proven(
                    "id",
                    "app_id bot_member_id capabilities quota installed_by installed_at revoked_at lsn",
                ),
        ])
}

/// Returns a sample that creates an app.
fn app_sample(name: &'static str, input: fn(&crate::op::Fixture) -> serde_json::Value) -> Sample {
    Sample::new(name, "create_app", input)
}

request! {
    /// Creates an app and returns the app. An app can do nothing until it is installed.
    ///
    /// Fails with 409 `name-taken` if another app of the workspace has the same slug.
    #[derive(Serialize)]
    struct CreateApp {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Unique name in the workspace, such as `triage`. Upper-case letters are converted to lower case.
        slug: Handle<APP_SLUG_MAX>,
        /// Name of the app, to show to people.
        name: Text<1, NAME_MAX>,
    }

    create_app(slug: Handle<APP_SLUG_MAX>, name: Text<1, NAME_MAX>) -> App
}

const APP_WITH_SLUG: &str = "select id from apps where workspace_id = $1 and slug = $2";

fn create_app(cx: &mut Write<'_>, input: &CreateApp) -> Result<App> {
    let workspace_id = input.workspace_id.of(cx)?;
    if cx.one::<(AppId,)>(APP_WITH_SLUG, &[&workspace_id, &input.slug])?.is_some() {
        let detail = format!("an app with the slug {} exists in this workspace", &*input.slug);
        return Err(Error::new(Code::NameTaken, detail));
    }
    let id: AppId = cx.new_id()?;
    let slug = input.slug.to_string();
    let name = input.name.to_string();
    let lsn = cx.emit(Subject::WORKSPACE, &AppCreated { app_id: id, slug, name })?.lsn;
    let app = App {
        id,
        workspace_id,
        slug: input.slug.to_string(),
        name: input.name.to_string(),
        created_by: cx.caller().member,
        created_at: cx.now(),
        lsn,
    };
    app.with_new_row(|row| cx.insert(row))?;
    Ok(app)
}

impl Answer<CreateApp> for App {
    type Kept = AppId;

    fn kept(&self) -> Option<AppId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &CreateApp, id: AppId) -> Result<Self> {
        load_app(cx, id)
    }
}

request! {
    /// Returns the apps of a workspace, in the order in which they were created.
    struct ListApps {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_apps() -> Page<App>
}

const APPS_OF_WORKSPACE: &str = concat!(
    "select ",
    app_columns!(),
    " from apps a where a.workspace_id = $1 and a.lsn > $2 order by a.lsn limit $3"
);

fn list_apps(cx: &Read<'_>, input: &ListApps) -> Result<Page<App>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let rows = cx.rows(APPS_OF_WORKSPACE, &[&workspace_id, &after, &limit])?;
    Ok(Page::of(rows, input.limit, |app: &App| app.lsn))
}

const APP_BY_ID: &str =
    concat!("select ", app_columns!(), " from apps a where a.id = $1 and a.workspace_id = $2");

/// Loads an app by its id. Fails with *not found* unless the app is in the caller's workspace.
fn load_app(cx: &Read<'_>, app_id: AppId) -> Result<App> {
    let found = cx.one(APP_BY_ID, &[&app_id, &cx.caller().workspace_id])?;
    found.ok_or_else(|| Error::not_found("app"))
}
