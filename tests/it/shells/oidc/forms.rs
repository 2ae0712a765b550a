//! Documents of a provider in the forms of real providers, and in those of a malicious one.
//!
//! A table has the forms of each kind of document and the outcome of a sign-in with them. Unknown members are
//! added to all of them, and change nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::World;
use svc_tests::provider::{Document, Provider, ProviderScript};

use super::{BACK, LOGIN, at, cookie_of, get, left, location, on_both, session};

/// The outcome of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The person becomes a member by a verified email.
    ByEmail,
    /// The person becomes a member by name.
    ByName,
    /// The person becomes a member without a known name.
    Nameless,
    /// 401: the provider does not identify a person.
    Away,
    /// 403: the identified person cannot become a member.
    Nobody,
    /// 503: the provider does not work.
    Down,
}

pub(super) use Outcome::{Away, ByEmail, ByName, Down, Nameless, Nobody};

/// A form of a document: its name, its outcome, and the script of the provider.
pub(super) type Form = (&'static str, Outcome, fn() -> ProviderScript);

/// Returns a script that changes one document.
pub(super) fn changed(document: Document, change: fn(&mut Value)) -> ProviderScript {
    let mut script = ProviderScript::default();
    let change = Box::new(change);
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

/// Returns a script that writes one document in another way.
pub(super) fn written(document: Document, write: fn(String) -> String) -> ProviderScript {
    let write = move |written: Document, text: String| if written == document { write(text) } else { text };
    ProviderScript { written: Some(Box::new(write)), ..ProviderScript::default() }
}

pub(super) fn remove(object: &mut Value, name: &str) {
    drop(object.as_object_mut().unwrap().remove(name));
}

/// Signs in a new person, and checks that a failure creates no member.
pub(super) fn outcome(world: &World, provider: &Provider, number: usize, has_email: bool) -> Outcome {
    // The cached data of the provider is then an hour old.
    world.clock.advance(Duration::from_secs(3600));
    let subject = format!("p{number}");
    let name = format!("P {number}");
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
        let [sessions, before @ ..] = before;
        let [sessions_now, now @ ..] = left(world);
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

/// Tests each form of a table, with people whose email is in the ID token or not.
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
