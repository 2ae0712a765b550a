//! Installing an app in a workspace. The installation provides a member and capabilities until it is revoked.

use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{App, AppInstalled, AppUninstalled, load_app};
use crate::capability::Capabilities;
use crate::capability::Capability::ApprovalGrant;
use crate::error::{Code, Error, Result};
use crate::id::{AppId, InstallationId, MemberId, TokenId, WorkspaceId};
use crate::identity::authority;
use crate::identity::enrol::{NewMember, create_member};
use crate::identity::members::{Member, MemberKind, member_with_handle};
use crate::identity::tokens::{Quotas, check_active, end_installation_tokens, new_secret, require_non_empty};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::Subject;
use crate::op::{Answer, Read, Write, secret_hash, secret_shown_once_error};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::text::APP_HANDLES;
use crate::time::Time;

/// An installation of an app in a workspace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Installation {
    /// Id of the installation, which the app also uses as its `client_id`.
    pub id: InstallationId,
    /// Id of the workspace that the app is installed in.
    pub workspace_id: WorkspaceId,
    /// Id of the installed app.
    pub app_id: AppId,
    /// Id of the agent member that the app acts as.
    pub bot_member_id: MemberId,
    /// Maximum capabilities of the installation's tokens.
    pub granted_capabilities: Capabilities,
    /// The member who installed the app; null for the service itself.
    pub installed_by: Option<MemberId>,
    /// Time at which the app was installed.
    pub installed_at: Time,
    /// Time at which the installation was revoked; null while it is active.
    pub revoked_at: Option<Time>,
    /// Usage quotas that all tokens of the installation share; null if only the service's limits apply.
    pub quotas: Option<Quotas>,
    #[serde(skip)]
    pub client_secret_hash: [u8; 32],
    #[serde(skip)]
    lsn: i64,
}

columns! {
    installation_columns: Installation as i {
        id,
        workspace_id,
        app_id,
        bot_member_id,
        granted_capabilities = capabilities,
        installed_by,
        installed_at,
        revoked_at,
        quotas = quota,
        client_secret_hash,
        lsn,
    }
    insert "insert into app_installations" {}
}

request! {
    /// Installs an app in your workspace and returns the installation with the app's client credentials.
    ///
    /// The app acts as the agent member `app:<slug>`. The server creates this member unless an earlier
    /// installation of the app created it. The granted capabilities cannot be changed later. The app requests
    /// tokens at `POST /oauth/app/token` with its `client_id` and `client_secret`; the secret is shown only
    /// once. All tokens of the app share quotas equal to yours. `approval:grant` cannot be granted, because
    /// an app cannot approve anything.
    ///
    /// Fails with 403 `forbidden` if you grant a capability that you do not have; 409 `wrong-state` if the
    /// app is already installed, or if the app's member is deactivated.
    #[derive(Serialize)]
    pub(super) struct InstallApp {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The app to install.
        app_id: AppId,
        /// Maximum capabilities of the app's tokens.
        #[schemars(length(min = 1))]
        granted_capabilities: Capabilities,
    }

    install_app(app_id: AppId, granted_capabilities: Capabilities) -> NewInstallation
}

/// A new installation of an app, with the client credentials for the app.
#[derive(Serialize, JsonSchema)]
#[non_exhaustive]
pub struct NewInstallation {
    /// Id of the installation.
    pub id: InstallationId,
    /// Id of the workspace that the app is installed in.
    pub workspace_id: WorkspaceId,
    /// Id of the installed app.
    pub app_id: AppId,
    /// Id of the agent member that the app acts as.
    pub bot_member_id: MemberId,
    /// Whether an earlier installation of the app created the agent member.
    pub bot_member_reused: bool,
    /// Maximum capabilities of the installation's tokens.
    pub granted_capabilities: Capabilities,
    /// Time at which the app was installed.
    pub installed_at: Time,
    /// The `client_id` that the app sends to request tokens: the id of the installation.
    pub client_id: InstallationId,
    /// The `client_secret` that the app sends to request tokens. The secret is shown only once and never
    /// stored.
    pub client_secret: String,
}

crate::request::debug_without_secret! { NewInstallation }

const ACTIVE_INSTALLATION: &str = "select id from app_installations where app_id = $1 and revoked_at is null";

