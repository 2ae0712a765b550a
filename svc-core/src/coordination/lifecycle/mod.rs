//! The lifecycle of a thread: creation, changes, transitions between states, and cancelling.
//!
//! This file lists the operations that create threads and change their fields. The files for transitions and
//! cancelling list their own operations; the file for transitions also lists the conditions of a transition.

pub(crate) mod create;
pub(crate) mod change;
pub(crate) mod transition;
pub(crate) mod cancel;

use serde_json::json;

use crate::capability::Capability::{ThreadTransition, WorkspaceWrite};
use crate::coordination::{footprint, skill_sets};
use crate::error::Code;
use crate::limits::{PRIORITY_MAX, PRIORITY_MIN, TITLE_MAX};
use crate::log::event::EventKind;
use crate::op::{Class, Effect, Feature, Records, changing, idempotent};
use crate::text::{Count, Text};
use change::{
    ThreadOwnerChanged, ThreadUpdated, set_required_skills, set_thread_owner, set_thread_priority,
    update_thread,
};
pub(in crate::coordination) use change::{ThreadPriorityChanged, ThreadSkillsChanged};
pub(in crate::coordination) use create::{ThreadCreated, create_dm_thread};
use create::{create_child_thread, create_thread, seal_first_message, seal_first_message_of_child};

type Title = Text<1, TITLE_MAX>;
type Priority = Count<PRIORITY_MIN, PRIORITY_MAX>;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                changing("create_thread", Effect::Write)
                    .prepare(seal_first_message)
                    .run(create_thread)
                    .title("Create a thread")
                    .when(
                        "Create a thread (a task) in a channel. Use `create_child_thread` to split a task, \
                         `post_message` to only talk.",
                    )
                    .post("/channels/{channel_id}/threads")
                    .needs(&[WorkspaceWrite])
                    .created()
                    .refuses(&[Code::WrongState, Code::NotVisibleToAll])
                    .example(|w| {
                        json!({
                            "channel_id": w.id("channel"), "title": "Port the parser", "priority": 10,
                            "required_skills": ["rust"], "depends_on": [w.id("thread")],
                            "body": "Start with the lexer: it has four states.",
                        })
                    }),
                changing("create_child_thread", Effect::Write)
                    .prepare(seal_first_message_of_child)
                    .records_refusals(create_child_thread)
                    .title("Create a child thread")
                    .when(
                        "Create a child thread (a subtask) of a thread. Use `create_thread` for an \
                         independent task.",
                    )
                    .post("/threads/{thread_id}/children")
                    .needs(&[WorkspaceWrite])
                    .created()
                    .refuses(&[Code::WrongState, Code::SpawnRejected, Code::NotVisibleToAll])
                    .example(|w| {
                        json!({
                            "thread_id": w.id("thread"), "title": "Write the tests", "priority": -5,
                            "required_skills": ["python"], "depends_on": [w.id("claimed_thread")],
                            "tools": ["grep", "pytest"], "body": "One test for each state.",
                        })
                    }),
                idempotent("update_thread", update_thread)
                    .title("Change a thread's title")
                    .when("Change a thread's title. Use `transition_thread` to change its state.")
                    .patch("/threads/{thread_id}")
                    .needs(&[WorkspaceWrite])
                    .refuses(&[Code::WrongState])
                    .example(
                        |w| json!({"thread_id": w.id("thread"), "title": "Port the parser and its tests"}),
                    ),
                idempotent("set_thread_priority", set_thread_priority)
                    .title("Set a thread's priority")
                    .when("Set the priority of a thread.")
                    .put("/threads/{thread_id}/priority")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(|w| json!({"thread_id": w.id("thread"), "priority": 50})),
                idempotent("set_thread_owner", set_thread_owner)
                    .title("Set a thread's owner")
                    .when(
                        "Set or clear a thread's owner, the member responsible for it. Claims determine who \
                         works on it.",
                    )
                    .put("/threads/{thread_id}/owner")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::NotFound, Code::WrongState])
                    .example(|w| json!({"thread_id": w.id("thread"), "owner_id": w.id("agent")})),
                idempotent("set_required_skills", set_required_skills)
                    .title("Set the skills that a thread requires")
                    .when("Replace the skills that a member must have to claim a thread.")
                    .put("/threads/{thread_id}/required-skills")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(|w| json!({"thread_id": w.id("thread"), "required_skills": ["python"]})),
            ],
        )
        .events(vec![
            EventKind::of::<ThreadCreated>(),
            EventKind::of::<ThreadUpdated>(),
            EventKind::of::<ThreadPriorityChanged>(),
            EventKind::of::<ThreadOwnerChanged>(),
            EventKind::of::<ThreadSkillsChanged>(),
        ])
        .records(vec![
            Records::table("skill_sets", "workspace_id id")
                .after("workspaces")
                .ids("workspace_id")
                .ints("id")
                .texts("skills")
                .digest("hash", |row| Ok(skill_sets::hash_of(row.text("skills").unwrap_or_default())))
                .unproven("id skills hash", "compared where a thread requires it"),
            Records::table("threads", "lsn id")
                .after("channels")
                .ids("id workspace_id channel_id parent_id owner_id assignee_id claim_lease_id created_by")
                .texts("title state tools")
                .times(
                    "claimed_at assignment_expires_at acknowledged_at acknowledge_by cancelled_at created_at",
                )
                .ints(
                    "depth priority skill_set blocked worked_micros lsn footprint judged_from spent_tokens \
           spent_usd_micros spent_turns attempts children_ever claim_lsn",
                )
                .bools("has_result has_checkpoint budgeted exhausted dead")
                .proven(
                    "id",
                    "channel_id parent_id depth title state priority tools blocked owner_id created_by \
                     created_at lsn cancelled_at has_result judged_from children_ever",
                )
                .proven(
                    "id",
                    "assignee_id claim_lease_id claimed_at assignment_expires_at acknowledged_at \
                     acknowledge_by claim_lsn worked_micros attempts spent_tokens spent_usd_micros \
                     spent_turns budgeted exhausted dead",
                )
                .proven_as("skill_set", Class::Text, skill_sets::SKILLS_TEXT_SQL)
                .proven_as("footprint", Class::Text, footprint::FOOTPRINT_TEXT_SQL)
                .unproven("has_checkpoint", "follows from the checkpoint of the claim, which is compared"),
            Records::table("thread_workers", "thread_id member_id")
                .through("thread_id", "threads")
                .ids("thread_id member_id")
                .ints("lsn")
                .proven("thread_id member_id", "lsn"),
        ])
}
