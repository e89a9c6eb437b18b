//! The endpoint that all jobs of a campaign call: its own ledger of side effects.
//!
//! ```text
//!   server ──▶ attempt ──HTTP──▶ endpoint: job, run, attempt, fencing token, version, times
//! ```
//!
//! It shares no code and no clock reading with the server, and it does what docs/job-context.md
//! requires of an endpoint: it keeps the largest fencing token of each run and refuses a smaller
//! one.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::serve::ledger::pass;

/// One request of an attempt.
#[derive(Clone, Debug)]
pub struct Call {
    pub job: String,
    pub run: String,
    /// The time that the run stands for.
    pub tick: Timestamp,
    pub attempt: u64,
    pub fence: i64,
    /// The version in the body, which an edit of the job raises.
    pub version: u64,
    pub arrived: Timestamp,
    /// When the answer was sent, or when the server gave up a call that gets none.
    pub ended: Option<Timestamp>,
    /// Whether a larger fencing token of the same run was seen before.
    pub is_refused: bool,
}

#[derive(Default)]
struct Recorded {
    calls: Vec<Call>,
    /// The largest fencing token of each run.
    fences: BTreeMap<String, i64>,
}

#[derive(Clone)]
pub struct Endpoint {
    address: String,
    recorded: Arc<Mutex<Recorded>>,
}

impl Endpoint {
    /// Listens for as long as the test process lives.
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endpoint = Endpoint { address, recorded: Arc::default() };
        let answering = endpoint.clone();
        std::thread::spawn(move || {
            for call in listener.incoming().map_while(Result::ok) {
                let answering = answering.clone();
                std::thread::spawn(move || answering.answer(&call));
            }
        });
        endpoint
    }

    /// The URL that answers after so many milliseconds; without a number it never answers.
    pub fn url(&self, answer_ms: Option<u64>) -> String {
        match answer_ms {
            Some(ms) => format!("http://{}/answer/{ms}", self.address),
            None => format!("http://{}/never", self.address),
        }
    }

    /// Every call until now, in the order of arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Whether a job was called for a time that is not before `since`.
    pub fn was_called_since(&self, job: &str, since: Timestamp) -> bool {
        self.lock().calls.iter().rev().any(|call| call.job == job && call.tick >= since)
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let Some(request) = read_request(&mut reader) else { return };
        let (index, is_refused) = self.record(&request);
        match request.path.strip_prefix("/answer/").and_then(|ms| ms.parse().ok()) {
            Some(ms) => pass(Duration::from_millis(ms)),
            // Until the server closes the connection.
            None => {
                let _ = reader.read(&mut [0]);
            }
        }
        self.lock().calls[index].ended = Some(now());
        let status = if is_refused { "409 Conflict" } else { "204 No Content" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
    }

    /// Records a call; answers its index and whether its fencing token is too small.
    fn record(&self, request: &Request) -> (usize, bool) {
        let text = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
        let (run, fence) = (text("punctual-run"), text("punctual-fence").parse().unwrap());
        let mut recorded = self.lock();
        let largest = recorded.fences.entry(run.clone()).or_insert(fence);
        let is_refused = fence < *largest;
        *largest = fence.max(*largest);
        recorded.calls.push(Call {
            job: text("punctual-job-name"),
            run,
            tick: text("punctual-scheduled-for").parse().unwrap(),
            attempt: text("punctual-attempt").parse().unwrap(),
            fence,
            version: request.body["version"].as_u64().unwrap_or(0),
            arrived: now(),
            ended: None,
            is_refused,
        });
        (recorded.calls.len() - 1, is_refused)
    }
}

struct Request {
    path: String,
    headers: BTreeMap<String, String>,
    body: Value,
}

/// Reads a request; none if the connection ended before its end.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        })
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Request { path, headers, body })
}

#[expect(clippy::disallowed_methods, reason = "when a call arrived is a part of the proof")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
