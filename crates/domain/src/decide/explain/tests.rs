//! One row a situation: the facts, and the required parts of the answer.

mod change;
mod late;
mod live;
mod overview;
mod run;
mod time;

use super::*;
use crate::audit::Kind;
use crate::cluster::NodeState;
use crate::id::{JobId, TenantId, UserId};
use crate::job::{Definition, Job, JobState, When};
use crate::queue::KeepCompleted;
use crate::run::{Origin, Outcome, RunState, Wait};
use crate::schedule::{DstPolicy, Outage, Schedule, Zone, Zones};
use crate::slot::SlotKind;
use jiff::SignedDuration;
use uuid::Uuid;

/// A time of 17 November 2026, or with a date of that year: `02:00`, `02:00:10`, `11-16T23:00`.
fn at(text: &str) -> Timestamp {
    let text = if text.contains('T') { text.to_owned() } else { format!("11-17T{text}") };
    let text = if text.matches(':').count() == 1 { format!("{text}:00") } else { text };
    format!("2026-{text}Z").parse().unwrap()
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn id(number: u128) -> RunId {
    RunId(Uuid::from_u128(number))
}

/// A job, its past and the present moment: 02:05.
struct Stage {
    job: Job,
    zone: Zone,
    schedule: Option<Schedule>,
    events: Vec<JobEvent>,
    outages: Vec<Outage>,
    kept: KeptFor,
    now: Timestamp,
}

fn event(time: &str, actor: &str, kind: Kind, details: &str) -> JobEvent {
    JobEvent::read(at(time), actor.to_owned(), kind, details)
}

impl Stage {
    /// An hourly job that ann created on 1 November.
    fn hourly() -> Self {
        Stage::of("0 * * * *", "UTC")
    }

    fn of(expression: &str, zone: &str) -> Self {
        let (expression, zone) = (expression.into(), zone.into());
        Stage::with(When::Cron { expression, zone, dst: DstPolicy::default() })
    }

    fn with(when: When) -> Self {
        let zones = Zones::bundled();
        let schedule = when.compile(&zones).unwrap();
        let zone = match &when {
            When::Cron { zone, .. } => zones.find(zone).unwrap(),
            _ => zones.find("UTC").unwrap(),
        };
        let job = Job {
            id: JobId(Uuid::from_u128(1)),
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: "report".into(),
            version: 1,
            state: JobState::Enabled,
            definition: Definition { when, timeout: seconds(60), ..Definition::default() },
            next_run: Some(at("03:00")),
            created_at: at("11-01T00:30"),
            updated_at: at("11-01T00:30"),
        };
        let created = r#"{"name":"report","version":1,"state":"ENABLED"}"#;
        Stage {
            job,
            zone,
            schedule,
            events: vec![event("11-01T00:30", "ann", Kind::JobCreated, created)],
            outages: Vec::new(),
            kept: KeptFor {
                days: 30,
                failed_days: 90,
                keep_last: None,
                keep_completed: KeepCompleted::All,
                is_own: false,
            },
            now: at("02:05"),
        }
    }

    /// The same with a later change.
    fn changed(mut self, time: &str, by: &str, state: JobState, fields: &str) -> Self {
        let word = serde_json::to_string(&state).unwrap();
        self.job.version += 1;
        let (name, version) = (&self.job.name, self.job.version);
        let changed = serde_json::to_string(&fields.split(' ').collect::<Vec<_>>()).unwrap();
        let details = format!(
            r#"{{"name":"{name}","version":{version},"state":{word},"changed":{changed}}}"#
        );
        let kind = if state == JobState::Deleted { Kind::JobDeleted } else { Kind::JobModified };
        self.events.insert(0, event(time, by, kind, &details));
        self.job.state = state;
        self.job.updated_at = at(time);
        self
    }

    /// The same with the definition before its last change.
    fn was(mut self, old: Definition) -> Self {
        let last = self.events.iter_mut().find(|event| event.changes_definition()).unwrap();
        last.remember("daily", JobState::Paused, &old);
        self
    }

    fn outage(mut self, since: &str, until: &str) -> Self {
        self.outages.push(Outage { since: at(since), until: at(until) });
        self
    }

    fn edit(mut self, edit: impl FnOnce(&mut Definition)) -> Self {
        edit(&mut self.job.definition);
        self.schedule = self.job.definition.when.compile(&Zones::bundled()).unwrap();
        self
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            job: &self.job,
            schedule: self.schedule.as_ref(),
            zone: &self.zone,
            events: &self.events,
            has_older_events: false,
            outages: &self.outages,
            kept: self.kept,
            now: self.now,
        }
    }
}

