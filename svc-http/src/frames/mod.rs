//! Handles framed rows: the routes in the operation table that are not operations of the API.
//!
//! A frame converts a request to the input of a row, and converts the row's output or error to a response.
//! All other steps are the same as for operations: the Host check, admission by the core, the limits on
//! bodies, requests in flight and unread responses, the pipeline, and the audit trail. A frame makes no
//! decisions.
//!
//! To add a frame, add a variant with its credentials and media types to `svc_core::op::Frame`, declare the
//! frame's rows with `.framed(..)`, implement [`Framing`] in a file of this folder, and add the
//! implementation to [`framing_of`]. The compiler reports the places to change. Most frames implement three
//! methods: [`Framing::decode_input`] converts bytes and headers to the input, as text fields for a form and
//! as JSON for other bodies; [`Framing::response`] converts the output, typed by [`Reply::output_as`] or
//! encoded, to a response; and [`Framing::error_response`] converts an error to a response. A frame that has
//! work to do before admission, or between two transactions, implements [`Framing::respond`] with the same
//! steps: [`FrameCall::admit`], [`FrameCall::read_body`], [`FrameCall::run`], [`FrameCall::run_for_reply`].
//! If the input of a row determines the workspace instead of a credential, the row has a preflight that finds
//! the workspace, and changes data through `Write::within`.

mod sessions;
mod app_token;
mod oidc;
mod share;
mod scim;
mod approval;
mod markdown;
mod unsubscribe;
mod board;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Uri};
use svc_core::capability::Needs;
use svc_core::op::{self, Admission, Credential, Effect, Frame, Operation, Reply, Success};
use svc_core::{Code, Error, Holder, Peer, Result};

use crate::accept::AcceptedTypes;
use crate::decode::{self, TextFields};
use crate::encode::{self, Response};
use crate::html::OutputFormat;
use crate::limits::body::{self, OPEN_ROUTE_BODY_MAX};
use crate::limits::in_flight::{BusySlot, run_with_busy_slot};
use crate::origin::{CookieUse, accepts_session_cookie};
use crate::state::{PeerLink, ServerState, UnverifiedRequest};

/// Implementation of a frame: converts HTTP requests to inputs of rows, and replies to HTTP responses.
pub(super) trait Framing: Sync {
    /// Returns whether this server serves the frame's rows. Otherwise the server responds as if the routes of
    /// the rows did not exist.
    fn is_served(&self, _state: &ServerState) -> bool {
        true
    }

    /// Decodes the input of a row. The default reads the path, the query and a JSON body, as for an
    /// operation.
    fn decode_input(&self, received: ReceivedRequest) -> Result<op::Input> {
        received.into_json_input()
    }

    /// Returns the response for a successful reply. The default is the output as JSON.
    fn response(&self, _state: &ServerState, reply: &Reply) -> Response {
        encode::reply_response(reply)
    }

    /// Maps the error for a request head that cannot be parsed. The default returns the same error.
    fn map_head_error(&self, error: Error) -> Error {
        error
    }

    /// Returns the response for an error. The default is a problem document.
    fn error_response(&self, error: &Error) -> Response {
        encode::problem_response(error)
    }

    /// Returns the response to OPTIONS at a path that supports the methods in `allow`.
    fn options_response(&self, allow: HeaderValue) -> Response {
        encode::options_response(allow)
    }

    /// Handles a request. The default admits the request, reads the body and runs the row.
    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(admit_read_run(self, call))
    }
}

/// Admits a request by its head, reads the body, and runs the row.
async fn admit_read_run<F: Framing + ?Sized>(framing: &F, mut call: FrameCall<'_>) -> Result<Response> {
    let head = call.request_head().await.map_err(|error| framing.map_head_error(error))?;
    let admission = call.admit(head).await?;
    let received = call.read_body(&admission).await;
    let input = match received.and_then(|received| framing.decode_input(received)) {
        Ok(input) => input,
        Err(refusal) => return Err(call.record_refusal(admission, refusal).await),
    };
    call.run(admission, &input, |reply| framing.response(call.state, reply)).await
}

/// Returns the implementation of a frame.
fn framing_of(frame: Frame) -> &'static dyn Framing {
    match frame {
        Frame::SignIn => &sessions::SignIn,
        Frame::Session => &sessions::Session,
        Frame::OidcLogin => &oidc::OidcLogin,
        Frame::OidcCallback => &oidc::OidcCallback,
        Frame::AppToken => &app_token::AppToken,
        Frame::Share => &share::Share,
        Frame::Scim => &scim::Scim,
        Frame::Approval => &approval::Approval,
        Frame::Markdown => &markdown::Markdown,
        Frame::Unsubscribe => &unsubscribe::Unsubscribe,
        Frame::Board => &board::Board,
    }
}

