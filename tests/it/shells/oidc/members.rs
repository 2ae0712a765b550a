//! The member that a person becomes by a sign-in at the provider.

use std::collections::BTreeSet;

use serde_json::json;
use svc_tests::provider::Provider;
use svc_tests::{Setup, in_parallel, text};

use super::{
    at, begin, come, come_from, cookie_of, count, found, get, left, location, mock, on_both, open_to_all,
    person, session, set,
};

#[test]
fn somebody_joins_by_signing_in_and_is_found_again() {
    on_both(open_to_all, |world| {
        let lsn = world.lsn();
        let who = "&sub=1&email=Ada.L%40Corp.example&name=Ada%20Lovelace&return_to=/ui/threads/1?a=b";
        let first = come(world, who);
        assert_eq!(location(&first), "/ui/threads/1?a=b");
        let joined = session(world, &first);
        assert_eq!((&joined["handle"], &joined["kind"]), (&json!("ada.l@corp.example"), &json!("human")));
        let able = [
            "workspace:read",
            "workspace:write",
            "message:post",
            "thread:transition",
            "artifact:upload",
            "search:query",
            "event:subscribe",
        ];
        let held: Vec<String> = joined["capabilities"].as_array().unwrap().iter().map(text).collect();
        assert!(held.len() == able.len() && able.iter().all(|able| held.iter().any(|held| held == able)));
        assert_eq!(found(world), "provisioned");
        assert_eq!(world.kinds_after(lsn), ["MemberCreated", "IdentityLinked"]);
        let member = world.admin("get_member", json!({"member_id": joined["member_id"]}));
        assert_eq!(member["display_name"], "Ada Lovelace");

        let again = session(world, &come(world, "&sub=1&email=other%40corp.example&name=Other"));
        assert_eq!((&again["member_id"], found(world)), (&joined["member_id"], json!("existing")));
        assert_eq!(world.kinds_after(lsn).len(), 2, "who is known leaves no event");
        let other = session(world, &come(world, "&sub=2&email=ada.l%40corp.example"));
        assert_eq!(other["handle"], "ada.l@corp.example-2", "a taken handle gets a number");
        let nameless = session(world, &come(world, "&sub=3"));
        assert_eq!(nameless["handle"], "person");
    });
}

#[test]
fn a_person_prepared_under_the_verified_email_is_linked_once() {
    on_both(
        || Setup { link_email: true, http: mock(), ..Setup::default() },
        |world| {
            set(world, "admin", "handle = 'ada@corp.example'");
            set(world, "agent", "handle = 'bot@corp.example'");
            let linked = session(world, &come(world, "&sub=1&email=ADA%40corp.example"));
            assert_eq!((&linked["member_id"], found(world)), (&json!(world.id("admin")), json!("linked")));
            let before = left(world);
            for (who, why) in [
                ("&sub=2&email=ada%40corp.example", "the person has another subject there"),
                ("&sub=3&email=bot%40corp.example", "an agent is no person"),
                ("&sub=4&email=eve%40corp.example", "nobody is prepared"),
                ("&sub=5", "there is no email"),
            ] {
                assert_eq!((come(world, who).refused(403, "forbidden"), left(world)).1, before, "{why}");
            }
            let known = session(world, &come(world, "&sub=1"));
            assert_eq!((&known["member_id"], found(world)), (&linked["member_id"], json!("existing")));
        },
    );
}

#[test]
fn a_person_is_linked_by_an_email_of_any_script_that_is_the_same_but_for_case() {
    on_both(
        || Setup { link_email: true, ..open_to_all() },
        |world| {
            set(world, "admin", "handle = 'ädä@corp.example'");
            let linked = session(world, &come(world, "&sub=1&email=%C3%84D%C3%84%40Corp.example"));
            assert_eq!((&linked["member_id"], found(world)), (&json!(world.id("admin")), json!("linked")));
            set(world, "person", "handle = 'bob@corp.example'");
            // Full-width letters appear the same, but may belong to another person at the provider.
            let other = session(world, &come(world, "&sub=2&email=%EF%BD%82ob%40corp.example"));
            assert_eq!((&other["handle"], found(world)), (&json!("person"), json!("provisioned")));
        },
    );
}

#[test]
fn without_leave_nobody_is_linked_and_nobody_joins() {
    on_both(
        || Setup { http: mock(), ..Setup::default() },
        |world| {
            set(world, "admin", "handle = 'ada@corp.example'");
            let before = left(world);
            come(world, "&sub=1&email=ada%40corp.example").refused(403, "forbidden");
            assert_eq!(left(world), before);
        },
    );
}

