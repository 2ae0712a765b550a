//! The configuration variables for sign-in at an identity provider.

use secrecy::SecretString;

use super::is_loopback;
use super::reader::Reader;

/// The settings for sign-in at an identity provider.
#[derive(Clone, Debug)]
pub struct OidcConfig {
    /// The identity provider at which people sign in.
    pub provider: OidcProvider,
    /// The URL of the callback at this service (`SVC_OIDC_REDIRECT_URI`); may be `None` only for the mock.
    pub redirect_uri: Option<String>,
}

/// The identity provider at which people sign in, real or mocked.
#[derive(Clone, Debug)]
pub enum OidcProvider {
    /// A mock provider that accepts any claimed identity (`SVC_OIDC_MOCK`).
    Mock,
    /// A real identity provider, with the client account of this service there.
    At {
        /// The issuer URL of the provider (`SVC_OIDC_ISSUER`).
        issuer: String,
        /// The client id of this service at the provider (`SVC_OIDC_CLIENT_ID`).
        client_id: String,
        /// The client secret of this service at the provider (`SVC_OIDC_CLIENT_SECRET`).
        client_secret: SecretString,
        /// Whether URLs of the provider may use http if they are on this machine.
        allow_loopback_http: bool,
        /// The requested scopes, separated by spaces, including `openid` (`SVC_OIDC_SCOPES`).
        scopes: String,
        /// Audiences that an ID token may contain in addition to the client id
        /// (`SVC_OIDC_TRUSTED_AUDIENCES`).
        trusted_audiences: Vec<String>,
    },
}

impl Reader {
    pub(super) fn oidc(&mut self, production: bool) -> Option<OidcConfig> {
        let mock = self.flag("SVC_OIDC_MOCK");
        if mock && production {
            self.reject_in_production("SVC_OIDC_MOCK");
        }
        if !self.flag("SVC_OIDC_ENABLED") {
            return None;
        }
        if self.secret("SVC_SESSION_SECRET").is_none() {
            self.reject("SVC_OIDC_ENABLED needs SVC_SESSION_SECRET, which signs the cookies of sessions");
        }
        let redirect_uri = self.provider_url("SVC_OIDC_REDIRECT_URI", production);
        if mock {
            return Some(OidcConfig { provider: OidcProvider::Mock, redirect_uri });
        }
        let issuer = self.provider_url("SVC_OIDC_ISSUER", production);
        let client_id = Some(self.text("SVC_OIDC_CLIENT_ID")).filter(|id| !id.is_empty());
        let client_secret = self.secret("SVC_OIDC_CLIENT_SECRET");
        let scopes = self.scopes();
        for (name, missing) in [
            ("SVC_OIDC_ISSUER", issuer.is_none()),
            ("SVC_OIDC_CLIENT_ID", client_id.is_none()),
            ("SVC_OIDC_CLIENT_SECRET", client_secret.is_none()),
            ("SVC_OIDC_REDIRECT_URI", redirect_uri.is_none()),
        ] {
            if missing {
                self.reject(&format!("SVC_OIDC_ENABLED needs {name}"));
            }
        }
        let provider = OidcProvider::At {
            issuer: issuer?,
            client_id: client_id?,
            client_secret: client_secret?,
            allow_loopback_http: !production,
            scopes,
            trusted_audiences: self.trusted_audiences(),
        };
        Some(OidcConfig { provider, redirect_uri })
    }

    /// Returns the requested scopes, separated by single spaces (RFC 6749, 3.3).
    fn scopes(&mut self) -> String {
        let text = self.text("SVC_OIDC_SCOPES");
        let scopes: Vec<&str> = text.split_ascii_whitespace().collect();
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        if !scopes.contains(&"openid") || !scopes.iter().all(|scope| scope.chars().all(plain)) {
            self.reject(&format!(
                "SVC_OIDC_SCOPES: expected scopes separated by spaces, openid among them, found \"{text}\""
            ));
        }
        scopes.join(" ")
    }

    fn trusted_audiences(&self) -> Vec<String> {
        let text = self.text("SVC_OIDC_TRUSTED_AUDIENCES");
        let audiences = text.split(',').map(str::trim).filter(|audience| !audience.is_empty());
        audiences.map(str::to_owned).collect()
    }

