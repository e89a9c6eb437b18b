//! Messages: runs of queues, which workers pull.

use std::collections::HashMap;

use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::Reason;
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, Row};
use uuid::Uuid;

use super::row::{at, at_opt, us};
use super::writer::Tx;
use super::{SqliteStore, rows, runs};
use crate::messages::{PROMOTE_MAX, refilled, share, state, until_token};
use crate::{
    Applied, Cancelled, Extended, HeldLease, LapseKind, Lapsed, LeaseExtension, LeaseRequest,
    Leased, LeasedMessage, Messages, NewMessage, QueueDepth, Result, Sent, SettledMessage,
};

impl Messages for SqliteStore {
    async fn send_messages(
        &self,
        queue: JobId,
        max_depth: Option<u64>,
        messages: &[NewMessage],
    ) -> Result<Sent> {
        let sent = self.writer.send_messages(queue, max_depth, messages.to_vec()).await;
        self.changed.notify_waiters();
        sent
    }

    async fn lease_messages(&self, request: &LeaseRequest) -> Result<Leased> {
        self.writer.lease_messages(Box::new(request.clone())).await
    }

    async fn extend_leases(&self, leases: &[LeaseExtension]) -> Result<Vec<Option<Extended>>> {
        self.writer.extend_leases(leases.to_vec()).await
    }

    async fn ready_queues(&self, queues: &[JobId]) -> Result<Vec<JobId>> {
        let (mut queues, now) = (queues.to_vec(), us(self.clock.now()));
        self.prompt
            .read(move |connection| {
                let mut query = connection.prepare_cached(sql!("message_is_ready"))?;
                let mut is_ready = |queue: JobId| -> rusqlite::Result<bool> {
                    query.query_row((queue.0, now), |row| row.get(0))
                };
                let mut ready = Vec::new();
                for queue in queues.drain(..) {
                    if is_ready(queue)? {
                        ready.push(queue);
                    }
                }
                Ok(ready)
            })
            .await
    }

    async fn held_leases(&self, queue: JobId, leases: &[(RunId, i64)]) -> Result<Vec<HeldLease>> {
        let leases = leases.to_vec();
        self.prompt
            .read(move |connection| {
                let mut held = Vec::with_capacity(leases.len());
                for (id, fence) in leases {
                    let Some(message) = Message::find(connection, id)? else { continue };
                    if message.queue == queue && message.is_leased_under(fence) {
                        let attempts = message.attempts + message.lost;
                        held.push(HeldLease { message: id, attempts });
                    }
                }
                Ok(held)
            })
            .await
    }

    async fn settle_messages(
        &self,
        node: NodeId,
        settled: &[SettledMessage],
    ) -> Result<Vec<Applied>> {
        let applied = self.writer.settle_messages(node, settled.to_vec()).await;
        self.changed.notify_waiters();
        applied
    }

    async fn lapsed_messages(&self, limit: u32) -> Result<Vec<Lapsed>> {
        let now = us(self.clock.now());
        self.prompt.read(move |connection| lapsed(connection, now, limit)).await
    }

    async fn cancel_message(
        &self,
        queue: JobId,
        message: RunId,
        reason: &Reason,
        by: &str,
    ) -> Result<Cancelled> {
        let (reason, by) = (reason.clone(), by.to_owned());
        let cancelled = self.writer.cancel_message(queue, message, reason, by).await;
        self.changed.notify_waiters();
        cancelled
    }

    async fn queue_depths(&self, queues: &[JobId]) -> Result<Vec<QueueDepth>> {
        let queues = queues.to_vec();
        self.read(move |connection| {
            queues.into_iter().map(|queue| depth(connection, queue)).collect()
        })
        .await
    }

    async fn forget_message_keys(&self, limit: u32) -> Result<u64> {
        self.writer.forget_message_keys(limit).await
    }
}

pub(super) fn forget_keys(tx: &Tx<'_>, limit: u32) -> Result<u64> {
    let mut forget = tx.connection.prepare_cached(sql!("message_key_forget"))?;
    Ok(forget.execute((tx.now_us(), limit))? as u64)
}

