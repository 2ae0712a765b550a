//! Occupancy: who works in a workspace, what limits the work, and how many threads wait for what.
//!
//! What happens in channels that the caller may not see does not show, but for the use of slots. Counts are
//! of this moment and end at a limit, so none takes long.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::places::visible;
use crate::coordination::pauses::{self, RepoPause};
use crate::coordination::slots::{self, UsedSlot};
use crate::coordination::{dead_letters, deferred, queue};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::{members, workspaces};
use crate::limits::{OCCUPANCY_COUNT_MAX, OCCUPANCY_MEMBERS_MAX};
use crate::op::{Feature, Read, read};
use crate::store::ToParam;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "workspaces",
        vec![
            read("get_workspace_occupancy", get_workspace_occupancy)
                .title("Read who works in a workspace and what waits")
                .get("/workspaces/{workspace_id}/occupancy")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

/// A member who holds live claims.
#[derive(Serialize, JsonSchema)]
struct BusyMember {
    /// The member.
    member_id: MemberId,
    /// How many live claims it holds.
    claims: i64,
}

/// A member who could work and holds no live claim.
#[derive(Serialize, JsonSchema)]
struct IdleMember {
    /// The member.
    member_id: MemberId,
    /// The member's handle.
    handle: String,
}

/// How many threads are in which situation, each counted up to 10000.
#[derive(Serialize, JsonSchema)]
struct ThreadCounts {
    /// Threads in the queue, whoever has the skills for them. Those that were not met yet count although
    /// something is in the way of their footprint.
    ready: i64,
    /// Threads that something is in the way of because of their footprint, among the oldest 2000 that have
    /// one and that nobody works on.
    deferred: i64,
    /// Threads with a live claim.
    claimed: i64,
    /// Threads in the state `in_review`.
    in_review: i64,
    /// Threads with a dead letter that is not settled.
    dead: i64,
}

/// Who works in a workspace, what limits the work, and how many threads wait.
#[derive(Serialize, JsonSchema)]
struct Occupancy {
    /// The first 1000 members who hold live claims, those with most claims first.
    busy: Vec<BusyMember>,
    /// The active members who are not frozen and hold no live claim, in the order in which they were added.
    /// Only the first 1000 members of the workspace are considered.
    idle: Vec<IdleMember>,
    /// The slots that have a capacity or are in use, by name.
    slots: Vec<UsedSlot>,
    /// The paused repositories, in the order in which they were paused.
    pauses: Vec<RepoPause>,
    /// How many threads are in which situation.
    threads: ThreadCounts,
}

/// Returns who works in a workspace and who is idle, its slots and pauses, and how many threads wait.
///
/// Of channels that you may not see it tells nothing, except for the use of slots.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkspaceOccupancy {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
}

fn get_workspace_occupancy(cx: &Read<'_>, input: &GetWorkspaceOccupancy) -> Result<Occupancy> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    let busy = busy(cx)?;
    Ok(Occupancy {
        idle: idle(cx, &busy)?,
        busy,
        slots: slots::used_slots(cx)?,
        pauses: pauses::all(cx)?,
        threads: ThreadCounts {
            ready: queue::count(cx, OCCUPANCY_COUNT_MAX)?,
            deferred: deferred::count(cx)?,
            claimed: count(cx, CLAIMED, &[&cx.now()])?,
            in_review: count(cx, IN_REVIEW, &[])?,
            dead: dead_letters::count(cx, OCCUPANCY_COUNT_MAX)?,
        },
    })
}

fn busy(cx: &Read<'_>) -> Result<Vec<BusyMember>> {
    let (sight, workspace, now) = (cx.caller().sight.params(), cx.caller().workspace_id, cx.now());
    let rows: Vec<(MemberId, i64)> =
        cx.query(BUSY, &sight.and(&[&workspace, &now, &OCCUPANCY_MEMBERS_MAX]))?;
    Ok(rows.into_iter().map(|(member_id, claims)| BusyMember { member_id, claims }).collect())
}

const BUSY: &str = concat!(
    "select t.assignee_id, count(*) from threads t join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id is not null and t.assignment_expires_at > $6 and ",
    visible!(c),
    " group by t.assignee_id order by count(*) desc, t.assignee_id limit $7"
);

fn idle(cx: &Read<'_>, busy: &[BusyMember]) -> Result<Vec<IdleMember>> {
    let claims: BTreeMap<MemberId, i64> = busy.iter().map(|busy| (busy.member_id, busy.claims)).collect();
    let able = members::able_to_work(cx, OCCUPANCY_MEMBERS_MAX)?.into_iter();
    let idle = able.filter(|(member, _)| !claims.contains_key(member));
    Ok(idle.map(|(member_id, handle)| IdleMember { member_id, handle }).collect())
}

fn count(cx: &Read<'_>, sql: &'static str, more: &[&dyn ToParam]) -> Result<i64> {
    let (sight, workspace) = (cx.caller().sight.params(), cx.caller().workspace_id);
    let params: Vec<&dyn ToParam> =
        [&workspace as &dyn ToParam, &OCCUPANCY_COUNT_MAX].into_iter().chain(more.iter().copied()).collect();
    let found: Option<(i64,)> = cx.one(sql, &sight.and(&params))?;
    Ok(found.map_or(0, |(count,)| count))
}

/// Counts threads `t` of the workspace that the caller may see; parameters of `$which` begin at 7.
macro_rules! count_threads {
    ($which:literal) => {
        concat!(
            "select count(*) from (
                 select 1 from threads t join channels c on c.id = t.channel_id
                 where t.workspace_id = $5 and ",
            $which,
            " and ",
            visible!(c),
            " limit $6) counted"
        )
    };
}

const CLAIMED: &str = count_threads!("t.assignee_id is not null and t.assignment_expires_at > $7");

const IN_REVIEW: &str = count_threads!("t.state = 'in_review'");
