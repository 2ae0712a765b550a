//! An identity provider in this process, whose answers a test can falsify.
//!
//! It has the endpoints that a client needs: the discovery document, the keys, the exchange of a code and
//! UserInfo. It checks requests as a careful provider does. [`Provider::sign_in`] acts for a person there; it
//! is called with the address that the browser was sent to.

mod documents;
mod signing;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::time::Time;
use svc_http::HttpSettings;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::ordeal::tls;
use crate::{runtime, text};
use documents::TemplateValues;
pub use documents::{Document, Templates};
pub use signing::Signed;
use signing::Signer;

/// The client id of this service.
const CLIENT_ID: &str = "svc";
const CLIENT_SECRET: &str = "the secret of the client";
/// The address to which the provider sends browsers back.
pub const CALLBACK: &str = "https://svc.example/auth/oidc/callback";

/// The response of an endpoint.
#[derive(Clone, Debug)]
pub enum ResponsePlan {
    /// This document, as JSON.
    Json(u16, Value),
    /// These bytes, with a status and a media type.
    Bytes(u16, &'static str, &'static [u8]),
    /// A redirect to another address, where everything is right.
    Redirect,
    /// More bytes than a client reads.
    Huge,
    /// A body that is not JSON.
    Page,
    /// No response, on a connection that stays open.
    Never,
}

/// The deviations of the provider from a good one.
#[derive(Default)]
pub struct ProviderScript {
    /// Changes the claims of a token.
    pub claims: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the header of a token.
    pub header: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the discovery document.
    pub document: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the key set.
    pub keys: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the token response.
    pub tokens: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the UserInfo response.
    pub user_info: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the text of any document, as the last step.
    pub written: Option<Box<dyn Fn(Document, String) -> String + Send>>,
    /// The media type of every document.
    pub media_type: Option<&'static str>,
    /// The key that signs a UserInfo response, if it is a token.
    pub user_info_signed: Option<Signed>,
    /// The key that signs tokens.
    pub signed: Signed,
    /// Responses that replace those of endpoints, by path.
    pub answers: BTreeMap<&'static str, ResponsePlan>,
    /// The name of the RSA key.
    pub key_id: Option<&'static str>,
}

/// A code that was given to a browser.
struct IssuedCode {
    challenge: String,
    claims: Value,
    places: TemplateValues,
}

struct State {
    /// Its address.
    base: String,
    templates: Templates,
    signer: Signer,
    script: Mutex<ProviderScript>,
    codes: Mutex<BTreeMap<String, IssuedCode>>,
    /// The placeholders of the UserInfo response, by access token.
    bearers: Mutex<BTreeMap<String, TemplateValues>>,
    /// Number of requests by path.
    asked: Mutex<BTreeMap<String, usize>>,
    /// Exchanged values that must stay secret, by name.
    secrets: Mutex<Vec<(&'static str, String)>>,
}

/// A running provider.
pub struct Provider {
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts a provider with new keys.
    pub fn start() -> Self {
        Self::start_as(Templates::plain())
    }

    /// Starts a provider with other documents.
    pub fn start_as(templates: Templates) -> Self {
        Self::begin(templates, |address| format!("http://{address}"), None)
    }

    /// Starts one that uses TLS as `localhost`, with a certificate of the authority in `folder/roots.pem`.
    pub fn start_tls(folder: &Path) -> Self {
        let authority = tls::authority();
        std::fs::write(folder.join("roots.pem"), authority.pem()).unwrap();
        let issued = tls::issue(&authority, "localhost", folder, "idp");
        let acceptor = tls::acceptor(&issued, &authority, false, &[]);
        let base = |address: SocketAddr| format!("https://localhost:{}", address.port());
        Self::begin(Templates::plain(), base, Some(acceptor))
    }

