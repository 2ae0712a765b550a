//! Reviews: judgements of others about the work in a thread, and the approvals that its close requires.
//!
//! Anyone who sees a thread may review it; [`verdict_rules`](super::verdict_rules) decides which approvals
//! count. A verdict stays on record. The text of a review and of its findings is one sealed message of the
//! thread by the reviewer, which can be withdrawn. An unresolved critical finding prevents the close whatever
//! the verdict.

mod requirement;
mod verdicts;
mod findings;
mod review_text;
mod submit;
mod status;
mod awaiting;

use serde_json::json;

use crate::capability::Capability::ThreadTransition;
use crate::coordination::lifecycle::transition::CLOSE;
use crate::error::Code;
use crate::log::event::EventKind;
use crate::op::{
    Condition, Effect, Feature, KEEP, Operation, Records, Sample, changing, destructive, idempotent, read,
};
pub(crate) use awaiting::awaiting;

pub(crate) fn feature() -> Feature {
    Feature::new()
        // A verdict outlives the text of its review.
        .cleaner("reviews", KEEP)
        .operations("reviews", requirements())
        .operations("reviews", reviews())
        .events(vec![
            EventKind::of::<requirement::ReviewRequirementSet>(),
            EventKind::of::<requirement::ReviewerAdded>(),
            EventKind::of::<requirement::ReviewerRemoved>(),
            EventKind::of::<submit::ReviewSubmitted>(),
            EventKind::of::<findings::FindingResolved>(),
        ])
        .condition(Condition { name: "approvals", action: CLOSE, unmet: status::missing_approvals })
        .condition(Condition { name: "findings", action: CLOSE, unmet: findings::blocking_findings })
        // No sample member has the skill, so no example shows it.
        .sample(
            Sample::new("reviewed_thread", "create_thread", |w| {
                json!({"channel_id": w.id("channel"), "title": "Port the printer", "required_skills": ["c"]})
            })
            .then("set_review_requirement", |w| json!({"thread_id": w.id("reviewed_thread"), "approvals": 1}))
            .then(
                "add_reviewer",
                |w| json!({"thread_id": w.id("reviewed_thread"), "member_id": w.id("agent")}),
            ),
        )
        .sample(
            Sample::new("finding", "submit_review", |w| {
                json!({
                    "thread_id": w.id("reviewed_thread"), "verdict": "request_changes",
                    "findings": [{"severity": "major", "body": "The last page is cut off.",
                                  "path": "src/printer.rs", "line": 42}],
                })
            })
            .id_at("/findings/0/id"),
        )
        .records(records())
}

fn records() -> Vec<Records> {
    vec![
        Records::table("review_requirements", "lsn thread_id")
            .through("thread_id", "threads")
            .ids("thread_id")
            .ints("approvals lsn")
            .proven("thread_id", "approvals lsn"),
        Records::table("reviewers", "thread_id member_id")
            .through("thread_id", "threads")
            .ids("thread_id member_id added_by")
            .times("added_at")
            .ints("lsn")
            .proven("thread_id member_id", "added_by added_at lsn"),
        Records::table("reviews", "lsn id")
            .through("thread_id", "threads")
            .after("messages")
            .ids("id thread_id member_id actor_id message_id")
            .texts("verdict objection head_sha")
            .times("submitted_at")
            .ints("lsn")
            .bools("superseded")
            .proven(
                "id",
                "thread_id member_id actor_id verdict objection head_sha message_id submitted_at lsn \
                 superseded",
            ),
        Records::table("findings", "lsn number id")
            .through("thread_id", "threads")
            .after("reviews")
            .ids("id review_id thread_id resolved_by resolved_actor_id")
            .ints("number line lsn")
            .texts("severity resolution")
            .times("resolved_at")
            .proven(
                "id",
                "review_id thread_id number severity line resolution resolved_by resolved_actor_id \
                 resolved_at lsn",
            ),
    ]
}

fn requirements() -> Vec<Operation> {
    vec![
        idempotent("set_review_requirement", requirement::set_review_requirement)
            .title("Set how many approvals a thread requires")
            .when("Use to say how many approvals a thread needs before it may close. 0 requires none.")
            .put("/threads/{thread_id}/review-requirement")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "approvals": 2})),
        read("get_review_requirement", requirement::get_review_requirement)
            .title("Read how many approvals a thread requires")
            .when("Use to see how many approvals a thread requires; `get_review_status` says which it has.")
            .get("/threads/{thread_id}/review-requirement")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
        idempotent("add_reviewer", requirement::add_reviewer)
            .title("List a member as a reviewer of a thread")
            .when("Use to ask a member to review a thread.")
            .put("/threads/{thread_id}/reviewers/{member_id}")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "member_id": w.id("agent")})),
        destructive("remove_reviewer", requirement::remove_reviewer)
            .title("Take a member off a thread's reviewers")
            .when("Use when a member is not to review a thread any more.")
            .reversible()
            .delete("/threads/{thread_id}/reviewers/{member_id}")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotFound, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("reviewed_thread"), "member_id": w.id("agent")})),
        read("list_reviewers", requirement::list_reviewers)
            .detailed()
            .title("List a thread's reviewers")
            .when("Use to see who was asked to review a thread; `list_reviews` has what they said.")
            .get("/threads/{thread_id}/reviewers")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
    ]
}

fn reviews() -> Vec<Operation> {
    vec![
        changing("submit_review", Effect::Write)
            .prepare(submit::seal_review)
            .run(submit::submit_review)
            .title("Review a thread")
            .when(
                "Use after you have read a thread and its result, to give a verdict with findings; to only \
                 talk use `post_message`.",
            )
            .post("/threads/{thread_id}/reviews")
            .needs(&[ThreadTransition])
            .created()
            .refuses(&[Code::WrongState])
            .example(|w| {
                json!({
                    "thread_id": w.id("reviewed_thread"), "verdict": "approve", "head_sha": "0f3c9a1",
                    "body": "Short and clear.",
                    "findings": [{"severity": "minor", "body": "A comment is out of date.",
                                  "path": "src/printer.rs", "line": 7}],
                })
            }),
        read("list_reviews", status::list_reviews)
            .reads_on("body")
            .title("List a thread's reviews")
            .when(
                "Use to read a thread's reviews and findings, oldest first; `get_review_status` says which \
                 count.",
            )
            .detailed()
            .get("/threads/{thread_id}/reviews")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread"), "limit": 10})),
        read("get_review_status", status::get_review_status)
            .title("Read which reviews of a thread count")
            .when(
                "Use to see what reviews are still missing before a thread can close, and which of those \
                 given count.",
            )
            .get("/threads/{thread_id}/review-status")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
        idempotent("resolve_finding", findings::resolve_finding)
            .title("Resolve a finding of a review")
            .when("Use when a finding of a review was dealt with, or does not hold.")
            .post("/threads/{thread_id}/findings/{finding_id}/resolve")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
            .example(|w| {
                json!({"thread_id": w.id("reviewed_thread"), "finding_id": w.id("finding"),
                       "resolution": "fixed"})
            }),
    ]
}
