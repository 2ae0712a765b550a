//! The floors: code that writes the rows of a posted message without service, queue or protocol.
//!
//! Sealing, hashing, statements and settings are those of the core.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::Serialize;
use svc_core::chain::{Link, genesis};
use svc_core::entropy::Entropy;
use svc_core::hash::sha256;
use svc_core::id::{MemberId, MessageId};
use svc_core::key_tree::{Binding, KeyTree, LEAVES};
use svc_core::seal::{MessageKey, Sealer};
use svc_core::time::Time;
use svc_core::{Attribution, EventPayload, Subject};
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::Sample;
use super::stage::{Stage, body};

/// The event of a posted message, as the core writes it.
#[derive(Serialize, JsonSchema)]
struct MessagePosted {
    message_id: MessageId,
    author_id: Option<MemberId>,
    sealed: String,
}

impl EventPayload for MessagePosted {
    const KIND: &'static str = "MessagePosted";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

/// The parts of a post that are prepared before the database: id, key, ciphertext.
struct PreparedPost {
    id: MessageId,
    key: MessageKey,
    sealed: Vec<u8>,
    event: MessagePosted,
}

fn prepare(stage: &Stage, sealer: &Sealer, entropy: &Entropy, now: Time, number: usize) -> PreparedPost {
    let id: MessageId = entropy.id(now).expect("an id");
    let key = sealer.generate_message_key().expect("a key");
    let plaintext = format!("{{\"body\":\"{}\",\"metadata\":{{}}}}", body(number));
    let sealed = sealer.seal(&key, id, "words", 0, plaintext.as_bytes()).expect("a sealed body");
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &sealed);
    PreparedPost {
        id,
        key,
        sealed,
        event: MessagePosted { message_id: id, author_id: Some(stage.admin_id), sealed: text },
    }
}

/// The open key tree of the bare loop's current key segment, renewed with each segment as in the core.
struct SegmentTree {
    tree: KeyTree,
    entropy: Entropy,
}

impl SegmentTree {
    fn start(entropy: &Entropy) -> Self {
        Self { tree: KeyTree::grow(entropy).expect("a tree"), entropy: entropy.clone() }
    }

    fn wrap(&mut self, stage: &Stage, post: &PreparedPost, lsn: i64) -> Vec<u8> {
        if lsn % LEAVES == 0 {
            *self = Self::start(&self.entropy);
        }
        let bound = Binding {
            workspace_id: stage.workspace_id,
            thread_id: stage.thread_id,
            author_id: Some(stage.admin_id),
            message_id: post.id,
        };
        let leaf = self.tree.leaf(lsn).expect("a leaf");
        leaf.wrap(&bound, &post.key, &self.entropy).expect("a wrapped key")
    }
}

/// The end of the bare loop's own log.
///
/// The loop writes to its own workspace's copy of the rows, in its own file.
struct LogHead {
    lsn: i64,
    hash: [u8; 32],
    audit_seq: i64,
}

impl LogHead {
    fn start() -> Self {
        Self { lsn: 0, hash: genesis(), audit_seq: 0 }
    }

    fn append(&mut self, stage: &Stage, post: &PreparedPost, now: Time) -> ([u8; 32], String) {
        let prev = self.hash;
        let subject = Subject::thread(stage.channel_id, stage.thread_id).about(stage.admin_id);
        self.lsn += 1;
        let link = Link {
            workspace_id: stage.workspace_id,
            lsn: self.lsn,
            kind: MessagePosted::KIND,
            at: now,
            subject,
            prev_hash: prev,
        };
        let who =
            Attribution { actor_id: Some(stage.admin_id), subject_id: Some(stage.admin_id), grant_id: None };
        let payload = link.payload(&who, &post.event).expect("a payload");
        self.hash = sha256(payload.as_bytes());
        self.audit_seq += 1;
        (prev, payload)
    }
}

fn now() -> Time {
    svc_core::time::Clock::system().now()
}

fn audit_metadata(stage: &Stage) -> String {
    format!(
        "{{\"operation\":\"post_message\",\"path\":\"/threads/{}/messages\",\"status\":201,\
         \"surface\":\"rest\"}}",
        stage.thread_id
    )
}

const MESSAGE: &str = "insert into messages
        (id, workspace_id, channel_id, thread_id, author_id, posted_at, edits, sealed, lsn, wrapped)
    values ($1, $2, $3, $4, $5, $6, 0, $7, $8, $9)";
const EVENT: &str =
    "insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
    content_hash, payload) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const AUDIT: &str =
    "insert into audit (workspace_id, seq, at, action, actor_id, subject_id, grant_id, metadata)
    values ($1, $2, $3, $4, $5, $6, $7, $8)";
const HEAD: &str =
    "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch) values ($1, $2, $3, $4, $5, 0)
    on conflict (workspace_id) do update set lsn = excluded.lsn, hash = excluded.hash, at = excluded.at,
        audit_seq = excluded.audit_seq";

