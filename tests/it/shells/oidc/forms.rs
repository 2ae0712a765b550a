//! Documents of a provider in the forms in which providers write them, and in those of one that lies.
//!
//! A table has the forms of each kind of document and what a sign-in by them comes to. What nobody knows is
//! added to all of them, and changes nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::World;
use svc_tests::provider::{Document, Provider, Script};

use super::{BACK, LOGIN, at, cookie_of, get, left, location, on_both, session};

/// What a sign-in comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The person joins by its email, which counts.
    ByEmail,
    /// The person joins by its name.
    ByName,
    /// The person joins, and nothing of it is known.
    Nameless,
    /// 401: the provider does not vouch for anybody.
    Away,
    /// 403: the provider names nobody who can be kept.
    Nobody,
    /// 503: the provider does not work.
    Down,
}

pub(super) use Outcome::{Away, ByEmail, ByName, Down, Nameless, Nobody};

/// A form of a document: what it is, what comes of it, and what the provider does.
pub(super) type Form = (&'static str, Outcome, fn() -> Script);

/// A script that changes one document.
pub(super) fn changed(document: Document, change: fn(&mut Value)) -> Script {
    let (mut script, change) = (Script::default(), Box::new(change));
    match document {
        Document::Discovery => script.document = Some(change),
        Document::Keys => script.keys = Some(change),
        Document::Tokens => script.tokens = Some(change),
        Document::Header => script.header = Some(change),
        Document::Claims => script.claims = Some(change),
        Document::UserInfo => script.user_info = Some(change),
    }
    script
}

/// A script that writes one document in another way.
pub(super) fn written(document: Document, write: fn(String) -> String) -> Script {
    let write = move |written: Document, text: String| if written == document { write(text) } else { text };
    Script { written: Some(Box::new(write)), ..Script::default() }
}

pub(super) fn remove(object: &mut Value, name: &str) {
    drop(object.as_object_mut().unwrap().remove(name));
}

/// Signs a person in, whom nobody knows yet. What fails leaves nobody.
pub(super) fn outcome(world: &World, provider: &Provider, number: usize, has_email: bool) -> Outcome {
    // What is known of the provider is an hour old then.
    world.clock.advance(Duration::from_secs(3600));
    let (subject, name) = (format!("p{number}"), format!("P {number}"));
    let email = format!("{subject}@corp.example");
    let mut person = json!({"sub": subject});
    if has_email {
        person = json!({"sub": subject, "email": email, "email_verified": true, "name": name});
    }
    let before = left(world);
    let begun = get(world, &format!("{LOGIN}?workspace_id={}", world.id("workspace")), None);
    let answer = if begun.status == 503 {
        begun
    } else {
        let back = provider.sign_in(world.clock.now(), &location(&begun), &person);
        let query: Vec<String> = back.iter().map(|(name, value)| format!("{name}={value}")).collect();
        get(world, &format!("{BACK}?{}", query.join("&")), cookie_of(&begun, "svc_oidc").as_deref())
    };
    let failed = match (answer.status, answer.code()) {
        (401, "unauthenticated") => Some(Away),
        (403, "forbidden") => Some(Nobody),
        (503, "provider-unavailable") => Some(Down),
        _ => None,
    };
    if let Some(failed) = failed {
        let ([sessions, before @ ..], [sessions_now, now @ ..]) = (before, left(world));
        // Older ones may have ended since.
        assert!(now == before && sessions_now <= sessions, "nothing is left of a sign-in that fails");
        return failed;
    }
    let handle = session(world, &answer)["handle"].clone();
    match handle.as_str().unwrap() {
        handle if handle == email => ByEmail,
        handle if handle == name.to_lowercase().replace(' ', "-") => ByName,
        handle if handle.starts_with("person") => Nameless,
        other => panic!("somebody joins as {other}"),
    }
}

/// Tries each form of a table, with people whose email is in the ID token or not.
pub(super) fn check(forms: &[Form], has_email: bool) {
    assert!(forms.len() >= 20, "a table has at least twenty forms");
    let provider = Provider::start();
    on_both(
        || at(&provider),
        |world| {
            for (number, (what, wanted, script)) in forms.iter().enumerate() {
                provider.does(script());
                assert_eq!(outcome(world, &provider, number, has_email), *wanted, "{what}");
            }
        },
    );
}
