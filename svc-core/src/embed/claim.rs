//! Claims that a program holds: renewed until they end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::lease::HeldLease;
use super::member::Member;
use crate::api::{
    ClaimNextThread, ClaimNextWorkspaceThread, ClaimThread, ClaimWithContext, HandOffClaim, NextClaim,
    PostMessage, ReleaseClaim, RenewClaim, SetThreadResult, Thread,
};
use crate::error::{Code, Error, Result};
use crate::id::{ChannelId, LeaseId, MemberId, MessageId, ThreadId};

/// The task that a program wants to claim.
#[derive(Clone, Debug, Default)]
pub struct ClaimOptions {
    pub(super) channel: Option<ChannelId>,
    pub(super) repo: Option<String>,
    lease: Option<Duration>,
    resume: bool,
}

impl ClaimOptions {
    /// Creates the options for any task, with the default lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// Claims only a thread of a channel.
    #[must_use]
    pub fn channel(self, id: ChannelId) -> Self {
        Self { channel: Some(id), ..self }
    }

    /// Claims only a thread whose footprint is in a repository, such as `acme/app`.
    #[must_use]
    pub fn repo(self, repo: &str) -> Self {
        Self { repo: Some(repo.to_owned()), ..self }
    }

    /// Sets the lease, in whole seconds. The claim is renewed after a third of it.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Sets whether to return a claim that the member already holds, such as that of a crashed process.
    #[must_use]
    pub fn resume(self, resume: bool) -> Self {
        Self { resume, ..self }
    }

    /// Returns the lease in seconds, if one is set.
    pub(super) fn lease_secs(&self) -> Option<i64> {
        self.lease.map(|lease| i64::try_from(lease.as_secs()).unwrap_or(i64::MAX))
    }
}

/// Returns a request for a claim with the options that all such requests have.
macro_rules! with_options {
    ($request:expr, $options:expr) => {{
        let request = $request.acknowledge(true).resume($options.resume);
        match $options.lease_secs() {
            Some(secs) => request.lease_secs(secs),
            None => request,
        }
    }};
}

/// Returns a request for the next thread with the repository of the options.
macro_rules! with_repo {
    ($request:expr, $options:expr) => {
        match &$options.repo {
            Some(repo) => $request.repo(repo),
            None => $request,
        }
    };
}

impl Member {
    /// Claims the next ready thread, acknowledges the claim, and keeps it renewed.
    ///
    /// Returns `None` if no thread can be claimed. A claim that this process already holds is not resumed.
    pub fn claim_next(&self, options: &ClaimOptions) -> Result<Option<Claim>> {
        // Closing waits until the claim is registered, so that it can release the claim.
        let _call = self.service().calls().begin()?;
        let first = self.try_claim_next(self, options)?;
        match first {
            Attempt::Claimed(claim) => Ok(Some(claim)),
            Attempt::Nothing => Ok(None),
            Attempt::HeldHere => {
                match self.try_claim_next(&self.without_key(), &options.clone().resume(false))? {
                    Attempt::Claimed(claim) => Ok(Some(claim)),
                    Attempt::Nothing | Attempt::HeldHere => Ok(None),
                }
            }
        }
    }

    fn try_claim_next(&self, member: &Self, options: &ClaimOptions) -> Result<Attempt> {
        let (next, lsn) = match options.channel {
            Some(channel) => {
                let request = with_options!(ClaimNextThread::new(channel), options);
                member.call_at(&with_repo!(request, options))?
            }
            None => {
                let request = with_options!(ClaimNextWorkspaceThread::new(), options);
                member.call_at(&with_repo!(request, options))?
            }
        };
        match next {
            NextClaim::Thread(claimed) => Claim::keep_renewed(self, *claimed, lsn, options),
            NextClaim::Nothing {} => Ok(Attempt::Nothing),
        }
    }

    /// Claims a thread, acknowledges the claim, and keeps it renewed.
    ///
    /// The options `channel` and `repo` have no effect. Fails with 409 `not-claimable` if this process
    /// already holds the claim that would be resumed.
    pub fn claim(&self, thread: ThreadId, options: &ClaimOptions) -> Result<Claim> {
        let _call = self.service().calls().begin()?;
        let (claimed, lsn) = self.call_at(&with_options!(ClaimThread::new(thread), options))?;
        match Claim::keep_renewed(self, claimed, lsn, options)? {
            Attempt::Claimed(claim) => Ok(claim),
            Attempt::Nothing | Attempt::HeldHere => {
                Err(Error::new(Code::NotClaimable, "this process already holds the claim"))
            }
        }
    }
}

/// The result of an attempt to claim a thread.
enum Attempt {
    Claimed(Claim),
    Nothing,
    /// The member's claim that was resumed is already held by this process.
    HeldHere,
}

