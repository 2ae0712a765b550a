//! Followers of a busy log: each gets every event once, in its order.
//!
//! They disconnect, return batches, continue by position or by token, on this server or another, some as
//! consumers that acknowledge. While the log is pruned, a follower below its floor is notified, and misses
//! nothing else. `SVC_TEST_ROUNDS` is the number of repetitions.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::api::WaitForEvent;
use svc_core::op::{RequestHead, Surface};
use svc_core::ops::{BatchBounds, FrameForm, StartPosition, Subscriber, Subscription, WantedEvents};
use svc_core::time::Clock;
use svc_core::{Code, Error, Result, Service};
use svc_tests::database::engines;
use svc_tests::ordeal::rounds;
use svc_tests::simulation::Random;
use svc_tests::{Setup, World, answer_of, call, in_parallel, runtime};

const WRITERS: usize = 4;
/// Events of each writer.
const EACH: usize = 100;
const FOLLOWERS: usize = 24;

/// A follower and its position.
struct Follower<'w> {
    world: &'w World,
    services: [&'w Service; 2],
    random: Random,
    /// The name of its consumer, if it acknowledges.
    consumer: Option<String>,
    token: Option<String>,
    seen: Vec<i64>,
    begins: i64,
}

impl Follower<'_> {
    /// Begins again, at a random server, by position, token or consumer.
    fn begin(&mut self) -> Result<Subscriber> {
        let service = self.random.of(&self.services);
        let last = self.seen.last().copied().unwrap_or(self.begins).max(self.begins);
        let token = self.token.take().filter(|_| self.random.once_in(2) && self.consumer.is_none());
        let begin = match token {
            Some(token) => StartPosition::Token(token),
            // A consumer begins at its acknowledged position.
            None if self.consumer.is_some() && !self.seen.is_empty() => StartPosition::Default,
            None => StartPosition::After(last),
        };
        let wanted: WantedEvents = serde_json::from_value(json!({
            "workspace_id": self.world.id("workspace"), "kind": "MessagePosted",
            "thread_id": self.world.id("thread"),
        }))
        .unwrap();
        let wanted = Some(wanted).filter(|_| !matches!(begin, StartPosition::Token(_)));
        let consumer = self.consumer.as_ref().map(|name| serde_json::from_value(json!(name)).unwrap());
        let subscription = Subscription { wanted, begin, form: FrameForm::Full, consumer };
        let head = RequestHead {
            credential: Some(self.world.people.agent.clone().into()).into(),
            peer: Some([127, 0, 0, 1].into()),
            surface: Surface::Rest,
            ..RequestHead::default()
        };
        let begun = runtime().block_on(async {
            let admission = service.admit_for::<WaitForEvent>(head).await?;
            service.subscribe(admission, subscription).await
        })?;
        Ok(begun.subscriber)
    }

    /// Takes some batches of a connection, until it ends or all events were seen.
    fn follow(&mut self, mut subscriber: Subscriber, all: usize) {
        for _ in 0..=self.random.below(12) {
            let events = 1 + self.random.below(40);
            let bounds = BatchBounds { events, bytes: 1 << 20 };
            let batch = runtime().block_on(subscriber.next(bounds, Duration::from_secs(3))).unwrap();
            if self.random.once_in(5) {
                subscriber.put_back_batch();
                continue;
            }
            for (_, frame) in &batch.frames {
                let frame: Value = serde_json::from_slice(frame).unwrap();
                let lsn = frame["lsn"].as_i64().unwrap();
                let is_new = self.seen.last().is_none_or(|last| *last < lsn);
                assert!(is_new || self.consumer.is_some(), "{lsn} again after {:?}", self.seen.last());
                if is_new {
                    self.seen.push(lsn);
                }
            }
            self.token = Some(subscriber.resume_token(subscriber.position()).unwrap());
            if self.consumer.is_some() && !self.random.once_in(3) {
                subscriber.acknowledge(subscriber.position()).unwrap();
            }
            if self.seen.len() >= all {
                return;
            }
        }
    }
}

#[test]
fn a_follower_gets_every_event_once_in_order_whatever_it_does() {
    for engine in engines() {
        for round in 0..rounds() {
            let world = World::with(engine, Setup { clock: Clock::system(), ..Setup::default() });
            let other = world.another_service(7);
            let services = [&world.service, &other];
            let begins = world.lsn();
            let results = in_parallel(WRITERS + FOLLOWERS, |number| {
                if number < WRITERS {
                    for event in 0..EACH {
                        let input =
                            json!({"thread_id": world.id("thread"), "body": format!("{number} {event}")});
                        let posted =
                            call(services[event % 2], Some(&world.people.agent), "post_message", &input);
                        answer_of(posted).output();
                    }
                    return Vec::new();
                }
                let mut follower = Follower {
                    world: &world,
                    services,
                    random: Random(u64::try_from(number + round * 1000).unwrap()),
                    consumer: (number % 4 == 0).then(|| format!("follower-{number}")),
                    token: None,
                    seen: Vec::new(),
                    begins,
                };
                while follower.seen.len() < WRITERS * EACH {
                    let subscriber = follower.begin().unwrap();
                    follower.follow(subscriber, WRITERS * EACH);
                }
                follower.seen
            });
            let all: Vec<i64> = (begins + 1..=world.lsn()).collect();
            assert_eq!(all.len(), WRITERS * EACH);
            for (number, seen) in results.into_iter().enumerate().skip(WRITERS) {
                assert_eq!(seen, all, "follower {number} of round {round} on {engine:?}");
            }
        }
    }
}

