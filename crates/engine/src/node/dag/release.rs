//! The runs of steps that were released.

use std::sync::Arc;

use domain::access::{Actor, Deed, Privilege, QueueRight};
use domain::action::Action;
use domain::alert::{Alert, AlertKind};
use domain::cluster::Placement;
use domain::dag::call::StepCall;
use domain::dag::state::{Changes, EndedStep, StepKey, StepRecord};
use domain::dag::{
    CALLS_MAX, QUEUE_DEFAULT, RESULT_BYTES_DEFAULT, STEP_TIMEOUT, Step, StepWork, object_text,
};
use domain::id::RunId;
use domain::job::{Definition, Job, Overlap, When};
use domain::partition::Parameters;
use domain::queue::MessageBody;
use domain::run::{
    AttemptResult, ClaimedRun, ErrorCode, NewRun, Origin, Outcome, Reason, ReasonCode,
};
use domain::slot::SlotKind;
use jiff::Timestamp;
use store::{Advance, SYSTEM};

use super::KnownRun;
use crate::commands::Trigger;
use crate::dags::CompiledDag;
use crate::error::EngineError;
use crate::node::Node;
use crate::queues::Message;
use crate::register::has_every_right;

/// The number of calls that a message shows.
const CALLS_SHOWN: usize = 4;

/// A released step: its run, if it gets one with the decision, and the id of the run that it waits
/// for.
struct StepRun {
    new: Option<NewRun>,
    id: Option<RunId>,
}

impl Node {
    /// Makes the runs of released steps, and the records of everything that changed. A step whose
    /// run cannot be made fails, and what follows from that is decided as well.
    pub(super) async fn release_steps(
        &self,
        known: &mut KnownRun,
        mut changes: Changes,
    ) -> store::Result<(Changes, Vec<NewRun>, Vec<StepRecord>)> {
        let dag = Arc::clone(&known.dag);
        let mut runs = Vec::new();
        let mut made = 0;
        while made < changes.released.len() {
            let released = &changes.released[made];
            made += 1;
            let key = released.key;
            let now = self.now();
            let mut record = StepRecord {
                key,
                outcome: None,
                reason: None,
                run: None,
                items: None,
                decided_by: released.by,
                decided_at: now,
                ended_at: None,
                is_adopted: false,
            };
            match self.run_of_step(known, &released.call, now).await? {
                Ok(run) => {
                    record.run = run.id;
                    runs.extend(run.new);
                    if let Some(id) = run.id {
                        known.runs.insert(key, id);
                    }
                    known.open.insert(key, record);
                }
                Err(problem) => {
                    known.open.insert(key, record);
                    let reason = Reason { code: ReasonCode::Inputs, text: problem };
                    if let Some(definition) = &dag.job.definition.dag {
                        let failed = Outcome::Failed;
                        known.state.end(&dag.graph, definition, key, failed, Some(reason));
                        let more = self.decide_with_results(known).await?;
                        changes.expanded.extend(more.expanded);
                        changes.ended.extend(more.ended);
                        changes.released.extend(more.released);
                        changes.cancel_open |= more.cancel_open;
                    }
                }
            }
        }
        let records = self.records_of(known, &changes);
        Ok((changes, runs, records))
    }

    /// The records of everything that changed, each key once.
    fn records_of(&self, known: &mut KnownRun, changes: &Changes) -> Vec<StepRecord> {
        let now = self.now();
        let mut records: std::collections::BTreeMap<StepKey, StepRecord> =
            std::collections::BTreeMap::new();
        let blank = |key, by| StepRecord {
            key,
            outcome: None,
            reason: None,
            run: None,
            items: None,
            decided_by: by,
            decided_at: now,
            ended_at: None,
            is_adopted: false,
        };
        for (step, items, by) in &changes.expanded {
            let key = StepKey::of_step(*step);
            let record = StepRecord { items: Some(*items), ..blank(key, *by) };
            known.open.insert(key, record.clone());
            records.insert(key, record);
        }
        for released in &changes.released {
            if let Some(record) = known.open.get(&released.key) {
                records.insert(released.key, record.clone());
            }
        }
        for EndedStep { key, outcome, reason, by } in &changes.ended {
            let open = known.open.remove(key);
            let mut record = open.unwrap_or_else(|| blank(*key, *by));
            record.outcome = Some(*outcome);
            record.reason.clone_from(reason);
            record.ended_at = Some(now);
            records.insert(*key, record);
        }
        records.into_values().collect()
    }

