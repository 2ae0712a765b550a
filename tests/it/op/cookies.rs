//! Authorisation by cookie: every operation and every framed route, by each way in which a cookie is none.
//!
//! It is called on every path, and no refusal leaves anything behind.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::capability::{Capabilities, Capability, Needs, Right};
use svc_core::op::{Operation, Takes};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, session_key};

use crate::house::areas::{Wanted, by_area};

/// The cookies of the matrix, as the values of the header.
struct Cookies {
    world: World,
    /// A session of the member outside of the private channel, who has every capability.
    good: String,
    /// The id of that session alone.
    bare: String,
    /// That id with the signature of another.
    tampered: String,
    /// A session of the frozen member, who has every capability.
    frozen: String,
    /// A session of the reader, who can only read.
    reader: String,
    /// A live share ticket, as the value of the Authorization header.
    ticket: String,
}

fn named(value: &str) -> String {
    format!("svc_session={value}")
}

/// What a request sends, and how it is refused.
struct Refused<'a> {
    who: &'a str,
    token: Option<&'a str>,
    headers: Vec<(&'a str, &'a str)>,
    wanted: (u16, &'a str),
}

impl Cookies {
    fn new(world: World) -> Self {
        let cookie = |secret: &str| {
            let session = world.sign_in(secret);
            (session, session_key().cookie(session))
        };
        let (session, good) = cookie(&world.people.bystander);
        let ((_, frozen), (_, reader)) = (cookie(&world.people.frozen), cookie(&world.people.reader));
        let (_, other) = good.rsplit_once('.').unwrap();
        let tampered = named(&format!("v1.{}.{other}", world.id("workspace")));
        let (good, frozen, reader) = (named(&good), named(&frozen), named(&reader));
        let shared = json!({"workspace_id": world.id("workspace"), "channel_id": world.id("channel"),
                            "expires_in_secs": 3600});
        let ticket = world.admin("create_share_ticket", shared);
        let ticket = format!("ShareTicket {}", svc_tests::text(&ticket["secret"]));
        Self { good, bare: named(&session.to_string()), tampered, frozen, reader, ticket, world }
    }

    fn recorded(&self) -> (i64, i64) {
        let count = |table: &str| self.world.database.number(&format!("select count(*) from {table}"));
        (count("events"), count("audit"))
    }

    /// The requests that have no credential, or one of two members, whatever is called.
    fn strangers(&self) -> Vec<Refused<'_>> {
        let by = |who, headers| Refused { who, token: None, headers, wanted: (401, "unauthenticated") };
        vec![
            by("the bare id of a session", vec![("cookie", &self.bare)]),
            by("a tampered cookie", vec![("cookie", &self.tampered)]),
            by("a page of another port", vec![("cookie", &self.good), ("origin", "http://localhost:3000")]),
            by("a page of another site", vec![("cookie", &self.good), ("sec-fetch-site", "cross-site")]),
            Refused {
                token: Some(&self.world.people.reader),
                ..by("a bearer beside the cookie of another member", vec![("cookie", &self.good)])
            },
        ]
    }

    fn check(&self, row: &Operation, path: &str, input: &Value, refused: &Refused<'_>) {
        let Refused { who, token, headers, wanted } = refused;
        let answer = self.world.rest().call_by(*token, headers, row, path, input);
        assert_eq!((answer.status, answer.code()), *wanted, "{who} calls {row:?}: {:#}", answer.body);
    }
}

/// A cookie is a credential only with its signature and from a page of this service, and then like its token.
///
/// A browser sends the cookie with whatever any page makes it send. An operation that took it from a page of
/// another site would let that page act as whoever is signed in.
fn only_a_cookie_that_counts_is_a_credential(engine: Engine, wanted: Wanted<'_>) {
    let cookies = Cookies::new(World::open(engine));
    let before = cookies.recorded();
    for row in cookies.world.service.table().operations().filter(|row| wanted(row)) {
        let input = row.docs().example(&cookies.world.fixture).unwrap();
        for path in row.http().paths() {
            for stranger in cookies.strangers() {
                cookies.check(row, path, &input, &stranger);
            }
            if row.access().needs != Needs::Nothing {
                let (who, headers) = ("a share ticket", vec![("authorization", &*cookies.ticket)]);
                let wanted = (401, "unauthenticated");
                cookies.check(row, path, &input, &Refused { who, token: None, headers, wanted });
            }
            let lacks = matches!(row.access().needs, Needs::OneOf(any) if !any.has(READ.into()));
            if lacks {
                let (who, headers) = ("the session of a reader", vec![("cookie", &*cookies.reader)]);
                let wanted = (403, "missing-capability");
                cookies.check(row, path, &input, &Refused { who, token: None, headers, wanted });
            }
            if !row.effect().changes_nothing() {
                let (who, headers) = ("the session of a frozen member", vec![("cookie", &*cookies.frozen)]);
                let wanted = (403, "member-frozen");
                cookies.check(row, path, &input, &Refused { who, token: None, headers, wanted });
            }
        }
    }
    assert_eq!(cookies.recorded(), before, "a refusal left something behind");
}

