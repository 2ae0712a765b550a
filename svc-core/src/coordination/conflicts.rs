//! Finds the obstacles of threads that could otherwise be claimed, regardless of which member claims them.
//!
//! The rules are the same as for a claim, except that any active, unfrozen member may have the required
//! skills. Results for one thread of a page are reused for the other threads. A page runs a limited number of
//! lookups, and ends with the last thread whose obstacles are known.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::coordination::budget;
use crate::coordination::footprint::{self, Footprint};
use crate::coordination::obstacles::{self, Conflict, ConflictReason};
use crate::coordination::skill_sets;
use crate::coordination::thread_row::thread_of_workspace;
use crate::id::{MemberId, ThreadId};
use crate::identity::members;
use crate::op::Read;
use crate::page::ScanHorizon;
use crate::store::{ToParam, columns};

/// Maximum threads whose obstacles one page looks up.
const WAITING_SCAN_MAX: i64 = 500;
/// Maximum footprint items whose conflicts one page looks up.
const WAITING_ITEMS_MAX: usize = 500;
/// Maximum statements that one page runs to check single threads and skill sets.
const WAITING_LOOKUPS_MAX: usize = 30;

/// A reason why a thread cannot be claimed, other than a conflict of its footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum DeferralReason {
    Dependencies,
    Skills,
    Budget,
    DeadLetter,
    Any,
}

crate::argument::arguments! { DeferralReason }

/// The SQL condition that `t`, a thread in channel `c`, is open, unclaimed and without a result at time `$6`.
macro_rules! is_waiting {
    () => {
        "t.state = 'open' and not t.has_result and c.archived_at is null and not c.dm
         and (t.assignee_id is null or t.assignment_expires_at <= $6)"
    };
}
pub(in crate::coordination) use is_waiting;

/// A thread whose obstacles a page may look up.
pub(in crate::coordination) struct WaitingCandidate {
    pub id: ThreadId,
    pub lsn: i64,
    footprint: i64,
    /// Whether the thread is open, without a result and without a live claim.
    pub is_waiting: bool,
    /// Number of unfinished threads that the thread waits for.
    blocked: i64,
    skill_set: i64,
    exhausted: bool,
    dead: bool,
    /// Whether the thread has a budget limit, and a claim in its row that counts as an attempt once it has
    /// lapsed.
    is_lapsing: bool,
}

columns! {
    pub(crate) candidate_columns: WaitingCandidate as t {
        id,
        lsn,
        footprint,
        is_waiting = (crate::coordination::conflicts::is_waiting!()),
        blocked,
        skill_set,
        exhausted,
        dead,
        is_lapsing = "t.budgeted and t.assignee_id is not null",
    }
}

/// Returns the position up to which one page searches for candidates, like [`Read::horizon`] for other pages.
pub(in crate::coordination) fn candidate_horizon(
    cx: &Read<'_>,
    sql: &'static str,
    params: &[&dyn ToParam],
    after: i64,
) -> Result<ScanHorizon> {
    cx.horizon_within(sql, params, after, WAITING_SCAN_MAX)
}

/// The level of detail at which conflicts with a footprint are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordination) enum ConflictDetail {
    /// Report every conflict with the footprint.
    All,
    /// Report only whether anything conflicts with the footprint.
    Any,
}

/// The obstacles that one page has found for its threads.
pub(in crate::coordination) struct ConflictReport {
    reason: Option<DeferralReason>,
    /// The conflicts of each footprint, by its id, for the footprints that one page can check.
    by_footprint: HashMap<i64, Vec<Conflict>>,
    /// Whether some active, unfrozen member has all skills of a set, by the id of the set.
    by_skills: HashMap<i64, bool>,
    /// The active, unfrozen members with a skill, by the skill's name.
    holders: HashMap<String, BTreeSet<MemberId>>,
    /// Number of statements run so far for single threads and skills.
    lookups: usize,
}

impl ConflictReport {
    /// Finds the conflicts with the candidates' footprints, for as many candidates as one page can check.
    ///
    /// With [`ConflictDetail::Any`], all conflicts with a footprint are reported as one.
    pub fn find(
        cx: &Read<'_>,
        reason: Option<DeferralReason>,
        detail: ConflictDetail,
        candidates: &[WaitingCandidate],
    ) -> Result<Self> {
        let waiting = candidates.iter().filter(|candidate| candidate.is_waiting);
        let footprints = load_footprints(cx, waiting.map(|candidate| candidate.footprint))?;
        let touched: Vec<&Footprint> = footprints.iter().map(|(_, footprint)| footprint).collect();
        let conflicts: Vec<Vec<Conflict>> = match detail {
            _ if touched.is_empty() => Vec::new(),
            ConflictDetail::All => obstacles::conflicts_with_each(cx, &touched)?
                .into_iter()
                .map(|found| found.into_iter().map(|blocked| blocked.conflict).collect())
                .collect(),
            ConflictDetail::Any => obstacles::are_blocked(cx, &touched)?
                .into_iter()
                .map(|is_blocked| {
                    is_blocked.then(|| Conflict::without_claim(ConflictReason::Overlap)).into_iter().collect()
                })
                .collect(),
        };
        let mut by_footprint: HashMap<i64, Vec<Conflict>> =
            footprints.iter().map(|(id, _)| *id).zip(conflicts).collect();
        by_footprint.insert(0, Vec::new());
        let (by_skills, holders) = Default::default();
        Ok(Self { reason, by_footprint, by_skills, holders, lookups: 0 })
    }

