//! The token endpoint of RFC 6749 for apps: accepts a form or JSON, with the client's credentials in the body
//! or in HTTP Basic.
//!
//! Unknown parameters are ignored, as the RFC requires, and repeated parameters are refused. A client must
//! authenticate in only one way, and not in the URL, because servers and proxies log URLs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, PRAGMA, WWW_AUTHENTICATE};
use serde::{Deserialize, Serialize};
use svc_core::op::{self, Reply};
use svc_core::{Code, Error, Result};

use super::{Framing, ReceivedRequest};
use crate::decode::{self, PlusSign, TextFields};
use crate::encode::{self, Response};
use crate::state::ServerState;

/// Name of the problem member that contains the `error` code of RFC 6749.
const ERROR_MEMBER: &str = "error";
const BASIC_CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"svc\", charset=\"UTF-8\"");

/// Frame of the token endpoint: accepts a form or JSON, and returns an access token.
pub(super) struct AppToken;

impl Framing for AppToken {
    fn decode_input(&self, received: ReceivedRequest) -> Result<op::Input> {
        if received.head.uri.query().is_some_and(|query| !query.is_empty()) {
            return Err(invalid_request_error("the parameters belong in the body, not in the address"));
        }
        let headers = &received.head.headers;
        let sent = if is_form(headers) { parse_form(&received.body)? } else { parse_json(&received.body)? };
        let sent = sent.with_basic(basic_credentials(headers)?)?;
        Ok(op::Input::json(serde_json::to_vec(&sent).map_err(Error::internal)?))
    }

    fn response(&self, _: &ServerState, reply: &Reply) -> Response {
        let mut response = encode::reply_response(reply);
        response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
        response
    }

    fn error_response(&self, error: &Error) -> Response {
        let mut response = encode::problem_response(&with_error_code(error));
        let headers = response.headers_mut();
        if headers.contains_key(WWW_AUTHENTICATE) {
            headers.insert(WWW_AUTHENTICATE, BASIC_CHALLENGE);
        }
        response
    }
}

/// Parameters in the body of a token request.
#[derive(Default, Deserialize, Serialize)]
struct BodyParameters {
    grant_type: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    scope: Option<String>,
}

/// Client id and secret from an Authorization header with the scheme Basic.
struct BasicCredentials {
    id: String,
    secret: String,
}

