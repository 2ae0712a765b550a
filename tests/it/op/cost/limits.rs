//! How much there may be of what, and which operations read more than a bounded part of it.

/// Operations that are not counted, and why.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    ("export_workspace", "a scan: it reads everything, one workspace at a time, in a pool of its own"),
    ("verify_workspace_export", "a scan of a file, which it reads in a pool of its own"),
    ("verify_event_chain", "a long read, one page at a time"),
    ("get_kind_census", "a long read, one page at a time"),
    ("get_log_snapshot", "a scan: the graph of a workspace is of one moment"),
];

/// Operations, methods and requests whose statements examine more rows on Postgres: how many, and why.
///
/// Postgres reads a table as a whole that is no larger than those here, if that costs less than an index.
pub const MORE_ROWS: &[(&str, u64, &str)] = &[
    ("get_workspace_context", 40_000, "the private channels of the caller, twice, and their threads"),
    ("get_workspace_occupancy", 60_000, "the caller's channels, and channels as a whole, for each count"),
    ("list_channels", 15_000, "the caller's channels as a whole"),
    ("list_deferred_threads", 13_500, "the members with a skill"),
    ("list_dms", 12_500, "the caller's channels as a whole"),
    ("list_events", 27_000, "events and channels as a whole"),
    ("list_follows", 36_000, "threads, channels and the caller's channels as a whole"),
    ("list_skills", 24_000, "the members and their skills, which it counts"),
    ("wait_for_event", 27_000, "events and channels as a whole"),
    ("resources/list", 19_000, "the caller's channels, for each of two pages"),
    ("resources/read", 40_000, "the context of a workspace"),
    ("completion/complete", 18_000, "the caller's channels, for each of two pages"),
    ("/scim/v2/Groups", 30_000, "the groups, which it counts, and the members of those on the page"),
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
    ("skill_sets", "*", 9_900),
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
