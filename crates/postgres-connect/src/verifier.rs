//! Verification of server certificates.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Verifies certificates as an address asks. The proof that the server has the private key of its
/// certificate is always checked.
#[derive(Debug)]
pub(crate) struct Verifier {
    chains: Option<Chains>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The authorities of a file.
#[derive(Debug)]
struct Chains {
    roots: RootCertStore,
    /// The certificates of the file.
    listed: Vec<CertificateDer<'static>>,
    /// Whether host names are verified.
    names: bool,
}

impl Verifier {
    /// Accepts every certificate.
    pub fn anybody(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Verifier { chains: None, algorithms }
    }

    /// Accepts certificates of these authorities.
    pub fn of(
        roots: RootCertStore,
        listed: Vec<CertificateDer<'static>>,
        names: bool,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        Verifier { chains: Some(Chains { roots, listed, names }), algorithms }
    }
}

impl Chains {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let chain = verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms.all,
        );
        match chain {
            // A self-signed certificate that is marked as an authority, as `openssl req -x509`
            // creates it: it is accepted if the file contains this certificate. Its validity period
            // was checked before.
            Err(error) if is_authority(&error) && self.listed.contains(end_entity) => {}
            chain => chain?,
        }
        if self.names { verify_server_name(&certificate, name) } else { Ok(()) }
    }
}

/// Whether a certificate was refused because it is that of an authority. The type of the error is
/// private to another crate, so it is recognised by its name.
fn is_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(other)) => {
            format!("{other:?}").contains("CaUsedAsEndEntity")
        }
        _ => false,
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(chains) = &self.chains {
            chains.verify(end_entity, intermediates, server_name, now, &self.algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
