//! A load generator that costs little.
//!
//! Each connection is one task that writes a prepared request and reads the response up to its
//! `Content-Length`. It shares the machine with the server, and equally so with the floor.

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
/// `request` makes the bytes of a connection's n-th request.
pub fn drive(
    runtime: &Runtime,
    address: SocketAddr,
    connections: usize,
    span: Duration,
    request: impl Fn(usize, usize) -> Vec<u8> + Send + Sync + 'static,
) -> Sample {
    let request = Arc::new(request);
    let over = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let mut tasks = Vec::new();
        let (begun, before) = (Instant::now(), processor_time());
        for connection in 0..connections {
            let (request, over) = (Arc::clone(&request), Arc::clone(&over));
            tasks.push(tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.expect("the server accepts");
                stream.set_nodelay(true).expect("a socket option");
                let mut latencies = Vec::new();
                let mut buffer = Vec::with_capacity(4096);
                let mut number = 0;
                while !over.load(Ordering::Relaxed) {
                    let bytes = request(connection, number);
                    let sent = Instant::now();
                    stream.write_all(&bytes).await.expect("the server reads");
                    read_response(&mut stream, &mut buffer).await;
                    latencies.push(sent.elapsed());
                    number += 1;
                }
                latencies
            }));
        }
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

/// The length of the whole response, once its head is there. Panics on anything but a success.
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
