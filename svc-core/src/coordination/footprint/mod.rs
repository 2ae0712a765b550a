//! Footprints: what of a repository, and which slots, a thread will touch.
//!
//! This folder says what a footprint is, when two of them overlap, and how they are stored. What stands in
//! the way of a thread is found in `obstacles`; nothing here reads claims.

mod names;
mod clone_url;
mod repo;
mod value;
mod overlap;
mod interned;

pub(crate) use interned::{OF_ROW, StoredItems, digest_of, in_row, intern, load, load_some, told_by};
pub(crate) use names::slot_key;
pub(crate) use overlap::{Extent, Space, all_extents, extents};
pub(crate) use repo::{Repo, RepoKey};
pub(crate) use value::{Footprint, Item, Mode, SlotName};
