//! A log with many old events, stored directly in the database.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svc_core::chain::Link;
use svc_core::signed_note::NoteSigner;
use svc_core::time::{Clock, Time};
use svc_core::{Attribution, EventPayload, OpenMode, RateSettings, Service, ServiceOptions, Subject};

use super::stage::Stage;
use crate::database::TestDatabase;
use crate::world::SIGNS;

/// Events per statement.
const CHUNK: i64 = 500;
/// Their age.
const AGE: Duration = Duration::from_secs(10 * 86_400);

/// An old event.
#[derive(Serialize, JsonSchema)]
struct Old {
    number: i64,
    text: &'static str,
}

impl EventPayload for Old {
    const KIND: &'static str = "Old";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

/// Opens a stage whose log has `count` old events. Its service prunes at once what a policy makes due.
pub fn stage(database: &TestDatabase, count: i64) -> Stage {
    let past = Clock::system().now().shifted(-i64::try_from(AGE.as_micros()).expect("a span"));
    let stage = Stage::build_at(database, Clock::mock(past));
    let workspace = stage.workspace_id;
    let head = &database
        .rows(&format!("select lsn, hash, at from heads where workspace_id = {}", database.id(workspace)))[0];
    let mut lsn = number(&head[0]);
    let at = Time::from_micros(number(&head[2]));
    let mut prev_hash: [u8; 32] =
        hex::decode(head[1].as_str().expect("a hash")).expect("hex").try_into().expect("32 bytes");
    for _ in 0..count / CHUNK {
        let mut rows = Vec::new();
        for _ in 0..CHUNK {
            lsn += 1;
            let link = Link {
                workspace_id: workspace,
                lsn,
                kind: Old::KIND,
                at,
                subject: Subject::WORKSPACE,
                prev_hash,
            };
            let event =
                Old { number: lsn, text: "as long as what usually stands in the payload of an event" };
            let payload = link.payload(&Attribution::default(), &event).expect("a payload");
            let hash = svc_core::hash::sha256(payload.as_bytes());
            rows.push(format!(
                "({}, {lsn}, 'Old', {}, {}, {}, '{payload}')",
                database.id(workspace),
                at.micros(),
                database.bytes(&prev_hash),
                database.bytes(&hash),
            ));
            prev_hash = hash;
        }
        database.execute(&format!(
            "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload) values {}",
            rows.join(",")
        ));
    }
    database.execute(&format!(
        "update heads set lsn = {lsn}, hash = {} where workspace_id = {}",
        database.bytes(&prev_hash),
        database.id(workspace)
    ));
    reopened(database, stage)
}

fn number(value: &Value) -> i64 {
    value.as_i64().expect("a number")
}

/// Returns the stage in the present, with a service that prunes.
fn reopened(database: &TestDatabase, stage: Stage) -> Stage {
    let Stage { service, token, workspace_id, admin_id, channel_id, thread_id } = stage;
    drop(service);
    let mut options = ServiceOptions::new(database.address(), [7; 32]);
    options.mode = OpenMode::Existing;
    options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
    options.settings.signer = Some(NoteSigner::new(&SIGNS));
    options.settings.retention_tick = Some(Duration::from_secs(1));
    let service = Service::with_options(options).expect("the service opens");
    Stage { service, token, workspace_id, admin_id, channel_id, thread_id }
}
