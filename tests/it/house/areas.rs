//! The slow generated tests, as one test per area of the operation table and engine.
//!
//! So they run in parallel, and a failing area has a name.

use std::collections::BTreeSet;

use svc_core::Engine;
use svc_core::op::Operation;
use svc_tests::database::engines;

/// `by_area!(name, check)` makes the tests `name::<engine>::<area>`.
///
/// They call `check` with the engine and a filter for the area's operations. `by_area!(names)` is an array of
/// the areas.
macro_rules! by_area {
    (@list $($then:tt)*) => {
        $crate::house::areas::by_area! {
            @$($then)*:
            approvals apps audit budgets channels claims delegation dms events footprints glossary identity
            land_gate members memory mentions messages notifications operator pauses pins portability presence
            reactions relations results retention reviews sharing slots threads votes workspaces
        }
    };
    (@names: $($area:ident)*) => {
        [$(stringify!($area)),*]
    };
    (@tests $name:ident $check:ident: $($area:ident)*) => {
        mod $name {
            mod sqlite {
                use $crate::house::areas::run;
                $(#[test] fn $area() {
                    run(svc_core::Engine::Sqlite, stringify!($area), super::super::$check);
                })*
            }
            mod postgres {
                use $crate::house::areas::run;
                $(#[test] fn $area() {
                    run(svc_core::Engine::Postgres, stringify!($area), super::super::$check);
                })*
            }
        }
    };
    (names) => {
        $crate::house::areas::by_area!(@list names)
    };
    ($name:ident, $check:ident) => {
        $crate::house::areas::by_area!(@list tests $name $check);
    };
}
pub(crate) use by_area;

/// A filter of operations.
pub type OperationFilter<'a> = &'a (dyn Fn(&Operation) -> bool + Sync);

/// Runs the test of one area, if this run can test the engine.
pub fn run(engine: Engine, area: &str, check: fn(Engine, OperationFilter<'_>)) {
    if engines().contains(&engine) {
        check(engine, &|operation| operation.docs().area == area);
    }
}

/// No test would cover an area that is missing from the macro's list.
#[test]
fn every_area_of_the_table_has_its_tests() {
    let table = svc_core::operation_table().unwrap();
    let of_the_table: BTreeSet<&str> = table.operations().map(|operation| operation.docs().area).collect();
    let tested = by_area!(names);
    assert!(tested.is_sorted_by(|a, b| a < b), "each once, in order: {tested:?}");
    let differing: Vec<&str> = BTreeSet::from(tested).symmetric_difference(&of_the_table).copied().collect();
    assert!(differing.is_empty(), "add to `by_area!` above, or remove: {differing:?}");
}
