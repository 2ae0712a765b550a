//! Forms of the UserInfo response: it adds an email and a name, but only for the subject of the ID token.

use serde_json::{Value, json};
use svc_tests::provider::{Document, ProviderScript, ResponsePlan, Signed};
use svc_tests::text;

use super::forms::{self, Away, ByEmail, ByName, Down, Form, Nameless, changed, check, remove};

/// Changes a response with an email and a name.
fn user_info(change: fn(&mut Value)) -> ProviderScript {
    let change = move |all: &mut Value| {
        let subject = text(&all["sub"]);
        all["email"] = json!(format!("{subject}@corp.example"));
        all["email_verified"] = json!(true);
        all["name"] = json!(subject.replacen('p', "P ", 1));
        change(all);
    };
    ProviderScript { user_info: Some(Box::new(change)), ..ProviderScript::default() }
}

fn whole() -> ProviderScript {
    user_info(|_| ())
}

fn answers(answers: ResponsePlan) -> ProviderScript {
    ProviderScript { answers: [("/userinfo", answers)].into(), ..whole() }
}

fn signed(signed: Signed, change: fn(&mut Value)) -> ProviderScript {
    ProviderScript { user_info_signed: Some(signed), ..user_info(change) }
}

fn tokens(change: fn(&mut Value)) -> ProviderScript {
    ProviderScript { tokens: changed(Document::Tokens, change).tokens, ..whole() }
}

fn document(change: fn(&mut Value)) -> ProviderScript {
    ProviderScript { document: changed(Document::Discovery, change).document, ..whole() }
}

fn written(write: fn(String) -> String) -> ProviderScript {
    ProviderScript { written: forms::written(Document::UserInfo, write).written, ..whole() }
}

