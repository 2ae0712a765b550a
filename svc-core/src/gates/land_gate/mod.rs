//! The land gate of a thread: the work to land, and whether a member has passed the work for landing.
//!
//! The pointer of a gate identifies one piece of work, such as a branch, at one commit. A pass counts under
//! the same rules as an approval, if the author of the pass has the skill `land_gate`. A later pointer or
//! verdict replaces the pass. A pass no longer counts after a later result or reopening of the thread.
//! Closing a thread needs a pass only if the thread requires one. `advice` reports the unmet requirements for
//! closing.

pub(crate) mod advice;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::coordination::lifecycle::transition::CLOSE;
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::error::{Code, Error};
use crate::gates::commit::CommitHash;
use crate::gates::verdict_rules::{
    EarlierVerdict, Objection, VerdictAuthor, VerdictRules, check_may_lower_requirements,
};
use crate::id::{MemberId, ThreadId};
use crate::identity::members::{self, may_act};
use crate::limits::LAND_POINTER_MAX;
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, Condition, Feature, Read, Records, Sample, UnmetRequirement, Write, destructive, idempotent,
    read, write,
};
use crate::request::request;
use crate::store::{columns, named_enum};
use crate::text::Text;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "land_gate",
            vec![
                idempotent("set_land_gate", set_land_gate)
                    .title("Set the land pointer of a thread")
                    .when(
                        "Record the work, such as a branch, that a thread wants to land (merge). Pass a \
                         `verdict` to decide whether it may land.",
                    )
                    .put("/threads/{thread_id}/land-gate")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(|w| {
                        json!({"thread_id": w.id("gated_thread"), "pointer": "feature/printer",
                               "head_sha": "0f3c9a1", "verdict": "pass"})
                    }),
                read("get_land_gate", get_land_gate)
                    .title("Read a thread's land gate")
                    .when(
                        "Get a thread's land gate: the work to merge, and the verdict on whether it may \
                         land. Use `set_land_gate` to record a verdict.",
                    )
                    .get("/threads/{thread_id}/land-gate")
                    .needs(&[ThreadTransition])
                    .example(|w| json!({"thread_id": w.id("gated_thread")})),
                idempotent("require_land_gate", require_land_gate)
                    .title("Require the land gate of a thread")
                    .when(
                        "Require a verdict that a thread's work may land (be merged) before the thread may \
                         close. Use `clear_land_gate` to undo this.",
                    )
                    .put("/threads/{thread_id}/land-gate/requirement")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState])
                    .example(|w| json!({"thread_id": w.id("thread")})),
                destructive("clear_land_gate", clear_land_gate)
                    .title("Stop requiring the land gate of a thread")
                    .when(
                        "Let a thread close without a verdict that its work may land (be merged). Use \
                         `require_land_gate` to require one again.",
                    )
                    .reversible()
                    .delete("/threads/{thread_id}/land-gate/requirement")
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
                    .example(|w| json!({"thread_id": w.id("gated_thread")})),
                write("request_land_advice", advice::request_land_advice)
                    .title("Get advice on closing a thread")
                    .post("/threads/{thread_id}/land-gate/advice")
                    .rest_only()
                    .needs(&[ThreadTransition])
                    .refuses(&[Code::WrongState, Code::NotEnabled])
                    .example(|w| json!({"thread_id": w.id("gated_thread")})),
            ],
        )
        .events(vec![
            EventKind::of::<LandGateSet>(),
            EventKind::of::<LandGateRequired>(),
            EventKind::of::<LandGateCleared>(),
        ])
        .condition(Condition { name: "land-gate", action: CLOSE, unmet: missing_pass })
        // No member of the sample workspace has this skill, so no example claims the thread.
        .sample(
            Sample::new("gated_thread", "create_thread", |w| {
                json!({"channel_id": w.id("channel"), "title": "Port the spooler", "required_skills": ["c"]})
            })
            .then("require_land_gate", |w| json!({"thread_id": w.id("gated_thread")}))
            .then("set_land_gate", |w| {
                json!({"thread_id": w.id("gated_thread"), "pointer": "spooler", "head_sha": "5be01d7"})
            }),
        )
        .records(records())
}

