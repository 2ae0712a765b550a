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
pub struct DeliveryChannel<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// Selects the next `$3` workspaces after `$2` that have something waiting, by id: the id, the workspace
    /// that is charged, and whether it is live and a notification is due at `$1`.
    pub workspaces: &'static str,
    /// Selects the ids of up to `$3` members of the workspace `$1` with notifications due at `$2`, those that
    /// have waited longest first.
    pub members: &'static str,
    /// Takes a member's due notifications.
    pub take: TakeBatch<T>,
    /// Postpones a member's due notifications, after a failure to take them.
    pub postpone: PostponeDelivery,
    /// Whether a notification is still to be sent.
    pub is_current: IsStillDue<T>,
    /// Settles a batch.
    pub settle: SettleBatch<T>,
}

/// Moves the due notifications of a member of the caller's workspace to another time.
///
/// It reads no content, since content may be the part that cannot be read.
pub type PostponeDelivery = fn(&mut Write<'_>, MemberId, Time) -> Result<()>;

/// Takes and leases the due notifications of a member of the caller's workspace; `None` if nothing is to be
/// sent now.
///
/// The caller is the service itself.
pub type TakeBatch<T> = fn(&mut Write<'_>, MemberId) -> Result<Option<DeliveryBatch<T>>>;

/// Returns whether the notification at this index is still to be sent: its message may be read or withdrawn
/// while the earlier ones of the batch are sent.
pub type IsStillDue<T> = fn(&Read<'_>, &DeliveryBatch<T>, usize) -> Result<bool>;

/// Records the result of each notification of a batch, in their order.
pub type SettleBatch<T> = fn(&mut Write<'_>, &DeliveryBatch<T>, &[DeliveryResult]) -> Result<()>;

/// A delivery batch: the notifications that one member has due on one channel.
pub struct DeliveryBatch<T: 'static> {
    channel: &'static DeliveryChannel<T>,
    workspace_id: WorkspaceId,
    member_id: MemberId,
    pieces: Vec<T>,
}

impl<T> DeliveryBatch<T> {
    /// Creates a batch of notifications, which are sent one by one.
    pub fn new(
        channel: &'static DeliveryChannel<T>,
        workspace_id: WorkspaceId,
        member_id: MemberId,
        pieces: Vec<T>,
    ) -> Self {
        Self { channel, workspace_id, member_id, pieces }
    }

    /// Returns its channel.
    pub fn channel(&self) -> &'static DeliveryChannel<T> {
        self.channel
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
    pub fn notifications(&self) -> &[T] {
        &self.pieces
    }

    /// Returns the number of its notifications.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Fails unless there is a result for each notification.
    pub(crate) fn check(&self, results: &[DeliveryResult]) -> Result<()> {
        if results.len() == self.count() {
            return Ok(());
        }
        Err(Error::internal(format!("{} notifications and {} results", self.count(), results.len())))
    }
}

impl<T> std::fmt::Debug for DeliveryBatch<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeliveryBatch({}, {} notifications)", self.channel.name, self.count())
    }
}

/// The delivery result of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
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
