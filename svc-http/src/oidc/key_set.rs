//! Reads the provider's keys (RFC 7517) and verifies tokens with them (RFC 7515).
//!
//! A key that cannot be used is skipped: a key of an unsupported type, a key for encryption, or a malformed
//! key. Only asymmetric algorithms are accepted, because other parties could know a symmetric key. A key
//! inside a token is never used. Only the algorithm, the key id and the absence of critical extensions in a
//! token's header matter.

use std::collections::BTreeMap;
use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::value::RawValue;

use super::document::{Document, DocumentKind};

/// Accepted signature algorithms, all of them asymmetric.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Minimum bytes of an RSA key's modulus.
const RSA_MODULUS_BYTES_MIN: usize = 256;

/// Base64 decoder for the numbers in keys. Some providers add padding.
const KEY_NUMBER_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Type of a key, which determines the algorithms that the key may be used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyType {
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl KeyType {
    fn for_algorithm(algorithm: Algorithm) -> Option<Self> {
        match algorithm {
            Algorithm::ES256 => Some(Self::P256),
            Algorithm::ES384 => Some(Self::P384),
            Algorithm::EdDSA => Some(Self::Ed25519),
            other => ALGORITHMS.contains(&other).then_some(Self::Rsa),
        }
    }
}

/// A public key of the provider.
struct Key {
    /// Key id (`kid`) by which tokens refer to the key.
    id: Option<String>,
    /// The only algorithm that the key may be used with; `None` if the key does not restrict the algorithm.
    algorithm: Option<String>,
    key_type: KeyType,
    key: DecodingKey,
}

impl Key {
    fn parse(json: &str) -> Result<Self, String> {
        let document = Document::parse(json.as_bytes())?;
        let purpose: Option<String> = document.checked_member("use")?;
        if purpose.is_some_and(|purpose| purpose != "sig") {
            return Err("it is not for signatures".to_owned());
        }
        let number = |name: &str| {
            let text: String = document.required_member(name)?;
            KEY_NUMBER_BASE64.decode(text).map_err(|_| format!("its `{name}` is not base64url"))
        };
        let kind: String = document.required_member("kty")?;
        let curve: Option<String> = document.optional_member("crv");
        let (key_type, key) = match (kind.as_str(), curve.as_deref()) {
            ("RSA", _) => (KeyType::Rsa, rsa_key(&number("n")?, &number("e")?)?),
            ("EC", Some("P-256")) => (KeyType::P256, elliptic_curve_key(&number("x")?, &number("y")?, 32)?),
            ("EC", Some("P-384")) => (KeyType::P384, elliptic_curve_key(&number("x")?, &number("y")?, 48)?),
            ("OKP", Some("Ed25519")) => (KeyType::Ed25519, DecodingKey::from_ed_der(&number("x")?)),
            _ => return Err("its type is not supported".to_owned()),
        };
        Ok(Self {
            id: document.optional_member("kid"),
            algorithm: document.checked_member("alg")?,
            key_type,
            key,
        })
    }

    fn can_verify(&self, algorithm: Algorithm) -> bool {
        let own = self.algorithm.as_deref();
        KeyType::for_algorithm(algorithm) == Some(self.key_type)
            && own.is_none_or(|own| Algorithm::from_str(own).is_ok_and(|own| own == algorithm))
    }
}

/// Creates an RSA key from its modulus and exponent. Removes leading zeros, which some providers write.
fn rsa_key(modulus: &[u8], exponent: &[u8]) -> Result<DecodingKey, String> {
    let [modulus, exponent] = [modulus, exponent].map(|number| {
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        number.get(zeros..).unwrap_or_default()
    });
    if modulus.len() < RSA_MODULUS_BYTES_MIN || exponent.is_empty() {
        return Err("its modulus has fewer than 2,048 bits, or its exponent is zero".to_owned());
    }
    Ok(DecodingKey::from_rsa_raw_components(modulus, exponent))
}

/// Creates an elliptic-curve key from the coordinates of its point. Adds leading zeros, which some providers
/// omit.
fn elliptic_curve_key(x: &[u8], y: &[u8], coordinate_bytes: usize) -> Result<DecodingKey, String> {
    // 4 marks the uncompressed form of a point (SEC 1, 2.3.3).
    let mut bytes = vec![4];
    for coordinate in [x, y] {
        let zeros =
            coordinate_bytes.checked_sub(coordinate.len()).ok_or("a coordinate is too long for its curve")?;
        bytes.extend(std::iter::repeat_n(0, zeros));
        bytes.extend_from_slice(coordinate);
    }
    Ok(DecodingKey::from_ec_der(&bytes))
}

/// Usable public keys of the provider.
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Parses a key set, and logs the faults of all skipped keys in one message.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let document = Document::parse(json)?;
        let given: Vec<&RawValue> = document.required_member("keys")?;
        let mut keys = Vec::new();
        let mut skipped = BTreeMap::<String, usize>::new();
        for key in given {
            match Key::parse(key.get()) {
                Ok(key) => keys.push(key),
                Err(why) => *skipped.entry(why).or_default() += 1,
            }
        }
        if !skipped.is_empty() {
            tracing::info!(document = %DocumentKind::Keys, used = keys.len(), ?skipped, "keys are skipped");
        }
        Ok(Self(keys))
    }

    /// Returns the keys that may have signed a token: the suitable keys with the token's key id, or else the
    /// only suitable key.
    ///
    /// A token with a key id is never verified with a key that has another id.
    fn candidates(&self, algorithm: Algorithm, key_id: Option<&str>) -> Vec<&Key> {
        let fitting: Vec<&Key> = self.0.iter().filter(|key| key.can_verify(algorithm)).collect();
        let is_named = |key: &Key| key_id.is_some() && key.id.as_deref() == key_id;
        let (named, others): (Vec<&Key>, Vec<&Key>) = fitting.into_iter().partition(|key| is_named(key));
        if !named.is_empty() {
            return named;
        }
        let nameless: Vec<&Key> =
            others.into_iter().filter(|key| key_id.is_none() || key.id.is_none()).collect();
        if nameless.len() == 1 { nameless } else { Vec::new() }
    }
}

