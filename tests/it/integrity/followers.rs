//! Followers of a busy log: whatever they do, each gets every event once, in its order.
//!
//! They disconnect, put batches back, go on by position or by token, on this server or another, some as
//! consumers that acknowledge. `SVC_TEST_ROUNDS` says how often as many of them follow as many events.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{RequestHead, Surface};
use svc_core::ops::{BatchBounds, Begin, FrameForm, Subscriber, Subscription, WAIT_FOR_EVENT, WantedEvents};
use svc_core::time::Clock;
use svc_core::{Result, Service};
use svc_tests::database::engines;
use svc_tests::ordeal::rounds;
use svc_tests::simulation::Random;
use svc_tests::{Setup, World, answer_of, call, in_parallel, runtime};

const WRITERS: usize = 4;
/// Events of each writer.
const EACH: usize = 100;
const FOLLOWERS: usize = 24;

/// Where a follower stands.
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
    /// Begins again, somewhere and by something.
    fn begin(&mut self) -> Result<Subscriber> {
        let service = self.random.of(&self.services);
        let last = self.seen.last().copied().unwrap_or(self.begins);
        let token = self.token.take().filter(|_| self.random.once_in(2) && self.consumer.is_none());
        let begin = match token {
            Some(token) => Begin::Token(token),
            // A consumer stands where it was acknowledged.
            None if self.consumer.is_some() && !self.seen.is_empty() => Begin::Default,
            None => Begin::After(last),
        };
        let wanted: WantedEvents = serde_json::from_value(json!({
            "workspace_id": self.world.id("workspace"), "kind": "MessagePosted",
            "thread_id": self.world.id("thread"),
        }))
        .unwrap();
        let wanted = Some(wanted).filter(|_| !matches!(begin, Begin::Token(_)));
        let consumer = self.consumer.as_ref().map(|name| serde_json::from_value(json!(name)).unwrap());
        let subscription = Subscription { wanted, begin, form: FrameForm::Full, consumer };
        let head = RequestHead {
            credential: Some(self.world.people.agent.clone().into()).into(),
            peer: Some(IpAddr::from([127, 0, 0, 1])),
            surface: Surface::Rest,
            ..RequestHead::default()
        };
        let begun = runtime().block_on(async {
            let admission = WAIT_FOR_EVENT.admit(service, head).await?;
            service.subscribe(admission, subscription).await
        })?;
        Ok(begun.subscriber)
    }

    /// Takes some batches of a connection, until that ends or all was seen.
    fn follow(&mut self, mut subscriber: Subscriber, all: usize) {
        for _ in 0..=self.random.below(12) {
            let events = 1 + self.random.below(40);
            let bounds = BatchBounds { events, bytes: 1 << 20 };
            let batch = runtime().block_on(subscriber.next(bounds, Duration::from_secs(3))).unwrap();
            if self.random.once_in(5) {
                subscriber.put_back();
                continue;
            }
            for frame in &batch.frames {
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
            let world = World::with(engine, Setup { clock: Clock::System, ..Setup::default() });
            let other = world.another_service(7);
            let (services, begins) = ([&world.service, &other], world.lsn());
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
