//! Finds the next thread of a member: the best thread in the queue whose required skills the member has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;
use uuid::Uuid;

use super::heads::{self, HeadCriteria, NextThread};
use super::parked::{self, QueuePlace};
use super::probes::{IN_CHANNELS, IN_POOLS, OF_REPO_IN_CHANNELS, OF_REPO_IN_POOLS, QueueStatements};
use super::returning;
use crate::Result;
use crate::conversation::visibility;
use crate::coordination::footprint::{self, RepoKey};
use crate::coordination::obstacles;
use crate::coordination::skill_sets::{self, SkillSets};
use crate::coordination::thread_row::threads_of_workspace;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::members;
use crate::log::cache::{Cached, Lifetime, SINGLE_ENTRY};
use crate::log::event::CachedEntryKind;
use crate::op::Read;
use crate::store::{Engine, ToParam};

/// The channels in which to find the next thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordination) enum QueueScope {
    /// One channel, which the caller may see.
    Channel(ChannelId),
    /// Every channel of the workspace that the caller may see.
    Workspace,
}

/// The criteria by which a caller requests the next thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::coordination) struct QueueRequest {
    pub scope: QueueScope,
    /// Only threads whose footprint is in this repository; `None` for all threads.
    pub repo: Option<RepoKey>,
}

/// Maximum footprints whose conflicts one read looks up.
const CHECKED_MAX: usize = 100;

/// Returns the thread that the caller would claim next, skipping threads whose footprints conflict.
///
/// After [`CHECKED_MAX`] checks it returns the first thread that was not checked; a claim, which parks
/// blocked threads, then checks that thread. So reads are short, and no read misses a thread that could be
/// claimed. The search includes threads that will be ready once lapsed claims are ended.
pub(in crate::coordination) fn find_next_thread(
    cx: &Read<'_>,
    request: &QueueRequest,
) -> Result<Option<NextThread>> {
    let eligible = Eligibility::of_caller(cx, request)?;
    cx.with_cached(&SINGLE_ENTRY, |found: &mut QueueLookups| {
        if let Some((_, next)) = found.next.iter().find(|(of, _)| *of == eligible) {
            return Ok(*next);
        }
        let next = find_best_thread(cx, &eligible, &mut FootprintChecks::new(&mut found.free))?;
        found.next.push((eligible, next));
        Ok(next)
    })
}

/// Queue lookups that are cached for one snapshot and shared by its reads.
///
/// Waiting callers with equal skills and visibility are polled in one snapshot, because all these callers
/// have the same next thread.
#[derive(Clone, Default)]
pub(super) struct QueueLookups {
    /// Whether a footprint has no conflict, by the footprint's id, for each footprint that was checked.
    pub free: HashMap<i64, bool>,
    /// The next thread for each set of criteria.
    next: Vec<(Eligibility, Option<NextThread>)>,
    /// Number of threads that may have become claimable because a claim ended.
    pub unblocked_count: Option<i64>,
    /// Number of threads that will become claimable once lapsed claims are ended.
    pub ready_after_lapses: Option<i64>,
}

impl Cached for QueueLookups {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

fn find_best_thread(
    cx: &Read<'_>,
    eligible: &Eligibility,
    checks: &mut FootprintChecks<'_>,
) -> Result<Option<NextThread>> {
    let request = &eligible.request;
    let places = match request.scope {
        QueueScope::Channel(channel) => vec![channel.uuid()],
        QueueScope::Workspace => eligible.pools.clone(),
    };
    let mut skipped: Vec<i64> = Vec::new();
    let mut others: Vec<NextThread> = Vec::new();
    let found = loop {
        let Some(found) = first_in_places(cx, &places, request, &skipped)? else { break None };
        if checks.is_free(cx, found.footprint)? {
            break Some(found);
        }
        skipped.push(found.footprint);
        others.extend(find_best_follower(cx, eligible, found.footprint, checks)?);
    };
    for group in returning::find_returning_threads(cx, |queue_place| eligible.includes(queue_place))? {
        others.extend(first_without_conflict(cx, group, checks)?);
    }
    Ok(found.into_iter().chain(others).min())
}

/// Counts the threads of the queue in all channels that the caller may see, up to `limit`.
///
/// Includes threads that the caller cannot claim, and threads that return once lapsed claims are ended.
pub(in crate::coordination) fn count_ready(cx: &Read<'_>, limit: i64) -> Result<i64> {
    let pools = load_pools(cx)?;
    let sql = match cx.engine() {
        Engine::Sqlite => COUNT_SQLITE,
        Engine::Postgres => COUNT_POSTGRES,
    };
    let found: Option<(i64,)> = cx.one(sql, &[&pools, &limit])?;
    let mut total = found.map_or(0, |(count,)| count);
    cx.with_cached(&SINGLE_ENTRY, |found: &mut QueueLookups| {
        let mut checks = FootprintChecks::new(&mut found.free);
        for group in returning::find_returning_threads(cx, |queue_place| pools.contains(&queue_place.pool))? {
            total =
                total.saturating_add(i64::from(first_without_conflict(cx, group, &mut checks)?.is_some()));
        }
        Ok(total.min(limit))
    })
}

const COUNT_SQLITE: &str = "
    select count(*) from (
        select 1 from json_each($1) p cross join ready r where r.pool = unhex(p.value) limit $2) counted";

const COUNT_POSTGRES: &str =
    "select count(*) from (select 1 from ready where pool = any($1) limit $2) counted";

/// Checks whether footprints have conflicts, and caches the results for one snapshot.
pub(super) struct FootprintChecks<'f> {
    /// Whether a footprint has no conflict, by the footprint's id.
    known: &'f mut HashMap<i64, bool>,
    /// Number of footprints whose conflicts the current read has looked up.
    lookups: usize,
}

