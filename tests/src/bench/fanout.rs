//! Subscriptions over WebSocket: posts that reach 1,000 subscribers, and posts beside subscribers to another
//! kind of event.
//!
//! The floor of the first is a loop that writes the same frames to as many bare sockets, that of the second
//! the same posts without subscribers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use svc_http::HttpSettings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::posts::{callers, poster};
use super::stage::{Stage, body};
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;
use crate::server::Server;

const SUBSCRIBERS: usize = 1000;
/// Posts of one round.
const POSTS: usize = 50;
const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_millis(2500);

/// Measures posts to 1,000 subscribers.
pub fn fanout(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let mut subscribers = subscribers(&server, &stage, "MessagePosted", runtime);
    let (mut writers, mut readers) = runtime.block_on(bare_sockets());
    // The loop writes exactly the bytes that a subscriber gets in a round, including headers.
    let round = std::cell::RefCell::new(Vec::new());
    let measured = alternate(
        pairs,
        || {
            let begun = Instant::now();
            *round.borrow_mut() =
                runtime.block_on(async { tokio::join!(read_all(&mut subscribers), post_all(&stage)).0 });
            rate(begun)
        },
        || {
            let frames = split(&round.borrow());
            let begun = Instant::now();
            runtime
                .block_on(async { tokio::join!(read_all(&mut readers), write_all(&mut writers, &frames)) });
            rate(begun)
        },
    );
    Finding {
        name: "fanout-ws",
        engine,
        pairs: measured,
        floor_is: "a loop that writes the same frames to as many sockets",
        extra: json!({"subscribers": SUBSCRIBERS, "posts": POSTS, "unit": "frames/s"}),
    }
}

/// Measures posts beside 1,000 subscribers to another kind of event.
pub fn quiet(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let other = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let alone = Stage::build(&other);
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let subscribers = subscribers(&server, &stage, "ChannelCreated", runtime);
    let posts = |stage: &Stage| callers(runtime, WRITERS, SPAN, poster(stage));
    let measured = alternate(pairs, || posts(&stage), || posts(&alone));
    drop(subscribers);
    Finding {
        name: "posts-ws",
        engine,
        pairs: measured,
        floor_is: "the same posts without subscribers",
        extra: json!({"subscribers": SUBSCRIBERS}),
    }
}

fn rate(begun: Instant) -> Sample {
    let frames = f64::from(u32::try_from(SUBSCRIBERS * POSTS).expect("a number of frames"));
    Sample { per_second: frames / begun.elapsed().as_secs_f64(), ..Sample::default() }
}

fn subscribers(server: &Server, stage: &Stage, kind: &str, runtime: &Runtime) -> Vec<Reader> {
    let workspace_id = &stage.workspace_id.to_string();
    let to = Subscription { address: server.address(), token: &stage.token, workspace_id, kind };
    runtime.block_on(subscribe(&to, SUBSCRIBERS))
}

/// A connection that frames are read from.
pub type Reader = BufReader<TcpStream>;

/// The subscription of sockets.
pub struct Subscription<'a> {
    pub address: SocketAddr,
    pub token: &'a str,
    pub workspace_id: &'a str,
    pub kind: &'a str,
}

/// Subscribes with this many sockets, one after another.
pub async fn subscribe(to: &Subscription<'_>, sockets: usize) -> Vec<Reader> {
    let first = json!({"token": to.token, "filter": {"workspace_id": to.workspace_id, "kind": to.kind}});
    let first = masked(first.to_string().as_bytes());
    let mut readers = Vec::new();
    for _ in 0..sockets {
        let mut stream = TcpStream::connect(to.address).await.expect("a connection");
        let handshake = "GET /ws/subscribe HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(handshake.as_bytes()).await.expect("a handshake");
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(reader.read_u8().await.expect("a response"));
        }
        reader.get_mut().write_all(&first).await.expect("a first frame");
        frame(&mut reader, &mut Vec::new()).await;
        readers.push(reader);
    }
    readers
}

/// Returns a text frame of a client, with a mask of zeros.
fn masked(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short frame");
    [&[0x81, 0x80 | 126][..], &length.to_be_bytes(), &[0; 4], payload].concat()
}

/// Reads a frame, and appends its bytes to `read`. Returns whether it is an event.
async fn frame(reader: &mut Reader, read: &mut Vec<u8>) -> bool {
    let mut head = [0; 2];
    reader.read_exact(&mut head).await.expect("a frame");
    let mut extended = [0; 8];
    let extended = match head[1] & 0x7f {
        126 => &mut extended[..2],
        127 => &mut extended[..],
        _ => &mut extended[..0],
    };
    reader.read_exact(extended).await.expect("a length");
    let length = match extended.len() {
        0 => usize::from(head[1] & 0x7f),
        _ => extended.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)),
    };
    let begins = read.len();
    read.extend(head);
    read.extend_from_slice(extended);
    read.resize(read.len() + length, 0);
    let payload = begins + head.len() + extended.len();
    reader.read_exact(&mut read[payload..]).await.expect("a payload");
    head[0] & 0x0f == 1
}

/// Reads the events of a round from every connection, and returns the bytes of one.
async fn read_all(readers: &mut Vec<Reader>) -> Vec<u8> {
    let mut tasks = JoinSet::new();
    for mut reader in readers.drain(..) {
        tasks.spawn(async move {
            let mut read = Vec::new();
            let mut events = 0;
            while events < POSTS {
                events += usize::from(frame(&mut reader, &mut read).await);
            }
            (reader, read)
        });
    }
    let mut round = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (reader, read) = done.expect("a reader");
        readers.push(reader);
        round = read;
    }
    round
}

async fn post_all(stage: &Stage) {
    let mut posts = JoinSet::new();
    for number in 0..POSTS {
        let stage = stage.clone();
        posts.spawn(async move {
            let input = json!({"thread_id": stage.thread_id, "body": body(number)});
            stage.ask(&stage.token, "post_message", input).await;
        });
    }
    while posts.join_next().await.is_some() {}
}

/// Connects as many sockets as there are subscribers, and returns both ends of each.
async fn bare_sockets() -> (Vec<TcpStream>, Vec<Reader>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..SUBSCRIBERS {
        readers.push(BufReader::new(TcpStream::connect(address).await.expect("a connection")));
        let (writer, _) = listener.accept().await.expect("a connection");
        writer.set_nodelay(true).expect("a socket option");
        writers.push(writer);
    }
    (writers, readers)
}

/// Writes the frames of a round to every socket, one frame at a time.
async fn write_all(writers: &mut Vec<TcpStream>, frames: &[Vec<u8>]) {
    let mut tasks = JoinSet::new();
    for mut writer in writers.drain(..) {
        let frames = frames.to_vec();
        tasks.spawn(async move {
            for frame in &frames {
                writer.write_all(frame).await.expect("a frame");
            }
            writer
        });
    }
    while let Some(done) = tasks.join_next().await {
        writers.push(done.expect("a writer"));
    }
}

/// Splits the bytes of a round into its frames.
fn split(round: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut rest = round;
    while let [_, short, more @ ..] = rest {
        let length = match short & 0x7f {
            126 => 4 + usize::from(u16::from_be_bytes([more[0], more[1]])),
            127 => panic!("an event of a round is short"),
            length => 2 + usize::from(length),
        };
        let (frame, others) = rest.split_at(length);
        frames.push(frame.to_vec());
        rest = others;
    }
    frames
}
