//! Delivery channels: they send notifications of members out of the service.
//!
//! A channel takes due notifications in batches, each with all that one member has due on it at that moment.
//! Taking leases the rows behind a batch by moving their due time ahead, so a batch is with one process at a
//! time, and another process takes it again if that one dies. The shell that serves the service does the
//! network part; the result is settled in a transaction. No content waits outside of the rows that a
//! withdrawal removes.

use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::{MemberId, WorkspaceId};
use crate::op::run::context::{Read, Write};
use crate::time::Time;

/// A delivery channel.
pub struct Way<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Selects the next `$3` workspaces after `$2` that have something waiting, by id: the id, the workspace
    /// that is charged, and whether it is live and a notification is due at `$1`.
    pub workspaces: &'static str,
    /// Selects the ids of up to `$3` members of the workspace `$1` with notifications due at `$2`, those that
    /// have waited longest first.
    pub members: &'static str,
    /// Takes a member's due notifications.
    pub take: Take<T>,
    /// Postpones a member's due notifications, after a failure to take them.
    pub put_off: PutOff,
    /// Whether a notification is still to be sent.
    pub is_current: IsCurrent<T>,
    /// Settles a batch.
    pub settle: Settle<T>,
}

/// Moves the due notifications of a member of the caller's workspace to another time.
///
/// It reads no content, since content may be the part that cannot be read.
pub type PutOff = fn(&mut Write<'_>, MemberId, Time) -> Result<()>;

/// Takes and leases the due notifications of a member of the caller's workspace; `None` if nothing is to be
/// sent now.
///
/// The caller is the service itself.
pub type Take<T> = fn(&mut Write<'_>, MemberId) -> Result<Option<Parcel<T>>>;

/// Returns whether the notification at this index is still to be sent: its message may be read or withdrawn
/// while the earlier ones of the batch are sent.
pub type IsCurrent<T> = fn(&Read<'_>, &Parcel<T>, usize) -> Result<bool>;

/// Records the result of each notification of a batch, in their order.
pub type Settle<T> = fn(&mut Write<'_>, &Parcel<T>, &[Arrival]) -> Result<()>;

/// A delivery batch: the notifications that one member has due on one channel.
pub struct Parcel<T: 'static> {
    way: &'static Way<T>,
    workspace_id: WorkspaceId,
    member_id: MemberId,
    pieces: Vec<T>,
}

impl<T> Parcel<T> {
    /// Creates a batch of notifications, which are sent one by one.
    pub fn new(way: &'static Way<T>, workspace_id: WorkspaceId, member_id: MemberId, pieces: Vec<T>) -> Self {
        Self { way, workspace_id, member_id, pieces }
    }

    /// Returns its channel.
    pub fn way(&self) -> &'static Way<T> {
        self.way
    }

    /// Returns the workspace of its member.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    /// Returns its member.
    pub fn member_id(&self) -> MemberId {
        self.member_id
    }

    /// Returns its notifications.
    pub fn pieces(&self) -> &[T] {
        &self.pieces
    }

    /// Returns the number of its notifications.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Fails unless there is a result for each notification.
    pub(crate) fn check(&self, arrivals: &[Arrival]) -> Result<()> {
        if arrivals.len() == self.count() {
            return Ok(());
        }
        Err(Error::internal(format!("{} pieces and {} arrivals", self.count(), arrivals.len())))
    }
}

impl<T> std::fmt::Debug for Parcel<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parcel({}, {} pieces)", self.way.name, self.count())
    }
}

/// The delivery result of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was accepted.
    Accepted,
    /// It may be accepted later, but not before the given delay, if there is one.
    Later {
        /// The receiver's response, or the reason for the failure.
        detail: String,
        /// The delay that the receiver has requested.
        after: Option<Duration>,
    },
    /// It will not be accepted, but others may be.
    Dropped {
        /// The receiver's response.
        detail: String,
    },
    /// The receiver will not accept any notification.
    Refused {
        /// The receiver's response.
        detail: String,
    },
    /// It was not sent, because an earlier one could not be, or because it was no longer due.
    NotTried,
}
