//! Workers: tasks are claimed and done by threads, and a bad task holds up no other.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use svc_core::api::{
    ChannelId, CreateChannel, CreateThread, GetThread, GetThreadResult, RevokeToken, ThreadId,
};
use svc_core::{ClaimOptions, Code, Member, WorkerOptions};

use super::{Embedded, on_engines};

const LONG: Duration = Duration::from_secs(60);

fn channel(member: &Member) -> ChannelId {
    member.call(&CreateChannel::new("general")).unwrap().id
}

fn task(member: &Member, channel: ChannelId, title: &str) -> ThreadId {
    member.call(&CreateThread::new(channel, title)).unwrap().id
}

#[test]
fn tasks_are_done_by_several_threads_as_they_come() {
    on_engines(|engine| {
        let Embedded { admin, agent, service, place: _place, .. } = Embedded::new(engine);
        let channel = channel(&admin);
        let (sender, receiver) = mpsc::channel();
        let options = WorkerOptions::new().threads(3).claims(ClaimOptions::new().channel(channel));
        let worker = agent
            .worker(&options, move |claim| {
                sender.send(claim.thread().id)?;
                Ok(json!({"title": claim.thread().title}))
            })
            .unwrap();
        let before: Vec<ThreadId> =
            (0..5).map(|number| task(&admin, channel, &format!("early {number}"))).collect();
        let mut done: Vec<ThreadId> = (0..5).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
        done.sort_unstable();
        let mut wanted = before.clone();
        wanted.sort_unstable();
        assert_eq!(done, wanted);
        while service.parked_waits() == 0 {
            std::thread::yield_now();
        }
        let late = task(&admin, channel, "late");
        assert_eq!(receiver.recv_timeout(LONG).unwrap(), late);
        worker.stop().unwrap();
        for thread in before.iter().chain([&late]) {
            let result = admin.call(&GetThreadResult::new(*thread)).unwrap();
            assert_eq!(result.produced_by, agent.id());
        }
        assert_eq!(service.parked_waits(), 0, "stopping ends the waits");
    });
}

#[test]
fn a_failed_task_is_released_with_its_message_and_tried_again() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        let channel = channel(&admin);
        let bad = task(&admin, channel, "bad");
        let good = task(&admin, channel, "good");
        let (sender, receiver) = mpsc::channel();
        let attempts = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
        let counted = Arc::clone(&attempts);
        let pause = Duration::from_millis(20);
        let worker = agent
            .worker(&WorkerOptions::new().pause(pause), move |claim| {
                let title = claim.thread().title.clone();
                let attempt = {
                    let mut attempts = counted.lock().unwrap();
                    let attempt = attempts.entry(title.clone()).or_insert(0);
                    *attempt += 1;
                    *attempt
                };
                sender.send((title.clone(), attempt))?;
                match (title.as_str(), attempt) {
                    ("bad", 1) => Err("the disk is full".into()),
                    ("bad", 2) => panic!("no luck"),
                    _ => Ok(json!({})),
                }
            })
            .unwrap();
        let mut seen = Vec::new();
        while !seen.contains(&("bad".to_owned(), 3)) {
            seen.push(receiver.recv_timeout(LONG).unwrap());
        }
        assert!(seen.contains(&("good".to_owned(), 1)));
        worker.stop().unwrap();
        admin.call(&GetThreadResult::new(good)).unwrap();
        admin.call(&GetThreadResult::new(bad)).unwrap();
        let context = admin.call_json("get_thread_context", &json!({"thread_id": bad})).unwrap();
        assert_eq!(
            context["checkpoint"]["checkpoint"]["error"], "the work has panicked: no luck",
            "{context}"
        );
    });
}

