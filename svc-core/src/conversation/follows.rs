//! Follows: a member follows threads, channels and members, to see where messages are unread.
//!
//! Posting a message causes no additional work for its followers: unread messages are counted when a follower
//! lists its follows. Follows are private: no event, no export and no response to another member contains
//! them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::inbox::{self, InboxReason};
use crate::conversation::visibility::{visible, visible_channel, visible_thread_place};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::identity::members::load_member;
use crate::identity::workspaces::OwnId;
use crate::limits::{FOLLOWS_MAX, UNREAD_PER_FOLLOW_MAX};
use crate::log::event::RecordedEvent;
use crate::op::{Answer, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::brief;
use crate::store::{columns, named_enum, new_row};
use crate::time::Time;

/// Maximum follows on one page. The limit is low because a list counts the unread messages of each follow.
const FOLLOWS_PER_PAGE_MAX: i64 = 40;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("notifications", operations())
        .sample(
            Sample::new("followed_channel", "follow", |w| json!({"target_id": w.id("channel")}))
                .id_at("/target_id"),
        )
        .records(vec![
            Records::table("follows", "member_id target_id").through("member_id", "members").stays(),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("follow", follow)
            .title("Follow a thread, a channel or a member")
            .when(
                "Follow a thread, channel or member, to count its new messages as unread. `list_follows` \
                 returns the counts.",
            )
            .put("/me/follows/{target_id}")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"target_id": w.id("channel")})),
        destructive("unfollow", unfollow)
            .title("Stop following")
            .when("Stop following a thread, channel or member; its messages no longer count as unread.")
            .reversible()
            .delete("/me/follows/{target_id}")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::NotFound])
            .example(|w| json!({"target_id": w.id("followed_channel")})),
        read("list_follows", list_follows)
            .title("List your follows")
            .when(
                "List the threads, channels and members that you follow, with unread counts. Use \
                 `list_inbox` for messages to you.",
            )
            .detailed()
            .get("/me/follows")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"limit": 10})),
    ]
}

named_enum! {
    /// Kind of an object that a member follows.
    pub enum FollowedKind { Thread = "thread", Channel = "channel", Member = "member" }
}

/// A thread, channel or member that you follow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Follow")]
#[non_exhaustive]
pub struct FollowEntry {
    /// Id of the followed thread, channel or member.
    pub target_id: Uuid,
    /// Kind of the followed object: `thread`, `channel` or `member`.
    pub kind: FollowedKind,
    /// Number of unseen messages by other members in the followed thread or channel, among its last 100
    /// unseen messages; null for a followed member.
    pub unread: Option<i64>,
    /// Position in the workspace's log of the last message in the followed thread or channel; null if it has
    /// no messages, or if its last 100 messages are all withdrawn, or for a followed member.
    pub last_lsn: Option<i64>,
    /// Time at which you began to follow the object.
    pub followed_at: Time,
    #[serde(skip)]
    seq: i64,
}

/// SQL expression that counts the unseen messages by other members for the follow in row `f`, up to a limit.
/// `$of` is the column of `messages` with the id of the followed thread or channel.
macro_rules! unseen_count {
    ($of:literal) => {
        concat!(
            "(select count(*) from (
                select m.withdrawn_at, m.author_id from messages m
                where m.",
            $of,
            " = f.target_id and m.lsn > f.seen_lsn order by m.lsn desc limit $9) m
              where m.withdrawn_at is null and m.author_id is distinct from f.member_id)"
        )
    };
}

/// SQL expression for the position of the last message that is not withdrawn, among a limited number of
/// messages. `$of` is the column of `messages` with the id of the followed thread or channel.
macro_rules! last_position {
    ($of:literal) => {
        concat!(
            "(select max(m.lsn) from (
                select m.lsn, m.withdrawn_at from messages m
                where m.",
            $of,
            " = f.target_id order by m.lsn desc limit $9) m
              where m.withdrawn_at is null)"
        )
    };
}

