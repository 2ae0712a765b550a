//! Approval gates: questions to the people of a workspace, which a member other than the requester accepts.
//!
//! A gate is pending until it is decided or expires. A blocking gate prevents its thread from closing until
//! the gate is accepted or cancelled, or a later gate of the thread is accepted. The later gate need not be a
//! blocking one. The question is a sealed message in the thread, posted by the requester. A gate counts as
//! expired as soon as its expiry time has passed, although the event is written later. A caller who may not
//! accept a gate receives a link for a person.

pub(crate) mod link;
pub(crate) mod decide;
mod expiry;
mod follow;
mod page;
mod awaiting;

pub(super) use awaiting::gates_to_decide;
pub use follow::follow_approval;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ApprovalGrant, ThreadTransition, WorkspaceRead};
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::messages::{self, SealedPost};
use crate::conversation::visibility::{self, visible};
use crate::coordination::lifecycle::transition::CLOSE;
use crate::coordination::thread_row::visible_thread;
use crate::error::{Code, Error};
use crate::gates::verdict_rules::VerdictAuthor;
use crate::id::{ChannelId, GateId, MemberId, MessageId, ThreadId, WorkspaceId};
use crate::identity::members::{MemberKind, load_member};
use crate::identity::sessions;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{GATE_EXPIRY_MAX_SECS, GATE_EXPIRY_MIN_SECS, GATES_MAX, QUESTION_MAX, REASON_IDS_MAX};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Condition, Effect, Feature, KEEP_ROWS, Operation, Read, Records, Sample, SampleCaller, SharedState,
    UnmetRequirement, Write, changing, read, write,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::schema::{brief, default_is};
use crate::store::{columns, named_enum, new_row};
use crate::text::{Count, Prose};
use crate::time::Time;

/// Value of the key `notice` in the metadata of the message that contains a gate's question.
const QUESTION_NOTICE: &str = "approval";

pub(crate) fn feature() -> Feature {
    Feature::new()
        // The decision is kept when the text of its question is removed.
        .cleaner("approval_gates", KEEP_ROWS)
        .operations("approvals", operations())
        .events(vec![EventKind::of::<ApprovalRequested>(), EventKind::of::<decide::ApprovalDecided>()])
        .condition(Condition { name: "approval-gate", action: CLOSE, unmet: blocking_gates })
        .chore(expiry::chore())
        .sample(
            Sample::new(
                "approval_gate",
                "request_approval",
                |w| json!({"thread_id": w.id("gated_thread"), "question": "May the old spooler go?"}),
            )
            .by(SampleCaller::Agent),
        )
        .records(records())
}

fn records() -> Vec<Records> {
    vec![
        Records::table("approval_gates", "lsn id")
            .after("messages")
            .ids(
                "id workspace_id channel_id thread_id requested_by requested_actor_id resolved_by \
                 resolved_actor_id message_id",
            )
            .texts("state")
            .bools("blocks_close needs_person")
            .times("requested_at expires_at resolved_at")
            .ints("lsn")
            .proven(
                "id",
                "channel_id thread_id state blocks_close needs_person requested_by requested_actor_id \
                 requested_at expires_at resolved_by resolved_actor_id resolved_at message_id lsn",
            ),
    ]
}