fn records() -> Vec<Records> {
    vec![
        Records::table("land_gates", "thread_id")
            .through("thread_id", "threads")
            .ids("thread_id member_id actor_id")
            .bools("required")
            .texts("pointer head_sha verdict objection")
            .times("set_at")
            .ints("lsn")
            .proven("thread_id", "required pointer head_sha verdict objection member_id actor_id set_at lsn"),
    ]
}

named_enum! {
    /// Verdict on whether the work of a land gate may land.
    pub enum LandVerdict { Pass = "pass", Fail = "fail" }
}

/// A member set the pointer of a land gate, possibly with a verdict.
#[derive(Serialize, JsonSchema)]
struct LandGateSet<'a> {
    /// The work to land, such as a branch name.
    pointer: &'a str,
    /// Commit hash of the work to land.
    head_sha: &'a CommitHash,
    /// Verdict on whether the work may land; null if the member set no verdict.
    verdict: Option<LandVerdict>,
    /// Reason why a verdict `pass` by this member would not have counted when the event occurred; null if the
    /// verdict would have counted.
    objection: Option<Objection>,
    /// Whether the thread requires a pass before it may close. The event does not change this value.
    required: bool,
}

impl Event for LandGateSet<'_> {
    const KIND: &'static str = "LandGateSet";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let gate = event.row_of("land_gates", "$thread")?;
        let gate = if event.field("required").is_some() { gate.made().copy("required") } else { gate };
        let gate = gate.copy("pointer head_sha verdict objection").set_to("member_id", "$member");
        let gate = gate.set("actor_id", event.actor()).set("set_at", event.at());
        gate.set("lsn", event.lsn()).keep()
    }
}

/// A member made a pass of the land gate a requirement for closing the thread.
#[derive(Serialize, JsonSchema)]
struct LandGateRequired {
    /// Position at which the gate's pointer was last set; null if it was never set.
    set_lsn: Option<i64>,
}

impl Event for LandGateRequired {
    const KIND: &'static str = "LandGateRequired";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let gate = event.row_of("land_gates", "$thread")?;
        let is_new = event.field("set_lsn").is_some_and(Value::is_null);
        let gate = if is_new {
            NULL_UNTIL_SET.iter().fold(gate.made(), |gate, name| gate.clear(name))
        } else {
            gate
        };
        gate.set("required", true).keep()
    }
}

/// Columns of a land gate that are null until the gate's pointer is set.
const NULL_UNTIL_SET: [&str; 8] =
    ["pointer", "head_sha", "verdict", "objection", "member_id", "actor_id", "set_at", "lsn"];

/// A member removed the requirement of a land gate pass before the thread may close.
#[derive(Serialize, JsonSchema)]
struct LandGateCleared {}

impl Event for LandGateCleared {
    const KIND: &'static str = "LandGateCleared";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("land_gates", "$thread")?.set("required", false).keep()
    }
}

/// Row of a thread's land gate.
#[derive(Clone, Debug, Default)]
struct StoredLandGate {
    required: bool,
    pointer: Option<String>,
    head_sha: Option<CommitHash>,
    verdict: Option<LandVerdict>,
    objection: Option<Objection>,
    member_id: Option<MemberId>,
    actor_id: Option<MemberId>,
    set_at: Option<Time>,
    lsn: Option<i64>,
    active: bool,
}

columns! {
    land_gate_columns: StoredLandGate as g {
        required,
        pointer,
        head_sha,
        verdict,
        objection,
        member_id,
        actor_id,
        set_at,
        lsn,
        active = (may_act!("g.member_id"), " and ", may_act!("g.actor_id")),
    }
}

