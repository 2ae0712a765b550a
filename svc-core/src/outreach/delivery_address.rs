//! Email addresses of members, each confirmed with a code that is sent to it.
//!
//! A new address receives only the code. Until the new address is confirmed, the old address stays in use,
//! and is notified of the change. The code is generated when the email is taken for sending, and only the
//! code's hash is stored. Events, exports and traces contain no addresses.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::error::{Code, Error};
use crate::id::{CodeId, MemberId, WorkspaceId};
use crate::identity::workspaces::OwnId;
use crate::mailbox::{DeliveryAddress, MailAddress};
use crate::op::{
    Answer, Effect, Feature, Operation, Read, RecordedRefusal, Records, Write, changing, idempotent,
};
use crate::request::request;
use crate::store::{FromValue, Param, ToParam, Value, columns, named_enum};
use crate::time::Time;

/// Time for which a confirmation code is accepted.
pub(super) const CODE_TTL: Duration = Duration::from_secs(86_400);
/// Maximum number of wrong codes, after which the right code is rejected too.
const CODE_TRIES_MAX: i64 = 5;
/// Maximum number of codes that a member receives within [`CODES_PERIOD`].
const CODES_PER_MEMBER_MAX: i64 = 3;
/// Maximum number of codes that all members of a workspace and its copies receive within [`CODES_PERIOD`].
const CODES_PER_WORKSPACE_MAX: i64 = 20;
/// Period over which codes are counted.
const CODES_PERIOD: Duration = Duration::from_secs(3600);

pub(crate) fn feature() -> Feature {
    Feature::new().operations("notifications", operations()).records(vec![
        Records::table("delivery_addresses", "member_id").through("member_id", "members").stays(),
        Records::of_instance("delivery_codes"),
    ])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("set_delivery_address", set_delivery_address)
            .title("Set your email address")
            .when(
                "Set the email address for your notifications, and when to email them. Then call \
                 `confirm_delivery_address`.",
            )
            .reaches_out()
            .put("/me/delivery-address")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::NotEnabled])
            .example(|_| json!({"address": "ada@example.com", "mode": "immediate"})),
        changing("confirm_delivery_address", Effect::Idempotent)
            .records_refusals(confirm_delivery_address)
            .title("Confirm your email address")
            .when(
                "Confirm your email address with the code that was mailed to it after \
                 `set_delivery_address`.",
            )
            .post("/me/delivery-address/confirm")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::WrongState, Code::NotEnabled])
            .example(|_| json!({"code": "12345678"})),
    ]
}

impl ToParam for MailAddress {
    fn param(&self) -> Param<'_> {
        Param::Text(self.as_str())
    }
}

impl FromValue for MailAddress {
    fn from_value(value: Value) -> Result<Self> {
        let text = String::from_value(value)?;
        Self::parse(&text).ok_or_else(|| Error::internal("a stored email address is invalid"))
    }
}

named_enum! {
    /// When a member receives emails.
    pub enum DeliveryMode { Off = "off", Immediate = "immediate", Digest = "digest" }
}

/// Email delivery of a member: the address, the mode, and the state of delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Delivery {
    /// The address that receives your emails; null until an address is confirmed.
    pub address: Option<MailAddress>,
    /// Whether `address` is set.
    pub confirmed: bool,
    /// The address that waits for confirmation; null if no address does.
    pub pending: Option<MailAddress>,
    /// When you receive emails.
    pub mode: DeliveryMode,
    /// Whether delivery is suspended because the address does not exist or has rejected three emails in a
    /// row. To resume, set the address again and confirm it.
    pub suspended: bool,
    /// The time at which failed emails are sent again; null if no email failed.
    pub retry_at: Option<Time>,
    /// The reason why the last email was not accepted; null if it was accepted.
    pub last_error: Option<String>,
}

impl<I> Answer<I> for Delivery {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (): ()) -> Result<Self> {
        let member = cx.caller().member_id()?;
        load_member_delivery(cx, member)?.ok_or_else(|| Error::not_found("delivery address"))
    }
}

/// Postpones the emails about a member's addresses that are due now to `until`: the code, and the notice to
/// the former address.
pub(super) fn postpone_notices(cx: &mut Write<'_>, member: MemberId, until: Time) -> Result<()> {
    cx.execute_any(POSTPONE_NOTICES, &[&member, &cx.now(), &until])
}