fn operations() -> Vec<Operation> {
    vec![
        changing("request_approval", Effect::Write)
            .prepare(seal_question)
            .run(request_approval)
            .title("Ask for an approval")
            .when(
                "Ask other members to approve a step, by creating an approval gate. Use `get_approval_gate` \
                 to get the decision.",
            )
            .post("/threads/{thread_id}/approval-gates")
            .needs(&[ThreadTransition])
            .created()
            .refuses(&[Code::WrongState])
            .example(|w| {
                json!({"thread_id": w.id("gated_thread"), "question": "May I delete the old tables?",
                       "expires_in_secs": 86400})
            }),
        read("get_approval_gate", get_approval_gate)
            .resumes_text("question")
            .title("Read an approval gate")
            .when(
                "Get an approval gate: the question to approve, and the decision. Use `list_approval_gates` \
                 to find gates.",
            )
            .get("/approval-gates/{gate_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"gate_id": w.id("approval_gate")})),
        read("list_approval_gates", list_approval_gates)
            .title("List the approval gates of a workspace")
            .when(
                "List approval gates, the requests for approval, oldest first. Pass `state` \"pending\" for \
                 those that need a decision.",
            )
            .detailed()
            .get("/workspaces/{workspace_id}/approval-gates")
            .needs(&[WorkspaceRead])
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "thread_id": w.id("gated_thread"),
                       "state": "pending", "limit": 10})
            }),
        write("approval_decide", decide::approval_decide)
            .title("Decide an approval gate")
            .when(
                "Accept, decline or cancel an approval gate, which is a request for approval made with \
                 `request_approval`.",
            )
            .post("/approval-gates/{gate_id}/decision")
            .needs(decide::DECIDING_CAPABILITIES)
            .refuses(&[Code::Forbidden, Code::NeedsPerson, Code::WrongState])
            .example(|w| json!({"gate_id": w.id("approval_gate"), "decision": "accept"})),
        page::operation(),
    ]
}

named_enum! {
    /// State of an approval gate. All states except `pending` are final.
    #[non_exhaustive]
    pub enum GateState {
        Pending = "pending",
        Accepted = "accepted",
        Declined = "declined",
        Cancelled = "cancelled",
        Expired = "expired",
    }
}

/// A member requested an approval, which created an approval gate.
#[derive(Serialize, JsonSchema)]
struct ApprovalRequested {
    /// Id of the new approval gate.
    gate_id: GateId,
    /// Whether the gate prevents the thread from closing until the gate is accepted or cancelled.
    blocks_close: bool,
    /// Whether only a person may accept the gate.
    needs_person: bool,
    /// Time at which the gate expires; null if the gate never expires.
    expires_at: Option<Time>,
    /// Id of the message that contains the gate's question.
    message_id: MessageId,
}

impl Event for ApprovalRequested {
    const KIND: &'static str = "ApprovalRequested";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let gate = event.row_of("approval_gates", "gate_id")?.made();
        let gate = gate.copy("blocks_close needs_person expires_at message_id");
        let gate = gate.set_to("channel_id", "$channel").set_to("thread_id", "$thread");
        let gate = gate.set_to("requested_by", "$member").set("requested_actor_id", event.actor());
        let gate = gate.set("requested_at", event.at()).set("lsn", event.lsn());
        let gate = gate.set("state", GateState::Pending.name()).clear("resolved_by");
        gate.clear("resolved_actor_id").clear("resolved_at").keep()
    }
}

/// A request for the approval of a step in a thread.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ApprovalGate {
    /// Id of the gate.
    pub id: GateId,
    /// Id of the gate's workspace.
    pub workspace_id: WorkspaceId,
    /// Id of the channel that contains the gate's thread.
    pub channel_id: ChannelId,
    /// Id of the thread that the approval was requested in.
    pub thread_id: ThreadId,
    /// State of the gate at the time of the response.
    pub state: GateState,
    /// The question for the approver; blank if the message with the question was withdrawn or cannot be
    /// opened.
    pub question: String,
    /// Whether the gate prevents the thread from closing until this gate is accepted or cancelled, or a later
    /// gate of the thread is accepted.
    pub blocks_close: bool,
    /// Whether only a person may accept the gate. Agents may not, whatever capabilities they have.
    pub needs_person: bool,
    /// Id of the member who requested the approval.
    pub requested_by: MemberId,
    /// Id of the delegate who requested the approval for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_actor_id: Option<MemberId>,
    /// Time at which the approval was requested.
    pub requested_at: Time,
    /// Time at which the gate expires if it is still pending; null if the gate never expires.
    pub expires_at: Option<Time>,
    /// Id of the member who decided the gate; null if the gate is pending or has expired.
    pub resolved_by: Option<MemberId>,
    /// Id of the delegate who decided the gate for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// Time at which the gate was decided or expired; null while it is pending.
    pub resolved_at: Option<Time>,
    /// Id of the message in the thread that contains the question.
    pub message_id: MessageId,
    /// Position of the gate's creation in the workspace's event log.
    pub lsn: i64,
}

