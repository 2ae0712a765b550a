//! Opens the listening socket, and raises the limit on file descriptors.

use std::io;
use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpSocket};

/// Maximum connections that wait to be accepted. The system may allow fewer (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;

/// Opens a TCP listener on `address`. Must be called within a Tokio runtime.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Without this option, old connections of a server that has exited would prevent the next server from
    // binding the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Raises this process's limit on file descriptors to the hard limit, and returns the limit in force.
pub fn raise_descriptor_limit() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: maximum, maximum };
    let raised = current == maximum || setrlimit(Resource::Nofile, wanted).is_ok();
    if !raised {
        tracing::warn!(?current, ?maximum, "could not raise the limit on file descriptors");
    }
    let limit = if raised { maximum } else { current };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