    /// The run of a released step.
    async fn run_of_step(
        &self,
        known: &KnownRun,
        call: &StepCall,
        now: Timestamp,
    ) -> store::Result<Result<StepRun, String>> {
        let dag = &known.dag;
        let step = &dag.graph.step(call.step).step;
        let work = match call.filled(&step.work) {
            Ok(work) => work,
            Err(problem) => return Ok(Err(problem)),
        };
        let own = |due_at: Timestamp| {
            let new = step_run(known, call, step, due_at);
            Ok(Ok(StepRun { id: Some(new.id), new: Some(new) }))
        };
        let later = |time| now.saturating_add(time).unwrap_or(Timestamp::MAX);
        let called = RunId::of_call(known.header.run, call.step, call.item, now);
        match work {
            StepWork::Action { action } => match action.check() {
                Ok(()) => own(now),
                Err(error) => Ok(Err(error.to_string())),
            },
            // Its run does nothing but to stand for the alert.
            StepWork::Alert { .. } => own(now),
            StepWork::Sleep { duration: Some(duration), .. } => own(later(duration)),
            StepWork::Sleep { until, .. } => match until.unwrap_or_default().parse() {
                Ok(until) => own(now.max(until)),
                Err(_) => Ok(Err("SLEEP: the time is not in RFC 3339".to_owned())),
            },
            StepWork::Approval { timeout: Some(timeout), .. } => own(later(timeout)),
            StepWork::Approval { timeout: None, .. } => Ok(Ok(StepRun { new: None, id: None })),
            StepWork::Message { queue, .. } => {
                let queue = queue_of(dag, queue.as_deref());
                let Some(found) = self.queue_named(dag, &queue).await? else {
                    return Ok(Err(format!("queue {queue:?} does not exist")));
                };
                let send = |actor: &Actor| {
                    actor.may_use_queue(QueueRight::Send, found.id, found.owner).is_ok()
                };
                match self.owner_may(dag, send).await? {
                    true => Ok(Ok(StepRun { new: None, id: Some(called) })),
                    false => Ok(Err(format!(
                        "queue {queue:?}: the owner of the DAG may not send messages"
                    ))),
                }
            }
            StepWork::Job { job: name, parameters } | StepWork::Dag { dag: name, parameters } => {
                let is_dag = matches!(step.work, StepWork::Dag { .. });
                let job = self.store.job_by_name(dag.job.tenant, &name).await?;
                let job = job.filter(|job| !job.definition.is_queue());
                let job = job.filter(|job| job.definition.is_dag() == is_dag);
                let what = if is_dag { "DAG" } else { "job" };
                let Some(job) = job else {
                    return Ok(Err(format!("{what} {name:?} does not exist")));
                };
                if job.id == dag.job.id {
                    return Ok(Err(format!("DAG {name:?} cannot call itself")));
                }
                if is_dag && let Some(problem) = self.nested_too_deep(known).await? {
                    return Ok(Err(problem));
                }
                let may = |actor: &Actor| {
                    domain::access::may(actor, Deed::ExecuteJob(job.owner)).is_ok()
                        && job.definition.actions().all(|action| actor.may_do(action).is_ok())
                };
                if !self.owner_may(dag, may).await? {
                    let problem = "the owner of the DAG may not execute it";
                    return Ok(Err(format!("{what} {name:?}: {problem}")));
                }
                let parameters = Some(object_text(&parameters.into_iter().collect()));
                let parameters = parameters.filter(|text| text != "{}");
                let trigger = Trigger { parameters, ..Trigger::default() };
                // The job declares its parameters: a value that does not fit is an error of the
                // inputs.
                let new = match self.triggered_of(&job, trigger) {
                    Ok(new) => NewRun { id: called, ..new },
                    Err(error) => return Ok(Err(format!("{what} {name:?}: {error}"))),
                };
                Ok(Ok(StepRun { id: Some(called), new: Some(new) }))
            }
            StepWork::WaitForMessage { queue, timeout } => {
                let Some(found) = self.queue_named(dag, &queue).await? else {
                    return Ok(Err(format!("queue {queue:?} does not exist")));
                };
                let consume = |actor: &Actor| {
                    actor.may_use_queue(QueueRight::Consume, found.id, found.owner).is_ok()
                };
                if !self.owner_may(dag, consume).await? {
                    return Ok(Err(format!(
                        "queue {queue:?}: the owner of the DAG may not consume messages"
                    )));
                }
                match timeout {
                    Some(timeout) => own(later(timeout)),
                    None => Ok(Ok(StepRun { new: None, id: None })),
                }
            }
        }
    }

