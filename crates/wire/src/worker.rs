//! The agent: asks for work, does it, says what came of it, and stops before its lease ends.
//!
//! ```text
//!   nobody answers ──▶ hello ──▶ session: poll │ renew │ report ──▶ (an error) ──▶ hello …
//!                        │
//!                        └── what has begun comes along, so any server can go on with it
//! ```
//!
//! A session is one talk with one server. It ends with the first call that has no answer, and the
//! next one begins where it ended. Attempts know nothing of it. The lease does not depend on it
//! either: it counts from the last renewal that was answered, and when it is about to end, whoever
//! answers or not, everything that runs is stopped and the agent becomes another node.

mod attempt;
mod link;
mod poll;
mod report;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::Agent;
use agent::output::Outputs;
use domain::cluster::Labels;
use domain::id::NodeId;
use domain::run::{AttemptEnd, Grant};
use domain::slot::{PerSlot, SlotKind};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::client::{CallError, Client};
use crate::shape::{
    Begun, Done, Hello, PROTOCOL, Renewed, Results, Settled, Skills, Welcome, Word,
};
use crate::spool::{Kept, Spool};
pub use link::Link;
use link::Open;

/// How long a call may take that the server answers at once.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How long a server may take longer than it was asked to wait.
const BEYOND: Duration = Duration::from_secs(5);

/// The pause after a server could not be reached, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is known about its place.
    pub labels: Labels,
    /// How many runs it executes at the same time, by their kind of slot.
    pub capacity: PerSlot<u32>,
    /// Whether it takes only runs that ask for its labels.
    pub exclusive: bool,
    /// What its own settings let it do.
    pub skills: Skills,
    /// The release that it runs.
    pub version: String,
    /// Which process it is.
    pub instance: Uuid,
    /// How long running work may take to end when the agent is stopped.
    pub grace: Duration,
}

/// Why an agent cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The server does not know its key any more.
    #[error("the server does not let this agent in: it was removed, or its key is another one")]
    Removed,
    /// Another process has taken its place.
    #[error("another process works as this agent now: {0}")]
    Replaced(String),
    /// The server refuses it.
    #[error("the server refuses this agent: {0}")]
    Refused(String),
}

/// An agent.
pub struct Worker {
    link: Arc<Link>,
    agent: Arc<Agent>,
    outputs: Outputs,
    spool: Spool,
    options: Options,
    board: Mutex<Board>,
    /// A slot is free.
    freed: Notify,
    /// Something began or ended.
    news: Notify,
}

/// What an agent has.
struct Board {
    node: Option<NodeId>,
    /// From when the lease counts.
    renewed_at: Instant,
    terms: Terms,
    running: HashMap<Grant, Running>,
    /// What has ended and is not settled.
    ended: HashMap<Grant, Kept>,
    stopping: bool,
}

#[derive(Clone, Copy)]
struct Terms {
    /// How long after a renewal everything must have stopped.
    safe: Duration,
    renew_every: Duration,
}

struct Running {
    attempt: u32,
    token: i64,
    slot: SlotKind,
    started_at: Timestamp,
    stop: watch::Sender<Option<AttemptEnd>>,
}

/// Why a session ended.
enum End {
    /// A call had no answer, or the server has no such session.
    Lost(String),
    /// The lease is gone, and with it what ran.
    LeaseLost(String),
    /// The agent cannot go on.
    Fatal(Fatal),
}

impl From<CallError> for End {
    fn from(error: CallError) -> Self {
        if error.is("LEASE_LOST") {
            return End::LeaseLost(error.to_string());
        }
        if error.is("SESSION_ENDED") {
            return End::Lost(error.to_string());
        }
        match error {
            CallError::Unreachable(text) => End::Lost(text),
            CallError::Refused { status: 401, .. } => End::Fatal(Fatal::Removed),
            CallError::Refused { code, message, .. } if code == "AGENT_REPLACED" => {
                End::Fatal(Fatal::Replaced(message))
            }
            CallError::Refused { message, .. } => End::Fatal(Fatal::Refused(message)),
        }
    }
}

fn std_duration(duration: SignedDuration) -> Duration {
    duration.try_into().unwrap_or_default()
}