/// Returns the land gate of a thread. If the thread has no row, the result has no pointer and requires no
/// pass.
fn load_gate(cx: &Read<'_>, thread: ThreadId) -> Result<StoredLandGate> {
    Ok(cx.one(GATE_OF_THREAD, &[&thread])?.unwrap_or_default())
}

const GATE_OF_THREAD: &str =
    concat!("select ", land_gate_columns!(), " from land_gates g where g.thread_id = $1");

impl StoredLandGate {
    /// Returns the author and position of the current pointer and of its verdict, if any, with the objection
    /// that was stored with them. Returns `None` if the gate was never set.
    fn judgement(&self) -> Option<EarlierVerdict> {
        let author = VerdictAuthor { member: self.member_id?, actor: self.actor_id? };
        Some(EarlierVerdict { author, lsn: self.lsn?, objection: self.objection, active: self.active })
    }

    /// Returns the reason why the work may not land. The inner value is `None` if the work may land.
    ///
    /// The outer value is `None` if the gate has no pointer.
    fn pass_objection(&self, rules: &VerdictRules) -> Option<Option<Objection>> {
        let judgement = self.judgement()?;
        if self.verdict != Some(LandVerdict::Pass) {
            return Some(Some(Objection::Verdict));
        }
        Some(rules.objection_to_verdict(&judgement))
    }
}

/// Returns the rules for judging a thread's land gate. Only `judge` is checked for the required skill.
fn land_gate_rules(cx: &Read<'_>, thread: &Thread, judge: Option<MemberId>) -> Result<VerdictRules> {
    let is_qualified = match judge {
        Some(judge) => members::member_has_skill(cx, judge, members::LAND_GATE_SKILL)?,
        None => false,
    };
    VerdictRules::of_thread(cx, thread, judge.filter(|_| is_qualified).into_iter().collect())
}

/// The land gate of a thread, with its current effect on closing the thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LandGate {
    /// Id of the land gate's thread.
    pub thread_id: ThreadId,
    /// Whether the thread requires a pass that counts before it may close.
    pub required: bool,
    /// Whether the gate lets the thread close: either a pass counts, or no pass is required.
    pub satisfied: bool,
    /// The work to land, such as a branch name; null if the gate was never set.
    pub pointer: Option<String>,
    /// Commit hash of the work to land; null if the gate was never set.
    pub head_sha: Option<CommitHash>,
    /// Verdict on whether the work may land; null if the gate has no verdict.
    pub verdict: Option<LandVerdict>,
    /// Whether the verdict is a pass that counts.
    pub counts: bool,
    /// Reason why the verdict does not count as a pass; null if the verdict counts or the gate was never set.
    pub why_not: Option<Objection>,
    /// The member who last set the gate's pointer; null if the gate was never set.
    pub member_id: Option<MemberId>,
    /// The delegate who last set the gate's pointer for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<MemberId>,
    /// Time at which the gate's pointer was last set; null if it was never set.
    pub set_at: Option<Time>,
    /// Position of the last `LandGateSet` event in the workspace's event log; null if the gate was never set.
    pub lsn: Option<i64>,
}

impl LandGate {
    /// Combines a thread's stored gate with its current effect under `rules`.
    fn new(thread: &Thread, stored: StoredLandGate, rules: &VerdictRules) -> Self {
        let objection = stored.pass_objection(rules);
        let counts = objection == Some(None);
        let delegate = stored.judgement().and_then(|judgement| judgement.author.delegate());
        Self {
            thread_id: thread.id,
            required: stored.required,
            satisfied: counts || !stored.required,
            pointer: stored.pointer,
            head_sha: stored.head_sha,
            verdict: stored.verdict,
            counts,
            why_not: objection.flatten(),
            member_id: stored.member_id,
            actor_id: delegate,
            set_at: stored.set_at,
            lsn: stored.lsn,
        }
    }
}

impl<I> Answer<I> for LandGate {
    type Kept = ThreadId;

