//! Every route of the service, as a contract: the routes of operations, framed routes and fixed routes.
//!
//! The HTTP shell serves the fixed routes by itself, and is built from this list.

use serde_json::{Value, json};

use crate::capability::{Capability, Needs};
use crate::op::declare::http::Method;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;

/// A route that is not declared in the operation table.
#[derive(Clone, Copy, Debug)]
pub struct FixedRoute {
    pub method: Method,
    /// The path template.
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

/// All routes that are not declared in the operation table.
pub const FIXED: [FixedRoute; 15] = [
    fixed(Method::Get, "/health", Fixed::Health),
    fixed(Method::Get, "/health/ready", Fixed::Health),
    fixed(Method::Get, "/health/live", Fixed::Liveness),
    fixed(Method::Get, "/openapi.json", Fixed::OpenApi),
    fixed(Method::Get, "/problems/{type}", Fixed::Problem),
    fixed(Method::Get, "/.well-known/svc-room", Fixed::RoomScheme),
    fixed(Method::Get, "/ws/subscribe", Fixed::WebSocket),
    fixed(Method::Post, "/mcp", Fixed::Mcp),
    fixed(Method::Post, "/mcp/streamable", Fixed::McpStreamable),
    fixed(Method::Get, "/mcp/streamable", Fixed::McpSession),
    fixed(Method::Delete, "/mcp/streamable", Fixed::McpSessionEnd),
    fixed(Method::Get, "/mcp/stream", Fixed::McpStream),
    fixed(Method::Get, "/mcp/notifications", Fixed::McpNotifications),
    fixed(Method::Post, "/mcp/worker", Fixed::McpWorker),
    fixed(Method::Post, "/mcp/reviewer", Fixed::McpReviewer),
];

const fn fixed(method: Method, path: &'static str, served_by: Fixed) -> FixedRoute {
    FixedRoute { method, path, served_by }
}

impl Fixed {
    /// Returns the requirements for the caller of the route.
    pub fn needs(self) -> Needs {
        self.access().1
    }

    /// Returns the name of the credential in contracts, and the requirements for the caller of the route.
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

    /// Returns whether a request to the route may change anything.
    fn changes(self) -> bool {
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

/// Returns every route, sorted by path and method.
pub fn routes(table: &Table) -> Value {
    let fixed = FIXED.iter().map(|route| {
        let (credential, needs) = route.served_by.access();
        described(route.method, route.path, credential, needs, kind(route.served_by.changes()), None)
    });
    let declared = table.rows().flat_map(|row| row.http().paths().map(move |path| of_row(row, path)));
    let mut routes: Vec<Value> = fixed.chain(declared).collect();
    routes.sort_by_key(|route| (text(route, "path"), text(route, "method")));
    routes.into()
}

fn of_row(row: &Operation, path: &str) -> Value {
    let needs = row.access().needs;
    let credential = match row.http().frame {
        Some(frame) => frame.credential(needs),
        None if needs == Needs::Nothing => "none".to_owned(),
        None => "bearer|session".to_owned(),
    };
    let kind = kind(!row.effect().changes_nothing());
    described(row.http().method, path, &credential, needs, kind, Some(row))
}

fn kind(changes: bool) -> &'static str {
    if changes { "change" } else { "read" }
}

fn described(
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

fn text(route: &Value, field: &str) -> String {
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
            ["credential", "capability", "kind"].map(|field| text(found, field)).join(" ")
        };
        assert_eq!(route("GET", "/me"), "bearer|session any read");
        assert_eq!(route("GET", "/health"), "none none read");
        assert_eq!(route("GET", "/ws/subscribe"), "first-frame event:subscribe read");
        assert_eq!(route("POST", "/auth/session/from-token"), "none any change");
        assert_eq!(route("GET", "/auth/session"), "session session read");
    }
}
