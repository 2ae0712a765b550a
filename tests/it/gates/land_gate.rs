//! The land gate: the passes that count, the changes that void them, and the removal of the requirement.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Person, Setup, World, on_both_engines, text};

use super::{go, new_thread, set_owner, take_skill, unmet, work};

/// A thread that requires its land gate, and the members who may pass it.
struct Scene<'a> {
    world: &'a World,
    thread: String,
    /// A member with the skill.
    holder: &'a Person,
    other: &'a Person,
}

impl Scene<'_> {
    fn set(&self, token: &str, pointer: &str, verdict: Option<&str>) -> Answer {
        let mut input = json!({"thread_id": self.thread, "pointer": pointer, "head_sha": "0f3c9a1"});
        if let Some(verdict) = verdict {
            input["verdict"] = json!(verdict);
        }
        self.world.call(token, "set_land_gate", input)
    }

    fn pass(&self, token: &str) {
        self.set(token, "main", Some("pass")).output();
    }

    fn work(&self, token: &str) {
        work(self.world, token, &self.thread);
    }

    fn gate(&self) -> Value {
        self.world.agent("get_land_gate", json!({"thread_id": self.thread}))
    }
}

/// The changes, and the reason why the gate does not let the thread close in the end.
type Case = (&'static str, fn(&Scene<'_>), Option<&'static str>);

const CASES: &[Case] = &[
    ("a holder", |s| s.pass(&s.holder.token), None),
    ("somebody else", |s| s.pass(&s.other.token), Some("unqualified")),
    ("a fail", |s| drop(s.set(&s.holder.token, "main", Some("fail")).output()), Some("verdict")),
    ("no verdict", |s| drop(s.set(&s.holder.token, "main", None).output()), Some("verdict")),
    (
        "a later pointer",
        |s| {
            s.pass(&s.holder.token);
            s.set(&s.other.token, "next", None).output();
        },
        Some("verdict"),
    ),
    (
        "a later fail",
        |s| {
            s.pass(&s.holder.token);
            s.set(&s.other.token, "main", Some("fail")).output();
        },
        Some("verdict"),
    ),
    (
        "a later result",
        |s| {
            s.pass(&s.holder.token);
            s.work(&s.other.token);
        },
        Some("outdated"),
    ),
    (
        "a reopening since",
        |s| {
            s.pass(&s.holder.token);
            go(s.world, &s.thread, "close").output();
            go(s.world, &s.thread, "reopen").output();
        },
        Some("outdated"),
    ),
    (
        "the same pass after a result",
        |s| {
            s.pass(&s.holder.token);
            s.work(&s.other.token);
            s.pass(&s.holder.token);
        },
        None,
    ),
    (
        "a worker",
        |s| {
            s.work(&s.holder.token);
            s.pass(&s.holder.token);
        },
        Some("worker"),
    ),
    (
        "a delegate that worked",
        |s| {
            s.work(&s.other.token);
            s.pass(&s.other.acting_for(s.world, &s.holder.id));
        },
        Some("worker"),
    ),
    (
        "the owner then",
        |s| {
            set_owner(s.world, &s.thread, &s.holder.id);
            s.pass(&s.holder.token);
            set_owner(s.world, &s.thread, &s.other.id);
        },
        Some("owner"),
    ),
    (
        "the owner since",
        |s| {
            s.pass(&s.holder.token);
            set_owner(s.world, &s.thread, &s.holder.id);
        },
        Some("owner"),
    ),
    (
        "without the skill since",
        |s| {
            let person = Person::with_skill(s.world, "passing", "land_gate");
            s.pass(&person.token);
            take_skill(s.world, &person.id, "land_gate");
        },
        Some("unqualified"),
    ),
    (
        "frozen since",
        |s| {
            let person = Person::with_skill(s.world, "suspended", "land_gate");
            s.pass(&person.token);
            person.set_time(s.world, "frozen_at", true);
        },
        Some("inactive"),
    ),
    (
        "a delegate deactivated since",
        |s| {
            let delegate = Person::new(s.world, "gone");
            s.pass(&delegate.acting_for(s.world, &s.holder.id));
            delegate.set_time(s.world, "deactivated_at", true);
        },
        Some("inactive"),
    ),
    (
        "a reviewer",
        |s| s.pass(&Person::with_skill(s.world, "reviewing", "review").token),
        Some("unqualified"),
    ),
];

