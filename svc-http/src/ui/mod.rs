//! Serves the board, the web interface for people, as static files that need no credential.
//!
//! Below the board's folder, the path of a file contains the digest of all files. At any path of a screen,
//! the server returns the same page, whose script shows the screen. Every URL in the files is relative, so
//! that the board works under any prefix that a proxy strips. Responses do not depend on the caller.

mod operations;
mod shell;
mod script;
mod module;
mod pack;
mod style;
mod assets;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{HeaderMap, StatusCode};
use svc_core::op::Table;
use svc_core::{Error, Result};

use crate::accept;
use crate::encode::{self, Response};
use assets::{Asset, Assets, MANIFEST, SERVICE_WORKER};
use shell::DEPTH_MAX;

/// Path of the board.
const BOARD_PATH: &str = "/ui/";
/// Folder below the board's folder for files whose address contains the digest of all files.
const VERSIONED_FILES_FOLDER: &str = "f/";

/// Content-Security-Policy of the board's pages.
const BOARD_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self'; \
     connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types board",
);
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const CACHE_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Target of a path below the board's folder.
#[derive(Debug, PartialEq, Eq)]
enum BoardTarget<'a> {
    /// The page for a screen that is `depth` folders below the board's folder.
    Screen { depth: usize },
    /// A file with a fixed address.
    FixedFile { name: &'a str },
    /// A file of one version of the board.
    File { digest: &'a str, name: &'a str },
}

impl<'a> BoardTarget<'a> {
    /// Parses the path of a request, which is not percent-decoded.
    fn parse(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(BOARD_PATH)?;
        if let Some(file) = rest.strip_prefix(VERSIONED_FILES_FOLDER) {
            return file.split_once('/').map(|(digest, name)| Self::File { digest, name });
        }
        if [SERVICE_WORKER, MANIFEST].contains(&rest) {
            return Some(Self::FixedFile { name: rest });
        }
        // A browser resolves relative URLs against the undecoded segments of the path.
        let depth = rest.matches('/').count();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '~' | '-');
        let is_screen = rest.chars().all(is_plain) && !rest.starts_with('/') && !rest.contains("//");
        (is_screen && depth <= DEPTH_MAX).then_some(Self::Screen { depth })
    }
}

/// Serves the pages and the files of the board.
pub(crate) struct Board {
    /// Modules that are generated from the operation table.
    generated_modules: BTreeMap<&'static str, String>,
    current: Mutex<Arc<Assets>>,
}

impl Board {
    /// Builds the files of the board for the operations of a table.
    pub fn new(table: &Table) -> Result<Self> {
        let generated_modules = operations::generate_modules(table);
        let current = Mutex::new(Arc::new(Assets::load(&generated_modules)?));
        Ok(Self { generated_modules, current })
    }

    /// Returns whether a path may be the path of a screen.
    pub fn has_screen(path: &str) -> bool {
        matches!(BoardTarget::parse(path), Some(BoardTarget::Screen { .. }))
    }

    /// Returns the response for a path below the board's folder, to a request with the headers
    /// `request_headers`.
    pub async fn response(&self, path: &str, request_headers: &HeaderMap) -> Result<Response> {
        let missing = || Error::not_found("page or file");
        let place = BoardTarget::parse(path).ok_or_else(missing)?;
        let assets = self.assets(&place)?;
        let (asset, cached) = match place {
            BoardTarget::Screen { depth } => (assets.page(depth), REVALIDATE),
            BoardTarget::FixedFile { name } => (assets.fixed_file(name), REVALIDATE),
            BoardTarget::File { digest, name } if digest == assets.digest() => {
                (assets.file(name), CACHE_FOR_A_YEAR)
            }
            // A server of another version may have a different file at this address.
            BoardTarget::File { .. } => (None, REVALIDATE),
        };
        Ok(asset_response(asset.ok_or_else(missing)?, cached, request_headers).await)
    }

    /// Replaces the body of a response by the board's page if `path` may be the path of a screen. Keeps the
    /// status and the header `no-store`.
    pub fn with_board_page(&self, path: &str, mut response: Response) -> Result<Response> {
        if let Some(place @ BoardTarget::Screen { depth }) = BoardTarget::parse(path) {
            let assets = self.assets(&place)?;
            let page = assets.page(depth).ok_or_else(|| Error::internal("the board has no page"))?;
            *response.body_mut() = page.plain().clone().into();
            response.headers_mut().insert(CONTENT_TYPE, HTML);
        }
        Ok(response)
    }

    /// Returns the files of the board. In a debug build, a request for a page reloads changed files from the
    /// disk.
    fn assets(&self, target: &BoardTarget<'_>) -> Result<Arc<Assets>> {
        let current = || self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(&current());
        if !cfg!(debug_assertions) || !matches!(target, BoardTarget::Screen { .. }) {
            return Ok(known);
        }
        let Some(changed) = known.reload_if_changed(&self.generated_modules)? else { return Ok(known) };
        let changed = Arc::new(changed);
        *current() = Arc::clone(&changed);
        Ok(changed)
    }
}

