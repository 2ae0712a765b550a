//! JSON Schemas (draft 2020-12) of Rust types.
//!
//! Schemas are inlined for tools and checks, or refer to named types for OpenAPI. The descriptions are the
//! doc comments without the line breaks of the source.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use schemars::generate::SchemaSettings;
use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::text::NULL_CLEARS;

/// A function that creates the schema of one type: [`of`] without its type parameter.
pub(crate) type SchemaFunction = fn(&mut SchemaGenerator) -> Schema;

/// Returns the schema of `T`, which `generator` creates.
pub(crate) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Keyword in the schema of an id: the operation that lists such ids.
pub(crate) const LISTED_BY: &str = "x-listed-by";
/// Keyword in the schema of an object: a small valid example.
pub(crate) const SAMPLE: &str = "x-sample";
/// Keyword of a field whose only allowed value is an id of the caller, such as the caller's workspace. Tools
/// omit the field.
pub(crate) const OF_CALLER: &str = "x-of-caller";
/// Keyword with the text that replaces the description in tools. With an empty text, tools have no
/// description.
pub(crate) const BRIEF: &str = "x-brief";
/// Keyword with a field's implicit default, which is stated in documents but not in tools.
const DEFAULT: &str = "x-default";
/// Keyword of a field whose members another tool explains. Tools list only their names.
pub(crate) const EXPLAINED_ELSEWHERE: &str = "x-explained-elsewhere";

/// Keywords that are removed before a schema is published.
const ANNOTATIONS: [&str; 7] =
    [LISTED_BY, SAMPLE, NULL_CLEARS, OF_CALLER, BRIEF, DEFAULT, EXPLAINED_ELSEWHERE];

/// Sets the description for tools: `#[schemars(transform = brief(".."))]`.
///
/// On a field this text replaces the description, on an input the second paragraph.
pub(crate) fn brief(text: impl Into<String>) -> impl Transform {
    annotation(BRIEF, text.into())
}

/// Sets the implicit default as a word, such as `false` for a flag or `none` for a list.
pub(crate) fn default_is(word: &'static str) -> impl Transform {
    annotation(DEFAULT, word)
}

/// Marks a field whose nested fields are documented by another tool.
pub(crate) fn mark_explained_elsewhere(schema: &mut Schema) {
    annotation(EXPLAINED_ELSEWHERE, true).transform(schema);
}

/// Sets an annotation: a keyword that is not published.
fn annotation(keyword: &'static str, value: impl Into<Value>) -> impl Transform {
    let value = value.into();
    move |schema: &mut Schema| {
        schema.insert(keyword.to_owned(), value.clone());
    }
}

/// Returns the schema of an input, without references.
pub(crate) fn inlined_input(schema: SchemaFunction) -> Value {
    let mut schema = annotated_input(schema);
    apply_annotations(&mut schema);
    schema
}

/// Returns the schema of an input with the annotations from which the MCP tools are made.
pub(crate) fn annotated_input(schema: SchemaFunction) -> Value {
    let mut schema = raw_input_schema(schema);
    join_description_lines(&mut schema);
    schema
}

/// Returns the schema of an input without references, but with the annotations, which are not published.
///
/// A field allows null only if null has a meaning in that field: otherwise null equals an absent field.
pub(crate) fn raw_input_schema(schema: SchemaFunction) -> Value {
    let mut schema = inline_schema(schema, SchemaSettings::draft2020_12().for_deserialize());
    remove_meaningless_null(&mut schema);
    schema
}

/// Returns the schema against which requests with the input type `T` are validated. The schema is created
/// once for each type.
pub(crate) fn validation_schema<T: JsonSchema + 'static>() -> Arc<Value> {
    static CACHE: Mutex<BTreeMap<TypeId, Arc<Value>>> = Mutex::new(BTreeMap::new());
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(cache.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(raw_input_schema(of::<T>))))
}

/// Removes null from the schemas of the fields in which null has no meaning, at every depth.
fn remove_meaningless_null(schema: &mut Value) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, rule) in keywords {
        match (keyword.as_str(), rule) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(|field| {
                remove_null_from_field(field);
                remove_meaningless_null(field);
            }),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(remove_meaningless_null);
            }
            ("items" | "additionalProperties", schema) => remove_meaningless_null(schema),
            _ => {}
        }
    }
}