pub(super) fn extend(tx: &Tx<'_>, leases: &[LeaseExtension]) -> Result<Vec<Option<Extended>>> {
    leases.iter().map(|it| extend_one(tx, it)).collect()
}

fn extend_one(tx: &Tx<'_>, it: &LeaseExtension) -> Result<Option<Extended>> {
    let (time_limit, replaces) = it.time_limit.parts();
    let deadline = time_limit.map(|time| us(after(tx, time)));
    let mut extend = tx.connection.prepare_cached(sql!("message_extend"))?;
    let values = (
        it.message.0,
        it.fence,
        us(after(tx, it.lease)),
        it.queue.0,
        tx.now_us(),
        deadline,
        replaces,
        &it.progress,
    );
    let found = extend.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let extended =
        |(until, is_cancelled): (i64, bool)| Ok(Extended { until: at(until)?, is_cancelled });
    found.map(extended).transpose()
}

fn after(tx: &Tx<'_>, time: SignedDuration) -> Timestamp {
    tx.now.saturating_add(time).unwrap_or(Timestamp::MAX)
}

/// A message that has not ended.
pub(super) struct Message {
    pub seq: i64,
    pub queue: JobId,
    pub state: i16,
    pub order_at: i64,
    pub ordering_key: Option<String>,
    pub fence: Option<i64>,
    pub leased_at: Option<i64>,
    pub tenant: TenantId,
    pub attempts: u32,
    pub lost: u32,
    pub cancel: Option<(String, String)>,
}

impl Message {
    pub fn find(connection: &Connection, id: RunId) -> Result<Option<Self>> {
        let mut query = connection.prepare_cached(sql!("message_held"))?;
        Ok(query.query_row((id.0,), Message::from_row).optional()?)
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Message {
            seq: row.get(0)?,
            queue: JobId(row.get(1)?),
            state: row.get(2)?,
            order_at: row.get(3)?,
            ordering_key: row.get(4)?,
            fence: row.get(5)?,
            leased_at: row.get(6)?,
            tenant: TenantId(row.get(7)?),
            attempts: row.get(8)?,
            lost: row.get(9)?,
            cancel: row.get::<_, Option<String>>(10)?.zip(row.get(11)?),
        })
    }

    pub fn is_leased_under(&self, fence: i64) -> bool {
        self.state == state::LEASED && self.fence == Some(fence)
    }
}

pub(super) fn send(
    tx: &mut Tx<'_>,
    queue: JobId,
    max_depth: Option<u64>,
    messages: &[NewMessage],
) -> Result<Sent> {
    let query = |sql| tx.connection.prepare_cached(sql);
    let found: Option<String> =
        query(sql!("message_queue_state"))?.query_row((queue.0,), |row| row.get(0)).optional()?;
    if found.is_none_or(|state| state == "DELETED") {
        return Ok(Sent::NoQueue);
    }
    let now = tx.now_us();
    // The id of each message: a new one, or that of the message that was sent before.
    let mut known: HashMap<&str, RunId> = HashMap::new();
    let mut ids = Vec::with_capacity(messages.len());
    let mut new: Vec<&NewMessage> = Vec::with_capacity(messages.len());
    let mut find_key = query(sql!("message_key_known"))?;
    for message in messages {
        let id = message.run.id;
        let Some(key) = message.deduplication.as_ref().map(|it| it.key.as_str()) else {
            ids.push((id, true));
            new.push(message);
            continue;
        };
        let before = match known.get(key) {
            Some(before) => Some(*before),
            None => {
                find_key.query_row((queue.0, key, now), |row| row.get(0).map(RunId)).optional()?
            }
        };
        ids.push((before.unwrap_or(id), before.is_none()));
        known.insert(key, before.unwrap_or(id));
        if before.is_none() {
            new.push(message);
        }
    }
    if let Some(most) = max_depth {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let depth: i64 =
            query(sql!("message_depth"))?.query_row((queue.0, most), |row| row.get(0))?;
        if !new.is_empty() && depth.saturating_add(new.len() as i64) > most {
            return Ok(Sent::Full);
        }
    }
    let mut put_key = query(sql!("message_key_put"))?;
    for message in &new {
        if let Some(it) = &message.deduplication {
            let until = us(tx.now.saturating_add(it.window).unwrap_or(Timestamp::MAX));
            put_key.execute((queue.0, &it.key, message.run.id.0, until))?;
        }
    }
    drop((find_key, put_key));
    record(tx, queue, &new)?;
    Ok(Sent::Done(ids))
}

