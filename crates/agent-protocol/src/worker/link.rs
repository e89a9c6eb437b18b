//! The connection to the servers, also for attempts that need a secret or a database.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use agent::artifact::{ArtifactChunks, ArtifactSource, FetchError};
use agent::{DatabaseSource, SecretError, Secrets};
use bytes::Bytes;
use domain::action::Assignment;
use domain::artifact::ArtifactDigest;
use domain::id::{NodeId, TenantId};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use crate::client::{CallError, Client, unreachable};
use crate::shape::{AskArtifact, AskDatabase, AskSecret, RequestedValue};

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

/// An answer that takes a while.
type Fetch<'a, T> = Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

impl ArtifactSource for Link {
    fn newest<'a>(&'a self, assignment: &'a Assignment) -> Fetch<'a, ArtifactDigest> {
        Box::pin(async move {
            let (run, fence) = (assignment.run, assignment.fence);
            let question = |session| AskArtifact { session, run, fence, digest: None };
            let told = self.ask("artifact-digest", question).await;
            let told = told.map_err(FetchError::Unavailable)?;
            let none = || FetchError::Unknown("the tenant has no such artifact".to_owned());
            let digest = told.ok_or_else(none)?;
            digest.parse().map_err(|error| FetchError::Unavailable(format!("{error}")))
        })
    }

    fn open<'a>(
        &'a self,
        assignment: &'a Assignment,
        digest: ArtifactDigest,
    ) -> Fetch<'a, Box<dyn ArtifactChunks>> {
        Box::pin(async move {
            let away = || FetchError::Unavailable("no server reachable".to_owned());
            let open = self.open().ok_or_else(away)?;
            let (session, run, fence) = (open.session, assignment.run, assignment.fence);
            let ask = AskArtifact { session, run, fence, digest: Some(digest) };
            match open.client.artifact(&ask).await {
                Ok(response) => Ok(Box::new(ArtifactBody(response)) as Box<dyn ArtifactChunks>),
                Err(error) if error.is("NOT_FOUND") => Err(FetchError::Unknown(error.to_string())),
                Err(error) => Err(FetchError::Unavailable(error.to_string())),
            }
        })
    }
}

/// The content of an artifact on its way from the server.
struct ArtifactBody(reqwest::Response);

impl ArtifactChunks for ArtifactBody {
    fn next(&mut self) -> Fetch<'_, Option<Bytes>> {
        Box::pin(async move {
            let chunk = self.0.chunk().await;
            chunk.map_err(|error| FetchError::Unavailable(unreachable(&error).to_string()))
        })
    }
}
