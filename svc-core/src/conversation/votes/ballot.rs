//! Ballots: the choices of members in votes. A member has one ballot per vote, and may change it while the
//! vote is open.
//!
//! The count of each option is stored in a separate row, so that reading a vote does not count all ballots.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{StoredVote, Vote, visible_vote};
use crate::Result;
use crate::conversation::visibility::{check_not_archived, visible_channel};
use crate::error::Error;
use crate::id::{MemberId, VoteId};
use crate::limits::{OPTION_INDEX_MAX, VOTE_OPTIONS_MAX, VOTERS_LISTED_MAX};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, RowColumns, Write};
use crate::request::request;
use crate::store::new_row;
use crate::text::{Count, Items};

/// A member cast, changed or emptied a ballot in a vote.
#[derive(Serialize, JsonSchema)]
pub(super) struct BallotCast {
    /// Id of the vote.
    vote_id: VoteId,
    /// Id of the member who owns the ballot.
    member_id: MemberId,
    /// Indexes of the chosen options; empty if the ballot was emptied.
    options: Vec<i64>,
}

impl Event for BallotCast {
    const KIND: &'static str = "BallotCast";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let (Some(vote), Some(member)) = (event.field("vote_id"), event.field("member_id")) else {
            return Ok(());
        };
        let ballot = [vote.clone(), member.clone()];
        event.rows("ballots", &ballot, |choice| choice.remove())?;
        for choice in event.list("options") {
            let row = event.row("ballots", ballot.iter().chain([choice]).cloned())?.made();
            row.set("lsn", event.lsn()).keep()?;
        }
        Ok(())
    }
}

request! {
    /// Casts your ballot in a vote, which replaces your earlier ballot, and returns the vote.
    ///
    /// A delegate casts the ballot of the member for whom it acts.
    ///
    /// Fails with 409 `wrong-state` if the vote is closed, or if the vote's channel is archived.
    #[derive(Serialize)]
    pub(super) struct CastVote {
        /// Id of the vote.
        vote_id: VoteId,
        /// Indexes of the options that you choose, starting at 0; `[]` empties your ballot.
        options: Items<Count<0, OPTION_INDEX_MAX>, VOTE_OPTIONS_MAX>,
    }

    cast_vote(vote_id: VoteId, options: Items<Count<0, OPTION_INDEX_MAX>, VOTE_OPTIONS_MAX>) -> Vote
}

pub(super) fn cast_vote(cx: &mut Write<'_>, input: &CastVote) -> Result<Vote> {
    let stored = visible_vote(cx, input.vote_id)?;
    let member_id = cx.caller().member_id()?;
    let chosen: BTreeSet<i64> = input.options.iter().map(|option| option.get()).collect();
    check_choices(&stored, &chosen)?;
    if stored.closing_time(cx.now()).is_some() {
        return Err(Error::wrong_state("the vote is closed"));
    }
    check_not_archived(&visible_channel(cx, stored.channel_id)?)?;
    let before: Vec<(i64,)> = cx.query(OWN_CHOICES, &[&stored.id, &member_id])?;
    let before: BTreeSet<i64> = before.into_iter().map(|(choice,)| choice).collect();
    if before == chosen {
        return stored.load(cx);
    }
    let vote_id = stored.id;
    let event = BallotCast { vote_id, member_id, options: chosen.iter().copied().collect() };
    let lsn = cx.emit(stored.subject(), &event)?.lsn;
    add_to_counts(cx, vote_id, &before, &chosen)?;
    cx.execute_any(DELETE_BALLOT, &[&vote_id, &member_id])?;
    for choice in chosen {
        cx.insert(&new_row!("insert into ballots" { vote_id, choice, member_id, lsn }))?;
    }
    stored.load(cx)
}

const OWN_CHOICES: &str = "select choice from ballots where vote_id = $1 and member_id = $2";

const DELETE_BALLOT: &str = "delete from ballots where vote_id = $1 and member_id = $2";