    fn kept(&self) -> Option<ThreadId> {
        Some(self.thread_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, thread_id: ThreadId) -> Result<Self> {
        get_land_gate(cx, &GetLandGate { thread_id })
    }
}

request! {
    /// Records the work that a thread wants to land, optionally with a verdict, and returns the thread's land
    /// gate.
    ///
    /// Replaces the earlier work and verdict, so a pass always applies to the current work. A pass no longer
    /// counts after a later result or reopening of the thread.
    ///
    /// A pass counts if its author has the skill `land_gate`, does not own the thread and has never worked on
    /// it. Under delegation, the delegate also must not own the thread or have worked on it. The server
    /// checks these rules when the pass is set and again when the thread closes. A pass does not count while
    /// its author or the delegate is frozen or deactivated.
    ///
    /// Fails with 409 `wrong-state` if the thread is finished.
    #[derive(Serialize)]
    struct SetLandGate {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The work to land, such as a branch or the URL of a pull request.
        pointer: Text<1, LAND_POINTER_MAX>,
        /// The commit hash of the work, or at least its first 4 digits.
        head_sha: CommitHash,
        /// Verdict on whether the work may land. Default: no verdict.
        verdict: Option<LandVerdict>,
    }

    set_land_gate(thread_id: ThreadId, pointer: Text<1, LAND_POINTER_MAX>, head_sha: CommitHash) -> LandGate
}

fn set_land_gate(cx: &mut Write<'_>, input: &SetLandGate) -> Result<LandGate> {
    let thread = visible_thread(cx, input.thread_id)?;
    let by = VerdictAuthor::of(cx.caller())?;
    thread.check_unfinished()?;
    let rules = land_gate_rules(cx, &thread, Some(by.member))?;
    let before = load_gate(cx, thread.id)?;
    let mut after = StoredLandGate {
        required: before.required,
        pointer: Some(input.pointer.to_string()),
        head_sha: Some(input.head_sha.clone()),
        verdict: input.verdict,
        objection: rules.objection_to_author(by),
        member_id: Some(by.member),
        actor_id: Some(by.actor),
        // The time and the position of the event are not known yet. Both will be later than all existing
        // ones.
        set_at: None,
        lsn: Some(i64::MAX),
        active: true,
    };
    if is_unchanged(&before, &after, &rules) {
        return Ok(LandGate::new(&thread, before, &rules));
    }
    let set = LandGateSet {
        pointer: &input.pointer,
        head_sha: &input.head_sha,
        verdict: input.verdict,
        objection: after.objection,
        required: before.required,
    };
    let recorded = cx.emit(thread.place().about(by.member), &set)?;
    (after.set_at, after.lsn) = (Some(recorded.at), Some(recorded.lsn));
    cx.execute(
        1,
        SET_GATE,
        &[
            &thread.id,
            &after.pointer,
            &after.head_sha,
            &after.verdict,
            &after.objection,
            &after.member_id,
            &after.actor_id,
            &after.set_at,
            &after.lsn,
        ],
    )?;
    Ok(LandGate::new(&thread, after, &rules))
}

/// Returns whether setting the gate again would change nothing: the values, authors and objection are equal.
fn is_unchanged(before: &StoredLandGate, after: &StoredLandGate, rules: &VerdictRules) -> bool {
    let said = |gate: &StoredLandGate| (gate.pointer.clone(), gate.head_sha.clone(), gate.verdict);
    said(before) == said(after)
        && (before.member_id, before.actor_id) == (after.member_id, after.actor_id)
        && before.pass_objection(rules) == after.pass_objection(rules)
}

const SET_GATE: &str = "
    insert into land_gates
        (thread_id, pointer, head_sha, verdict, objection, member_id, actor_id, set_at, lsn)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    on conflict (thread_id) do update set pointer = excluded.pointer, head_sha = excluded.head_sha,
        verdict = excluded.verdict, objection = excluded.objection, member_id = excluded.member_id,
        actor_id = excluded.actor_id, set_at = excluded.set_at, lsn = excluded.lsn";

request! {
    /// Returns a thread's land gate: the work to land, and whether the gate has a valid pass verdict.
    struct GetLandGate {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_land_gate(thread_id: ThreadId) -> LandGate
}

fn get_land_gate(cx: &Read<'_>, input: &GetLandGate) -> Result<LandGate> {
    let thread = visible_thread(cx, input.thread_id)?;
    let gate = load_gate(cx, thread.id)?;
    let rules = land_gate_rules(cx, &thread, gate.member_id)?;
    Ok(LandGate::new(&thread, gate, &rules))
}

request! {
    /// Requires a pass verdict in a thread's land gate before the thread may close, and returns the land
    /// gate.
    ///
    /// Fails with 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    struct RequireLandGate {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    require_land_gate(thread_id: ThreadId) -> LandGate
}

fn require_land_gate(cx: &mut Write<'_>, input: &RequireLandGate) -> Result<LandGate> {
    let thread = visible_thread(cx, input.thread_id)?;
    thread.check_not_archived()?;
    let gate = load_gate(cx, thread.id)?;
    if !gate.required {
        cx.emit(thread.place(), &LandGateRequired { set_lsn: gate.lsn })?;
        cx.execute(1, REQUIRE_PASS, &[&thread.id])?;
    }
    let rules = land_gate_rules(cx, &thread, gate.member_id)?;
    Ok(LandGate::new(&thread, StoredLandGate { required: true, ..gate }, &rules))
}

const REQUIRE_PASS: &str = "
    insert into land_gates (thread_id, required) values ($1, true)
    on conflict (thread_id) do update set required = excluded.required";

request! {
    /// Lets a thread close without a pass verdict in its land gate, and returns the land gate.
    ///
    /// The recorded work and verdict are kept.
    ///
    /// Fails with 403 `forbidden` if you have worked on the thread, directly or through a delegate; 404
    /// `not-found` if no pass is required; 409 `wrong-state` if the thread is archived.
    #[derive(Serialize)]
    struct ClearLandGate {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    clear_land_gate(thread_id: ThreadId) -> LandGate
}

fn clear_land_gate(cx: &mut Write<'_>, input: &ClearLandGate) -> Result<LandGate> {
    let thread = visible_thread(cx, input.thread_id)?;
    check_may_lower_requirements(cx, &thread)?;
    let gate = load_gate(cx, thread.id)?;
    if !gate.required {
        return Err(Error::not_found("land gate requirement"));
    }
    thread.check_not_archived()?;
    cx.emit(thread.place(), &LandGateCleared {})?;
    cx.execute(1, CLEAR_PASS_REQUIREMENT, &[&thread.id])?;
    let rules = land_gate_rules(cx, &thread, gate.member_id)?;
    Ok(LandGate::new(&thread, StoredLandGate { required: false, ..gate }, &rules))
}

const CLEAR_PASS_REQUIREMENT: &str = "update land_gates set required = false where thread_id = $1";

/// Returns the reason why a missing land gate pass prevents a thread from closing, if the thread requires a
/// pass.
fn missing_pass(cx: &Read<'_>, thread_id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let gate = load_gate(cx, thread_id)?;
    if !gate.required {
        return Ok(Vec::new());
    }
    let thread = visible_thread(cx, thread_id)?;
    let detail = match gate.pass_objection(&land_gate_rules(cx, &thread, gate.member_id)?) {
        Some(None) => return Ok(Vec::new()),
        Some(Some(Objection::Verdict)) => "the land gate was not passed".to_owned(),
        Some(Some(objection)) => format!("the pass of the land gate does not count ({})", objection.name()),
        None => "the land gate points at nothing".to_owned(),
    };
    Ok(vec![UnmetRequirement { detail, ids: Vec::new() }])
}