pub(super) fn install_app(cx: &mut Write<'_>, input: &InstallApp) -> Result<NewInstallation> {
    input.workspace_id.of(cx)?;
    let app = load_app(cx, input.app_id)?;
    let granted = grantable_capabilities(cx.caller().capabilities, input.granted_capabilities)?;
    if cx.one::<(InstallationId,)>(ACTIVE_INSTALLATION, &[&app.id])?.is_some() {
        return Err(Error::wrong_state("the app is installed; revoke its installation first"));
    }
    let (bot, reused) = find_or_create_bot(cx, &app)?;
    let (id, secret): (InstallationId, _) = (cx.new_id()?, new_secret(cx)?);
    let quotas = Quotas::of_caller(cx.caller())?;
    let event = AppInstalled {
        installation_id: id,
        app_id: app.id,
        bot_member_id: bot.id,
        granted_capabilities: granted,
        bot_member_reused: reused,
        quotas,
    };
    let lsn = cx.emit(Subject::WORKSPACE.about(bot.id), &event)?.lsn;
    let installation = Installation {
        id,
        workspace_id: app.workspace_id,
        app_id: app.id,
        bot_member_id: bot.id,
        granted_capabilities: granted,
        installed_by: cx.caller().member,
        installed_at: cx.now(),
        revoked_at: None,
        quotas,
        client_secret_hash: secret_hash(&secret),
        lsn,
    };
    installation.with_new_row(|row| cx.insert(row))?;
    cx.audit("app_installation.install", json!(event))?;
    Ok(NewInstallation {
        id,
        workspace_id: installation.workspace_id,
        app_id: app.id,
        bot_member_id: bot.id,
        bot_member_reused: reused,
        granted_capabilities: granted,
        installed_at: installation.installed_at,
        client_id: id,
        client_secret: secret.expose_secret().to_owned(),
    })
}

impl Answer<InstallApp> for NewInstallation {
    type Kept = InstallationId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<InstallationId> {
        Some(self.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &InstallApp, id: InstallationId) -> Result<Self> {
        Err(secret_shown_once_error(id))
    }
}

/// Returns the capabilities to grant to an app. Fails if apps cannot have one of them, or if `held` lacks
/// one.
///
/// `held` contains the capabilities of the administrator who installs the app.
fn grantable_capabilities(held: Capabilities, requested: Capabilities) -> Result<Capabilities> {
    let requested = require_non_empty("granted_capabilities", requested)?;
    if requested.has(ApprovalGrant) {
        return Err(Error::in_field("granted_capabilities", "an app cannot hold approval:grant"));
    }
    authority::check_has_capabilities(held, requested)?;
    Ok(requested)
}

/// Returns the agent member of an app, and whether an earlier installation created that member.
fn find_or_create_bot(cx: &mut Write<'_>, app: &App) -> Result<(Member, bool)> {
    let handle = format!("{APP_HANDLES}{}", app.slug);
    if let Some(bot) = member_with_handle(cx, app.workspace_id, &handle)? {
        check_active(&bot)?;
        return Ok((bot, true));
    }
    let new = NewMember {
        workspace_id: app.workspace_id,
        handle: &handle,
        kind: MemberKind::Agent,
        display_name: Some(&app.name),
        surface: None,
    };
    Ok((create_member(cx, &new)?, false))
}

request! {
    /// Returns the app installations of a workspace, in the order in which they were created.
    ///
    /// The result includes revoked installations.
    ///
    /// Client secrets are never returned.
    pub(super) struct ListAppInstallations {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_app_installations() -> Page<Installation>
}

const INSTALLATIONS_OF_WORKSPACE: &str = concat!(
    "select ",
    installation_columns!(),
    " from app_installations i where i.workspace_id = $1 and i.lsn > $2 order by i.lsn limit $3"
);

pub(super) fn list_app_installations(
    cx: &Read<'_>,
    input: &ListAppInstallations,
) -> Result<Page<Installation>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let rows = cx.rows(INSTALLATIONS_OF_WORKSPACE, &[&workspace_id, &after, &limit])?;
    Ok(Page::of(rows, input.limit, |installation: &Installation| installation.lsn))
}

const INSTALLATION_BY_ID: &str =
    concat!("select ", installation_columns!(), " from app_installations i where i.id = $1");

/// Returns the installation with this id from any workspace, or `None` if no installation has the id.
pub(super) fn find_installation(cx: &Read<'_>, id: InstallationId) -> Result<Option<Installation>> {
    cx.one(INSTALLATION_BY_ID, &[&id])
}

/// Loads an installation by its id. Fails with *not found* unless it is in the caller's workspace.
pub(super) fn load_installation(cx: &Read<'_>, id: InstallationId) -> Result<Installation> {
    let own = find_installation(cx, id)?.filter(|found| found.workspace_id == cx.caller().workspace_id);
    own.ok_or_else(|| Error::not_found("app installation"))
}

request! {
    /// Revokes an app installation and all of its tokens, and returns the ids of the revoked tokens.
    ///
    /// The installation's tokens, all tokens derived from them and the client credentials stop working
    /// immediately. The app's member remains, and the server reuses it if you reinstall the app.
    ///
    /// Revoking an installation again changes nothing.
    #[derive(Serialize)]
    pub(super) struct RevokeAppInstallation {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The installation to revoke.
        installation_id: InstallationId,
    }

    revoke_app_installation(installation_id: InstallationId) -> InstallationRevocation
}

/// Result of revoking an installation: the installation and the tokens that ended with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct InstallationRevocation {
    /// Id of the revoked installation.
    pub id: InstallationId,
    /// Time at which the installation was revoked.
    pub revoked_at: Time,
    /// Ids of the tokens that this request ended, including derived tokens. Empty if the installation was
    /// already revoked.
    pub token_ids: Vec<TokenId>,
}

