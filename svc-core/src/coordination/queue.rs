//! The ready queue: one row for each thread that a member could claim now.
//!
//! A thread is ready while it is open, without a result that stands, without an unfinished dependency and
//! without an assignee, in a channel that is not archived. This file derives the rows from the threads, in
//! the transaction of whatever changes a thread; nothing else writes them. It is called by `queue_projector`,
//! which follows the events, and by `dependencies` where the event is that of another thread. The next thread
//! is the best of the candidates: the first thread of each skill set that the member covers. So the cost does
//! not depend on how many threads wait.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use crate::Result;
use crate::conversation::places::{self, audience};
use crate::coordination::skill_sets::{self, Sets};
use crate::error::Error;
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::members;
use crate::log::cache::Cached;
use crate::log::event::{Invalidates, Subject};
use crate::op::{Read, Write};
use crate::store::Engine;

/// Returns how many of the threads are ready that an event at `place` may have made ready.
///
/// These are its thread and those that waited for it, or those of its channel. An event about one member
/// counts once.
pub(in crate::coordination) fn supply(cx: &Read<'_>, place: &Subject) -> Result<usize> {
    let count = match (place.thread_id, place.channel_id, place.member_id) {
        (Some(thread), _, _) => cx.one::<(i64,)>(READY_BY_THREAD, &[&thread])?,
        (None, Some(channel), None) => cx.one::<(i64,)>(READY_BY_CHANNEL, &[&channel])?,
        _ => Some((1,)),
    };
    Ok(usize::try_from(count.map_or(0, |(count,)| count)).unwrap_or(0))
}

/// Counts up to 100: the wait that is answered next may ask again.
const READY_BY_THREAD: &str = "
    select count(*) from (
        select 1 from ready where thread_id = $1
        union all
        select 1 from thread_dependencies d join ready r on r.thread_id = d.thread_id
        where d.depends_on_id = $1
        limit 100) counted";

const READY_BY_CHANNEL: &str =
    "select count(*) from (select 1 from ready where channel_id = $1 limit 100) counted";

/// Removes a thread from the queue and adds it where it belongs now, if it is ready.
pub(in crate::coordination) fn refresh(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(REMOVE_THREAD, &[&thread])?;
    cx.execute_any(ADD_THREAD, &[&thread])
}

/// Removes a channel's threads from the queue and adds those that are ready.
pub(in crate::coordination) fn refresh_channel(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
    cx.execute_any(REMOVE_CHANNEL, &[&channel])?;
    cx.execute_any(ADD_CHANNEL, &[&channel])
}

/// Moves the rows of a channel to the pool that matches its privacy.
///
/// All rows of a channel are in one pool, so one of them shows whether there is anything to do.
pub(in crate::coordination) fn move_pool(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
    if let Some((found, wanted)) = cx.one::<(Uuid, Uuid)>(POOLS, &[&channel])?
        && found != wanted
    {
        cx.execute_any(MOVE_POOL, &[&channel, &wanted])?;
    }
    Ok(())
}

const REMOVE_THREAD: &str = "delete from ready where thread_id = $1";

const REMOVE_CHANNEL: &str = "delete from ready where channel_id = $1";

/// A statement that adds the ready ones among the threads `t` that a condition selects.
macro_rules! add_ready {
    ($which:literal) => {
        concat!(
            "insert into ready (channel_id, skill_set, urgency, lsn, thread_id, pool)
             select t.channel_id, t.skill_set, -t.priority, t.lsn, t.id, ",
            audience!(c),
            " from threads t join channels c on c.id = t.channel_id
             where ",
            $which,
            " and t.state = 'open' and not t.has_result and t.blocked = 0 and t.assignee_id is null
                 and c.archived_at is null"
        )
    };
}

const ADD_THREAD: &str = add_ready!("t.id = $1");

const ADD_CHANNEL: &str = add_ready!("t.channel_id = $1");

const POOLS: &str = concat!(
    "select r.pool, ",
    audience!(c),
    " from channels c join ready r on r.channel_id = c.id where c.id = $1 limit 1"
);

const MOVE_POOL: &str = "update ready set pool = $2 where channel_id = $1";

/// Where the next thread is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordination) enum Scope {
    /// One channel, which the caller may see.
    Channel(ChannelId),
    /// Every channel of the workspace that the caller may see.
    Workspace,
}

