//! Signs in members by an identity provider.

use crate::Result;
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::identity::oidc::{self, ProviderClaims};
use crate::identity::sessions::NewSession;
use crate::op::{Read, ServiceWork, Surface, Write};

impl Service {
    /// Returns whether the subject of the verified claims has signed in to a workspace before.
    pub async fn has_signed_in(&self, workspace: WorkspaceId, claims: &ProviderClaims) -> Result<bool> {
        let claims = claims.clone();
        let run = move |cx: &Read<'_>| oidc::has_signed_in(cx, workspace, &claims);
        self.dispatch().await_read(ServiceWork::on(workspace), run).await
    }

    /// Signs in the member of a workspace that the verified claims of an identity provider identify.
    ///
    /// The request with the claims must have been admitted, and its pending sign-in used up.
    pub async fn sign_in(&self, workspace: WorkspaceId, claims: ProviderClaims) -> Result<NewSession> {
        let run = move |cx: &mut Write<'_>| oidc::sign_in(cx, workspace, &claims);
        self.dispatch().await_change(ServiceWork::on(workspace), Surface::Session, run).await
    }
}
