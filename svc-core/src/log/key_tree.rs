//! The key tree of a key segment: 4,096 leaves, each the key that wraps the key of one message.
//!
//! The two children of a node are derived from it by SHA-256 with domain separation, as in the secret tree of
//! RFC 9420 section 9, so a segment begins with only its root. Cutting a leaf replaces the node above it by
//! the siblings on the path down to the leaf: all other leaves stay the same, and the cut leaf can no longer
//! be derived from any node. This file does not use the database.

use std::collections::BTreeMap;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::KeyInit;
use sha2::{Digest, Sha256};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::cipher::{self, DecryptionFailed, MessageKey};
use crate::Result;
use crate::entropy::Entropy;
use crate::id::{MemberId, MessageId, ThreadId, WorkspaceId};

/// Number of levels from the root to a leaf.
const LEVELS: u32 = 12;
/// Number of leaves in a tree: one for each log position in a key segment.
pub const LEAVES: i64 = 1 << LEVELS;
const KEY_BYTES: usize = 32;
/// Node number of the root. The children of node n are 2n and 2n + 1; the leaves are the last 4,096 numbers.
const ROOT: u16 = 1;
const FIRST_LEAF: u16 = 1 << LEVELS;
/// Bytes of a stored node: its number and its key.
const NODE_BYTES: usize = 2 + KEY_BYTES;

/// Returns the number of the key segment that contains a log position.
pub fn segment_number(lsn: i64) -> i64 {
    lsn.div_euclid(LEAVES)
}

/// Returns the node number of the leaf for a log position.
fn leaf_number(lsn: i64) -> u16 {
    u16::try_from(lsn.rem_euclid(LEAVES)).unwrap_or_default() | FIRST_LEAF
}

/// The key of a node. Zeroed when dropped.
#[derive(Clone)]
struct NodeKey(Zeroizing<[u8; KEY_BYTES]>);

impl NodeKey {
    fn derive_child(&self, number: u16) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"svc.shelf-node/1");
        hash.update([u8::from(number % 2 == 1)]);
        hash.update(self.0.as_slice());
        Self(Zeroizing::new(hash.finalize().into()))
    }
}

/// The remaining nodes of a key tree. No node is an ancestor of another.
pub struct KeyTree(BTreeMap<u16, NodeKey>);

/// The nodes on the path from the root to the leaf that was derived last.
///
/// Messages are mostly read in the order of their positions, and adjacent leaves share most of their paths.
#[derive(Default)]
pub struct LeafPath(Vec<(u16, NodeKey)>);

/// The key that wraps the key of the message at one position.
pub struct Leaf(Aes256Gcm);

impl KeyTree {
    /// Creates a complete tree with a fresh root.
    pub fn grow(entropy: &Entropy) -> Result<Self> {
        Ok(Self(BTreeMap::from([(ROOT, NodeKey(Zeroizing::new(entropy.bytes()?)))])))
    }

    /// Returns the leaf of the message at `lsn`, or `None` if the leaf was cut.
    pub fn leaf(&self, lsn: i64) -> Option<Leaf> {
        self.leaf_with_path(lsn, &mut LeafPath::default())
    }

    /// Returns the same leaf as [`KeyTree::leaf`], using nodes that were derived before.
    ///
    /// `path` must be a path of this tree. Only the nodes that it lacks are derived.
    pub fn leaf_with_path(&self, lsn: i64, path: &mut LeafPath) -> Option<Leaf> {
        let leaf = leaf_number(lsn);
        path.0.truncate(path.0.iter().take_while(|(number, _)| is_on_path(*number, leaf)).count());
        let (mut number, mut key) = match path.0.last() {
            Some((number, key)) => (*number, key.clone()),
            None => self.covering_node(leaf)?,
        };
        while number != leaf {
            number = child_towards(leaf, number);
            key = key.derive_child(number);
            path.0.push((number, key.clone()));
        }
        Some(Leaf(Aes256Gcm::new((&*key.0).into())))
    }

