//! What a server asks of the system before it serves: a queue for connections that come at once, and descriptors.

use std::io;
use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted; the system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// Listens on `address`. Called inside of a runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that was ended leaves connections behind that would keep the next one off its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Raises the number of descriptors that this process may have to the most that it is allowed, and answers it.
pub fn raise_descriptors() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: maximum, maximum };
    let raised = current == maximum || setrlimit(Resource::Nofile, wanted).is_ok();
    if !raised {
        tracing::warn!(?current, ?maximum, "the limit of descriptors could not be raised");
    }
    let limit = if raised { maximum } else { current };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
