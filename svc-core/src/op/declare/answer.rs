//! The answers of operations that change data, and the answers to repeated requests.
//!
//! A client that was disconnected does not know whether the server has made the change. The client repeats
//! the request with the same key, and receives the answer again, with the current state of the changed
//! object.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};
use crate::op::call::answer_options::AnswerOptions;
use crate::op::call::caller::Surface;
use crate::op::call::input::{AnswerOptionValues, decode_with_options};
use crate::op::call::request::Input;
use crate::op::declare::job::{BoxedOutput, InputType, Output, OutputType};
use crate::op::run::context::Read;

/// The output of an operation that changes data and has the input `I`.
pub trait Answer<I>: Serialize + Sized {
    /// Data of the answer that the server stores for repeats: ids, numbers and times, but neither content nor
    /// secrets.
    type Kept: Serialize + DeserializeOwned;

    /// Error codes with which a repeat can fail, in addition to the codes of every operation.
    const REFUSES: &'static [Code] = &[];

    /// Returns the data of the answer that the server stores for repeats of the request.
    ///
    /// Returns `None` if the call changed nothing. A repeat of the request then calls the function again.
    fn kept(&self) -> Option<Self::Kept>;

    /// Returns the answer to a repeat, with the current state of the object that was changed.
    ///
    /// Fails with 404 `not-found` if the object is gone or hidden from the caller, with 409 `stale-claim` if
    /// it is a claim that has ended, and with 409 `idempotency-replayed` if the answer contained a secret.
    fn answer_repeat(cx: &Read<'_>, input: &I, kept: Self::Kept) -> Result<Self>;
}

/// Returns the error for a repeated request whose first answer contained a secret. `id` is the id of the new
/// object.
pub fn secret_shown_once_error(id: impl Serialize) -> Error {
    let detail = "the answer to the first request with this key contained a secret, which is shown only once";
    Error::new(Code::IdempotencyReplayed, detail).with("id", id)
}

/// The output of an operation that changes data and has the input `I`, with or without idempotency keys.
///
/// The output is either an [`Answer`], or belongs to a route with special rules, whose requests have no
/// idempotency keys.
pub trait ChangeOutput<I>: OutputType {
    /// Returns how the server recognises and answers repeated requests, or `None` if requests have no
    /// idempotency keys.
    fn repeats() -> Option<RepeatPolicy>;
}

impl<I, O> ChangeOutput<I> for O
where
    I: Serialize + InputType<O>,
    O: Answer<I> + OutputType,
{
    fn repeats() -> Option<RepeatPolicy> {
        Some(RepeatPolicy::of::<I, O>())
    }
}

/// Declares that requests with the listed input and output types have no idempotency keys.
macro_rules! without_idempotency_keys {
    ($($input:ty => $output:ty),+ $(,)?) => {
        $(impl $crate::op::ChangeOutput<$input> for $output {
            fn repeats() -> Option<$crate::op::RepeatPolicy> {
                None
            }
        })+
    };
}
pub(crate) use without_idempotency_keys;

/// How the server recognises and answers repeated requests for an operation.
#[derive(Clone, Copy)]
pub struct RepeatPolicy {
    /// Error codes with which a repeat can fail, in addition to the codes of every operation.
    pub(in crate::op) refuses: &'static [Code],
    /// Returns the decoded input of a request as bytes, which are equal for equal inputs.
    pub(in crate::op) encode_input: fn(&Input, AnswerOptions) -> Result<Vec<u8>>,
    /// Returns the data of an output to store for repeats, as JSON, or `None` if the call changed nothing.
    pub(in crate::op) stored_data: fn(&dyn Output) -> Result<Option<String>>,
    /// Returns the answer to a repeat from the stored data of the first answer.
    pub(in crate::op) answer_repeat: fn(&Read<'_>, &Input, AnswerOptions, &str) -> Result<BoxedOutput>,
}

impl RepeatPolicy {
    fn of<I, O>() -> Self
    where
        I: Serialize + InputType<O>,
        O: Answer<I> + OutputType,
    {
        Self {
            refuses: <O as Answer<I>>::REFUSES,
            encode_input: |input, options| {
                serde_json::to_vec(&decode_input::<I>(input, options)?).map_err(Error::internal)
            },
            stored_data: |output| {
                let output = output.as_any().downcast_ref::<O>();
                let output = output.ok_or_else(|| Error::internal("the operation returned another type"))?;
                let kept = Answer::<I>::kept(output);
                kept.map(|kept| serde_json::to_string(&kept).map_err(Error::internal)).transpose()
            },
            answer_repeat: |cx, input, options, kept| {
                let input = decode_input::<I>(input, options)?;
                let kept = serde_json::from_str(kept).map_err(Error::internal)?;
                Ok(Box::new(<O as Answer<I>>::answer_repeat(cx, &input, kept)?))
            },
        }
    }
}

/// Decodes an input that may contain answer options.
fn decode_input<I: DeserializeOwned + JsonSchema + 'static>(
    input: &Input,
    options: AnswerOptions,
) -> Result<I> {
    decode_with_options(input, &mut AnswerOptionValues::defaults_for(Surface::Rest, options))
}