    fn begin(
        templates: Templates,
        base: impl Fn(SocketAddr) -> String,
        acceptor: Option<TlsAcceptor>,
    ) -> Self {
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let state = Arc::new(State {
            base: base(listener.local_addr().unwrap()),
            templates,
            signer: Signer::new(),
            script: Mutex::default(),
            codes: Mutex::default(),
            bearers: Mutex::default(),
            asked: Mutex::default(),
            secrets: Mutex::default(),
        });
        let task = runtime().spawn(serve(listener, acceptor, Arc::clone(&state)));
        Self { state, task }
    }

    /// Returns its issuer.
    pub fn issuer(&self) -> String {
        text(&self.state.unchanged_discovery()["issuer"])
    }

    /// Returns the settings of a server whose people sign in here.
    pub fn settings(&self) -> HttpSettings {
        self.settings_with("openid email profile", &[])
    }

    /// Returns the settings of a server that asks for these scopes and trusts these audiences.
    pub fn settings_with(&self, scopes: &str, trusted_audiences: &[&str]) -> HttpSettings {
        let provider = OidcProvider::At {
            issuer: self.issuer(),
            client_id: CLIENT_ID.to_owned(),
            client_secret: SecretString::from(CLIENT_SECRET),
            allow_loopback_http: true,
            scopes: scopes.to_owned(),
            trusted_audiences: trusted_audiences.iter().map(|audience| (*audience).to_owned()).collect(),
        };
        let oidc = OidcConfig { provider, redirect_uri: Some(CALLBACK.to_owned()) };
        HttpSettings { oidc: Some(oidc), ..HttpSettings::default() }
    }

    /// Returns the variables of a server whose people sign in here.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SVC_OIDC_ENABLED", "1".to_owned()),
            ("SVC_OIDC_ISSUER", self.issuer()),
            ("SVC_OIDC_CLIENT_ID", CLIENT_ID.to_owned()),
            ("SVC_OIDC_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
            ("SVC_OIDC_REDIRECT_URI", CALLBACK.to_owned()),
        ]
    }

    /// Sets its deviations from now on.
    pub fn does(&self, script: ProviderScript) {
        *lock(&self.state.script) = script;
    }

    /// Returns how often this path was requested.
    pub fn asked(&self, path: &str) -> usize {
        lock(&self.state.asked).get(path).copied().unwrap_or_default()
    }

    /// Returns the exchanged values that only the service may know, by name, and the client secret.
    pub fn secrets(&self) -> Vec<(&'static str, String)> {
        let mut secrets = lock(&self.state.secrets).clone();
        secrets.push(("client secret of the provider", CLIENT_SECRET.to_owned()));
        secrets
    }

