//! Sign-ins at well-known providers, each with documents in its own form.

use serde_json::{Value, json};
use svc_tests::World;
use svc_tests::database::engines;
use svc_tests::provider::{Provider, ProviderScript, Templates, pairs};

use super::{at, begin, come_from, count, session};

/// Includes a provider by its name, with its documents.
macro_rules! producer {
    ($name:literal) => {
        ($name, include_str!(concat!("producers/", $name, ".json")))
    };
}

const PRODUCERS: [(&str, &str); 11] = [
    producer!("keycloak"),
    producer!("entra-v1"),
    producer!("entra-v2"),
    producer!("google"),
    producer!("okta"),
    producer!("auth0"),
    producer!("authelia"),
    producer!("zitadel"),
    producer!("gitlab"),
    producer!("dex"),
    producer!("authentik"),
];

/// The outcome does not depend on the database, so each engine tests every second provider.
#[test]
fn people_sign_in_at_each_provider() {
    let engines = engines();
    for (place, (name, documents)) in PRODUCERS.iter().enumerate() {
        let provider = Provider::start_as(Templates::parse(documents));
        let world = World::with(engines[place % engines.len()], at(&provider));
        let documents: Value = serde_json::from_str(documents).unwrap();
        let user_info = documents["discovery"]["userinfo_endpoint"].as_str().unwrap().replace("{base}", "");
        for _ in 0..2 {
            let joined = session(&world, &come_from(&world, &provider, &json!({}), |_| ()));
            assert_eq!(joined["handle"], documents["wants"]["handle"], "{name}");
            assert_eq!(json!(provider.asked(&user_info)), documents["wants"]["user_info"], "{name}");
        }
        assert_eq!(count(&world, "oidc_identities"), 1, "{name}: whoever comes again is found");
    }
}

#[test]
fn a_token_for_more_audiences_counts_if_all_of_them_are_trusted() {
    let provider = Provider::start();
    let mut setup = at(&provider);
    setup.http = provider.settings_with("openid", &["352", "svc@project"]);
    let world = World::with(engines()[0], setup);
    for (audiences, party, wanted) in [
        (json!(["svc", "352"]), json!(null), 303),
        (json!(["svc@project", "352", "svc"]), json!(null), 303),
        (json!(["svc", "other"]), json!(null), 401),
        (json!(["svc", "352", "other"]), json!(null), 401),
        (json!(["svc", "352", "other"]), json!("svc"), 303),
        (json!(["svc", "352"]), json!("352"), 401),
        (json!(["352", "svc@project"]), json!(null), 401),
        (json!("352"), json!(null), 401),
        (json!("352"), json!("svc"), 401),
    ] {
        let aud = audiences.clone();
        let azp = party.clone();
        let change = move |claims: &mut Value| (claims["aud"], claims["azp"]) = (aud.clone(), azp.clone());
        provider.does(ProviderScript { claims: Some(Box::new(change)), ..ProviderScript::default() });
        let answer = come_from(&world, &provider, &json!({"sub": "1"}), |_| ());
        assert_eq!(answer.status, wanted, "{audiences}, {party}: {:#}", answer.body);
    }
}

#[test]
fn the_provider_is_asked_for_the_scopes_that_are_set() {
    let provider = Provider::start();
    for scopes in ["openid email profile", "openid urn:zitadel:iam:user:resourceowner"] {
        let mut setup = at(&provider);
        setup.http = provider.settings_with(scopes, &[]);
        let world = World::with(engines()[0], setup);
        let sent_to = begin(&world, "").sent_to;
        assert_eq!(pairs(sent_to.split_once('?').unwrap().1)["scope"], scopes);
    }
}

#[test]
fn user_info_is_asked_only_about_somebody_unknown_without_an_email() {
    let provider = Provider::start();
    super::on_both(
        || at(&provider),
        |world| {
            provider.does(ProviderScript::default());
            let mut before = provider.asked("/userinfo");
            for (person, wanted) in [
                (json!({"sub": "1", "email": "ada@corp.example"}), 0),
                (json!({"sub": "1"}), 0),
                (json!({"sub": "2"}), 1),
                (json!({"sub": "2"}), 0),
                (json!({"sub": "3", "name": "Eve"}), 1),
            ] {
                session(world, &come_from(world, &provider, &person, |_| ()));
                let asked = provider.asked("/userinfo");
                assert_eq!(asked - before, wanted, "{person}");
                before = asked;
            }
        },
    );
}
