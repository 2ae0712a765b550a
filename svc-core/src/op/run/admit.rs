//! Admission by a credential that is not cached, which is looked up in the database.

use std::net::IpAddr;
use std::sync::Arc;

use super::call::Call;
use super::credentials::{CredentialLookup, Gate, KnownCredential};
use super::{Admission, pipeline};
use crate::error::{Code, Error, Result};
use crate::log::cache::ReaderCache;
use crate::op::call::caller::Caller;
use crate::op::call::credential::CredentialKey;
use crate::rate::Charged;
use crate::store::executor::{ReadTask, Reader, Task};
use crate::time::Time;

/// Receives an admission. Called on a core thread: it must only hand it on.
pub(crate) type Admitted = Box<dyn FnOnce(Result<Admission>) + Send>;

/// Looks up a credential in the database, and admits its request.
pub(super) struct AdmitCall {
    /// The call, whose caller is not known yet.
    pub(super) call: Call,
    pub(super) key: CredentialKey,
    pub(super) peer: Option<IpAddr>,
    pub(super) charged: Option<Charged>,
    pub(super) found: CredentialLookup,
    pub(super) admission: Admission,
    pub(super) done: Admitted,
}

impl AdmitCall {
    /// Admits or rejects the request by what was found, after the transaction.
    fn admit(&mut self) -> Result<()> {
        let (limits, needs, charged) = (&self.call.dispatch.limits, self.call.needs, self.charged.take());
        let mut gate = Gate { limits, needs, peer: self.peer, now: self.now(), charged };
        let outcome = pipeline::admit(&mut gate, &self.found);
        self.charged = gate.charged;
        outcome
    }

    /// Returns the time of the transaction.
    fn now(&self) -> Time {
        self.call.entered().map_or_else(|_| self.call.dispatch.clock.now(), |entered| entered.now)
    }
}

impl ReadTask<ReaderCache> for AdmitCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.call.entered = None;
        let caller = match Caller::by_key(&reader.conn, &self.key) {
            Ok(caller) => caller,
            Err(error) if error.code() == Code::Unauthenticated => {
                self.found = CredentialLookup::Unknown(error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let payer = caller.payer(&reader.conn)?;
        self.call.entered = Some(self.call.entered_in(reader, caller.clone())?);
        let now = self.call.dispatch.clock.monotonic();
        self.found = CredentialLookup::Known(Arc::new(KnownCredential::new(self.key, caller, payer, now)));
        Ok(())
    }
}

impl Task for AdmitCall {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let dispatch = Arc::clone(&self.call.dispatch);
        match &outcome {
            Err(error) if error.code() == Code::Overloaded => {
                let waited = dispatch.lookups.end_without_reader();
                waited.into_iter().for_each(|lookup| (lookup.done)(Err(error.clone())));
            }
            _ => {
                let next = dispatch.lookups.end();
                next.into_iter().for_each(|lookup| dispatch.executor.read(lookup, false));
            }
        }
        self.settle(outcome);
    }
}

impl AdmitCall {
    fn settle(mut self, outcome: Result<()>) {
        let outcome = outcome.and_then(|()| self.admit());
        let now = self.now();
        let Self { call, key, found, admission, done, charged, .. } = self;
        let credentials = &call.dispatch.credentials;
        match &found {
            CredentialLookup::Known(known) if found.live(now).is_some() => {
                credentials.insert(Arc::clone(known))
            }
            _ => credentials.remove(&key),
        }
        match (found, outcome) {
            (CredentialLookup::Known(known), Ok(())) => {
                call.dispatch.settle(charged, Ok(admission.of_known(known)), done);
            }
            (_, Ok(())) => done(Err(Error::internal("a request was admitted by an unknown credential"))),
            (_, Err(error)) => {
                let dispatch = Arc::clone(&call.dispatch);
                call.refuse(error, move |error| dispatch.settle(charged, Err(error), done));
            }
        }
    }
}
