//! The reply to a request.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::op::declare::byte_limit::skip_text_characters;
use crate::op::declare::job::{BoxedOutput, Output};
use crate::op::declare::lean_answer;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;
use crate::page::{AnswerBounds, with_cursors};
use crate::spool::FileContent;

/// The reply to a request, which a shell sends to the client.
pub struct Reply {
    /// The HTTP status on success.
    pub status: u16,
    /// The position that the log of the caller's workspace had reached, if the caller is a member.
    pub lsn: Option<i64>,
    /// Whether this is the answer to a repeated request.
    pub is_repeated: bool,
    output: BoxedOutput,
    form: Option<BodyForm>,
}

/// The requested form of a reply's body.
pub(super) struct BodyForm {
    pub operation: Arc<Operation>,
    pub table: Arc<Table>,
    /// The ids in the request, which a lean answer omits. `None` if the answer must be full.
    pub request_ids: Option<Map<String, Value>>,
    pub bounds: AnswerBounds,
}

impl BodyForm {
    /// Encodes an output as a body: lean if the caller requested that, and cut to the maximum bytes.
    fn encode_body(&self, output: &dyn Output) -> Result<Vec<u8>> {
        let answer = self.shorten_as_requested(output.encode()?)?;
        if answer.len() <= self.bounds.max_bytes || !self.operation.is_cut() {
            return Ok(answer);
        }
        let whole = self.shorten_as_requested(with_cursors(|| output.encode())?)?;
        self.operation.shape().cut_to_fit(&whole, self.bounds)
    }

    /// Makes an encoded answer lean if the caller requested that, and removes the text before the requested
    /// offset.
    fn shorten_as_requested(&self, full: Vec<u8>) -> Result<Vec<u8>> {
        let payload_form = |kind: &str| self.table.lean_payload(kind);
        let answer = match self.request_ids.as_ref().zip(self.operation.lean_form()) {
            Some((request_ids, lean)) => {
                lean.make_lean(&full, &lean_answer::LeanRequest { request_ids, payload_form: &payload_form })?
            }
            None => full,
        };
        match self.operation.resumable_text() {
            Some(text) if self.bounds.offset > 0 => skip_text_characters(&answer, text, self.bounds.offset),
            _ => Ok(answer),
        }
    }
}

impl Reply {
    pub(in crate::op) fn of(status: u16, lsn: Option<i64>, output: BoxedOutput) -> Self {
        Self { status, lsn, is_repeated: false, output, form: None }
    }

    /// Sets the requested form of the body.
    pub(super) fn with_form(self, form: BodyForm) -> Self {
        Self { form: Some(form), ..self }
    }

    /// Marks the reply as the answer to a repeat of a change that succeeded with `status`.
    pub(super) fn repeated(self, status: u16) -> Self {
        Self { status, is_repeated: true, ..self }
    }

    /// Encodes the body of the reply. Must be called on the caller's thread, not on a core thread.
    ///
    /// Reads the content of a file into memory, and fails if the file is too large for that.
    pub fn body(&self) -> Result<Vec<u8>> {
        match self.content() {
            Some(content) => content.read(),
            None => match &self.form {
                Some(form) => form.encode_body(self.output.as_ref()),
                None => self.output.encode(),
            },
        }
    }

    /// Returns the file, if the body is a file.
    pub fn content(&self) -> Option<&FileContent> {
        self.output_as()
    }

    /// Returns the output, if it has the type `O`.
    pub fn output_as<O: 'static>(&self) -> Option<&O> {
        self.output.as_ref().as_any().downcast_ref()
    }

    /// Returns the output as an `O`, for a caller that knows the type.
    pub(crate) fn output<O: 'static>(self) -> Result<O> {
        let output = self.output.into_any().downcast();
        output.map(|output| *output).map_err(|_| Error::internal("the operation returned another type"))
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply({}, lsn {:?})", self.status, self.lsn)
    }
}
