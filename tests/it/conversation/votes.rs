//! Votes: ballots, ends, and the removal of the question's text.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::id::VoteId;
use svc_tests::client::Answer;
use svc_tests::{Person, World, on_both_engines, text};

fn open(world: &World, more: Value) -> Value {
    let mut input = json!({"thread_id": world.id("thread"), "question": "When do we ship?",
                           "options": ["today", "tomorrow", "never"]});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.agent("create_vote", input)
}

fn cast(world: &World, token: &str, vote: &Value, options: Value) -> Answer {
    world.call(token, "cast_vote", json!({"vote_id": vote["id"], "options": options}))
}

fn close(world: &World, token: &str, vote: &Value) -> Answer {
    world.call(token, "close_vote", json!({"vote_id": vote["id"]}))
}

fn read(world: &World, vote: &Value) -> Value {
    world.agent("get_vote", json!({"vote_id": vote["id"]}))
}

/// Returns the voters of each option.
fn voters(vote: &Value) -> Vec<Vec<String>> {
    let options = vote["options"].as_array().unwrap().iter();
    let voters: Vec<Vec<String>> = options
        .map(|option| {
            let voters: Vec<String> = option["voter_ids"].as_array().unwrap().iter().map(text).collect();
            assert_eq!(option["votes"], json!(voters.len()));
            voters
        })
        .collect();
    voters
}

/// The number of voters of each option and of each vote, from the ballots.
const COUNTS: &str = "
    select vote_id, choice, count(*) from ballots group by vote_id, choice
    union all select vote_id, -1, count(distinct member_id) from ballots group by vote_id";

/// Returns how many counts differ from the ballots.
pub fn wrong_counts(world: &World) -> i64 {
    let stored = "select vote_id, choice, total from ballot_counts where total <> 0";
    world.database.number(&format!(
        "select (select count(*) from (select * from ({COUNTS}) c except {stored}) missing)
             + (select count(*) from ({stored} except select * from ({COUNTS}) c) wrong)"
    ))
}

/// Returns the payload of the last event of a kind.
fn last(world: &World, kind: &str) -> Value {
    let input = json!({"thread_id": world.id("thread"), "limit": 500});
    let events = world.agent("list_thread_events", input);
    let found = events["items"].as_array().unwrap().iter().rfind(|event| event["kind"] == kind);
    found.unwrap()["payload"].clone()
}

