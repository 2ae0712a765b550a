//! Artifacts of a share ticket, identified by the SHA-256 of their bytes.
//!
//! The service does not store artifacts yet: [`find_artifact`] finds none, so a ticket cannot list or show
//! any.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::hash::ArtifactSha;
use crate::op::Read;

/// An artifact, as the bearer of a share ticket reads it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedArtifact {
    /// SHA-256 of the artifact's bytes, as 64 hex digits in lower case.
    pub sha: ArtifactSha,
}

/// Finds an artifact in the caller's workspace. Fails with *not found*, because the service does not store
/// artifacts yet.
///
/// Operations call this function when a ticket is issued, and when the bearer of a ticket reads an artifact.
pub(super) fn find_artifact(_: &Read<'_>, _: ArtifactSha) -> Result<SharedArtifact> {
    Err(Error::not_found("artifact"))
}
