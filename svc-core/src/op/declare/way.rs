//! Ways out: how what members are told leaves the service.
//!
//! A way takes what is due as parcels, each with all that one member has due on it at that moment. Taking
//! leases the rows behind a parcel by moving their due ahead, so a parcel is with one process at a time, and
//! one whose process dies is taken again. The network is left to the shell that serves the service; what came
//! of it is settled in a transaction. No words wait outside of the rows that a withdrawal removes.

use std::any::Any;
use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::{MemberId, WorkspaceId};
use crate::op::run::context::{Read, Write};
use crate::time::Time;

/// A way out.
#[derive(Clone, Copy)]
pub struct Way {
    /// Its name, by which a sender finds it.
    pub name: &'static str,
    /// Where what is to be sent waits.
    pub queue: Queue,
    /// Whether a piece is still to be sent.
    pub is_current: IsCurrent,
    /// Settles a parcel.
    pub settle: Settle,
}

/// Where what is to be sent on a way waits.
#[derive(Clone, Copy)]
pub enum Queue {
    /// In rows of the feature's own.
    Own(OwnQueue),
}

/// A queue in rows of a feature.
#[derive(Clone, Copy)]
pub struct OwnQueue {
    /// Selects the next `$3` workspaces after `$2` that have something waiting, by id: the id, the workspace
    /// that is charged, and whether it is live and something is due at `$1`.
    pub workspaces: &'static str,
    /// Selects the id of at most `$3` members of the workspace `$1` that have something due at `$2`, those
    /// first that have waited longest.
    pub members: &'static str,
    /// Takes what a member has due.
    pub take: Take,
    /// Puts off what a member has due, which could not be taken.
    pub put_off: PutOff,
}

/// Makes what a member of the caller's workspace has due by now due at another time.
///
/// It reads nothing of what the member has said, which may be what cannot be read.
pub type PutOff = fn(&mut Write<'_>, MemberId, Time) -> Result<()>;

/// Takes what a member of the caller's workspace has due, and leases it; none if nothing is to be sent now.
///
/// The caller is the service itself.
pub type Take = fn(&mut Write<'_>, MemberId) -> Result<Option<Parcel>>;

/// Returns whether the piece at this place is still to be sent: a parcel has several, and what they tell of
/// may be read or withdrawn while those before are sent.
pub type IsCurrent = fn(&Read<'_>, &Parcel, usize) -> Result<bool>;

/// Records what became of each piece of a parcel, in their order.
pub type Settle = fn(&mut Write<'_>, &Parcel, &[Arrival]) -> Result<()>;

/// What one member has due on one way.
pub struct Parcel {
    way: &'static str,
    workspace_id: WorkspaceId,
    member_id: MemberId,
    count: usize,
    pieces: Box<dyn Any + Send + Sync>,
}

impl Parcel {
    /// Creates a parcel of pieces, which are sent one by one.
    pub fn new<T: Send + Sync + 'static>(
        way: &'static str,
        workspace_id: WorkspaceId,
        member_id: MemberId,
        pieces: Vec<T>,
    ) -> Self {
        Self { way, workspace_id, member_id, count: pieces.len(), pieces: Box::new(pieces) }
    }

    /// Returns the name of its way.
    pub fn way(&self) -> &'static str {
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

    /// Returns its pieces, whose type is that of its way.
    pub fn pieces<T: 'static>(&self) -> &[T] {
        self.pieces.downcast_ref::<Vec<T>>().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns how many pieces it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Fails unless there is an arrival for each piece.
    pub(crate) fn check(&self, arrivals: &[Arrival]) -> Result<()> {
        if arrivals.len() == self.count {
            return Ok(());
        }
        Err(Error::internal(format!("{} pieces and {} arrivals", self.count, arrivals.len())))
    }
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parcel({}, {} pieces)", self.way, self.count)
    }
}

/// What became of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It was accepted.
    Accepted,
    /// It may be accepted later, not before this time has passed if there is one.
    Later {
        /// What the receiver said, or what was in the way.
        detail: String,
        /// What the receiver has asked for.
        after: Option<Duration>,
    },
    /// It will not be accepted, but others may be.
    Dropped {
        /// What the receiver said.
        detail: String,
    },
    /// Nothing that is sent there will be accepted.
    Refused {
        /// What the receiver said.
        detail: String,
    },
    /// It was not sent, because one before it could not be, or it was no longer to be sent.
    NotTried,
}