    /// Cuts the leaf of the message at `lsn`. Returns `false` if the leaf was already cut.
    #[must_use]
    pub fn cut(&mut self, lsn: i64) -> bool {
        let leaf = leaf_number(lsn);
        let Some((mut number, mut key)) = self.covering_node(leaf) else { return false };
        self.0.remove(&number);
        while number != leaf {
            let kept = child_towards(leaf, number) ^ 1;
            self.0.insert(kept, key.derive_child(kept));
            number = kept ^ 1;
            key = key.derive_child(number);
        }
        true
    }

    /// Returns the remaining node that is the leaf or its ancestor, or `None` if the leaf was cut.
    fn covering_node(&self, leaf: u16) -> Option<(u16, NodeKey)> {
        (0..=LEVELS).find_map(|height| {
            let number = leaf >> height;
            self.0.get(&number).map(|key| (number, key.clone()))
        })
    }

    /// Encodes the nodes as plaintext, to be sealed by the caller.
    pub(super) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.0.len() * NODE_BYTES));
        for (number, key) in &self.0 {
            bytes.extend(number.to_be_bytes());
            bytes.extend(key.0.as_slice());
        }
        bytes
    }

    /// Decodes the nodes that [`KeyTree::to_bytes`] has encoded.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, DecryptionFailed> {
        let (nodes, []) = bytes.as_chunks::<NODE_BYTES>() else { return Err(DecryptionFailed) };
        let read = nodes.iter().map(|node| {
            let (number, key) = node.split_first_chunk().ok_or(DecryptionFailed)?;
            Ok((
                u16::from_be_bytes(*number),
                NodeKey(Zeroizing::new(key.try_into().map_err(|_| DecryptionFailed)?)),
            ))
        });
        read.collect::<Result<_, DecryptionFailed>>().map(Self)
    }
}

/// The context that a wrapped key is bound to.
///
/// The wrapped key opens for no other message, thread, workspace or author.
#[derive(Clone, Copy)]
pub struct Binding {
    /// The workspace of the message.
    pub workspace_id: WorkspaceId,
    /// The thread of the message.
    pub thread_id: ThreadId,
    /// The author, or `None` for a message by the service itself.
    pub author_id: Option<MemberId>,
    /// The message whose body the wrapped key decrypts.
    pub message_id: MessageId,
}

impl Binding {
    fn aad(&self) -> [u8; AAD_BYTES] {
        // The nil id represents the service, because no member has that id.
        let author = self.author_id.map_or(Uuid::nil(), MemberId::uuid);
        let ids = [self.workspace_id.uuid(), self.thread_id.uuid(), author, self.message_id.uuid()];
        let mut aad = [0; AAD_BYTES];
        let (label, places) = aad.split_at_mut(AAD_LABEL.len());
        label.copy_from_slice(AAD_LABEL);
        places
            .chunks_exact_mut(ID_BYTES)
            .zip(&ids)
            .for_each(|(place, id)| place.copy_from_slice(id.as_bytes()));
        aad
    }
}

/// Beginning of the associated data of a wrapped key, before the four ids.
const AAD_LABEL: &[u8] = b"svc.message-key/2";
const ID_BYTES: usize = 16;
const AAD_BYTES: usize = AAD_LABEL.len() + 4 * ID_BYTES;

impl Leaf {
    /// Wraps a message's key in the form stored in the message's row: the nonce, followed by the wrapped key.
    pub fn wrap(&self, binding: &Binding, key: &MessageKey, entropy: &Entropy) -> Result<Vec<u8>> {
        cipher::encrypt(&self.0, &binding.aad(), key.bytes(), entropy)
    }

    /// Unwraps a key that [`Leaf::wrap`] has wrapped for the same context.
    pub fn unwrap(&self, binding: &Binding, wrapped: &[u8]) -> Result<MessageKey, DecryptionFailed> {
        cipher::decrypt_key(&self.0, &binding.aad(), wrapped)
    }
}

/// Returns whether the node `number` is the leaf or an ancestor of it.
fn is_on_path(number: u16, leaf: u16) -> bool {
    leaf >> number.leading_zeros().saturating_sub(leaf.leading_zeros()) == number
}

