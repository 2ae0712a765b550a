//! Encrypts and decrypts all sealed data with AES-256-GCM (NIST SP 800-38D).
//!
//! Each call uses a fresh 96-bit nonce, which precedes the sealed bytes, and associated data that bind the
//! bytes to the object that contains them. The callers define the associated data and supply the keys.

use aes_gcm::aead::{Aead, AeadInOut, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::Result;
use crate::entropy::Entropy;
use crate::error::Error;

const NONCE_BYTES: usize = 12;
const KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

/// The error for sealed data that cannot be opened.
///
/// The data was altered or moved, its key is gone, or the key-encryption key is a different one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a sealed text or key cannot be opened: it was altered, or the key-encryption key is a different one"
)]
pub struct DecryptionFailed;

/// A key of 32 random bytes that seals one message and its edits. Stored only in wrapped form; zeroed when
/// dropped.
pub struct MessageKey(pub(super) Zeroizing<[u8; KEY_BYTES]>);

impl MessageKey {
    /// Creates a message key from its bytes.
    pub(crate) fn from_bytes(key: [u8; 32]) -> Self {
        Self(Zeroizing::new(key))
    }

    /// Returns the key as base64, for a recipient that may open this one message.
    pub(crate) fn to_base64(&self) -> String {
        STANDARD.encode(self.bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Seals a plaintext, and returns the nonce followed by the sealed bytes.
pub(super) fn encrypt(
    cipher: &Aes256Gcm,
    aad: &[u8],
    plaintext: &[u8],
    entropy: &Entropy,
) -> Result<Vec<u8>> {
    let nonce: [u8; NONCE_BYTES] = entropy.bytes()?;
    let payload = Payload { msg: plaintext, aad };
    let sealed = cipher
        .encrypt(&Nonce::from(nonce), payload)
        .map_err(|_| Error::internal("a text is too long to be sealed"))?;
    Ok([nonce.as_slice(), &sealed].concat())
}

/// Opens bytes that [`encrypt`] has sealed with the same key and associated data.
pub(super) fn decrypt(
    cipher: &Aes256Gcm,
    aad: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, DecryptionFailed> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(DecryptionFailed)?;
    let payload = Payload { msg: sealed, aad };
    cipher.decrypt(&Nonce::from(*nonce), payload).map(Zeroizing::new).map_err(|_| DecryptionFailed)
}

/// Decrypts a sealed key within its buffer, so that no other copy of the key exists.
pub(super) fn decrypt_key(
    cipher: &Aes256Gcm,
    aad: &[u8],
    sealed: &[u8],
) -> Result<MessageKey, DecryptionFailed> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(DecryptionFailed)?;
    let (key, tag) = sealed.split_first_chunk::<KEY_BYTES>().ok_or(DecryptionFailed)?;
    let tag: [u8; TAG_BYTES] = tag.try_into().map_err(|_| DecryptionFailed)?;
    let mut key = Zeroizing::new(*key);
    let opened =
        cipher.decrypt_inout_detached(&Nonce::from(*nonce), aad, key.as_mut_slice().into(), &Tag::from(tag));
    opened.map(|()| MessageKey(key)).map_err(|_| DecryptionFailed)
}

/// Creates the cipher for a key.
pub(super) fn new_cipher(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(key.into())
}
