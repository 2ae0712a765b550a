//! The table: every operation, kind of event, hook and sample, from an explicit list of features.
//!
//! Building the table checks conditions that the compiler cannot check. The shells can serve any table that
//! was built.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::Result;
use crate::error::{Code, Error};
use crate::log::event::EventKind;
use crate::op::declare::chore::{Chore, LEASE_MAX};
use crate::op::declare::health_check::HealthCheck;
use crate::op::declare::hooks::{
    CleanRows, Condition, EndHeldObjects, Guard, KeepMembersOnline, MessageCleaner, ProjectEvents, Projector,
};
use crate::op::declare::lean_answer::LeanForm;
use crate::op::declare::operation::Operation;
use crate::op::declare::records::{self, Records};
use crate::op::declare::sample::{Fixture, Sample, find_missing_sample};

/// The declarations that a feature adds to the service.
#[derive(Default)]
pub struct Feature {
    operations: Vec<Operation>,
    events: Vec<EventKind>,
    guards: Vec<Guard>,
    projectors: Vec<Projector>,
    conditions: Vec<Condition>,
    cleaners: Vec<MessageCleaner>,
    end_held_objects: Option<EndHeldObjects>,
    keep_members_online: Option<KeepMembersOnline>,
    chores: Vec<Chore>,
    samples: Vec<Sample>,
    health_checks: Vec<HealthCheck>,
    records: Vec<Records>,
}

impl Feature {
    /// Creates a feature that adds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds operations to the area `area` of the service.
    #[must_use]
    pub fn operations(mut self, area: &'static str, operations: Vec<Operation>) -> Self {
        self.operations.extend(operations.into_iter().map(|operation| operation.in_area(area)));
        self
    }

    /// Adds kinds of events.
    #[must_use]
    pub fn events(mut self, kinds: Vec<EventKind>) -> Self {
        self.events.extend(kinds);
        self
    }

    /// Adds a guard, which is called before every change.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guards.push(guard);
        self
    }

    /// Adds a projector, which is called with the events of these kinds.
    ///
    /// Identify each kind by its type's [`KIND`](crate::EventPayload::KIND).
    #[must_use]
    pub fn projector(mut self, kinds: &[&'static str], run: ProjectEvents) -> Self {
        self.projectors.push(Projector { kinds: kinds.to_vec(), run });
        self
    }

    /// Adds a chore, which the scheduler runs periodically.
    #[must_use]
    pub fn chore(mut self, chore: Chore) -> Self {
        self.chores.push(chore);
        self
    }

    /// Adds a condition, which is checked before a thread changes its state.
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Sets how a purge of messages treats the rows of `table` that refer to messages.
    #[must_use]
    pub(crate) fn cleaner(mut self, table: &'static str, run: CleanRows) -> Self {
        self.cleaners.push(MessageCleaner { table, at_withdrawal: None, at_purge: run });
        self
    }

    /// Sets how a withdrawal or purge of messages treats the rows of `table` that refer to messages.
    #[must_use]
    pub(crate) fn cleaner_at_withdrawal(self, table: &'static str, run: CleanRows) -> Self {
        self.cleaners(table, run, run)
    }

    /// Sets how the rows of `table` that refer to messages are treated when those messages are withdrawn or
    /// purged.
    #[must_use]
    pub(crate) fn cleaners(
        mut self,
        table: &'static str,
        at_withdrawal: CleanRows,
        at_purge: CleanRows,
    ) -> Self {
        self.cleaners.push(MessageCleaner { table, at_withdrawal: Some(at_withdrawal), at_purge });
        self
    }

    /// Sets the function that ends some of the objects that a deactivated member still holds.
    #[must_use]
    pub(crate) fn end_held_objects(mut self, run: EndHeldObjects) -> Self {
        self.end_held_objects = Some(run);
        self
    }

    /// Sets the function that marks members connected to this process as online.
    #[must_use]
    pub(crate) fn keep_members_online(mut self, run: KeepMembersOnline) -> Self {
        self.keep_members_online = Some(run);
        self
    }

    /// Adds a sample to the test world.
    ///
    /// The sample may use samples that this feature added before it, and samples of features that are listed
    /// before this one.
    #[must_use]
    pub fn sample(mut self, sample: Sample) -> Self {
        self.samples.push(sample);
        self
    }

    /// Adds declarations of tables.
    #[must_use]
    pub fn records(mut self, records: Vec<Records>) -> Self {
        self.records.extend(records);
        self
    }

    /// Adds a health check, whose result and depth the operator can see.
    #[must_use]
    pub fn part(mut self, part: HealthCheck) -> Self {
        self.health_checks.push(part);
        self
    }
}

