//! Every limit of the service, by name.
//!
//! Those with a variable are defaults, which [`crate::config`] can override.

mod answers;
mod database;
mod shared;

use std::time::Duration;

pub use answers::*;
pub use database::*;
pub use shared::*;

/// Characters of a workspace's, channel's or token's name.
pub const NAME_MAX: usize = 100;
/// Characters of a member's handle.
pub const HANDLE_MAX: usize = 64;
/// Characters of a thread's title.
pub const TITLE_MAX: usize = 200;
/// Characters of a channel's topic.
pub const TOPIC_MAX: usize = 500;
/// Characters of a message's body.
pub const MESSAGE_MAX: usize = 100_000;
/// Blocks of a message's content.
pub const CONTENT_BLOCKS_MAX: usize = 64;
/// Characters of an address.
pub const URI_MAX: usize = 2000;
/// Citations of a message.
pub const CITATIONS_MAX: usize = 100;
/// Characters of the name of a language.
pub const LANGUAGE_MAX: usize = 50;
/// Different emoji that one message has reactions with.
pub const REACTION_KINDS_MAX: i64 = 50;
/// Members that are listed for one emoji of a message.
pub const REACTING_LISTED: i64 = 50;
/// Reactions that one read counts exactly. If there are more, each emoji gets its share of them.
pub const REACTIONS_COUNTED_MAX: i64 = 4000;
/// Characters of an emoji, its shortcode, or a name in its place.
pub const EMOJI_MAX: usize = 64;
/// Mentions of one message that count.
pub const MENTIONS_MAX: usize = 50;
/// Members whom a message may reach by the name of a group without `channel:admin`.
pub const GROUP_MENTION_FREE: i64 = 15;
/// Members whom a message may reach by the name of a group.
pub const GROUP_MENTION_MAX: i64 = 1000;
/// Members who are told that an approval is requested.
pub const HOLDERS_MAX: i64 = 1000;
/// Characters of a message that an inbox shows.
pub const PREVIEW_MAX: usize = 200;
/// Unread items of an inbox that are looked at to count them, and to find those that a wait returns.
pub const UNREAD_SCAN_MAX: i64 = 1000;
/// Channels and threads that a member mutes.
pub const MUTED_MAX: usize = 100;
/// Seconds after which somebody is mailed of what it was told of and has not read (`SVC_MAIL_DELAY_SECS`).
pub const MAIL_DELAY_SECS: i64 = 120;
/// How long whoever takes a parcel has to send it before it is taken again.
pub const PARCEL_LEASE: Duration = Duration::from_secs(60);
/// Browsers of a member that notifications are pushed to.
pub const SUBSCRIPTIONS_MAX: i64 = 10;
/// Items of an inbox that one call names.
pub const MARKED_MAX: usize = 500;
/// Relations that a message makes, apart from what its words cite.
pub const RELATIONS_OF_MESSAGE_MAX: i64 = 100;
/// Refutations that lead to a thread: each close looks through them.
pub const REFUTATIONS_MAX: i64 = 1000;
/// Votes of a thread.
pub const VOTES_MAX: i64 = 1000;
/// Options of a vote.
pub const OPTIONS_MAX: usize = 20;
/// The index of the last option that a vote can have.
pub const OPTION_INDEX_MAX: i64 = 19;
/// Characters of an option of a vote.
pub const OPTION_MAX: usize = 200;
/// Members that are listed for one option of a vote.
pub const VOTERS_LISTED: i64 = 200;
/// Ballots and counts of ballots that a page of votes reads before it ends.
pub const PAGE_BALLOTS_MAX: usize = 3000;
/// Messages that are pinned in one channel.
pub const PINS_MAX: i64 = 100;
/// Pinned messages in a thread's context.
pub const CONTEXT_PINS: i64 = 10;
/// Characters of a cancel reason.
pub const CANCEL_REASON_MAX: usize = 500;
/// Characters of a skill's name.
pub const SKILL_MAX: usize = 64;
/// Skills of a member, and required skills of a thread.
pub const SKILLS_MAX: usize = 64;
/// Lowest priority of a thread.
pub const PRIORITY_MIN: i64 = -100;
/// Highest priority of a thread.
pub const PRIORITY_MAX: i64 = 100;
/// Different sets of required skills in a workspace.
pub const SKILL_SETS_MAX: usize = 5000;
/// Dependencies that one thread may have.
pub const DEPENDENCIES_MAX: usize = 100;
/// Threads that may wait for one thread: its close changes each of them in one transaction.
pub const DEPENDENTS_MAX: i64 = 1000;
/// Threads visited in each direction to find out whether a dependency would form a cycle.
pub const DEPENDENCY_WALK_MAX: i64 = 5000;
/// Live tokens derived, directly or not, from one minted token.
///
/// Revoking that token ends each of them in one transaction.
pub const DERIVED_TOKENS_MAX: i64 = 1000;
/// Longest chain of tokens derived from derived ones.
pub const TOKEN_DEPTH_MAX: i64 = 16;
/// Days that a delegation grant may last unless the workspace's policy says otherwise.
pub const GRANT_CEILING_DEFAULT_DAYS: i64 = 90;
/// Most days that a workspace's policy may let a delegation grant last.
pub const GRANT_CEILING_MAX_DAYS: i64 = 3650;
/// Characters of the purpose of a delegation grant.
pub const GRANT_PURPOSE_MAX: usize = 500;
/// Characters of an app's slug; with `app:` before it, it is a handle.
pub const APP_SLUG_MAX: usize = 60;
/// Live tokens of one app installation: revoking it ends each of them in one transaction.
pub const INSTALLATION_TOKENS_MAX: i64 = 1000;
/// Seconds that a token lasts that an app gets by its client credentials.
pub const APP_TOKEN_SECS: i64 = 3600;
/// Live tokens of one delegation grant: revoking it ends each of them in one transaction.
pub const GRANT_TOKENS_MAX: i64 = 1000;
/// How long a delegated token lasts if the caller says nothing, in seconds.
pub const DELEGATED_DEFAULT_SECS: i64 = 900;
/// How long a delegated token may last, in seconds.
pub const DELEGATED_MAX_SECS: i64 = 3600;
/// How long a share ticket may last, in seconds: 48 hours.
pub const SHARE_TICKET_MAX_SECS: i64 = 172_800;
/// Artifacts that a share ticket names.
pub const SHARE_ARTIFACTS_MAX: usize = 100;
/// Most items on a page that is read with a share ticket.
pub const SHARE_PAGE_MAX: i64 = 100;
/// Default of the longest life of a browser's session, in seconds.
pub const SESSION_TTL_SECS: i64 = 28_800;
/// Longest life that an operator can give sessions, in seconds.
pub const SESSION_TTL_MAX_SECS: i64 = 2_592_000;
/// Shortest key that session cookies are signed with, in bytes.
pub const SESSION_SECRET_MIN_BYTES: usize = 32;
/// How long a person may take to sign in at the identity provider, in seconds.
pub const OIDC_LOGIN_SECS: u64 = 600;
/// Sign-ins of a workspace that have begun at an identity provider and not come back.
pub const OIDC_LOGINS_MAX: i64 = 10_000;
/// Characters of the subject of an identity provider (OpenID Connect Core, 2).
pub const OIDC_SUBJECT_MAX: usize = 255;
/// Characters of an email.
pub const EMAIL_MAX: usize = 254;
/// Characters of the name by which an identity provider knows a person.
pub const USER_NAME_MAX: usize = 254;
/// Characters of what an identity provider calls a person or a group for itself.
pub const EXTERNAL_ID_MAX: usize = 1000;
/// Characters of the name of a SCIM group.
pub const SCIM_GROUP_NAME_MAX: usize = 256;
/// Resources in one SCIM answer.
pub const SCIM_COUNT_MAX: usize = 200;
/// Characters of a SCIM filter, or of the path of a change.
pub const SCIM_FILTER_MAX: usize = 1000;
/// Levels of a SCIM filter.
pub const SCIM_FILTER_DEPTH_MAX: usize = 10;
/// Resources that a SCIM filter without an equality is compared with.
pub const SCIM_SCAN_MAX: i64 = 10_000;
/// Operations of one SCIM PATCH.
pub const SCIM_OPERATIONS_MAX: usize = 1000;
/// Names of attributes that a SCIM request may ask for.
pub const SCIM_NAMES_MAX: usize = 100;
/// Members of one SCIM group.
pub const SCIM_GROUP_MEMBERS_MAX: usize = 4000;
/// SCIM groups of a workspace.
pub const SCIM_GROUPS_MAX: i64 = 4000;
/// Depth of nested threads.
pub const THREAD_DEPTH_MAX: i64 = 16;
/// Bytes of a checkpoint as canonical JSON.
pub const CHECKPOINT_MAX_BYTES: usize = 8_192;
/// Bytes of a result or of a message's metadata as canonical JSON.
pub const JSON_MAX_BYTES: usize = 262_144;
/// Deepest nesting of a JSON value that the service stores.
pub const JSON_MAX_DEPTH: usize = 64;
/// Bytes of the input of a long poll: thousands of them are kept at once.
pub const WAIT_INPUT_MAX_BYTES: usize = 4096;
/// Characters of a result's kind.
pub const RESULT_KIND_MAX: usize = 200;
/// Characters of a repository's name.
pub const REPO_MAX: usize = 300;
/// Items of a footprint.
pub const FOOTPRINT_ITEMS_MAX: usize = 100;
/// Characters of an item of a footprint.
pub const FOOTPRINT_ITEM_MAX: usize = 500;
/// Most conflicts that a refusal, a check or a deferred thread lists.
pub const CONFLICTS_MAX: i64 = 1000;
/// Conflicts that the context of a thread names of one refusal.
pub const REFUSAL_CONFLICTS_MAX: usize = 20;
/// Highest capacity of a slot.
pub const SLOT_CAPACITY_MAX: i64 = 10_000;
/// Slots of a workspace that have a capacity.
pub const SLOTS_MAX: i64 = 1000;
/// Claims that a list of slots names for each.
pub const SLOT_HOLDERS_MAX: i64 = 100;
/// Claims that a list of slots counts in all. If there are more, each slot gets its share of them.
pub const SLOT_CLAIMS_COUNTED_MAX: i64 = 1000;
/// Claims that a list of slots names in all.
pub const SLOT_LIST_HOLDERS_MAX: i64 = 600;
/// Characters of the reason of a pause.
pub const PAUSE_REASON_MAX: usize = 500;
/// Characters of the reason of a freeze.
pub const FREEZE_REASON_MAX: usize = 500;
/// Paused repositories of a workspace.
pub const PAUSES_MAX: i64 = 1000;
/// Most tokens, millionths of a dollar, turns or attempts that a budget allows.
pub const BUDGET_MAX: i64 = 1_000_000_000_000_000;
/// Longest wall time that a budget allows, in seconds: about 30 years.
pub const WALL_SECS_MAX: i64 = 1_000_000_000;
/// How much of a limit is used when a notice says so, in percent.
pub const BUDGET_LOW_PERCENT: i64 = 80;
/// Most tokens, millionths of a dollar or turns in one usage report.
pub const USAGE_MAX: i64 = 1_000_000_000_000;
/// Characters of the id of a usage report, and of the name of a model.
pub const REPORT_ID_MAX: usize = 200;
/// Models of a member and day whose usage is summed apart; that of further ones is one sum.
pub const USAGE_MODELS_MAX: i64 = 50;
/// Days of a workspace's usage that are summed unless a caller asks for others.
pub const USAGE_DAYS_DEFAULT: i64 = 30;
/// Sums by member, model and day that are added up at most, in whole days.
pub const USAGE_SCAN_MAX: i64 = 10_000;
/// Members and models that a sum of a workspace's usage names.
pub const USAGE_SUMS_MAX: i64 = 1000;
/// Names of tools that a thread's worker is advised to use.
pub const TOOLS_MAX: usize = 100;
/// Characters of the name of a tool.
pub const TOOL_MAX: usize = 200;
/// Most children of a thread that a spawn budget allows.
pub const SPAWN_CHILDREN_MAX: i64 = 1_000_000;
/// Most tools of a child that a spawn budget allows: as many as can be named.
pub const SPAWN_TOOLS_MAX: i64 = 100;
/// Threads and gates of each kind in the context of a workspace.
pub const WORKSPACE_CONTEXT_MAX: i64 = 20;
/// Threads in review, and threads that the caller has claimed, that the context of a workspace looks through.
pub const AWAITED_SCAN_MAX: i64 = 1000;
/// Members that the occupancy of a workspace names, with claims and without.
pub const OCCUPANCY_MEMBERS_MAX: i64 = 1000;
/// How many threads in one situation the occupancy of a workspace looks at.
pub const OCCUPANCY_COUNT_MAX: i64 = 1000;
/// Approvals that a thread may require.
pub const APPROVALS_MAX: i64 = 10;
/// Listed reviewers of a thread.
pub const REVIEWERS_MAX: i64 = 100;
/// Reviews of a thread by one member.
pub const REVIEWS_MAX: i64 = 1000;
/// Reviews of a thread that are looked at to say which count.
pub const REVIEWS_WEIGHED_MAX: i64 = 1000;
/// Characters of a review's own words.
pub const REVIEW_MAX: usize = 20_000;
/// Findings of a review.
pub const FINDINGS_MAX: usize = 100;
/// Characters of a finding.
pub const FINDING_MAX: usize = 2000;
/// Characters of the path of a finding.
pub const FINDING_PATH_MAX: usize = 500;
/// Highest line number of a finding.
pub const LINE_MAX: i64 = 100_000_000;
/// Characters of the pointer of a land gate.
pub const LAND_POINTER_MAX: usize = 500;
/// Characters of the question of an approval gate.
pub const QUESTION_MAX: usize = 4000;
/// Approval gates of a thread: each close looks through them.
pub const GATES_MAX: i64 = 1000;
/// Shortest time after which an approval gate expires, in seconds.
pub const GATE_EXPIRY_MIN_SECS: i64 = 60;
/// Longest time after which an approval gate expires, in seconds: 30 days.
pub const GATE_EXPIRY_MAX_SECS: i64 = 2_592_000;
/// How long the link lasts by which a person finds an approval gate, in seconds.
pub const APPROVAL_LINK_SECS: i64 = 3600;
/// Things that one reason against a close names.
pub const REASON_IDS_MAX: i64 = 10;
/// Notices that a thread read returns.
pub const NOTICES_MAX: i64 = 10;
/// Characters of a term of a glossary.
pub const TERM_MAX: usize = 100;
/// Characters of the definition of a term.
pub const DEFINITION_MAX: usize = 1000;
/// Terms of a workspace.
pub const GLOSSARY_MAX: i64 = 500;
/// How often a member says that it is there.
pub const PRESENCE_BEAT: Duration = Duration::from_secs(10);
/// For how long a member is online after it was last heard of.
pub const PRESENCE_TTL: Duration = Duration::from_secs(30);
/// Characters of what a member says about its presence.
pub const PRESENCE_NOTE_MAX: usize = 200;
/// Members that one opens a direct message with.
pub const DM_OTHERS_MAX: usize = 10;
/// Messages of a direct message that are counted as unread.
pub const DM_UNREAD_MAX: i64 = 100;
/// Threads, channels and members that one member follows.
pub const FOLLOWS_MAX: i64 = 500;
/// Messages that are counted as unread where one follows.
pub const UNREAD_OF_FOLLOW_MAX: i64 = 100;
/// Maximum texts of one request for trees of Markdown.
pub const MARKDOWN_TEXTS_MAX: usize = 100;
/// Maximum bytes of these texts together.
pub const MARKDOWN_BYTES_MAX: usize = 1_048_576;
/// Maximum bytes of the trees of a request in JSON, unless the first tree has more.
pub const MARKDOWN_ANSWER_BYTES_MAX: usize = 2 << 20;
/// Time after which no further text of a request is parsed.
pub const MARKDOWN_TIME_MAX: Duration = Duration::from_millis(200);
/// Maximum bytes of the names that the texts of a request may mention, as they are counted.
pub const MENTION_NAME_BYTES_MAX: usize = 8 << 20;
/// Maximum nodes of the tree of a text.
pub const MARKDOWN_NODES_MAX: usize = 5000;
/// Nodes that a text has in any case: a paragraph and its text.
pub const MARKDOWN_NODES_MIN: usize = 2;
/// Maximum bytes of the addresses in a tree, for each byte of its text and in any case.
pub const MARKDOWN_HREF_BYTES_PER_BYTE: usize = 4;
pub const MARKDOWN_HREF_BYTES_MIN: usize = 64 << 10;
/// Maximum levels of the tree of a text.
pub const MARKDOWN_LEVELS_MAX: usize = 32;
/// Characters of what an agent reads on arrival in a channel.
pub const BOOT_MAX: usize = 20_000;
/// Characters of the description of a memory block.
pub const MEMORY_DESCRIPTION_MAX: usize = 1000;
/// Characters of the value of a memory block, if its limit allows them.
pub const MEMORY_MAX: usize = 100_000;
/// Highest limit of a memory block, in characters.
pub const MEMORY_MAX_CHARS: i64 = 100_000;
/// The limit of a memory block unless its creator asks otherwise.
pub const MEMORY_DEFAULT_CHARS: i64 = 5000;
/// Memory blocks of a thread.
pub const THREAD_MEMORY_BLOCKS_MAX: i64 = 20;
/// Threads that have a memory block: its deletion takes it from each of them in one transaction.
pub const MEMORY_BLOCK_THREADS_MAX: i64 = 10_000;
/// Terms of the glossary in a thread's context pack.
pub const CONTEXT_TERMS: usize = 100;
/// Bytes of a thread's context pack in which terms of the glossary are looked for.
pub const CONTEXT_TERMS_BYTES: usize = 262_144;
/// Messages in a thread's context pack.
pub const CONTEXT_MESSAGES: i64 = 30;