const FORMS: &[Form] = &[
    ("an email and a name", ByEmail, whole),
    ("a verified email, as text", ByEmail, || user_info(|all| all["email_verified"] = json!("true"))),
    ("an unverified email", ByName, || user_info(|all| all["email_verified"] = json!(false))),
    ("an email of which nothing is said", ByName, || user_info(|all| remove(all, "email_verified"))),
    ("an email verified by a number", ByName, || user_info(|all| all["email_verified"] = json!(1))),
    ("an email in a list", ByName, || user_info(|all| all["email"] = json!([all["email"]]))),
    ("only a name", ByName, || user_info(|all| remove(all, "email"))),
    ("a name that is a number", ByEmail, || user_info(|all| all["name"] = json!(7))),
    ("standard claims of other types", ByEmail, || {
        user_info(|all| {
            (all["updated_at"], all["address"]) =
                (json!("Wed Apr 04 18:45:44 CEST 2018"), json!("1 Main St"));
            (all["amr"], all["locale"], all["groups"]) = (json!("[\"pwd\"]"), json!(null), json!("staff"));
            (all["iss"], all["aud"], all["exp"]) = (json!("https://other.example"), json!(7), json!("never"));
        })
    }),
    ("the email is verified there, and is in the ID token", ByName, || ProviderScript {
        claims: Some(Box::new(|all| {
            all["email"] = json!(format!("{}@corp.example", text(&all["sub"])));
            all["name"] = json!(text(&all["sub"]).replacen('p', "P ", 1));
        })),
        ..whole()
    }),
    ("an email that the ID token says is verified", ByName, || ProviderScript {
        claims: Some(Box::new(|all| all["email_verified"] = json!(true))),
        ..user_info(|all| remove(all, "email_verified"))
    }),
    ("a byte order mark", ByEmail, || written(|text| format!("\u{feff}{text}"))),
    ("served as text", ByEmail, || ProviderScript {
        media_type: Some("text/plain; charset=UTF-8"),
        ..whole()
    }),
    ("signed", ByEmail, || signed(Signed::Rs256, |_| ())),
    ("signed by another key of the provider", ByEmail, || signed(Signed::Es256, |_| ())),
    ("signed for this client", ByEmail, || signed(Signed::Rs256, |all| all["aud"] = json!(["svc", "other"]))),
    ("signed for another client", Away, || signed(Signed::Rs256, |all| all["aud"] = json!("other"))),
    ("signed for a number", Away, || signed(Signed::Rs256, |all| all["aud"] = json!(7))),
    ("signed by another issuer", Away, || {
        signed(Signed::Rs256, |all| all["iss"] = json!("https://evil.example"))
    }),
    ("signed by a stranger", Away, || signed(Signed::Stranger, |_| ())),
    ("signed with the secret of the client", Away, || signed(Signed::Hs256, |_| ())),
    ("signed with nothing", Away, || signed(Signed::None, |_| ())),
    ("signed, and changed", Away, || signed(Signed::Tampered, |_| ())),
    ("signed, about somebody else", Away, || signed(Signed::Rs256, |all| all["sub"] = json!("other"))),
    ("said to be signed", Away, || ProviderScript { media_type: Some("application/jwt"), ..whole() }),
    ("about somebody else", Away, || user_info(|all| all["sub"] = json!("other"))),
    ("about somebody in other letters", Away, || {
        user_info(|all| all["sub"] = json!(text(&all["sub"]).to_uppercase()))
    }),
    ("about nobody", Away, || user_info(|all| all["sub"] = json!(""))),
    ("about a number", Away, || user_info(|all| all["sub"] = json!(7))),
    ("about a list", Away, || user_info(|all| all["sub"] = json!([all["sub"]]))),
    ("without a subject", Nameless, || user_info(|all| remove(all, "sub"))),
    ("with a subject that is null", Nameless, || user_info(|all| all["sub"] = json!(null))),
    ("nothing at all", Nameless, || user_info(|all| *all = json!({}))),
    ("no endpoint", Nameless, || document(|all| remove(all, "userinfo_endpoint"))),
    ("an endpoint that is not an address", Nameless, || {
        document(|all| all["userinfo_endpoint"] = json!("/userinfo"))
    }),
    ("no access token", Nameless, || tokens(|all| remove(all, "access_token"))),
    ("an access token that is a number", Nameless, || tokens(|all| all["access_token"] = json!(7))),
    ("an access token that cannot be sent", Nameless, || tokens(|all| all["access_token"] = json!("a\nb"))),
    ("an access token of another type", Nameless, || tokens(|all| all["token_type"] = json!("DPoP"))),
    ("a token type in other letters", ByEmail, || tokens(|all| all["token_type"] = json!("BEARER"))),
    ("no token type", ByEmail, || tokens(|all| remove(all, "token_type"))),
    ("an endpoint at a private address", Down, || {
        document(|all| all["userinfo_endpoint"] = json!("https://10.0.0.1/userinfo"))
    }),
    ("a list", Down, || written(|text| format!("[{text}]"))),
    ("an empty answer", Down, || written(|_| String::new())),
    ("a page", Down, || answers(ResponsePlan::Page)),
    ("elsewhere", Down, || answers(ResponsePlan::Redirect)),
    ("too much", Down, || answers(ResponsePlan::Huge)),
    ("nothing, by status 204", Down, || answers(ResponsePlan::Bytes(204, "text/plain", b""))),
    ("an access token that does not count", Down, || {
        answers(ResponsePlan::Json(401, json!({"error": "invalid_token"})))
    }),
    ("a lack of scope", Down, || answers(ResponsePlan::Json(403, json!({"error": "insufficient_scope"})))),
    ("not found", Down, || answers(ResponsePlan::Json(404, json!({})))),
    ("too many requests", Down, || answers(ResponsePlan::Json(429, json!({})))),
    ("a fault", Down, || answers(ResponsePlan::Json(500, json!({})))),
];

#[test]
fn a_user_info_answer_is_read_in_the_forms_of_providers() {
    check(FORMS, false);
}
