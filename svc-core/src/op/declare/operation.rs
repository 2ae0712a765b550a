//! An operation of the table, with its complete declaration.
//!
//! An operation hides the types of its function. It stores a step that prepares a call on the caller's thread
//! and returns a *job*. A core thread runs the job, and may run it again.

use std::any::TypeId;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde_json::Value;

use crate::capability::{Needs, Right};
use crate::error::{Code, Result};
use crate::op::call::caller::Visibility;
use crate::op::call::input::{self, AnswerOptionValues};
use crate::op::call::request::Input;
use crate::op::declare::answer::RepeatPolicy;
use crate::op::declare::byte_limit::ByteLimit;
use crate::op::declare::docs::Docs;
use crate::op::declare::effect::Effect;
use crate::op::declare::frame::Frame;
use crate::op::declare::http::{Http, Method, Success};
use crate::op::declare::job::{FilePrecheck, FirstSteps, InputType, Job, RequestShape};
use crate::op::declare::lean_answer::LeanForm;
use crate::op::declare::sample::Fixture;
use crate::op::run::settings::SharedState;
use crate::schema;
use crate::spool::Upload;
use crate::time::Time;

/// Function that decodes the input of a request and prepares the job of the request.
///
/// The function stores the answer options of the request in the [`AnswerOptionValues`].
type PrepareCall =
    Box<dyn Fn(&Input, &mut AnswerOptionValues, &SharedState, Time) -> Result<Job> + Send + Sync>;

/// The complete declaration of an operation.
///
/// A declaration sets each value with a method. Accessors return the values in groups.
#[must_use = "an operation is served once it is in the table"]
pub struct Operation {
    name: &'static str,
    pub(super) http: Http,
    access: Access,
    pub(crate) run: ExecutionSettings,
    docs: Docs,
}

/// The requirements for the caller of an operation, and the channels that the service itself can see as the
/// caller.
pub struct Access {
    pub needs: Needs,
    /// Whether only the member itself may call the operation. A delegate and the service itself are rejected.
    pub personal: bool,
    /// Whether a frozen member may call the operation although it changes something.
    pub open_to_frozen: bool,
    /// Action of the audit row that the operation writes although it changes nothing.
    pub audited: Option<&'static str>,
    pub(crate) instance_visibility: Visibility,
}

pub(crate) struct ExecutionSettings {
    pub effect: Effect,
    pub quick: bool,
    /// Whether calls are prepared on a separate thread, because preparing a call is slow.
    pub slow_to_prepare: bool,
    /// Whether another call can restore the object that the operation ends or removes.
    pub reversible: bool,
    /// Whether the operation reaches people or systems outside of the service.
    pub reaches_out: bool,
    /// Steps that run before the change, in separate batches.
    pub first_steps: Option<FirstSteps>,
    /// An additional check before the operation's file is received.
    pub before_file: Option<FilePrecheck>,
    /// How answers are made lean, if callers can request lean answers.
    pub lean_form: Option<OnceLock<LeanForm>>,
    /// How answers are cut to a number of bytes.
    pub byte_limit: ByteLimit,
    /// How repeated requests are recognised and answered, if requests may have an idempotency key.
    pub repeat_policy: Option<RepeatPolicy>,
    pub prepare_call: PrepareCall,
    /// The request for the operation, if programs call it with one.
    pub request: Option<RequestShape>,
    /// Type of the output.
    pub output_type: TypeId,
}

/// Function that returns the field of an input for the uploaded file.
pub(super) type InputFile<I> = fn(&mut I) -> &mut Option<Upload>;

