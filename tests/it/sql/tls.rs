//! TLS at the SQL door (RELIABILITY.md C5): the certificate of the HTTP door, also a new one.

use std::path::Path;

use crate::serve::process::Server;
use crate::serve::tls::certificate;

/// What psql says when it trusts the certificate of the folder.
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
    // Who is on the same machine may do without.
    assert_eq!(ask(folder, port, &server.key, "disable"), "UTF8\n");
    certificate(folder);
    server.signal("-HUP");
    server.line_with("the certificate was read again");
    let refused = ask(folder, port, &server.key, "verify-full");
    assert!(refused.contains("certificate verify failed"), "{refused}");
    std::fs::copy(folder.join("cert.pem"), folder.join("trusted.pem")).unwrap();
    assert_eq!(ask(folder, port, &server.key, "verify-full"), "UTF8\n");
}
