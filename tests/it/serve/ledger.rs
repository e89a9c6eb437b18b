//! A thousand jobs and a server that is killed again and again while they run: afterwards every
//! time that an oracle counts is in the ledger, once, and nothing else is.
//!
//! The oracle shares no code with the server: intervals are sums, and croner reads the expressions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use croner::Cron;
use jiff::{SignedDuration, Timestamp, ToSpan, Unit};
use serde_json::{Value, json};

use super::process::{SOON, Server, until};
use crate::binary::punctual;

const JOBS: usize = 1_000;

/// How long the server is killed at least.
const LOOP: SignedDuration = SignedDuration::from_secs(25);

/// Expressions with the zone in which they are read.
const CRONS: [(&str, &str); 6] = [
    ("* * * * *", "UTC"),
    ("*/2 * * * *", "Asia/Kathmandu"),
    ("1-59/2 * * * *", "America/New_York"),
    ("0-58/3 * * * *", "Europe/Berlin"),
    ("* * * * MON-SUN", "Australia/Lord_Howe"),
    ("*/4,1,3 * * * *", "UTC"),
];

#[expect(clippy::disallowed_methods, reason = "the test happens now")]
fn now() -> Timestamp {
    Timestamp::now()
}

#[expect(clippy::disallowed_methods, reason = "a kill comes at any moment, whatever has happened")]
pub fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// The time from now to `end`, or none when it has passed.
fn left(end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now())).unwrap_or_default()
}

/// Numbers that a seed decides (splitmix64).
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end
    }
}

/// A job, and the times that the ledger must have for it.
struct Expected {
    spec: Value,
    ticks: Vec<Timestamp>,
}

/// The times of an expression from `from` to `end`, both included, as croner counts.
#[expect(clippy::disallowed_methods, reason = "an oracle looks zones up in its own way")]
fn cron_ticks(expression: &str, zone: &str, from: Timestamp, end: Timestamp) -> Vec<Timestamp> {
    let cron: Cron = expression.parse().unwrap();
    let mut at = from.in_tz(zone).unwrap();
    let mut ticks = Vec::new();
    let mut inclusive = true;
    loop {
        at = cron.find_next_occurrence(&at, inclusive).unwrap();
        inclusive = false;
        if at.timestamp() > end {
            return ticks;
        }
        ticks.push(at.timestamp());
    }
}

/// The jobs between `from`, when all of them have been made, and `end`.
fn jobs(chance: &mut Chance, endpoint: &str, from: Timestamp, end: Timestamp) -> Vec<Expected> {
    let length = end.duration_since(from).as_millis() as u64;
    let job = |n: usize| {
        let name = format!("job-{n:04}");
        let catch_up = ["ALL", "LAST", "NONE"][n % 3];
        let overlap = ["ALLOW", "QUEUE", "SKIP", "CANCEL_PREVIOUS"][n / 3 % 4];
        let mut spec = json!({
            "name": name, "payload": {"type": "NOOP"}, "max_catch_up": 1000,
            "catch_up": catch_up, "overlap": overlap,
        });
        let ticks = match n % 5 {
            0 => {
                let (expression, zone) = CRONS[chance.below(CRONS.len() as u64) as usize];
                spec["cron_expression"] = json!(expression);
                spec["timezone"] = json!(zone);
                cron_ticks(expression, zone, from, end)
            }
            1 => {
                let at = from + SignedDuration::from_millis(chance.below(length) as i64);
                spec["run_at"] = json!(at.to_string());
                vec![at]
            }
            _ => {
                let seconds = 2 + chance.below(8);
                let starts = from + SignedDuration::from_millis(chance.below(4_000) as i64);
                spec["interval_seconds"] = json!(seconds);
                spec["starts_at"] = json!(starts.to_string());
                spec["ends_at"] = json!(end.to_string());
                let step = SignedDuration::from_secs(seconds as i64);
                std::iter::successors(Some(starts), |at| Some(*at + step))
                    .take_while(|at| *at <= end)
                    .collect()
            }
        };
        // Some take long enough to be met by a kill.
        if n % 25 == 2 {
            spec["payload"] = json!({"endpoint": endpoint});
        }
        Expected { spec, ticks }
    };
    (0..JOBS).map(job).collect()
}

