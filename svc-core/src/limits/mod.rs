//! Constants for every limit of the service.
//!
//! A limit whose comment contains an environment variable is the default of that variable, which
//! [`crate::config`] reads.

mod answers;
mod database;
mod shared;

use std::time::Duration;

pub use answers::*;
pub use database::*;
pub use shared::*;

/// Maximum characters in the name of a workspace, a channel or a token.
pub const NAME_MAX: usize = 100;
/// Maximum characters of a member's handle.
pub const HANDLE_MAX: usize = 64;
/// Maximum characters of a thread's title.
pub const TITLE_MAX: usize = 200;
/// Maximum characters of a channel's topic.
pub const TOPIC_MAX: usize = 500;
/// Maximum characters of a message's body.
pub const MESSAGE_MAX: usize = 100_000;
/// Maximum blocks of a message's content.
pub const CONTENT_BLOCKS_MAX: usize = 64;
/// Maximum characters of a URI.
pub const URI_MAX: usize = 2000;
/// Maximum citations of a message.
pub const CITATIONS_MAX: usize = 100;
/// Maximum characters of the language name of a code block in a message.
pub const LANGUAGE_MAX: usize = 50;
/// Maximum different emoji in the reactions to one message.
pub const REACTION_KINDS_MAX: i64 = 50;
/// Maximum members listed per emoji in the reactions to a message.
pub const REACTING_MEMBERS_LISTED_MAX: i64 = 50;
/// Maximum reactions that one read counts exactly. If there are more, the count of each emoji is limited to
/// an equal share of this number.
pub const REACTIONS_COUNTED_MAX: i64 = 4000;
/// Maximum characters of the emoji, shortcode or name in a reaction.
pub const EMOJI_MAX: usize = 64;
/// Maximum mentions in one message that can notify members.
pub const MENTIONS_MAX: usize = 50;
/// Maximum members that a group mention may notify if its author lacks the capability `channel:admin`.
pub const GROUP_MENTION_WITHOUT_ADMIN_MAX: i64 = 15;
/// Maximum members that a group mention in a message may notify.
pub const GROUP_MENTION_MAX: i64 = 1000;
/// Maximum members that are notified when an approval is requested.
pub const APPROVERS_NOTIFIED_MAX: i64 = 1000;
/// Maximum characters of a message's preview in an inbox.
pub const PREVIEW_MAX: usize = 200;
/// Maximum number of unread items that one read scans in an inbox, whether to count them or to respond to a
/// waiting request.
pub const UNREAD_SCAN_MAX: i64 = 1000;
/// Maximum channels and threads that a member can mute.
pub const MUTED_MAX: usize = 100;
/// Delay in seconds before an unread notification is emailed (`SVC_MAIL_DELAY_SECS`).
pub const MAIL_DELAY_SECS: i64 = 120;
/// Time within which a process must send a delivery batch. After that, another process can send the batch.
pub const DELIVERY_BATCH_LEASE: Duration = Duration::from_secs(60);
/// Maximum browsers of one member that receive push notifications.
pub const SUBSCRIPTIONS_MAX: i64 = 10;
/// Maximum inbox items that one call can mark.
pub const MARKED_ITEMS_MAX: usize = 500;
/// Maximum relations from one message to other messages, apart from citations.
pub const RELATIONS_PER_MESSAGE_MAX: i64 = 100;
/// Maximum refutations that affect one thread. Each close of the thread reads all these refutations.
pub const REFUTATIONS_MAX: i64 = 1000;
/// Maximum votes in one thread.
pub const VOTES_MAX: i64 = 1000;
/// Maximum options in one vote.
pub const VOTE_OPTIONS_MAX: usize = 20;
/// Index of the last option that a vote can have.
pub const OPTION_INDEX_MAX: i64 = 19;
/// Maximum characters of an option in a vote.
pub const VOTE_OPTION_MAX: usize = 200;
/// Maximum members that are listed for one option in a vote.
pub const VOTERS_LISTED_MAX: i64 = 200;
/// Maximum ballots read, whether listed or only counted, before a page of votes ends.
pub const PAGE_BALLOTS_MAX: usize = 3000;
/// Maximum pinned messages in one channel.
pub const PINS_MAX: i64 = 100;
/// Maximum pinned messages in a thread's context.
pub const CONTEXT_PINS_MAX: i64 = 10;
/// Maximum characters of the reason for cancelling a thread.
pub const CANCEL_REASON_MAX: usize = 500;
/// Maximum characters of a skill's name.
pub const SKILL_MAX: usize = 64;
/// Maximum skills of a member, and maximum required skills of a thread.
pub const SKILLS_MAX: usize = 64;
/// Minimum priority of a thread.
pub const PRIORITY_MIN: i64 = -100;
/// Maximum priority of a thread.
pub const PRIORITY_MAX: i64 = 100;
/// Maximum different sets of required skills in a workspace.
pub const SKILL_SETS_MAX: usize = 5000;
/// Maximum dependencies that one thread may have.
pub const DEPENDENCIES_MAX: usize = 100;
/// Maximum threads that may depend on one thread. Closing that thread updates all its dependents in one
/// transaction.
pub const DEPENDENTS_MAX: i64 = 1000;
/// Maximum threads visited in each direction to check whether a dependency would form a cycle.
pub const DEPENDENCY_WALK_MAX: i64 = 5000;
/// Maximum live tokens derived, directly or indirectly, from one minted token.
///
/// Revoking the minted token revokes all these tokens in one transaction.
pub const DERIVED_TOKENS_MAX: i64 = 1000;
/// Maximum length of a chain of derived tokens.
pub const TOKEN_DEPTH_MAX: i64 = 16;
/// Maximum lifetime of a delegation grant in days, unless the workspace's policy sets another maximum.
pub const GRANT_CEILING_DEFAULT_DAYS: i64 = 90;
/// Maximum number of days that a workspace's policy can set as the maximum lifetime of delegation grants.
pub const GRANT_CEILING_MAX_DAYS: i64 = 3650;
/// Maximum characters of the purpose of a delegation grant.
pub const GRANT_PURPOSE_MAX: usize = 500;
/// Maximum characters of an app's slug. The slug with the prefix `app:` is the app's handle.
pub const APP_SLUG_MAX: usize = 60;
/// Maximum live tokens of one app installation. Revoking the installation revokes all these tokens in one
/// transaction.
pub const INSTALLATION_TOKENS_MAX: i64 = 1000;
/// Lifetime in seconds of a token that an app requests with its client credentials.
pub const APP_TOKEN_SECS: i64 = 3600;
/// Maximum live tokens of one delegation grant. Revoking the grant revokes all these tokens in one
/// transaction.
pub const GRANT_TOKENS_MAX: i64 = 1000;
/// Default lifetime of a delegated token, in seconds.
pub const DELEGATED_DEFAULT_SECS: i64 = 900;
/// Maximum lifetime of a delegated token, in seconds.
pub const DELEGATED_MAX_SECS: i64 = 3600;
/// Maximum lifetime of a share ticket, in seconds: 48 hours.
pub const SHARE_TICKET_MAX_SECS: i64 = 172_800;
/// Maximum artifacts that a share ticket can list.
pub const SHARE_ARTIFACTS_MAX: usize = 100;
/// Maximum items on a page that is read with a share ticket.
pub const SHARE_PAGE_MAX: i64 = 100;
/// Default maximum lifetime of a browser session, in seconds.
pub const SESSION_TTL_SECS: i64 = 28_800;
/// Maximum lifetime that an operator can set for browser sessions, in seconds.
pub const SESSION_TTL_MAX_SECS: i64 = 2_592_000;
/// Minimum length of the key that signs session cookies, in bytes.
pub const SESSION_SECRET_MIN_BYTES: usize = 32;
/// Time in seconds within which a person must complete a sign-in at the identity provider.
pub const OIDC_LOGIN_SECS: u64 = 600;
/// Maximum pending sign-ins at an identity provider per workspace.
pub const OIDC_LOGINS_MAX: i64 = 10_000;
/// Maximum characters of a subject identifier from an identity provider (OpenID Connect Core, 2).
pub const OIDC_SUBJECT_MAX: usize = 255;
/// Maximum characters of an email address.
pub const EMAIL_MAX: usize = 254;
/// Maximum characters of a person's user name at an identity provider.
pub const USER_NAME_MAX: usize = 254;
/// Maximum characters of a person's or a group's id at an identity provider.
pub const EXTERNAL_ID_MAX: usize = 1000;
/// Maximum characters of the name of a SCIM group.
pub const SCIM_GROUP_NAME_MAX: usize = 256;
/// Maximum resources in one SCIM answer.
pub const SCIM_COUNT_MAX: usize = 200;
/// Maximum characters of a SCIM filter, or of the path in a SCIM PATCH operation.
pub const SCIM_FILTER_MAX: usize = 1000;
/// Maximum nesting depth of a SCIM filter.
pub const SCIM_FILTER_DEPTH_MAX: usize = 10;
/// Maximum users or groups that one SCIM search compares with a filter without an equality condition.
pub const SCIM_SCAN_MAX: i64 = 10_000;
/// Maximum operations in one SCIM PATCH request.
pub const SCIM_OPERATIONS_MAX: usize = 1000;
/// Maximum attributes that a SCIM request can select for the response.
pub const SCIM_ATTRIBUTES_MAX: usize = 100;
/// Maximum members of one SCIM group.
pub const SCIM_GROUP_MEMBERS_MAX: usize = 4000;
/// Maximum SCIM groups of a workspace.
pub const SCIM_GROUPS_MAX: i64 = 4000;
/// Maximum depth of nested child threads.
pub const THREAD_DEPTH_MAX: i64 = 16;
/// Maximum bytes of a checkpoint as canonical JSON.
pub const CHECKPOINT_MAX_BYTES: usize = 8_192;
/// Maximum bytes of a result or of a message's metadata as canonical JSON.
pub const JSON_MAX_BYTES: usize = 262_144;
/// Maximum nesting depth of a JSON value that the service stores.
pub const JSON_MAX_DEPTH: usize = 64;
/// Maximum bytes of the input of a long poll. A process keeps thousands of such inputs in memory.
pub const WAIT_INPUT_MAX_BYTES: usize = 4096;
/// Maximum characters in the kind of a result.
pub const RESULT_KIND_MAX: usize = 200;
/// Maximum characters of a repository's name.
pub const REPO_MAX: usize = 300;
/// Maximum items in a footprint.
pub const FOOTPRINT_ITEMS_MAX: usize = 100;
/// Maximum characters of an item in a footprint.
pub const FOOTPRINT_ITEM_MAX: usize = 500;
/// Maximum conflicts listed in an error, in a footprint check, or for a deferred thread.
pub const CONFLICTS_MAX: i64 = 1000;
/// Maximum conflicts listed in a thread's context for one reason not to claim the thread.
pub const REFUSAL_CONFLICTS_MAX: usize = 20;
/// Maximum capacity of a slot.
pub const SLOT_CAPACITY_MAX: i64 = 10_000;
/// Maximum slots with a capacity in one workspace.
pub const SLOTS_MAX: i64 = 1000;
/// Maximum claims listed for each slot in a list of slots.
pub const SLOT_HOLDERS_MAX: i64 = 100;
/// Maximum claims that a list of slots counts in total. If there are more, the count of each slot is limited
/// to a share of this number.
pub const SLOT_CLAIMS_COUNTED_MAX: i64 = 1000;
/// Maximum claims listed for all slots together in a list of slots.
pub const SLOT_LIST_HOLDERS_MAX: i64 = 600;
/// Maximum characters of the reason for a pause.
pub const PAUSE_REASON_MAX: usize = 500;
/// Maximum characters of the reason for a freeze.
pub const FREEZE_REASON_MAX: usize = 500;
/// Maximum paused repositories in one workspace.
pub const PAUSES_MAX: i64 = 1000;
/// Maximum tokens, millionths of a dollar, turns or attempts that a budget can allow.
pub const BUDGET_MAX: i64 = 1_000_000_000_000_000;
/// Maximum wall time in seconds that a budget can allow: approximately 30 years.
pub const WALL_SECS_MAX: i64 = 1_000_000_000;
/// Percentage of a budget limit at which the notice `budget_low` is posted.
pub const BUDGET_LOW_PERCENT: i64 = 80;
/// Maximum tokens, millionths of a dollar or turns in one usage report.
pub const USAGE_MAX: i64 = 1_000_000_000_000;
/// Maximum characters of a usage report's id, and of a model's name.
pub const REPORT_ID_MAX: usize = 200;
/// Maximum models per member and day whose usage is summed separately. The usage of all further models is
/// added to one sum.
pub const USAGE_MODELS_MAX: i64 = 50;
/// Default number of days for which a workspace's usage is summed.
pub const USAGE_DAYS_DEFAULT: i64 = 30;
/// Maximum daily usage sums that are added up for one answer. Either all sums of a day are included, or none.
pub const USAGE_SCAN_MAX: i64 = 10_000;
/// Maximum totals listed in a workspace's usage; each total covers one member and one model.
pub const USAGE_SUMS_MAX: i64 = 1000;
/// Maximum tools that a thread's creator can recommend to the thread's worker.
pub const TOOLS_MAX: usize = 100;
/// Maximum characters of a tool's name.
pub const TOOL_MAX: usize = 200;
/// Maximum value of `max_children` in a spawn budget.
pub const SPAWN_CHILDREN_MAX: i64 = 1_000_000;
/// Maximum value of `max_tools` in a spawn budget, equal to [`TOOLS_MAX`].
pub const SPAWN_TOOLS_MAX: i64 = 100;
/// Maximum items in each list of a workspace's context: claims, reviews and approvals.
pub const WORKSPACE_CONTEXT_MAX: i64 = 20;
/// Maximum threads in review, and maximum threads claimed by the caller, that are scanned for a workspace's
/// context.
pub const CONTEXT_SCAN_MAX: i64 = 1000;
/// Maximum busy members, and maximum idle members, listed in the occupancy of a workspace.
pub const OCCUPANCY_MEMBERS_MAX: i64 = 1000;
/// Maximum threads counted for each number in the occupancy of a workspace, such as the number of ready
/// threads.
pub const OCCUPANCY_COUNT_MAX: i64 = 1000;
/// Maximum approvals that a thread may require.
pub const APPROVALS_MAX: i64 = 10;
/// Maximum members in a thread's list of reviewers.
pub const REVIEWERS_MAX: i64 = 100;
/// Maximum reviews of one thread by one member.
pub const REVIEWS_MAX: i64 = 1000;
/// Maximum reviews of one thread that are read to decide which reviews count.
pub const REVIEWS_READ_MAX: i64 = 1000;
/// Maximum characters of a review's text, without its findings.
pub const REVIEW_MAX: usize = 20_000;
/// Maximum findings in a review.
pub const FINDINGS_MAX: usize = 100;
/// Maximum characters of a finding.
pub const FINDING_MAX: usize = 2000;
/// Maximum characters of the file path in a finding.
pub const FINDING_PATH_MAX: usize = 500;
/// Maximum line number in a finding.
pub const LINE_MAX: i64 = 100_000_000;
/// Maximum characters of the `pointer` of a land gate, such as a branch or the address of a pull request.
pub const LAND_POINTER_MAX: usize = 500;
/// Maximum characters of the question of an approval gate.
pub const QUESTION_MAX: usize = 4000;
/// Maximum approval gates of one thread. Each close of the thread reads all these gates.
pub const GATES_MAX: i64 = 1000;
/// Minimum time until an approval gate expires, in seconds.
pub const GATE_EXPIRY_MIN_SECS: i64 = 60;
/// Maximum time until an approval gate expires, in seconds: 30 days.
pub const GATE_EXPIRY_MAX_SECS: i64 = 2_592_000;
/// Lifetime in seconds of a link to an approval gate.
pub const APPROVAL_LINK_SECS: i64 = 3600;
/// Maximum ids listed for one requirement that prevents a thread from closing.
pub const REASON_IDS_MAX: i64 = 10;
/// Maximum notices returned by one read of a thread.
pub const NOTICES_MAX: i64 = 10;
/// Maximum characters of a glossary term.
pub const TERM_MAX: usize = 100;
/// Maximum characters of a glossary term's definition.
pub const DEFINITION_MAX: usize = 1000;
/// Maximum glossary terms in one workspace.
pub const GLOSSARY_MAX: i64 = 500;
/// Interval between heartbeats, which keep a member online.
pub const PRESENCE_HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a member counts as online after it was last seen.
pub const PRESENCE_TTL: Duration = Duration::from_secs(30);
/// Maximum characters of the note in a heartbeat.
pub const PRESENCE_NOTE_MAX: usize = 200;
/// Maximum members in a new direct message, not counting its creator.
pub const DM_OTHERS_MAX: usize = 10;
/// Maximum messages in a direct message channel that are counted as unread.
pub const DM_UNREAD_MAX: i64 = 100;
/// Maximum threads, channels and members that one member can follow.
pub const FOLLOWS_MAX: i64 = 500;
/// Maximum unread messages that are counted for each followed object.
pub const UNREAD_PER_FOLLOW_MAX: i64 = 100;
/// Maximum texts in one request for Markdown trees.
pub const MARKDOWN_TEXTS_MAX: usize = 100;
/// Maximum total bytes of the texts in one request for Markdown trees.
pub const MARKDOWN_BYTES_MAX: usize = 1_048_576;
/// Maximum bytes of the Markdown trees in one answer in JSON, unless the first tree alone is larger.
pub const MARKDOWN_ANSWER_BYTES_MAX: usize = 2 << 20;
/// Time after which no further text of a request for Markdown trees is parsed.
pub const MARKDOWN_TIME_MAX: Duration = Duration::from_millis(200);
/// Maximum total bytes of possible member names found after `@` in the texts of one request for Markdown
/// trees.
pub const MENTION_NAME_BYTES_MAX: usize = 8 << 20;
/// Maximum nodes in the Markdown tree of one text.
pub const MARKDOWN_NODES_MAX: usize = 5000;
/// Minimum number of nodes in the Markdown tree of a text: a paragraph and its text.
pub const MARKDOWN_NODES_MIN: usize = 2;
/// Bytes that all link addresses of a Markdown tree may have for each byte of the text.
pub const MARKDOWN_HREF_BYTES_PER_BYTE: usize = 4;
/// Bytes that all link addresses of a Markdown tree may have in addition to those for each byte of the text.
pub const MARKDOWN_HREF_BYTES_MIN: usize = 64 << 10;
/// Maximum depth of the Markdown tree of a text.
pub const MARKDOWN_LEVELS_MAX: usize = 32;
/// Maximum characters of a channel's boot, the text that agents read first.
pub const BOOT_MAX: usize = 20_000;
/// Maximum characters of the description of a memory block.
pub const MEMORY_DESCRIPTION_MAX: usize = 1000;
/// Maximum characters of a memory block's value, if the block's own limit allows them.
pub const MEMORY_MAX: usize = 100_000;
/// Maximum value, in characters, that can be set as the limit of one memory block.
pub const MEMORY_MAX_CHARS: i64 = 100_000;
/// Default limit of a memory block, in characters.
pub const MEMORY_DEFAULT_CHARS: i64 = 5000;
/// Maximum memory blocks attached to one thread.
pub const THREAD_MEMORY_BLOCKS_MAX: i64 = 20;
/// Maximum threads to which one memory block can be attached. Deleting the block detaches it from all these
/// threads in one transaction.
pub const MEMORY_BLOCK_THREADS_MAX: i64 = 10_000;
/// Maximum glossary terms in a thread's context pack.
pub const CONTEXT_TERMS_MAX: usize = 100;
/// Maximum bytes of a thread's context pack that are searched for glossary terms.
pub const CONTEXT_SEARCH_BYTES_MAX: usize = 262_144;
/// Maximum messages in a thread's context pack.
pub const CONTEXT_MESSAGES_MAX: i64 = 30;

