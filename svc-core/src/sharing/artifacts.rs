//! Artifacts on a share ticket, identified by the SHA-256 of their bytes.
//!
//! The service does not store artifacts yet: [`find_artifact`] finds none, so a ticket cannot list or show
//! any.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::hash::ArtifactSha;
use crate::op::Read;

/// An artifact, as a share ticket shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedArtifact {
    /// The SHA-256 of the artifact's bytes.
    pub sha: ArtifactSha,
}

/// Finds an artifact that the caller's workspace stores.
///
/// It is called when a ticket is issued, and when its bearer reads an artifact.
pub(super) fn find_artifact(_: &Read<'_>, _: ArtifactSha) -> Result<SharedArtifact> {
    Err(Error::not_found("artifact"))
}