columns! {
    follow_columns: FollowEntry as f {
        target_id,
        kind,
        unread = (
            "case f.kind when 'thread' then ", unseen_count!("thread_id"),
            " when 'channel' then ", unseen_count!("channel_id"), " end"
        ),
        last_lsn = (
            "case f.kind when 'thread' then ", last_position!("thread_id"),
            " when 'channel' then ", last_position!("channel_id"), " end"
        ),
        followed_at = at,
        seq,
    }
}

impl<I> Answer<I> for FollowEntry {
    type Kept = (Uuid, Time);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.target_id, self.followed_at))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (target, at): Self::Kept) -> Result<Self> {
        find_follow(cx, target)?
            .filter(|found| found.followed_at == at)
            .ok_or_else(|| Error::not_found("follow"))
    }
}

request! {
    /// Follows a thread, a channel or a member, and returns the follow.
    ///
    /// New messages there by other members count as unread. Following the same object again marks all earlier
    /// messages there as seen.
    ///
    /// Only you can see your follows.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 409 `wrong-state` if you already follow 500
    /// objects.
    #[derive(Serialize)]
    struct Follow {
        /// Id of the thread, channel or member.
        target_id: Uuid,
        /// Your member id.
        member_id: Option<MemberId>,
    }

    follow(target_id: Uuid) -> FollowEntry
}

fn follow(cx: &mut Write<'_>, input: &Follow) -> Result<FollowEntry> {
    let member_id = cx.caller().member_id()?;
    let target_id = input.target_id;
    let kind = target_kind(cx, input.target_id)?;
    if !mark_seen(cx, target_id)? {
        let (count, last): (i64, i64) = cx
            .one(COUNT_FOLLOWS, &[&member_id])?
            .ok_or_else(|| Error::internal("a count returned no row"))?;
        if count >= FOLLOWS_MAX {
            return Err(Error::wrong_state(format!("you follow {FOLLOWS_MAX} objects, the maximum")));
        }
        let seen_lsn = 0_i64;
        let at = cx.now();
        let seq = last.saturating_add(1);
        cx.insert(&new_row!("insert into follows" { member_id, target_id, kind, seen_lsn, at, seq }))?;
        mark_seen(cx, target_id)?;
    }
    find_follow(cx, target_id)?.ok_or_else(|| Error::internal("what was just followed is missing"))
}

/// Returns the caller's follow of `target`, or `None` if the caller does not follow `target` or may not see
/// it.
fn find_follow(cx: &Read<'_>, target: Uuid) -> Result<Option<FollowEntry>> {
    let member = cx.caller().member_id()?;
    let visibility = cx.caller().visibility.params();
    let before = -1_i64;
    let one = Some(target);
    cx.one(LIST_FOLLOWS, &visibility.and(&[&member, &before, &1_i64, &one, &UNREAD_PER_FOLLOW_MAX]))
}

/// Marks all messages in `target` as seen for the caller, and returns whether the caller follows `target`.
pub(crate) fn mark_seen(cx: &mut Write<'_>, target: Uuid) -> Result<bool> {
    let member = cx.caller().member_id()?;
    Ok(cx.change(MARK_SEEN, &[&member, &target])? > 0)
}

const MARK_SEEN: &str = "
    update follows set seen_lsn = coalesce(case kind
        when 'thread' then (select max(m.lsn) from messages m where m.thread_id = $2)
        when 'channel' then (select max(m.lsn) from messages m where m.channel_id = $2) end, seen_lsn)
    where member_id = $1 and target_id = $2";

/// Notifies the owner of a thread and the followers of the claim's holder that the claim has expired or is
/// unacknowledged.
pub(crate) fn notify_followers_of_claim(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    reason: InboxReason,
    (holder, owner): (Option<MemberId>, Option<MemberId>),
) -> Result<()> {
    let mut notified = holder.map_or(Ok(Vec::new()), |holder| followers(cx, holder))?;
    notified.extend(owner);
    inbox::notify_as_service(cx, cause, reason, &notified)
}

/// Returns the ids of the members who follow a member.
fn followers(cx: &Read<'_>, member: MemberId) -> Result<Vec<MemberId>> {
    let found: Vec<(MemberId,)> = cx.query(SELECT_FOLLOWERS, &[&member])?;
    Ok(found.into_iter().map(|(follower,)| follower).collect())
}

