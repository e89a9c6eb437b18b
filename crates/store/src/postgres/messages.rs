//! Messages: runs of queues, which workers pull.

use std::borrow::Cow;
use std::collections::HashMap;

use domain::id::{JobId, NodeId, RunId};
use domain::run::{AttemptResult, Outcome, Reason};
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::end_alerts::EndAlerts;
use super::pipeline::{Pipeline, values};
use super::row::{at, lane_of, outcome, signed, span_us, text, unsigned, us};
use super::{PostgresStore, first};
use crate::messages::{PROMOTE_MAX, until_token};
use crate::{
    Applied, Cancelled, Extended, HeldLease, LapseKind, Lapsed, LeaseExtension, LeaseRequest,
    Leased, LeasedMessage, Messages, NewMessage, QueueDepth, Result, Sent, SettledMessage, Verdict,
};

impl Messages for PostgresStore {
    async fn send_messages(
        &self,
        queue: JobId,
        max_depth: Option<u64>,
        messages: &[NewMessage],
    ) -> Result<Sent> {
        // Of several messages with one key, the first is recorded.
        let mut firsts: HashMap<&str, RunId> = HashMap::new();
        let mut new: Vec<&NewMessage> = Vec::with_capacity(messages.len());
        for message in messages {
            let id = message.run.id;
            let key = message.deduplication.as_ref().map(|it| it.key.as_str());
            if key.is_none_or(|key| *firsts.entry(key).or_insert(id) == id) {
                new.push(message);
            }
        }
        let keyed: Vec<_> = new
            .iter()
            .filter_map(|message| Some((message.deduplication.as_ref()?, message.run.id.0)))
            .collect();
        let keys: Vec<Cow<'_, str>> = keyed.iter().map(|(it, _)| text(&it.key)).collect();
        let key_runs: Vec<Uuid> = keyed.iter().map(|(_, run)| *run).collect();
        let windows: Vec<i64> = keyed.iter().map(|(it, _)| span_us(it.window)).collect();
        let mut pipeline = Pipeline::default();
        let is_ordered = new.iter().any(|message| message.ordering_key.is_some());
        if is_ordered || max_depth.is_some() {
            pipeline.push(sql!("message_lock"), values![queue.0]);
        }
        if !keys.is_empty() {
            let values = values![queue.0, keys.clone(), key_runs.clone(), windows];
            pipeline.push(sql!("message_key_put"), values);
        }
        let most = max_depth.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
        let sent = pipeline.push(sql!("message_send"), columns(queue, most, &new));
        let known = (!keys.is_empty()).then(|| {
            let values = values![queue.0, keys.clone(), key_runs.clone()];
            pipeline.push(sql!("message_key_drop"), values);
            pipeline.push(sql!("message_key_list"), values![queue.0, keys.clone()])
        });
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let known: HashMap<String, RunId> = known
            .into_iter()
            .flat_map(|step| &answers[step])
            .map(|row| Ok((row.try_get(0)?, RunId(row.try_get(1)?))))
            .collect::<Result<_>>()?;
        let row = first(answers.swap_remove(sent))?;
        if !row.try_get::<_, bool>(0)? {
            return Ok(Sent::NoQueue);
        }
        if row.try_get::<_, bool>(1)? {
            return Ok(Sent::Full);
        }
        self.shared.signal.send();
        let id_of = |message: &NewMessage| {
            let own = message.run.id;
            let key = message.deduplication.as_ref().map(|it| text(&it.key));
            let id = key.and_then(|key| known.get(key.as_ref()).copied()).unwrap_or(own);
            (id, id == own)
        };
        Ok(Sent::Done(messages.iter().map(id_of).collect()))
    }

