//! Link for a person to the page of an approval gate that the caller may not accept.
//!
//! The link is sealed, so it cannot be forged. The link grants no rights: its reader must sign in, and may do
//! only what the signed-in member may do without the link. The link expires after an hour, or earlier if the
//! gate is decided.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::Result;
use crate::id::{GateId, MemberId, WorkspaceId};
use crate::limits::APPROVAL_LINK_SECS;
use crate::log::seal::Sealer;
use crate::op::Read;
use crate::time::Time;

/// Purpose of the sealing, so that text sealed for another purpose does not open as a link.
const SEALING_LABEL: &str = "svc.approval-link/1";
/// Path of the page for approval links; the sealed content of the link follows it.
const PAGE_PATH: &str = "/ui/approvals/";

/// Plaintext content of a link to an approval gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkContent {
    pub gate: GateId,
    pub workspace: WorkspaceId,
    /// The member who asked to decide the gate and received this link instead.
    pub recipient: MemberId,
    pub expires_at: Time,
}

/// Link to the page on which a person decides an approval gate.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct DecisionLink {
    /// URL of the page; only a path if the operator has not configured the service's public URL.
    pub url: String,
    /// Time at which the link expires, unless the gate is decided earlier.
    pub expires_at: Time,
}

impl LinkContent {
    /// Creates the content of a link to a gate of the caller's workspace, which expires in an hour.
    pub fn new(cx: &Read<'_>, gate: GateId, recipient: MemberId) -> Self {
        let expires_at = cx.now().shifted(APPROVAL_LINK_SECS.saturating_mul(1_000_000));
        Self { gate, workspace: cx.caller().workspace_id, recipient, expires_at }
    }

    /// Returns the URL of the page for this link, and the time at which the link expires.
    pub fn to_decision_link(&self, cx: &Read<'_>) -> Result<DecisionLink> {
        let service = cx.settings().public_url.as_deref().unwrap_or_default();
        let url = format!("{service}{PAGE_PATH}{}", self.seal(cx.sealer())?);
        Ok(DecisionLink { url, expires_at: self.expires_at })
    }

    /// Returns the last path segment of the link.
    fn seal(&self, sealer: &Sealer) -> Result<String> {
        let Self { gate, workspace, recipient, expires_at } = self;
        let mut plain = Vec::with_capacity(56);
        for id in [gate.uuid(), workspace.uuid(), recipient.uuid()] {
            plain.extend_from_slice(id.as_bytes());
        }
        plain.extend_from_slice(&expires_at.micros().to_be_bytes());
        Ok(URL_SAFE_NO_PAD.encode(sealer.seal_with_label(SEALING_LABEL, &plain)?))
    }

    /// Opens the last path segment of a link. Returns `None` if this service did not seal it.
    pub fn open(text: &str, sealer: &Sealer) -> Option<Self> {
        let plain = sealer.open_with_label(SEALING_LABEL, &URL_SAFE_NO_PAD.decode(text).ok()?)?;
        let (gate, rest) = plain.split_first_chunk::<16>()?;
        let (workspace, rest) = rest.split_first_chunk::<16>()?;
        let (recipient, expires_at) = rest.split_first_chunk::<16>()?;
        Some(Self {
            gate: Uuid::from_bytes(*gate).into(),
            workspace: Uuid::from_bytes(*workspace).into(),
            recipient: Uuid::from_bytes(*recipient).into(),
            expires_at: Time::from_micros(i64::from_be_bytes(expires_at.try_into().ok()?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;

    #[test]
    fn only_what_was_sealed_here_is_a_link() {
        let link = LinkContent {
            gate: Uuid::from_u128(1).into(),
            workspace: Uuid::from_u128(2).into(),
            recipient: Uuid::from_u128(3).into(),
            expires_at: Time::from_micros(4),
        };
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let text = link.seal(&sealer).unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        assert_eq!(LinkContent::open(&text, &sealer).as_ref(), Some(&link));
        assert_eq!(LinkContent::open(&text, &rotated).as_ref(), Some(&link));
        assert_eq!(LinkContent::open(&text, &Sealer::new([8; 32], &[], Entropy::System)), None);
        let short = URL_SAFE_NO_PAD.encode(sealer.seal_with_label(SEALING_LABEL, &[0; 55]).unwrap());
        let other = URL_SAFE_NO_PAD.encode(sealer.seal_with_label("svc.other/1", &[0; 56]).unwrap());
        for wrong in ["", "?", &text[1..], &format!("{text}A"), &short, &other] {
            assert_eq!(LinkContent::open(wrong, &sealer), None, "{wrong}");
        }
    }
}