/// A claim that a program holds.
///
/// The claim is renewed at a third of its lease, until it ends: by [`finish`](Claim::finish),
/// [`release`](Claim::release), [`hand_off`](Claim::hand_off) or [`keep`](Claim::keep), or because it was
/// lost. Dropping the value releases the claim, also during a panic.
pub struct Claim {
    held: Arc<HeldLease>,
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({})", self.held.thread.id)
    }
}

impl Claim {
    /// Registers a new claim for renewal.
    fn keep_renewed(
        member: &Member,
        claimed: ClaimWithContext,
        lsn: i64,
        options: &ClaimOptions,
    ) -> Result<Attempt> {
        let thread = claimed.claimed.thread;
        let held = thread.held.ok_or_else(|| Error::internal("a claimed thread has no claim"))?;
        let lease =
            HeldLease::new(member.without_key(), thread, held.lease_id, held.until, options.lease_secs());
        // Built first, so that a failure releases the claim.
        let claim = Self { held: Arc::new(lease) };
        if claim.held.keep(lsn)? {
            return Ok(Attempt::Claimed(claim));
        }
        // The other value releases the claim.
        claim.held.end();
        Ok(Attempt::HeldHere)
    }

    /// Returns the thread, as it was claimed.
    pub fn thread(&self) -> &Thread {
        &self.held.thread
    }

    /// Returns the fencing id of the claim.
    pub fn lease_id(&self) -> LeaseId {
        self.held.id
    }

    /// Stores a checkpoint, a JSON object: the progress of the work, which the next holder receives.
    ///
    /// Also renews the claim.
    pub fn checkpoint(&self, value: Value) -> Result<()> {
        let request = RenewClaim::new(self.held.thread.id).claim_lease_id(self.held.id).checkpoint(value);
        let request = match self.held.secs {
            Some(secs) => request.lease_secs(secs),
            None => request,
        };
        let renewed = self.held.change(|| self.held.member.call(&request))?;
        self.held.renewed(renewed.lease_expires_at);
        Ok(())
    }

    /// Posts a message in the thread, and returns the message's id.
    ///
    /// Fails with the reason if the claim was lost. A loss within the last 2 seconds may not be known yet.
    pub fn post(&self, body: &str) -> Result<MessageId> {
        let request = PostMessage::new(self.held.thread.id, body);
        self.held.change(|| self.held.member.call(&request)).map(|posted| posted.id)
    }

    /// Returns whether the claim is held.
    pub fn is_live(&self) -> bool {
        self.held.check_held().is_ok()
    }

    /// Returns the reason why the claim was lost, or `None` if it is held or was ended by this value.
    pub fn lost(&self) -> Option<Error> {
        self.held.lost()
    }

    /// Sets a function that is called once with the reason, if the claim is lost: immediately, if it already
    /// is.
    ///
    /// A separate thread calls the functions of all claims, one after the other.
    pub fn on_lost(&self, callback: impl FnOnce(&Error) + Send + 'static) {
        self.held.on_lost(Box::new(callback));
    }

    /// Sets the result of the thread, a JSON object, and ends the claim. If that fails, the claim stays held.
    pub fn finish(&self, result: Value) -> Result<()> {
        let request = SetThreadResult::new(self.held.thread.id, result).claim_lease_id(self.held.id);
        self.held.end_by(|| self.held.member.call(&request)).map(drop)
    }

    /// Releases the claim, so that the thread can be claimed again. If that fails, the claim stays held.
    pub fn release(&self) -> Result<()> {
        let request = ReleaseClaim::new(self.held.thread.id, self.held.id);
        self.held.end_by(|| self.held.member.call(&request)).map(drop)
    }

    /// Releases the claim with a last checkpoint.
    pub(super) fn release_with(&self, checkpoint: Value) -> Result<()> {
        let request = ReleaseClaim::new(self.held.thread.id, self.held.id).checkpoint(checkpoint);
        self.held.end_by(|| self.held.member.call(&request)).map(drop)
    }

    /// Transfers the claim to another member. If that fails, the claim stays held.
    pub fn hand_off(&self, to: MemberId) -> Result<()> {
        let request = HandOffClaim::new(self.held.thread.id, to).claim_lease_id(self.held.id);
        self.held.end_by(|| self.held.member.call(&request)).map(drop)
    }

    /// Ends the renewal, and leaves the claim held until its lease ends. Returns the lease id.
    pub fn keep(self) -> LeaseId {
        self.held.end();
        self.held.id
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.held.end() {
            return;
        }
        let request = ReleaseClaim::new(self.held.thread.id, self.held.id);
        if let Err(error) = self.held.member.call_while_closing(&request) {
            let thread = self.held.thread.id;
            tracing::warn!(%thread, %error, "a claim was not released; its lease will end");
        }
    }
}
