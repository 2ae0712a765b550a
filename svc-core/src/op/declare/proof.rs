//! The proof of a table: the columns whose values follow from the events of the log, so that the table can be
//! compared with the log.

use std::collections::BTreeMap;

use super::column_class::Class;
use super::records::{Records, Scope};

impl Records {
    /// Declares columns whose values events determine. `key` lists the columns by which events identify a
    /// row.
    ///
    /// `svc verify --state` compares these columns with the log. Their classes must have been declared
    /// before.
    #[must_use]
    pub(crate) fn proven(mut self, key: &'static str, columns: &'static str) -> Self {
        self.proof.key = key;
        for name in key.split(' ').chain(columns.split(' ')).filter(|name| !name.is_empty()) {
            let class = self.columns.get(name).copied().unwrap_or(Class::Derived);
            self.proof.proven.insert(name, (class, name));
        }
        self
    }

    /// Declares a column that events determine in another form. The SQL expression `read` selects that form
    /// from the row `t`.
    ///
    /// Content in the column is converted: to its length if the result is a number, or to whether it is
    /// present if the result is a boolean.
    #[must_use]
    pub(crate) fn proven_as(mut self, column: &'static str, class: Class, read: &'static str) -> Self {
        self.proof.proven.insert(column, (class, read));
        self
    }

    /// Declares that each row is removed together with a row of `table`, whose id is in `column`. No separate
    /// event records the removal.
    #[must_use]
    pub(crate) fn removed_with(mut self, column: &'static str, table: &'static str) -> Self {
        self.proof.removed_with.push((column, table));
        self
    }

    /// Declares that a purge removes the table's rows instead of only their content.
    #[must_use]
    pub(crate) fn purge_removes_rows(mut self) -> Self {
        self.proof.purge_removes_rows = true;
        self
    }

    /// Declares columns that no event determines, with the reason.
    #[must_use]
    pub(crate) fn unproven(mut self, columns: &'static str, why: &'static str) -> Self {
        self.proof.unproven.extend(columns.split(' ').map(|name| (name, why)));
        self
    }

    /// Returns the column that contains the workspace of a row, or `None` if another row determines the
    /// workspace.
    pub(crate) fn workspace_column(&self) -> Option<&'static str> {
        match self.scope {
            Scope::WorkspaceColumn(column) => Some(column),
            Scope::Through(..) | Scope::Instance => None,
        }
    }

    /// Returns whether events determine any column of the table.
    pub fn is_proven(&self) -> bool {
        !self.proof.key.is_empty()
    }

    /// Returns the columns by which events identify a row.
    pub fn proof_key(&self) -> impl Iterator<Item = &'static str> {
        self.proof.key.split(' ').filter(|name| !name.is_empty())
    }

    /// Returns the columns that events determine, including the key, with their classes.
    pub fn proven_columns(&self) -> BTreeMap<&'static str, Class> {
        self.proof.proven.iter().map(|(name, (class, _))| (*name, *class)).collect()
    }

    /// Returns the columns that no event determines, each with the reason. `*` means all columns.
    pub fn unproven_columns(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let of_class = |(name, class): (&&'static str, &Class)| {
            let reason = match class {
                Class::Secret => "a secret",
                Class::Derived => "made by the instance alone",
                Class::InstancePosition => "a position in the log of the instance",
                _ => return None,
            };
            (!self.proof.proven.contains_key(name)).then_some((*name, reason))
        };
        let all = (!self.leaves() && !self.is_proven()).then_some(("*", "made by the instance alone"));
        all.into_iter()
            .chain(self.columns.iter().filter_map(of_class))
            .chain(self.proof.unproven.iter().copied())
    }
}