    /// Why a step of a DAG run may not call another DAG: the calls that led to it are too many.
    async fn nested_too_deep(&self, known: &KnownRun) -> store::Result<Option<String>> {
        if known.callers.get().is_none() {
            let callers = self.callers_of(known.header.run).await?;
            let _ = known.callers.set(callers);
        }
        let callers = known.callers.get().map(Vec::as_slice).unwrap_or_default();
        if callers.len() < CALLS_MAX {
            return Ok(None);
        }
        let names = callers.iter().chain([&known.dag.job.name]);
        let names: Vec<&str> = names.take(CALLS_SHOWN).map(String::as_str).collect();
        let names = names.join(" -> ");
        Ok(Some(format!("DAG calls are nested deeper than {CALLS_MAX} levels: {names} ...")))
    }

    /// The names of the DAGs whose steps led to a run, the first caller first. They are as
    /// recorded: every node finds the same ones.
    async fn callers_of(&self, run: RunId) -> store::Result<Vec<String>> {
        let (mut names, mut run) = (Vec::new(), run);
        while run.is_called() && names.len() < CALLS_MAX {
            let Some((_, caller, _)) = self.store.called_steps(&[run]).await?.pop() else { break };
            let Some((header, _)) = self.store.dag_run(caller, false).await? else { break };
            let dag = self.dag_version(header.job, header.version).await?;
            names.push(dag.map_or(header.job.to_string(), |dag| dag.job.name.clone()));
            run = caller;
        }
        names.reverse();
        Ok(names)
    }

    /// Whether the owner of a DAG may do something with another job of its tenant.
    async fn owner_may(
        &self,
        dag: &CompiledDag,
        may: impl FnOnce(&Actor) -> bool,
    ) -> store::Result<bool> {
        if has_every_right(&dag.job) {
            return Ok(true);
        }
        let owner = match self.standing(dag.job.owner).await {
            Ok(owner) => owner,
            Err(EngineError::Store(error)) => return Err(error),
            Err(_) => None,
        };
        let Some(owner) = owner else { return Ok(false) };
        let is_member = owner.user.tenant == dag.job.tenant;
        let is_member = is_member || owner.privileges.has(Privilege::AdministerCluster);
        Ok(is_member && may(&owner.actor(None)))
    }

    pub(super) async fn queue_named(
        &self,
        dag: &CompiledDag,
        name: &str,
    ) -> store::Result<Option<Arc<Job>>> {
        let found = self.recall_job_named(dag.job.tenant, name).await?;
        Ok(found.filter(|job| job.definition.is_queue()))
    }

