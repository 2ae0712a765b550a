//! How much there may be of what, and which operations read more than a bounded part of it.

/// Operations that are not counted, and why.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("export_workspace", "a scan: it reads everything, one workspace at a time, in a pool of its own"),
    ("verify_workspace_export", "a scan of a file, which it reads in a pool of its own"),
    ("verify_event_chain", "a long read, one page at a time"),
    ("get_kind_census", "a long read, one page at a time"),
    ("list_reactions", "it counts a row for each member that reacts, by one statement"),
    ("list_reviews", "two statements for each review: its findings, and its own words"),
    ("resources/list", "two statements for each channel: whether it is visible, and its boot"),
    ("get_log_snapshot", "a scan: the graph of a workspace is of one moment"),
];

/// Requests to framed rows that read.
pub const FRAMED_ROWS: &[&str] = &[
    "/scim/v2/Users",
    "/scim/v2/Users?filter=userName%20eq%20%22nobody%22",
    "/scim/v2/Users?filter=displayName%20co%20%22zzz%22",
    "/scim/v2/Groups",
    "/scim/v2/Groups?filter=displayName%20eq%20%22nobody%22",
];

/// How many rows there may be, where the service allows fewer than a workspace is filled with: of a table,
/// those that differ in a column alone.
pub const FEWER: &[(&str, &str, i64)] = &[
    ("pins", "*", 99),
    ("glossary", "*", 490),
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
    ("web_push", "*", 9),
    ("push_subscriptions", "*", 9),
    ("scim_group_members", "member_id", 4_990),
    ("scim_groups", "*", 9_990),
    ("approval_gates", "*", 990),
    ("reviews", "*", 990),
    ("relations", "*", 990),
    ("findings", "*", 99),
    ("live_items", "*", 0),
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