#[test]
fn each_member_has_one_ballot_that_it_may_change_while_the_vote_is_open() {
    on_both_engines(|world| {
        let [one, two, three] = ["one", "two", "three"].map(|name| Person::new(world, name));
        let before = world.lsn();
        let vote = open(world, json!({}));
        assert_eq!(world.kinds_after(before), ["VoteOpened", "MessagePosted"]);
        assert_eq!((&vote["lsn"], &vote["created_by"]), (&json!(before + 1), &json!(world.id("agent"))));
        let texts: Vec<&Value> =
            vote["options"].as_array().unwrap().iter().map(|option| &option["text"]).collect();
        assert_eq!(texts, ["today", "tomorrow", "never"]);
        let message = world.agent("get_message", json!({"message_id": vote["message_id"]}));
        assert_eq!(message["body"], "When do we ship?");
        let block = json!([{"type": "vote", "vote_id": vote["id"], "question": "When do we ship?",
                            "options": ["today", "tomorrow", "never"]}]);
        assert_eq!(message["content"], block);
        let edit = json!({"message_id": vote["message_id"], "content": []});
        world.call(&world.people.agent, "edit_message", edit).refused(409, "wrong-state");

        let before = world.lsn();
        let cast_by = |person: &Person, options: Value| cast(world, &person.token, &vote, options);
        let after = cast_by(&one, json!([0])).output();
        assert_eq!(voters(&after), [vec![one.id.clone()], vec![], vec![]]);
        assert_eq!(cast_by(&one, json!([0])).output(), after, "the same again changes nothing");
        cast_by(&two, json!([0])).output();
        // A delegate votes for its subject.
        let after = cast(world, &two.acting_for(world, &three.id), &vote, json!([2])).output();
        assert_eq!(voters(&after), [vec![one.id.clone(), two.id.clone()], vec![], vec![three.id.clone()]]);
        cast_by(&two, json!([1])).output();
        let after = cast_by(&one, json!([])).output();
        assert_eq!(voters(&after), [vec![], vec![two.id.clone()], vec![three.id.clone()]]);
        assert_eq!(read(world, &vote), after);
        let kinds = world.kinds_after(before);
        assert_eq!(kinds.iter().filter(|kind| *kind == "BallotCast").count(), 5, "{kinds:?}");
        for options in [json!([3]), json!([-1]), json!([0, 1]), json!("today")] {
            cast_by(&one, options).refused(400, "malformed-request");
        }
        let cast = last(world, "BallotCast");
        assert_eq!((&cast["member_id"], &cast["options"]), (&json!(one.id), &json!([])));

        close(world, &one.token, &vote).refused(403, "forbidden");
        let closed = close(world, &world.people.agent, &vote).output();
        assert_eq!(closed["closed_by"], json!(world.id("agent")));
        assert!(!closed["closed_at"].is_null());
        assert_eq!(close(world, &world.people.admin, &vote).output(), closed);
        cast_by(&one, json!([1])).refused(409, "wrong-state");
        let event = last(world, "VoteClosed");
        assert_eq!((&event["tally"], &event["ballots"]), (&json!([0, 1, 1]), &json!(2)));
        assert_eq!(event["reason"], "closed");

        let several = open(world, json!({"multiple": true}));
        self::cast(world, &two.token, &several, json!([1, 2])).output();
        self::cast(world, &one.token, &several, json!([0, 1])).output();
        self::cast(world, &two.token, &several, json!([])).output();
        let after = self::cast(world, &one.token, &several, json!([2, 0, 2])).output();
        assert_eq!(voters(&after), [vec![one.id.clone()], vec![], vec![one.id.clone()]]);
        close(world, &world.people.admin, &several).output();
        let event = last(world, "VoteClosed");
        assert_eq!((&event["tally"], &event["ballots"]), (&json!([1, 0, 1]), &json!(1)));
        assert_eq!(wrong_counts(world), 0);
        let listed = world.agent("list_votes", json!({"thread_id": world.id("thread"), "limit": 500}));
        let listed: Vec<&Value> = listed["items"].as_array().unwrap().iter().collect();
        assert_eq!(listed[listed.len() - 2..], [&read(world, &vote), &read(world, &several)]);
    });
}

#[test]
fn a_vote_closes_at_its_time_and_with_its_question() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let at = |secs: u64| json!(world.clock.now().plus(Duration::from_secs(secs)));
        let soon = at(60);
        let due = open(world, json!({"closes_at": soon}));
        let later = open(world, json!({"closes_at": at(3600)}));
        let past = json!({"thread_id": world.id("thread"), "question": "?", "options": ["a", "b"],
                          "closes_at": at(0)});
        world.call(agent, "create_vote", past).refused(400, "malformed-request");
        cast(world, agent, &due, json!([1])).output();
        world.clock.advance(Duration::from_secs(60));
        // The vote is closed before the event comes.
        let before = world.lsn();
        assert_eq!((&read(world, &due)["closed_at"], world.lsn()), (&soon, before));
        cast(world, agent, &due, json!([0])).refused(409, "wrong-state");
        assert_eq!(close(world, agent, &due).output()["closed_by"], Value::Null);
        assert_eq!(world.lsn(), before);
        world.pass(Duration::ZERO);
        assert_eq!(world.kinds_after(before), ["VoteClosed"]);
        let event = last(world, "VoteClosed");
        assert_eq!((&event["tally"], &event["reason"]), (&json!([0, 1, 0]), &json!("due")));
        assert_eq!((&event["closed_by"], &read(world, &due)["closed_at"]), (&Value::Null, &soon));

        cast(world, agent, &later, json!([2])).output();
        let before = world.lsn();
        world.admin("delete_message", json!({"message_id": later["message_id"]}));
        assert_eq!(world.kinds_after(before), ["MessageTombstoned", "VoteClosed"]);
        let event = last(world, "VoteClosed");
        assert_eq!((&event["tally"], &event["reason"]), (&json!([0, 0, 1]), &json!("withdrawn")));
        assert_eq!(event["closed_by"], json!(world.id("admin")));
        let blank = read(world, &later);
        assert_eq!((&blank["question"], &blank["options"][2]["text"]), (&json!(""), &json!("")));
        assert_eq!(
            (&blank["options"][2]["votes"], blank["options"].as_array().unwrap().len()),
            (&json!(1), 3)
        );
        cast(world, agent, &later, json!([0])).refused(409, "wrong-state");
        world.admin("purge_message", json!({"message_id": later["message_id"]}));
        world.call(agent, "get_vote", json!({"vote_id": later["id"]})).refused(404, "not-found");
        let id = world.database.id(text(&later["id"]).parse::<VoteId>().unwrap());
        let left = format!("select count(*) from ballots where vote_id = {id}");
        assert_eq!(world.database.number(&left), 0);
        assert_eq!(world.database.number(&left.replace("ballots", "ballot_counts")), 0);
        assert_eq!(wrong_counts(world), 0);
    });
}

