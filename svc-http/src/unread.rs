//! Limits on unread responses.
//!
//! The bytes of responses that were produced but not read yet are counted, for the server and for each
//! client. While a client, or all clients together, have too many unread bytes, no further responses are
//! produced for them.

use std::time::Duration;

use svc_core::{Client, Code, Error, Result};
use tokio::time::{Instant, timeout_at};

use crate::encode::Response;
use crate::shares::{Share, Shares};

/// Limit on the unread bytes of all clients together.
const TOTAL_MAX: usize = 64 << 20;
/// Limit on the unread bytes of one client.
const CLIENT_MAX: usize = 8 << 20;
/// Size in bytes up to which a response needs no room.
///
/// It is counted, and produced as long as its client is below its quota, so that an agent can go on working
/// while it leaves a large response unread.
const SMALL_MAX: usize = 16 << 10;
/// Longest wait for room.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The count of unread response bytes. Clones share it.
#[derive(Clone)]
pub(crate) struct UnreadAnswers(Shares<Client>);

impl UnreadAnswers {
    pub fn new() -> Self {
        Self(Shares::new(TOTAL_MAX, CLIENT_MAX))
    }

    /// Returns the number of unread bytes.
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Produces a response, whose body counts until it is read.
    pub async fn answer<F: Future<Output = Result<Response>>>(
        &self,
        client: Client,
        changes: bool,
        make: impl Fn() -> F,
    ) -> Result<Response> {
        let (mut response, share) = self.hold(client, changes, |made| made.body().len(), make).await?;
        response.body_mut().counted(share);
        Ok(response)
    }

    /// Produces a value of `size`, which counts as long as its share is held.
    ///
    /// If there is no room for the value it is dropped and produced again once there is. That is only done
    /// for reads: the response of a change is always kept.
    pub async fn hold<T, F: Future<Output = Result<T>>>(
        &self,
        client: Client,
        changes: bool,
        size: fn(&T) -> usize,
        make: impl Fn() -> F,
    ) -> Result<(T, Share<Client>)> {
        let (deadline, mut kept) = (Instant::now() + TIMEOUT, None);
        self.wait(client, deadline).await?;
        loop {
            let made = make().await?;
            let size = size(&made);
            if let Some(share) = self.take(client, changes, size, kept.take()) {
                return Ok((made, share));
            }
            drop(made);
            kept = Some(self.wait_for(client, size, deadline).await?);
        }
    }

    /// Waits until the client is below its quota.
    ///
    /// Nothing is done for it before that, so even the responses that need no room (small ones, and those of
    /// changes) exceed the quota by no more than the requests in progress.
    pub async fn wait(&self, client: Client, deadline: Instant) -> Result<()> {
        timeout_at(deadline, self.0.below_quota(client)).await.map_err(|_| full())
    }

    /// Waits until there is room for `size` bytes, and takes it.
    pub async fn wait_for(&self, client: Client, size: usize, deadline: Instant) -> Result<Share<Client>> {
        timeout_at(deadline, self.0.wait(client, size)).await.map_err(|_| full())
    }

    /// Takes room for `size` bytes, from the share `kept` or else from the supply.
    pub fn take(
        &self,
        client: Client,
        changes: bool,
        size: usize,
        kept: Option<Share<Client>>,
    ) -> Option<Share<Client>> {
        match kept.filter(|kept| kept.size() >= size) {
            Some(mut kept) => Some(kept.split(size)),
            None if changes || size <= SMALL_MAX => Some(self.0.take_anyway(client, size)),
            None => self.0.take(client, size),
        }
    }
}

/// Returns the error of a request for whose response there is no room.
pub(crate) fn full() -> Error {
    Error::new(
        Code::Overloaded,
        "there is no room for the response: too many bytes of earlier ones are unread; read those first",
    )
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
        let (room, client) = (UnreadAnswers::new(), Client::at([127, 0, 0, 1].into()));
        let made = Cell::new(0);
        let make = async |size: usize| {
            made.set(made.get() + 1);
            Ok(encode::json(StatusCode::OK, vec![7; size].into()))
        };
        let left = room.answer(client, true, || make(100 << 20)).await.unwrap();
        for changes in [false, true] {
            assert!(room.answer(client, changes, || make(1)).now_or_never().is_none());
        }
        assert_eq!(made.get(), 1, "nothing was done");
        let mut others = Vec::new();
        for number in 2..8 {
            let other = Client::at([127, 0, 0, number].into());
            let read = room.answer(other, false, || make(7 << 20)).now_or_never();
            others.push(read.expect("there is room for others"));
        }
        drop(left);
        assert!(room.answer(client, false, || make(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_read_without_room_is_run_again_when_there_is_some() {
        let (room, client) = (UnreadAnswers::new(), Client::at([127, 0, 0, 1].into()));
        let made = Cell::new(0);
        let make = async |size: usize| {
            made.set(made.get() + 1);
            Ok(encode::json(StatusCode::OK, vec![7; size].into()))
        };
        let left = room.answer(client, false, || make(7 << 20)).await.unwrap();
        let mut waiting = Box::pin(room.answer(client, false, || make(2 << 20)));
        assert!(waiting.as_mut().now_or_never().is_none());
        for (size, changes) in [(SMALL_MAX, false), (2 << 20, true)] {
            assert!(room.answer(client, changes, || make(size)).now_or_never().is_some());
        }
        let other = Client::at([127, 0, 0, 2].into());
        assert!(room.answer(other, false, || make(7 << 20)).now_or_never().is_some());
        assert_eq!(made.get(), 5);
        drop(left);
        assert_eq!(waiting.await.unwrap().body().len(), 2 << 20);
        assert_eq!((made.get(), room.taken()), (6, 0));
    }
}