const READ: Capability = Capability::WorkspaceRead;

by_area!(every_operation_takes_only_a_cookie_that_counts, only_a_cookie_that_counts_is_a_credential);

/// Framed routes refuse every credential of another kind than theirs, as if there were none.
#[test]
fn every_framed_route_takes_only_its_own_kind_of_credential() {
    on_both_engines(|world| {
        let cookies = Cookies::new(World::open(world.engine()));
        let before = cookies.recorded();
        let (world, people) = (&cookies.world, &cookies.world.people);
        let framed = |row: &&Operation| row.http().frame.is_some();
        let rows: Vec<&Operation> = world.service.table().rows().filter(framed).collect();
        assert!(rows.len() >= 4);
        for row in rows {
            let frame = row.http().frame.unwrap();
            if frame.takes() == Takes::Nothing {
                continue;
            }
            let input = row.docs().example(&world.fixture).unwrap_or_else(|| json!({}));
            let ask = |token: Option<&str>, headers: &[(&str, &str)]| -> Answer {
                world.rest().call_by(token, headers, row, row.http().path, &input)
            };
            for Refused { who, token, headers, .. } in cookies.strangers() {
                // Where no cookie is taken, a bearer beside one is a bearer.
                let is_bearer = frame.takes() == Takes::Authorization && token.is_some();
                let wanted = if is_bearer { ask(token, &[]).status } else { 401 };
                assert_eq!(ask(token, &headers).status, wanted, "{who} calls {row:?}");
            }
            assert_eq!(ask(None, &[]).status, 401, "nobody calls {row:?}");
            for (token, revoked) in [("svc_unknown", false), (&*people.revoked, true)] {
                assert_eq!(ask(Some(token), &[]).status, 401, "revoked: {revoked}, {row:?}");
            }
            let needs = row.access().needs;
            if frame.takes() == Takes::Authorization || needs.names(Right::Ticket) {
                assert_eq!(ask(None, &[("cookie", &cookies.good)]).status, 401, "a cookie at {row:?}");
            }
            if !needs.names_a_capability() && needs != Needs::AnyCredential {
                assert_eq!(ask(Some(&people.bystander), &[]).status, 401, "a bearer at {row:?}");
                let both = ask(Some(&people.bystander), &[("cookie", &cookies.good)]);
                assert_eq!(both.status, 401, "a bearer beside a cookie at {row:?}");
            } else {
                let reader = ask(Some(&people.reader), &[]);
                assert!(needs.satisfied_by(reader_can()) || reader.status == 403, "the reader at {row:?}");
            }
            if !needs.names(Right::Ticket) {
                let ticket = [("authorization", &*cookies.ticket)];
                assert_eq!(ask(None, &ticket).status, 401, "a ticket at {row:?}");
            }
        }
        assert_eq!(cookies.recorded(), before, "a refusal left something behind");
    });
}

fn reader_can() -> Capabilities {
    std::iter::once(READ).collect()
}

/// A control: with its signature and from its own page the cookie is a credential, and beside it the token.
#[test]
fn a_cookie_that_counts_is_a_credential() {
    on_both_engines(|world| {
        let cookies = Cookies::new(World::open(world.engine()));
        let world = &cookies.world;
        let own = format!("http://{}", world.address());
        for headers in [vec![], vec![("origin", &*own)], vec![("sec-fetch-site", "same-origin")]] {
            let headers: Vec<_> = [("cookie", &*cookies.good)].into_iter().chain(headers).collect();
            let whoami = world.operation("whoami");
            let ask = |token| world.rest().call_by(token, &headers, whoami, "/me", &json!({})).output();
            assert_eq!(ask(None)["token_id"], json!(null));
            assert!(ask(Some(&world.people.bystander))["token_id"].is_string());
        }
    });
}
