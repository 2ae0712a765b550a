//! Identifiers: one newtype per kind of object.
//!
//! So a thread's id cannot be passed in place of a channel's. All are UUIDs (RFC 9562, version 7), minted by
//! the service from its own clock and entropy. A type names the operation that lists its ids, so that the
//! error for an invalid id can say where to find one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Result;
use crate::store::{FromValue, Param, ToParam, Value};

/// An identifier type, so that generic code can mint, store and print one.
pub trait Id: Copy + From<Uuid> + Into<Uuid> {}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $(, listed by $listed:literal)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        #[schemars(inline)]
        $(#[schemars(extend("x-listed-by" = $listed))])?
        pub struct $name(Uuid);

        impl Id for $name {}

        impl $name {
            /// Returns the identifier as a plain UUID.
            pub fn uuid(self) -> Uuid { self.0 }
        }
        impl From<Uuid> for $name { fn from(id: Uuid) -> Self { Self(id) } }
        impl From<$name> for Uuid { fn from(id: $name) -> Self { id.0 } }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { self.0.fmt(f) }
        }
        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> std::result::Result<Self, uuid::Error> { text.parse().map(Self) }
        }
        impl ToParam for $name { fn param(&self) -> Param<'_> { Param::Uuid(self.0) } }
        impl FromValue for $name {
            fn from_value(value: Value) -> Result<Self> { Uuid::from_value(value).map(Self) }
        }
    )*};
}

ids! {
    /// A workspace's id.
    WorkspaceId, listed by "whoami";
    /// A member's id.
    MemberId, listed by "list_members";
    /// An API token's id.
    TokenId, listed by "list_tokens";
    /// A delegation grant's id.
    GrantId, listed by "list_delegation_grants";
    /// An app's id.
    AppId, listed by "list_apps";
    /// An app installation's id.
    InstallationId, listed by "list_app_installations";
    /// The id of a browser's session.
    SessionId;
    /// A share ticket's id.
    ShareTicketId, listed by "list_share_tickets";
    /// A legal hold's id.
    HoldId, listed by "list_legal_holds";
    /// The id of an import.
    ImportId;
    /// The id of a SCIM group.
    GroupId;
    /// A channel's id.
    ChannelId, listed by "list_channels";
    /// A dead letter's id.
    DeadLetterId, listed by "list_dead_letters";
    /// A thread's id. A thread is a task.
    ThreadId, listed by "list_workspace_threads";
    /// A message's id.
    MessageId, listed by "list_messages";
    /// The id of a relation between two messages.
    RelationId, listed by "list_message_relations";
    /// A vote's id.
    VoteId, listed by "list_votes";
    /// A memory block's id.
    BlockId, listed by "list_memory_blocks";
    /// The id of a requested code.
    CodeId;
    /// The id of a browser's subscription for web push.
    SubscriptionId;
    /// A review's id.
    ReviewId, listed by "list_reviews";
    /// The id of a finding of a review.
    FindingId, listed by "list_reviews";
    /// An approval gate's id.
    GateId, listed by "list_approval_gates";
    /// The fencing id of one claim: fresh whenever a thread changes hands.
    LeaseId, listed by "list_active_claims";
}

impl WorkspaceId {
    /// Takes the place of a workspace in instance-level records, which belong to none.
    pub const INSTANCE: WorkspaceId = WorkspaceId(Uuid::nil());
}
