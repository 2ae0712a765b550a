//! Rejects requests that end before their operation runs.
//!
//! The decision about a delegated request is always recorded, unless a rate limit rejects the request.

use std::sync::Arc;

use super::service::{Service, await_reply};
use crate::error::{Code, Error};
use crate::op::{Admission, AdmissionFailure, Operation, RequestHead, RunOn};

impl Service {
    /// Returns the error for an admitted request that ends before its operation runs.
    ///
    /// Its input could not be read, or the shell lacks capacity. If the credential is no longer valid, the
    /// error reports that; otherwise it is `refusal`. The rejection of a delegated request is recorded.
    pub async fn refuse(
        &self,
        operation: Option<&Arc<Operation>>,
        admission: Admission,
        refusal: Error,
    ) -> Error {
        // The request did not cause a failure of the service, so only a delegated request must be recorded.
        if refusal.code().status() >= 500 && !admission.is_delegated() {
            return refusal;
        }
        let refused =
            await_reply(|done| self.dispatch().refuse(operation, admission, refusal, RunOn::Batched, done));
        refused
            .await
            .err()
            .unwrap_or_else(|| Error::internal("a request that could not be read has succeeded"))
    }

    /// Counts a request for a route that does not exist, and returns the error to respond with.
    ///
    /// The error is `refusal`, unless a limit is exceeded. The request needs no credential, but is recorded
    /// if it is delegated.
    pub async fn refuse_unrouted(&self, head: RequestHead, refusal: Error) -> AdmissionFailure {
        let (standings, refusal) = match self.admit(None, head).await {
            Ok(admission) => {
                let standings = admission.limit_states().into();
                let is_recorded = admission.is_delegated();
                (standings, if is_recorded { self.refuse(None, admission, refusal).await } else { refusal })
            }
            Err(error) if error.code() == Code::Unauthenticated => (error.limit_states().into(), refusal),
            Err(error) => return error,
        };
        AdmissionFailure::new(refusal, standings)
    }
}
