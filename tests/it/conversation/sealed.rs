//! Opens sealed bytes by the published formats alone.
//!
//! It has the keys and the database, like an auditor, and uses no code of the service.

use std::collections::BTreeMap;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::Value;
use sha2::{Digest, Sha256};
use svc_tests::database::TestDatabase;
use svc_tests::text;

/// The length of the prefix of sealed bytes: the id of the key-encryption key; a nonce follows.
pub const KEK_ID_BYTES: usize = 8;
pub const NONCE_BYTES: usize = 12;
/// Positions of a key segment, which are the leaves of its key tree.
const SHELF: i64 = 4096;
/// The levels of that tree below its root.
pub const LEVELS: usize = 12;

pub fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

pub fn message_row(database: &TestDatabase, message: &str, columns: &str) -> Vec<Value> {
    let message = database.id(message.parse::<uuid::Uuid>().unwrap());
    database.rows(&format!("select {columns} from messages where id = {message}")).remove(0)
}

/// The row of the key segment of a message's key.
pub struct KeySegmentRow {
    pub workspace: uuid::Uuid,
    pub number: i64,
    version: i64,
    pub sealed: Vec<u8>,
}

pub fn shelf(database: &TestDatabase, message: &str) -> KeySegmentRow {
    let row = message_row(database, message, "lsn, workspace_id");
    let number = row[0].as_i64().unwrap() / SHELF;
    let workspace = text(&row[1]).parse().unwrap();
    let found = database.rows(&format!(
        "select version, sealed from shelves where workspace_id = {} and shelf = {number}",
        database.id(workspace)
    ));
    KeySegmentRow { workspace, number, version: found[0][0].as_i64().unwrap(), sealed: bytes(&found[0][1]) }
}

fn decrypt(key: &[u8], aad: &[u8], sealed: &[u8]) -> Vec<u8> {
    let key: [u8; 32] = key.try_into().unwrap();
    let (nonce, sealed) = sealed.split_at(NONCE_BYTES);
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().unwrap();
    let payload = Payload { msg: sealed, aad };
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(key)).decrypt(&Nonce::from(nonce), payload).unwrap()
}

impl KeySegmentRow {
    /// Returns the remaining nodes by number, opened with only the key-encryption key.
    pub fn nodes(&self, kek: [u8; 32]) -> BTreeMap<u16, Vec<u8>> {
        let numbers = [self.number.to_be_bytes(), self.version.to_be_bytes()].concat();
        let aad = [b"svc.shelf/1".as_slice(), self.workspace.as_bytes(), &numbers].concat();
        let plain = decrypt(&kek, &aad, &self.sealed[KEK_ID_BYTES..]);
        let nodes = plain.chunks_exact(34);
        nodes.map(|node| (u16::from_be_bytes([node[0], node[1]]), node[2..].to_vec())).collect()
    }
}

/// Returns the numbers of the nodes from a tree's root to the leaf of a position.
pub fn way_down(lsn: i64) -> Vec<u16> {
    let leaf = u16::try_from(lsn % SHELF + SHELF).unwrap();
    (0..=LEVELS).rev().map(|height| leaf >> height).collect()
}

/// Returns the keys of the nodes from a whole tree's root to the leaf of a position.
pub fn keys_down(root: &[u8], lsn: i64) -> Vec<Vec<u8>> {
    let mut keys = vec![root.to_vec()];
    for number in &way_down(lsn)[1..] {
        let side = u8::from(number % 2 == 1);
        let child = Sha256::digest([b"svc.shelf-node/1".as_slice(), &[side], &keys[keys.len() - 1]].concat());
        keys.push(child.to_vec());
    }
    keys
}

/// Returns a message's key, opened with only its leaf.
pub fn message_key(database: &TestDatabase, message: &str, leaf: &[u8]) -> Vec<u8> {
    let row = message_row(database, message, "workspace_id, thread_id, author_id, id, wrapped");
    let bound =
        [b"svc.message-key/2".to_vec(), bytes(&row[0]), bytes(&row[1]), bytes(&row[2]), bytes(&row[3])];
    decrypt(leaf, &bound.concat(), &bytes(&row[4]))
}
