//! Changes whose workspace is determined by their input instead of a credential.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svc_core::id::{ChannelId, MemberId, WorkspaceId};
use svc_core::op::{Credential, Effect, Feature, Read, Write, changing};
use svc_core::{Error, EventKind, EventPayload, Result, Subject};
use svc_tests::database::engines;
use svc_tests::{Setup, World};

/// Knocks at a channel, as a member of its workspace.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Knock {
    /// The channel.
    channel_id: ChannelId,
    /// The member who knocks.
    member_id: MemberId,
}

svc_core::without_requests! { Knock }

/// A knock.
#[derive(Serialize, JsonSchema)]
struct Knocked {
    /// Its position in the log.
    lsn: i64,
}

// Without a credential there are no idempotency keys.
svc_tests::keeps_nothing!(Knock => Knocked);

impl EventPayload for Knocked {
    const KIND: &'static str = "Knocked";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

const WORKSPACE: &str = "select workspace_id from channels where id = $1";

fn home(cx: &Read<'_>, input: &Knock) -> Result<WorkspaceId> {
    let found = cx.one::<(WorkspaceId,)>(WORKSPACE, &[&input.channel_id])?;
    found.map(|(workspace,)| workspace).ok_or_else(|| Error::not_found("channel"))
}

fn knock(cx: &mut Write<'_>, input: &Knock, &workspace: &WorkspaceId) -> Result<Knocked> {
    cx.within(workspace, Some(input.member_id), |cx| {
        let lsn = cx.emit(Subject::channel(input.channel_id), &Knocked { lsn: 0 })?.lsn;
        Ok(Knocked { lsn })
    })
}

fn features() -> Vec<Feature> {
    let operation = changing("knock", Effect::Write)
        .preflight(home)
        .run(knock)
        .title("Knock")
        .post("/knocks")
        .open_to_all()
        .example(|w| json!({"channel_id": w.id("channel"), "member_id": w.id("agent")}));
    vec![Feature::new().operations("knocks", vec![operation]).events(vec![EventKind::of::<Knocked>()])]
}

#[test]
fn a_change_that_no_credential_places_is_logged_and_audited_where_its_input_belongs() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let lsn = world.lsn();
        let input = json!({"channel_id": world.id("channel"), "member_id": world.id("agent")});
        let knocked = world.call_by(Credential::Nothing, "knock", &input).output();
        assert_eq!((&knocked["lsn"], world.kinds_after(lsn)), (&json!(lsn + 1), vec!["Knocked".to_owned()]));
        let workspace = world.id("workspace");
        let events = json!({"workspace_id": workspace, "after_id": lsn});
        let event = world.admin("list_events", events)["items"][0].clone();
        assert_eq!(event["payload"]["attribution"]["actor_id"], json!(world.id("agent")), "{event:#}");
        let row =
            world.admin("list_audit", json!({"workspace_id": workspace, "limit": 1}))["items"][0].clone();
        assert_eq!((&row["action"], &row["metadata"]["operation"]), (&json!("mutation"), &json!("knock")));
        let nowhere = json!({"channel_id": world.id("agent"), "member_id": world.id("agent")});
        world.call_by(Credential::Nothing, "knock", &nowhere).refused(404, "not-found");
        assert_eq!(world.lsn(), lsn + 1);
    }
}
