//! Claims that a program holds: renewed, noticed when they end from outside, released when dropped.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use svc_core::api::{
    CancelThread, CreateChannel, CreateThread, FreezeMember, GetClaim, GetThread, GetThreadResult,
    ListMessages, ReleaseClaim, ThreadId, UnfreezeMember, WaitForEvent,
};
use svc_core::{Claim, ClaimOptions, Code, Filter, Member, Since};

use super::{Embedded, on_engines};

/// Creates a task in a new channel.
fn task(member: &Member, name: &str) -> ThreadId {
    let channel = member.call(&CreateChannel::new(name)).unwrap();
    member.call(&CreateThread::new(channel.id, "Fix the build")).unwrap().id
}

fn is_claimed(member: &Member, thread: ThreadId) -> bool {
    member.call(&GetThread::new(thread)).unwrap().held.is_some()
}

#[test]
fn a_task_is_claimed_and_finished() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        assert!(agent.claim_next(&ClaimOptions::new()).unwrap().is_none());
        let thread = task(&admin, "general");
        let claim = agent.claim_next(&ClaimOptions::new()).unwrap().unwrap();
        assert_eq!((claim.thread().id, claim.is_live()), (thread, true));
        assert!(claim.lost().is_none());
        let held = admin.call(&GetClaim::new(thread)).unwrap();
        assert_eq!((held.holder, held.claim_lease_id), (agent.id(), claim.lease_id()));
        assert!(held.acknowledged_at.is_some());
        claim.checkpoint(json!({"step": 1})).unwrap();
        let message = claim.post("half done").unwrap();
        let messages = admin.call(&ListMessages::new(thread)).unwrap();
        assert_eq!(messages.items.last().unwrap().id, message);
        assert_eq!(claim.finish(json!(["no object"])).unwrap_err().field(), Some("result"));
        assert!(claim.is_live(), "a finish that fails leaves it held");
        assert_eq!(claim.hand_off(uuid::Uuid::nil().into()).unwrap_err().code(), Code::NotClaimable);
        assert!(claim.is_live());
        claim.finish(json!({"ok": true})).unwrap();
        assert!(!claim.is_live() && claim.lost().is_none());
        assert_eq!(claim.post("more").unwrap_err().code(), Code::ClaimNotHeld);
        let result = admin.call(&GetThreadResult::new(thread)).unwrap();
        assert_eq!(result.result.unwrap()["ok"], true);
    });
}

#[test]
fn a_claim_is_released_when_it_is_dropped_and_left_when_it_is_kept() {
    on_engines(|engine| {
        let embedded = Embedded::new(engine);
        let (admin, agent) = (&embedded.admin, &embedded.agent);
        let thread = task(admin, "general");
        let claim = || agent.claim(thread, &ClaimOptions::new()).unwrap();
        drop(claim());
        assert!(!is_claimed(admin, thread));
        let panicking = std::thread::spawn({
            let claim = claim();
            move || {
                let _claim = claim;
                panic!("the work fails");
            }
        });
        assert!(panicking.join().is_err());
        assert!(!is_claimed(admin, thread));
        claim().hand_off(admin.id()).unwrap();
        assert_eq!(admin.call(&GetClaim::new(thread)).unwrap().holder, admin.id());
        let own = admin.claim(thread, &ClaimOptions::new().resume(true)).unwrap();
        own.release().unwrap();
        drop(own);
        assert!(!is_claimed(admin, thread));
        let lease = claim().keep();
        assert_eq!(admin.call(&GetClaim::new(thread)).unwrap().claim_lease_id, lease);
        let resumed = agent.claim(thread, &ClaimOptions::new().resume(true)).unwrap();
        assert_eq!(resumed.lease_id(), lease);
        embedded.service.clone().close().unwrap();
        assert_eq!(resumed.lost().unwrap().code(), Code::Closing);
        let service = embedded.place.builder().open().unwrap();
        let admin = service.member(&embedded.established.token.secret).unwrap();
        assert!(!is_claimed(&admin, thread), "closing releases claims");
    });
}

