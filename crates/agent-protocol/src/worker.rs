//! The agent: requests assignments, executes them, reports results, and stops before its lease
//! ends.
//!
//! ```text
//!   no connection ──▶ hello ──▶ session: poll │ renew │ report ──▶ (an error) ──▶ hello …
//!                       │
//!                       └── contains the started attempts, so any server can take over
//! ```
//!
//! A session is a series of calls to one server. It ends with the first call that fails, and the
//! next session continues where it ended. Attempts are independent of sessions. So is the lease: it
//! counts from the last renewal that was acknowledged. When it is about to end, all attempts are
//! stopped and the agent joins as a new node.

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
    Done, Hello, PROTOCOL, Renewed, Results, SessionCall, Settled, Skills, StartedAttempt, Welcome,
};
use crate::spool::{Kept, Spool};
pub use link::Link;
use link::Open;

/// The timeout of calls that the server answers at once.
const AT_ONCE: Duration = Duration::from_secs(5);

/// How much longer than the requested waiting time a reply may take.
const BEYOND: Duration = Duration::from_secs(5);

/// The delay after a failed connection, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// The labels of the agent.
    pub labels: Labels,
    /// The number of slots of each kind.
    pub capacity: PerSlot<u32>,
    /// Whether it executes only runs that ask for its labels.
    pub exclusive: bool,
    /// Capabilities from its settings.
    pub skills: Skills,
    /// The release of the agent.
    pub version: String,
    /// The id of the agent's process.
    pub instance: Uuid,
    /// How long executing attempts may take to end when the agent is stopped.
    pub grace: Duration,
}

/// Why an agent must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// The server no longer accepts its key.
    #[error("the server refused the agent's key: the agent was removed, or its key has changed")]
    Removed,
    /// Another process uses its key.
    #[error("another process uses the key of this agent: {0}")]
    Replaced(String),
    /// The server refuses the agent.
    #[error("the server refused this agent: {0}")]
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
    /// Notified when a slot becomes free.
    freed: Notify,
    /// Notified when an attempt starts or ends.
    news: Notify,
}

/// The state of an agent.
struct Board {
    node: Option<NodeId>,
    /// The start of the current lease.
    renewed_at: Instant,
    terms: Terms,
    running: HashMap<Grant, Running>,
    /// Ended attempts without an acknowledged result.
    ended: HashMap<Grant, Kept>,
    stopping: bool,
}

#[derive(Clone, Copy)]
struct Terms {
    /// How long after a renewal all attempts must have stopped.
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
    /// A call failed, or the server does not know the session.
    Lost(String),
    /// The lease was lost.
    LeaseLost(String),
    /// The agent must end.
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
    /// An agent with the results that an earlier process did not report.
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

    /// The number of executing attempts.
    pub fn running(&self) -> usize {
        self.board().running.len()
    }

    /// Works until it is stopped, and then until all attempts have ended or the grace period is
    /// over.
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
            let word = SessionCall { session: open.session };
            let told = open.client.call::<_, Done>("drain", &word, AT_ONCE);
            tokio::select! {
                // Without this call, assignments that were not started would wait until the agent
                // has left.
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
                // Results are acknowledged without a notification here.
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
            tracing::warn!(running = self.running(), "grace period over, stopping attempts");
        }
        if let Some(open) = self.link.open() {
            let word = SessionCall { session: open.session };
            if let Err(error) = open.client.call::<_, Done>("leave", &word, AT_ONCE).await {
                tracing::warn!(%error, "cannot leave the cluster; the lease will expire");
            }
        }
        self.stop_all(AttemptEnd::Cancelled);
        Ok(())
    }

    /// Connects to the servers in turn, and works with each until it fails.
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
                    tracing::info!(server = %client.url(), node = %open.node, "agent ready");
                    if let Some(ready) = ready.take() {
                        ready(open.node);
                    }
                    self.link.set(Some(open.clone()));
                    let end = self.session(&open).await;
                    self.link.set(None);
                    match end {
                        End::Fatal(fatal) => return fatal,
                        End::LeaseLost(why) => self.lose_lease(&why),
                        End::Lost(why) => {
                            tracing::warn!(why, "connection to the server lost, reconnecting")
                        }
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
                        tracing::warn!(server = %client.url(), why, "no server reachable");
                        is_told = true;
                    }
                    server += 1;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// How long attempts may continue without a renewal; none if no attempt executes.
    fn left(&self) -> Option<Duration> {
        let board = self.board();
        board.node.map(|_| board.terms.safe.saturating_sub(board.renewed_at.elapsed()))
    }

    /// Watches the lease, independently of the calls to a server.
    async fn watch_lease(&self) -> Fatal {
        loop {
            match self.left() {
                Some(Duration::ZERO) => self.lose_lease("renewal failed"),
                Some(left) => tokio::time::sleep(left).await,
                None => tokio::time::sleep(PAUSE.0).await,
            }
        }
    }

    /// Stops all attempts after the lease was lost; the agent joins as a new node.
    fn lose_lease(&self, why: &str) {
        if self.board().node.take().is_some() {
            let running = self.running();
            tracing::error!(why, running, "lease lost, stopping attempts");
            self.stop_all(AttemptEnd::Lost);
        }
    }

    fn stop_all(&self, end: AttemptEnd) {
        for running in self.board().running.values() {
            running.stop.send_replace(Some(end));
        }
    }

    /// Reports results of earlier node ids, then sends hello.
    async fn begin_session(&self, client: &Client) -> Result<Open, End> {
        let patience = self.left().map_or(AT_ONCE, |left| left.clamp(PAUSE.0 * 5, AT_ONCE));
        self.settle_others(client, patience).await?;
        let (node, begun) = {
            let board = self.board();
            let ended = board.ended.values().filter(|kept| Some(kept.node) == board.node);
            let ended = ended.map(|Kept { ended, slot, .. }| StartedAttempt {
                grant: ended.grant,
                token: ended.token,
                started_at: ended.started_at,
                slot: *slot,
            });
            let running = board.running.iter().filter(|_| board.node.is_some());
            let running = running.map(|(grant, running)| StartedAttempt {
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
            return Err(End::LeaseLost("lease expired before the reply".to_owned()));
        }
        board.node = Some(welcome.node);
        board.renewed_at = asked_at;
        board.terms = Terms {
            safe: std_duration(welcome.lease - welcome.stop_before),
            renew_every: std_duration(welcome.renew_every),
        };
        Ok(Open { client: client.clone(), session: welcome.session, node: welcome.node })
    }

    /// Reports results of earlier node ids of this agent. Any server can record them if their lease
    /// is still valid.
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

    /// Reports ended attempts, and deletes the acknowledged ones.
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
                tracing::warn!(%run, attempt, "result refused: another node has the run");
            }
            self.forget(ended.grant).await;
        }
        Ok(())
    }

    /// Runs a session with a server.
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
            // A process that was suspended does not know what happened meanwhile.
            if self.left().is_none_or(|left| left.is_zero()) {
                return End::LeaseLost("renewal timed out".to_owned());
            }
            let asked_at = Instant::now();
            let patience = self.left().unwrap_or(AT_ONCE).min(AT_ONCE);
            let word = SessionCall { session: open.session };
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
