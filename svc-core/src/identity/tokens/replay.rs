//! Replaying the events of tokens, which create rows of tokens and mark them as revoked.

use serde_json::Value;

use crate::capability::Capabilities;
use crate::error::Result;
use crate::log::replay::ReplayedEvent;
use crate::store::{Param, ToParam};

/// Replays the event `TokenMinted`.
pub(super) fn replay_minted(event: &ReplayedEvent<'_>) -> Result<()> {
    let optional = |name: &str| event.field(name).cloned().unwrap_or_default();
    let token = event.row_of("tokens", "token_id")?.made().copy("member_id expires_at parent_id");
    let token = token.set("grant_id", optional("grant_id"));
    let token = token.set("installation_id", optional("installation_id"));
    let token = token.set_known("actor_id", token_holder(event));
    let token = token.set_known("capabilities", capability_bits(event, "capabilities"));
    let token = token.set("quota", quota_of(&optional("quotas")));
    token.set("created_at", event.at()).clear("revoked_at").set("lsn", event.lsn()).keep()
}

/// Returns the member who holds a new token. Older events for tokens of delegation grants lack this member.
fn token_holder(event: &ReplayedEvent<'_>) -> Option<Value> {
    let own = event.field("member_id").filter(|_| event.field("grant_id").is_none());
    event.field("actor_id").or(own).cloned()
}

/// Marks one token as revoked at the time of the event.
pub(super) fn mark_revoked(event: &ReplayedEvent<'_>, token: &Value) -> Result<()> {
    event.row("tokens", [token.clone()])?.set("revoked_at", event.at()).keep()
}

/// Marks the tokens that an event lists in `token_ids` as revoked at the time of the event.
pub(crate) fn mark_listed_revoked(event: &ReplayedEvent<'_>) -> Result<()> {
    event.list("token_ids").iter().try_for_each(|token| mark_revoked(event, token))
}

/// Returns the capabilities in a field of an event, in the form in which rows store them.
///
/// Returns `None` if the field is absent or contains an unknown capability.
pub(crate) fn capability_bits(event: &ReplayedEvent<'_>, field: &str) -> Option<Value> {
    let named: Capabilities = serde_json::from_value(event.field(field)?.clone()).ok()?;
    match named.param() {
        Param::Int(bits) => Some(bits.into()),
        _ => None,
    }
}

/// Returns the quotas in an event's field, in the form in which rows store them.
pub(crate) fn quota_of(quotas: &Value) -> Value {
    quotas.get("requests").cloned().unwrap_or_default()
}
