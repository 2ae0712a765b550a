//! Unsubscribing: the link in each email that turns emails off without signing in (RFC 8058).
//!
//! The link does nothing else and reveals nothing about the member. All emails to an address contain the same
//! link. The link is valid as long as the member has that address, because people keep emails for a long
//! time. The caller cannot distinguish a link to a replaced address from one that never existed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::error::{Code, Error};
use crate::id::{MemberId, WorkspaceId};
use crate::log::seal::Sealer;
use crate::mailbox::MailAddress;
use crate::op::{
    Effect, Feature, Frame, Operation, Read, Write, changing, read, without_idempotency_keys,
    without_requests,
};
use crate::outreach::delivery_address::{
    DeliveryMode, load_confirmed_address, load_delivery, store_delivery,
};

/// Label for deriving the key that authenticates unsubscribe links.
const KEY_LABEL: &str = "svc.unsubscribe-link/1";
/// Path of the links, up to the signed part.
const PATH_PREFIX: &str = "/ui/unsubscribe/";
const PATH: &str = "/ui/unsubscribe/{link}";
/// Name of the operation that turns emails off, also in the audit row of such a request.
const UNSUBSCRIBE: &str = "unsubscribe_from_mail";

pub(crate) fn feature() -> Feature {
    let rows = vec![
        read("open_unsubscribe_link", open_unsubscribe_link)
            .title("Show the offer to unsubscribe from email")
            .get(PATH)
            .example(|_| json!({"link": "signed"})),
        changing(UNSUBSCRIBE, Effect::Idempotent)
            .preflight(load_link_workspace)
            .run(unsubscribe_from_mail)
            .title("Unsubscribe from email")
            .post(PATH)
            .example(|_| json!({"link": "signed"})),
    ];
    let framed =
        |row: Operation| row.framed(Frame::Unsubscribe).as_page().open_to_all().refuses(&[Code::NotFound]);
    Feature::new().operations("notifications", rows.into_iter().map(framed).collect())
}

without_requests! { OpenUnsubscribeLink, UnsubscribeFromMail }

/// Returns the unsubscribe link for emails to an address. `service` is the public address of the service.
pub(super) fn unsubscribe_link(
    sealer: &Sealer,
    service: &str,
    member: MemberId,
    address: &MailAddress,
) -> Result<String> {
    let tag = sealer.create_tag(KEY_LABEL, &signed_bytes(member, address))?;
    let token = [&member.uuid().as_bytes()[..], &tag].concat();
    Ok(format!("{service}{PATH_PREFIX}{}", URL_SAFE_NO_PAD.encode(token)))
}

/// Returns the bytes that the tag of an unsubscribe link authenticates.
fn signed_bytes(member: MemberId, address: &MailAddress) -> Vec<u8> {
    [member.uuid().as_bytes(), address.as_str().as_bytes()].concat()
}

/// Splits the last path segment of a link into the member and the tag.
fn split_link(link: &str) -> Option<(MemberId, Vec<u8>)> {
    let token = URL_SAFE_NO_PAD.decode(link).ok()?;
    let (member, tag) = token.split_first_chunk::<16>()?;
    Some((Uuid::from_bytes(*member).into(), tag.to_vec()))
}

/// Returns the member whose emails contain a link, and the member's workspace. Fails with 404 if the link is
/// not valid.
fn load_link_owner(cx: &Read<'_>, link: &str) -> Result<(MemberId, WorkspaceId)> {
    let invalid = || {
        let detail = "this link is incomplete, or its address no longer receives emails; choose which \
                      emails you receive in your notification preferences";
        Error::new(Code::NotFound, detail)
    };
    let (member, tag) = split_link(link).ok_or_else(invalid)?;
    let (workspace, address) = load_confirmed_address(cx, member)?.ok_or_else(invalid)?;
    let is_valid = cx.sealer().verify_tag(KEY_LABEL, &signed_bytes(member, &address), &tag)?;
    if is_valid { Ok((member, workspace)) } else { Err(invalid()) }
}

/// Offers to turn off the emails that contain this link, and changes nothing.
///
/// A browser receives a page with a button. Programs that check emails by following their links change
/// nothing.
///
/// Fails with 404 `not-found` if there is no such link, or if another address was confirmed since.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OpenUnsubscribeLink {
    /// The last path segment of the link.
    link: String,
}

/// An empty response, which confirms that the link is valid.
#[derive(Serialize, JsonSchema)]
struct UnsubscribeOffer {}

fn open_unsubscribe_link(cx: &Read<'_>, input: &OpenUnsubscribeLink) -> Result<UnsubscribeOffer> {
    load_link_owner(cx, &input.link)?;
    Ok(UnsubscribeOffer {})
}

/// Turns off emails to the member whose emails contain a link, as mail providers request by RFC 8058.
///
/// The member's delivery mode becomes `off`, and nothing else changes. The body is not read: providers send
/// `List-Unsubscribe=One-Click`. Repeating the request changes nothing.
///
/// Fails with 404 `not-found` if there is no such link, or if another address was confirmed since.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnsubscribeFromMail {
    /// The last path segment of the link.
    link: String,
}

/// The result of turning off emails.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Unsubscribed")]
struct UnsubscribeResult {
    /// The delivery mode: always `off`.
    mode: DeliveryMode,
}

without_idempotency_keys! { UnsubscribeFromMail => UnsubscribeResult }

fn load_link_workspace(cx: &Read<'_>, input: &UnsubscribeFromMail) -> Result<WorkspaceId> {
    load_link_owner(cx, &input.link).map(|(_, workspace)| workspace)
}

fn unsubscribe_from_mail(
    cx: &mut Write<'_>,
    input: &UnsubscribeFromMail,
    &workspace: &WorkspaceId,
) -> Result<UnsubscribeResult> {
    let (member, _) = load_link_owner(cx, &input.link)?;
    let off = UnsubscribeResult { mode: DeliveryMode::Off };
    cx.within(workspace, Some(member), |cx| {
        let Some(mut stored) = load_delivery(cx, member)?.filter(|stored| stored.mode != DeliveryMode::Off)
        else {
            cx.unchanged();
            return Ok(());
        };
        stored.mode = DeliveryMode::Off;
        store_delivery(cx, member, &stored)?;
        // The link is a secret, so the audit row contains the declared path instead.
        let metadata = json!({"surface": "rest", "operation": UNSUBSCRIBE, "path": PATH, "status": 200});
        cx.audit("mutation", metadata)
    })?;
    Ok(off)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;

    #[test]
    fn a_link_is_of_a_member_and_an_address_and_stays_the_same() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let address = |text: &str| MailAddress::parse(text).unwrap();
        let member: MemberId = Uuid::from_u128(1).into();
        let made = |member: MemberId, to: &str| {
            unsubscribe_link(&sealer, "https://svc.example.com/team", member, &address(to)).unwrap()
        };
        let first = made(member, "ada@example.com");
        assert_eq!(first, made(member, "ada@example.com"), "a mail that is sent again is the same");
        assert_ne!(first, made(member, "ada@example.org"));
        assert_ne!(first, made(Uuid::from_u128(2).into(), "ada@example.com"));
        let last = first.strip_prefix("https://svc.example.com/team/ui/unsubscribe/").unwrap();
        let (of, tag) = split_link(last).unwrap();
        assert_eq!(of, member);
        assert!(
            sealer.verify_tag(KEY_LABEL, &signed_bytes(member, &address("ada@example.com")), &tag).unwrap()
        );
        for wrong in ["", "x", "?", &last[..20], &format!("{last}=")] {
            assert!(split_link(wrong).is_none(), "{wrong}");
        }
    }
}
