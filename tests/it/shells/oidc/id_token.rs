//! Forms of the ID token: deciding members must have their type, decorating ones may have any.

use serde_json::{Value, json};
use svc_tests::provider::{Document, ProviderScript, Signed};

use super::forms::{Away, ByEmail, ByName, Form, Nobody, changed, check, remove, written};

fn claims(change: fn(&mut Value)) -> ProviderScript {
    changed(Document::Claims, change)
}

fn header(change: fn(&mut Value)) -> ProviderScript {
    changed(Document::Header, change)
}

/// The claims that decorate.
const DECORATIONS: &[Form] = &[
    ("a date as text", ByEmail, || claims(|all| all["updated_at"] = json!("2026-11-28T15:00:00.000Z"))),
    ("methods as text", ByEmail, || claims(|all| all["amr"] = json!("pwd"))),
    ("standard claims of other types", ByEmail, || {
        claims(|all| {
            (all["auth_time"], all["acr"], all["sid"]) = (json!("soon"), json!(1), json!(null));
            (all["address"], all["locale"], all["zoneinfo"]) = (json!("1 Main St"), json!(null), json!(7));
            (all["picture"], all["website"], all["gender"]) = (json!("not an address"), json!([]), json!(2));
            (all["phone_number_verified"], all["birthdate"]) = (json!("no"), json!(false));
        })
    }),
    ("hashes of other types", ByEmail, || {
        claims(|all| (all["at_hash"], all["c_hash"], all["s_hash"]) = (json!(7), json!(null), json!({})))
    }),
    ("a name that is a number", ByEmail, || claims(|all| all["name"] = json!(7))),
    ("a name by languages", ByEmail, || {
        claims(|all| (all["name"], all["name#ja"]) = (json!({}), json!("日本")))
    }),
    ("no name", ByEmail, || claims(|all| remove(all, "name"))),
    ("a name beyond all measure", ByEmail, || claims(|all| all["name"] = json!("x".repeat(100_000)))),
    ("a name with a NUL", ByEmail, || claims(|all| all["name"] = json!("A\0da"))),
    ("a verified email, as text", ByEmail, || claims(|all| all["email_verified"] = json!("true"))),
    ("an unverified email", ByName, || claims(|all| all["email_verified"] = json!(false))),
    ("an unverified email, as text", ByName, || claims(|all| all["email_verified"] = json!("false"))),
    ("an email verified by a number", ByName, || claims(|all| all["email_verified"] = json!(1))),
    ("an email verified in capitals", ByName, || claims(|all| all["email_verified"] = json!("TRUE"))),
    ("an email verified by a list", ByName, || claims(|all| all["email_verified"] = json!([true]))),
    ("an email of which nothing is said", ByName, || claims(|all| remove(all, "email_verified"))),
    ("an email in a list", ByName, || claims(|all| all["email"] = json!([all["email"]]))),
    ("an email that is null", ByName, || claims(|all| all["email"] = json!(null))),
    ("an email that is empty", ByName, || claims(|all| all["email"] = json!(""))),
    ("an email with a NUL", ByName, || claims(|all| all["email"] = json!("ada\0@corp.example"))),
    ("an email with half a character", ByName, || {
        written(Document::Claims, |text| text.replacen("\"email\":\"", "\"email\":\"\\ud800", 1))
    }),
    ("unknown claims that are deep", ByEmail, || {
        written(Document::Claims, |text| {
            text.replacen('{', &format!("{{\"deep\":{}{},", "[".repeat(500), "]".repeat(500)), 1)
        })
    }),
    ("no type in its header", ByEmail, || header(|all| remove(all, "typ"))),
    ("certificates of other types in its header", ByEmail, || {
        header(|all| {
            (all["typ"], all["x5c"], all["x5t"], all["jku"]) = (json!(7), json!("a"), json!(1), json!([]))
        })
    }),
    ("an extension of its header that is null", ByEmail, || header(|all| all["crit"] = json!(null))),
];

