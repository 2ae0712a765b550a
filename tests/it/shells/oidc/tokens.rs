//! Forms of the token response: the ID token counts, and almost nothing else.

use serde_json::{Value, json};
use svc_tests::provider::{Document, ProviderScript, ResponsePlan};
use svc_tests::text;

use super::forms::{Away, ByEmail, Down, Form, changed, check, remove, written};

fn tokens(change: fn(&mut Value)) -> ProviderScript {
    changed(Document::Tokens, change)
}

fn answers(answers: ResponsePlan) -> ProviderScript {
    ProviderScript { answers: [("/token", answers)].into(), ..ProviderScript::default() }
}

/// Changes the text of the ID token.
fn token(change: fn(&str) -> String) -> ProviderScript {
    let change = move |all: &mut Value| all["id_token"] = json!(change(&text(&all["id_token"])));
    ProviderScript { tokens: Some(Box::new(change)), ..ProviderScript::default() }
}

const FORMS: &[Form] = &[
    ("seconds as text", ByEmail, || tokens(|all| all["expires_in"] = json!("3600"))),
    ("seconds that are null", ByEmail, || tokens(|all| all["expires_in"] = json!(null))),
    ("seconds below zero", ByEmail, || tokens(|all| all["expires_in"] = json!(-1.5))),
    ("seconds beyond numbers", ByEmail, || {
        written(Document::Tokens, |text| text.replacen('{', "{\"expires_in\":1e999,", 1))
    }),
    ("scopes in a list", ByEmail, || tokens(|all| all["scope"] = json!(["openid", "email"]))),
    ("a refresh token that is an object", ByEmail, || tokens(|all| all["refresh_token"] = json!({"a": 1}))),
    ("no token type", ByEmail, || tokens(|all| remove(all, "token_type"))),
    ("a token type in lower case", ByEmail, || tokens(|all| all["token_type"] = json!("bearer"))),
    ("a token type that is a number", ByEmail, || tokens(|all| all["token_type"] = json!(7))),
    ("a token type of another kind", ByEmail, || tokens(|all| all["token_type"] = json!("DPoP"))),
    ("no access token", ByEmail, || tokens(|all| remove(all, "access_token"))),
    ("an access token that is null", ByEmail, || tokens(|all| all["access_token"] = json!(null))),
    ("an access token that is an object", ByEmail, || tokens(|all| all["access_token"] = json!({}))),
    ("an error that is null", ByEmail, || tokens(|all| all["error"] = json!(null))),
    ("an error that is empty", ByEmail, || tokens(|all| all["error"] = json!(""))),
    ("a byte order mark", ByEmail, || written(Document::Tokens, |text| format!("\u{feff}{text}"))),
    ("served as text", ByEmail, || ProviderScript {
        media_type: Some("text/javascript"),
        ..ProviderScript::default()
    }),
    ("the ID token twice, the last is right", ByEmail, || {
        written(Document::Tokens, |text| text.replacen('{', "{\"id_token\":7,", 1))
    }),
    ("no ID token", Away, || tokens(|all| remove(all, "id_token"))),
    ("an ID token that is null", Away, || tokens(|all| all["id_token"] = json!(null))),
    ("an ID token that is a number", Away, || tokens(|all| all["id_token"] = json!(7))),
    ("an ID token that is an object", Away, || tokens(|all| all["id_token"] = json!({"sub": "p1"}))),
    ("an ID token in a list", Away, || tokens(|all| all["id_token"] = json!([all["id_token"]]))),
    ("an ID token that is empty", Away, || token(|_| String::new())),
    ("an ID token of two parts", Away, || token(|all| all.rsplit_once('.').unwrap().0.to_owned())),
    ("an ID token of four parts", Away, || token(|all| format!("{all}.e30"))),
    ("an ID token that is encrypted", Away, || {
        token(|_| "eyJhbGciOiJSU0EtT0FFUCJ9.a2V5.aXY.dGV4dA.dGFn".to_owned())
    }),
    ("an ID token with padding", Away, || token(|all| format!("{all}=="))),
    ("an ID token without its signature", Away, || {
        token(|all| all.rsplit_once('.').unwrap().0.to_owned() + ".")
    }),
    ("an ID token with a space behind it", Away, || token(|all| format!("{all} "))),
    ("the access token as ID token", Away, || tokens(|all| all["id_token"] = all["access_token"].clone())),
    ("an unknown code", Away, || {
        answers(ResponsePlan::Json(
            400,
            json!({"error": "invalid_grant", "error_codes": [54005], "error_uri": 7}),
        ))
    }),
    ("an unknown code by another status", Away, || {
        answers(ResponsePlan::Json(403, json!({"error": "invalid_grant"})))
    }),
    ("an unknown code by status 200", Away, || {
        answers(ResponsePlan::Json(200, json!({"error": "invalid_grant"})))
    }),
    ("an unknown client", Down, || answers(ResponsePlan::Json(401, json!({"error": "invalid_client"})))),
    ("an error of its own", Down, || answers(ResponsePlan::Json(400, json!({"error": "AADSTS50011"})))),
    ("an error that is an object", Down, || {
        answers(ResponsePlan::Json(400, json!({"error": {"message": "invalid_grant"}})))
    }),
    ("no token at all", Down, || answers(ResponsePlan::Json(200, json!({})))),
    ("tokens by status 400", Down, || {
        answers(ResponsePlan::Json(
            400,
            json!({"access_token": "a", "token_type": "Bearer", "id_token": "a.b.c"}),
        ))
    }),
    ("a list", Down, || written(Document::Tokens, |text| format!("[{text}]"))),
    ("a text", Down, || written(Document::Tokens, |text| json!(text).to_string())),
    ("a form", Down, || written(Document::Tokens, |_| "access_token=a&token_type=bearer".to_owned())),
    ("nothing", Down, || written(Document::Tokens, |_| String::new())),
    ("a page", Down, || answers(ResponsePlan::Page)),
    ("elsewhere", Down, || answers(ResponsePlan::Redirect)),
    ("too much", Down, || answers(ResponsePlan::Huge)),
    ("a fault", Down, || answers(ResponsePlan::Json(502, json!({"error": "invalid_grant"})))),
];

#[test]
fn a_token_answer_is_read_in_the_forms_of_providers() {
    check(FORMS, true);
}