/// Shortest claim lease, in seconds.
pub const LEASE_MIN_SECS: i64 = 1;
/// Longest claim lease, in seconds: 7 days.
pub const LEASE_MAX_SECS: i64 = 604_800;
/// Claim lease if the caller specifies none, in seconds (`SVC_CLAIM_DEFAULT_LEASE_SECS`).
pub const LEASE_DEFAULT_SECS: i64 = 600;
/// The largest step of a clock that takes effect at once.
pub const CLOCK_STEP_MIN: Duration = Duration::from_secs(10);
/// How long a larger step must have lasted before the service's time follows it.
pub const CLOCK_STEP_COUNTS_AFTER: Duration = Duration::from_secs(60);
/// Seconds between reaper rounds (`SVC_CLAIM_REAP_TICK_SECS`, 0 disables it).
pub const REAP_TICK_SECS: i64 = 5;
/// Most claims that the reaper processes per tick.
pub const REAP_MAX: i64 = 1000;
/// Seconds within which a claim must be acknowledged (`SVC_CLAIM_ACK_TIMEOUT_SECS`, 0 disables it).
pub const ACK_TIMEOUT_SECS: i64 = 120;

/// Longest timeout of a `wait_*` operation, in seconds.
pub const WAIT_MAX_SECS: i64 = 330;
/// Timeout of a `wait_*` operation if the caller specifies none, in seconds.
pub const WAIT_DEFAULT_SECS: i64 = 30;
/// Most waits parked at once in one process.
pub const WAITS_MAX: usize = 20_000;
/// Of these, the most of one client: a tenth.
pub const WAITS_OF_CLIENT_MAX: usize = WAITS_MAX / 10;