/// Returns the child of the node `number` that is the leaf or an ancestor of it.
///
/// `number` must be an ancestor of the leaf.
fn child_towards(leaf: u16, number: u16) -> u16 {
    let below = number.leading_zeros().saturating_sub(leaf.leading_zeros());
    leaf >> below.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn tree() -> KeyTree {
        KeyTree::grow(&Entropy::seeded(1)).unwrap()
    }

    /// Derives the keys of all leaves below a node level by level, independently of the implementation under
    /// test.
    fn leaves_below(number: u16, key: &NodeKey) -> BTreeMap<u16, [u8; KEY_BYTES]> {
        let mut level = BTreeMap::from([(number, key.clone())]);
        while level.keys().any(|number| *number < FIRST_LEAF) {
            let children = level.iter().flat_map(|(number, key)| {
                [number * 2, number * 2 + 1].map(|child| (child, key.derive_child(child)))
            });
            level = children.collect();
        }
        level.into_iter().map(|(number, key)| (number, *key.0)).collect()
    }

    fn all_leaves(tree: &KeyTree) -> BTreeMap<u16, [u8; KEY_BYTES]> {
        tree.0.iter().flat_map(|(number, key)| leaves_below(*number, key)).collect()
    }

    /// Returns whether a leaf and a key are the same.
    fn same(leaf: &Leaf, key: &[u8; KEY_BYTES]) -> bool {
        let other = Leaf(Aes256Gcm::new(key.into()));
        let sealed = cipher::encrypt(&leaf.0, b"", b"x", &Entropy::seeded(2)).unwrap();
        cipher::decrypt(&other.0, b"", &sealed).is_ok()
    }

    #[test]
    fn a_tree_has_a_distinct_leaf_for_each_position_of_its_shelf() {
        let whole = tree();
        let leaves = all_leaves(&whole);
        assert_eq!(leaves.len(), 4096);
        assert_eq!(leaves.values().collect::<BTreeSet<_>>().len(), 4096);
        for lsn in [0, 1, 2, 2047, 2048, 4095, 4096, 8191] {
            assert!(same(&whole.leaf(lsn).unwrap(), &leaves[&leaf_number(lsn)]), "{lsn}");
        }
        assert_eq!([0, 4095, 4096, 8192].map(segment_number), [0, 0, 1, 2]);
    }

    #[test]
    fn a_tree_with_every_leaf_cut_is_empty() {
        let mut tree = tree();
        for lsn in 0..LEAVES {
            assert!(tree.cut(lsn));
        }
        assert!(tree.0.is_empty() && tree.to_bytes().is_empty());
        assert!(!tree.cut(7) && tree.leaf(7).is_none());
        assert!(KeyTree::from_bytes(&[]).is_ok_and(|tree| tree.0.is_empty()));
    }

    #[test]
    fn bytes_of_another_length_are_rejected() {
        let bytes = tree().to_bytes();
        assert!(KeyTree::from_bytes(&bytes).is_ok());
        assert!(KeyTree::from_bytes(&bytes[1..]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn the_remaining_nodes_derive_exactly_the_leaves_that_were_not_cut(
            withdrawn in proptest::collection::vec(prop_oneof![0..LEAVES, 100..140_i64], 0..120),
            order in proptest::collection::vec(prop_oneof![0..LEAVES, 90..150_i64], 0..200)
        ) {
            let before = all_leaves(&tree());
            let mut tree = tree();
            let mut gone = BTreeSet::new();
            for lsn in withdrawn {
                prop_assert_eq!(tree.cut(lsn), gone.insert(leaf_number(lsn)));
            }
            let tree = KeyTree::from_bytes(&tree.to_bytes()).unwrap();
            // All leaves that can be derived from the stored nodes. Derivation only goes downwards.
            let mut left = before;
            left.retain(|leaf, _| !gone.contains(leaf));
            prop_assert_eq!(&all_leaves(&tree), &left);
            for lsn in 0..LEAVES {
                let number = leaf_number(lsn);
                prop_assert_eq!(tree.covering_node(number).is_none(), gone.contains(&number));
            }
            let mut path = LeafPath::default();
            for lsn in order {
                let found = tree.leaf_with_path(lsn, &mut path);
                prop_assert_eq!(found.is_some(), left.contains_key(&leaf_number(lsn)));
                prop_assert!(found.is_none_or(|found| same(&found, &left[&leaf_number(lsn)])));
            }
        }
    }
}
