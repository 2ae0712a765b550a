//! Notifications: a member's inbox as it reads it and marks it read, and as a queue for delivery.
//!
//! An inbox is private: no event mentions its contents, and no other member reads it. The list contains items
//! whose channels the member sees now, with the current text of their messages.

mod item;
mod list;
mod mark;
mod wait;
pub(crate) mod outgoing;

use serde_json::json;

use crate::capability::Capability::WorkspaceRead;
use crate::error::Code;
use crate::op::{Effect, Feature, Operation, Sample, SampleCaller, changing, read, wait};

pub(crate) fn feature() -> Feature {
    Feature::new().operations("mentions", of_mentions()).operations("notifications", of_the_inbox()).sample(
        Sample::new(
            "mention",
            "post_message",
            |w| json!({"thread_id": w.id("thread"), "body": "is the lexer ready, @ada?"}),
        )
        .by(SampleCaller::Agent),
    )
}

fn of_mentions() -> Vec<Operation> {
    vec![
        read("list_mentions", list::list_mentions)
            .title("List what you were told in words")
            .when(
                "Use to see the messages in which somebody spoke to you, oldest first; `wait_for_mention` \
                 waits for one.",
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
                "Use after you have read messages of `list_mentions` or `wait_for_mention`, which \
                 otherwise return them again.",
            )
            .post("/me/mentions/read")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"up_to_lsn": 1})),
        wait("wait_for_mention", wait::wait_for_mention)
            .title("Wait until somebody speaks to you")
            .when("Use to wait until somebody speaks to you; `list_mentions` returns at once.")
            .get("/me/wait/mention")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"timeout_secs": 1})),
    ]
}

fn of_the_inbox() -> Vec<Operation> {
    vec![
        read("list_inbox", list::list_inbox)
            .title("List your inbox")
            .when(
                "Use to see what concerns you, oldest first: who spoke to you, what you were given, what \
                 is asked of you. `list_mentions` has only messages to you.",
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
                "Use after you have dealt with items of `list_inbox`; `mark_mentions_read` marks only \
                 messages to you.",
            )
            .post("/me/inbox/read")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({"up_to_lsn": 1})),
    ]
}
