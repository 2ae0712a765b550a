//! A server that offers TLS in front of Postgres.
//!
//! It offers TLS with a certificate of a test authority, terminates it, and forwards the decrypted bytes. It
//! rejects connections without TLS, and counts them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_rustls::TlsAcceptor;

use super::proxy::Upstream;
use crate::runtime;

/// The first message of a client that wants TLS (PostgreSQL manual, section 55.7: SSLRequest).
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The first byte of TLS, which a client sends at once if it connects without an SSLRequest.
const HANDSHAKE: u8 = 22;

/// The name of PostgreSQL's protocol in TLS, which such a client must name (section 55.2.12).
const PROTOCOL: &[u8] = b"postgresql";

/// A server with TLS in front of one database.
pub struct TlsServer {
    address: SocketAddr,
    user: String,
    database: String,
    files: TempDir,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    encrypted: AtomicUsize,
    plain: AtomicUsize,
    /// Number of those without an SSLRequest.
    direct: AtomicUsize,
    /// The bytes that arrived encrypted, of all connections.
    received: Mutex<Vec<u8>>,
}

/// A certificate, and its files.
pub(crate) struct IssuedCertificate {
    certificate: PathBuf,
    key: PathBuf,
}

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

/// Returns a new authority.
pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Issues a certificate for `name` into files of `folder`.
pub(crate) fn issue(authority: &Authority, name: &str, folder: &Path, file: &str) -> IssuedCertificate {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let signed = params.signed_by(&key, authority).unwrap();
    let issued = IssuedCertificate {
        certificate: folder.join(format!("{file}.crt")),
        key: folder.join(format!("{file}.key")),
    };
    std::fs::write(&issued.certificate, signed.pem()).unwrap();
    std::fs::write(&issued.key, key.serialize_pem()).unwrap();
    issued
}

/// Writes a certificate for `name` to `server.crt` of a folder, with its key beside it, and that of its
/// authority to `roots.pem`.
pub fn certificate_for(name: &str, folder: &Path) {
    let authority = authority();
    std::fs::write(folder.join("roots.pem"), authority.pem()).unwrap();
    issue(&authority, name, folder, "server");
}

impl TlsServer {
    /// Starts a server in front of the database at `url`, with a certificate for `name`.
    ///
    /// With `asks` a client must have a certificate of the same authority.
    pub fn start(url: &str, name: &str, asks: bool) -> Self {
        let config: Config = url.parse().unwrap();
        let files = tempfile::tempdir().unwrap();
        let (authority, stranger) = (authority(), authority());
        std::fs::write(files.path().join("roots.pem"), authority.pem()).unwrap();
        std::fs::write(files.path().join("others.pem"), stranger.pem()).unwrap();
        issue(&authority, "client", files.path(), "client");
        issue(&stranger, "client", files.path(), "stranger");
        let issued = issue(&authority, name, files.path(), "server");
        let acceptor = acceptor(&issued, &authority, asks, &[PROTOCOL]);
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let upstream = Arc::new(Upstream::of(&config));
        let counting = Arc::clone(&counts);
        runtime().spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let counts = Arc::clone(&counting);
                let upstream = Arc::clone(&upstream);
                let acceptor = acceptor.clone();
                tokio::spawn(async move { carry(client, &acceptor, &upstream, &counts).await });
            }
        });
        let named = |name: Option<&str>| name.unwrap_or_default().to_owned();
        Self { address, user: named(config.get_user()), database: named(config.get_dbname()), files, counts }
    }

    /// Returns the address of the database behind it, by the name `host`, with fields of a query.
    pub fn url(&self, host: &str, query: &str) -> String {
        format!("postgres://{}@{host}:{}/{}?{query}", self.user, self.address.port(), self.database)
    }

    /// Returns the path of a file: `roots.pem`, `others.pem`, `client.crt`, `client.key`, `stranger.crt`,
    /// `stranger.key`.
    pub fn file(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().replace('/', "%2F")
    }

    /// Returns how many connections were encrypted, and how many tried without.
    pub fn counts(&self) -> (usize, usize) {
        (self.counts.encrypted.load(Ordering::SeqCst), self.counts.plain.load(Ordering::SeqCst))
    }
}

impl TlsServer {
    /// Returns how many encrypted connections began without an SSLRequest.
    pub fn direct(&self) -> usize {
        self.counts.direct.load(Ordering::SeqCst)
    }

    /// Returns whether a client has sent this text over TLS.
    pub fn has_received(&self, text: &str) -> bool {
        let received = self.counts.received.lock().unwrap_or_else(PoisonError::into_inner);
        received.windows(text.len()).any(|window| window == text.as_bytes())
    }
}

/// Returns an acceptor of connections with a certificate; with `asks` clients must have one too. A client
/// that names protocols must name one of these.
pub(crate) fn acceptor(
    server: &IssuedCertificate,
    authority: &Authority,
    asks: bool,
    protocols: &[&[u8]],
) -> TlsAcceptor {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = if asks {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        builder.with_client_cert_verifier(verifier.unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let certificate = CertificateDer::from_pem_file(&server.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&server.key).unwrap();
    let mut config = builder.with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn carry(mut client: TcpStream, acceptor: &TlsAcceptor, upstream: &Upstream, counts: &Counts) {
    let mut first = [0; 8];
    if !matches!(client.peek(&mut first).await, Ok(1..)) {
        return;
    }
    let is_direct = first.first() == Some(&HANDSHAKE);
    if !is_direct {
        if client.read_exact(&mut first).await.is_err() {
            return;
        }
        if first != SSL_REQUEST {
            counts.plain.fetch_add(1, Ordering::SeqCst);
            return;
        }
        if client.write_all(b"S").await.is_err() {
            return;
        }
    }
    let Ok(inside) = acceptor.accept(client).await else { return };
    let has_named_protocol = inside.get_ref().1.alpn_protocol() == Some(PROTOCOL);
    if is_direct && !has_named_protocol {
        return;
    }
    counts.direct.fetch_add(usize::from(is_direct), Ordering::SeqCst);
    counts.encrypted.fetch_add(1, Ordering::SeqCst);
    let Ok(server) = upstream.connect().await else { return };
    let (mut from_client, mut to_client) = split(inside);
    let (mut from_server, mut to_server) = split(server);
    let asking = async {
        let mut bytes = vec![0; 65_536];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            counts.received.lock().unwrap_or_else(PoisonError::into_inner).extend(&bytes[..count]);
            if to_server.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
    }
}
