//! Defines the profiles. A profile is a fixed selection of tools for one kind of agent, with instructions for
//! that agent.

/// Fixed selection of tools for one kind of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Tools for an agent that claims tasks and submits results.
    Worker,
    /// Tools for an agent that reviews the work of other members.
    Reviewer,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 2] = [Self::Worker, Self::Reviewer];

    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Reviewer => "reviewer",
        }
    }

    /// Returns the profile with the name `name`, or `None` if there is none.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Returns the names of the profile's tools.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Worker => WORKER,
            Self::Reviewer => REVIEWER,
        }
    }

    /// Returns the profile's instructions for agents.
    pub fn instructions(self) -> &'static str {
        match self {
            Self::Worker => WORKER_INSTRUCTIONS,
            Self::Reviewer => REVIEWER_INSTRUCTIONS,
        }
    }
}

const WORKER: &[&str] = &[
    "acknowledge_claim",
    "add_thread_dependency",
    "check_footprint",
    "claim_next_workspace_thread",
    "claim_thread",
    "create_child_thread",
    "create_thread",
    "get_thread_context",
    "get_workspace_context",
    "hand_off_claim",
    "list_channels",
    "list_messages",
    "list_workspace_threads",
    "mark_mentions_read",
    "post_message",
    "release_claim",
    "renew_claim",
    "report_usage",
    "request_approval",
    "set_thread_footprint",
    "set_thread_result",
    "transition_thread",
    "wait_for_mention",
    "wait_for_ready",
    "wait_for_result",
    "whoami",
];

const REVIEWER: &[&str] = &[
    "approval_decide",
    "get_approval_gate",
    "get_land_gate",
    "get_review_status",
    "get_thread_context",
    "get_thread_result",
    "get_workspace_context",
    "list_approval_gates",
    "list_message_relations",
    "list_messages",
    "list_reviews",
    "list_thread_events",
    "list_thread_results",
    "list_workspace_threads",
    "mark_mentions_read",
    "post_message",
    "relate_message",
    "resolve_finding",
    "resolve_relation",
    "set_land_gate",
    "submit_review",
    "transition_thread",
    "wait_for_event",
    "wait_for_mention",
    "whoami",
];

const WORKER_INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result. \
You claim tasks and submit results.\n\
1. `claim_next_workspace_thread` with `acknowledge` and `include_context` returns your next task, its brief \
and a lease. If no task is ready, `wait_for_ready` waits for one.\n\
2. While you work, call `renew_claim` before the lease expires: after that, others can claim the task. \
Report your progress with `post_message`. If the work is large, `create_child_thread` splits it up.\n\
3. `set_thread_result` with the `action` \"start_review\" submits your result. If you cannot finish, call \
`release_claim`, or `hand_off_claim` to a member.\n\
Always send the `claim_lease_id` that your claim returned. An error says what was wrong and what to do.";

const REVIEWER_INSTRUCTIONS: &str = "\
This server coordinates agents. Work is a thread: a task in a channel with messages, a state and a result. \
You review the work of other members.\n\
1. `get_workspace_context` lists the reviews and approvals that wait for you.\n\
2. `get_thread_context` returns the task and its messages, `get_thread_result` its result. Read both before \
you decide.\n\
3. `submit_review` records your verdict with findings. If a finding is fixed, `resolve_finding` settles it; \
if a change is to land, `set_land_gate` records whether it may. `get_review_status` lists what is still \
missing. `transition_thread` then closes the thread, or returns it to open.\n\
4. `approval_decide` decides an approval gate that an agent has requested.\n\
An error says what was wrong and what to do.";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use svc_core::operation_table;

    use super::*;

    #[test]
    fn profiles_name_tools_that_exist_and_instructions_only_theirs() {
        let table = operation_table().unwrap();
        for profile in Profile::ALL {
            let tools = profile.tools();
            assert!(tools.len() <= 28, "{profile:?}");
            assert!(tools.is_sorted() && tools.windows(2).all(|pair| pair[0] != pair[1]), "{profile:?}");
            for name in tools {
                assert!(table.operation(name).is_some_and(|row| !row.http().rest_only), "{name}");
            }
            let named: BTreeSet<&str> = profile.instructions().split('`').skip(1).step_by(2).collect();
            for word in named {
                let is_field = ["acknowledge", "include_context", "action", "claim_lease_id"].contains(&word);
                assert!(is_field || tools.contains(&word), "{profile:?} does not have {word}");
            }
        }
    }
}
