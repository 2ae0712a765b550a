//! Closing a vote: by a member, at its closing time, or when its question is withdrawn.

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::ballot::{VoteTally, load_tally};
use super::{StoredVote, Vote, visible_vote, vote_columns};
use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::error::Error;
use crate::id::{MemberId, MessageId, VoteId};
use crate::identity::workspaces::is_live;
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Caller, Chore, DestroyPermit, DueObjects, Write};
use crate::request::request;
use crate::store::Engine;
use crate::time::Time;

/// Reason why a vote was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Reason")]
enum CloseReason {
    /// A member closed the vote.
    Closed,
    /// The closing time of the vote has passed.
    Due,
    /// The message with the question was withdrawn.
    Withdrawn,
}

/// A vote was closed.
#[derive(Serialize, JsonSchema)]
pub(super) struct VoteClosed {
    /// Id of the vote.
    vote_id: VoteId,
    /// Number of members who have chosen each option, in the order of the options.
    tally: Vec<i64>,
    /// Number of members who have chosen at least one option.
    ballots: i64,
    /// Id of the member who closed the vote or withdrew its question; null if the vote closed automatically.
    closed_by: Option<MemberId>,
    /// Reason why the vote was closed.
    reason: CloseReason,
}

impl Event for VoteClosed {
    const KIND: &'static str = "VoteClosed";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let vote = event.row_of("votes", "vote_id")?.copy("closed_by");
        // A vote whose closing time has passed counts as closed at that time, not at the time of the event.
        let is_due = event.text("reason") == Some(DUE_REASON_NAME);
        let closed_at = if is_due { vote.value("closes_at").cloned() } else { Some(event.at()) };
        vote.set_known("closed_at", closed_at).keep()
    }
}

/// [`CloseReason::Due`] as a string in JSON.
const DUE_REASON_NAME: &str = "due";

request! {
    /// Closes a vote and returns the vote. Closing a closed vote changes nothing.
    ///
    /// Fails with 403 `forbidden` if you did not open the vote and lack `channel:admin`.
    #[derive(Serialize)]
    pub(super) struct CloseVote {
        /// Id of the vote.
        vote_id: VoteId,
    }

    close_vote(vote_id: VoteId) -> Vote
}

pub(super) fn close_vote(cx: &mut Write<'_>, input: &CloseVote) -> Result<Vote> {
    let mut stored = visible_vote(cx, input.vote_id)?;
    check_may_close(cx.caller(), stored.created_by)?;
    if stored.closing_time(cx.now()).is_none() {
        (stored.closed_at, stored.closed_by) = close_with_reason(cx, &stored, CloseReason::Closed)?;
    }
    stored.load(cx)
}

/// Fails unless the caller opened the vote or has `channel:admin`.
fn check_may_close(caller: &Caller, created_by: MemberId) -> Result<()> {
    if caller.member == Some(created_by) || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    Err(Error::forbidden("only the member who opened a vote, or a member with channel:admin, can close it"))
}

/// Closes an open vote with the given reason, or with the reason `due` if its closing time has passed.
/// Returns the time of closing and the member who closed the vote.
fn close_with_reason(
    cx: &mut Write<'_>,
    vote: &StoredVote,
    reason: CloseReason,
) -> Result<(Option<Time>, Option<MemberId>)> {
    let due = vote.closes_at.filter(|end| *end <= cx.now());
    let reason = if due.is_some() { CloseReason::Due } else { reason };
    let closed_by = cx.caller().member.filter(|_| reason != CloseReason::Due);
    let VoteTally { per_option: tally, ballots } = load_tally(cx, vote.id, vote.options)?;
    let event = VoteClosed { vote_id: vote.id, tally, ballots, closed_by, reason };
    let recorded = cx.emit(vote.subject(), &event)?;
    let closed_at = Some(due.unwrap_or(recorded.at));
    cx.execute(1, CLOSE_VOTE, &[&vote.id, &closed_at, &closed_by])?;
    Ok((closed_at, closed_by))
}

const CLOSE_VOTE: &str =
    "update votes set closed_at = $2, closed_by = $3 where id = $1 and closed_at is null";

/// Returns the chore that closes votes whose closing time has passed.
pub(super) fn due_votes_chore() -> Chore {
    DueObjects { next: FIND_DUE, settle: close_due }.chore("votes")
}

/// SQL query for open votes whose closing time has passed. It uses the index of open votes with a closing
/// time.
const FIND_DUE: &str = concat!(
    "select v.closes_at, v.id, v.workspace_id from votes v
     where v.closed_at is null and v.closes_at is not null and v.closes_at <= $1
        and (v.closes_at, v.id) > ($2, $3) and ",
    is_live!("v.workspace_id"),
    " order by v.closes_at, v.id limit $4"
);

/// Closes each of the given votes if it is open and its closing time has passed. Votes of other workspaces
/// are skipped.
fn close_due(cx: &mut Write<'_>, votes: &[Uuid]) -> Result<()> {
    for id in votes {
        let due: Option<StoredVote> = cx.one(SELECT_IF_DUE, &[id, &cx.caller().workspace_id, &cx.now()])?;
        if let Some(vote) = due {
            close_with_reason(cx, &vote, CloseReason::Due)?;
        }
    }
    Ok(())
}

const SELECT_IF_DUE: &str = concat!(
    "select ",
    vote_columns!(),
    " from votes v
     where v.id = $1 and v.workspace_id = $2
        and v.closed_at is null and v.closes_at is not null and v.closes_at <= $3"
);

/// Closes the open votes whose questions are among the given withdrawn messages.
pub(super) fn close_withdrawn(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    let ids: Vec<Uuid> = messages.iter().map(|id| id.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => SELECT_OPEN_SQLITE,
        Engine::Postgres => SELECT_OPEN_POSTGRES,
    };
    let open: Vec<StoredVote> = cx.query(sql, &[&ids])?;
    open.iter().try_for_each(|vote| close_with_reason(cx, vote, CloseReason::Withdrawn).map(drop))
}

macro_rules! select_open {
    ($which:literal) => {
        concat!(
            "select ",
            vote_columns!(),
            " from votes v where v.closed_at is null and v.message_id ",
            $which
        )
    };
}

const SELECT_OPEN_SQLITE: &str = select_open!("in (select unhex(value) from json_each($1)) order by v.lsn");

const SELECT_OPEN_POSTGRES: &str = select_open!("= any($1) order by v.lsn");

/// Closes and removes the votes whose questions are among the given messages, together with their ballots.
pub(super) fn remove_votes(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    close_withdrawn(cx, permit, messages)?;
    messages.iter().try_for_each(|id| {
        cx.execute_any(DELETE_BALLOTS, &[id])?;
        cx.execute_any(DELETE_COUNTS, &[id])?;
        cx.execute_any(DELETE_VOTES, &[id])
    })
}

const DELETE_BALLOTS: &str =
    "delete from ballots where vote_id in (select v.id from votes v where v.message_id = $1)";

const DELETE_COUNTS: &str =
    "delete from ballot_counts where vote_id in (select v.id from votes v where v.message_id = $1)";

const DELETE_VOTES: &str = "delete from votes where message_id = $1";
