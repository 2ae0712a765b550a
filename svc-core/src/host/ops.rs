//! The operations that callers within the process call by type, with their inputs and outputs.
//!
//! Shells pass on all other operations by name, as received from the network.

pub use crate::conversation::messages::OpenedEvent;
pub use crate::coordination::freeze::{FreezeMember, FrozenMember, UnfreezeMember};
pub use crate::gates::approvals::follow_approval;
pub use crate::host::typed_calls::TypedReply;
pub use crate::identity::members::{AnyHandle, ListMembers, Member, MemberFreeze, MemberKind};
pub use crate::identity::oidc::{
    LoginSecrets, MockPerson, OidcCallback, OidcLogin, PendingLogin, ProviderClaims, ReturnedLogin,
};
pub use crate::identity::sessions::{NewSession, SignIn, SignOut, SignOutResult};
pub use crate::identity::tokens::{MintToken, MintedToken, Quotas};
pub use crate::identity::whoami::{Bearer, Me, Whoami};
pub use crate::identity::workspaces::OwnWorkspaceId;
pub use crate::log::feed::{FrameBytes, FrameForm};
pub use crate::outreach::push::{PUSH_TTL, PushNotification, WEB_PUSH};
pub use crate::portability::{
    ExportReport, ExportTexts, ExportWorkspace, ImportMode, ImportResult, ImportWorkspace,
};
pub use crate::stream::events::{EventPage, WaitForEvent};
pub use crate::stream::internal_consumers::{
    ConsumedEvent, ConsumedPage, ConsumerPosition, InternalConsumer,
};
pub use crate::stream::resource_subscriptions::ResourceSubscriptions;
pub use crate::stream::subscriptions::{
    BatchBounds, BegunSubscription, ClientRequests, ConsumerId, EventBatch, FeedState, FirstFrame,
    LaterFrame, ServerFrame, StartPosition, StartRequest, StreamQuery, Subscriber, Subscription,
    WantedEvents, contract as subscription_contract,
};
pub use crate::stream::workspace_address::public_card;
