//! Manages subscriptions to resources. A subscription is stored for a request, a connection or a token.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use rmcp::model::{RequestId, SubscriptionFilter};
use serde_json::{Value, json};
use svc_core::{Code, Result};

use super::ServiceHandler;
use super::resources;
use super::watch::{PendingChanges, Watch, WatchSubject};
use crate::address::Address;
use crate::connection::{Connection, SUBSCRIPTIONS_MAX};
use crate::handler::Outcome;
use crate::notifier::{Notifier, encode_notification};
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::{Response, SUBSCRIPTION_ID};
use crate::revision::Revision;

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const UPDATED: &str = "notifications/resources/updated";
const LIST_CHANGED: &str = "notifications/resources/list_changed";

/// Item of a stream of notifications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationPart {
    /// Position up to which the log was read. `None` if a stream that continues after the item could miss
    /// notifications.
    pub position: Option<i64>,
    /// Encoded notification; empty if the item only reports a position.
    pub message: Bytes,
}

impl ServiceHandler {
    /// Sends notifications of changes for a request until the client disconnects or the credential ends.
    pub(super) async fn listen_for_changes(
        &self,
        context: &RequestContext,
        id: &RequestId,
        filter: SubscriptionFilter,
        notifier: &Notifier,
    ) -> Outcome {
        let caller = &context.principal.with_admission(&self.service).await?;
        let wants_list = filter.resources_list_changed == Some(true);
        let wants_resources = filter.resource_subscriptions.is_some();
        let addresses = Arc::new(Mutex::new(BTreeSet::new()));
        let subject = WatchSubject {
            addresses: Arc::clone(&addresses),
            with_token_subscriptions: false,
            with_list: wants_list,
        };
        // The watch begins before the visibility check, so that no change between the two is missed.
        let mut watch = Watch::begin(&self.service, caller, subject, None).await?;
        let visible =
            self.visible_addresses(caller, filter.resource_subscriptions.unwrap_or_default()).await?;
        let mut accepted = SubscriptionFilter::new();
        accepted.resources_list_changed = wants_list.then_some(true);
        accepted.resource_subscriptions =
            wants_resources.then(|| visible.iter().map(Address::to_string).collect());
        addresses.lock().unwrap_or_else(PoisonError::into_inner).extend(visible);
        let meta = json!({SUBSCRIPTION_ID: id});
        if !notifier.send(ACKNOWLEDGED, &json!({"notifications": accepted, "_meta": meta})).await {
            return Err(Refusal::params(
                "notifications are sent as server-sent events, which the Accept header must allow",
            ));
        }
        loop {
            let changes = watch.next().await?;
            for (method, params) in changes.notifications(wants_list, Some(&meta)) {
                if !notifier.send(method, &params).await {
                    return Ok(Response::subscription_ended(id));
                }
            }
        }
    }