const REVOKE_INSTALLATION: &str = "update app_installations set revoked_at = $2 where id = $1";

pub(super) fn revoke_app_installation(
    cx: &mut Write<'_>,
    input: &RevokeAppInstallation,
) -> Result<InstallationRevocation> {
    input.workspace_id.of(cx)?;
    let installation = load_installation(cx, input.installation_id)?;
    let id = installation.id;
    if let Some(revoked_at) = installation.revoked_at {
        return Ok(InstallationRevocation { id, revoked_at, token_ids: Vec::new() });
    }
    let event = AppUninstalled {
        installation_id: id,
        app_id: installation.app_id,
        bot_member_id: installation.bot_member_id,
        token_ids: end_installation_tokens(cx, id)?,
    };
    cx.emit(Subject::WORKSPACE.about(installation.bot_member_id), &event)?;
    let revoked_at = cx.now();
    cx.execute(1, REVOKE_INSTALLATION, &[&id, &revoked_at])?;
    Ok(InstallationRevocation { id, revoked_at, token_ids: event.token_ids })
}

impl Answer<RevokeAppInstallation> for InstallationRevocation {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &RevokeAppInstallation, kept: Self) -> Result<Self> {
        load_installation(cx, kept.id)?;
        Ok(kept)
    }
}

/// Returns whether a member acts for an app with an active installation, and the app can therefore request
/// tokens.
pub(crate) fn acts_for_installed_app(cx: &Read<'_>, member: MemberId) -> Result<bool> {
    let found: Option<(InstallationId,)> =
        cx.one(ACTIVE_INSTALLATION_OF_MEMBER, &[&cx.caller().workspace_id, &member])?;
    Ok(found.is_some())
}

const ACTIVE_INSTALLATION_OF_MEMBER: &str = "
    select id from app_installations
    where workspace_id = $1 and bot_member_id = $2 and revoked_at is null limit 1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
    use crate::error::Code;

    #[test]
    fn an_app_is_granted_what_its_administrator_holds_and_never_approving() {
        let set = |all: &[_]| -> Capabilities { all.iter().copied().collect() };
        let held = set(&[TokenAdmin, ApprovalGrant]);
        for (wanted, outcome) in [
            (set(&[TokenAdmin]), Ok(())),
            (set(&[]), Err(Code::Malformed)),
            (held, Err(Code::Malformed)),
            (set(&[WorkspaceRead]), Err(Code::Forbidden)),
        ] {
            let found = grantable_capabilities(held, wanted).map(drop).map_err(|error| error.code());
            assert_eq!(found, outcome, "{wanted:?}");
        }
    }
}
