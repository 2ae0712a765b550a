//! Answers of changes, and how a repeated request is answered.
//!
//! A client that was disconnected does not know whether its change was made. It sends the request again with
//! the same key, and gets the answer again, with the current state of the object that was changed.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};
use crate::op::call::answer_options::AnswerOptions;
use crate::op::call::caller::Surface;
use crate::op::call::input::{ListOptions, decode_listing};
use crate::op::call::request::Input;
use crate::op::declare::job::{BoxedOutput, InputType, Output, OutputType};
use crate::op::run::context::Read;

/// The output of a change with the input `I`.
pub trait Answer<I>: Serialize + Sized {
    /// The part of the answer that is stored for repeats: ids, numbers and times, never content or secrets.
    type Kept: Serialize + DeserializeOwned;

    /// Codes with which a repeat can fail, in addition to those of every operation.
    const REFUSES: &'static [Code] = &[];

    /// Returns the part of the answer to store for repeated requests.
    ///
    /// Returns `None` if the call changed nothing; a repeated request then runs again.
    fn kept(&self) -> Option<Self::Kept>;

    /// Returns the answer to a repeat, with the current state of the object that was changed.
    ///
    /// Fails with 404 `not-found` if the object is gone or hidden from the caller, with 409 `stale-claim` if
    /// it is a claim that has ended, and with 409 `idempotency-replayed` if the answer contained a secret.
    fn answer_repeat(cx: &Read<'_>, input: &I, kept: Self::Kept) -> Result<Self>;
}

/// Returns the error for a repeated request whose first answer contained a secret. `id` is the id of the new
/// object.
pub fn secret_was_shown(id: impl Serialize) -> Error {
    let told = "the answer to the first request with this key had a secret, which is shown once";
    Error::new(Code::IdempotencyReplayed, told).with("id", id)
}

/// The output of any operation that changes something, with the input `I`.
///
/// Either an [`Answer`], or the output of a route with special rules, whose requests have no idempotency
/// keys.
pub trait Returned<I>: OutputType {
    /// Returns how the operation's requests are repeated, or `None` if they have no idempotency keys.
    fn repeats() -> Option<RepeatPolicy>;
}

impl<I, O> Returned<I> for O
where
    I: Serialize + InputType,
    O: Answer<I> + OutputType,
{
    fn repeats() -> Option<RepeatPolicy> {
        Some(RepeatPolicy::of::<I, O>())
    }
}

/// Declares that requests with these inputs and outputs have no idempotency keys.
macro_rules! without_keys {
    ($($input:ty => $output:ty),+ $(,)?) => {
        $(impl $crate::op::Returned<$input> for $output {
            fn repeats() -> Option<$crate::op::RepeatPolicy> {
                None
            }
        })+
    };
}
pub(crate) use without_keys;

/// How repeats of an operation's requests are recognised and answered.
#[derive(Clone, Copy)]
pub struct RepeatPolicy {
    /// Codes with which a repeat can fail, in addition to those of every operation.
    pub(in crate::op) refuses: &'static [Code],
    /// Returns the decoded input of a request as bytes, which are equal for equal inputs.
    pub(in crate::op) request: fn(&Input, AnswerOptions) -> Result<Vec<u8>>,
    /// Returns the part of an output to store for repeats, as JSON.
    pub(in crate::op) kept: fn(&dyn Output) -> Result<Option<String>>,
    /// Returns the answer to a repeat from the stored part of the first answer.
    pub(in crate::op) again: fn(&Read<'_>, &Input, AnswerOptions, &str) -> Result<BoxedOutput>,
}

impl RepeatPolicy {
    fn of<I, O>() -> Self
    where
        I: Serialize + InputType,
        O: Answer<I> + OutputType,
    {
        Self {
            refuses: <O as Answer<I>>::REFUSES,
            request: |input, asks| serde_json::to_vec(&decoded::<I>(input, asks)?).map_err(Error::internal),
            kept: |output| {
                let output = output.as_any().downcast_ref::<O>();
                let output = output.ok_or_else(|| Error::internal("the operation returned another type"))?;
                let kept = Answer::<I>::kept(output);
                kept.map(|kept| serde_json::to_string(&kept).map_err(Error::internal)).transpose()
            },
            again: |cx, input, asks, kept| {
                let input = decoded::<I>(input, asks)?;
                let kept = serde_json::from_str(kept).map_err(Error::internal)?;
                Ok(Box::new(<O as Answer<I>>::answer_repeat(cx, &input, kept)?))
            },
        }
    }
}

/// Decodes an input that may contain answer options.
fn decoded<I: InputType>(input: &Input, asks: AnswerOptions) -> Result<I> {
    decode_listing(input, &mut ListOptions::of(Surface::Rest, asks))
}
