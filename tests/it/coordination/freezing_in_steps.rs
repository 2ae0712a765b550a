//! Changes between the steps of a freeze of a member with very many claims, or of a revocation of its token.

use std::sync::Mutex;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::{
    Feature, GuardedCall, IdempotencyKey, Operation, Read, Reply, Request, RequestHandle, Surface,
};
use svc_core::{Code, Error, Result, Service};
use svc_tests::database::engines;
use svc_tests::{Setup, World, answer_of, text};

use crate::coordination::budgets::with;
use crate::op::chores::copy_claim;

type AtStep = Box<dyn FnMut(&str) -> Result<()> + Send>;

/// A hook that runs in each step of a change: the calls that it submits run before the next step.
static AT_STEP: Mutex<Option<AtStep>> = Mutex::new(None);

fn at_step(_: &Read<'_>, operation: &Operation, _: &GuardedCall) -> Result<()> {
    AT_STEP.lock().unwrap().as_mut().map_or(Ok(()), |run| run(operation.name()))
}

fn features() -> Vec<Feature> {
    vec![Feature::new().guard(at_step)]
}

fn on_each_engine(test: impl Fn(&World)) {
    for engine in engines() {
        test(&World::with(engine, Setup { features, ..Setup::default() }));
        *AT_STEP.lock().unwrap() = None;
    }
}

fn submit(service: &Service, token: &str, operation: &str, input: &Value) -> RequestHandle {
    let request = Request::json(Surface::Rest, Some(SecretString::from(token)), input.to_string());
    service.submit(service.operation(operation).unwrap(), request, |_| {})
}

/// Creates 300 threads that the bearer of a token has claimed.
fn claimed_300_times(world: &World, token: &str) -> String {
    let thread = world.new_thread(&world.new_channel("many"), "one of many");
    world.call(token, "claim_thread", with(&thread, json!({"lease_secs": 3600}))).output();
    copy_claim(world, &thread, 299, world.clock.now().plus(Duration::from_secs(3600)).micros());
    thread
}

/// Maximum steps of a freeze: for 300 claims, and a few more.
const STEPS: usize = 8;

#[test]
fn a_freeze_ends_however_many_claims_its_member_begins_meanwhile() {
    on_each_engine(|world| {
        claimed_300_times(world, &world.people.agent);
        let service = world.service.clone();
        let token = world.people.agent.clone();
        let next = json!({"workspace_id": world.id("workspace"), "lease_secs": 3600});
        let mut steps = 0;
        let mut tickets = Vec::new();
        let (sender, counted) = std::sync::mpsc::channel();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            if operation == "freeze_member" {
                steps += 1;
                sender.send(steps).unwrap();
                let more = if steps < 40 { 200 } else { 0 };
                let claim = |_| submit(&service, &token, "claim_next_workspace_thread", &next);
                tickets.extend((0..more).map(claim));
            }
            Ok(())
        }));
        world.admin("freeze_member", json!({"member_id": world.id("agent")}));
        let steps = counted.try_iter().last().unwrap();
        assert!(steps <= STEPS, "{steps} steps, and only because the member has stopped claiming");
    });
}

#[test]
fn a_member_that_is_being_frozen_changes_nothing_between_the_steps() {
    on_each_engine(|world| {
        // Both administer the workspace, as people and agents can.
        let administers = |handle: &str| {
            let (id, agent) = world.new_agent(handle);
            let made = world.admin(
                "mint_token",
                json!({"workspace_id": world.id("workspace"), "member_id": id, "label": handle,
                       "capabilities": ["token:admin", "workspace:read"]}),
            );
            let token = text(&made["secret"]);
            world.call(&token, "whoami", json!({})).output();
            (id, agent, token)
        };
        let (rogue_id, rogue, token) = administers("rogue");
        let (keeper_id, _, keeper) = administers("keeper");
        claimed_300_times(world, &rogue);
        let service = world.service.clone();
        let back = json!({"member_id": keeper_id});
        let mut steps = 0;
        let mut tickets = Vec::new();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            steps += usize::from(operation == "freeze_member");
            // The call is queued behind the first step and before the second.
            if operation == "freeze_member" && steps == 1 {
                tickets.push(submit(&service, &token, "freeze_member", &back));
            }
            Ok(())
        }));
        let answer = world.call(&keeper, "freeze_member", json!({"member_id": rogue_id}));
        assert_eq!(answer.status, 200, "the member has frozen who freezes it: {:#}", answer.body);
    });
}

