//! Crashes: a server that is killed under load, again and again on the same database, has kept every write that it
//! acknowledged, and the log is whole. A kill cannot show that a write has reached the disk, so the settings that
//! this rests on are asserted as well.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::kept::{Broken, Kept};
use svc_tests::database::engines;
use svc_tests::site::{Server, Site};
use svc_tests::{World, runtime};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const ROUNDS: usize = 20;
/// More than the 32 that must be in flight, because some are always between two requests.
const CALLERS: usize = 48;
/// Acknowledged writes after which a round's server is killed: more from round to round, so that the kill does not
/// come always at the same place.
const WRITES: [usize; 4] = [60, 97, 134, 171];

/// A write that the server said it had done: where its event stands, and the id of what it made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Acknowledged {
    table: &'static str,
    id: String,
    lsn: i64,
    words: String,
}

/// What one round's callers share.
#[derive(Default)]
struct Round {
    in_flight: AtomicUsize,
    done: AtomicUsize,
    wanted: usize,
    enough: Notify,
}

/// How a caller's round went.
struct Tally {
    acknowledged: Vec<Acknowledged>,
    cut_off: usize,
}

/// Writes until the server is gone: messages, and every fourth time a thread.
async fn caller(number: usize, kept: Kept, place: Arc<Place>, round: Arc<Round>) -> Tally {
    let mut kept = kept;
    let mut tally = Tally { acknowledged: Vec::new(), cut_off: 0 };
    for turn in 0.. {
        let words = format!("caller {number}, turn {turn}");
        let (table, target, body) = if turn % 4 == 3 {
            ("threads", &place.threads, json!({"title": words}))
        } else {
            ("messages", &place.messages, json!({"body": words}))
        };
        round.in_flight.fetch_add(1, Ordering::SeqCst);
        match kept.post(target, &body).await {
            Ok((201, made)) => tally.acknowledged.push(acknowledged(table, &made, words)),
            Ok((status, answer)) => panic!("a write was refused with {status}: {answer}"),
            Err(broken) => {
                tally.cut_off = usize::from(broken == Broken::CutOff);
                return tally;
            }
        }
        round.in_flight.fetch_sub(1, Ordering::SeqCst);
        if round.done.fetch_add(1, Ordering::SeqCst) + 1 == round.wanted {
            round.enough.notify_one();
        }
    }
    tally
}

fn acknowledged(table: &'static str, made: &Value, words: String) -> Acknowledged {
    let id = made["id"].as_str().unwrap().replace('-', "");
    Acknowledged { table, id, lsn: made["lsn"].as_i64().unwrap(), words }
}

/// Where callers write.
struct Place {
    threads: String,
    messages: String,
}

impl Place {
    fn prepare(site: &Site) -> Self {
        let server = site.serve(&[]);
        let admin = server.caller(&site.founders.admin);
        let channels = format!("/workspaces/{}/channels", site.founders.workspace_id);
        let channel = admin.post(&channels, json!({"name": "crashes"}));
        let threads = format!("/channels/{}/threads", channel["id"].as_str().unwrap());
        let thread = admin.post(&threads, json!({"title": "Write on"}));
        Self { threads, messages: format!("/threads/{}/messages", thread["id"].as_str().unwrap()) }
    }
}

/// Lets callers write until enough is done, and kills the server then.
async fn crash(server: &mut Server, token: &str, place: &Arc<Place>, wanted: usize) -> Vec<Tally> {
    let round = Arc::new(Round { wanted, ..Round::default() });
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let kept = Kept::open(server.address(), token).await.unwrap();
        callers.spawn(caller(number, kept, Arc::clone(place), Arc::clone(&round)));
    }
    round.enough.notified().await;
    let in_flight = round.in_flight.load(Ordering::SeqCst);
    server.running.kill();
    let tallies = callers.join_all().await;
    assert!(in_flight >= 32, "only {in_flight} callers were in flight");
    let cut_off: usize = tallies.iter().map(|tally| tally.cut_off).sum();
    assert!(cut_off >= 1, "no request was cut off");
    tallies
}

/// Everything acknowledged is in the tables and in the log, where the answer said.
fn check(site: &Site, acknowledged: &[Acknowledged]) {
    for table in ["messages", "threads"] {
        let rows = site.database.rows(&format!(
            "select o.id, o.lsn from {table} o
             join events e on e.workspace_id = o.workspace_id and e.lsn = o.lsn"
        ));
        let pair = |row: &Vec<Value>| (row[0].as_str().unwrap().to_owned(), row[1].as_i64().unwrap());
        let there: BTreeMap<String, i64> = rows.iter().map(pair).collect();
        for write in acknowledged.iter().filter(|write| write.table == table) {
            assert_eq!(there.get(&write.id), Some(&write.lsn), "acknowledged, and lost: {write:?}");
        }
    }
    let verified = site.svc(&["verify", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

/// What the last round wrote can be read again.
fn check_words(site: &Site, server: &Server, written: &[Acknowledged]) {
    let admin = server.caller(&site.founders.admin);
    let some = |table| written.iter().filter(move |write| write.table == table).take(2);
    for write in some("messages") {
        assert_eq!(admin.get(&format!("/messages/{}", write.id))["body"], json!(write.words));
    }
    for write in some("threads") {
        assert_eq!(admin.get(&format!("/threads/{}", write.id))["title"], json!(write.words));
    }
}

fn every_acknowledged_write_survives(engine: Engine) {
    let site = Site::found(engine);
    let place = Arc::new(Place::prepare(&site));
    let mut acknowledged = Vec::new();
    let mut last: Vec<Acknowledged> = Vec::new();
    for round in 0..ROUNDS {
        let mut server = site.serve(&[]);
        check_words(&site, &server, &last);
        let wanted = WRITES[round % WRITES.len()];
        let crashing = crash(&mut server, &site.founders.admin, &place, wanted);
        let tallies = runtime().block_on(crashing);
        last = tallies.into_iter().flat_map(|tally| tally.acknowledged).collect();
        assert!(last.len() >= wanted, "round {round}: {} of {wanted} writes", last.len());
        acknowledged.extend(last.iter().cloned());
        check(&site, &acknowledged);
    }
}

#[test]
fn every_acknowledged_write_survives_a_kill() {
    for engine in engines() {
        every_acknowledged_write_survives(engine);
    }
}

#[test]
fn writers_are_set_to_be_durable() {
    for engine in engines() {
        let settings = World::open(engine).service.durability().unwrap();
        let wanted = match engine {
            Engine::Sqlite => "synchronous=2",
            Engine::Postgres => "synchronous_commit=on fsync=on",
        };
        assert!(!settings.is_empty(), "{}", engine.name());
        assert!(settings.iter().all(|setting| setting == wanted), "{settings:?}");
    }
}
