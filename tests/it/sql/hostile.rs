//! Users without privileges who ask for as much as they can: what they cost, and that other
//! users do not notice.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use postgres_protocol::message::frontend;
use serde_json::json;

use super::Bed;
use super::raw::Raw;
use crate::serve::process::{SOON, until};

/// Compares everything with everything, and never ends by itself.
const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, \
                       generate_series(1, 1000000) b, generate_series(1, 1000000) c";

/// As many rows as an answer may have, of a kilobyte each.
const LONG: &str = "SELECT n, repeat('x', 1000) FROM generate_series(1, 99999) AS t(n)";

/// Sorts more than a statement may hold, in rows that the allocator takes from its arenas.
const WIDE: &str =
    "SELECT repeat('x', 100000) || n AS x FROM generate_series(1, 10000) AS t(n) ORDER BY 1";

/// A user of a tenant who may do nothing.
fn unprivileged(bed: &Bed, tenant: &str, user: &str) {
    let said = bed.server.call("POST", "/v1/tenants", Some(&json!({ "name": tenant })));
    assert!(matches!(said.0, 201 | 409), "{said:?}");
    let sql = format!("CREATE USER \"{user}\" PASSWORD 'a password of {user}'");
    let said = bed.psql("admin", &bed.server.key, tenant, &["-c", &sql]);
    assert!(said.contains("CREATE ROLE"), "{said}");
}

fn login(bed: &Bed, tenant: &str, user: &str) -> Result<Raw, String> {
    Raw::login(&bed.address, user, &format!("a password of {user}"), tenant)
}

#[expect(clippy::disallowed_methods, reason = "how long another process takes")]
fn now() -> Instant {
    Instant::now()
}

/// Begins a statement and does not read the answer.
fn begin(raw: &mut Raw, text: &str) {
    raw.send(|out| frontend::query(text, out).unwrap());
}

fn proc(bed: &Bed, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", bed.server.child.id()))
}

/// The memory of the server in megabytes.
fn rss_mb(bed: &Bed) -> u64 {
    memory_mb(bed, "VmRSS:")
}

