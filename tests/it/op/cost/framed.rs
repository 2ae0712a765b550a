//! The cost of framed rows that read.

use serde_json::{Value, json};
use svc_core::capability::Right;
use svc_core::op::Operation;
use svc_tests::client::Answer;
use svc_tests::{World, session_key, text};

use super::measure::{SeenStatements, asked};
use super::reads::inputs;

/// Returns a report for every request to a reading framed row that costs too much.
pub fn expensive_reads(world: &World, seen: &SeenStatements) -> Vec<String> {
    let mut found = Vec::new();
    let credentials = Credentials::new(world);
    let rows = world.service.table().rows();
    for row in rows.filter(|row| row.http().frame.is_some() && row.effect().is_read_only()) {
        for input in inputs(world, row) {
            let (answer, cost) = asked(world, seen, row.name(), || credentials.call(world, row, &input));
            // A filter that would be compared with more rows is refused, as is one of another resource, and
            // some examples name nothing.
            let refusals = [json!("tooMany"), json!("invalidFilter")];
            let is_refused = answer.status == 404 || refusals.contains(&answer.body["scimType"]);
            if !(answer.is_success() || is_refused) {
                found.push(format!("{} {input}: {} {:#}", row.name(), answer.status, answer.body));
            }
            if let Some(cost) = cost {
                found.push(format!("{} {input}: {cost}", row.name()));
            }
        }
    }
    found
}

/// The credentials for framed rows.
pub struct Credentials {
    ticket: String,
    cookie: String,
}

impl Credentials {
    /// Returns a share ticket for the sample of a channel, and a session of the admin's.
    pub fn new(world: &World) -> Self {
        let ticket = json!({"workspace_id": world.id("workspace"), "channel_id": world.id("channel"),
            "expires_in_secs": 3600});
        let ticket = text(&world.admin("create_share_ticket", ticket)["secret"]);
        let session = session_key().cookie(world.sign_in(&world.people.admin));
        Self { ticket: format!("ShareTicket {ticket}"), cookie: format!("svc_session={session}") }
    }

    /// Calls a row with the credential that it needs.
    pub fn call(&self, world: &World, row: &Operation, input: &Value) -> Answer {
        let needs = row.access().needs;
        let (token, headers) = if needs.names(Right::Ticket) {
            (None, vec![("authorization", &*self.ticket)])
        } else if needs.names(Right::Session) {
            (None, vec![("cookie", &*self.cookie), ("sec-fetch-site", "same-origin")])
        } else {
            (Some(&*world.people.admin), vec![])
        };
        world.rest().call_by(token, &headers, row, row.http().path, input)
    }
}