    /// Returns the URL in the variable `name`, or `None` if the variable is unset.
    ///
    /// Reports an error unless the URL is https, or http on this machine outside of production.
    fn provider_url(&mut self, name: &str, production: bool) -> Option<String> {
        let text = self.text(name);
        if text.is_empty() {
            return None;
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '#' | '"' | '<' | '>');
        let is_safe = scheme == "https" || (scheme == "http" && !production && is_loopback(authority));
        if !is_safe || authority.is_empty() || authority.contains('@') || !text.chars().all(plain) {
            self.reject(&format!(
                "{name}: expected https://HOST/PATH, or http on this machine outside of production, found \
                 \"{text}\""
            ));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::OidcProvider;
    use crate::config::Config;

    /// All variables that a real provider needs.
    const WHOLE: [(&str, &str); 6] = [
        ("SVC_OIDC_ENABLED", "1"),
        ("SVC_SESSION_SECRET", "the key of this test's cookies, as long as it must be"),
        ("SVC_OIDC_ISSUER", "https://idp.example/realm"),
        ("SVC_OIDC_CLIENT_ID", "svc"),
        ("SVC_OIDC_CLIENT_SECRET", "a-secret-of-the-client"),
        ("SVC_OIDC_REDIRECT_URI", "https://svc.example/auth/oidc/callback"),
    ];

    /// Reads a complete configuration with these variables changed.
    fn read(changed: &[(&str, &str)]) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let kept = WHOLE.iter().filter(|(name, _)| !changed.iter().any(|(other, _)| other == name));
        let vars = kept.chain(changed).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::read(vars, dir.path()).map_err(|error| error.detail().to_owned())
    }

    #[test]
    fn a_provider_is_configured_whole_or_not_at_all() {
        assert!(read(&[]).unwrap().oidc.is_some());
        assert!(read(&[("SVC_OIDC_ENABLED", "0"), ("SVC_OIDC_ISSUER", "")]).unwrap().oidc.is_none());
        for (name, _) in WHOLE.iter().skip(1) {
            let refusal = read(&[(name, "")]).unwrap_err();
            assert!(refusal.contains(&format!("SVC_OIDC_ENABLED needs {name}")), "{refusal}");
        }
    }

    #[test]
    fn the_mock_needs_no_provider_and_no_production() {
        let rest =
            ["SVC_OIDC_ISSUER", "SVC_OIDC_CLIENT_ID", "SVC_OIDC_CLIENT_SECRET", "SVC_OIDC_REDIRECT_URI"];
        let mock: Vec<(&str, &str)> =
            rest.map(|name| (name, "")).into_iter().chain([("SVC_OIDC_MOCK", "1")]).collect();
        assert!(read(&mock).unwrap().oidc.is_some());
        for enabled in ["0", "1"] {
            let production = [("SVC_ENV", "production"), ("SVC_OIDC_ENABLED", enabled)];
            let refusal = read(&[&mock[..], &production].concat()).unwrap_err();
            assert!(
                refusal.contains("SVC_OIDC_MOCK is not allowed while SVC_ENV is production"),
                "{refusal}"
            );
        }
    }

    #[test]
    fn addresses_are_https_or_on_this_machine() {
        for (issuer, development, production) in [
            ("https://idp.example", true, true),
            ("https://10.0.0.1:8443/realm", true, true),
            ("http://localhost:8080", true, false),
            ("http://127.0.0.1:8080/realm", true, false),
            ("http://[::1]:8080", true, false),
            ("http://idp.example", false, false),
            ("http://localhost.evil.example", false, false),
            ("http://127.0.0.1@evil.example", false, false),
            ("https://user@idp.example", false, false),
            ("https://", false, false),
            ("https://idp.example/#a", false, false),
            ("https://idp.example/a b", false, false),
            ("ftp://idp.example", false, false),
            ("idp.example", false, false),
        ] {
            for (environment, wanted) in [("development", development), ("production", production)] {
                let found = read(&[("SVC_OIDC_ISSUER", issuer), ("SVC_ENV", environment)]);
                assert_eq!(found.is_ok(), wanted, "{issuer} in {environment}");
            }
        }
    }

    #[test]
    fn scopes_are_separated_by_spaces_and_have_openid() {
        for (given, wanted) in [
            ("", Some("openid email profile")),
            ("openid", Some("openid")),
            (" email  openid\turn:idp:roles ", Some("email openid urn:idp:roles")),
            ("email profile", None),
            ("OpenID", None),
            ("openid,email", None),
            ("openid \"email\"", None),
            ("openid émail", None),
        ] {
            let found = read(&[("SVC_OIDC_SCOPES", given)]).map(|config| config.oidc.unwrap().provider);
            match (found, wanted) {
                (Ok(OidcProvider::At { scopes, .. }), Some(wanted)) => assert_eq!(scopes, wanted),
                (Err(refusal), None) => assert!(refusal.contains("SVC_OIDC_SCOPES: expected"), "{refusal}"),
                (found, _) => panic!("{given:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn trusted_audiences_are_separated_by_commas() {
        for (given, wanted) in
            [("", &[][..]), ("352", &["352"]), (" a b ,, c@project,", &["a b", "c@project"])]
        {
            let provider = read(&[("SVC_OIDC_TRUSTED_AUDIENCES", given)]).unwrap().oidc.unwrap().provider;
            let OidcProvider::At { trusted_audiences, .. } = provider else { panic!("{provider:?}") };
            assert_eq!(trusted_audiences, wanted, "{given:?}");
        }
    }

    #[test]
    fn the_secret_of_the_client_is_not_shown() {
        let config = read(&[]).unwrap();
        assert!(!format!("{config:?}").contains("a-secret-of-the-client"));
    }
}
