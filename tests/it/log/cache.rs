//! Caches of connections, and the events that invalidate them.
//!
//! A change of a row from which data is cached emits an event whose kind invalidates it. Nothing else
//! invalidates, so that no request can make connections read everything again. Both are tested from two
//! sides: by the effects of operations, and by the statements in the source.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceWrite;
use svc_core::id::ChannelId;
use svc_core::op::{Feature, Operation, Write, write};
use svc_core::{CachedEntryKind, Engine, Result};
use svc_tests::database::engines;
use svc_tests::site::done;
use svc_tests::{Setup, World, on_both_engines, text};

use crate::house::rules::{none, sources};

/// Tables whose rows are cached, the kind of invalidation, and whether the absence of a row is cached too.
///
/// If it is, adding a row is a change like any other. Of threads only the channel is cached, which never
/// changes.
const CACHED: &[(&str, CachedEntryKind, bool)] = &[
    ("tokens", CachedEntryKind::Access, false),
    ("members", CachedEntryKind::Access, false),
    ("channels", CachedEntryKind::Access, false),
    ("channel_members", CachedEntryKind::Access, false),
    ("member_skills", CachedEntryKind::Rules, true),
    // Not invalidated: rows are added and never changed.
    ("skill_sets", CachedEntryKind::Rules, false),
];

/// Every statement that changes such a row, by its file and its beginning, and the kinds of its events.
const CHANGES: &[(&str, &str, &[&str])] = &[
    ("identity/tokens/revoke.rs", "update tokens set revoked_at", &["TokenRevoked"]),
    ("identity/tokens/rotate.rs", "update tokens set secret_hash", &["TokenRotated"]),
    ("identity/members/skills.rs", "insert into member_skills", &["MemberSkillsChanged"]),
    ("identity/members/skills.rs", "delete from member_skills", &["MemberSkillsChanged"]),
    ("identity/members/governance.rs", "insert into member_skills", &["GovernanceSkillConferred"]),
    ("identity/members/governance.rs", "delete from member_skills", &["GovernanceSkillRevoked"]),
    ("identity/members/profile.rs", "update members set display_name", &["MemberUpdated"]),
    ("identity/members/frozen.rs", "update members set frozen_at = $2", &["MemberFrozen"]),
    ("identity/members/frozen.rs", "update members set frozen_at = null", &["MemberUnfrozen"]),
    ("identity/members/people.rs", "update members set handle = $2, external_id", &["MemberUpdated"]),
    ("identity/members/people.rs", "update members set deactivated_at = $2", &["MemberDeactivated"]),
    ("identity/members/people.rs", "update members set deactivated_at = null", &["MemberReactivated"]),
    ("identity/members/people.rs", "update members set handle = $2, display_name", &["MemberRemoved"]),
    ("conversation/channels/change.rs", "update channels set name", &["ChannelUpdated"]),
    (
        "conversation/channels/change.rs",
        "update channels set archived_at",
        &["ChannelArchived", "ChannelUnarchived"],
    ),
    ("conversation/channels/members.rs", "delete from channel_members", &["ChannelMemberRemoved"]),
];

/// Returns the cached kind of data that a statement changes.
fn changes_cached(statement: &str) -> Option<CachedEntryKind> {
    let begins = |prefix: &str, table: &str| {
        statement.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(table)).is_some_and(|rest| {
            rest.starts_with(|c: char| !c.is_alphanumeric() && c != '_') || rest.is_empty()
        })
    };
    let changes = |(table, _, absence): &&(&str, CachedEntryKind, bool)| {
        begins("update ", table)
            || begins("delete from ", table)
            || (*absence && begins("insert into ", table))
    };
    CACHED.iter().find(changes).map(|(_, cached, _)| *cached)
}

#[test]
fn every_statement_that_changes_cached_rows_has_its_event() {
    let table = svc_core::operation_table().unwrap();
    let invalidated: BTreeMap<&str, Option<CachedEntryKind>> =
        table.events().map(|event| (event.kind, event.invalidated())).collect();
    let mut findings = Vec::new();
    let mut found = BTreeSet::new();
    for source in sources() {
        let Some(file) = source.path.strip_prefix("svc-core/src/") else { continue };
        for literal in source.literals.iter().filter(|literal| !literal.in_tests) {
            let statement = literal.text.split_whitespace().collect::<Vec<_>>().join(" ");
            let Some(cached) = changes_cached(&statement) else { continue };
            let known = CHANGES
                .iter()
                .position(|(where_, begins, _)| *where_ == file && statement.starts_with(begins));
            let Some(at) = known else {
                findings.push(format!("{file}:{}: {statement}: which event invalidates it?", literal.line));
                continue;
            };
            found.insert(at);
            let silent = CHANGES[at].2.iter().filter(|kind| invalidated[**kind] != Some(cached));
            findings.extend(silent.map(|kind| format!("{file}: {kind} does not invalidate {cached:?}")));
        }
    }
    let gone = CHANGES.iter().enumerate().filter(|(at, _)| !found.contains(at));
    findings.extend(gone.map(|(_, change)| format!("{change:?} is no longer there")));
    none(findings);
}