#[test]
fn an_end_from_outside_is_noticed_and_every_later_change_fails() {
    type End = fn(&Member, &Claim);
    let ends: [(&str, End, Code); 3] = [
        (
            "cancelled",
            |admin, claim| {
                drop(admin.call(&CancelThread::new(claim.thread().id, "no longer wanted")).unwrap())
            },
            Code::StaleClaim,
        ),
        (
            "released",
            |admin, claim| {
                let request = ReleaseClaim::new(claim.thread().id, claim.lease_id());
                drop(admin.call(&request).unwrap());
            },
            Code::StaleClaim,
        ),
        (
            "frozen",
            |admin, claim| {
                let holder = claim.thread().held.as_ref().unwrap().holder;
                admin.call(&FreezeMember::new(holder)).unwrap();
            },
            Code::MemberFrozen,
        ),
    ];
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        for (name, end, _) in ends {
            let thread = task(&admin, name);
            let claim = agent.claim(thread, &ClaimOptions::new().lease(Duration::from_secs(3_600))).unwrap();
            let (sender, receiver) = mpsc::channel();
            claim.on_lost(|_| panic!("a callback that panics prevents no other"));
            let late = sender.clone();
            claim.on_lost(move |reason| sender.send(reason.code()).unwrap());
            end(&admin, &claim);
            let reason = receiver.recv_timeout(Duration::from_secs(60)).expect(name);
            assert_eq!(claim.lost().unwrap().code(), reason, "{name}");
            assert!(!claim.is_live());
            for refused in [
                claim.post("late").map(drop),
                claim.checkpoint(json!({})),
                claim.finish(json!({})),
                claim.release(),
            ] {
                assert_eq!(refused.unwrap_err().code(), reason, "{name}");
            }
            claim.on_lost(move |reason| late.send(reason.code()).unwrap());
            assert_eq!(receiver.recv_timeout(Duration::from_secs(60)).unwrap(), reason);
            let messages = admin.call(&ListMessages::new(thread)).unwrap();
            assert!(messages.items.iter().all(|message| message.author_id != Some(agent.id())), "{name}");
        }
        admin.call(&UnfreezeMember::new(agent.id())).unwrap();
    });
}

#[test]
fn claims_are_renewed_until_their_holder_is_gone() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        let short =
            ClaimOptions::new().lease(Duration::from_secs(svc_core::limits::LEASE_MIN_SECS.unsigned_abs()));
        let thread = task(&admin, "general");
        let claim = agent.claim(thread, &short).unwrap();
        let until = || admin.call(&GetClaim::new(thread)).unwrap().lease_expires_at;
        let first = until();
        // The renewal comes after a third of the lease.
        let renewal = WaitForEvent::new(claim.thread().lsn).kind("ClaimRenewed").timeout_secs(60);
        admin.call(&renewal).unwrap();
        let renewed = until();
        assert!(renewed > first && claim.is_live());
    });
}

#[test]
fn ending_a_claim_is_no_loss_and_costs_no_renewal() {
    on_engines(|engine| {
        let Embedded { admin, agent, place: _place, .. } = Embedded::new(engine);
        let channel = admin.call(&CreateChannel::new("general")).unwrap();
        let before = admin.call(&CreateThread::new(channel.id, "first")).unwrap().lsn;
        for number in 0..40 {
            admin.call(&CreateThread::new(channel.id, format!("task {number}"))).unwrap();
        }
        let lost = svc_tests::in_parallel(4, |_| {
            let mut lost = 0;
            while let Some(claim) = agent.claim_next(&ClaimOptions::new().channel(channel.id)).unwrap() {
                claim.finish(json!({})).unwrap();
                lost += usize::from(claim.lost().is_some());
            }
            lost
        });
        assert_eq!(lost, [0; 4]);
        let renewals = admin.events(Since::Lsn(before), &Filter::new().kind("ClaimRenewed")).unwrap();
        let stopper = renewals.stopper();
        let mut renewals = renewals;
        assert!(renewals.next_within(Duration::ZERO).unwrap().is_none());
        stopper.stop();
    });
}

#[test]
fn a_claim_that_this_process_holds_is_not_resumed_a_second_time() {
    let Embedded { admin, agent, place: _place, .. } = Embedded::new(svc_core::Engine::Sqlite);
    let thread = task(&admin, "general");
    let resuming = ClaimOptions::new().resume(true);
    let claim = agent.claim_next(&resuming).unwrap().unwrap();
    assert_eq!(claim.thread().id, thread);
    assert!(agent.claim_next(&resuming).unwrap().is_none());
    assert_eq!(agent.claim(thread, &resuming).unwrap_err().code(), Code::NotClaimable);
    assert!(claim.is_live() && is_claimed(&admin, thread));
}
