//! Relations between messages: authors, visibility, and refutations that keep a thread open.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{Person, World, on_both_engines, text};

use super::{go, new_thread, unmet};

fn post(world: &World, token: &str, thread: &str) -> String {
    let input = json!({"thread_id": thread, "body": "the spooler is full"});
    text(&world.call(token, "post_message", input).output()["id"])
}

fn relate(world: &World, token: &str, from: &str, to: &str, kind: &str) -> Answer {
    let input = json!({"message_id": from, "target_message_id": to, "kind": kind});
    world.call(token, "relate_message", input)
}

fn resolve(world: &World, token: &str, relation: &Value) -> Answer {
    world.call(token, "resolve_relation", json!({"relation_id": relation["id"]}))
}

fn remove(world: &World, token: &str, relation: &Value) -> Answer {
    world.call(token, "remove_relation", json!({"relation_id": relation["id"]}))
}

/// Works on a thread, without a result.
fn hold(world: &World, person: &Person, thread: &str) {
    let claim = world.call(&person.token, "claim_thread", json!({"thread_id": thread})).output();
    let release = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
    world.call(&person.token, "release_claim", release).output();
}

/// Returns the relations of a message as a member sees them, page by page.
fn listed(world: &World, token: &str, message: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = json!(null);
    loop {
        let input = json!({"message_id": message, "limit": 2, "cursor": cursor});
        let page = world.call(token, "list_message_relations", input).output();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

fn ids(relations: &[Value]) -> Vec<&Value> {
    relations.iter().map(|relation| &relation["id"]).collect()
}

#[test]
fn an_author_is_told_of_replies_and_refutations_as_long_as_it_sees_them() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let there = world.new_thread(&world.new_channel("there"), "There");
        let here = world.new_channel("here");
        let here_thread = world.new_thread(&here, "Here");
        let told = || {
            let page = world.call(agent, "list_inbox", json!({"unread": true})).output();
            let items = page["items"].as_array().unwrap().clone();
            let shown = items.iter().map(|item| (item["reason"].clone(), item["message_id"].clone()));
            shown.filter(|(_, message)| message.is_string()).collect::<Vec<_>>()
        };
        let said = post(world, agent, &there);
        let admin = &*world.people.admin;
        let reply = post(world, admin, &there);
        let objection = post(world, admin, &here_thread);
        relate(world, admin, &reply, &said, "replies_to").output();
        let refutation = relate(world, admin, &objection, &said, "refutes").output();
        assert_eq!(told(), [(json!("reply"), json!(reply)), (json!("refuted"), json!(objection))]);

        // The channel of the refutation becomes private only when none of its messages can keep the thread
        // open.
        let hide = || world.call(admin, "update_channel", json!({"channel_id": here, "private": true}));
        assert_eq!(hide().code(), "not-visible-to-all");
        resolve(world, admin, &refutation).output();
        hide().output();
        assert_eq!(told(), [(json!("reply"), json!(reply))], "no word of a message that it does not see");
    });
}

#[test]
fn a_member_relates_its_own_messages_to_any_that_it_sees() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let thread = new_thread(world);
        let [own, second] = [1, 2].map(|_| post(world, agent, &thread));
        let other = post(world, admin, &thread);
        let before = world.lsn();
        let mut made = Vec::new();
        for kind in ["supports", "refutes", "cites", "supersedes", "replies_to", "duplicates"] {
            let relation = relate(world, agent, &own, &other, kind).output();
            assert_eq!(relation["open"], json!(kind == "refutes"), "{relation:#}");
            assert_eq!((&relation["kind"], &relation["derived"]), (&json!(kind), &json!(false)));
            assert_eq!(relation["made_by"], json!(world.id("agent")));
            assert_eq!(relate(world, agent, &own, &other, kind).output(), relation, "it is there");
            made.push(relation);
        }
        assert_eq!(world.kinds_after(before), ["MessageRelated"; 6]);
        let back = relate(world, admin, &other, &own, "cites").output();
        made.push(back);
        for (message, number) in [(&own, 7), (&other, 7), (&second, 0)] {
            let found = listed(world, agent, message);
            assert_eq!(found, made[..number], "{message}");
        }

        relate(world, admin, &own, &other, "cites").refused(403, "forbidden");
        relate(world, agent, &own, &own, "cites").refused(400, "malformed-request");
        relate(world, agent, &own, &other, "is").refused(400, "malformed-request");
        let stranger = &*world.people.bystander;
        let hidden = &world.people.private_message_id;
        let strange = post(world, stranger, &thread);
        relate(world, stranger, &strange, hidden, "cites").refused(404, "not-found");
        remove(world, &world.people.reader, &made[0]).refused(403, "missing-capability");
        remove(world, agent, &made[6]).refused(403, "forbidden");
        resolve(world, agent, &made[0]).refused(409, "wrong-state");
        let before = world.lsn();
        assert_eq!(remove(world, agent, &made[0]).output(), made[0]);
        remove(world, admin, &made[2]).output();
        remove(world, agent, &made[0]).refused(404, "not-found");
        assert_eq!(world.kinds_after(before), ["RelationRemoved"; 2]);
        assert_eq!(listed(world, agent, &own).len(), 5);
    });
}

