//! Operations by type, for callers within the process.
//!
//! A typed operation is a constant that is declared beside the operation's function. Callers pass and receive
//! the types of that function; no JSON is encoded or parsed.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Result;
use crate::error::Error;
use crate::op::declare::operation::{Operation, OperationKey};
use crate::op::declare::table::Table;

/// A reference to the operation with the input type `I` and the output type `O`.
pub struct TypedOperation<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Clone for TypedOperation<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for TypedOperation<I, O> {}

impl<I, O> TypedOperation<I, O> {
    /// Creates a reference to the operation `name`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Returns the name of the operation, which is its key in the table.
    pub fn name(self) -> &'static str {
        self.name
    }
}

impl<I: 'static, O: 'static> TypedOperation<I, O> {
    /// Returns the name of the operation, and the type by which code in this process calls it.
    pub(super) fn key(self) -> OperationKey {
        (self.name, TypeId::of::<Self>())
    }

    /// Returns the operation in `table` with this name, input type and output type.
    pub fn operation(self, table: &Table) -> Result<&Arc<Operation>> {
        let found = table.operation(self.name).filter(|it| it.run.typed_operation_id == TypeId::of::<Self>());
        found.ok_or_else(|| Error::internal(format!("the table has no operation {}", self.name)))
    }
}

/// Converts a name, for the many operations that are called only over the network.
impl<I, O> From<&'static str> for TypedOperation<I, O> {
    fn from(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::*;
    use crate::op::{Feature, Read, read};

    /// An empty input.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    const FIRST: TypedOperation<Nothing, Value> = TypedOperation::new("first");

    fn nothing(_: &Read<'_>, _: &Nothing) -> Result<Value> {
        Ok(json!({}))
    }

    fn table(operations: Vec<Operation>) -> Result<Table> {
        let titled = operations.into_iter().map(|operation| operation.title("Probe").get("/x")).collect();
        Table::build(vec![Feature::new().operations("probe", titled)])
    }

    fn cause(error: &Error) -> String {
        error.cause().map_or_else(String::new, ToString::to_string)
    }

    #[test]
    fn an_operation_is_found_by_its_name_and_types() {
        let both = table(vec![read(FIRST, nothing), read("second", nothing)]).unwrap();
        assert_eq!(FIRST.operation(&both).unwrap().name(), "first");
        let second = table(vec![read("second", nothing)]).unwrap();
        assert!(cause(&FIRST.operation(&second).unwrap_err()).contains("no operation first"));
    }

    #[test]
    fn an_operation_with_another_output_is_not_found() {
        const WRONG: TypedOperation<Nothing, String> = TypedOperation::new("first");
        let first = table(vec![read(FIRST, nothing)]).unwrap();
        assert!(WRONG.operation(&first).is_err(), "it would run, commit, and then have no output");
    }
}
