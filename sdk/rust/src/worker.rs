//! A worker: handlers in threads of their own, and a session that keeps their messages.

use std::collections::HashMap;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::{json, Map, Value};

use crate::client::{Client, Lease};
use crate::session::Session;

const ERROR_LENGTH_MAX: usize = 4_000;
const RESULT_BYTES_MAX: usize = 1 << 20;
const OUTPUT_LENGTH_MAX: usize = 64 << 10;

/// Result of a handler: JSON, `null` for none.
pub type HandlerResult = Result<Value, HandlerError>;

/// Why a handler did not succeed.
#[derive(Debug)]
pub enum HandlerError {
    /// The message is delivered again, after this time if there is one.
    Retry(String, Option<Duration>),
    /// No other attempt can succeed: the message becomes a dead letter.
    Fail(String),
    /// Another error: the message is delivered again as the queue's policy says.
    Error(String),
}

/// No other attempt can succeed: the message becomes a dead letter.
pub struct Fail<T>(
    /// The error message.
    pub T,
);

/// The message is delivered again after a time.
pub struct Retry<T>(
    /// The error message.
    pub T,
    /// After how long.
    pub Duration,
);

impl<T: fmt::Display> From<Fail<T>> for HandlerError {
    fn from(fail: Fail<T>) -> Self {
        HandlerError::Fail(fail.0.to_string())
    }
}

impl<T: fmt::Display> From<Retry<T>> for HandlerError {
    fn from(retry: Retry<T>) -> Self {
        HandlerError::Retry(retry.0.to_string(), Some(retry.1))
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        HandlerError::Error(error.to_string())
    }
}

/// A message in the hands of a handler.
pub struct Message {
    lease: Lease,
    begun: Instant,
    pub(crate) wishes: Mutex<Wishes>,
    pub(crate) is_cancelled: AtomicBool,
    session: Option<Arc<Session>>,
}

/// Requests of a handler to its session, which are sent with the next poll.
#[derive(Default)]
pub(crate) struct Wishes {
    output: String,
    pub progress: Option<Value>,
    pub extend: Option<Duration>,
    limit: Option<(Instant, Duration)>,
}

impl std::ops::Deref for Message {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Message {
    pub(crate) fn new(lease: Lease, session: Option<Arc<Session>>) -> Self {
        let (wishes, is_cancelled) = (Mutex::default(), AtomicBool::new(false));
        Message { lease, begun: Instant::now(), wishes, is_cancelled, session }
    }

    pub(crate) fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The payload as a type.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let read = serde_json::from_value(self.lease.payload.clone());
        read.map_err(|error| HandlerError::Fail(format!("the payload does not fit: {error}")))
    }

    /// The field `action` of the payload.
    pub fn action(&self) -> Option<&str> {
        self.lease.payload["action"].as_str()
    }

    /// Whether the lease has ended or the message was cancelled: the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }

    /// When its time limit ends.
    pub fn deadline(&self) -> Instant {
        match self.wishes().limit {
            Some((since, time)) => since + time,
            None => self.begun + Duration::from_secs_f64(self.lease.timeout_seconds.clamp(0.0, 1e9)),
        }
    }

    /// Writes a line to the output of the run.
    pub fn log(&self, text: impl fmt::Display) {
        self.wishes().output += &format!("INFO {text}\n");
    }

    /// Says how far it is: any JSON value, shown with the message.
    pub fn progress(&self, value: Value) {
        self.wishes().progress = Some(value);
        if let Some(session) = &self.session {
            session.say_soon();
        }
    }

    /// Asks for so much time from now on, instead of the time limit of the queue.
    pub fn extend(&self, time: Duration) {
        let mut wishes = self.wishes();
        (wishes.extend, wishes.limit) = (Some(time), Some((Instant::now(), time)));
        drop(wishes);
        if let Some(session) = &self.session {
            session.say();
        }
    }

