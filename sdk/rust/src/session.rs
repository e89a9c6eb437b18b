//! The session of a worker: two threads poll, so that results do not wait for an open poll.

use std::collections::hash_map::{HashMap, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{json, Value};

use crate::client::{Client, Error, Lease};
use crate::worker::{Handlers, Message, Outcome, Stop, Worker};

/// How long a thread sleeps at most before it looks again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// State that the threads of a session share.
pub(crate) struct Session {
    name: String,
    client: Client,
    queues: Vec<String>,
    handlers: Handlers,
    concurrency: usize,
    lease: Option<Duration>,
    wait: Duration,
    stop: Stop,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    seq: u64,
    open: usize,
    reports: Vec<(Arc<Message>, Outcome)>,
    held: HashMap<String, Arc<Message>>,
    has_news: bool,
    soon_at: Option<Instant>,
    is_quiet: bool,
    is_ended: bool,
}

fn key(message: &Message) -> Value {
    json!({"id": message.id, "fence": message.fence, "queue": message.queue})
}

/// A name that no other worker has.
fn new_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The hasher of the standard library is seeded with random keys.
    let random = std::hash::BuildHasher::hash_one(&RandomState::new(), since);
    format!("rust-{}-{:x}-{random:x}", std::process::id(), since.as_nanos())
}

