//! Filling a workspace: each row of a sample becomes thousands of copies that differ only in one column of
//! its key.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::{FOOTPRINT_ITEMS_MAX, VOTE_OPTIONS_MAX};
use svc_tests::World;
use svc_tests::database::TestDatabase;

use super::limits::{FEWER, NOT_FILLED};

/// Copies per row, unless the service allows fewer.
const MANY: i64 = 11_000;
/// Open threads with a different footprint each, and claimed ones.
const WAITING: i64 = 700;
const CLAIMED: i64 = 100;

/// Slots without a capacity.
const UNLIMITED: i64 = 690;

/// Rows of samples may take the place of some copies.
const IN_THE_WAY: i64 = 100;

/// Returns names of slots.
fn named(name: &str, count: i64) -> impl Iterator<Item = String> {
    (1..=count).map(move |number| format!("{name}-{number}"))
}

/// Columns whose values are names defined by the service.
const WORDS: [&str; 4] = ["kind", "state", "space", "mode"];

/// A table: its columns with their types, and the columns of its unique keys, the primary one first.
#[derive(Debug, Default)]
struct Table {
    columns: Vec<(String, String)>,
    keys: BTreeMap<String, Vec<String>>,
}

fn tables(database: &TestDatabase) -> BTreeMap<String, Table> {
    let (columns, keys) = match database.engine() {
        Engine::Sqlite => (
            "select t.name, c.name, c.type from sqlite_master t, pragma_table_info(t.name) c
             where t.type = 'table' and t.name not like 'sqlite_%' order by t.name, c.cid",
            "select t.name, (case i.origin when 'pk' then '0' else '1' end) || i.name, x.name
             from sqlite_master t, pragma_index_list(t.name) i, pragma_index_info(i.name) x
             where t.type = 'table' and i.\"unique\" = 1 order by 1, 2, x.seqno",
        ),
        Engine::Postgres => (
            "select r.relname::text, a.attname::text, format_type(a.atttypid, null)
             from pg_class r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
             where r.relkind in ('r', 'p') and not r.relispartition
             and r.relnamespace = 'public'::regnamespace order by r.relname, a.attnum",
            "select r.relname::text,
                 (case when i.indisprimary then '0' else '1' end) || i.indexrelid::text, a.attname::text
             from pg_index i join pg_class r on r.oid = i.indrelid
             cross join lateral unnest(i.indkey) with ordinality k (att, ord)
             join pg_attribute a on a.attrelid = r.oid and a.attnum = k.att
             where i.indisunique and r.relkind in ('r', 'p') and not r.relispartition
             and r.relnamespace = 'public'::regnamespace order by 1, 2, k.ord",
        ),
    };
    let texts = |row: Vec<Value>| [0, 1, 2].map(|at| row[at].as_str().unwrap().to_lowercase());
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for [table, column, kind] in database.rows(columns).into_iter().map(texts) {
        tables.entry(table).or_default().columns.push((column, kind));
    }
    for [table, key, column] in database.rows(keys).into_iter().map(texts) {
        tables.entry(table).or_default().keys.entry(key).or_default().push(column);
    }
    tables
}

/// Returns the table that a column refers to by the name of most such columns.
fn referred<'t>(table: &'t str, column: &'t str) -> &'t str {
    match column {
        "id" => table,
        "member_id" | "author_id" | "holder_id" | "subject_id" | "delegate_id" => "members",
        "channel_id" => "channels",
        "thread_id" | "depends_on_id" => "threads",
        "message_id" => "messages",
        "token_id" => "tokens",
        "vote_id" => "votes",
        "review_id" => "reviews",
        "from_id" | "to_id" if table == "relations" => "messages",
        "target_id" if ["follows", "mutes"].contains(&table) => "threads",
        "block_id" => "memory_blocks",
        other => other,
    }
}

struct Filler<'w> {
    world: &'w World,
    head: i64,
}