/// Largest request body, in bytes (`SVC_MAX_BODY_BYTES`).
pub const BODY_MAX_BYTES: i64 = 2_097_152;
/// Most fields of a query string.
pub const QUERY_FIELDS_MAX: usize = 128;
/// Requests of one client per window (`SVC_RATE_LIMIT_MAX`, 0 disables the limit).
pub const RATE_LIMIT_MAX: i64 = 1200;
/// The window in seconds (`SVC_RATE_LIMIT_WINDOW_SECS`).
pub const RATE_LIMIT_WINDOW_SECS: i64 = 60;
/// Requests of one workspace per window (`SVC_WORKSPACE_RATE_LIMIT_MAX`, 0 disables the limit).
pub const WORKSPACE_RATE_LIMIT_MAX: i64 = 6000;
/// Most requests per window that the quota of a token can be.
pub const TOKEN_QUOTA_MAX: i64 = 1_000_000_000;
/// The part of a rate limit that a server admits before it tells the others: one in this many.
pub const RATE_LIMIT_SHARES: u32 = 20;
/// How long servers take at most to tell each other of a client, as Postgres `statement_timeout`.
pub const RATE_LIMIT_SHARING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server that cannot tell the others limits its clients by itself before it tries again.
pub const RATE_LIMIT_SHARING_RETRY: Duration = Duration::from_secs(5);
/// Requests in flight in one server (`SVC_MAX_CONCURRENT_REQUESTS`, 0 disables the limit).
pub const CONCURRENT_REQUESTS_MAX: i64 = 1024;
/// Connections of one server (`SVC_MAX_CONNECTIONS`, 0 disables the limit).
///
/// A peer that is not a trusted proxy may have a tenth of them.
pub const CONNECTIONS_MAX: i64 = 20_000;
/// WebSocket connections of one server (`SVC_MAX_WS_CONNECTIONS`).
pub const WS_CONNECTIONS_MAX: i64 = 10_000;
/// Proxies in front of the server whose forwarded entries are trusted (`SVC_TRUSTED_PROXY_HOPS`).
pub const TRUSTED_PROXY_HOPS: i64 = 0;
/// Seconds after a termination signal during which readiness reports "draining" (`SVC_SHUTDOWN_DRAIN_SECS`).
pub const SHUTDOWN_DRAIN_SECS: i64 = 0;
/// Largest frame accepted from a WebSocket client, in bytes.
pub const WS_FRAME_MAX_BYTES: usize = 65_536;

