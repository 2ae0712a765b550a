//! The cost of admission before the body is read, and of the second check in the transaction.
//!
//! Compares point reads that are each admitted by their head with the same reads that share one admission.
//! Both are checked in their transaction. In process, without transport.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use svc_core::Engine;
use svc_core::op::{Admission, Input, Operation, RequestHead, Surface};
use tokio::runtime::Runtime;

use super::posts::callers;
use super::stage::{Stage, body};
use super::{Finding, alternate};
use crate::database::TestDatabase;

const SPAN: Duration = Duration::from_millis(1000);
const CALLERS: usize = 64;
const OPERATION: &str = "get_message";

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let message = stage.call("post_message", json!({"thread_id": stage.thread_id, "body": body(1)}));
    let input = Input::json(json!({"message_id": message["id"]}).to_string());
    let admission =
        runtime.block_on(stage.service.admit(Some(operation(&stage)), head(&stage))).expect("an admission");
    let each = reader(&stage, &input, None);
    let once = reader(&stage, &input, Some(admission));
    let measured = alternate(
        pairs,
        || callers(runtime, CALLERS, SPAN, each.clone()),
        || callers(runtime, CALLERS, SPAN, once.clone()),
    );
    Finding {
        name: "admission",
        engine,
        pairs: measured,
        floor_is: "the same reads by one admission",
        extra: json!({}),
    }
}

fn operation(stage: &Stage) -> &Arc<Operation> {
    stage.service.operation(OPERATION).expect("the operation")
}

fn head(stage: &Stage) -> RequestHead {
    let credential = Some(SecretString::from(stage.token.clone())).into();
    RequestHead { credential, surface: Surface::Rest, ..RequestHead::default() }
}

/// Returns a function that reads once, with `admission` or with a new one.
fn reader(
    stage: &Stage,
    input: &Input,
    admission: Option<Admission>,
) -> impl Fn(usize, usize) -> Pin<Box<dyn Future<Output = ()> + Send>> + Clone + Send + 'static {
    let shared = Arc::new((stage.clone(), input.clone(), admission));
    move |_, _| {
        let shared = Arc::clone(&shared);
        Box::pin(async move {
            let (stage, input, admission) = &*shared;
            let admission = match admission {
                Some(admission) => admission.clone(),
                None => stage.service.admit(Some(operation(stage)), head(stage)).await.expect("an admission"),
            };
            stage.service.run(operation(stage), admission, input).await.expect("a success");
        })
    }
}