/// Row of an approval gate, without the question. The column `state` may not reflect expiry yet.
struct StoredGate(ApprovalGate);

columns! {
    pub(super) gate_columns: ApprovalGate in StoredGate as g {
        id,
        workspace_id,
        channel_id,
        thread_id,
        state,
        blocks_close,
        needs_person,
        requested_by,
        requested_actor_id = "nullif(g.requested_actor_id, g.requested_by)",
        requested_at,
        expires_at,
        resolved_by,
        resolved_actor_id = "nullif(g.resolved_actor_id, g.resolved_by)",
        resolved_at,
        message_id,
        lsn,
    }
    make { question: String::new() }
}

impl StoredGate {
    /// Returns the gate with its current state and its decrypted question.
    fn into_gate(self, cx: &Read<'_>) -> Result<ApprovalGate> {
        let words = messages::body_and_metadata(cx, self.0.message_id)?;
        let question = words.map_or_else(String::new, |(question, _)| question);
        Ok(ApprovalGate { question, ..self.with_state_at(cx.now()) })
    }

    /// Returns the gate without its question, with the state that the gate has at the time `now`.
    fn with_state_at(self, now: Time) -> ApprovalGate {
        let Self(gate) = self;
        let over = gate.expires_at.filter(|end| gate.state == GateState::Pending && *end <= now);
        if over.is_none() {
            return gate;
        }
        ApprovalGate { state: GateState::Expired, resolved_at: over, ..gate }
    }
}

request! {
    /// Requests an approval from other members, and returns the new approval gate.
    ///
    /// Other members with `approval:grant` may accept the gate; you may not, directly or through a delegate.
    /// With `needs_person`, agents may not.
    ///
    /// The server posts the question in the thread as a message of yours, which cannot be edited.
    ///
    /// Fails with 409 `wrong-state` if the thread is finished or already has 1000 gates, or if its channel is
    /// archived.
    #[derive(Serialize)]
    struct RequestApproval {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The question for the approver.
        question: Prose<1, QUESTION_MAX>,
        /// Whether the gate prevents the thread from closing until it is accepted or cancelled. Default:
        /// true.
        ///
        /// The thread may also close after a later gate is accepted, whether or not the later gate has
        /// `blocks_close`.
        blocks_close: Option<bool>,
        /// Whether only a person, not an agent, may accept the gate.
        #[schemars(transform = brief("Whether a person must accept the gate."))]
        #[schemars(transform = default_is("false"))]
        needs_person: Option<bool>,
        /// Seconds until the gate expires, at least 60. Default: never.
        ///
        /// Maximum: 2592000 (30 days). A gate that was decided does not expire.
        #[schemars(transform = brief("Seconds until the gate expires."))]
        expires_in_secs: Option<Count<GATE_EXPIRY_MIN_SECS, GATE_EXPIRY_MAX_SECS>>,
    }

    request_approval(thread_id: ThreadId, question: Prose<1, QUESTION_MAX>) -> ApprovalGate
}

/// Content of an approval request that was prepared before the transaction: the gate's id and the sealed
/// question.
struct SealedQuestion {
    id: GateId,
    post: SealedPost,
}

/// Seals the question of a new gate, before the transaction that creates the gate.
fn seal_question(input: &RequestApproval, shared: &SharedState, now: Time) -> Result<SealedQuestion> {
    let id = shared.entropy.id(now)?;
    let metadata = json!({"notice": QUESTION_NOTICE, "gate_id": id});
    Ok(SealedQuestion { id, post: messages::seal_post(shared, now, &input.question, &metadata)? })
}

