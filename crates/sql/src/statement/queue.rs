//! Statements about queues.

use domain::raw_json::RawJson;
use jiff::SignedDuration;
use serde_json::{Map, Value};

use super::{Spanned, Verb};

/// CREATE, ALTER and DROP QUEUE.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStatement {
    /// The operation.
    pub verb: Verb,
    /// The name of the queue.
    pub name: Spanned<String>,
    /// The new name.
    pub rename: Option<Spanned<String>>,
    /// The settings that it names, as a merge patch (RFC 7396) of the queue's REST fields.
    pub changes: Map<String, Value>,
    /// Whether DROP cancels the messages that have not ended: PURGE.
    pub purge: bool,
}

/// SEND TO: one message.
#[derive(Clone, Debug, PartialEq)]
pub struct SendStatement {
    /// The name of the queue.
    pub queue: Spanned<String>,
    /// The payload.
    pub payload: RawJson,
    /// The workspace; empty if there is none.
    pub workspace: String,
    /// 0 to 9; that of the queue if absent.
    pub priority: Option<u8>,
    /// No worker gets the message before this time has passed.
    pub delay: Option<SignedDuration>,
    /// A second message with the same key is not recorded.
    pub deduplication_key: Option<String>,
    /// Workers have one message of a key at a time, in order.
    pub ordering_key: Option<String>,
}
