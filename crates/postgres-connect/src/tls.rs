//! The TLS configuration of an address.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::AddressError;
use crate::parameters::wrong;
use crate::verifier::Verifier;

/// Which server certificates are trusted.
pub(crate) enum Trust {
    /// Every certificate.
    Anybody,
    /// Certificates for the host name from an authority that the machine trusts.
    Machine,
    /// Certificates from an authority of a file, for the host name if names are verified.
    File {
        /// The file, in PEM.
        path: PathBuf,
        /// Whether host names are verified.
        names: bool,
    },
}

/// The files of the client certificate and its key.
pub(crate) struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The TLS parameters of an address.
pub(crate) struct Security {
    pub trust: Trust,
    pub identity: Option<Identity>,
    /// TLS begins without a negotiation (`sslnegotiation=direct`).
    is_direct: bool,
    /// Cached if no file is read, because loading the trust store of the machine takes a while.
    made: OnceLock<MakeRustlsConnect>,
}

impl Security {
    pub fn new(trust: Trust, identity: Option<Identity>, is_direct: bool) -> Self {
        Security { trust, identity, is_direct, made: OnceLock::new() }
    }

    fn connector(&self) -> Result<MakeRustlsConnect, AddressError> {
        if let Some(made) = self.made.get() {
            return Ok(made.clone());
        }
        let connector = self.make()?;
        let has_files = self.identity.is_some() || matches!(self.trust, Trust::File { .. });
        if has_files {
            return Ok(connector);
        }
        Ok(self.made.get_or_init(|| connector).clone())
    }

    fn make(&self) -> Result<MakeRustlsConnect, AddressError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong("sslmode", error.to_string()))?;
        let builder = match &self.trust {
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Verifier::anybody(algorithms))),
            Trust::Machine => builder.with_platform_verifier().map_err(|error| {
                let text = format!(
                    "the trust store of this machine cannot be read: {error}; name a file with \
                     sslrootcert"
                );
                wrong("sslrootcert", text)
            })?,
            Trust::File { path, names } => {
                let listed = certificates("sslrootcert", path)?;
                let mut roots = RootCertStore::empty();
                for certificate in &listed {
                    roots.add(certificate.clone()).map_err(|error| {
                        let text = format!("a certificate of {}: {error}", path.display());
                        wrong("sslrootcert", text)
                    })?;
                }
                let verifier = Verifier::of(roots, listed, *names, algorithms);
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = certificates("sslcert", certificate)?;
                builder.with_client_auth_cert(chain, private_key(key)?).map_err(|error| {
                    let (key, certificate) = (key.display(), certificate.display());
                    let text = format!("{key} is not the key of {certificate}: {error}");
                    wrong("sslkey", text)
                })?
            }
        };
        if self.is_direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(MakeRustlsConnect::new(config))
    }
}

/// The TLS connector of an address; connects without TLS if the address says so.
#[derive(Clone)]
pub struct Tls(Arc<Security>);

impl Tls {
    pub(crate) fn new(security: Arc<Security>) -> Result<Self, AddressError> {
        security.connector()?;
        Ok(Tls(security))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = AddressError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, AddressError> {
        let mut connector = self.0.connector()?;
        match MakeTlsConnect::<Socket>::make_tls_connect(&mut connector, host) {
            Ok(connect) => Ok(connect),
            Err(never) => match never {},
        }
    }
}

fn unreadable(parameter: &str, path: &Path, error: &pem::Error) -> AddressError {
    let path = path.display();
    wrong(parameter, format!("{path} cannot be read: {error}"))
}

/// The certificates of a PEM file, at least one.
fn certificates(
    parameter: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, AddressError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let all: Vec<_> = read.map_err(|error| unreadable(parameter, path, &error))?;
    if all.is_empty() {
        let text = format!("{} contains no PEM certificate", path.display());
        return Err(wrong(parameter, text));
    }
    Ok(all)
}

/// The private key of a PEM file. As in libpq, other users must not be able to read it; the group
/// may if root owns the file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, AddressError> {
    let shown = path.display();
    let file = std::fs::metadata(path);
    let file = file.map_err(|error| wrong("sslkey", format!("{shown} cannot be read: {error}")))?;
    let others = if file.uid() == 0 { 0o037 } else { 0o077 };
    if file.mode() & others != 0 {
        let text = format!("{shown} can be read by others: chmod 600 {shown}");
        return Err(wrong("sslkey", text));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let text = "contains no PEM private key without a password";
            wrong("sslkey", format!("{shown} {text}"))
        }
        error => unreadable("sslkey", path, &error),
    })
}

#[cfg(test)]
mod tests;