/// All operations and kinds of events, sorted by name, and the hooks, samples and health checks of all
/// features in order.
pub struct Table {
    operations: BTreeMap<&'static str, Arc<Operation>>,
    events: BTreeMap<&'static str, EventKind>,
    /// The lean form of payloads, by kind of event. Computed on first use.
    lean_payloads: BTreeMap<&'static str, OnceLock<LeanForm>>,
    guards: Vec<Guard>,
    projectors: Vec<Projector>,
    conditions: Vec<Condition>,
    cleaners: Vec<MessageCleaner>,
    end_held_objects: Option<EndHeldObjects>,
    keep_members_online: Option<KeepMembersOnline>,
    chores: Vec<Chore>,
    samples: Vec<Sample>,
    health_checks: Vec<HealthCheck>,
    records: Vec<Records>,
    documented: Fixture,
}

impl Table {
    /// Builds the table from the declarations of all features. Fails if the declarations have a defect, which
    /// the error describes.
    pub fn build(features: Vec<Feature>) -> Result<Self> {
        let mut table = Self {
            operations: BTreeMap::new(),
            events: BTreeMap::new(),
            lean_payloads: BTreeMap::new(),
            guards: Vec::new(),
            projectors: Vec::new(),
            conditions: Vec::new(),
            cleaners: Vec::new(),
            end_held_objects: None,
            keep_members_online: None,
            chores: Vec::new(),
            samples: Vec::new(),
            health_checks: Vec::new(),
            records: Vec::new(),
            documented: Fixture::default(),
        };
        for feature in features {
            table.guards.extend(feature.guards);
            table.projectors.extend(feature.projectors);
            table.conditions.extend(feature.conditions);
            table.cleaners.extend(feature.cleaners);
            table.end_held_objects = table.end_held_objects.or(feature.end_held_objects);
            table.keep_members_online = table.keep_members_online.or(feature.keep_members_online);
            table.chores.extend(feature.chores);
            table.samples.extend(feature.samples);
            table.health_checks.extend(feature.health_checks);
            table.records.extend(feature.records);
            for operation in feature.operations {
                check_operation(&operation)?;
                let name = operation.name();
                let operation = Arc::new(operation);
                if table.operations.insert(name, operation).is_some() {
                    return Err(Error::internal(format!("two operations are named {name}")));
                }
            }
            for event in feature.events {
                let kind = event.kind;
                table.lean_payloads.insert(kind, OnceLock::new());
                if table.events.insert(kind, event).is_some() {
                    return Err(Error::internal(format!("two kinds of events are named {kind}")));
                }
            }
        }
        table.records = records::sort_by_references(std::mem::take(&mut table.records))?;
        table.check_hooks()?;
        table.documented = table.check_samples()?;
        table.check_examples()?;
        Ok(table)
    }

    /// Checks the projectors, chores, health checks and conditions, after the declarations of all features
    /// were added.
    fn check_hooks(&self) -> Result<()> {
        let kinds = self.projectors.iter().flat_map(|projector| &projector.kinds);
        if let Some(kind) = kinds.into_iter().find(|kind| !self.events.contains_key(**kind)) {
            return Err(Error::internal(format!("a projector follows {kind}, which is not a kind of event")));
        }
        let mut names = BTreeSet::new();
        if let Some(chore) =
            self.chores.iter().find(|chore| chore.lease > LEASE_MAX || !names.insert(chore.name))
        {
            return Err(Error::internal(format!(
                "the chore {} is declared twice, or its lease is too long",
                chore.name
            )));
        }
        let mut names = BTreeSet::new();
        if let Some(twin) = self.health_checks.iter().find(|part| !names.insert(part.name)) {
            return Err(Error::internal(format!("two parts are named {}", twin.name)));
        }
        let mut names = BTreeSet::new();
        match self.conditions.iter().find(|condition| !names.insert((condition.action, condition.name))) {
            None => Ok(()),
            Some(twin) => Err(Error::internal(format!(
                "two conditions of the action {} are named {}",
                twin.action, twin.name
            ))),
        }
    }

