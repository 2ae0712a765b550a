//! Attacks that occupy connections: WebSockets, heads and bodies that never end, files that stop.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ground::{AttackGround, OutcomeTally};
use super::wire::{connect, handshake, head, head_of_json, source, status, text_frame, until_closed};

/// Pause of an attacker before it connects again.
const AGAIN: Duration = Duration::from_millis(100);
/// Pause of an attacker whose body was rejected.
const REJECTED: Duration = Duration::from_secs(1);
/// Handshakes and sockets of an attack.
const SOCKETS: usize = 310;
/// Bodies that stop before their end, and the bytes of each.
const BODIES: usize = 600;
const BODY_BYTES: usize = (2 << 20) - 1024;
/// Heads that stop before their end.
pub const HEADS: usize = 50;
/// Bytes of a file that is not an export.
pub const JUNK_BYTES: usize = 64 << 20;

/// Keeps `count` connections to each server busy with `once`, which is restarted whenever it ends.
async fn keep<F: Future<Output = Option<()>> + Send>(
    ground: Arc<AttackGround>,
    count: usize,
    once: impl Fn(Arc<AttackGround>, usize, TcpStream) -> F + Clone + Send + 'static,
) {
    let mut holders = JoinSet::new();
    for number in 0..count * ground.addresses.len() {
        let ground = Arc::clone(&ground);
        let once = once.clone();
        holders.spawn(async move {
            loop {
                if let Ok(stream) = connect(ground.address(number), source(number)).await {
                    once(Arc::clone(&ground), number, stream).await;
                }
                sleep(AGAIN).await;
            }
        });
    }
    holders.join_all().await;
}

/// Opens WebSockets without a credential, and then sends nothing.
pub async fn handshakes(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let once = move |_, _, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        async move {
            stream.write_all(handshake(None).as_bytes()).await.ok()?;
            tally.add(status(&mut stream).await?);
            until_closed(&mut stream).await;
            Some(())
        }
    };
    keep(ground, SOCKETS, once).await;
}

/// Opens subscriptions of one worker.
pub async fn sockets(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let once = move |ground: Arc<AttackGround>, _, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        async move {
            let token = &ground.attacker.agents[0];
            let workspace = &ground.attacker.workspace_id;
            let first = json!({"filter": {"workspace_id": workspace}}).to_string();
            let begun = [handshake(Some(token)).as_bytes(), &text_frame(&first)].concat();
            stream.write_all(&begun).await.ok()?;
            tally.add(status(&mut stream).await?);
            until_closed(&mut stream).await;
            Some(())
        }
    };
    keep(ground, SOCKETS, once).await;
}

/// Sends files that stop shortly before their end: two by each of four administrators.
pub async fn stopped_files(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let export = ground.arms.export.clone();
    // The bytes up to there are valid.
    let sent = export.slice(..export.len() - 64);
    let once = move |ground: Arc<AttackGround>, number: usize, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        let sent = sent.clone();
        let length = export.len();
        async move {
            let admins = &ground.arms.admins;
            let token = &admins[number / ground.addresses.len() % admins.len()];
            let begun = head_of_json("/workspaces/export/verify", token, length);
            stream.write_all(asking_to_go_on(&begun).as_bytes()).await.ok()?;
            let answered = status(&mut stream).await?;
            tally.add(answered);
            if answered == 100 {
                // The server reads the file, so it has a place.
                stream.write_all(&sent).await.ok()?;
            }
            until_closed(&mut stream).await;
            tally.add("closed");
            Some(())
        }
    };
    keep(ground, 8, once).await;
}

/// Returns the head of a request that waits for the server to request its body.
pub fn asking_to_go_on(head: &str) -> String {
    head.replacen("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1)
}

/// Sends bodies of a message by one worker that stop before their end.
pub async fn stopped_bodies(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let sent = Bytes::from(vec![b' '; BODY_BYTES]);
    let once = move |ground: Arc<AttackGround>, _, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        let sent = sent.clone();
        async move {
            let target = format!("/threads/{}/messages", ground.attacker.thread_id);
            let begun = head_of_json(&target, &ground.attacker.agents[0], sent.len() + 1);
            send_and_stop(&mut stream, begun, &sent, &tally).await?;
            sleep(REJECTED).await;
            Some(())
        }
    };
    keep(ground, BODIES, once).await;
}

/// Sends a head and a part of a body, and waits until the server closes the connection.
async fn send_and_stop(
    stream: &mut TcpStream,
    head: String,
    part: &[u8],
    tally: &OutcomeTally,
) -> Option<()> {
    stream.write_all(head.as_bytes()).await.ok()?;
    let (mut reading, mut writing) = stream.split();
    let sending = async {
        if writing.write_all(part).await.is_ok() {
            tally.add("stopped");
        }
        std::future::pending::<()>().await;
    };
    let mut line = [0; 12];
    tokio::select! {
        () = sending => {}
        read = tokio::io::AsyncReadExt::read_exact(&mut reading, &mut line) => {
            read.ok()?;
            tally.add(String::from_utf8_lossy(&line[9..]));
        }
    }
    Some(())
}

/// Sends files that are not exports, as fast as the server takes them: two by each of four administrators.
pub async fn junk_files(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let once = move |ground: Arc<AttackGround>, number: usize, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        async move {
            let admins = &ground.arms.admins;
            let token = &admins[number / ground.addresses.len() % admins.len()];
            let (answered, sent) = junk_file(&mut stream, token).await?;
            tally.add(answered);
            (sent < JUNK_BYTES).then(|| tally.add("refused before the end"));
            Some(())
        }
    };
    keep(ground, 8, once).await;
}

/// Sends a file that is not an export until the server responds. Returns the status, and the bytes sent
/// before.
pub async fn junk_file(stream: &mut TcpStream, token: &str) -> Option<(u16, usize)> {
    let chunk = vec![b'x'; 256 << 10];
    let begun = head_of_json("/workspaces/export/verify", token, JUNK_BYTES);
    stream.write_all(begun.as_bytes()).await.ok()?;
    let (mut reading, mut writing) = stream.split();
    let mut sent = 0;
    let mut line = [0; 12];
    {
        let answer = tokio::io::AsyncReadExt::read_exact(&mut reading, &mut line);
        let sending = async {
            while sent < JUNK_BYTES && writing.write_all(&chunk).await.is_ok() {
                sent += chunk.len();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            read = answer => { read.ok()?; }
            () = sending => {}
        }
    }
    let answered = std::str::from_utf8(&line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()?;
    Some((answered, sent))
}

/// Sends heads that stop before their end.
pub async fn half_heads(ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let once = move |_, _, mut stream: TcpStream| {
        let tally = Arc::clone(&tally);
        async move {
            let whole = head("GET", "/me", None, "");
            stream.write_all(&whole.as_bytes()[..whole.len() - 2]).await.ok()?;
            tally.add("stopped");
            until_closed(&mut stream).await;
            tally.add("closed");
            Some(())
        }
    };
    keep(ground, HEADS, once).await;
}
