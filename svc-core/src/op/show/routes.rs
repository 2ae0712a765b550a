//! The contract of all routes of the service: routes of operations, framed routes and fixed routes.
//!
//! The HTTP shell implements the fixed routes, and builds its router from this list.

use serde_json::{Value, json};

use crate::capability::{Capability, Needs};
use crate::op::declare::http::Method;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;

/// A fixed route: a route that the operation table does not declare.
#[derive(Clone, Copy, Debug)]
pub struct FixedRoute {
    pub method: Method,
    /// Path template, with variables in braces.
    pub path: &'static str,
    pub served_by: Fixed,
}

/// The handler of a fixed route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixed {
    Health,
    Liveness,
    OpenApi,
    Problem,
    RoomScheme,
    WebSocket,
    Mcp,
    McpStreamable,
    McpWorker,
    McpReviewer,
    McpStream,
    McpNotifications,
    McpSession,
    McpSessionEnd,
}

/// All fixed routes: the routes that the operation table does not declare.
pub const FIXED: [FixedRoute; 15] = [
    fixed_route(Method::Get, "/health", Fixed::Health),
    fixed_route(Method::Get, "/health/ready", Fixed::Health),
    fixed_route(Method::Get, "/health/live", Fixed::Liveness),
    fixed_route(Method::Get, "/openapi.json", Fixed::OpenApi),
    fixed_route(Method::Get, "/problems/{type}", Fixed::Problem),
    fixed_route(Method::Get, "/.well-known/svc-room", Fixed::RoomScheme),
    fixed_route(Method::Get, "/ws/subscribe", Fixed::WebSocket),
    fixed_route(Method::Post, "/mcp", Fixed::Mcp),
    fixed_route(Method::Post, "/mcp/streamable", Fixed::McpStreamable),
    fixed_route(Method::Get, "/mcp/streamable", Fixed::McpSession),
    fixed_route(Method::Delete, "/mcp/streamable", Fixed::McpSessionEnd),
    fixed_route(Method::Get, "/mcp/stream", Fixed::McpStream),
    fixed_route(Method::Get, "/mcp/notifications", Fixed::McpNotifications),
    fixed_route(Method::Post, "/mcp/worker", Fixed::McpWorker),
    fixed_route(Method::Post, "/mcp/reviewer", Fixed::McpReviewer),
];

const fn fixed_route(method: Method, path: &'static str, served_by: Fixed) -> FixedRoute {
    FixedRoute { method, path, served_by }
}

impl Fixed {
    /// Returns the rights that the caller of the route needs.
    pub fn needs(self) -> Needs {
        self.access().1
    }

    /// Returns the name of the credential in contracts, and the rights that the caller of the route needs.
    fn access(self) -> (&'static str, Needs) {
        let follows = || Needs::one_of(&[Capability::EventSubscribe]);
        match self {
            Self::Health | Self::Liveness | Self::OpenApi | Self::Problem | Self::RoomScheme => {
                ("none", Needs::Nothing)
            }
            Self::WebSocket => ("first-frame", follows()),
            Self::McpStream | Self::McpNotifications => ("bearer", follows()),
            Self::Mcp
            | Self::McpStreamable
            | Self::McpWorker
            | Self::McpReviewer
            | Self::McpSession
            | Self::McpSessionEnd => ("bearer", Needs::AnyCredential),
        }
    }

    /// Returns whether a request to the route may change data.
    fn can_change_data(self) -> bool {
        match self {
            Self::Mcp
            | Self::McpStreamable
            | Self::McpWorker
            | Self::McpReviewer
            | Self::McpSession
            | Self::McpSessionEnd => true,
            Self::Health
            | Self::Liveness
            | Self::OpenApi
            | Self::Problem
            | Self::RoomScheme
            | Self::WebSocket
            | Self::McpStream
            | Self::McpNotifications => false,
        }
    }
}

/// Returns the contracts of all routes, sorted by path and method.
pub fn routes(table: &Table) -> Value {
    let fixed = FIXED.iter().map(|route| {
        let (credential, needs) = route.served_by.access();
        route_contract(
            route.method,
            route.path,
            credential,
            needs,
            kind_name(route.served_by.can_change_data()),
            None,
        )
    });
    let declared =
        table.rows().flat_map(|row| row.http().paths().map(move |path| operation_route_contract(row, path)));
    let mut routes: Vec<Value> = fixed.chain(declared).collect();
    routes.sort_by_key(|route| (string_field(route, "path"), string_field(route, "method")));
    routes.into()
}

/// Returns the contract of the route `path` of an operation or a framed route.
fn operation_route_contract(row: &Operation, path: &str) -> Value {
    let needs = row.access().needs;
    let credential = match row.http().frame {
        Some(frame) => frame.credential(needs),
        None if needs == Needs::Nothing => "none".to_owned(),
        None => "bearer|session".to_owned(),
    };
    let kind = kind_name(!row.effect().is_read_only());
    route_contract(row.http().method, path, &credential, needs, kind, Some(row))
}

/// Returns the name in contracts of the kind of a route.
fn kind_name(changes_data: bool) -> &'static str {
    if changes_data { "change" } else { "read" }
}

fn route_contract(
    method: Method,
    path: &str,
    credential: &str,
    needs: Needs,
    kind: &str,
    row: Option<&Operation>,
) -> Value {
    json!({
        "method": method.name(),
        "path": path,
        "credential": credential,
        "capability": needs.expression(),
        "kind": kind,
        "operation": row.filter(|row| row.http().frame.is_none()).map(Operation::name),
        "area": row.map_or("service", |row| row.docs().area),
    })
}

fn string_field(route: &Value, field: &str) -> String {
    route.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::features::operation_table;

    #[test]
    fn every_route_is_listed_once_with_what_it_needs() {
        let table = operation_table().unwrap();
        let all = routes(&table);
        let all = all.as_array().unwrap();
        let declared: usize = table.rows().map(|row| row.http().paths().count()).sum();
        assert_eq!(all.len(), declared + FIXED.len());
        let route = |method: &str, path: &str| {
            let found = all.iter().find(|route| route["method"] == method && route["path"] == path).unwrap();
            ["credential", "capability", "kind"].map(|field| string_field(found, field)).join(" ")
        };
        assert_eq!(route("GET", "/me"), "bearer|session any read");
        assert_eq!(route("GET", "/health"), "none none read");
        assert_eq!(route("GET", "/ws/subscribe"), "first-frame event:subscribe read");
        assert_eq!(route("POST", "/auth/session/from-token"), "none any change");
        assert_eq!(route("GET", "/auth/session"), "session session read");
    }
}