impl<'f> FootprintChecks<'f> {
    pub fn new(known: &'f mut HashMap<i64, bool>) -> Self {
        Self { known, lookups: 0 }
    }

    /// Returns whether nothing conflicts with a footprint.
    ///
    /// After [`CHECKED_MAX`] lookups, unchecked footprints count as free.
    pub fn is_free(&mut self, cx: &Read<'_>, footprint_id: i64) -> Result<bool> {
        if footprint_id == 0 {
            return Ok(true);
        }
        if let Some(known) = self.known.get(&footprint_id) {
            return Ok(*known);
        }
        if self.lookups >= CHECKED_MAX {
            return Ok(true);
        }
        self.lookups += 1;
        let is_free = match footprint::load(cx, footprint_id)? {
            Some(touched) => obstacles::conflicts_with(cx, &touched, None, 1)?.is_empty(),
            None => true,
        };
        self.known.insert(footprint_id, is_free);
        Ok(is_free)
    }
}

/// The criteria for threads that the caller can claim: the request, the pools of the queue, and the skill
/// sets.
#[derive(Clone, PartialEq, Eq)]
struct Eligibility {
    request: QueueRequest,
    /// The pools of the queue that may contain threads for the caller.
    pools: Vec<Uuid>,
    sets: Arc<Vec<i64>>,
}

impl Eligibility {
    fn of_caller(cx: &Read<'_>, request: &QueueRequest) -> Result<Self> {
        let pools = match request.scope {
            QueueScope::Channel(channel) => vec![channel.uuid(), cx.caller().workspace_id.uuid()],
            QueueScope::Workspace => load_pools(cx)?,
        };
        Ok(Self {
            request: request.clone(),
            pools,
            sets: load_eligible_sets(cx, &skill_sets::load_cached_sets(cx)?)?,
        })
    }

    fn includes(&self, queue_place: &QueuePlace) -> bool {
        let is_in_scope = match self.request.scope {
            QueueScope::Channel(channel) => channel == queue_place.channel,
            QueueScope::Workspace => self.pools.contains(&queue_place.pool),
        };
        is_in_scope
            && self.request.repo.as_ref().is_none_or(|repo| **repo == *queue_place.repo_key)
            && self.sets.binary_search(&queue_place.skill_set).is_ok()
    }
}

/// Returns the best claimable parked thread among those that would replace the queued threads with the
/// footprint `blocked_footprint`.
///
/// A read cannot park those threads, so it looks up their successors here.
fn find_best_follower(
    cx: &Read<'_>,
    eligible: &Eligibility,
    blocked_footprint: i64,
    checks: &mut FootprintChecks<'_>,
) -> Result<Option<NextThread>> {
    let mut best: Option<NextThread> = None;
    for pool in &eligible.pools {
        for ((_, channel, skill_set, repo_key, _), group) in
            parked::find_followers(cx, pool, blocked_footprint)?
        {
            if eligible.includes(&QueuePlace { pool: *pool, channel, skill_set, repo_key }) {
                best = best.into_iter().chain(first_without_conflict(cx, group, checks)?).min();
            }
        }
    }
    Ok(best)
}