/// Fails if the vote does not have all chosen options, or does not allow several choices.
fn check_choices(vote: &StoredVote, chosen: &BTreeSet<i64>) -> Result<()> {
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

/// The counts of a vote's ballots.
pub(super) struct VoteTally {
    /// Number of members who have chosen each option, in the order of the options.
    pub per_option: Vec<i64>,
    /// Number of members who have chosen at least one option.
    pub ballots: i64,
}

/// Pseudo index of an option. Its count is the number of members with a non-empty ballot.
const ANY_OPTION: i64 = -1;

/// Loads the counts of a vote. `options` is the number of options of the vote.
pub(super) fn load_tally(cx: &Read<'_>, vote: VoteId, options: i64) -> Result<VoteTally> {
    let per_option = vec![0; usize::try_from(options).unwrap_or_default()];
    let mut tally = VoteTally { per_option, ballots: 0 };
    for (choice, total) in cx.query::<(i64, i64)>(SELECT_COUNTS, &[&vote])? {
        let option = usize::try_from(choice).ok().and_then(|choice| tally.per_option.get_mut(choice));
        match option {
            Some(option) => *option = total,
            None if choice == ANY_OPTION => tally.ballots = total,
            None => {}
        }
    }
    Ok(tally)
}

const SELECT_COUNTS: &str = "select choice, total from ballot_counts where vote_id = $1";

/// Adds the difference between a member's old and new ballots to the counts of a vote.
fn add_to_counts(
    cx: &mut Write<'_>,
    vote: VoteId,
    before: &BTreeSet<i64>,
    after: &BTreeSet<i64>,
) -> Result<()> {
    let any = i64::from(!after.is_empty()) - i64::from(!before.is_empty());
    let added = after.difference(before).map(|choice| (*choice, 1));
    let removed = before.difference(after).map(|choice| (*choice, -1));
    let changes = added.chain(removed).chain(Some((ANY_OPTION, any)).filter(|(_, any)| *any != 0));
    changes
        .into_iter()
        .try_for_each(|(choice, change)| cx.execute(1, ADD_TO_COUNT, &[&vote, &choice, &change]))
}

const ADD_TO_COUNT: &str = "
    insert into ballot_counts (vote_id, choice, total) values ($1, $2, $3)
    on conflict (vote_id, choice) do update set total = ballot_counts.total + excluded.total";

/// Updates the counts of a vote for a row of `ballots` that an import has inserted.
pub(super) fn count_imported(cx: &mut Write<'_>, row: &RowColumns<'_>) -> Result<()> {
    let vote = row.id("vote_id");
    let member = row.id("member_id");
    let choice = row.int("choice");
    cx.execute(1, ADD_TO_COUNT, &[&vote, &choice, &1_i64])?;
    cx.execute_any(ADD_TO_COUNT_IF_FIRST, &[&vote, &ANY_OPTION, &member, &choice])
}

const ADD_TO_COUNT_IF_FIRST: &str = "
    insert into ballot_counts (vote_id, choice, total)
    select $1, $2, 1
    where not exists (select 1 from ballots where vote_id = $1 and member_id = $3 and choice <> $4)
    on conflict (vote_id, choice) do update set total = ballot_counts.total + 1";

/// Returns the ids of the first members who have chosen an option, in the order of their choices.
pub(super) fn voters(cx: &Read<'_>, vote: VoteId, choice: i64) -> Result<Vec<MemberId>> {
    let voters: Vec<(MemberId,)> = cx.query(SELECT_VOTERS, &[&vote, &choice, &VOTERS_LISTED_MAX])?;
    Ok(voters.into_iter().map(|(member,)| member).collect())
}

/// Reads the index `ballots_in_order`, which contains the rows in the order of their positions.
const SELECT_VOTERS: &str =
    "select member_id from ballots where vote_id = $1 and choice = $2 order by lsn limit $3";
