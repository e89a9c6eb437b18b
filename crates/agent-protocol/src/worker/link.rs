//! The connection to the servers, also for attempts that need a secret or a database.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use agent::{DatabaseSource, SecretError, Secrets};
use domain::action::Assignment;
use domain::id::{NodeId, TenantId};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::client::{CallError, Client};
use crate::shape::{AskDatabase, AskSecret, RequestedValue};

/// How long an attempt waits for a server that can answer its request.
const PATIENCE: Duration = Duration::from_secs(20);

/// The timeout of one request.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The servers of a cluster, and the current session with one of them.
pub struct Link {
    clients: Vec<Client>,
    open: watch::Sender<Option<Open>>,
}

/// A session with a server.
#[derive(Clone)]
pub(super) struct Open {
    pub client: Client,
    pub session: Uuid,
    pub node: NodeId,
}

impl Link {
    /// A connection to these servers, at least one.
    pub fn new(first: Client, others: Vec<Client>) -> Self {
        let clients = [first].into_iter().chain(others).collect();
        Link { clients, open: watch::Sender::new(None) }
    }

    /// The server to try next, round-robin.
    pub(super) fn client(&self, turn: usize) -> Client {
        self.clients[turn % self.clients.len()].clone()
    }

    pub(super) fn set(&self, open: Option<Open>) {
        self.open.send_replace(open);
    }

    pub(super) fn open(&self) -> Option<Open> {
        self.open.borrow().clone()
    }

    /// Sends a request to the server of the current session, until one has answered.
    async fn ask<Q: Serialize>(
        &self,
        verb: &str,
        question: impl Fn(Uuid) -> Q,
    ) -> Result<Option<String>, String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut opens = self.open.subscribe();
            let open = match tokio::time::timeout_at(end, opens.wait_for(Option::is_some)).await {
                Ok(Ok(open)) => open.clone(),
                _ => None,
            };
            let Some(open) = open else { return Err("no server reachable".to_owned()) };
            match open
                .client
                .call::<_, RequestedValue>(verb, &question(open.session), ANSWER_MAX)
                .await
            {
                Ok(told) => return Ok(told.value),
                Err(error @ CallError::Refused { .. }) if !error.is("SESSION_ENDED") => {
                    return Err(error.to_string());
                }
                Err(error) if Instant::now() >= end => return Err(error.to_string()),
                // Wait for the next session, or retry in this one.
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

impl Secrets for Link {
    fn get<'a>(
        &'a self,
        assignment: &'a Assignment,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, SecretError>> + Send + 'a>> {
        Box::pin(async move {
            let question = |session| AskSecret {
                session,
                run: assignment.run,
                fence: assignment.fence,
                name: name.to_owned(),
            };
            let told = self.ask("secret", question).await;
            told.map_err(|problem| SecretError::Unreadable { name: name.to_owned(), problem })
        })
    }
}

impl DatabaseSource for Link {
    fn url<'a>(
        &'a self,
        tenant: TenantId,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send + 'a>> {
        let question = move |session| AskDatabase { session, tenant, name: name.to_owned() };
        Box::pin(self.ask("database", question))
    }
}
