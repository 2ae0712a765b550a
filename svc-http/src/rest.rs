//! Handles REST requests: calls the operation at the path of a request.
//!
//! The body is read only after the request has been admitted by its head. A running operation counts as a
//! request in flight; a parked wait does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Request;
use hyper::body::Incoming;
use svc_core::capability::Needs;
use svc_core::limits::WAIT_INPUT_MAX_BYTES;
use svc_core::op::{self, Admission, Effect, Operation};
use svc_core::spool::Upload;
use svc_core::{Code, Holder, Result};

use crate::decode::{self, TextFields};
use crate::encode::Response;
use crate::html::OutputFormat;
use crate::limits::body::{self, OPEN_ROUTE_BODY_MAX};
use crate::limits::in_flight::run_with_busy_slot;
use crate::limits::transfer;
use crate::state::{PeerLink, ServerState, UnverifiedRequest};

/// Handles a request that matches the route of `operation`.
pub(crate) async fn handle(
    state: &ServerState,
    operation: &Arc<Operation>,
    text: Result<TextFields>,
    link: &PeerLink,
    request: Request<Incoming>,
    unverified: &mut UnverifiedRequest,
) -> Result<Response> {
    let request_head = state.request_head(link, &request).await?;
    if operation.access().needs == Needs::Nothing {
        state.check_host(&request_head, &request)?;
    }
    let admission = match state.service.admit(Some(operation), request_head).await {
        Ok(admission) => admission,
        Err(refusal) => {
            unverified.store_limit_states(refusal.limit_states());
            Box::pin(body::discard_body(request, state.settings.body_max_bytes)).await;
            return Err(refusal.into());
        }
    };
    unverified.release_slot(admission.limit_states());
    let holder = admission.holder().unwrap_or_else(|| Holder::at(state.peer(link, request.headers())));
    let form = OutputFormat::select(operation, request.headers());
    let links = operation.docs().refuses.contains(&Code::NeedsPerson);
    let own = links.then(|| state.base_url(request.uri(), request.headers()));
    let input = match read_input(state, operation, &admission, text, holder, request).await {
        Ok(input) => input,
        Err(refusal) => return Err(state.service.refuse(Some(operation), admission, refusal).await),
    };
    let place = match state.transfers.take_slot_for(operation, holder).await {
        Ok(place) => place,
        Err(refusal) => return Err(state.service.refuse(Some(operation), admission, refusal).await),
    };
    let again = AtomicBool::new(false);
    let run = || {
        // Only the first attempt is counted and audited, not a retry.
        let is_again = again.swap(true, Ordering::Relaxed);
        let admission = if is_again { admission.follow_up() } else { admission.clone() };
        run_operation(state, operation, admission, &input, holder, form)
    };
    match state.unread.produce_response(holder, !operation.effect().is_read_only(), run).await {
        Err(refusal) if !again.load(Ordering::Relaxed) => {
            Err(state.service.refuse(Some(operation), admission, refusal).await)
        }
        Err(refusal) => Err(match own {
            Some(own) => refusal.with_link_base(&own),
            None => refusal,
        }),
        Ok(mut response) => {
            if let Some(place) = place {
                response.body_mut().hold_transfer(link.pace.register_file(), place);
            }
            Ok(response)
        }
    }
}

/// Reads the body and the query of a request as the operation's input.
async fn read_input(
    state: &ServerState,
    operation: &Arc<Operation>,
    admission: &Admission,
    text: Result<TextFields>,
    holder: Holder,
    request: Request<Incoming>,
) -> Result<op::Input> {
    let (head, mut body) = request.into_parts();
    if operation.http().takes_file {
        let received = async {
            let mut text = text?;
            decode::append_query_fields(head.uri.query(), &mut text)?;
            let input = op::Input { text, ..op::Input::default() };
            state.service.check_before_file(operation, admission, &input).await?;
            // The transfer slot is released before the operation processes the received file, because no
            // bytes are transferred then.
            let _place = state.transfers.take_slot(holder).await?;
            let file = transfer::receive_file(&state.service, holder, &head.headers, &mut body).await?;
            Ok(op::Input { file: file.map(Upload::File), ..input })
        };
        let received = received.await;
        if received.is_err() {
            body::drain_while_responding(&head.headers, body);
        }
        return received;
    }
    let max = state.settings.body_max_bytes;
    let max = if operation.access().needs == Needs::Nothing { max.min(OPEN_ROUTE_BODY_MAX) } else { max };
    let max = if operation.effect() == Effect::Wait { max.min(WAIT_INPUT_MAX_BYTES) } else { max };
    let body = state.bodies.read(holder, &head.headers, body, max, body::JSON_MEDIA_TYPES).await?;
    let mut text = text?;
    decode::append_query_fields(head.uri.query(), &mut text)?;
    let key =
        if operation.accepts_idempotency_keys() { decode::idempotency_key(&head.headers)? } else { None };
    Ok(op::Input { text, body, key, ..op::Input::default() })
}

async fn run_operation(
    state: &ServerState,
    operation: &Arc<Operation>,
    admission: Admission,
    input: &op::Input,
    holder: Holder,
    form: OutputFormat,
) -> Result<Response> {
    let (slot, busy) = match state.in_flight.take_slots(holder, input.body.len()).await {
        Ok(places) => places,
        Err(refusal) => return Err(state.service.refuse(Some(operation), admission, refusal).await),
    };
    let run = run_with_busy_slot(busy, state.service.run(operation, admission, input));
    let reply = if operation.effect() == Effect::Wait {
        // A parked wait does not count as in flight.
        drop(slot);
        Box::pin(state.run_unless_closing(run)).await??
    } else {
        run.await?
    };
    Ok(form.response(operation, &reply))
}
