//! The types that shells need for framed operations, subscriptions and deliveries.
//!
//! Shells pass on operations by name, as received from the network. For the requests of Rust programs, see
//! [`api`](crate::api).

pub use crate::gates::approvals::follow_approval;
pub use crate::host::typed_calls::TypedReply;
pub use crate::identity::oidc::{
    LoginSecrets, MockPerson, OidcCallback, OidcLogin, PendingLogin, ProviderClaims, ReturnedLogin,
};
pub use crate::identity::sessions::{NewSession, SignIn, SignOut, SignOutResult};
pub use crate::identity::whoami::Bearer;
pub use crate::log::feed::{FrameBytes, FrameForm};
pub use crate::outreach::push::{PUSH_TTL, PushNotification, WEB_PUSH};
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
