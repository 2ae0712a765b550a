//! Unknown members, of any type, in every document: they change nothing.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;
use svc_tests::provider::{Document, Provider, ProviderScript};
use svc_tests::{World, text};

use super::forms::{Away, ByEmail, Down, Outcome, outcome};
use super::{at, on_both};

/// The members that are read in some document.
const KNOWN: [&str; 30] = [
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "userinfo_endpoint",
    "token_endpoint_auth_methods_supported",
    "authorization_response_iss_parameter_supported",
    "keys",
    "kty",
    "use",
    "alg",
    "kid",
    "n",
    "e",
    "crv",
    "x",
    "y",
    "crit",
    "id_token",
    "access_token",
    "token_type",
    "error",
    "iss",
    "sub",
    "aud",
    "azp",
    "exp",
    "iat",
    "nbf",
    "nonce",
];

/// Members about persons, which are read in the ID token and UserInfo.
const OF_PERSONS: [&str; 3] = ["email", "email_verified", "name"];

/// Names that documents have, but that are not read.
const UNREAD: [&str; 24] = [
    "response_types_supported",
    "id_token_signing_alg_values_supported",
    "claims_supported",
    "mtls_endpoint_aliases",
    "x5c",
    "x5t#S256",
    "key_ops",
    "d",
    "jwk",
    "jku",
    "typ",
    "cty",
    "expires_in",
    "scope",
    "refresh_token",
    "error_description",
    "updated_at",
    "amr",
    "auth_time",
    "address",
    "locale",
    "at_hash",
    "__proto__",
    "",
];

/// Returns a JSON value, as text, including values that few parsers accept.
fn value() -> impl Strategy<Value = String> {
    let odd = ["null", "true", "-0", "1e999", "0.1e-400", "123456789012345678901234567890", r#""\ud800""#];
    let deep = (1usize..300).prop_map(|depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
    let leaf = prop_oneof![
        proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| json!(number).to_string()),
        any::<String>().prop_map(|text| json!(text).to_string()),
        deep,
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        let member =
            (any::<String>(), inner.clone()).prop_map(|(name, value)| format!("{}:{value}", json!(name)));
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    })
}

/// Returns members, as text, with names that are not read.
fn members() -> impl Strategy<Value = Vec<String>> {
    let name =
        prop_oneof![proptest::sample::select(UNREAD.to_vec()).prop_map(str::to_owned), any::<String>()];
    let name =
        name.prop_filter("it is read", |name| !KNOWN.iter().chain(&OF_PERSONS).any(|known| known == name));
    let member = (name, value()).prop_map(|(name, value)| format!("{}:{value}", json!(name)));
    proptest::collection::vec(member, 1..5)
}

/// Adds members at both ends of an object, and of each key in it.
fn add(document: Document, text: &str, members: &[String]) -> String {
    let (some, others) = members.split_at(members.len() / 2);
    let inner = text.strip_prefix('{').unwrap().strip_suffix('}').unwrap();
    let inner = match document {
        Document::Keys => inner.replace("{\"", &format!("{{{},\"", members.join(","))),
        _ => inner.to_owned(),
    };
    let parts = some.iter().cloned().chain([inner]).chain(others.iter().cloned());
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    format!("{{{}}}", parts.join(","))
}

/// A sign-in, and whether the email is in its ID token.
type Case = (Outcome, bool, fn() -> ProviderScript);

const CASES: [Case; 6] = [
    (ByEmail, true, ProviderScript::default),
    (ByEmail, false, || ProviderScript {
        user_info: Some(Box::new(|all| {
            all["email"] = json!(format!("{}@corp.example", text(&all["sub"])));
            all["email_verified"] = json!("true");
        })),
        ..ProviderScript::default()
    }),
    (Away, true, || ProviderScript {
        claims: Some(Box::new(|all| all["exp"] = json!(7))),
        ..ProviderScript::default()
    }),
    (Away, false, || ProviderScript {
        user_info: Some(Box::new(|all| all["sub"] = json!("other"))),
        ..ProviderScript::default()
    }),
    (Away, true, || ProviderScript {
        header: Some(Box::new(|all| all["alg"] = json!("none"))),
        ..ProviderScript::default()
    }),
    (Down, true, || ProviderScript {
        document: Some(Box::new(|all| all["issuer"] = json!("https://evil.example"))),
        ..ProviderScript::default()
    }),
];

/// The number of sign-ins on each engine.
const SIGN_INS: u32 = 60;

fn try_all(world: &World, provider: &Provider) {
    let mut runner =
        TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(SIGN_INS) });
    let strategy = (0..CASES.len(), members());
    let number = std::cell::Cell::new(0);
    let tried = runner.run(&strategy, |(case, members)| {
        number.set(number.get() + 1);
        let (wanted, has_email, script) = CASES[case];
        let written = move |document: Document, text: String| add(document, &text, &members);
        provider.does(ProviderScript { written: Some(Box::new(written)), ..script() });
        prop_assert_eq!(outcome(world, provider, number.get(), has_email), wanted);
        Ok(())
    });
    tried.unwrap();
}

#[test]
fn unknown_members_of_any_type_change_nothing() {
    let provider = Provider::start();
    on_both(|| at(&provider), |world| try_all(world, &provider));
}