/// A slow endpoint that reports every call.
fn slow_endpoint() -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    let (send, calls) = channel();
    std::thread::spawn(move || {
        for mut call in listener.incoming().map_while(Result::ok) {
            if send.send(()).is_err() {
                break;
            }
            std::thread::spawn(move || {
                pass(Duration::from_millis(200));
                let _ = call.read(&mut [0; 4096]);
                let _ = call.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
            });
        }
    });
    (endpoint, calls)
}

/// A row of the ledger: one range of times.
#[derive(Debug)]
struct Row {
    status: String,
    first: Timestamp,
    last: Timestamp,
    count: usize,
    lost: u64,
}

/// The rows of every job, read page by page.
fn ledger(server: &Server, from: Timestamp, end: Timestamp) -> BTreeMap<String, Vec<Row>> {
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let path = format!("/v1/executions?limit=500&since={from}&until={}", end + 1.millisecond());
    let mut page_path = path.clone();
    loop {
        let (status, page) = server.call("GET", &page_path, None);
        assert_eq!(status, 200, "{page}");
        for run in page["data"].as_array().unwrap() {
            let time = |field: &str| run[field].as_str().map(|at| at.parse().unwrap());
            let first = time("scheduled_time").unwrap();
            rows.entry(run["job_name"].as_str().unwrap().to_owned()).or_default().push(Row {
                status: run["status"].as_str().unwrap().to_owned(),
                first,
                last: time("scheduled_until").unwrap_or(first),
                count: run["occurrences"].as_u64().unwrap_or(1) as usize,
                lost: run["lost_attempts"].as_u64().unwrap_or(0),
            });
        }
        match page["next_cursor"].as_str() {
            Some(cursor) => page_path = format!("{path}&cursor={cursor}"),
            None => return rows,
        }
    }
}

/// How the rows of a job differ from its times; empty when they do not.
fn difference(name: &str, ticks: &[Timestamp], rows: &[Row]) -> String {
    let mut text = String::new();
    let mut outcomes = vec![0; ticks.len()];
    for row in rows {
        let first = ticks.partition_point(|tick| *tick < row.first);
        let after = ticks.partition_point(|tick| *tick <= row.last);
        let starts_at_a_tick = ticks.get(first) == Some(&row.first);
        if !starts_at_a_tick || after - first != row.count {
            let _ = writeln!(text, "{name}: no such times: {row:?}");
        }
        outcomes[first..after].iter_mut().for_each(|outcomes| *outcomes += 1);
        if ["PENDING", "QUEUED", "RUNNING"].contains(&row.status.as_str()) {
            let _ = writeln!(text, "{name}: has not ended: {row:?}");
        }
    }
    for (tick, outcomes) in ticks.iter().zip(outcomes).filter(|(_, outcomes)| *outcomes != 1) {
        let _ = writeln!(text, "{name}: {tick} has {outcomes} outcomes");
    }
    text
}

const VARIABLES: [(&str, &str); 5] = [
    ("PUNCTUAL_ENGINE__LEASE", "3s"),
    ("PUNCTUAL_ENGINE__RENEW_EVERY", "500ms"),
    // Short, so that planning is met by kills as well.
    ("PUNCTUAL_ENGINE__LOOK_AHEAD", "2s"),
    ("PUNCTUAL_ENGINE__MAX_CONCURRENT_JOBS", "200"),
    ("PUNCTUAL_JOBS__HTTP_ALLOW_PRIVATE", "127.0.0.1"),
];

/// Kills the server until `end`: at any moment, while a job calls, and while it starts.
struct Killer<'a> {
    data: &'a Path,
    calls: Receiver<()>,
    chance: &'a mut Chance,
    /// When it was killed, and how it was chosen.
    kills: Vec<(Timestamp, &'static str)>,
}