impl Session {
    pub fn run(worker: &Worker, stop: &Stop) {
        let session = Arc::new(Session {
            name: new_name(),
            client: worker.client.clone(),
            queues: worker.queues.clone(),
            handlers: worker.handlers.clone(),
            concurrency: worker.concurrency,
            lease: worker.lease,
            wait: worker.wait,
            stop: stop.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let polls = [(); 2].map(|()| {
            let session = Arc::clone(&session);
            thread::spawn(move || session.poll())
        });
        while !stop.is_set() {
            thread::sleep(Duration::from_millis(50));
        }
        session.drain(worker.grace);
        for poll in polls {
            let _ = poll.join();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to say: another poll is sent now.
    pub fn say(&self) {
        self.state().has_news = true;
        self.changed.notify_all();
    }

    /// There is something to say within a second.
    pub fn say_soon(&self) {
        self.state().soon_at.get_or_insert_with(|| Instant::now() + Duration::from_secs(1));
    }

    fn wait_while(&self, time: Duration, is_so: impl Fn(&State) -> bool) {
        let until = Instant::now() + time;
        let mut state = self.state();
        while is_so(&state) && Instant::now() < until {
            let waited = self.changed.wait_timeout(state, LOOK_EVERY.min(time));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn drain(&self, grace: Duration) {
        self.say();
        self.wait_while(grace, |state| !state.held.is_empty());
        let mut state = self.state();
        let left: Vec<Arc<Message>> = state.held.drain().map(|(_, message)| message).collect();
        for message in left {
            message.is_cancelled.store(true, Ordering::Relaxed);
            state.reports.push((message, Outcome::new("released", json!({}))));
        }
        drop(state);
        self.changed.notify_all();
        self.wait_while(Duration::from_secs(10), |state| !state.reports.is_empty());
        self.state().is_ended = true;
        self.changed.notify_all();
    }

    fn poll(self: Arc<Self>) {
        loop {
            let mut state = self.state();
            loop {
                if state.is_ended && state.reports.is_empty() {
                    return;
                }
                let is_soon = state.soon_at.is_some_and(|at| at <= Instant::now());
                let has_words = !state.reports.is_empty() || state.has_news || is_soon;
                if state.open == 0 || (state.open < 2 && has_words) {
                    break;
                }
                let waited = self.changed.wait_timeout(state, LOOK_EVERY);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let (body, reports) = self.body(&mut state);
            state.open += 1;
            drop(state);
            let answer = self.send(&body);
            match &answer {
                Ok(_) => {}
                Err(error) if error.code() == "STALE_FENCE" => self.lost(&body, &reports),
                // It was overtaken by the next poll: its results are sent again.
                Err(error) if error.code() == "WRONG_STATE" => self.state().reports.extend(reports),
                Err(error) => {
                    eprintln!("punctual: poll refused: {error}");
                    self.wait_while(Duration::from_secs(1), |state| !state.is_ended);
                }
            }
            self.state().open -= 1;
            self.changed.notify_all();
            if let Ok(answer) = answer {
                self.take(&answer);
            }
        }
    }

    fn body(&self, state: &mut State) -> (Value, Vec<(Arc<Message>, Outcome)>) {
        state.seq += 1;
        let is_open = !self.stop.is_set() && !state.is_quiet;
        let free = self.concurrency.saturating_sub(state.held.len());
        let wait = if is_open { self.wait } else { self.wait.min(Duration::from_secs(1)) };
        let mut body = json!({
            "seq": state.seq,
            "want": if is_open { free } else { 0 },
            "queues": self.queues,
            "wait_s": wait.as_secs_f64(),
            "done": [], "failed": [], "released": [], "extend": [], "running": [],
        });
        if let Some(lease) = self.lease {
            body["lease_s"] = lease.as_secs_f64().into();
        }
        (state.has_news, state.soon_at) = (false, None);
        let mut push = |list: &str, item: Value| {
            if let Some(list) = body[list].as_array_mut() {
                list.push(item);
            }
        };
        let reports = std::mem::take(&mut state.reports);
        for (message, outcome) in &reports {
            let mut report = key(message);
            for (name, value) in &outcome.fields {
                report[name] = value.clone();
            }
            push(outcome.kind, report);
        }
        for message in state.held.values() {
            let mut wishes = message.wishes();
            if let Some(time) = wishes.extend.take() {
                let mut extend = key(message);
                extend["timeout_s"] = time.as_secs_f64().into();
                push("extend", extend);
            }
            let mut running = key(message);
            if let Some(progress) = wishes.progress.take() {
                running["progress"] = progress;
            }
            push("running", running);
        }
        (body, reports)
    }

    /// Sends a poll until it is answered: one that is sent again has the same number.
    fn send(&self, body: &Value) -> Result<Value, Error> {
        let mut pause = Duration::from_millis(100);
        loop {
            match self.client.poll(&self.name, body) {
                Err(error) if error.is_temporary() && !self.state().is_ended => {
                    eprintln!("punctual: poll not answered, sending it again: {error}");
                    self.wait_while(pause, |state| !state.is_ended);
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                answer => return answer,
            }
        }
    }

    /// All that a poll named is another worker's by now.
    fn lost(&self, body: &Value, reports: &[(Arc<Message>, Outcome)]) {
        for (message, _) in reports {
            eprintln!("punctual: message {} was given to another worker", message.id);
        }
        let named = body["running"].as_array().into_iter().flatten();
        self.cancel(named.filter_map(|it| it["id"].as_str()));
    }

    fn cancel<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        let state = self.state();
        for message in ids.filter_map(|id| state.held.get(id)) {
            message.is_cancelled.store(true, Ordering::Relaxed);
        }
    }

    fn take(self: &Arc<Self>, answer: &Value) {
        self.cancel(answer["cancel"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let leased: Vec<Lease> =
            serde_json::from_value(answer["messages"].clone()).unwrap_or_default();
        let mut state = self.state();
        state.is_quiet = answer["state"] != "RUN";
        if answer["state"] == "STOP" {
            self.stop.stop();
        }
        let mut begun = Vec::new();
        for lease in leased {
            let message = Arc::new(Message::new(lease, Some(Arc::clone(self))));
            if self.stop.is_set() {
                state.reports.push((message, Outcome::new("released", json!({}))));
            } else if state.held.insert(message.id.clone(), Arc::clone(&message)).is_none() {
                begun.push(message);
            }
        }
        drop(state);
        for group in self.handlers.groups(begun) {
            let session = Arc::clone(self);
            thread::spawn(move || session.work(group));
        }
    }

    fn work(&self, group: Vec<Arc<Message>>) {
        let outcomes = self.handlers.call(&group);
        let mut state = self.state();
        for (message, outcome) in group.into_iter().zip(outcomes) {
            if state.held.remove(&message.id).is_some() {
                state.reports.push((message, outcome));
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}
