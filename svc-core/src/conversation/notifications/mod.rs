//! Notifications: listing an inbox, marking its items as read, and the inbox as a queue of outgoing
//! notifications.
//!
//! An inbox is private: no event mentions its contents, and no other member can read it. A list contains only
//! items whose channels the member can see now, with the current texts of their messages.

pub(crate) mod item;
pub(crate) mod list;
pub(crate) mod mark;
pub(crate) mod wait;
pub(crate) mod outgoing;

use serde_json::json;

use crate::capability::Capability::WorkspaceRead;
use crate::error::Code;
use crate::op::{Effect, Feature, Operation, Sample, SampleCaller, changing, read, wait};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("mentions", mention_operations())
        .operations("notifications", inbox_operations())
        .sample(
            Sample::new(
                "mention",
                "post_message",
                |w| json!({"thread_id": w.id("thread"), "body": "is the lexer ready, @ada?"}),
            )
            .by(SampleCaller::Agent),
        )
}

fn mention_operations() -> Vec<Operation> {
    vec![
        read("list_mentions", list::list_mentions)
            .title("List your mentions")
            .when(
                "List the messages that are addressed to you, oldest first. Use `wait_for_mention` to wait \
                 for the next one.",
            )
            .detailed()
            .get("/me/mentions")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"unread": true, "limit": 10})),
        changing("mark_mentions_read", Effect::Idempotent)
            .in_steps(mark::mark_mentions_read)
            .title("Mark mentions read")
            .when(
                "Mark messages that are addressed to you as read, so that `wait_for_mention` no longer \
                 returns them.",
            )
            .post("/me/mentions/read")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"up_to_lsn": 1})),
        wait("wait_for_mention", wait::wait_for_mention)
            .title("Wait for a mention")
            .when(
                "Wait until a member addresses a message to you. Use `list_mentions` to read without \
                 waiting.",
            )
            .get("/me/wait/mention")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"timeout_secs": 1})),
    ]
}

fn inbox_operations() -> Vec<Operation> {
    vec![
        read("list_inbox", list::list_inbox)
            .title("List your inbox")
            .when(
                "List your inbox, oldest first: messages to you, tasks assigned to you, requests to review \
                 or approve. Use `list_mentions` for messages only.",
            )
            .detailed()
            .get("/me/inbox")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"unread": true, "newest_first": true, "limit": 10})),
        changing("mark_inbox_read", Effect::Idempotent)
            .in_steps(mark::mark_inbox_read)
            .title("Mark your inbox read")
            .when(
                "Mark items of your inbox as read. Use `mark_mentions_read` to mark only the messages that \
                 are addressed to you.",
            )
            .post("/me/inbox/read")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"up_to_lsn": 1})),
    ]
}
