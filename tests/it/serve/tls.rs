//! TLS: a caller who trusts the certificate is served, on an address that others reach.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::process::Server;

pub fn certificate(folder: &std::path::Path) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made
}

/// The status line of an answer, if the certificate is one that this caller trusts.
fn ask(port: &str, trusted: &rcgen::CertifiedKey<rcgen::KeyPair>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    stream.set_read_timeout(Some(super::process::SOON))?;
    let mut stream = StreamOwned::new(client, stream);
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer)?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

#[test]
fn a_new_certificate_needs_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = certificate(folder.path());
    let args = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--http", "0.0.0.0:0"];
    let server = Server::start(&folder.path().join("data"), &args);
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    assert_eq!(ask(&port, &first).unwrap(), "HTTP/1.1 200 OK");
    // Clear text is not answered as if it were HTTP.
    assert!(super::client::request(&format!("127.0.0.1:{port}"), "", "GET", "/", None).is_err());

    let second = certificate(folder.path());
    assert!(ask(&port, &second).is_err());
    server.signal("-HUP");
    server.line_with("TLS certificate reloaded");
    assert_eq!(ask(&port, &second).unwrap(), "HTTP/1.1 200 OK");
    assert!(ask(&port, &first).is_err());

    std::fs::write(folder.path().join("cert.pem"), "nonsense").unwrap();
    server.signal("-HUP");
    server.line_with("cannot be used for TLS");
    assert_eq!(ask(&port, &second).unwrap(), "HTTP/1.1 200 OK");
}
