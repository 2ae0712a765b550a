//! The permit to destroy content of a workspace.
//!
//! Whatever deletes content that members have written, or the keys that open it, takes a [`DestroyPermit`].
//! There is one only in the transaction that has found no legal hold on the workspace.

use std::marker::PhantomData;

use super::context::Write;
use crate::error::{Code, Error, Result};

/// That content of the caller's workspace may be destroyed in this transaction.
#[derive(Debug)]
pub(crate) struct DestroyPermit<'a>(PhantomData<&'a ()>);

impl<'a> Write<'a> {
    /// Returns the permit. Fails with 409 `legal-hold` while the workspace has a hold.
    ///
    /// Holds are placed under the head of the workspace, as every change is, so none can be placed meanwhile.
    pub(crate) fn permit(&self) -> Result<DestroyPermit<'a>> {
        match self.one::<(i64,)>(HELD, &[&self.caller().workspace_id])? {
            None => Ok(DestroyPermit(PhantomData)),
            Some(_) => Err(Error::new(
                Code::LegalHold,
                "the workspace is under a legal hold, so nothing is destroyed",
            )),
        }
    }
}

/// By the index of holds in force.
const HELD: &str = "select 1 from legal_holds where workspace_id = $1 and released_at is null limit 1";
