//! Seals the content of messages: each message has a separate AES-256-GCM key (NIST SP 800-38D).
//!
//! A leaf of the key tree of the message's key segment wraps the message's key; the key-encryption key seals
//! the nodes of that tree. Rows and events contain sealed bytes, never plaintext; cutting the leaf out of its
//! tree destroys the content everywhere at the same time. Each sealed text has a fresh 96-bit nonce; the
//! associated data bind the text to its message, field and edit, so that sealed bytes cannot be moved.

use aes_gcm::Aes256Gcm;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

pub use super::cipher::{DecryptionFailed, MessageKey};
use super::cipher::{decrypt, encrypt, new_cipher};
use super::key_tree::KeyTree;
use super::tree_cache::TreeCache;
use crate::Result;
use crate::entropy::Entropy;
use crate::error::Error;
use crate::hash::sha256;
use crate::id::{MessageId, WorkspaceId};
use crate::time::Clock;

const KEK_ID_BYTES: usize = 8;
/// Plaintext of a key-encryption key's check value. The authentication tag identifies the key.
const CHECK_PLAINTEXT: &[u8] = b"svc.kek-check/1";

/// The key-encryption keys: the current key, which seals, and retired keys, which only open.
pub struct Sealer {
    current: Kek,
    retired: Vec<Kek>,
    entropy: Entropy,
    trees: TreeCache,
}

struct Kek {
    id: [u8; KEK_ID_BYTES],
    /// The cipher with the expanded key. Zeroed when dropped.
    cipher: Aes256Gcm,
    /// The input key from which keys for other purposes are derived.
    hkdf: Hkdf<Sha256>,
}

impl Kek {
    fn new(mut key: [u8; 32]) -> Self {
        let mut id = [0; KEK_ID_BYTES];
        id.iter_mut()
            .zip(sha256(&[b"svc.kek-id/1".as_slice(), &key].concat()))
            .for_each(|(to, from)| *to = from);
        let cipher = new_cipher(&key);
        let hkdf = Hkdf::new(None, &key);
        key.zeroize();
        Self { id, cipher, hkdf }
    }
}

impl Sealer {
    /// Creates a sealer that seals with `current` and opens with any of the keys.
    pub fn new(current: [u8; 32], retired: &[[u8; 32]], entropy: Entropy) -> Self {
        Self {
            current: Kek::new(current),
            retired: retired.iter().map(|key| Kek::new(*key)).collect(),
            entropy,
            trees: TreeCache::default(),
        }
    }

