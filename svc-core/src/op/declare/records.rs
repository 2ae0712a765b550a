//! Records: declarations of database tables, with the class of each column.
//!
//! A feature declares each of its tables once. The declaration determines which data of the table an export
//! contains, how an import writes that data, and what is removed when a workspace is erased. A test compares
//! the declarations with the schemas of both database engines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use uuid::Uuid;

use super::column_class::Class;
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::op::run::context::Write;
use crate::op::run::permit::DestroyPermit;
use crate::store::{Engine, Scan, Value, interned};

/// How the workspace of a table's row is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// This column contains the id of the workspace.
    WorkspaceColumn(&'static str),
    /// The column contains the id of a row in another table. The row belongs to the workspace of that other
    /// row.
    Through(&'static str, &'static str),
    /// The rows belong to the instance, not to a workspace.
    Instance,
}

/// The instances on which an exported workspace may be imported with the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportDestination {
    /// Any instance.
    Anywhere,
    /// An instance that restores the workspace, but not an instance that copies the workspace.
    WhereRestored,
    /// No other instance: the rows belong to this instance alone.
    Nowhere,
}

/// The stage of erasing a workspace in which the rows of a table are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErasureStage {
    /// First, because the rows grant access.
    Access,
    /// After the rows that grant access, but before all other tables, because the rows unseal content.
    Keys,
    /// Last: each table before the tables that it refers to.
    Remaining,
}

/// How the rows of a workspace are removed, a few at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The statement `remove` removes up to `$2` rows of the workspace `$1`.
    Own { remove: &'static str },
    /// `next` selects the position of the last of the next `$3` objects after `$2` in the workspace `$1`.
    /// `remove` removes up to `$4` rows of the objects after `$2` up to `$3`.
    Through { next: &'static str, remove: &'static str },
}

/// The values of a row, by column name.
pub struct RowColumns<'r>(pub(crate) &'r BTreeMap<&'static str, Value>);

impl RowColumns<'_> {
    /// Returns the text in a column, or `None` if the column is null or contains no text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the number in a column, or 0 if the column is null or contains no number.
    pub fn int(&self, column: &str) -> i64 {
        match self.0.get(column) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        }
    }

    /// Returns the id in a column, or `None` if the column is null or contains no id.
    pub fn id(&self, column: &str) -> Option<Uuid> {
        match self.0.get(column) {
            Some(Value::Uuid(id)) => Some(*id),
            _ => None,
        }
    }
}

