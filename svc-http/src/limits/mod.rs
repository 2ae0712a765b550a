//! Backpressure: the limits on the resources that one caller can use.
//!
//! The limits apply in the order of this table. Each slot is taken from a [`svc_core::Ceiling`], which shares
//! its slots between workspaces and, within each workspace, between clients. Rate limits are in the core.
//!
//! | when | bound | defined in | beyond it |
//! |---|---|---|---|
//! | a connection is accepted | connections, in total and per address | `HttpSettings::connections` | 503 |
//! | the head is read | [`HEAD_TIMEOUT`]; HTTP/2: `STREAMS_MAX` | `connection` | closed; waits |
//! | HTTP/2, before the token is verified | requests per address | `server::UNVERIFIED_MAX` | 503 |
//! | a WebSocket opens without a token | [`HANDSHAKES_MAX`] | `ws` | 503 |
//! | sign-in waits for the provider | [`PROVIDER_CALLS_MAX`] | `oidc` | 503 |
//! | a body arrives | size, rate, bytes in memory, slow bodies per client | [`body`] | 413, 400, 503 |
//! | a file arrives or leaves | slots, [`transfer::FILE_RATE_MIN`] | [`transfer`] | 503, cut off |
//! | the operation begins | requests in flight, also per client | [`in_flight`] | waits, then 503 |
//! | the operation keeps a thread busy | a second slot per processor | [`in_flight`] | waits |
//! | a response is produced | unread bytes, also per client | [`unread`] | waits, then 503 |
//! | a response is written | progress of each chunk | [`pace`], [`response_body`] | closed |
//! | the peer reads nothing | [`WRITE_STALL_TIMEOUT`] | [`write_timeout`] | closed |
//! | the server closes | [`CLOSE_TIMEOUT`], then [`ABORT_TIMEOUT`] | `server` | closed |

pub(crate) mod pace;
pub(crate) mod write_timeout;
pub(crate) mod response_body;
pub(crate) mod in_flight;
pub(crate) mod body;
pub(crate) mod transfer;
pub(crate) mod unread;

use std::time::Duration;

/// Maximum time for a client to send the head of a request.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time that a peer may leave sent data unread before the server disconnects the peer.
pub(crate) const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for connections to end after the server has closed its listener.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for aborted connections to end after [`CLOSE_TIMEOUT`].
pub(crate) const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum sign-in requests that wait for the identity provider at the same time.
///
/// One address may have half of them.
pub(crate) const PROVIDER_CALLS_MAX: usize = 128;
/// Maximum WebSockets without a credential, whose first frame has not arrived yet.
///
/// One address may have half of them.
pub(crate) const HANDSHAKES_MAX: usize = 512;
