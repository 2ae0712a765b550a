//! Tests that the table of ceilings in svc-http(8) matches the constants in the code.

use svc_core::limits::{
    CALLS_PREPARED_MAX, DELIVERY_BATCHES_MAX, FILES_READ_MAX, FILES_VERIFIED_MAX, LOOKUPS_MAX,
    LOOKUPS_QUEUED_MAX, LOOKUPS_QUEUED_PER_ADDRESS_MAX, QUEUE_MAX, QUEUED_BYTES_MAX, READS_QUEUED_MAX,
    RESOURCE_SUBSCRIPTIONS_MAX, SPOOL_MAX_BYTES, WAITING_PER_CLIENT_MAX, WAITING_PER_WORKSPACE_MAX,
    WAITS_MAX, WAITS_PER_CLIENT_MAX,
};

use crate::connection::STREAMS_MAX;
use crate::limits::body::{BODY_BYTES_MAX, UNFINISHED_BODIES_MAX};
use crate::limits::in_flight::CLIENT_DIVISOR;
use crate::limits::transfer::{CLIENT_TRANSFERS_MAX, TRANSFERS_MAX};
use crate::limits::unread;
use crate::limits::{HANDSHAKES_MAX, PROVIDER_CALLS_MAX};
use crate::mcp::sessions;
use crate::server::UNVERIFIED_MAX;
use crate::settings::HttpSettings;

const PAGE: &str = include_str!("../../man/svc-http.8");

/// Content of a table cell for a limit that does not exist.
const NONE: &str = "\\-";
const SHARE: &str = "share";

fn count<N: TryInto<usize>>(number: N) -> String {
    let number = number.try_into().ok().unwrap();
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{thousands},{:03}", number % 1000),
    }
}

fn mib(bytes: usize) -> String {
    assert_eq!(bytes % (1 << 20), 0);
    format!("{} MiB", bytes >> 20)
}

fn share_and(quota: &str) -> String {
    format!("{SHARE}, {quota}")
}

fn row(ceiling: &str, all: &str, workspace: &str, client: &str) -> String {
    [ceiling, all, workspace, client].join("\t")
}

fn expected_rows() -> Vec<String> {
    let settings = HttpSettings::default();
    let requests = usize::try_from(settings.concurrent_requests.unwrap().get()).unwrap();
    let (connections, of_address) = settings.connection_limits();
    let queued = |most| format!("{}, {}", count(most), mib(QUEUED_BYTES_MAX));
    vec![
        row("Requests in flight", &count(requests), SHARE, &share_and(&count(requests / CLIENT_DIVISOR))),
        row("Requests that keep a thread busy", "processors", SHARE, SHARE),
        row("Bytes of bodies in memory", &mib(BODY_BYTES_MAX), SHARE, SHARE),
        row("Bodies unfinished after a second", NONE, NONE, &count(UNFINISHED_BODIES_MAX)),
        row(
            "Unread bytes of responses",
            &mib(unread::TOTAL_MAX),
            SHARE,
            &share_and(&mib(unread::CLIENT_MAX)),
        ),
        row("WebSockets, streams of events", &count(settings.ws_connections), SHARE, SHARE),
        row("WebSockets without a token", &count(HANDSHAKES_MAX), NONE, &count(HANDSHAKES_MAX / 2)),
        row(
            "MCP sessions",
            &count(sessions::SESSIONS_MAX),
            SHARE,
            &share_and(&count(sessions::CLIENT_SESSIONS_MAX)),
        ),
        row("MCP sessions of one credential", &count(sessions::CREDENTIAL_SESSIONS_MAX), NONE, NONE),
        row("Unanswered requests of one MCP session", &count(sessions::ANSWERS_MAX), NONE, NONE),
        row("Resources that one token subscribes to", &count(RESOURCE_SUBSCRIPTIONS_MAX), NONE, NONE),
        row("Parked waits", &count(WAITS_MAX), SHARE, &share_and(&count(WAITS_PER_CLIENT_MAX))),
        row("Connections", &count(connections), NONE, &count(of_address)),
        row("HTTP/2 requests of one connection", &count(STREAMS_MAX), NONE, NONE),
        row("HTTP/2 requests, token not verified", NONE, NONE, &count(UNVERIFIED_MAX)),
        row("Credential lookups in progress", &count(LOOKUPS_MAX), NONE, NONE),
        row(
            "Credential lookups that wait",
            &count(LOOKUPS_QUEUED_MAX),
            NONE,
            &count(LOOKUPS_QUEUED_PER_ADDRESS_MAX),
        ),
        row(
            "File transfers: uploads and exports",
            &count(TRANSFERS_MAX),
            SHARE,
            &share_and(&count(CLIENT_TRANSFERS_MAX)),
        ),
        row("Files that are verified as they arrive", &count(FILES_VERIFIED_MAX), NONE, NONE),
        row("Files that are read: imports, verifications", &count(FILES_READ_MAX), SHARE, SHARE),
        row("Requests to parse Markdown", &count(CALLS_PREPARED_MAX), SHARE, SHARE),
        row("Members that are being mailed", &count(DELIVERY_BATCHES_MAX), SHARE, SHARE),
        row("Members that are being pushed to", &count(DELIVERY_BATCHES_MAX), SHARE, SHARE),
        row(
            "Bytes of files (SVC_SPOOL_MAX_BYTES)",
            &format!("{} GiB or less", SPOOL_MAX_BYTES >> 30),
            "half",
            NONE,
        ),
        row(
            "Sign\\-ins that wait for the provider",
            &count(PROVIDER_CALLS_MAX),
            NONE,
            &count(PROVIDER_CALLS_MAX / 2),
        ),
        row("Reads that wait for the database", NONE, &queued(READS_QUEUED_MAX), NONE),
        row("Changes that wait for a writer", NONE, &queued(QUEUE_MAX), NONE),
        row("Changes that are set aside (PostgreSQL)", NONE, &queued(QUEUE_MAX), NONE),
        row(
            "Callers that wait for a place",
            NONE,
            &count(WAITING_PER_WORKSPACE_MAX),
            &count(WAITING_PER_CLIENT_MAX),
        ),
        row("Long reads in progress", NONE, "1", NONE),
        row("Exports in progress", NONE, "1", NONE),
    ]
}

#[test]
fn the_manual_has_each_ceiling_with_its_numbers() {
    let (_, table) = PAGE.split_once("\\fBCeiling\\fR\t").unwrap();
    let (table, _) = table.split_once("\n.TE\n").unwrap();
    let listed: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(listed, expected_rows());
}
