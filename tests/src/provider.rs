//! An identity provider in this process, which a test can make lie.
//!
//! It has the endpoints that a client needs: the discovery document, the keys and the exchange of a code. It
//! checks what the client sends as a careful provider does. What a person does there is
//! [`Provider::sign_in`], called with the address that the browser was sent to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use aws_lc_rs::{hmac, rsa};
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

/// What this service is to the provider.
const CLIENT_ID: &str = "svc";
const CLIENT_SECRET: &str = "the secret of the client";
/// Where the provider sends browsers back to.
pub const CALLBACK: &str = "https://svc.example/auth/oidc/callback";

/// What the signature of a token is made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signed {
    /// The RSA key.
    #[default]
    Rs256,
    /// The key on a curve.
    Es256,
    /// Another RSA key, under the name of the right one.
    Stranger,
    /// The client's secret, as if it were the key of the provider.
    Hs256,
    /// The public RSA key, as if it were a secret.
    PublicKey,
    /// Nothing.
    None,
    /// The RSA key, and a byte of the claims is changed afterwards.
    Tampered,
}

/// How an endpoint answers.
#[derive(Clone, Debug)]
pub enum Answers {
    /// This document, as JSON.
    Json(u16, Value),
    /// An address elsewhere, where everything is right.
    Redirect,
    /// More bytes than anybody reads.
    Huge,
    /// Something that is no JSON.
    Page,
    /// Not at all, on a connection that stays open.
    Never,
}

/// What the provider does differently from a good one.
#[derive(Default)]
pub struct Script {
    /// Changes the claims of a token.
    pub claims: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the header of a token.
    pub header: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// Changes the discovery document.
    pub document: Option<Box<dyn Fn(&mut Value) + Send>>,
    /// What tokens are signed with.
    pub signed: Signed,
    /// What endpoints answer instead, by path.
    pub answers: BTreeMap<&'static str, Answers>,
    /// The name of the RSA key.
    pub key_id: Option<&'static str>,
}

/// A code that was given to a browser.
struct Code {
    challenge: String,
    claims: Value,
}

struct State {
    issuer: String,
    rsa: rsa::KeyPair,
    stranger: rsa::KeyPair,
    curve: EcdsaKeyPair,
    script: Mutex<Script>,
    codes: Mutex<BTreeMap<String, Code>>,
    /// How often each path was asked for.
    asked: Mutex<BTreeMap<String, usize>>,
    /// What was exchanged that nobody else may know, by name.
    secrets: Mutex<Vec<(&'static str, String)>>,
}

/// A running provider.
pub struct Provider {
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Provider {
    /// Starts a provider with keys of its own.
    pub fn start() -> Self {
        Self::begin(|address| format!("http://{address}"), None)
    }

    /// Starts one that speaks TLS as `localhost`, with a certificate of the authority in `folder/roots.pem`.
    pub fn start_tls(folder: &Path) -> Self {
        let authority = tls::authority();
        std::fs::write(folder.join("roots.pem"), authority.pem()).unwrap();
        let acceptor = tls::acceptor(&tls::issue(&authority, "localhost", folder, "idp"), &authority, false);
        Self::begin(|address| format!("https://localhost:{}", address.port()), Some(acceptor))
    }

    fn begin(issuer: impl Fn(SocketAddr) -> String, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let rsa = || rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        let state = Arc::new(State {
            issuer: issuer(listener.local_addr().unwrap()),
            rsa: rsa(),
            stranger: rsa(),
            curve: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            script: Mutex::default(),
            codes: Mutex::default(),
            asked: Mutex::default(),
            secrets: Mutex::default(),
        });
        let task = runtime().spawn(serve(listener, acceptor, Arc::clone(&state)));
        Self { state, task }
    }

    /// What it is called.
    pub fn issuer(&self) -> String {
        self.state.issuer()
    }

    /// The settings of a server whose people sign in here.
    pub fn settings(&self) -> HttpSettings {
        let provider = OidcProvider::At {
            issuer: self.issuer(),
            client_id: CLIENT_ID.to_owned(),
            client_secret: SecretString::from(CLIENT_SECRET),
            allow_loopback_http: true,
        };
        let oidc = OidcConfig { provider, redirect_uri: Some(CALLBACK.to_owned()) };
        HttpSettings { oidc: Some(oidc), ..HttpSettings::default() }
    }

    /// The variables of a server whose people sign in here.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("SVC_OIDC_ENABLED", "1".to_owned()),
            ("SVC_OIDC_ISSUER", self.issuer()),
            ("SVC_OIDC_CLIENT_ID", CLIENT_ID.to_owned()),
            ("SVC_OIDC_CLIENT_SECRET", CLIENT_SECRET.to_owned()),
            ("SVC_OIDC_REDIRECT_URI", CALLBACK.to_owned()),
        ]
    }

