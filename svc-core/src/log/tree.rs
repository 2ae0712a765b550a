//! The Merkle tree over a log (RFC 6962, section 2.1), with SHA-256.
//!
//! A leaf is the content hash of an event, in log order, so the size of the tree is the position of the last
//! event. Leaves and nodes are hashed with different prefixes, so that a leaf cannot be mistaken for a node.
//! Only the frontier of the tree is kept: the roots of the largest complete subtrees that cover the tree, one
//! for each set bit of its size.

use sha2::{Digest, Sha256};

/// The frontier of a Merkle tree, to which leaves are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontier {
    size: u64,
    /// The roots of complete subtrees, the largest first: one for each set bit of the size.
    subtrees: Vec<[u8; 32]>,
}

impl Frontier {
    /// Creates the frontier of a tree with `size` leaves from the roots of its complete subtrees, the largest
    /// first.
    ///
    /// Returns `None` unless there is one root for each set bit of the size.
    pub fn of(size: u64, subtrees: Vec<[u8; 32]>) -> Option<Self> {
        (u32::try_from(subtrees.len()) == Ok(size.count_ones())).then_some(Self { size, subtrees })
    }

    /// Returns the number of leaves in the tree.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the complete subtrees, the largest first.
    pub fn subtrees(&self) -> &[[u8; 32]] {
        &self.subtrees
    }

    /// Adds a leaf for the event with this content hash.
    pub fn push(&mut self, content_hash: &[u8; 32]) {
        let mut root = hash_parts(LEAF_PREFIX, &[content_hash]);
        // Each trailing set bit of the size is a complete subtree as large as the growing one.
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.subtrees.pop() else { break };
            root = hash_parts(NODE_PREFIX, &[&left, &root]);
        }
        self.subtrees.push(root);
        self.size = self.size.saturating_add(1);
    }

    /// Returns the root of the Merkle tree.
    pub fn root(&self) -> [u8; 32] {
        let joined = self
            .subtrees
            .iter()
            .rev()
            .copied()
            .reduce(|right, left| hash_parts(NODE_PREFIX, &[&left, &right]));
        joined.unwrap_or_else(|| Sha256::digest([]).into())
    }
}

const LEAF_PREFIX: u8 = 0;
const NODE_PREFIX: u8 = 1;

fn hash_parts(prefix: u8, parts: &[&[u8; 32]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update([prefix]);
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::sha256;

    fn leaves(count: u64) -> Vec<[u8; 32]> {
        (0..count).map(|number| sha256(&number.to_be_bytes())).collect()
    }

    /// Returns the root of a tree by the recursive definition of the RFC.
    fn tree_head(leaves: &[[u8; 32]]) -> [u8; 32] {
        match leaves {
            [] => sha256(b""),
            [leaf] => sha256(&[&[0], leaf.as_slice()].concat()),
            _ => {
                let largest = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(largest);
                sha256(&[&[1], tree_head(left).as_slice(), tree_head(right).as_slice()].concat())
            }
        }
    }

    #[test]
    fn the_root_is_that_of_the_definition_and_can_be_continued_from_any_size() {
        let leaves = leaves(130);
        let mut whole = Frontier::default();
        for size in 0..=leaves.len() {
            assert_eq!(whole.root(), tree_head(&leaves[..size]), "{size}");
            let mut resumed = Frontier::of(whole.size(), whole.subtrees().to_vec()).unwrap();
            leaves[size..].iter().for_each(|leaf| resumed.push(leaf));
            assert_eq!(resumed.root(), tree_head(&leaves), "continued from {size}");
            leaves.get(size).iter().for_each(|leaf| whole.push(leaf));
        }
    }

    #[test]
    fn a_frontier_has_a_subtree_for_each_bit_of_its_size() {
        for (size, count, fits) in [(0, 0, true), (5, 2, true), (5, 3, false), (8, 1, true), (0, 1, false)] {
            assert_eq!(Frontier::of(size, vec![[1; 32]; count]).is_some(), fits, "{size}, {count}");
        }
    }
}
