//! Subscriptions of tokens to resource addresses. A subscription expires one day after its last renewal.
//!
//! A client without an open connection subscribes through its token, and any server notifies the client of
//! changes. Adding or removing a subscription writes no event and no audit row. The shell defines the
//! addresses, and which callers may see the resources.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::TokenId;
use crate::identity::sessions::ended_rows_chore;
use crate::limits::RESOURCE_SUBSCRIPTIONS_MAX;
use crate::op::{Admission, Dispatch, Feature, Read, Records, ServiceWork, Surface, Write};
use crate::stream::events::wait_for_event::WaitForEvent;

/// Time after which a subscription expires, unless it is renewed.
const SUBSCRIPTION_TTL: Duration = Duration::from_secs(86_400);

/// Name of the table of subscriptions.
const TABLE: &str = "resource_subscriptions";

pub(crate) fn feature() -> Feature {
    Feature::new().chore(ended_rows_chore(TABLE, Duration::ZERO, ANY_EXPIRED, DELETE_EXPIRED)).records(vec![
        Records::table(TABLE, "token_id uri").erased_first().through("token_id", "tokens").stays(),
    ])
}

/// The resource subscriptions of tokens. Callers need the same capabilities as for `wait_for_event`.
pub struct ResourceSubscriptions<'a>(pub(crate) &'a Arc<Dispatch>);

impl ResourceSubscriptions<'_> {
    /// Subscribes an admitted caller's token to an address, or unsubscribes it.
    ///
    /// Fails with 403 if the caller has no token, and with 409 `wrong-state` if the token has too many
    /// subscriptions.
    pub async fn set(&self, admission: Admission, uri: String, is_subscribed: bool) -> Result<()> {
        let Self(dispatch) = self;
        let (own, token) = load_caller_token(dispatch, admission).await?;
        let token =
            token.ok_or_else(|| Error::forbidden("only a caller with a token can subscribe to resources"))?;
        let change = move |cx: &mut Write<'_>| match is_subscribed {
            true => add_subscription(cx, token, &uri),
            false => cx.change(REMOVE, &[&token, &uri]).map(drop),
        };
        dispatch.await_change(own, Surface::System, change).await
    }

    /// Returns the addresses to which an admitted caller's token is subscribed.
    pub async fn of(&self, admission: Admission) -> Result<Vec<String>> {
        let operation = self.0.table.operation_of::<WaitForEvent>()?;
        let read = |cx: &Read<'_>| {
            let Some(token) = cx.caller().token_id else { return Ok(Vec::new()) };
            let found = cx.query_first_page::<(String,)>(SELECT_LIVE_URIS, &[&token, &cx.now()])?;
            Ok(found.into_iter().map(|(uri,)| uri).collect())
        };
        self.0.read_for(operation, admission, false, read).await
    }
}

/// Returns the work that an admitted caller causes, and the id of its token if it has one.
async fn load_caller_token(
    dispatch: &Arc<Dispatch>,
    admission: Admission,
) -> Result<(ServiceWork, Option<TokenId>)> {
    let operation = dispatch.table.operation_of::<WaitForEvent>()?;
    let read = |cx: &Read<'_>| Ok((ServiceWork::caused_by(cx.caller()), cx.caller().token_id));
    dispatch.read_for(operation, admission, false, read).await
}

fn add_subscription(cx: &mut Write<'_>, token: TokenId, uri: &str) -> Result<()> {
    let now = cx.now();
    let until = now.plus(SUBSCRIPTION_TTL);
    if cx.change(RENEW, &[&token, &uri, &until])? > 0 {
        return Ok(());
    }
    let count = cx.one::<(i64,)>(COUNT, &[&token, &now])?.map_or(0, |(count,)| count);
    if count >= RESOURCE_SUBSCRIPTIONS_MAX {
        return Err(Error::wrong_state(format!(
            "a token can subscribe to at most {RESOURCE_SUBSCRIPTIONS_MAX} resources; remove a subscription"
        )));
    }
    cx.execute(1, INSERT, &[&token, &uri, &until])
}

const SELECT_LIVE_URIS: &str = "select uri from resource_subscriptions where token_id = $1 and until > $2";

const COUNT: &str = "select count(*) from resource_subscriptions where token_id = $1 and until > $2";

const RENEW: &str = "update resource_subscriptions set until = $3 where token_id = $1 and uri = $2";

const INSERT: &str = "insert into resource_subscriptions (token_id, uri, until) values ($1, $2, $3)";

const REMOVE: &str = "delete from resource_subscriptions where token_id = $1 and uri = $2";

const ANY_EXPIRED: &str = "select 1 from resource_subscriptions where until <= $1 limit 1";

/// Removes subscriptions by the index on their end times.
const DELETE_EXPIRED: &str = "
    delete from resource_subscriptions where (token_id, uri) in (
        select token_id, uri from resource_subscriptions where until <= $1 order by until limit $2)";
