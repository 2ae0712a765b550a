//! The keys of a provider, and its signatures.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256};
use aws_lc_rs::{hmac, rsa};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::CLIENT_SECRET;

/// The key of the signature of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signed {
    /// The RSA key.
    #[default]
    Rs256,
    /// The elliptic curve key.
    Es256,
    /// Another RSA key, under the name of the right one.
    Stranger,
    /// The client's secret, as if it were the key of the provider.
    Hs256,
    /// The public RSA key, as if it were a secret.
    PublicKey,
    /// No signature.
    None,
    /// The RSA key, but a byte of the claims is changed afterwards.
    Tampered,
}

/// The keys of a provider.
pub(super) struct Signer {
    rsa: rsa::KeyPair,
    stranger: rsa::KeyPair,
    curve: EcdsaKeyPair,
}

impl Signer {
    pub fn new() -> Self {
        let rsa = || rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        let curve = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { rsa: rsa(), stranger: rsa(), curve }
    }

    /// Returns the public numbers of the keys by their names in a key set.
    ///
    /// `o` is the modulus of a key that the provider does not use.
    pub fn numbers(&self) -> [(&'static str, String); 5] {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let public = self.rsa.public_key();
        let point = self.curve.public_key().as_ref();
        let other = self.stranger.public_key().modulus().big_endian_without_leading_zero();
        [
            ("n", number(public.modulus().big_endian_without_leading_zero())),
            ("e", number(public.exponent().big_endian_without_leading_zero())),
            ("x", number(&point[1..33])),
            ("y", number(&point[33..])),
            ("o", number(other)),
        ]
    }

    pub fn sign(&self, by: Signed, message: &[u8]) -> Vec<u8> {
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