    /// Sends the messages of steps that were released. The id of a message is that of its step, so
    /// a message that is sent again is known.
    pub(super) async fn send_messages_of_steps(
        &self,
        known: &KnownRun,
        advance: &Advance,
    ) -> store::Result<()> {
        let open = advance.records.iter().filter(|record| record.outcome.is_none());
        let open: Vec<(StepKey, RunId)> =
            open.filter_map(|record| Some((record.key, record.run?))).collect();
        for (key, run) in open {
            let step = &known.dag.graph.step(key.step).step;
            if matches!(step.work, StepWork::Message { .. }) {
                self.send_message_of_step(known, key, run).await?;
            }
        }
        Ok(())
    }

    /// Sends the message of a step whose message is not there.
    pub(super) async fn send_again(&self, known: &KnownRun, key: StepKey) -> store::Result<()> {
        match known.runs.get(&key) {
            Some(run) => self.send_message_of_step(known, key, *run).await,
            None => Ok(()),
        }
    }

    async fn send_message_of_step(
        &self,
        known: &KnownRun,
        key: StepKey,
        run: RunId,
    ) -> store::Result<()> {
        let dag = &known.dag;
        let step = &dag.graph.step(key.step).step;
        let Some(Ok(call)) = self.call_again(known, key).await? else { return Ok(()) };
        let Ok(StepWork::Message { queue, payload }) = call.filled(&step.work) else {
            return Ok(());
        };
        let Some(queue) = self.queue_named(dag, &queue_of(dag, queue.as_deref())).await? else {
            return Ok(());
        };
        let body = MessageBody {
            payload: payload.into(),
            headers: [
                ("punctual-dag-run".to_owned(), known.header.run.to_string()),
                ("punctual-step".to_owned(), step.name.clone()),
            ]
            .into(),
            deduplication_key: Some(run.to_string()),
            ..MessageBody::default()
        };
        let message = Message {
            body,
            priority: step.priority,
            process_after: None,
            time_to_live: None,
            deduplication: Some(domain::queue::DEDUPLICATION_MAX),
        };
        match self.send_message_as(&queue, message, run).await {
            Ok(()) => Ok(()),
            Err(EngineError::Store(error)) => Err(error),
            // The queue is full or gone: the next look tries again.
            Err(error) => {
                tracing::warn!(run = %known.header.run, step = %step.name, %error, "message of a step not sent");
                Ok(())
            }
        }
    }

    /// The call of a step that was released before, resolved again: results do not change.
    async fn call_again(
        &self,
        known: &KnownRun,
        key: StepKey,
    ) -> store::Result<Option<Result<StepCall, String>>> {
        let dag = &known.dag;
        let Some(definition) = &dag.job.definition.dag else { return Ok(None) };
        let mut results = known.results.clone();
        loop {
            let inputs = domain::dag::state::Inputs {
                run: known.header.run,
                dag: &dag.job.name,
                scheduled_for: known.header.scheduled_for,
                zone: self.dag_zone(&dag.job),
                params: &known.params,
                results: &results,
            };
            let _ = definition;
            match domain::dag::state::resolve(&dag.graph, &inputs, key) {
                Ok(call) => return Ok(Some(call)),
                Err(missing) => {
                    for key in missing {
                        let result = self.result_of(known, key).await?;
                        results.insert(key, result);
                    }
                }
            }
        }
    }

