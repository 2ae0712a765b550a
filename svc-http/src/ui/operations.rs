//! The module by which the board knows the operations: it names them, and no path stands in its own files.
//!
//! Each has its method, path, capability, title and effect, and which fields of its input are in the path, in
//! the query and a file; the others are in the body. Beside the operations it has the framed rows that the
//! board uses, the WebSocket and the document of the schemas.

use serde_json::{Map, Value, json};
use svc_core::op::{FIXED, Fixed, Frame, Method, Operation, Table, path_variables};
use svc_core::spool::FILE_FIELD;

/// Returns the module.
pub(super) fn module(table: &Table) -> String {
    let mut known: Map<String, Value> =
        table.rows().filter(|row| is_used(row)).map(|row| (row.name().to_owned(), described(row))).collect();
    for route in FIXED {
        let Some((name, title)) = named(route.served_by) else { continue };
        let needs = route.served_by.needs().expression();
        let fields = json!({"path": [], "query": []});
        let entry = json!([route.method.name(), route.path, needs, title, "read", fields]);
        known.insert(name.to_owned(), entry);
    }
    format!("export default {};\n", Value::Object(known))
}

/// Whether the board uses a row: all operations, and by which a browser signs in and opens a link.
fn is_used(row: &Operation) -> bool {
    let frame = row.http().frame;
    frame.is_none_or(|frame| {
        matches!(frame, Frame::SignIn | Frame::Session | Frame::OidcLogin | Frame::Approval)
    })
}

/// Returns the name and the title of a fixed route that the board uses.
fn named(fixed: Fixed) -> Option<(&'static str, &'static str)> {
    match fixed {
        Fixed::WebSocket => Some(("subscribe", "Follow the log")),
        Fixed::OpenApi => Some(("openapi", "Read the schemas")),
        _ => None,
    }
}

fn described(row: &Operation) -> Value {
    let http = row.http();
    let in_path: Vec<&str> = path_variables(http.path).collect();
    let has_body = matches!(http.method, Method::Post | Method::Put | Method::Patch);
    let schema = row.input_schema();
    let fields = schema.get("properties").and_then(Value::as_object);
    let others = fields.into_iter().flat_map(Map::keys).map(String::as_str);
    let others = others.filter(|name| !in_path.contains(name) && *name != FILE_FIELD);
    // Beside a file there is no body for other fields.
    let in_query: Vec<&str> = others.filter(|_| !has_body || http.takes_file).collect();
    let mut places = json!({"path": in_path, "query": in_query});
    if let (true, Some(places)) = (http.takes_file, places.as_object_mut()) {
        places.insert("file".to_owned(), FILE_FIELD.into());
    }
    let needs = row.access().needs.expression();
    json!([http.method.name(), http.path, needs, row.docs().title, row.effect().name(), places])
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::read::GzEncoder;
    use svc_core::operation_table;

    use super::*;

    fn known() -> Value {
        let module = module(&operation_table().unwrap());
        let object = module.strip_prefix("export default ").unwrap().strip_suffix(";\n").unwrap();
        serde_json::from_str(object).unwrap()
    }

    #[test]
    fn every_operation_is_known_with_where_its_fields_are() {
        let known = known();
        for (name, wanted) in [
            (
                "get_thread",
                json!(["GET", "/threads/{thread_id}", "workspace:read", "Read a thread", "read",
                       {"path": ["thread_id"], "query": []}]),
            ),
            (
                "subscribe",
                json!(["GET", "/ws/subscribe", "event:subscribe", "Follow the log", "read",
                       {"path": [], "query": []}]),
            ),
        ] {
            assert_eq!(known[name], wanted);
        }
        let members = known.as_object().unwrap();
        let table = operation_table().unwrap();
        assert!(table.operations().all(|operation| members.contains_key(operation.name())));
        assert_eq!(known["list_threads"][5]["path"], json!(["channel_id"]));
        assert!(known["list_threads"][5]["query"].as_array().unwrap().contains(&json!("cursor")));
        assert_eq!(known["post_message"][5]["query"], json!([]), "they are in the body");
        assert_eq!(known["open_approval_link"][1], "/ui/approvals/{link}");
        for other in ["open_board", "create_scim_user", "finish_oidc_login"] {
            assert!(!members.contains_key(other), "{other}");
        }
    }

    /// It is loaded before anything is shown.
    #[test]
    fn the_module_is_small() {
        let module = module(&operation_table().unwrap());
        let packed =
            std::io::copy(&mut GzEncoder::new(module.as_bytes(), Compression::best()), &mut std::io::sink());
        let packed = packed.unwrap();
        assert!(packed < 9_000, "{packed} bytes");
    }
}
