//! Every feature of the service. Adding an operation, or a hook, means adding it to its feature; adding a feature means
//! adding a line here.

use crate::Result;
use crate::op::{Feature, Table};
use crate::{conversation, coordination, identity, integrity};

/// Every feature, in the order of the layers.
pub(crate) fn features() -> Vec<Feature> {
    vec![
        identity::workspaces::feature(),
        identity::members::feature(),
        identity::whoami::feature(),
        identity::tokens::feature(),
        identity::setup::feature(),
        conversation::channels::feature(),
        conversation::messages::feature(),
        coordination::threads::feature(),
        coordination::ready::feature(),
        coordination::skills::feature(),
        coordination::transitions::feature(),
        coordination::cancel::feature(),
        coordination::dependencies::feature(),
        coordination::thread_reads::feature(),
        coordination::claims::feature(),
        coordination::results::feature(),
        coordination::reaper::feature(),
        integrity::events::feature(),
        integrity::audit::feature(),
    ]
}

/// The table of every feature, without a service behind it.
pub fn operation_table() -> Result<Table> {
    Table::build(features())
}
