//! The client's first frame: credential, filter and start position.
//!
//! Its credential is read first, so that a dead one is reported whatever else is wrong with the frame. A
//! resume token is the cursor as one opaque string.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Map, Value};
use svc_core::id::WorkspaceId;
use svc_core::op::{self, Input};
use svc_core::ops::WantedEvents;
use svc_core::text::Count;
use svc_core::{Error, Result};

/// The frame, of which only the credential has been read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstFrame {
    token: Option<String>,
    filter: Map<String, Value>,
    after_id: Option<Value>,
    resume_token: Option<String>,
}

impl FirstFrame {
    /// Parses the frame.
    pub fn read(text: &str) -> Result<Self> {
        op::decode(&Input::json(text.to_owned()))
            .map_err(|error| malformed("the first frame", error.detail()))
    }

    /// Takes the credential out of the frame; none means that of the handshake.
    pub fn credential(&mut self) -> Option<SecretString> {
        self.token.take().map(SecretString::from)
    }

    /// Reads which events are wanted, and from where on.
    pub fn subscription(self) -> Result<Subscription> {
        let wanted: WantedEvents =
            op::decode_object(self.filter).map_err(|error| malformed("`filter`", error.detail()))?;
        let after_id = match (self.after_id, self.resume_token) {
            (Some(_), Some(_)) => {
                return Err(Error::malformed("give either `after_id` or `resume_token`, not both"));
            }
            (None, Some(token)) => {
                let position = resumed(&token, wanted.workspace_id);
                Some(
                    position
                        .ok_or_else(|| malformed("`resume_token`", "it does not belong to this workspace"))?,
                )
            }
            (Some(after_id), None) => {
                let after_id = Count::<0, { i64::MAX }>::deserialize(after_id);
                Some(after_id.map_err(|error| malformed("`after_id`", &error.to_string()))?.get())
            }
            (None, None) => None,
        };
        Ok(Subscription { wanted, after_id })
    }
}

/// What a client subscribes to.
#[derive(Debug)]
pub(super) struct Subscription {
    pub wanted: WantedEvents,
    pub after_id: Option<i64>,
}

impl Subscription {
    /// Returns the cursor at `after_id` as one opaque string.
    pub fn resume_token(&self, after_id: i64) -> String {
        URL_SAFE_NO_PAD.encode(format!("v1:{}:{after_id}", self.wanted.workspace_id))
    }
}

fn malformed(what: &str, why: &str) -> Error {
    Error::malformed(format!("{what}: {why}"))
}

/// Returns the position in a resume token, if it belongs to `wanted`.
fn resumed(token: &str, wanted: WorkspaceId) -> Option<i64> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (workspace, position) = text.strip_prefix("v1:")?.split_once(':')?;
    let issued: WorkspaceId = workspace.parse().ok()?;
    position.parse().ok().filter(|position| issued == wanted && *position >= 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use svc_core::Code;

    use super::*;

    const WORKSPACE: &str = "01990000-0000-7000-8000-000000000001";

    fn read(text: &str) -> Result<Subscription, String> {
        FirstFrame::read(text).and_then(FirstFrame::subscription).map_err(|error| {
            assert_eq!(error.code(), Code::Malformed);
            error.detail().to_owned()
        })
    }

    #[test]
    fn the_first_frame_is_read_strictly() {
        let good = format!(
            r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","kind":"K"}},"after_id":7}}"#
        );
        assert_eq!(read(&good).unwrap().after_id, Some(7));
        let filter = format!(r#""filter":{{"workspace_id":"{WORKSPACE}"}}"#);
        for (bad, reason) in [
            ("{", "first frame"),
            ("[]", "first frame"),
            (r#"{"token":"svc_1"}"#, "filter"),
            (r#"{"token":"svc_1","filter":{}}"#, "workspace_id"),
            (&format!(r#"{{"token":"svc_1",{filter},"aftr_id":1}}"#), "aftr_id"),
            (&format!(r#"{{"token":"svc_1",{filter},"token":"svc_2"}}"#), "`token` appears twice"),
            (
                &format!(
                    r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","workspace_id":"w"}}}}"#
                ),
                "`workspace_id` appears twice",
            ),
            (
                &format!(r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","thread":"t"}}}}"#),
                "`thread`",
            ),
            (r#"{"token":"svc_1","filter":{"workspace_id":"w"}}"#, "`workspace_id`: "),
            (&format!(r#"{{"token":"svc_1",{filter},"after_id":-1}}"#), "-1"),
            (&format!(r#"{{"token":"svc_1",{filter},"after_id":1,"resume_token":"x"}}"#), "not both"),
            (&format!(r#"{{"token":"svc_1",{filter},"resume_token":"x"}}"#), "resume_token"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
        assert!(FirstFrame::read(&format!("{{{filter}}}")).unwrap().credential().is_none());
    }

    #[test]
    fn a_resume_token_is_valid_only_in_its_workspace() {
        let text = format!(r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}"}}}}"#);
        let token = read(&text).unwrap().resume_token(41);
        assert_eq!(resumed(&token, WORKSPACE.parse().unwrap()), Some(41));
        let another = "01990000-0000-7000-8000-000000000002";
        assert_eq!(resumed(&token, another.parse().unwrap()), None);
        let forged = URL_SAFE_NO_PAD.encode(format!("v1:{WORKSPACE}:-1"));
        assert_eq!(resumed(&forged, WORKSPACE.parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn any_frame_is_read_or_rejected_with_a_reason(text in any::<String>(), token in any::<Vec<u8>>()) {
            if let Err(reason) = read(&text) {
                prop_assert!(!reason.is_empty());
            }
            let resume = URL_SAFE_NO_PAD.encode(&token);
            let hello = serde_json::json!(
                {"token": "svc_1", "filter": {"workspace_id": WORKSPACE}, "resume_token": resume});
            if let Ok(subscription) = read(&hello.to_string()) {
                prop_assert!(subscription.after_id.is_some_and(|position| position >= 0));
            }
        }
    }
}
