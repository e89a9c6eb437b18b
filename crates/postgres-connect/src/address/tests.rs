//! Interpretation of addresses, and refused addresses.

use super::*;

/// The resulting TLS mode, or the error.
fn read(url: &str, manner: Manner) -> String {
    match Address::parse(url, manner) {
        Ok(address) => {
            let mode = address.config.get_ssl_mode();
            let trust = match &address.security.trust {
                _ if address.is_plain() => return "no TLS".into(),
                Trust::Anybody => "anybody".to_owned(),
                Trust::Machine => "machine".to_owned(),
                Trust::File { path, names } => {
                    let names = if *names { "with names" } else { "any name" };
                    format!("{} {names}", path.display())
                }
            };
            format!("{mode:?} {trust}")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn words_about_tls_mean_what_they_mean_to_libpq() {
    for (parameters, expected) in [
        ("", "Prefer anybody"),
        ("sslmode=disable", "no TLS"),
        ("sslmode=prefer", "Prefer anybody"),
        ("sslmode=require", "Require anybody"),
        ("sslmode=require&sslrootcert=ca.pem", "Require ca.pem any name"),
        ("sslmode=verify-ca&sslrootcert=%2Fetc%2Fca.pem", "Require /etc/ca.pem any name"),
        ("sslmode=verify-full&sslrootcert=ca.pem", "Require ca.pem with names"),
        ("sslmode=verify-full&sslrootcert=system", "Require machine"),
        ("sslmode=verify-full", "Require machine"),
        ("sslrootcert=system", "Require machine"),
        ("sslmode=require&sslcert=a&sslkey=b&channel_binding=require", "Require anybody"),
        ("sslmode=require&sslnegotiation=direct", "Require anybody"),
        ("target_session_attrs=primary&keepalives_count=2&connect_timeout=3", "Prefer anybody"),
        (
            "sslmode=verify_full",
            "sslmode: must be disable, prefer, require, verify-ca or verify-full",
        ),
        ("sslmode=allow", "sslmode: allow is not supported: write verify-full, require or disable"),
        (
            "sslmode=verify-ca",
            "sslrootcert: is missing: sslmode=verify-ca needs the file of the authority that it \
             trusts",
        ),
        (
            "sslmode=require&sslrootcert=system",
            "sslrootcert: system accepts a certificate for any name, so the host name must be \
             verified: write sslmode=verify-full",
        ),
        (
            "sslmode=disable&sslrootcert=ca.pem",
            "sslrootcert: is of no use with sslmode=disable: write sslmode=verify-full",
        ),
        (
            "sslrootcert=ca.pem",
            "sslrootcert: is of no use with sslmode=prefer, which goes on without TLS when there \
             is none: write sslmode=verify-full",
        ),
        ("sslmode=require&sslcert=a", "sslkey: is missing: sslcert needs its key"),
        ("sslmode=require&sslkey=a", "sslcert: is missing: sslkey is the key of a certificate"),
        (
            "sslmode=disable&sslcert=a&sslkey=b",
            "sslcert: is of no use without TLS: write sslmode=verify-full",
        ),
        (
            "sslmode=disable&channel_binding=require",
            "channel_binding: require needs TLS: write sslmode=verify-full",
        ),
        ("channel_binding=on", "channel_binding: must be disable, prefer or require"),
        (
            "sslnegotiation=direct",
            "sslnegotiation: direct needs TLS: write sslmode=verify-full, verify-ca or require",
        ),
        ("sslmode=require&sslmode=disable", "sslmode: is given twice: write it once"),
        ("sslmode=", "sslmode: has no value"),
        ("ssl_mode=require", "ssl_mode: unknown parameter; did you mean sslmode?"),
        ("foo=1", "foo: unknown parameter; use those of libpq"),
        ("colour=red", "colour: unknown parameter; use those of libpq"),
        (
            "sslpassword=geheim",
            "sslpassword: is not supported: remove the password from the key, and make its file \
             readable only by this user",
        ),
        ("pgbouncer=true", "pgbouncer: is not supported: name the database itself, not a pooler"),
        (
            "target_session_attrs=standby",
            "target_session_attrs: must be any, read-write, primary or read-only",
        ),
        ("tcp_user_timeout=soon", "tcp_user_timeout: must be a whole number of milliseconds"),
        ("connect_timeout=soon", "connect_timeout: must be a whole number of seconds"),
    ] {
        let url = format!("postgres://u:geheim@db.example.org/d?{parameters}");
        assert_eq!(read(&url, Manner::Libpq), expected, "{parameters}");
    }
}

#[test]
fn the_strict_manner_checks_every_certificate() {
    for (url, expected) in [
        ("postgres://u@localhost/d", "no TLS"),
        ("postgres://u@127.0.0.1/d", "no TLS"),
        ("postgresql:///d?user=u&host=/run/postgresql", "no TLS"),
        ("postgres://u@db.example.org/d", "Require machine"),
        ("postgres://u@localhost,db.example.org/d", "Require machine"),
        ("postgres://u@localhost/d?hostaddr=10.0.0.1", "Require machine"),
        ("postgres://u@localhost/d?sslrootcert=ca.pem", "Require ca.pem with names"),
        ("postgres://u@db.example.org/d?sslmode=disable", "no TLS"),
        ("postgres://u@db.example.org/d?sslmode=require", "Require machine"),
        ("postgres://u@db.example.org/d?sslmode=verify-ca", "Require machine"),
        ("postgres://u@db/d?sslmode=require&sslrootcert=ca.pem", "Require ca.pem with names"),
        (
            "postgres://u@db.example.org/d?sslmode=prefer",
            "sslmode: prefer can silently connect without TLS: write require or disable",
        ),
    ] {
        assert_eq!(read(url, Manner::Strict), expected, "{url}");
    }
}

#[test]
fn places() {
    for (url, expected) in [
        ("postgres://u@db-1,db-2:5433/d", "db-1:5432, db-2:5433"),
        ("postgres://u@[::1]:1/d", "[::1]:1"),
        ("postgres:///d?hostaddr=10.0.0.1", "10.0.0.1:5432"),
        ("postgres:///d?host=/run&port=7", "/run/.s.PGSQL.7"),
        ("postgres:///d?host=/run&sslmode=require", "/run/.s.PGSQL.5432"),
    ] {
        assert_eq!(Address::parse(url, Manner::Libpq).unwrap().place(), expected, "{url}");
    }
    let here = Address::parse("postgres:///d?host=/run&sslmode=require", Manner::Libpq).unwrap();
    assert!(here.is_plain() && here.is_socket() && here.is_here());
}

#[test]
fn no_error_repeats_a_password() {
    for url in [
        "mysql://u:geheim@host/d",
        "postgres://u:a@geheim@host/d",
        "postgres://u:a@geheim?b=c@host/d",
        "postgres://u:a@geheim/b@host/d",
        "postgres://u:geheim@host:port/d",
        "postgres://u:geheim@[host/d",
        "postgres://host/d?user=u&password=a&geheim=b",
        "postgres://host/d?user=u&GEHEIMgeheim",
        "postgres:///d?user=u@geheim",
        "postgres://u:geheim@/d",
        "postgres://u:geheim@host/d?host=/run&sslmode=prefer&sslrootcert=ca.pem",
        "postgres://u:geheim@host/d?port=geheim",
    ] {
        for manner in [Manner::Libpq, Manner::Strict] {
            let error = Address::parse(url, manner).unwrap_err().to_string();
            assert!(!error.contains("geheim"), "{url}: {error}");
        }
    }
    let address = Address::parse("postgres://u:geheim@host/d", Manner::Libpq).unwrap();
    assert!(!format!("{address:?}").contains("geheim"));
}