impl Killer<'_> {
    fn kill_until(&mut self, mut server: Server, end: Timestamp) -> Server {
        while now() < end {
            let (uptime, name) = (self.chance.below(2_500), self.kills.len());
            let how = ["at any moment", "during a call", "during a start"][name % 3];
            pass(Duration::from_millis(uptime));
            // An acknowledged job must exist after the kill.
            let name = format!("made-before-kill-{name}");
            let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
            assert_eq!(server.call("POST", "/v1/jobs", Some(&job)).0, 201);
            // Last, so that nothing comes between the call and the kill.
            if how == "during a call" {
                while self.calls.try_recv().is_ok() {}
                // After `end` no job has a time left, so the kill comes without a call.
                let call = self.calls.recv_timeout(SOON.min(left(end)));
                assert!(call.is_ok() || now() >= end, "no job calls although {end} is to come");
            }
            server.kill();
            self.kills.push((now(), how));
            if how == "during a start" {
                self.start_and_kill();
            }
            server = Server::start_with(self.data, &[], &VARIABLES);
            assert_eq!(server.call("GET", &format!("/v1/jobs/{name}"), None).0, 200);
        }
        server
    }

    /// A server that does not live to say that it is ready, or not for long.
    fn start_and_kill(&mut self) {
        let args = ["serve", "--http", "127.0.0.1:0", "--data", self.data.to_str().unwrap()];
        let mut command = punctual(args);
        command.current_dir(self.data.parent().unwrap()).envs(VARIABLES);
        let mut child = command.spawn().unwrap();
        pass(Duration::from_millis(self.chance.below(400)));
        child.kill().unwrap();
        child.wait().unwrap();
        self.kills.push((now(), "a start"));
    }
}

/// A server with all the jobs, made before the first of their times.
struct Scene {
    folder: tempfile::TempDir,
    server: Server,
    expected: Vec<Expected>,
    from: Timestamp,
    end: Timestamp,
}

impl Scene {
    /// Makes the jobs for times from so many seconds on; a full minute passes among them. None if
    /// this machine is too busy to make them in time.
    fn set(chance: &mut Chance, endpoint: &str, lead: i64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start_with(&folder.path().join("data"), &[], &VARIABLES);
        let from = now().round(Unit::Second).unwrap() + SignedDuration::from_secs(lead);
        let minute = from.as_second().div_euclid(60) * 60 + 60;
        let end = (from + LOOP).max(Timestamp::from_second(minute + 2).unwrap());
        let expected = jobs(chance, endpoint, from, end);
        let specs: Vec<&Value> = expected.iter().map(|job| &job.spec).collect();
        let (status, made) = server.call("POST", "/v1/jobs:bulk", Some(&json!(specs)));
        assert_eq!((status, made["created"].as_u64()), (200, Some(JOBS as u64)), "{made}");
        (now() < from).then_some(Scene { folder, server, expected, from, end })
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_doubled_when_the_server_is_killed() {
    let test =
        testbed::this_test!("nothing_is_lost_and_nothing_is_doubled_when_the_server_is_killed");
    for seed in test.seeds(&[], 1) {
        kill_again_and_again(seed.value);
    }
}

fn kill_again_and_again(seed: u64) {
    let mut chance = Chance(seed);
    let (endpoint, calls) = slow_endpoint();
    let scene = [5, 20, 60].iter().find_map(|lead| Scene::set(&mut chance, &endpoint, *lead));
    let Scene { folder, server, expected, from, end } = scene.expect("1,000 jobs in a minute");
    let data = folder.path().join("data");

    let mut killer = Killer { data: &data, calls, chance: &mut chance, kills: Vec::new() };
    let server = killer.kill_until(server, end);
    let differences = |server: &Server| {
        let rows = ledger(server, from, end);
        let none = Vec::new();
        let mut text = String::new();
        for Expected { spec, ticks } in &expected {
            let name = spec["name"].as_str().unwrap();
            text += &difference(name, ticks, rows.get(name).unwrap_or(&none));
        }
        (text, rows)
    };
    // Runs of the last server that was killed are claimed again when its lease has expired.
    let mut seen = differences(&server);
    let patience = now() + SignedDuration::from_secs(60);
    while !seen.0.is_empty() && now() < patience {
        pass(Duration::from_millis(500));
        seen = differences(&server);
    }
    let (difference, rows) = seen;
    let lines: Vec<&str> = difference.lines().collect();
    assert!(
        lines.is_empty(),
        "from {from} to {end}, killed at {:#?}\n{} differences:\n{}",
        killer.kills,
        lines.len(),
        lines[..lines.len().min(50)].join("\n"),
    );
    let rows: Vec<&Row> = rows.values().flatten().collect();
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    assert!(lost > 0, "no kill met a run, killed at {:#?}", killer.kills);
    let completed = rows.iter().filter(|row| row.status == "COMPLETED").count();
    assert!(completed > rows.len() / 2, "{completed} of {} completed", rows.len());
    until(|| (server.call("GET", "/readyz", None).0 == 200).then_some(()));
    server.terminate();
    assert_eq!(server.wait(), Some(0));
}
