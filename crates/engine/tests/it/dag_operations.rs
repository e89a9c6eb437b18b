//! Operations of users on DAG runs: re-run, mark, approve, explain, verify. In real time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::access::{Actor, Privilege};
use domain::dag::rerun::{Rerun, RerunFrom, RerunVersion};
use domain::dag::state::{Control, StepKey, StepRecord, StepState};
use domain::dag::{ApprovalAnswer, CALLS_MAX, Dag, ForEach, Step, StepWork, TriggerRule};
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap, RetryPolicy};
use domain::queue::QueueSettings;
use domain::run::{AttemptResult, ErrorCode, Outcome, RunState};
use engine::{
    Deletion, Engine, EngineError, Executor, MessageReport, NewJob, Settings, Started, StepMark,
    Stop, Trigger,
};
use jiff::SignedDuration;
use store::sqlite::SqliteStore;
use store::{Advance, DagRecords, Dags, SYSTEM, Store};

use crate::present::{now, real_parts};

/// Fails the steps that are listed, and records those that it executes. A step named `endless`
/// runs until it is stopped.
#[derive(Clone, Default)]
struct Worker {
    fails: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Executor for Worker {
    async fn execute(&self, run: Started, mut stop: Stop) -> AttemptResult {
        let name = run.job.name.split('/').next_back().unwrap_or_default().to_owned();
        self.seen.lock().unwrap().push(name.clone());
        if name == "endless" {
            let end = stop.requested().await;
            return AttemptResult { end, ..AttemptResult::completed() };
        }
        // An item of a fan-out is listed with its parameters.
        let item = format!("{name} {}", run.run.run.parameters.as_deref().unwrap_or_default());
        let fails = self.fails.lock().unwrap();
        match fails.contains(&name) || fails.contains(&item) {
            true => AttemptResult::failed(ErrorCode::Exit(1), "no"),
            false => AttemptResult {
                result: Some(format!("{{\"by\":\"{name}\"}}")),
                ..AttemptResult::completed()
            },
        }
    }
}

/// An engine in real time over a store of its own.
pub struct House {
    pub engine: Engine,
    worker: Worker,
    store: Arc<SqliteStore>,
    pub admin: Actor,
    _folder: tempfile::TempDir,
}

pub fn step(name: &str, after: &[&str]) -> Step {
    let after = after.iter().map(|&name| name.to_owned()).collect();
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
    Step { name: name.to_owned(), after, retry: Some(retry), ..Step::default() }
}

fn admin() -> Actor {
    Actor {
        user: UserId::ADMIN,
        name: "admin".into(),
        tenant: TenantId::DEFAULT,
        key: None,
        until: None,
        privileges: [Privilege::AdministerCluster]
            .into_iter()
            .collect::<domain::access::Privileges>()
            .expanded(true),
        read_only: false,
        run_as: Vec::new(),
        databases: Vec::new(),
        queues: Vec::new(),
        requests_per_second: None,
    }
}

impl House {
    pub async fn open() -> Self {
        House::with(Settings::default()).await
    }

    pub async fn with(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("punctual.db");
        let store = Arc::new(SqliteStore::open(&path, Arc::new(now)).unwrap());
        let worker = Worker::default();
        let settings = Settings { max_concurrent_jobs: 16, ..settings };
        let engine =
            Engine::start(Arc::clone(&store), worker.clone(), Vec::new(), settings, real_parts())
                .await
                .unwrap();
        House { engine, worker, store, admin: admin(), _folder: folder }
    }

    pub fn fails(&self, names: &[&str]) {
        *self.worker.fails.lock().unwrap() = names.iter().map(|&name| name.to_owned()).collect();
        self.worker.seen.lock().unwrap().clear();
    }

    fn seen(&self) -> Vec<String> {
        self.worker.seen.lock().unwrap().clone()
    }

    pub async fn create(&self, name: &str, definition: Definition) -> Job {
        let (tenant, owner, state) = (TenantId::DEFAULT, UserId::ADMIN, JobState::Enabled);
        let new = NewJob { tenant, owner, name: name.into(), definition, state };
        self.engine.node().create_job(new, SYSTEM).await.unwrap()
    }

    pub async fn dag(&self, name: &str, steps: Vec<Step>) -> Job {
        let dag = Some(Box::new(Dag { steps, ..Dag::default() }));
        let definition = Definition { dag, overlap: Overlap::Allow, ..Definition::default() };
        self.create(name, definition).await
    }