#[test]
fn who_was_deactivated_is_turned_away_and_never_joins_again() {
    on_both(
        || Setup { link_email: true, ..open_to_all() },
        |world| {
            session(world, &come(world, "&sub=1&email=ada%40corp.example"));
            world.database.execute("update members set deactivated_at = 1 where handle = 'ada@corp.example'");
            set(world, "agent", "handle = 'eve@corp.example', deactivated_at = 1");
            // A directory may have prepared people with emails in any script.
            set(world, "person", "handle = 'ädä@corp.example', deactivated_at = 1");
            let before = left(world);
            for who in [
                "&sub=1",
                "&sub=2&email=ada%40corp.example",
                "&sub=3&email=eve%40corp.example",
                "&sub=4&email=%C3%84D%C3%84%40Corp.example",
                "&sub=5&email=%EF%BD%81da%40corp.example",
            ] {
                come(world, who).refused(403, "forbidden");
                assert_eq!(left(world), before, "{who}");
            }
        },
    );
}

#[test]
fn an_email_that_is_not_verified_links_nobody_and_is_no_handle() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            set(world, "admin", "handle = 'ada@corp.example'");
            for (sub, verified) in [("1", json!(false)), ("2", json!(null))] {
                let person = json!({"sub": sub, "email": "ada@corp.example", "email_verified": verified});
                let joined = session(world, &come_from(world, &provider, &person, |_| ()));
                assert_ne!(joined["member_id"], json!(world.id("admin")), "{verified}");
                assert!(!text(&joined["handle"]).contains('@'), "{verified}");
            }
            let linked = session(world, &come_from(world, &provider, &person(), |_| ()));
            assert_eq!(linked["member_id"], json!(world.id("admin")), "a control");
        },
    );
}

#[test]
fn somebody_who_comes_twice_at_once_joins_once() {
    on_both(open_to_all, |world| {
        let came = [0; 4].map(|_| begin(world, "&sub=1&email=ada%40corp.example"));
        let answers = in_parallel(4, |one| get(world, &came[one].sent_to, Some(&came[one].cookie)));
        let members: BTreeSet<String> =
            answers.iter().map(|answer| text(&session(world, answer)["member_id"])).collect();
        assert_eq!((members.len(), count(world, "oidc_identities")), (1, 1));
    });
}

#[test]
fn people_of_one_name_have_handles_of_their_own() {
    on_both(open_to_all, |world| {
        let handles: Vec<String> = (0..22)
            .map(|sub| text(&session(world, &come(world, &format!("&sub={sub}&name=Ada%20L.")))["handle"]))
            .collect();
        assert_eq!(handles[..3], ["ada-l", "ada-l-2", "ada-l-3"]);
        assert_eq!(handles.iter().collect::<BTreeSet<_>>().len(), handles.len(), "{handles:?}");
    });
}

#[test]
fn a_frozen_member_signs_in_and_only_reads() {
    on_both(open_to_all, |world| {
        let member = session(world, &come(world, "&sub=1"))["member_id"].clone();
        world.admin("freeze_member", json!({"member_id": member}));
        let answer = come(world, "&sub=1");
        assert_eq!(session(world, &answer)["frozen"], true);
        let cookie = cookie_of(&answer, "svc_session").unwrap();
        let path = format!("/workspaces/{}/channels", world.id("workspace"));
        let channel = json!({"name": "frozen"});
        let made = world.rest().send(None, "POST", &path, &[("cookie", &cookie)], Some(&channel));
        made.refused(403, "member-frozen");
    });
}

/// The way into a workspace whose people have only the provider.
#[test]
fn the_first_to_sign_in_can_become_the_administrator() {
    on_both(
        || Setup { first_admin: true, ..open_to_all() },
        |world| {
            let cookie = cookie_of(&come(world, "&sub=1"), "svc_session").unwrap();
            let mint = || {
                let headers = [("cookie", cookie.as_str())];
                world.rest().send(None, "POST", "/auth/session/mint", &headers, Some(&json!({})))
            };
            mint().refused(409, "wrong-state");
            world.database.execute("update tokens set revoked_at = 1");
            let token = text(&mint().output()["secret"]);
            let me = world.call(&token, "whoami", json!({})).output();
            assert!(me["capabilities"].as_array().unwrap().contains(&json!("token:admin")));
            mint().refused(409, "wrong-state");
        },
    );
}
