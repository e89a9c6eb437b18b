//! TLS at the SQL interface (RELIABILITY.md C5): the certificate of the HTTP listener, also a new one, and
//! proofs that are bound to it.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::serve::process::Server;
use crate::serve::tls::certificate;

/// Output of psql that trusts the certificate of the folder. `mode` may have more settings behind
/// it.
fn ask(folder: &Path, port: &str, key: &str, mode: &str) -> String {
    let trusted = folder.join("trusted.pem");
    let place = format!(
        "host=localhost hostaddr=127.0.0.1 port={port} user=admin dbname=default \
         sslmode={mode} sslrootcert={}",
        trusted.display()
    );
    let mut psql = super::psql_command();
    psql.args(["-X", "-At", "-c", "SHOW server_encoding", &place]).env("PGPASSWORD", key);
    let output = psql.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn c5_sql_is_answered_over_tls_and_a_new_certificate_needs_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    certificate(folder);
    std::fs::copy(folder.join("cert.pem"), folder.join("trusted.pem")).unwrap();
    let data = folder.join("data");
    // An address that others reach is fine with a certificate.
    let args = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--pg", "0.0.0.0:0"];
    let server = Server::start(&data, &args);
    let address = std::fs::read_to_string(data.join("server.sql")).unwrap();
    let port = address.trim().rsplit(':').next().unwrap();
    assert_eq!(ask(folder, port, &server.key, "verify-full"), "UTF8\n");
    // A client on the same machine needs no TLS.
    assert_eq!(ask(folder, port, &server.key, "disable"), "UTF8\n");
    certificate(folder);
    server.signal("-HUP");
    server.line_with("TLS certificate reloaded");
    let refused = ask(folder, port, &server.key, "verify-full");
    assert!(refused.contains("certificate verify failed"), "{refused}");
    std::fs::copy(folder.join("cert.pem"), folder.join("trusted.pem")).unwrap();
    assert_eq!(ask(folder, port, &server.key, "verify-full"), "UTF8\n");
}

#[test]
fn c5_a_proof_is_bound_to_the_certificate_that_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    certificate(folder);
    std::fs::copy(folder.join("cert.pem"), folder.join("trusted.pem")).unwrap();
    let data = folder.join("data");
    let args = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--pg", "127.0.0.1:0"];
    let server = Server::start(&data, &args);
    let address = std::fs::read_to_string(data.join("server.sql")).unwrap();
    let address = address.trim();
    let port = address.rsplit(':').next().unwrap();
    let bound = |mode: &str, binding: &str| {
        let mode = format!("{mode} channel_binding={binding}");
        ask(folder, port, &server.key, &mode)
    };
    for binding in ["require", "prefer", "disable"] {
        assert_eq!(bound("verify-full", binding), "UTF8\n", "{binding}");
    }
    // There is nothing to bind to in the clear.
    let refused = bound("disable", "require");
    assert!(refused.contains("channel binding"), "{refused}");

    // A man in the middle with a certificate of its own, and a client that does not verify it: only
    // a proof without channel binding passes.
    let between = tempfile::tempdir().unwrap();
    certificate(between.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let theirs = listener.local_addr().unwrap().port().to_string();
    runtime.spawn(stand_between(
        listener,
        acceptor(between.path()),
        connector(folder),
        address.to_owned(),
    ));
    let through = |binding: &str| {
        let mode = format!("require channel_binding={binding}");
        // `require` checks a certificate where one to trust is named.
        std::fs::copy(between.path().join("cert.pem"), folder.join("trusted.pem")).unwrap();
        ask(folder, &theirs, &server.key, &mode)
    };
    assert_eq!(through("disable"), "UTF8\n");
    for binding in ["require", "prefer"] {
        let refused = through(binding);
        assert!(refused.contains("another channel binding"), "{binding}: {refused}");
    }

    // Channel binding to a new certificate works without a restart, too.
    certificate(folder);
    server.signal("-HUP");
    server.line_with("TLS certificate reloaded");
    std::fs::copy(folder.join("cert.pem"), folder.join("trusted.pem")).unwrap();
    assert_eq!(bound("verify-full", "require"), "UTF8\n");
}

fn acceptor(folder: &Path) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn connector(folder: &Path) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// The `SSLRequest` of a client.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// Terminates TLS with both sides and forwards the bytes.
async fn stand_between(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    server: String,
) {
    while let Ok((mut client, _)) = listener.accept().await {
        let (acceptor, connector, server) = (acceptor.clone(), connector.clone(), server.clone());
        tokio::spawn(async move {
            let mut request = [0; 8];
            client.read_exact(&mut request).await?;
            assert_eq!(request, SSL_REQUEST);
            client.write_all(b"S").await?;
            let mut client = acceptor.accept(client).await?;
            let mut server = TcpStream::connect(server).await?;
            server.write_all(&SSL_REQUEST).await?;
            assert_eq!(server.read_u8().await?, b'S');
            let name = ServerName::try_from("localhost").unwrap();
            let mut server = connector.connect(name, server).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await
        });
    }
}