#[test]
fn a_freeze_counts_each_claim_that_it_ends() {
    on_each_engine(|world| {
        let thread = claimed_300_times(world, &world.people.agent);
        let service = world.service.clone();
        let token = world.people.agent.clone();
        let claim = with(&thread, json!({"lease_secs": 3600}));
        let mut steps = 0;
        let mut tickets = Vec::new();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            steps += usize::from(operation == "freeze_member");
            if operation == "freeze_member" && steps == 1 {
                tickets.push(submit(&service, &token, "claim_thread", &claim));
            }
            Ok(())
        }));
        let lsn = world.lsn();
        let frozen = world.admin("freeze_member", json!({"member_id": world.id("agent")}));
        *AT_STEP.lock().unwrap() = None;
        let workspace = world.database.id(world.id("workspace"));
        let ended = world.database.number(&format!(
            "select count(*) from events where workspace_id = {workspace} and lsn > {lsn}
             and kind = 'ThreadAssignmentChanged' and payload like '%\"reason\":\"frozen\"%'"
        ));
        assert_eq!(frozen["claims_released"], json!(ended));
    });
}

#[test]
fn a_person_that_is_being_removed_changes_nothing_between_the_steps() {
    on_each_engine(|world| {
        let administers = |id: &str| {
            let made = world.admin(
                "mint_token",
                json!({"workspace_id": world.id("workspace"), "member_id": id, "label": "administers",
                       "capabilities": ["token:admin", "workspace:read"]}),
            );
            let token = text(&made["secret"]);
            world.call(&token, "whoami", json!({})).output();
            token
        };
        let person = world.id("person").to_string();
        let (keeper_id, _) = world.new_agent("keeper");
        let token = administers(&person);
        let keeper = administers(&keeper_id);
        claimed_300_times(world, &world.people.agent);
        let row = world.database.id(world.id("person"));
        let all = format!("update threads set assignee_id = {row} where title = 'one of many'");
        world.database.execute(&all);
        let service = world.service.clone();
        let back = json!({"member_id": keeper_id});
        let mut steps = 0;
        let mut tickets = Vec::new();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            steps += usize::from(operation == "delete_scim_user");
            if operation == "delete_scim_user" && steps == 1 {
                tickets.push(submit(&service, &token, "freeze_member", &back));
            }
            Ok(())
        }));
        let request = Request::json(
            Surface::Scim,
            Some(SecretString::from(&*keeper)),
            json!({"id": person}).to_string(),
        );
        let answer = world.service.call(world.service.operation("delete_scim_user").unwrap(), request);
        *AT_STEP.lock().unwrap() = None;
        let removed = world
            .database
            .number(&format!("select count(*) from members where id = {row} and deactivated_at is not null"));
        assert_eq!(removed, 1, "the person has frozen who removes it: {:?}", answer.err());
    });
}

#[test]
fn what_a_freeze_that_fails_between_its_steps_has_left_ends_with_the_next_call() {
    for again in ["freeze_member", "unfreeze_member"] {
        on_each_engine(|world| {
            claimed_300_times(world, &world.people.agent);
            let freeze = json!({"member_id": world.id("agent")});
            let mut steps = 0;
            *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
                steps += usize::from(operation == "freeze_member");
                let is_second = operation == "freeze_member" && steps == 2;
                if is_second { Err(Error::new(Code::Unavailable, "nothing was changed")) } else { Ok(()) }
            }));
            let failed = world.call(&world.people.admin, "freeze_member", freeze.clone());
            let problem = failed.refused(503, "unavailable");
            assert_eq!(problem["detail"], "the change was begun and is not complete");
            let claim = json!({"channel_id": world.id("channel")});
            world.call(&world.people.agent, "claim_next_thread", claim).refused(403, "member-frozen");
            let row = world.database.id(world.id("agent"));
            let held =
                || world.database.number(&format!("select count(*) from threads where assignee_id = {row}"));
            assert!(held() > 100);
            let answer = world.admin(again, freeze);
            assert!(answer.get("claims_released").is_none_or(|count| *count == 0), "it was frozen already");
            assert_eq!(held(), 0, "{again}");
        });
    }
}

