//! Sessions of workers: the messages of a worker stay leased while it polls, and a lost answer is
//! given again.
//!
//! A session is in the memory of the server that it polls. Its messages are in the store, with a
//! deadline in each message, and the worker names them in every poll. So a session goes on at
//! another server, or at the same one after a restart; only an answer that was under way is lost,
//! and its messages are ready again when their leases end.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use jiff::{SignedDuration, Timestamp};
use store::{Extended, LeaseExtension, LeasedMessage, StoreError, TimeLimit};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Engine;
use super::lines::LeaseTerms;
use crate::error::{EngineError, Result};

/// How many answers of a session are kept: the worker may send a poll while one is open.
const ANSWERS_MAX: usize = 2;

/// How often held messages are renewed in one lease.
const RENEWALS: u32 = 3;

/// Sessions are looked through for those that ended when there are so many more than after the last
/// look.
const SWEEP_EVERY: usize = 64;

/// Desired state of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerState {
    /// It takes new messages.
    #[default]
    Run,
    /// It finishes its messages and takes no new ones for now.
    Quiet,
    /// It finishes its messages and ends.
    Stop,
}

impl WorkerState {
    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Run => "RUN",
            WorkerState::Quiet => "QUIET",
            WorkerState::Stop => "STOP",
        }
    }
}

/// The answer to a poll.
#[derive(Clone, Debug)]
pub struct PollAnswer {
    /// Leased messages, each with its queue.
    pub messages: Vec<(Arc<Job>, LeasedMessage)>,
    /// Messages that the worker should stop: cancelled ones, and those that it does not hold any
    /// more.
    pub cancel: Vec<RunId>,
    /// Desired state of the worker.
    pub state: WorkerState,
    /// When the leases of its messages end, unless it polls again.
    pub lease_until: Timestamp,
}

/// A session as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its name.
    pub name: String,
    /// User of the session.
    pub user: UserId,
    /// Desired state of the worker.
    pub state: WorkerState,
    /// How many messages it held when it polled last.
    pub held: usize,
    /// How long ago it polled, or zero while a poll is open.
    pub idle: Duration,
}

pub(crate) type SessionKey = (TenantId, UserId, String);

/// The sessions of a process.
pub(super) struct Sessions {
    table: Mutex<SessionTable>,
    /// They renew in the rhythm of the process.
    began_at: Instant,
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions { table: Mutex::default(), began_at: Instant::now() }
    }
}

#[derive(Default)]
struct SessionTable {
    sessions: HashMap<SessionKey, Arc<Session>>,
    /// How many were left after the last look for ended ones.
    swept: usize,
}

/// A session of a worker.
pub(crate) struct Session {
    /// Held by the poll that is under way.
    pub last: tokio::sync::Mutex<LastPolls>,
    /// The largest number of a poll that has come: a newer poll ends the open one.
    newest: watch::Sender<u64>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// When it polled, or was answered.
    at: Instant,
    open: usize,
    state: WorkerState,
    queues: Vec<JobId>,
    held: usize,
}

/// Recent polls of a session.
#[derive(Default)]
pub(crate) struct LastPolls {
    /// The latest answers by the number of their poll, oldest first.
    answers: VecDeque<(u64, PollAnswer)>,
    /// The queues of messages that it was given.
    pub queues: HashMap<RunId, JobId>,
}

impl LastPolls {
    /// The answer to a poll that was answered before.
    pub fn answered(&self, seq: u64) -> Option<&PollAnswer> {
        self.answers.iter().find(|(number, _)| *number == seq).map(|(_, answer)| answer)
    }

    /// The number of the latest poll that was answered.
    pub fn latest(&self) -> Option<u64> {
        self.answers.iter().map(|(number, _)| *number).max()
    }

    pub fn remember(&mut self, seq: u64, answer: PollAnswer) {
        self.queues.extend(answer.messages.iter().map(|(queue, it)| (it.id, queue.id)));
        self.answers.push_back((seq, answer));
        if self.answers.len() > ANSWERS_MAX {
            self.answers.pop_front();
        }
    }
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a name; it begins if it is not known here. Sessions that have not polled for
    /// longer than their lease end.
    fn enter(&self, key: SessionKey, lease: Duration) -> Arc<Session> {
        let mut table = self.table();
        if table.sessions.len() > table.swept + SWEEP_EVERY {
            table.sessions.retain(|_, session| {
                let seen = session.seen();
                seen.open > 0 || seen.at.elapsed() < lease
            });
            table.swept = table.sessions.len();
        }
        Arc::clone(table.sessions.entry(key).or_insert_with(|| {
            Arc::new(Session {
                last: tokio::sync::Mutex::default(),
                newest: watch::Sender::new(0),
                seen: Mutex::new(Seen {
                    at: Instant::now(),
                    open: 0,
                    state: WorkerState::Run,
                    queues: Vec::new(),
                    held: 0,
                }),
            })
        }))
    }
}

impl Sessions {
    /// How long until the next moment at which all sessions of this process renew: their calls are
    /// made together.
    fn until_renewal(&self, every: Duration) -> Duration {
        let every = every.as_millis().max(100);
        let rest = self.began_at.elapsed().as_millis() % every;
        Duration::from_millis((every - rest) as u64)
    }
}

impl Session {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, queues: Vec<JobId>, held: usize) {
        let mut seen = self.seen();
        (seen.queues, seen.held) = (queues, held);
    }
}

/// An open poll.
pub(crate) struct OpenPoll {
    pub session: Arc<Session>,
    seq: u64,
    newer: watch::Receiver<u64>,
}