    /// Checks the samples, and returns them with the ids that the documentation shows.
    fn check_samples(&self) -> Result<Fixture> {
        let mut declared = Fixture::created_by_setup();
        for sample in &self.samples {
            let name = sample.name();
            if declared.get(name).is_some() {
                return Err(Error::internal(format!("two samples are named {name}")));
            }
            for call in sample.calls() {
                if !self.operations.contains_key(call.operation) {
                    return Err(Error::internal(format!(
                        "the sample {name} is made by {}, which is not an operation",
                        call.operation
                    )));
                }
                if let Some(missing) = find_missing_sample(&(call.input)(&declared)) {
                    return Err(Error::internal(format!(
                        "the sample {name} uses {missing}, which is not declared before it"
                    )));
                }
                declared.insert_documented(name);
            }
        }
        Ok(declared)
    }

    /// Checks that the examples refer only to samples of the table.
    fn check_examples(&self) -> Result<()> {
        for operation in self.rows() {
            let example = operation.docs().example(&self.documented).unwrap_or_default();
            if let Some(missing) = find_missing_sample(&example) {
                return Err(Error::internal(format!(
                    "the example of {} uses {missing}, which is not a sample",
                    operation.name()
                )));
            }
        }
        Ok(())
    }

    /// Returns every operation of the API, sorted by name.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.rows().filter(|row| row.http().frame.is_none())
    }

    /// Returns shared handles to every operation of the API, sorted by name.
    pub fn shared_operations(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.shared_rows().filter(|row| row.http().frame.is_none())
    }

    /// Returns every row of the table, sorted by name: the operations of the API and the framed routes.
    pub fn rows(&self) -> impl Iterator<Item = &Operation> {
        self.operations.values().map(Arc::as_ref)
    }

    /// Returns shared handles to every row of the table, sorted by name.
    pub fn shared_rows(&self) -> impl Iterator<Item = &Arc<Operation>> {
        self.operations.values()
    }

    /// Returns the row of the table named `name`, if it exists.
    pub fn operation(&self, name: &str) -> Option<&Arc<Operation>> {
        self.operations.get(name)
    }

    /// Returns the declarations of all kinds of events, sorted by name.
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.events.values()
    }

    /// Returns the declaration of the kind of event `kind`.
    pub(crate) fn event(&self, kind: &str) -> Option<&EventKind> {
        self.events.get(kind)
    }

    /// Returns the lean form of payloads for a kind of event.
    pub(in crate::op) fn lean_payload(&self, kind: &str) -> Option<&LeanForm> {
        let (event, lean) = self.events.get(kind).zip(self.lean_payloads.get(kind))?;
        Some(lean.get_or_init(|| LeanForm::from_payload_schema(&event.schema())))
    }

    pub(in crate::op) fn guards(&self) -> &[Guard] {
        &self.guards
    }

    pub(in crate::op) fn projectors(&self) -> impl Iterator<Item = &Projector> {
        self.projectors.iter()
    }

    pub(crate) fn chores(&self) -> impl Iterator<Item = &Chore> {
        self.chores.iter()
    }

    /// Returns the health checks that features have declared.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &HealthCheck> {
        self.health_checks.iter()
    }

    /// Returns the declarations of all tables, each after the tables that it refers to.
    pub fn records(&self) -> &[Records] {
        &self.records
    }

    /// Returns the conditions for every action, which must be met before a thread may change its state.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter()
    }

    /// Returns how rows that refer to messages are treated when those messages are withdrawn or purged.
    pub(in crate::op) fn cleaners(&self) -> impl Iterator<Item = &MessageCleaner> {
        self.cleaners.iter()
    }

    /// Returns the function that ends some of the objects that a deactivated member still holds.
    pub(in crate::op) fn end_held_objects(&self) -> Option<EndHeldObjects> {
        self.end_held_objects
    }

    /// Returns the function that marks members connected to this process as online.
    pub(in crate::op) fn keep_members_online(&self) -> Option<KeepMembersOnline> {
        self.keep_members_online
    }

    /// Returns the tables whose rows refer to messages.
    pub fn cleaned_tables(&self) -> impl Iterator<Item = &'static str> {
        self.cleaners.iter().map(|cleaner| cleaner.table)
    }

    /// Returns the samples, each after the samples that it uses.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the sample ids that the documentation shows.
    pub fn documented(&self) -> &Fixture {
        &self.documented
    }
}

