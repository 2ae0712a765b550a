//! An additional operation, registered like the built-in ones.
//!
//! It is in every projection of the table, and the generated tests cover it without further code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::MessagePost;
use svc_core::id::ChannelId;
use svc_core::op::{Answer, Feature, Fixture, Operation, Read, Sample, SampleCaller, Write, contract, write};
use svc_core::{Engine, Error, EventKind, EventPayload, Result, Subject};
use svc_tests::database::engines;
use svc_tests::{Setup, World};

use crate::op::access::unauthorized_callers_are_rejected;
use crate::op::borders::hidden_objects_look_unknown;
use crate::shells::transports::examples_succeed_alike;

/// Waves at all members of a channel.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaveAtChannel {
    /// The channel.
    channel_id: ChannelId,
    /// Number of waves.
    times: Option<u8>,
}

svc_core::without_requests! { WaveAtChannel }

/// A wave.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Wave {
    /// The channel.
    channel_id: ChannelId,
    /// Number of waves.
    times: u8,
    /// Its position in the log.
    lsn: i64,
}

/// A wave has no text, so repeats keep all of it.
impl Answer<WaveAtChannel> for Wave {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, input: &WaveAtChannel, kept: Self) -> Result<Self> {
        check_visible(cx, input.channel_id)?;
        Ok(kept)
    }
}

/// A member waved.
#[derive(Serialize, JsonSchema)]
struct ChannelWaved {
    /// Number of waves.
    times: u8,
}

impl EventPayload for ChannelWaved {
    const KIND: &'static str = "ChannelWaved";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

const VISIBLE: &str = "
    select count(*) from channels c
    where c.id = $1 and c.workspace_id = $2
      and (not c.private
           or exists (select 1 from channel_members s where s.channel_id = c.id and s.member_id = $3))";

fn wave_at_channel(cx: &mut Write<'_>, input: &WaveAtChannel) -> Result<Wave> {
    check_visible(cx, input.channel_id)?;
    let times = input.times.unwrap_or(1);
    let lsn = cx.emit(Subject::channel(input.channel_id), &ChannelWaved { times })?.lsn;
    Ok(Wave { channel_id: input.channel_id, times, lsn })
}

fn check_visible(cx: &Read<'_>, channel: ChannelId) -> Result<()> {
    let workspace_id = cx.caller().workspace_id;
    let member_id = cx.caller().member;
    match cx.one::<(i64,)>(VISIBLE, &[&channel, &workspace_id, &member_id])? {
        Some((1,)) => Ok(()),
        _ => Err(Error::not_found("channel")),
    }
}

fn features() -> Vec<Feature> {
    let operation = write("wave_at_channel", wave_at_channel)
        .title("Wave at a channel")
        .post("/channels/{channel_id}/waves")
        .alias("/channels/{channel_id}/hello")
        .needs(&[MessagePost])
        .created()
        .example(|w| json!({"channel_id": w.id("merry_channel"), "times": 3}));
    let channel = Sample::new(
        "merry_channel",
        "create_channel",
        |w| json!({"workspace_id": w.id("workspace"), "name": "merry"}),
    );
    let wave = |w: &Fixture| json!({"channel_id": w.id("merry_channel")});
    let waves = Feature::new()
        .operations("waves", vec![operation])
        .events(vec![EventKind::of::<ChannelWaved>()])
        .sample(channel.then("wave_at_channel", wave).by(SampleCaller::Agent));
    vec![waves]
}

fn is_the_wave(operation: &Operation) -> bool {
    operation.name() == "wave_at_channel"
}

#[test]
fn it_is_in_every_projection() {
    let world = World::with(Engine::Sqlite, Setup { features, ..Setup::default() });
    let table = world.service.table();
    let names = |contract: Value, key: &str| -> Vec<Value> {
        contract.as_array().unwrap().iter().map(|entry| entry[key].clone()).collect()
    };
    assert!(names(contract::operations(table), "name").contains(&json!("wave_at_channel")));
    assert!(names(contract::events(table), "kind").contains(&json!("ChannelWaved")));

    let document = world.rest().send(None, "GET", "/openapi.json", &[], None).body;
    for path in world.operation("wave_at_channel").http().paths() {
        assert_eq!(document["paths"][path]["post"]["summary"], "Wave at a channel");
    }
    let listed = |token: &str| {
        let mut names = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let page = world.mcp().request(Some(token), "tools/list", params).body["result"].clone();
            names.extend(names_of(&page["tools"]));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return names;
            }
        }
    };
    assert!(listed(&world.people.admin).contains(&"wave_at_channel".to_owned()));
    assert!(!listed(&world.people.reader).contains(&"wave_at_channel".to_owned()));

    let operation = world.operation("wave_at_channel");
    let input = json!({"channel_id": world.id("channel"), "times": 2});
    assert_eq!(world.rest().call(Some(&world.people.agent), operation, &input).output()["times"], 2);
    assert_eq!(world.mcp().call(Some(&world.people.agent), operation, &input).output()["times"], 2);
    assert_eq!(world.kinds_after(world.lsn() - 2), ["ChannelWaved", "ChannelWaved"]);
}

fn names_of(tools: &Value) -> Vec<String> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn its_sample_is_made_by_its_declared_calls() {
    let world = World::with(Engine::Sqlite, Setup { features, ..Setup::default() });
    let last = json!({"workspace_id": world.id("workspace"), "after_id": world.lsn() - 2, "limit": 2});
    let events = world.admin("list_events", last);
    let made = events["items"].as_array().unwrap().iter();
    let made: Vec<Value> =
        made.map(|event| json!([event["kind"], event["payload"]["attribution"]["actor_id"]])).collect();
    let expected = json!([["ChannelCreated", world.id("admin")], ["ChannelWaved", world.id("agent")]]);
    assert_eq!(json!(made), expected);
    assert_eq!(events["items"][0]["payload"]["channel_id"], json!(world.id("merry_channel")));
}

#[test]
fn the_generated_tests_hold_for_it() {
    for engine in engines() {
        examples_succeed_alike(engine, features, &is_the_wave);
        unauthorized_callers_are_rejected(engine, features, &is_the_wave);
        hidden_objects_look_unknown(engine, features, &is_the_wave);
    }
}
