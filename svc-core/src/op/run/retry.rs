//! Requests with an idempotency key: each changes data once, and its repeats receive the same answer.
//!
//! The server writes the row of a key in the transaction of the change, or after the refusal. Every request
//! with that key searches for the row in its transaction, before its function runs and before each of its
//! steps. So a repeat finds the row, and a read produces the answer again. If only some steps were committed,
//! the row contains the state that the steps share, and the repeat continues with that state. Apart from ids
//! and numbers, the row contains only digests, under keys that are derived from the key-encryption key.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::context::Write;
use super::settings::SharedState;
use crate::error::{Code, Error, Result};
use crate::id::MemberId;
use crate::op::call::answer_options::AnswerOptions;
use crate::op::call::caller::Caller;
use crate::op::call::key::IdempotencyKey;
use crate::op::call::request::Input;
use crate::op::declare::answer::RepeatPolicy;
use crate::op::declare::job::{Output, ReadJob};
use crate::op::declare::operation::Operation;

/// Time for which an idempotency key is stored: 24 hours.
const KEY_LIFETIME: Duration = Duration::from_secs(86_400);

/// Status value in the row of a request of which only some steps were committed.
const STEPS_BEGUN: i64 = 0;

/// Label for deriving the keys of the digests.
const KEY_DERIVATION_LABEL: &str = "svc idempotency keys 1";

/// A request with an idempotency key.
#[derive(Clone)]
pub(in crate::op) struct KeyedRequest {
    input: Input,
    answer_options: AnswerOptions,
    status: u16,
    repeat_policy: RepeatPolicy,
    key: IdempotencyKey,
    /// Digests of the request, and keys for the digest of its idempotency key. The first entry uses the
    /// current key-encryption key, the others use retired ones.
    digests: Vec<RequestDigests>,
    /// Whether the function was called. If so, the function itself caused a refusal.
    pub has_run: bool,
}

/// The digest of a request, and the key for the digest of its idempotency key.
#[derive(Clone)]
struct RequestDigests {
    /// The key of both digests, derived from a key-encryption key.
    derived_key: Zeroizing<[u8; 32]>,
    /// The digest of the operation and its input.
    request: Digest,
}

/// An HMAC-SHA256, truncated to half its length, which is enough to distinguish requests.
type Digest = [u8; 16];

impl RequestDigests {
    /// Returns the member and the digest that identify the row of an idempotency key, or `None` for a caller
    /// that is not a member.
    fn row_key(&self, key: &IdempotencyKey, caller: &Caller) -> Result<Option<(MemberId, Digest)>> {
        let Some(member) = caller.member else { return Ok(None) };
        let actor = caller.actor.unwrap_or(member);
        let [member_id, actor_id] = [member, actor].map(|id| id.uuid().into_bytes());
        let parts = [&member_id[..], &actor_id, key.as_str().as_bytes()];
        Ok(Some((member, digest(self.derived_key.as_slice(), "key", &parts)?)))
    }
}

/// The stored progress of an earlier request with the same key.
pub(in crate::op) enum StoredProgress {
    /// Some steps of the request were committed. Contains the state that the steps share, as JSON.
    Begun(String),
    /// The request was answered. Contains the stored data of the answer.
    Answered(String),
}

/// The outcome of a request, to store under its key.
pub(in crate::op) enum AnswerOutcome<'o> {
    Done(&'o dyn Output),
    Refused(Code),
}

impl KeyedRequest {
    /// Returns the request with its key, or `None` if it has no key or its operation accepts none.
    pub fn new(operation: &Operation, input: &Input, shared: &SharedState) -> Result<Option<Self>> {
        let (Some(key), Some(repeat_policy)) = (&input.key, operation.run.repeat_policy) else {
            return Ok(None);
        };
        let answer_options = operation.answer_options();
        let request = (repeat_policy.encode_input)(input, answer_options)?;
        let digests = shared.sealer.derived(KEY_DERIVATION_LABEL)?.into_iter().map(|derived_key| {
            let parts = [operation.name().as_bytes(), &request];
            Ok(RequestDigests { request: digest(derived_key.as_slice(), "request", &parts)?, derived_key })
        });
        Ok(Some(Self {
            input: input.clone(),
            answer_options,
            status: operation.http().success.status(),
            repeat_policy,
            key: key.clone(),
            digests: digests.collect::<Result<_>>()?,
            has_run: false,
        }))
    }

