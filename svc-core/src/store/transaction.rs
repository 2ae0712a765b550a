//! The state of a connection's transaction.
//!
//! The state records whether a transaction was begun, whether it can continue, and the name that the engine
//! must return on commit. Between begin and commit or rollback the session must stay the same: code that
//! would replace the session checks this state first.

use std::cell::Cell;

use super::engine::TransactionFailure;
use crate::error::{Code, Error, Result};

/// The transaction state of one connection.
pub(super) struct TransactionState {
    state: Cell<State>,
    /// The failure that is reported if the engine has ended the current transaction by itself.
    failure_if_lost: TransactionFailure,
    /// Prefix of the transaction names of this connection. A name is the prefix and a number.
    name_prefix: String,
    /// Number of transactions that were begun on this connection.
    transaction_count: Cell<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No transaction was begun, or it has ended.
    None,
    Open,
    /// The transaction cannot continue and must be rolled back.
    Failed(TransactionFailure),
}

impl TransactionState {
    /// Creates the state of a connection without a transaction.
    ///
    /// `failure_if_lost` is the failure that is reported if the engine ends a transaction by itself.
    pub fn new(failure_if_lost: TransactionFailure) -> Result<Self> {
        let mut prefix = [0; 16];
        getrandom::fill(&mut prefix).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self {
            state: Cell::new(State::None),
            failure_if_lost,
            name_prefix: hex::encode(prefix),
            transaction_count: Cell::new(0),
        })
    }

    /// Records the beginning of a transaction. Returns the unique name of the transaction.
    pub fn begin(&self) -> String {
        self.transaction_count.set(self.transaction_count.get().wrapping_add(1));
        self.state.set(State::Open);
        self.current_name()
    }

    fn current_name(&self) -> String {
        format!("{}-{}", self.name_prefix, self.transaction_count.get())
    }

    /// Returns whether a transaction was begun and has neither been committed nor rolled back.
    pub fn is_in_progress(&self) -> bool {
        self.state.get() != State::None
    }

    /// Marks the current transaction as failed. Does nothing outside of a transaction.
    pub fn mark_failed(&self, failure: TransactionFailure) {
        if self.state.get() == State::Open {
            self.state.set(State::Failed(failure));
        }
    }

    /// Returns the reason why the current transaction cannot continue, or `None` if it can.
    ///
    /// `is_alive` returns whether the engine still has the transaction.
    pub fn failure(&self, is_alive: impl FnOnce() -> bool) -> Option<TransactionFailure> {
        if self.state.get() == State::Open && !is_alive() {
            self.mark_failed(self.failure_if_lost);
        }
        match self.state.get() {
            State::Failed(failure) => Some(failure),
            State::None | State::Open => None,
        }
    }

    /// Fails if the current transaction cannot continue.
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

    /// Checks `reported_name`, the transaction name that the engine returned with its reply to a commit.
    ///
    /// The current transaction has been committed only if the name matches.
    pub fn confirm_commit(&self, reported_name: Option<&str>) -> Result<()> {
        if self.state.get() == State::Open && reported_name == Some(&self.current_name()) {
            self.state.set(State::None);
            return Ok(());
        }
        self.mark_failed(TransactionFailure::Broken);
        Err(outcome_unknown_error("the transaction that was begun is not the one that has ended"))
    }

    /// Records the end of the transaction. Returns `false` if no transaction was in progress.
    pub fn end(&self) -> bool {
        self.state.replace(State::None) != State::None
    }
}

/// Returns the error for a commit whose outcome is unknown.
pub(super) fn outcome_unknown_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(
        Code::OutcomeUnknown,
        "the database failed during the commit: the change may or may not have happened",
    )
    .caused_by(cause)
}