/// Returns the first thread of a group whose footprint has no conflict.
///
/// If the group may have more threads than were read, the last thread that was read is returned without a
/// check.
pub(super) fn first_without_conflict(
    cx: &Read<'_>,
    group: Vec<NextThread>,
    checks: &mut FootprintChecks<'_>,
) -> Result<Option<NextThread>> {
    let last = group.len().saturating_sub(1);
    for (at, next) in group.into_iter().enumerate() {
        let unread_follow = at == last && at + 1 == parked::FOLLOWING_MAX;
        if checks.is_free(cx, next.footprint)? || unread_follow {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// Returns the first thread of the queue for the caller, except for threads with `skipped_footprints`.
///
/// This is the oldest of the most urgent threads whose required skills the caller has. Conflicts are not
/// checked.
pub(in crate::coordination) fn first_ready_thread(
    cx: &Read<'_>,
    request: &QueueRequest,
    skipped_footprints: &[i64],
) -> Result<Option<NextThread>> {
    let places = match request.scope {
        QueueScope::Channel(channel) => vec![channel.uuid()],
        QueueScope::Workspace => load_pools(cx)?,
    };
    first_in_places(cx, &places, request, skipped_footprints)
}

/// Returns the first thread of the queue in `places`, which are one channel or the pools of the caller.
fn first_in_places(
    cx: &Read<'_>,
    places: &[Uuid],
    request: &QueueRequest,
    skipped_footprints: &[i64],
) -> Result<Option<NextThread>> {
    let probes = match (request.scope, request.repo.is_some()) {
        (QueueScope::Channel(_), false) => &IN_CHANNELS,
        (QueueScope::Channel(_), true) => &OF_REPO_IN_CHANNELS,
        (QueueScope::Workspace, false) => &IN_POOLS,
        (QueueScope::Workspace, true) => &OF_REPO_IN_POOLS,
    };
    let mut sets = skill_sets::load_cached_sets(cx)?;
    loop {
        let eligible = load_eligible_sets(cx, &sets)?;
        let sought = HeadCriteria {
            places: places.to_vec(),
            eligible: Arc::clone(&eligible),
            repo: request.repo.clone(),
        };
        if skipped_footprints.is_empty() {
            match heads::next_head(cx, &sought)? {
                heads::CachedHead::Known(next) => return Ok(Some(next)),
                heads::CachedHead::Nothing => return Ok(None),
                heads::CachedHead::Unread => {}
            }
        }
        let query = QueueQuery {
            probes,
            places,
            eligible: &eligible,
            repo: &request.repo,
            skipped: skipped_footprints,
        };
        let found = match cx.engine() {
            Engine::Sqlite => query.run_on_sqlite(cx, sets.newest_id())?,
            Engine::Postgres => query.run_on_postgres(cx, sets.newest_id())?,
        };
        match found {
            QueueResult::First(first) => return Ok(first),
            QueueResult::Heads(first) => {
                heads::cache_heads(cx, sought, &first);
                return Ok(first.first().copied());
            }
            QueueResult::UnknownSets => sets = skill_sets::load_all_sets(cx)?,
        }
    }
}

/// A query for the first threads of the queue.
struct QueueQuery<'q> {
    probes: &'q QueueStatements,
    places: &'q [Uuid],
    eligible: &'q [i64],
    repo: &'q Option<RepoKey>,
    skipped: &'q [i64],
}

/// The result of a query for the first threads of the queue.
enum QueueResult {
    /// The first thread, or `None` if no thread meets the criteria.
    First(Option<NextThread>),
    /// The first threads, in order, as many as one statement reads ahead.
    Heads(Vec<NextThread>),
    /// No threads, because the workspace has skill sets that the connection has not cached.
    UnknownSets,
}

/// Returns the pools of the caller: the pool of the workspace, and one pool for each private channel of the
/// caller.
fn load_pools(cx: &Read<'_>) -> Result<Vec<Uuid>> {
    let private = visibility::load_private_channels_of(cx, cx.caller().member_id()?)?;
    let workspace = cx.caller().workspace_id.uuid();
    Ok(std::iter::once(workspace).chain(private.into_iter().map(ChannelId::uuid)).collect())
}

/// The ids of the skill sets that one member covers, ascending.
///
/// The ids are cached for the member until the skills of any member change, and extended as sets are added.
#[derive(Clone, Default)]
struct EligibleSets {
    /// The member's skills, or `None` if the skills have not been read.
    own: Option<Arc<HashSet<String>>>,
    sets: Arc<Vec<i64>>,
    /// The id of the newest set that was considered.
    newest: i64,
}

impl Cached for EligibleSets {
    const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Rules);
}

fn load_eligible_sets(cx: &Read<'_>, sets: &SkillSets) -> Result<Arc<Vec<i64>>> {
    let member = cx.caller().member_id()?;
    let key: (MemberId, WorkspaceId) = (member, cx.caller().workspace_id);
    if let Some(known) = cx.cached::<EligibleSets>(&key)
        && known.newest >= sets.newest_id()
    {
        return Ok(known.sets);
    }
    cx.with_cached(&key, |eligible: &mut EligibleSets| {
        let own = match eligible.own.take() {
            Some(own) => own,
            None => Arc::new(members::skills_of(cx, member)?.into_iter().collect()),
        };
        Arc::make_mut(&mut eligible.sets).extend(covered_sets(&own, sets.newer_than(eligible.newest)));
        eligible.newest = sets.newest_id();
        eligible.own = Some(own);
        Ok(Arc::clone(&eligible.sets))
    })
}

/// Returns the ids of the skill sets whose skills are all in `skills`.
fn covered_sets(skills: &HashSet<String>, sets: &[(i64, Arc<[String]>)]) -> Vec<i64> {
    let covers = |required: &[String]| required.iter().all(|skill| skills.contains(skill));
    sets.iter().filter(|(_, required)| covers(required)).map(|(id, _)| *id).collect()
}

/// The first row of the queue with one skill set. Candidates are ordered as threads are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueueCandidate {
    urgency: i64,
    lsn: i64,
    skill_set: i64,
    thread_id: ThreadId,
    channel_id: ChannelId,
    footprint: i64,
}

