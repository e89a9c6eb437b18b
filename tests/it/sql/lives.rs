//! Events in the life of a session: the end of its server, a kill, and notifications.

use super::Bed;
use super::raw::Raw;
use crate::serve::process::{Server, until};

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let bed = Bed::new();
    let mut raw = Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap();
    let Bed { server, address: _, folder } = bed;
    // Jobs are made as fast as they are answered, until the process is killed from outside.
    let makes = std::thread::spawn(move || {
        let mut answered = 0;
        for number in 0.. {
            let sql = format!("CREATE JOB job{number} SCHEDULE CRON '0 0 1 1 *' AS NOOP");
            match raw.query(&sql).first().map(String::as_str) {
                Some("CREATE JOB") => answered = number + 1,
                _ => break,
            }
        }
        answered
    });
    // Some have been answered, and one is under way.
    until(|| {
        let (_, page) = server.call("GET", "/v1/jobs?limit=20", None);
        let jobs = page["items"].as_array().or(page["data"].as_array()).map_or(0, Vec::len);
        (jobs >= 20).then_some(())
    });
    server.kill();
    let answered = makes.join().unwrap();
    assert!(answered >= 20, "{answered}");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--pg", "127.0.0.1:0"]);
    let address = std::fs::read_to_string(data.join("server.sql")).unwrap();
    let mut raw = Raw::login(address.trim(), "admin", &server.key, "default").unwrap();
    for number in 0..answered {
        let sql = format!("SHOW CREATE JOB job{number}");
        assert_eq!(raw.query(&sql), ["SHOW", "ready"], "{number} of {answered}");
    }
}

#[test]
fn a_server_that_stops_says_so() {
    let bed = Bed::new();
    let mut raw = Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap();
    bed.server.terminate();
    assert_eq!(raw.all(), ["57P01", "end"]);
    let Bed { server, .. } = bed;
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn listen_tells_of_runs_that_end() {
    let bed = Bed::new();
    bed.tenant("acme", "ann", "correct horse");
    let made = bed.ask("CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP");
    assert!(made.contains("CREATE JOB"), "{made}");
    let mut ann = Raw::login(&bed.address, "ann", "correct horse", "acme").unwrap();
    let mut admin = Raw::login(&bed.address, "admin", &bed.server.key, "default").unwrap();
    assert_eq!(ann.query("LISTEN punctual_runs"), ["LISTEN", "ready"]);
    assert_eq!(admin.query("LISTEN punctual_runs"), ["LISTEN", "ready"]);
    assert!(bed.ask("EXECUTE JOB hello").contains("hello"));
    let told = loop {
        use postgres_protocol::message::backend::Message;
        match admin.message().expect("it is told") {
            Message::NotificationResponse(body) => {
                assert_eq!(body.channel().unwrap(), "punctual_runs");
                break body.message().unwrap().to_owned();
            }
            _ => continue,
        }
    };
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["status"], "COMPLETED", "{told}");
    // The notification goes to no other session.
    let seen = ann.query("SHOW server_encoding");
    assert_eq!(seen, ["SHOW", "ready"]);
    ann.stream.set_nonblocking(true).unwrap();
    assert!(ann.stream.peek(&mut [0]).is_err(), "ann was told something");
}