impl Filler<'_> {
    /// Returns SQL for the value of a column in the copy `number` of the row `s`.
    fn varied(&self, table: &str, column: &str, kind: &str, number: &str) -> String {
        let is_hash = ["hash", "digest", "secret"].iter().any(|word| column.contains(word));
        match kind {
            "bigint" if column == "lsn" => format!("{} + n.i", self.head),
            "bigint" => format!("s.{column} + {number}"),
            "text" => format!("s.{column} || '-' || {number}"),
            "blob" if is_hash => "randomblob(32)".to_owned(),
            "bytea" => "sha256(convert_to(random()::text, 'utf8'))".to_owned(),
            "blob" | "uuid" => self.id(referred(table, column), number),
            _ => format!("s.{column}"),
        }
    }

    /// Returns SQL for the id of the copy `number` of a row.
    fn id(&self, table: &str, number: &str) -> String {
        let tag: String = table.bytes().cycle().take(12).map(|byte| format!("{byte:02x}")).collect();
        match self.world.engine() {
            Engine::Sqlite => format!("unhex('{tag}' || printf('%08x', {number}))"),
            Engine::Postgres => format!("cast('{tag}' || lpad(to_hex({number}), 8, '0') as uuid)"),
        }
    }

    /// Copies a row of a table that has as many samples as possible, once for each column of its key and for
    /// each other one that the service limits. Returns the columns whose copies are missing.
    fn fill(&self, name: &str, table: &Table) -> Vec<String> {
        let Some(primary) = table.keys.values().next() else { return Vec::new() };
        let kind = |column: &str| &*table.columns.iter().find(|(name, _)| name == column).unwrap().1;
        let is_free = |column: &str| kind(column) != "boolean" && !WORDS.contains(&column);
        let of_key = primary.iter().map(String::as_str);
        let of_key = of_key.filter(|column| *column != "workspace_id" && is_free(column));
        let others = FEWER.iter().filter(|(of, by, _)| *of == name && *by != "*").map(|(_, by, _)| *by);
        let others: Vec<&str> = others.filter(|by| primary.iter().all(|column| column != by)).collect();
        let mut missing = Vec::new();
        let mut copies = 0;
        for column in of_key.chain(others) {
            let fewer = FEWER.iter().find(|(of, by, _)| *of == name && (*by == "*" || *by == column));
            let count = fewer.map_or(MANY, |(.., count)| *count);
            let mut varied = BTreeSet::from([column]);
            for key in table.keys.values() {
                if !key.iter().any(|column| varied.contains(column.as_str())) {
                    let mut free: Vec<&str> =
                        key.iter().map(String::as_str).filter(|it| is_free(it)).collect();
                    free.sort_by_key(|column| primary.iter().all(|of_key| of_key != column));
                    varied.extend(free.last());
                }
            }
            varied.extend(table.columns.iter().map(|(name, _)| name.as_str()).filter(|name| *name == "lsn"));
            let before = self.rows(name);
            self.copy(name, table, (column, &varied), (count, copies));
            let copied = self.rows(name) - before;
            if copied < count - before.min(IN_THE_WAY) {
                missing.push(format!("{name}: {copied} rows of {count} by {column}"));
            }
            copies += count;
        }
        missing
    }

    fn rows(&self, table: &str) -> i64 {
        self.world.database.number(&format!("select count(*) from {table}"))
    }

    /// Inserts `count` rows that differ in a column, and otherwise only where they must differ from the
    /// `copies` that exist.
    fn copy(
        &self,
        name: &str,
        table: &Table,
        (by, varied): (&str, &BTreeSet<&str>),
        (count, copies): (i64, i64),
    ) {
        if count == 0 {
            return;
        }
        let samples: Vec<String> = self.samples();
        let ids = table.columns.iter().filter(|(column, kind)| {
            (kind == "blob" && (column == "id" || column.ends_with("_id"))) || kind == "uuid"
        });
        let score: String = ids
            .map(|(column, _)| {
                format!(" + (case when {column} in ({}) then 1 else 0 end)", samples.join(", "))
            })
            .collect();
        // Of equal rows the oldest, so that each run copies the same row.
        let has_lsn = table.columns.iter().any(|(column, _)| column == "lsn");
        let key = table.keys.values().next().into_iter().flatten().map(String::as_str);
        let order: String =
            has_lsn.then_some("lsn").into_iter().chain(key).map(|by| format!(", {by}")).collect();
        let columns: Vec<&str> = table.columns.iter().map(|(column, _)| column.as_str()).collect();
        let other = format!("(n.i + {copies})");
        let values: Vec<String> = table
            .columns
            .iter()
            .map(|(column, kind)| match (name, column.as_str()) {
                // The text of a copy has no key.
                ("messages", "withdrawn_at") => "s.posted_at".to_owned(),
                (_, column) if column == by => self.varied(name, column, kind, "n.i"),
                (_, column) if varied.contains(column) => self.varied(name, column, kind, &other),
                (_, column) => format!("s.{column}"),
            })
            .collect();
        self.world.database.insert_many(
            count,
            &format!(
                "insert into {name} ({}) select {} from
                     (select * from {name} order by 0{score} desc{order} limit 1) s cross join n
                 where true on conflict do nothing",
                columns.join(", "),
                values.join(", ")
            ),
        );
    }

    fn samples(&self) -> Vec<String> {
        let names = self.world.service.table().samples().iter().map(|sample| sample.name());
        let all = names.chain(["workspace", "admin", "agent"]);
        all.filter_map(|name| self.world.fixture.get(name)).map(|id| self.world.database.id(id)).collect()
    }

    /// Adds ballots of many members for the maximum number of options of a vote, and their counts.
    fn ballots(&self) {
        let vote = self.world.database.id(self.world.id("vote"));
        let is_multiple = if self.world.engine() == Engine::Sqlite { "1" } else { "true" };
        self.world.database.execute(&format!(
            "update votes set options = {VOTE_OPTIONS_MAX}, multiple = {is_multiple} where id = {vote}"
        ));
        let member = self.id("members", &format!("((n.i - 1) / {VOTE_OPTIONS_MAX} + 1)"));
        self.world.database.insert_many(
            4 * MANY,
            &format!(
                "insert into ballots (vote_id, choice, member_id, lsn)
                 select {vote}, n.i % {VOTE_OPTIONS_MAX}, {member}, {} + n.i from n
                 where true on conflict do nothing",
                self.head
            ),
        );
        self.world.database.execute("delete from ballot_counts");
        self.world.database.insert_many(
            1,
            "insert into ballot_counts (vote_id, choice, total)
             select vote_id, choice, count(*) from ballots group by vote_id, choice
             union all select vote_id, -1, count(distinct member_id) from ballots group by vote_id",
        );
    }

    /// Adds live claims, each of which uses one common slot and a few others, with and without a capacity.
    fn slots(&self) {
        let database = &self.world.database;
        let workspace = database.id(self.world.id("workspace"));
        let thread = database.id(self.world.id("thread"));
        let agent = database.id(self.world.id("agent"));
        let until = self.world.clock.now().micros() + 600_000_000;
        let id = self.id("slot threads", "n.i");
        let copied = "workspace_id, channel_id, depth, title, priority, skill_set, blocked, has_result,
            worked_micros, created_at";
        database.insert_many(
            MANY,
            &format!(
                "insert into threads (id, state, lsn, assignee_id, assignment_expires_at, claim_lease_id,
                     {copied})
                 select {id}, 'open', -200000 + n.i, {agent}, {until}, {agent}, {copied}
                 from threads cross join n where id = {thread}"
            ),
        );
        let exclusive = if self.world.engine() == Engine::Sqlite { "1" } else { "true" };
        let limited = self.slot_values(std::iter::once("browser".to_owned()).chain(named("browser", 990)));
        database.execute(&format!(
            "update slots set obstacle = v.column2 from (values {limited}) v where slot_key = v.column1"
        ));
        database.execute("update slots set capacity = 10000 where slot_key like 'browser-%'");
        let unlimited = self.slot_values(named("free", UNLIMITED));
        let of_claim = ["'browser'", "'browser-' || (n.i % 990 + 1)", "'browser-' || (n.i * 7 % 990 + 1)"];
        let unlimited_of_claim = ["'free-1'", "'free-' || (n.i % 690 + 1)", "'free-' || (n.i * 7 % 690 + 1)"];
        for (values, keys) in [(limited, of_claim), (unlimited, unlimited_of_claim)] {
            for key in keys {
                database.insert_many(
                    MANY,
                    &format!(
                        "insert into live_items (
                             workspace_id, repo_key, space, prefix, exclusive, obstacle, thread_id)
                         select {workspace}, '', 'slot', v.column1, {exclusive}, v.column2, {id}
                         from n join (values {values}) v on v.column1 = {key}
                         where true on conflict do nothing"
                    ),
                );
            }
        }
        database.execute(
            "delete from slot_uses;
             insert into slot_uses (workspace_id, obstacle, uses)
             select workspace_id, obstacle, count(*) from live_items where space = 'slot'
             group by workspace_id, obstacle",
        );
    }

    /// Returns slots and the obstacles that they are, as a list in SQL.
    fn slot_values(&self, slots: impl Iterator<Item = String>) -> String {
        let workspace = self.world.id("workspace");
        let rows: Vec<String> = slots
            .map(|slot| {
                let mut text = workspace.as_bytes().to_vec();
                text.extend_from_slice(format!("\n\nslot\n{slot}").as_bytes());
                let obstacle = uuid::Uuid::from_slice(&svc_core::hash::sha256(&text)[..16]).unwrap();
                format!("('{slot}', {})", self.world.database.id(obstacle))
            })
            .collect();
        rows.join(", ")
    }

    /// Adds threads that wait with long footprints, and claims with long footprints, many of which conflict
    /// with them.
    fn footprints(&self) {
        let database = &self.world.database;
        let workspace = self.world.database.id(self.world.id("workspace"));
        let rows: Vec<String> = (1..=WAITING + CLAIMED)
            .map(|number| {
                let items: Vec<Value> = (0..FOOTPRINT_ITEMS_MAX)
                    .map(
                        |item| json!({"kind": "path", "value": format!("d{}/f{item}/n{number}", number % 7)}),
                    )
                    .collect();
                let items = Value::from(items).to_string();
                let digest = database.bytes(&number.to_be_bytes());
                format!(
                    "({workspace}, {}, {digest}, 'acme/app', 'acme/app', 'exclusive', '{items}')",
                    100_000 + number
                )
            })
            .collect();
        database.execute(&format!(
            "insert into footprints (workspace_id, id, digest, repo, repo_key, mode, items) values {}",
            rows.join(", ")
        ));
        let [waiting, held] = [("0", WAITING), ("50000", CLAIMED)].map(|(from, count)| {
            let id = self.id("footprint threads", &format!("n.i + {from}"));
            (id, from, count)
        });
        let agent = database.id(self.world.id("agent"));
        let thread = database.id(self.world.id("thread"));
        let until = self.world.clock.now().micros() + 600_000_000;
        let copied = "workspace_id, channel_id, depth, title, priority, skill_set, blocked, has_result,
            worked_micros, created_at";
        for ((id, from, count), claim) in
            [(waiting, "null, null, null".to_owned()), (held, format!("{agent}, {until}, {agent}"))]
        {
            database.insert_many(
                count,
                &format!(
                    "insert into threads (id, state, lsn, footprint, assignee_id, assignment_expires_at,
                         claim_lease_id, {copied})
                     select {id}, 'open', -100000 + {from} + n.i, 100000 + n.i + {}, {claim}, {copied}
                     from threads cross join n where id = {thread}",
                    if from == "0" { 0 } else { WAITING }
                ),
            );
        }
        let id = self.id("footprint threads", "(n.i - 1) / 100 + 50001");
        let number = format!("((n.i - 1) / 100 + 1 + {WAITING})");
        database.insert_many(
            CLAIMED * 100,
            &format!(
                "insert into live_items (
                     workspace_id, repo_key, space, prefix, exclusive, obstacle, thread_id)
                 select {workspace}, 'acme/app', 'path',
                     'd' || ({number} % 7) || '/f' || ((n.i - 1) % 100) || '/n' || (n.i % 3), {},
                     {}, {id} from n where true",
                if self.world.engine() == Engine::Sqlite { "1" } else { "true" },
                self.id("obstacles", "n.i"),
            ),
        );
    }
}

