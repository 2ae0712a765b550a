//! Rows that are kept until another statement runs, and then written by one statement for each kind.

use std::collections::HashSet;

use uuid::Uuid;

use super::super::row_write::{RowWrite, RowWriteKind};
use super::super::value::Param;
use super::PgConn;
use super::values::Owned;
use crate::Result;

impl PgConn {
    /// Keeps a row until another statement runs.
    pub fn write_row(&self, write: &'static RowWrite, row: &[Param<'_>]) -> Result<()> {
        self.wrote.set(true);
        if self.pending.borrow().is_out_of_turn(write, row) {
            self.write_pending()?;
        }
        self.pending.borrow_mut().add(write, row);
        Ok(())
    }

    /// Writes the rows that are kept. The running job need not be the one that has changed them.
    pub(super) fn write_pending(&self) -> Result<()> {
        let groups = self.pending.borrow_mut().take();
        groups.into_iter().try_for_each(|group| {
            let touched = group.write.kind.touched(group.count);
            self.push_change(touched, group.write.statement.postgres, group.columns)
        })
    }
}

/// The rows that are kept, by kind of change in the order in which these were first called.
#[derive(Default)]
pub(super) struct Pending(Vec<Group>);

/// The rows of one kind of change.
pub(super) struct Group {
    pub write: &'static RowWrite,
    pub count: u64,
    /// The values of each parameter.
    pub columns: Vec<Owned>,
    keys: HashSet<Uuid>,
}

impl Pending {
    /// Whether a row would be written before an earlier change of it.
    pub fn is_out_of_turn(&self, write: &'static RowWrite, row: &[Param<'_>]) -> bool {
        let Some(key) = key_of(write, row) else { return false };
        let place = self.0.iter().position(|group| std::ptr::eq(group.write, write));
        let later = self.0.iter().skip(place.unwrap_or(self.0.len()));
        later.filter(|group| group.write.table == write.table).any(|group| group.keys.contains(&key))
    }

    pub fn add(&mut self, write: &'static RowWrite, row: &[Param<'_>]) {
        let place = self.0.iter().position(|group| std::ptr::eq(group.write, write));
        if place.is_none() {
            let columns = row.iter().map(|_| Owned::List(Vec::new())).collect();
            self.0.push(Group { write, count: 0, columns, keys: HashSet::new() });
        }
        let found = place.unwrap_or(self.0.len().saturating_sub(1));
        let Some(group) = self.0.get_mut(found) else { return };
        group.count = group.count.saturating_add(1);
        group.keys.extend(key_of(write, row));
        for (column, value) in group.columns.iter_mut().zip(row) {
            column.push(Owned::of(value));
        }
    }

    /// Takes what is kept, in the order in which it must be written.
    pub fn take(&mut self) -> Vec<Group> {
        let mut groups = std::mem::take(&mut self.0);
        groups.sort_by_key(|group| group.write.kind == RowWriteKind::Derives);
        groups
    }
}

fn key_of(write: &RowWrite, row: &[Param<'_>]) -> Option<Uuid> {
    match row.first() {
        Some(Param::Uuid(key)) if write.kind.is_keyed() => Some(*key),
        _ => None,
    }
}