/// Function that computes the value of a digest column from the other columns of the row.
pub type ComputeDigest = fn(&RowColumns<'_>) -> Result<[u8; 32]>;

/// Function that returns ids derived from the columns of a row of the workspace.
pub type DerivedIds = fn(WorkspaceId, &RowColumns<'_>) -> Result<Vec<Uuid>>;

/// Function that purges content from rows of the caller's workspace, in a range of positions.
///
/// Returns the number of rows with content and the last position reached, or `None` if no row remains.
pub(crate) type PurgeContent =
    fn(&mut Write<'_>, &DestroyPermit<'_>, (i64, i64), i64) -> Result<Option<(i64, i64)>>;

/// Returns the result of a [`PurgeContent`] that has purged `rows` rows and needs no position to find the
/// next rows.
pub(crate) fn purged(rows: u64) -> Result<Option<(i64, i64)>> {
    let rows = i64::try_from(rows).map_err(Error::internal)?;
    Ok((rows > 0).then_some((rows, 0)))
}

/// The declaration of a table.
#[derive(Clone, Debug)]
pub struct Records {
    pub(crate) table: &'static str,
    pub(crate) scope: Scope,
    /// The instances on which the rows may be imported.
    pub(crate) export_destination: ExportDestination,
    erasure_stage: ErasureStage,
    /// The columns by which rows are ordered. No two rows have equal values in all of these columns.
    order: &'static str,
    /// The tables that the rows refer to.
    after: Vec<&'static str>,
    /// The class of each column, by column name.
    pub(crate) columns: BTreeMap<&'static str, Class>,
    pub(crate) digests: Vec<(&'static str, ComputeDigest)>,
    /// The statement that inserts a row, cached on first use.
    insert: OnceLock<&'static str>,
    pub(crate) derived_ids: Option<DerivedIds>,
    purges: Option<PurgeContent>,
    pub(crate) after_import: Option<fn(&mut Write<'_>, &RowColumns<'_>) -> Result<()>>,
    /// Columns that contain JSON, each with the names of the JSON members that contain ids.
    pub(crate) ids_within: Vec<(&'static str, &'static [&'static str])>,
    pub(crate) proof: Proof,
}

/// Declares which columns of a table the events of the log determine, and which they do not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    /// The columns by which events identify a row. Empty if events determine nothing in the table.
    pub key: &'static str,
    /// The columns that events determine, each with its class and the SQL expression that reads it from the
    /// row `t`.
    pub proven: BTreeMap<&'static str, (Class, &'static str)>,
    /// The columns that no event determines, with the reason.
    pub unproven: Vec<(&'static str, &'static str)>,
    /// Columns with the id of another row, and the table of that row. This row is removed together with the
    /// other row.
    pub removed_with: Vec<(&'static str, &'static str)>,
    /// Whether a purge removes the table's rows instead of only their content.
    pub purge_removes_rows: bool,
}

impl Records {
    /// Declares a table whose rows belong to the instance.
    pub fn of_instance(table: &'static str) -> Self {
        Self {
            table,
            scope: Scope::Instance,
            export_destination: ExportDestination::Nowhere,
            erasure_stage: ErasureStage::Remaining,
            order: "",
            after: Vec::new(),
            columns: BTreeMap::new(),
            digests: Vec::new(),
            insert: OnceLock::new(),
            derived_ids: None,
            purges: None,
            after_import: None,
            ids_within: Vec::new(),
            proof: Proof::default(),
        }
    }

    /// Declares a table whose rows have their workspace in `workspace_id`, ordered by the columns `order`.
    pub fn table(table: &'static str, order: &'static str) -> Self {
        Self {
            scope: Scope::WorkspaceColumn("workspace_id"),
            export_destination: ExportDestination::Anywhere,
            order,
            ..Self::of_instance(table)
        }
    }

    /// Declares that the workspace of a row is that of a row in `parent`, whose id is in `column`.
    #[must_use]
    pub fn through(mut self, column: &'static str, parent: &'static str) -> Self {
        self.scope = Scope::Through(column, parent);
        self.after(parent)
    }

    /// Declares the column that contains the workspace's id.
    #[must_use]
    pub fn with_workspace_column(mut self, column: &'static str) -> Self {
        self.scope = Scope::WorkspaceColumn(column);
        self
    }

    /// Declares that the rows refer to rows of `table`.
    #[must_use]
    pub fn after(mut self, table: &'static str) -> Self {
        self.after.push(table);
        self
    }

    /// Declares that the rows are part of an export that restores a workspace, but not of an export that
    /// copies it.
    #[must_use]
    pub fn exported_only_to_restore(mut self) -> Self {
        self.export_destination = ExportDestination::WhereRestored;
        self
    }

    /// Declares that the rows never leave the instance.
    #[must_use]
    pub fn stays(mut self) -> Self {
        self.export_destination = ExportDestination::Nowhere;
        self
    }

    /// Declares that the rows grant access, so that erasing a workspace removes these rows first.
    #[must_use]
    pub fn erased_first(mut self) -> Self {
        self.erasure_stage = ErasureStage::Access;
        self
    }

    /// Declares that the rows unseal content, so that erasing a workspace removes these rows before all
    /// remaining tables.
    #[must_use]
    pub fn keys(mut self) -> Self {
        self.erasure_stage = ErasureStage::Keys;
        self
    }

    /// Declares columns with text that members write, and the function that purges the text.
    #[must_use]
    pub(crate) fn words(mut self, names: &'static str, purge: PurgeContent) -> Self {
        self.purges = Some(purge);
        self.with_columns(Class::Words, names)
    }

    /// Declares a column with a digest of other columns.
    #[must_use]
    pub fn digest(mut self, name: &'static str, compute: ComputeDigest) -> Self {
        self.digests.push((name, compute));
        self.with_columns(Class::Digest, name)
    }

    /// Declares ids that are not ids of rows, but are derived from columns of the table's rows.
    #[must_use]
    pub fn derives_ids(mut self, ids: DerivedIds) -> Self {
        self.derived_ids = Some(ids);
        self
    }

    /// Declares which members of the JSON in a text column are ids of the workspace's objects.
    #[must_use]
    pub fn ids_within(mut self, column: &'static str, members: &'static [&'static str]) -> Self {
        self.ids_within.push((column, members));
        self
    }

    /// Sets a function that an import calls after it has inserted a row.
    #[must_use]
    pub(crate) fn after_import(mut self, run: fn(&mut Write<'_>, &RowColumns<'_>) -> Result<()>) -> Self {
        self.after_import = Some(run);
        self
    }

    /// Declares columns of a class. Column names are separated by spaces.
    fn with_columns(mut self, class: Class, names: &'static str) -> Self {
        self.insert = OnceLock::new();
        self.columns.extend(names.split(' ').map(|name| (name, class)));
        self
    }
}

/// Methods that declare columns, one for each class. Column names are separated by spaces.
macro_rules! classes {
    ($($(#[$doc:meta])* $method:ident $class:ident)*) => {
        impl Records {
            $($(#[$doc])*
            #[must_use]
            pub fn $method(self, names: &'static str) -> Self {
                self.with_columns(Class::$class, names)
            })*
        }
    };
}

classes! {
    /// Declares columns with ids of the workspace's objects.
    ids Id
    /// Declares columns with ids of rows of the same table, which may be exported after the row.
    later_ids LaterId
    /// Declares columns with numbers.
    ints Int
    /// Declares columns with positions in the instance's log.
    instance_positions InstancePosition
    /// Declares columns with times.
    times Time
    /// Declares columns with booleans.
    bools Bool
    /// Declares columns with text that exported evidence always contains.
    texts Text
    /// Declares columns with sealed content.
    sealed Sealed
    /// Declares columns with the hash of an event, or a hash from the payload of an event.
    hashes Hash
    /// Declares columns with secrets.
    secrets Secret
    /// Declares columns that the instance derives.
    derived Derived
}

impl Records {
    /// Returns the name of the table.
    pub fn name(&self) -> &'static str {
        self.table
    }

    /// Returns the declared columns, by name.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, Class)> {
        self.columns.iter().map(|(name, class)| (*name, *class))
    }

    /// Returns the columns that order the rows. No two rows have equal values in all of these columns.
    pub fn key(&self) -> impl Iterator<Item = &'static str> {
        self.order.split(' ')
    }

    /// Returns the function that purges content in the rows, or `None` if the rows contain no content apart
    /// from messages.
    pub(crate) fn purges(&self) -> Option<PurgeContent> {
        self.purges
    }

    /// Returns whether the rows are copied together with their workspace.
    pub(crate) fn is_copied(&self) -> bool {
        self.export_destination == ExportDestination::Anywhere
    }

    /// Returns whether an export may contain the rows.
    pub fn leaves(&self) -> bool {
        self.export_destination != ExportDestination::Nowhere
    }

    /// Returns whether the rows grant access.
    pub(crate) fn grants_access(&self) -> bool {
        self.erasure_stage == ErasureStage::Access
    }

    /// Returns whether the rows unseal content.
    pub(crate) fn unseals_content(&self) -> bool {
        self.erasure_stage == ErasureStage::Keys
    }

    /// Returns whether the rows belong to workspaces.
    pub fn has_workspace_rows(&self) -> bool {
        self.scope != Scope::Instance
    }

    /// Returns the columns that an export contains, by name.
    pub(crate) fn exported(&self) -> impl Iterator<Item = (&'static str, Class)> {
        self.columns.iter().map(|(name, class)| (*name, *class)).filter(|(_, class)| class.is_exported())
    }

    /// Returns the SQL condition that selects the rows of the workspace `$1`, after `from {table} t`.
    pub(crate) fn condition(&self) -> String {
        match self.scope {
            Scope::WorkspaceColumn(column) => format!("t.{column} = $1"),
            Scope::Through(column, parent) => {
                // Many tables have few rows or none. If the table is empty, the query then does not list the
                // many rows of the parent.
                format!(
                    "t.{column} in (select p.id from {parent} p \
                     where p.workspace_id = $1 and exists (select 1 from {}))",
                    self.table
                )
            }
            Scope::Instance => "false".to_owned(),
        }
    }

    /// Returns the sort order of the rows, which is the same on every engine.
    fn order_by_clause(&self, engine: Engine) -> String {
        let collated = |name: &str| {
            let is_text = matches!(self.columns.get(name), Some(Class::Text));
            let collation = if is_text && engine == Engine::Postgres { " collate \"C\"" } else { "" };
            format!("t.{name}{collation}")
        };
        self.order.split(' ').map(collated).collect::<Vec<_>>().join(", ")
    }

    /// Returns a scan of a workspace's rows in their order, with the exported columns.
    pub(crate) fn scan(&self) -> Scan {
        self.scan_with(&[])
    }

    /// Returns a scan like [`Records::scan`] with the columns `others` appended.
    pub(crate) fn scan_with(&self, others: &[&'static str]) -> Scan {
        let names = self.exported().map(|(name, _)| name).chain(others.iter().copied());
        let columns: Vec<String> = names.map(|name| format!("t.{name}")).collect();
        let select = |engine| {
            format!(
                "select {} from {} t where {} order by {}",
                columns.join(", "),
                self.table,
                self.condition(),
                self.order_by_clause(engine)
            )
        };
        Scan::new(self.table, &select(Engine::Sqlite), &select(Engine::Postgres))
    }

    /// Returns the statement that inserts a row with all columns, by name.
    pub(crate) fn insert(&self) -> &'static str {
        self.insert.get_or_init(|| {
            let names: Vec<&str> = self.columns.keys().copied().collect();
            let values: Vec<String> = (1..=names.len()).map(|number| format!("${number}")).collect();
            interned(format!(
                "insert into {} ({}) values ({})",
                self.table,
                names.join(", "),
                values.join(", ")
            ))
        })
    }

    /// Returns the statement that sets a column of the row `$1` to `$2`.
    pub(crate) fn set(&self, column: &str) -> &'static str {
        interned(format!("update {} set {column} = $2 where id = $1", self.table))
    }

    /// Returns the statement that removes all rows of the workspace `$1`.
    pub(crate) fn remove_all_statement(&self) -> &'static str {
        interned(format!("delete from {} as t where {}", self.table, self.condition()))
    }

    /// Returns how the rows of a workspace are removed, a few at a time.
    pub(crate) fn removal(&self) -> Removal {
        let table = self.table;
        let key = self.order.replace(' ', ", ");
        // The key of a row is unique only within its workspace, or within its parent row.
        let some = |within: &str, most: &str| {
            interned(format!(
                "delete from {table} where {within} and ({key}) in \
                 (select {key} from {table} where {within} limit {most})"
            ))
        };
        match self.scope {
            Scope::WorkspaceColumn(column) => Removal::Own { remove: some(&format!("{column} = $1"), "$2") },
            Scope::Through(column, parent) => Removal::Through {
                next: interned(format!(
                    "select max(n.lsn) from (select p.lsn from {parent} p \
                     where p.workspace_id = $1 and p.lsn > $2 order by p.lsn limit $3) n"
                )),
                remove: some(
                    &format!(
                        "{column} in (select p.id from {parent} p \
                         where p.workspace_id = $1 and p.lsn > $2 and p.lsn <= $3)"
                    ),
                    "$4",
                ),
            },
            Scope::Instance => Removal::Own { remove: some("false", "$2") },
        }
    }
}

/// Sorts tables by their references: each table follows the tables to which it refers.
pub(crate) fn sort_by_references(declared: Vec<Records>) -> Result<Vec<Records>> {
    let names: BTreeSet<&str> = declared.iter().map(|records| records.table).collect();
    if names.len() != declared.len() {
        return Err(Error::internal("a table is declared twice"));
    }
    if let Some((table, after)) = declared
        .iter()
        .flat_map(|records| records.after.iter().map(|after| (records.table, *after)))
        .find(|(_, after)| !names.contains(after))
    {
        return Err(Error::internal(format!("the table {table} comes after {after}, which is not declared")));
    }
    let mut placed = BTreeSet::new();
    let mut ordered = Vec::new();
    let mut left = declared;
    while !left.is_empty() {
        let (ready, waiting): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|records| records.after.iter().all(|after| placed.contains(after)));
        if ready.is_empty() {
            return Err(Error::internal("tables come after each other"));
        }
        placed.extend(ready.iter().map(|records| records.table));
        ordered.extend(ready);
        left = waiting;
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(declared: Vec<Records>) -> Result<Vec<&'static str>> {
        Ok(sort_by_references(declared)?.iter().map(|records| records.table).collect())
    }

    #[test]
    fn a_table_comes_after_those_that_it_refers_to() {
        let a = Records::table("a", "id").after("b");
        let b = Records::table("b", "id");
        assert_eq!(names(vec![a.clone(), b.clone()]).unwrap(), ["b", "a"]);
        names(vec![a.clone()]).unwrap_err();
        names(vec![b.clone(), b.clone()]).unwrap_err();
        names(vec![a, b.after("a")]).unwrap_err();
    }

    #[test]
    fn statements_name_what_is_declared() {
        let records = Records::table("a", "name id").through("b_id", "b").ids("id b_id").texts("name");
        let records = records.secrets("secret");
        let scan = records.scan();
        assert_eq!(
            scan.sqlite,
            "select t.b_id, t.id, t.name from a t \
             where t.b_id in (select p.id from b p where p.workspace_id = $1 and exists (select 1 from a)) \
             order by t.name, t.id"
        );
        assert!(scan.declare.ends_with("order by t.name collate \"C\", t.id"), "{}", scan.declare);
        assert_eq!(records.insert(), "insert into a (b_id, id, name, secret) values ($1, $2, $3, $4)");
        assert!(std::ptr::eq(records.insert(), records.insert()), "made once");
        let Removal::Through { next, remove } = records.removal() else { panic!("it belongs to b") };
        assert_eq!(
            next,
            "select max(n.lsn) from (select p.lsn from b p where p.workspace_id = $1 and p.lsn > $2 \
             order by p.lsn limit $3) n"
        );
        let of_b = "b_id in (select p.id from b p where p.workspace_id = $1 and p.lsn > $2 and p.lsn <= $3)";
        assert_eq!(
            remove,
            format!(
                "delete from a where {of_b} and (name, id) in (select name, id from a where {of_b} limit $4)"
            )
        );
        let own = Records::table("a", "lsn");
        let remove = "delete from a where workspace_id = $1 and (lsn) in \
                      (select lsn from a where workspace_id = $1 limit $2)";
        assert_eq!(own.removal(), Removal::Own { remove });
        assert_eq!(own.remove_all_statement(), "delete from a as t where t.workspace_id = $1");
    }

    #[test]
    fn a_row_is_inserted_with_all_columns_that_are_declared() {
        let records = Records::table("a", "id").ids("id");
        assert_eq!(records.insert(), "insert into a (id) values ($1)");
        assert_eq!(records.texts("name").insert(), "insert into a (id, name) values ($1, $2)");
    }
}
