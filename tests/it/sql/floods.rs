//! Unauthenticated clients: they cost little, get no further, and do not lock out other clients.

use std::io::Write;
use std::net::TcpStream;

use super::Bed;
use super::raw::Raw;
use crate::serve::process::until;

#[test]
fn c4_first_packets_that_make_no_sense_are_refused() {
    let bed = Bed::new();
    let first = |bytes: &[u8]| {
        let mut raw = Raw::connect(&bed.address);
        raw.send_bytes(bytes);
        raw.all()
    };
    let packet = |code: i32, body: &[u8]| {
        let length = i32::try_from(8 + body.len()).unwrap();
        [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
    };
    const V3: i32 = 196_608;
    for (bytes, state) in [
        (vec![0; 8], "08P01"),
        (vec![0xff; 8], "08P01"),
        (0x7fff_ffff_i32.to_be_bytes().iter().chain(&V3.to_be_bytes()).copied().collect(), "08P01"),
        (packet(V3, b""), "08P01"),
        (packet(V3, b"user\0admin"), "08P01"),
        (packet(V3, b"user\0\xff\0\0"), "08P01"),
        (packet(V3, b"\0"), "28000"),
        (packet(V3, b"database\0x\0\0"), "28000"),
        (packet(2 << 16, b"user\0admin\0\0"), "0A000"),
        (packet(4 << 16, b"user\0admin\0\0"), "0A000"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "08P01"),
    ] {
        assert_eq!(first(&bytes), [state, "end"], "{bytes:?}");
    }
    assert_eq!(bed.ask("SHOW server_encoding"), "UTF8\n");
}

#[test]
fn c4_asking_for_tls_again_and_again_is_no_loop() {
    let bed = Bed::new();
    let mut raw = Raw::connect(&bed.address);
    // Length 8, the code of SSLRequest.
    let request = [&8_i32.to_be_bytes()[..], &80_877_103_i32.to_be_bytes()].concat();
    for _ in 0..50 {
        raw.send_bytes(&request);
    }
    use std::io::Read;
    let mut said = Vec::new();
    let _ = raw.stream.read_to_end(&mut said);
    // Two refusals of TLS, and then the end of it.
    assert!(said.starts_with(b"NNE"), "{said:?}");
}

#[test]
fn c4_who_does_not_log_in_is_sent_away_and_keeps_nobody_out() {
    let bed = Bed::with(
        &[],
        &[("PUNCTUAL_SQL__LOGIN_TIMEOUT", "2s"), ("PUNCTUAL_SQL__UNAUTHENTICATED_MAX", "4")],
    );
    // More than there are places, some of them silent, some of them in the middle of a word.
    let mut crowd: Vec<TcpStream> =
        (0..32).map(|_| TcpStream::connect(&bed.address).unwrap()).collect();
    for stream in crowd.iter_mut().step_by(2) {
        let _ = stream.write_all(&[0, 0]);
    }
    // On a busy machine psql itself may be too slow the first time.
    until(|| (bed.ask("SHOW server_encoding") == "UTF8\n").then_some(()));
    // The first connections have been evicted.
    crowd[0].set_read_timeout(Some(crate::serve::process::SOON)).unwrap();
    use std::io::Read;
    assert_eq!(crowd[0].read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn there_are_no_more_sessions_than_there_may_be() {
    let bed = Bed::with(
        &[],
        &[("PUNCTUAL_SQL__CONNECTIONS_MAX", "2"), ("PUNCTUAL_SQL__RESERVED_CONNECTIONS", "0")],
    );
    let login = || Raw::login(&bed.address, "admin", &bed.server.key, "default");
    let one = login().unwrap();
    let two = login().unwrap();
    assert_eq!(login().err().as_deref(), Some("53300"));
    drop(one);
    // The server notices the closed connection a moment later.
    let three = until(|| login().ok());
    drop((two, three));
}
