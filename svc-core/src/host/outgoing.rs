//! Parcels for the ways out: a shell takes what is due, sends it, and says what became of it.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::error::{Error, Result};
use crate::host::service::Service;
use crate::id::{MemberId, WorkspaceId};
use crate::limits::PARCEL_LEASE;
use crate::op::{Arrival, OwnQueue, OwnWork, Parcel, Queue, Read, Surface, Way, Write};

impl Service {
    /// Takes what is due on a way, as parcels of at most `max` members.
    ///
    /// Each is leased to the caller, who sends and [settles](Self::settle) it before the lease ends; else it
    /// is taken again. What one member has due and cannot be taken does not hold up others.
    pub async fn take_parcels(&self, way: &str, max: usize) -> Result<Vec<Parcel>> {
        let Queue::Own(OwnQueue { due, take, put_off }) = self.way(way)?.queue;
        let most = i64::try_from(max).map_err(Error::internal)?;
        let next = move |cx: &Read<'_>| cx.query(due, &[&cx.now(), &most]);
        let members: Vec<(WorkspaceId, MemberId)> =
            self.dispatch().await_read(OwnWork::INSTANCE, next).await?;
        // What is taken for a caller that has gone away is taken again when its lease ends.
        let taken = join_all(members.into_iter().map(async |(workspace, member)| {
            let run = move |cx: &mut Write<'_>| take(cx, member);
            let parcel = self.dispatch().await_change(OwnWork::on(workspace), Surface::System, run).await;
            (workspace, member, parcel)
        }));
        let mut parcels = Vec::new();
        for (workspace, member, parcel) in taken.await {
            match parcel {
                Ok(parcel) => parcels.extend(parcel),
                Err(error) => {
                    tracing::warn!(way, %error, cause = ?error.cause(), "a parcel was not taken");
                    // Whoever has waited longest comes first, and must not stay there.
                    let run = move |cx: &mut Write<'_>| put_off(cx, member, cx.now().plus(PARCEL_LEASE));
                    self.dispatch().submit_change_as_instance(
                        OwnWork::on(workspace),
                        Surface::System,
                        run,
                        |_| {},
                    );
                }
            }
        }
        Ok(parcels)
    }

    /// Returns whether the piece of a parcel at this place is still to be sent, which is asked right before.
    pub async fn is_current(&self, parcel: &Arc<Parcel>, place: usize) -> Result<bool> {
        let is_current = self.way(parcel.way())?.is_current;
        let (workspace, parcel) = (parcel.workspace_id(), Arc::clone(parcel));
        let run = move |cx: &Read<'_>| is_current(cx, &parcel, place);
        self.dispatch().await_read(OwnWork::on(workspace), run).await
    }

    /// Records what became of each piece of a parcel, in their order.
    pub async fn settle(&self, parcel: impl Into<Arc<Parcel>>, arrivals: Vec<Arrival>) -> Result<()> {
        let parcel: Arc<Parcel> = parcel.into();
        parcel.check(&arrivals)?;
        let settle = self.way(parcel.way())?.settle;
        let workspace = parcel.workspace_id();
        let settled = Arc::new((parcel, arrivals));
        let run = move |cx: &mut Write<'_>| settle(cx, &settled.0, &settled.1);
        self.dispatch().await_change(OwnWork::on(workspace), Surface::System, run).await
    }

    fn way(&self, name: &str) -> Result<Way> {
        let way = self.table().way(name).copied();
        way.ok_or_else(|| Error::internal(format!("there is no way named {name}")))
    }
}
