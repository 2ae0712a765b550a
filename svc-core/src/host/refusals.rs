//! Requests that end before their operation. Whatever the reason, the decision about a delegated one is
//! recorded; only what a rate limit rejects leaves nothing.

use std::sync::Arc;

use super::service::{Service, reply_of};
use crate::error::{Code, Error};
use crate::op::{Admission, NotAdmitted, Operation, RequestHead, RunOn};

impl Service {
    /// Returns the error for an admitted request that ends before its operation: its input could not be read,
    /// or the shell has no room for it.
    ///
    /// That is what is wrong with its credential by now, or else `refusal`. So a dead credential is reported
    /// first whatever else is wrong, and the rejection of a delegated one is recorded.
    pub async fn refuse(
        &self,
        operation: Option<&Arc<Operation>>,
        admission: Admission,
        refusal: Error,
    ) -> Error {
        // A fault of the service is not the request's, so it matters only that a delegated one is recorded.
        if refusal.code().status() >= 500 && !admission.is_delegated() {
            return refusal;
        }
        let refused =
            reply_of(|done| self.dispatch().refuse(operation, admission, refusal, RunOn::Batched, done));
        refused
            .await
            .err()
            .unwrap_or_else(|| Error::internal("a request that could not be read has succeeded"))
    }

    /// Counts a request that asks for nothing there is, and returns the error to respond with.
    ///
    /// That is `refusal`, unless a limit is exceeded. Nobody needs a credential to learn that there is
    /// nothing, but if it is a delegated one, that is recorded.
    pub async fn refuse_unrouted(&self, head: RequestHead, refusal: Error) -> NotAdmitted {
        let (standings, refusal) = match self.admit(None, head).await {
            Ok(admission) => {
                let standings = admission.standings().into();
                let is_recorded = admission.is_delegated();
                (standings, if is_recorded { self.refuse(None, admission, refusal).await } else { refusal })
            }
            Err(error) if error.code() == Code::Unauthenticated => (error.standings().into(), refusal),
            Err(error) => return error,
        };
        NotAdmitted::new(refusal, standings)
    }
}