/// Base paths of frames. The frame formats errors and OPTIONS responses at the base path and at every path
/// below it.
const BASE_PATHS: [(&str, Frame); 4] = [
    (scim::BASE_PATH, Frame::Scim),
    ("/share", Frame::Share),
    ("/oauth/app/token", Frame::AppToken),
    ("/ui", Frame::Board),
];

/// Returns the frame whose base path contains `path`, or `None` if there is no such frame.
pub(crate) fn frame_at(path: &str) -> Option<Frame> {
    let is_in =
        |base: &str| path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    BASE_PATHS.into_iter().find(|(base, _)| is_in(base)).map(|(_, frame)| frame)
}

/// Returns the response for an error: in the format of `frame`, or as a problem if `frame` is
/// `None`.
pub(crate) fn error_response_at(frame: Option<Frame>, error: &Error) -> Response {
    match frame {
        Some(frame) => framing_of(frame).error_response(error),
        None => encode::problem_response(error),
    }
}

/// Returns the response to OPTIONS: in the format of `frame`, or in the default format if `frame`
/// is `None`.
pub(crate) fn options_response_at(frame: Option<Frame>, allow: HeaderValue) -> Response {
    match frame {
        Some(frame) => framing_of(frame).options_response(allow),
        None => encode::options_response(allow),
    }
}

/// Returns the error for an unsupported method at a path that supports the methods in `allow`.
pub(crate) fn wrong_method_error(allow: &HeaderValue) -> Error {
    let methods = allow.to_str().unwrap_or_default();
    Error::new(Code::MethodNotAllowed, format!("this path allows {methods}"))
}

/// Handles a request that matches the route of a framed row.
pub(crate) async fn handle(
    state: &ServerState,
    frame: Frame,
    row: &Arc<Operation>,
    text: Result<TextFields>,
    link: &PeerLink,
    request: Request<Incoming>,
    unverified: &mut UnverifiedRequest,
) -> Response {
    let framing = framing_of(frame);
    let peer = state.peer(link, request.headers());
    let call = FrameCall { state, frame, row, link, peer, text, request: Some(request), unverified };
    let responded =
        if framing.is_served(state) { framing.respond(call).await } else { call.not_served_response().await };
    responded.unwrap_or_else(|error| framing.error_response(&error))
}

/// A request to a framed row while it is being processed.
pub(super) struct FrameCall<'a> {
    pub state: &'a ServerState,
    frame: Frame,
    row: &'a Arc<Operation>,
    link: &'a PeerLink,
    peer: Peer,
    text: Result<TextFields>,
    /// The HTTP request, or `None` after its body was read or discarded.
    request: Option<Request<Incoming>>,
    unverified: &'a mut UnverifiedRequest,
}

/// A request whose body has been read completely.
pub(super) struct ReceivedRequest {
    /// The framed row that the request calls.
    pub row: Arc<Operation>,
    /// Variables of the path.
    pub text: TextFields,
    pub head: Parts,
    pub body: Bytes,
    /// Second slot of a request with a large body, held until the body is decoded.
    _busy: Option<BusySlot>,
}

impl ReceivedRequest {
    /// Returns the row's input from the fields of a JSON body, the path and the query.
    pub fn into_json_input(self) -> Result<op::Input> {
        let mut text = self.text;
        decode::append_query_fields(self.head.uri.query(), &mut text)?;
        Ok(op::Input { text, body: self.body, ..op::Input::default() })
    }
}