const POSTPONE_NOTICES: &str = "
    update delivery_addresses set
        code_due = case when code_due <= $2 then $3 else code_due end,
        former_due = case when former_due <= $2 then $3 else former_due end
    where member_id = $1 and (code_due <= $2 or former_due <= $2)";

/// Stored email delivery settings of a member, with the state of delivery.
pub(super) struct StoredDelivery {
    pub mode: DeliveryMode,
    pub address: Option<MailAddress>,
    pub confirmed_at: Option<Time>,
    pub pending: Option<MailAddress>,
    /// When to send the code to `pending`.
    pub code_due: Option<Time>,
    pub code_hash: Option<Vec<u8>>,
    pub code_until: Option<Time>,
    /// Number of wrong codes entered.
    pub tries: i64,
    /// The former address, which receives a notice about the new address.
    pub former: Option<MailAddress>,
    pub former_due: Option<Time>,
    /// Number of failed attempts to send the code, or the notice to the former address.
    pub notice_failures: i64,
    pub failures: i64,
    pub retry_at: Option<Time>,
    pub last_error: Option<String>,
    /// Number of consecutive emails that were permanently rejected.
    pub refusals: i64,
    pub suspended: bool,
    /// Start of the hour in which `sent` emails were sent.
    pub sent_since: Option<Time>,
    pub sent: i64,
    /// When the emails beyond the hourly limit are sent as one digest.
    pub digest_at: Option<Time>,
}

columns! {
    stored_columns: StoredDelivery as d {
        mode, address, confirmed_at, pending, code_due, code_hash, code_until, tries, former, former_due,
        notice_failures, failures, retry_at, last_error, refusals, suspended, sent_since, sent, digest_at,
    }
}

impl StoredDelivery {
    /// Returns the settings of a member who has not set an address.
    pub fn without_address(mode: DeliveryMode) -> Self {
        Self {
            mode,
            address: None,
            confirmed_at: None,
            pending: None,
            code_due: None,
            code_hash: None,
            code_until: None,
            tries: 0,
            former: None,
            former_due: None,
            notice_failures: 0,
            failures: 0,
            retry_at: None,
            last_error: None,
            refusals: 0,
            suspended: false,
            sent_since: None,
            sent: 0,
            digest_at: None,
        }
    }

    /// Returns the address to which emails are sent, or `None` if emails are off, suspended or unconfirmed.
    pub fn reachable_address(&self) -> Option<&MailAddress> {
        let serves = self.confirmed_at.is_some() && !self.suspended && self.mode != DeliveryMode::Off;
        // An address confirmed before the rule about domains existed receives no email.
        let address = self.address.as_ref().filter(|_| serves)?;
        DeliveryAddress::parse(address.as_str()).map(|_| address)
    }

    fn into_delivery(self) -> Delivery {
        Delivery {
            confirmed: self.confirmed_at.is_some(),
            address: self.address,
            pending: self.pending,
            mode: self.mode,
            suspended: self.suspended,
            retry_at: self.retry_at,
            last_error: self.last_error,
        }
    }
}

/// Returns the stored email delivery settings of a member.
pub(super) fn load_delivery(cx: &Read<'_>, member: MemberId) -> Result<Option<StoredDelivery>> {
    cx.one(SELECT_DELIVERY, &[&member])
}

const SELECT_DELIVERY: &str =
    concat!("select ", stored_columns!(), " from delivery_addresses d where d.member_id = $1");

/// Returns the confirmed address of a member, and the member's workspace.
pub(super) fn load_confirmed_address(
    cx: &Read<'_>,
    member: MemberId,
) -> Result<Option<(WorkspaceId, MailAddress)>> {
    cx.one(SELECT_CONFIRMED_ADDRESS, &[&member])
}

const SELECT_CONFIRMED_ADDRESS: &str = "
    select workspace_id, address from delivery_addresses where member_id = $1 and confirmed_at is not null";

/// Returns the email delivery settings of a member, in the form shown to the member.
pub(super) fn load_member_delivery(cx: &Read<'_>, member: MemberId) -> Result<Option<Delivery>> {
    Ok(load_delivery(cx, member)?.map(StoredDelivery::into_delivery))
}