/// Returns the thread that the caller would be given.
///
/// Of the threads whose required skills it covers, that is the oldest of the most urgent ones.
pub(in crate::coordination) fn next(cx: &Read<'_>, scope: Scope) -> Result<Option<(ThreadId, ChannelId)>> {
    let (places, probes) = match scope {
        Scope::Channel(channel) => (vec![channel.uuid()], &IN_CHANNELS),
        Scope::Workspace => (pools(cx)?, &IN_POOLS),
    };
    let mut sets = skill_sets::sets(cx)?;
    loop {
        let eligible = eligible_sets(cx, &sets)?;
        let found = match cx.engine() {
            Engine::Sqlite => next_sqlite(cx, probes, &places, &eligible, sets.newest())?,
            Engine::Postgres => next_postgres(cx, probes, &places, &eligible, sets.newest())?,
        };
        match found {
            NextThread::Thread(thread) => return Ok(thread),
            NextThread::UnknownSets => sets = skill_sets::newer_sets(cx)?,
        }
    }
}

/// The result of a query of the queue.
enum NextThread {
    /// The next thread, if there is one.
    Thread(Option<(ThreadId, ChannelId)>),
    /// There are sets that the connection has not cached.
    UnknownSets,
}

/// The pools of the caller: that of the workspace and those of its private channels.
fn pools(cx: &Read<'_>) -> Result<Vec<Uuid>> {
    let private = places::private_channels_of(cx, cx.caller().member_id()?)?;
    let workspace = cx.caller().workspace_id.uuid();
    Ok(std::iter::once(workspace).chain(private.into_iter().map(ChannelId::uuid)).collect())
}

/// The ids of the sets that one member covers, ascending.
///
/// They are cached for the member until some member's skills change, and extended as sets are added.
#[derive(Clone, Default)]
struct Eligible {
    /// The member's skills, once they were read.
    own: Option<Arc<HashSet<String>>>,
    sets: Arc<Vec<i64>>,
    /// The newest set that was considered.
    newest: i64,
}

impl Cached for Eligible {
    const ENDED_BY: Option<Invalidates> = Some(Invalidates::Rules);
}

fn eligible_sets(cx: &Read<'_>, sets: &Sets) -> Result<Arc<Vec<i64>>> {
    let member = cx.caller().member_id()?;
    let key: (MemberId, WorkspaceId) = (member, cx.caller().workspace_id);
    if let Some(known) = cx.cached::<Eligible>(&key)
        && known.newest >= sets.newest()
    {
        return Ok(known.sets);
    }
    let extended = cx.extended(&key, |eligible: &mut Eligible| {
        let own = match eligible.own.take() {
            Some(own) => own,
            None => Arc::new(members::skills_of(cx, member)?.into_iter().collect()),
        };
        Arc::make_mut(&mut eligible.sets).extend(covered(&own, sets.after(eligible.newest)));
        eligible.newest = sets.newest();
        eligible.own = Some(own);
        Ok(())
    })?;
    Ok(extended.sets)
}

/// Returns the ids of the sets that `own` covers.
fn covered(own: &HashSet<String>, sets: &[(i64, Arc<[String]>)]) -> Vec<i64> {
    let covers = |required: &[String]| required.iter().all(|skill| own.contains(skill));
    sets.iter().filter(|(_, required)| covers(required)).map(|(id, _)| *id).collect()
}

/// The statements that query the queue in one of its two orders: by channel, or by pool.
struct Probes {
    first_sqlite: &'static str,
    first_postgres: &'static str,
    walk_postgres: &'static str,
}

/// The end of a statement that has found the `candidate`.
///
/// It returns whether there are sets that the connection has not cached, and the candidate if there is one.
macro_rules! unknown_sets_or_candidate {
    () => {
        "select exists (select 1 from skill_sets where workspace_id = $3 and id > $4),
                candidate.thread_id, candidate.channel_id
         from (values (1)) as one (row) left join candidate on true"
    };
}

