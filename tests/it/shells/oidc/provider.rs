//! A provider that is malicious, broken or unavailable can only prevent sign-ins.

use std::time::Duration;

use serde_json::{Map, Value, json};
use svc_core::Engine;
use svc_core::time::Clock;
use svc_tests::database::engines;
use svc_tests::provider::{CALLBACK, Provider, ProviderScript, ResponsePlan, Signed, pairs};
use svc_tests::site::Site;
use svc_tests::{Setup, World, in_parallel, text};

use super::{
    BACK, BegunSignIn, DISCOVERY, LOGIN, ask, at, begin, come_from, cookie_of, count, get, left, location,
    on_both, person, session,
};

#[test]
fn what_is_declared_is_refused() {
    let provider = Provider::start();
    on_both(
        || Setup { http: provider.settings(), ..Setup::default() },
        |world| {
            provider.does(ProviderScript::default());
            let login = json!({"workspace_id": world.id("workspace")});
            let back = |begun: &BegunSignIn| -> Value {
                let back = provider.sign_in(world.clock.now(), &begun.sent_to, &json!({"sub": "1"}));
                back.into_iter().map(|(name, value)| (name, json!(value))).collect::<Map<_, _>>().into()
            };
            let begun = begin(world, "");
            ask(world, "finish_oidc_login", &back(&begun), &begun.cookie).refused(403, "forbidden");
            let begun = begin(world, "");
            provider.does(ProviderScript {
                answers: [("/token", ResponsePlan::Page)].into(),
                ..ProviderScript::default()
            });
            ask(world, "finish_oidc_login", &back(&begun), &begun.cookie)
                .refused(503, "provider-unavailable");
            provider.does(ProviderScript {
                answers: [(DISCOVERY, ResponsePlan::Page)].into(),
                ..ProviderScript::default()
            });
            world.clock.advance(Duration::from_secs(3600));
            ask(world, "begin_oidc_login", &login, "").refused(503, "provider-unavailable");
        },
    );
}

#[test]
fn a_person_signs_in_by_a_token_of_either_kind_of_key() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            for signed in [Signed::Rs256, Signed::Es256] {
                provider.does(ProviderScript { signed, ..ProviderScript::default() });
                let answer = come_from(world, &provider, &person(), |_| ());
                assert_eq!(session(world, &answer)["handle"], "ada@corp.example", "{signed:?}");
            }
            let issuer = world.database.rows("select issuer, subject from oidc_identities");
            assert_eq!(issuer, [[json!(provider.issuer()), json!("248289761001")]]);
        },
    );
}