#[test]
fn stopping_finishes_or_releases_and_a_dead_token_ends_the_worker() {
    on_engines(|engine| {
        let Embedded { admin, agent, established, place: _place, .. } = Embedded::new(engine);
        let channel = channel(&admin);
        let (begun, begins) = mpsc::channel();
        let (finish, may_finish) = mpsc::channel::<()>();
        let may_finish = Mutex::new(may_finish);
        let work = move |claim: &svc_core::Claim| {
            begun.send(claim.thread().id)?;
            may_finish.lock().unwrap().recv()?;
            Ok(json!({}))
        };
        let worker = agent.worker(&WorkerOptions::new(), work).unwrap();
        let first = task(&admin, channel, "first");
        assert_eq!(begins.recv_timeout(LONG).unwrap(), first);
        let stopping = std::thread::spawn(move || worker.stop());
        finish.send(()).unwrap();
        stopping.join().unwrap().unwrap();
        admin.call(&GetThreadResult::new(first)).unwrap();

        let (begun, begins) = mpsc::channel();
        let (never, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let work = move |claim: &svc_core::Claim| {
            begun.send(claim.thread().id)?;
            let _ = blocked.lock().unwrap().recv();
            Ok(json!({}))
        };
        let worker = agent.worker(&WorkerOptions::new(), work).unwrap();
        let second = task(&admin, channel, "second");
        assert_eq!(begins.recv_timeout(LONG).unwrap(), second);
        worker.stop_within(Duration::from_millis(10)).unwrap();
        assert!(admin.call(&GetThread::new(second)).unwrap().held.is_none());
        drop(never);

        let worker = agent.worker(&WorkerOptions::new(), |_| Ok(json!({}))).unwrap();
        admin.call(&RevokeToken::new(established.agent_token.id)).unwrap();
        task(&admin, channel, "third");
        while has_thread("svc-worker") {
            std::thread::yield_now();
        }
        assert_eq!(worker.stop().unwrap_err().code(), Code::Unauthenticated);
    });
}

/// Returns whether this process has a thread with the name `name`.
fn has_thread(name: &str) -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|found| found.trim_end() == name)
}

/// An error whose text cannot be formatted.
#[derive(Debug)]
struct Unprintable;

impl std::fmt::Display for Unprintable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no text")
    }
}

impl std::error::Error for Unprintable {}

#[test]
fn a_worker_survives_its_function_and_may_be_stopped_by_it() {
    let Embedded { admin, agent, place: _place, .. } = Embedded::new(svc_core::Engine::Sqlite);
    let channel = channel(&admin);
    let slot = Arc::new(Mutex::new(None::<svc_core::Worker>));
    let (sender, receiver) = mpsc::channel();
    let own = Arc::clone(&slot);
    let work = move |claim: &svc_core::Claim| match claim.thread().title.as_str() {
        "unprintable" => Err(Unprintable.into()),
        _ => {
            drop(own.lock().unwrap().take());
            sender.send(claim.thread().id)?;
            Ok(json!({}))
        }
    };
    let options = WorkerOptions::new().threads(2).pause(Duration::from_secs(60));
    *slot.lock().unwrap() = Some(agent.worker(&options, work).unwrap());
    let bad = task(&admin, channel, "unprintable");
    let last = task(&admin, channel, "last");
    assert_eq!(receiver.recv_timeout(LONG).unwrap(), last);
    while has_thread("svc-worker") || has_thread("svc-pauses") {
        std::thread::yield_now();
    }
    admin.call(&GetThreadResult::new(last)).unwrap();
    assert!(admin.call(&GetThread::new(bad)).unwrap().held.is_none(), "stopping releases failed tasks");
}

#[test]
fn closing_finishes_the_tasks_of_workers_and_joins_their_threads() {
    on_engines(|engine| {
        let embedded = Embedded::new(engine);
        let channel = channel(&embedded.admin);
        let (begun, begins) = mpsc::channel();
        let (finish, may_finish) = mpsc::channel::<()>();
        let may_finish = Mutex::new(may_finish);
        let work = move |claim: &svc_core::Claim| {
            begun.send(claim.thread().id)?;
            may_finish.lock().unwrap().recv()?;
            Ok(json!({}))
        };
        let worker = embedded.agent.worker(&WorkerOptions::new(), work).unwrap();
        let thread = task(&embedded.admin, channel, "task");
        assert_eq!(begins.recv_timeout(LONG).unwrap(), thread);
        let service = embedded.service.clone();
        let closing = std::thread::spawn(move || service.close());
        finish.send(()).unwrap();
        closing.join().unwrap().unwrap();
        assert!(!has_thread("svc-worker") && !has_thread("svc-pauses") && !has_thread("svc-claims"));
        worker.stop().unwrap();
        let service = embedded.place.builder().open().unwrap();
        let admin = service.member(&embedded.established.token.secret).unwrap();
        admin.call(&GetThreadResult::new(thread)).unwrap();
    });
}