fn record(tx: &mut Tx<'_>, queue: JobId, new: &[&NewMessage]) -> Result<()> {
    let places = runs::submit_pulled(tx, new.iter().map(|message| &message.run).collect())?;
    let mut has_key = tx.connection.prepare_cached(sql!("message_has_key"))?;
    let mut states = Vec::with_capacity(new.len());
    let mut seen: HashMap<&str, bool> = HashMap::new();
    for message in new {
        let is_blocked = match message.ordering_key.as_deref() {
            Some(key) => match seen.insert(key, true) {
                Some(_) => true,
                None => has_key.exists((queue.0, key))?,
            },
            None => false,
        };
        states.push(match is_blocked {
            true => state::BLOCKED,
            false if message.run.due_at > tx.now => state::DELAYED,
            false => state::READY,
        });
    }
    let all: Vec<_> = new.iter().zip(&states).zip(&places).collect();
    rows::insert(tx.connection, sql!("message_insert"), &all, |it, values| {
        let ((message, state), (seq, order_at)) = it;
        values.push(seq)?;
        values.push(message.run.id.0)?;
        values.push(queue.0)?;
        values.push(&message.workspace)?;
        values.push(9 - message.run.priority.min(9))?;
        values.push(**state)?;
        values.push(us(message.run.due_at))?;
        values.push(order_at)?;
        values.push(&message.ordering_key)?;
        values.push(message.expires_at.map(us))
    })?;
    Ok(())
}

