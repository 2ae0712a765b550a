//! The approvals that count, and the members who are asked for one.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::{Person, World, on_both_engines};

use super::{go, new_thread, set_owner, take_skill, unmet, work};

/// A thread that requires one approval, and the members who may give it.
pub(super) struct Scene<'a> {
    pub world: &'a World,
    pub thread: String,
    /// A member with the skill.
    pub holder: &'a Person,
    /// A listed reviewer.
    pub listed: &'a Person,
    /// A member who is neither.
    pub other: &'a Person,
}

impl Scene<'_> {
    pub fn review(&self, token: &str, verdict: &str) -> Value {
        let input = json!({"thread_id": self.thread, "verdict": verdict});
        self.world.call(token, "submit_review", input).output()
    }

    pub fn approve(&self, by: &Person) {
        self.review(&by.token, "approve");
    }

    fn list(&self, member: &Person) {
        self.world.admin("add_reviewer", json!({"thread_id": self.thread, "member_id": member.id}));
    }

    /// Returns a member of this scene alone.
    fn newcomer(&self, skill: &str) -> Person {
        let (_, number) = self.thread.rsplit_once('-').unwrap();
        Person::with_skill(self.world, &format!("{skill}-{number}"), skill)
    }

    /// Claims the thread and releases it.
    fn touch(&self, token: &str) {
        let claim = self.world.call(token, "claim_thread", json!({"thread_id": self.thread})).output();
        let release = json!({"thread_id": self.thread, "claim_lease_id": claim["claim_lease_id"]});
        self.world.call(token, "release_claim", release).output();
    }

    pub fn go(&self, action: &str) {
        go(self.world, &self.thread, action).output();
    }

    pub fn status(&self) -> Value {
        self.world.admin("get_review_status", json!({"thread_id": self.thread}))
    }
}

/// The changes, and the reason why the first review does not count in the end.
type Case = (&'static str, fn(&Scene<'_>), Option<&'static str>);

