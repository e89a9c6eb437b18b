//! One talk with one agent, and its end when the agent falls silent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use agent::output::Output;
use domain::run::Grant;
use engine::AgentProxy;
use tokio::time::Instant;
use uuid::Uuid;

use super::AgentEndpoint;

/// How often it is looked whether an agent has fallen silent.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How many processes are remembered whose place another one has taken.
const REPLACED_MAX: usize = 16;

/// A talk with an agent.
pub(super) struct Session {
    pub id: Uuid,
    /// Which process of the agent.
    pub instance: Uuid,
    pub proxy: Arc<AgentProxy>,
    heard_at: Mutex<Instant>,
    /// Outputs of attempts in this session, and how many bytes each has.
    outputs: Mutex<HashMap<Grant, (Output, u64)>>,
}

impl Session {
    pub fn new(id: Uuid, instance: Uuid, proxy: Arc<AgentProxy>) -> Self {
        Session {
            id,
            instance,
            proxy,
            heard_at: Mutex::new(Instant::now()),
            outputs: Mutex::default(),
        }
    }

    /// Records the time of a call of the agent.
    pub fn hear(&self) {
        *self.heard_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// How long the agent has been silent.
    fn silence(&self) -> Duration {
        self.heard_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    pub fn outputs(&self) -> MutexGuard<'_, HashMap<Grant, (Output, u64)>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AgentEndpoint {
    /// Whether another process has taken the place of this one.
    pub(super) fn is_replaced(&self, name: &str, instance: Uuid) -> bool {
        self.replaced().get(name).is_some_and(|replaced| replaced.contains(&instance))
    }

    /// A session begins, and ends the one before it.
    pub(super) fn begin(self: &Arc<Self>, name: &str, session: Arc<Session>, silence: Duration) {
        let before = self.sessions().insert(name.to_owned(), Arc::clone(&session));
        if let Some(before) = before {
            before.proxy.end();
            if before.instance != session.instance {
                tracing::warn!(agent = name, "another process uses the key of this agent");
                let mut replaced = self.replaced();
                let replaced = replaced.entry(name.to_owned()).or_default();
                replaced.push(before.instance);
                if replaced.len() > REPLACED_MAX {
                    replaced.remove(0);
                }
            }
        }
        let (name, endpoint) = (name.to_owned(), Arc::downgrade(self));
        tokio::spawn(watch(name, endpoint, Arc::downgrade(&session), silence));
    }

    /// A session is over.
    pub(super) fn finish(&self, name: &str, session: &Session) {
        session.proxy.end();
        let mut sessions = self.sessions();
        if sessions.get(name).is_some_and(|current| current.id == session.id) {
            sessions.remove(name);
        }
    }
}

/// Ends a session whose agent has been silent for so long that it has stopped its work, or works
/// for another server.
async fn watch(
    name: String,
    endpoint: Weak<AgentEndpoint>,
    session: Weak<Session>,
    silence: Duration,
) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let (Some(endpoint), Some(session)) = (endpoint.upgrade(), session.upgrade()) else {
            return;
        };
        if session.silence() >= silence {
            tracing::warn!(agent = name, "an agent fell silent");
            endpoint.finish(&name, &session);
            return;
        }
    }
}
