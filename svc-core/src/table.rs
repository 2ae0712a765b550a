//! Every feature of the service, and what the higher ones have asked to hear from the lower ones. Adding an
//! operation means adding a row to its feature; adding a feature means adding a line here.

use crate::Result;
use crate::op::{Feature, Hooks, Table};
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

/// What runs before and after every change, in order.
pub(crate) fn hooks() -> Hooks {
    Hooks {
        guards: vec![],
        projectors: vec![coordination::ready::project, coordination::thread_reads::blank_notices],
    }
}