fn request_approval(
    cx: &mut Write<'_>,
    input: &RequestApproval,
    sealed: &SealedQuestion,
) -> Result<ApprovalGate> {
    let thread = visible_thread(cx, input.thread_id)?;
    let requester = VerdictAuthor::of(cx.caller())?;
    thread.check_unfinished()?;
    let place = visibility::visible_thread_place(cx, thread.id)?;
    place.check_not_archived()?;
    let (count,): (i64,) = cx.one(COUNT_GATES_OF_THREAD, &[&thread.id])?.unwrap_or_default();
    if count >= GATES_MAX {
        return Err(Error::wrong_state(format!("a thread has at most {GATES_MAX} approval gates")));
    }
    let expires_at = input.expires_in_secs.map(|secs| cx.now().shifted(secs.get().saturating_mul(1_000_000)));
    let requested = ApprovalRequested {
        gate_id: sealed.id,
        blocks_close: input.blocks_close.unwrap_or(true),
        needs_person: input.needs_person.unwrap_or(false),
        expires_at,
        message_id: sealed.post.message_id(),
    };
    let recorded = cx.emit(thread.place().about(requester.member), &requested)?;
    let lsn = recorded.lsn;
    let message_id = messages::post_sealed(cx, &place, Some(requester.member), &sealed.post)?.id;
    let able = sessions::members_with_capability(cx, ApprovalGrant)?;
    inbox::notify(
        cx,
        &recorded,
        InboxReason::ApprovalRequested,
        Some(message_id),
        Recipients::Members(&able),
    )?;
    let gate = ApprovalGate {
        id: sealed.id,
        workspace_id: thread.workspace_id,
        channel_id: thread.channel_id,
        thread_id: thread.id,
        state: GateState::Pending,
        question: input.question.to_string(),
        blocks_close: requested.blocks_close,
        needs_person: requested.needs_person,
        requested_by: requester.member,
        requested_actor_id: requester.delegate(),
        requested_at: recorded.at,
        expires_at,
        resolved_by: None,
        resolved_actor_id: None,
        resolved_at: None,
        message_id,
        lsn,
    };
    cx.insert(&new_row!("insert into approval_gates" {
        id: gate.id,
        workspace_id: gate.workspace_id,
        channel_id: gate.channel_id,
        thread_id: gate.thread_id,
        state: gate.state,
        blocks_close: gate.blocks_close,
        needs_person: gate.needs_person,
        requested_by: requester.member,
        requested_actor_id: requester.actor,
        requested_at: gate.requested_at,
        expires_at: gate.expires_at,
        message_id: gate.message_id,
        lsn: gate.lsn,
    }))?;
    Ok(gate)
}

const COUNT_GATES_OF_THREAD: &str = "select count(*) from approval_gates where thread_id = $1";

request! {
    /// Returns an approval gate with its state and its question.
    struct GetApprovalGate {
        /// Id of the gate.
        gate_id: GateId,
    }

    get_approval_gate(gate_id: GateId) -> ApprovalGate
}

fn get_approval_gate(cx: &Read<'_>, input: &GetApprovalGate) -> Result<ApprovalGate> {
    visible_gate(cx, input.gate_id)?.into_gate(cx)
}

/// Loads a gate by its id. Fails with *not found* unless the caller may see the gate's channel.
fn visible_gate(cx: &Read<'_>, gate_id: GateId) -> Result<StoredGate> {
    let found: Option<StoredGate> = cx.one(GATE_BY_ID, &[&gate_id, &cx.caller().workspace_id])?;
    let stored = found.ok_or_else(|| Error::not_found("approval gate"))?;
    let hidden = |error: Error| match error.code() {
        Code::NotFound => Error::not_found("approval gate"),
        _ => error,
    };
    visibility::visible_channel(cx, stored.0.channel_id).map_err(hidden)?;
    Ok(stored)
}

const GATE_BY_ID: &str =
    concat!("select ", gate_columns!(), " from approval_gates g where g.id = $1 and g.workspace_id = $2");