/// The tick of 02:00, in a state.
fn tick(state: RunState) -> RunFacts {
    let is_ended = matches!(state, RunState::Ended(_));
    RunFacts {
        id: id(0x200),
        state,
        reason: None,
        reason_text: None,
        scheduled_for: at("02:00"),
        scheduled_last: at("02:00"),
        count: 1,
        origin: Origin::Schedule,
        coalesced: 0,
        backfill_concurrency: None,
        due_at: at("02:00"),
        attempts: 0,
        lost: 0,
        started_at: None,
        finished_at: is_ended.then(|| at("02:01")),
        error: None,
        message: None,
        node: None,
        is_dead_letter: false,
        requested_by: None,
        job_version: 1,
    }
}

/// A tick that ended with a reason.
fn ended(outcome: Outcome, code: &str, text: &str) -> RunFacts {
    RunFacts {
        reason: Some(code.to_owned()),
        reason_text: Some(text.to_owned()),
        ..tick(RunState::Ended(outcome))
    }
}

/// A tick whose attempts failed.
fn failed(attempts: u32, error: &str, message: &str) -> RunFacts {
    RunFacts {
        attempts,
        error: Some(error.to_owned()),
        message: Some(message.to_owned()),
        started_at: Some(at("02:00:50")),
        node: Some("a".to_owned()),
        ..tick(RunState::Ended(Outcome::Failed))
    }
}

fn attempt(number: u32, began: &str, end: &str) -> AttemptFacts {
    AttemptFacts {
        number,
        node: "a".to_owned(),
        started_at: at(began),
        finished_at: at(began) + seconds(4),
        end: end.to_owned(),
        error: None,
        message: None,
        waited: None,
    }
}

fn other(number: u128, time: &str, state: RunState) -> OtherRun {
    OtherRun {
        id: id(number),
        scheduled_for: at(time),
        state,
        started_at: Some(at(time) + seconds(2)),
        finished_at: matches!(state, RunState::Ended(_)).then(|| at(time) + seconds(600)),
        node: Some("a".to_owned()),
        requested_by: None,
    }
}

fn node(name: &str, state: NodeState, taken: u32) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        state,
        is_agent: true,
        offer: vec!["zone=us".to_owned()],
        is_leader: false,
        slots: 2,
        taken,
        renewed_at: at("02:04:58"),
        lease_until: at("02:05:28"),
        drained: None,
    }
}

fn cluster(nodes: Vec<NodeFacts>) -> ClusterFacts {
    ClusterFacts {
        nodes,
        tenant_running: 3,
        tenant_max: None,
        per_job: 16,
        renew_every: seconds(5),
        occupants: "etl (2)".to_owned(),
    }
}

fn live(wait: Option<Wait>) -> LiveFacts {
    LiveFacts {
        wait,
        wait_until: None,
        priority: 5,
        slot: SlotKind::Process,
        ahead: 0,
        line_ahead: 0,
        is_unstarted: false,
    }
}

/// Fails unless the text has every part.
fn has(situation: &str, text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{situation}: {part:?} is missing in {text:?}");
    }
}

/// The verdict, the step that decided and the message, and that the steps are in order.
fn told(report: &Report) -> (String, String) {
    let steps: Vec<&Line> = report.lines.iter().filter(|it| it.aspect == Aspect::Step).collect();
    let decided = steps.iter().position(|it| it.status == Some(StepStatus::Decided));
    let decided = decided.expect("a step decided");
    for (i, step) in steps.iter().enumerate() {
        let is_before = i < decided;
        let is_passed = matches!(step.status, Some(StepStatus::Passed | StepStatus::Unknown));
        let is_right = i == decided || is_before == is_passed;
        assert!(is_right, "{step:?} in {steps:?}");
    }
    let step = steps[decided].code.clone().unwrap_or_default();
    (format!("{} {step}", report.verdict), report.message.clone())
}