/// A pruned question hides its vote, and the log closes one that was open.
#[test]
fn a_vote_goes_with_its_pruned_question() {
    on_both_engines(|world| {
        let vote = open(world, json!({}));
        cast(world, &world.people.agent, &vote, json!([1])).output();
        let keep = json!({"workspace_id": world.id("workspace"), "messages_days": 10});
        world.admin("set_retention_policy", keep);
        world.clock.advance(Duration::from_secs(11 * 86_400));
        world.pass(Duration::ZERO);
        world.call(&world.people.agent, "get_vote", json!({"vote_id": vote["id"]})).refused(404, "not-found");
        let listed = world.agent("list_votes", json!({"thread_id": world.id("thread")}));
        assert_eq!(listed["items"], json!([]));
        let left = "select (select count(*) from votes) + (select count(*) from ballots)
             + (select count(*) from ballot_counts)";
        assert_eq!(world.database.number(left), 0);
        assert_eq!(last(world, "VoteClosed")["tally"], json!([0, 1, 0]));
        let verified = world.agent("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified["valid"], true);
    });
}

#[test]
fn the_first_voters_of_an_option_are_listed_and_all_are_counted() {
    on_both_engines(|world| {
        let options: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let votes = [0, 1].map(|_| open(world, json!({"options": options, "multiple": true})));
        let member = match world.engine() {
            Engine::Sqlite => "randomblob(16)",
            Engine::Postgres => "gen_random_uuid()",
        };
        for vote in &votes {
            let id = world.database.id(text(&vote["id"]).parse::<VoteId>().unwrap());
            let all = "insert into ballots (vote_id, choice, member_id, lsn)";
            world
                .database
                .insert_many(20 * 300, &format!("{all} select {id}, n.i % 20, {member}, n.i from n"));
        }
        world.database.execute(&format!("delete from ballot_counts; insert into ballot_counts {COUNTS}"));
        let after = cast(world, &world.people.agent, &votes[0], json!([19])).output();
        for (number, option) in after["options"].as_array().unwrap().iter().enumerate() {
            assert_eq!(option["votes"], json!(if number == 19 { 301 } else { 300 }));
            assert_eq!(option["voter_ids"].as_array().unwrap().len(), 200);
        }
        assert_eq!(wrong_counts(world), 0);
        assert_eq!(read(world, &votes[0]), after);
        // A page ends with the vote that has too many voters for more.
        let page = |cursor: &Value| {
            let input = json!({"thread_id": world.id("thread"), "limit": 500, "cursor": cursor});
            world.agent("list_votes", input)
        };
        let first = page(&json!(null));
        assert_eq!(first["items"].as_array().unwrap().last(), Some(&after));
        let second = page(&first["next_cursor"]);
        assert_eq!(second["items"], json!([read(world, &votes[1])]));
        assert_eq!(second["next_cursor"], json!(null));
    });
}

#[test]
fn nothing_is_voted_on_in_an_archived_channel() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let channel = world.new_channel("attic to be");
        let thread = world.new_thread(&channel, "old");
        let input = json!({"thread_id": thread, "question": "Keep it?", "options": ["yes", "no"]});
        let vote = world.agent("create_vote", input.clone());
        cast(world, agent, &vote, json!([0])).output();
        world.admin("archive_channel", json!({"channel_id": channel}));
        world.call(agent, "create_vote", input).refused(409, "wrong-state");
        cast(world, agent, &vote, json!([1])).refused(409, "wrong-state");
        assert!(!close(world, agent, &vote).output()["closed_at"].is_null());
    });
}