impl QueueCandidate {
    fn into_next_thread(self) -> NextThread {
        let Self { urgency, lsn, thread_id, channel_id, footprint, .. } = self;
        NextThread { urgency, lsn, thread_id, channel_id, footprint }
    }
}

impl QueueQuery<'_> {
    fn run_on_sqlite(&self, cx: &Read<'_>, newest_cached_set: i64) -> Result<QueueResult> {
        if cx.one::<(i64,)>(UNKNOWN_SET, &[&cx.caller().workspace_id, &newest_cached_set])?.is_some() {
            return Ok(QueueResult::UnknownSets);
        }
        let skipped = (!self.skipped.is_empty()).then(|| json!(self.skipped).to_string());
        let mut best: Option<QueueCandidate> = None;
        for place in self.places {
            let candidate = best_candidate(self.eligible, |skill_set| {
                self.first_of_set(cx, place, skill_set, skipped.as_ref())
            })?;
            best = best.into_iter().chain(candidate).min();
        }
        Ok(QueueResult::First(best.map(QueueCandidate::into_next_thread)))
    }

    /// Returns the first row of the queue in `place` with the lowest skill set id from `skill_set` on.
    fn first_of_set(
        &self,
        cx: &Read<'_>,
        place: &Uuid,
        skill_set: i64,
        skipped: Option<&String>,
    ) -> Result<Option<QueueCandidate>> {
        let mut params: Vec<&dyn ToParam> = vec![place, &skill_set];
        params.extend(self.repo.as_ref().map(|repo| -> &dyn ToParam { repo }));
        params.extend(skipped.map(|skipped| -> &dyn ToParam { skipped }));
        let sql = if skipped.is_some() { self.probes.skipping_sqlite } else { self.probes.first_sqlite };
        let row: Option<(i64, i64, i64, ThreadId, ChannelId, i64)> = cx.one(sql, &params)?;
        Ok(row.map(|(skill_set, urgency, lsn, thread_id, channel_id, footprint)| QueueCandidate {
            urgency,
            lsn,
            skill_set,
            thread_id,
            channel_id,
            footprint,
        }))
    }

    fn run_on_postgres(&self, cx: &Read<'_>, newest_cached_set: i64) -> Result<QueueResult> {
        let parts = self.places.len().saturating_mul(self.eligible.len());
        let may_read_ahead = self.skipped.is_empty() && parts <= WINDOW_PARTS_MAX;
        let takes = if may_read_ahead { cx.take_batch_claim_count() } else { 0 };
        let sql = match parts {
            _ if takes > 1 => self.probes.window_postgres,
            0..=CANDIDATES_MAX => self.probes.first_postgres,
            _ => self.probes.walk_postgres,
        };
        let mut params: Vec<&dyn ToParam> =
            vec![&self.places, &self.eligible, &cx.caller().workspace_id, &newest_cached_set, &self.skipped];
        params.extend(self.repo.as_ref().map(|repo| -> &dyn ToParam { repo }));
        let found: Vec<CandidateRow> = cx.query(sql, &params)?;
        let (has_unknown, ..) =
            found.first().ok_or_else(|| Error::internal("a join to one row returned none"))?;
        if *has_unknown {
            return Ok(QueueResult::UnknownSets);
        }
        let next = |(_, thread, channel, footprint, urgency, lsn): CandidateRow| {
            Some(NextThread {
                urgency: urgency?,
                lsn: lsn?,
                thread_id: thread?,
                channel_id: channel?,
                footprint: footprint?,
            })
        };
        let first: Vec<NextThread> = found.into_iter().filter_map(next).collect();
        if takes <= 1 {
            return Ok(QueueResult::First(first.first().copied()));
        }
        let taken: Vec<ThreadId> = first.iter().take(takes).map(|next| next.thread_id).collect();
        threads_of_workspace(cx, &taken)?;
        Ok(QueueResult::Heads(first))
    }
}

