//! A batch in a POST, which revision 2025-03-26 has.
//!
//! Its messages are handled one after the other, so that their effects happen in order. It takes one slot in
//! flight, and none while it waits. Its waits share one deadline. Once the responses exceed a limit, the
//! remaining messages are rejected.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::RequestId;
use svc_core::limits::WAIT_MAX_SECS;
use svc_core::{Client, Code, Error, Result};
use svc_mcp_stdio::asked::Asked;
use svc_mcp_stdio::outlet::Outlet;
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::wire::{InvalidMessage, Kind, Message, WAIT_BATCH_MAX};
use tokio::time::Instant;

use super::post::accepted;
use super::{Endpoint, Sender, refuse};
use crate::encode::{self, Response};
use crate::in_flight::RequestSlot;
use crate::shares::Share;
use crate::state::ServerState;
use crate::unread;

/// Bytes of a batch's responses after which its remaining messages are rejected.
const BATCH_ANSWER_MAX: usize = 1 << 20;

/// An item of a batch: a message, or what is wrong with it.
type Item = std::result::Result<Message, InvalidMessage>;

/// A batch in progress.
pub(super) struct BatchPost<'a> {
    endpoint: &'a Endpoint,
    state: &'a ServerState,
    sender: Sender,
    slot: Option<RequestSlot>,
    /// The responses, in the order of the messages that they answer.
    answers: Vec<Vec<u8>>,
    /// Their share of the unread bytes.
    share: Option<Share<Client>>,
}

impl<'a> BatchPost<'a> {
    pub fn new(endpoint: &'a Endpoint, state: &'a ServerState, sender: Sender) -> Self {
        Self { endpoint, state, sender, slot: None, answers: Vec::new(), share: None }
    }

    /// Handles the items of a batch that was sent in so many bytes.
    pub async fn run(mut self, items: Vec<Item>, size: usize) -> Response {
        let waits = |message: &Message| self.endpoint.layer.manner(message).waits;
        if size > WAIT_BATCH_MAX && items.iter().flatten().any(waits) {
            let detail = format!("a batch with a wait in it is larger than {WAIT_BATCH_MAX} bytes");
            let error = Error::new(Code::BodyTooLarge, detail);
            let error = self.sender.principal.refuse(&self.endpoint.service, error).await;
            return refuse::refused(None, &error, true);
        }
        let longest = Duration::from_secs(WAIT_MAX_SECS.unsigned_abs());
        self.sender.principal = self.sender.principal.clone().until(Instant::now() + longest);
        for (number, item) in items.into_iter().enumerate() {
            let (id, wants_answer) = match &item {
                Ok(message) => (message.id.clone(), message.kind == Kind::Request),
                Err(invalid) => (invalid.id.clone(), true),
            };
            let answered = match self.item(number, item).await {
                // The core does not know of it yet.
                Err(error) if self.sender.principal.is_unasked() => {
                    Err(self.sender.principal.refuse(&self.endpoint.service, error).await)
                }
                answered => answered,
            };
            let answer = match answered {
                Ok(answer) => answer,
                // A credential that has ended fails the whole batch.
                Err(error) if error.code() == Code::Unauthenticated => {
                    return refuse::refused(None, &error, true);
                }
                Err(error) => refusal(&error, id.as_ref()),
            };
            if wants_answer {
                self.answers.push(answer);
            }
        }
        self.slot = None;
        self.into_response()
    }

    /// Handles one item. Every item counts as a request, whatever it is.
    async fn item(&mut self, number: usize, item: Item) -> Result<Vec<u8>> {
        let service = &self.endpoint.service;
        if number > 0 {
            self.sender.principal = self.sender.principal.again(service).await?;
        }
        self.state.unread.wait(self.sender.client, Instant::now() + unread::TIMEOUT).await?;
        let invalid = match item {
            Ok(message) if message.kind == Kind::Response => {
                return self.sender.principal.confirm(service).await.map(|()| Vec::new());
            }
            Ok(message) if message.method == "initialize" => {
                InvalidMessage::new("initialize must not be in a batch", message.id)
            }
            Ok(message) => return self.message(number, message).await,
            Err(invalid) => invalid,
        };
        let error = self.sender.principal.refuse(service, Error::malformed(invalid.message)).await;
        if error.code() == Code::Malformed {
            return Ok(Refusal::from(&invalid).response(invalid.id.as_ref()));
        }
        Err(error)
    }

    /// Handles one message, or rejects it before it has any effect.
    async fn message(&mut self, number: usize, message: Message) -> Result<Vec<u8>> {
        let (endpoint, client) = (self.endpoint, self.sender.client);
        if self.answers.iter().map(Vec::len).sum::<usize>() >= BATCH_ANSWER_MAX {
            return Err(Error::new(
                Code::Overloaded,
                "the response of the batch is full, so this message and those after it were not run",
            ));
        }
        let manner = endpoint.layer.manner(&message);
        manner.check_size(&message)?;
        if manner.waits {
            self.slot = None;
        } else if self.slot.is_none() {
            let slots = &self.state.in_flight;
            self.slot = Some(match number {
                0 => slots.take(client).await?,
                _ => slots.take_again(client).await?,
            });
        }
        let Sender { principal, agreed, view, .. } = &self.sender;
        let asked = match Asked::of(&message, agreed, principal.clone(), view.clone()) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(refusal.response(message.id.as_ref())),
        };
        let message = Arc::new(message);
        let outlet = Outlet::closed();
        let answering = endpoint.layer.answer(&asked, &message, &outlet);
        let answer = if manner.waits { self.state.unless_closing(answering).await? } else { answering.await };
        asked.principal.confirm(&endpoint.service).await?;
        let Some(answer) = answer else { return Ok(Vec::new()) };
        let dead = answer.refusal.and_then(|refusal| refusal.error).map(|error| *error);
        if let Some(error) = dead.filter(|error| error.code() == Code::Unauthenticated) {
            return Err(error);
        }
        let share = self.state.unread.take(client, manner.changes, answer.bytes.len(), None);
        let share = share.ok_or_else(unread::full)?;
        match &mut self.share {
            Some(all) => all.merge(share),
            None => self.share = Some(share),
        }
        Ok(answer.bytes)
    }

    /// Returns one response with the array of all responses, or 202 if there are none.
    fn into_response(self) -> Response {
        if self.answers.is_empty() {
            return accepted();
        }
        let mut array = Vec::new();
        for answer in self.answers {
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&answer);
        }
        array.push(b']');
        let mut response = encode::json(hyper::StatusCode::OK, array.into());
        encode::insert_lsn(response.headers_mut(), self.sender.principal.room_lsn());
        if let Some(share) = self.share {
            response.body_mut().counted(share);
        }
        response
    }
}

/// Returns the error response to a message that was not run.
fn refusal(error: &Error, id: Option<&RequestId>) -> Vec<u8> {
    Refusal::of(error.clone()).response(id)
}