    /// Returns whether the list includes threads that cannot be claimed for this reason.
    fn includes_reason(&self, reason: DeferralReason) -> bool {
        self.reason.is_some_and(|asked| asked == reason || asked == DeferralReason::Any)
    }

    /// Returns everything that blocks a thread, or `None` if the page must end before this thread.
    ///
    /// The result for the first candidate of a page is never `None`.
    pub fn find_obstacles(
        &mut self,
        cx: &Read<'_>,
        thread: &WaitingCandidate,
    ) -> Result<Option<Vec<Conflict>>> {
        if self.lookups >= WAITING_LOOKUPS_MAX {
            return Ok(None);
        }
        let Some(conflicts) = self.by_footprint.get(&thread.footprint).cloned() else { return Ok(None) };
        let for_budget = self.includes_reason(DeferralReason::Budget);
        let for_letter = self.includes_reason(DeferralReason::DeadLetter);
        let fails = (for_budget || for_letter) && self.has_lapsed_over_budget(cx, thread)?;
        let mut found = Vec::new();
        if for_budget && (thread.exhausted || fails) {
            found.push(Conflict::without_claim(ConflictReason::Budget));
        }
        if for_letter && (thread.dead || fails) {
            found.push(Conflict::without_claim(ConflictReason::DeadLetter));
        }
        if self.includes_reason(DeferralReason::Dependencies) && thread.blocked > 0 {
            found.push(Conflict::without_claim(ConflictReason::Dependencies));
        }
        if self.includes_reason(DeferralReason::Skills) && !self.has_capable_member(cx, thread.skill_set)? {
            found.push(Conflict::without_claim(ConflictReason::Skills));
        }
        found.extend(conflicts);
        Ok(Some(found))
    }

    /// Returns whether the thread would get a dead letter when its lapsed claim is ended.
    fn has_lapsed_over_budget(&mut self, cx: &Read<'_>, thread: &WaitingCandidate) -> Result<bool> {
        if !thread.is_lapsing {
            return Ok(false);
        }
        self.lookups = self.lookups.saturating_add(LOOKUPS_PER_BUDGET_CHECK);
        thread_of_workspace(cx, thread.id)?
            .map_or(Ok(false), |thread| budget::has_lapsed_over_budget(cx, &thread))
    }

    /// Returns whether an active, unfrozen member has all skills of a set.
    fn has_capable_member(&mut self, cx: &Read<'_>, skill_set: i64) -> Result<bool> {
        if let Some(known) = self.by_skills.get(&skill_set) {
            return Ok(*known);
        }
        let required = skill_sets::load_names(cx, skill_set)?;
        let unknown: Vec<&str> =
            required.iter().map(String::as_str).filter(|skill| !self.holders.contains_key(*skill)).collect();
        let mut rows: usize = 0;
        if !unknown.is_empty() {
            let found = members::available_members_by_skill(cx, &unknown)?;
            rows = found.values().map(BTreeSet::len).fold(0, usize::saturating_add);
            self.holders.extend(unknown.iter().map(|skill| ((*skill).to_owned(), BTreeSet::new())));
            self.holders.extend(found);
        }
        self.lookups = self.lookups.saturating_add(2).saturating_add(rows / HOLDERS_PER_LOOKUP);
        let mut holders: Vec<&BTreeSet<MemberId>> =
            required.iter().filter_map(|skill| self.holders.get(skill)).collect();
        holders.sort_by_key(|members| members.len());
        let covered = holders.split_first().is_none_or(|(fewest, others)| {
            fewest.iter().any(|member| others.iter().all(|members| members.contains(member)))
        });
        self.by_skills.insert(skill_set, covered);
        Ok(covered)
    }
}

/// Number of statements that a check of one thread's budget is counted as.
const LOOKUPS_PER_BUDGET_CHECK: usize = 4;

/// Number of read rows, each a member with a skill, that are counted as one statement.
const HOLDERS_PER_LOOKUP: usize = 200;

/// Loads the footprints `ids`, in order and without duplicates, up to [`WAITING_ITEMS_MAX`] items in total.
fn load_footprints(cx: &Read<'_>, ids: impl Iterator<Item = i64>) -> Result<Vec<(i64, Footprint)>> {
    let mut seen = BTreeSet::from([0]);
    let ids: Vec<i64> = ids.filter(|id| seen.insert(*id)).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut footprints = footprint::load_many(cx, &ids)?;
    let mut items: usize = 0;
    let too_many = footprints.iter().position(|(_, footprint)| {
        items = items.saturating_add(footprint.items.len());
        items > WAITING_ITEMS_MAX
    });
    footprints.truncate(too_many.unwrap_or(footprints.len()));
    Ok(footprints)
}
