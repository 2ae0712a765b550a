//! Retention: the time for which a workspace keeps its messages and events, and removing them afterwards.
//!
//! The instance sets the maximum retention, and a workspace may set a shorter one. Message content is removed
//! after the days set for messages, while its sealed events stay; events are removed after the days set for
//! events, while messages stay readable. `due` finds data that is old enough, `prune` declares the removal of
//! events in the log and then removes them, and `rounds` does this periodically. The features of deliveries
//! and of media remove their own data.
//!
//! - `holds`: legal holds, during which no content is destroyed
//! - `purge`: destroys the content of a whole workspace
//! - `idempotency_keys`: the rows of requests with an idempotency key, which are kept for a day

pub(crate) mod holds;
pub(crate) mod purge;
pub(crate) mod idempotency_keys;
mod due;
mod prune;
mod rounds;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
use crate::config::RetentionLimits;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{RETENTION_DAYS_MAX, RETENTION_QUOTA_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::floor::EventsPruned;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::request::request;
use crate::store::columns;
use crate::text::Count;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "retention",
            vec![
                idempotent("set_retention_policy", set_retention_policy)
                    .title("Set the retention policy")
                    .when("Replace the retention policy, which limits how long the workspace keeps data.")
                    .put("/workspaces/{workspace_id}/retention")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "messages_days": 365})),
                read("get_retention_policy", get_retention_policy)
                    .title("Read the retention policy")
                    .when(
                        "Get the retention periods of the workspace, and how much data the next pruning will \
                         remove.",
                    )
                    .get("/workspaces/{workspace_id}/retention")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace")})),
            ],
        )
        .events(vec![EventKind::of::<RetentionPolicySet>(), EventKind::of::<EventsPruned>()])
        .chore(rounds::chore())
        .records(vec![
            Records::table("retention", "workspace_id")
                .after("workspaces")
                .ids("workspace_id")
                .ints("messages_days events_days deliveries_days media_days media_quota_bytes lsn")
                .times("at")
                .proven(
                    "workspace_id",
                    "messages_days events_days deliveries_days media_days media_quota_bytes at lsn",
                ),
        ])
}

/// The retention policy of the workspace was set. The instance's values apply where a value is null.
#[derive(Debug, Serialize, JsonSchema)]
struct RetentionPolicySet {
    #[serde(flatten)]
    kept: RetentionLimits,
}

impl Event for RetentionPolicySet {
    const KIND: &'static str = "RetentionPolicySet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let policy = event.row_of("retention", "$workspace")?.made();
        let policy = policy.copy("messages_days events_days deliveries_days media_days media_quota_bytes");
        policy.set("at", event.at()).set("lsn", event.lsn()).keep()
    }
}

/// The retention policy of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RetentionPolicy {
    /// The values that the workspace has set; null where the instance's value applies.
    pub workspace: RetentionLimits,
    /// The maximum retention of the instance.
    pub instance: RetentionLimits,
    /// The values in force: those of the workspace where set, otherwise those of the instance.
    pub effective: RetentionLimits,
    /// The amount of data that the next round of pruning will remove, unless a legal hold prevents it.
    pub pending: PendingRemoval,
}

/// The amount of data that the next round of pruning will remove.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Pending")]
#[non_exhaustive]
pub struct PendingRemoval {
    /// Number of events that will be removed.
    pub events: i64,
    /// Number of messages that will be removed, counted up to 100,000.
    pub messages: i64,
}

type RetentionDays = Count<1, RETENTION_DAYS_MAX>;

request! {
    /// Sets how long the workspace keeps data, and returns the values in force.
    ///
    /// The instance's value applies where yours is null or absent, so an input without values clears the
    /// policy. The next round of pruning permanently removes older data: messages with everything attached to
    /// them, and events up to a floor, from which the log can still be verified. Nothing is removed while the
    /// workspace is under a legal hold.
    ///
    /// A value that exceeds the value of the instance is invalid. Setting the same values again changes
    /// nothing.
    #[derive(Serialize)]
    struct SetRetentionPolicy {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Days for which messages are kept.
        messages_days: Option<RetentionDays>,
        /// Days for which events are kept.
        events_days: Option<RetentionDays>,
        /// Days for which delivery records are kept.
        deliveries_days: Option<RetentionDays>,
        /// Days for which media are kept.
        media_days: Option<RetentionDays>,
        /// Maximum total bytes of media that are kept.
        media_quota_bytes: Option<Count<1, RETENTION_QUOTA_MAX>>,
    }

    set_retention_policy() -> RetentionPolicy
}

