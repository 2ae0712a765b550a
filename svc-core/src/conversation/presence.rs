//! Presence: which members are online, and the status that they report.
//!
//! A member stays online for 30 seconds after its last heartbeat. A parked wait or an open subscription keeps
//! the member online too. Heartbeats are not events, and each heartbeat replaces the status of the previous
//! one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::{visible, visible_thread_place};
use crate::id::{MemberId, ThreadId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{PRESENCE_HEARTBEAT_INTERVAL, PRESENCE_NOTE_MAX, PRESENCE_TTL};
use crate::op::{Answer, Feature, Read, Records, Write, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::default_is;
use crate::store::{Engine, columns, named_enum};
use crate::text::Text;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "presence",
            vec![
                idempotent("send_heartbeat", send_heartbeat)
                    .title("Send a heartbeat")
                    .when("Report that you are online, with your status and activity.")
                    .post("/me/presence")
                    .needs(&[WorkspaceRead])
                    .example(|w| {
                        json!({"status": "busy", "note": "running the tests", "thread_id": w.id("thread")})
                    }),
                read("list_presence", list_presence)
                    .title("List online members")
                    .when("List the members who are online, with the status of each member.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/presence")
                    .needs(&[WorkspaceRead])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
            ],
        )
        .keep_members_online(keep_online)
        .records(vec![Records::table("presence", "member_id").through("member_id", "members").stays()])
}

named_enum! {
    /// Status that a member reports.
    pub enum PresenceStatus { Active = "active", Away = "away", Busy = "busy" }
}

/// SQL condition that the member in row `$p` of `presence` is online. `$since` is the result of
/// [`online_since`].
macro_rules! online {
    ($p:ident, $since:literal) => {
        concat!("(", stringify!($p), ".seen_at > ", $since, ")")
    };
}
pub(crate) use online;

/// Returns the time after which a member must have been seen to count as online now.
pub(crate) fn online_since(now: Time) -> Time {
    now.before(PRESENCE_TTL)
}

request! {
    /// Reports that you are online, with a status, and returns the interval between heartbeats.
    ///
    /// You are online for 30 seconds after each heartbeat, and while a waiting operation or a WebSocket
    /// subscription of yours is open: during a wait, heartbeats are not needed. A heartbeat replaces the
    /// previous one and creates no event.
    #[derive(Serialize)]
    struct SendHeartbeat {
        /// Your status: `active`, `away` or `busy`.
        status: PresenceStatus,
        /// Your current activity; all members of the workspace can read it.
        #[schemars(transform = default_is("nothing"))]
        note: Option<Text<1, PRESENCE_NOTE_MAX>>,
        /// The thread that you are working on; shown to members who may see it.
        #[schemars(transform = default_is("none"))]
        thread_id: Option<ThreadId>,
    }

    send_heartbeat(status: PresenceStatus) -> HeartbeatReceipt
}

/// Answer to a heartbeat: the expected interval between heartbeats, and the time after which a member goes
/// offline.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct HeartbeatReceipt {
    /// Number of seconds after which you should send the next heartbeat.
    pub heartbeat_secs: u64,
    /// Number of seconds after which you go offline if you send no further heartbeat.
    pub ttl_secs: u64,
}

impl<I> Answer<I> for HeartbeatReceipt {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(_: &Read<'_>, _: &I, receipt: Self) -> Result<Self> {
        Ok(receipt)
    }
}

/// The data of a member's last heartbeat, as stored in the table `presence`.
#[derive(PartialEq, Eq)]
struct StoredHeartbeat {
    status: PresenceStatus,
    note: Option<String>,
    thread_id: Option<ThreadId>,
}

columns! { heartbeat_columns: StoredHeartbeat as p { status, note, thread_id } }

fn send_heartbeat(cx: &mut Write<'_>, input: &SendHeartbeat) -> Result<HeartbeatReceipt> {
    let member = cx.caller().member_id()?;
    let thread_id = input.thread_id.map(|thread| visible_thread_place(cx, thread)).transpose()?;
    let thread_id = thread_id.map(|place| place.thread_id);
    let heartbeat =
        StoredHeartbeat { status: input.status, note: input.note.as_deref().map(str::to_owned), thread_id };
    let now = cx.now();
    let before: Option<StoredHeartbeat> = cx.one(STORED_HEARTBEAT, &[&member, &online_since(now)])?;
    if before.as_ref() == Some(&heartbeat) {
        cx.unchanged();
    }
    cx.execute(
        1,
        UPSERT_HEARTBEAT,
        &[&member, &heartbeat.status, &heartbeat.note, &heartbeat.thread_id, &now],
    )?;
    Ok(HeartbeatReceipt {
        heartbeat_secs: PRESENCE_HEARTBEAT_INTERVAL.as_secs(),
        ttl_secs: PRESENCE_TTL.as_secs(),
    })
}