/// The claims that decide.
const DECISIONS: &[Form] = &[
    ("an audience in a list", ByEmail, || claims(|all| all["aud"] = json!(["svc"]))),
    ("an audience twice", ByEmail, || claims(|all| all["aud"] = json!(["svc", "svc"]))),
    ("more audiences, and the party is this client", ByEmail, || {
        claims(|all| (all["aud"], all["azp"]) = (json!(["352", "svc", "other"]), json!("svc")))
    }),
    ("more audiences", Away, || claims(|all| all["aud"] = json!(["svc", "352"]))),
    ("more audiences, and another party", Away, || {
        claims(|all| (all["aud"], all["azp"]) = (json!(["svc", "352"]), json!("352")))
    }),
    ("another audience, and the party is this client", Away, || {
        claims(|all| (all["aud"], all["azp"]) = (json!("352"), json!("svc")))
    }),
    ("another party", Away, || claims(|all| all["azp"] = json!("other"))),
    ("a party that is null", ByEmail, || claims(|all| all["azp"] = json!(null))),
    ("a party that is empty", Away, || claims(|all| all["azp"] = json!(""))),
    ("a party in a list", Away, || claims(|all| all["azp"] = json!(["svc"]))),
    ("an audience in other letters", Away, || claims(|all| all["aud"] = json!("SVC"))),
    ("an audience that is a number", Away, || claims(|all| all["aud"] = json!(7))),
    ("an audience that is an object", Away, || claims(|all| all["aud"] = json!({"svc": true}))),
    ("no audience in a list", Away, || claims(|all| all["aud"] = json!([]))),
    ("an audience beside a number", Away, || {
        claims(|all| (all["aud"], all["azp"]) = (json!(["svc", 7]), json!("svc")))
    }),
    ("no audience", Away, || claims(|all| remove(all, "aud"))),
    ("an audience that is null", Away, || claims(|all| all["aud"] = json!(null))),
    ("an issuer that is not an address", Away, || claims(|all| all["iss"] = json!("not an address"))),
    ("an issuer in a list", Away, || claims(|all| all["iss"] = json!([all["iss"]]))),
    ("an issuer that is a number", Away, || claims(|all| all["iss"] = json!(7))),
    ("no issuer", Away, || claims(|all| remove(all, "iss"))),
    ("no subject", Away, || claims(|all| remove(all, "sub"))),
    ("a subject that is a number", Away, || claims(|all| all["sub"] = json!(7))),
    ("a subject that is null", Away, || claims(|all| all["sub"] = json!(null))),
    ("a subject with half a character", Away, || {
        written(Document::Claims, |text| text.replacen("\"sub\":\"", "\"sub\":\"\\ud800", 1))
    }),
    ("a subject with a NUL", Nobody, || claims(|all| all["sub"] = json!("p\0"))),
    ("an end with a fraction", ByEmail, || {
        claims(|all| all["exp"] = json!(all["iat"].as_f64().unwrap() + 300.75))
    }),
    ("an end beyond all time", ByEmail, || claims(|all| all["exp"] = json!(1e300))),
    ("an end beyond numbers", Away, || {
        written(Document::Claims, |text| text.replacen("\"exp\":", "\"exp\":1e999,\"x\":", 1))
    }),
    ("an end as text", Away, || claims(|all| all["exp"] = json!(all["exp"].to_string()))),
    ("an end below zero", Away, || claims(|all| all["exp"] = json!(-1))),
    ("no end", Away, || claims(|all| remove(all, "exp"))),
    ("a beginning as text", Away, || claims(|all| all["nbf"] = json!(all["iat"].to_string()))),
    ("a beginning that is null", ByEmail, || claims(|all| all["nbf"] = json!(null))),
    ("issued at a text", Away, || claims(|all| all["iat"] = json!("now"))),
    ("no time of issue", Away, || claims(|all| remove(all, "iat"))),
    ("a nonce that is a number", Away, || claims(|all| all["nonce"] = json!(7))),
    ("a nonce in a list", Away, || claims(|all| all["nonce"] = json!([all["nonce"]]))),
    ("claims in a list", Away, || written(Document::Claims, |text| format!("[{text}]"))),
    ("no claims", Away, || written(Document::Claims, |_| String::new())),
    ("no algorithm in its header", Away, || header(|all| remove(all, "alg"))),
    ("an algorithm that is a number", Away, || header(|all| all["alg"] = json!(256))),
    ("an algorithm in other letters", Away, || header(|all| all["alg"] = json!("rs256"))),
    ("the algorithm of a neighbour", Away, || header(|all| all["alg"] = json!("PS256"))),
    ("an extension that must be understood", Away, || {
        header(|all| (all["crit"], all["b64"]) = (json!(["b64"]), json!(false)))
    }),
    ("extensions that must be understood, and are none", Away, || header(|all| all["crit"] = json!([]))),
    ("a header in a list", Away, || written(Document::Header, |text| format!("[{text}]"))),
    ("a key of its own, which it is signed with", Away, || ProviderScript {
        signed: Signed::Stranger,
        ..header(|all| all["jwk"] = json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}))
    }),
    ("keys elsewhere, which it is signed with", Away, || ProviderScript {
        signed: Signed::Stranger,
        ..header(|all| {
            (all["jku"], all["x5u"]) = (json!("https://evil.example"), json!("https://evil.example"))
        })
    }),
    ("the name of a file as that of the key", Away, || header(|all| all["kid"] = json!("../../dev/null"))),
];

#[test]
fn what_decorates_an_id_token_may_have_any_form() {
    check(DECORATIONS, true);
}

#[test]
fn what_decides_in_an_id_token_has_its_form() {
    check(DECISIONS, true);
}
