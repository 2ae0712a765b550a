//! The operations that callers within the process call by type, with their inputs and outputs.
//!
//! Shells pass on all other operations by name, as received from the network.

pub use crate::conversation::messages::OpenedEvent;
pub use crate::coordination::freeze::{
    FREEZE_MEMBER, FreezeMember, FrozenMember, UNFREEZE_MEMBER, UnfreezeMember,
};
pub use crate::gates::approvals::follow_approval;
pub use crate::host::typed_calls::TypedReply;
pub use crate::identity::members::{AnyHandle, LIST_MEMBERS, ListMembers, Member, MemberFreeze, MemberKind};
pub use crate::identity::oidc::{
    LoginSecrets, MockPerson, OidcCallback, OidcLogin, PendingLogin, ProviderClaims, ReturnedLogin,
};
pub use crate::identity::sessions::{NewSession, SignIn, SignOut, SignOutResult};
pub use crate::identity::tokens::{MINT_TOKEN, MintToken, MintedToken, Quotas};
pub use crate::identity::whoami::{Bearer, Me, WHOAMI, Whoami};
pub use crate::identity::workspaces::OwnWorkspaceId;
pub use crate::log::feed::{FrameBytes, FrameForm};
pub use crate::outreach::push::{PUSH_TTL, PushNotification, WEB_PUSH};
pub use crate::portability::{
    EXPORT_WORKSPACE, ExportReport, ExportWorkspace, IMPORT_WORKSPACE, ImportResult, ImportWorkspace, Mode,
    Words,
};
pub use crate::stream::events::{EventPage, WAIT_FOR_EVENT, WaitForEvent};
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::operation_table;

    #[test]
    fn every_typed_operation_is_in_the_table() {
        let table = operation_table().unwrap();
        let found = [
            (FREEZE_MEMBER.name(), FREEZE_MEMBER.operation(&table)),
            (UNFREEZE_MEMBER.name(), UNFREEZE_MEMBER.operation(&table)),
            (LIST_MEMBERS.name(), LIST_MEMBERS.operation(&table)),
            (MINT_TOKEN.name(), MINT_TOKEN.operation(&table)),
            (WHOAMI.name(), WHOAMI.operation(&table)),
            (WAIT_FOR_EVENT.name(), WAIT_FOR_EVENT.operation(&table)),
        ];
        for (name, operation) in found {
            assert_eq!(operation.unwrap().name(), name);
        }
    }
}