    /// What it does from now on.
    pub fn does(&self, script: Script) {
        *lock(&self.state.script) = script;
    }

    /// How often it was asked for this path.
    pub fn asked(&self, path: &str) -> usize {
        lock(&self.state.asked).get(path).copied().unwrap_or_default()
    }

    /// What it has exchanged that only the service may know, by name, and what the service knows it by.
    pub fn secrets(&self) -> Vec<(&'static str, String)> {
        let mut secrets = lock(&self.state.secrets).clone();
        secrets.push(("client secret of the provider", CLIENT_SECRET.to_owned()));
        secrets
    }

    /// Signs a person in who came with the address `sent_to`, and returns the query of the way back.
    ///
    /// `person` are claims about that person, and `now` is the time by the clock of the provider.
    pub fn sign_in(&self, now: Time, sent_to: &str, person: &Value) -> Vec<(String, String)> {
        let (endpoint, query) = sent_to.split_once('?').unwrap();
        assert_eq!(endpoint, format!("{}/authorize", self.issuer()));
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
        let now = now.micros() / 1_000_000;
        let mut claims = json!({
            "iss": self.issuer(), "aud": CLIENT_ID, "nonce": asked["nonce"], "iat": now, "exp": now + 300,
        });
        claims.as_object_mut().unwrap().extend(person.as_object().unwrap().clone());
        let mut codes = lock(&self.state.codes);
        let code = format!("code-{}", asked["nonce"]);
        codes.insert(code.clone(), Code { challenge: asked["code_challenge"].clone(), claims });
        let back = [("code", code), ("state", asked["state"].clone()), ("iss", self.issuer())];
        back.map(|(name, value)| (name.to_owned(), value)).to_vec()
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
        let (state, acceptor) = (Arc::clone(&state), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => converse(stream, state).await,
                // Who does not trust the certificate goes away.
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

type Answered = Result<Response<Full<Bytes>>, std::convert::Infallible>;

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    *lock(&state.asked).entry(path.clone()).or_default() += 1;
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let scripted = lock(&state.script).answers.get(path.trim_start_matches("/moved")).cloned();
    let scripted = scripted.filter(|_| !path.starts_with("/moved"));
    let (status, document) = match scripted {
        Some(Answers::Json(status, document)) => (status, document),
        Some(Answers::Redirect) => {
            let moved = format!("{}/moved{path}", state.issuer());
            let response = Response::builder().status(307).header("location", moved);
            return Ok(response.body(Full::default()).unwrap());
        }
        Some(Answers::Huge) => (200, json!({"filler": "x".repeat(4 << 20)})),
        Some(Answers::Page) => return Ok(Response::new(Full::from("<html>Welcome</html>"))),
        Some(Answers::Never) => std::future::pending().await,
        None => state.answer(path.trim_start_matches("/moved"), &head.headers, &body),
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::from(document.to_string())).unwrap())
}

impl State {
    fn issuer(&self) -> String {
        self.issuer.clone()
    }

    fn answer(&self, path: &str, headers: &http::HeaderMap, body: &[u8]) -> (u16, Value) {
        match path {
            "/.well-known/openid-configuration" => (200, self.document()),
            "/keys" => (200, self.keys()),
            "/token" => self.exchange(headers, body),
            _ => (404, json!({"error": "not_found"})),
        }
    }

