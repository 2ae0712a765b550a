//! A load generator with little overhead.
//!
//! Each connection is one task that writes a prepared request and reads the response up to its
//! `Content-Length`. It shares the machine with the server, and in the same way with the floor.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::{Sample, processor_time};

/// Sends requests over `connections` connections for `span`.
///
/// `request` returns the bytes of a connection's n-th request.
pub fn drive(
    runtime: &Runtime,
    address: SocketAddr,
    connections: usize,
    span: Duration,
    request: impl Fn(usize, usize) -> Vec<u8> + Send + Sync + 'static,
) -> Sample {
    let request = Arc::new(request);
    let open = async |connection| {
        let stream = TcpStream::connect(address).await.expect("the server accepts");
        stream.set_nodelay(true).expect("a socket option");
        let request = Arc::clone(&request);
        Http { stream, buffer: Vec::with_capacity(4096), request: move |number| request(connection, number) }
    };
    drive_over(runtime, connections, span, open)
}

/// A connection for one request after another.
pub trait Connection: Send + 'static {
    /// Makes the n-th request and reads its response. Panics unless it succeeds.
    fn exchange(&mut self, number: usize) -> impl Future<Output = ()> + Send;
}

/// Makes requests over `connections` connections, which `open` opens, for `span`.
pub fn drive_over<C: Connection>(
    runtime: &Runtime,
    connections: usize,
    span: Duration,
    open: impl AsyncFn(usize) -> C,
) -> Sample {
    let over = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let mut opened = Vec::new();
        for connection in 0..connections {
            opened.push(open(connection).await);
        }
        let begun = Instant::now();
        let before = processor_time();
        let tasks: Vec<_> = opened
            .into_iter()
            .map(|mut connection| {
                let over = Arc::clone(&over);
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let sent = Instant::now();
                        connection.exchange(latencies.len()).await;
                        latencies.push(sent.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        tokio::time::sleep(span).await;
        over.store(true, Ordering::Relaxed);
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("a connection's task"));
        }
        let cpu = processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        Sample {
            per_second: latencies.len() as f64 / begun.elapsed().as_secs_f64(),
            cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / latencies.len() as f64),
            latencies,
        }
    })
}

/// A connection over HTTP/1.1.
struct Http<R> {
    stream: TcpStream,
    buffer: Vec<u8>,
    request: R,
}

impl<R: Fn(usize) -> Vec<u8> + Send + 'static> Connection for Http<R> {
    async fn exchange(&mut self, number: usize) {
        let bytes = (self.request)(number);
        self.stream.write_all(&bytes).await.expect("the server reads");
        read_response(&mut self.stream, &mut self.buffer).await;
    }
}

async fn read_response(stream: &mut TcpStream, buffer: &mut Vec<u8>) {
    buffer.clear();
    loop {
        if let Some(length) = complete_length(buffer)
            && buffer.len() >= length
        {
            return;
        }
        let read = stream.read_buf(buffer).await.expect("the server responds");
        assert!(read > 0, "the server closed: {}", String::from_utf8_lossy(buffer));
    }
}

/// Returns the length of the whole response once its head is complete. Panics on anything but a success.
fn complete_length(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).expect("an ASCII head");
    assert!(text.starts_with("HTTP/1.1 2"), "{}", String::from_utf8_lossy(buffer));
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a length"))
    });
    Some(head + length.unwrap_or(0))
}
