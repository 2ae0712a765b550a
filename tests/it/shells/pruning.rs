//! The retention variables of a server.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::time::Clock;
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::site::{Site, done};

/// The age of the events that could be pruned.
const AGE: Duration = Duration::from_secs(10 * 86_400);

#[test]
fn zero_days_keep_for_ever_and_without_a_tick_nothing_is_pruned() {
    for engine in engines() {
        let site = Site::found(engine);
        let past = Clock::system().now().shifted(-i64::try_from(AGE.as_micros()).unwrap());
        let service = site.open_at(Clock::mock(past));
        let admin = &site.founders.admin;
        let made = done(&service, admin, "create_workspace", json!({"name": "Old", "admin_handle": "ada"}));
        let of = |value: &Value| value.as_str().unwrap().to_owned();
        let workspace = of(&made["workspace"]["id"]);
        let token = of(&made["token"]["secret"]);
        let call = |operation: &str, input: Value| done(&service, &token, operation, input);
        let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        call("post_message", json!({"thread_id": thread["id"], "body": "a word"}));
        drop(service);
        let id = site.database.id(workspace.parse::<uuid::Uuid>().unwrap());
        let floors = || {
            site.database.number(&format!("select floor + words_floor from heads where workspace_id = {id}"))
        };
        let kept = |days| {
            ["MESSAGES", "EVENTS", "DELIVERIES", "MEDIA"]
                .map(|what| (format!("SVC_RETENTION_{what}_DAYS"), days))
        };
        for (days, tick, is_pruned) in [("0", "1", false), ("1", "0", false), ("1", "1", true)] {
            let kept = kept(days);
            let mut variables: Vec<(&str, &str)> = kept.iter().map(|(name, days)| (&**name, *days)).collect();
            variables.push(("SVC_RETENTION_TICK_SECS", tick));
            let server = site.serve(&variables);
            let caller = server.caller(&token);
            let policy = caller.get(&format!("/workspaces/{workspace}/retention"));
            let days = if days == "0" { Value::Null } else { json!(1) };
            for what in ["messages_days", "events_days", "deliveries_days", "media_days"] {
                let found = (&policy["instance"][what], &policy["effective"][what]);
                assert_eq!(found, (&days, &days), "{what}");
            }
            if is_pruned {
                until("it is pruned", || floors() > 1);
                continue;
            }
            assert_eq!(policy["pending"]["events"] == 0, days.is_null(), "{policy}");
            // Other periodic work runs, too.
            let lapsed = || {
                let of_log = format!("from events where workspace_id = {id} and kind = 'ClaimExpired'");
                site.database.number(&format!("select count(*) {of_log}"))
            };
            let before = lapsed();
            let claim = json!({"lease_secs": 1});
            caller.post(&format!("/threads/{}/claim", of(&thread["id"])), claim);
            until("the claim has lapsed", || lapsed() > before);
            assert_eq!(floors(), 1, "{days} days, a tick of {tick}");
        }
        let outcome = site.svc(&["verify"]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}