impl Worker {
    /// An agent with what an earlier process left behind.
    pub fn new(
        link: Arc<Link>,
        agent: Arc<Agent>,
        outputs: Outputs,
        spool: Spool,
        options: Options,
    ) -> std::io::Result<Arc<Self>> {
        let ended = spool.all()?.into_iter().map(|kept| (kept.ended.grant, kept)).collect();
        let terms = Terms { safe: Duration::ZERO, renew_every: Duration::from_secs(3) };
        let board = Board {
            node: None,
            renewed_at: Instant::now(),
            terms,
            running: HashMap::new(),
            ended,
            stopping: false,
        };
        Ok(Arc::new(Worker {
            link,
            agent,
            outputs,
            spool,
            options,
            board: Mutex::new(board),
            freed: Notify::new(),
            news: Notify::new(),
        }))
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many runs it executes.
    pub fn running(&self) -> usize {
        self.board().running.len()
    }

    /// Works until it is told to stop, and then until what runs has ended or its grace is over.
    pub async fn run(
        self: &Arc<Self>,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(NodeId),
    ) -> Result<(), Fatal> {
        let work = async {
            tokio::select! {
                fatal = Arc::clone(self).work(ready) => fatal,
                never = self.watch_lease() => never,
            }
        };
        let mut work = std::pin::pin!(work);
        tokio::select! {
            fatal = work.as_mut() => {
                self.stop_all(AttemptEnd::Lost);
                return Err(fatal);
            }
            () = stop => {}
        }
        self.board().stopping = true;
        self.freed.notify_one();
        if let Some(open) = self.link.open() {
            let word = Word { session: open.session };
            let told = open.client.call::<_, Done>("drain", &word, AT_ONCE);
            tokio::select! {
                // Without it, what was not begun waits until the agent has left.
                _ = told => {}
                fatal = work.as_mut() => return Err(fatal),
            }
        }
        let finished = async {
            loop {
                let mut news = std::pin::pin!(self.news.notified());
                news.as_mut().enable();
                if self.running() == 0 && self.board().ended.is_empty() {
                    return;
                }
                // Results are settled without a word here.
                let _ = tokio::time::timeout(Duration::from_millis(100), news).await;
            }
        };
        let ended = tokio::select! {
            fatal = work.as_mut() => {
                self.stop_all(AttemptEnd::Lost);
                return Err(fatal);
            }
            ended = tokio::time::timeout(self.options.grace, finished) => ended,
        };
        if ended.is_err() {
            tracing::warn!(running = self.running(), "stopping what did not finish in time");
        }
        if let Some(open) = self.link.open() {
            let word = Word { session: open.session };
            if let Err(error) = open.client.call::<_, Done>("leave", &word, AT_ONCE).await {
                tracing::warn!(%error, "the agent could not leave; its lease will end by itself");
            }
        }
        self.stop_all(AttemptEnd::Cancelled);
        Ok(())
    }

    /// Talks to servers, one after the other, for ever.
    async fn work(self: Arc<Self>, ready: impl FnOnce(NodeId)) -> Fatal {
        let mut ready = Some(ready);
        let mut pause = PAUSE.0;
        let mut is_told = false;
        let mut server = 0;
        loop {
            let client = self.link.client(server);
            match self.begin_session(&client).await {
                Ok(open) => {
                    (pause, is_told) = (PAUSE.0, false);
                    tracing::info!(server = %client.url(), node = %open.node, "the agent works");
                    if let Some(ready) = ready.take() {
                        ready(open.node);
                    }
                    self.link.set(Some(open.clone()));
                    let end = self.session(&open).await;
                    self.link.set(None);
                    match end {
                        End::Fatal(fatal) => return fatal,
                        End::LeaseLost(why) => self.lose_lease(&why),
                        End::Lost(why) => tracing::warn!(why, "the server is lost; looking for it"),
                    }
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Err(End::Fatal(fatal)) => return fatal,
                Err(End::LeaseLost(why)) => {
                    self.lose_lease(&why);
                    continue;
                }
                Err(End::Lost(why)) => {
                    if !is_told {
                        tracing::warn!(server = %client.url(), why, "no server answers");
                        is_told = true;
                    }
                    server += 1;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// How long the work may go on without a renewal; none when nothing is at stake.
    fn left(&self) -> Option<Duration> {
        let board = self.board();
        board.node.map(|_| board.terms.safe.saturating_sub(board.renewed_at.elapsed()))
    }

    /// Watches the lease, whatever the talk with a server is waiting for.
    async fn watch_lease(&self) -> Fatal {
        loop {
            match self.left() {
                Some(Duration::ZERO) => self.lose_lease("it could not be renewed"),
                Some(left) => tokio::time::sleep(left).await,
                None => tokio::time::sleep(PAUSE.0).await,
            }
        }
    }

    /// The lease is lost: what runs is stopped, and the agent becomes another node.
    fn lose_lease(&self, why: &str) {
        if self.board().node.take().is_some() {
            let running = self.running();
            tracing::error!(why, running, "the lease is lost; stopping what runs here");
            self.stop_all(AttemptEnd::Lost);
        }
    }

    fn stop_all(&self, end: AttemptEnd) {
        for running in self.board().running.values() {
            running.stop.send_replace(Some(end));
        }
    }

    /// Says what was left over from other nodes, then hello.
    async fn begin_session(&self, client: &Client) -> Result<Open, End> {
        let patience = self.left().map_or(AT_ONCE, |left| left.clamp(PAUSE.0 * 5, AT_ONCE));
        self.settle_others(client, patience).await?;
        let (node, begun) = {
            let board = self.board();
            let ended = board.ended.values().filter(|kept| Some(kept.node) == board.node);
            let ended = ended.map(|Kept { ended, slot, .. }| Begun {
                grant: ended.grant,
                token: ended.token,
                started_at: ended.started_at,
                slot: *slot,
            });
            let running = board.running.iter().filter(|_| board.node.is_some());
            let running = running.map(|(grant, running)| Begun {
                grant: *grant,
                token: running.token,
                started_at: running.started_at,
                slot: running.slot,
            });
            (board.node, running.chain(ended).collect())
        };
        let hello = Hello {
            protocol: PROTOCOL,
            instance: self.options.instance,
            version: self.options.version.clone(),
            labels: self.options.labels.clone(),
            capacity: self.options.capacity,
            exclusive: self.options.exclusive,
            skills: self.options.skills.clone(),
            node,
            begun,
        };
        let asked_at = Instant::now();
        let welcome: Welcome = client.call("hello", &hello, patience).await?;
        let mut board = self.board();
        if board.node != node {
            return Err(End::LeaseLost("it ended while the server answered".to_owned()));
        }
        board.node = Some(welcome.node);
        board.renewed_at = asked_at;
        board.terms = Terms {
            safe: std_duration(welcome.lease - welcome.stop_before),
            renew_every: std_duration(welcome.renew_every),
        };
        Ok(Open { client: client.clone(), session: welcome.session, node: welcome.node })
    }

    /// Results of nodes that this agent is no more: whoever is asked can settle them, if their
    /// lease lives.
    async fn settle_others(&self, client: &Client, patience: Duration) -> Result<(), End> {
        let mut others: HashMap<NodeId, Vec<Kept>> = HashMap::new();
        {
            let board = self.board();
            for kept in board.ended.values().filter(|kept| Some(kept.node) != board.node) {
                others.entry(kept.node).or_default().push(kept.clone());
            }
        }
        for (node, kept) in others {
            let ended: Vec<_> = kept.into_iter().map(|kept| kept.ended).collect();
            self.settle(client, node, ended, patience).await?;
        }
        Ok(())
    }

    /// Tells a server what has ended, and forgets what it has answered.
    async fn settle(
        &self,
        client: &Client,
        node: NodeId,
        ended: Vec<crate::shape::Ended>,
        patience: Duration,
    ) -> Result<(), CallError> {
        let results = Results { node, ended };
        let settled: Settled = client.call("results", &results, patience).await?;
        for (ended, accepted) in results.ended.iter().zip(settled.accepted) {
            let (run, attempt) = (ended.grant.run, ended.attempt);
            if !accepted {
                tracing::warn!(%run, attempt, "the server refused a result: the run is not this agent's any more");
            }
            self.forget(ended.grant).await;
        }
        Ok(())
    }

    /// A talk with a server.
    async fn session(self: &Arc<Self>, open: &Open) -> End {
        tokio::select! {
            end = self.poll(open) => end,
            end = self.renew(open) => end,
            end = self.report(open) => end,
        }
    }

    async fn renew(&self, open: &Open) -> End {
        loop {
            let every = self.board().terms.renew_every;
            tokio::time::sleep(every).await;
            // A process that slept does not know what happened meanwhile.
            if self.left().is_none_or(|left| left.is_zero()) {
                return End::LeaseLost("it could not be renewed in time".to_owned());
            }
            let asked_at = Instant::now();
            let patience = self.left().unwrap_or(AT_ONCE).min(AT_ONCE);
            let word = Word { session: open.session };
            match open.client.call::<_, Renewed>("renew", &word, patience).await {
                Ok(renewed) => {
                    let mut board = self.board();
                    board.renewed_at = asked_at;
                    for (grant, running) in &mut board.running {
                        if renewed.over.contains(grant) {
                            running.stop.send_replace(Some(AttemptEnd::Lost));
                        } else if renewed.stop.contains(&grant.run) {
                            running.stop.send_replace(Some(AttemptEnd::Cancelled));
                        }
                    }
                }
                Err(error) => return error.into(),
            }
        }
    }
}