/// Changes the schema of a field so that it no longer allows null, unless null clears the field.
fn remove_null_from_field(field: &mut Value) {
    let Some(keywords) = field.as_object_mut() else { return };
    if keywords.remove(NULL_CLEARS).is_some() {
        return;
    }
    if keywords.get("default").is_some_and(Value::is_null) {
        keywords.remove("default");
    }
    for name in ["type", "enum"] {
        let Some(Value::Array(options)) = keywords.get_mut(name) else { continue };
        options.retain(|option| !option.is_null() && option != "null");
        if let ("type", [only]) = (name, options.as_slice()) {
            let only = only.clone();
            keywords.insert(name.to_owned(), only);
        }
    }
    let Some(Value::Array(forms)) = keywords.get_mut("anyOf") else { return };
    forms.retain(|form| form.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = forms.as_slice() {
        let only = only.clone();
        keywords.remove("anyOf");
        for (name, rule) in only {
            keywords.entry(name).or_insert(rule);
        }
    }
}

/// Returns the schema of an output, without references.
pub(crate) fn inlined_output(schema: SchemaFunction) -> Value {
    let mut schema = inline_schema(schema, SchemaSettings::draft2020_12().for_serialize());
    join_description_lines(&mut schema);
    apply_annotations(&mut schema);
    schema
}

/// Returns the schema that `schema` creates with these settings, without references.
fn inline_schema(schema: SchemaFunction, mut settings: SchemaSettings) -> Value {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    schema(&mut settings.into_generator()).to_value()
}

/// Returns the alternatives in the `anyOf` and `oneOf` of a schema.
pub(crate) fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|name| schema.get(name)?.as_array()).flatten()
}

/// Returns whether `type_keyword`, the value of a schema's keyword `type`, is or includes `type_name`.
pub(crate) fn includes_type(type_keyword: &Value, type_name: &str) -> bool {
    let is_listed = |types: &Vec<Value>| types.iter().any(|name| name == type_name);
    type_keyword == type_name || type_keyword.as_array().is_some_and(is_listed)
}

/// Returns the allowed values apart from null, or `None` if the schema does not list the allowed values.
pub(crate) fn allowed_values(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only]);
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return Some(options.iter().filter(|option| !option.is_null()).collect());
    }
    let alternatives = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    let is_null = |schema: &&Value| schema.get("type").is_some_and(|kind| kind == "null");
    let each = alternatives.iter().filter(|it| !is_null(it)).map(allowed_values);
    each.collect::<Option<Vec<_>>>().map(|options| options.concat())
}

/// Merges the alternatives of a schema into one object with the members of all alternatives. Members that
/// every alternative requires stay required.
///
/// Some clients do not support alternatives in schemas. A schema without alternatives is returned unchanged.
pub(crate) fn merge_into_one_object(mut schema: Value) -> Value {
    if !schema.is_object() {
        // The schema is `true`: it allows a value of any type.
        return Map::new().into();
    }
    let Some(Value::Array(alternatives)) = schema.as_object_mut().and_then(|it| it.remove("anyOf")) else {
        return schema;
    };
    let mut properties = Map::new();
    for alternative in &alternatives {
        properties.extend(members(alternative).cloned().unwrap_or_default());
    }
    let is_required = |name: &&Value| alternatives.iter().all(|it| required(it).contains(name));
    let names: Vec<Value> = alternatives
        .first()
        .map_or_else(Vec::new, required)
        .into_iter()
        .filter(is_required)
        .cloned()
        .collect();
    if let Some(object) = schema.as_object_mut() {
        object.insert("type".to_owned(), "object".into());
        object.insert("properties".to_owned(), properties.into());
        if !names.is_empty() {
            object.insert("required".to_owned(), names.into());
        }
    }
    schema
}

/// The named schemas of output types in an OpenAPI document, each type once.
pub(crate) struct Components {
    generator: SchemaGenerator,
}

impl Components {
    /// JSON pointer to the schemas in an OpenAPI document.
    const PATH: &str = "/components/schemas";

