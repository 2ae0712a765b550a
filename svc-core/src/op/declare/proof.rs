//! The proof of a table: which columns the events of the log determine, so that they can be compared with it.

use std::collections::BTreeMap;

use super::class::Class;
use super::records::{Records, Scope};

impl Records {
    /// Declares the columns that events determine of its rows, which they name by `key`: `svc verify --state`
    /// compares these with the log. Their classes were declared before.
    #[must_use]
    pub(crate) fn proven(mut self, key: &'static str, columns: &'static str) -> Self {
        self.proof.key = key;
        for name in key.split(' ').chain(columns.split(' ')).filter(|name| !name.is_empty()) {
            let class = self.columns.get(name).copied().unwrap_or(Class::Derived);
            self.proof.proven.insert(name, (class, name));
        }
        self
    }

    /// Declares a column that events determine by what it stands for: `read` selects that from the row `t`.
    ///
    /// Of words it is read as they are: a number is their length, and a truth whether they are there.
    #[must_use]
    pub(crate) fn proven_as(mut self, column: &'static str, class: Class, read: &'static str) -> Self {
        self.proof.proven.insert(column, (class, read));
        self
    }

    /// Says that a row goes with the one that `column` names in `table`, which may go without an event of its
    /// own.
    #[must_use]
    pub(crate) fn goes_with(mut self, column: &'static str, table: &'static str) -> Self {
        self.proof.goes_with.push((column, table));
        self
    }

    /// Says that a purge removes its rows, and not only their words.
    #[must_use]
    pub(crate) fn purged_whole(mut self) -> Self {
        self.proof.purged_whole = true;
        self
    }

    /// Declares columns that no event determines, and why.
    #[must_use]
    pub(crate) fn unproven(mut self, columns: &'static str, why: &'static str) -> Self {
        self.proof.unproven.extend(columns.split(' ').map(|name| (name, why)));
        self
    }

    /// Returns the column that names the workspace of a row; `None` if another row does.
    pub(crate) fn workspace_column(&self) -> Option<&'static str> {
        match self.scope {
            Scope::Of(column) => Some(column),
            Scope::Through(..) | Scope::Instance => None,
        }
    }

    /// Returns whether events determine something of its rows.
    pub fn is_proven(&self) -> bool {
        !self.proof.key.is_empty()
    }

    /// Returns the columns by which events name a row.
    pub fn proof_key(&self) -> impl Iterator<Item = &'static str> {
        self.proof.key.split(' ').filter(|name| !name.is_empty())
    }

    /// Returns the columns that events determine, those of the key included, with their classes.
    pub fn proven_columns(&self) -> BTreeMap<&'static str, Class> {
        self.proof.proven.iter().map(|(name, (class, _))| (*name, *class)).collect()
    }

    /// Returns the columns that no event determines, with the reason of each; `*` stands for all.
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
