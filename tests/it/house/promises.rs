//! The guarantees of the event log to clients, each with the tests that prove it.
//!
//! It covers REST, MCP and WebSocket. A change that adds a way to read or follow the log must add its tests
//! here.

use super::rules::none;
use super::security::exists;

/// The guarantees, by subject.
const PROMISES: &[(&str, &[(&str, &[&str])])] = &[
    (
        "writing",
        &[
            (
                "A change and its typed event are one transaction, and a refused change leaves neither.",
                &[
                    "coordination::emitters::each_change_leaves_its_events",
                    "op::access",
                    "store::crash::every_acknowledged_write_survives_a_kill",
                ],
            ),
            (
                "Listeners are woken after the commit, and by nothing that was not committed.",
                &[
                    "op::waits::the_awaited_event_ends_the_wait",
                    "log::bus::tests::events_beyond_the_head_wake_nobody",
                ],
            ),
            (
                "Other processes on Postgres are notified of a position and read the log from there.",
                &[
                    "store::contention::a_wait_in_one_process_wakes_at_a_commit_in_the_other",
                    "log::bus::tests::a_lost_notification_is_made_up_for_on_demand_and_by_polling",
                ],
            ),
        ],
    ),
    (
        "form",
        &[
            (
                "An event has its position twice, its link, its hash, its kind, the type of that kind, and a \
                 payload that says who did it.",
                &[
                    "log::chain::tests::a_payload_is_canonical_and_repeats_the_columns",
                    "log::feed::event::tests::a_frame_is_the_event_with_its_attribution",
                ],
            ),
            (
                "Live frames, whole and lean, and what REST reads name kind and type; frames have the \
                 attribution beside the payload too.",
                &[
                    "stream::subscriptions::a_subscriber_gets_what_the_log_lists",
                    "stream::subscriptions::lean_frames_have_no_payload_and_no_words",
                    "shells::subscriptions::live_events_follow_past_ones_without_a_gap",
                ],
            ),
            (
                "The members of a kind's payload change only in sight of whoever agrees to it.",
                &["house::agreed::the_events_capabilities_and_routes_are_as_agreed"],
            ),
        ],
    ),
    (
        "chain",
        &[
            (
                "A hash is written as sha256 and hexadecimal digits, over the canonical payload; each event \
                 links to the one before, the first to a text that never changes.",
                &[
                    "stream::record::catching_up_returns_a_chain_without_gaps",
                    "stream::second_verifier::what_catching_up_returns_is_verified_by_itself",
                ],
            ),
            (
                "Events are hashed and not signed; what is signed is a checkpoint over all of them.",
                &["log::checkpoints::others_read_a_checkpoint_by_the_published_formats"],
            ),
            (
                "A pruned log begins at its floor and verifies from there.",
                &[
                    "retention::policy::events_go_by_their_days_and_the_log_is_verified_from_its_floor",
                    "audit::histories::random_histories_verify_and_no_column_of_them_can_be_changed",
                ],
            ),
            (
                "A log that was rewritten is refused as broken, with the first event that is.",
                &[
                    "stream::events::a_broken_log_is_reported_with_its_first_broken_event",
                    "log::verify::every_change_of_the_log_is_found_and_named",
                ],
            ),
            (
                "What comes in as a copy has ids and hashes of its own.",
                &["portability::copies::a_copy_has_everything_and_no_id_or_hash_of_its_source"],
            ),
        ],
    ),
    (
        "words",
        &[
            (
                "What a message says is sealed under its own key before it is hashed.",
                &[
                    "conversation::sealed",
                    "stream::record::a_key_opens_what_a_living_message_says_and_no_more",
                ],
            ),
            (
                "Members read it in the clear; who reads the whole log gets it sealed, with its key for as \
                 long as the message lives.",
                &[
                    "conversation::in_events::a_live_frame_has_the_plaintext",
                    "stream::record::a_key_opens_what_a_living_message_says_and_no_more",
                ],
            ),
            (
                "Withdrawing a message destroys its key, and the chain verifies as before.",
                &[
                    "conversation::messages::a_withdrawal_destroys_the_plaintext_and_the_log_still_verifies",
                    "conversation::in_events::\
                     an_event_shows_the_body_of_its_time_until_the_message_is_withdrawn",
                ],
            ),
            (
                "Under a legal hold nothing is destroyed, and nothing is pruned.",
                &[
                    "retention::holds::nothing_is_destroyed_until_the_last_hold_is_released",
                    "retention::policy::nothing_is_pruned_under_a_hold",
                    "retention::policy::a_hold_stops_pruning_between_two_steps",
                    "portability::erasing::a_hold_and_being_the_last_one_keep_a_workspace",
                ],
            ),
        ],
    ),
    (
        "headers",
        &[
            (
                "Whoever is known is told how far the log of its workspace goes; who is rejected, and who \
                 asks for what is of no workspace, is not.",
                &[
                    "stream::events::only_who_is_known_is_told_how_far_the_log_goes",
                    "shells::transports",
                    "op::access",
                    "shells::subscriptions::a_handshake_with_a_credential_is_told_how_far_the_log_goes",
                ],
            ),
            (
                "A position is a decimal number; one of a database's own log is refused.",
                &["stream::events::a_position_is_a_number_and_nothing_else_that_other_services_call_one"],
            ),
        ],
    ),
    (
        "subscribing",
        &[
            (
                "A subscription is filtered by workspace, channel, thread, member and kind, past events as \
                 live ones.",
                &["stream::subscriptions::the_same_filter_selects_past_and_live_events"],
            ),
            (
                "An event is sent at most once, unless a consumer asks for at least once: then what was not \
                 acknowledged is sent again.",
                &[
                    "shells::subscriptions::\
                     a_subscription_shows_what_its_bearer_may_see_and_resumes_where_it_stopped",
                    "stream::consumers::a_durable_subscription_delivers_until_it_is_acknowledged",
                    "shells::subscriptions::a_durable_subscription_goes_on_where_it_was_acknowledged",
                ],
            ),
            (
                "A durable subscription gets no event too early, and finds what no notification told.",
                &[
                    "stream::consumers::a_durable_subscription_delivers_until_it_is_acknowledged",
                    "log::bus::tests::a_lost_notification_is_made_up_for_on_demand_and_by_polling",
                ],
            ),
            (
                "Without a workspace a subscriber is told what it does not get, and gets live events.",
                &["shells::subscriptions::a_subscription_without_a_workspace_is_told_what_it_does_not_get"],
            ),
            (
                "A replay that is too long is cut off and says so; the client says where to go on.",
                &[
                    "stream::subscriptions::as_much_is_sent_ahead_as_there_may_be",
                    "shells::subscriptions::a_client_that_was_sent_enough_says_where_to_go_on",
                ],
            ),
            (
                "A position that the log does not have any more is answered with where to read its state, \
                 over REST and WebSocket.",
                &[
                    "stream::snapshot::who_is_told_to_fetch_again_finds_what_to_read_and_where_to_go_on",
                    "stream::subscriptions::a_position_that_the_log_does_not_have_must_be_fetched_again",
                    "shells::subscriptions::\
                     a_position_that_the_log_does_not_have_is_told_and_ends_the_connection",
                ],
            ),
        ],
    ),
    (
        "consumers inside the service",
        &[
            (
                "Each page is verified before it is used, past events before live ones, without a gap.",
                &[
                    "stream::subscriptions::a_broken_log_ends_subscriptions",
                    "stream::taps::an_index_has_each_event_once_and_is_rebuilt_where_it_cannot_go_on",
                    "stream::followers::a_follower_gets_every_event_once_in_order_whatever_it_does",
                ],
            ),
            (
                "An index that cannot go on is told to begin again, and one of a broken log that it is.",
                &["stream::taps::an_index_has_each_event_once_and_is_rebuilt_where_it_cannot_go_on"],
            ),
        ],
    ),
    (
        "kinds",
        &[
            (
                "Claims, cancels, results, reviews, freezes, usage and withdrawals leave the events of their \
                 names.",
                &["coordination::emitters::each_change_leaves_its_events"],
            ),
            (
                "Who waits for a thread is told once it has ended, but not that it was cancelled.",
                &["coordination::emitters::\
                     who_waits_for_a_thread_is_told_that_it_ended_and_not_that_it_was_cancelled"],
            ),
            (
                "A claim that lapses expires, or fails when its budget is used up.",
                &["coordination::lapses::closing_and_cancelling_count_a_lapsed_claim_as_an_attempt"],
            ),
            (
                "A claim that nobody acknowledged is reported once.",
                &["coordination::claims::an_unacknowledged_claim_is_reported_once"],
            ),
            (
                "A child that the spawn budget denies is in the log.",
                &["coordination::spawn::a_denied_child_stands_in_the_log_and_nowhere_else"],
            ),
        ],
    ),
    (
        "notices",
        &[
            (
                "A thread is read with its last notices, at most ten.",
                &["coordination::notices::a_thread_is_read_with_its_last_ten_notices"],
            ),
            (
                "A message says of each in a sentence what it is about.",
                &["coordination::notices::a_notice_is_a_message_an_event_and_an_entry_of_its_thread"],
            ),
        ],
    ),
];

#[test]
fn every_promise_of_the_event_log_has_its_tests() {
    let mut findings = Vec::new();
    for (subject, promises) in PROMISES {
        for (promise, tests) in *promises {
            if tests.is_empty() {
                findings.push(format!("{subject}: `{promise}` is shown by no test"));
            }
            let missing = tests.iter().filter(|test| !exists(test));
            findings.extend(missing.map(|test| format!("{subject}: there is no test `{test}`")));
        }
    }
    none(findings);
}