#[test]
fn a_refutation_keeps_a_thread_open_until_somebody_independent_resolves_it() {
    on_both_engines(|world| {
        let [maker, worker, other] =
            ["who-objects", "who-works", "another"].map(|name| Person::new(world, name));
        let reviewer = Person::with_skill(world, "who-reviews", "review");
        world.admin("confer_skill", json!({"member_id": worker.id, "skill": "review"}));
        let thread = new_thread(world);
        hold(world, &worker, &thread);
        let claim = post(world, &worker.token, &thread);
        let refute = || {
            let objection = post(world, &maker.token, &thread);
            relate(world, &maker.token, &objection, &claim, "refutes").output()
        };
        let [first, second] = [refute(), refute()];
        let told = world.call(&worker.token, "list_inbox", json!({"reason": "refuted"})).output();
        let told: Vec<&Value> =
            told["items"].as_array().unwrap().iter().map(|it| &it["message_id"]).collect();
        assert_eq!(told, [&first["from_id"], &second["from_id"]]);
        let open = |relations: &[&Value]| {
            let ids: Vec<&Value> = relations.iter().map(|relation| &relation["id"]).collect();
            vec![("refutes".to_owned(), json!(ids))]
        };
        assert_eq!(unmet(world, &thread), open(&[&first, &second]));
        for person in [&worker, &other] {
            resolve(world, &person.token, &first).refused(403, "forbidden");
        }
        let deputy = worker.acting_for(world, &reviewer.id);
        resolve(world, &deputy, &first).refused(403, "forbidden");
        let deputy = worker.acting_for(world, &maker.id);
        resolve(world, &deputy, &first).refused(403, "forbidden");
        let before = world.lsn();
        let resolved = resolve(world, &reviewer.token, &first).output();
        assert_eq!((&resolved["resolved_by"], &resolved["open"]), (&json!(reviewer.id), &json!(false)));
        assert_eq!(resolve(world, &maker.token, &first).output(), resolved, "once is enough");
        assert_eq!(world.kinds_after(before), ["RelationResolved"]);
        assert_eq!(unmet(world, &thread), open(&[&second]));
        resolve(world, &maker.token, &second).output();

        // A reviewer who works on the thread afterwards has resolved nothing; the author has.
        for person in [&reviewer, &maker] {
            hold(world, person, &thread);
        }
        assert_eq!(unmet(world, &thread), open(&[&first]));
        let listed = listed(world, &other.token, &claim);
        assert_eq!(listed.iter().map(|it| &it["open"]).collect::<Vec<_>>(), [&json!(true), &json!(false)]);
        resolve(world, &reviewer.token, &first).refused(403, "forbidden");
        resolve(world, &maker.token, &first).output();
        assert_eq!(go(world, &thread, "close").output()["state"], "closed");
        go(world, &thread, "archive").output();
        resolve(world, &maker.token, &first).refused(409, "wrong-state");
    });
}

#[test]
fn relations_go_with_the_message_that_makes_them_and_lose_force_with_the_other() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let thread = new_thread(world);
        let [first, second] = [1, 2].map(|_| post(world, admin, &thread));
        let [objection, other] = [1, 2].map(|_| post(world, agent, &thread));
        let gone = relate(world, agent, &objection, &first, "refutes").output();
        let kept = relate(world, agent, &other, &second, "refutes").output();
        let both = json!([gone["id"], kept["id"]]);
        assert_eq!(unmet(world, &thread), [("refutes".to_owned(), both)]);
        let withdraw = |message: &str| world.admin("delete_message", json!({"message_id": message}));
        withdraw(&objection);
        assert_eq!(unmet(world, &thread), [("refutes".to_owned(), json!([kept["id"]]))]);
        assert!(listed(world, agent, &first).is_empty());
        withdraw(&second);
        let found = listed(world, agent, &second);
        assert_eq!(ids(&found), [&kept["id"]]);
        assert_eq!((&found[0]["open"], &found[0]["target_withdrawn"]), (&json!(false), &json!(true)));
        relate(world, agent, &other, &second, "cites").refused(409, "wrong-state");
        relate(world, agent, &objection, &first, "cites").refused(409, "wrong-state");
        go(world, &thread, "close").output();
        world.admin("purge_message", json!({"message_id": second}));
        assert!(listed(world, agent, &other).is_empty());
        assert_eq!(world.database.number("select count(*) from relations where kind = 'refutes'"), 1);
        let verified = world.agent("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified["valid"], true);
    });
}