/// Checks the conditions that every operation must meet.
fn check_operation(operation: &Operation) -> Result<()> {
    let defect = |what: &str| Err(Error::internal(format!("the operation {} {what}", operation.name())));
    if operation.docs().title.is_empty()
        || operation.docs().area.is_empty()
        || !operation.http().path.starts_with('/')
    {
        return defect("has no title, area or path");
    }
    if operation.access().personal && !operation.docs().refuses.contains(&Code::Forbidden) {
        return defect("is personal and does not declare that it fails with `forbidden`");
    }
    if operation.request().is_some_and(|request| request.operation != operation.name()) {
        return defect("has the input of another operation");
    }
    let schema = operation.input_schema();
    if schema.get("type") != Some(&"object".into())
        || schema.get("additionalProperties") != Some(&false.into())
    {
        return defect("takes an input that is not one flat, closed object (deny_unknown_fields)");
    }
    if schema.get("description").is_none() {
        return defect("takes an input without a doc comment");
    }
    for path in operation.http().paths() {
        for variable in path_variables(path) {
            if schema.pointer(&format!("/properties/{variable}")).is_none() {
                return defect(&format!(
                    "has the path variable {variable}, which is not a field of its input"
                ));
            }
        }
    }
    Ok(())
}

/// Returns the variables of a path template: the names in braces.
///
/// The last variable may match several path segments: `{*name}`.
pub fn path_variables(path: &str) -> impl Iterator<Item = &str> {
    let braced = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    braced.map(|name| name.trim_start_matches('*'))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::*;
    use crate::op::declare::functions::read;
    use crate::op::declare::health_check::CheckMethod;

    /// Input with a thread id.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Named {
        /// The thread.
        thread_id: String,
    }

    crate::op::without_requests! { Named }

    fn operation(example: fn(&Fixture) -> Value) -> Operation {
        read::<Named, Named>("name_thread", |_, input| Ok(Named { thread_id: input.thread_id.clone() }))
            .title("Name a thread")
            .get("/threads/{thread_id}/name")
            .example(example)
    }

    /// Builds a table from two features: one with the sample `thread`, and one with the given samples and
    /// example.
    fn build(samples: Vec<Sample>, example: fn(&Fixture) -> Value) -> std::result::Result<Table, String> {
        let first =
            Feature::new().sample(Sample::new("thread", "name_thread", |_| json!({"thread_id": "a"})));
        let second = Feature::new().operations("names", vec![operation(example)]);
        let second = samples.into_iter().fold(second, Feature::sample);
        Table::build(vec![first, second]).map_err(|error| error.cause().unwrap().to_string())
    }

    #[test]
    fn a_sample_uses_those_before_it_and_itself_from_its_second_call_on() {
        let child = Sample::new("child", "name_thread", |w| json!({"thread_id": w.id("thread")}))
            .then("name_thread", |w| json!({"thread_id": w.id("child")}));
        let table = build(vec![child], |w| json!({"thread_id": w.id("child")})).unwrap();
        assert_eq!(table.samples().iter().map(Sample::name).collect::<Vec<_>>(), ["thread", "child"]);
        let names: Vec<&str> = table.documented().names().collect();
        assert_eq!(names, ["admin", "agent", "agent_token", "child", "thread", "workspace"]);
    }

    #[test]
    fn a_sample_that_cannot_be_made_is_named() {
        let refused = |sample| build(vec![sample], |_| json!({"thread_id": "a"})).err();
        let name = |_: &Fixture| json!({"thread_id": "a"});
        for (sample, defect) in [
            (Sample::new("thread", "name_thread", name), "two samples are named thread"),
            (Sample::new("admin", "name_thread", name), "two samples are named admin"),
            (
                Sample::new("child", "bear_thread", name),
                "the sample child is made by bear_thread, which is not an operation",
            ),
            (
                Sample::new("child", "name_thread", |w| json!({"thread_id": w.id("parent")})),
                "the sample child uses parent, which is not declared before it",
            ),
            (
                Sample::new("child", "name_thread", |w| json!({"thread_id": w.id("child")})),
                "the sample child uses child, which is not declared before it",
            ),
        ] {
            assert_eq!(refused(sample).as_deref(), Some(defect));
        }
    }

    #[test]
    fn two_parts_of_one_name_are_a_defect() {
        let part = |name| HealthCheck { name, health: CheckMethod::Unchecked, status: None };
        let build = |names: [&'static str; 2]| {
            let feature = names.into_iter().map(part).fold(Feature::new(), Feature::part);
            Table::build(vec![feature]).map_err(|error| error.cause().unwrap().to_string()).err()
        };
        assert_eq!(build(["oven", "oven"]).as_deref(), Some("two parts are named oven"));
        assert_eq!(build(["oven", "bread"]), None);
    }

    #[test]
    fn an_example_that_uses_no_sample_of_the_table_is_named() {
        let defect = build(Vec::new(), |w| json!({"thread_id": w.id("parent")})).err();
        assert_eq!(defect.unwrap(), "the example of name_thread uses parent, which is not a sample");
    }
}