    /// Parses the first [`SUBSCRIPTIONS_MAX`] addresses, and returns the addresses of resources that the
    /// caller may see.
    async fn visible_addresses(&self, caller: &Principal, uris: Vec<String>) -> Result<Vec<Address>> {
        let addresses: BTreeSet<Address> =
            uris.iter().filter_map(|uri| Address::parse(uri)).take(SUBSCRIPTIONS_MAX).collect();
        let mut visible = Vec::with_capacity(addresses.len());
        for address in addresses {
            match self.check_visible(caller, address).await {
                Ok(()) => visible.push(address),
                Err(error) if matches!(error.code(), Code::NotFound | Code::MissingCapability) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(visible)
    }

    /// Subscribes to a resource, or ends the subscription, for the connection or else for the token.
    pub(super) async fn set_subscription(
        &self,
        context: &RequestContext,
        uri: &str,
        is_wanted: bool,
    ) -> Outcome {
        let address = Address::parse(uri).ok_or_else(|| Refusal::resource(uri, context.revision))?;
        let caller = &context.principal.with_admission(&self.service).await?;
        if is_wanted {
            let seen = self.check_visible(caller, address).await;
            seen.map_err(|error| resources::resource_refusal(error, uri, context.revision))?;
        }
        match &context.connection {
            None => caller.set_resource_subscription(&self.service, uri, is_wanted).await?,
            Some(connection) => {
                if is_wanted {
                    self.start_connection_watch(connection, caller).await?;
                }
                connection.set_subscription(address, is_wanted)?;
            }
        }
        Ok(Response::default())
    }

    /// Starts to send the notifications of a connection, unless a task already sends them.
    pub(super) async fn start_connection_watch(
        &self,
        connection: &Connection,
        caller: &Principal,
    ) -> Result<()> {
        let subject = WatchSubject {
            addresses: Arc::clone(connection.addresses()),
            with_token_subscriptions: false,
            with_list: true,
        };
        let start = async {
            let mut watch = Watch::begin(&self.service, caller, subject, None).await?;
            let notifier = connection.notifier().clone();
            let watching = tokio::spawn(async move {
                // If the credential has ended, the response to the client's next request reports that.
                while let Ok(changes) = watch.next().await {
                    for (method, params) in changes.notifications(true, None) {
                        if !notifier.send(method, &params).await {
                            return;
                        }
                    }
                }
            });
            Ok(watching.abort_handle())
        };
        connection.watch(start).await
    }

    /// Returns a stream of notifications for the resources `uris` and for the subscriptions of the caller's
    /// token.
    ///
    /// The stream begins after the position `after` in the log, or at the end of the log, and the first item
    /// contains that position. If the log no longer contains the next events, the stream begins with
    /// notifications for everything that may have changed. The stream ends when the caller's credential ends.
    /// If the caller cannot read one of the resources, fails with the error of that read.
    pub(crate) async fn notifications(
        &self,
        caller: &Principal,
        revision: Revision,
        uris: Vec<String>,
        after: Option<i64>,
    ) -> Result<BoxStream<'static, NotificationPart>, Refusal> {
        let caller = caller.with_admission(&self.service).await?;
        let mut addresses = BTreeSet::new();
        for uri in &uris {
            let address = Address::parse(uri).ok_or_else(|| Refusal::resource(uri, revision))?;
            let seen = self.check_visible(&caller, address).await;
            seen.map_err(|error| resources::resource_refusal(error, uri, revision))?;
            addresses.insert(address);
            if addresses.len() > SUBSCRIPTIONS_MAX {
                return Err(Refusal::params(format!("there are more than {SUBSCRIPTIONS_MAX} addresses")));
            }
        }
        let subject = WatchSubject {
            addresses: Arc::new(Mutex::new(addresses)),
            with_token_subscriptions: true,
            with_list: true,
        };
        let after = match after {
            Some(after) => Some((self.workspace_of(&caller).await?, after)),
            None => None,
        };
        let watch = Watch::begin(&self.service, &caller, subject, after).await?;
        let begins = NotificationPart { position: Some(watch.position()), message: Bytes::new() };
        // A client that has missed changes first receives notifications for everything, without an earlier
        // position.
        let first: VecDeque<NotificationPart> = (!watch.has_missed()).then_some(begins).into_iter().collect();
        let told = stream::unfold((watch, first), |(mut watch, mut left)| async move {
            if left.is_empty() {
                left = watch.next().await.ok()?.stream_items();
            }
            left.pop_front().map(|told| (told, (watch, left)))
        });
        Ok(told.boxed())
    }
}

impl PendingChanges {
    /// Returns the method and the parameters of each notification of the pending changes.
    fn notifications(&self, with_list: bool, meta: Option<&Value>) -> Vec<(&'static str, Value)> {
        let with_meta = |mut params: Value| {
            if let (Some(meta), Some(members)) = (meta, params.as_object_mut()) {
                members.insert("_meta".to_owned(), meta.clone());
            }
            params
        };
        let updated =
            self.addresses.iter().map(|address| (UPDATED, with_meta(json!({"uri": address.to_string()}))));
        let list = (self.is_list_changed && with_list).then(|| (LIST_CHANGED, with_meta(json!({}))));
        updated.chain(list).collect()
    }

    /// Returns the pending changes as items of a stream.
    ///
    /// Only the last item contains the position, so that a client that misses an item receives all items
    /// again.
    fn stream_items(&self) -> VecDeque<NotificationPart> {
        let messages = self.notifications(true, None).into_iter();
        let mut told: VecDeque<NotificationPart> = messages
            .map(|(method, params)| NotificationPart {
                position: None,
                message: encode_notification(method, &params),
            })
            .collect();
        if let Some(last) = told.back_mut() {
            last.position = Some(self.position);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_notifications_has_the_position() {
        let uri = "svc://threads/01990000-0000-7000-8000-000000000001";
        let addresses = BTreeSet::from([Address::parse(uri).unwrap()]);
        let changes = PendingChanges { addresses, is_list_changed: true, position: 7 };
        let told: Vec<(Option<i64>, Value)> = changes
            .stream_items()
            .iter()
            .map(|told| (told.position, serde_json::from_slice(&told.message).unwrap()))
            .collect();
        let message = |method, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
        assert_eq!(
            told,
            [(None, message(UPDATED, json!({"uri": uri}))), (Some(7), message(LIST_CHANGED, json!({})))]
        );
        let meta = json!({SUBSCRIPTION_ID: 5});
        let listened = changes.notifications(false, Some(&meta));
        assert_eq!(listened, [(UPDATED, json!({"uri": uri, "_meta": meta}))]);
        assert!(PendingChanges::default().stream_items().is_empty());
    }
}
