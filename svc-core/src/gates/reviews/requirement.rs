//! Review requirements of a thread: the number of approvals required to close it, and its listed reviewers.
//!
//! Approvals by members with the skill `review` count even if the members are not listed as reviewers.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::visibility;
use crate::coordination::thread_row::visible_thread;
use crate::error::Error;
use crate::gates::verdict_rules::check_may_lower_requirements;
use crate::id::{MemberId, ThreadId};
use crate::identity::members;
use crate::limits::{APPROVALS_MAX, REVIEWERS_MAX};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Read, Write};
use crate::page::{Cursor, Page};
use crate::request::request;
use crate::store::{columns, new_row};
use crate::text::Count;
use crate::time::Time;

/// A member set the number of approvals that a thread requires.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReviewRequirementSet {
    /// Number of approvals that must count before the thread may close; 0 if none is required.
    approvals: i64,
}

impl Event for ReviewRequirementSet {
    const KIND: &'static str = "ReviewRequirementSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let requirement = event.row_of("review_requirements", "$thread")?.made();
        requirement.copy("approvals").set("lsn", event.lsn()).keep()
    }
}

/// A member was listed as a reviewer of a thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReviewerAdded {
    /// Id of the member who was listed as a reviewer.
    member_id: MemberId,
}

impl Event for ReviewerAdded {
    const KIND: &'static str = "ReviewerAdded";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let reviewer = event.row_of("reviewers", "$thread member_id")?.made();
        let reviewer = reviewer.set("added_by", event.subject()).set("added_at", event.at());
        reviewer.set("lsn", event.lsn()).keep()
    }
}

/// A member was removed from the listed reviewers of a thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReviewerRemoved {
    /// Id of the member who is no longer a listed reviewer.
    member_id: MemberId,
}

impl Event for ReviewerRemoved {
    const KIND: &'static str = "ReviewerRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("reviewers", "$thread member_id")?.remove()
    }
}

/// Number of approvals that a thread requires before it may close.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReviewRequirement {
    /// Id of the thread that requires the approvals.
    pub thread_id: ThreadId,
    /// Number of approvals that must count before the thread may close; 0 if none is required.
    pub approvals: i64,
}

impl<I> Answer<I> for ReviewRequirement {
    type Kept = ThreadId;

    fn kept(&self) -> Option<ThreadId> {
        Some(self.thread_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, thread_id: ThreadId) -> Result<Self> {
        get_review_requirement(cx, &GetReviewRequirement { thread_id })
    }
}

request! {
    /// Sets how many valid approvals a thread needs before it may close, and returns that number.
    ///
    /// 0 requires no approval. `get_review_status` shows which approvals count.
    ///
    /// Fails with 403 `forbidden` if you lower the number and have worked on the thread, directly or through
    /// a delegate; 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    pub(super) struct SetReviewRequirement {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Number of approvals by different members, from 0 to 10.
        approvals: Count<0, APPROVALS_MAX>,
    }

    set_review_requirement(thread_id: ThreadId, approvals: Count<0, APPROVALS_MAX>) -> ReviewRequirement
}

pub(super) fn set_review_requirement(
    cx: &mut Write<'_>,
    input: &SetReviewRequirement,
) -> Result<ReviewRequirement> {
    let thread = visible_thread(cx, input.thread_id)?;
    let before = required_approvals(cx, thread.id)?;
    let approvals = input.approvals.get();
    if approvals < before {
        check_may_lower_requirements(cx, &thread)?;
    }
    thread.check_not_archived()?;
    if approvals != before {
        let lsn = cx.emit(thread.place(), &ReviewRequirementSet { approvals })?.lsn;
        cx.execute(1, SET_REQUIRED_APPROVALS, &[&thread.id, &approvals, &lsn])?;
    }
    Ok(ReviewRequirement { thread_id: thread.id, approvals })
}

const SET_REQUIRED_APPROVALS: &str = "
    insert into review_requirements (thread_id, approvals, lsn) values ($1, $2, $3)
    on conflict (thread_id) do update set approvals = excluded.approvals, lsn = excluded.lsn";

request! {
    /// Returns how many valid approvals a thread needs before it may close.
    pub(super) struct GetReviewRequirement {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_review_requirement(thread_id: ThreadId) -> ReviewRequirement
}

pub(super) fn get_review_requirement(
    cx: &Read<'_>,
    input: &GetReviewRequirement,
) -> Result<ReviewRequirement> {
    let thread = visible_thread(cx, input.thread_id)?;
    Ok(ReviewRequirement { thread_id: thread.id, approvals: required_approvals(cx, thread.id)? })
}

/// Returns the number of approvals that a thread requires before it may close; 0 if none is required.
pub(super) fn required_approvals(cx: &Read<'_>, thread: ThreadId) -> Result<i64> {
    let found: Option<(i64,)> = cx.one(REQUIRED_APPROVALS, &[&thread])?;
    Ok(found.map_or(0, |(approvals,)| approvals))
}

const REQUIRED_APPROVALS: &str = "select approvals from review_requirements where thread_id = $1";

/// A listed reviewer of a thread.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Reviewer {
    /// Id of the thread that the member may review.
    pub thread_id: ThreadId,
    /// Id of the listed reviewer.
    pub member_id: MemberId,
    /// The member who listed the reviewer; null for the service itself.
    pub added_by: Option<MemberId>,
    /// Time at which the reviewer was listed.
    pub added_at: Time,
    /// Position of the event `ReviewerAdded` in the workspace's event log.
    pub lsn: i64,
}

columns! { reviewer_columns: Reviewer as r { thread_id, member_id, added_by, added_at, lsn } }