pub(super) fn lease(tx: &mut Tx<'_>, request: &LeaseRequest) -> Result<Leased> {
    let (queue, now) = (request.queue.0, tx.now_us());
    let query = |sql| tx.connection.prepare_cached(sql);
    let found: Option<String> =
        query(sql!("message_queue_state"))?.query_row((queue,), |row| row.get(0)).optional()?;
    if found.as_deref() != Some("ENABLED") {
        return Ok(Leased { messages: Vec::new(), next_at: None });
    }
    query(sql!("message_promote"))?.execute((queue, now, PROMOTE_MAX))?;
    let cursor = query(sql!("queue_cursor"))?
        .query_row((queue,), |row| {
            let turn = Turn { workspace: row.get(0)?, served: row.get(1)? };
            Ok((turn, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let (turn, tokens, refilled_at): (Turn, f64, i64) =
        cursor.unwrap_or((Turn::default(), f64::MAX, now));
    let mut max = request.max;
    if let Some(most) = request.concurrency {
        let leased: u32 =
            query(sql!("message_leased"))?.query_row((queue, most), |row| row.get(0))?;
        max = max.min(most.saturating_sub(leased));
    }
    let tokens = match request.rate_per_second {
        Some(rate) => refilled(tokens, now - refilled_at, rate),
        None => f64::MAX,
    };
    max = max.min(tokens.clamp(0.0, f64::from(u32::MAX)).floor() as u32);
    let (chosen, last) = choose(tx, request, &turn, max)?;
    let messages = take(tx, request, &chosen)?;
    let left = tokens - messages.len() as f64;
    if request.rate_per_second.is_some() || last != turn {
        let tokens = if request.rate_per_second.is_some() { left } else { f64::MAX };
        let values = (queue, &last.workspace, last.served, tokens, now);
        tx.connection.prepare_cached(sql!("queue_cursor_put"))?.execute(values)?;
    }
    let mut next_at: Option<i64> = tx
        .connection
        .prepare_cached(sql!("message_next_at"))?
        .query_row((queue,), |row| row.get(0))?;
    if let Some(rate) = request.rate_per_second.filter(|_| left < 1.0) {
        let allowed = now.saturating_add(until_token(left, rate).as_micros() as i64);
        next_at = Some(next_at.map_or(allowed, |next| next.min(allowed)));
    }
    Ok(Leased { messages, next_at: at_opt(next_at)? })
}

/// The workspace that was served last, and how many messages it got in that turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Turn {
    workspace: String,
    served: u32,
}

/// A message that may be leased.
struct Dealt {
    round: u32,
    /// The place of its workspace in the round.
    place: usize,
    seq: i64,
}

/// The messages that go first, and the last turn: workspaces take turns, beginning with the one
/// that was served last if it got fewer messages than its weight, otherwise after it.
fn choose(tx: &Tx<'_>, request: &LeaseRequest, turn: &Turn, max: u32) -> Result<(Vec<i64>, Turn)> {
    if max == 0 {
        return Ok((Vec::new(), turn.clone()));
    }
    let weights: HashMap<&str, u32> =
        request.weights.iter().map(|(workspace, weight)| (workspace.as_str(), *weight)).collect();
    let weight_of = |workspace: &str| weights.get(workspace).copied().unwrap_or(1).max(1);
    // Rest of the weight of the workspace that was served last.
    let carry = match turn.served {
        0 => 0,
        served => weight_of(&turn.workspace).saturating_sub(served),
    };
    let queue = request.queue.0;
    let query = |sql| tx.connection.prepare_cached(sql);
    let mut step = query(sql!("message_workspace_next"))?;
    let mut first = query(sql!("message_workspace_first"))?;
    let mut has_ready = query(sql!("message_workspace_has_ready"))?;
    let mut leased = query(sql!("message_leased_of_workspace"))?;
    // How many more messages a workspace may have.
    let mut free = |workspace: &str| -> Result<u32> {
        let Some(most) = request.workspace_concurrency else { return Ok(max) };
        let held: u32 = leased.query_row((queue, workspace, most), |row| row.get(0))?;
        Ok(most.saturating_sub(held))
    };
    // A workspace that has as many as it may is passed over and not counted.
    let mut workspaces: Vec<(String, u32)> = Vec::new();
    if carry > 0 && has_ready.exists((queue, &turn.workspace))? {
        let free = free(&turn.workspace)?;
        workspaces.extend((free > 0).then(|| (turn.workspace.clone(), free)));
    }
    let is_carried = !workspaces.is_empty();
    let mut next: Option<String> =
        step.query_row((queue, &turn.workspace), |row| row.get(0)).optional()?;
    while let Some(workspace) = next.filter(|_| workspaces.len() < max as usize) {
        next = step.query_row((queue, &workspace), |row| row.get(0)).optional()?;
        let free = free(&workspace)?;
        workspaces.extend((free > 0).then_some((workspace, free)));
    }
    // From the beginning up to the one that was served last.
    next = first.query_row((queue,), |row| row.get(0)).optional()?;
    let is_earlier =
        |next: &String| *next < turn.workspace || *next == turn.workspace && !is_carried;
    while let Some(workspace) =
        next.filter(|next| is_earlier(next) && workspaces.len() < max as usize)
    {
        next = step.query_row((queue, &workspace), |row| row.get(0)).optional()?;
        let free = free(&workspace)?;
        workspaces.extend((free > 0).then_some((workspace, free)));
    }
    let share = share(max, workspaces.len());
    let mut front = query(sql!("message_front"))?;
    let mut dealt: Vec<Dealt> = Vec::new();
    for (place, (workspace, free)) in workspaces.iter().enumerate() {
        let weight = weight_of(workspace);
        let limit = share.saturating_mul(weight).min(max).min(*free);
        let mut rows = front.query((queue, workspace, tx.now_us(), limit))?;
        // A turn that goes on has begun with the messages that the workspace got before.
        let mut nth = if is_carried && place == 0 { weight - carry } else { 0 };
        while let Some(row) = rows.next()? {
            dealt.push(Dealt { round: nth / weight, place, seq: row.get(0)? });
            nth += 1;
        }
    }
    // The sort is stable: messages of a workspace stay in their order.
    dealt.sort_by_key(|dealt| (dealt.round, dealt.place));
    dealt.truncate(max as usize);
    let Some(last) = dealt.last() else { return Ok((Vec::new(), turn.clone())) };
    let of_turn = |it: &&Dealt| (it.round, it.place) == (last.round, last.place);
    let goes_on = is_carried && (last.round, last.place) == (0, 0);
    let before = if goes_on { turn.served } else { 0 };
    let served = before + dealt.iter().filter(of_turn).count() as u32;
    let last = Turn { workspace: workspaces[last.place].0.clone(), served };
    Ok((dealt.into_iter().map(|dealt| dealt.seq).collect(), last))
}

fn take(tx: &Tx<'_>, request: &LeaseRequest, chosen: &[i64]) -> Result<Vec<LeasedMessage>> {
    let deadline = request.time_limit.map(|time| after(tx, time));
    let until = after(tx, request.lease);
    let until = deadline.map_or(until, |deadline| deadline.min(until));
    let mut lease = tx.connection.prepare_cached(sql!("message_lease"))?;
    let mut read = tx.connection.prepare_cached(sql!("message_of_lease"))?;
    let mut messages = Vec::with_capacity(chosen.len());
    for seq in chosen {
        let fence = tx.token_if_due(tx.now);
        let values = (seq, us(until), fence, request.node.0, tx.now_us(), deadline.map(us));
        lease.execute(values)?;
        let message = read.query_row((seq,), |row| {
            Ok(LeasedMessage {
                id: RunId(row.get(0)?),
                fence,
                workspace: row.get(1)?,
                parameters: row.get(2)?,
                priority: row.get(3)?,
                attempt: row.get(4)?,
                scheduled_for: at(row.get(5)?).unwrap_or_default(),
                created_at: at(row.get(6)?).unwrap_or_default(),
                lease_until: until,
            })
        })?;
        messages.push(message);
    }
    Ok(messages)
}

fn lapsed(connection: &Connection, now: i64, limit: u32) -> Result<Vec<Lapsed>> {
    let mut lapsed =
        rows_of(connection, sql!("message_lapsed_leases"), LapseKind::Lease, (now, limit))?;
    let late = sql!("message_lapsed_time");
    lapsed.extend(rows_of(connection, late, LapseKind::TimeToLive, (now, limit))?);
    let mut next = connection.prepare_cached(sql!("message_queue_next"))?;
    let mut last = Uuid::nil();
    loop {
        let found = next.query_row((last,), |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((queue, is_deleted)): Option<(Uuid, bool)> = found else { break };
        if is_deleted {
            let rest = sql!("message_of_queue");
            lapsed.extend(rows_of(connection, rest, LapseKind::QueueDeleted, (queue, limit))?);
        }
        last = queue;
    }
    Ok(lapsed)
}

/// run_id, queue_id, fence, attempts, whether the time limit ended
fn rows_of(
    connection: &Connection,
    sql: &str,
    kind: LapseKind,
    values: impl Params,
) -> Result<Vec<Lapsed>> {
    let mut query = connection.prepare_cached(sql)?;
    let found = query.query_map(values, |row| {
        let is_timeout = kind == LapseKind::Lease && row.get(4)?;
        Ok(Lapsed {
            kind: if is_timeout { LapseKind::TimeLimit } else { kind },
            message: RunId(row.get(0)?),
            queue: JobId(row.get(1)?),
            fence: row.get(2)?,
            attempts: row.get(3)?,
        })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn depth(connection: &Connection, queue: JobId) -> Result<QueueDepth> {
    let mut query = connection.prepare_cached(sql!("message_counts"))?;
    let mut rows = query.query((queue.0,))?;
    let mut depth = QueueDepth::default();
    while let Some(row) = rows.next()? {
        let count = row.get::<_, i64>(1)?.cast_unsigned();
        match row.get(0)? {
            state::READY => {
                depth.ready = count;
                depth.oldest_ready = at_opt(row.get(2)?)?;
            }
            state::DELAYED => depth.delayed = count,
            state::LEASED => depth.leased = count,
            _ => depth.blocked = count,
        }
    }
    Ok(depth)
}
