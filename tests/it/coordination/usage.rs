//! Usage reports: each counts once, and they are summed by member and model.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::time::Time;
use svc_tests::{on_both_engines, text};

use crate::coordination::budgets::{budget, claim, limited, report, with};

#[test]
fn a_report_counts_once_and_keeps_its_first_answer() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_tokens": 1000}));
        let lease = claim(world, &thread, 60);
        let numbers = json!({"tokens": 300, "usd_micros": 7, "turns": 2, "model": "large"});
        let first = report(world, &thread, &lease, "r-1", numbers.clone());
        let second = report(world, &thread, &lease, "r-2", json!({"tokens": 1}));
        assert_eq!(second["used"]["tokens"], 301);
        let lsn = world.lsn();
        assert_eq!(report(world, &thread, &lease, "r-1", numbers.clone()), first);
        let mut other = with(&thread, numbers.clone());
        (other["report_id"], other["claim_lease_id"]) = (json!("r-1"), json!(lease));
        for (field, value) in
            [("tokens", json!(301)), ("usd_micros", json!(8)), ("turns", json!(3)), ("model", json!("small"))]
        {
            let mut changed = other.clone();
            changed[field] = value;
            world.call(&world.people.agent, "report_usage", changed).refused(409, "report-taken");
        }
        world.call(&world.people.bystander, "report_usage", other.clone()).refused(409, "report-taken");
        let mut stolen = other.clone();
        stolen["report_id"] = json!("r-3");
        world.call(&world.people.bystander, "report_usage", stolen.clone()).refused(409, "claim-not-held");
        assert_eq!(world.lsn(), lsn, "nothing of these is stored");

        world.clock.advance(Duration::from_secs(60));
        let before = world.database.dump();
        world.call(&world.people.agent, "report_usage", stolen.clone()).refused(409, "stale-claim");
        assert_eq!(world.database.dump(), before);
        assert_eq!(report(world, &thread, &lease, "r-1", numbers.clone()), first, "lapsed");
        let newer = claim(world, &thread, 60);
        world.call(&world.people.agent, "report_usage", stolen).refused(409, "stale-claim");
        assert_eq!(report(world, &thread, &lease, "r-1", numbers), first, "under a newer claim");
        report(world, &thread, &newer, "r-4", json!({"turns": 1, "model": "large"}));

        let reports = world.agent("list_thread_usage", with(&thread, json!({"limit": 2})));
        let ids = |page: &Value| {
            page["items"].as_array().unwrap().iter().map(|r| text(&r["report_id"])).collect::<Vec<_>>()
        };
        assert_eq!(ids(&reports), ["r-1", "r-2"]);
        let more = json!({"limit": 2, "cursor": reports["next_cursor"]});
        assert_eq!(ids(&world.agent("list_thread_usage", with(&thread, more))), ["r-4"]);
        assert_eq!(budget(world, &thread)["used"]["tokens"], 301);
    });
}

/// One day, in microseconds.
const DAY: i64 = 86_400_000_000;

#[test]
fn models_beyond_the_first_of_a_day_are_one_sum() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("secret");
        let thread = world.new_thread(&channel, "a task");
        let lease =
            world.admin("claim_thread", with(&thread, json!({"lease_secs": 600_000})))["claim_lease_id"]
                .clone();
        let mut number = 0;
        let mut report = |model: Value| {
            number += 1;
            let numbers = json!({"report_id": format!("{number}"), "claim_lease_id": lease, "tokens": 1,
                                 "model": model});
            world.admin("report_usage", with(&thread, numbers));
        };
        report(Value::Null);
        (0..60).for_each(|model| report(json!(format!("model {model}"))));
        for again in [json!("model 3"), json!("model 59"), json!("other"), Value::Null] {
            report(again);
        }
        let reports = |model: Value| {
            let usage = world.agent("get_workspace_usage", json!({"workspace_id": world.id("workspace")}));
            let sums = usage["items"].as_array().unwrap().clone();
            let of_admin: Vec<&Value> =
                sums.iter().filter(|sum| sum["member_id"] == json!(world.id("admin"))).collect();
            let found = of_admin.iter().find(|sum| sum["model"] == model);
            (of_admin.len(), found.map_or(0, |sum| sum["reports"].as_i64().unwrap()))
        };
        for (model, count) in [
            (json!("model 0"), 1),
            (json!("model 3"), 2),
            (json!("model 49"), 1),
            (json!("model 50"), 0),
            (json!("other"), 10 + 1 + 1),
            (Value::Null, 2),
        ] {
            assert_eq!(reports(model.clone()), (52, count), "{model}");
        }
        // Usage in a private channel is part of the sums that another member reads.
        let seen = world.call(&world.people.agent, "list_thread_usage", with(&thread, json!({})));
        seen.refused(404, "not-found");
    });
}