/// A fault of a token, and the script of the provider that causes it.
type TokenFault = (&'static str, fn() -> ProviderScript);

fn claims(change: fn(&mut Value)) -> ProviderScript {
    ProviderScript { claims: Some(Box::new(change)), ..ProviderScript::default() }
}

fn signed(signed: Signed) -> ProviderScript {
    ProviderScript { signed, ..ProviderScript::default() }
}

/// Moves a time among the claims by `secs` seconds.
fn moved(claims: &mut Value, name: &str, secs: i64) {
    claims[name] = json!(claims["iat"].as_i64().unwrap() + secs);
}

const LIES: &[TokenFault] = &[
    ("another issuer", || claims(|claims| claims["iss"] = json!("https://evil.example"))),
    ("the issuer with a slash", || claims(|claims| claims["iss"] = json!(text(&claims["iss"]) + "/"))),
    ("another audience", || claims(|claims| claims["aud"] = json!("other"))),
    ("an audience beside this one", || claims(|claims| claims["aud"] = json!(["svc", "other"]))),
    ("no audience", || claims(|claims| drop(claims.as_object_mut().unwrap().remove("aud")))),
    ("another authorized party", || claims(|claims| claims["azp"] = json!("other"))),
    ("expired", || claims(|claims| moved(claims, "exp", -61))),
    ("issued later than now", || claims(|claims| moved(claims, "iat", 62))),
    ("not valid yet", || claims(|claims| moved(claims, "nbf", 62))),
    ("another nonce", || claims(|claims| claims["nonce"] = json!("0".repeat(64)))),
    ("no nonce", || claims(|claims| drop(claims.as_object_mut().unwrap().remove("nonce")))),
    ("a stranger's key", || signed(Signed::Stranger)),
    ("the client's secret as the key", || signed(Signed::Hs256)),
    ("the public key as a secret", || signed(Signed::PublicKey)),
    ("no signature", || signed(Signed::None)),
    ("changed after it was signed", || signed(Signed::Tampered)),
    ("an unknown key", || ProviderScript {
        header: Some(Box::new(|header| header["kid"] = json!("unknown"))),
        ..ProviderScript::default()
    }),
    ("the key of another algorithm", || ProviderScript {
        header: Some(Box::new(|header| header["alg"] = json!("ES256"))),
        ..ProviderScript::default()
    }),
    ("no algorithm, and a signature", || ProviderScript {
        header: Some(Box::new(|header| header["alg"] = json!("none"))),
        ..ProviderScript::default()
    }),
];

#[test]
fn a_token_with_anything_wrong_signs_nobody_in() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            let before = left(world);
            for (what, lie) in LIES {
                provider.does(lie());
                let answer = come_from(world, &provider, &person(), |_| ());
                assert_eq!(
                    (answer.status, answer.code()),
                    (401, "unauthenticated"),
                    "{what}: {:#}",
                    answer.body
                );
                assert_eq!(left(world), before, "{what}");
            }
            for name in ["iss", "sub", "exp", "iat"] {
                let without = move |claims: &mut Value| drop(claims.as_object_mut().unwrap().remove(name));
                provider
                    .does(ProviderScript { claims: Some(Box::new(without)), ..ProviderScript::default() });
                let answer = come_from(world, &provider, &person(), |_| ());
                let found = (answer.status, answer.code());
                assert_eq!(found, (401, "unauthenticated"), "no token without {name}");
                assert_eq!(left(world), before, "without {name}");
            }
            for (what, person) in
                [("an empty subject", json!({"sub": ""})), ("a long one", json!({"sub": "1".repeat(256)}))]
            {
                provider.does(ProviderScript::default());
                assert_eq!(come_from(world, &provider, &person, |_| ()).status, 403, "{what}");
                assert_eq!(left(world), before, "{what}");
            }
            provider.does(claims(|claims| moved(claims, "exp", -58)));
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 303, "a minute of skew");
            provider.does(claims(|claims| moved(claims, "iat", 59)));
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 303, "a minute of skew");
        },
    );
}

#[test]
fn what_the_browser_brings_back_is_compared() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            provider.does(ProviderScript::default());
            let before = left(world);
            let set = |back: &mut Vec<(String, String)>, name: &str, value: &str| {
                back.iter_mut()
                    .filter(|(other, _)| other == name)
                    .for_each(|(_, old)| *old = value.to_owned());
            };
            let changes: [(&str, &dyn Fn(&mut Vec<(String, String)>)); 5] = [
                ("another code", &|back| set(back, "code", "code-unknown")),
                ("no code", &|back| back.retain(|(name, _)| name != "code")),
                ("another issuer", &|back| set(back, "iss", "https://evil.example")),
                ("no issuer, though the provider names itself", &|back| {
                    back.retain(|(name, _)| name != "iss")
                }),
                ("an error beside the code", &|back| {
                    back.push(("error".to_owned(), "access_denied".to_owned()))
                }),
            ];
            for (what, change) in changes {
                let answer = come_from(world, &provider, &person(), change);
                assert_eq!(
                    (answer.status, answer.code()),
                    (401, "unauthenticated"),
                    "{what}: {:#}",
                    answer.body
                );
                assert!(
                    !answer.body.to_string().contains("your code is unknown"),
                    "the provider's words are not shown"
                );
                assert_eq!(left(world), before, "{what}");
            }
            // The code of another sign-in, which has another verifier.
            let mine = begin(world, "");
            let others = begin(world, "");
            let code = provider.sign_in(world.clock.now(), &others.sent_to, &person())[0].1.clone();
            let back = provider.sign_in(world.clock.now(), &mine.sent_to, &person());
            let query = format!("{BACK}?code={code}&state={}&iss={}", back[1].1, back[2].1);
            get(world, &query, Some(&mine.cookie)).refused(401, "unauthenticated");
            assert_eq!(left(world), before);
        },
    );
}

