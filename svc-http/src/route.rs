//! Routes a request by method and path, to a row of the operation table or to a fixed route.
//!
//! Rows declare their paths, and the core lists the few fixed routes. A path is matched before
//! percent-decoding, and then its variables are decoded. A slash at the end of a path is ignored, except in
//! file names.

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderValue;
use svc_core::op::{self, FIXED, Fixed, FixedRoute, Operation, Table};
use svc_core::{Error, Result};

use crate::decode::{PlusSign, TextFields, percent_decode};

/// Target of a route.
#[derive(Clone, Debug)]
pub(crate) enum RouteTarget {
    /// An operation, or a framed row.
    Row(Arc<Operation>),
    /// A fixed route, which the server handles itself.
    Fixed(Fixed),
}

impl RouteTarget {
    fn is_read_only(&self) -> bool {
        match self {
            Self::Row(row) => row.effect().is_read_only(),
            Self::Fixed(_) => true,
        }
    }
}

pub(crate) struct Routes {
    router: matchit::Router<RouteMethods>,
}

/// Methods of one path template, each with its target.
struct RouteMethods {
    methods: Vec<(Method, RouteTarget)>,
    allow: HeaderValue,
    /// Whether the path template ends with a file name, which may contain slashes.
    has_file: bool,
}

/// Outcome of routing a request.
#[derive(Debug)]
pub(crate) enum RoutingOutcome {
    /// A matching route, with the variables of the path or the error from decoding them.
    Target(RouteTarget, Result<TextFields>),
    /// The path exists, but does not support the method. Contains the value of the Allow header.
    MethodNotAllowed(HeaderValue),
    /// No route has the path.
    NotFound,
}

impl Routes {
    /// Builds the routes of an operation table and the fixed routes. Fails if two routes have the same method
    /// and path.
    pub fn build(table: &Table) -> Result<Self> {
        let mut places: Vec<(&'static str, Vec<(Method, RouteTarget)>)> = Vec::new();
        let of_rows = table.shared_rows().flat_map(|row| {
            let target = || RouteTarget::Row(Arc::clone(row));
            row.http().paths().map(move |path| (http_method(row.http().method), path, target()))
        });
        let fixed =
            |route: FixedRoute| (http_method(route.method), route.path, RouteTarget::Fixed(route.served_by));
        for (method, path, target) in FIXED.into_iter().map(fixed).chain(of_rows) {
            match places.iter_mut().find(|(known, _)| *known == path) {
                Some((_, methods)) if methods.iter().any(|(known, _)| *known == method) => {
                    return Err(Error::internal(format!("two routes match {method} {path}")));
                }
                Some((_, methods)) => methods.push((method, target)),
                None => places.push((path, vec![(method, target)])),
            }
        }
        let mut router = matchit::Router::new();
        for (path, methods) in places {
            let allow = allow_header(&methods)?;
            let has_file = path.contains("{*");
            router.insert(path, RouteMethods { methods, allow, has_file }).map_err(Error::internal)?;
        }
        Ok(Self { router })
    }

    /// Finds the route for `method` and `path`. HEAD uses the route of GET, unless that route changes data.
    pub fn find(&self, method: &Method, path: &str) -> RoutingOutcome {
        let Some(found) = self.match_path(path) else { return RoutingOutcome::NotFound };
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        let of_method = |(known, target): &&(Method, RouteTarget)| {
            known == wanted && (method != Method::HEAD || target.is_read_only())
        };
        let Some((_, target)) = found.value.methods.iter().find(of_method) else {
            return RoutingOutcome::MethodNotAllowed(found.value.allow.clone());
        };
        RoutingOutcome::Target(target.clone(), decode_variables(&found.params))
    }

    /// Finds the template for a path. A slash at the end of the path is ignored, unless the template is for a
    /// file.
    fn match_path<'k, 'p>(&'k self, path: &'p str) -> Option<matchit::Match<'k, 'p, &'k RouteMethods>> {
        let whole = self.router.at(path).ok();
        if whole.as_ref().is_some_and(|found| !found.value.has_file) {
            return whole;
        }
        let without = path.strip_suffix('/').filter(|path| !path.ends_with('/'));
        let without = without.and_then(|path| self.router.at(path).ok());
        without.filter(|found| !found.value.has_file).or(whole)
    }
}

fn decode_variables(params: &matchit::Params<'_, '_>) -> Result<TextFields> {
    // With capacity for a few query fields, which are added later.
    let mut text = TextFields::with_capacity(params.len() + 3);
    for (name, value) in params.iter() {
        text.push((name.to_owned(), percent_decode(value, PlusSign::IsPlus)?));
    }
    Ok(text)
}

pub(crate) fn http_method(method: op::Method) -> Method {
    match method {
        op::Method::Get => Method::GET,
        op::Method::Post => Method::POST,
        op::Method::Put => Method::PUT,
        op::Method::Patch => Method::PATCH,
        op::Method::Delete => Method::DELETE,
    }
}