/// Returns the response with a file, or 304 if the client already has the file.
async fn asset_response(asset: &Asset, cached: HeaderValue, request_headers: &HeaderMap) -> Response {
    let packed = if accepts_gzip(request_headers) { asset.gzip().await } else { None };
    let tag = asset.etag(packed.is_some());
    let mut response = encode::empty_response(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, cached);
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    insert_isolation_headers(headers);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    if has_matching_etag(request_headers, &tag) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type()));
    if packed.is_some() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    *response.body_mut() = packed.unwrap_or_else(|| asset.plain().clone()).into();
    response
}

/// Adds the headers that isolate the board from pages of other sites.
fn insert_isolation_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, BOARD_SECURITY_POLICY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, SAME_ORIGIN);
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), SAME_ORIGIN);
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), SAME_ORIGIN);
}

/// Adds the security headers of the board to a response.
pub(crate) fn with_security_headers(mut response: Response) -> Response {
    insert_isolation_headers(response.headers_mut());
    response
}

/// Returns a page without scripts that explains an error.
///
/// If `board` is a URL, the page contains a link to the board at that URL.
pub(crate) fn error_page(error: &Error, board: Option<&str>) -> Response {
    let mut response = encode::problem_response(error);
    *response.body_mut() = Bytes::from(shell::error_page(error, board)).into();
    response.headers_mut().insert(CONTENT_TYPE, HTML);
    with_security_headers(response)
}

/// Returns a page that asks whether to turn off mail, with a button that sends a POST to the same URL.
pub(crate) fn unsubscribe_page() -> Response {
    page_response(shell::unsubscribe_page())
}

/// Returns a page that confirms that mail is off and links to the board at the URL `board`.
pub(crate) fn unsubscribed_page(board: &str) -> Response {
    page_response(shell::unsubscribed_page(board))
}

fn page_response(page: String) -> Response {
    let mut response = encode::json_response(StatusCode::OK, page.into());
    response.headers_mut().insert(CONTENT_TYPE, HTML);
    with_security_headers(response)
}

/// Returns whether a client accepts a response compressed with gzip.
fn accepts_gzip(request_headers: &HeaderMap) -> bool {
    let values = request_headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(',')).filter_map(|coding| {
        let mut parts = coding.split(';');
        let name = parts.next().unwrap_or_default();
        name.trim().eq_ignore_ascii_case("gzip").then(|| accept::parse_weight(parts))
    });
    codings.next().is_some_and(|weight: f32| weight > 0.0)
}

/// Returns whether `If-None-Match` contains an entity tag, which means that the client already has the file.
fn has_matching_etag(request_headers: &HeaderMap, etag: &str) -> bool {
    let values = request_headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_screen_or_a_file() {
        let screen = |depth| Some(BoardTarget::Screen { depth });
        for (path, wanted) in [
            ("/ui/", screen(0)),
            ("/ui/board", screen(0)),
            ("/ui/t/0190-a_b", screen(1)),
            ("/ui/t/", screen(1)),
            ("/ui/a/b/c/d/e", screen(4)),
            ("/ui/a/b/c/d/e/f", None),
            ("/ui/f", screen(0)),
            ("/ui/app.js", None),
            ("/ui/.git/config", None),
            ("/ui/t/..", None),
            ("/ui/t/%2e%2e", None),
            ("/ui//t", None),
            ("/ui/t//x", None),
            ("/ui", None),
            ("/ui/push.js", Some(BoardTarget::FixedFile { name: "push.js" })),
            ("/ui/manifest.webmanifest", Some(BoardTarget::FixedFile { name: "manifest.webmanifest" })),
            ("/ui/f/0123/css/base.css", Some(BoardTarget::File { digest: "0123", name: "css/base.css" })),
            ("/ui/f/0123/../x", Some(BoardTarget::File { digest: "0123", name: "../x" })),
        ] {
            assert_eq!(BoardTarget::parse(path), wanted, "{path}");
        }
    }

    #[test]
    fn gzip_is_sent_to_who_takes_it() {
        for (sent, wanted) in [
            (&["gzip, deflate, br"][..], true),
            (&["br", "GZIP;q=0.5"], true),
            (&["gzip; q=1"], true),
            (&["gzip;q=0"], false),
            (&["br, gzip ; Q=0"], false),
            (&["gzip;Q=0.5"], true),
            (&["gzip; Q=0.000"], false),
            (&["br, *"], false),
            (&[""], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(ACCEPT_ENCODING, value.parse().unwrap());
            }
            assert_eq!(accepts_gzip(&headers), wanted, "{sent:?}");
        }
    }

    #[test]
    fn a_tag_is_compared_as_caches_send_it() {
        for (sent, wanted) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, sent.parse().unwrap());
            assert_eq!(has_matching_etag(&headers, "\"a\""), wanted, "{sent}");
        }
        assert!(!has_matching_etag(&HeaderMap::new(), "\"a\""));
    }
}