#[test]
fn a_provider_that_does_not_work_is_unavailable() {
    type Change = fn(&mut Value);
    let documents: [Change; 6] = [
        |document| document["issuer"] = json!("https://evil.example"),
        |document| document["jwks_uri"] = json!("http://127.0.0.2:1/keys"),
        |document| document["jwks_uri"] = json!("https://10.0.0.1/keys"),
        |document| drop(document.as_object_mut().unwrap().remove("token_endpoint")),
        |document| document["authorization_endpoint"] = json!("http://idp.example/authorize"),
        |document| document["authorization_endpoint"] = json!("javascript:alert(1)"),
    ];
    let broken = [
        ResponsePlan::Json(500, json!({})),
        ResponsePlan::Json(404, json!({})),
        ResponsePlan::Json(200, json!({"keys": 1})),
        ResponsePlan::Redirect,
        ResponsePlan::Huge,
        ResponsePlan::Page,
    ];
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            let before = left(world);
            let login = format!("{LOGIN}?workspace_id={}", world.id("workspace"));
            for path in [DISCOVERY, "/keys"] {
                for answers in &broken {
                    provider.does(ProviderScript {
                        answers: [(path, answers.clone())].into(),
                        ..ProviderScript::default()
                    });
                    let answer = get(world, &login, None);
                    assert_eq!(
                        (answer.status, answer.code()),
                        (503, "provider-unavailable"),
                        "{path}: {answers:?}"
                    );
                }
            }
            for document in documents {
                provider
                    .does(ProviderScript { document: Some(Box::new(document)), ..ProviderScript::default() });
                get(world, &login, None).refused(503, "provider-unavailable");
            }
            assert_eq!(count(world, "oidc_logins"), 0, "nothing begins that cannot go on");
            provider.does(ProviderScript::default());
            for answers in broken.iter().chain([&ResponsePlan::Json(401, json!({"error": "invalid_client"}))])
            {
                provider.does(ProviderScript {
                    answers: [("/token", answers.clone())].into(),
                    ..ProviderScript::default()
                });
                let answer = come_from(world, &provider, &person(), |_| ());
                assert_eq!((answer.status, answer.code()), (503, "provider-unavailable"), "{answers:?}");
            }
            assert_eq!(left(world), before);
            provider.does(ProviderScript::default());
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 303, "a control");
        },
    );
}

/// A provider that accepts connections and never answers is abandoned after ten seconds, for all waiting
/// requests.
///
/// If it were tried for each of them in turn, the last would wait for minutes. The number of waiting requests
/// is limited.
#[test]
fn a_provider_that_never_answers_is_given_up() {
    const WAIT: usize = 64;
    std::thread::scope(|scope| {
        scope.spawn(user_info_that_never_answers_is_given_up);
        let provider = Provider::start();
        let engine = engines().remove(0);
        let world = World::with(engine, at(&provider));
        provider.does(ProviderScript {
            answers: [(DISCOVERY, ResponsePlan::Never)].into(),
            ..ProviderScript::default()
        });
        let login = format!("{LOGIN}?workspace_id={}", world.id("workspace"));
        let refusals = in_parallel(WAIT + 8, |_| {
            let answer = get(&world, &login, None);
            (answer.status, answer.code().to_owned())
        });
        let refused = |code: &str| refusals.iter().filter(|found| **found == (503, code.to_owned())).count();
        assert_eq!((refused("provider-unavailable"), refused("overloaded")), (WAIT, 8), "{refusals:?}");
        assert_eq!(provider.asked(DISCOVERY), 1);
    });
}