    async fn lease_messages(&self, request: &LeaseRequest) -> Result<Leased> {
        let queue = request.queue.0;
        let workspaces: Vec<Cow<'_, str>> =
            request.weights.iter().map(|(workspace, _)| text(workspace)).collect();
        let weights: Vec<i32> = request.weights.iter().map(|(_, weight)| signed(*weight)).collect();
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("message_lock"), values![queue]);
        pipeline.push(sql!("message_promote"), values![queue, PROMOTE_MAX]);
        let values = values![
            queue,
            i64::from(request.max),
            span_us(request.lease),
            request.node.0,
            request.concurrency.map(i64::from),
            request.workspace_concurrency.map(i64::from),
            request.rate_per_second,
            workspaces,
            weights,
            request.time_limit.map(span_us),
        ];
        let lease = pipeline.push(sql!("message_lease"), values);
        let next = pipeline.push(sql!("message_next_at"), values![queue]);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        let row = first(answers.swap_remove(next))?;
        let messages = answers[lease].iter().map(leased).collect::<Result<_>>()?;
        let (mut next_at, now): (Option<i64>, i64) = (row.try_get(0)?, row.try_get(2)?);
        if let (Some(rate), Some(tokens)) =
            (request.rate_per_second, row.try_get::<_, Option<f64>>(1)?)
            && tokens < 1.0
        {
            let allowed = now.saturating_add(until_token(tokens, rate).as_micros() as i64);
            next_at = Some(next_at.map_or(allowed, |next| next.min(allowed)));
        }
        Ok(Leased { messages, next_at: next_at.map(at) })
    }

    async fn extend_leases(&self, leases: &[LeaseExtension]) -> Result<Vec<Option<Extended>>> {
        let ids: Vec<Uuid> = leases.iter().map(|it| it.message.0).collect();
        let fences: Vec<i64> = leases.iter().map(|it| it.fence).collect();
        let queues: Vec<Uuid> = leases.iter().map(|it| it.queue.0).collect();
        let spans: Vec<i64> = leases.iter().map(|it| span_us(it.lease)).collect();
        let limits: Vec<(Option<SignedDuration>, bool)> =
            leases.iter().map(|it| it.time_limit.parts()).collect();
        let replaces: Vec<bool> = limits.iter().map(|(_, replaces)| *replaces).collect();
        let limits: Vec<Option<i64>> = limits.iter().map(|(time, _)| time.map(span_us)).collect();
        let progress: Vec<Option<Cow<'_, str>>> =
            leases.iter().map(|it| it.progress.as_deref().map(text)).collect();
        let values = values![ids, fences, queues, spans, limits, replaces, progress];
        let mut extended: HashMap<(Uuid, i64, Uuid), Extended> = HashMap::new();
        for row in self.shared.query(sql!("message_extend"), values).await? {
            let extension = Extended { until: at(row.try_get(2)?), is_cancelled: row.try_get(3)? };
            extended.insert((row.try_get(0)?, row.try_get(1)?, row.try_get(4)?), extension);
        }
        let answer =
            |it: &LeaseExtension| extended.get(&(it.message.0, it.fence, it.queue.0)).copied();
        Ok(leases.iter().map(answer).collect())
    }

    async fn ready_queues(&self, queues: &[JobId]) -> Result<Vec<JobId>> {
        let ids: Vec<Uuid> = queues.iter().map(|queue| queue.0).collect();
        let rows = self.shared.query(sql!("message_ready_queues"), values![ids]).await?;
        rows.iter().map(|row| Ok(JobId(row.try_get(0)?))).collect()
    }

    async fn held_leases(&self, queue: JobId, leases: &[(RunId, i64)]) -> Result<Vec<HeldLease>> {
        let (ids, fences) = split(leases);
        let rows = self.shared.query(sql!("message_held"), values![ids, fences, queue.0]).await?;
        let held = |row: &Row| {
            Ok(HeldLease { message: RunId(row.try_get(0)?), attempts: unsigned(row.try_get(1)?) })
        };
        rows.iter().map(held).collect()
    }

    async fn settle_messages(
        &self,
        node: NodeId,
        settled: &[SettledMessage],
    ) -> Result<Vec<Applied>> {
        let mut ordered: Vec<&SettledMessage> = settled.iter().collect();
        // Two of these meet in the order of their ids.
        ordered.sort_by_key(|it| it.message);
        let mut pipeline = Pipeline::default();
        let ids: Vec<Uuid> = ordered.iter().map(|it| it.message.0).collect();
        pipeline.push(sql!("message_lock_ordered"), values![ids]);
        let (mut ends, mut agains) = (Ends::default(), Agains::default());
        let mut alerts = EndAlerts::default();
        for it in ordered {
            match &it.verdict {
                Verdict::End { outcome, reason, dead_letter } => {
                    ends.push(it, *outcome, reason.as_ref(), *dead_letter, false);
                    alerts.push(it.message, *outcome, reason.as_ref(), *dead_letter);
                }
                Verdict::Retry { delay } => {
                    ends.push(it, Outcome::Cancelled, None, false, true);
                    agains.push(it, Some(span_us(*delay)));
                }
                Verdict::Release
                | Verdict::Wait(..)
                | Verdict::Line { .. }
                | Verdict::Hold { .. } => {
                    ends.push(it, Outcome::Cancelled, None, false, true);
                    agains.push(it, None);
                }
            }
        }
        let ended = ends.into_step(&mut pipeline, node);
        let again = agains.into_step(&mut pipeline, node);
        keep_outputs(settled, &mut pipeline);
        alerts.into_step(&mut pipeline);
        let answers = pipeline.commit(&self.shared.pool).await?;
        let mut applied: HashMap<Uuid, Applied> = HashMap::with_capacity(settled.len());
        for row in &answers[ended] {
            applied.insert(row.try_get(0)?, Applied::Ended(outcome(row.try_get(1)?)?));
        }
        for row in again.into_iter().flat_map(|step| &answers[step]) {
            applied.insert(row.try_get(0)?, Applied::Again);
        }
        self.shared.signal.send();
        self.settled_before(settled, applied).await
    }

    async fn lapsed_messages(&self, limit: u32) -> Result<Vec<Lapsed>> {
        let rows = self.shared.query(sql!("message_lapsed"), values![i64::from(limit)]).await?;
        let lapsed = |row: &Row| {
            Ok(Lapsed {
                kind: match row.try_get::<_, i16>(0)? {
                    0 => LapseKind::Lease,
                    1 => LapseKind::TimeToLive,
                    3 => LapseKind::TimeLimit,
                    _ => LapseKind::QueueDeleted,
                },
                message: RunId(row.try_get(1)?),
                queue: JobId(row.try_get(2)?),
                fence: row.try_get(3)?,
                attempts: unsigned(row.try_get(4)?),
            })
        };
        rows.iter().map(lapsed).collect()
    }

    async fn cancel_message(
        &self,
        queue: JobId,
        message: RunId,
        reason: &Reason,
        by: &str,
    ) -> Result<Cancelled> {
        let id = message.0;
        let verdict = Verdict::End {
            outcome: Outcome::Cancelled,
            reason: Some(reason.clone()),
            dead_letter: false,
        };
        let unleased = SettledMessage {
            queue,
            message,
            fence: None,
            verdict,
            result: None,
            is_forgotten: false,
        };
        let mut pipeline = Pipeline::default();
        pipeline.push(sql!("message_lock_ordered"), values![vec![id]]);
        let values = values![id, reason.code.name(), text(&reason.text), queue.0];
        let asked = pipeline.push(sql!("message_cancel"), values);
        let mut ends = Ends::default();
        ends.push(&unleased, Outcome::Cancelled, Some(reason), false, false);
        let ended = ends.into_step(&mut pipeline, NodeId(Uuid::nil()));
        let by = text(by).into_owned();
        pipeline.push(sql!("audit_cancel"), values![id, by, text(&reason.text)]);
        let state = pipeline.push(sql!("message_state"), values![id, queue.0]);
        let mut answers = pipeline.commit(&self.shared.pool).await?;
        self.shared.signal.send();
        if !answers[ended].is_empty() {
            return Ok(Cancelled::Ended);
        }
        if let Some(row) = answers[asked].first() {
            return Ok(Cancelled::Requested(NodeId(row.try_get(0)?)));
        }
        let row = first(answers.swap_remove(state))?;
        Ok(match row.try_get::<_, Option<i16>>(0)? {
            Some(number) => Cancelled::EndedBefore(outcome(number)?),
            None => Cancelled::NotFound,
        })
    }

    async fn queue_depths(&self, queues: &[JobId]) -> Result<Vec<QueueDepth>> {
        let ids: Vec<Uuid> = queues.iter().map(|queue| queue.0).collect();
        let rows = self.shared.query(sql!("message_counts"), values![ids]).await?;
        let depth = |row: &Row| {
            let count = |column: usize| row.try_get(column).map(i64::cast_unsigned);
            Ok(QueueDepth {
                ready: count(1)?,
                delayed: count(2)?,
                leased: count(3)?,
                blocked: count(4)?,
                oldest_ready: row.try_get::<_, Option<i64>>(5)?.map(at),
            })
        };
        rows.iter().map(depth).collect()
    }

    async fn forget_message_keys(&self, limit: u32) -> Result<u64> {
        let values = values![i64::from(limit)];
        let gone: i64 =
            self.shared.query_one(sql!("message_key_forget"), values).await?.try_get(0)?;
        Ok(gone.cast_unsigned())
    }
}

