//! Settings without effective limits, for tests of everything else.

use std::time::Duration;

use svc_core::RateSettings;
use svc_core::spool::{self, SpoolFolder, SpoolLimits};

/// Rate limits that admit everything.
pub const RATES: RateSettings =
    RateSettings { per_client: 0, per_workspace: 0, window: Duration::from_secs(60) };

/// Returns spools that take the space that they need, even if the disk of this machine is nearly full.
pub fn spools() -> SpoolFolder {
    let limits = SpoolLimits { max_bytes: Some(1 << 40), reserve_bytes: Some(0) };
    SpoolFolder::new(spool::default_spool_folder(), limits)
}
