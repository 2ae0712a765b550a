//! How the answers of an operation are made shorter: lean, and within a number of bytes.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::op::call::asks::Asks;
use crate::op::declare::effect::Effect;
use crate::op::declare::fit::Shape;
use crate::op::declare::frame::Frame;
use crate::op::declare::job::TimedOut;
use crate::op::declare::lean::Lean;
use crate::op::declare::operation::Operation;
use crate::op::declare::told;
use crate::schema;

impl Operation {
    /// Lets its callers ask for an answer with less or more `detail`, which every list has.
    pub fn detailed(mut self) -> Self {
        self.run.lean = Some(OnceLock::new());
        self
    }

    /// Says that its answers are short, although their schema does not say how many items they have: these
    /// are in the code.
    pub fn short(mut self) -> Self {
        self.run.bounds.short = true;
        self
    }

    /// Says that its answers are never cut: who asks for one wants all of it.
    pub fn whole(mut self) -> Self {
        self.run.bounds.whole = true;
        self
    }

    /// Lets its callers read the member `text` of its answer from a character on.
    pub fn reads_on(mut self, text: &'static str) -> Self {
        self.run.bounds.reads_on = Some(text);
        self
    }

    /// Returns whether its answers are cut where they are too long.
    ///
    /// A file is not, and SCIM has counts of its own.
    pub(in crate::op) fn is_cut(&self) -> bool {
        !self.run.bounds.whole && !self.http().returns_file && self.http().frame != Some(Frame::Scim)
    }

    /// Returns the text that its callers may read on, if there is one.
    pub fn text_read_on(&self) -> Option<&'static str> {
        self.run.bounds.reads_on
    }

    /// Returns what a request may ask of its answer besides.
    pub(in crate::op) fn asks(&self) -> Asks {
        let has_max_bytes = || {
            self.is_cut()
                && !self.run.bounds.short
                && !self.http().rest_only
                && told::may_be_long(&self.full_schema())
        };
        Asks {
            detail: self.is_detailed(),
            max_bytes: *self.run.bounds.has_max_bytes.get_or_init(has_max_bytes),
            offset: self.run.bounds.reads_on.is_some(),
        }
    }

    /// Returns how its answers are cut.
    pub(in crate::op) fn shape(&self) -> &Shape {
        self.run.bounds.shape.get_or_init(|| Shape::of(&self.full_schema()))
    }

    /// Returns how many bytes its answers have at most by their schema; the largest number if nothing says.
    pub fn longest_answer(&self) -> usize {
        told::most("", &self.full_schema())
    }

    /// Returns how many bytes remain of its answers at most when they were cut as far as they can be.
    pub fn shortest_answer(&self) -> usize {
        told::least(&self.full_schema())
    }

    /// Returns what of its answers nothing bounds: the strings whose lengths are not known, and the objects
    /// that have two texts to read on.
    pub fn unbounded_parts(&self) -> Vec<String> {
        told::unbounded(&self.full_schema())
    }

    /// Returns whether its callers may ask for an answer with less or more detail.
    pub fn is_detailed(&self) -> bool {
        self.run.lean.is_some()
    }

    /// Returns how its answers become lean, if they may.
    pub(in crate::op) fn lean(&self) -> Option<&Lean> {
        self.run.lean.as_ref().map(|lean| lean.get_or_init(|| Lean::of(&self.full_schema())))
    }

    /// Returns the JSON Schema (2020-12) of the output: one object, without references.
    ///
    /// If the output is one of several objects, the schema has the members of all of them.
    pub fn output_schema(&self) -> Value {
        let mut schema = self.full_schema();
        if self.is_cut() {
            told::describe(&mut schema);
        }
        schema
    }

    /// Returns the same for an answer that was not cut.
    fn full_schema(&self) -> Value {
        let schema = schema::inlined_output(self.docs().output);
        if self.effect() == Effect::Wait {
            let timed_out = schema::inlined_output(schema::of::<TimedOut>);
            return schema::one_object(json!({
                "description": schema.get("description"),
                "anyOf": [schema, timed_out],
            }));
        }
        schema::one_object(schema)
    }
}
