//! Limits that limit nothing, for tests of everything else.

use std::time::Duration;

use svc_core::RateSettings;
use svc_core::spool::{self, SpoolLimits, Spools};

/// Rate limits that admit everything.
pub const RATES: RateSettings =
    RateSettings { per_client: 0, per_workspace: 0, window: Duration::from_secs(60) };

/// Returns spools that take what they need, however full the disk of this machine is.
pub fn spools() -> Spools {
    let limits = SpoolLimits { max_bytes: Some(1 << 40), reserve_bytes: Some(0) };
    Spools::new(spool::default_folder(), limits)
}