    /// Cancels the runs of open steps.
    pub(super) async fn cancel_open_steps(&self, known: &KnownRun) -> store::Result<()> {
        let text = format!("DAG run {} ends", known.header.run);
        let reason = Reason { code: ReasonCode::CancelRequested, text };
        let by = known.cancelled_by.as_deref().unwrap_or(SYSTEM);
        for key in known.state.open() {
            let Some(run) = known.runs.get(&key).copied() else { continue };
            let step = &known.dag.graph.step(key.step).step;
            if known.has_message(key) {
                // It is about to be acknowledged, or the step waits again.
                continue;
            }
            let cancelled = match &step.work {
                StepWork::Message { queue, .. } => {
                    let queue = queue_of(&known.dag, queue.as_deref());
                    match self.queue_named(&known.dag, &queue).await? {
                        Some(queue) => {
                            self.store.cancel_message(queue.id, run, &reason, by).await?
                        }
                        None => continue,
                    }
                }
                StepWork::Job { .. } | StepWork::Dag { .. } => {
                    // A called DAG run is decided about after this one, not within it: calls may be
                    // nested.
                    self.note_cancel(run, &reason, by).await?
                }
                _ => {
                    // The parts of a step on shards end before it.
                    let parts = match &step.partition {
                        Some(_) => self.store.parts(&[run]).await?,
                        None => Vec::new(),
                    };
                    if !parts.is_empty() {
                        self.cancel_parts(&parts, &reason, by).await?;
                        continue;
                    }
                    self.cancel_one(run, &reason, by).await?
                }
            };
            if let store::Cancelled::Ended = cancelled {
                self.dags.note(known.header.run, super::DagNews::Ended(key, Outcome::Cancelled));
            }
        }
        // A step that waits for an answer has no run.
        for key in known.state.open().into_iter().filter(|key| !known.runs.contains_key(key)) {
            let reason = reason.clone();
            let mark = super::DagNews::Mark(key, Outcome::Cancelled, reason);
            self.dags.note(known.header.run, mark);
        }
        Ok(())
    }
}

fn queue_of(dag: &CompiledDag, named: Option<&str>) -> String {
    let of_dag = dag.job.definition.dag.as_ref().and_then(|dag| dag.queue.as_deref());
    named.or(of_dag).unwrap_or(QUEUE_DEFAULT).to_owned()
}

/// The id of the run of a step that a node executes, or that ends the time of a step.
pub(super) fn step_run_id(dag_run: RunId, key: StepKey) -> RunId {
    let row = u64::from(key.step) << 32 | key.item.map_or(0, |item| u64::from(item) + 1);
    RunId::of_part(dag_run, row, "")
}

/// The run of a step that a node executes.
fn step_run(known: &KnownRun, call: &StepCall, step: &Step, due_at: Timestamp) -> NewRun {
    let job = &known.dag.job;
    let key = StepKey { step: call.step, item: call.item };
    let action = step.work.action();
    NewRun {
        id: step_run_id(known.header.run, key),
        job: job.id,
        tenant: job.tenant,
        job_version: known.header.version,
        scheduled_for: known.header.scheduled_for,
        shard: String::new(),
        due_at,
        priority: step.priority.unwrap_or(job.definition.priority),
        origin: Origin::Step,
        coalesced: 0,
        ignore_dependencies: true,
        parameters: Some(call.to_parameters()),
        place: Placement::from_class(step.class, &step.run_on),
        slot: action.map_or(SlotKind::Process, Action::slot_kind),
        requested_by: None,
    }
}

impl Node {
    /// The job of a step's run: the step as a job, with the values in place of its templates. None
    /// if the run is no step.
    pub(in crate::node) async fn job_of_step(
        &self,
        run: &ClaimedRun,
    ) -> store::Result<Option<Arc<Job>>> {
        let Some(call) = run.run.parameters.as_deref().and_then(StepCall::from_parameters) else {
            return Ok(None);
        };
        let Some(dag) = self.dag_version(run.run.job, run.run.job_version).await? else {
            return Ok(None);
        };
        let Some(step) = dag.graph.get(call.step) else { return Ok(None) };
        if run.run.origin == Origin::Step {
            let key = StepKey { step: call.step, item: call.item };
            self.dags.note_step(run.run.id, call.dag_run, key);
        }
        let at = (run.run.job, run.run.job_version, call.step);
        let is_alert = matches!(step.step.work, StepWork::Alert { .. });
        if call.values.is_empty()
            && !is_alert
            && let Some(known) = self.dags.lock().step_jobs.get(&at)
        {
            return Ok(Some(Arc::clone(known)));
        }
        let action = match call.filled(&step.step.work) {
            Ok(StepWork::Action { action }) => action,
            Ok(StepWork::Alert { message }) => {
                self.raise_alert(run, &dag, message);
                Action::Noop
            }
            _ => Action::Noop,
        };
        let job = Arc::new(step_job(&dag, &step.step, action));
        if call.values.is_empty() {
            let mut desk = self.dags.lock();
            if desk.step_jobs.len() >= super::REMEMBERED_MAX {
                desk.step_jobs.clear();
            }
            desk.step_jobs.insert(at, Arc::clone(&job));
        }
        Ok(Some(job))
    }
}

