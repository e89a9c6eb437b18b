//! Invalid messages (RELIABILITY.md C4): each gets a clean error or the end, and the server lives
//! on in little memory.

use postgres_protocol::message::frontend;

use super::Bed;
use super::raw::Raw;

/// Memory of the server, in bytes.
fn memory(bed: &Bed) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", bed.server.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn admin(bed: &Bed) -> Raw {
    Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap()
}

/// The server still serves other clients.
fn lives(bed: &Bed) {
    assert_eq!(admin(bed).query("SHOW server_encoding"), ["SHOW", "ready"]);
}

#[test]
fn c4_lengths_that_cannot_be_end_the_session() {
    let bed = Bed::new();
    for length in [0_i32, 1, 3, -1, i32::MIN, i32::MAX, 1 << 30] {
        let mut raw = admin(&bed);
        let head = [&b"Q"[..], &length.to_be_bytes()].concat();
        raw.send_bytes(&head);
        assert_eq!(raw.all(), ["08P01", "end"], "{length}");
    }
    for kind in [b'F', b'Z', b'\0', b'R', 0xff] {
        let mut raw = admin(&bed);
        raw.send_bytes(&[kind, 0, 0, 0, 4]);
        assert_eq!(raw.all(), ["08P01", "end"], "{kind}");
    }
    lives(&bed);
}

#[test]
fn c4_messages_cut_off_inside_are_told_and_the_session_goes_on() {
    let bed = Bed::new();
    let mut raw = admin(&bed);
    let bodies: &[(u8, &[u8])] = &[
        (b'P', b"\0SELECT 1"),
        (b'P', b"\0SELECT 1\0\xff\xff"),
        (b'B', b"\0\0\x00\x00\xff\xff"),
        (b'B', b"\0\0\x00\x00\x00\x01\x7f\xff\xff\xff"),
        (b'D', b"S"),
        (b'E', b"\0\0"),
        (b'C', b""),
    ];
    for (kind, body) in bodies {
        let length = i32::try_from(body.len() + 4).unwrap().to_be_bytes();
        raw.send_bytes(&[&[*kind], &length[..], body].concat());
        raw.send(frontend::sync);
        assert_eq!(raw.all(), ["08P01", "ready"], "{} {body:?}", char::from(*kind));
    }
    // No letters are made of what are none.
    raw.send_bytes(b"Q\0\0\0\x0bSHOW \xff\0");
    assert_eq!(raw.all(), ["22021", "ready"]);
    raw.send_bytes(b"Q\0\0\0\x04");
    assert_eq!(raw.all(), ["08P01", "ready"]);
    assert_eq!(raw.query("SHOW server_encoding"), ["SHOW", "ready"]);
}

#[test]
fn c4_the_extended_protocol_out_of_order_is_told() {
    let bed = Bed::new();
    let mut raw = admin(&bed);
    let none: Vec<String> = Vec::new();
    // Without what must come before.
    raw.send(|out| frontend::execute("", 0, out).unwrap());
    raw.send(|out| frontend::query("SHOW JOBS", out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["34000", "ready"], "what follows an error is not looked at");
    raw.send(|out| frontend::describe(b'S', "nothing", out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["26000", "ready"]);
    raw.send(|out| frontend::describe(b'X', "", out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["08P01", "ready"]);
    // Closing an unknown statement is no error.
    raw.send(|out| frontend::close(b'S', "nothing", out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["ready"]);
    // Two statements are not one.
    raw.send(|out| frontend::parse("", "SHOW JOBS; SHOW JOBS", none_of(&none), out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["42601", "ready"]);
    // A copy that was never begun.
    raw.send(frontend::copy_done);
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["ready"]);
    // A password after the login.
    raw.send(|out| frontend::password_message(b"x", out).unwrap());
    assert_eq!(raw.all(), ["08P01", "end"]);
    lives(&bed);
}

fn none_of(_: &[String]) -> Vec<u32> {
    Vec::new()
}

#[test]
fn c4_what_is_prepared_and_never_closed_is_bounded() {
    let bed = Bed::new();
    let mut raw = admin(&bed);
    let before = memory(&bed);
    let text = format!("SHOW /* {} */ JOBS", "x".repeat(10_000));
    let mut refused = 0;
    for number in 0..20_000 {
        let name = format!("s{number}");
        raw.send(|out| frontend::parse(&name, &text, Vec::new(), out).unwrap());
        // The answers are read now and then, or both sides would wait for each other.
        if number % 100 == 99 {
            raw.send(frontend::sync);
            let answers = raw.all();
            assert_eq!(answers.last().map(String::as_str), Some("ready"));
            refused += answers.iter().filter(|answer| *answer == "54000").count();
        }
    }
    assert!(refused > 100, "{refused}");
    let grown = memory(&bed).saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes more");
    assert_eq!(raw.query("DISCARD ALL"), ["DISCARD ALL", "ready"]);
    raw.send(|out| frontend::parse("again", "SHOW JOBS", Vec::new(), out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["ready"]);
}

#[test]
fn c4_names_and_texts_that_are_too_long_are_refused() {
    let bed = Bed::with(&[], &[("PUNCTUAL_SQL__MESSAGE_BYTES_MAX", "100000")]);
    let mut raw = admin(&bed);
    let long = "x".repeat(90_000);
    assert_eq!(raw.query(&format!("SHOW CREATE JOB \"{long}\"")).last().unwrap(), "ready");
    let name = "n".repeat(20_000);
    raw.send(|out| frontend::describe(b'S', &name, out).unwrap());
    raw.send(frontend::sync);
    assert_eq!(raw.all(), ["08P01", "ready"]);
    // A longer message than is allowed is not read at all.
    raw.send(|out| frontend::query(&"x".repeat(100_000), out).unwrap());
    assert_eq!(raw.all(), ["08P01", "end"]);
    lives(&bed);
}

#[test]
fn c6_only_the_right_secret_cancels() {
    let bed = Bed::new();
    let mut raw = admin(&bed);
    let (process, secret) = raw.key;
    raw.send(|out| frontend::query(SLOW, out).unwrap());
    let cancel = |process: i32, secret: i32| {
        let mut other = Raw::connect(&bed.address);
        other.send(|out| frontend::cancel_request(process, secret, out));
        // Every one of them gets the same answer: none.
        assert_eq!(other.all(), ["end"]);
    };
    for wrong in [secret ^ 1, 0, -1, i32::MIN] {
        cancel(process, wrong);
    }
    cancel(process ^ 1, secret);
    raw.stream.set_nonblocking(true).unwrap();
    let mut byte = [0];
    let is_busy = raw.stream.peek(&mut byte).is_err();
    raw.stream.set_nonblocking(false).unwrap();
    assert!(is_busy, "the statement has ended");
    // The right one ends it, once it has begun.
    let ended = std::thread::spawn(move || (raw.all(), raw));
    let (ended, mut raw) = loop {
        cancel(process, secret);
        if ended.is_finished() {
            break ended.join().unwrap();
        }
    };
    assert_eq!(ended, ["57014", "ready"]);
    assert_eq!(raw.query("SHOW server_encoding"), ["SHOW", "ready"]);
}

/// A question that takes longer than any test.
const SLOW: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) \
                    SELECT count(*) FROM n";
