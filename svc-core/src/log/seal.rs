//! Sealing: each message has its own AES-256-GCM key (NIST SP 800-38D), wrapped by the key-encryption key and
//! kept in a small table of its own. Rows and events hold sealed bytes, never words; destroying the key destroys
//! the words everywhere at once. A fresh 96-bit nonce per sealed text; the associated data bind a text to its
//! message, field and edit, so that sealed bytes cannot be moved.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use zeroize::{Zeroize, Zeroizing};

use super::chain::sha256;
use crate::Result;
use crate::entropy::Entropy;
use crate::error::Error;
use crate::id::MessageId;

const NONCE_BYTES: usize = 12;
const KEK_ID_BYTES: usize = 8;
/// What the check value of a key-encryption key holds. The tag is what tells the right key.
const CHECKED: &[u8] = b"svc.kek-check/1";

/// The key-encryption keys: the one that wraps, and retired ones that still unwrap.
pub struct Sealer {
    current: Kek,
    retired: Vec<Kek>,
    entropy: Entropy,
}

struct Kek {
    id: [u8; KEK_ID_BYTES],
    /// The expanded key; wiped when it is dropped.
    cipher: Aes256Gcm,
}

impl Kek {
    fn new(mut key: [u8; 32]) -> Self {
        let mut id = [0; KEK_ID_BYTES];
        id.iter_mut()
            .zip(sha256(&[b"svc.kek-id/1".as_slice(), &key].concat()))
            .for_each(|(to, from)| *to = from);
        let cipher = cipher(&key);
        key.zeroize();
        Self { id, cipher }
    }
}

/// The key of one message.
pub struct MessageKey(Zeroizing<[u8; 32]>);

impl Sealer {
    /// A sealer that wraps with `current` and unwraps with any.
    pub fn new(current: [u8; 32], retired: &[[u8; 32]], entropy: Entropy) -> Self {
        Self {
            current: Kek::new(current),
            retired: retired.iter().map(|key| Kek::new(*key)).collect(),
            entropy,
        }
    }

    /// The id of the key-encryption key that wraps. It can be shown: it says nothing about the key.
    pub fn current_id(&self) -> &[u8] {
        &self.current.id
    }

    /// The check value of the configured key `id`: only that key opens it.
    pub fn check_value(&self, id: &[u8]) -> Result<Vec<u8>> {
        encrypt(&self.kek(id)?.cipher, &check_aad(id), CHECKED, &self.entropy)
    }

    /// Whether the key `id` is configured and opens its check value.
    pub fn opens_check(&self, id: &[u8], sealed: &[u8]) -> bool {
        self.kek(id)
            .is_ok_and(|kek| decrypt(&kek.cipher, &check_aad(id), sealed).is_ok_and(|found| found == CHECKED))
    }

    /// The id of the key-encryption key that wrapped a message key.
    pub fn wrapped_by(wrapped: &[u8]) -> Option<&[u8]> {
        wrapped.get(..KEK_ID_BYTES)
    }

    fn kek(&self, id: &[u8]) -> Result<&Kek> {
        std::iter::once(&self.current).chain(&self.retired).find(|kek| kek.id == id).ok_or_else(|| {
            Error::internal("a message key is wrapped by a key-encryption key that is not configured")
        })
    }

    /// Draws a fresh message key.
    pub fn new_key(&self) -> Result<MessageKey> {
        Ok(MessageKey(Zeroizing::new(self.entropy.bytes()?)))
    }

    /// The key as the database keeps it: which KEK, nonce, wrapped key.
    pub fn wrap(&self, message: MessageId, key: &MessageKey) -> Result<Vec<u8>> {
        let mut wrapped = self.current.id.to_vec();
        wrapped.extend(encrypt(&self.current.cipher, &wrap_aad(message), key.0.as_slice(), &self.entropy)?);
        Ok(wrapped)
    }