    /// Sets the clock by which open key trees expire.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { trees: TreeCache::with_clock(clock), ..self }
    }

    /// Returns the id of the key-encryption key that seals.
    ///
    /// The id may be shown, because it reveals nothing about the key.
    pub fn current_id(&self) -> &[u8] {
        &self.current.id
    }

    /// Returns a new check value of the configured key with the id `key_id`, which only that key can open.
    pub fn check_value(&self, key_id: &[u8]) -> Result<Vec<u8>> {
        encrypt(
            &self.find_kek(key_id).ok_or(DecryptionFailed).map_err(Error::internal)?.cipher,
            &check_aad(key_id),
            CHECK_PLAINTEXT,
            &self.entropy,
        )
    }

    /// Returns whether `sealed` is the check value of the configured key with the id `key_id`.
    pub fn is_check_value(&self, key_id: &[u8], sealed: &[u8]) -> bool {
        let opened = self.find_kek(key_id).map(|kek| decrypt(&kek.cipher, &check_aad(key_id), sealed));
        opened.is_some_and(|opened| opened.is_ok_and(|found| found.as_slice() == CHECK_PLAINTEXT))
    }

    fn find_kek(&self, id: &[u8]) -> Option<&Kek> {
        std::iter::once(&self.current).chain(&self.retired).find(|kek| kek.id == id)
    }

    /// Returns the keys derived for `label` (HKDF-SHA256, RFC 5869): first from the current key-encryption
    /// key, then from retired ones.
    ///
    /// Derived keys are the same on every server, and reveal nothing about the key-encryption key.
    pub(crate) fn derived(&self, label: &'static str) -> Result<Vec<Zeroizing<[u8; 32]>>> {
        let derive = |kek: &Kek| {
            let mut key = Zeroizing::new([0; 32]);
            kek.hkdf.expand(label.as_bytes(), key.as_mut_slice()).map_err(Error::internal)?;
            Ok(key)
        };
        std::iter::once(&self.current).chain(&self.retired).map(derive).collect()
    }

    /// Seals bytes under the key derived for `label`. A client keeps the result and sends it back later.
    pub(crate) fn seal_with_label(&self, label: &'static str, plaintext: &[u8]) -> Result<Vec<u8>> {
        let keys = self.derived(label)?;
        let key = keys.first().ok_or(DecryptionFailed).map_err(Error::internal)?;
        encrypt(&new_cipher(key), label.as_bytes(), plaintext, &self.entropy)
    }

    /// Opens bytes that [`Sealer::seal_with_label`] has sealed under the same label, or returns `None` if
    /// that fails.
    pub(crate) fn open_with_label(&self, label: &'static str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let keys = self.derived(label).ok()?;
        keys.iter().find_map(|key| decrypt(&new_cipher(key), label.as_bytes(), sealed).ok())
    }

    /// Returns a MAC of bytes under the key for `label` (HMAC-SHA256, RFC 2104).
    ///
    /// The MAC is the same on every server, and only the servers can create it.
    pub(crate) fn create_tag(&self, label: &'static str, bytes: &[u8]) -> Result<[u8; 32]> {
        let keys = self.derived(label)?;
        let key = keys.first().ok_or(DecryptionFailed).map_err(Error::internal)?;
        Ok(mac(key, bytes)?.finalize().into_bytes().into())
    }

    /// Returns whether `tag` is the result of [`Sealer::create_tag`] for these bytes, under the current key
    /// or a retired one.
    pub(crate) fn verify_tag(&self, label: &'static str, bytes: &[u8], tag: &[u8]) -> Result<bool> {
        for key in self.derived(label)? {
            if mac(&key, bytes)?.verify_slice(tag).is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Generates a fresh message key.
    pub fn generate_message_key(&self) -> Result<MessageKey> {
        Ok(MessageKey(Zeroizing::new(self.entropy.bytes()?)))
    }

    /// Returns the cache of the key trees that connections keep open.
    pub(crate) fn trees(&self) -> &TreeCache {
        &self.trees
    }

    /// Seals a key tree, in the form stored in the database: id of the key-encryption key, nonce, sealed
    /// nodes.
    pub fn seal_tree(
        &self,
        workspace: WorkspaceId,
        segment: i64,
        version: i64,
        tree: &KeyTree,
    ) -> Result<Vec<u8>> {
        let mut sealed = self.current.id.to_vec();
        let aad = tree_aad(workspace, segment, version);
        sealed.extend(encrypt(&self.current.cipher, &aad, &tree.to_bytes(), &self.entropy)?);
        Ok(sealed)
    }

    /// Opens a key tree that [`Sealer::seal_tree`] has sealed.
    pub fn open_tree(
        &self,
        workspace: WorkspaceId,
        segment: i64,
        version: i64,
        sealed: &[u8],
    ) -> Result<KeyTree, DecryptionFailed> {
        let (id, nodes) = sealed.split_at_checked(KEK_ID_BYTES).ok_or(DecryptionFailed)?;
        let aad = tree_aad(workspace, segment, version);
        KeyTree::from_bytes(&decrypt(&self.find_kek(id).ok_or(DecryptionFailed)?.cipher, &aad, nodes)?)
    }

    /// Seals `plaintext` as `field` of `message` at edit number `edit`.
    pub fn seal(
        &self,
        key: &MessageKey,
        message: MessageId,
        field: &str,
        edit: i64,
        plaintext: &[u8],
    ) -> Result<Vec<u8>> {
        encrypt(&new_cipher(&key.0), &text_aad(message, field, edit), plaintext, &self.entropy)
    }

    /// Decrypts a value that [`Sealer::seal`] sealed for the same message, field and edit.
    pub fn open(
        &self,
        key: &MessageKey,
        message: MessageId,
        field: &str,
        edit: i64,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, DecryptionFailed> {
        decrypt(&new_cipher(&key.0), &text_aad(message, field, edit), sealed)
    }
}

fn mac(key: &[u8; 32], bytes: &[u8]) -> Result<Hmac<Sha256>> {
    let mac: Hmac<Sha256> = Hmac::new_from_slice(key).map_err(Error::internal)?;
    Ok(mac.chain_update(bytes))
}

fn tree_aad(workspace: WorkspaceId, segment: i64, version: i64) -> Vec<u8> {
    let numbers = [segment.to_be_bytes(), version.to_be_bytes()].concat();
    [b"svc.shelf/1".as_slice(), workspace.uuid().as_bytes(), &numbers].concat()
}

fn check_aad(id: &[u8]) -> Vec<u8> {
    [b"svc.kek-check/1".as_slice(), id].concat()
}

fn text_aad(message: MessageId, field: &str, edit: i64) -> Vec<u8> {
    [b"svc.sealed/1".as_slice(), message.uuid().as_bytes(), &edit.to_be_bytes(), field.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::key_tree::Binding;
    use super::*;

    fn id<T: From<Uuid>>(number: u128) -> T {
        Uuid::from_u128(number).into()
    }

    #[test]
    fn sealed_text_opens_only_in_its_place() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let a = id(1);
        let b = id(2);
        let key = sealer.generate_message_key().unwrap();
        let sealed = sealer.seal(&key, a, "words", 0, b"hello").unwrap();
        assert_eq!(sealer.open(&key, a, "words", 0, &sealed).unwrap().as_slice(), b"hello");
        for (message, field, edit) in [(b, "words", 0), (a, "other", 0), (a, "words", 1)] {
            assert!(sealer.open(&key, message, field, edit, &sealed).is_err());
        }
        let other = sealer.generate_message_key().unwrap();
        assert!(sealer.open(&other, a, "words", 0, &sealed).is_err());
    }

    #[test]
    fn what_was_handed_out_opens_under_its_label_with_a_known_key() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let sealed = sealer.seal_with_label("a", b"hello").unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        for sealer in [&sealer, &rotated] {
            assert_eq!(sealer.open_with_label("a", &sealed).unwrap().as_slice(), b"hello");
            assert!(sealer.open_with_label("b", &sealed).is_none());
            assert!(sealer.open_with_label("a", &sealed[1..]).is_none());
        }
        assert!(Sealer::new([8; 32], &[], Entropy::System).open_with_label("a", &sealed).is_none());
    }

    #[test]
    fn a_tag_is_for_its_bytes_and_label_with_a_known_key() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let tag = sealer.create_tag("a", b"hello").unwrap();
        assert_eq!(tag, Sealer::new([7; 32], &[[8; 32]], Entropy::System).create_tag("a", b"hello").unwrap());
        let is_tag = |sealer: &Sealer, label, bytes, tag| sealer.verify_tag(label, bytes, tag).unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        for sealer in [&sealer, &rotated] {
            assert!(is_tag(sealer, "a", b"hello", &tag));
            assert!(!is_tag(sealer, "b", b"hello", &tag) && !is_tag(sealer, "a", b"hell", &tag));
            assert!(!is_tag(sealer, "a", b"hello", &tag[1..]) && !is_tag(sealer, "a", b"hello", b""));
        }
        assert!(!is_tag(&Sealer::new([8; 32], &[], Entropy::System), "a", b"hello", &tag));
    }

    #[test]
    fn a_check_value_opens_for_its_key_alone() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let id = sealer.current_id().to_vec();
        let sealed = sealer.check_value(&id).unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        assert!(sealer.is_check_value(&id, &sealed) && rotated.is_check_value(&id, &sealed));
        assert!(!Sealer::new([8; 32], &[], Entropy::System).is_check_value(&id, &sealed));
        // Neither the check value of another key under this id nor a truncated check value passes.
        let other = rotated.check_value(rotated.current_id()).unwrap();
        assert!(!rotated.is_check_value(&id, &other) && !sealer.is_check_value(&id, &sealed[..20]));
    }

    #[test]
    fn a_wrapped_key_opens_only_for_its_message_author_thread_workspace_and_position() {
        let entropy = Entropy::System;
        let sealer = Sealer::new([7; 32], &[], entropy.clone());
        let key = sealer.generate_message_key().unwrap();
        let tree = KeyTree::grow(&entropy).unwrap();
        let bound =
            Binding { workspace_id: id(1), thread_id: id(2), author_id: Some(id(3)), message_id: id(4) };
        let wrapped = tree.leaf(9).unwrap().wrap(&bound, &key, &entropy).unwrap();
        let unwrapped = tree.leaf(9).unwrap().unwrap(&bound, &wrapped).unwrap();
        assert_eq!(unwrapped.bytes(), key.bytes());
        let others = [
            Binding { workspace_id: id(9), ..bound },
            Binding { thread_id: id(9), ..bound },
            Binding { author_id: Some(id(9)), ..bound },
            Binding { author_id: None, ..bound },
            Binding { message_id: id(9), ..bound },
        ];
        for other in others {
            assert!(tree.leaf(9).unwrap().unwrap(&other, &wrapped).is_err());
        }
        assert!(tree.leaf(10).unwrap().unwrap(&bound, &wrapped).is_err());
    }

    #[test]
    fn a_tree_opens_only_for_its_shelf_and_version_with_a_known_key() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let a = id(1);
        let b = id(2);
        let tree = KeyTree::grow(&Entropy::System).unwrap();
        let sealed = sealer.seal_tree(a, 5, 2, &tree).unwrap();
        let rotated = Sealer::new([8; 32], &[[7; 32]], Entropy::System);
        for sealer in [&sealer, &rotated] {
            assert_eq!(sealer.open_tree(a, 5, 2, &sealed).unwrap().to_bytes(), tree.to_bytes());
        }
        for (workspace, segment, version) in [(b, 5, 2), (a, 6, 2), (a, 5, 1)] {
            assert!(sealer.open_tree(workspace, segment, version, &sealed).is_err());
        }
        assert!(Sealer::new([8; 32], &[], Entropy::System).open_tree(a, 5, 2, &sealed).is_err());
    }
}