/// Measures the posts per second of one bare loop on SQLite, 64 per commit.
///
/// `file` is a copy of the service's file from when its log had no messages.
pub fn sqlite_posts(stage: &Stage, file: &Path, span: Duration) -> Sample {
    let conn = Connection::open(file).expect("the floor's file");
    conn.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 10000;
         pragma secure_delete = on; pragma foreign_keys = on; pragma mmap_size = 0;
             pragma temp_store = memory;
         pragma cache_size = -65536; delete from events; delete from audit;",
    )
    .expect("settings");
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).expect("a setting");
    let question = |sql: &str| sql.replace('$', "?");
    let [message, event, audit, head_sql] = [MESSAGE, EVENT, AUDIT, HEAD].map(question);
    let entropy = Entropy::System;
    let metadata = audit_metadata(stage);
    let sealer = Sealer::new([7; 32], &[], entropy.clone());
    let [workspace, channel, thread, author] = ids(stage).map(|id| id.as_bytes().to_vec());
    let mut head = LogHead::start();
    let mut shelf = SegmentTree::start(&entropy);
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < span {
        conn.execute_batch("begin immediate").expect("a transaction");
        for _ in 0..64 {
            number += 1;
            let at = now();
            let post = prepare(stage, &sealer, &entropy, at, number);
            let (prev, payload) = head.append(stage, &post, at);
            let wrapped = shelf.wrap(stage, &post, head.lsn);
            let id = post.id.uuid().as_bytes().to_vec();
            let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
                conn.prepare_cached(sql).expect("a statement").execute(values).expect("a row");
            };
            run(
                &message,
                params![id, workspace, channel, thread, author, at.micros(), post.sealed, head.lsn, wrapped],
            );
            run(
                &event,
                params![
                    workspace,
                    head.lsn,
                    MessagePosted::KIND,
                    at.micros(),
                    channel,
                    thread,
                    author,
                    prev,
                    head.hash,
                    payload
                ],
            );
            let nobody: Option<i64> = None;
            run(
                &audit,
                params![workspace, head.audit_seq, at.micros(), "mutation", author, author, nobody, metadata],
            );
        }
        let at = now().micros();
        let mut statement = conn.prepare_cached(&head_sql).expect("a statement");
        statement.execute(params![workspace, head.lsn, head.hash, at, head.audit_seq]).expect("a head");
        drop(statement);
        conn.execute_batch("commit").expect("a commit");
    }
    Sample { per_second: number as f64 / begun.elapsed().as_secs_f64(), ..Sample::default() }
}

fn ids(stage: &Stage) -> [Uuid; 4] {
    [stage.workspace_id.uuid(), stage.channel_id.uuid(), stage.thread_id.uuid(), stage.admin_id.uuid()]
}

/// Measures the posts per second on Postgres with one transaction per post, over 16 connections with prepared
/// statements.
pub fn postgres_posts(runtime: &Runtime, url: &str, stage: &Stage, span: Duration) -> Sample {
    let config: tokio_postgres::Config = url.parse().expect("an address");
    runtime.block_on(async {
        let mut tasks = Vec::new();
        let begun = Instant::now();
        for _ in 0..16 {
            let config = config.clone();
            let stage = stage.clone();
            tasks.push(tokio::spawn(async move { postgres_connection(config, stage, span).await }));
        }
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("a connection's task"));
        }
        Sample { per_second: latencies.len() as f64 / begun.elapsed().as_secs_f64(), latencies, cpu_us: None }
    })
}

async fn postgres_connection(config: tokio_postgres::Config, stage: Stage, span: Duration) -> Vec<Duration> {
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let lock = "select lsn, hash, audit_seq from heads where workspace_id = $1 for update";
    let token = "select t.member_id, t.capabilities from tokens t join members m on m.id = t.member_id
                 where t.secret_hash = $1";
    let place = "select t.channel_id from threads t join channels c on c.id = t.channel_id where t.id = $1";
    let mut statements = Vec::new();
    for sql in [lock, token, place, MESSAGE, EVENT, AUDIT, HEAD] {
        statements.push(client.prepare(sql).await.expect("a statement"));
    }
    let [lock, token, place, message, event, audit, head_sql] =
        <[_; 7]>::try_from(statements).expect("seven");
    let entropy = Entropy::System;
    let metadata = audit_metadata(&stage);
    let sealer = Sealer::new([7; 32], &[], entropy.clone());
    let [workspace, channel, thread, author] = ids(&stage);
    let secret = stage.secret_hash().to_vec();
    let mut shelf = SegmentTree::start(&entropy);
    let begun = Instant::now();
    let mut latencies = Vec::new();
    while begun.elapsed() < span {
        let sent = Instant::now();
        let at = now();
        let post = prepare(&stage, &sealer, &entropy, at, latencies.len());
        client.batch_execute("begin").await.expect("begin");
        let row = client.query_one(&lock, &[&workspace]).await.expect("a head");
        let hash: Vec<u8> = row.get(1);
        let mut head =
            LogHead { lsn: row.get(0), hash: hash.try_into().expect("32 bytes"), audit_seq: row.get(2) };
        client.query_one(&token, &[&secret]).await.expect("a token");
        client.query_one(&place, &[&thread]).await.expect("a place");
        let (prev, payload) = head.append(&stage, &post, at);
        let wrapped = shelf.wrap(&stage, &post, head.lsn);
        let id = post.id.uuid();
        let micros = at.micros();
        let nobody = None::<Uuid>;
        client
            .execute(
                &message,
                &[&id, &workspace, &channel, &thread, &author, &micros, &post.sealed, &head.lsn, &wrapped],
            )
            .await
            .expect("a message");
        let prev = prev.to_vec();
        let hash = head.hash.to_vec();
        client
            .execute(
                &event,
                &[
                    &workspace,
                    &head.lsn,
                    &MessagePosted::KIND,
                    &micros,
                    &channel,
                    &thread,
                    &author,
                    &prev,
                    &hash,
                    &payload,
                ],
            )
            .await
            .expect("an event");
        client
            .execute(
                &audit,
                &[&workspace, &head.audit_seq, &micros, &"mutation", &author, &author, &nobody, &metadata],
            )
            .await
            .expect("an audit row");
        client
            .execute(&head_sql, &[&workspace, &head.lsn, &hash, &micros, &head.audit_seq])
            .await
            .expect("a head");
        client.batch_execute("commit").await.expect("commit");
        latencies.push(sent.elapsed());
    }
    latencies
}
