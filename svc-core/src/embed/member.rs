//! Calls of operations as a member.

use std::fmt;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::host::calls::Calls;
use crate::host::service::Service;
use crate::id::{MemberId, WorkspaceId};
use crate::identity::whoami::whoami::Whoami;
use crate::op::{Credential, IdempotencyKey, Input, Operation, RequestHead, Surface};
use crate::request::{List, Request};
use crate::time::{Clock, Monotonic};

/// A member of a workspace, as which a program calls operations.
///
/// Clones act as the same member.
#[derive(Clone)]
pub struct Member {
    service: Service,
    token: SecretString,
    id: MemberId,
    workspace_id: WorkspaceId,
    /// The idempotency key that the calls carry, if any.
    key: Option<String>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({})", self.id)
    }
}

impl Service {
    /// Returns the member that a token acts as.
    ///
    /// Fails with 401 `unauthenticated` if the token is unknown, expired or revoked.
    pub fn member(&self, token: &str) -> Result<Member> {
        let head = library_request(&SecretString::from(token));
        let me = self.call_typed(head, &Whoami::new())?;
        Ok(Member {
            service: self.clone(),
            token: SecretString::from(token),
            id: me.member_id,
            workspace_id: me.workspace_id,
            key: None,
        })
    }
}

impl Member {
    /// Returns the id of the member.
    pub fn id(&self) -> MemberId {
        self.id
    }

    /// Returns the id of the member's workspace.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id
    }

    /// Calls an operation and blocks until it is done.
    ///
    /// May be called on any thread. On a thread of an async runtime, use [`Member::call_async`] instead,
    /// which does not block the thread.
    pub fn call<R: Request>(&self, request: &R) -> Result<R::Output> {
        self.call_at(request).map(|(output, _)| output)
    }

    /// Calls an operation. Needs no runtime. Dropping the future abandons a wait.
    pub fn call_async<R: Request>(
        &self,
        request: &R,
    ) -> impl Future<Output = Result<R::Output>> + Send + use<R> {
        let input = request.fields().input().and_then(|input| self.with_key(input));
        let (service, head) = (self.service.clone(), library_request(&self.token));
        async move {
            let operation = Arc::clone(service.table().operation_of::<R>()?);
            service.call_awaited(&operation, head, input?).await?.output()
        }
    }

    /// Calls the operation named `operation` with an input in JSON, and returns the output in JSON.
    ///
    /// Fails with 404 `not-found` if no operation has the name.
    pub fn call_json(&self, operation: &str, input: &Value) -> Result<Value> {
        let operation = self.find_operation(operation)?;
        let body = serde_json::to_vec(input).map_err(Error::internal)?;
        let input = self.with_key(Input::json(body))?;
        let reply = self.service.call_blocking(operation, library_request(&self.token), &input)?;
        serde_json::from_slice(&reply.body()?).map_err(Error::internal)
    }

    /// Returns the items of a list, page by page.
    ///
    /// Ends after an error. Each page is read when the iterator reaches it, so an item that is added during
    /// the iteration may or may not be returned.
    pub fn list<R: List>(&self, request: R) -> impl Iterator<Item = Result<R::Item>> {
        Pages { member: self.clone(), request: Some(request), items: Vec::new().into_iter() }
    }

    /// Returns the member with an idempotency key, which its calls carry.
    ///
    /// A change that is repeated with the same key and input is made once, and the repeat returns the first
    /// answer. The key is 1 to 255 visible ASCII characters; calls with another key fail with 400
    /// `malformed-request`.
    pub fn idempotent(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Returns the clock of the service.
    pub(super) fn clock(&self) -> &Clock {
        &self.service.dispatch().clock
    }

    /// Returns the service.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Returns the member without an idempotency key.
    pub(super) fn without_key(&self) -> Self {
        Self { key: None, ..self.clone() }
    }

    /// Calls an operation that waits, until `waits` is closed or the deadline has passed.
    ///
    /// Also returns the position of the log up to which the operation has read.
    pub(super) fn wait<R: Request>(
        &self,
        request: &R,
        waits: &Calls,
        deadline: Option<Monotonic>,
    ) -> Result<Option<(R::Output, Option<i64>)>> {
        self.service.wait_until(library_request(&self.token), request, waits, deadline)
    }

    /// Calls an operation as [`Member::call`] does, and also returns the position that the log had reached.
    pub(super) fn call_at<R: Request>(&self, request: &R) -> Result<(R::Output, i64)> {
        let operation = self.service.table().operation_of::<R>()?;
        let input = self.with_key(request.fields().input()?)?;
        let reply = self.service.call_blocking(operation, library_request(&self.token), &input)?;
        let lsn = reply.lsn.unwrap_or(0);
        Ok((reply.output()?, lsn))
    }

    /// Returns the last position of the workspace's log.
    pub(super) fn log_position(&self) -> Result<i64> {
        self.call_at(&Whoami::new()).map(|(_, lsn)| lsn)
    }

    /// Calls an operation although the service is being closed.
    pub(super) fn call_while_closing<R: Request>(&self, request: &R) -> Result<R::Output> {
        let operation = self.service.table().operation_of::<R>()?;
        let input = request.fields().input()?;
        self.service.call_unchecked(operation, library_request(&self.token), &input, |done| done)?.output()
    }

    /// Returns the operation that programs call by the name `name`.
    fn find_operation(&self, name: &str) -> Result<&Arc<Operation>> {
        let operation = self.service.operation(name)?;
        match operation.http().frame {
            None => Ok(operation),
            Some(_) => Err(Error::not_found("operation")),
        }
    }

    fn with_key(&self, input: Input) -> Result<Input> {
        let key = self.key.as_deref().map(IdempotencyKey::parse).transpose()?;
        Ok(Input { key, ..input })
    }
}

/// Returns the head of a request by the program with `token`.
fn library_request(token: &SecretString) -> RequestHead {
    RequestHead {
        credential: Credential::Bearer(token.clone()),
        surface: Surface::Library,
        ..RequestHead::default()
    }
}

/// The items of a list.
struct Pages<R: List> {
    member: Member,
    /// Request for the next page, or `None` after the last page.
    request: Option<R>,
    items: std::vec::IntoIter<R::Item>,
}

impl<R: List> Iterator for Pages<R> {
    type Item = Result<R::Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(Ok(item));
            }
            let request = self.request.take()?;
            match self.member.call(&request) {
                Ok(output) => {
                    let (items, cursor) = R::page(output);
                    self.items = items.into_iter();
                    self.request = cursor.map(|cursor| request.at_cursor(cursor));
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