const CASES: &[Case] = &[
    ("a listed reviewer", |s| s.approve(s.listed), None),
    ("a holder of the skill", |s| s.approve(s.holder), None),
    ("somebody else", |s| s.approve(s.other), Some("unqualified")),
    (
        "listed only afterwards",
        |s| {
            s.approve(s.other);
            s.list(s.other);
        },
        Some("unqualified"),
    ),
    (
        "no longer listed",
        |s| {
            s.approve(s.listed);
            s.world.admin("remove_reviewer", json!({"thread_id": s.thread, "member_id": s.listed.id}));
        },
        Some("unqualified"),
    ),
    (
        "without the skill since",
        |s| {
            let person = s.newcomer("review");
            s.approve(&person);
            take_skill(s.world, &person.id, "review");
        },
        Some("unqualified"),
    ),
    ("of a member frozen since", |s| approve_then(s, "frozen_at"), Some("inactive")),
    ("of a member deactivated since", |s| approve_then(s, "deactivated_at"), Some("inactive")),
    (
        "by a delegate frozen since",
        |s| {
            let delegate = s.newcomer("rust");
            s.review(&delegate.acting_for(s.world, &s.holder.id), "approve");
            delegate.set_time(s.world, "frozen_at", true);
        },
        Some("inactive"),
    ),
    (
        "of a member frozen for a while",
        |s| {
            s.approve(s.holder);
            s.holder.set_time(s.world, "frozen_at", true);
            s.holder.set_time(s.world, "frozen_at", false);
        },
        None,
    ),
    (
        "the owner then",
        |s| {
            set_owner(s.world, &s.thread, &s.holder.id);
            s.approve(s.holder);
            set_owner(s.world, &s.thread, &s.other.id);
        },
        Some("owner"),
    ),
    (
        "the owner before",
        |s| {
            set_owner(s.world, &s.thread, &s.holder.id);
            set_owner(s.world, &s.thread, &s.other.id);
            s.approve(s.holder);
        },
        None,
    ),
    (
        "the owner since",
        |s| {
            s.approve(s.holder);
            set_owner(s.world, &s.thread, &s.holder.id);
        },
        Some("owner"),
    ),
    (
        "a worker then",
        |s| {
            s.touch(&s.holder.token);
            s.approve(s.holder);
        },
        Some("worker"),
    ),
    (
        "a worker since",
        |s| {
            s.approve(s.listed);
            s.touch(&s.listed.token);
        },
        Some("worker"),
    ),
    (
        "before the result",
        |s| {
            s.approve(s.listed);
            work(s.world, &s.other.token, &s.thread);
        },
        Some("outdated"),
    ),
    (
        "after the result",
        |s| {
            work(s.world, &s.other.token, &s.thread);
            s.go("start_review");
            s.approve(s.listed);
        },
        None,
    ),
    (
        "before it was returned",
        |s| {
            s.go("start_review");
            s.approve(s.listed);
            s.go("return_to_open");
        },
        Some("outdated"),
    ),
    (
        "before it was reopened",
        |s| {
            s.approve(s.listed);
            s.go("close");
            s.go("reopen");
        },
        Some("outdated"),
    ),
    (
        "with changes requested since",
        |s| {
            s.approve(s.listed);
            s.review(&s.listed.token, "request_changes");
        },
        Some("superseded"),
    ),
    (
        "with a comment since",
        |s| {
            s.approve(s.listed);
            s.review(&s.listed.token, "comment");
        },
        Some("superseded"),
    ),
    ("a comment", |s| drop(s.review(&s.listed.token, "comment")), Some("verdict")),
    ("a comment of the other", |s| drop(s.review(&s.holder.token, "comment")), Some("verdict")),
    ("a request of changes", |s| drop(s.review(&s.listed.token, "request_changes")), Some("verdict")),
    ("a delegate", |s| drop(s.review(&s.other.acting_for(s.world, &s.holder.id), "approve")), None),
    (
        "a delegate that worked",
        |s| {
            s.touch(&s.other.token);
            s.review(&s.other.acting_for(s.world, &s.holder.id), "approve");
        },
        Some("worker"),
    ),
    (
        "for whom a delegate worked",
        |s| {
            s.touch(&s.other.acting_for(s.world, &s.holder.id));
            s.approve(s.holder);
        },
        Some("worker"),
    ),
    (
        "a delegate that worked since",
        |s| {
            s.review(&s.other.acting_for(s.world, &s.holder.id), "approve");
            s.touch(&s.other.token);
        },
        Some("worker"),
    ),
    (
        "with a verdict of the delegate's own since",
        |s| {
            s.review(&s.other.acting_for(s.world, &s.holder.id), "approve");
            s.approve(s.other);
        },
        Some("superseded"),
    ),
    (
        "a delegate that owns it",
        |s| {
            set_owner(s.world, &s.thread, &s.other.id);
            s.review(&s.other.acting_for(s.world, &s.holder.id), "approve");
        },
        Some("owner"),
    ),
    (
        "a reviewer for somebody else",
        |s| drop(s.review(&s.holder.acting_for(s.world, &s.other.id), "approve")),
        Some("unqualified"),
    ),
    (
        "a reviewer for another",
        |s| drop(s.review(&s.holder.acting_for(s.world, &s.listed.id), "approve")),
        None,
    ),
    (
        "a reviewer for one no longer listed",
        |s| {
            s.review(&s.holder.acting_for(s.world, &s.listed.id), "approve");
            s.world.admin("remove_reviewer", json!({"thread_id": s.thread, "member_id": s.listed.id}));
        },
        Some("unqualified"),
    ),
    (
        "a reviewer for one frozen since",
        |s| {
            let person = s.newcomer("review");
            s.review(&s.holder.acting_for(s.world, &person.id), "approve");
            person.set_time(s.world, "frozen_at", true);
        },
        Some("inactive"),
    ),
];

/// Approves as a new member with the skill, and then sets a time of that member.
fn approve_then(scene: &Scene<'_>, column: &str) {
    let person = scene.newcomer("review");
    scene.approve(&person);
    person.set_time(scene.world, column, true);
}

