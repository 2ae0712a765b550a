//! The tables that each module names: each table has an owner, and all other modules that name it in SQL are
//! listed.
//!
//! A *place* is a file or a folder of the core, such as `identity/tokens`, or a whole layer. It covers
//! everything below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::house::rules::{none, root, sources};

/// Each table, the place that owns it, and the other places that name it.
///
/// `channels` is joined wherever `visible!` decides who may see an object in a channel.
const TABLES: &[(&str, &str, &[&str])] = &[
    // The caller is looked up by its token, which ends with its installation.
    ("app_installations", "identity/apps", &["op/call"]),
    ("apps", "identity/apps", &[]),
    ("approval_gates", "gates/approvals", &[]),
    ("audit", "log/batch", &["log/verify", "audit"]),
    ("ballot_counts", "conversation/votes", &[]),
    ("ballots", "conversation/votes", &[]),
    ("boots", "conversation/boot", &["conversation/channels"]),
    ("channel_members", "conversation/channels", &["conversation/visibility", "stream/snapshot"]),
    (
        "channels",
        "conversation/channels",
        &[
            "conversation/addresses",
            "conversation/boot",
            "conversation/follows",
            "conversation/inbox",
            "conversation/mentions",
            "conversation/messages",
            "conversation/notifications",
            "conversation/visibility",
            "conversation/presence",
            "coordination/claims",
            "coordination/dead_letters",
            "coordination/deferred",
            "coordination/dependencies",
            "coordination/obstacles",
            "coordination/occupancy",
            "coordination/queue",
            "coordination/results",
            "coordination/workspace_threads",
            "gates/approvals",
            "gates/backlinks",
            "gates/context",
            "gates/relations",
            "gates/reviews",
            "audit",
            "stream/census",
            "stream/events",
            "sharing",
            "stream/snapshot",
            "stream/tombstones",
        ],
    ),
    ("checkpoints", "stream/checkpoints", &[]),
    ("census_at", "stream/census", &[]),
    ("charged_imports", "portability", &[]),
    ("claim_checkpoints", "coordination/checkpoint", &[]),
    ("consumers", "stream/subscriptions", &[]),
    ("dead_letters", "coordination/dead_letters", &[]),
    // The caller is looked up by its token, which ends with its grant.
    ("delegation_grants", "identity/delegation", &["op/call"]),
    ("delegation_policies", "identity/delegation", &[]),
    // The inbox knows whether an item is to be mailed.
    ("delivery_addresses", "outreach/delivery_address", &["conversation/inbox", "outreach/mail"]),
    ("delivery_codes", "outreach/delivery_address", &[]),
    ("dm_sets", "conversation/channels", &[]),
    ("erased", "portability", &[]),
    (
        "events",
        "log",
        &[
            "op/call",
            "identity/floor",
            "conversation/addresses",
            "conversation/messages",
            "coordination/thread_reads",
            "stream/catch_up",
            "stream/census",
            "stream/checkpoints",
            "stream/events",
            "portability",
            "retention",
            "audit/state",
            "stream/tombstones",
        ],
    ),
    // The head's position is read where the caller is looked up, and where logs are read.
    (
        "heads",
        "log",
        &[
            "op/call",
            "op/run",
            "identity/floor",
            "conversation/addresses",
            "conversation/messages",
            "coordination/thread_reads",
            "audit",
            "stream/checkpoints",
            "portability",
            "retention",
            "stream/snapshot",
            "audit/state",
        ],
    ),
    ("follows", "conversation/follows", &[]),
    (
        "footprints",
        "coordination/footprint",
        &["coordination/thread_row", "coordination/queue", "coordination/claims", "coordination/deferred"],
    ),
    ("findings", "gates/reviews", &[]),
    ("glossary", "conversation/glossary", &[]),
    ("idempotency_keys", "op/run", &["retention/idempotency_keys"]),
    ("imports", "portability", &[]),
    // New items wake a wait for an inbox.
    (
        "inbox",
        "conversation/inbox",
        &["conversation/channels", "conversation/notifications", "log/bus", "outreach/mail", "outreach/push"],
    ),
    ("inbox_rules", "outreach/preferences", &["conversation/inbox"]),
    ("key_checks", "log/keys", &[]),
    ("kind_counts", "stream/census", &[]),
    ("land_gates", "gates/land_gate", &[]),
    ("leases", "op/declare/chore", &[]),
    // Nothing is destroyed under a hold, and replaced texts are kept.
    ("held_texts", "retention/holds", &["op/run"]),
    ("legal_holds", "retention/holds", &["op/run"]),
    ("live_items", "coordination/obstacles", &["coordination/queue", "coordination/slots"]),
    ("member_skills", "identity/members", &[]),
    // The caller is looked up by its token, with its member.
    (
        "members",
        "identity/members",
        &[
            "op/call",
            "identity/sessions",
            "conversation/channels",
            "conversation/inbox",
            "conversation/mentions",
            "conversation/notifications",
            "conversation/presence",
            "stream/snapshot",
            "outreach/mail",
            "outreach/push",
        ],
    ),
    ("memory_blocks", "conversation/memory", &[]),
    ("message_edits", "conversation/messages", &[]),
    (
        "messages",
        "conversation/messages",
        &[
            "conversation/channels",
            "conversation/follows",
            "conversation/notifications",
            "conversation/votes",
            "gates/backlinks",
            "gates/relations",
            "stream/snapshot",
        ],
    ),
    ("mutes", "conversation/inbox", &[]),
    ("oidc_identities", "identity/oidc", &[]),
    ("oidc_logins", "identity/oidc", &[]),
    ("parked", "coordination/queue", &[]),
    ("pins", "conversation/messages", &["gates/backlinks"]),
    ("preferences", "outreach/preferences", &[]),
    ("presence", "conversation/presence", &["conversation/inbox", "conversation/mentions"]),
    ("purges", "retention/purge", &[]),
    ("rate_windows", "store/rate_windows", &[]),
    ("reactions", "conversation/messages", &["gates/backlinks"]),
    ("ready", "coordination/queue", &[]),
    // A channel does not become private while its messages refute others elsewhere.
    ("relations", "gates/relations", &["conversation/channels", "conversation/messages", "gates/backlinks"]),
    ("repo_pauses", "coordination/pauses", &["coordination/obstacles", "coordination/queue"]),
    ("resource_subscriptions", "stream/resource_subscriptions", &[]),
    ("results", "coordination/results", &[]),
    ("retention", "retention", &[]),
    ("review_requirements", "gates/reviews", &[]),
    ("reviewers", "gates/reviews", &[]),
    ("reviews", "gates/reviews", &[]),
    ("scim_group_members", "identity/scim", &[]),
    ("scim_groups", "identity/scim", &[]),
    ("scrubs", "conversation/scrub", &[]),
    // The caller is looked up by its session.
    ("sessions", "identity/sessions", &["op/call"]),
    // The caller is looked up by its ticket.
    ("share_tickets", "sharing", &["op/call"]),
    ("shelves", "conversation/key_segments", &["conversation/scrub"]),
    ("slots", "coordination/slots", &["coordination/obstacles", "coordination/queue"]),
    ("slot_uses", "coordination/obstacles", &[]),
    ("skill_sets", "coordination/skill_sets", &["coordination/queue", "coordination/thread_row"]),
    ("spawn_budgets", "coordination/budget_ops", &[]),
    ("taps", "stream/internal_consumers", &[]),
    ("thread_budgets", "coordination/budget", &[]),
    (
        "thread_dependencies",
        "coordination/dependencies",
        &["conversation/channels", "coordination/queue", "stream/snapshot"],
    ),
    ("thread_memory_blocks", "conversation/memory", &[]),
    ("thread_notices", "coordination/notices", &[]),
    ("thread_workers", "coordination/workers", &[]),
    // Each feature of threads has separate columns in the row of a thread.
    (
        "threads",
        "coordination/thread_row",
        &[
            "conversation/channels",
            "conversation/follows",
            "conversation/notifications",
            "conversation/visibility",
            "conversation/presence",
            "coordination/budget",
            "coordination/budget_ops",
            "coordination/checkpoint",
            "coordination/claims",
            "coordination/dead_letters",
            "coordination/deferred",
            "coordination/dependencies",
            "coordination/dms",
            "coordination/footprint_ops",
            "coordination/lifecycle",
            "coordination/obstacles",
            "coordination/occupancy",
            "coordination/queue",
            "coordination/reaper",
            "coordination/results",
            "coordination/thread_reads",
            "coordination/workspace_threads",
            "gates/context",
            "gates/approvals",
            "gates/reviews",
            "stream/snapshot",
        ],
    ),
    ("tokens", "identity/tokens", &["op/call", "identity/sessions", "identity/setup"]),
    ("usage_reports", "coordination/budget_ops", &[]),
    ("usage_totals", "coordination/budget_ops", &[]),
    ("votes", "conversation/votes", &["gates/backlinks"]),
    // The inbox knows whether an item is to be pushed.
    ("web_push", "outreach/web_push", &["conversation/inbox"]),
    // With authentication turned off, the first person is looked up as the caller.
    (
        "workspaces",
        "identity/workspaces",
        &[
            "log/keys",
            "log/verify",
            "identity/setup",
            "stream/snapshot",
            "audit/state",
            "op/call",
            "op/declare",
            "conversation/presence",
            "outreach/mail",
            "outreach/workspace_turns",
        ],
    ),
];