/// Adds one row of each table that has no sample.
fn seed(world: &World) {
    for operation in ["set_channel_boot", "send_heartbeat", "set_notification_preferences"] {
        let input = world.operation(operation).docs().example(&world.fixture).unwrap();
        world.admin(operation, input);
    }
    let mut usage = world.operation("report_usage").docs().example(&world.fixture).unwrap();
    usage["report_id"] = json!("filled");
    world.admin("report_usage", usage);
    let id = |name: &str| world.database.id(world.id(name));
    let [workspace, admin, channel, thread] = ["workspace", "admin", "channel", "thread"].map(id);
    let [claimed, token, message] = ["claimed_thread", "agent_token", "message"].map(id);
    let now = world.clock.now().micros();
    let hash = world.database.bytes(&[7; 32]);
    let later = now + 3_600_000_000;
    for (columns, values) in [
        (
            "claim_checkpoints (thread_id, member_id, at, lsn, checkpoint)",
            format!("{claimed}, {admin}, {now}, 1, '{{}}'"),
        ),
        (
            "consumers (workspace_id, member_id, consumer_id, after_id, holder, seen_at)",
            format!("{workspace}, {admin}, 'a', 0, {admin}, {now}"),
        ),
        ("delivery_codes (id, charged_to, member_id, at)", format!("{thread}, {workspace}, {admin}, {now}")),
        (
            "inbox (workspace_id, member_id, lsn, reasons, channel_id, thread_id, message_id, at)",
            format!("{workspace}, {admin}, 1, 1, {channel}, {thread}, {message}, {now}"),
        ),
        (
            "idempotency_keys (key_hash, member_id, request_hash, status, answer, lsn, until)",
            format!("{hash}, {admin}, {hash}, 201, '1', 1, {later}"),
        ),
        ("inbox_rules (member_id, reason, mail, push)", format!("{admin}, 1, true, true")),
        (
            "kind_counts (workspace_id, channel_id, kind, n)",
            format!("{workspace}, {channel}, 'MessagePosted', 1"),
        ),
        ("mutes (member_id, target_id)", format!("{admin}, {thread}")),
        (
            "oidc_identities (workspace_id, issuer, subject, member_id, linked_at)",
            format!("{workspace}, 'https://login.example', 'a', {admin}, {now}"),
        ),
        ("resource_subscriptions (token_id, uri, until)", format!("{token}, 'svc://threads/a', {later}")),
        (
            "sessions (id, workspace_id, member_id, secret_hash, created_at, expires_at)",
            format!("{thread}, {workspace}, {admin}, {hash}, {now}, {later}"),
        ),
    ] {
        let seed = format!("insert into {columns} select {values} from n where true on conflict do nothing");
        world.database.insert_many(1, &seed);
    }
}

