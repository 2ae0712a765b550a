//! Artifacts on a share ticket, by the SHA-256 of their bytes.
//!
//! The service stores no artifacts so far: [`held`] finds none, so a ticket cannot list or show any.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::hash::ArtifactSha;
use crate::op::Read;

/// An artifact, as a share ticket shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedArtifact {
    /// The SHA-256 of its bytes.
    pub sha: ArtifactSha,
}

/// Finds an artifact that the caller's workspace keeps.
///
/// Called both when a ticket is issued and when its bearer reads an artifact.
pub(super) fn held(_: &Read<'_>, _: ArtifactSha) -> Result<SharedArtifact> {
    Err(Error::not_found("artifact"))
}