impl Node {
    /// The alert of a step. It has the id of the step's run, so it is raised once, however often
    /// the run is attempted.
    fn raise_alert(&self, run: &ClaimedRun, dag: &CompiledDag, text: String) {
        let (tenant, job) = (dag.job.tenant, dag.job.id);
        let kind = AlertKind::DagAlert;
        let alert = Alert { kind, tenant, job, run: Some(run.run.id), text, at: self.now() };
        self.state().pending_alerts.push(alert);
    }

    /// A result that is larger than the step allows, or than the action keeps, fails the step:
    /// those that read it would go on with a part of it.
    pub(in crate::node) fn limit_result(&self, run: &ClaimedRun, result: &mut AttemptResult) {
        let bytes = result.result.as_ref().map_or(0, String::len);
        if bytes == 0 && !result.is_result_cut {
            return;
        }
        let call = run.run.parameters.as_deref().and_then(StepCall::from_parameters);
        let at = (run.run.job, run.run.job_version);
        let dag = self.dags.lock().versions.get(&at).cloned();
        let step = call.and_then(|call| dag.as_ref()?.graph.get(call.step)?.step.result_bytes);
        let most = step.unwrap_or(RESULT_BYTES_DEFAULT);
        if result.is_result_cut || bytes > most as usize {
            let message = match result.is_result_cut {
                true => "the result is larger than an action keeps: 64 KiB, or 1000 rows of SQL"
                    .to_owned(),
                false => format!("the result has {bytes} bytes, at most {most} are allowed"),
            };
            let code = ErrorCode::Refused("RESULT_TOO_LARGE".to_owned());
            *result = AttemptResult {
                output: result.output.take(),
                ..AttemptResult::failed(code, message)
            };
        }
    }
}

/// A step as a job.
fn step_job(dag: &CompiledDag, step: &Step, action: Action) -> Job {
    let own = &dag.job.definition;
    let definition = Definition {
        when: When::Manual,
        run_as: own.run_as.clone(),
        retry: step.retry.clone().unwrap_or_else(|| own.retry.clone()),
        timeout: step.timeout.unwrap_or(STEP_TIMEOUT),
        grace_period: own.grace_period,
        overlap: Overlap::Allow,
        priority: step.priority.unwrap_or(own.priority),
        on_lost: own.on_lost,
        tags: own.tags.clone(),
        retention: own.retention,
        class: step.class,
        run_on: step.run_on.clone(),
        partition: step.partition.clone(),
        parameters: Parameters::default(),
        action,
        ..Definition::default()
    };
    Job { name: format!("{}/{}", dag.job.name, step.name), definition, ..dag.job.clone() }
}

/// A run with the parameters that its action sees: those of the DAG run, the item and the values of
/// templates.
pub(in crate::node) fn with_action_parameters(run: &Arc<ClaimedRun>, job: &Job) -> Arc<ClaimedRun> {
    let call = run.run.parameters.as_deref().and_then(StepCall::from_parameters);
    let Some(call) = call.filter(|_| run.run.origin.is_child()) else { return Arc::clone(run) };
    let parameters = call.action_parameters(&job.definition.action);
    let mut run = ClaimedRun::clone(run);
    run.run.parameters = (!parameters.is_empty()).then(|| object_text(&parameters));
    Arc::new(run)
}