#[test]
fn so_many_sums_are_added_up_that_the_days_are_whole() {
    on_both_engines(|world| {
        let today = world.clock.now().micros().div_euclid(DAY);
        let [workspace, agent] = ["workspace", "agent"].map(|name| world.database.id(world.id(name)));
        let fill = |days: i64, of_each: i64| {
            let last = days * of_each - 1;
            world.database.execute(&format!(
                "delete from usage_totals;
                 insert into usage_totals
                     (workspace_id, day, member_id, model, reports, tokens, usd_micros, turns)
                 with recursive sums (number) as (
                     select 0 union all select number + 1 from sums where number < {last})
                 select {workspace}, {today} - number / {of_each}, {agent}, 'model ' || (number % {of_each}),
                     1, 1, 0, 0
                 from sums"
            ));
        };
        let day = |days_ago: i64| json!(Time::from_micros((today - days_ago) * DAY));
        let usage = |days_ago: i64| {
            let input = json!({"workspace_id": world.id("workspace"), "since": day(days_ago)});
            let usage = world.agent("get_workspace_usage", input);
            let sums = usage["items"].as_array().unwrap().iter();
            let reports: i64 = sums.map(|sum| sum["reports"].as_i64().unwrap()).sum();
            (usage["since"].clone(), reports)
        };
        fill(12, 1_000);
        assert_eq!(usage(5), (day(5), 6_000));
        assert_eq!(usage(8), (day(8), 9_000));
        assert_eq!(usage(11), (day(8), 9_000), "the days that are whole");
        fill(1, 11_000);
        assert_eq!(usage(11), (day(0), 1_000), "today in any case, and of that the largest sums");
    });
}

#[test]
fn the_usage_of_a_workspace_is_summed_by_member_and_model_from_a_day_on() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        let lease = claim(world, &thread, 600_000);
        let begin = world.clock.now();
        report(world, &thread, &lease, "1", json!({"tokens": 10, "model": "large"}));
        report(world, &thread, &lease, "2", json!({"tokens": 5, "turns": 1, "model": "large"}));
        world.clock.advance(Duration::from_secs(2 * 86_400));
        let later = world.clock.now();
        report(world, &thread, &lease, "3", json!({"tokens": 100, "usd_micros": 3}));
        report(world, &thread, &lease, "4", json!({"tokens": 1, "model": "large"}));
        let sums = |since: Value| {
            let page = world
                .agent("get_workspace_usage", json!({"workspace_id": world.id("workspace"), "since": since}));
            assert_eq!(page["next_cursor"], Value::Null);
            page["items"].as_array().unwrap().clone()
        };
        let sum = |model: Value, numbers: [i64; 4]| {
            let [reports, tokens, usd_micros, turns] = numbers;
            json!({"member_id": world.id("agent"), "model": model, "reports": reports, "tokens": tokens,
                   "usd_micros": usd_micros, "turns": turns})
        };
        let unnamed = sum(Value::Null, [1, 100, 3, 0]);
        let all = [unnamed.clone(), sum(json!("large"), [3, 16, 0, 1])];
        assert_eq!(sums(Value::Null), all);
        let usage = |since: Value| {
            world.agent("get_workspace_usage", json!({"workspace_id": world.id("workspace"), "since": since}))
        };
        let day = |micros: i64| json!(Time::from_micros(micros.div_euclid(DAY) * DAY));
        assert_eq!(usage(json!(later))["since"], day(later.micros()), "the beginning of the day");
        assert_eq!(usage(Value::Null)["since"], day(later.micros() - 30 * DAY));
        world.clock.advance(Duration::from_secs(29 * 86_400));
        assert_eq!(sums(Value::Null), sums(json!(later)), "the first day is 31 days ago");
        world.clock.set(later);
        assert_eq!(sums(json!(begin)), all, "the whole day counts");
        assert_eq!(sums(json!(later)), [unnamed, sum(json!("large"), [1, 1, 0, 0])]);
    });
}
