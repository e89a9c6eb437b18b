//! Dead letters of queues: messages that failed for good, until they are redriven or purged.

use domain::access::{Deed, QueueRight};
use domain::audit::Kind;
use domain::id::RunId;
use domain::job::Job;
use domain::queue::{BATCH_MAX, DEDUPLICATION_MAX, MessageBody};
use jiff::{SignedDuration, Timestamp};
use store::{AttemptView, Page, RunFilter, RunView, RunsOf};

use super::AuthorizedEngine;
use crate::error::Result;
use crate::queues::Message;

/// How many dead letters are settled with one commit.
const CHUNK: u32 = 500;

/// Result of settling dead letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettledLetters {
    /// How many were settled, or would be.
    pub count: usize,
    /// Whether the queue has more of them than one request settles.
    pub is_more: bool,
}

impl AuthorizedEngine<'_> {
    /// The dead letters of a queue, newest first.
    pub async fn list_dead_messages(
        &self,
        queue: &Job,
        before: Option<RunId>,
        limit: u32,
    ) -> Result<Page<RunView, RunId>> {
        if domain::access::may(self.actor, Deed::SeeRuns(queue.owner)).is_err() {
            self.may_use_queue(queue, QueueRight::Consume)?;
        }
        self.node().list_runs(&dead_letters_of(queue), before, limit).await
    }

    /// The attempts of a message that the actor sees, oldest first.
    pub async fn message_attempts(&self, queue: &Job, id: RunId) -> Result<Vec<AttemptView>> {
        self.message(queue, id).await?;
        self.node().attempts(id).await
    }

    /// Sends dead letters of a queue again: these, or all of them, at most 10,000. With a rate, the
    /// messages become ready one after the other. The deduplication key of each new message is the
    /// letter, so a request that is repeated after a crash sends nothing twice.
    pub async fn redrive_dead_messages(
        &self,
        queue: &Job,
        chosen: Option<&[RunId]>,
        rate_per_second: Option<f64>,
        is_dry_run: bool,
    ) -> Result<SettledLetters> {
        self.may_use_queue(queue, QueueRight::Send)?;
        self.may_use_queue(queue, QueueRight::Consume)?;
        let (mut letters, is_more) = self.dead_messages(queue, chosen).await?;
        let settled = SettledLetters { count: letters.len(), is_more };
        if is_dry_run {
            return Ok(settled);
        }
        // Oldest first.
        letters.sort_unstable_by_key(|letter| letter.id);
        let now = self.node().now();
        let place = |n: usize| ready_at(now, n, rate_per_second);
        for (chunk_number, chunk) in letters.chunks(CHUNK as usize).enumerate() {
            let first = chunk_number * CHUNK as usize;
            let messages =
                chunk.iter().enumerate().map(|(n, letter)| again(letter, place(first + n)));
            let ids: Vec<RunId> = chunk.iter().map(|letter| letter.id).collect();
            self.record_letters(queue, Kind::RunRetried, &ids).await?;
            let sent = self.node().send_messages(queue, messages.collect(), Some(self.actor.user));
            sent.await?;
            // In this order: a crash in between leaves a letter too many, never a message too few.
            self.node().store.acknowledge(&ids).await?;
        }
        self.engine.messages_changed(queue.id);
        Ok(settled)
    }

    /// Removes dead letters from the list: these, or all of them, at most 10,000. They stay in the
    /// history.
    pub async fn purge_dead_messages(
        &self,
        queue: &Job,
        chosen: Option<&[RunId]>,
        is_dry_run: bool,
    ) -> Result<SettledLetters> {
        self.may_use_queue(queue, QueueRight::Consume)?;
        let (letters, is_more) = self.dead_messages(queue, chosen).await?;
        let settled = SettledLetters { count: letters.len(), is_more };
        if is_dry_run {
            return Ok(settled);
        }
        for chunk in letters.chunks(CHUNK as usize) {
            let ids: Vec<RunId> = chunk.iter().map(|letter| letter.id).collect();
            self.record_letters(queue, Kind::DeadLetterAcknowledged, &ids).await?;
            self.node().store.acknowledge(&ids).await?;
        }
        Ok(settled)
    }

    async fn record_letters(&self, queue: &Job, kind: Kind, ids: &[RunId]) -> Result<()> {
        let deed = |id: &RunId| (kind.clone(), Some(queue.id), Some(*id), String::new());
        self.record(ids.iter().map(deed).collect()).await
    }

    /// The dead letters of a request, and whether there are more of them.
    async fn dead_messages(
        &self,
        queue: &Job,
        chosen: Option<&[RunId]>,
    ) -> Result<(Vec<RunView>, bool)> {
        let mut letters = Vec::new();
        if let Some(chosen) = chosen {
            for id in chosen {
                let found = self.node().run(*id).await?;
                letters.extend(found.filter(|run| run.job == queue.id && run.dead_letter));
            }
            return Ok((letters, false));
        }
        let mut before = None;
        loop {
            let filter = dead_letters_of(queue);
            let page = self.node().list_runs(&filter, before, CHUNK).await?;
            letters.extend(page.items);
            before = page.next;
            if before.is_none() || letters.len() >= BATCH_MAX {
                let is_more = before.is_some() || letters.len() > BATCH_MAX;
                letters.truncate(BATCH_MAX);
                return Ok((letters, is_more));
            }
        }
    }
}

fn dead_letters_of(queue: &Job) -> RunFilter {
    RunFilter::new(RunsOf::DeadLetters { tenant: queue.tenant, job: Some(queue.id) })
}

/// When the message after `n` others becomes ready.
fn ready_at(now: Timestamp, n: usize, rate_per_second: Option<f64>) -> Option<Timestamp> {
    let rate = rate_per_second?;
    let delay = SignedDuration::from_micros((n as f64 / rate * 1e6).min(1e15) as i64);
    now.saturating_add(delay).ok()
}

/// The message that repeats a dead letter.
fn again(letter: &RunView, process_after: Option<Timestamp>) -> Message {
    let body = letter.parameters.as_deref().and_then(MessageBody::from_parameters);
    let mut body = body.unwrap_or_default();
    body.deduplication_key = Some(format!("redrive {}", letter.id));
    Message {
        body,
        priority: None,
        process_after,
        time_to_live: None,
        deduplication: Some(DEDUPLICATION_MAX),
    }
}