/// The clock is set ahead by this much, a few times a second, while a log is pruned that keeps its events for
/// a day. A request that waits for the database at that moment fails with 503, and is retried.
const JUMP: Duration = Duration::from_secs(6 * 3600);

impl Follower<'_> {
    /// Follows a log that is pruned while others write. Returns the floors that it was notified of.
    ///
    /// Each is the floor below which it may have missed events, with its position.
    fn follow_above_the_floor(&mut self, writes: &AtomicBool, falls: &AtomicUsize) -> Vec<(i64, i64)> {
        // Resume tokens would have expired.
        self.token = None;
        let mut told = Vec::new();
        while writes.load(Ordering::SeqCst) {
            let outcome = self.begin().and_then(|mut subscriber| self.take_some(&mut subscriber));
            if let Err(error) = outcome.or_else(unless_unavailable) {
                let floor = floor_told(&error);
                let at = self.seen.last().copied().unwrap_or(self.begins).max(self.begins);
                assert!(floor > at + 1, "told of {floor} at {at}, where nothing is missing");
                told.push((at, floor));
                falls.fetch_add(1, Ordering::SeqCst);
                self.begins = floor - 1;
            }
            if self.random.once_in(20) {
                self.wait_for_the_floor(writes);
            }
        }
        told
    }

    /// Does nothing until the floor is beyond its position.
    fn wait_for_the_floor(&self, writes: &AtomicBool) {
        let workspace = self.world.database.id(self.world.id("workspace"));
        let floor = format!("select floor from heads where workspace_id = {workspace}");
        let at = self.seen.last().copied().unwrap_or(self.begins).max(self.begins);
        while writes.load(Ordering::SeqCst) && self.world.database.number(&floor) <= at + 1 {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn take_some(&mut self, subscriber: &mut Subscriber) -> Result<()> {
        for _ in 0..=self.random.below(6) {
            let bounds = BatchBounds { events: 1 + self.random.below(40), bytes: 1 << 20 };
            let batch = runtime().block_on(subscriber.next(bounds, Duration::from_secs(600)))?;
            for (_, frame) in &batch.frames {
                let frame: Value = serde_json::from_slice(frame).unwrap();
                let lsn = frame["lsn"].as_i64().unwrap();
                assert!(self.seen.last().is_none_or(|last| *last < lsn), "{lsn} is out of order");
                self.seen.push(lsn);
            }
            self.begins = self.begins.max(subscriber.position());
        }
        Ok(())
    }
}

/// Ignores an error that is retried.
fn unless_unavailable(error: Error) -> Result<()> {
    if error.code().status() == 503 { Ok(()) } else { Err(error) }
}

/// Returns the floor in a refusal.
fn floor_told(error: &Error) -> i64 {
    assert_eq!(error.code(), Code::MustRefetch, "{error}");
    serde_json::to_value(error.problem()).unwrap()["floor"].as_i64().unwrap()
}

#[test]
fn whoever_falls_below_the_floor_is_told_and_nobody_misses_anything_else() {
    for engine in engines() {
        let world = World::open(engine);
        let other = world.another_service(7);
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 1});
        world.admin("set_retention_policy", keep);
        let services = [&world.service, &other];
        let begins = world.lsn();
        let writes = AtomicBool::new(true);
        let following = AtomicUsize::new(FOLLOWERS / 2);
        let falls = AtomicUsize::new(0);
        let results = in_parallel(2 + FOLLOWERS / 2, |number| match number {
            0 => {
                let mut posted = Vec::new();
                let least = EACH * rounds() * 4;
                let most = EACH * rounds() * 40;
                for event in 0..most {
                    if event >= least && falls.load(Ordering::SeqCst) > 0 {
                        break;
                    }
                    let input = json!({"thread_id": world.id("thread"), "body": format!("{event}")});
                    let answer = call(services[event % 2], Some(&world.people.agent), "post_message", &input);
                    let answer = answer_of(answer);
                    assert!([201, 503].contains(&answer.status), "{:#}", answer.body);
                    posted.extend(answer.body["lsn"].as_i64().filter(|_| answer.status == 201));
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                writes.store(false, Ordering::SeqCst);
                (posted, Vec::new())
            }
            1 => {
                // Waits need time that passes.
                while following.load(Ordering::SeqCst) > 0 {
                    world.clock.advance(JUMP);
                    // The next round repeats a failure.
                    let _ = world.service.housekeep();
                    std::thread::park_timeout(Duration::from_millis(200));
                }
                (Vec::new(), Vec::new())
            }
            number => {
                let mut follower = Follower {
                    world: &world,
                    services,
                    random: Random(u64::try_from(number).unwrap()),
                    consumer: None,
                    token: None,
                    seen: Vec::new(),
                    begins,
                };
                let told = follower.follow_above_the_floor(&writes, &falls);
                following.fetch_sub(1, Ordering::SeqCst);
                (follower.seen, told)
            }
        });
        let posted: BTreeSet<i64> = results[0].0.iter().copied().collect();
        for (number, (seen, told)) in results.iter().enumerate().skip(2) {
            let seen: BTreeSet<i64> = seen.iter().copied().collect();
            let last = seen.last().copied().unwrap_or(begins);
            for missed in posted.difference(&seen).filter(|lsn| **lsn <= last) {
                let was_told = told.iter().any(|(at, floor)| at < missed && missed < floor);
                assert!(was_told, "follower {number} on {engine:?} missed {missed}, and was told {told:?}");
            }
        }
        assert!(falls.into_inner() > 0, "nobody fell below the floor on {engine:?}, so this shows little");
    }
}