#[test]
fn of_a_freeze_and_an_unfreeze_between_its_steps_no_claim_is_left() {
    on_each_engine(|world| {
        claimed_300_times(world, &world.people.agent);
        let service = world.service.clone();
        let token = world.people.admin.clone();
        let freeze = json!({"member_id": world.id("agent")});
        let mut steps = 0;
        let mut tickets = Vec::new();
        let unfreeze = freeze.clone();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            steps += usize::from(operation == "freeze_member");
            if operation == "freeze_member" && steps == 1 {
                tickets.push(submit(&service, &token, "unfreeze_member", &unfreeze));
            }
            Ok(())
        }));
        let before = world.lsn();
        let answer = world.call(&world.people.admin, "freeze_member", freeze.clone());
        // If the unfreeze has ended first, there is no freeze to report, and not a second one.
        assert!(answer.body["claims_released"] == 300 || answer.code() == "not-found", "{answer:?}");
        world.admin("unfreeze_member", freeze);
        let frozen = world.kinds_after(before).into_iter().filter(|kind| kind == "MemberFrozen").count();
        assert_eq!(frozen, 1);
        let row = world.database.id(world.id("agent"));
        assert_eq!(
            world.database.number(&format!("select count(*) from threads where assignee_id = {row}")),
            0
        );
    });
}

/// The shared state of the steps is kept with the key, so the repeat continues that freeze.
#[test]
fn the_repeat_of_a_freeze_that_was_cut_off_is_the_same_freeze() {
    for is_lifted in [false, true] {
        on_each_engine(|world| {
            claimed_300_times(world, &world.people.agent);
            let freeze = json!({"member_id": world.id("agent")});
            let mut steps = 0;
            *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
                steps += usize::from(operation == "freeze_member");
                let is_second = operation == "freeze_member" && steps == 2;
                if is_second { Err(Error::new(Code::Unavailable, "nothing was changed")) } else { Ok(()) }
            }));
            let before = world.lsn();
            let row = world.operation("freeze_member");
            let key = [("idempotency-key", "freeze")];
            let ask = || {
                world.rest().call_by(
                    Some(&world.people.admin),
                    &key,
                    row,
                    row.http().path,
                    &with_workspace(world, &freeze),
                )
            };
            ask().refused(503, "unavailable");
            if is_lifted {
                world.admin("unfreeze_member", freeze.clone());
                ask().refused(404, "not-found");
                ask().refused(404, "not-found");
            } else {
                let first = ask();
                assert_eq!((first.status, &first.body["claims_released"]), (200, &json!(300)));
                let again = ask();
                assert_eq!((again.status, &again.body), (200, &first.body));
                assert_eq!(again.headers["idempotency-replayed"], "true");
            }
            let frozen = world.kinds_after(before).into_iter().filter(|kind| kind == "MemberFrozen").count();
            assert_eq!(frozen, 1);
        });
    }
}

fn with_workspace(world: &World, input: &Value) -> Value {
    let mut input = input.clone();
    input["workspace_id"] = json!(world.id("workspace"));
    input
}

/// A caller who may not freeze the member cannot end the freeze of another call with the same key.
#[test]
fn a_refusal_with_the_key_of_a_freeze_in_progress_ends_no_freeze() {
    on_each_engine(|world| {
        claimed_300_times(world, &world.people.agent);
        world.admin(
            "mint_token",
            json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"),
                   "label": "reaches far", "capabilities": ["workspace:read", "operator:global"]}),
        );
        let lesser = world.new_token(vec!["workspace:read", "token:admin"]);
        let input = with_workspace(world, &json!({"member_id": world.id("agent")}));
        let request = |token: &str| {
            let mut request =
                Request::json(Surface::Rest, Some(SecretString::from(token)), input.to_string());
            request.input.key = Some(IdempotencyKey::parse("freeze").unwrap());
            request
        };
        let service = world.service.clone();
        let mut other = Some(request(&lesser));
        let mut tickets = Vec::new();
        let (sender, told) = std::sync::mpsc::channel();
        *AT_STEP.lock().unwrap() = Some(Box::new(move |operation| {
            if let Some(request) = other.take_if(|_| operation == "freeze_member") {
                let sender = sender.clone();
                let tell =
                    move |reply: Result<Reply>| sender.send(reply.map(drop).map_err(|e| e.code())).unwrap();
                tickets.push(service.submit(service.operation("freeze_member")?, request, tell));
            }
            Ok(())
        }));
        let operation = world.service.operation("freeze_member").unwrap();
        let frozen = answer_of(world.service.call(operation, request(&world.people.admin))).output();
        assert_eq!(frozen["claims_released"], 300);
        assert_eq!(told.recv().unwrap(), Err(Code::Forbidden));
        assert!(world.service.call(operation, request(&world.people.admin)).unwrap().is_repeated);
    });
}