/// A member who does not see a message cannot learn of it: not by a list, an event or an id.
#[test]
fn nobody_learns_of_a_message_behind_a_door() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let stranger = &*world.people.bystander;
        let open = world.new_channel("open");
        let [one, two] = ["one", "two"].map(|name| world.new_private_channel(name));
        let thread = |channel: &str| world.new_thread(channel, "talk");
        let [shown, hidden, other] = [&open, &one, &two].map(|channel| thread(channel));
        let [public, public_too, private, elsewhere] =
            [&shown, &shown, &hidden, &other].map(|thread| post(world, admin, thread));
        relate(world, admin, &private, &public, "refutes").refused(409, "not-visible-to-all");
        relate(world, admin, &private, &elsewhere, "refutes").refused(409, "not-visible-to-all");
        let events = |thread: &str| {
            let listed = world.admin("list_thread_events", json!({"thread_id": thread, "limit": 500}));
            let of_relations = |event: &&Value| event["kind"] == "MessageRelated";
            listed["items"].as_array().unwrap().iter().filter(of_relations).count()
        };
        // Source, target, kind, and the thread of the event.
        for (from, to, kind, at) in [
            (&private, &public, "supports", &hidden),
            (&private, &elsewhere, "supports", &hidden),
            (&public, &private, "refutes", &hidden),
            (&public, &public_too, "refutes", &shown),
        ] {
            let before = events(at);
            let mut relation = relate(world, admin, from, to, kind).output();
            assert_eq!(events(at), before + 1, "{kind}");
            let is_seen = at == &shown;
            for operation in ["remove_relation", "resolve_relation"] {
                let answer = world.call(stranger, operation, json!({"relation_id": relation["id"]}));
                assert_eq!(answer.status == 404, !is_seen, "{operation} {:#}", answer.body);
                if !is_seen {
                    answer.refused(404, "not-found");
                }
                if is_seen {
                    relation = relate(world, admin, from, to, kind).output();
                }
            }
        }
        let mut seen = String::new();
        for message in [&public, &public_too] {
            seen += &format!("{:?}", listed(world, stranger, message));
            world
                .call(stranger, "list_message_relations", json!({"message_id": private}))
                .refused(404, "not-found");
        }
        let log = json!({"workspace_id": world.id("workspace"), "after_id": 0, "limit": 500});
        seen += &world.call(stranger, "list_events", log).output().to_string();
        assert!(seen.contains(&public), "the control");
        assert!(!seen.contains(&private) && !seen.contains(&elsewhere), "{seen}");
        let of_one = Person::new(world, "of-one");
        world.admin("add_channel_member", json!({"channel_id": one, "member_id": of_one.id}));
        let seen = world.call(&of_one.token, "list_thread_events", json!({"thread_id": hidden})).output();
        assert!(seen.to_string().contains(&private) && !seen.to_string().contains(&elsewhere));

        // A message that keeps a thread open stays readable for all who see the thread.
        let hide = json!({"channel_id": open, "private": true});
        let outside = new_thread(world);
        let target = post(world, admin, &outside);
        let relation = relate(world, admin, &public, &target, "refutes").output();
        let refused = world.call(admin, "update_channel", hide.clone()).refused(409, "not-visible-to-all");
        assert_eq!(refused["thread_ids"], json!([outside]));
        assert_eq!(relation["kind"], "refutes");
        let own = listed(world, admin, &public).into_iter().chain([relation]);
        for relation in own.filter(|relation| relation["kind"] == "refutes" && relation["from_id"] == public)
        {
            resolve(world, admin, &relation).output();
        }
        world.admin("update_channel", hide);
    });
}

