//! Effects of jobs, recorded by an endpoint outside of the cluster.
//!
//! ```text
//!   cluster ──▶ attempt ──HTTP──▶ ledger: run, fence, time that the run stands for
//! ```
//!
//! It does what [job-context.md](../../../docs/job-context.md) requires of an endpoint: it keeps
//! the largest fencing token of each run, and rejects calls with a smaller one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// Effect of one attempt.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The job.
    pub job: String,
    /// The time that its run stands for, in seconds.
    pub second: i64,
    /// Its run.
    pub run: String,
    /// Its number among the run's.
    pub attempt: i64,
    /// Its fence.
    pub fence: i64,
    /// When the call arrived.
    pub at: Timestamp,
}

#[derive(Default)]
struct Heard {
    effects: Vec<Effect>,
    /// The largest fence of each run.
    fences: BTreeMap<String, i64>,
    /// Those that came too late.
    stale: Vec<Effect>,
    /// Whether calls of the slow endpoint wait for their answer.
    held: bool,
}

/// The endpoint.
#[derive(Clone)]
pub struct Ledger {
    address: String,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

impl Ledger {
    /// Opens the endpoint; it answers as long as the test lasts.
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ledger = Ledger { address, heard: Arc::default() };
        let answering = ledger.clone();
        std::thread::spawn(move || {
            for call in listener.incoming().map_while(Result::ok) {
                let answering = answering.clone();
                std::thread::spawn(move || answering.answer(&call));
            }
        });
        ledger
    }

    /// Where jobs report what they did.
    pub fn endpoint(&self) -> String {
        format!("http://{}/effects", self.address)
    }

    /// The same for jobs whose answer waits while [`Ledger::hold`] lasts.
    pub fn slow_endpoint(&self) -> String {
        format!("http://{}/slow", self.address)
    }

    /// Holds the answers to calls of the slow endpoint, or releases them.
    pub fn hold(&self, held: bool) {
        self.lock().held = held;
        self.heard.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, mut call: &TcpStream) {
        let mut lines = BufReader::new(call).lines().map_while(Result::ok);
        let Some(first) = lines.next() else { return };
        let fields: BTreeMap<String, String> = lines
            .take_while(|line| !line.is_empty())
            .filter_map(|line| {
                let (name, value) = line.split_once(": ")?;
                Some((name.to_ascii_lowercase(), value.to_owned()))
            })
            .collect();
        let is_taken = self.write(&fields);
        if first.contains(" /slow ") {
            let mut heard = self.lock();
            while heard.held {
                let waited = self.heard.1.wait_timeout(heard, Duration::from_secs(1));
                heard = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let status = if is_taken { "204 No Content" } else { "409 Conflict" };
        let _ = write!(call, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n");
    }

    /// Records a call; answers `false` if the run has called with a larger fencing token.
    fn write(&self, fields: &BTreeMap<String, String>) -> bool {
        let text = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let scheduled: Timestamp = text("punctual-scheduled-for").parse().unwrap();
        let effect = Effect {
            job: text("punctual-job-name"),
            second: scheduled.as_second(),
            run: text("punctual-run"),
            attempt: text("punctual-attempt").parse().unwrap(),
            fence: text("punctual-fence").parse().unwrap(),
            at: now(),
        };
        let mut heard = self.lock();
        let largest = heard.fences.entry(effect.run.clone()).or_insert(effect.fence);
        let is_stale = effect.fence < *largest;
        *largest = effect.fence.max(*largest);
        if is_stale {
            heard.stale.push(effect);
        } else {
            heard.effects.push(effect);
        }
        !is_stale
    }

    /// Effects of a job, in the order of arrival.
    pub fn of(&self, job: &str) -> Vec<Effect> {
        self.lock().effects.iter().filter(|effect| effect.job == job).cloned().collect()
    }

    /// Everything that was done.
    pub fn all(&self) -> Vec<Effect> {
        self.lock().effects.clone()
    }

    /// The seconds without an effect, from the job's first to `last`.
    pub fn missing(&self, job: &str, last: i64) -> Vec<i64> {
        let there: BTreeSet<i64> = self.of(job).iter().map(|effect| effect.second).collect();
        let Some(first) = there.first() else { return vec![last] };
        (*first..=last).filter(|second| !there.contains(second)).collect()
    }

    /// The effects of each second. A second has one run, whose attempts did one thing each, one
    /// after the other, and none before its time.
    pub fn seconds(&self, job: &str) -> BTreeMap<i64, Vec<Effect>> {
        let mut seconds: BTreeMap<i64, Vec<Effect>> = BTreeMap::new();
        for effect in self.of(job) {
            assert!(effect.at.as_second() >= effect.second, "too early: {effect:?}");
            seconds.entry(effect.second).or_default().push(effect);
        }
        for effects in seconds.values() {
            let grows = |two: &[Effect]| {
                two[0].run == two[1].run
                    && two[0].attempt < two[1].attempt
                    && two[0].fence < two[1].fence
            };
            assert!(effects.windows(2).all(grows), "one run, growing fences: {effects:?}");
        }
        seconds
    }
}

/// The clock of the tests.
#[expect(clippy::disallowed_methods, reason = "when something was heard is a part of the proof")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