/// Minimum claim lease, in seconds.
pub const LEASE_MIN_SECS: i64 = 1;
/// Maximum claim lease, in seconds: 7 days.
pub const LEASE_MAX_SECS: i64 = 604_800;
/// Default claim lease, in seconds (`SVC_CLAIM_DEFAULT_LEASE_SECS`).
pub const LEASE_DEFAULT_SECS: i64 = 600;
/// Maximum step of the system clock that the service's time follows immediately. A larger step must first
/// persist for [`CLOCK_STEP_PERSISTENCE`].
pub const CLOCK_STEP_IMMEDIATE_MAX: Duration = Duration::from_secs(10);
/// Time for which a larger step of the system clock must persist before the service's time follows it.
pub const CLOCK_STEP_PERSISTENCE: Duration = Duration::from_secs(60);
/// Seconds between rounds of the claim reaper (`SVC_CLAIM_REAP_TICK_SECS`, 0 disables it).
pub const REAP_TICK_SECS: i64 = 5;
/// Maximum claims that the reaper processes in one round.
pub const REAP_MAX: i64 = 1000;
/// Seconds within which a claim must be acknowledged (`SVC_CLAIM_ACK_TIMEOUT_SECS`, 0 disables it).
pub const ACK_TIMEOUT_SECS: i64 = 120;

