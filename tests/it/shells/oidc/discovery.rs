//! Forms of the discovery document: only the members that are used count.

use serde_json::{Value, json};
use svc_tests::provider::{Document, ProviderScript, ResponsePlan};
use svc_tests::text;

use super::DISCOVERY;
use super::forms::{ByEmail, Down, Form, changed, check, remove, written};

fn document(change: fn(&mut Value)) -> ProviderScript {
    changed(Document::Discovery, change)
}

fn answers(answers: ResponsePlan) -> ProviderScript {
    ProviderScript { answers: [(DISCOVERY, answers)].into(), ..ProviderScript::default() }
}

const FORMS: &[Form] = &[
    ("only what is used", ByEmail, || {
        document(|all| {
            let used = ["issuer", "authorization_endpoint", "token_endpoint", "jwks_uri"];
            all.as_object_mut().unwrap().retain(|name, _| used.contains(&&**name));
        })
    }),
    ("lists of other types", ByEmail, || {
        document(|all| {
            all["response_types_supported"] = json!("code");
            all["subject_types_supported"] = json!(null);
            all["id_token_signing_alg_values_supported"] = json!({"alg": ["ES256K", 7]});
            all["scopes_supported"] = json!([["openid"]]);
            all["claims_supported"] = json!(1);
            all["ui_locales_supported"] = json!("not a locale!");
            all["op_policy_uri"] = json!("not an address");
        })
    }),
    ("a UserInfo endpoint that is a number", ByEmail, || document(|all| all["userinfo_endpoint"] = json!(7))),
    ("the secret in the body", ByEmail, || {
        document(|all| all["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]))
    }),
    ("one method as text", ByEmail, || {
        document(|all| all["token_endpoint_auth_methods_supported"] = json!("client_secret_post"))
    }),
    ("a method that is a number", ByEmail, || {
        document(|all| all["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic", 7]))
    }),
    ("only methods of another kind", ByEmail, || {
        document(|all| all["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt", "none"]))
    }),
    ("names itself, as text", ByEmail, || {
        document(|all| all["authorization_response_iss_parameter_supported"] = json!("true"))
    }),
    ("names itself by a number", ByEmail, || {
        document(|all| all["authorization_response_iss_parameter_supported"] = json!(1))
    }),
    ("null for what is optional", ByEmail, || {
        document(|all| {
            all["authorization_response_iss_parameter_supported"] = json!(null);
            all["userinfo_endpoint"] = json!(null);
            all["token_endpoint_auth_methods_supported"] = json!(null);
        })
    }),
    ("endpoints with a query", ByEmail, || {
        document(|all| {
            for name in ["authorization_endpoint", "token_endpoint", "jwks_uri"] {
                all[name] = json!(text(&all[name]) + "?p=b2c_1_sign-in");
            }
        })
    }),
    ("a byte order mark", ByEmail, || written(Document::Discovery, |text| format!("\u{feff}{text}"))),
    ("white space around", ByEmail, || written(Document::Discovery, |text| format!(" \r\n\t{text}\n\n"))),
    ("served as text", ByEmail, || ProviderScript {
        media_type: Some("text/plain"),
        ..ProviderScript::default()
    }),
    ("a member twice, the last is right", ByEmail, || {
        written(Document::Discovery, |text| text.replacen('{', "{\"issuer\":\"https://evil.example\",", 1))
    }),
    ("a member twice, the last is wrong", Down, || {
        written(Document::Discovery, |text| {
            format!("{},\"issuer\":\"https://evil.example\"}}", text.strip_suffix('}').unwrap())
        })
    }),
    ("another issuer", Down, || document(|all| all["issuer"] = json!("https://evil.example"))),
    ("the issuer with a slash", Down, || document(|all| all["issuer"] = json!(text(&all["issuer"]) + "/"))),
    ("the issuer of any tenant", Down, || {
        document(|all| all["issuer"] = json!(text(&all["issuer"]) + "/{tenantid}/v2.0"))
    }),
    ("no issuer", Down, || document(|all| remove(all, "issuer"))),
    ("an issuer in a list", Down, || document(|all| all["issuer"] = json!([all["issuer"]]))),
    ("an issuer that is null", Down, || document(|all| all["issuer"] = json!(null))),
    ("no token endpoint", Down, || document(|all| remove(all, "token_endpoint"))),
    ("a token endpoint that is an object", Down, || document(|all| all["token_endpoint"] = json!({}))),
    ("a token endpoint without a host", Down, || document(|all| all["token_endpoint"] = json!("/token"))),
    ("a token endpoint that is a mailbox", Down, || {
        document(|all| all["token_endpoint"] = json!("mailto:idp@corp.example"))
    }),
    ("a token endpoint that is a file", Down, || {
        document(|all| all["token_endpoint"] = json!("file:///etc/passwd"))
    }),
    ("no keys", Down, || document(|all| remove(all, "jwks_uri"))),
    ("keys at a relative address", Down, || document(|all| all["jwks_uri"] = json!("keys"))),
    ("keys in a file", Down, || document(|all| all["jwks_uri"] = json!("file:///etc/passwd"))),
    ("keys at a private address", Down, || document(|all| all["jwks_uri"] = json!("https://10.0.0.1/keys"))),
    ("no authorization endpoint", Down, || document(|all| remove(all, "authorization_endpoint"))),
    ("a script as authorization endpoint", Down, || {
        document(|all| all["authorization_endpoint"] = json!("javascript:alert(1)"))
    }),
    ("an authorization endpoint without TLS", Down, || {
        document(|all| all["authorization_endpoint"] = json!("http://idp.example/authorize"))
    }),
    ("a list", Down, || written(Document::Discovery, |text| format!("[{text}]"))),
    ("a text", Down, || written(Document::Discovery, |_| "\"openid\"".to_owned())),
    ("nothing", Down, || written(Document::Discovery, |_| String::new())),
    ("half of it", Down, || written(Document::Discovery, |text| text[..text.len() / 2].to_owned())),
    ("more behind it", Down, || written(Document::Discovery, |text| text + "{}")),
    ("bytes that are not UTF-8", Down, || {
        answers(ResponsePlan::Bytes(200, "application/json", b"{\"a\": \"\xe9\"}"))
    }),
    ("a page", Down, || answers(ResponsePlan::Page)),
    ("elsewhere", Down, || answers(ResponsePlan::Redirect)),
    ("too much", Down, || answers(ResponsePlan::Huge)),
    ("not found", Down, || answers(ResponsePlan::Json(404, json!({})))),
    ("a fault", Down, || answers(ResponsePlan::Json(500, json!({})))),
];

#[test]
fn a_discovery_document_is_read_in_the_forms_of_providers() {
    check(FORMS, true);
}