#[test]
fn a_pass_counts_under_the_rules_of_approvals_until_something_voids_it() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "land_gate");
        let other = Person::new(world, "other");
        for (name, happens, why_not) in CASES {
            let scene = Scene { world, thread: new_thread(world), holder: &holder, other: &other };
            world.agent("require_land_gate", json!({"thread_id": scene.thread}));
            happens(&scene);
            let gate = scene.gate();
            assert_eq!(gate["why_not"], json!(why_not), "{name}: {gate:#}");
            let passes = why_not.is_none();
            assert_eq!(json!([gate["counts"], gate["satisfied"]]), json!([passes, passes]), "{name}");
            if why_not.is_some() {
                assert_eq!(unmet(world, &scene.thread), [("land-gate".to_owned(), json!([]))], "{name}");
            } else {
                go(world, &scene.thread, "close").output();
            }
        }
    });
}

#[test]
fn a_gate_is_required_until_somebody_who_did_not_work_clears_it() {
    on_both_engines(|world| {
        let [maker, delegate] = ["maker", "delegate"].map(|handle| Person::new(world, handle));
        let scene = Scene { world, thread: new_thread(world), holder: &maker, other: &delegate };
        let about = json!({"thread_id": scene.thread});
        let call = |token: &str, operation: &str| world.call(token, operation, about.clone());
        let nothing = scene.gate();
        assert_eq!(
            json!([nothing["required"], nothing["satisfied"], nothing["pointer"], nothing["why_not"]]),
            json!([false, true, null, null])
        );
        call(&world.people.admin, "clear_land_gate").refused(404, "not-found");
        let lsn = world.lsn();
        let required = call(&maker.token, "require_land_gate").output();
        assert_eq!(call(&maker.token, "require_land_gate").output(), required);
        assert_eq!(world.kinds_after(lsn), ["LandGateRequired"]);
        assert_eq!(json!([required["required"], required["satisfied"]]), json!([true, false]));
        let refused = go(world, &scene.thread, "close").refused(409, "close-refused");
        assert_eq!(refused["reasons"][0]["detail"], json!("the land gate points at nothing"));

        let lsn = world.lsn();
        let set = scene.set(&maker.token, "feature/x", None).output();
        assert_eq!(scene.set(&maker.token, "feature/x", None).output(), set);
        assert_eq!(world.kinds_after(lsn), ["LandGateSet"], "the same again is no change");
        scene.work(&delegate.acting_for(world, &maker.id));
        for token in [&maker.token, &delegate.token] {
            call(token, "clear_land_gate").refused(403, "forbidden");
        }
        let cleared = call(&world.people.admin, "clear_land_gate").output();
        assert_eq!(
            json!([cleared["required"], cleared["satisfied"], cleared["pointer"]]),
            json!([false, true, "feature/x"])
        );
        world.admin("require_land_gate", about.clone());
        world.admin("clear_land_gate", about.clone());
        go(world, &scene.thread, "close").output();
        scene.set(&maker.token, "feature/y", None).refused(409, "wrong-state");
        call(&world.people.admin, "request_land_advice").refused(409, "wrong-state");
        world.admin("require_land_gate", about.clone());
        go(world, &scene.thread, "archive").output();
        for operation in ["require_land_gate", "clear_land_gate"] {
            call(&world.people.admin, operation).refused(409, "wrong-state");
        }
    });
}

#[test]
fn advice_says_what_a_close_would_meet_and_decides_nothing() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let about = json!({"thread_id": thread});
        let advice = || world.agent("request_land_advice", about.clone());
        assert_eq!(advice(), json!({"thread_id": thread, "could_close": true, "reasons": []}));
        world.admin("create_child_thread", json!({"thread_id": thread, "title": "a part"}));
        world.admin("require_land_gate", about.clone());
        let lsn = world.lsn();
        let advised = advice();
        assert_eq!((&advised["could_close"], world.lsn()), (&json!(false), lsn));
        let refused = go(world, &thread, "close").refused(409, "close-refused");
        assert_eq!(advised["reasons"], refused["reasons"]);
        let named: Vec<String> = unmet(world, &thread).into_iter().map(|(condition, _)| condition).collect();
        assert_eq!(named, ["children", "land-gate"]);
    });
    for engine in engines() {
        let world = World::with(engine, Setup { land_advice: false, ..Setup::default() });
        let about = json!({"thread_id": new_thread(&world)});
        let refused = world.call(&world.people.admin, "request_land_advice", about);
        assert!(text(&refused.refused(409, "not-enabled")["detail"]).contains("SVC_LAND_ADVICE"));
    }
}