/// Fills the workspace of a world.
pub fn fill(world: &World) {
    seed(world);
    let filler = Filler { world, head: world.lsn() };
    let tables = tables(&world.database);
    let not_filled = |name: &str| NOT_FILLED.iter().any(|(table, _)| *table == name);
    let mut missing = Vec::new();
    for (name, table) in tables.iter().filter(|(name, _)| !not_filled(name)) {
        missing.extend(filler.fill(name, table));
    }
    filler.footprints();
    filler.slots();
    filler.ballots();
    let unknown = FEWER.iter().map(|(table, ..)| *table).chain(NOT_FILLED.iter().map(|(table, _)| *table));
    missing
        .extend(unknown.filter(|table| !tables.contains_key(*table)).map(|table| format!("{table} is none")));
    let of_another = FEWER.iter().filter(|(_, _, count)| *count == 0).map(|(table, ..)| *table);
    missing
        .extend(of_another.filter(|table| filler.rows(table) == 0).map(|table| format!("{table} is empty")));
    assert!(missing.is_empty(), "{}:\n{}", world.engine().name(), missing.join("\n"));
    world.database.execute(
        "update messages set edits = (
             select max(e.edit) from message_edits e where e.message_id = messages.id)
         where id in (select message_id from message_edits)",
    );
    let workspace = world.database.id(world.id("workspace"));
    let last = filler.head + MANY;
    world.database.execute(&format!(
        "update heads set lsn = {last}, audit_seq = (
             select max(a.seq) from audit a where a.workspace_id = heads.workspace_id)
         where workspace_id = {workspace}"
    ));
    if world.engine() == Engine::Postgres {
        world.database.execute("vacuum analyze");
    }
}
