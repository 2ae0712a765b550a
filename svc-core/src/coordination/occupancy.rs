//! Occupancy of a workspace: its busy and idle members, the limits on its work, and the numbers of waiting
//! threads.
//!
//! Channels that the caller may not see are excluded, except for the use of slots. Counts are exact at the
//! time of the read. Each count examines a limited number of threads, visible or not, and the answer lists
//! the counts that have reached their limit.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::visible;
use crate::coordination::pauses::{self, RepoPause};
use crate::coordination::slots::{self, UsedSlot};
use crate::coordination::{dead_letters, deferred, queue};
use crate::id::MemberId;
use crate::identity::members;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{OCCUPANCY_COUNT_MAX, OCCUPANCY_MEMBERS_MAX};
use crate::op::{Feature, Read, read};
use crate::page::BoundedCount;
use crate::request::request;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "workspaces",
        vec![
            read("get_workspace_occupancy", get_workspace_occupancy)
                .title("Read the occupancy of a workspace")
                .when(
                    "Get busy and idle members, slots in use, paused repositories, and the number of waiting \
                     threads.",
                )
                .get("/workspaces/{workspace_id}/occupancy")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

/// A member who holds live claims.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct BusyMember {
    /// Id of the busy member.
    pub member_id: MemberId,
    /// Number of the member's live claims.
    pub claims: i64,
}

/// An active, unfrozen member who holds no live claim.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct IdleMember {
    /// Id of the idle member.
    pub member_id: MemberId,
    /// The handle of the idle member.
    pub handle: String,
}

/// The numbers of threads that are ready, deferred, claimed, in review or dead.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ThreadCounts {
    /// Threads in the ready queue, regardless of the skills that they require. A thread whose footprint
    /// conflicts is counted until a claim finds the conflict.
    pub ready: i64,
    /// Open threads without a claim whose footprint conflicts, among the oldest 500 open threads with a
    /// footprint, and footprints with up to 500 items.
    pub deferred: i64,
    /// Threads with a live claim, among the oldest 1000 claimed threads.
    pub claimed: i64,
    /// Threads in the state `in_review`, among the oldest 1000 in that state.
    pub in_review: i64,
    /// Threads with an unsettled dead letter, among the oldest 1000 unsettled dead letters.
    pub dead: i64,
    /// The names of the counts that may be too low, because not all threads were counted. All other counts
    /// are exact.
    pub at_least: Vec<&'static str>,
}

/// The busy and idle members of a workspace, the limits on its work, and the number of waiting threads.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Occupancy {
    /// The first 1000 members who hold live claims, those with the most claims first.
    pub busy: Vec<BusyMember>,
    /// The active, unfrozen members who hold no live claim, in the order in which they were added. Only the
    /// first 1000 members of the workspace are considered.
    pub idle: Vec<IdleMember>,
    /// The slots that have a capacity or are in use, by name.
    pub slots: Vec<UsedSlot>,
    /// The paused repositories, in the order in which they were paused.
    pub pauses: Vec<RepoPause>,
    /// The numbers of threads that are ready, deferred, claimed, in review or dead.
    pub threads: ThreadCounts,
}

request! {
    /// Returns the busy and idle members of a workspace, its slots and pauses, and the number of waiting
    /// threads.
    ///
    /// Channels that you may not see are excluded, except for the use of slots. If `at_least` contains
    /// `claimed`, some claims were not counted: busy members may hold more claims, and idle members may hold
    /// some.
    struct GetWorkspaceOccupancy {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
    }

    get_workspace_occupancy() -> Occupancy
}

fn get_workspace_occupancy(cx: &Read<'_>, input: &GetWorkspaceOccupancy) -> Result<Occupancy> {
    input.workspace_id.of(cx)?;
    let (mut busy, claimed) = load_busy_members(cx)?;
    let idle = load_idle_members(cx, &busy)?;
    busy.truncate(usize::try_from(OCCUPANCY_MEMBERS_MAX).unwrap_or(usize::MAX));
    let ready = queue::count_ready(cx, OCCUPANCY_COUNT_MAX)?;
    let ready = BoundedCount::of(ready, ready, OCCUPANCY_COUNT_MAX);
    let deferred = deferred::count_deferred(cx)?;
    let in_review = count_in_review(cx)?;
    let dead = dead_letters::count_unsettled(cx, OCCUPANCY_COUNT_MAX)?;
    let counts = [
        ("ready", ready),
        ("deferred", deferred),
        ("claimed", claimed),
        ("in_review", in_review),
        ("dead", dead),
    ];
    let at_least = counts.into_iter().filter(|(_, counted)| !counted.is_all).map(|(name, _)| name).collect();
    let threads = ThreadCounts {
        ready: ready.count,
        deferred: deferred.count,
        claimed: claimed.count,
        in_review: in_review.count,
        dead: dead.count,
        at_least,
    };
    Ok(Occupancy { busy, idle, slots: slots::used_slots(cx)?, pauses: pauses::load_pauses(cx)?, threads })
}

/// Returns the members with live, visible claims, those with the most claims first, and the number of all
/// these claims.
fn load_busy_members(cx: &Read<'_>) -> Result<(Vec<BusyMember>, BoundedCount)> {
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let now = cx.now();
    let rows: Vec<(MemberId, i64, i64)> =
        cx.query(BUSY, &visibility.and(&[&workspace, &now, &OCCUPANCY_COUNT_MAX]))?;
    let sums = rows.iter().fold((0_i64, 0_i64), |(claims, examined), row| {
        (claims.saturating_add(row.1), examined.saturating_add(row.2))
    });
    let members = rows.into_iter().map(|(member_id, claims, _)| BusyMember { member_id, claims });
    let busy = members.filter(|member| member.claims > 0).collect();
    Ok((busy, BoundedCount::of(sums.0, sums.1, OCCUPANCY_COUNT_MAX)))
}

/// Selects for each holder the number of live, visible claims, and the number of all claims examined.
const BUSY: &str = concat!(
    "select t.assignee_id, count(case when t.assignment_expires_at > $6 and ",
    visible!(c),
    " then 1 end) as claims, count(*) from (
         select assignee_id, assignment_expires_at, channel_id from threads
         where workspace_id = $5 and assignee_id is not null order by lsn limit $7) t
     join channels c on c.id = t.channel_id
     group by t.assignee_id order by claims desc, t.assignee_id"
);

fn load_idle_members(cx: &Read<'_>, busy: &[BusyMember]) -> Result<Vec<IdleMember>> {
    let busy: BTreeSet<MemberId> = busy.iter().map(|busy| busy.member_id).collect();
    let able = members::available_members(cx, OCCUPANCY_MEMBERS_MAX)?.into_iter();
    let idle = able.filter(|(member, _)| !busy.contains(member));
    Ok(idle.map(|(member_id, handle)| IdleMember { member_id, handle }).collect())
}

fn count_in_review(cx: &Read<'_>) -> Result<BoundedCount> {
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let found: Option<(i64, i64)> =
        cx.one(IN_REVIEW, &visibility.and(&[&workspace, &OCCUPANCY_COUNT_MAX]))?;
    let (count, examined) = found.unwrap_or_default();
    Ok(BoundedCount::of(count, examined, OCCUPANCY_COUNT_MAX))
}

const IN_REVIEW: &str = concat!(
    "select count(case when ",
    visible!(c),
    " then 1 end), count(*) from (
         select channel_id from threads where workspace_id = $5 and state = 'in_review'
         order by lsn limit $6) t
     join channels c on c.id = t.channel_id"
);