    fn output(&self) -> String {
        let output = self.wishes().output.clone();
        let from = output.len().saturating_sub(OUTPUT_LENGTH_MAX);
        let from = (from..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
        output[from..].to_owned()
    }
}

/// Outcome of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `done`, `failed` or `released`.
    pub kind: &'static str,
    /// `result`, `error`, `is_permanent`, `delay_seconds`, `output`.
    pub fields: Map<String, Value>,
}

impl Outcome {
    pub(crate) fn new(kind: &'static str, fields: Value) -> Self {
        let fields = fields.as_object().cloned().unwrap_or_default();
        Outcome { kind, fields }
    }

    fn from_result(result: HandlerResult) -> Self {
        let short = |text: String| text.chars().take(ERROR_LENGTH_MAX).collect::<String>();
        match result {
            Ok(Value::Null) => Outcome::new("done", json!({})),
            Ok(value) => match value.to_string().len() {
                size if size > RESULT_BYTES_MAX => {
                    let text = format!("the result has {size} bytes; the most are {RESULT_BYTES_MAX}");
                    Outcome::new("failed", json!({"error": text, "is_permanent": true}))
                }
                _ => Outcome::new("done", json!({ "result": value })),
            },
            Err(HandlerError::Fail(text)) => {
                Outcome::new("failed", json!({"error": short(text), "is_permanent": true}))
            }
            Err(HandlerError::Retry(text, None)) | Err(HandlerError::Error(text)) => {
                Outcome::new("failed", json!({ "error": short(text) }))
            }
            Err(HandlerError::Retry(text, Some(after))) => {
                let after = after.as_secs_f64();
                Outcome::new("failed", json!({"error": short(text), "delay_seconds": after}))
            }
        }
    }
}

type One = Arc<dyn Fn(&Message) -> HandlerResult + Send + Sync>;
type Many = Arc<dyn Fn(&[Arc<Message>]) -> Vec<HandlerResult> + Send + Sync>;

#[derive(Clone)]
enum Handler {
    One(One),
    Many(Many, usize),
}

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    by_action: HashMap<String, Handler>,
    default: Option<Handler>,
}

impl Handlers {
    fn of(&self, message: &Message) -> Option<&Handler> {
        message.action().and_then(|name| self.by_action.get(name)).or(self.default.as_ref())
    }