    pub async fn run(&self, job: &Job) -> RunId {
        self.run_with(job, None).await
    }

    async fn run_with(&self, job: &Job, parameters: Option<&str>) -> RunId {
        let by = self.engine.by(&self.admin);
        let parameters = parameters.map(str::to_owned);
        let trigger = Trigger { parameters, ..Trigger::default() };
        by.trigger(job.id, trigger, None).await.unwrap().id
    }

    pub async fn ended(&self, run: RunId) -> Outcome {
        for _ in 0..2_000 {
            if let Some(RunState::Ended(outcome)) =
                self.store.run(run).await.unwrap().map(|run| run.state)
            {
                return outcome;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("run {run} has not ended");
    }

    /// Waits until a step is in a state.
    async fn reached(&self, run: RunId, name: &str, state: StepState) {
        let by = self.engine.by(&self.admin);
        for _ in 0..2_000 {
            if by.dag_step(run, name, None).await.unwrap().state == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("step {name} is {}", by.dag_step(run, name, None).await.unwrap().state);
    }

    pub async fn states(&self, run: RunId) -> String {
        let by = self.engine.by(&self.admin);
        let page = by.dag_steps(run, None, None, 100).await.unwrap();
        let line = |step: &engine::StepView| {
            let adopted = if step.is_adopted { " adopted" } else { "" };
            format!("{} {}{adopted}", step.name, step.state)
        };
        page.items.iter().map(line).collect::<Vec<_>>().join(", ")
    }
}

#[tokio::test]
async fn a_rerun_repeats_what_failed_and_adopts_the_rest() {
    let house = House::open().await;
    let chain = vec![step("a", &[]), step("b", &["a"]), step("c", &["b"]), step("x", &[])];
    let job = house.dag("etl", chain).await;
    house.fails(&["b"]);
    let first = house.run(&job).await;
    assert_eq!(house.ended(first).await, Outcome::Failed);
    assert_eq!(house.states(first).await, "a COMPLETED, b FAILED, c SKIPPED, x COMPLETED");
    let by = house.engine.by(&house.admin);
    house.fails(&[]);
    let dry = by.rerun_dag(first, Rerun::default(), true).await.unwrap();
    assert_eq!(dry.again, ["b", "c"]);
    let completed = Outcome::Completed;
    assert_eq!(dry.adopted, [("a".to_owned(), completed), ("x".to_owned(), completed)]);
    assert!(dry.run.is_none() && house.seen().is_empty(), "a dry run does nothing");
    let second = by.rerun_dag(first, Rerun::default(), false).await.unwrap().run.unwrap().id;
    assert_eq!(house.ended(second).await, completed);
    assert_eq!(house.seen(), ["b", "c"]);
    let states = "a COMPLETED adopted, b COMPLETED, c COMPLETED, x COMPLETED adopted";
    assert_eq!(house.states(second).await, states);
    let view = by.dag_run(second).await.unwrap();
    assert_eq!((view.rerun_of, view.counts.completed), (Some(first), 4));
    // From a step, and with the present version.
    house.fails(&[]);
    let from = Rerun { from: RerunFrom::Step("c".into()), ..Rerun::default() };
    let third = by.rerun_dag(second, from, false).await.unwrap().run.unwrap().id;
    assert_eq!(house.ended(third).await, completed);
    assert_eq!(house.seen(), ["c"]);
    let mut renamed = step("y", &["a"]);
    renamed.description = Some("new".into());
    let changed = vec![step("a", &[]), step("b", &["a"]), renamed];
    let change = move |job: &mut Job| {
        job.definition.dag.as_mut().unwrap().steps = changed;
        Ok::<(), EngineError>(())
    };
    by.alter_job(job.id, change).await.unwrap();
    let latest = Rerun { version: RerunVersion::Latest, ..Rerun::default() };
    let plan = by.rerun_dag(third, latest, true).await.unwrap();
    assert_eq!((plan.again, plan.removed), (vec!["y".into()], vec!["c".into(), "x".into()]));
    let unknown = Rerun { from: RerunFrom::Step("no".into()), ..Rerun::default() };
    let error = by.rerun_dag(third, unknown, true).await.unwrap_err().to_string();
    assert_eq!(error, "from: there is no step \"no\"");
    // A run of a deleted DAG is not repeated: its steps could not begin.
    by.delete_job(job.id, Deletion::default()).await.unwrap();
    for dry_run in [true, false] {
        let refused = by.rerun_dag(third, Rerun::default(), dry_run).await.unwrap_err();
        assert!(matches!(&refused, EngineError::WrongState(_)), "{refused:?}");
        assert_eq!(refused.to_string(), "the DAG was deleted");
    }
}

#[tokio::test]
async fn an_approval_waits_for_its_answer() {
    let house = House::open().await;
    let approval = |timeout, default| StepWork::Approval { role: None, timeout, default };
    let mut ask = step("ask", &["build"]);
    ask.work = approval(None, ApprovalAnswer::Reject);
    let mut soon = step("soon", &["build"]);
    soon.work = approval(Some(SignedDuration::from_millis(300)), ApprovalAnswer::Approve);
    let job = house
        .dag("release", vec![step("build", &[]), ask, soon, step("deploy", &["ask", "soon"])])
        .await;
    let by = house.engine.by(&house.admin);
    for (answer, outcome, states) in [
        (
            ApprovalAnswer::Approve,
            Outcome::Completed,
            "build COMPLETED, ask COMPLETED, soon COMPLETED, deploy COMPLETED",
        ),
        (
            ApprovalAnswer::Reject,
            Outcome::Failed,
            "build COMPLETED, ask FAILED, soon COMPLETED, deploy SKIPPED",
        ),
    ] {
        let run = house.run(&job).await;
        house.reached(run, "ask", StepState::Open).await;
        let early = by.decide_approval(run, "deploy", answer, "").await.unwrap_err().to_string();
        assert_eq!(early, "step \"deploy\" is not an approval");
        by.decide_approval(run, "ask", answer, "looks good").await.unwrap();
        assert_eq!(house.ended(run).await, outcome);
        assert_eq!(house.states(run).await, states);
        let ask = by.dag_step(run, "ask", None).await.unwrap();
        let text = ask.reason.unwrap().text;
        assert!(text.ends_with("by admin: looks good"), "{text}");
        let late = by.decide_approval(run, "ask", answer, "").await.unwrap_err().to_string();
        assert!(late.contains(&format!("it waits for no answer: {text}")), "{late}");
    }
}

#[tokio::test]
async fn one_of_two_answers_counts() {
    let house = House::open().await;
    let mut ask = step("ask", &[]);
    ask.work = StepWork::Approval { role: None, timeout: None, default: ApprovalAnswer::Reject };
    let job = house.dag("release", vec![ask, step("deploy", &["ask"])]).await;
    let by = house.engine.by(&house.admin);
    for _ in 0..5 {
        let run = house.run(&job).await;
        house.reached(run, "ask", StepState::Open).await;
        let (yes, no) = tokio::join!(
            by.decide_approval(run, "ask", ApprovalAnswer::Approve, "yes"),
            by.decide_approval(run, "ask", ApprovalAnswer::Reject, "no"),
        );
        let (counted, outcome, other) = match (yes, no) {
            (Ok(()), Err(other)) => ("approved by admin: yes", Outcome::Completed, other),
            (Err(other), Ok(())) => ("rejected by admin: no", Outcome::Failed, other),
            both => panic!("{both:?}"),
        };
        // Whether it came during the decision or after it, the refusal names the one that counted.
        assert!(
            matches!(&other, EngineError::WrongState(text) if text.ends_with(counted)),
            "{other:?}"
        );
        assert_eq!(house.ended(run).await, outcome);
        let ask = by.dag_step(run, "ask", None).await.unwrap();
        assert_eq!(ask.reason.unwrap().text, counted);
    }
}

#[tokio::test]
async fn a_user_marks_a_step_that_does_not_end() {
    let house = House::open().await;
    let mut wait = step("wait", &[]);
    wait.work = StepWork::Sleep { duration: Some(SignedDuration::from_hours(1)), until: None };
    let job = house.dag("etl", vec![wait, step("next", &["wait"])]).await;
    let by = house.engine.by(&house.admin);
    for (mark, states) in [
        (StepMark::Succeeded, "wait COMPLETED, next COMPLETED"),
        (StepMark::Skipped, "wait SKIPPED, next SKIPPED"),
    ] {
        let run = house.run(&job).await;
        house.reached(run, "wait", StepState::Open).await;
        by.mark_step(run, "wait", None, mark, "done by hand").await.unwrap();
        assert_eq!(house.ended(run).await, Outcome::Completed);
        assert_eq!(house.states(run).await, states);
        let ended = by.mark_step(run, "wait", None, mark, "").await.unwrap_err().to_string();
        assert_eq!(ended, format!("DAG run {run} has ended"));
    }
}

#[tokio::test]
async fn a_step_runs_a_job_another_dag_and_a_worker() {
    let house = House::open().await;
    let queue = Definition { queue: Some(QueueSettings::default()), ..Definition::default() };
    house.create("default", queue).await;
    house.create("report", Definition::default()).await;
    house.dag("inner", vec![step("in1", &[]), step("in2", &["in1"])]).await;
    let with = |name: &str, after: &[&str], work| Step { work, ..step(name, after) };
    let called = StepWork::Job { job: "report".into(), parameters: BTreeMap::new() };
    let inner = StepWork::Dag { dag: "inner".into(), parameters: BTreeMap::new() };
    let payload = serde_json::json!({ "action": "load_data", "from": "${steps.first.result.by}" });
    let message = StepWork::Message { queue: None, payload };
    let missing = StepWork::Job { job: "nothing".into(), parameters: BTreeMap::new() };
    let mut end = with("end", &["call", "inner", "load", "missing"], StepWork::default());
    end.rule = TriggerRule::AllDone;
    let job = house
        .dag(
            "outer",
            vec![
                step("first", &[]),
                with("call", &["first"], called),
                with("inner", &["first"], inner),
                with("load", &["first"], message),
                with("missing", &["first"], missing),
                end,
            ],
        )
        .await;
    let by = house.engine.by(&house.admin);
    let run = house.run(&job).await;
    // A worker leases the message of the step and settles it.
    let (_, leased) = by.lease_messages("default", 1, None, Duration::from_secs(20)).await.unwrap();
    assert_eq!(leased.len(), 1);
    let body = leased[0].parameters.clone().unwrap();
    assert!(
        body.contains(r#""action":"load_data""#) && body.contains(r#""from":"first""#),
        "{body}"
    );
    let report = MessageReport {
        message: leased[0].id,
        fence: leased[0].fence,
        report: domain::queue::Report::Ack { result: Some("{\"rows\":7}".into()) },
        output: None,
    };
    by.report_messages("default", vec![report]).await.unwrap();
    assert_eq!(house.ended(run).await, Outcome::Failed);
    assert_eq!(
        house.states(run).await,
        "first COMPLETED, call COMPLETED, inner COMPLETED, load COMPLETED, missing FAILED, \
         end COMPLETED"
    );
    let missing = by.dag_step(run, "missing", None).await.unwrap().reason.unwrap().text;
    assert_eq!(missing, "job \"nothing\" does not exist");
    let load = by.dag_step(run, "load", None).await.unwrap().run.unwrap();
    assert_eq!(load.result.as_deref(), Some("{\"rows\":7}"));
}

#[tokio::test]
async fn decisions_are_explained_replayed_and_verified() {
    let house = House::open().await;
    let mut alarm = step("alarm", &["a"]);
    alarm.rule = TriggerRule::OneFailed;
    let job = house.dag("etl", vec![step("a", &[]), step("b", &["a"]), alarm]).await;
    house.fails(&["a"]);
    let run = house.run(&job).await;
    assert_eq!(house.ended(run).await, Outcome::Failed);
    let by = house.engine.by(&house.admin);
    let skipped = by.explain_step(run, "b", None, None).await.unwrap();
    assert_eq!(
        skipped.lines[..3],
        [
            "it ended as SKIPPED: ALL_SUCCESS is not met: a FAILED",
            "ALL_SUCCESS: 0 of 1 parents succeeded, 1 failed, 0 were skipped, 0 are pending",
            "parents: a FAILED",
        ]
    );
    // Before the run began, nothing was decided.
    let view = house.store.run(run).await.unwrap().unwrap();
    let before = view.created_at - SignedDuration::from_secs(1);
    let past = by.explain_step(run, "b", None, Some(before)).await.unwrap();
    assert_eq!(past.step.state, StepState::Pending);
    let unborn = format!("the DAG run did not exist at {before}: ");
    assert!(past.lines[0].starts_with(&unborn), "{:?}", past.lines);
    let whole = by.explain_dag_run(run, Some(before)).await.unwrap();
    assert!(whole[0].starts_with(&unborn), "{whole:?}");
    let begun = by.explain_dag_run(run, Some(view.created_at)).await.unwrap();
    assert_eq!(begun, [format!("the DAG run had not begun at {}", view.created_at)]);
    let future = Some(now() + SignedDuration::from_hours(1));
    let refused = by.explain_step(run, "b", None, future).await.unwrap_err().to_string();
    assert!(refused.contains("is in the future"), "{refused}");
    assert!(by.explain_dag_run(run, future).await.is_err());
    // While the first step executed.
    let first = by.dag_step(run, "a", None).await.unwrap();
    let started = first.run.unwrap().started_at.unwrap();
    let past = by.explain_step(run, "a", None, Some(started)).await.unwrap();
    assert_eq!((past.step.state, past.lines[0].as_str()), (StepState::Open, "it was running"));
    let whole = by.explain_dag_run(run, Some(started)).await.unwrap();
    assert_eq!(whole[0], "it is RUNNING");
    let ended = by.explain_step(run, "a", None, None).await.unwrap();
    assert_eq!(ended.lines[0], "it ended as FAILED");
    assert!(ended.lines[1].starts_with("after 1 attempt: "), "{:?}", ended.lines);
    assert!(ended.lines[1].ends_with(": no"), "{:?}", ended.lines);
    let whole = by.explain_dag_run(run, None).await.unwrap();
    assert!(whole[0].starts_with("it ended as FAILED"), "{whole:?}");
    assert!(whole.iter().any(|line| line.starts_with("critical path: a ")), "{whole:?}");
    let replayed = by.replay_dag_run(run, &BTreeMap::new(), None).await.unwrap();
    assert_eq!((replayed.differences.len(), replayed.reproduced), (0, 5));
    let assume = BTreeMap::from([("a".to_owned(), Outcome::Completed)]);
    let predicted = by.replay_dag_run(run, &assume, Some(8)).await.unwrap().predicted;
    let expected =
        [("a", Outcome::Completed), ("b", Outcome::Completed), ("alarm", Outcome::Skipped)];
    assert_eq!(predicted, expected.map(|(name, outcome)| (name.to_owned(), outcome)));
    let verified = by.verify_dag_runs(Some(job.id), None, 10).await.unwrap();
    assert_eq!((verified.runs, verified.steps, verified.problems), (1, 3, Vec::new()));
    house.fails(&[]);
    let other = house.run(&job).await;
    assert_eq!(house.ended(other).await, Outcome::Completed);
    let diff = by.diff_dag_runs(run, other).await.unwrap();
    assert_eq!(diff.steps[0].name, "a", "the first step that differs");
}

fn calling(name: &str, dag: &str) -> Step {
    let work = StepWork::Dag { dag: dag.into(), parameters: BTreeMap::new() };
    Step { work, ..step(name, &[]) }
}

/// The runs of a chain of calls, the first caller first; each DAG has one step.
async fn called_runs(house: &House, run: RunId) -> Vec<RunId> {
    let mut runs = vec![run];
    loop {
        let last = runs[runs.len() - 1];
        let records = house.store.dag_run(last, true).await.unwrap().map(|(_, records)| records);
        match records.unwrap_or_default().first().and_then(|record| record.run) {
            Some(called) if called.is_called() => runs.push(called),
            _ => return runs,
        }
    }
}

#[tokio::test]
async fn dags_that_call_each_other_end_at_the_deepest_level() {
    let house = House::open().await;
    let a = house.dag("a", vec![calling("to_b", "b")]).await;
    house.dag("b", vec![calling("to_a", "a")]).await;
    let run = house.run(&a).await;
    assert_eq!(house.ended(run).await, Outcome::Failed);
    let runs = called_runs(&house, run).await;
    assert_eq!(runs.len(), CALLS_MAX + 1, "the first run, and those that were called");
    let by = house.engine.by(&house.admin);
    let deepest = by.dag_step(runs[CALLS_MAX], "to_b", None).await.unwrap();
    let text = "DAG calls are nested deeper than 16 levels: a -> b -> a -> b ...";
    assert_eq!(deepest.reason.unwrap().text, text);
    // A DAG that names itself is refused, also when it gets the name that it calls.
    let rename = |job: &mut Job| {
        job.name = "b2".into();
        job.definition.dag.as_mut().unwrap().steps = vec![calling("again", "b2")];
        Ok::<(), EngineError>(())
    };
    let error = by.alter_job(a.id, rename).await.unwrap_err().to_string();
    assert_eq!(error, "step \"again\": payload: a DAG cannot call itself");
}

#[tokio::test]
async fn a_cancelled_run_is_replayed_with_its_cancellation() {
    let house = House::open().await;
    let mut wait = step("wait", &["first"]);
    wait.work = StepWork::Sleep { duration: Some(SignedDuration::from_hours(1)), until: None };
    let job = house.dag("etl", vec![step("first", &[]), wait, step("next", &["wait"])]).await;
    let run = house.run(&job).await;
    house.reached(run, "wait", StepState::Open).await;
    let by = house.engine.by(&house.admin);
    by.cancel(run, "enough").await.unwrap();
    assert_eq!(house.ended(run).await, Outcome::Cancelled);
    assert_eq!(house.states(run).await, "first COMPLETED, wait CANCELLED, next CANCELLED");
    let replayed = by.replay_dag_run(run, &BTreeMap::new(), None).await.unwrap();
    assert_eq!((replayed.differences, replayed.reproduced), (Vec::new(), 5));
}

#[tokio::test]
async fn a_cancel_reaches_the_deepest_call() {
    let house = House::open().await;
    let mut wait = step("wait", &[]);
    wait.work = StepWork::Sleep { duration: Some(SignedDuration::from_hours(1)), until: None };
    house.dag("d16", vec![wait]).await;
    let mut first = None;
    for level in (0..CALLS_MAX).rev() {
        let call = calling("call", &format!("d{}", level + 1));
        first = Some(house.dag(&format!("d{level}"), vec![call]).await);
    }
    let run = house.run(&first.unwrap()).await;
    let mut runs = called_runs(&house, run).await;
    while runs.len() <= CALLS_MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
        runs = called_runs(&house, run).await;
    }
    house.engine.by(&house.admin).cancel(run, "enough").await.unwrap();
    for run in runs {
        assert_eq!(house.ended(run).await, Outcome::Cancelled);
    }
}

#[tokio::test]
async fn a_message_reaches_a_waiting_step_before_the_next_look() {
    let house = House::open().await;
    let queue = Definition { queue: Some(QueueSettings::default()), ..Definition::default() };
    house.create("orders", queue).await;
    let work = StepWork::WaitForMessage { queue: "orders".into(), timeout: None };
    let wait = Step { work, ..step("wait", &[]) };
    let job = house.dag("etl", vec![wait, step("next", &["wait"])]).await;
    let run = house.run(&job).await;
    house.reached(run, "wait", StepState::Open).await;
    let by = house.engine.by(&house.admin);
    let explained = by.explain_step(run, "wait", None, None).await.unwrap();
    let text = "it was released and waits for a message from queue \"orders\"";
    assert_eq!(explained.lines[0], text);
    let message = engine::Message {
        body: domain::queue::MessageBody {
            payload: serde_json::from_str("{\"id\":7}").unwrap(),
            ..domain::queue::MessageBody::default()
        },
        priority: None,
        process_after: None,
        time_to_live: None,
        deduplication: None,
    };
    by.send_messages("orders", vec![message]).await.unwrap();
    assert_eq!(house.ended(run).await, Outcome::Completed);
    let wait = by.dag_step(run, "wait", None).await.unwrap().run.unwrap();
    assert_eq!(wait.result.as_deref(), Some("{\"id\":7}"));
    let replayed = by.replay_dag_run(run, &BTreeMap::new(), None).await.unwrap();
    assert_eq!(replayed.differences, []);
}

fn each(name: &str, work: StepWork) -> Step {
    let for_each = ForEach { list: Some("config.list".into()), ..ForEach::default() };
    Step { for_each: Some(for_each), work, ..step(name, &[]) }
}

#[tokio::test]
async fn an_item_that_does_not_exist_is_refused_and_stops_no_other_run() {
    let house = House::open().await;
    let wait = StepWork::Sleep { duration: Some(SignedDuration::from_hours(1)), until: None };
    let job = house.dag("etl", vec![each("f", wait), step("next", &["f"])]).await;
    let run = house.run_with(&job, Some(r#"{"list":[1,2,3]}"#)).await;
    house.reached(run, "f", StepState::Open).await;
    let by = house.engine.by(&house.admin);
    for (name, item, expected) in [
        ("f", 9, "item 9 of step \"f\" (it has 3 items: 0 to 2) does not exist"),
        ("f", 3, "item 3 of step \"f\" (it has 3 items: 0 to 2) does not exist"),
        ("next", 0, "item 0 of step \"next\" (the step has no items) does not exist"),
    ] {
        let marked = by.mark_step(run, name, Some(item), StepMark::Succeeded, "").await;
        assert_eq!(marked.unwrap_err().to_string(), expected);
        let explained = by.explain_step(run, name, Some(item), None).await;
        assert_eq!(explained.unwrap_err().to_string(), expected);
    }
    // Record of an earlier version: other runs go on, and so does this one.
    let (header, records) = house.store.dag_run(run, true).await.unwrap().unwrap();
    let damage = StepRecord {
        key: StepKey { step: 0, item: Some(9) },
        outcome: Some(Outcome::Completed),
        ended_at: Some(now()),
        run: None,
        items: None,
        ..records[0].clone()
    };
    let (revision, control) = (header.revision, Control::Running);
    let records = vec![damage];
    let advance = Advance { run, revision, control, records, runs: Vec::new(), is_over: false };
    assert_eq!(house.store.advance(&[advance], None).await.unwrap().written, [true]);
    for item in 0..3 {
        by.mark_step(run, "f", Some(item), StepMark::Succeeded, "").await.unwrap();
    }
    assert_eq!(house.ended(run).await, Outcome::Completed);
    let verified = by.verify_dag_runs(Some(job.id), None, 10).await.unwrap();
    let problem = "\"f[9]\" is recorded, and the DAG run has no such step or item";
    assert_eq!(verified.problems, [format!("DAG run {run}: {problem}")]);
    let other = house.dag("other", vec![step("a", &[])]).await;
    let other = house.run(&other).await;
    assert_eq!(house.ended(other).await, Outcome::Completed);
}

#[tokio::test]
async fn a_rerun_of_failed_items_is_replayed_and_verified() {
    let house = House::open().await;
    let job = house.dag("etl", vec![each("f", StepWork::default()), step("next", &["f"])]).await;
    house.fails(&[r#"f {"item":2}"#]);
    let run = house.run_with(&job, Some(r#"{"list":[1,2,3]}"#)).await;
    assert_eq!(house.ended(run).await, Outcome::Failed);
    house.fails(&[]);
    let by = house.engine.by(&house.admin);
    let again = by.rerun_dag(run, Rerun::default(), false).await.unwrap().run.unwrap().id;
    assert_eq!(house.ended(again).await, Outcome::Completed);
    assert_eq!(house.seen(), ["f", "next"]);
    let replayed = by.replay_dag_run(again, &BTreeMap::new(), None).await.unwrap();
    assert_eq!(replayed.differences, Vec::new());
    let verified = by.verify_dag_runs(Some(job.id), None, 10).await.unwrap();
    assert_eq!((verified.runs, verified.problems), (2, Vec::new()));
}

#[tokio::test]
async fn a_cancel_that_races_the_last_end_leaves_records_that_agree() {
    let house = House::open().await;
    let job = house.dag("etl", vec![step("a", &[]), step("b", &["a"])]).await;
    let by = house.engine.by(&house.admin);
    for delay in 0..40 {
        let run = house.run(&job).await;
        tokio::time::sleep(Duration::from_micros(delay * 250)).await;
        let answer = by.cancel(run, "enough").await;
        let outcome = house.ended(run).await;
        let states = house.states(run).await;
        let has_cancelled = states.contains("CANCELLED") || states.contains("PENDING");
        assert_eq!(outcome == Outcome::Cancelled, has_cancelled, "{outcome} {states}");
        match answer {
            Ok(_) => {}
            Err(EngineError::WrongState(_)) => assert_eq!(outcome, Outcome::Completed),
            Err(error) => panic!("{error}"),
        }
    }
    let verified = by.verify_dag_runs(Some(job.id), None, 100).await.unwrap();
    assert_eq!(verified.problems, Vec::<String>::new());
}
