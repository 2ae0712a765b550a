//! Reviews: members' judgements of the work in a thread, and the approvals required to close the thread.
//!
//! Any member who can see a thread may review it; [`verdict_rules`](super::verdict_rules) decides which
//! approvals count. A verdict is kept permanently. The text of a review, including its findings, is one
//! sealed message by the reviewer in the thread, and can be withdrawn. An unresolved critical finding
//! prevents the thread from closing, whatever the verdict.

pub(crate) mod requirement;
pub(crate) mod verdicts;
pub(crate) mod findings;
mod review_text;
pub(crate) mod submit;
pub(crate) mod status;
mod awaiting;

use serde_json::json;

use crate::capability::Capability::ThreadTransition;
use crate::coordination::lifecycle::transition::CLOSE;
use crate::error::Code;
use crate::log::event::EventKind;
use crate::op::{
    Condition, Effect, Feature, KEEP_ROWS, Operation, Records, Sample, changing, destructive, idempotent,
    read,
};
pub(crate) use awaiting::threads_to_review;

pub(crate) fn feature() -> Feature {
    Feature::new()
        // The verdict is kept when the text of its review is removed.
        .cleaner("reviews", KEEP_ROWS)
        .operations("reviews", requirement_operations())
        .operations("reviews", review_operations())
        .events(vec![
            EventKind::of::<requirement::ReviewRequirementSet>(),
            EventKind::of::<requirement::ReviewerAdded>(),
            EventKind::of::<requirement::ReviewerRemoved>(),
            EventKind::of::<submit::ReviewSubmitted>(),
            EventKind::of::<findings::FindingResolved>(),
        ])
        .condition(Condition { name: "approvals", action: CLOSE, unmet: status::missing_approvals })
        .condition(Condition { name: "findings", action: CLOSE, unmet: findings::blocking_findings })
        // No member of the sample workspace has this skill, so no example claims the thread.
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

fn requirement_operations() -> Vec<Operation> {
    vec![
        idempotent("set_review_requirement", requirement::set_review_requirement)
            .title("Set a thread's review requirement")
            .when("Set how many approvals a thread needs before it may close.")
            .put("/threads/{thread_id}/review-requirement")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "approvals": 2})),
        read("get_review_requirement", requirement::get_review_requirement)
            .title("Read a thread's review requirement")
            .when(
                "Get how many valid approvals a thread needs before it may close. Use `get_review_status` to \
                 see which are valid.",
            )
            .get("/threads/{thread_id}/review-requirement")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
        idempotent("add_reviewer", requirement::add_reviewer)
            .title("Add a reviewer to a thread")
            .when("Ask a member to review a thread, by adding the member to the thread's reviewers.")
            .put("/threads/{thread_id}/reviewers/{member_id}")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "member_id": w.id("agent")})),
        destructive("remove_reviewer", requirement::remove_reviewer)
            .title("Remove a reviewer from a thread")
            .when("Remove a member from the reviewers of a thread.")
            .reversible()
            .delete("/threads/{thread_id}/reviewers/{member_id}")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotFound, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("reviewed_thread"), "member_id": w.id("agent")})),
        read("list_reviewers", requirement::list_reviewers)
            .detailed()
            .title("List a thread's reviewers")
            .when("List the members who were asked to review a thread. Use `list_reviews` for the reviews.")
            .get("/threads/{thread_id}/reviewers")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
    ]
}

fn review_operations() -> Vec<Operation> {
    vec![
        changing("submit_review", Effect::Write)
            .prepare(submit::seal_review)
            .run(submit::submit_review)
            .title("Review a thread")
            .when(
                "Submit a review of a thread: a verdict with findings. Read the result first. Use \
                 `post_message` to only comment.",
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
            .resumes_text("body")
            .title("List a thread's reviews")
            .when(
                "List a thread's reviews with text and findings, oldest first. Use `get_review_status` to \
                 see which are valid.",
            )
            .detailed()
            .get("/threads/{thread_id}/reviews")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread"), "limit": 10})),
        read("get_review_status", status::get_review_status)
            .title("Read the review status of a thread")
            .when(
                "Check which reviews of a thread count, and how many approvals it needs before it may \
                 close. Use `list_reviews` for their text.",
            )
            .get("/threads/{thread_id}/review-status")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.id("reviewed_thread")})),
        idempotent("resolve_finding", findings::resolve_finding)
            .title("Resolve a finding of a review")
            .when("Mark a finding of a review as fixed, invalid or not to be fixed.")
            .post("/threads/{thread_id}/findings/{finding_id}/resolve")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
            .example(|w| {
                json!({"thread_id": w.id("reviewed_thread"), "finding_id": w.id("finding"),
                       "resolution": "fixed"})
            }),
    ]
}
