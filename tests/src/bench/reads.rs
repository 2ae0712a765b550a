//! Point reads: `get_message` with a bearer token over 100,000 messages.
//!
//! The floor is a hyper server that returns a constant over the same loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use svc_core::Engine;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::stage::{Stage, body};
use super::{Finding, alternate, load};
use crate::database::TestDatabase;
use crate::server::Server;
use svc_http::HttpSettings;

const SPAN: Duration = Duration::from_millis(2500);
const CONNECTIONS: usize = 64;
const MESSAGES: usize = 100_000;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let ids = Arc::new(fill(&stage, runtime));
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let hello = constant(Bytes::from_static(b"{\"hello\":\"world\"}"));
    let address = server.address();
    let token = stage.token.clone();
    let request = move |connection: usize, number: usize| {
        // A stride that is coprime to the number of messages visits all of them out of order.
        let at = (connection * 7919 + number * 104_729) % ids.len();
        get_bytes(&format!("/messages/{}", ids[at]), &token)
    };
    let before = stage.service.statement_counts();
    let measured = alternate(
        pairs,
        || load::drive(runtime, address, CONNECTIONS, SPAN, request.clone()),
        || load::drive(runtime, hello, CONNECTIONS, SPAN, |_, _| get_bytes("/", "none")),
    );
    let re_prepared = stage.service.statement_counts().re_prepared - before.re_prepared;
    Finding {
        name: "reads",
        engine,
        pairs: measured,
        floor_is: "a hyper server that returns a constant",
        extra: json!({"messages": MESSAGES, "statements_re_prepared": re_prepared}),
    }
}

pub(super) fn get_bytes(path: &str, token: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n").into_bytes()
}

/// Posts the messages and returns their ids.
fn fill(stage: &Stage, runtime: &Runtime) -> Vec<String> {
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for writer in 0..64 {
            let stage = stage.clone();
            tasks.push(tokio::spawn(async move {
                let mut ids = Vec::new();
                for number in (writer..MESSAGES).step_by(64) {
                    let input = json!({"thread_id": stage.thread_id, "body": body(number)});
                    let posted = stage.ask(&stage.token, "post_message", input).await;
                    ids.push(posted["id"].as_str().expect("an id").to_owned());
                }
                ids
            }));
        }
        let mut ids = Vec::new();
        for task in tasks {
            ids.extend(task.await.expect("a writer's task"));
        }
        ids
    })
}

/// Starts a floor: a server that returns this body to every request.
///
/// It has its own threads, as servers here do. On the threads of its clients it would avoid every switch
/// between the two.
pub(super) fn constant(body: Bytes) -> SocketAddr {
    let runtime = crate::runtime();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a socket option");
            let body = body.clone();
            tokio::spawn(async move {
                let answer = service_fn(move |_| {
                    let body = Full::new(body.clone());
                    let response =
                        hyper::Response::builder().header("content-type", "application/json").body(body);
                    std::future::ready(Ok::<_, Infallible>(response.expect("a response")))
                });
                // The client disconnects at the end of its round.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
    });
    address
}