fn allow_header(methods: &[(Method, RouteTarget)]) -> Result<HeaderValue> {
    let mut names: Vec<&str> = methods.iter().map(|(method, _)| method.as_str()).collect();
    if methods.iter().any(|(method, target)| method == Method::GET && target.is_read_only()) {
        names.push("HEAD");
    }
    names.push("OPTIONS");
    HeaderValue::from_str(&names.join(", ")).map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use svc_core::capability::Capability;
    use svc_core::op::{Feature, Read};

    use super::*;

    /// Input of the test operation.
    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the schema is read")]
    struct Probe {
        /// The thread to read.
        thread_id: Option<String>,
    }

    svc_core::without_requests! { Probe }

    #[derive(Serialize, JsonSchema)]
    struct Nothing {}

    fn operation(name: &'static str) -> Operation {
        fn run(_: &Read<'_>, _: &Probe) -> Result<Nothing> {
            Ok(Nothing {})
        }
        op::read(name, run).title("Probe").needs(&[Capability::WorkspaceRead])
    }

    fn routes(operations: Vec<Operation>) -> Result<Routes> {
        Routes::build(&Table::build(vec![Feature::new().operations("probes", operations)])?)
    }

    #[test]
    fn methods_and_variables_are_found() {
        let operations = vec![
            operation("get").get("/threads/{thread_id}"),
            operation("put").put("/threads/{thread_id}").alias("/t/{thread_id}"),
            operation("list").get("/threads"),
        ];
        let routes = routes(operations).unwrap();
        let find = |method: &str, path: &str| routes.find(&method.parse().unwrap(), path);
        let name = |found| match found {
            RoutingOutcome::Target(RouteTarget::Row(named), text) => (named.name(), text.unwrap()),
            other => panic!("{other:?}"),
        };
        let one = vec![("thread_id".to_owned(), "a/b+c".to_owned())];
        assert_eq!(name(find("GET", "/threads/a%2Fb+c")), ("get", one.clone()));
        assert_eq!(name(find("HEAD", "/threads/a%2Fb+c")), ("get", one.clone()));
        assert_eq!(name(find("PUT", "/t/a%2fb+c")), ("put", one));
        assert_eq!(name(find("GET", "/threads")), ("list", vec![]));
        assert!(matches!(
            find("GET", "/health/live"),
            RoutingOutcome::Target(RouteTarget::Fixed(Fixed::Liveness), _)
        ));
        let RoutingOutcome::MethodNotAllowed(allow) = find("DELETE", "/threads/1") else { panic!() };
        assert_eq!(allow, "GET, PUT, HEAD, OPTIONS");
        let RoutingOutcome::MethodNotAllowed(allow) = find("GET", "/t/1") else { panic!() };
        assert_eq!(allow, "PUT, OPTIONS");
        for nowhere in [
            "/",
            "*",
            "/threads//",
            "/threads/1//",
            "//threads",
            "/Threads",
            "/threads/1/2",
            "/healthy",
            "//",
        ] {
            assert!(matches!(find("GET", nowhere), RoutingOutcome::NotFound), "{nowhere}");
        }
        assert!(matches!(routes.find(&Method::GET, "/threads/%f"), RoutingOutcome::Target(_, Err(_))));
    }

    /// Returns a path that matches a route template, with values in place of the variables.
    fn instance(template: &str) -> String {
        let segments = template.split('/').map(|it| if it.starts_with('{') { "x1" } else { it });
        segments.collect::<Vec<_>>().join("/")
    }

    #[test]
    fn a_slash_at_the_end_names_the_same_route() {
        let table = svc_core::operation_table().unwrap();
        let routes = Routes::build(&table).unwrap();
        let rows = table.shared_rows().flat_map(|row| row.http().paths().collect::<Vec<_>>());
        let mut templates: Vec<&str> = FIXED.iter().map(|route| route.path).chain(rows).collect();
        templates.sort_unstable();
        templates.dedup();
        let named = |found: RoutingOutcome| match found {
            RoutingOutcome::Target(RouteTarget::Row(row), text) => {
                format!("{} {:?}", row.name(), text.unwrap())
            }
            RoutingOutcome::Target(RouteTarget::Fixed(fixed), text) => {
                format!("{fixed:?} {:?}", text.unwrap())
            }
            RoutingOutcome::MethodNotAllowed(allow) => format!("405 {allow:?}"),
            RoutingOutcome::NotFound => "404".to_owned(),
        };
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let found = |method: &str, path: &str| named(routes.find(&method.parse().unwrap(), path));
        for template in templates.iter().filter(|template| !template.contains("{*")) {
            let path = instance(template);
            if path.ends_with('/') {
                continue;
            }
            for method in methods {
                let once = found(method, &path);
                assert!(once != "404" && !once.contains("\"x1/"), "{method} {path}: {once}");
                let is_own = templates.contains(&format!("{template}/").as_str());
                if !is_own {
                    assert_eq!(found(method, &format!("{path}/")), once, "{method} {path}/");
                }
                let twice = found(method, &format!("{path}//"));
                assert!(twice == "404" || path.starts_with("/ui"), "{method} {path}//: {twice}");
            }
        }
        let file = found("GET", "/ui/assets/a.js/");
        assert!(file.contains("assets/a.js/"), "a file is named with its slashes: {file}");
        assert_ne!(found("GET", "/ui/approvals/x1/"), found("GET", "/ui/files/x1/"));
    }

    #[test]
    fn two_operations_with_one_route_are_an_error() {
        assert!(routes(vec![operation("a").get("/x"), operation("b").get("/x")]).is_err());
        assert!(routes(vec![operation("a").get("/x"), operation("b").get("/health").alias("/y")]).is_err());
        assert!(routes(vec![operation("a").get("/x"), operation("b").post("/x")]).is_ok());
    }
}