/// Creates a worker with 300 claims, whose only token may revoke tokens. Returns its id, the id of the token
/// and its secret.
fn worker_with_300_claims(world: &World) -> (String, Value, String) {
    let (member, _) = world.new_agent("busy");
    let listed = json!({"workspace_id": world.id("workspace"), "member_id": member});
    let first = world.admin("list_tokens", listed)["items"][0]["id"].clone();
    let made = world.admin("mint_token", minted_for(world, &member));
    world.admin("revoke_token", json!({"token_id": first}));
    let secret = text(&made["secret"]);
    claimed_300_times(world, &secret);
    (member, made["id"].clone(), secret)
}

fn minted_for(world: &World, member: &str) -> Value {
    json!({"workspace_id": world.id("workspace"), "member_id": member,
           "capabilities": ["token:admin", "workspace:read", "thread:transition"]})
}

/// Revokes a token with its claims, while another operation runs between the first two steps. Checks that the
/// answer and the audit log count the claims that ended, and returns the answer.
fn revoked_beside(world: &World, caller: &str, token: &Value, beside: (&str, &str, Value)) -> Value {
    let service = world.service.clone();
    let other = beside.0.to_owned();
    let operation = beside.1.to_owned();
    let input = beside.2;
    let mut steps = 0;
    let mut tickets = Vec::new();
    *AT_STEP.lock().unwrap() = Some(Box::new(move |running| {
        steps += usize::from(running == "revoke_token");
        if running == "revoke_token" && steps == 1 {
            tickets.push(submit(&service, &other, &operation, &input));
        }
        Ok(())
    }));
    let lsn = world.lsn();
    let revoke = json!({"token_id": token, "claims": "release"});
    let revoked = world.call(caller, "revoke_token", revoke).output();
    *AT_STEP.lock().unwrap() = None;
    assert_eq!(revoked["revoked_ids"], json!([token]));
    let workspace = world.database.id(world.id("workspace"));
    let ended = world.database.number(&format!(
        "select count(*) from events where workspace_id = {workspace} and lsn > {lsn}
         and kind = 'ThreadAssignmentChanged' and payload like '%\"reason\":\"released\"%'"
    ));
    assert_eq!(revoked["claims_released"], json!(ended));
    let input = json!({"workspace_id": world.id("workspace"), "limit": 100});
    let rows = world.admin("list_audit", input)["items"].as_array().unwrap().clone();
    let of_it = rows.iter().map(|row| &row["metadata"]).filter(|row| row["token_id"] == *token);
    let audited: i64 = of_it.filter_map(|row| row["claims_released"].as_i64()).sum();
    assert_eq!(audited, ended);
    revoked
}

#[test]
fn a_revocation_counts_no_claim_that_a_new_token_of_its_member_keeps() {
    on_each_engine(|world| {
        let (member, token, _) = worker_with_300_claims(world);
        let admin = &*world.people.admin;
        let revoked = revoked_beside(world, admin, &token, (admin, "mint_token", minted_for(world, &member)));
        let row = world.database.id(member.parse::<uuid::Uuid>().unwrap());
        let kept = world.database.number(&format!("select count(*) from threads where assignee_id = {row}"));
        assert!(kept > 0, "the token came between the steps");
        assert_eq!(revoked["claims_released"], json!(300 - kept));
        assert_eq!(revoked["keeps_claims"], true);
    });
}

#[test]
fn a_revocation_counts_the_claims_that_its_own_token_begins_meanwhile() {
    on_each_engine(|world| {
        let (_, token, secret) = worker_with_300_claims(world);
        let thread = world.new_thread(&world.new_channel("more"), "one more");
        let claim = with(&thread, json!({"lease_secs": 3600}));
        let revoked = revoked_beside(world, &secret, &token, (&secret, "claim_thread", claim));
        assert_eq!((&revoked["claims_released"], &revoked["keeps_claims"]), (&json!(301), &json!(false)));
    });
}
