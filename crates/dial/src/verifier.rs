//! Whose certificate is good.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Decides as an address asks. That a server has the key of the certificate which it shows is
/// checked in any case.
#[derive(Debug)]
pub(crate) struct Verifier {
    chains: Option<Chains>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The authorities of a file.
#[derive(Debug)]
struct Chains {
    roots: RootCertStore,
    /// The certificates as they are in the file.
    listed: Vec<CertificateDer<'static>>,
    /// Whether names are checked.
    names: bool,
}

impl Verifier {
    /// Takes every certificate.
    pub fn anybody(algorithms: WebPkiSupportedAlgorithms) -> Self {
        Verifier { chains: None, algorithms }
    }

    /// Takes certificates of these authorities.
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
            // A server whose certificate vouches for itself, as openssl makes it in one step: the
            // file holds that very certificate. Its time was looked at before.
            Err(error) if is_authority(&error) && self.listed.contains(end_entity) => {}
            chain => chain?,
        }
        if self.names { verify_server_name(&certificate, name) } else { Ok(()) }
    }
}

/// Whether a certificate was refused because it is that of an authority. The error is another
/// crate's, and is known by its name only.
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
