//! Delivery channels, which send notifications for members out of the service.
//!
//! A channel takes due notifications in batches. Each batch contains all notifications that are due for one
//! member on that channel. Taking a batch leases its rows by moving their due time ahead, so only one process
//! has a batch at a time. If that process dies, another one takes the batch later. The shell that serves the
//! service does the network part; the result is settled in a transaction. No content is stored outside of the
//! rows that a withdrawal removes.

use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::{MemberId, WorkspaceId};
use crate::op::run::context::{Read, Write};
use crate::time::Time;

/// A delivery channel for notifications of type `T`.
pub struct DeliveryChannel<T: 'static> {
    /// The name of the channel.
    pub name: &'static str,
    /// SQL: selects the next `$3` workspaces after the id `$2` with pending notifications, by id: the id, the
    /// workspace that is charged, and whether it is live and a notification is due at `$1`.
    pub workspaces: &'static str,
    /// SQL: selects the ids of up to `$3` members of the workspace `$1` with notifications due at `$2`,
    /// longest waiting first.
    pub members: &'static str,
    /// Takes a member's due notifications.
    pub take: TakeBatch<T>,
    /// Postpones a member's due notifications after they could not be taken.
    pub postpone: PostponeDelivery,
    /// Returns whether a notification should still be sent.
    pub is_current: IsStillDue<T>,
    /// Records the results of a batch.
    pub settle: SettleBatch<T>,
}

/// Moves the due notifications of a member of the caller's workspace to another time.
///
/// Does not read content, because the content may be unreadable.
pub type PostponeDelivery = fn(&mut Write<'_>, MemberId, Time) -> Result<()>;

/// Takes and leases the due notifications of a member of the caller's workspace, or returns `None` if nothing
/// is to be sent now.
///
/// The caller is the service itself.
pub type TakeBatch<T> = fn(&mut Write<'_>, MemberId) -> Result<Option<DeliveryBatch<T>>>;

/// Returns whether the notification at this index should still be sent.
///
/// Its message may be read or withdrawn while earlier notifications of the batch are sent.
pub type IsStillDue<T> = fn(&Read<'_>, &DeliveryBatch<T>, usize) -> Result<bool>;

/// Records the result of each notification of a batch, in the order of the notifications.
pub type SettleBatch<T> = fn(&mut Write<'_>, &DeliveryBatch<T>, &[DeliveryResult]) -> Result<()>;

/// A delivery batch: all notifications that are due for one member on one channel.
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

    /// Returns the channel of the batch.
    pub fn channel(&self) -> &'static DeliveryChannel<T> {
        self.channel
    }

    /// Returns the workspace of the batch's member.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    /// Returns the member that the batch is for.
    pub fn member_id(&self) -> MemberId {
        self.member_id
    }

    /// Returns the notifications of the batch.
    pub fn notifications(&self) -> &[T] {
        &self.pieces
    }

    /// Returns the number of notifications in the batch.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Fails unless there is exactly one result for each notification.
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

/// The result of delivering one notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The receiver accepted the notification.
    Accepted,
    /// The receiver may accept the notification later, after the given delay if there is one.
    Later {
        /// The receiver's response, or the reason for the failure.
        detail: String,
        /// The delay that the receiver requested.
        after: Option<Duration>,
    },
    /// The receiver will not accept this notification, but may accept others.
    Dropped {
        /// The receiver's response.
        detail: String,
    },
    /// The receiver will not accept any notification.
    Refused {
        /// The receiver's response.
        detail: String,
    },
    /// The notification was not sent, because an earlier one failed or because it was no longer due.
    NotTried,
}