request! {
    /// Returns the approval gates of a workspace that you may see, oldest first.
    ///
    /// The server examines up to 2000 gates for one page, so a page may be short or empty although more gates
    /// follow: continue while `next_cursor` is not null.
    #[schemars(transform = brief(""))]
    struct ListApprovalGates {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Return only the gates of this thread.
        thread_id: Option<ThreadId>,
        /// Return only gates in this state.
        state: Option<GateState>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_approval_gates() -> Page<ApprovalGate>
}

fn list_approval_gates(cx: &Read<'_>, input: &ListApprovalGates) -> Result<Page<ApprovalGate>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let now = cx.now();
    let lsn = |gate: &StoredGate| gate.0.lsn;
    let page = if let Some(id) = input.thread_id {
        let thread = visible_thread(cx, id)?;
        let found = cx.rows(GATES_OF_THREAD, &[&thread.id, &after, &input.state, &now, &rows])?;
        Page::of(found, input.limit, lsn)
    } else {
        let horizon = cx.horizon(GATE_HORIZON, &[&workspace_id], after)?;
        let last = horizon.up_to();
        let visibility = cx.caller().visibility.params();
        let params = visibility.and(&[&workspace_id, &after, &input.state, &now, &last, &rows]);
        Page::within(horizon, cx.rows(GATES_OF_WORKSPACE, &params)?, input.limit, lsn)
    };
    page.try_fill(|gate: &ApprovalGate| gate.lsn, |gate| gate.into_gate(cx))
}

/// Returns whether a member is an agent.
fn is_agent(cx: &Read<'_>, member: MemberId) -> Result<bool> {
    Ok(load_member(cx, member)?.kind == MemberKind::Agent)
}

/// SQL condition: the state of gate `g` at time `$now` is `$state`. True for every gate if `$state` is null.
macro_rules! in_state {
    ($state:literal, $now:literal) => {
        concat!(
            "(cast(",
            $state,
            " as text) is null or ",
            $state,
            " = case when g.state = 'pending' and g.expires_at <= ",
            $now,
            " then 'expired' else g.state end)"
        )
    };
}

/// Query without a horizon, because a thread cannot have more gates than one page may examine.
const GATES_OF_THREAD: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g where g.thread_id = $1 and g.lsn > $2 and ",
    in_state!("$3", "$4"),
    " order by g.lsn limit $5"
);

const GATES_OF_WORKSPACE: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g join channels c on c.id = g.channel_id
     where g.workspace_id = $5 and g.lsn > $6 and g.lsn <= $9 and ",
    in_state!("$7", "$8"),
    " and ",
    visible!(c),
    " order by g.lsn limit $10"
);

const GATE_HORIZON: &str =
    "select lsn from approval_gates where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

/// Returns the approval gates that prevent a thread from closing.
fn blocking_gates(cx: &Read<'_>, thread_id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let blocking: Vec<(GateId, i64)> = cx.query(BLOCKING_GATES, &[&thread_id, &REASON_IDS_MAX])?;
    let detail = match blocking.first() {
        None => return Ok(Vec::new()),
        Some((_, 1)) => "an approval gate was not accepted".to_owned(),
        Some((_, more)) => format!("{more} approval gates were not accepted"),
    };
    Ok(vec![UnmetRequirement { detail, ids: blocking.iter().map(|(gate, _)| gate.to_string()).collect() }])
}

const BLOCKING_GATES: &str = "
    select g.id, count(*) over () from approval_gates g
    where g.thread_id = $1 and g.blocks_close and g.state not in ('accepted', 'cancelled')
        and g.lsn > (
            select coalesce(max(a.lsn), 0) from approval_gates a
            where a.thread_id = $1 and a.state = 'accepted')
    order by g.lsn limit $2";

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn only_a_pending_gate_expires() {
        let id = Uuid::from_u128;
        let end = Time::from_micros(100);
        let stored = |state, expires_at| {
            StoredGate(ApprovalGate {
                id: id(1).into(),
                workspace_id: id(2).into(),
                channel_id: id(3).into(),
                thread_id: id(4).into(),
                state,
                question: String::new(),
                blocks_close: true,
                needs_person: false,
                requested_by: id(5).into(),
                requested_actor_id: None,
                requested_at: Time::from_micros(0),
                expires_at,
                resolved_by: None,
                resolved_actor_id: None,
                resolved_at: None,
                message_id: id(6).into(),
                lsn: 1,
            })
        };
        let at = |micros, state, expires_at| {
            let gate = stored(state, expires_at).with_state_at(Time::from_micros(micros));
            (gate.state, gate.resolved_at)
        };
        for &state in GateState::ALL {
            assert_eq!(at(99, state, Some(end)), (state, None));
            assert_eq!(at(i64::MAX, state, None), (state, None));
            let wanted =
                if state == GateState::Pending { (GateState::Expired, Some(end)) } else { (state, None) };
            assert_eq!(at(100, state, Some(end)), wanted);
        }
    }
}
