//! The places of each way in this process, and the workspace whose turn it was last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::id::WorkspaceId;
use crate::limits::PARCELS_MAX;
use crate::share::{Ceiling, Quotas};
use crate::sync::lock;

/// The places of one way, and the workspace whose turn it was last.
pub(crate) struct Sending {
    pub places: Ceiling,
    last: Mutex<WorkspaceId>,
}

impl Default for Sending {
    fn default() -> Self {
        let places = Ceiling::new("parcels in flight", PARCELS_MAX, Quotas::default());
        Self { places, last: Mutex::new(WorkspaceId::INSTANCE) }
    }
}

impl Sending {
    /// Returns the workspace after which the next look begins.
    pub fn last(&self) -> WorkspaceId {
        *lock(&self.last)
    }

    /// Lets the next look begin after this workspace.
    pub fn begin_after(&self, workspace: WorkspaceId) {
        *lock(&self.last) = workspace;
    }
}

/// The places of the ways, by their names.
#[derive(Default)]
pub(crate) struct SendingByWay(Mutex<HashMap<&'static str, Arc<Sending>>>);

impl SendingByWay {
    /// Returns the places of the way of this name.
    pub fn on(&self, way: &'static str) -> Arc<Sending> {
        Arc::clone(lock(&self.0).entry(way).or_default())
    }
}
