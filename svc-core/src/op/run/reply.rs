//! The reply to a request.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::op::declare::job::BoxedOutput;
use crate::op::declare::lean::Asked;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;
use crate::spool::Content;

/// The reply that a shell sends back.
pub struct Reply {
    /// The status of the success.
    pub status: u16,
    /// The position that the log of the caller's workspace had reached, for callers that have one.
    pub lsn: Option<i64>,
    /// Whether the request was answered before, and this answers its repeat.
    pub is_repeated: bool,
    output: BoxedOutput,
    lean: Option<LeanBy>,
}

/// What makes the body of a reply lean.
pub(super) struct LeanBy {
    pub operation: Arc<Operation>,
    pub table: Arc<Table>,
    /// The ids that the request has named.
    pub named: Map<String, Value>,
}

impl LeanBy {
    fn answer(&self, full: Vec<u8>) -> Result<Vec<u8>> {
        let payload_of = |kind: &str| self.table.lean_payload(kind);
        match self.operation.lean() {
            Some(lean) => lean.answer(&full, &Asked { named: &self.named, payload_of: &payload_of }),
            None => Ok(full),
        }
    }
}

impl Reply {
    pub(in crate::op) fn of(status: u16, lsn: Option<i64>, output: BoxedOutput) -> Self {
        Self { status, lsn, is_repeated: false, output, lean: None }
    }

    /// Says what makes its body lean, if anything does.
    pub(super) fn made_lean(self, lean: Option<LeanBy>) -> Self {
        Self { lean, ..self }
    }

    /// Says that it answers the repeat of a change that succeeded with `status`.
    pub(super) fn repeated(self, status: u16) -> Self {
        Self { status, is_repeated: true, ..self }
    }

    /// Encodes the body: now, on the caller's side, not on the core thread.
    ///
    /// A file is read into memory, if it is not too large for that.
    pub fn body(&self) -> Result<Vec<u8>> {
        match self.content() {
            Some(content) => content.read(),
            None => {
                let full = self.output.encode()?;
                match &self.lean {
                    Some(by) => by.answer(full),
                    None => Ok(full),
                }
            }
        }
    }

    /// Returns the file that the body is, if it is one.
    pub fn content(&self) -> Option<&Content> {
        self.output_as()
    }

    /// Returns the output, if it is of this type.
    pub fn output_as<O: 'static>(&self) -> Option<&O> {
        self.output.as_ref().as_any().downcast_ref()
    }

    /// Returns the output, for a caller that knows its type.
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
