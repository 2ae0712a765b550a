//! Sign-in by an identity provider.

use crate::Result;
use crate::host::service::Service;
use crate::id::WorkspaceId;
use crate::identity::oidc::{self, ProviderClaims};
use crate::identity::sessions::NewSession;
use crate::op::{OwnWork, Surface, Write};

impl Service {
    /// Signs in the member of a workspace that the verified claims of an identity provider name.
    ///
    /// The request that brings them was admitted, and its login was taken.
    pub async fn sign_in(&self, workspace: WorkspaceId, claims: ProviderClaims) -> Result<NewSession> {
        let run = move |cx: &mut Write<'_>| oidc::sign_in(cx, workspace, &claims);
        self.dispatch().await_change(OwnWork::on(workspace), Surface::Session, run).await
    }
}
