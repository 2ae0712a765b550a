//! Delivery channels, such as mail and web push, which send notifications to members outside of the service.
//!
//! A channel takes due notifications in batches. Each batch contains all notifications that are due for one
//! member on that channel. Taking a batch leases its rows by moving their due time ahead, so only one process
//! at a time has the batch. If that process dies, another process takes the batch later. The shell sends the
//! notifications over the network, and a transaction records the results. No content is stored outside of the
//! rows that a withdrawal removes.

use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::{MemberId, WorkspaceId};
use crate::op::run::context::{Read, Write};
use crate::time::Time;

/// A delivery channel for notifications of type `T`.
pub struct DeliveryChannel<T: 'static> {
    /// Name of the delivery channel.
    pub name: &'static str,
    /// SQL that selects the next `$3` workspaces with pending notifications, by id, after the id `$2`.
    ///
    /// The columns are the id, the workspace that is charged, and whether the workspace is live and has a
    /// notification that is due at `$1`.
    pub workspaces: &'static str,
    /// SQL that selects the ids of up to `$3` members of the workspace `$1` with notifications that are due
    /// at `$2`, longest waiting first.
    pub members: &'static str,
    /// Leases and returns the due notifications of one member.
    pub take: TakeBatch<T>,
    /// Postpones the due notifications of one member, after taking them has failed.
    pub postpone: PostponeDelivery,
    /// Returns whether a notification should still be sent.
    pub is_current: IsStillDue<T>,
    /// Records the result of each notification of a batch.
    pub settle: SettleBatch<T>,
}

/// Postpones one member's due notifications to the given time, in the caller's workspace.
///
/// Does not read content, because the content may be unreadable.
pub type PostponeDelivery = fn(&mut Write<'_>, MemberId, Time) -> Result<()>;

/// Leases and returns the due notifications of one member, in the caller's workspace, or returns `None` if
/// there is nothing to send now.
///
/// The caller is the service itself.
pub type TakeBatch<T> = fn(&mut Write<'_>, MemberId) -> Result<Option<DeliveryBatch<T>>>;

/// Returns whether the notification at the given index of a batch should still be sent.
///
/// The message of the notification may be read or withdrawn while earlier notifications of the batch are
/// sent.
pub type IsStillDue<T> = fn(&Read<'_>, &DeliveryBatch<T>, usize) -> Result<bool>;

/// Records the results of a batch. The results have the order of the notifications.
pub type SettleBatch<T> = fn(&mut Write<'_>, &DeliveryBatch<T>, &[DeliveryResult]) -> Result<()>;

/// A delivery batch: all notifications that are due for one member on one channel.
pub struct DeliveryBatch<T: 'static> {
    channel: &'static DeliveryChannel<T>,
    workspace_id: WorkspaceId,
    member_id: MemberId,
    notifications: Vec<T>,
}

impl<T> DeliveryBatch<T> {
    /// Creates a batch of notifications, which are sent one by one.
    pub fn new(
        channel: &'static DeliveryChannel<T>,
        workspace_id: WorkspaceId,
        member_id: MemberId,
        notifications: Vec<T>,
    ) -> Self {
        Self { channel, workspace_id, member_id, notifications }
    }

    /// Returns the delivery channel of the batch.
    pub fn channel(&self) -> &'static DeliveryChannel<T> {
        self.channel
    }

    /// Returns the workspace of the member that receives the batch.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    /// Returns the id of the member that receives the batch.
    pub fn member_id(&self) -> MemberId {
        self.member_id
    }

    /// Returns the notifications of the batch.
    pub fn notifications(&self) -> &[T] {
        &self.notifications
    }

    /// Returns the number of notifications in the batch.
    pub fn count(&self) -> usize {
        self.notifications.len()
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
    /// The receiver may accept the notification later.
    Later {
        /// Response of the receiver, or the reason for the failure.
        detail: String,
        /// Delay before the next attempt, if the receiver requested one.
        after: Option<Duration>,
    },
    /// The receiver will never accept this notification, but may accept other notifications.
    Dropped {
        /// Response of the receiver, as text.
        detail: String,
    },
    /// The receiver will never accept a notification.
    Refused {
        /// Response of the receiver, as text.
        detail: String,
    },
    /// The notification was not sent, because an earlier notification of the batch failed or because this one
    /// is no longer due.
    NotTried,
}