impl FrameCall<'_> {
    /// Returns the request head for the core, with a credential that the frame accepts.
    ///
    /// Fails if the row requires no credential and the Host or the Origin is not this server.
    pub async fn request_head(&self) -> Result<op::RequestHead> {
        let head = self.request_head_unchecked().await?;
        if self.is_open() {
            let request = self.request()?;
            self.state.hosts.check_target_and_origin(request.uri(), request.headers())?;
        }
        Ok(head)
    }

    /// Returns the request head without checking Host and Origin.
    ///
    /// This is for rows whose URL contains a secret, because pages of other sites do not know the secret.
    pub async fn request_head_unchecked(&self) -> Result<op::RequestHead> {
        let request = self.request()?;
        let used = CookieUse::for_method(request.method());
        let head =
            self.state.request_head_for(self.link, request, self.frame.accepted_credentials(), used).await?;
        Ok(op::RequestHead { surface: self.frame.surface(), ..head })
    }

    /// Returns whether the row requires no credential in the head of the request.
    fn is_open(&self) -> bool {
        self.row.access().needs == Needs::Nothing
            || self.frame.accepted_credentials() == op::AcceptedCredentials::Nothing
    }

    /// Returns false if a page of another site has sent the request. Returns true for pages of this service
    /// and for programs.
    pub fn is_same_origin(&self) -> Result<bool> {
        Ok(accepts_session_cookie(self.request()?, CookieUse::Change, self.state.public_origin()))
    }

    /// Returns whether the row changes no data.
    pub fn is_read_only(&self) -> bool {
        self.row.effect().is_read_only()
    }

    /// Returns whether the request signs out a browser and was not sent by a page of another site.
    pub fn is_same_origin_sign_out(&self) -> Result<bool> {
        Ok(self.row.effect() == Effect::Destructive && self.is_same_origin()?)
    }

    /// Returns whether a successful response redirects the browser.
    pub fn is_redirect(&self) -> bool {
        self.row.http().success == Success::SeeOther
    }

    /// Returns the output format that the client requests.
    pub fn output_format(&self) -> Result<OutputFormat> {
        Ok(OutputFormat::select(self.row, self.headers()?))
    }

    /// Returns whether the Accept header lists `text/html`, as browsers do.
    pub fn accepts_html(&self) -> Result<bool> {
        Ok(AcceptedTypes::from_headers(self.headers()?).has_exact_type("text", "html"))
    }

    /// Returns the request headers. Fails if the body has already been read.
    pub fn headers(&self) -> Result<&HeaderMap> {
        Ok(self.request()?.headers())
    }

    /// Returns the request target. Fails if the body has already been read.
    pub fn uri(&self) -> Result<&Uri> {
        Ok(self.request()?.uri())
    }

    fn request(&self) -> Result<&Request<Incoming>> {
        self.request.as_ref().ok_or_else(|| Error::internal("the request was read before"))
    }

    /// Admits the request by its head. On failure, discards the request's body.
    pub async fn admit(&mut self, head: op::RequestHead) -> Result<Admission> {
        match self.state.service.admit(Some(self.row), head).await {
            Ok(admission) => {
                self.unverified.release_slot(admission.limit_states());
                Ok(admission)
            }
            Err(refusal) => {
                self.unverified.store_limit_states(refusal.limit_states());
                self.discard_body().await;
                Err(refusal.into())
            }
        }
    }

    /// Counts the request against the rate limit of its address, before the credential is known. On failure,
    /// discards the request's body.
    pub async fn count_by_address(&mut self, head: op::RequestHead) -> Result<()> {
        let counted = self.state.service.count(op::RequestHead { credential: Credential::Nothing, ..head });
        let counted = counted.await;
        if counted.is_err() {
            self.discard_body().await;
        }
        counted
    }

    async fn discard_body(&mut self) {
        if let Some(request) = self.request.take() {
            body::discard_body(request, self.state.settings.body_max_bytes).await;
        }
    }

    /// Reads the body of an admitted request.
    pub async fn read_body(&mut self, admission: &Admission) -> Result<ReceivedRequest> {
        let holder = self.holder(admission);
        self.read_body_for(holder).await
    }

    /// Reads the body of a request that is not admitted yet, because the body contains the credential.
    pub async fn read_unadmitted_body(&mut self) -> Result<ReceivedRequest> {
        self.read_body_for(Holder::at(self.peer)).await
    }

    async fn read_body_for(&mut self, holder: Holder) -> Result<ReceivedRequest> {
        let max = self.state.settings.body_max_bytes;
        let max = if self.is_open() { max.min(OPEN_ROUTE_BODY_MAX) } else { max };
        let request = self.request.take().ok_or_else(|| Error::internal("the request was read before"))?;
        let (head, body) = request.into_parts();
        let body = self
            .state
            .bodies
            .read(holder, &head.headers, body, max, self.frame.request_media_types())
            .await?;
        let busy = self.state.in_flight.busy_slot_for_body(holder, body.len()).await?;
        Ok(ReceivedRequest { row: Arc::clone(self.row), text: self.text.clone()?, head, body, _busy: busy })
    }

    /// Discards the body, and returns the input of a row that has only path variables.
    pub async fn path_input(&mut self) -> Result<op::Input> {
        self.discard_body().await;
        Ok(op::Input { text: self.text.clone()?, ..op::Input::default() })
    }

    /// Returns the holder to which the slots of an admitted request are charged.
    pub fn holder(&self, admission: &Admission) -> Holder {
        admission.holder().unwrap_or(Holder::at(self.peer))
    }

    /// Records the refusal of an admitted request before its row is run, and returns the error to send.
    pub async fn record_refusal(&self, admission: Admission, refusal: Error) -> Error {
        self.state.service.refuse(Some(self.row), admission, refusal).await
    }

    /// Runs the row, and returns the response that `make_response` creates from the reply.
    pub async fn run(
        &self,
        admission: Admission,
        input: &op::Input,
        make_response: impl Fn(&Reply) -> Response,
    ) -> Result<Response> {
        let holder = self.holder(&admission);
        let again = AtomicBool::new(false);
        let run = || async {
            // Only the first attempt is counted and audited, not a retry.
            let is_again = again.swap(true, Ordering::Relaxed);
            let admission = if is_again { admission.follow_up() } else { admission.clone() };
            let reply = self.run_in_flight(holder, admission, input).await?;
            Ok(make_response(&reply))
        };
        match self.state.unread.produce_response(holder, !self.row.effect().is_read_only(), run).await {
            Err(refusal) if !again.load(Ordering::Relaxed) => {
                Err(self.record_refusal(admission, refusal).await)
            }
            answered => answered,
        }
    }

    /// Runs the row and returns the reply, for a frame that has more work to do before it can respond.
    pub async fn run_for_reply(&self, admission: Admission, input: &op::Input) -> Result<Reply> {
        let holder = self.holder(&admission);
        self.run_in_flight(holder, admission, input).await
    }

    async fn run_in_flight(&self, holder: Holder, admission: Admission, input: &op::Input) -> Result<Reply> {
        match self.state.in_flight.take_slots(holder, input.body.len()).await {
            Ok((_slot, busy)) => {
                run_with_busy_slot(busy, self.state.service.run(self.row, admission, input)).await
            }
            Err(refusal) => Err(self.record_refusal(admission, refusal).await),
        }
    }

    async fn not_served_response(mut self) -> Result<Response> {
        let head = self.request_head().await?;
        let refusal = Error::new(Code::UnknownRoute, "this server does not serve the route");
        let refusal = self.state.service.refuse_unrouted(head, refusal).await;
        self.unverified.store_limit_states(refusal.limit_states());
        self.discard_body().await;
        Err(refusal.into())
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{CONTENT_TYPE, REFERRER_POLICY};

    use super::*;

    #[test]
    fn a_frame_refuses_at_its_path_and_below() {
        for (path, wanted) in [
            ("/scim/v2", Some(Frame::Scim)),
            ("/scim/v2/", Some(Frame::Scim)),
            ("/scim/v2/Users/1", Some(Frame::Scim)),
            ("/scim/v20", None),
            ("/scim", None),
            ("/Users", None),
            ("/share", Some(Frame::Share)),
            ("/share/nothing", Some(Frame::Share)),
            ("/shared", None),
            ("/oauth/app/token", Some(Frame::AppToken)),
            ("/oauth/app", None),
            ("/ui", Some(Frame::Board)),
            ("/ui/", Some(Frame::Board)),
            ("/uix", None),
        ] {
            assert_eq!(frame_at(path), wanted, "{path}");
        }
        let unknown = Error::new(Code::UnknownRoute, "x");
        assert_eq!(
            error_response_at(frame_at("/share/x"), &unknown).headers()[REFERRER_POLICY],
            "no-referrer"
        );
        assert_eq!(
            error_response_at(frame_at("/scim/v2/x"), &unknown).headers()[CONTENT_TYPE],
            "application/scim+json"
        );
        assert_eq!(
            error_response_at(frame_at("/x"), &unknown).headers()[CONTENT_TYPE],
            "application/problem+json"
        );
    }

    #[test]
    fn a_wrong_method_is_told_the_right_ones() {
        for path in ["/threads", "/scim/v2/Users", "/share/threads", "/oauth/app/token"] {
            let error = wrong_method_error(&HeaderValue::from_static("GET, HEAD, OPTIONS"));
            assert!(error.detail().ends_with("GET, HEAD, OPTIONS"), "{error}");
            assert_eq!(error_response_at(frame_at(path), &error).status(), 405, "{path}");
        }
    }
}
