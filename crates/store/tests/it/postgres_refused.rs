//! Databases that cannot be a store: each is refused with a cause and a hint.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use store::StoreError;
use store::postgres::{PostgresOptions, PostgresStore};
use testbed::postgres::{Setup, free_port};
use tokio_postgres::{Client, NoTls};

const HBA: &str = "\
local all all trust
local replication all trust
host all all 127.0.0.1/32 scram-sha-256
";

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Error message of a refused connection.
async fn refused(url: &str) -> String {
    let store = PostgresStore::connect(url, PostgresOptions::default()).await;
    match store.err() {
        Some(StoreError::Refused { problem, advice }) => format!("{problem}: {advice}"),
        Some(other) => panic!("{url}: {other}"),
        None => panic!("{url}: is a store"),
    }
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let setup = Setup::default().tcp().unwrap().file("hba.conf", HBA).set("hba_file=hba.conf");
    let primary = setup.start();
    let admin = connect(&primary.url("postgres")).await;
    for statement in [
        "CREATE ROLE maker LOGIN PASSWORD 'canary'",
        "CREATE ROLE guest LOGIN PASSWORD 'canary'",
        "CREATE ROLE reader LOGIN PASSWORD 'canary'",
        "ALTER ROLE reader SET default_transaction_read_only = on",
        "CREATE DATABASE fresh",
        "CREATE DATABASE used OWNER maker",
    ] {
        admin.batch_execute(statement).await.unwrap();
    }
    let url = |user: &str, database: &str| {
        format!("postgres://{user}:canary@{}/{database}", primary.address())
    };
    PostgresStore::connect(&url("maker", "used"), PostgresOptions::default()).await.unwrap();
    let replica = Setup::default().tcp().unwrap().copy_of(&primary).start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let closed = free_port().unwrap();
    for (what, url, said) in [
        (
            "a scheme",
            "mysql://maker:canary@localhost/used".to_owned(),
            ["scheme", "begins with postgres://"],
        ),
        (
            "a host",
            "postgres://maker:canary@db.invalid/used?connect_timeout=60".to_owned(),
            ["db.invalid:5432", "correct the host name"],
        ),
        (
            "a port",
            format!("postgres://maker:canary@127.0.0.1:{closed}/used"),
            [&format!("127.0.0.1:{closed}"), "check that PostgreSQL is running"],
        ),
        (
            "somebody who says nothing",
            format!("postgres://maker:canary@{silent}/used?connect_timeout=1"),
            [&silent.to_string(), "seconds to answer: check that PostgreSQL"],
        ),
        (
            "a socket",
            "postgres:///used?user=maker&host=/nowhere".to_owned(),
            ["/nowhere/.s.PGSQL.5432", "the folder of its socket"],
        ),
        (
            "several",
            format!("postgres://maker:canary@127.0.0.1:{closed},localhost:{closed}/used"),
            [
                &format!("no usable server among 127.0.0.1:{closed}, localhost:{closed}"),
                "is running",
            ],
        ),
        (
            "a password",
            url("maker", "used").replace("canary", "wrong-canary"),
            ["28P01", "correct the user or the password"],
        ),
        (
            "no password",
            url("maker", "used").replace(":canary", ""),
            ["password missing", "postgres://user:password@host/database"],
        ),
        ("a user", url("nobody", "used"), ["\"nobody\"", "correct the user or the password"]),
        (
            "a user of a socket",
            primary.url("used").replace("user=postgres", "user=nobody"),
            ["role \"nobody\" does not exist", "create the role"],
        ),
        ("a database", url("maker", "none"), ["\"none\" does not exist", "CREATE DATABASE"]),
        (
            "no right to make the schema",
            url("guest", "fresh"),
            ["permission denied", "GRANT CREATE ON DATABASE \"fresh\" TO \"guest\""],
        ),
        (
            "another's schema",
            url("guest", "used"),
            ["permission denied", "ALTER SCHEMA punctual OWNER TO \"guest\""],
        ),
        (
            "TLS where there is none",
            url("maker", "used") + "?sslmode=require",
            ["does not support TLS", "ssl = on"],
        ),
        (
            "a replica",
            format!("postgres://maker:canary@{}/used", replica.address()),
            ["does not allow writes", "postgres://user@db-1,db-2/database"],
        ),
        (
            "a user who may only read",
            url("reader", "used"),
            ["does not allow writes", "name the server that accepts writes"],
        ),
        (
            "a setting that the server does not have",
            url("maker", "used") + "?options=-c%20colour%3Dred",
            ["\"colour\"", "PostgreSQL 13 or later is needed; options"],
        ),
        (
            "a wish to read",
            url("maker", "used") + "?target_session_attrs=read-only",
            ["target_session_attrs", "write read-write"],
        ),
        (
            "a parameter",
            url("maker", "used") + "?ssl_mode=require",
            ["ssl_mode", "did you mean sslmode?"],
        ),
    ] {
        let text = refused(&url).await;
        assert!(said.iter().all(|words| text.contains(words)), "{what}: {text}");
        assert!(!text.contains("canary"), "{what}: {text}");
    }
    // The other one takes writes, wherever it is in the list.
    for hosts in [[primary.address(), replica.address()], [replica.address(), primary.address()]] {
        let url = format!("postgres://maker:canary@{}/used", hosts.join(","));
        PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
    }
}

/// Stands between a client and a server as PgBouncer does with `ignore_startup_parameters =
/// options`: the server never gets the settings of the session. Returns its address.
fn forgetful(server: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            thread::spawn(move || between(client, server));
        }
    });
    address
}

fn between(mut client: TcpStream, mut server: TcpStream) -> io::Result<()> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut body)?;
    // The version, then names and values in turn, and an end.
    let texts: Vec<&[u8]> = body[4..].split(|byte| *byte == 0).collect();
    let mut kept = body[..4].to_vec();
    for pair in texts.chunks_exact(2).filter(|pair| !pair[0].is_empty() && pair[0] != b"options") {
        kept.extend(pair.iter().flat_map(|text| text.iter().copied().chain([0])));
    }
    kept.push(0);
    let length = u32::try_from(kept.len() + 4).unwrap();
    server.write_all(&[&length.to_be_bytes()[..], &kept].concat())?;
    let (mut from, mut to) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        to.shutdown(Shutdown::Both)
    });
    let _ = io::copy(&mut client, &mut server);
    server.shutdown(Shutdown::Both)
}

#[tokio::test]
async fn a_pooler_that_forgets_settings_is_refused() {
    let server = Setup::default().tcp().unwrap().start();
    let url =
        format!("postgres://postgres@{}/postgres?sslmode=disable", forgetful(server.address()));
    let text = refused(&url).await;
    assert!(text.contains("did not reach the database"), "{text}");
    assert!(text.contains("behind a pooler"), "{text}");
    // Nothing was made where it does not belong.
    let admin = connect(&server.url("postgres")).await;
    let made = "SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert!(admin.query(made, &[]).await.unwrap().is_empty());
}