impl Operation {
    pub(super) fn new<I: InputType<O>, O: 'static, S: JsonSchema>(
        name: &'static str,
        effect: Effect,
        file: Option<InputFile<I>>,
        prepare: impl Fn(I, &SharedState, Time) -> Result<Job> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            http: Http {
                method: Method::Get,
                path: "",
                aliases: Vec::new(),
                success: Success::Ok,
                rest_only: false,
                takes_file: file.is_some(),
                returns_file: false,
                is_page: false,
                frame: None,
            },
            access: Access {
                needs: Needs::AnyCredential,
                personal: false,
                open_to_frozen: false,
                audited: None,
                instance_visibility: Visibility::Nothing,
            },
            run: ExecutionSettings {
                effect,
                quick: false,
                slow_to_prepare: false,
                reversible: false,
                reaches_out: false,
                first_steps: None,
                before_file: None,
                lean_form: None,
                byte_limit: ByteLimit::default(),
                repeat_policy: None,
                prepare_call: Box::new(move |raw, answer_options, shared, now| {
                    let Some(file) = file else {
                        return prepare(input::decode_with_options(raw, answer_options)?, shared, now);
                    };
                    let mut input: I = input::decode(raw)?;
                    if let Some(sent) = &raw.file {
                        *file(&mut input) = Some(sent.clone());
                    }
                    prepare(input, shared, now)
                }),
                request: I::REQUEST,
                output_type: TypeId::of::<O>(),
            },
            docs: Docs {
                title: "",
                when: "",
                area: "",
                refuses: &[],
                example: None,
                input: schema::of::<I>,
                output: schema::of::<S>,
            },
        }
    }

    /// Sets the title: the display name of the operation for people.
    pub fn title(mut self, title: &'static str) -> Self {
        self.docs.title = title;
        self
    }

    /// Sets the beginning of the tool's description: what the tool does, then when to prefer the tool to a
    /// similar one.
    pub fn when(mut self, when: &'static str) -> Self {
        self.docs.when = when;
        self
    }

    /// Serves the operation at `GET path`.
    pub fn get(self, path: &'static str) -> Self {
        self.with_route(Method::Get, path)
    }

    /// Serves the operation at `POST path`.
    pub fn post(self, path: &'static str) -> Self {
        self.with_route(Method::Post, path)
    }

    /// Serves the operation at `PUT path`.
    pub fn put(self, path: &'static str) -> Self {
        self.with_route(Method::Put, path)
    }

    /// Serves the operation at `PATCH path`.
    pub fn patch(self, path: &'static str) -> Self {
        self.with_route(Method::Patch, path)
    }

    /// Serves the operation at `DELETE path`.
    pub fn delete(self, path: &'static str) -> Self {
        self.with_route(Method::Delete, path)
    }

    fn with_route(mut self, method: Method, path: &'static str) -> Self {
        (self.http.method, self.http.path) = (method, path);
        self
    }

    /// Also serves the operation at the additional path `path`.
    pub fn alias(mut self, path: &'static str) -> Self {
        self.http.aliases.push(path);
        self
    }

    /// Requires a credential with at least one of the rights in `any`, such as capabilities.
    pub fn needs<R: Into<Right> + Copy>(mut self, any: &[R]) -> Self {
        self.access.needs = Needs::one_of(any);
        self
    }

    /// Opens the operation to callers without a credential.
    pub fn open_to_all(mut self) -> Self {
        self.access.needs = Needs::Nothing;
        self
    }

    /// Restricts the operation to the member itself.
    ///
    /// A delegate and the service itself are rejected with 403 `forbidden` before the input is read, and so
    /// is an input whose `member_id` is another member's id. Audit rows of the operation contain no ids.
    pub fn personal(mut self) -> Self {
        self.access.personal = true;
        self
    }

    /// Lets a frozen member call the operation, although it changes something.
    pub fn open_to_frozen(mut self) -> Self {
        self.access.open_to_frozen = true;
        self
    }

    /// Writes an audit row with this action before the reply, although the operation changes nothing.
    pub fn audited(mut self, action: &'static str) -> Self {
        self.access.audited = Some(action);
        self
    }

    /// Makes the operation a route outside of the API, with this wire format for its input and output.
    pub fn framed(mut self, frame: Frame) -> Self {
        (self.http.frame, self.http.rest_only) = (Some(frame), true);
        self
    }

    /// Sets the status of a success to 201.
    pub fn created(mut self) -> Self {
        self.http.success = Success::Created;
        self
    }

    /// Sets the status of a success to 204: the frame sends no body.
    pub fn no_content(mut self) -> Self {
        self.http.success = Success::NoContent;
        self
    }

    /// Sets the status of a success to 303: the frame redirects the browser to another address.
    pub fn redirects(mut self) -> Self {
        self.http.success = Success::SeeOther;
        self
    }

    /// Excludes the operation from the MCP tools.
    pub fn rest_only(mut self) -> Self {
        self.http.rest_only = true;
        self
    }

    /// Runs `check` before the file is received. If the check fails, the client need not send the file.
    pub fn before_file(mut self, check: FilePrecheck) -> Self {
        self.run.before_file = Some(check);
        self
    }

    /// Also serves the output as a web page, to REST clients that prefer HTML to JSON.
    pub fn as_page(mut self) -> Self {
        self.http.is_page = true;
        self
    }

    /// Marks the operation as one that reads only a few rows by their keys.
    ///
    /// If the read needs no network, it runs on the caller's thread with the connection of an idle reader.
    /// That is cheaper than passing so little work to another thread.
    pub fn quick(mut self) -> Self {
        self.run.quick = true;
        self
    }

    /// Prepares calls on a separate thread, a few at a time, because preparing a call is slow.
    pub fn slow_to_prepare(mut self) -> Self {
        self.run.slow_to_prepare = true;
        self
    }

    /// Lets the service itself, and an administrator of the machine, see every channel of the workspace.
    ///
    /// By default, these callers see no channel, whatever their rights are.
    pub fn instance_sees_all_channels(mut self) -> Self {
        self.access.instance_visibility = Visibility::Whole;
        self
    }

    /// Declares that another call can restore the object that the operation ends or removes.
    pub fn reversible(mut self) -> Self {
        self.run.reversible = true;
        self
    }

    /// Sets a bounded step that runs before the change, repeatedly and in separate batches, until it reports
    /// that no further step is needed.
    ///
    /// The results of the steps are valid without the change, which may be refused or never run.
    pub(crate) fn after(mut self, first_steps: FirstSteps) -> Self {
        self.run.first_steps = Some(first_steps);
        self
    }

    /// Declares that the operation reaches people or systems outside of the service.
    pub fn reaches_out(mut self) -> Self {
        self.run.reaches_out = true;
        self
    }

    /// Declares the error codes with which the operation can fail, in addition to the codes of every
    /// operation.
    pub fn refuses(mut self, codes: &'static [Code]) -> Self {
        self.docs.refuses = codes;
        self
    }

    /// Sets an example: an input that succeeds in the test world.
    pub fn example(mut self, example: fn(&Fixture) -> Value) -> Self {
        self.docs.example = Some(example);
        self
    }

    /// Sets the area of the service under which documents list the operation.
    pub(crate) fn in_area(mut self, area: &'static str) -> Self {
        self.docs.area = area;
        self
    }

    /// Returns whether an anonymous caller can call the operation.
    ///
    /// Anonymous callers may only read. An operation that requires a credential of any kind is closed to
    /// anonymous callers, because it serves the owner of the credential.
    pub fn is_open_to_anonymous(&self) -> bool {
        match self.access().needs {
            Needs::Nothing => true,
            Needs::AnyCredential => false,
            Needs::OneOf(_) => self.effect().is_read_only(),
        }
    }

    /// Returns whether the operation concerns one thread, whose id is in its path.
    pub(in crate::op) fn concerns_one_thread(&self) -> bool {
        self.http.path.contains("{thread_id}")
    }

    /// Returns the name of the operation. The MCP tool and the OpenAPI operation have the same name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the names in the operation's request, if programs call the operation with one.
    pub fn request(&self) -> Option<RequestShape> {
        self.run.request
    }

    /// Returns the HTTP endpoint of the operation.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// Returns the requirements for the operation's caller.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Returns the documentation of the operation.
    pub fn docs(&self) -> &Docs {
        &self.docs
    }

    /// Returns the effect of calling the operation.
    pub fn effect(&self) -> Effect {
        self.run.effect
    }

    /// Returns every error code with which the operation can fail.
    pub fn refusals(&self) -> impl Iterator<Item = Code> {
        let of_repeats = self.run.repeat_policy.iter().flat_map(|repeats| {
            [Code::IdempotencyMismatch].into_iter().chain(repeats.refuses.iter().copied())
        });
        let of_repeats = of_repeats.filter(|code| !self.docs.refuses.contains(code));
        Code::OF_EVERY_OPERATION.iter().chain(self.docs.refuses).copied().chain(of_repeats)
    }

    /// Returns the JSON Schema (2020-12) of the input: one flat object, without references.
    pub fn input_schema(&self) -> Value {
        let mut schema = self.annotated_input_schema();
        schema::apply_annotations(&mut schema);
        schema
    }

    /// Returns the JSON Schema of the input with the annotations from which the MCP tool is built.
    pub(in crate::op) fn annotated_input_schema(&self) -> Value {
        let mut schema = schema::annotated_input(self.docs.input);
        self.answer_options().add_to_schema(&mut schema);
        schema
    }

    /// Returns whether requests for the operation may have an idempotency key.
    pub fn accepts_idempotency_keys(&self) -> bool {
        self.run.repeat_policy.is_some()
    }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operation({} {} {})", self.name, self.http.method.name(), self.http.path)
    }
}
