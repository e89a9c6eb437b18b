//! TLS of the listeners. The certificate is read again when the process gets SIGHUP, so that a new
//! one needs no restart.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::serve::Listener;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use server::{PendingConnections, ShownCertificate, SqlTls};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::cli_error::CliError;

/// How long a caller may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How many callers may do so at the same time.
const HANDSHAKES_MAX: usize = 256;

/// Where the certificate and its key are.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate and those above it, in PEM.
    pub certificate: PathBuf,
    /// The key, in PEM.
    pub key: PathBuf,
}

/// The certificate that callers are shown.
pub struct Certificate {
    files: CertificateFiles,
    current: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

impl Certificate {
    /// Reads the files.
    pub fn read(files: CertificateFiles) -> Result<Self, CliError> {
        let current = RwLock::new(Arc::new(certified(&files)?));
        Ok(Certificate { files, current })
    }

    /// Reads the files again. A certificate that cannot be used changes nothing.
    pub fn read_again(&self) -> Result<(), CliError> {
        let fresh = Arc::new(certified(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

fn certified(files: &CertificateFiles) -> Result<CertifiedKey, CliError> {
    let wrong = |path: &Path, problem: String| {
        CliError::new(format!("{} cannot be used for TLS: {problem}", path.display()))
    };
    let no_chain =
        |error: rustls::pki_types::pem::Error| wrong(&files.certificate, error.to_string());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
        .map_err(no_chain)?
        .collect::<Result<_, _>>()
        .map_err(no_chain)?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(chain, key, &provider)
        .map_err(|error| wrong(&files.certificate, error.to_string()))
}

/// An acceptor that offers these application protocols.
fn acceptor(
    certificate: Arc<dyn ResolvesServerCert>,
    protocols: &[&str],
) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The TLS configuration of the SQL interface. It exposes the certificate that a client is shown:
/// SCRAM channel binding needs it, and a resumed session must have been made under the same.
pub fn sql_tls(certificate: Arc<Certificate>) -> Result<SqlTls, rustls::Error> {
    let made = |shown: &Arc<CertifiedKey>| {
        let der = shown.end_entity_cert().map(|certificate| Arc::from(certificate.as_ref()));
        let only = Arc::new(SingleCertAndKey::from(Arc::clone(shown)));
        Ok::<_, rustls::Error>(ShownCertificate {
            acceptor: acceptor(only, &["postgresql"])?,
            certificate: der?,
        })
    };
    let first = certificate.current();
    let kept = Mutex::new((made(&first)?, first));
    Ok(Arc::new(move || {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let current = certificate.current();
        if !Arc::ptr_eq(&kept.1, &current) {
            // A failure is not expected here: the certificate was checked when it was read.
            if let Ok(fresh) = made(&current) {
                *kept = (fresh, current);
            }
        }
        kept.0.clone()
    }))
}

/// Callers who have agreed on keys.
pub struct TlsListener {
    address: SocketAddr,
    agreed: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl TlsListener {
    /// Accepts TLS connections on the threads of `front`. A slow handshake does not delay others.
    pub fn new(
        front: &Handle,
        listener: TcpListener,
        certificate: Arc<Certificate>,
        per_address: usize,
    ) -> io::Result<Self> {
        let acceptor = acceptor(certificate, &["h2", "http/1.1"]).map_err(io::Error::other)?;
        let address = listener.local_addr()?;
        let (send, agreed) = mpsc::channel(HANDSHAKES_MAX);
        let pending = PendingConnections::new(HANDSHAKES_MAX, per_address.min(HANDSHAKES_MAX / 4));
        front.spawn(accept(listener, acceptor, pending, send));
        Ok(TlsListener { address, agreed })
    }
}

async fn accept(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    pending: PendingConnections,
    send: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    while !send.is_closed() {
        let (stream, caller) = Listener::accept(&mut listener).await;
        let Some(own) = pending.enter(caller.ip()) else {
            tracing::debug!(%caller, "too many callers of this address agree on TLS");
            continue;
        };
        let (acceptor, send) = (acceptor.clone(), send.clone());
        tokio::spawn(async move {
            let agreed = tokio::select! {
                agreed = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)) => agreed,
                () = own.evicted() => return,
            };
            drop(own);
            match agreed {
                // The send fails only when the server stops.
                Ok(Ok(stream)) => drop(send.send((stream, caller)).await),
                Ok(Err(error)) => tracing::debug!(%caller, %error, "no TLS with a caller"),
                Err(_) => tracing::debug!(%caller, "a caller took too long to agree on TLS"),
            }
        });
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        match self.agreed.recv().await {
            Some(caller) => caller,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
