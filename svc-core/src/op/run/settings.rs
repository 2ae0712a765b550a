//! What functions are given beside their transaction, and what of it an operator can set.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, Kept};
use crate::egress::Egress;
use crate::entropy::Entropy;
use crate::log::note::{NoteSigner, PublicKey};
use crate::log::seal::Sealer;
use crate::op::call::credential::SessionKey;
use crate::op::declare::part::Gauges;
use crate::op::declare::table::Table;
use crate::spool::{SpoolLimits, Spools};
use crate::{limits, spool};

/// State that does not change while the service runs.
pub struct Shared {
    /// The source of ids and secrets.
    pub entropy: Entropy,
    /// Seals and opens the text of messages.
    pub sealer: Sealer,
    /// What session cookies are signed with; without it no browser can sign in.
    pub session_key: Option<SessionKey>,
    /// The limits that have a variable.
    pub settings: Settings,
    /// Every operation, kind of event and hook.
    pub table: Arc<Table>,
    /// The numbers of the shells that serve the service.
    pub gauges: Gauges,
}

/// How members are mailed.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// How long after somebody was told of something it is mailed.
    pub delay: Duration,
    /// The address under which browsers reach the service.
    pub public_url: String,
}

impl MailSettings {
    /// Returns those of a configuration.
    pub(crate) fn configured(config: &Config) -> Option<Self> {
        let (mail, url) = (config.mail.as_ref()?, config.public_url.as_ref()?);
        Some(Self { delay: mail.delay, public_url: url.to_string() })
    }
}

/// Limits that an operator can set and that functions use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The lease of a claim whose caller names none.
    pub lease_default: Duration,
    /// The time for the acknowledgement of a claim; none means no reminder.
    pub ack_timeout: Option<Duration>,
    /// Whether callers may ask what the close of a thread would meet.
    pub land_advice: bool,
    /// How long the session of a browser lasts at most.
    pub session_ttl: Duration,
    /// Whether a session that was made from no token may mint the first administrator's.
    pub first_admin: bool,
    /// Whether who signs in at a provider becomes the person prepared under its verified email.
    pub oidc_link_email: bool,
    /// Whether who signs in at a provider and is no member joins.
    pub oidc_auto_provision: bool,
    /// The key that browsers subscribe for web push with; none if nothing is pushed.
    pub vapid_public_key: Option<String>,
    /// Where requests may go whose address a member has given.
    pub egress: Egress,
    /// How old an event must be before a durable subscription delivers it.
    pub delivery_stability: Duration,
    /// What signs exports and checkpoints; none if nothing is signed.
    pub signer: Option<NoteSigner>,
    /// The keys whose signatures are believed.
    pub known_keys: Vec<PublicKey>,
    /// Most bytes of a file that an operation takes.
    pub import_max_bytes: u64,
    /// Maximum workspaces that a workspace and its copies import in a day; `None` means no limit.
    pub import_workspaces: Option<NonZeroU32>,
    /// Where files are that are too large for memory, and what they may take of the disk.
    pub spools: Spools,
    /// How long things are kept at most.
    pub kept: Kept,
    /// The time between rounds of pruning; none leaves it to other processes.
    pub retention_tick: Option<Duration>,
    /// The address under which browsers reach the service, if the operator has set it.
    pub public_url: Option<String>,
    /// How members are mailed; none if they are not.
    pub mail: Option<MailSettings>,
    /// Most events that are sent to a subscriber beyond what it has said that it wants.
    pub replay_max: usize,
    /// The time between rounds of the claim reaper; none leaves it to other processes.
    pub(crate) reap_tick: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_default: Duration::from_secs(limits::LEASE_DEFAULT_SECS.unsigned_abs()),
            ack_timeout: Some(Duration::from_secs(limits::ACK_TIMEOUT_SECS.unsigned_abs())),
            land_advice: false,
            session_ttl: Duration::from_secs(limits::SESSION_TTL_SECS.unsigned_abs()),
            first_admin: false,
            oidc_link_email: false,
            oidc_auto_provision: false,
            vapid_public_key: None,
            egress: Egress::default(),
            delivery_stability: Duration::from_secs(limits::DELIVERY_STABILITY_SECS.unsigned_abs()),
            signer: None,
            known_keys: Vec::new(),
            import_max_bytes: limits::IMPORT_MAX_BYTES.unsigned_abs(),
            import_workspaces: u32::try_from(limits::IMPORT_WORKSPACES_MAX).ok().and_then(NonZeroU32::new),
            spools: Spools::new(spool::default_folder(), SpoolLimits::default()),
            kept: Kept::default(),
            retention_tick: Some(Duration::from_secs(limits::RETENTION_TICK_SECS.unsigned_abs())),
            public_url: None,
            mail: None,
            replay_max: limits::REPLAY_MAX,
            reap_tick: Some(Duration::from_secs(limits::REAP_TICK_SECS.unsigned_abs())),
        }
    }
}
