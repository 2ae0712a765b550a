//! Files: uploads and exports of one workspace leave places and disk space for others.

use serde_json::{Value, json};
use svc_http::HttpSettings;
use svc_tests::attacks::AttackNeeds;
use svc_tests::attacks::ground::AttackSize;
use svc_tests::attacks::places::{JUNK_BYTES, junk_file, stopped_files};
use svc_tests::attacks::streams::exports;
use svc_tests::attacks::wire::{connect, source};
use svc_tests::runtime;

use super::arena::{Arena, on_each_engine, settled};

/// Files that are transferred at the same time, and the number of them that one workspace may have.
const FILES: usize = 8;
const ALONE: usize = FILES / 4 * 3;
/// Copies of workspaces that a workspace may import in a day.
const IMPORTS: usize = 10;

/// Verifies a file as the victim.
fn verify(arena: &Arena) {
    let file: Value = serde_json::from_slice(&arena.ground.arms.victims_export).unwrap();
    let verified = arena.victim("POST", "/workspaces/export/verify", Some(&file));
    assert_eq!(verified.status, 200, "{:#}", verified.body);
}

#[test]
fn files_that_stop_leave_places_for_others() {
    on_each_engine(AttackNeeds::Export, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(stopped_files(ground, tally)));
        let held = settled("the attacker gets no more places", || attack.tally.count(100));
        verify(arena);
        arena.serves_the_victim();
        assert!(held <= ALONE, "{held} files are awaited");
    });
}

#[test]
fn a_file_that_is_no_export_is_rejected_before_it_has_arrived() {
    on_each_engine(AttackNeeds::Export, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let (answered, sent) = runtime().block_on(async {
            let mut stream = connect(arena.world.address(), source(0)).await.unwrap();
            junk_file(&mut stream, &arena.ground.arms.admins[0]).await.expect("a response")
        });
        assert_eq!(answered, 400);
        // Drop the rest, so that the client sees the response, which arrives before the end.
        assert!(sent < JUNK_BYTES, "{sent} bytes were taken");
        verify(arena);
    });
}

#[test]
fn an_export_that_is_not_read_keeps_its_place() {
    on_each_engine(AttackNeeds::Export, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(exports(ground, tally)));
        let held = settled("the attacker gets no more files", || attack.tally.count(200));
        let target = format!("/workspaces/{}/export", arena.ground.victim.workspace_id);
        assert_eq!(arena.victim("GET", &target, None).status, 200);
        verify(arena);
        arena.serves_the_victim();
        assert!(held <= ALONE, "{held} exports are unread");
    });
}

#[test]
fn a_workspace_makes_so_many_copies_a_day() {
    on_each_engine(AttackNeeds::Export, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let import = |token: &str, file: &[u8], more: &str| {
            let (file, target): (Value, _) =
                (serde_json::from_slice(file).unwrap(), format!("/workspaces/import?mode=new{more}"));
            arena.world.rest().send(Some(token), "POST", &target, &[], Some(&file))
        };
        let arms = &arena.ground.arms;
        let attack = |number: usize| import(&arms.admins[number % arms.admins.len()], &arms.export, "");
        let made: Vec<u16> = (0..IMPORTS).map(|number| attack(number).status).collect();
        assert_eq!(made, [201; IMPORTS]);
        let refused = attack(IMPORTS);
        assert!(refused.headers.contains_key("retry-after"), "{refused:?}");
        refused.refused(429, "rate-limited");
        let copied = import(&arena.ground.victim.admin, &arms.victims_export, "&admin_handle=boss");
        assert_eq!(copied.status, 201, "{:#}", copied.body);
        assert_ne!(copied.body["admin_token"], json!(null));
        arena.serves_the_victim();
    });
}