impl PostgresStore {
    /// A report that found no lease was either sent before, or comes too late.
    async fn settled_before(
        &self,
        settled: &[SettledMessage],
        applied: HashMap<Uuid, Applied>,
    ) -> Result<Vec<Applied>> {
        let unknown = settled.iter().filter(|it| !applied.contains_key(&it.message.0));
        let (mut ids, mut fences, mut queues) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends: Vec<Option<i16>> = Vec::new();
        for it in unknown {
            if let Some(fence) = it.fence {
                ids.push(it.message.0);
                fences.push(fence);
                queues.push(it.queue.0);
                ends.push(it.result.as_ref().map(|result| result.end as i16));
            }
        }
        let mut before: HashMap<Uuid, Option<Outcome>> = HashMap::new();
        if !ids.is_empty() {
            let values = values![ids, fences, queues, ends];
            for row in self.shared.query(sql!("message_known"), values).await? {
                let ended = row.try_get::<_, Option<i16>>(1)?.map(outcome).transpose()?;
                before.insert(row.try_get(0)?, ended);
            }
        }
        let answer = |it: &SettledMessage| {
            let goes_on = matches!(it.verdict, Verdict::Retry { .. } | Verdict::Release);
            applied.get(&it.message.0).copied().unwrap_or(match before.get(&it.message.0) {
                Some(Some(outcome)) => Applied::Ended(*outcome),
                Some(None) if goes_on => Applied::Again,
                _ => Applied::Stale,
            })
        };
        Ok(settled.iter().map(answer).collect())
    }
}

