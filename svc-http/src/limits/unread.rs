//! Limits the bytes of responses that clients have not read yet.
//!
//! The unread bytes are counted per server, workspace and client. While one of these counts is at its limit,
//! the server waits before it produces further responses that would add to the count.

use std::time::Duration;

use svc_core::share::Quotas;
use svc_core::{Ceiling, Error, Holder, PlaceGuard, Result};
use tokio::time::{Instant, timeout_at};

use crate::limits::response_body::Response;

/// Maximum unread response bytes of all clients together.
pub(crate) const TOTAL_MAX: usize = 64 << 20;
/// Maximum unread response bytes of one client.
pub(crate) const CLIENT_MAX: usize = 8 << 20;
/// Maximum bytes of a response that is produced even if the unread bytes would exceed their limit.
///
/// Such a response still counts as unread, and is produced only while the client is below its quota. So an
/// agent can continue to work while it leaves a large response unread.
const SMALL_RESPONSE_MAX: usize = 16 << 10;
/// Maximum time that a response waits until its bytes fit under the limits on unread bytes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Counts the unread response bytes of this server. Clones share the counts.
#[derive(Clone)]
pub(crate) struct UnreadResponses(Ceiling);

impl UnreadResponses {
    pub fn new() -> Self {
        Self(Ceiling::new(
            "unread bytes of responses",
            TOTAL_MAX,
            Quotas { client: Some(CLIENT_MAX), ..Quotas::default() },
        ))
    }

    /// Returns the number of unread bytes of all clients.
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Produces a response whose body counts towards the unread bytes until the client has read the body.
    pub async fn produce_response<F: Future<Output = Result<Response>>>(
        &self,
        holder: Holder,
        is_change: bool,
        attempt: impl Fn() -> F,
    ) -> Result<Response> {
        let (mut response, share) =
            self.produce(holder, is_change, |made| made.body().len(), attempt).await?;
        response.body_mut().hold_share(share);
        Ok(response)
    }

    /// Produces a value whose size counts towards the unread bytes while the returned share is held.
    ///
    /// If there is no room for the value, the value is dropped, and produced again once there is room. The
    /// response of a change is always kept, because a change must not run twice.
    pub async fn produce<T, F: Future<Output = Result<T>>>(
        &self,
        holder: Holder,
        is_change: bool,
        size: fn(&T) -> usize,
        attempt: impl Fn() -> F,
    ) -> Result<(T, PlaceGuard)> {
        let deadline = Instant::now() + TIMEOUT;
        let mut kept = None;
        self.wait_below_quota(holder, deadline).await?;
        loop {
            let made = attempt().await?;
            let size = size(&made);
            if let Some(share) = self.reserve(holder, is_change, size, kept.take()) {
                return Ok((made, share));
            }
            drop(made);
            kept = Some(self.wait_and_reserve(holder, size, deadline).await?);
        }
    }

    /// Waits until the client is below its quota of unread bytes. Fails at the deadline.
    ///
    /// The server does no work for the client before that. So even responses that do not wait for room, such
    /// as small responses, exceed the quota only by the responses to requests in progress.
    pub async fn wait_below_quota(&self, holder: Holder, deadline: Instant) -> Result<()> {
        timeout_at(deadline, self.0.wait_until_below_quota(holder))
            .await
            .map_err(|_| self.exhausted_error(holder))
    }

    /// Waits until there is room for `size` unread bytes, and reserves the room. Fails at the deadline.
    pub async fn wait_and_reserve(
        &self,
        holder: Holder,
        size: usize,
        deadline: Instant,
    ) -> Result<PlaceGuard> {
        timeout_at(deadline, self.0.wait(holder, size)).await.map_err(|_| self.0.exhausted(holder, size))?
    }

    /// Returns the error for a request of a client with too many unread bytes.
    pub fn exhausted_error(&self, holder: Holder) -> Error {
        self.0.exhausted(holder, 1)
    }

    /// Reserves room for `size` unread bytes, from the share `held_share` if it is large enough, or else from
    /// the ceiling.
    ///
    /// Returns `None` if there is no room. The responses of changes, and small responses, do not need room.
    pub fn reserve(
        &self,
        holder: Holder,
        is_change: bool,
        size: usize,
        held_share: Option<PlaceGuard>,
    ) -> Option<PlaceGuard> {
        match held_share.filter(|held_share| held_share.size() >= size) {
            Some(mut held_share) => Some(held_share.split(size)),
            None if is_change || size <= SMALL_RESPONSE_MAX => Some(self.0.take_beyond_limits(holder, size)),
            None => self.0.try_take(holder, size).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;
    use hyper::StatusCode;

    use super::*;
    use crate::encode;

    #[tokio::test]
    async fn a_client_above_its_quota_is_paused_and_others_are_not() {
        let room = UnreadResponses::new();
        let holder = Holder::at([127, 0, 0, 1].into());
        let made = Cell::new(0);
        let make = async |size: usize| {
            made.set(made.get() + 1);
            Ok(encode::json_response(StatusCode::OK, vec![7; size].into()))
        };
        let left = room.produce_response(holder, true, || make(100 << 20)).await.unwrap();
        for changes in [false, true] {
            assert!(room.produce_response(holder, changes, || make(1)).now_or_never().is_none());
        }
        assert_eq!(made.get(), 1, "nothing was done");
        let mut others = Vec::new();
        for number in 2..7 {
            let other = Holder::at([127, 0, 0, number].into());
            let read = room.produce_response(other, false, || make(7 << 20)).now_or_never();
            others.push(read.expect("there is room for others"));
        }
        let last = Holder::at([127, 0, 0, 7].into());
        let read = room.produce_response(last, false, || make(7 << 20)).now_or_never();
        assert!(read.is_none(), "its workspace has three quarters");
        let workspace = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        let read =
            room.produce_response(Holder { workspace, ..last }, false, || make(7 << 20)).now_or_never();
        others.push(read.expect("there is room for another workspace"));
        drop(left);
        assert!(room.produce_response(holder, false, || make(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_read_without_room_is_run_again_when_there_is_some() {
        let room = UnreadResponses::new();
        let holder = Holder::at([127, 0, 0, 1].into());
        let made = Cell::new(0);
        let make = async |size: usize| {
            made.set(made.get() + 1);
            Ok(encode::json_response(StatusCode::OK, vec![7; size].into()))
        };
        let left = room.produce_response(holder, false, || make(7 << 20)).await.unwrap();
        let mut waiting = Box::pin(room.produce_response(holder, false, || make(2 << 20)));
        assert!(waiting.as_mut().now_or_never().is_none());
        for (size, changes) in [(SMALL_RESPONSE_MAX, false), (2 << 20, true)] {
            assert!(room.produce_response(holder, changes, || make(size)).now_or_never().is_some());
        }
        let other = Holder::at([127, 0, 0, 2].into());
        assert!(room.produce_response(other, false, || make(7 << 20)).now_or_never().is_some());
        assert_eq!(made.get(), 5);
        drop(left);
        assert_eq!(waiting.await.unwrap().body().len(), 2 << 20);
        assert_eq!((made.get(), room.taken()), (6, 0));
    }
}
