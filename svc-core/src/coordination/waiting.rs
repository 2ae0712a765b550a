//! What is in the way of threads that wait to be claimed, whoever might claim them.
//!
//! It is as the rules of claiming have it, but for what is about one member: that somebody has the skills is
//! enough. What is found for one thread of a page serves for the others.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Result;
use crate::coordination::budget;
use crate::coordination::footprint;
use crate::coordination::obstacles::{self, Conflict, ConflictReason};
use crate::coordination::skill_sets;
use crate::coordination::thread::thread_of_workspace;
use crate::id::{MemberId, ThreadId};
use crate::identity::members;
use crate::op::Read;
use crate::store::columns;

/// What else than a footprint a thread may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(in crate::coordination) enum Reason {
    Dependencies,
    Skills,
    Budget,
    DeadLetter,
    Any,
}

/// The conditions of a thread `t` in its channel `c` that waits to be claimed, at the time `$6`.
macro_rules! is_waiting {
    () => {
        "t.state = 'open' and not t.has_result and c.archived_at is null and not c.dm
         and (t.assignee_id is null or t.assignment_expires_at <= $6)"
    };
}
pub(in crate::coordination) use is_waiting;

/// A thread that something may be in the way of.
pub(in crate::coordination) struct Candidate {
    pub id: ThreadId,
    pub footprint: i64,
    /// Whether it waits to be claimed.
    pub is_waiting: bool,
    /// How many threads it waits for.
    blocked: i64,
    skill_set: i64,
    exhausted: bool,
    dead: bool,
    /// Whether a lapsed claim is in its row that counts against its budget once it is ended.
    is_lapsing: bool,
}

columns! {
    pub(crate) candidate_columns: Candidate as t {
        id,
        footprint,
        is_waiting = (crate::coordination::waiting::is_waiting!()),
        blocked,
        skill_set,
        exhausted,
        dead,
        is_lapsing = "t.budgeted and t.assignee_id is not null",
    }
}

/// What stands in the way of threads, as far as one page has found out.
pub(in crate::coordination) struct Waiting {
    reason: Option<Reason>,
    /// How many obstacles of one thread are looked for.
    most: i64,
    by_footprint: HashMap<i64, Vec<Conflict>>,
    /// Whether some member that can work has all skills of a set.
    by_skills: HashMap<i64, bool>,
    /// The members with a skill that can work: active, and not frozen.
    holders: HashMap<String, BTreeSet<MemberId>>,
}

impl Waiting {
    pub fn for_reason(reason: Option<Reason>, most: i64) -> Self {
        let (by_footprint, by_skills, holders) = Default::default();
        Self { reason, most, by_footprint, by_skills, holders }
    }

    fn asks_for(&self, reason: Reason) -> bool {
        self.reason.is_some_and(|asked| asked == reason || asked == Reason::Any)
    }

    /// Returns everything in the way of a thread.
    pub fn obstacles(&mut self, cx: &Read<'_>, thread: &Candidate) -> Result<Vec<Conflict>> {
        let mut found = Vec::new();
        if self.asks_for(Reason::Budget) && (thread.exhausted || fails(cx, thread)?) {
            found.push(Conflict::alone(ConflictReason::Budget));
        }
        if self.asks_for(Reason::DeadLetter) && (thread.dead || fails(cx, thread)?) {
            found.push(Conflict::alone(ConflictReason::DeadLetter));
        }
        if self.asks_for(Reason::Dependencies) && thread.blocked > 0 {
            found.push(Conflict::alone(ConflictReason::Dependencies));
        }
        if self.asks_for(Reason::Skills) && !self.is_covered(cx, thread.skill_set)? {
            found.push(Conflict::alone(ConflictReason::Skills));
        }
        found.extend(self.conflicts(cx, thread.footprint)?);
        Ok(found)
    }

    pub fn conflicts(&mut self, cx: &Read<'_>, id: i64) -> Result<Vec<Conflict>> {
        if let Some(known) = self.by_footprint.get(&id) {
            return Ok(known.clone());
        }
        let found: Vec<Conflict> = match footprint::load(cx, id)? {
            Some(touched) => {
                let blocked = obstacles::in_the_way(cx, &touched, None, self.most)?;
                blocked.into_iter().map(|blocked| blocked.conflict).collect()
            }
            None => Vec::new(),
        };
        self.by_footprint.insert(id, found.clone());
        Ok(found)
    }

    fn is_covered(&mut self, cx: &Read<'_>, skill_set: i64) -> Result<bool> {
        if let Some(known) = self.by_skills.get(&skill_set) {
            return Ok(*known);
        }
        let required = skill_sets::names_of(cx, skill_set)?;
        for skill in &required {
            if !self.holders.contains_key(skill) {
                self.holders.insert(skill.clone(), members::able_holders(cx, skill)?);
            }
        }
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

/// Whether a thread fails once its lapsed claim is ended.
fn fails(cx: &Read<'_>, thread: &Candidate) -> Result<bool> {
    let lapsing = if thread.is_lapsing { thread_of_workspace(cx, thread.id)? } else { None };
    lapsing.map_or(Ok(false), |thread| budget::fails_by_lapse(cx, &thread))
}
