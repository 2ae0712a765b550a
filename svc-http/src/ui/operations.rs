//! Generates JavaScript modules that describe the operations, so that the board's sources contain operation
//! names but no paths.
//!
//! Each entry contains the method, path, capability and effect of an operation, and the input fields that are
//! sent in the path, in the query or as a file; all other fields are sent in the body. There are also entries
//! for the framed rows that the board uses, the WebSocket and the OpenAPI document. Titles are in a separate
//! module, which the first screens do not need.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use svc_core::op::{FIXED, Fixed, Frame, Method, Operation, Table, path_variables};
use svc_core::spool::FILE_FIELD;

/// Name of the module with the operations.
pub(super) const OPERATIONS: &str = "operations.js";
/// Name of the module with the titles of the operations.
pub(super) const TITLES: &str = "titles.js";

const MAX_BYTES: &str = "max_bytes";

/// Returns the source of each generated module by name.
pub(super) fn generate_modules(table: &Table) -> BTreeMap<&'static str, String> {
    let used = || table.rows().filter(|row| is_used(row));
    let mut known: Map<String, Value> = used().map(|row| (row.name().to_owned(), row_entry(row))).collect();
    let mut titles: Map<String, Value> =
        used().map(|row| (row.name().to_owned(), row.docs().title.into())).collect();
    for route in FIXED {
        let Some((name, title)) = used_fixed_route(route.served_by) else { continue };
        let needs = route.served_by.needs().expression();
        let fields = json!({"path": [], "query": []});
        known.insert(name.to_owned(), json!([route.method.name(), route.path, needs, "read", fields]));
        titles.insert(name.to_owned(), title.into());
    }
    let module = |object| format!("export default {};\n", Value::Object(object));
    [(OPERATIONS, module(known)), (TITLES, module(titles))].into()
}

/// Returns whether the board uses a row of the operation table.
///
/// The board uses all operations, and the framed rows to sign in, open links and render Markdown.
fn is_used(row: &Operation) -> bool {
    let frame = row.http().frame;
    frame.is_none_or(|frame| {
        matches!(frame, Frame::SignIn | Frame::Session | Frame::OidcLogin | Frame::Approval | Frame::Markdown)
    })
}

/// Returns the name and the title of a fixed route, or `None` if the board does not use the route.
fn used_fixed_route(fixed: Fixed) -> Option<(&'static str, &'static str)> {
    match fixed {
        Fixed::WebSocket => Some(("subscribe", "Follow the log")),
        Fixed::OpenApi => Some(("openapi", "Read the schemas")),
        _ => None,
    }
}

fn row_entry(row: &Operation) -> Value {
    let http = row.http();
    let in_path: Vec<&str> = path_variables(http.path).collect();
    let has_body = matches!(http.method, Method::Post | Method::Put | Method::Patch);
    let schema = row.input_schema();
    let fields = schema.get("properties").and_then(Value::as_object);
    let others = fields.into_iter().flat_map(Map::keys).map(String::as_str);
    // The board never limits the bytes of a response.
    let others = others.filter(|name| !in_path.contains(name) && ![FILE_FIELD, MAX_BYTES].contains(name));
    // If the body is a file, it cannot contain other fields.
    let in_query: Vec<&str> = others.filter(|_| !has_body || http.takes_file).collect();
    let mut places = json!({"path": in_path, "query": in_query});
    if let (true, Some(places)) = (http.takes_file, places.as_object_mut()) {
        places.insert("file".to_owned(), FILE_FIELD.into());
    }
    let needs = row.access().needs.expression();
    json!([http.method.name(), http.path, needs, row.effect().name(), places])
}

#[cfg(test)]
mod tests {
    use svc_core::operation_table;

    use super::super::assets::gzip_if_smaller;
    use super::*;

    fn default(name: &str) -> Value {
        let module = &generate_modules(&operation_table().unwrap())[name];
        let object = module.strip_prefix("export default ").unwrap().strip_suffix(";\n").unwrap();
        serde_json::from_str(object).unwrap()
    }

    #[test]
    fn every_operation_is_known_with_where_its_fields_are() {
        let known = default(OPERATIONS);
        for (name, wanted) in [
            (
                "get_thread",
                json!(["GET", "/threads/{thread_id}", "workspace:read", "read",
                       {"path": ["thread_id"], "query": []}]),
            ),
            (
                "subscribe",
                json!(["GET", "/ws/subscribe", "event:subscribe", "read",
                       {"path": [], "query": []}]),
            ),
        ] {
            assert_eq!(known[name], wanted);
        }
        let members = known.as_object().unwrap();
        let table = operation_table().unwrap();
        assert!(table.operations().all(|operation| members.contains_key(operation.name())));
        assert_eq!(known["list_threads"][4]["path"], json!(["channel_id"]));
        assert!(known["list_threads"][4]["query"].as_array().unwrap().contains(&json!("cursor")));
        assert_eq!(known["post_message"][4]["query"], json!([]), "they are in the body");
        assert_eq!(known["open_approval_link"][1], "/ui/approvals/{link}");
        let titles = default(TITLES);
        assert_eq!(
            (&titles["get_thread"], &titles["subscribe"]),
            (&json!("Read a thread"), &json!("Follow the log"))
        );
        assert!(titles.as_object().unwrap().keys().eq(members.keys()));
        for other in ["open_board", "create_scim_user", "finish_oidc_login"] {
            assert!(!members.contains_key(other), "{other}");
        }
    }

    /// The module must be small because browsers load it before the first screen.
    #[test]
    fn the_module_is_small() {
        let module = &generate_modules(&operation_table().unwrap())[OPERATIONS];
        let length = gzip_if_smaller(module.as_bytes()).unwrap().len();
        assert!(length < 6_000, "{length} bytes");
    }
}