/// Keeps the outputs of attempts that are recorded with this.
fn keep_outputs<'a>(settled: &'a [SettledMessage], pipeline: &mut Pipeline<'a>) {
    let (mut ids, mut fences, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for it in settled {
        let output = it.result.as_ref().and_then(|result| result.output.as_deref());
        if let (Some(output), Some(fence)) = (output, it.fence) {
            ids.push(it.message.0);
            fences.push(fence);
            frames.push(output);
        }
    }
    if !ids.is_empty() {
        pipeline.push(sql!("message_output"), values![ids, fences, frames]);
    }
}

fn split(leases: &[(RunId, i64)]) -> (Vec<Uuid>, Vec<i64>) {
    leases.iter().map(|(id, fence)| (id.0, *fence)).unzip()
}

/// run_id, fence, workspace, parameters, priority, attempt, scheduled_for, at, created_at
fn leased(row: &Row) -> Result<LeasedMessage> {
    let until: Timestamp = at(row.try_get(7)?);
    Ok(LeasedMessage {
        id: RunId(row.try_get(0)?),
        fence: row.try_get(1)?,
        workspace: row.try_get(2)?,
        parameters: row.try_get(3)?,
        priority: row.try_get::<_, i16>(4)?.clamp(0, 9) as u8,
        attempt: unsigned(row.try_get(5)?),
        scheduled_for: at(row.try_get(6)?),
        created_at: at(row.try_get(8)?),
        lease_until: until,
    })
}

/// The values of `message_send`.
fn columns<'a>(
    queue: JobId,
    most: Option<i64>,
    new: &[&'a NewMessage],
) -> Vec<super::pipeline::Value<'a>> {
    fn of<'a, T>(new: &[&'a NewMessage], value: impl Fn(&'a NewMessage) -> T) -> Vec<T> {
        new.iter().map(|message| value(message)).collect()
    }
    values![
        queue.0,
        most,
        of(new, |it| it.run.id.0),
        of(new, |it| it.run.tenant.0),
        of(new, |it| signed(it.run.job_version)),
        of(new, |it| us(it.run.scheduled_for)),
        of(new, |it| us(it.run.due_at)),
        of(new, |it| lane_of(&it.run)),
        of(new, |it| it.run.parameters.as_deref().map(text)),
        of(new, |it| it.run.requested_by.map(|user| user.0)),
        of(new, |it| text(&it.workspace)),
        of(new, |it| i16::from(9 - it.run.priority.min(9))),
        of(new, |it| it.ordering_key.as_deref().map(text)),
        of(new, |it| it.expires_at.map(us)),
        of(new, |it| it.deduplication.as_ref().map(|it| text(&it.key))),
    ]
}