fn user_info_that_never_answers_is_given_up() {
    let provider = Provider::start();
    let world = World::with(engines().remove(0), at(&provider));
    provider.does(ProviderScript {
        answers: [("/userinfo", ResponsePlan::Never)].into(),
        ..ProviderScript::default()
    });
    let before = left(&world);
    let answer = come_from(&world, &provider, &json!({"sub": "1"}), |_| ());
    answer.refused(503, "provider-unavailable");
    assert_eq!((left(&world), provider.asked("/userinfo")), (before, 1), "nobody is created");
}

#[test]
fn keys_are_fetched_again_for_an_unknown_one_but_at_most_once_a_minute() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            provider.does(ProviderScript::default());
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 303);
            let before = provider.asked("/keys");
            let rotated = || ProviderScript { key_id: Some("newer"), ..ProviderScript::default() };
            provider.does(rotated());
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 401, "asked a moment ago");
            assert_eq!(provider.asked("/keys"), before);
            world.clock.advance(Duration::from_secs(60));
            assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 303);
            assert_eq!(provider.asked("/keys"), before + 1);
            let unknown: fn(&mut Value) = |header| header["kid"] = json!("made up");
            provider.does(ProviderScript { header: Some(Box::new(unknown)), ..rotated() });
            world.clock.advance(Duration::from_secs(60));
            for _ in 0..3 {
                assert_eq!(come_from(world, &provider, &person(), |_| ()).status, 401);
            }
            assert_eq!(provider.asked("/keys"), before + 2);
        },
    );
}

#[test]
fn the_redirect_uri_is_the_configured_one_whatever_the_host() {
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            provider.does(ProviderScript::default());
            let target = format!("{LOGIN}?workspace_id={}", world.id("workspace"));
            let named =
                |host: &str| world.rest().send(None, "GET", &target, &[("x-forwarded-host", host)], None);
            let sent_to = location(&named("evil.example"));
            assert_eq!(pairs(sent_to.split_once('?').unwrap().1)["redirect_uri"], CALLBACK);
        },
    );
}

/// The real program, in production: a certificate counts only with an authority that the machine trusts.
#[test]
fn a_provider_is_reached_by_tls_that_the_machine_trusts() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::start_tls(folder.path());
    let roots = folder.path().join("roots.pem");
    let site = Site::found(Engine::Sqlite);
    let mut variables = provider.variables();
    variables.push(("SVC_ENV", "production".to_owned()));
    variables.push(("SVC_SESSION_SECRET", "a key of thirty-two bytes or more".to_owned()));
    variables.push(("SVC_OIDC_AUTO_PROVISION", "1".to_owned()));
    for (trusted, wanted) in [(false, 503), (true, 303)] {
        let mut variables = variables.clone();
        if trusted {
            variables.push(("SSL_CERT_FILE", roots.to_str().unwrap().to_owned()));
        }
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let server = site.serve(&variables);
        let login = format!("{LOGIN}?workspace_id={}", site.founders.workspace_id);
        let sent = server.rest.send(None, "GET", &login, &[], None);
        assert_eq!(sent.status, wanted, "trusted: {trusted}: {:#}", sent.body);
        if !trusted {
            continue;
        }
        let back = provider.sign_in(Clock::system().now(), &location(&sent), &person());
        let query: Vec<String> = back.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookie = cookie_of(&sent, "svc_oidc").unwrap();
        let target = format!("{BACK}?{}", query.join("&"));
        let back = server.rest.send(None, "GET", &target, &[("cookie", &cookie)], None);
        assert_eq!(location(&back), "/ui/");
    }
}
