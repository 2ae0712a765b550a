//! Unread responses, over HTTP/2 with a window of 0.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::Empty;
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ground::{AttackGround, OutcomeTally};
use super::wire::{connect, source};

/// Pause of an attacker before it connects again.
const AGAIN: Duration = Duration::from_millis(100);

/// Requests large pages as ten agents, 12 on each connection.
pub async fn pages(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let target = format!("/threads/{}/messages?limit=500", ground.arms.large_thread);
    let tokens = ground.attacker.agents.clone();
    hold(ground, tally, tokens, 12, target).await;
}

/// Requests twenty exports.
pub async fn exports(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let target = format!("/workspaces/{}/export", ground.attacker.workspace_id);
    let tokens = ground.arms.admins.clone();
    hold(ground, tally, tokens, 5, target).await;
}

/// Requests `target` of each server forever, `each` times at once with each token.
///
/// It reads no byte of a body.
async fn hold(
    ground: Arc<AttackGround>,
    tally: Arc<OutcomeTally>,
    tokens: Vec<String>,
    each: usize,
    target: String,
) {
    let mut holders = JoinSet::new();
    let servers = ground.addresses.len();
    for number in 0..tokens.len() * servers {
        let token = tokens[number / servers].clone();
        let ground = Arc::clone(&ground);
        let tally = Arc::clone(&tally);
        let target = target.clone();
        holders.spawn(async move {
            loop {
                // It ends when the server closes the connection.
                let _ = hold_once(&ground, &tally, number, &token, each, &target).await;
                sleep(AGAIN).await;
            }
        });
    }
    holders.join_all().await;
}

async fn hold_once(
    ground: &AttackGround,
    tally: &OutcomeTally,
    number: usize,
    token: &str,
    each: usize,
    target: &str,
) -> Option<()> {
    let stream = connect(ground.address(number), source(number)).await.ok()?;
    let mut builder = Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let (sender, connection) = builder.handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.ok()?;
    let requests = (0..each).map(|_| {
        let mut sender = sender.clone();
        async move {
            loop {
                let request = Request::builder()
                    .uri(format!("http://localhost{target}"))
                    .header("authorization", format!("Bearer {token}"))
                    .body(Empty::new())
                    .expect("a request");
                let response = sender.send_request(request).await.ok()?;
                tally.add(response.status().as_u16());
                if response.status().is_success() {
                    // Keep the response unread until the connection ends.
                    let _unread = response.into_body();
                    return std::future::pending::<Option<()>>().await;
                }
                sleep(AGAIN).await;
            }
        }
    });
    tokio::select! {
        _ = connection => {}
        _ = join_all(requests) => {}
    }
    Some(())
}
