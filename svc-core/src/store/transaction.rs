//! The state of a connection's transaction.
//!
//! It has whether one was begun, whether it can continue, and the name that the engine must return when it
//! commits. Between begin and commit or rollback the session must stay the same: code that would replace it
//! checks this state first.

use std::cell::Cell;

use super::engine::TransactionFailure;
use crate::error::{Code, Error, Result};

/// The transaction state of one connection.
pub(super) struct TransactionState {
    state: Cell<State>,
    /// The failure to report when the engine no longer has a transaction that was begun.
    lost: TransactionFailure,
    /// The name prefix of this connection's transactions, to which their number is added.
    name: String,
    begun: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None was begun, or it has ended.
    None,
    Open,
    /// One was begun and cannot continue; it must be rolled back.
    Failed(TransactionFailure),
}

impl TransactionState {
    /// Creates the state of a connection without a transaction.
    ///
    /// `lost` is the failure to report when the engine ends a transaction by itself.
    pub fn new(lost: TransactionFailure) -> Result<Self> {
        let mut name = [0; 16];
        getrandom::fill(&mut name).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self { state: Cell::new(State::None), lost, name: hex::encode(name), begun: Cell::new(0) })
    }

    /// Records that a transaction was begun. Returns its unique name.
    pub fn begin(&self) -> String {
        self.begun.set(self.begun.get().wrapping_add(1));
        self.state.set(State::Open);
        self.current_name()
    }

    fn current_name(&self) -> String {
        format!("{}-{}", self.name, self.begun.get())
    }

    /// Returns whether a transaction was begun and has neither been committed nor rolled back.
    pub fn is_begun(&self) -> bool {
        self.state.get() != State::None
    }

    /// Records a failure that ends the transaction, if there is one.
    pub fn fail(&self, failure: TransactionFailure) {
        if self.state.get() == State::Open {
            self.state.set(State::Failed(failure));
        }
    }

    /// Returns why the transaction that was begun cannot continue, or `None` if it can.
    ///
    /// `is_alive` returns whether the engine still has it.
    pub fn failure(&self, is_alive: impl FnOnce() -> bool) -> Option<TransactionFailure> {
        if self.state.get() == State::Open && !is_alive() {
            self.fail(self.lost);
        }
        match self.state.get() {
            State::Failed(failure) => Some(failure),
            State::None | State::Open => None,
        }
    }

    /// Fails if the transaction that was begun cannot continue.
    pub fn check(&self, is_alive: impl FnOnce() -> bool) -> Result<()> {
        match self.failure(is_alive) {
            None => Ok(()),
            Some(failure) => Err(Error::new(
                Code::Unavailable,
                "the database has ended the transaction; nothing was changed",
            )
            .caused_by(format!("the transaction cannot continue: {failure:?}"))),
        }
    }

    /// Checks the name `shown` that the engine returned with its reply to a commit.
    ///
    /// Only if it is the name of the begun transaction has that been committed.
    pub fn committed(&self, shown: Option<&str>) -> Result<()> {
        if self.state.get() == State::Open && shown == Some(&self.current_name()) {
            self.state.set(State::None);
            return Ok(());
        }
        self.fail(TransactionFailure::Broken);
        Err(outcome_unknown("the transaction that was begun is not the one that has ended"))
    }

    /// Records that the transaction is over. Returns whether there was one.
    pub fn end(&self) -> bool {
        self.state.replace(State::None) != State::None
    }
}

/// Returns the error for a commit that was sent and whose outcome is unknown.
pub(super) fn outcome_unknown(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(
        Code::OutcomeUnknown,
        "the database failed during the commit: the change may or may not have happened",
    )
    .caused_by(cause)
}