fn memory_mb(bed: &Bed, kind: &str) -> u64 {
    let status = std::fs::read_to_string(proc(bed, "status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// The names of the server's threads, and how much lower their priority is.
fn threads(bed: &Bed) -> Vec<(String, i64)> {
    let tasks = std::fs::read_dir(proc(bed, "task")).unwrap();
    let stats =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let read = |stat: String| {
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        // The nice value is the 19th field, and these begin with the third.
        Some((name.to_owned(), rest.split_whitespace().nth(16)?.parse().ok()?))
    };
    stats.filter_map(read).collect()
}

#[test]
fn endless_questions_keep_neither_the_scheduler_nor_an_administrator_waiting() {
    let bed = Bed::with(&[], &[("PUNCTUAL_SQL__STATEMENT_TIMEOUT", "10m")]);
    unprivileged(&bed, "acme", "eve");
    unprivileged(&bed, "other", "ann");
    let job = json!({ "name": "beat", "job_type": "MANUAL", "payload": { "type": "NOOP" } });
    let said = bed.server.call("POST", "/v1/jobs", Some(&job));
    assert_eq!(said.0, 201, "{said:?}");
    let mut flood: Vec<Raw> = (0..40).map(|_| login(&bed, "acme", "eve").unwrap()).collect();
    flood.iter_mut().for_each(|raw| begin(raw, ENDLESS));
    // They have threads below all others, and scheduling has threads of its own.
    let found = until(|| {
        let found = threads(&bed);
        // A thread that has just been made has not lowered its priority yet.
        let mut queries = found.iter().filter(|(name, _)| name == "query");
        let is_settled = queries.clone().count() >= 20 && queries.all(|(_, nice)| *nice == 15);
        is_settled.then_some(found)
    });
    for (name, nice) in [("scheduler", 0), ("listener", 5), ("reader", 10), ("query", 15)] {
        let values: Vec<i64> = found.iter().filter(|it| it.0 == name).map(|it| it.1).collect();
        assert!(!values.is_empty() && values.iter().all(|it| *it == nice), "{name}: {values:?}");
    }
    assert_eq!(bed.ask("SELECT count(*) FROM sys.jobs"), "1\n");
    let mut other = login(&bed, "other", "ann").unwrap();
    assert_eq!(other.query("SELECT 1"), ["SELECT 1", "ready"]);
    for _ in 0..20 {
        let (status, run) = bed.server.call("POST", "/v1/jobs/beat/trigger", Some(&json!({})));
        assert!(matches!(status, 200..=202), "{run}");
    }
    let done = "SELECT count(*) FROM sys.job_runs WHERE state = 'COMPLETED'";
    until(|| (bed.ask(done) == "20\n").then_some(()));
    assert_eq!(bed.server.call("GET", "/readyz", None).0, 200);
    // More than a tenant may have at the same time are refused, and say which setting it was.
    let mut more: Vec<Raw> = (0..24).map(|_| login(&bed, "acme", "eve").unwrap()).collect();
    more.iter_mut().for_each(|raw| begin(raw, ENDLESS));
    unprivileged(&bed, "acme", "eva");
    let mut last = login(&bed, "acme", "eva").unwrap();
    until(|| last.query("SELECT 1").contains(&"53400".to_owned()).then_some(()));
}

#[test]
fn answers_that_are_not_read_take_no_memory() {
    let bed = Bed::new();
    unprivileged(&bed, "acme", "eve");
    let before = rss_mb(&bed);
    let mut unread: Vec<Raw> = (0..20).map(|_| login(&bed, "acme", "eve").unwrap()).collect();
    unread.iter_mut().for_each(|raw| begin(raw, LONG));
    // Each of them has got something, so each waits for its reader now.
    for raw in &mut unread {
        raw.stream.set_read_timeout(Some(SOON)).unwrap();
        assert!(raw.stream.peek(&mut [0]).unwrap() > 0);
    }
    let after = rss_mb(&bed);
    assert!(after < before + 200, "{before} MB before, {after} MB after");
    // One that is read after all gets every row.
    assert_eq!(unread[0].all(), ["SELECT 99999", "ready"]);
    assert!(rss_mb(&bed) < before + 200);
}

/// By default, without a variable that limits the C library's allocator.
#[test]
fn two_hundred_hostile_sessions_take_less_than_a_gigabyte() {
    let bed = Bed::new();
    let tenants = ["t0", "t1", "t2", "t3"];
    tenants.iter().for_each(|tenant| unprivileged(&bed, tenant, tenant));
    let mut sessions = Vec::new();
    for n in 0..200 {
        let tenant = tenants[n % 4];
        let mut raw = login(&bed, tenant, tenant).unwrap();
        begin(&mut raw, [ENDLESS, LONG, WIDE, WIDE][n / 4 % 4]);
        sessions.push(raw);
    }
    // Statements that exceed one of the three limits get an error, and are sent again.
    for round in 0..4 {
        for (n, raw) in sessions.iter_mut().enumerate().filter(|(n, _)| n / 4 % 4 >= 2) {
            assert_eq!(raw.all(), ["53200", "ready"], "session {n}, round {round}");
            begin(raw, WIDE);
        }
    }
    let peak = memory_mb(&bed, "VmHWM:");
    assert!(peak < 1_000, "{peak} MB");
    assert_eq!(bed.ask("SELECT 1"), "1\n");
    assert_eq!(bed.server.call("GET", "/readyz", None).0, 200);
}

#[test]
fn a_client_that_does_not_read_loses_its_statement() {
    let bed = Bed::with(
        &[],
        &[("PUNCTUAL_SQL__READ_TIMEOUT", "1s"), ("PUNCTUAL_SQL__TENANT_STATEMENTS_MAX", "1")],
    );
    unprivileged(&bed, "acme", "eve");
    let mut unread = login(&bed, "acme", "eve").unwrap();
    begin(&mut unread, LONG);
    assert!(unread.stream.peek(&mut [0]).unwrap() > 0);
    let mut other = login(&bed, "acme", "eve").unwrap();
    // The refusal takes a while: a client that tries again at once costs little.
    let began = now();
    assert_eq!(other.query("SELECT 1"), ["53400", "ready"]);
    assert!(now() - began >= Duration::from_millis(200));
    until(|| (other.query("SELECT 1") == ["SELECT 1", "ready"]).then_some(()));
    assert_eq!(unread.all(), ["57014", "ready"]);
    assert_eq!(unread.query("SELECT 1"), ["SELECT 1", "ready"]);
}

#[test]
fn a_user_and_a_tenant_have_so_many_sessions_and_administrators_a_reserve() {
    let bed = Bed::with(
        &[],
        &[
            ("PUNCTUAL_SQL__CONNECTIONS_MAX", "6"),
            ("PUNCTUAL_SQL__RESERVED_CONNECTIONS", "2"),
            ("PUNCTUAL_SQL__SESSIONS_PER_USER", "2"),
            ("PUNCTUAL_SQL__SESSIONS_PER_TENANT", "3"),
        ],
    );
    for (tenant, user) in [("acme", "eve"), ("acme", "eva"), ("other", "ann")] {
        unprivileged(&bed, tenant, user);
    }
    let mut held = Vec::new();
    for (tenant, user, refused) in [
        ("acme", "eve", None),
        ("acme", "eve", None),
        ("acme", "eve", Some("53300")),
        ("acme", "eva", None),
        ("acme", "eva", Some("53300")),
        ("other", "ann", None),
        ("other", "ann", Some("53300")),
    ] {
        // The sessions of psql end a moment after it has.
        let login = || login(&bed, tenant, user);
        match refused {
            None => held.push(until(|| login().ok())),
            Some(state) => assert_eq!(login().err().as_deref(), Some(state), "{tenant} {user}"),
        }
    }
    assert_eq!(bed.ask("SELECT 1"), "1\n");
    let said = bed.psql("eve", "a password of eve", "acme", &["-c", "SELECT 1"]);
    assert!(said.contains("too many sessions of this user (sql.sessions_per_user = 2)"), "{said}");
}

#[test]
fn half_open_logins_of_one_address_make_way() {
    let bed = Bed::with(
        &[],
        &[
            ("PUNCTUAL_SQL__LOGIN_TIMEOUT", "10m"),
            ("PUNCTUAL_SQL__UNAUTHENTICATED_MAX", "8"),
            ("PUNCTUAL_SQL__UNAUTHENTICATED_PER_ADDRESS", "4"),
        ],
    );
    let mut crowd: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(&bed.address).unwrap()).collect();
    for stream in &mut crowd {
        let _ = stream.write_all(&[0, 0]);
    }
    // Long before the timeout of unauthenticated connections.
    until(|| (bed.ask("SHOW server_encoding") == "UTF8\n").then_some(()));
}

#[test]
fn half_sent_heads_of_one_address_make_way() {
    let bed = Bed::with(
        &[],
        &[
            ("PUNCTUAL_API__HEAD_TIMEOUT", "10m"),
            ("PUNCTUAL_API__CONNECTIONS_MAX", "16"),
            ("PUNCTUAL_API__UNAUTHENTICATED_PER_ADDRESS", "8"),
        ],
    );
    let mut crowd: Vec<TcpStream> =
        (0..64).map(|_| TcpStream::connect(&bed.server.address).unwrap()).collect();
    for stream in &mut crowd {
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ");
    }
    let healthz = || {
        let key = &bed.server.key;
        crate::serve::client::request(&bed.server.address, key, "GET", "/healthz", None).ok()
    };
    until(|| healthz().filter(|(status, _)| *status == 200));
}