#[test]
fn statements_are_classified() {
    assert_eq!(changes_cached("update tokens set label = $2"), Some(CachedEntryKind::Access));
    assert_eq!(changes_cached("delete from member_skills where skill = $1"), Some(CachedEntryKind::Rules));
    assert_eq!(
        changes_cached("insert into member_skills (member_id) values ($1)"),
        Some(CachedEntryKind::Rules)
    );
    for harmless in
        ["insert into tokens (id) values ($1)", "update tokens_of set a = 1", "select 1 from tokens"]
    {
        assert_eq!(changes_cached(harmless), None, "{harmless}");
    }
}

/// Returns the sums of the epochs of all workspaces.
fn epochs(world: &World) -> (i64, i64) {
    let sum =
        |column: &str| world.database.number(&format!("select cast(sum({column}) as bigint) from heads"));
    (sum("epoch"), sum("rules_epoch"))
}

fn rows(world: &World) -> BTreeMap<&'static str, BTreeSet<String>> {
    let rows_of = |table: &str| {
        let rows = world.database.rows(&format!("select * from {table}"));
        rows.into_iter().map(|row| Value::from(row).to_string()).collect()
    };
    CACHED.iter().map(|(table, _, _)| (*table, rows_of(table))).collect()
}

/// Returns the tables whose cached rows the admin's call changed without an event, or `None` if the call is
/// rejected.
fn silent_changes(world: &World, operation: &Operation, input: &Value) -> Option<Vec<&'static str>> {
    let before = rows(world);
    let was = epochs(world);
    if !world.call(&world.people.admin, operation.name(), input.clone()).is_success() {
        return None;
    }
    let after = rows(world);
    let is = epochs(world);
    let silent = CACHED.iter().filter(|(table, cached, absence)| {
        let removed = before[table].difference(&after[table]).next().is_some();
        let added = after[table].difference(&before[table]).next().is_some();
        let invalidated = match cached {
            CachedEntryKind::Access => is.0 > was.0,
            CachedEntryKind::Rules => is.1 > was.1,
        };
        (removed || (*absence && added)) && !invalidated
    });
    Some(silent.map(|(table, _, _)| *table).collect())
}

#[test]
fn no_example_changes_cached_rows_without_an_event() {
    for engine in engines() {
        let mut world = World::open(engine);
        let names: Vec<&str> = world.service.table().operations().map(Operation::name).collect();
        let mut tried = 0;
        for name in names {
            if world.operation(name).effect().is_read_only() {
                continue;
            }
            let Some(input) = world.operation(name).docs().example(&world.fixture) else { continue };
            let silent = silent_changes(&world, world.operation(name), &input).unwrap_or_else(|| {
                // An earlier example has used up the object of this one.
                world = World::open(engine);
                silent_changes(&world, world.operation(name), &input)
                    .expect("an example succeeds in a new world")
            });
            assert!(
                silent.is_empty(),
                "{name} changes rows of {silent:?} and emits no event that invalidates them"
            );
            tried += 1;
        }
        assert!(tried > 20, "only {tried} examples");
    }
}

/// Renames a channel and emits nothing.
#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameSilently {
    /// The channel.
    channel_id: ChannelId,
}

svc_core::without_requests! { RenameSilently }

svc_tests::keeps_nothing!(RenameSilently => Value);

fn rename_silently(cx: &mut Write<'_>, input: &RenameSilently) -> Result<Value> {
    cx.execute(1, "update channels set name = 'hush' where id = $1", &[&input.channel_id])?;
    Ok(json!({}))
}

fn silent_feature() -> Vec<Feature> {
    let operation = write("rename_silently", rename_silently)
        .title("Rename a channel silently")
        .post("/channels/{channel_id}/hush")
        .needs(&[WorkspaceWrite])
        .example(|w| json!({"channel_id": w.id("channel")}));
    vec![Feature::new().operations("hush", vec![operation])]
}

