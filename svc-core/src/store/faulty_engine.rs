//! A faulty engine for tests: SQLite with random faults drawn from a seed.
//!
//! A session may end before or after a statement, may not respond, or may report a commit although it has
//! rolled back. Like a server, it rejects all statements after a failed one, and its sessions can be
//! reopened.

use std::cell::{Cell, RefCell};
use std::path::Path;

use super::engine::{TransactionFailure, check_row_count};
use super::row::{Row, Visitor};
use super::sqlite::{Role, SqliteConn};
use super::transaction::{TransactionState, outcome_unknown_error};
use super::value::Param;
use crate::error::{Code, Error, Result};

pub struct HostileConn {
    beneath: SqliteConn,
    transaction: TransactionState,
    /// The name of the session's current transaction.
    named: RefCell<String>,
    connected: Cell<bool>,
    wrote: Cell<bool>,
    faults: Faults,
}

/// A fault that happens at a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The session ends before the statement arrives.
    Before,
    /// The statement succeeds, and the session ends right after the reply.
    After,
    /// A commit is reported as successful, but another transaction was committed.
    Lie,
    /// No reply arrives in time. A commit may have arrived.
    Silent {
        arrived: bool,
    },
}

/// A random source of faults: on average in one of `one_in` statements, and in every third commit. 0 disables
/// faults.
struct Faults {
    state: Cell<u64>,
    one_in: u64,
}

impl Faults {
    fn at_statement(&self) -> Fault {
        self.draw(self.one_in)
    }

    fn at_commit(&self) -> Fault {
        self.draw(self.one_in.min(3))
    }

    fn draw(&self, one_in: u64) -> Fault {
        // Marsaglia's xorshift: any sequence that a seed reproduces is sufficient.
        let mut state = self.state.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.state.set(state);
        if one_in == 0 || !(state >> 8).is_multiple_of(one_in) {
            return Fault::None;
        }
        match (state >> 32) % 5 {
            0 => Fault::Before,
            1 => Fault::After,
            2 => Fault::Lie,
            rest => Fault::Silent { arrived: rest == 3 },
        }
    }
}

impl HostileConn {
    pub fn open(path: &Path, seed: u64, one_in: u64) -> Result<Self> {
        Ok(Self {
            beneath: SqliteConn::open(path, Role::Writer)?,
            transaction: TransactionState::new(TransactionFailure::Broken)?,
            named: RefCell::default(),
            connected: Cell::new(true),
            wrote: Cell::new(false),
            faults: Faults { state: Cell::new(seed.wrapping_mul(2).wrapping_add(1)), one_in },
        })
    }

    /// Ends the session, which loses its uncommitted changes.
    pub fn lose(&self) {
        self.beneath.rollback().unwrap();
        self.connected.set(false);
    }

    fn statement<T>(&self, run: impl FnOnce(&SqliteConn) -> Result<T>) -> Result<T> {
        self.check_transaction()?;
        if !self.transaction.is_in_progress() {
            self.connected.set(true);
        }
        let fault = self.faults.at_statement();
        if fault == Fault::Before {
            self.lose();
            self.transaction.mark_failed(TransactionFailure::Broken);
            return Err(Error::new(Code::Unavailable, "the session has ended"));
        }
        if let Fault::Silent { .. } = fault {
            self.lose();
            self.transaction.mark_failed(TransactionFailure::Timeout);
            return Err(Error::new(Code::Unavailable, "the server did not respond in time"));
        }
        let result = run(&self.beneath);
        if result.is_err() {
            self.transaction.mark_failed(TransactionFailure::Statement);
        }
        if fault == Fault::After {
            self.lose();
        }
        result
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.statement(|conn| conn.query(sql, params))
    }

    pub(crate) fn query_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.statement(|conn| conn.query_within(max_bytes, sql, params))
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], visitor: Visitor<'_>) -> Result<()> {
        self.statement(|conn| conn.visit(sql, params, visitor))
    }

    pub(crate) fn visit_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
        visitor: Visitor<'_>,
    ) -> Result<()> {
        self.statement(|conn| conn.visit_within(max_bytes, sql, params, visitor))
    }

    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.wrote.set(true);
        self.statement(|conn| conn.execute(sql, params))
    }

    pub fn defer(&self, expected_rows: Option<u64>, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        self.wrote.set(true);
        self.statement(|conn| check_row_count(expected_rows, conn.execute(sql, params)?, sql))
    }

    pub fn batch(&self, sql: &str) -> Result<()> {
        self.statement(|conn| conn.batch(sql))
    }

    pub fn begin(&self) -> Result<()> {
        self.statement(|conn| conn.begin("begin immediate"))?;
        *self.named.borrow_mut() = self.transaction.begin();
        Ok(())
    }

    pub fn commit(&self) -> Result<()> {
        self.check_transaction()?;
        let fault = self.faults.at_commit();
        if matches!(fault, Fault::None | Fault::After | Fault::Silent { arrived: true }) {
            self.beneath.commit()?;
        } else {
            self.beneath.rollback()?;
        }
        match fault {
            Fault::None => self.transaction.confirm_commit(Some(&self.named.borrow())),
            Fault::Lie => self.transaction.confirm_commit(None),
            Fault::Before | Fault::After => {
                self.connected.set(false);
                self.transaction.mark_failed(TransactionFailure::Broken);
                Err(outcome_unknown_error("the session ended during the commit"))
            }
            Fault::Silent { .. } => {
                self.connected.set(false);
                self.transaction.mark_failed(TransactionFailure::Timeout);
                Err(outcome_unknown_error("the server did not respond to the commit in time"))
            }
        }
    }

    pub fn rollback(&self) -> Result<()> {
        self.wrote.set(false);
        self.transaction.end();
        self.beneath.rollback()
    }

    pub fn check_transaction(&self) -> Result<()> {
        self.transaction.check(|| self.connected.get())
    }

    pub(crate) fn failure(&self) -> Option<TransactionFailure> {
        self.transaction.failure(|| self.connected.get())
    }

    pub fn begin_task(&self) {
        self.wrote.set(false);
    }

    pub fn has_task_written(&self) -> bool {
        self.wrote.get()
    }
}
