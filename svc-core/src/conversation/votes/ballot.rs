//! Ballots: what members choose. Each has one ballot in a vote, which it may change while the vote is open.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Stored, Vote, visible_vote};
use crate::Result;
use crate::conversation::places::{check_not_archived, visible_channel};
use crate::error::Error;
use crate::id::{MemberId, VoteId};
use crate::limits::{OPTION_INDEX_MAX, OPTIONS_MAX};
use crate::log::event::Event;
use crate::op::{Read, Write};
use crate::store::{columns, new_row};
use crate::text::{Count, Items};

/// A member cast its ballot in a vote, changed it or emptied it.
#[derive(Serialize, JsonSchema)]
pub(super) struct BallotCast {
    /// The vote.
    vote_id: VoteId,
    /// Whose ballot it is.
    member_id: MemberId,
    /// The indexes of the options that it chooses; none if it was emptied.
    options: Vec<i64>,
}

impl Event for BallotCast {
    const KIND: &'static str = "BallotCast";
}

/// Casts your ballot in a vote, in place of the one that you had, and returns the vote.
///
/// A delegate casts that of the member for whom it acts.
///
/// Fails with 409 `wrong-state` if the vote is closed, or if its channel is archived.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CastVote {
    /// The vote.
    vote_id: VoteId,
    /// The indexes of the options that you choose, from 0; none to empty your ballot.
    options: Items<Count<0, OPTION_INDEX_MAX>, OPTIONS_MAX>,
}

pub(super) fn cast_vote(cx: &mut Write<'_>, input: &CastVote) -> Result<Vote> {
    let stored = visible_vote(cx, input.vote_id)?;
    let member_id = cx.caller().member_id()?;
    let chosen: BTreeSet<i64> = input.options.iter().map(|option| option.get()).collect();
    check_fits(&stored, &chosen)?;
    if stored.closed(cx.now()).is_some() {
        return Err(Error::wrong_state("the vote is closed"));
    }
    check_not_archived(&visible_channel(cx, stored.channel_id)?)?;
    let before: Vec<(i64,)> = cx.query(OWN, &[&stored.id, &member_id])?;
    if before.into_iter().map(|(choice,)| choice).collect::<BTreeSet<i64>>() == chosen {
        return stored.open(cx);
    }
    let vote_id = stored.id;
    let event = BallotCast { vote_id, member_id, options: chosen.iter().copied().collect() };
    let lsn = cx.emit(stored.subject(), &event)?.lsn;
    cx.execute_any(EMPTY, &[&vote_id, &member_id])?;
    for choice in chosen {
        cx.insert(&new_row!("insert into ballots" { vote_id, choice, member_id, lsn }))?;
    }
    stored.open(cx)
}

const OWN: &str = "select choice from ballots where vote_id = $1 and member_id = $2";

const EMPTY: &str = "delete from ballots where vote_id = $1 and member_id = $2";

/// Fails unless the vote has the options, and as many may be chosen.
fn check_fits(vote: &Stored, chosen: &BTreeSet<i64>) -> Result<()> {
    if let Some(unknown) = chosen.iter().find(|choice| **choice >= vote.options) {
        let last = vote.options.saturating_sub(1);
        return Err(Error::in_field(
            "options",
            format!("expected indexes from 0 to {last}, found {unknown}"),
        ));
    }
    if chosen.len() > 1 && !vote.multiple {
        return Err(Error::in_field("options", "expected at most one option"));
    }
    Ok(())
}

/// A member that has chosen an option, with how many have.
pub(super) struct Chosen {
    pub choice: i64,
    pub member_id: MemberId,
    pub votes: i64,
}

columns! { chosen_columns: Chosen as b { choice, member_id, votes } }

/// Returns the first members who have chosen each option of a vote, at most so many of each.
pub(super) fn of_vote(cx: &Read<'_>, vote: VoteId, most: i64) -> Result<Vec<Chosen>> {
    cx.query(CHOSEN, &[&vote, &most])
}

const CHOSEN: &str = concat!(
    "select ",
    chosen_columns!(),
    " from (
        select choice, member_id, count(*) over (partition by choice) as votes,
            row_number() over (partition by choice order by lsn) as place
        from ballots where vote_id = $1) b
     where b.place <= $2 order by b.choice, b.place"
);