    /// Unwraps what [`Sealer::wrap`] made.
    pub fn unwrap(&self, message: MessageId, wrapped: &[u8]) -> Result<MessageKey> {
        let (id, sealed) = wrapped.split_at_checked(KEK_ID_BYTES).ok_or_else(broken)?;
        let key = Zeroizing::new(decrypt(&self.kek(id)?.cipher, &wrap_aad(message), sealed)?);
        let key: [u8; 32] = key.as_slice().try_into().map_err(|_| broken())?;
        Ok(MessageKey(Zeroizing::new(key)))
    }

    /// Seals `words` as `field` of `message` at edit number `edit`.
    pub fn seal(
        &self,
        key: &MessageKey,
        message: MessageId,
        field: &str,
        edit: i64,
        words: &[u8],
    ) -> Result<Vec<u8>> {
        encrypt(&cipher(&key.0), &text_aad(message, field, edit), words, &self.entropy)
    }

    /// Opens what [`Sealer::seal`] made.
    pub fn open(
        &self,
        key: &MessageKey,
        message: MessageId,
        field: &str,
        edit: i64,
        sealed: &[u8],
    ) -> Result<Vec<u8>> {
        decrypt(&cipher(&key.0), &text_aad(message, field, edit), sealed)
    }
}

fn wrap_aad(message: MessageId) -> Vec<u8> {
    [b"svc.message-key/1".as_slice(), message.uuid().as_bytes()].concat()
}

fn check_aad(id: &[u8]) -> Vec<u8> {
    [b"svc.kek-check/1".as_slice(), id].concat()
}

fn text_aad(message: MessageId, field: &str, edit: i64) -> Vec<u8> {
    [b"svc.sealed/1".as_slice(), message.uuid().as_bytes(), &edit.to_be_bytes(), field.as_bytes()].concat()
}

fn encrypt(cipher: &Aes256Gcm, aad: &[u8], plain: &[u8], entropy: &Entropy) -> Result<Vec<u8>> {
    let nonce: [u8; NONCE_BYTES] = entropy.bytes()?;
    let sealed = cipher.encrypt(&Nonce::from(nonce), Payload { msg: plain, aad }).map_err(|_| broken())?;
    Ok([nonce.as_slice(), &sealed].concat())
}

fn decrypt(cipher: &Aes256Gcm, aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(broken)?;
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| broken())?;
    cipher.decrypt(&Nonce::from(nonce), Payload { msg: sealed, aad }).map_err(|_| broken())
}

fn cipher(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(key.into())
}

fn broken() -> Error {
    Error::internal(
        "a sealed text or key does not open: it was altered, or the key-encryption key is another",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_words_open_only_in_their_place() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let (a, b) = (MessageId::from(uuid::Uuid::from_u128(1)), MessageId::from(uuid::Uuid::from_u128(2)));
        let key = sealer.new_key().unwrap();
        let sealed = sealer.seal(&key, a, "words", 0, b"hello").unwrap();
        assert_eq!(sealer.open(&key, a, "words", 0, &sealed).unwrap(), b"hello");
        for (message, field, edit) in [(b, "words", 0), (a, "other", 0), (a, "words", 1)] {
            assert!(sealer.open(&key, message, field, edit, &sealed).is_err());
        }
        let wrapped = sealer.wrap(a, &key).unwrap();
        assert!(sealer.unwrap(b, &wrapped).is_err());
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        let again = rotated.unwrap(a, &wrapped).unwrap();
        assert_eq!(rotated.open(&again, a, "words", 0, &sealed).unwrap(), b"hello");
        assert!(Sealer::new([8; 32], &[], Entropy::System).unwrap(a, &wrapped).is_err());
    }

    #[test]
    fn a_check_value_opens_for_its_key_alone() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let id = sealer.current_id().to_vec();
        let sealed = sealer.check_value(&id).unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        assert!(sealer.opens_check(&id, &sealed) && rotated.opens_check(&id, &sealed));
        assert!(!Sealer::new([8; 32], &[], Entropy::System).opens_check(&id, &sealed));
        // Neither another key's value under this id nor a cut one passes.
        let other = rotated.check_value(rotated.current_id()).unwrap();
        assert!(!rotated.opens_check(&id, &other) && !sealer.opens_check(&id, &sealed[..20]));
    }
}