#[test]
fn a_change_without_an_event_is_found() {
    let world = World::with(Engine::Sqlite, Setup { features: silent_feature, ..Setup::default() });
    let input = json!({"channel_id": world.id("channel")});
    assert_eq!(silent_changes(&world, world.operation("rename_silently"), &input), Some(vec!["channels"]));
}

#[test]
fn a_change_that_only_adds_rights_invalidates_nothing() {
    on_both_engines(|world| {
        let before = epochs(world);
        world.new_token(vec!["workspace:read"]);
        world.new_agent("newcomer");
        world.agent("attenuate_token", json!({"capabilities": ["workspace:read"]}));
        let channel = world.new_channel("more");
        let member = json!({"channel_id": channel, "member_id": world.id("agent")});
        world.admin("add_channel_member", member);
        for skills in [["new"], ["newer"]] {
            let thread = json!({"channel_id": channel, "title": "t", "required_skills": skills});
            world.admin("create_thread", thread);
        }
        assert_eq!(epochs(world), before);
        world.agent("set_skills", json!({"skills": ["new"]}));
        assert_eq!(epochs(world), (before.0, before.1 + 1), "skills do not affect access");
    });
}

#[test]
fn a_new_skill_set_is_seen_although_others_are_cached() {
    on_both_engines(|world| {
        let workspace = json!({"workspace_id": world.id("workspace")});
        let skills: Vec<String> = (0..5).map(|n| format!("skill-{n}")).collect();
        world.agent("set_skills", json!({"skills": skills}));
        let agent = &world.people.agent;
        let elsewhere = world.another_service(7);
        let channel = world.new_channel("apart");
        while world.agent("claim_next_workspace_thread", workspace.clone()) != json!({}) {}
        for count in 1..=5 {
            let input = json!({"channel_id": channel, "title": "t", "required_skills": skills[..count]});
            let made = done(&elsewhere, &world.people.admin, "create_thread", input.clone());
            let ready = json!({"workspace_id": world.id("workspace"), "timeout_secs": 1});
            assert_eq!(world.agent("wait_for_ready", ready)["thread_id"], made["id"]);
            let claimed = world.agent("claim_next_workspace_thread", workspace.clone());
            assert_eq!(claimed["id"], made["id"], "the set of {count}");
            assert_eq!(done(&elsewhere, agent, "claim_next_workspace_thread", workspace.clone()), json!({}));
        }
        world.agent("set_skills", json!({"skills": []}));
        let input = json!({"channel_id": channel, "title": "t", "required_skills": [skills[0]]});
        done(&elsewhere, &world.people.admin, "create_thread", input.clone());
        assert_eq!(done(&elsewhere, agent, "claim_next_workspace_thread", workspace.clone()), json!({}));
        assert_eq!(world.agent("claim_next_workspace_thread", workspace.clone()), json!({}));
    });
}

#[test]
fn the_largest_set_of_skills_is_a_set_like_any_other() {
    on_both_engines(|world| {
        let skills: Vec<String> = (0..64).map(|n| format!("{n:02}{}", "x".repeat(62))).collect();
        let channel = world.new_channel("specialists");
        let input = json!({"channel_id": channel, "title": "t", "required_skills": skills});
        let sets = "select count(*) from skill_sets";
        let before = world.database.number(sets);
        world.admin("create_thread", input.clone());
        world.admin("create_thread", input);
        assert_eq!(world.database.number(sets), before + 1);
    });
}

#[test]
fn the_number_of_skill_sets_of_a_workspace_is_limited() {
    on_both_engines(|world| {
        let workspace = world.database.id(world.id("workspace"));
        let numbers = "with recursive n (n) as (select 1 union all select n + 1 from n where n < 5000)";
        let hash = match world.engine() {
            Engine::Sqlite => "cast('h' || n as blob)",
            Engine::Postgres => "sha256(convert_to('made-' || n, 'UTF8'))",
        };
        world.database.execute(&format!(
            "insert into skill_sets (workspace_id, id, skills, hash) {numbers}
             select {workspace}, n + 100, 'made-' || n, {hash} from n limit
                 5000 - (select count(*) from skill_sets where workspace_id = {workspace})"
        ));
        let channel = world.id("channel");
        let thread = |skills: Value| json!({"channel_id": channel, "title": "t", "required_skills": skills});
        let refused = world.call(&world.people.admin, "create_thread", thread(json!(["one-more"])));
        let refused = refused.refused(409, "wrong-state");
        assert!(text(&refused["detail"]).contains("5000 different sets"), "{refused}");
        world.admin("create_thread", thread(json!(["made-7"])));
        world.admin("create_thread", thread(json!([])));
    });
}
