//! The values that functions receive in addition to their transaction, including the operator's settings.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, RetentionLimits};
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
    /// Encrypts and decrypts the text of messages.
    pub sealer: Sealer,
    /// The key that signs session cookies. Without it, no browser can sign in.
    pub session_key: Option<SessionKey>,
    /// The settings that the operator can change with configuration variables.
    pub settings: Settings,
    /// The table of every operation, kind of event and hook.
    pub table: Arc<Table>,
    /// The shells that serve the service, whose depths can be measured.
    pub gauges: Gauges,
}

/// Settings for mail to members.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// Delay between a notification and its mail.
    pub delay: Duration,
    /// The public URL at which browsers reach the service.
    pub public_url: String,
}

impl MailSettings {
    /// Returns the mail settings of a configuration, or `None` if mail is off.
    pub(crate) fn configured(config: &Config) -> Option<Self> {
        let mail = config.mail.as_ref()?;
        let url = config.public_url.as_ref()?;
        Some(Self { delay: mail.delay, public_url: url.to_string() })
    }
}

/// Settings that the operator supplies and that functions read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Duration of a lease if the caller does not specify one.
    pub lease_default: Duration,
    /// Time within which a claim should be acknowledged. `None` means that no reminder is sent.
    pub ack_timeout: Option<Duration>,
    /// Whether callers can request a list of the conflicts that closing a thread would cause.
    pub land_advice: bool,
    /// Maximum lifetime of a browser session.
    pub session_ttl: Duration,
    /// Whether a session that was created without a token may create the token of the first administrator.
    pub first_admin: bool,
    /// Whether the first sign-in at a provider links a person to the member whose handle is the verified
    /// email address of the person.
    pub oidc_link_email: bool,
    /// Whether signing in at a provider creates a member for a person without one.
    pub oidc_auto_provision: bool,
    /// The public key for browsers' web push subscriptions, or `None` if push is off.
    pub vapid_public_key: Option<String>,
    /// The permitted destinations of requests to addresses that members supply.
    pub egress: Egress,
    /// Minimum age of an event before a durable subscription delivers it.
    pub delivery_stability: Duration,
    /// The signer of exports and checkpoints, or `None` if nothing is signed.
    pub signer: Option<NoteSigner>,
    /// The keys whose signatures are trusted.
    pub known_keys: Vec<PublicKey>,
    /// Maximum bytes of a file that is uploaded to an operation.
    pub import_max_bytes: u64,
    /// Maximum imports per day by a workspace and its copies. `None` means no limit.
    pub import_workspaces: Option<NonZeroU32>,
    /// Directories for files that are too large for memory, with limits on the disk space of these files.
    pub spools: SpoolFolder,
    /// Maximum retention times, and the maximum bytes of media.
    pub kept: RetentionLimits,
    /// Whether the rate limits apply to calls of the program in whose process the service runs.
    pub limits_library: bool,
    /// Interval between rounds of pruning. `None` leaves pruning to other processes.
    pub retention_tick: Option<Duration>,
    /// The public URL at which browsers reach the service, if the operator has set it.
    pub public_url: Option<String>,
    /// Settings for mail to members, or `None` if mail is off.
    pub mail: Option<MailSettings>,
    /// Maximum number of events that the server sends to a subscriber beyond those that the subscriber has
    /// requested.
    pub replay_max: usize,
    /// Interval between rounds of the claim reaper. `None` leaves the rounds to other processes.
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
            spools: SpoolFolder::new(spool::default_spool_folder(), SpoolLimits::default()),
            kept: RetentionLimits::default(),
            limits_library: false,
            retention_tick: Some(Duration::from_secs(limits::RETENTION_TICK_SECS.unsigned_abs())),
            public_url: None,
            mail: None,
            replay_max: limits::REPLAY_MAX,
            reap_tick: Some(Duration::from_secs(limits::REAP_TICK_SECS.unsigned_abs())),
        }
    }
}