    /// Returns the stored progress of an earlier request, if the caller's request is a repeat.
    ///
    /// Fails with the same refusal if the first request was refused, and with 422 `idempotency-mismatch` if
    /// the key was sent with a different request.
    pub fn find_stored_progress(&self, cx: &Write<'_>) -> Result<Option<StoredProgress>> {
        let mut begun = None;
        for digest_pair in &self.digests {
            let Some((_, key)) = digest_pair.row_key(&self.key, cx.caller())? else { return Ok(None) };
            let found: Option<KeyRow> = cx.one(FIND_KEY, &[&key.as_slice(), &cx.now()])?;
            let Some((request, status, code, answer)) = found else { continue };
            if request != digest_pair.request {
                let other = "this key was used for another request in the last 24 hours";
                return Err(Error::new(Code::IdempotencyMismatch, other));
            }
            return match (code, answer) {
                (Some(code), _) => Err(repeated_refusal(&code, status)),
                // Another row may contain the final answer, under another key-encryption key.
                (None, Some(state)) if status == STEPS_BEGUN => {
                    begun = begun.or(Some(StoredProgress::Begun(state)));
                    continue;
                }
                (None, Some(stored_data)) => Ok(Some(StoredProgress::Answered(stored_data))),
                (None, None) => Err(Error::internal("the row of a key has no answer")),
            };
        }
        Ok(begun)
    }

    /// Returns the read that produces the answer to a repeat from the stored data of the first answer.
    pub fn answer_repeat(self, stored_data: String) -> ReadJob {
        Box::new(move |cx| {
            let again =
                (self.repeat_policy.answer_repeat)(cx, &self.input, self.answer_options, &stored_data);
            again.map_err(|error| if error.code().status() < 500 { error.repeated() } else { error })
        })
    }

    /// Stores the state that the committed steps share, with which a repeat of the request continues.
    pub fn store_step_state(&self, cx: &mut Write<'_>, state: &str) -> Result<()> {
        self.save(cx, STEPS_BEGUN, None, Some(state))
    }

    /// Stores the outcome of a request for its repeats: data of the answer, or the code of a final refusal.
    pub fn store_outcome(&self, cx: &mut Write<'_>, outcome: &AnswerOutcome<'_>) -> Result<()> {
        match outcome {
            AnswerOutcome::Done(output) => match (self.repeat_policy.stored_data)(*output)? {
                Some(stored_data) => self.save(cx, self.status.into(), None, Some(&stored_data)),
                None => Ok(()),
            },
            AnswerOutcome::Refused(code) if is_final_refusal(*code) => {
                self.save(cx, code.status().into(), Some(code.name()), None)
            }
            AnswerOutcome::Refused(_) => Ok(()),
        }
    }

    /// Stores the row of the key.
    fn save(
        &self,
        cx: &mut Write<'_>,
        status: i64,
        code: Option<&'static str>,
        answer: Option<&str>,
    ) -> Result<()> {
        let Some(digest_pair) = self.digests.first() else { return Ok(()) };
        let Some((member, key)) = digest_pair.row_key(&self.key, cx.caller())? else { return Ok(()) };
        let lsn = cx.lsn()?;
        let until = cx.now().plus(KEY_LIFETIME);
        cx.save_any(
            SAVE_KEY,
            &[
                &key.as_slice(),
                &member,
                &digest_pair.request.as_slice(),
                &status,
                &code,
                &answer,
                &lsn,
                &until,
                &cx.now(),
                &STEPS_BEGUN,
            ],
        )
    }

    /// Returns whether a refusal with this code is stored: the function has run, and the refusal is final.
    pub fn stores_refusal(&self, code: Code) -> bool {
        self.has_run && is_final_refusal(code)
    }
}

/// Returns whether a refusal with this code is final, and so can be stored for repeats. A refusal that
/// requires action by a person is not final.
fn is_final_refusal(code: Code) -> bool {
    code != Code::NeedsPerson && matches!(code.status(), 403 | 404 | 409)
}

/// Returns the same refusal as for the first request, without its details.
fn repeated_refusal(code: &str, status: i64) -> Error {
    match Code::named(code) {
        Some(code) => Error::new(
            code,
            "the first request with this key was refused with this code; use a new key to try again",
        )
        .repeated(),
        None => Error::internal(format!("a request was refused with {status} {code}, which is unknown")),
    }
}

/// Returns the digest of `parts` under `key`. Digests with different labels are different.
fn digest(key: &[u8], label: &str, parts: &[&[u8]]) -> Result<Digest> {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(key).map_err(Error::internal)?;
    for part in std::iter::once(&label.as_bytes()).chain(parts) {
        mac.update(&u64::try_from(part.len()).map_err(Error::internal)?.to_be_bytes());
        mac.update(part);
    }
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    let (half, _) = whole.split_first_chunk().ok_or_else(|| Error::internal("a digest is too short"))?;
    Ok(*half)
}

/// A row of the table `idempotency_keys`: the digest of the request, the status, the error code, and the
/// stored data of the answer.
type KeyRow = (Vec<u8>, i64, Option<String>, Option<String>);

const FIND_KEY: &str = "
    select request_hash, status, code, answer from idempotency_keys where key_hash = $1 and until > $2";

/// Replaces a row that has expired, or a row of a request of which only some steps were committed. Keeps the
/// row of a request that was answered first.
const SAVE_KEY: &str = "
    insert into idempotency_keys (key_hash, member_id, request_hash, status, code, answer, lsn, until)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (key_hash) do update
    set request_hash = excluded.request_hash, status = excluded.status, code = excluded.code,
        answer = excluded.answer, lsn = excluded.lsn, until = excluded.until
    where idempotency_keys.until <= $9 or idempotency_keys.status = $10";