impl BodyParameters {
    /// Adds the client id and secret of the Authorization header.
    ///
    /// The body may contain the same client id, since many clients repeat it. Fails if the body contains a
    /// secret or another client id.
    fn with_basic(self, basic: Option<BasicCredentials>) -> Result<Self> {
        let Some(BasicCredentials { id, secret }) = basic else { return Ok(self) };
        let is_sent = |field: &Option<String>| field.as_ref().is_some_and(|value| !value.is_empty());
        if is_sent(&self.client_secret) || (is_sent(&self.client_id) && self.client_id.as_ref() != Some(&id))
        {
            return Err(invalid_request_error("the client authenticates both by HTTP Basic and in the body"));
        }
        Ok(Self { client_id: Some(id), client_secret: Some(secret), ..self })
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    media.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

fn parse_json(body: &[u8]) -> Result<BodyParameters> {
    if body.is_empty() {
        return Ok(BodyParameters::default());
    }
    serde_json::from_slice(body).map_err(|_| {
        invalid_request_error("the body is not a JSON object whose parameters are strings without repetition")
    })
}

fn parse_form(body: &[u8]) -> Result<BodyParameters> {
    let unread = |_| invalid_request_error("the form is not percent-encoded UTF-8, or has too many fields");
    let body = std::str::from_utf8(body).map_err(|_| invalid_request_error("the form is not UTF-8"))?;
    let mut fields = TextFields::new();
    decode::append_query_fields(Some(body), &mut fields).map_err(unread)?;
    let mut sent = BodyParameters::default();
    for (name, value) in fields {
        let field = match name.as_str() {
            "grant_type" => &mut sent.grant_type,
            "client_id" => &mut sent.client_id,
            "client_secret" => &mut sent.client_secret,
            "scope" => &mut sent.scope,
            _ => continue,
        };
        if field.replace(value).is_some() {
            return Err(invalid_request_error("a parameter is repeated"));
        }
    }
    Ok(sent)
}

/// Returns the credentials in the Authorization header, or `None` if the header is absent or has another
/// scheme than Basic.
///
/// The client form-encodes the id and the secret before it joins both with a colon (RFC 6749, 2.3.1).
fn basic_credentials(headers: &HeaderMap) -> Result<Option<BasicCredentials>> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let first = values.next();
    let more = values.next();
    if more.is_some() {
        return Err(invalid_request_error("the request has more than one Authorization header"));
    }
    let scheme_and_rest = first.and_then(|value| value.to_str().ok()).and_then(|text| text.split_once(' '));
    let Some((_, encoded)) = scheme_and_rest.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"))
    else {
        return Ok(None);
    };
    let unread = || {
        let detail = "the Authorization header is not the Base64 of an id and a secret, joined by a colon";
        Error::new(Code::Unauthenticated, detail).with(ERROR_MEMBER, "invalid_client")
    };
    let joined = STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let joined = joined.ok_or_else(unread)?;
    let (id, secret) = joined.split_once(':').ok_or_else(unread)?;
    let unescaped = |text| decode::percent_decode(text, PlusSign::IsSpace).map_err(|_| unread());
    Ok(Some(BasicCredentials { id: unescaped(id)?, secret: unescaped(secret)? }))
}

fn invalid_request_error(detail: &'static str) -> Error {
    Error::malformed(detail).with(ERROR_MEMBER, "invalid_request")
}

/// Adds an `error` code of RFC 6749 to a failure that has none.
///
/// If section 5.2 has no suitable code, the code is from section 4.1.2.1.
fn with_error_code(error: &Error) -> Error {
    let problem = serde_json::to_value(error.problem()).unwrap_or_default();
    if problem.get(ERROR_MEMBER).is_some() {
        return error.clone();
    }
    let name = match error.code().status() {
        401 => "invalid_client",
        429 | 503 => "temporarily_unavailable",
        500.. => "server_error",
        _ => "invalid_request",
    };
    error.clone().with(ERROR_MEMBER, name)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;
    use proptest::prelude::*;

    use super::*;
    use crate::strangers;

    fn authorized(value: &[u8]) -> HeaderMap {
        let value = HeaderValue::from_bytes(value).unwrap();
        [(HeaderName::from_static("authorization"), value)].into_iter().collect()
    }

    fn named(error: &Error) -> (u16, String) {
        let problem = serde_json::to_value(with_error_code(error).problem()).unwrap();
        (error.code().status(), problem[ERROR_MEMBER].as_str().unwrap().to_owned())
    }

    #[test]
    fn every_failure_has_an_error_of_the_rfc() {
        for (code, wanted) in [
            (Code::Malformed, "invalid_request"),
            (Code::Unauthenticated, "invalid_client"),
            (Code::BodyTooLarge, "invalid_request"),
            (Code::UnsupportedMediaType, "invalid_request"),
            (Code::RateLimited, "temporarily_unavailable"),
            (Code::Overloaded, "temporarily_unavailable"),
            (Code::Internal, "server_error"),
        ] {
            assert_eq!(named(&Error::new(code, "x")).1, wanted, "{code:?}");
        }
        let own = Error::malformed("x").with(ERROR_MEMBER, "invalid_scope");
        assert_eq!(named(&own).1, "invalid_scope", "its own name stays");
        let refused = AppToken.error_response(&Error::new(Code::Unauthenticated, "x"));
        assert_eq!(refused.headers()[WWW_AUTHENTICATE], BASIC_CHALLENGE);
    }

    #[test]
    fn a_form_is_read_strictly_and_what_is_unknown_is_ignored() {
        let sent = parse_form(b"grant_type=client_credentials&x=1&x=2&scope=a%3Ab+c").unwrap();
        assert_eq!(sent.grant_type.as_deref(), Some("client_credentials"));
        assert_eq!((sent.scope.as_deref(), sent.client_id), (Some("a:b c"), None));
        for bad in [&b"scope=a&scope=a"[..], b"scope=%", b"scope=%ff", b"scope=\xff"] {
            assert_eq!(
                named(&parse_form(bad).err().unwrap()),
                (400, "invalid_request".to_owned()),
                "{bad:?}"
            );
        }
        let sent = parse_json(br#"{"grant_type": "g", "client_id": null, "more": {"x": 1}}"#).unwrap();
        assert_eq!((sent.grant_type.as_deref(), sent.client_id), (Some("g"), None));
        for bad in [r#"{"scope": "a", "scope": "a"}"#, r#"{"scope": 1}"#, "[]x", "1"] {
            assert!(parse_json(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_client_authenticates_in_one_way() {
        let sent = |id: &str, secret: &str| BodyParameters {
            client_id: Some(id.to_owned()),
            client_secret: Some(secret.to_owned()),
            ..BodyParameters::default()
        };
        let basic = || Some(BasicCredentials { id: "a".to_owned(), secret: "b".to_owned() });
        assert!(
            BodyParameters::default().with_basic(basic()).is_ok()
                && sent("a", "").with_basic(basic()).is_ok()
        );
        assert!(sent("a", "b").with_basic(None).is_ok());
        for (id, secret) in [("a", "b"), ("", "b"), ("c", "")] {
            assert!(sent(id, secret).with_basic(basic()).is_err(), "{id} {secret}");
        }
    }

    #[test]
    fn credentials_of_another_scheme_are_none_and_broken_ones_are_refused() {
        assert!(basic_credentials(&HeaderMap::new()).unwrap().is_none());
        for other in ["Bearer svc_1", "Basic", ""] {
            assert!(basic_credentials(&authorized(other.as_bytes())).unwrap().is_none(), "{other:?}");
        }
        for bad in ["Basic !", "Basic YQ==", "Basic /w==", "basic YSU6Yg=="] {
            let refused = named(&basic_credentials(&authorized(bad.as_bytes())).err().unwrap());
            assert_eq!(refused, (401, "invalid_client".to_owned()), "{bad}");
        }
        let mut twice = authorized(b"Basic YTpi");
        twice.append(AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert!(basic_credentials(&twice).is_err());
    }

    const PIECES: [&str; 27] = [
        "grant_type",
        "client_id",
        "client_secret",
        "scope",
        "=",
        "&",
        "%",
        "%2",
        "%26",
        "%3d",
        "%c3",
        "%a9",
        "+",
        "{",
        "}",
        "[",
        "\"",
        "\"scope\":",
        "null",
        ",",
        ":",
        "a",
        " ",
        "\u{0}",
        "\u{e9}",
        "&scope=a+b",
        "{\"scope\":\"a\"}",
    ];

    fn escaped(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02x}")).collect()
    }

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// Any client id and any secret are decoded unchanged, from a form and from HTTP Basic.
        #[test]
        fn what_is_encoded_is_read(ids in strangers::texts(&PIECES), secrets in strangers::texts(&PIECES)) {
            for (id, secret) in ids.into_iter().zip(secrets) {
                let id_sent = escaped(&id);
                let secret_sent = escaped(&secret);
                let body = format!("client_secret={secret_sent}&client_id={id_sent}");
                let read = parse_form(body.as_bytes()).unwrap();
                prop_assert_eq!(read.client_id.as_ref(), Some(&id));
                prop_assert_eq!(read.client_secret.as_ref(), Some(&secret));
                let value = format!("Basic {}", STANDARD.encode(format!("{id_sent}:{secret_sent}")));
                let read = basic_credentials(&authorized(value.as_bytes())).unwrap().unwrap();
                prop_assert_eq!((read.id, read.secret), (id, secret));
            }
        }

        /// Any input is either accepted, or refused with an `error` code of RFC 6749.
        #[test]
        fn anything_is_read_or_refused(sent in strangers::sent(&PIECES)) {
            for sent in sent {
                for read in [parse_form(&sent).map(drop), parse_json(&sent).map(drop)] {
                    if let Err(error) = read {
                        prop_assert_eq!(named(&error), (400, "invalid_request".to_owned()));
                    }
                }
                for value in [STANDARD.encode(&sent).into_bytes(), sent] {
                    let value = [&b"Basic "[..], &value].concat();
                    if let Ok(value) = HeaderValue::from_bytes(&value)
                        && let Err(error) = basic_credentials(&authorized(value.as_bytes()))
                    {
                        prop_assert_eq!(named(&error), (401, "invalid_client".to_owned()));
                    }
                }
            }
        }
    }
}
