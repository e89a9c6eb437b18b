//! Current wait or activity of a run that has not ended.

use super::facts::{
    ClusterFacts, LiveFacts, NodeFacts, PoolFacts, RunDetail, RunFacts, Subject, Upstream,
};
use super::words::{Clock, by, count, error_text, last_error, on_node, short};
use super::{Cause, StepName};
use crate::cluster::{Class, NodeState, Placement};
use crate::decide::settle::LOST_MAX;
use crate::dependency::DependencyRule;
use crate::job::{Definition, DependsOn, JobState, OnLost, Overlap};
use crate::run::{Outcome, RunState, Wait};

/// Missed renewals of a lease after which an explanation mentions missed heartbeats.
const RENEWALS_MISSED: i32 = 3;

/// Decisive step about a live run.
pub(super) fn live_cause(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Cause {
    let clock = subject.clock();
    let definition = &subject.job.definition;
    let wait = detail.live.and_then(|live| live.wait);
    if wait == Some(Wait::Parts) {
        let progress = detail.division.as_ref().map(ToString::to_string);
        let progress = progress.unwrap_or_else(|| "its parts have not ended".to_owned());
        return Cause::new(
            StepName::Execution,
            "PARTS",
            format!("waits for its parts: {progress}"),
        );
    }
    if run.state == RunState::Running {
        return running(subject, run, detail);
    }
    if run.attempts > 0 && wait.is_none() && run.due_at > subject.now {
        return next_attempt(&clock, definition, run);
    }
    if run.due_at > subject.now
        && let Some((code, text)) = subject.exclusion_of(run)
    {
        let text = format!("will be skipped at {}: {text}", clock.time(run.scheduled_for));
        return Cause::new(StepName::Scheduled, code, text);
    }
    if run.due_at > subject.now && wait.is_none() {
        let lead = short(run.due_at.duration_since(subject.now));
        let jitter = run.due_at.duration_since(run.scheduled_for);
        let jitter = match run.origin.is_tick() && jitter.is_positive() {
            true => format!(", {} after its time because of JITTER", short(jitter)),
            false => String::new(),
        };
        let text = format!("due at {} (in {lead}){jitter}", clock.time(run.due_at));
        return Cause::new(StepName::Due, "NOT_DUE", text);
    }
    let mut cause = match wait {
        Some(Wait::Upstream) => upstream(&clock, definition, &detail.upstream),
        Some(Wait::Overlap) => overlap(&clock, definition, detail),
        Some(Wait::Quorum) => quorum(detail),
        Some(Wait::Pool) => pool(detail),
        Some(Wait::Backfill) => backfill(run),
        Some(Wait::Decision) => decision(&clock, definition, detail),
        Some(Wait::Pause) => {
            let text = "waits until the job is resumed: its time had come before the pause";
            Cause::new(StepName::Enabled, "PAUSED", text.to_owned())
        }
        Some(Wait::Parts) | None => claim(subject, detail),
    };
    let waited = subject.now.duration_since(run.due_at);
    if waited.is_positive() {
        cause.text.push_str(&format!("; it was due {} ago", short(waited)));
    }
    if run.ended_attempts() > 0
        && let Some(error) = last_error(run)
    {
        cause.text.push_str(&format!("; attempt {} failed: {error}", run.ended_attempts()));
    }
    if let (Some(deadline), true) = (definition.start_deadline, run.origin.is_tick())
        && run.ended_attempts() == 0
        && let Ok(until) = run.scheduled_for.checked_add(deadline)
    {
        let until = clock.time(until);
        cause.text.push_str(&format!("; it is MISSED if it has not started by {until}"));
    }
    cause
}

/// A run that waits for a decision.
fn decision(clock: &Clock<'_>, definition: &Definition, detail: &RunDetail) -> Cause {
    let until = detail.live.and_then(|live| live.wait_until);
    let then = definition.lost_question.then.name();
    let until = match until {
        Some(until) => format!("; without one it becomes {then} at {}", clock.time(until)),
        None => String::new(),
    };
    let text = format!(
        "its node was lost, and it may have done its work: it waits for a decision, RETRY, FAIL or \
         COMPLETE{until}"
    );
    Cause::new(StepName::Execution, "HELD", text)
}

/// A run that waits for a place in the pool of its job.
fn pool(detail: &RunDetail) -> Cause {
    let text = match &detail.pool {
        Some(PoolFacts { name, size: None, .. }) => {
            format!("waits for a place in the pool {name}, which does not exist")
        }
        Some(facts) => {
            let holders: Vec<String> =
                facts.holders.iter().map(|(job, run)| format!("{job} (run {run})")).collect();
            let others = match facts.others {
                0 => String::new(),
                others => format!(" and {others} others"),
            };
            let held = match holders.is_empty() {
                true => String::new(),
                false => format!(", taken by {}{others}", holders.join(", ")),
            };
            let ahead = match facts.ahead {
                0 => "it is the first in line".to_owned(),
                ahead => format!("{} before it in line", count(ahead as u64, "run")),
            };
            format!(
                "waits for {} of {} in the pool {}: {} in use{held}; {ahead}",
                facts.weight,
                facts.size.unwrap_or_default(),
                facts.name,
                facts.used,
            )
        }
        None => "waits for a place in the pool of its job".to_owned(),
    };
    Cause::new(StepName::Slot, "POOL", text)
}

/// A run that waits for earlier runs of its backfill.
fn backfill(run: &RunFacts) -> Cause {
    let limit = run.backfill_concurrency.unwrap_or(1);
    let runs = count(u64::from(limit), "backfilled run");
    let text = format!("waits for earlier runs of the backfill: {runs} may be at work at a time");
    Cause::new(StepName::Slot, "BACKFILL", text)
}

/// A run between two attempts.
fn next_attempt(clock: &Clock<'_>, definition: &Definition, run: &RunFacts) -> Cause {
    let most = definition.retry.max_attempts.max(1);
    let next = run.attempt_words(run.attempts + 1, most);
    let left = most.saturating_sub(run.attempts);
    let failed =
        last_error(run).map(|error| format!("; attempt {} failed: {error}", run.ended_attempts()));
    let text = format!(
        "waits for {next} at {}{}; {} left",
        clock.time(run.due_at),
        failed.unwrap_or_default(),
        count(u64::from(left), "attempt"),
    );
    Cause::new(StepName::Execution, "BACKOFF", text)
}

fn running(subject: &Subject<'_>, run: &RunFacts, detail: &RunDetail) -> Cause {
    let clock = subject.clock();
    let definition = &subject.job.definition;
    let most = definition.retry.max_attempts.max(1);
    let attempt = run.attempt_words(run.attempts + 1, most);
    let place = on_node(run.node.as_deref());
    let cluster = detail.cluster.as_ref();
    let node = run.node.as_deref().and_then(|name| cluster.and_then(|it| it.node(name)));
    if let (Some(node), Some(cluster)) = (node, cluster)
        && is_silent(subject, node, cluster)
    {
        let then = match definition.on_lost {
            OnLost::Fail => "then the run ends as FAILED (ON_LOST FAIL)".to_owned(),
            OnLost::Ask => "then the run is HELD until a user decides (ON_LOST ASK)".to_owned(),
            OnLost::Retry if run.lost + 1 >= LOST_MAX => {
                format!("then the run ends as FAILED: its node was lost {} times", run.lost + 1)
            }
            OnLost::Retry => "then another node attempts the run again".to_owned(),
        };
        let text = format!(
            "node {} has not renewed its lease since {}; its lease ends at {}, {then}",
            node.name,
            clock.time(node.renewed_at),
            clock.time(node.lease_until),
        );
        return Cause::new(StepName::Execution, "NODE_SILENT", text);
    }
    if let Some(cancel) = &detail.cancel {
        let text = format!(
            "runs{place}; its cancellation was requested at {}{}{}, and it has {} to stop",
            clock.time(cancel.at),
            by(&cancel.actor),
            said(&cancel.text, &cancel.actor),
            short(definition.grace_period),
        );
        return Cause::new(StepName::Execution, "CANCEL_REQUESTED", text);
    }
    let is_unstarted = detail.live.is_some_and(|live| live.is_unstarted);
    let Some(since) = run.started_at.filter(|_| !is_unstarted) else {
        if let (Some(node), true) = (node, is_unstarted) {
            let taken = slots_words(node);
            let jobs = occupants(cluster);
            let text =
                format!("claimed by node {}, waits there for a slot: {taken}{jobs}", node.name);
            return Cause::new(StepName::Slot, "SLOTS", text);
        }
        let text = format!("runs{place}, {attempt}");
        return Cause::new(StepName::Execution, "RUNNING", text);
    };
    let ends = since.checked_add(definition.timeout).map(|at| clock.time(at));
    let ends = ends.map(|at| format!("; times out at {at}")).unwrap_or_default();
    let length = short(subject.now.duration_since(since));
    let text = format!("runs{place} since {} ({length}), {attempt}{ends}", clock.time(since));
    Cause::new(StepName::Execution, "RUNNING", text)
}

/// Comment of a request, unless it only repeats the actor.
pub(super) fn said(text: &str, actor: &str) -> String {
    let repeats = text.is_empty()
        || text.contains(&format!("by {actor}"))
        || text == format!("{actor} asked for it");
    if repeats { String::new() } else { format!(" ({text})") }
}

/// Whether a node has missed heartbeats for so long that it may be dead.
fn is_silent(subject: &Subject<'_>, node: &NodeFacts, cluster: &ClusterFacts) -> bool {
    let silence = subject.now.duration_since(node.renewed_at);
    matches!(node.state, NodeState::Down | NodeState::Gone)
        || silence > cluster.renew_every * RENEWALS_MISSED
}

/// Wait of a run for upstream jobs: the first that is not ready.
fn upstream(clock: &Clock<'_>, definition: &Definition, upstream: &[Upstream]) -> Cause {
    let waited: Vec<&Upstream> = upstream.iter().filter(|it| !it.is_ready()).collect();
    let Some(first) = waited.first() else {
        let text = "the jobs that it depends on have ended; a node claims it soon".to_owned();
        return Cause::new(StepName::Dependencies, "UPSTREAM", text);
    };
    let words: Vec<String> = waited.iter().map(|it| it.words(clock)).collect();
    let deadline = clock.time(first.deadline);
    let joint = match definition.dependency_rule {
        DependencyRule::All => "; and for ",
        DependencyRule::Any => "; or for ",
    };
    let text = format!("waits for {}; gives up at {deadline}", words.join(joint));
    Cause::new(StepName::Dependencies, "UPSTREAM", text)
}

impl Upstream {
    /// Whether it has ended as required within the window.
    pub fn is_ready(&self) -> bool {
        let counts = |at: jiff::Timestamp| self.window_start.is_none_or(|start| at > start);
        let last = self.last.as_ref().filter(|last| counts(last.at));
        match self.on {
            DependsOn::Success => self.last_success.is_some_and(counts),
            DependsOn::Completion => last.is_some(),
            DependsOn::Failure => last.is_some_and(|last| last.outcome != Outcome::Completed),
        }
    }

    /// The upstream job, its required outcome and its state.
    pub(super) fn words(&self, clock: &Clock<'_>) -> String {
        let required = match self.on {
            DependsOn::Success => "to complete",
            DependsOn::Completion => "to end",
            DependsOn::Failure => "to fail",
        };
        let counts = |at: jiff::Timestamp| self.window_start.is_none_or(|start| at > start);
        let window = match self.window_start {
            Some(start) => format!(" after {}", clock.time(start)),
            None => String::new(),
        };
        let mut states = Vec::new();
        if let Some((state, since)) = self.live {
            let since = clock.time(since);
            states.push(match state {
                RunState::Running => format!("RUNNING since {since}"),
                state => format!("{state}, due at {since}"),
            });
        }
        match &self.last {
            Some(last) => {
                let why = last.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                let outcome = last.outcome;
                let late = match counts(last.at) {
                    true => "",
                    false => ", which is too early to count",
                };
                states.push(format!("it ended as {outcome} at {}{why}{late}", clock.time(last.at)));
            }
            None if self.live.is_none() => states.push("it has never run".to_owned()),
            None => {}
        }
        let is_newer = |at: jiff::Timestamp| self.last.as_ref().is_none_or(|last| at > last.at);
        if let Some((outcome, at, why)) = &self.skipped
            && counts(*at)
            && is_newer(*at)
        {
            states.push(format!("its run of {} was {outcome}: {why}", clock.time(*at)));
        }
        match (self.state, self.next) {
            (None | Some(JobState::Deleted), _) => states.push("it was deleted".to_owned()),
            (Some(JobState::Paused), _) => states.push("it is paused".to_owned()),
            (Some(JobState::Disabled), _) => states.push("it is disabled".to_owned()),
            (Some(_), Some(next)) if self.live.is_none() => {
                states.push(format!("its next time is {}", clock.time(next)));
            }
            (Some(_), None) if self.live.is_none() => {
                states.push("it has no next time of its own".to_owned());
            }
            _ => {}
        }
        format!("{} {required}{window}: {}", self.name, states.join(", "))
    }
}

fn overlap(clock: &Clock<'_>, definition: &Definition, detail: &RunDetail) -> Cause {
    let per_job = detail.cluster.as_ref().map_or(1, |cluster| cluster.per_job);
    let most = u64::from(definition.most_running(per_job));
    let busy: Vec<String> = detail
        .others
        .iter()
        .filter(|other| !matches!(other.state, RunState::Ended(_)))
        .map(|other| {
            let since = other.started_at.map(|at| format!(" since {}", clock.time(at)));
            format!(
                "run {} of {} is {}{}",
                other.id,
                clock.time(other.scheduled_for),
                other.state,
                since.unwrap_or_default()
            )
        })
        .collect();
    let policy = match (definition.concurrency, definition.overlap) {
        (Some(_), _) => {
            format!("the job runs at most {} at a time (CONCURRENCY)", count(most, "run"))
        }
        (None, Overlap::Allow) => {
            format!("a job may have {} at a time (engine.max_runs_per_job)", count(most, "run"))
        }
        (None, _) => "the job runs one at a time".to_owned(),
    };
    let line = detail.live.map_or(0, |live| live.line_ahead) + 1;
    let busy = if busy.is_empty() { String::new() } else { format!(": {}", busy.join("; ")) };
    let text = format!("waits in line for earlier runs of the job, place {line}; {policy}{busy}");
    Cause::new(StepName::Overlap, "OVERLAP", text)
}

fn quorum(detail: &RunDetail) -> Cause {
    let text = match detail.quorum {
        Some(quorum) if !quorum.led => "waits for a quorum: the cluster has no leader".to_owned(),
        Some(quorum) => format!(
            "waits for a quorum: {} of {} acknowledgements that it needs ({})",
            quorum.acknowledged,
            quorum.needed(),
            count(u64::from(quorum.schedulers), "registered scheduler"),
        ),
        None => "waits for a quorum".to_owned(),
    };
    Cause::new(StepName::Quorum, "QUORUM", text)
}

/// Why no node claims a run that is due.
fn claim(subject: &Subject<'_>, detail: &RunDetail) -> Cause {
    let clock = subject.clock();
    let definition = &subject.job.definition;
    // No node claims a message: workers lease it.
    if definition.is_queue() {
        let (code, text) = match subject.job.state {
            JobState::Paused => ("QUEUE_PAUSED", "waits until its queue is resumed"),
            _ => ("NOT_LEASED", "waits for a worker to lease it"),
        };
        return Cause::new(StepName::Slot, code, text.to_owned());
    }
    let Some(cluster) = &detail.cluster else {
        let text = "is due and no node has claimed it yet".to_owned();
        return Cause::new(StepName::Slot, "UNCLAIMED", text);
    };
    if let Some(shard) = detail.part.as_ref().and_then(|part| part.shard.as_ref()) {
        let owner = detail.part.as_ref().and_then(|part| part.owner.as_deref());
        let text = match owner {
            Some(owner) => format!("waits for node {owner}, which owns shard {shard}"),
            None => format!("waits for a node that may own shard {shard}: there is none"),
        };
        return Cause::new(StepName::Placement, "SHARD_OWNER", text);
    }
    if let Some(cause) = placement(&clock, definition, cluster) {
        return cause;
    }
    if let Some(max) = cluster.tenant_max.filter(|max| cluster.tenant_running >= u64::from(*max)) {
        let text = format!(
            "waits for the limit of the tenant: {} of {max} runs are under way (max_concurrent = {max})",
            cluster.tenant_running
        );
        return Cause::new(StepName::Slot, "TENANT_LIMIT", text);
    }
    let place = definition.place();
    let able: Vec<&NodeFacts> = cluster.able(&place).collect();
    let (slots, taken) = able.iter().fold((0, 0), |(slots, taken), node| {
        (slots + node.slots, taken + node.taken.min(node.slots))
    });
    let live = detail.live.unwrap_or(LiveFacts::NONE);
    if slots > 0 && taken >= slots {
        let jobs = occupants(Some(cluster));
        let ahead = match live.ahead {
            0 => String::new(),
            n => format!(
                "; {} before it (its priority is {})",
                count(u64::from(n), "run"),
                live.priority
            ),
        };
        let text = format!("waits for a slot: {taken} of {slots} busy{jobs}{ahead}");
        return Cause::new(StepName::Slot, "SLOTS", text);
    }
    if live.ahead > 0 {
        let text = format!(
            "waits in line: {} of its tenant are claimed before it (its priority is {})",
            count(u64::from(live.ahead), "run"),
            live.priority
        );
        return Cause::new(StepName::Slot, "PRIORITY", text);
    }
    let text = "is due, and a node with a free slot is about to claim it".to_owned();
    Cause::new(StepName::Slot, "UNCLAIMED", text)
}

/// `; busy with etl (3), others (1)`, or nothing.
fn occupants(cluster: Option<&ClusterFacts>) -> String {
    match cluster.map(|cluster| cluster.occupants.as_str()) {
        None | Some("") => String::new(),
        Some(jobs) => format!(" with {jobs}"),
    }
}

fn slots_words(node: &NodeFacts) -> String {
    format!("{} of {} busy", node.taken.min(node.slots), node.slots)
}

/// Why no node may execute the runs of a job; none if one may.
pub(super) fn placement(
    clock: &Clock<'_>,
    definition: &Definition,
    cluster: &ClusterFacts,
) -> Option<Cause> {
    let place = definition.place();
    let cause = |code, text| Some(Cause::new(StepName::Placement, code, text));
    if definition.class != Class::LocalSafe && !cluster.nodes.iter().any(|node| node.is_leader) {
        let text = "waits for a leader: the cluster has none".to_owned();
        return cause("NO_LEADER", text);
    }
    if cluster.able(&place).next().is_some() {
        return None;
    }
    let agents: Vec<&NodeFacts> = cluster.nodes.iter().filter(|node| node.is_agent).collect();
    let fitting: Vec<&&NodeFacts> =
        agents.iter().filter(|node| place.is_offered(&node.offer)).collect();
    if fitting.is_empty() {
        if definition.run_on.is_empty() && place.is_leader() {
            let text =
                "waits for the leader to execute it: the node that leads is no agent".to_owned();
            return cause("NO_NODE", text);
        }
        if definition.run_on.is_empty() {
            return cause(
                "NO_NODE",
                "waits for a node that executes runs: there is none".to_owned(),
            );
        }
        let known: Vec<String> = agents
            .iter()
            .map(|node| format!("{} has {}", node.name, labels(&node.offer)))
            .collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        let text = format!("waits for a node with the labels {}: {known}", definition.run_on);
        return cause("NO_LABEL", text);
    }
    let states: Vec<String> = fitting.iter().map(|node| node.state_words(clock)).collect();
    let text = format!("waits for a node that takes new runs: {}", states.join(", "));
    let drained = fitting.iter().any(|node| node.state == NodeState::Draining);
    cause(if drained { "DRAINED" } else { "NODE_DOWN" }, text)
}

fn labels(offer: &[String]) -> String {
    let labels: Vec<&str> =
        offer.iter().filter(|it| it.contains('=')).map(String::as_str).collect();
    if labels.is_empty() { "none".to_owned() } else { labels.join(",") }
}

impl ClusterFacts {
    pub(super) fn node(&self, name: &str) -> Option<&NodeFacts> {
        // A node that came back has the name of the one before it.
        let named = |node: &&NodeFacts| node.name == name;
        self.nodes.iter().filter(named).max_by_key(|node| node.renewed_at)
    }

    /// The nodes that may execute runs with a placement now.
    pub(super) fn able<'a>(&'a self, place: &'a Placement) -> impl Iterator<Item = &'a NodeFacts> {
        self.nodes.iter().filter(|node| {
            node.is_agent && node.state == NodeState::Active && place.is_offered(&node.offer)
        })
    }
}

impl NodeFacts {
    fn state_words(&self, clock: &Clock<'_>) -> String {
        match (self.state, &self.drained) {
            (NodeState::Draining, Some(deed)) => {
                format!("{} was drained at {}{}", self.name, clock.time(deed.at), by(&deed.actor))
            }
            (NodeState::Draining, None) => format!("{} is draining", self.name),
            (NodeState::Down, _) => {
                format!("{} is down since {}", self.name, clock.time(self.lease_until))
            }
            (state, _) => format!("{} is {state}", self.name),
        }
    }
}

impl LiveFacts {
    pub(super) const NONE: LiveFacts = LiveFacts {
        wait: None,
        wait_until: None,
        priority: 5,
        slot: crate::slot::SlotKind::Process,
        ahead: 0,
        line_ahead: 0,
        is_unstarted: false,
    };
}

/// The error of an attempt in words.
pub(super) fn attempt_error(error: Option<&str>, message: Option<&str>) -> String {
    error_text(error, message).map(|error| format!(": {error}")).unwrap_or_default()
}
