//! The values that functions receive beside their transaction, and the settings of the operator among them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, Kept};
use crate::egress::Egress;
use crate::entropy::Entropy;
use crate::log::seal::Sealer;
use crate::log::signed_note::{NoteSigner, PublicKey};
use crate::op::call::credential::SessionKey;
use crate::op::declare::health_check::Gauges;
use crate::op::declare::table::Table;
use crate::spool::{SpoolFolder, SpoolLimits};
use crate::{limits, spool};

/// State that does not change while the service runs.
pub struct SharedState {
    /// The source of ids and secrets.
    pub entropy: Entropy,
    /// Seals and opens the text of messages.
    pub sealer: Sealer,
    /// The key that signs session cookies; without it no browser can sign in.
    pub session_key: Option<SessionKey>,
    /// The limits that have a variable.
    pub settings: Settings,
    /// Every operation, kind of event and hook.
    pub table: Arc<Table>,
    /// The depths of the shells that serve the service.
    pub gauges: Gauges,
}

/// Settings for mail to members.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// The delay between a notification and its mail.
    pub delay: Duration,
    /// The address under which browsers reach the service.
    pub public_url: String,
}

impl MailSettings {
    /// Returns the mail settings of a configuration.
    pub(crate) fn configured(config: &Config) -> Option<Self> {
        let mail = config.mail.as_ref()?;
        let url = config.public_url.as_ref()?;
        Some(Self { delay: mail.delay, public_url: url.to_string() })
    }
}

/// Limits that an operator can set and that functions use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The lease of a claim whose caller does not specify one.
    pub lease_default: Duration,
    /// The time for the acknowledgement of a claim; `None` means no reminder.
    pub ack_timeout: Option<Duration>,
    /// Whether callers may request the conflicts that closing a thread would meet.
    pub land_advice: bool,
    /// Maximum lifetime of a browser's session.
    pub session_ttl: Duration,
    /// Whether a session that was created without a token may mint the first administrator's.
    pub first_admin: bool,
    /// Whether a sign-in at a provider takes over the person prepared under its verified email.
    pub oidc_link_email: bool,
    /// Whether a sign-in at a provider creates a member if there is none.
    pub oidc_auto_provision: bool,
    /// The key for browsers' web push subscriptions; `None` if push is off.
    pub vapid_public_key: Option<String>,
    /// The permitted destinations of requests to addresses that members supply.
    pub egress: Egress,
    /// How old an event must be before a durable subscription delivers it.
    pub delivery_stability: Duration,
    /// The signer of exports and checkpoints; `None` if nothing is signed.
    pub signer: Option<NoteSigner>,
    /// The keys whose signatures are trusted.
    pub known_keys: Vec<PublicKey>,
    /// Maximum bytes of a file that an operation takes.
    pub import_max_bytes: u64,
    /// Maximum workspaces that a workspace and its copies import in a day; `None` means no limit.
    pub import_workspaces: Option<NonZeroU32>,
    /// The directories of files that are too large for memory, and their budget of the disk.
    pub spools: SpoolFolder,
    /// Maximum retention times.
    pub kept: Kept,
    /// The time between rounds of pruning; `None` leaves pruning to other processes.
    pub retention_tick: Option<Duration>,
    /// The address under which browsers reach the service, if the operator has set it.
    pub public_url: Option<String>,
    /// Settings for mail to members; `None` if mail is off.
    pub mail: Option<MailSettings>,
    /// Maximum events that are sent to a subscriber beyond the number that it has requested.
    pub replay_max: usize,
    /// The time between rounds of the claim reaper; `None` leaves them to other processes.
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
            spools: SpoolFolder::new(spool::default_folder(), SpoolLimits::default()),
            kept: Kept::default(),
            retention_tick: Some(Duration::from_secs(limits::RETENTION_TICK_SECS.unsigned_abs())),
            public_url: None,
            mail: None,
            replay_max: limits::REPLAY_MAX,
            reap_tick: Some(Duration::from_secs(limits::REAP_TICK_SECS.unsigned_abs())),
        }
    }
}