/// Maximum timeout of a `wait_*` operation, in seconds.
pub const WAIT_MAX_SECS: i64 = 330;
/// Default timeout of a `wait_*` operation, in seconds.
pub const WAIT_DEFAULT_SECS: i64 = 30;
/// Maximum waits parked at the same time in one process.
pub const WAITS_MAX: usize = 20_000;
/// Maximum waits of one client parked at the same time in one process: one tenth of [`WAITS_MAX`].
pub const WAITS_PER_CLIENT_MAX: usize = WAITS_MAX / 10;

/// Maximum bytes of a request body (`SVC_MAX_BODY_BYTES`).
pub const BODY_MAX_BYTES: i64 = 2_097_152;
/// Maximum fields of a query string.
pub const QUERY_FIELDS_MAX: usize = 128;
/// Maximum requests by one client per window (`SVC_RATE_LIMIT_MAX`, 0 disables the limit).
pub const RATE_LIMIT_MAX: i64 = 1200;
/// Length of the rate limit window in seconds (`SVC_RATE_LIMIT_WINDOW_SECS`).
pub const RATE_LIMIT_WINDOW_SECS: i64 = 60;
/// Maximum requests in one workspace per window (`SVC_WORKSPACE_RATE_LIMIT_MAX`, 0 disables the limit).
pub const WORKSPACE_RATE_LIMIT_MAX: i64 = 6000;
/// Maximum value of a token's request quota per window.
pub const TOKEN_QUOTA_MAX: i64 = 1_000_000_000;
/// Number of equal shares of a rate limit. A server notifies the other servers after it has admitted one
/// share.
pub const RATE_LIMIT_SHARES: u32 = 20;
/// Postgres `statement_timeout` of the statements with which servers share their counts of requests.
pub const RATE_LIMIT_SHARING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between attempts of a server to share its counts of requests while the database is unreachable.
pub const RATE_LIMIT_SHARING_RETRY: Duration = Duration::from_secs(5);
/// Maximum requests in flight in one server (`SVC_MAX_CONCURRENT_REQUESTS`, 0 disables the limit).
pub const CONCURRENT_REQUESTS_MAX: i64 = 1024;
/// Maximum connections of one server (`SVC_MAX_CONNECTIONS`, 0 disables the limit).
///
/// A peer that is not a trusted proxy may have a tenth of these connections.
pub const CONNECTIONS_MAX: i64 = 20_000;
/// Maximum WebSocket connections of one server (`SVC_MAX_WS_CONNECTIONS`).
pub const WS_CONNECTIONS_MAX: i64 = 10_000;
/// Number of proxies in front of the server whose forwarded entries are trusted (`SVC_TRUSTED_PROXY_HOPS`).
pub const TRUSTED_PROXY_HOPS: i64 = 0;
/// Seconds after a termination signal during which readiness reports "draining" (`SVC_SHUTDOWN_DRAIN_SECS`).
pub const SHUTDOWN_DRAIN_SECS: i64 = 0;
/// Maximum bytes of a frame from a WebSocket client.
pub const WS_FRAME_MAX_BYTES: usize = 65_536;