    fn document(&self) -> Value {
        let issuer = self.issuer();
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
            "authorization_response_iss_parameter_supported": true,
        });
        if let Some(change) = &lock(&self.script).document {
            change(&mut document);
        }
        document
    }

    fn key_id(&self) -> &'static str {
        lock(&self.script).key_id.unwrap_or("rsa")
    }

    fn keys(&self) -> Value {
        let public = self.rsa.public_key();
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = self.curve.public_key().as_ref();
        json!({"keys": [
            {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.key_id(),
             "n": number(public.modulus().big_endian_without_leading_zero()),
             "e": number(public.exponent().big_endian_without_leading_zero())},
            {"kty": "EC", "use": "sig", "alg": "ES256", "crv": "P-256", "kid": "curve",
             "x": number(&point[1..33]), "y": number(&point[33..])},
        ]})
    }

    /// Exchanges a code once, for the client that knows its secret and the verifier.
    fn exchange(&self, headers: &http::HeaderMap, body: &[u8]) -> (u16, Value) {
        let form = pairs(std::str::from_utf8(body).unwrap());
        let credentials = format!("Basic {}", STANDARD.encode(credentials()));
        assert_eq!(headers["authorization"].to_str().unwrap(), credentials);
        assert_eq!((&*form["grant_type"], &*form["redirect_uri"]), ("authorization_code", CALLBACK));
        let code = lock(&self.codes).remove(&form["code"]);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
        match code.filter(|code| code.challenge == challenge) {
            Some(code) => {
                let (token, access) = (self.token(code.claims), format!("access-{}", form["code"]));
                lock(&self.secrets).extend([
                    ("verifier", form["code_verifier"].clone()),
                    ("ID token", token.clone()),
                    ("access token of the provider", access.clone()),
                ]);
                (200, json!({"access_token": access, "token_type": "Bearer", "id_token": token}))
            }
            None => {
                (400, json!({"error": "invalid_grant", "error_description": "<b>your code is unknown</b>"}))
            }
        }
    }

    fn token(&self, mut claims: Value) -> String {
        let key_id = self.key_id();
        let script = lock(&self.script);
        let (algorithm, kid) = match script.signed {
            Signed::Rs256 | Signed::Stranger | Signed::Tampered => ("RS256", key_id),
            Signed::Es256 => ("ES256", "curve"),
            Signed::Hs256 | Signed::PublicKey => ("HS256", key_id),
            Signed::None => ("none", key_id),
        };
        let mut header = json!({"typ": "JWT", "alg": algorithm, "kid": kid});
        script.header.iter().for_each(|change| change(&mut header));
        script.claims.iter().for_each(|change| change(&mut claims));
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.signature(script.signed, signed.as_bytes());
        if script.signed == Signed::Tampered {
            claims["sub"] = json!(format!("{}-other", text(&claims["sub"])));
        }
        let signed = format!("{}.{}", part(&header), part(&claims));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn signature(&self, by: Signed, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        let by_rsa = |key: &rsa::KeyPair| {
            let mut signature = vec![0; key.public_modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
            signature
        };
        let by_secret =
            |secret: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec();
        match by {
            Signed::Rs256 | Signed::Tampered => by_rsa(&self.rsa),
            Signed::Stranger => by_rsa(&self.stranger),
            Signed::Es256 => self.curve.sign(&random, message).unwrap().as_ref().to_vec(),
            Signed::Hs256 => by_secret(CLIENT_SECRET.as_bytes()),
            Signed::PublicKey => by_secret(self.rsa.public_key().as_ref()),
            Signed::None => Vec::new(),
        }
    }
}

/// Id and secret of the client, as a form has them (RFC 6749, 2.3.1).
fn credentials() -> String {
    format!("{CLIENT_ID}:{}", CLIENT_SECRET.replace(' ', "+"))
}

/// The fields of a query or form.
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
