//! Macros that declare the columns of each kind of row in a single list.
//!
//! The list generates the select list, the reading of a row and, for types that are created with the same
//! fields, the statement that inserts a row. Fields are matched by name: a list with a missing or extra field
//! does not compile, and its order does not matter. All texts are literals.

use super::value::ToParam;

/// A row to insert: the statement, and a value for each of its columns.
pub(crate) struct NewRow<'a> {
    pub sql: &'static str,
    pub values: &'a [&'a dyn ToParam],
}

/// Declares the columns of a kind of row. `columns! { token_columns: Token as t { id, grant = grant_id } }`
/// generates:
///
/// - a macro `token_columns!()` for `concat!`: the select list, here `t.id, t.grant_id`. Other modules can
///   use it after `pub(crate) token_columns`;
/// - [`FromRow`](super::FromRow) for `Token`, which takes these columns. After `Token in Stored` it is
///   generated for `Stored(Token)`, for rows that need further checks.
///
/// A field is read from the column of its name, or from the expression after `=`: another column, SQL in a
/// literal, or SQL in parentheses as `concat!` takes it. Sections may follow, in this order:
///
/// - `read { name }`: columns that are selected and taken like fields, but only used by `make`;
/// - `make { field: value }`: fields that are computed from the columns. If the compiler needs a type earlier
///   than the field, the list declares it: `state: ThreadState`;
/// - `insert "insert into tokens" { column: value }`: adds `Token::with_new_row`, which builds the row from
///   the fields with a column, except those that are SQL, and from the given values of other columns.
macro_rules! columns {
    (pub($scope:ident) $list:ident: $($rest:tt)+) => {
        $crate::store::columns! { $list: $($rest)+ }
        pub($scope) use $list;
    };
    (
        $list:ident: $entity:ident $(in $outer:ident)? as $alias:ident $fields:tt
        $(read $parts:tt)? $(make $made:tt)? $(insert $insert:literal $others:tt)?
    ) => {
        macro_rules! $list {
            () => {
                $crate::store::columns!(@select $alias $fields $($parts)?)
            };
        }
        $crate::store::columns! { @from_row [$entity $($outer)?] $fields [$($parts)?] [$($made)?] }
        $($crate::store::columns! { @new_row $entity $insert $others $fields })?
    };

    (
        @select $alias:ident
        { $first:ident $(: $first_type:ty)? $(= $first_source:tt)?
            $(, $field:ident $(: $type:ty)? $(= $source:tt)?)* $(,)? }
        $({ $($part:ident $(: $part_type:ty)? $(= $part_source:tt)?),+ $(,)? })?
    ) => {
        concat!(
            $crate::store::columns!(@column $alias $first $($first_source)?)
            $(, ", ", $crate::store::columns!(@column $alias $field $($source)?))*
            $($(, ", ", $crate::store::columns!(@column $alias $part $($part_source)?))+)?
        )
    };
    (@column $alias:ident $name:ident) => { concat!(stringify!($alias), ".", stringify!($name)) };
    (@column $alias:ident $name:ident $column:ident) => {
        concat!(stringify!($alias), ".", stringify!($column))
    };
    (@column $alias:ident $name:ident $sql:literal) => { $sql };
    (@column $alias:ident $name:ident ($($sql:tt)+)) => { concat!($($sql)+) };

    // Pairs of column and field in the order of the select list.
    (
        @from_row [$entity:ident $($outer:ident)?]
        { $($field:ident $(: $type:ty)? $(= $source:tt)?),+ $(,)? }
        [$({ $($part:ident $(: $part_type:ty)? $(= $part_source:tt)?),+ $(,)? })?]
        [$({ $($made:ident: $value:expr),+ $(,)? })?]
    ) => {
        impl $crate::store::FromRow for $crate::store::columns!(@outermost $entity $($outer)?) {
            fn from_row(row: &mut $crate::store::Row) -> $crate::Result<Self> {
                $(let $field $(: $type)? = row.take()?;)+
                $($(let $part $(: $part_type)? = row.take()?;)+)?
                let read = $entity { $($($made: $value,)+)? $($field,)+ };
                Ok($crate::store::columns!(@wrapped read $($outer)?))
            }
        }
    };
    (@outermost $entity:ident) => { $entity };
    (@outermost $entity:ident $outer:ident) => { $outer };
    (@wrapped $read:ident) => { $read };
    (@wrapped $read:ident $outer:ident) => { $outer($read) };

    (
        @new_row $entity:ident $insert:literal { $($other:ident: $given:expr),* $(,)? }
        { $($field:ident $(: $type:ty)? $(= $source:tt)?),+ $(,)? }
    ) => {
        impl $entity {
            /// Calls `insert` with the new row: the insert statement and the value of each column.
            fn with_new_row<T>(&self, insert: impl FnOnce(&$crate::store::NewRow<'_>) -> T) -> T {
                insert(&$crate::store::columns!(
                    @own self $insert [] [$($other: $given,)*] $($field $(= $source)?,)+
                ))
            }
        }
    };
    // Handles the fields one after another.
    (@own $self:ident $insert:literal [$($own:tt)*] [$($others:tt)*]) => {
        $crate::store::new_row!($insert { $($own)* $($others)* })
    };
    (@own $self:ident $insert:literal [$($own:tt)*] $others:tt $field:ident, $($rest:tt)*) => {
        $crate::store::columns!(@own $self $insert [$($own)* $field: $self.$field,] $others $($rest)*)
    };
    (
        @own $self:ident $insert:literal [$($own:tt)*] $others:tt
        $field:ident = $column:ident, $($rest:tt)*
    ) => {
        $crate::store::columns!(@own $self $insert [$($own)* $column: $self.$field,] $others $($rest)*)
    };
    (@own $self:ident $insert:literal $own:tt $others:tt $field:ident = $sql:tt, $($rest:tt)*) => {
        $crate::store::columns!(@own $self $insert $own $others $($rest)*)
    };
}
pub(crate) use columns;

/// Builds a [`NewRow`]: `new_row!("insert into tokens" { id, label: mint.label })`.
///
/// Each column is followed by its value. Without a value, the variable of the same name is used.
macro_rules! new_row {
    (
        $insert:literal
        { $first:ident $(: $first_value:expr)? $(, $column:ident $(: $value:expr)?)* $(,)? }
    ) => {
        $crate::store::NewRow {
            sql: concat!(
                $insert, " (", stringify!($first) $(, ", ", stringify!($column))*, ") values (",
                $crate::store::new_row!(
                    @numbers [] [
                        "$1" ", $2" ", $3" ", $4" ", $5" ", $6" ", $7" ", $8" ", $9" ", $10" ", $11"
                        ", $12" ", $13" ", $14" ", $15" ", $16" ", $17" ", $18" ", $19" ", $20" ", $21"
                        ", $22" ", $23" ", $24" ", $25" ", $26" ", $27" ", $28" ", $29" ", $30" ", $31"
                    ] $first $($column)*
                ),
                ")"
            ),
            values: &[
                &$crate::store::new_row!(@value $first $($first_value)?)
                $(, &$crate::store::new_row!(@value $column $($value)?))*
            ],
        }
    };
    (@value $column:ident) => { $column };
    (@value $column:ident $value:expr) => { $value };
    // Generates as many parameter numbers as there are columns.
    (@numbers [$($number:literal)+] $left:tt) => { concat!($($number),+) };
    (@numbers [$($number:literal)*] [$next:literal $($left:literal)*] $column:ident $($more:ident)*) => {
        $crate::store::new_row!(@numbers [$($number)* $next] [$($left)*] $($more)*)
    };
}
pub(crate) use new_row;

#[cfg(test)]
mod tests {
    use super::super::{Conn, FromRow as _, Row, sqlite_for_tests};

    /// A test row whose columns are listed in a different order than the fields.
    #[derive(Debug, PartialEq)]
    struct Task {
        id: i64,
        parent: i64,
        late: bool,
        words: Vec<String>,
        title: String,
    }

    columns! {
        task_columns: Task in Stored as t {
            parent = parent_id,
            title: String,
            id,
            late = "t.due < 7",
        }
        read { tags: String = ("t.", "tags") }
        make { words: tags.split(',').chain([title.as_str()]).map(str::to_owned).collect() }
        insert "insert into tasks" { tags: "a,b", due: 5_i64 }
    }

    struct Stored(Task);

    /// A test row with two columns of the same type.
    #[derive(Debug, PartialEq)]
    struct Span {
        begins: i64,
        ends: i64,
    }

    struct Reversed(Span);

    columns! { span_columns: Span as s { begins, ends } }
    columns! { reversed_columns: Span in Reversed as s { ends, begins } }
    columns! { one_column: Only as o { one } }

    struct Only {
        one: bool,
    }

    fn task() -> Task {
        let words = ["a", "b", "Port it"].map(str::to_owned).to_vec();
        Task { id: 1, parent: 2, late: true, words, title: "Port it".to_owned() }
    }

    fn only_row(conn: &Conn, sql: &'static str) -> Row {
        conn.query(sql, &[]).unwrap().remove(0)
    }

    #[test]
    fn a_list_is_selected_as_it_is_read() {
        for (list, wanted) in [
            (task_columns!(), "t.parent_id, t.title, t.id, t.due < 7, t.tags"),
            (span_columns!(), "s.begins, s.ends"),
            (reversed_columns!(), "s.ends, s.begins"),
            (one_column!(), "o.one"),
        ] {
            assert_eq!(list, wanted);
        }
        const WHOLE: &str = concat!("select ", span_columns!(), " from spans s");
        assert_eq!(WHOLE, "select s.begins, s.ends from spans s");
    }

    #[test]
    fn an_insert_numbers_its_values_as_it_names_their_columns() {
        task().with_new_row(|row| {
            let text = "insert into tasks (parent_id, title, id, tags, due) values ($1, $2, $3, $4, $5)";
            assert_eq!(row.sql, text, "and not what is SQL");
            let values: Vec<String> = row.values.iter().map(|value| format!("{:?}", value.param())).collect();
            assert_eq!(values, ["2", "text of 7 bytes", "1", "text of 3 bytes", "5"]);
        });
        let at = 3_i64;
        let late = false;
        let row = new_row!("insert into one" { at });
        assert_eq!((row.sql, row.values.len()), ("insert into one (at) values ($1)", 1));
        let row = new_row!("insert into two" { late: !late, at });
        assert_eq!(row.sql, "insert into two (late, at) values ($1, $2)");
        assert_eq!(format!("{:?} {:?}", row.values[0].param(), row.values[1].param()), "true 3");
    }

    #[test]
    fn a_row_comes_back_as_it_was_inserted() {
        let (_folder, conn) = sqlite_for_tests();
        conn.batch("create table tasks (due bigint, tags text, title text, id bigint, parent_id bigint)")
            .unwrap();
        task().with_new_row(|row| conn.execute(row.sql, row.values)).unwrap();
        let mut row = only_row(&conn, concat!("select ", task_columns!(), " from tasks t"));
        assert_eq!(Stored::from_row(&mut row).unwrap().0, task());
    }

    #[test]
    fn the_order_of_a_list_means_nothing() {
        let (_folder, conn) = sqlite_for_tests();
        conn.batch("create table spans (begins bigint, ends bigint); insert into spans values (1, 2)")
            .unwrap();
        let mut row = only_row(&conn, concat!("select ", span_columns!(), " from spans s"));
        assert_eq!(Span::from_row(&mut row).unwrap(), Span { begins: 1, ends: 2 });
        let mut row = only_row(&conn, concat!("select ", reversed_columns!(), " from spans s"));
        assert_eq!(Reversed::from_row(&mut row).unwrap().0, Span { begins: 1, ends: 2 });
    }

    #[test]
    fn a_row_with_too_few_columns_is_rejected() {
        let (_folder, conn) = sqlite_for_tests();
        assert!(Only::from_row(&mut only_row(&conn, "select true")).unwrap().one);
        assert!(Span::from_row(&mut only_row(&conn, "select 1")).is_err());
    }
}