/// Maximum queued changes per workspace and writer. The server rejects further changes of the workspace, and
/// the callers must retry.
pub const QUEUE_MAX: usize = 4096;
/// Maximum queued reads per workspace. The server rejects further reads of the workspace, and the callers
/// must retry.
pub const READS_QUEUED_MAX: usize = 512;
/// Maximum bytes of one workspace's requests that are queued for one writer, or for the readers.
pub const QUEUED_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Seconds to wait before retrying a request that a full queue has rejected.
pub const QUEUE_RETRY_SECS: u64 = 1;
/// Time limit of a read in milliseconds (`SVC_READ_BUDGET_MS`, 0 disables it). Time spent waiting does not
/// count.
pub const READ_BUDGET_MS: i64 = 1000;
/// Maximum time for which a job may be queued for a writer or reader. After that, the caller must retry.
pub const QUEUE_WAIT_MAX: Duration = Duration::from_secs(30);
/// Maximum jobs in one commit.
pub const BATCH_MAX: usize = 256;
/// Bytes of requests in one commit after which the commit accepts no further request.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Maximum reads that join the transaction of another read. More reads would delay each other.
pub const READ_BATCH_MAX: usize = 31;
/// Maximum time that a batch waits for a workspace locked by another server.
///
/// After that, the lane runs other tasks first.
pub const LOCKED_WORKSPACE_WAIT_MAX: Duration = Duration::from_millis(100);
/// Maximum time that SQLite waits for a lock of another process.
pub const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_millis(5000);
/// Interval at which a shared SQLite file is polled for commits of other processes while a request waits.
pub const SQLITE_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum characters of the id that a client chooses for an import.
pub const IMPORT_ID_MAX: usize = 128;
/// Maximum bytes of an export that is imported or verified over HTTP.
pub const IMPORT_MAX_BYTES: i64 = 4 << 30;
/// Maximum workspaces that a workspace and its copies together import within 24 hours
/// (`SVC_IMPORT_WORKSPACES_MAX`, 0 disables the limit).
pub const IMPORT_WORKSPACES_MAX: i64 = 10;
/// Maximum bytes of all spool files together. On a disk with little free space, the maximum is half of that
/// space.
pub const SPOOL_MAX_BYTES: u64 = 8 << 30;
/// Percentage of a disk that is reserved for the database, up to [`DISK_RESERVE_MAX_BYTES`].
pub const DISK_RESERVE_PERCENT: u64 = 5;
/// Maximum bytes of a disk that are reserved for the database.
pub const DISK_RESERVE_MAX_BYTES: u64 = 512 << 20;
/// Maximum consecutive bytes of white space in an export.
pub const EXPORT_SPACES_MAX: usize = 64 << 10;
/// Maximum uploaded files that operations in one process read at the same time.
pub const FILES_READ_MAX: usize = 2;
/// Maximum time that a request waits until the server begins to read the uploaded file.
pub const FILES_READ_WAIT: Duration = Duration::from_secs(30);
/// Maximum calls that one process prepares on separate background threads at the same time.
pub const CALLS_PREPARED_MAX: usize = 4;
/// Maximum bytes of a file that an operation returns or accepts over MCP.
pub const CONTENT_IN_MEMORY_MAX: u64 = 4 << 20;
/// Maximum duration of a long read, such as a verification. A longer read fails, and the error suggests an
/// alternative.
pub const LONG_READ_MAX: Duration = Duration::from_secs(60);
/// Milliseconds between polls of the log heads on Postgres, in case a notification was lost.
pub const DELIVERY_RECONCILE_MS: i64 = 1000;
/// Time that the bus and the notification listener wait after a failure before they retry.
pub const BUS_RETRY_PAUSE: Duration = Duration::from_millis(1000);
/// Maximum recent events of one workspace's log that a process keeps in memory (the tail) for subscribers.
pub const FEED_TAIL_EVENTS_MAX: usize = 4096;
/// Maximum bytes of events in the tail of one workspace's log.
pub const FEED_TAIL_BYTES_MAX: usize = 8 << 20;
/// Maximum bytes of events in all tails of one process together.
pub const FEED_BYTES_MAX: usize = 64 << 20;
/// Maximum events per read of a log, by a tail or by a subscriber behind the tail.
pub const FEED_READ_EVENTS_MAX: i64 = 1000;
/// Bytes of payloads after which one read of a log ends, by a tail or by a subscriber behind the tail.
pub const FEED_READ_BYTES: usize = 1 << 20;
/// Maximum events that the server sends ahead to a subscriber behind the log.
pub const REPLAY_MAX: usize = 10_000;
/// Minimum age in seconds of an event before a durable subscription delivers it.
pub const DELIVERY_STABILITY_SECS: i64 = 2;
/// Maximum retention time that a workspace can set, in days.
pub const RETENTION_DAYS_MAX: i64 = 3650;
/// Maximum number of bytes that a workspace can set as its media quota: the largest integer that every JSON
/// reader supports.
pub const RETENTION_QUOTA_MAX: i64 = 9_007_199_254_740_991;
/// Default retention time of media, in days.
pub const MEDIA_RETENTION_DEFAULT_DAYS: i64 = 30;
/// Default media quota in bytes.
pub const MEDIA_QUOTA_BYTES: i64 = 20 << 30;
/// Seconds between two rounds of pruning (`SVC_RETENTION_TICK_SECS`).
pub const RETENTION_TICK_SECS: i64 = 3600;
/// Microseconds in a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;
/// Maximum workspaces checked by one step of pruning.
pub const RETENTION_STEP_WORKSPACES_MAX: i64 = 50;
/// Maximum messages that one event declares as pruned.
pub const MESSAGES_PRUNED_MAX: i64 = 100_000;
/// Maximum rows whose texts are purged in one step.
pub const PURGED_ROWS_MAX: i64 = 500;
/// Maximum interrupted purges examined to find one in a workspace without a legal hold.
pub const PURGES_EXAMINED_MAX: i64 = 100;
/// Maximum pruned messages that are removed in one step.
pub const MESSAGES_REMOVED_MAX: i64 = 500;
/// Maximum fully pruned key segments that are removed in one step.
pub const KEY_SEGMENTS_REMOVED_MAX: i64 = 500;
/// Maximum events that one step of pruning reads.
pub const PRUNE_READ_ROWS: i64 = 10_000;
/// Bytes of payloads after which a step of pruning stops reading events.
pub const PRUNE_READ_BYTES: usize = 4 << 20;
/// Maximum census counts that one step of pruning changes.
pub const PRUNE_COUNTS_MAX: usize = 500;
/// Maximum pruned events that are removed in one step.
pub const PRUNED_EVENTS_REMOVED_MAX: i64 = 1000;
/// Number of new events in a log after which the census (the counts of events) adds these events to its
/// stored counts.
pub const CENSUS_NEW_EVENTS_MIN: i64 = 1000;
/// Maximum events that one step adds to the stored counts of the census.
pub const CENSUS_STEP_EVENTS_MAX: i64 = 5000;
/// Maximum events that a census counts by reading them, in addition to the stored counts.
pub const CENSUS_TAIL_MAX: i64 = 20_000;
/// Maximum events, or stored counts of events, that one page of a census reads.
pub const CENSUS_PAGE_READS_MAX: i64 = 3000;
/// Maximum workspaces checked by one step of the census.
pub const CENSUS_STEP_WORKSPACES_MAX: i64 = 100;
/// Number of new events in a log after which these events are added to the stored Merkle tree of the log.
pub const MERKLE_TREE_NEW_EVENTS_MIN: i64 = 1000;
/// Maximum workspaces whose Merkle trees one step checks.
pub const MERKLE_TREE_STEP_WORKSPACES_MAX: i64 = 50;
/// Maximum nodes and edges in the graph of a snapshot. At about 180 bytes each, they fit into
/// [`ANSWER_BYTES`].
pub const GRAPH_MAX: usize = 20_000;
/// Number of graphs whose hashes a process caches.
pub const GRAPH_HASHES_CACHED_MAX: usize = 256;