    pub fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12().for_serialize();
        settings.meta_schema = None;
        settings.definitions_path = Self::PATH.into();
        Self { generator: settings.into_generator() }
    }

    /// Returns the reference to the schema called `name`.
    pub fn reference_to(name: &str) -> String {
        format!("#{}/{name}", Self::PATH)
    }

    /// Adds the schema of a type, and the schemas of the types that it refers to.
    ///
    /// Returns a reference to the type, or the schema itself if the type has no name.
    pub fn add(&mut self, schema: SchemaFunction) -> Value {
        let mut schema = schema(&mut self.generator).to_value();
        join_description_lines(&mut schema);
        apply_annotations(&mut schema);
        schema
    }

    /// Returns all schemas by name.
    ///
    /// `change` may modify the schemas, before members that two schemas have in common are replaced by
    /// references.
    pub fn into_map(mut self, change: impl FnOnce(&mut Map<String, Value>)) -> Map<String, Value> {
        let mut schemas = self.generator.take_definitions(true);
        schemas.values_mut().for_each(|schema| {
            join_description_lines(schema);
            apply_annotations(schema);
        });
        change(&mut schemas);
        share_members(&mut schemas);
        schemas
    }
}

/// Minimum number of members that an object must have before other schemas refer to it.
const SHARED_MEMBERS_MIN: usize = 5;

/// Replaces members of an object schema by a reference to another schema that defines the same members.
///
/// This applies to types that embed another type (`serde(flatten)`): a new member of the embedded type then
/// changes only one schema.
fn share_members(schemas: &mut Map<String, Value>) {
    let parents: Vec<(String, Value)> = schemas.iter().map(|(name, it)| (name.clone(), it.clone())).collect();
    for (name, schema) in schemas.iter_mut() {
        let embedded =
            parents.iter().filter(|(other, parent)| other != name && embeds_members_of(schema, parent));
        let largest = embedded.max_by_key(|(_, parent)| members(parent).map_or(0, Map::len));
        let Some((other, parent)) = largest else { continue };
        let own = members(parent);
        let required = required(parent);
        let Some(object) = schema.as_object_mut() else { continue };
        if let Some(Value::Object(properties)) = object.get_mut("properties") {
            properties.retain(|name, _| own.is_none_or(|own| !own.contains_key(name)));
        }
        if let Some(Value::Array(names)) = object.get_mut("required") {
            names.retain(|name| !required.contains(&name));
        }
        let reference = serde_json::json!([{"$ref": Components::reference_to(other)}]);
        object.insert("allOf".to_owned(), reference);
    }
}

/// Returns the schemas of an object's members, by name.
fn members(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns the names of the members that an object schema requires.
fn required(schema: &Value) -> Vec<&Value> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().collect()
}

/// Returns whether an object schema has every member of `parent`, and further members.
fn embeds_members_of(schema: &Value, parent: &Value) -> bool {
    let (Some(own), Some(theirs)) = (members(schema), members(parent)) else { return false };
    let is_closed = |schema: &Value| schema.get("additionalProperties").is_some();
    let names = required(schema);
    theirs.len() >= SHARED_MEMBERS_MIN
        && theirs.len() < own.len()
        && !is_closed(schema)
        && !is_closed(parent)
        && theirs.iter().all(|(name, member)| own.get(name) == Some(member))
        && required(parent).iter().all(|name| names.contains(name))
}

/// Joins the lines of each paragraph in every description.
fn join_description_lines(schema: &mut Value) {
    for_each_object(schema, &|keywords| {
        if let Some(Value::String(text)) = keywords.get_mut("description") {
            *text = join_lines(text);
        }
    });
}

/// Adds the defaults to the descriptions, and removes the annotations.
pub(crate) fn apply_annotations(schema: &mut Value) {
    for_each_object(schema, &|keywords| {
        let default = keywords.get(DEFAULT).and_then(Value::as_str).map(|word| format!(" Default: {word}."));
        if let (Some(default), Some(Value::String(text))) = (default, keywords.get_mut("description")) {
            text.insert_str(text.find("\n\n").unwrap_or(text.len()), &default);
        }
    });
    remove_annotations(schema);
}

/// Removes all annotations: the keywords that are not published.
pub(crate) fn remove_annotations(schema: &mut Value) {
    for_each_object(schema, &|keywords| ANNOTATIONS.iter().for_each(|name| drop(keywords.remove(*name))));
}