impl SetRetentionPolicy {
    fn retention(&self) -> RetentionLimits {
        RetentionLimits {
            messages_days: self.messages_days.map(Count::get),
            events_days: self.events_days.map(Count::get),
            deliveries_days: self.deliveries_days.map(Count::get),
            media_days: self.media_days.map(Count::get),
            media_quota_bytes: self.media_quota_bytes.map(Count::get),
        }
    }
}

fn set_retention_policy(cx: &mut Write<'_>, input: &SetRetentionPolicy) -> Result<RetentionPolicy> {
    let workspace_id = input.workspace_id.of(cx)?;
    let wanted = input.retention();
    check_instance_limits(&wanted, &cx.settings().kept)?;
    if wanted != load_workspace_retention(cx, workspace_id)? {
        let lsn = cx.emit(Subject::WORKSPACE, &RetentionPolicySet { kept: wanted })?.lsn;
        let RetentionLimits { messages_days, events_days, deliveries_days, media_days, media_quota_bytes } =
            wanted;
        let workspace = workspace_id;
        let at = cx.now();
        let values = [messages_days, events_days, deliveries_days, media_days, media_quota_bytes];
        let [a, b, c, d, e] = &values;
        cx.execute(1, UPSERT_POLICY, &[&workspace, a, b, c, d, e, &at, &lsn])?;
        cx.audit("retention_policy.set", serde_json::to_value(wanted).map_err(Error::internal)?)?;
    }
    load_policy(cx, wanted, workspace_id)
}

const UPSERT_POLICY: &str = "
    insert into retention (workspace_id, messages_days, events_days, deliveries_days, media_days,
        media_quota_bytes, at, lsn)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (workspace_id) do update set messages_days = excluded.messages_days,
        events_days = excluded.events_days, deliveries_days = excluded.deliveries_days,
        media_days = excluded.media_days, media_quota_bytes = excluded.media_quota_bytes,
        at = excluded.at, lsn = excluded.lsn";

impl Answer<SetRetentionPolicy> for RetentionPolicy {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, input: &SetRetentionPolicy, (): ()) -> Result<Self> {
        let workspace_id = input.workspace_id.of(cx)?;
        load_policy(cx, load_workspace_retention(cx, workspace_id)?, workspace_id)
    }
}

/// Fails with 400 if a wanted value exceeds the value of the instance.
fn check_instance_limits(wanted: &RetentionLimits, instance: &RetentionLimits) -> Result<()> {
    for ((name, wanted), (_, most)) in wanted.named().into_iter().zip(instance.named()) {
        if let (Some(wanted), Some(most)) = (wanted, most)
            && wanted > most
        {
            return Err(Error::in_field(name, format!("the instance keeps {most} at most, found {wanted}")));
        }
    }
    Ok(())
}

request! {
    /// Returns how long a workspace keeps data, the instance's maximum, and how much data will be removed
    /// next.
    struct GetRetentionPolicy {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
    }

    get_retention_policy() -> RetentionPolicy
}

fn get_retention_policy(cx: &Read<'_>, input: &GetRetentionPolicy) -> Result<RetentionPolicy> {
    let workspace_id = input.workspace_id.of(cx)?;
    load_policy(cx, load_workspace_retention(cx, workspace_id)?, workspace_id)
}

/// Returns the retention policy of a workspace whose own values are `own`.
fn load_policy(cx: &Read<'_>, own: RetentionLimits, workspace: WorkspaceId) -> Result<RetentionPolicy> {
    let instance = cx.settings().kept;
    let effective = own.or(instance);
    let events = due::find_due_events(cx, workspace, &effective)?.map_or(0, |due| due.count());
    let messages = due::find_due_messages(cx, workspace, &effective)?.map_or(0, |due| due.count);
    Ok(RetentionPolicy { workspace: own, instance, effective, pending: PendingRemoval { events, messages } })
}

columns! {
    kept_columns: RetentionLimits as r {
        messages_days, events_days, deliveries_days, media_days, media_quota_bytes
    }
}

/// Returns the retention values that a workspace has set.
fn load_workspace_retention(cx: &Read<'_>, workspace: WorkspaceId) -> Result<RetentionLimits> {
    Ok(cx.one(SELECT_POLICY, &[&workspace])?.unwrap_or(RetentionLimits::FOREVER))
}

const SELECT_POLICY: &str =
    concat!("select ", kept_columns!(), " from retention r where r.workspace_id = $1");
