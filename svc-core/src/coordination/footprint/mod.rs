//! Footprints: the items of a repository, and the slots, that a thread will touch.
//!
//! This folder defines footprints, the rules by which two of them overlap, and how they are stored.
//! `obstacles` finds the conflicts of a thread; this folder reads no claims.

pub(crate) mod names;
mod clone_url;
pub(crate) mod repo;
pub(crate) mod value;
mod overlap;
mod interned;

pub(crate) use interned::{
    FOOTPRINT_TEXT_SQL, StoredItems, footprint_digest, footprint_in_event, footprint_in_row, intern, load,
    load_many,
};
pub(crate) use names::slot_key;
pub(crate) use overlap::{Extent, ItemSpace, current_and_earlier_extents, extents};
pub(crate) use repo::{Repo, RepoKey};
pub(crate) use value::{Footprint, FootprintItem, FootprintMode, SlotName};
