//! What a connection knows of its transaction: whether one was begun, whether it can be gone on with, and by what name
//! the engine must show it when it is committed. Between begin and commit or rollback there is one session or none:
//! whoever would replace it asks here first.

use std::cell::Cell;

use super::conn::Failure;
use crate::error::{Code, Error, Result};

/// The state of one connection.
pub(super) struct Transaction {
    state: Cell<State>,
    /// What it means when the engine has no transaction any more though one was begun.
    lost: Failure,
    /// What the transactions of this connection are called, together with their number.
    name: String,
    begun: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None was begun, or it has ended.
    None,
    /// One was begun.
    Open,
    /// The one that was begun cannot be gone on with; it has to be rolled back.
    Failed(Failure),
}

impl Transaction {
    /// Of a connection without one. `lost` is what it means when the engine ends a transaction by itself.
    pub fn new(lost: Failure) -> Result<Self> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self { state: Cell::new(State::None), lost, name: hex::encode(name), begun: Cell::new(0) })
    }

    /// One is begun. Answers its name, which no other transaction has.
    pub fn begin(&self) -> String {
        self.begun.set(self.begun.get().wrapping_add(1));
        self.state.set(State::Open);
        self.present_name()
    }

    fn present_name(&self) -> String {
        format!("{}-{}", self.name, self.begun.get())
    }

    /// Whether one was begun and has neither been committed nor rolled back.
    pub fn is_begun(&self) -> bool {
        self.state.get() != State::None
    }

    /// Notes that something has failed that takes the transaction along, if there is one.
    pub fn fail(&self, failure: Failure) {
        if self.state.get() == State::Open {
            self.state.set(State::Failed(failure));
        }
    }

    /// Why the transaction that was begun cannot be gone on with, if it cannot. `stands` tells whether the engine
    /// still has it.
    pub fn failure(&self, stands: impl FnOnce() -> bool) -> Option<Failure> {
        if self.state.get() == State::Open && !stands() {
            self.fail(self.lost);
        }
        match self.state.get() {
            State::Failed(failure) => Some(failure),
            State::None | State::Open => None,
        }
    }

    /// Fails if the transaction that was begun cannot be gone on with.
    pub fn check(&self, stands: impl FnOnce() -> bool) -> Result<()> {
        match self.failure(stands) {
            None => Ok(()),
            Some(failure) => Err(Error::new(
                Code::Unavailable,
                "the database has ended the transaction; nothing was changed: try again",
            )
            .caused_by(format!("the transaction cannot be gone on with: {failure:?}"))),
        }
    }

    /// The engine says that it has committed the transaction of the name `shown`, in the same answer. Only if that is
    /// the one that was begun has anything been committed.
    pub fn committed(&self, shown: Option<&str>) -> Result<()> {
        if self.state.get() == State::Open && shown == Some(&self.present_name()) {
            self.state.set(State::None);
            return Ok(());
        }
        self.fail(Failure::Broken);
        Err(outcome_unknown("the transaction that was begun is not the one that has ended"))
    }

    /// It is over. Answers whether there was one.
    pub fn end(&self) -> bool {
        self.state.replace(State::None) != State::None
    }
}

/// A commit was asked for, and nobody knows what became of it.
pub(super) fn outcome_unknown(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(
        Code::OutcomeUnknown,
        "the database failed during the commit: the change may or may not have happened; read before repeating",
    )
    .caused_by(cause)
}
