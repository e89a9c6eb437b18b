//! Channel binding of a proof to the certificate of the server (`tls-server-end-point`, RFC 5929).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::Malformed;

/// How a client that binds its proof begins.
const FLAG: &str = "p=tls-server-end-point";

/// The channel binding that the server offered and the client chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding<'a> {
    /// There is nothing to bind to.
    None,
    /// There is, and the client has chosen to do without.
    Unused,
    /// The proof is bound to this.
    To(&'a [u8]),
}

impl Binding<'_> {
    /// The channel binding that a client with this flag must repeat in its proof.
    pub(super) fn repeated(self, flag: &str) -> Result<String, Malformed> {
        let header = format!("{flag},,");
        match (self, flag) {
            // `y`: the client supports channel binding, and believes that the server does not.
            (Binding::None, "n" | "y") | (Binding::Unused, "n") => Ok(STANDARD.encode(header)),
            (Binding::To(bytes), FLAG) => Ok(STANDARD.encode([header.as_bytes(), bytes].concat())),
            (Binding::Unused, "y") => {
                Err(Malformed("says that channel binding was not offered, and it was"))
            }
            (Binding::To(_), _) => {
                Err(Malformed("is not bound to tls-server-end-point, which its mechanism asks for"))
            }
            _ => Err(Malformed("asks for channel binding, which its mechanism does not have")),
        }
    }
}

/// The hashes of certificates, by the algorithms that sign them. SHA-1 and MD5 are too weak, and
/// SHA-256 stands for them.
const ALGORITHMS: &[(&[u8], Hash)] = &[
    // 1.2.840.113549.1.1.4, .5, .11, .12, .13: RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], Hash::Sha512),
    // 1.2.840.10045.4.1, .3.2, .3.3, .3.4: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], Hash::Sha256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], Hash::Sha384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], Hash::Sha512),
];

#[derive(Clone, Copy)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// The channel binding of a certificate: its hash. None for one whose signature names no hash, such
/// as Ed25519, since clients do not agree on a hash for it.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_algorithm(certificate)?;
    let (_, hash) = ALGORITHMS.iter().find(|(known, _)| *known == algorithm)?;
    Some(match hash {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;

/// The algorithm that a certificate says it is signed with, behind what is signed:
/// `SEQUENCE { what is signed, SEQUENCE { algorithm, … }, … }`.
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (inside, _) = element(certificate, SEQUENCE)?;
    let (_, behind) = element(inside, SEQUENCE)?;
    let (algorithm, _) = element(behind, SEQUENCE)?;
    let (id, _) = element(algorithm, OBJECT_ID)?;
    Some(id)
}

/// The content of an element of DER, and what comes behind it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // So many bytes of length follow; a certificate has no use for more than four.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let length =
                digits.iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_with(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let names = vec!["localhost".to_owned()];
        let made = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        made.der().to_vec()
    }

    #[test]
    fn a_certificate_is_hashed_as_its_signature_is() {
        for (algorithm, bytes) in
            [(&rcgen::PKCS_ECDSA_P256_SHA256, 32), (&rcgen::PKCS_ECDSA_P384_SHA384, 48)]
        {
            let certificate = signed_with(algorithm);
            assert_eq!(end_point(&certificate).map(|hash| hash.len()), Some(bytes));
        }
        assert_eq!(end_point(&signed_with(&rcgen::PKCS_ED25519)), None);
    }

    #[test]
    fn what_is_no_certificate_has_no_hash() {
        let certificate = signed_with(&rcgen::PKCS_ECDSA_P256_SHA256);
        for end in 0..certificate.len() {
            assert_eq!(end_point(&certificate[..end]), None, "{end}");
        }
        assert_eq!(end_point(b"-----BEGIN CERTIFICATE-----"), None);
        assert_eq!(end_point(&[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn who_was_offered_a_binding_does_not_say_otherwise() {
        let said = |binding: Binding<'_>, flag| binding.repeated(flag).ok();
        let text = |text: &str| Some(STANDARD.encode(text));
        assert_eq!(said(Binding::None, "n"), text("n,,"));
        assert_eq!(said(Binding::None, "y"), text("y,,"));
        assert_eq!(said(Binding::Unused, "n"), text("n,,"));
        assert_eq!(said(Binding::To(b"hash"), FLAG), text("p=tls-server-end-point,,hash"));
        for (binding, flag) in [
            (Binding::None, FLAG),
            (Binding::Unused, "y"),
            (Binding::Unused, FLAG),
            (Binding::To(b"hash"), "n"),
            (Binding::To(b"hash"), "y"),
            (Binding::To(b"hash"), "p=tls-unique"),
        ] {
            assert_eq!(said(binding, flag), None, "{binding:?} {flag}");
        }
    }
}