#[test]
fn what_a_message_cites_is_related_to_it_as_long_as_the_words_are() {
    on_both_engines(|world| {
        let author = &*world.people.bystander;
        let thread = new_thread(world);
        let [first, second] = [1, 2].map(|_| {
            let input = json!({"thread_id": thread, "body": "a finding"});
            world.agent("post_message", input)
        });
        let private = world.admin("get_message", json!({"message_id": world.people.private_message_id}));
        let cite = |message: &Value| json!({"uri": message["uri"], "content_hash": message["content_hash"]});
        let post = |citations: Value| {
            let metadata = json!({"citations": citations});
            let input = json!({"thread_id": thread, "body": "so", "metadata": metadata});
            world.call(author, "post_message", input)
        };
        let wrong = format!("{}#sha256:{}", text(&first["uri"]), "0".repeat(64));
        let wrong = json!([{"uri": wrong, "content_hash": first["content_hash"]}]);
        post(wrong).refused(400, "malformed-request");
        let elsewhere = text(&first["uri"]).replace(&thread, &world.id("thread").to_string());
        let elsewhere = json!({"uri": elsewhere, "content_hash": first["content_hash"]});
        let with_hash = format!("{}#{}", text(&first["uri"]), text(&first["content_hash"]));
        let with_hash = json!({"uri": with_hash, "content_hash": first["content_hash"]});
        let before = world.lsn();
        let citing = text(&post(json!([cite(&first), with_hash, elsewhere, cite(&private)])).output()["id"]);
        assert_eq!(world.kinds_after(before), ["MessagePosted"], "what words say is no event");
        let cited = |message: &str| -> Vec<String> {
            let found = listed(world, author, message);
            found.iter().filter(|it| it["derived"] == true).map(|it| text(&it["to_id"])).collect()
        };
        let [one, two] = [&first, &second].map(|message| text(&message["id"]));
        assert_eq!(cited(&citing), [one.as_str()], "each once, and none that the author may not see");
        let relation = listed(world, author, &one)[0].clone();
        assert_eq!((&relation["kind"], &relation["lsn"]), (&json!("cites"), &json!(before + 1)));
        assert_eq!(relate(world, author, &citing, &one, "cites").output(), relation, "it is there");
        remove(world, author, &relation).refused(409, "wrong-state");

        let edit = |metadata: Value| {
            let input = json!({"message_id": citing, "metadata": metadata});
            world.call(author, "edit_message", input).output()
        };
        edit(json!({"citations": [cite(&first), cite(&second)]}));
        assert_eq!(cited(&citing), [one.as_str(), &two]);
        assert_eq!(listed(world, author, &one)[0], relation, "it stays as it was");
        edit(json!({"citations": [cite(&second)]}));
        assert_eq!(cited(&citing), [two.as_str()]);
        let input = json!({"message_id": citing, "body": "so it is"});
        world.call(author, "edit_message", input).output();
        assert_eq!(cited(&citing), [two.as_str()]);
        // A separate relation does not end with the text.
        let own = relate(world, author, &citing, &one, "cites").output();
        edit(json!({"citations": [cite(&first), cite(&second)]}));
        edit(json!(null));
        assert!(cited(&citing).is_empty());
        assert_eq!(ids(&listed(world, author, &citing)), [&own["id"]]);
        edit(json!({"citations": [cite(&second)]}));
        world.admin("delete_message", json!({"message_id": citing}));
        assert!(listed(world, author, &two).is_empty() && listed(world, author, &one).is_empty());
    });
}

#[test]
fn a_message_makes_a_hundred_relations_and_citing_is_not_counted() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let thread = new_thread(world);
        let from = post(world, agent, &thread);
        let targets: Vec<String> = (0..=100).map(|_| post(world, agent, &thread)).collect();
        for target in &targets[..100] {
            relate(world, agent, &from, target, "supports").output();
        }
        relate(world, agent, &from, &targets[100], "supports").refused(409, "wrong-state");
        relate(world, agent, &from, &targets[0], "supports").output();
        let citations: Vec<Value> = targets[..100]
            .iter()
            .map(|id| {
                let message = world.agent("get_message", json!({"message_id": id}));
                json!({"uri": message["uri"], "content_hash": message["content_hash"]})
            })
            .collect();
        let metadata = json!({"citations": citations});
        world.agent("edit_message", json!({"message_id": from, "metadata": metadata}));
        let found = listed(world, agent, &from);
        assert_eq!(found.len(), 200, "those of one event are on pages too");
        let channel = text(&world.agent("get_thread", json!({"thread_id": thread}))["channel_id"]);
        let quiet = world.new_channel("quiet");
        let old = post(world, agent, &world.new_thread(&quiet, "old"));
        world.admin("archive_channel", json!({"channel_id": quiet}));
        assert_ne!(channel, quiet);
        relate(world, agent, &old, &targets[0], "cites").refused(409, "wrong-state");
        relate(world, agent, &targets[0], &old, "cites").refused(409, "wrong-state");
    });
}
