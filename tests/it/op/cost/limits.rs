//! How much there may be of what, and which operations read more than a bounded part of it.

/// Operations that are not counted, and why.
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
/// A private channel has a queue of its own. Which ones a member may be given threads from follows from all
/// channels that it is in.
pub const MORE_ROWS: &[(&str, u64, &str)] = &[
    ("claim_next_workspace_thread", 23_000, "the channels that the caller is in"),
    ("get_workspace_context", 20_000, "the channels that the caller is in, and all sets of required skills"),
    ("get_workspace_occupancy", 26_000, "the channels that the caller is in, beside five counts to 1000"),
    ("resources/read", 20_000, "the context of a workspace"),
    ("list_deferred_threads", 13_500, "the members with a skill, one of whom must have all of a thread"),
    ("open_dm", 29_000, "the channels that the caller is in: a direct message of an import has no key"),
    ("request_approval", 24_000, "the members and their sessions, until 1000 are found who may decide"),
    (
        "clear_slot_capacity",
        12_000,
        "the first thread of each group that waits, and each channel has its own",
    ),
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

/// Changes that take away what others need, in an order in which each finds what it needs.
pub const LAST: &[&str] =
    &["rotate_token", "revoke_token", "purge_workspace", "place_legal_hold", "erase_workspace"];

/// How many rows there may be, where the service allows fewer than a workspace is filled with: of a table,
/// those that differ in a column alone.
pub const FEWER: &[(&str, &str, i64)] = &[
    ("pins", "*", 98),
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
    ("memory_block_threads", "*", 19),
    ("member_skills", "skill", 60),
    ("votes", "*", 990),
    ("follows", "*", 490),
    ("mutes", "*", 99),
    ("web_push", "*", 8),
    ("push_subscriptions", "*", 8),
    ("scim_group_members", "member_id", 3_990),
    ("scim_group_members", "group_id", 3_980),
    ("scim_groups", "*", 3_980),
    ("approval_gates", "*", 990),
    ("reviews", "*", 990),
    ("relations", "*", 97),
    ("findings", "*", 99),
    ("live_items", "*", 0),
    ("slot_uses", "*", 0),
    ("footprints", "*", 0),
];

/// Tables that are not filled: what a process or the instance keeps for itself.
pub const NOT_FILLED: &[&str] = &[
    "workspaces",
    "heads",
    "schema_migrations",
    "leases",
    "rate_windows",
    "key_checks",
    "scrubs",
    "chores",
    "shelves",
    "message_keys",
    "purges",
    "erased",
    "census_at",
    "taps",
    "retention",
    "delegation_policies",
    "imports",
    "oidc_logins",
    "checkpoints",
];