/// Stores the email delivery settings of a member.
pub(super) fn store_delivery(cx: &mut Write<'_>, member: MemberId, stored: &StoredDelivery) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    cx.execute(
        1,
        UPSERT_DELIVERY,
        &[
            &member,
            &workspace,
            &stored.mode,
            &stored.address,
            &stored.confirmed_at,
            &stored.pending,
            &stored.code_due,
            &stored.code_hash,
            &stored.code_until,
            &stored.tries,
            &stored.former,
            &stored.former_due,
            &stored.notice_failures,
            &stored.failures,
            &stored.retry_at,
            &stored.last_error,
            &stored.refusals,
            &stored.suspended,
            &stored.sent_since,
            &stored.sent,
            &stored.digest_at,
        ],
    )
}

const UPSERT_DELIVERY: &str = "
    insert into delivery_addresses (member_id, workspace_id, mode, address, confirmed_at, pending, code_due,
        code_hash, code_until, tries, former, former_due, notice_failures, failures, retry_at, last_error,
        refusals, suspended, sent_since, sent, digest_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
        $21)
    on conflict (member_id) do update set workspace_id = excluded.workspace_id, mode = excluded.mode,
        address = excluded.address, confirmed_at = excluded.confirmed_at, pending = excluded.pending,
        code_due = excluded.code_due, code_hash = excluded.code_hash, code_until = excluded.code_until,
        tries = excluded.tries, former = excluded.former, former_due = excluded.former_due,
        notice_failures = excluded.notice_failures, failures = excluded.failures,
        retry_at = excluded.retry_at, last_error = excluded.last_error, refusals = excluded.refusals,
        suspended = excluded.suspended, sent_since = excluded.sent_since, sent = excluded.sent,
        digest_at = excluded.digest_at";

/// Fails if the service is not configured to send mail.
fn check_mail_enabled(cx: &Read<'_>) -> Result<()> {
    if cx.settings().mail.is_some() {
        return Ok(());
    }
    let missing = "the service sends no mail without SVC_SMTP_URL, SVC_MAIL_FROM and SVC_PUBLIC_URL";
    Err(Error::new(Code::NotEnabled, missing))
}

request! {
    /// Sets the address for your emails and when they are sent, and returns the settings.
    ///
    /// A new address receives a code of 8 digits, which `confirm_delivery_address` accepts within 24 hours;
    /// until then emails go to the old address, which is notified.
    ///
    /// Setting an unconfirmed address again sends another code. You receive up to 3 codes an hour, and all
    /// members of the workspace and its copies together 20.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 409 `not-enabled` if the service sends no mail.
    #[derive(Serialize)]
    struct SetDeliveryAddress {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// The address, in ASCII. Its domain contains a dot and does not end with a number.
        address: DeliveryAddress,
        /// `immediate`: one email per thread, some time after a notification that you have not read.
        /// `digest`: one email for all threads, at the times of your preferences. `off`: no emails.
        mode: DeliveryMode,
    }

    set_delivery_address(address: DeliveryAddress, mode: DeliveryMode) -> Delivery
}

fn set_delivery_address(cx: &mut Write<'_>, input: &SetDeliveryAddress) -> Result<Delivery> {
    check_mail_enabled(cx)?;
    let member = cx.caller().member_id()?;
    let mut stored = load_delivery(cx, member)?.unwrap_or(StoredDelivery::without_address(input.mode));
    stored.mode = input.mode;
    let address = input.address.address();
    let serves = stored.confirmed_at.is_some() && !stored.suspended;
    let waits_for_code = stored.pending.as_ref() == Some(address) && stored.code_due.is_some();
    if serves && stored.address.as_ref() == Some(address) {
        (stored.pending, stored.code_due) = (None, None);
    } else if !waits_for_code {
        count_requested_code(cx, member)?;
        let now = cx.now();
        if serves {
            (stored.former, stored.former_due) = (stored.address.clone(), Some(now));
        }
        (stored.pending, stored.code_due) = (Some(address.clone()), Some(now));
        (stored.code_hash, stored.code_until, stored.tries) = (None, None, 0);
        stored.notice_failures = 0;
    }
    store_delivery(cx, member, &stored)?;
    Ok(stored.into_delivery())
}