const SELECT_FOLLOWERS: &str = "select member_id from follows where target_id = $1";

const COUNT_FOLLOWS: &str = "select count(*), coalesce(max(seq), 0) from follows where member_id = $1";

/// Returns whether an id is the id of a thread, a channel or a member. Fails with *not found* if the caller
/// may see no such object.
fn target_kind(cx: &Read<'_>, id: Uuid) -> Result<FollowedKind> {
    let is_found = |found: Result<()>| match found {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Code::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    if is_found(visible_thread_place(cx, ThreadId::from(id)).map(|_| ()))? {
        Ok(FollowedKind::Thread)
    } else if is_found(visible_channel(cx, ChannelId::from(id)).map(|_| ()))? {
        Ok(FollowedKind::Channel)
    } else if is_found(load_member(cx, MemberId::from(id)).map(|_| ()))? {
        Ok(FollowedKind::Member)
    } else {
        Err(Error::not_found("thread, channel or member"))
    }
}

/// The object that is no longer followed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unfollowed")]
#[non_exhaustive]
pub struct RemovedFollow {
    /// Id of the thread, channel or member that you no longer follow.
    pub target_id: Uuid,
}

impl<I> Answer<I> for RemovedFollow {
    type Kept = Uuid;

    fn kept(&self) -> Option<Uuid> {
        Some(self.target_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, target_id: Uuid) -> Result<Self> {
        target_kind(cx, target_id)?;
        Ok(Self { target_id })
    }
}

request! {
    /// Stops following a thread, a channel or a member, and returns the id of that object.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 404 `not-found` if you do not follow the object.
    #[derive(Serialize)]
    struct Unfollow {
        /// Id of the thread, channel or member.
        target_id: Uuid,
        /// Your member id.
        member_id: Option<MemberId>,
    }

    unfollow(target_id: Uuid) -> RemovedFollow
}

fn unfollow(cx: &mut Write<'_>, input: &Unfollow) -> Result<RemovedFollow> {
    let member = cx.caller().member_id()?;
    if cx.change(DELETE_FOLLOW, &[&member, &input.target_id])? == 0 {
        return Err(Error::not_found("follow"));
    }
    Ok(RemovedFollow { target_id: input.target_id })
}

const DELETE_FOLLOW: &str = "delete from follows where member_id = $1 and target_id = $2";

request! {
    /// Returns the threads, channels and members that you follow and may see, with the number of unread
    /// messages. The oldest follow is first.
    ///
    /// One page contains up to 40 follows, so it may be shorter than requested although more follows exist:
    /// continue while `next_cursor` is not null.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    #[schemars(transform = brief(""))]
    struct ListFollows {
        /// Your member id.
        #[expect(dead_code, reason = "only checked while it is decoded")]
        member_id: OwnId<MemberId>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_follows() -> Page<FollowEntry>
}

fn list_follows(cx: &Read<'_>, input: &ListFollows) -> Result<Page<FollowEntry>> {
    let member = cx.caller().member_id()?;
    let visibility = cx.caller().visibility.params();
    let after = Cursor::after(input.cursor);
    let limit = Limit::capped(input.limit, FOLLOWS_PER_PAGE_MAX);
    let rows = rows_to_read(limit);
    let all = None::<Uuid>;
    let params = visibility.and(&[&member, &after, &rows, &all, &UNREAD_PER_FOLLOW_MAX]);
    Ok(Page::of(cx.rows(LIST_FOLLOWS, &params)?, limit, |follow: &FollowEntry| follow.seq))
}

/// Selects a page of a member's follows, or only the follow of the object `$8`.
const LIST_FOLLOWS: &str = concat!(
    "select ",
    follow_columns!(),
    " from follows f
     left join threads t on f.kind = 'thread' and t.id = f.target_id
     left join channels c on c.id = coalesce(t.channel_id, f.target_id)
     where f.member_id = $5 and f.seq > $6 and (cast($8 as uuid) is null or f.target_id = $8)
        and (f.kind = 'member' or ",
    visible!(c),
    ") order by f.seq limit $7"
);
