//! The documents of a provider, as templates with placeholders.
//!
//! `{base}` is the address of the provider, `{now}` and `{now+60}` are numbers of seconds, and the other
//! placeholders are named where they are filled.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A kind of document of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Document {
    /// The discovery document.
    Discovery,
    /// The key set.
    Keys,
    /// The token response.
    Tokens,
    /// The header of a token.
    Header,
    /// The claims of the ID token.
    Claims,
    /// The UserInfo response.
    UserInfo,
}

/// The templates of a provider's documents.
#[derive(Clone)]
pub struct Templates(Value);

impl Templates {
    /// Returns those of a plain provider.
    pub fn plain() -> Self {
        Self(json!({
            "discovery": {
                "issuer": "{base}",
                "authorization_endpoint": "{base}/authorize",
                "token_endpoint": "{base}/token",
                "userinfo_endpoint": "{base}/userinfo",
                "jwks_uri": "{base}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "HS256", "none"],
                "authorization_response_iss_parameter_supported": true,
            },
            "keys": {"keys": [
                {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rsa", "n": "{n}", "e": "{e}"},
                {"kty": "EC", "use": "sig", "alg": "ES256", "crv": "P-256", "kid": "curve",
                 "x": "{x}", "y": "{y}"},
            ]},
            "tokens": {"access_token": "{access_token}", "token_type": "Bearer", "id_token": "{id_token}"},
            "header": {"typ": "JWT", "alg": "RS256", "kid": "rsa"},
            "claims": {"iss": "{base}", "aud": "{client_id}", "nonce": "{nonce}", "iat": "{now}",
                       "exp": "{now+300}"},
            "userinfo": {"sub": "{sub}"},
        }))
    }

    /// Parses those of a file with one object of all documents.
    pub fn parse(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    /// Returns a document with its placeholders filled.
    pub fn document(&self, document: Document, places: &TemplateValues) -> Value {
        let name = match document {
            Document::Discovery => "discovery",
            Document::Keys => "keys",
            Document::Tokens => "tokens",
            Document::Header => "header",
            Document::Claims => "claims",
            Document::UserInfo => "userinfo",
        };
        places.filled(&self.0[name])
    }
}

/// The values of the placeholders of templates.
#[derive(Clone, Default)]
pub struct TemplateValues {
    texts: BTreeMap<&'static str, String>,
    now: Option<i64>,
}

impl TemplateValues {
    /// Adds a placeholder.
    pub fn with(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.texts.insert(name, text.into());
        self
    }

    /// Sets the time in seconds.
    pub fn at(self, now: i64) -> Self {
        Self { now: Some(now), ..self }
    }

    fn filled(&self, template: &Value) -> Value {
        match template {
            Value::String(text) => self.time(text).unwrap_or_else(|| json!(self.text(text))),
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(members) => {
                let filled = members.iter().map(|(name, value)| (name.clone(), self.filled(value)));
                filled.collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        }
    }

    /// Returns the number for a whole text such as `{now+60}`.
    fn time(&self, text: &str) -> Option<Value> {
        let offset = text.strip_prefix("{now")?.strip_suffix('}')?;
        let offset = if offset.is_empty() { 0 } else { offset.parse::<i64>().unwrap() };
        Some(json!(self.now.unwrap() + offset))
    }

    fn text(&self, text: &str) -> String {
        self.texts
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }
}