/// Returns the tokens of a text: its keywords and names, its commas and parentheses.
fn tokens(sql: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let length = if word > 0 { word } else { first.len_utf8() };
        if is_word(first) || matches!(first, ',' | '(' | ')') {
            found.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    found
}

/// The keywords before the name of a table.
const NAMES_A_TABLE: &[&str] = &["from", "join", "into", "update", "using", "table", "truncate"];

/// The keywords that may come between.
const BETWEEN: &[&str] = &["if", "not", "exists", "only", "or", "ignore", "main"];

/// Returns the tables that a statement names: after a keyword, or after a comma, as in a list.
fn named_in(sql: &str) -> BTreeSet<String> {
    let sql = sql.to_lowercase();
    let tokens = tokens(&sql);
    let has_list = tokens.iter().any(|word| ["from", "using", "table"].contains(word));
    let mut named = BTreeSet::new();
    let mut before = "";
    for word in tokens {
        if BETWEEN.contains(&word) {
            continue;
        }
        if NAMES_A_TABLE.contains(&before) || (before == "," && has_list) {
            named.insert(word.to_owned());
        }
        before = word;
    }
    named
}

/// Returns the tables that exist after the migrations of an engine; a partition is part of its table.
fn migrated(engine: &str) -> BTreeSet<String> {
    let folder = root().join("migrations").join(engine);
    let files: BTreeSet<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    after_statements(&texts.concat())
}

fn after_statements(sql: &str) -> BTreeSet<String> {
    let code: String = sql.lines().map(|line| line.split("--").next().unwrap().to_owned() + "\n").collect();
    let mut tables = BTreeSet::new();
    for statement in code.split(';') {
        match tokens(statement)[..] {
            ["create", "table", _, "partition", ..] => {}
            ["create", "table", name, ..] | ["create", "unlogged", "table", name, ..] => {
                tables.insert(name.to_owned());
            }
            ["drop", "table", name] => assert!(tables.remove(name), "{name} is dropped and was not there"),
            ["alter", "table", name, "rename", "to", new] => {
                assert!(tables.remove(name), "{name} is renamed and was not there");
                tables.insert(new.to_owned());
            }
            _ => {}
        }
    }
    tables
}

/// Returns whether the place covers the file, both from `svc-core/src`.
fn covers(place: &str, file: &str) -> bool {
    Path::new(&file).with_extension("").starts_with(place)
}

/// Returns the violations of each file: tables that it may not name, and entries that are no longer needed.
fn findings(named: &BTreeMap<String, BTreeSet<String>>, tables: &[(&str, &str, &[&str])]) -> Vec<String> {
    let mut findings = Vec::new();
    for (table, owner, others) in tables {
        let files: Vec<&String> =
            named.iter().filter(|(_, tables)| tables.contains(*table)).map(|(file, _)| file).collect();
        let places = || others.iter().chain([owner]);
        let strangers = files.iter().filter(|file| !places().any(|place| covers(place, file)));
        findings.extend(strangers.map(|file| format!("{file} names {table}, which {owner} owns")));
        let idle = places().filter(|place| !files.iter().any(|file| covers(place, file)));
        findings
            .extend(idle.map(|place| format!("{place} no longer names {table}: remove it from the list")));
    }
    findings
}

/// A statement two layers away breaks at run time when the author of a column's change does not know of it.
#[test]
fn a_table_is_named_only_by_its_owner_and_the_listed_places() {
    let listed: BTreeSet<String> = TABLES.iter().map(|(table, ..)| (*table).to_owned()).collect();
    let sqlite = migrated("sqlite");
    let postgres = migrated("postgres");
    assert_eq!(sqlite, postgres, "both engines have the same tables");
    assert_eq!(listed, sqlite, "each table has an owner");
    let mut named = BTreeMap::new();
    for source in sources() {
        let Some(file) = source.path.strip_prefix("svc-core/src/") else { continue };
        let literals = source.literals.iter().filter(|literal| !literal.in_tests);
        let tables = literals.flat_map(|literal| named_in(&literal.text)).collect();
        named.insert(file.to_owned(), tables);
    }
    none(findings(&named, TABLES));
}

#[test]
fn an_unlisted_use_and_an_idle_exception_are_found() {
    let names = |sql: &str| {
        let is_table = |name: &String| TABLES.iter().any(|(table, ..)| table == name);
        named_in(sql).into_iter().filter(is_table).collect::<Vec<_>>()
    };
    for (sql, tables) in [
        (" from threads t\n join channels c on c.id = t.channel_id", vec!["channels", "threads"]),
        ("select 1 from heads as h, events e, audit where", vec!["audit", "events", "heads"]),
        ("insert into ready (lsn) select lsn from heads", vec!["heads", "ready"]),
        ("update tokens set label = $1, revoked_at = $2", vec!["tokens"]),
        ("lock table only shelves in share mode", vec!["shelves"]),
        ("delete from ready r using threads t where t.id = r.thread_id", vec!["ready", "threads"]),
        ("update or ignore threads set blocked = false", vec!["threads"]),
        ("select 1 from heads h, (select 1) x, tokens t", vec!["heads", "tokens"]),
        ("select 1 from unnest($1) as w (id), threads t", vec!["threads"]),
        ("SELECT 1 FROM main.tokens", vec!["tokens"]),
        ("lock table heads, events in share mode", vec!["events", "heads"]),
        ("truncate tokens", vec!["tokens"]),
        ("the events of threads", vec![]),
    ] {
        assert_eq!(names(sql), tables, "{sql}");
    }
    let left = after_statements(
        "create table a (n); -- create table d (n);\ncreate table b as select 1;
         create table a_0 partition of a; drop table b; alter table a rename to c;",
    );
    assert_eq!(left, BTreeSet::from(["c".to_owned()]));
    let named = |file: &str, sql: &str| (file.to_owned(), names(sql).into_iter().collect());
    let named = BTreeMap::from([
        named("identity/tokens/mint.rs", "insert into tokens"),
        named("identity/tokens_of.rs", "from tokens"),
        named("op/call.rs", "from members"),
    ]);
    assert_eq!(findings(&named, &[("tokens", "identity/tokens", &["identity/tokens_of"])]), [""; 0]);
    assert_eq!(
        findings(&named, &[("tokens", "identity/tokens", &["op/call"])]),
        [
            "identity/tokens_of.rs names tokens, which identity/tokens owns",
            "op/call no longer names tokens: remove it from the list",
        ]
    );
}
