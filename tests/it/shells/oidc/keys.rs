//! Forms of the key set: unusable keys are skipped, and a suitable key may have no name.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use svc_tests::provider::{Document, ProviderScript, ResponsePlan, Signed};
use svc_tests::text;

use super::forms::{Away, ByEmail, Down, Form, changed, check, remove, written};

fn keys(change: fn(&mut Value)) -> ProviderScript {
    changed(Document::Keys, change)
}

/// Changes the RSA key.
fn rsa(change: fn(&mut Value)) -> ProviderScript {
    let change = move |all: &mut Value| change(&mut all["keys"][0]);
    ProviderScript { keys: Some(Box::new(change)), ..ProviderScript::default() }
}

/// Adds a key before the right ones.
fn beside(key: fn(right: &Value) -> Value) -> ProviderScript {
    let add = move |all: &mut Value| {
        let keys = all["keys"].as_array_mut().unwrap();
        keys.insert(0, key(&keys[0]));
    };
    ProviderScript { keys: Some(Box::new(add)), ..ProviderScript::default() }
}

/// Changes bytes of the modulus of the RSA key.
fn modulus(key: &mut Value, change: fn(Vec<u8>) -> Vec<u8>) {
    let bytes = URL_SAFE_NO_PAD.decode(text(&key["n"])).unwrap();
    key["n"] = json!(URL_SAFE_NO_PAD.encode(change(bytes)));
}

/// Returns a foreign RSA key, like the right one except for its modulus.
fn foreign(right: &Value) -> Value {
    let mut key = right.clone();
    modulus(&mut key, |bytes| {
        bytes.into_iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 9)).collect()
    });
    key
}

/// Returns a script with a token that names no key.
fn without_name(script: ProviderScript) -> ProviderScript {
    ProviderScript { header: Some(Box::new(|header| remove(header, "kid"))), ..script }
}

const FORMS: &[Form] = &[
    ("no use", ByEmail, || rsa(|key| remove(key, "use"))),
    ("no algorithm", ByEmail, || rsa(|key| remove(key, "alg"))),
    ("nothing but the numbers", ByEmail, || {
        rsa(|key| ["use", "alg", "kid"].into_iter().for_each(|name| remove(key, name)))
    }),
    ("a key without a name, and a token with one", ByEmail, || rsa(|key| remove(key, "kid"))),
    ("a key whose name is a number", ByEmail, || rsa(|key| key["kid"] = json!(7))),
    ("a key whose name is null", ByEmail, || rsa(|key| key["kid"] = json!(null))),
    ("a token without a name, and one key that fits", ByEmail, || without_name(ProviderScript::default())),
    ("a token without a name, and two keys that fit", Away, || without_name(beside(foreign))),
    ("two keys without a name", Away, || {
        keys(|all| {
            remove(&mut all["keys"][0], "kid");
            let other = foreign(&all["keys"][0]);
            all["keys"].as_array_mut().unwrap().push(other);
        })
    }),
    ("another name", Away, || rsa(|key| key["kid"] = json!("other"))),
    ("a foreign key of the right name, the right one without", Away, || {
        keys(|all| {
            let named = foreign(&all["keys"][0]);
            remove(&mut all["keys"][0], "kid");
            all["keys"].as_array_mut().unwrap().push(named);
        })
    }),
    ("a foreign key of the same name", ByEmail, || beside(foreign)),
    ("a key for encryption of the same name", ByEmail, || {
        beside(|right| {
            let mut key = foreign(right);
            (key["use"], key["alg"]) = (json!("enc"), json!("RSA-OAEP"));
            key
        })
    }),
    ("a secret of the same name", ByEmail, || {
        beside(|_| json!({"kty": "oct", "k": "c2VjcmV0", "kid": "rsa", "alg": "HS256"}))
    }),
    ("the secret of the client as a key", Away, || ProviderScript {
        signed: Signed::Hs256,
        ..beside(
            |_| json!({"kty": "oct", "k": URL_SAFE_NO_PAD.encode("the secret of the client"), "kid": "rsa"}),
        )
    }),
    ("a key of an unknown type", ByEmail, || {
        beside(|_| json!({"kty": "AKP", "alg": "ML-DSA-65", "pub": "x"}))
    }),
    ("a key on an unknown curve", ByEmail, || {
        beside(|_| json!({"kty": "EC", "crv": "secp256k1", "x": "AQ", "y": "AQ"}))
    }),
    ("a key without a type", ByEmail, || beside(|right| json!({"n": right["n"], "e": right["e"]}))),
    ("a key without its numbers", ByEmail, || {
        beside(|_| json!({"kty": "RSA", "kid": "rsa", "x5c": ["MIIC"]}))
    }),
    ("a key whose numbers are broken", ByEmail, || {
        beside(|_| json!({"kty": "RSA", "n": "!!", "e": [65537], "kid": "rsa"}))
    }),
    ("keys that are no objects", ByEmail, || {
        keys(|all| {
            let keys = all["keys"].as_array_mut().unwrap();
            keys.extend([json!(null), json!("rsa"), json!([]), json!(7)]);
            keys.reverse();
        })
    }),
    ("decorations of other types", ByEmail, || {
        rsa(|key| {
            (key["x5c"], key["x5t"], key["x5t#S256"]) = (json!("MIIC"), json!(7), json!(null));
            (key["key_ops"], key["nbf"], key["d"]) = (json!("verify"), json!("now"), json!([1]));
        })
    }),
    ("padded numbers", ByEmail, || rsa(|key| key["n"] = json!(format!("{}==", text(&key["n"]))))),
    ("numbers with leading zeros", ByEmail, || {
        rsa(|key| {
            modulus(key, |bytes| [vec![0], bytes].concat());
            key["e"] = json!("AAEAAQ");
        })
    }),
    ("the algorithm of a neighbour", Away, || rsa(|key| key["alg"] = json!("PS256"))),
    ("an algorithm that is a number", Away, || rsa(|key| key["alg"] = json!(256))),
    ("only for encryption", Away, || rsa(|key| key["use"] = json!("enc"))),
    ("a use that is a list", Away, || rsa(|key| key["use"] = json!(["sig"]))),
    ("another type", Away, || rsa(|key| key["kty"] = json!("rsa"))),
    ("a key of 1,024 bits", Away, || rsa(|key| modulus(key, |bytes| bytes[..128].to_vec()))),
    ("no key", Away, || keys(|all| all["keys"] = json!([]))),
    ("only a foreign key", Away, || rsa(|key| *key = foreign(key))),
    ("a byte order mark", ByEmail, || written(Document::Keys, |text| format!("\u{feff}{text}"))),
    ("a media type of its own", ByEmail, || ProviderScript {
        media_type: Some("application/jwk-set+json"),
        ..ProviderScript::default()
    }),
    ("no list of keys", Down, || keys(|all| *all = json!({}))),
    ("a list that is null", Down, || keys(|all| all["keys"] = json!(null))),
    ("keys by their names", Down, || keys(|all| all["keys"] = json!({"rsa": all["keys"][0]}))),
    ("keys without an object around them", Down, || keys(|all| *all = all["keys"].clone())),
    ("certificates by their names", Down, || {
        keys(|all| *all = json!({"rsa": "-----BEGIN CERTIFICATE-----"}))
    }),
    ("nothing", Down, || written(Document::Keys, |_| String::new())),
    ("a page", Down, || ProviderScript {
        answers: [("/keys", ResponsePlan::Page)].into(),
        ..ProviderScript::default()
    }),
];

#[test]
fn a_key_set_is_read_in_the_forms_of_providers() {
    check(FORMS, true);
}
