//! Finding a user: a SCIM list whose filter is an equality of `userName`, among 100,000 people.
//!
//! The floor is the same among 1,000: an index lookup costs about the same for both. In process, without
//! transport.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use svc_core::Engine;
use svc_core::op::{Input, RequestHead, Surface};
use tokio::runtime::Runtime;

use super::posts::callers;
use super::stage::Stage;
use super::{Finding, alternate};
use crate::database::TestDatabase;

const SPAN: Duration = Duration::from_millis(1000);
const CALLERS: usize = 64;
const MANY: usize = 100_000;
const FEW: usize = 1000;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let databases = [TestDatabase::on(engine), TestDatabase::on(engine)];
    let [many, few] = [(&databases[0], MANY), (&databases[1], FEW)].map(|(database, people)| {
        let stage = Stage::build(database);
        fill(&stage, people, runtime);
        finder(&stage, people)
    });
    let measured = alternate(
        pairs,
        || callers(runtime, CALLERS, SPAN, many.clone()),
        || callers(runtime, CALLERS, SPAN, few.clone()),
    );
    Finding {
        name: "scim",
        engine,
        pairs: measured,
        floor_is: "the same among 1,000 people",
        extra: json!({"wanted": 0.7, "people": MANY}),
    }
}

fn name(number: usize) -> String {
    format!("person{number}@corp.example")
}

/// Creates people.
fn fill(stage: &Stage, people: usize, runtime: &Runtime) {
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for writer in 0..64 {
            let stage = stage.clone();
            tasks.push(tokio::spawn(async move {
                for number in (writer..people).step_by(64) {
                    stage.ask(&stage.token, "create_scim_user", json!({"userName": name(number)})).await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("a writer's task");
        }
    });
}

/// Returns a function that finds one person after another, out of order.
fn finder(
    stage: &Stage,
    people: usize,
) -> impl Fn(usize, usize) -> Pin<Box<dyn Future<Output = ()> + Send>> + Clone + Send + use<> {
    let stage = Arc::new(stage.clone());
    move |caller, number| {
        let stage = Arc::clone(&stage);
        Box::pin(async move {
            // A stride that is coprime to the number of people.
            let at = (caller * 7919 + number * 104_729) % people;
            let filter = format!("userName eq \"{}\"", name(at));
            let input = Input::json(json!({"filter": filter}).to_string());
            let row = stage.service.operation("list_scim_users").expect("the row");
            let credential = Some(SecretString::from(stage.token.clone())).into();
            let head = RequestHead { credential, surface: Surface::Scim, ..RequestHead::default() };
            let admission = stage.service.admit(Some(row), head).await.expect("an admission");
            let reply = stage.service.run(row, admission, &input).await.expect("a success");
            let body = reply.body().expect("a body");
            assert!(body.windows(17).any(|bytes| bytes == b"\"totalResults\":1,"), "one person is found");
        })
    }
}