/// Counts a code that will be sent. Fails with 429 if too many codes were counted within the last hour.
fn count_requested_code(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    // Codes for an imported workspace count for the original workspace, so an import does not allow more
    // codes.
    let charged_to = cx.caller().charged_to;
    let now = cx.now();
    let since = now.before(CODES_PERIOD);
    cx.execute_any(DELETE_OLD_CODES, &[&charged_to, &since])?;
    let counted: Option<(i64, i64)> = cx.one(COUNT_CODES, &[&charged_to, &member, &since])?;
    let (own, all) = counted.unwrap_or_default();
    if own >= CODES_PER_MEMBER_MAX || all >= CODES_PER_WORKSPACE_MAX {
        let whose = if own >= CODES_PER_MEMBER_MAX { "you have" } else { "the workspace has" };
        let detail = format!("{whose} asked for too many codes within an hour");
        return Err(Error::new(Code::RateLimited, detail).with("retry_after_secs", CODES_PERIOD.as_secs()));
    }
    let id: CodeId = cx.new_id()?;
    cx.execute(1, INSERT_CODE, &[&id, &charged_to, &member, &now])
}

const DELETE_OLD_CODES: &str = "delete from delivery_codes where charged_to = $1 and at <= $2";

const COUNT_CODES: &str = "
    select cast(coalesce(sum(case when member_id = $2 then 1 else 0 end), 0) as bigint), count(*)
    from delivery_codes where charged_to = $1 and at > $3";

const INSERT_CODE: &str =
    "insert into delivery_codes (id, charged_to, member_id, at) values ($1, $2, $3, $4)";

/// A confirmation code for an email address: 8 digits.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct ConfirmationCode(String);

crate::argument::text_arguments! { ConfirmationCode }

impl ConfirmationCode {
    /// Generates a random code.
    pub fn generate(cx: &Write<'_>) -> Result<Self> {
        // Some codes are more likely than others, by one in 10^11.
        let drawn = u64::from_le_bytes(cx.entropy().bytes()?) % 100_000_000;
        Ok(Self(format!("{drawn:08}")))
    }

    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Returns the hash that is stored instead of the code.
    pub fn hash(&self, member: MemberId) -> Vec<u8> {
        let hash = Sha256::new_with_prefix("svc delivery code 1\0");
        hash.chain_update(member.uuid().as_bytes()).chain_update(&self.0).finalize().to_vec()
    }
}

impl fmt::Debug for ConfirmationCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConfirmationCode")
    }
}

impl<'de> Deserialize<'de> for ConfirmationCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Self(text));
        }
        Err(de::Error::custom("expected a code of 8 digits"))
    }
}

impl JsonSchema for ConfirmationCode {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ConfirmationCode".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]{8}$"})
    }
}

request! {
    /// Confirms your email address with the code that was sent to it, and returns your email settings.
    ///
    /// Your notifications are then emailed to that address.
    ///
    /// Confirming again with the same code changes nothing.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you, or if the code is wrong; 409 `wrong-state` if no
    /// address is waiting for a code, or if the code has expired, which happens after 24 hours or five wrong
    /// codes; 409 `not-enabled` if the service sends no mail.
    #[derive(Serialize)]
    struct ConfirmDeliveryAddress {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// The code from the email.
        code: ConfirmationCode,
    }

    confirm_delivery_address(code: ConfirmationCode) -> Delivery
}

fn confirm_delivery_address(
    cx: &mut Write<'_>,
    input: &ConfirmDeliveryAddress,
) -> Result<Delivery, RecordedRefusal> {
    check_mail_enabled(cx)?;
    let member = cx.caller().member_id()?;
    let nothing = || Error::wrong_state("no address waits for a code");
    let mut stored = load_delivery(cx, member)?.ok_or_else(nothing)?;
    let is_right = stored.code_hash.as_deref() == Some(&*input.code.hash(member));
    let Some(pending) = stored.pending.clone() else {
        return if is_right && stored.confirmed_at.is_some() {
            Ok(stored.into_delivery())
        } else {
            Err(nothing().into())
        };
    };
    let is_live = stored.code_until.is_some_and(|until| cx.now() < until) && stored.tries < CODE_TRIES_MAX;
    if !is_live {
        return Err(
            Error::wrong_state("the code has ended or was not sent yet: set the address again").into()
        );
    }
    if !is_right {
        stored.tries = stored.tries.saturating_add(1);
        store_delivery(cx, member, &stored)?;
        return Err(RecordedRefusal::recorded(Error::forbidden("the code is wrong")));
    }
    let now = cx.now();
    stored = StoredDelivery {
        address: Some(pending),
        confirmed_at: Some(now),
        pending: None,
        code_due: None,
        failures: 0,
        retry_at: None,
        last_error: None,
        refusals: 0,
        suspended: false,
        ..stored
    };
    store_delivery(cx, member, &stored)?;
    Ok(stored.into_delivery())
}