const STORED_HEARTBEAT: &str = concat!(
    "select ",
    heartbeat_columns!(),
    " from presence p where p.member_id = $1 and ",
    online!(p, "$2")
);

const UPSERT_HEARTBEAT: &str = "
    insert into presence (member_id, status, note, thread_id, seen_at) values ($1, $2, $3, $4, $5)
    on conflict (member_id) do update set status = excluded.status, note = excluded.note,
        thread_id = excluded.thread_id, seen_at = excluded.seen_at";

/// A member who is online.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OnlineMember {
    /// Id of the member.
    pub member_id: MemberId,
    /// Handle of the member.
    pub handle: String,
    /// Status that the member reported: `active`, `away` or `busy`. It is `active` if the member reported no
    /// status.
    pub status: PresenceStatus,
    /// Activity that the member reported; null if the member reported no activity.
    pub note: Option<String>,
    /// Id of the thread on which the member reported to be working; null if the member reported no thread, or
    /// if you may not see the thread.
    pub thread_id: Option<ThreadId>,
    /// Time at which the member was last seen.
    pub seen_at: Time,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    online_columns: OnlineMember as p {
        member_id,
        handle = "m.handle",
        status,
        note,
        thread_id = ("case when c.id is not null and ", visible!(c), " then p.thread_id end"),
        seen_at,
        lsn = "m.lsn",
    }
}

request! {
    /// Returns the members who are online, in the order in which they joined the workspace.
    ///
    /// A member is online if it was seen within the last 30 seconds.
    ///
    /// One page covers up to 2000 members, so it may be short or empty although more members follow: continue
    /// while `next_cursor` is not null.
    struct ListPresence {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_presence() -> Page<OnlineMember>
}

fn list_presence(cx: &Read<'_>, input: &ListPresence) -> Result<Page<OnlineMember>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let horizon = cx.horizon(MEMBER_SCAN_HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let since = online_since(cx.now());
    let params = visibility.and(&[&workspace_id, &after, &limit, &last, &since]);
    Ok(Page::within(horizon, cx.rows(LIST_ONLINE, &params)?, input.limit, |online: &OnlineMember| online.lsn))
}

const LIST_ONLINE: &str = concat!(
    "select ",
    online_columns!(),
    " from members m
     join presence p on p.member_id = m.id
     left join threads t on t.id = p.thread_id
     left join channels c on c.id = t.channel_id
     where m.workspace_id = $5 and m.lsn > $6 and m.lsn <= $8 and m.deactivated_at is null and ",
    online!(p, "$9"),
    " order by m.lsn limit $7"
);

const MEMBER_SCAN_HORIZON: &str =
    "select lsn from members where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Keeps connected members online. Members who were offline receive the default status, `active`.
fn keep_online(cx: &mut Write<'_>, members: &[Uuid]) -> Result<()> {
    let now = cx.now();
    let since = online_since(now);
    let sql = match cx.engine() {
        Engine::Sqlite => KEEP_ONLINE_SQLITE,
        Engine::Postgres => KEEP_ONLINE_POSTGRES,
    };
    cx.execute_any(sql, &[&members, &now, &since])
}

/// SQL assignments that update row `p` of a member who was seen at `$2`.
///
/// The status is kept if the member was still online, that is, if the member was last seen after `$3`.
macro_rules! set_online {
    () => {
        "seen_at = $2,
         status = case when p.seen_at > $3 then p.status else 'active' end,
         note = case when p.seen_at > $3 then p.note end,
         thread_id = case when p.seen_at > $3 then p.thread_id end"
    };
}

/// SQL statement that inserts a row for each member `m` who is active in a live workspace.
macro_rules! insert_online {
    ($which:literal) => {
        concat!(
            "insert into presence as p (member_id, status, seen_at)
             select m.id, 'active', $2 from members m join workspaces w on w.id = m.workspace_id
             where w.state = 'live' and m.deactivated_at is null and m.id ",
            $which
        )
    };
}

const KEEP_ONLINE_SQLITE: &str = concat!(
    insert_online!("in (select unhex(value) from json_each($1))"),
    " on conflict (member_id) do update set ",
    set_online!()
);

/// Skips rows that another transaction is changing, because the members of these rows have just sent a
/// heartbeat.
const KEEP_ONLINE_POSTGRES: &str = concat!(
    "with free as materialized (
        select f.member_id from presence f where f.member_id = any($1) for update skip locked),
     kept as (update presence p set ",
    set_online!(),
    " from free where free.member_id = p.member_id) ",
    insert_online!("= any($1)"),
    " and not exists (select 1 from presence known where known.member_id = m.id)
     order by m.id on conflict do nothing"
);