/// Signed token in the compact form (RFC 7515, 7.1).
pub(super) struct Token<'t> {
    algorithm: Algorithm,
    key_id: Option<String>,
    /// Encoded header and payload of the token, which the signature covers.
    message: &'t str,
    signature: &'t str,
    payload: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Parses a token without verifying it.
    pub fn parse(token: &'t str) -> Result<Self, String> {
        let shape = || "it is not a signed token in the compact form".to_owned();
        let (message, signature) = token.rsplit_once('.').ok_or_else(shape)?;
        let (header, payload) = message.split_once('.').ok_or_else(shape)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| shape());
        let header = decode(header)?;
        let payload = decode(payload)?;
        let header = Document::parse(&header).map_err(|why| format!("of its header: {why}"))?;
        let algorithm: String = header.required_member("alg")?;
        let algorithm = Algorithm::from_str(&algorithm).ok().filter(|known| ALGORITHMS.contains(known));
        let algorithm = algorithm.ok_or("its `alg` is not one of an asymmetric key")?;
        if header.checked_member::<&RawValue>("crit")?.is_some() {
            return Err("its `crit` names extensions, and none is supported".to_owned());
        }
        Ok(Self { algorithm, key_id: header.optional_member("kid"), message, signature, payload })
    }

    /// Returns the payload if one of the keys verifies the signature.
    pub fn verified_payload(&self, keys: &KeySet) -> Option<&[u8]> {
        let is_by = |key: &&Key| {
            let verified = crypto::verify(self.signature, self.message.as_bytes(), &key.key, self.algorithm);
            verified.is_ok_and(|is_right| is_right)
        };
        keys.candidates(self.algorithm, self.key_id.as_deref()).iter().any(is_by).then_some(&*self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_the_size_of_its_curve() {
        let key = elliptic_curve_key(&[7], &[9; 32], 32).unwrap();
        let bytes = [&[4][..], &[0; 31], &[7], &[9; 32]].concat();
        assert_eq!(key.try_get_as_bytes().unwrap(), bytes);
        assert!(elliptic_curve_key(&[7; 33], &[9; 32], 32).is_err());
    }

    #[test]
    fn an_rsa_key_has_no_leading_zeros_and_is_not_short() {
        assert!(rsa_key(&[1; 255], &[1, 0, 1]).is_err(), "too short");
        assert!(
            rsa_key(&[[0; 1].as_slice(), &[1; 255]].concat(), &[1, 0, 1]).is_err(),
            "too short but for a zero"
        );
        assert!(rsa_key(&[1; 256], &[0, 0]).is_err(), "an exponent of zero");
        assert!(rsa_key(&[[0; 1].as_slice(), &[1; 256]].concat(), &[0, 1, 0, 1]).is_ok());
    }
}