/// Most changes of one workspace queued for a writer; further ones of that workspace are told to retry.
pub const QUEUE_MAX: usize = 4096;
/// Most reads of one workspace queued for the readers; further ones of that workspace are told to retry.
pub const READS_QUEUED_MAX: usize = 512;
/// Most bytes of requests of one workspace queued for a writer, or for the readers.
pub const QUEUED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Seconds after which a caller that found a queue full is told to retry.
pub const QUEUE_RETRY_SECS: u64 = 1;
/// Milliseconds that a read may take (`SVC_READ_BUDGET_MS`, 0 disables it); waiting does not count.
pub const READ_BUDGET_MS: i64 = 1000;
/// Longest time a job may be queued for a writer or reader; after that its caller is told to retry.
pub const QUEUED_MAX: Duration = Duration::from_secs(30);
/// Most jobs in one commit.
pub const BATCH_MAX: usize = 256;
/// Bytes of requests in one commit after which it takes no further request.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Most reads that share a transaction with the first, so that none waits long for the others.
pub const READ_BATCH_MAX: usize = 31;
/// How long a batch waits for a workspace that another server has locked.
///
/// After that, other tasks of its lane go first.
pub const HELD_WAIT: Duration = Duration::from_millis(100);
/// How long SQLite waits for another process's lock.
pub const SQLITE_BUSY: Duration = Duration::from_millis(5000);
/// How often a shared SQLite file is polled for other processes' commits while anyone waits.
pub const SQLITE_POLL: Duration = Duration::from_millis(10);
/// Longest name of an import, in characters.
pub const IMPORT_ID_MAX: usize = 128;
/// Most bytes of an export that is imported or verified over HTTP.
pub const IMPORT_MAX_BYTES: i64 = 4 << 30;
/// Workspaces that a workspace and its copies import in a day (`SVC_IMPORT_WORKSPACES_MAX`, 0 disables the
/// limit).
pub const IMPORT_WORKSPACES_MAX: i64 = 10;
/// Maximum bytes of all spools, on a disk that has twice as much to spare.
pub const SPOOL_MAX_BYTES: u64 = 8 << 30;
/// Part of a disk that only the database may use, and the maximum bytes of that.
pub const DISK_RESERVE_PERCENT: u64 = 5;
pub const DISK_RESERVE_MAX_BYTES: u64 = 512 << 20;
/// Maximum bytes of white space in a row in an export.
pub const EXPORT_SPACES_MAX: usize = 64 << 10;
/// Maximum files that operations of a process read at the same time.
pub const FILES_READ_MAX: usize = 2;
/// Longest time that a request waits until its file is read.
pub const FILES_READ_WAIT: Duration = Duration::from_secs(30);
/// Calls that are prepared on threads of their own at the same time.
pub const CALLS_PREPARED_MAX: usize = 4;
/// Largest file that an operation over MCP returns or takes.
pub const CONTENT_IN_MEMORY_MAX: u64 = 4 << 20;
/// Longest duration of a long read, such as a verification; after that its caller is referred elsewhere.
pub const LONG_READ_MAX: Duration = Duration::from_secs(60);
/// Milliseconds between two looks of a Postgres bus at the heads, in case a notification was lost.
pub const DELIVERY_RECONCILE_MS: i64 = 1000;
/// How long the bus and the listener of notifications pause after a failure.
pub const BUS_RETRY: Duration = Duration::from_millis(1000);
/// Most events that a tail of a workspace's log keeps for its subscribers.
pub const FEED_RING_EVENTS: usize = 4096;
/// Most bytes of events that a tail of a workspace's log keeps.
pub const FEED_RING_BYTES: usize = 8 << 20;
/// Most bytes of events that all tails of a process keep together.
pub const FEED_BYTES_MAX: usize = 64 << 20;
/// Most events that a tail, or a subscriber behind it, reads of a log at once.
pub const FEED_READ_ROWS: i64 = 1000;
/// Bytes of payloads at which such a read ends.
pub const FEED_READ_BYTES: usize = 1 << 20;
/// Most events that are sent to a subscriber beyond what it has said that it wants.
pub const REPLAY_MAX: usize = 10_000;
/// Seconds that an event must be old before a durable subscription delivers it.
pub const DELIVERY_STABILITY_SECS: i64 = 2;
/// Most days that a workspace can be told to keep things.
pub const RETENTION_DAYS_MAX: i64 = 3650;
/// Most bytes of media that a workspace can be told to keep: the largest number that every JSON reader has.
pub const RETENTION_QUOTA_MAX: i64 = 9_007_199_254_740_991;
/// Days that media are kept.
pub const MEDIA_DAYS: i64 = 30;
/// Bytes of media that are kept.
pub const MEDIA_QUOTA_BYTES: i64 = 20 << 30;
/// Seconds between two rounds of pruning.
pub const RETENTION_TICK_SECS: i64 = 3600;
/// Microseconds of a day.
pub const MICROS_A_DAY: i64 = 86_400_000_000;
/// Workspaces that one step of pruning looks at.
pub const RETENTION_WORKSPACES: i64 = 50;
/// Most messages that one event declares pruned.
pub const MESSAGES_PRUNED_MAX: i64 = 100_000;
/// Rows whose words are purged at once.
pub const PURGED_ROWS: i64 = 500;
/// Purges that nobody moves on and that are looked at for one without a legal hold.
pub const PURGES_LOOKED_AT: i64 = 100;
/// Messages that were pruned and are removed at once.
pub const MESSAGES_REMOVED: i64 = 500;
/// Shelves whose messages were all pruned and that are removed at once.
pub const SHELVES_REMOVED: i64 = 500;
/// Events that are read at once before they are pruned.
pub const PRUNE_READ_ROWS: i64 = 10_000;
/// Bytes of payloads at which such a read ends.
pub const PRUNE_READ_BYTES: usize = 4 << 20;
/// Most counts of the census that change when the floor of a log moves.
pub const PRUNE_COUNTS: usize = 500;
/// Events that were pruned and are removed at once.
pub const PRUNE_ROWS: i64 = 1000;
/// Events that a log grows by before they are counted in the table of its census.
pub const CENSUS_LAG: i64 = 1000;
/// Events that are counted at once.
pub const CENSUS_STEP: i64 = 5000;
/// Most events that a census counts itself.
pub const CENSUS_TAIL_MAX: i64 = 20_000;
/// Events, or counts of events, that one page of a census reads.
pub const CENSUS_PAGE: i64 = 3000;
/// Workspaces that one step of the census looks at.
pub const CENSUS_WORKSPACES: i64 = 100;
/// Events that a log grows by before they are added to the tree that is kept for its checkpoints.
pub const CHECKPOINT_LAG: i64 = 1000;
/// Workspaces whose trees one step looks at.
pub const CHECKPOINT_WORKSPACES: i64 = 50;
/// Most nodes and edges of a graph that a snapshot has: at some 180 bytes each, they fit into an MCP reply.
pub const GRAPH_MAX: usize = 20_000;
/// Graphs whose hashes a process remembers.
pub const GRAPH_HASHES: usize = 256;
