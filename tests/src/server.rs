//! A server in this process, on its own port, that ends with the world.

use std::net::SocketAddr;

use svc_core::Service;
use svc_http::HttpSettings;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::runtime;

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub fn start(service: Service, settings: HttpSettings) -> Self {
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async move { drop(stopped.await) };
        let task = runtime().spawn(svc_http::serve(service, listener, settings, shutdown));
        Self { address, stop: Some(stop), task: Some(task) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            // Wait for its end, because the server holds the service, and the service the database.
            let ended = runtime().block_on(task);
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}
