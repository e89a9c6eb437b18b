//! All kinds of certificates, and which trust settings accept them.

use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::UnixTime;

use super::*;

/// A time at which rcgen's certificates are valid, and one at which they have expired.
const GOOD: u64 = 1_800_000_000;
const OVER: u64 = 70_000_000_000;

type Made = (CertificateDer<'static>, Issuer<'static, KeyPair>);

fn params(is_ca: bool, name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["db.test".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params
}

/// A self-signed certificate.
fn alone(is_ca: bool, name: &str) -> Made {
    let key = KeyPair::generate().unwrap();
    let certificate = params(is_ca, name).self_signed(&key).unwrap().der().clone();
    (certificate, Issuer::new(params(is_ca, name), key))
}

fn signed_by(issuer: &Issuer<'static, KeyPair>) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    params(false, "server").signed_by(&key, issuer).unwrap().der().clone()
}

fn answer(
    listed: &CertificateDer<'static>,
    names: bool,
    shown: &CertificateDer<'static>,
    name: &str,
    now: u64,
) -> String {
    let algorithms =
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
    let mut roots = RootCertStore::empty();
    roots.add(listed.clone()).unwrap();
    let verifier = Verifier::of(roots, vec![listed.clone()], names, algorithms);
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
    match verifier.verify_server_cert(shown, &[], &name, &[], now) {
        Ok(_) => "good".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn certificates_are_good_or_not() {
    let (root, authority) = alone(true, "one");
    let (other, _) = alone(true, "other");
    let (forged, _) = alone(true, "one");
    let (plain, _) = alone(false, "plain");
    let server = signed_by(&authority);
    let (full, chain) = (true, false);
    for (what, listed, names, shown, name, now, said) in [
        ("signed by the authority", &root, full, &server, "db.test", GOOD, "good"),
        ("of another authority", &other, full, &server, "db.test", GOOD, "UnknownIssuer"),
        ("of one with the same name", &forged, full, &server, "db.test", GOOD, "BadSignature"),
        ("of another, whatever its name", &other, chain, &server, "db.test", GOOD, "UnknownIssuer"),
        ("for another name", &root, full, &server, "other.test", GOOD, "not valid for name"),
        ("for another name, unasked", &root, chain, &server, "other.test", GOOD, "good"),
        ("over", &root, chain, &server, "db.test", OVER, "expired"),
        ("an authority that is the server", &root, full, &root, "db.test", GOOD, "good"),
        ("the same, another name", &root, full, &root, "other.test", GOOD, "not valid for name"),
        ("the same, over", &root, chain, &root, "db.test", OVER, "expired"),
        ("another authority as the server", &root, chain, &other, "db.test", GOOD, "CaUsed"),
        ("alone", &plain, full, &plain, "db.test", GOOD, "good"),
    ] {
        let answer = answer(listed, names, shown, name, now);
        assert!(answer.contains(said), "{what}: {answer}");
    }
}