macro_rules! probes {
    ($place:literal) => {
        Probes {
            first_sqlite: concat!(
                "select skill_set, urgency, lsn, thread_id, channel_id from ready where ",
                $place,
                " = $1 and skill_set >= $2 order by skill_set, urgency, lsn limit 1"
            ),
            first_postgres: concat!(
                "with candidate as (select candidate.thread_id, candidate.channel_id
                 from unnest($1::uuid[]) as wanted (place)
                 cross join unnest($2::bigint[]) as covered (skill_set)
                 cross join lateral (
                     select r.thread_id, r.channel_id, r.urgency, r.lsn from ready r where r.",
                $place,
                " = wanted.place and r.skill_set = covered.skill_set order by r.urgency, r.lsn limit 1)
                     candidate
                 order by candidate.urgency, candidate.lsn limit 1) ",
                unknown_sets_or_candidate!()
            ),
            walk_postgres: concat!(
                "with recursive walk (place, skill_set) as (
                     select wanted.place, (
                         select r.skill_set from ready r where r.",
                $place,
                " = wanted.place order by r.skill_set limit 1)
                     from unnest($1::uuid[]) as wanted (place)
                     union all
                     select walk.place, (
                         select r.skill_set from ready r where r.",
                $place,
                " = walk.place and r.skill_set > walk.skill_set order by r.skill_set limit 1)
                     from walk where walk.skill_set is not null),
                 candidate as (select candidate.thread_id, candidate.channel_id
                 from walk cross join lateral (
                     select r.thread_id, r.channel_id, r.urgency, r.lsn from ready r where r.",
                $place,
                " = walk.place and r.skill_set = walk.skill_set order by r.urgency, r.lsn limit 1)
                     candidate
                 where walk.skill_set = any($2::bigint[])
                 order by candidate.urgency, candidate.lsn limit 1) ",
                unknown_sets_or_candidate!()
            ),
        }
    };
}

static IN_CHANNELS: Probes = probes!("channel_id");

static IN_POOLS: Probes = probes!("pool");

/// The first row of a skill set's part of the queue. Candidates are ordered as threads are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    urgency: i64,
    lsn: i64,
    skill_set: i64,
    thread_id: ThreadId,
    channel_id: ChannelId,
}

fn next_sqlite(
    cx: &Read<'_>,
    probes: &Probes,
    places: &[Uuid],
    eligible: &[i64],
    newest: i64,
) -> Result<NextThread> {
    if cx.one::<(i64,)>(UNKNOWN_SET, &[&cx.caller().workspace_id, &newest])?.is_some() {
        return Ok(NextThread::UnknownSets);
    }
    let mut best: Option<Candidate> = None;
    for place in places {
        let candidate = best_candidate(eligible, |skill_set| {
            let row: Option<(i64, i64, i64, ThreadId, ChannelId)> =
                cx.one(probes.first_sqlite, &[place, &skill_set])?;
            Ok(row.map(|(skill_set, urgency, lsn, thread_id, channel_id)| Candidate {
                urgency,
                lsn,
                skill_set,
                thread_id,
                channel_id,
            }))
        })?;
        best = best.into_iter().chain(candidate).min();
    }
    Ok(NextThread::Thread(best.map(|candidate| (candidate.thread_id, candidate.channel_id))))
}

const UNKNOWN_SET: &str = "select id from skill_sets where workspace_id = $1 and id > $2 order by id limit 1";

/// Returns the best among the candidates of the sets `eligible` (ascending).
///
/// `seek` returns the candidate of the first set with any row, from a given set on. Each call either hits an
/// eligible set or skips all sets in between, on whichever side they are. So there are no more calls than
/// eligible sets, and at most one more than sets with rows.
fn best_candidate(
    eligible: &[i64],
    mut seek: impl FnMut(i64) -> Result<Option<Candidate>>,
) -> Result<Option<Candidate>> {
    let mut best: Option<Candidate> = None;
    let mut rest = eligible;
    while let Some(first) = rest.first() {
        let Some(candidate) = seek(*first)? else { break };
        let passed = rest.partition_point(|set| *set < candidate.skill_set);
        rest = rest.get(passed..).unwrap_or_default();
        if let Some((set, after)) = rest.split_first()
            && *set == candidate.skill_set
        {
            best = best.into_iter().chain([candidate]).min();
            rest = after;
        }
    }
    Ok(best)
}

/// Maximum number of candidates that one statement reads by name.
///
/// Beyond it, a statement walks over the sets that have rows.
const CANDIDATES_MAX: usize = 256;

fn next_postgres(
    cx: &Read<'_>,
    probes: &Probes,
    places: &[Uuid],
    eligible: &[i64],
    newest: i64,
) -> Result<NextThread> {
    let few = places.len().saturating_mul(eligible.len()) <= CANDIDATES_MAX;
    let sql = if few { probes.first_postgres } else { probes.walk_postgres };
    let found: Option<(bool, Option<ThreadId>, Option<ChannelId>)> =
        cx.one(sql, &[&places, &eligible, &cx.caller().workspace_id, &newest])?;
    let (unknown, thread, channel) =
        found.ok_or_else(|| Error::internal("a join to one row returned none"))?;
    Ok(if unknown { NextThread::UnknownSets } else { NextThread::Thread(thread.zip(channel)) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(text: &str) -> impl Iterator<Item = String> {
        text.split_whitespace().map(str::to_owned)
    }

    #[test]
    fn a_member_covers_a_set_if_it_has_every_skill_of_it() {
        let sets: Vec<(i64, Arc<[String]>)> = (1..)
            .zip(["", "rust", "python rust", "go", "go rust"])
            .map(|(id, required)| (id, names(required).collect()))
            .collect();
        let covered = |own: &str| covered(&names(own).collect(), &sets);
        assert_eq!(covered(""), [1]);
        assert_eq!(covered("rust"), [1, 2]);
        assert_eq!(covered("rust python sql"), [1, 2, 3]);
        assert_eq!(covered("go rust"), [1, 2, 4, 5]);
        assert_eq!(covered("Rust"), [1]);
    }

    fn candidate(skill_set: i64, urgency: i64, lsn: i64) -> Candidate {
        let id = u128::try_from(lsn).unwrap();
        Candidate {
            urgency,
            lsn,
            skill_set,
            thread_id: Uuid::from_u128(id).into(),
            channel_id: Uuid::from_u128(1).into(),
        }
    }

    /// Returns the best candidate of a queue that has `candidates`, and the number of calls of `seek`.
    fn best(eligible: &[i64], candidates: &[Candidate]) -> (Option<Candidate>, usize) {
        let queue: BTreeMap<i64, Candidate> =
            candidates.iter().map(|candidate| (candidate.skill_set, *candidate)).collect();
        let mut calls = 0;
        let best = best_candidate(eligible, |from| {
            calls += 1;
            Ok(queue.range(from..).next().map(|(_, candidate)| *candidate))
        });
        (best.unwrap(), calls)
    }

    #[test]
    fn the_most_urgent_and_then_the_oldest_is_next() {
        let candidates =
            [candidate(1, 0, 5), candidate(2, -10, 9), candidate(3, -10, 8), candidate(4, -99, 1)];
        assert_eq!(best(&[1, 2, 3], &candidates).0, Some(candidates[2]));
        assert_eq!(best(&[1, 2], &candidates).0, Some(candidates[1]));
        assert_eq!(best(&[1], &candidates).0, Some(candidates[0]));
        assert_eq!(best(&[7], &candidates).0, None);
        assert_eq!(best(&[], &candidates), (None, 0));
    }

    #[test]
    fn calls_are_bounded_by_either_side() {
        let many: Vec<i64> = (1..=1000).collect();
        let all: Vec<Candidate> = many.iter().map(|set| candidate(*set, 0, 2000 - *set)).collect();
        assert_eq!(best(&many, &[candidate(500, 0, 1)]), (Some(candidate(500, 0, 1)), 2));
        assert_eq!(best(&[3, 700], &all), (Some(candidate(700, 0, 1300)), 2));
        assert_eq!(best(&many, &[]), (None, 1));
        let odd: Vec<i64> = (0..500).map(|n| 2 * n + 1).collect();
        let even: Vec<Candidate> = (1..=500).map(|n| candidate(2 * n, 0, n)).collect();
        let (found, calls) = best(&odd, &even);
        assert_eq!(found, None);
        assert!(calls <= 501, "{calls}");
    }

    #[test]
    fn the_next_thread_is_the_minimum_over_the_eligible_ones() {
        let mut state = 7_i64;
        let mut draw = |below: i64| {
            state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
            (state / 65_536) % below
        };
        for _ in 0..500 {
            let eligible: Vec<i64> = (0..40).filter(|_| draw(3) == 0).collect();
            let mut drawn = |set| (draw(3) == 0).then(|| candidate(set, -draw(4), draw(1000)));
            let candidates: Vec<Candidate> = (0..40).filter_map(&mut drawn).collect();
            let wanted =
                candidates.iter().filter(|candidate| eligible.contains(&candidate.skill_set)).min().copied();
            assert_eq!(best(&eligible, &candidates).0, wanted);
        }
    }
}