request! {
    /// Adds a member to the reviewers of a thread, and returns the new entry.
    ///
    /// A listed member's approvals count even without the skill `review`, unless the member owns the thread
    /// or has worked on it.
    ///
    /// Listing a member again changes nothing.
    ///
    /// Fails with 403 `forbidden` if you have worked on the thread, directly or through a delegate; 409
    /// `wrong-state` if the thread is archived, if the member may not see the thread's channel, or if 100
    /// other members are already listed.
    #[derive(Serialize)]
    pub(super) struct AddReviewer {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The member to list.
        member_id: MemberId,
    }

    add_reviewer(thread_id: ThreadId, member_id: MemberId) -> Reviewer
}

pub(super) fn add_reviewer(cx: &mut Write<'_>, input: &AddReviewer) -> Result<Reviewer> {
    let thread = visible_thread(cx, input.thread_id)?;
    let member_id = members::load_member(cx, input.member_id)?.id;
    thread.check_not_archived()?;
    if let Some(listed) = cx.one(REVIEWER_OF_THREAD, &[&thread.id, &member_id])? {
        return Ok(listed);
    }
    // A worker who could choose the approvers could get its own work approved.
    check_may_lower_requirements(cx, &thread)?;
    if !visibility::is_channel_visible_to(cx, thread.channel_id, member_id)? {
        return Err(Error::wrong_state(
            "the member may not see the thread's channel: add the member to it first",
        ));
    }
    let (count,): (i64,) = cx.one(COUNT_REVIEWERS, &[&thread.id])?.unwrap_or_default();
    if count >= REVIEWERS_MAX {
        return Err(Error::wrong_state(format!("a thread has at most {REVIEWERS_MAX} listed reviewers")));
    }
    let recorded = cx.emit(thread.place().about(member_id), &ReviewerAdded { member_id })?;
    inbox::notify(cx, &recorded, InboxReason::ReviewRequested, None, Recipients::Members(&[member_id]))?;
    let thread_id = thread.id;
    let added_by = cx.caller().member;
    let added_at = recorded.at;
    let lsn = recorded.lsn;
    cx.insert(&new_row!("insert into reviewers" { thread_id, member_id, added_by, added_at, lsn }))?;
    Ok(Reviewer { thread_id, member_id, added_by, added_at, lsn })
}

/// A repeated request does not return an entry that was removed, even if the member was listed again later.
impl<I> Answer<I> for Reviewer {
    type Kept = (ThreadId, MemberId, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.thread_id, self.member_id, self.lsn))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (thread, member, lsn): Self::Kept) -> Result<Self> {
        let found: Option<Self> = cx.one(REVIEWER_OF_THREAD, &[&visible_thread(cx, thread)?.id, &member])?;
        found.filter(|listed| listed.lsn == lsn).ok_or_else(|| Error::not_found("reviewer"))
    }
}

const REVIEWER_OF_THREAD: &str =
    concat!("select ", reviewer_columns!(), " from reviewers r where r.thread_id = $1 and r.member_id = $2");

const COUNT_REVIEWERS: &str = "select count(*) from reviewers where thread_id = $1";

request! {
    /// Removes a member from the reviewers of a thread, and returns the removed entry.
    ///
    /// Approvals by the member stop counting unless the member has the skill `review`. Findings by the member
    /// are kept.
    ///
    /// Fails with 404 `not-found` if the member is not listed; 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    pub(super) struct RemoveReviewer {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The listed member to remove.
        member_id: MemberId,
    }

    remove_reviewer(thread_id: ThreadId, member_id: MemberId) -> Reviewer
}

pub(super) fn remove_reviewer(cx: &mut Write<'_>, input: &RemoveReviewer) -> Result<Reviewer> {
    let thread = visible_thread(cx, input.thread_id)?;
    let listed: Option<Reviewer> = cx.one(REVIEWER_OF_THREAD, &[&thread.id, &input.member_id])?;
    let listed = listed.ok_or_else(|| Error::not_found("reviewer"))?;
    thread.check_not_archived()?;
    cx.execute(1, REMOVE_REVIEWER, &[&thread.id, &listed.member_id])?;
    let removed = ReviewerRemoved { member_id: listed.member_id };
    cx.emit(thread.place().about(listed.member_id), &removed)?;
    Ok(listed)
}

const REMOVE_REVIEWER: &str = "delete from reviewers where thread_id = $1 and member_id = $2";

request! {
    /// Returns the members who were asked to review a thread, in the order in which they were asked.
    pub(super) struct ListReviewers {
        /// Id of the thread.
        thread_id: ThreadId,
        cursor: Option<Cursor>,
    }

    list_reviewers(thread_id: ThreadId) -> Page<Reviewer>
}

pub(super) fn list_reviewers(cx: &Read<'_>, input: &ListReviewers) -> Result<Page<Reviewer>> {
    let thread = visible_thread(cx, input.thread_id)?;
    Ok(Page::rest(listed_reviewers(cx, thread.id)?, input.cursor, |listed: &Reviewer| listed.lsn))
}

fn listed_reviewers(cx: &Read<'_>, thread: ThreadId) -> Result<Vec<Reviewer>> {
    cx.query(LISTED_REVIEWERS, &[&thread])
}

const LISTED_REVIEWERS: &str =
    concat!("select ", reviewer_columns!(), " from reviewers r where r.thread_id = $1 order by r.lsn");

/// Returns the members whose approvals may count: the thread's listed reviewers and all members with the
/// skill `review`.
pub(super) fn qualified_members(cx: &Read<'_>, thread: ThreadId) -> Result<BTreeSet<MemberId>> {
    let mut qualified = members::members_with_skill(cx, members::REVIEW_SKILL)?;
    qualified.extend(listed_reviewers(cx, thread)?.into_iter().map(|reviewer| reviewer.member_id));
    Ok(qualified)
}
