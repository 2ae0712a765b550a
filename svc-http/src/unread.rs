//! Unread answers. What was made and is not taken yet is counted, for the server and for each client; while a
//! client, or all together, have left too much of it, no more is made for them.

use std::time::Duration;

use svc_core::{Client, Code, Error, Result};
use tokio::time::{Instant, timeout_at};

use crate::encode::Response;
use crate::shares::{Share, Shares};

/// Bytes that all clients together may leave.
const ALL_MAX: usize = 64 << 20;
/// Bytes that one client may leave.
const EACH_MAX: usize = 8 << 20;
/// A smaller answer is counted, and given while its client has left less than its part: what an agent does goes on while
/// it leaves a large one.
const SMALL: usize = 16 << 10;
/// How long to wait for room.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// The bytes that were made and are not taken. Clones are handles to the same room.
#[derive(Clone)]
pub(crate) struct UnreadAnswers(Shares<Client>);

impl UnreadAnswers {
    pub fn new() -> Self {
        Self(Shares::new(ALL_MAX, EACH_MAX))
    }

    /// Bytes that were made and are not taken.
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Makes an answer, which is counted until it is taken.
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

    /// Makes something of a `size`, which counts as long as its share is held. What finds no room is dropped, and made
    /// again once there is some: so only what changes nothing is made like that, and a change keeps what it made.
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
            let waited = timeout_at(deadline, self.0.wait(client, size)).await;
            kept = Some(waited.map_err(|_| full())?);
        }
    }

    /// Comes back once the client has left less than its part. Before that nothing is done for it, so that even what is
    /// small, or changes something and has to be told, adds no more than was under way.
    pub async fn wait(&self, client: Client, deadline: Instant) -> Result<()> {
        timeout_at(deadline, self.0.below_part(client)).await.map_err(|_| full())
    }

    /// Room for `size` bytes, of what is `kept` or else of what there is.
    pub fn take(
        &self,
        client: Client,
        changes: bool,
        size: usize,
        kept: Option<Share<Client>>,
    ) -> Option<Share<Client>> {
        match kept.filter(|kept| kept.size() >= size) {
            Some(mut kept) => Some(kept.split(size)),
            None if changes || size <= SMALL => Some(self.0.take_anyway(client, size)),
            None => self.0.take(client, size),
        }
    }
}

/// The refusal of what has found no room.
pub(crate) fn full() -> Error {
    Error::new(Code::Overloaded, "too much that was answered is not read yet; read that, and try again")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;
    use hyper::StatusCode;

    use super::*;
    use crate::encode;

    #[tokio::test]
    async fn who_leaves_its_part_is_done_nothing_for_and_lessens_nobody_elses() {
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
    async fn what_finds_no_room_is_made_again_when_there_is_some() {
        let (room, client) = (UnreadAnswers::new(), Client::at([127, 0, 0, 1].into()));
        let made = Cell::new(0);
        let make = async |size: usize| {
            made.set(made.get() + 1);
            Ok(encode::json(StatusCode::OK, vec![7; size].into()))
        };
        let left = room.answer(client, false, || make(7 << 20)).await.unwrap();
        let mut waiting = Box::pin(room.answer(client, false, || make(2 << 20)));
        assert!(waiting.as_mut().now_or_never().is_none());
        for (size, changes) in [(SMALL, false), (2 << 20, true)] {
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