/// Calls `change` for each object in a schema, at every depth.
fn for_each_object(schema: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            change(members);
            members.values_mut().for_each(|member| for_each_object(member, change));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each_object(item, change)),
        _ => {}
    }
}

/// Returns a text with the lines of each paragraph and of each list item joined.
fn join_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut gap = "";
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            gap = "\n\n";
            continue;
        }
        if line.starts_with("- ") && gap == " " {
            gap = "\n";
        }
        out.push_str(if out.is_empty() { "" } else { gap });
        out.push_str(line);
        gap = " ";
    }
    out
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Task {
        a: bool,
        b: bool,
        c: bool,
        d: bool,
        e: Option<bool>,
    }

    /// A task with more members, in a test.
    #[derive(Serialize, JsonSchema)]
    struct Detail {
        #[serde(flatten)]
        task: Task,
        notes: Vec<String>,
    }

    #[derive(Serialize, JsonSchema)]
    #[schemars(rename = "List_{T}")]
    struct List<T> {
        all: Vec<T>,
    }

    #[test]
    fn each_type_is_defined_once_and_referenced_where_it_is_embedded() {
        let mut components = Components::new();
        assert_eq!(components.add(of::<List<Task>>), json!({"$ref": "#/components/schemas/List_Task"}));
        assert_eq!(components.add(of::<Detail>), json!({"$ref": "#/components/schemas/Detail"}));
        let schemas = components.into_map(|_| {});
        assert_eq!(schemas.keys().collect::<Vec<_>>(), ["Detail", "List_Task", "Task"]);
        let detail = &schemas["Detail"];
        assert_eq!(detail["allOf"], json!([{"$ref": "#/components/schemas/Task"}]));
        assert_eq!(detail["properties"].as_object().unwrap().keys().collect::<Vec<_>>(), ["notes"]);
        assert_eq!(detail["required"], json!(["notes"]));
        assert_eq!(detail["description"], "A task with more members, in a test.");
        assert_eq!(schemas["List_Task"]["properties"]["all"]["items"]["$ref"], "#/components/schemas/Task");
    }

    #[test]
    fn an_object_that_lacks_a_required_member_embeds_nothing() {
        let five = json!({"a": {}, "b": {}, "c": {}, "d": {}, "e": {}});
        let parent = json!({"properties": five, "required": ["a"]});
        let mut six = five.clone();
        six["f"] = json!({});
        assert!(embeds_members_of(&json!({"properties": six, "required": ["a", "f"]}), &parent));
        for other in [
            json!({"properties": six, "required": ["f"]}),
            json!({"properties": five, "required": ["a"]}),
            json!({"properties": six, "required": ["a"], "additionalProperties": false}),
        ] {
            assert!(!embeds_members_of(&other, &parent), "{other}");
        }
    }

    /// Null stays allowed only in fields that null clears.
    #[test]
    fn a_field_allows_null_only_if_null_says_something() {
        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only the schema is read")]
        struct Asked {
            limit: Option<u8>,
            #[serde(default)]
            note: crate::text::Patch<String>,
            within: Option<Within>,
            many: Vec<Within>,
        }
        #[derive(serde::Deserialize, JsonSchema)]
        #[expect(dead_code, reason = "only the schema is read")]
        struct Within {
            #[serde(default)]
            flag: Option<bool>,
        }
        let schema = validation_schema::<Asked>();
        assert!(Arc::ptr_eq(&schema, &validation_schema::<Asked>()), "it is made once");
        let kind = |path: &str| schema.pointer(&format!("/properties/{path}/type")).cloned();
        assert_eq!(kind("limit"), Some(json!("integer")));
        assert_eq!(kind("note"), Some(json!(["string", "null"])));
        assert_eq!(kind("within"), Some(json!("object")));
        assert_eq!(kind("within/properties/flag"), Some(json!("boolean")));
        assert_eq!(kind("many/items/properties/flag"), Some(json!("boolean")));
        assert!(!schema.to_string().contains("x-null"), "{schema}");
    }

    #[test]
    fn a_description_has_a_line_for_each_paragraph_and_item() {
        let text = "One line\nand its rest.\n\nTwo:\n- first\n  and its rest\n- second";
        assert_eq!(join_lines(text), "One line and its rest.\n\nTwo:\n- first and its rest\n- second");
        assert_eq!(join_lines("plain"), "plain");
    }
}