    /// Messages that one call of a handler takes together.
    pub fn groups(&self, messages: Vec<Arc<Message>>) -> Vec<Vec<Arc<Message>>> {
        let mut groups: Vec<(Option<String>, Vec<Arc<Message>>)> = Vec::new();
        for message in messages {
            let action = message.action().map(str::to_owned);
            let most = match self.of(&message) {
                Some(Handler::Many(_, most)) => *most,
                _ => 1,
            };
            match groups.last_mut() {
                Some((last, group)) if *last == action && group.len() < most => group.push(message),
                _ => groups.push((action, vec![message])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Calls the handler of messages of one group; the outcome of each.
    pub fn call(&self, group: &[Arc<Message>]) -> Vec<Outcome> {
        let Some(first) = group.first() else { return Vec::new() };
        let results = catch_unwind(AssertUnwindSafe(|| match self.of(first) {
            Some(Handler::One(handle)) => vec![handle(first)],
            Some(Handler::Many(handle, _)) => handle(group),
            None => {
                let text = format!("no handler for action {:?}", first.action());
                group.iter().map(|_| Err(HandlerError::Fail(text.clone()))).collect()
            }
        }));
        let failed = |text: String| group.iter().map(|_| Err(HandlerError::Error(text.clone()))).collect();
        let results: Vec<HandlerResult> = match results {
            Ok(results) if results.len() == group.len() => results,
            Ok(results) => {
                let (got, wanted) = (results.len(), group.len());
                failed(format!("the handler returned {got} results for {wanted} messages"))
            }
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                failed(format!("panic: {}", text.unwrap_or_default()))
            }
        };
        let told = |(result, message): (HandlerResult, &Arc<Message>)| {
            let mut outcome = Outcome::from_result(result);
            let output = message.output();
            if !output.is_empty() {
                outcome.fields.insert("output".to_owned(), output.into());
            }
            outcome
        };
        results.into_iter().zip(group).map(told).collect()
    }
}

/// Works on the messages of queues until it is stopped.
pub struct Worker {
    pub(crate) client: Client,
    pub(crate) queues: Vec<String>,
    pub(crate) handlers: Handlers,
    pub(crate) concurrency: usize,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
    pub(crate) grace: Duration,
    stop: Stop,
}

/// Stops a worker, from a signal handler or another thread.
#[derive(Clone, Default)]
pub struct Stop(pub(crate) Arc<AtomicBool>);

impl Stop {
    /// Takes no new messages and releases those that were not begun; [`Worker::run`] returns when
    /// the running handlers have ended.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// A worker for some queues.
    pub fn new(client: Client, queues: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Worker {
            client,
            queues: queues.into_iter().map(Into::into).collect(),
            handlers: Handlers::default(),
            concurrency: 4,
            lease: None,
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            stop: Stop::default(),
        }
    }

    /// How many handlers run at the same time; 4 unless this is called.
    pub fn concurrency(&mut self, count: usize) -> &mut Self {
        self.concurrency = count.max(1);
        self
    }

    /// How long it keeps its messages without a poll; as the server is set unless this is called.
    pub fn lease(&mut self, lease: Duration) -> &mut Self {
        self.lease = Some(lease);
        self
    }

    /// How long a poll waits for messages.
    pub fn wait(&mut self, wait: Duration) -> &mut Self {
        self.wait = wait;
        self
    }

    /// How long running handlers have after a stop; then their messages go back.
    pub fn grace(&mut self, grace: Duration) -> &mut Self {
        self.grace = grace;
        self
    }

    /// The handler of messages that no action is for.
    pub fn handler(
        &mut self,
        handle: impl Fn(&Message) -> HandlerResult + Send + Sync + 'static,
    ) -> &mut Self {
        self.handlers.default = Some(Handler::One(Arc::new(handle)));
        self
    }

    /// The handler of messages whose payload has `"action": name`.
    pub fn action(
        &mut self,
        name: &str,
        handle: impl Fn(&Message) -> HandlerResult + Send + Sync + 'static,
    ) -> &mut Self {
        self.handlers.by_action.insert(name.to_owned(), Handler::One(Arc::new(handle)));
        self
    }

    /// A handler of up to `max` messages at a time; it answers a result for each.
    pub fn batch(
        &mut self,
        name: &str,
        max: usize,
        handle: impl Fn(&[Arc<Message>]) -> Vec<HandlerResult> + Send + Sync + 'static,
    ) -> &mut Self {
        let handler = Handler::Many(Arc::new(handle), max.max(1));
        self.handlers.by_action.insert(name.to_owned(), handler);
        self
    }

    /// The same for messages that no action is for.
    pub fn batch_all(
        &mut self,
        max: usize,
        handle: impl Fn(&[Arc<Message>]) -> Vec<HandlerResult> + Send + Sync + 'static,
    ) -> &mut Self {
        self.handlers.default = Some(Handler::Many(Arc::new(handle), max.max(1)));
        self
    }

    /// A handle that stops the worker.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Works until it is stopped, or until the server says STOP.
    pub fn run(&self) {
        Session::run(self, &self.stop);
    }

    /// Tries the handler of a message without a server; answers what the worker would report.
    pub fn deliver(&self, payload: Value, attempt: u32) -> Outcome {
        let lease = Lease { payload, attempt, ..Lease::default() };
        let group = [Arc::new(Message::new(lease, None))];
        self.handlers.call(&group).remove(0)
    }
}