impl OpenPoll {
    /// Waits until a newer poll of the session has come.
    pub async fn superseded(&mut self) {
        let seq = self.seq;
        if self.newer.wait_for(|newest| *newest > seq).await.is_err() {
            std::future::pending().await
        }
    }

    /// Desired state of the worker.
    pub fn state(&self) -> WorkerState {
        self.session.seen().state
    }
}

impl Drop for OpenPoll {
    fn drop(&mut self) {
        let mut seen = self.session.seen();
        seen.open = seen.open.saturating_sub(1);
        seen.at = Instant::now();
    }
}

impl Engine {
    /// Begins a poll of a session.
    pub(crate) fn open_poll(&self, key: SessionKey, seq: u64) -> OpenPoll {
        let lease = Duration::try_from(self.node.settings.worker_lease).unwrap_or_default();
        let session = self.shared.sessions.enter(key, lease);
        session.seen().open += 1;
        let newer = session.newest.subscribe();
        session.newest.send_if_modified(|newest| {
            let is_newer = seq > *newest;
            *newest = seq.max(*newest);
            is_newer
        });
        OpenPoll { session, seq, newer }
    }

    /// The sessions of a tenant that poll a queue here.
    pub(crate) fn sessions_of(&self, tenant: TenantId, queue: JobId) -> Vec<SessionView> {
        let table = self.shared.sessions.table();
        let mut views: Vec<SessionView> = Vec::new();
        for ((of, user, name), session) in &table.sessions {
            let seen = session.seen();
            if *of == tenant && seen.queues.contains(&queue) {
                let idle = if seen.open > 0 { Duration::ZERO } else { seen.at.elapsed() };
                let (state, held) = (seen.state, seen.held);
                views.push(SessionView { name: name.clone(), user: *user, state, held, idle });
            }
        }
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    /// Sets the desired state of the workers of sessions with a name. Returns whether there is one
    /// that polls only queues that `may` allows.
    pub(crate) fn set_worker_state(
        &self,
        tenant: TenantId,
        name: &str,
        state: WorkerState,
        may: impl Fn(UserId, &[JobId]) -> bool,
    ) -> bool {
        let table = self.shared.sessions.table();
        let mut is_found = false;
        for ((of, user, session_name), session) in &table.sessions {
            let mut seen = session.seen();
            if *of == tenant && session_name == name && may(*user, &seen.queues) {
                seen.state = state;
                is_found = true;
                // An open poll is answered now.
                session.newest.send_modify(|_| {});
            }
        }
        is_found
    }

    /// Moves the ends of leases; callers that come at the same time share a call.
    pub(crate) async fn extend_leases(
        &self,
        leases: Vec<LeaseExtension>,
    ) -> Result<Vec<Option<Extended>>> {
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let stopped =
            || EngineError::Store(StoreError::Unavailable("the engine has stopped".into()));
        Ok(self.extends.send(leases).await.ok_or_else(stopped)??)
    }

    /// Renews the leases of a session as long as its poll is open. Ends with the messages that its
    /// worker should stop. `until` is when the leases end.
    pub(crate) async fn keep_renewing(
        &self,
        held: &mut [LeaseExtension],
        until: &mut Timestamp,
    ) -> Result<Vec<RunId>> {
        if held.is_empty() {
            return std::future::pending().await;
        }
        let lease = held[0].lease;
        let every = Duration::try_from(lease).unwrap_or_default() / RENEWALS;
        for it in held.iter_mut() {
            (it.time_limit, it.progress) = (TimeLimit::Keep, None);
        }
        loop {
            tokio::time::sleep(self.shared.sessions.until_renewal(every)).await;
            let extended = self.extend_leases(held.to_vec()).await?;
            *until = self.node.now().saturating_add(lease).unwrap_or(Timestamp::MAX);
            let cancel = to_cancel(held, &extended);
            if !cancel.is_empty() {
                return Ok(cancel);
            }
        }
    }

    /// Leases messages of one of several queues; waits until there is one, at most so long.
    pub(crate) async fn lease_of_any(
        &self,
        queues: &[Arc<Job>],
        max: u32,
        lease: SignedDuration,
        wait: Duration,
    ) -> Result<Vec<(Arc<Job>, LeasedMessage)>> {
        let terms = LeaseTerms { lease, limit_begins: false };
        let one = async |queue: Arc<Job>| {
            let leased = self.lease_messages(queue.id, max, terms, wait).await?;
            let of_queue = |it| (Arc::clone(&queue), it);
            Ok::<_, EngineError>(leased.into_iter().map(of_queue).collect::<Vec<_>>())
        };
        let mut waits: Vec<_> =
            queues.iter().map(|queue| Box::pin(one(Arc::clone(queue)))).collect();
        // Messages that other waits get in the same moment are released when those are dropped.
        std::future::poll_fn(|context| {
            let mut i = 0;
            while i < waits.len() {
                match waits[i].as_mut().poll(context) {
                    Poll::Pending => i += 1,
                    Poll::Ready(Ok(leased)) if leased.is_empty() => drop(waits.swap_remove(i)),
                    Poll::Ready(leased) => return Poll::Ready(leased),
                }
            }
            if waits.is_empty() { Poll::Ready(Ok(Vec::new())) } else { Poll::Pending }
        })
        .await
    }
}

/// The messages that their worker should stop.
pub(crate) fn to_cancel(held: &[LeaseExtension], extended: &[Option<Extended>]) -> Vec<RunId> {
    let stops = |it: &Option<Extended>| it.is_none_or(|extended| extended.is_cancelled);
    let cancelled = held.iter().zip(extended).filter(|(_, extended)| stops(extended));
    cancelled.map(|(it, _)| it.message).collect()
}
