//! The limits of a workspace, and the operations that read more than a bounded part of it.

/// Operations that are not counted, and the reason.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("export_workspace", "a scan: it reads everything, one workspace at a time, in a pool of its own"),
    ("verify_workspace_export", "a scan of a file, which it reads in a pool of its own"),
    ("verify_event_chain", "a long read, one page at a time"),
    ("get_kind_census", "a long read, one page at a time"),
    ("get_log_snapshot", "a scan: the graph of a workspace is of one moment"),
    ("purge_workspace", "in steps of 500 messages, each of which has rows in a dozen tables"),
    ("erase_workspace", "its first step ends all access at once, whatever lets somebody in; a chore goes on"),
];

/// Operations and methods whose statements examine more rows on Postgres: how many, and why. On SQLite they
/// take more steps in the same proportion.
///
/// A private channel has a separate queue. The channels from which a member may be given threads follow from
/// all channels that it is in.
pub const MORE_ROWS: &[(&str, u64, &str)] = &[
    ("claim_next_workspace_thread", 36_000, "the channels that the caller is in, and 1000 refutations"),
    ("claim_thread", 19_000, "12 rows for each of 1000 refutations that lead to the thread, and its context"),
    ("request_land_advice", 13_000, "12 rows for each of 1000 refutations that lead to the thread"),
    ("get_workspace_context", 37_000, "the channels that the caller is in, and all sets of required skills"),
    ("wait_for_ready", 22_000, "all sets of required skills, and the first ready thread of each"),
    ("archive_channel", 35_000, "the ready threads of the channel, all of which leave the queue at once"),
    ("set_notification_preferences", 11_500, "all items of the caller's inbox that are still to be pushed"),
    ("get_workspace_usage", 45_000, "the sums of the last 10,000 daily totals, which are sorted and merged"),
    ("freeze_member", 23_000, "its live claims, which are counted at once and end in steps"),
    ("patch_scim_user", 11_500, "all sessions of the person, which end at once"),
    ("delete_scim_user", 15_500, "all sessions of the person, which end at once, and its 4000 groups"),
    ("get_workspace_occupancy", 26_000, "the channels that the caller is in, beside five counts to 1000"),
    ("resources/read", 37_000, "the context of a workspace"),
    ("list_deferred_threads", 13_500, "the members with a skill, one of whom must have all of a thread"),
    ("open_dm", 29_000, "the channels that the caller is in: a direct message of an import has no key"),
    ("request_approval", 35_000, "the members and their sessions, until 1000 are found who may decide"),
    (
        "clear_slot_capacity",
        12_000,
        "the first thread of each group that waits, and each channel has its own",
    ),
];

/// Operations and methods that run more statements on SQLite, which steps through an index from one value to
/// the next with a statement for each: how many, and why.
pub const MORE_STATEMENTS: &[(&str, usize, &str)] = &[
    ("get_workspace_context", 5_000, "one for each set of required skills of ready threads"),
    ("wait_for_ready", 5_000, "one for each set of required skills of ready threads"),
    ("resources/read", 5_000, "the context of a workspace"),
];

/// Changes whose samples others use up.
pub const FIRST: &[&str] = &[
    "claim_thread",
    "acknowledge_claim",
    "renew_claim",
    "report_usage",
    "set_thread_footprint",
    "set_thread_result",
    "archive_channel",
    "unarchive_channel",
];

/// Changes that remove objects which others need, in an order in which each finds its own.
pub const LAST: &[&str] =
    &["rotate_token", "revoke_token", "purge_workspace", "place_legal_hold", "erase_workspace"];

/// Maximum rows where the service allows fewer than a workspace is filled with: for a table, the rows that
/// differ in a column alone. Tables without an entry are filled by separate functions.
pub const FEWER: &[(&str, &str, i64)] = &[
    ("pins", "message_id", 98),
    ("pins", "channel_id", 9_900),
    ("glossary", "*", 490),
    ("skill_sets", "*", 4_900),
    ("slots", "*", 990),
    ("repo_pauses", "*", 990),
    ("reviewers", "member_id", 95),
    ("thread_dependencies", "depends_on_id", 95),
    ("thread_dependencies", "thread_id", 990),
    ("reactions", "emoji", 45),
    ("thread_memory_blocks", "block_id", 19),
    ("thread_memory_blocks", "thread_id", 9_990),
    ("member_skills", "skill", 60),
    ("votes", "id", 990),
    ("votes", "thread_id", 9_900),
    ("ballots", "choice", 18),
    ("ballot_counts", "choice", 0),
    ("ballot_counts", "vote_id", 0),
    ("follows", "target_id", 490),
    ("inbox_rules", "reason", 12),
    ("mutes", "target_id", 99),
    ("web_push", "id", 8),
    ("web_push", "member_id", 9_900),
    ("scim_group_members", "member_id", 3_990),
    ("scim_group_members", "group_id", 3_980),
    ("scim_groups", "*", 3_980),
    ("approval_gates", "id", 990),
    ("approval_gates", "thread_id", 9_900),
    ("reviews", "id", 990),
    ("reviews", "thread_id", 9_900),
    ("relations", "id", 97),
    ("relations", "from_id", 900),
    ("findings", "id", 99),
    ("findings", "review_id", 9_900),
    ("live_items", "*", 0),
    ("slot_uses", "*", 0),
    ("footprints", "*", 0),
];

/// Tables that are not filled, and the reason.
pub const NOT_FILLED: &[(&str, &str)] = &[
    ("workspaces", "the instance's: one workspace is filled"),
    ("heads", "a row of each workspace"),
    ("schema_migrations", "the instance's"),
    ("leases", "the instance's: a row of each chore"),
    ("rate_windows", "the instance's: what it counts for rate limits"),
    ("key_checks", "the instance's: a row of each key of the service"),
    ("scrubs", "the instance's"),
    ("shelves", "a key of 4,096 positions: a copy would open nothing"),
    ("purges", "a row of each workspace"),
    ("erased", "workspaces that were erased"),
    ("census_at", "a row of each workspace"),
    ("taps", "the instance's: a few for each workspace"),
    ("retention", "a row of each workspace"),
    ("delegation_policies", "a row of each workspace"),
    ("imports", "the instance's"),
    ("held_texts", "kept while a hold is in force, under which much is refused; a chore removes others"),
    ("charged_imports", "the instance's: a workspace and its copies have ten a day"),
    ("parked", "threads behind an obstacle: rows that no thread and claim belong to would be put right"),
    ("oidc_logins", "the instance's: sign-ins that have begun"),
    ("checkpoints", "a row of each workspace"),
];