/// Whether the workspace has uncached skill sets, and the columns of a candidate, or nulls without a
/// candidate.
type CandidateRow = (bool, Option<ThreadId>, Option<ChannelId>, Option<i64>, Option<i64>, Option<i64>);

/// Maximum parts of the queue from which a statement reads ahead. A part has one place and one skill set.
const WINDOW_PARTS_MAX: usize = 16;

/// Maximum parts of the queue that a statement reads one by one. A part has one place and one skill set.
///
/// For more parts, a statement walks over the skill sets that have rows.
const CANDIDATES_MAX: usize = 256;

const UNKNOWN_SET: &str = "select id from skill_sets where workspace_id = $1 and id > $2 order by id limit 1";

/// Returns the candidate that is claimed first. Only the skill sets `eligible`, in ascending order, are
/// considered.
///
/// `seek` returns the candidate of the first set with rows that is not below a given set. Each call either
/// finds an eligible set, or skips all sets up to the next eligible set or the next set with rows. So the
/// number of calls is bounded both by the eligible sets and by one more than the sets with rows.
fn best_candidate(
    eligible: &[i64],
    mut seek: impl FnMut(i64) -> Result<Option<QueueCandidate>>,
) -> Result<Option<QueueCandidate>> {
    let mut best: Option<QueueCandidate> = None;
    let mut rest = eligible;
    while let Some(first) = rest.first() {
        let Some(candidate) = seek(*first)? else { break };
        let skipped = rest.partition_point(|set| *set < candidate.skill_set);
        rest = rest.get(skipped..).unwrap_or_default();
        if let Some((set, after)) = rest.split_first()
            && *set == candidate.skill_set
        {
            best = best.into_iter().chain([candidate]).min();
            rest = after;
        }
    }
    Ok(best)
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
        let covered = |own: &str| covered_sets(&names(own).collect(), &sets);
        assert_eq!(covered(""), [1]);
        assert_eq!(covered("rust"), [1, 2]);
        assert_eq!(covered("rust python sql"), [1, 2, 3]);
        assert_eq!(covered("go rust"), [1, 2, 4, 5]);
        assert_eq!(covered("Rust"), [1]);
    }

    fn candidate(skill_set: i64, urgency: i64, lsn: i64) -> QueueCandidate {
        let id = u128::try_from(lsn).unwrap();
        QueueCandidate {
            urgency,
            lsn,
            skill_set,
            thread_id: Uuid::from_u128(id).into(),
            channel_id: Uuid::from_u128(1).into(),
            footprint: 0,
        }
    }

    /// Returns the best of `candidates` for the skill sets `eligible`, and the number of calls of `seek`.
    fn best(eligible: &[i64], candidates: &[QueueCandidate]) -> (Option<QueueCandidate>, usize) {
        let queue: BTreeMap<i64, QueueCandidate> =
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
        let all: Vec<QueueCandidate> = many.iter().map(|set| candidate(*set, 0, 2000 - *set)).collect();
        assert_eq!(best(&many, &[candidate(500, 0, 1)]), (Some(candidate(500, 0, 1)), 2));
        assert_eq!(best(&[3, 700], &all), (Some(candidate(700, 0, 1300)), 2));
        assert_eq!(best(&many, &[]), (None, 1));
        let odd: Vec<i64> = (0..500).map(|n| 2 * n + 1).collect();
        let even: Vec<QueueCandidate> = (1..=500).map(|n| candidate(2 * n, 0, n)).collect();
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
            let candidates: Vec<QueueCandidate> = (0..40).filter_map(&mut drawn).collect();
            let wanted =
                candidates.iter().filter(|candidate| eligible.contains(&candidate.skill_set)).min().copied();
            assert_eq!(best(&eligible, &candidates).0, wanted);
        }
    }
}