    /// Signs in a person who came with the address `sent_to`, and returns the query of the way back.
    ///
    /// `person` are claims about that person, and `now` is the time by the clock of the provider.
    pub fn sign_in(&self, now: Time, sent_to: &str, person: &Value) -> Vec<(String, String)> {
        let discovery = self.state.unchanged_discovery();
        let (endpoint, query) = sent_to.split_once('?').unwrap();
        assert_eq!(endpoint, discovery["authorization_endpoint"]);
        let asked = pairs(query);
        for (name, wanted) in [
            ("response_type", "code"),
            ("client_id", CLIENT_ID),
            ("redirect_uri", CALLBACK),
            ("code_challenge_method", "S256"),
        ] {
            assert_eq!(asked[name], wanted, "{sent_to}");
        }
        assert!(asked["scope"].split(' ').any(|scope| scope == "openid"), "{sent_to}");
        assert!(asked["state"].len() >= 32 && asked["nonce"].len() >= 32, "{sent_to}");
        let code = format!("code-{}", asked["nonce"]);
        let places = self.state.places().at(now.micros() / 1_000_000).with("nonce", &*asked["nonce"]);
        let mut claims = self.state.templates.document(Document::Claims, &places);
        claims.as_object_mut().unwrap().extend(person.as_object().unwrap().clone());
        let challenge = asked["code_challenge"].clone();
        lock(&self.state.codes).insert(code.clone(), IssuedCode { challenge, claims, places });
        let mut back = vec![("code", code), ("state", asked["state"].clone())];
        if discovery["authorization_response_iss_parameter_supported"] == true {
            back.push(("iss", self.issuer()));
        }
        back.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            match acceptor {
                None => converse(stream, state).await,
                // A client that does not trust the certificate disconnects.
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        converse(stream, state).await;
                    }
                }
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<State>) {
    let service = service_fn(move |request| answer(Arc::clone(&state), request));
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

type ProviderResponse = Result<Response<Full<Bytes>>, std::convert::Infallible>;

async fn answer(state: Arc<State>, request: Request<Incoming>) -> ProviderResponse {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    *lock(&state.asked).entry(path.clone()).or_default() += 1;
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let scripted = lock(&state.script).answers.get(path.trim_start_matches("/moved")).cloned();
    let scripted = scripted.filter(|_| !path.starts_with("/moved"));
    const JSON: &str = "application/json";
    let (status, media_type, body): (u16, &str, Bytes) = match scripted {
        Some(ResponsePlan::Json(status, document)) => (status, JSON, document.to_string().into()),
        Some(ResponsePlan::Bytes(status, media_type, bytes)) => (status, media_type, bytes.into()),
        Some(ResponsePlan::Redirect) => {
            let moved = format!("{}/moved{path}", state.base);
            let response = Response::builder().status(307).header("location", moved);
            return Ok(response.body(Full::default()).unwrap());
        }
        Some(ResponsePlan::Huge) => (200, JSON, json!({"filler": "x".repeat(4 << 20)}).to_string().into()),
        Some(ResponsePlan::Page) => (200, "text/html", "<html>Welcome</html>".into()),
        Some(ResponsePlan::Never) => std::future::pending().await,
        None => state.answer(path.trim_start_matches("/moved"), &head.headers, &body),
    };
    let response = Response::builder().status(status).header("content-type", media_type);
    Ok(response.body(Full::from(body)).unwrap())
}

/// A status, a media type and a body.
type Content = (u16, &'static str, Bytes);

impl State {
    fn json_of(&self, status: u16, text: String) -> Content {
        (status, lock(&self.script).media_type.unwrap_or("application/json"), text.into())
    }

    fn places(&self) -> TemplateValues {
        let places = TemplateValues::default().with("base", &*self.base).with("client_id", CLIENT_ID);
        self.signer.numbers().into_iter().fold(places, |places, (name, number)| places.with(name, number))
    }

    /// Returns the discovery document as it is unless a script changes it.
    fn unchanged_discovery(&self) -> Value {
        self.templates.document(Document::Discovery, &self.places())
    }

    /// Returns the text of a document, changed as the script says.
    fn written(&self, document: Document, mut value: Value) -> String {
        let script = lock(&self.script);
        let change = match document {
            Document::Discovery => &script.document,
            Document::Keys => &script.keys,
            Document::Tokens => &script.tokens,
            Document::Header => &script.header,
            Document::Claims => &script.claims,
            Document::UserInfo => &script.user_info,
        };
        change.iter().for_each(|change| change(&mut value));
        let text = value.to_string();
        script.written.as_ref().map_or(text.clone(), |written| written(document, text))
    }

    fn answer(&self, path: &str, headers: &http::HeaderMap, body: &[u8]) -> Content {
        let discovery = self.unchanged_discovery();
        let is = |endpoint: &str| discovery[endpoint] == format!("{}{path}", self.base);
        let issuer = text(&discovery["issuer"]);
        let found = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        if found == format!("{}{path}", self.base) {
            self.json_of(200, self.written(Document::Discovery, discovery))
        } else if is("jwks_uri") {
            self.json_of(200, self.written(Document::Keys, self.keys()))
        } else if is("token_endpoint") {
            self.exchange(headers, body)
        } else if is("userinfo_endpoint") {
            self.user_info(headers)
        } else {
            self.json_of(404, json!({"error": "not_found"}).to_string())
        }
    }

    fn key_id(&self) -> Option<&'static str> {
        lock(&self.script).key_id
    }

    fn keys(&self) -> Value {
        let mut keys = self.templates.document(Document::Keys, &self.places());
        if let Some(name) = self.key_id() {
            keys["keys"][0]["kid"] = json!(name);
        }
        keys
    }

    /// Exchanges a code once, for a client that knows its secret and the verifier.
    fn exchange(&self, headers: &http::HeaderMap, body: &[u8]) -> Content {
        let form = pairs(std::str::from_utf8(body).unwrap());
        match headers.get("authorization") {
            Some(basic) => {
                let credentials = format!("Basic {}", STANDARD.encode(credentials()));
                assert_eq!(basic.to_str().unwrap(), credentials);
            }
            None => {
                let given = (&*form["client_id"], &*form["client_secret"]);
                assert_eq!(given, (CLIENT_ID, CLIENT_SECRET));
            }
        }
        assert_eq!((&*form["grant_type"], &*form["redirect_uri"]), ("authorization_code", CALLBACK));
        let code = lock(&self.codes).remove(&form["code"]);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
        let Some(code) = code.filter(|code| code.challenge == challenge) else {
            let refusal =
                json!({"error": "invalid_grant", "error_description": "<b>your code is unknown</b>"});
            return self.json_of(400, refusal.to_string());
        };
        let access = format!("access-{}", form["code"]);
        let subject = code.claims["sub"].clone();
        let claims = self.written(Document::Claims, code.claims);
        let signed = lock(&self.script).signed;
        let token = self.token(signed, &claims);
        lock(&self.secrets).extend([
            ("verifier", form["code_verifier"].clone()),
            ("ID token", token.clone()),
            ("access token of the provider", access.clone()),
        ]);
        let places = code.places.with("sub", subject.as_str().unwrap_or_default());
        lock(&self.bearers).insert(access.clone(), places.clone());
        let places = places.with("access_token", access).with("id_token", token);
        let tokens = self.templates.document(Document::Tokens, &places);
        self.json_of(200, self.written(Document::Tokens, tokens))
    }

    fn user_info(&self, headers: &http::HeaderMap) -> Content {
        let bearer = headers["authorization"].to_str().unwrap().strip_prefix("Bearer ").unwrap();
        let places = lock(&self.bearers)[bearer].clone();
        let answer = self.written(Document::UserInfo, self.templates.document(Document::UserInfo, &places));
        let signed = lock(&self.script).user_info_signed;
        match signed {
            Some(signed) => (200, "application/jwt; charset=utf-8", self.token(signed, &answer).into()),
            None => self.json_of(200, answer),
        }
    }

    /// Returns a token with these claims.
    fn token(&self, signed: Signed, claims: &str) -> String {
        let mut header = self.templates.document(Document::Header, &self.places());
        let algorithm = match signed {
            Signed::Rs256 | Signed::Stranger | Signed::Tampered => "RS256",
            Signed::Es256 => "ES256",
            Signed::Hs256 | Signed::PublicKey => "HS256",
            Signed::None => "none",
        };
        header["alg"] = json!(algorithm);
        if signed == Signed::Es256 {
            header["kid"] = json!("curve");
        } else if let Some(name) = self.key_id() {
            header["kid"] = json!(name);
        }
        let header = URL_SAFE_NO_PAD.encode(self.written(Document::Header, header));
        let message = |claims: &str| format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
        let signature = self.signer.sign(signed, message(claims).as_bytes());
        let message = match signed {
            Signed::Tampered => message(&claims.replace("\"sub\":\"", "\"sub\":\"other-")),
            _ => message(claims),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Returns id and secret of the client, as in a form (RFC 6749, 2.3.1).
fn credentials() -> String {
    format!("{CLIENT_ID}:{}", CLIENT_SECRET.replace(' ', "+"))
}

/// Returns the fields of a query or form.
pub fn pairs(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            other => other,
        });
    }
    String::from_utf8(decoded).unwrap()
}