/// The values of `message_end`.
#[derive(Default)]
struct Ends<'a> {
    ids: Vec<Uuid>,
    queues: Vec<Uuid>,
    fences: Vec<Option<i64>>,
    if_cancelled: Vec<bool>,
    outcomes: Vec<i16>,
    reasons: Vec<Option<&'static str>>,
    reason_texts: Vec<Option<Cow<'a, str>>>,
    dead_letters: Vec<bool>,
    attempts: Attempts<'a>,
    results: Vec<Option<Cow<'a, str>>>,
    forgotten: Vec<bool>,
}

impl<'a> Ends<'a> {
    fn push(
        &mut self,
        it: &'a SettledMessage,
        outcome: Outcome,
        reason: Option<&'a Reason>,
        dead_letter: bool,
        if_cancelled: bool,
    ) {
        self.ids.push(it.message.0);
        self.queues.push(it.queue.0);
        self.fences.push(it.fence);
        self.if_cancelled.push(if_cancelled);
        self.outcomes.push(outcome as i16);
        self.reasons.push(reason.map(|reason| reason.code.name()));
        self.reason_texts.push(reason.map(|reason| text(&reason.text)));
        self.dead_letters.push(dead_letter);
        self.attempts.push(it.result.as_ref());
        let result = it.result.as_ref().and_then(|result| result.result.as_deref());
        self.results.push(result.map(text));
        self.forgotten.push(it.is_forgotten);
    }

    fn into_step(self, pipeline: &mut Pipeline<'a>, node: NodeId) -> usize {
        let Attempts { ends, messages, errors } = self.attempts;
        let values = values![
            node.0,
            self.ids,
            self.fences,
            self.if_cancelled,
            self.outcomes,
            self.reasons,
            self.reason_texts,
            self.dead_letters,
            ends,
            messages,
            errors,
            self.results,
            self.queues,
            self.forgotten,
        ];
        pipeline.push(sql!("message_end"), values)
    }
}

/// The values of `message_again`.
#[derive(Default)]
struct Agains<'a> {
    ids: Vec<Uuid>,
    queues: Vec<Uuid>,
    fences: Vec<Option<i64>>,
    delays: Vec<Option<i64>>,
    attempts: Attempts<'a>,
}

impl<'a> Agains<'a> {
    fn push(&mut self, it: &'a SettledMessage, delay: Option<i64>) {
        self.ids.push(it.message.0);
        self.queues.push(it.queue.0);
        self.fences.push(it.fence);
        self.delays.push(delay);
        self.attempts.push(it.result.as_ref());
    }

    fn into_step(self, pipeline: &mut Pipeline<'a>, node: NodeId) -> Option<usize> {
        if self.ids.is_empty() {
            return None;
        }
        let Attempts { ends, messages, errors } = self.attempts;
        let Agains { ids, queues, fences, delays, .. } = self;
        let values = values![node.0, ids, fences, delays, ends, messages, errors, queues];
        Some(pipeline.push(sql!("message_again"), values))
    }
}

/// How attempts ended, by column.
#[derive(Default)]
struct Attempts<'a> {
    ends: Vec<Option<i16>>,
    messages: Vec<Option<Cow<'a, str>>>,
    errors: Vec<Option<String>>,
}

impl<'a> Attempts<'a> {
    fn push(&mut self, result: Option<&'a AttemptResult>) {
        self.ends.push(result.map(|result| result.end as i16));
        let message = result.map(|result| result.message.as_str()).filter(|it| !it.is_empty());
        self.messages.push(message.map(text));
        let error = result.and_then(|result| result.error.as_ref());
        self.errors.push(error.map(ToString::to_string));
    }
}
