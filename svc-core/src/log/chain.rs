//! The hash chain that links the events of a workspace.
//!
//! `content_hash = SHA-256(payload bytes)`, and `prev_hash` is the content hash of the previous event in the
//! same workspace. The payload begins with a `$chain` member that repeats every column, so the hash covers
//! the whole row, and one known head hash proves the entire history before it.

use super::canonical;
use super::event::{Attribution, Event, Subject, type_name};
use crate::Result;
use crate::error::Error;
use crate::hash::{push_hash, sha256};
use crate::id::WorkspaceId;
use crate::time::Time;

/// Text whose SHA-256 hash is the `prev_hash` of the first event in every chain.
pub const GENESIS_TEXT: &str = "svc.event-log.genesis/1";

/// Returns the `prev_hash` of the first event in every chain.
pub fn genesis() -> [u8; 32] {
    sha256(GENESIS_TEXT.as_bytes())
}

/// The columns of an event's row that the event's payload repeats.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub workspace_id: WorkspaceId,
    pub lsn: i64,
    pub kind: &'a str,
    pub at: Time,
    pub subject: Subject,
    pub prev_hash: [u8; 32],
}

impl Link<'_> {
    /// Returns the beginning of the payload, up to and excluding the `,` before `"$type"`.
    ///
    /// Members are in canonical order.
    pub fn payload_prefix(&self) -> String {
        let mut out = String::with_capacity(PREFIX_BYTES);
        self.push_payload_prefix(&mut out);
        out
    }

    /// Appends the result of [`Link::payload_prefix`] to `out`.
    pub(crate) fn push_payload_prefix(&self, out: &mut String) {
        out.push_str("{\"$chain\":{\"at\":");
        push_number(out, self.at.micros());
        out.push_str(",\"channel_id\":");
        push_id(out, self.subject.channel_id.map(Into::into));
        out.push_str(",\"kind\":\"");
        out.push_str(self.kind);
        out.push_str("\",\"lsn\":");
        push_number(out, self.lsn);
        out.push_str(",\"member_id\":");
        push_id(out, self.subject.member_id.map(Into::into));
        out.push_str(",\"prev_hash\":\"");
        push_hash(out, &self.prev_hash);
        out.push_str("\",\"thread_id\":");
        push_id(out, self.subject.thread_id.map(Into::into));
        out.push_str(",\"workspace_id\":");
        push_id(out, Some(self.workspace_id.into()));
        out.push('}');
    }

    /// Returns the entire payload: the link, the type, the attribution, and the fields of the event's kind.
    pub fn payload<E: Event>(&self, attribution: &Attribution, event: &E) -> Result<String> {
        let mut fields = serde_json::to_value(event).map_err(Error::internal)?;
        let members =
            fields.as_object_mut().ok_or_else(|| Error::internal(format!("{} is not an object", E::KIND)))?;
        members.insert("$type".to_owned(), type_name(E::KIND).into());
        members.insert("attribution".to_owned(), serde_json::to_value(attribution).map_err(Error::internal)?);
        let rest = canonical::to_string(&fields)?;
        let mut payload = self.payload_prefix();
        payload.push(',');
        payload.push_str(rest.strip_prefix('{').unwrap_or(&rest));
        Ok(payload)
    }
}

/// Buffer size in bytes that is sufficient for the prefix of any payload.
const PREFIX_BYTES: usize = 448;

fn push_number(out: &mut String, number: i64) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = write!(out, "{number}");
}

fn push_id(out: &mut String, id: Option<uuid::Uuid>) {
    match id {
        None => out.push_str("null"),
        Some(id) => {
            let mut buffer = [0; uuid::fmt::Hyphenated::LENGTH];
            out.push('"');
            out.push_str(id.hyphenated().encode_lower(&mut buffer));
            out.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;
    use serde_json::{Value, json};

    use super::*;
    use crate::id::{ChannelId, ThreadId};

    #[derive(Serialize, JsonSchema)]
    struct Probe {
        zeta: i64,
        alpha: &'static str,
    }
    impl Event for Probe {
        const KIND: &'static str = "Probe";

        fn replay(_: &crate::log::replay::ReplayedEvent<'_>) -> crate::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_payload_is_canonical_and_repeats_the_columns() {
        let thread = uuid::Uuid::from_u128(7);
        let subject = Subject::thread(ChannelId::from(uuid::Uuid::from_u128(5)), ThreadId::from(thread));
        let link = Link {
            workspace_id: WorkspaceId::from(uuid::Uuid::from_u128(1)),
            lsn: 3,
            kind: Probe::KIND,
            at: Time::from_micros(12),
            subject,
            prev_hash: genesis(),
        };
        let payload = link.payload(&Attribution::default(), &Probe { zeta: 1, alpha: "a" }).unwrap();
        let parsed: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&parsed).unwrap(), payload);
        assert!(payload.starts_with(&link.payload_prefix()));
        assert_eq!(parsed["$chain"]["thread_id"], json!(thread));
        assert_eq!(parsed["$type"], json!("svc.event.Probe/1"));
    }
}
