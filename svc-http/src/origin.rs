//! Decides whether the session cookie of a request is accepted: only if no page of another site has sent the
//! request, or if the request is a read to which the browser navigates.
//!
//! A browser adds the session cookie to every request to this server, from any page. So the cookie is
//! accepted only if the browser confirms with `Sec-Fetch-Site`, or else with `Origin`, that the page has the
//! same origin. The rules are those of Go's `CrossOriginProtection`. Another port of this host is another
//! origin, although browsers send the cookie to every port. A client that sends neither header is not a
//! browser, so no page controls its requests.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, Request};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Purpose for which a request uses the session cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieUse {
    /// Reading data. A link on another site may cause such a request.
    Read,
    /// Changing data, or opening a WebSocket.
    Change,
}

impl CookieUse {
    /// Returns the purpose for which a request with this method uses the session cookie.
    pub fn for_method(method: &Method) -> Self {
        if method == Method::GET || method == Method::HEAD { Self::Read } else { Self::Change }
    }
}

/// Returns whether the session cookie of a request is accepted as a credential. `public_origin` is the public
/// origin of this server.
pub(crate) fn accepts_session_cookie<B>(
    request: &Request<B>,
    cookie_use: CookieUse,
    public_origin: Option<&str>,
) -> bool {
    let headers = request.headers();
    let host = request.uri().authority().map(|authority| authority.as_str());
    let host = host.or_else(|| header_values(headers, HOST).next()).unwrap_or_default();
    let is_own = |origin: &str| {
        let site = origin.split_once("://").map(|(_, site)| site);
        site.is_some_and(|site| !site.is_empty() && site.eq_ignore_ascii_case(host))
            || public_origin.is_some_and(|public_origin| public_origin.eq_ignore_ascii_case(origin))
    };
    let own_origin = || header_values(headers, ORIGIN).all(is_own);
    let mut sites = header_values(headers, SEC_FETCH_SITE).peekable();
    if sites.peek().is_none() {
        return own_origin();
    }
    let same = sites.all(|site| matches!(site, "same-origin" | "none"));
    let navigates = || header_values(headers, SEC_FETCH_MODE).all(|mode| mode == "navigate");
    let has_mode = headers.contains_key(SEC_FETCH_MODE);
    let counts = match cookie_use {
        CookieUse::Change => same,
        CookieUse::Read => same || (has_mode && navigates()),
    };
    counts && own_origin()
}

fn header_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request headers, and whether the cookie must be accepted for a read and for a change.
    type Case<'a> = (&'a [(&'a str, &'a str)], [bool; 2]);

    #[test]
    fn a_cookie_counts_only_from_pages_of_the_same_origin() {
        const OWN: &str = "http://svc.example:8080";
        let table: &[Case] = &[
            (&[], [true, true]),
            (&[("origin", OWN)], [true, true]),
            (&[("origin", "http://SVC.example:8080")], [true, true]),
            (&[("origin", "https://board.example")], [true, true]),
            (&[("origin", "http://board.example")], [false, false]),
            (&[("origin", "http://svc.example:3000")], [false, false]),
            (&[("origin", "http://svc.example")], [false, false]),
            (&[("origin", "http://evil.example")], [false, false]),
            (&[("origin", "null")], [false, false]),
            (&[("origin", "")], [false, false]),
            (&[("origin", OWN), ("origin", "http://evil.example")], [false, false]),
            (&[("sec-fetch-site", "same-origin")], [true, true]),
            (&[("sec-fetch-site", "none")], [true, true]),
            (&[("sec-fetch-site", "same-site")], [false, false]),
            (&[("sec-fetch-site", "cross-site")], [false, false]),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], [true, false]),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], [false, false]),
            (&[("sec-fetch-site", "cross-site"), ("origin", OWN)], [false, false]),
            (
                &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("origin", "null")],
                [false, false],
            ),
            (&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], [false, false]),
            (&[("sec-fetch-site", "nonsense")], [false, false]),
            (&[("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")], [false, false]),
            (&[("sec-fetch-site", "same-origin"), ("origin", OWN)], [true, true]),
        ];
        for (headers, wanted) in table {
            let mut request = Request::builder().uri("/").header(HOST, "svc.example:8080");
            for (name, value) in *headers {
                request = request.header(*name, *value);
            }
            let request = request.body(()).unwrap();
            let found = [CookieUse::Read, CookieUse::Change]
                .map(|used| accepts_session_cookie(&request, used, Some("https://board.example")));
            assert_eq!(found, *wanted, "{headers:?}");
        }
        let http2 =
            Request::builder().uri("http://svc.example:8080/").header("origin", OWN).body(()).unwrap();
        assert!(accepts_session_cookie(&http2, CookieUse::Change, None), "HTTP/2 names its host in the URI");
        let nowhere = Request::builder().uri("/").header("origin", "http://").body(()).unwrap();
        assert!(!accepts_session_cookie(&nowhere, CookieUse::Change, None));
    }
}