#[test]
fn an_approval_counts_under_the_rules_when_given_and_when_counted() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "review");
        let [listed, other] = ["listed", "other"].map(|handle| Person::new(world, handle));
        for (name, happens, why_not) in CASES {
            let thread = new_thread(world);
            let scene = Scene { world, thread, holder: &holder, listed: &listed, other: &other };
            let input = json!({"thread_id": scene.thread, "approvals": 1});
            world.admin("set_review_requirement", input);
            scene.list(&listed);
            happens(&scene);
            let status = scene.status();
            let first = status["reviews"].as_array().unwrap().last().unwrap().clone();
            assert_eq!(first["why_not"], json!(why_not), "{name}: {status:#}");
            assert_eq!(first["counts"], json!(why_not.is_none()), "{name}");
            assert_eq!(status["satisfied"], json!(why_not.is_none()), "{name}");
            let context = world.admin("get_thread_context", json!({"thread_id": scene.thread}));
            let moves = context["fsm"]["transitions"].as_array().unwrap();
            assert_eq!(moves.contains(&json!("close")), why_not.is_none(), "{name}");
            if why_not.is_some() {
                assert_eq!(unmet(world, &scene.thread), [("approvals".to_owned(), json!([]))], "{name}");
            } else {
                scene.go("close");
            }
        }
    });
}

/// The readers of the context: a number of these people, or a delegate who acts for one of them.
const READERS: [&str; 4] = ["holder", "other for holder", "listed", "holder for other"];

/// A member is asked for a review exactly if it would be another one that counts, and no changes were
/// requested.
#[test]
fn a_member_is_asked_for_the_approvals_that_would_count() {
    on_both_engines(|world| {
        let holder = Person::with_skill(world, "holder", "review");
        let [listed, other] = ["listed", "other"].map(|handle| Person::new(world, handle));
        let tokens = [
            holder.token.clone(),
            other.acting_for(world, &holder.id),
            listed.token.clone(),
            holder.acting_for(world, &other.id),
        ];
        // The statement is the same text for both engines: on one of them, two readers are enough.
        let readers = if world.engine() == Engine::Sqlite { READERS.len() } else { 2 };
        let mut asked_of = [0; READERS.len()];
        for (name, happens, _) in CASES {
            for (number, token) in tokens.iter().enumerate().take(readers) {
                let thread = new_thread(world);
                let scene = Scene { world, thread, holder: &holder, listed: &listed, other: &other };
                scene.list(&listed);
                happens(&scene);
                if world.admin("get_thread", json!({"thread_id": scene.thread}))["state"] == "open" {
                    scene.go("start_review");
                }
                let me = world.call(token, "whoami", json!({})).output();
                let requested = requested_changes(&scene, &me);
                let asked = is_asked(&scene, token);
                let before = scene.status()["approvals"].as_i64().unwrap();
                scene.review(token, "approve");
                let counts_more = scene.status()["approvals"].as_i64().unwrap() > before;
                let reader = READERS[number];
                assert_eq!(asked, counts_more && !requested, "{name}, {reader}: {:#}", scene.status());
                assert!(!is_asked(&scene, token) || !counts_more, "{name}, {reader}: it has approved");
                asked_of[number] += usize::from(asked);
                world
                    .admin("cancel_thread", json!({"thread_id": scene.thread, "reason": "the case is done"}));
            }
        }
        assert!(asked_of[0] > 5 && asked_of[1] > 5, "{asked_of:?}");
    });
}

fn is_asked(scene: &Scene<'_>, token: &str) -> bool {
    let input = json!({"workspace_id": scene.world.id("workspace")});
    let context = scene.world.call(token, "get_workspace_context", input).output();
    let reviews = context["reviews"].as_array().unwrap();
    reviews.iter().any(|thread| thread["id"] == json!(scene.thread))
}

/// Returns whether the last verdict of one of the caller's people requests changes.
fn requested_changes(scene: &Scene<'_>, me: &Value) -> bool {
    let people = [&me["member_id"], &me["actor_id"]];
    let status = scene.status();
    let mut given = status["reviews"].as_array().unwrap().iter();
    let mine = given.find(|review| {
        let by = [review.get("member_id"), review.get("actor_id")];
        by.into_iter().flatten().any(|member| people.contains(&member))
    });
    mine.is_some_and(|review| review["verdict"] == "request_changes")
}
