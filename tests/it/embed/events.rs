//! Following events: from a position on, by consumers that remember theirs, until the iterator is stopped.

use std::time::Duration;

use svc_core::api::{CreateChannel, CreateThread, DeleteMessage, PostMessage};
use svc_core::{Code, Event, Filter, Since};

use super::{Embedded, on_engines};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn events_are_followed_from_a_position_with_the_texts_that_the_member_may_read() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        let channel = admin.call(&CreateChannel::new("general")).unwrap();
        let thread = admin.call(&CreateThread::new(channel.id, "Task")).unwrap();
        let posts = Filter::new().channel(channel.id).thread(thread.id).kind("MessagePosted");
        let mut new = agent.events(Since::Now, &posts).unwrap();
        assert!(new.next_within(Duration::ZERO).unwrap().is_none());
        let first = admin.call(&PostMessage::new(thread.id, "one")).unwrap();
        let event = new.next_within(LONG).unwrap().unwrap();
        assert_eq!((event.lsn, event.kind.as_str()), (first.lsn, "MessagePosted"));
        assert_eq!(event.body.as_deref(), Some("one"));
        assert_eq!(event.payload["message_id"], serde_json::json!(first.id));
        event.ack().unwrap();
        admin.call(&DeleteMessage::new(first.id)).unwrap();
        admin.call(&PostMessage::new(thread.id, "two")).unwrap();
        let texts = agent.events(Since::Lsn(0), &posts).unwrap().take(2);
        let texts: Vec<Option<String>> = texts.map(|event| event.unwrap().body).collect();
        assert_eq!(texts, [None, Some("two".to_owned())]);
        let all = agent.events(Since::Lsn(0), &Filter::new()).unwrap();
        let lsns: Vec<i64> = all.take(5).map(|event| event.unwrap().lsn).collect();
        assert_eq!(lsns, [1, 2, 3, 4, 5]);
        let beyond = agent.events(Since::Lsn(1_000_000), &Filter::new()).unwrap_err();
        assert_eq!(beyond.code(), Code::MustRefetch);
        let invalid = agent.events(Since::Lsn(-1), &Filter::new()).unwrap_err();
        assert_eq!(invalid.code(), Code::Malformed);
    });
}

#[test]
fn a_consumer_gets_again_what_it_has_not_acknowledged() {
    on_engines(|engine| {
        let embedded = Embedded::new(engine);
        let (admin, agent) = (&embedded.admin, &embedded.agent);
        let channel = admin.call(&CreateChannel::new("general")).unwrap();
        let thread = admin.call(&CreateThread::new(channel.id, "Task")).unwrap();
        let consumer = || Since::Consumer("indexer".to_owned());
        let posts = Filter::new().kind("MessagePosted");
        let mut events = agent.events(consumer(), &posts).unwrap();
        for number in 0..4 {
            admin.call(&PostMessage::new(thread.id, format!("message {number}"))).unwrap();
        }
        let received: Vec<Event> = (0..3).map(|_| events.next_within(LONG).unwrap().unwrap()).collect();
        received[1].ack().unwrap();
        received[0].ack().unwrap();
        // A newer iterator takes the consumer over.
        let mut newer = agent.events(consumer(), &posts).unwrap();
        assert_eq!(received[2].ack().unwrap_err().code(), Code::WrongState);
        assert_eq!(newer.next().unwrap().unwrap().body.as_deref(), Some("message 2"));
        // The position survives the process.
        embedded.service.clone().close().unwrap();
        let rest: Vec<_> = newer.by_ref().collect();
        assert_eq!(rest.last().unwrap().as_ref().unwrap_err().code(), Code::Closing);
        assert!(newer.next().is_none(), "it ends after an error");
        assert_eq!(rest[0].as_ref().unwrap().ack().unwrap_err().code(), Code::Closing);
        let service = embedded.place.builder().open().unwrap();
        let agent = service.member(&embedded.established.agent_token.secret).unwrap();
        let again = agent.events(consumer(), &posts).unwrap().take(2);
        let bodies: Vec<String> = again.map(|event| event.unwrap().body.unwrap()).collect();
        assert_eq!(bodies, ["message 2", "message 3"]);
        for invalid in ["", "with space"] {
            let refused = agent.events(Since::Consumer(invalid.to_owned()), &posts).unwrap_err();
            assert_eq!(refused.code(), Code::Malformed, "{invalid}");
        }
    });
}

#[test]
fn an_iterator_is_stopped_from_another_thread() {
    on_engines(|engine| {
        let Embedded { agent, service, place: _place, .. } = Embedded::new(engine);
        let mut events = agent.events(Since::Now, &Filter::new()).unwrap();
        let stopper = events.stopper();
        let following = std::thread::spawn(move || events.next().is_none());
        while service.parked_waits() == 0 {
            std::thread::yield_now();
        }
        stopper.clone().stop();
        assert!(following.join().unwrap());
        assert_eq!(service.parked_waits(), 0);
        stopper.stop();
    });
}
