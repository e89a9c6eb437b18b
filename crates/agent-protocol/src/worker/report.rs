//! Sending the output and the results of attempts.
//!
//! Each session sends the output of an attempt from its beginning, because the server of a new
//! session may not have it. A result is sent after the complete output.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agent::output::Stream;
use domain::run::Grant;
use tokio::task::JoinSet;

use super::{AT_ONCE, End, Open, Worker};
use crate::client::CallError;
use crate::shape::{CHUNK_BYTES_MAX, Ended};

/// How much output is read at once: the framed piece is a little longer.
const PIECE_BYTES: usize = CHUNK_BYTES_MAX / 4;

/// The maximum number of results in one call.
const RESULTS_MAX: usize = 100;

/// The timeout of reporting results: the server writes them to its store.
const SETTLING: Duration = Duration::from_secs(10);

/// A piece of output in the protocol: for each section of one stream a byte with the stream, four
/// bytes with its length, and the text.
pub(super) fn framed(bytes: &[u8], streams: &[(Stream, usize)]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(bytes.len() + streams.len() * 5);
    let mut rest = bytes;
    for (stream, length) in streams {
        let (text, more) = rest.split_at((*length).min(rest.len()));
        framed.push(u8::from(*stream == Stream::Stderr));
        framed.extend((text.len() as u32).to_le_bytes());
        framed.extend(text);
        rest = more;
    }
    framed
}

impl Worker {
    /// Sends output and results as long as the session lasts.
    pub(super) async fn report(self: &Arc<Self>, open: &Open) -> End {
        let mut shipping: HashSet<Grant> = HashSet::new();
        let mut shipped: HashSet<Grant> = HashSet::new();
        let mut ships: JoinSet<Result<Grant, CallError>> = JoinSet::new();
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            for (grant, attempt) in self.begun(open) {
                if shipping.insert(grant) {
                    let (worker, open) = (Arc::clone(self), open.clone());
                    ships.spawn(async move { worker.ship(&open, grant, attempt).await });
                }
            }
            // Results that ended since the agent joined as a new node.
            if let Err(end) = self.settle_others(&open.client, SETTLING).await {
                return end;
            }
            let ready = self.ready(open, &shipped);
            if !ready.is_empty() {
                if let Err(error) = self.settle(&open.client, open.node, ready, SETTLING).await {
                    return error.into();
                }
                continue;
            }
            tokio::select! {
                () = news => {}
                Some(ended) = ships.join_next() => match ended {
                    Ok(Ok(grant)) => drop(shipped.insert(grant)),
                    Ok(Err(error)) => return error.into(),
                    Err(error) => tracing::error!(%error, "sending output failed"),
                },
            }
        }
    }

    fn begun(&self, open: &Open) -> Vec<(Grant, u32)> {
        let board = self.board();
        let running = board.running.iter().map(|(grant, running)| (*grant, running.attempt));
        let ended = board.ended.values().filter(|kept| kept.node == open.node);
        running.chain(ended.map(|kept| (kept.ended.grant, kept.ended.attempt))).collect()
    }

    /// Ended attempts whose output was sent.
    fn ready(&self, open: &Open, shipped: &HashSet<Grant>) -> Vec<Ended> {
        let board = self.board();
        let ready = board.ended.values().filter(|kept| kept.node == open.node);
        let ready = ready.filter(|kept| shipped.contains(&kept.ended.grant));
        ready.map(|kept| kept.ended.clone()).take(RESULTS_MAX).collect()
    }

    /// Sends the output of an attempt until its end.
    async fn ship(&self, open: &Open, grant: Grant, attempt: u32) -> Result<Grant, CallError> {
        let (mut position, mut sent) = (0, 0);
        let mut follower = self.outputs.follow(grant.run, attempt, 0);
        loop {
            let outputs = self.outputs.clone();
            let read = move || outputs.read(grant.run, attempt, position, PIECE_BYTES, None);
            let slice = match tokio::task::spawn_blocking(read).await {
                Ok(Ok(slice)) => slice,
                problem => {
                    tracing::warn!(run = %grant.run, attempt, ?problem, "output cannot be read");
                    return Ok(grant);
                }
            };
            if slice.bytes.is_empty() {
                if slice.is_final {
                    return Ok(grant);
                }
                follower.changed().await;
                continue;
            }
            let body = framed(&slice.bytes, &slice.streams);
            let took = open.client.output(open.session, grant, sent, body, AT_ONCE).await;
            match took {
                Ok(_) => {}
                // The agent has lost the run; its result will be refused as well.
                Err(error) if error.is("EXECUTION_NOT_FOUND") => return Ok(grant),
                Err(error) => return Err(error),
            }
            sent += slice.bytes.len() as u64;
            position = slice.next;
        }
    }
}
