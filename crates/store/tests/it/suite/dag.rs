//! DAG runs: decisions are guarded by revisions, and the runs of steps exist exactly if they count.

use std::sync::Arc;

use domain::dag::state::{Control, StepKey, StepRecord};
use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{ClaimedRun, NewRun, Origin, Outcome, RunState, Wait};
use store::{
    Advance, Applied, Cancelled, ClaimFor, DagRecords, DagRun, Dags, Finish, RetentionCutoff,
    SYSTEM, Store, Verdict,
};

use crate::bench::Bench;
use crate::lab::{Lab, completed, processes, reason, seconds, stop, want};

fn header(run: &NewRun) -> DagRun {
    DagRun {
        run: run.id,
        job: run.job,
        tenant: run.tenant,
        version: run.job_version,
        revision: 0,
        control: Control::Running,
        is_over: false,
        rerun_of: None,
        forced: vec![3, 5],
        scheduled_for: run.scheduled_for,
        parameters: Some(r#"{"day":"2026-01-31"}"#.to_owned()),
    }
}

fn key(step: u32, item: Option<u32>) -> StepKey {
    StepKey { step, item }
}

/// The run of a step.
fn step_run(dag: &NewRun, step: u32) -> NewRun {
    NewRun {
        id: RunId::of_part(dag.id, u64::from(step) << 32, ""),
        origin: Origin::Step,
        ignore_dependencies: true,
        parameters: Some(format!(r#"{{"step":{step}}}"#)),
        due_at: dag.due_at,
        ..dag.clone()
    }
}

fn record(step: u32, run: Option<&NewRun>, at: jiff::Timestamp) -> StepRecord {
    StepRecord {
        key: key(step, None),
        outcome: None,
        reason: None,
        run: run.map(|run| run.id),
        items: None,
        decided_by: None,
        decided_at: at,
        ended_at: None,
        is_adopted: false,
    }
}

fn advance(run: RunId, revision: i64, records: Vec<StepRecord>, runs: Vec<NewRun>) -> Advance {
    Advance { run, revision, control: Control::Running, records, runs, is_over: false }
}

/// A DAG run that a node holds and that has begun.
async fn begun<B: Bench>(lab: &Lab<B>, node: NodeId, job: &Job) -> ClaimedRun {
    let run = lab.started(node, job).await;
    assert!(begin(lab, node, &run, &header(&run.run)).await);
    run
}

async fn begin<B: Bench>(lab: &Lab<B>, node: NodeId, run: &ClaimedRun, new: &DagRun) -> bool {
    lab.store.begin_dags(node, &[(run.grant, new.clone())]).await.unwrap() == [true]
}

async fn records<B: Bench>(lab: &Lab<B>, run: RunId) -> (DagRun, Vec<StepRecord>) {
    lab.store.dag_run(run, true).await.unwrap().expect("it has begun")
}

pub async fn a_dag_run_begins_once_and_only_under_its_claim<B: Bench>(lab: &Lab<B>) {
    let (node, other) = (lab.node().await, lab.node().await);
    let job = lab.job("dag").await;
    let run = lab.started(node, &job).await;
    let new = header(&run.run);
    assert!(!begin(lab, other, &run, &new).await, "not its node");
    assert_eq!(lab.store.dag_run(run.run.id, true).await.unwrap(), None);
    assert!(begin(lab, node, &run, &new).await);
    assert!(!begin(lab, node, &run, &new).await, "it has begun");
    assert_eq!(records(lab, run.run.id).await, (new, Vec::new()));
    let cancelled = lab.started(node, &job).await;
    let asked = lab.store.cancel(cancelled.run.id, &stop(), SYSTEM).await.unwrap();
    assert_eq!(asked, Cancelled::Requested(node));
    let new = header(&cancelled.run);
    assert!(!begin(lab, node, &cancelled, &new).await, "it was cancelled");
    // One that has begun ends as its steps do.
    let asked = lab.store.cancel(run.run.id, &stop(), SYSTEM).await.unwrap();
    assert_eq!(asked, Cancelled::HasSteps);
    let view = lab.store.run(run.run.id).await.unwrap().unwrap();
    assert_eq!((view.state, view.reason), (RunState::Running, None));
}

pub async fn a_decision_counts_if_its_revision_is_the_present_one<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let run = begun(lab, node, &job).await;
    let now = lab.now().await;
    let (one, two) = (step_run(&run.run, 0), step_run(&run.run, 1));
    let mut skipped = record(2, None, now);
    skipped.outcome = Some(Outcome::Skipped);
    skipped.reason = Some(reason(domain::run::ReasonCode::TriggerRule, "a FAILED"));
    skipped.decided_by = Some(key(0, Some(7)));
    skipped.ended_at = Some(now);
    let mut group = record(3, None, now);
    group.items = Some(10);
    let item = StepRecord { key: key(3, Some(4)), ..record(3, Some(&two), now) };
    let all = vec![record(0, Some(&one), now), skipped, group, item];
    let first = advance(run.run.id, 0, all.clone(), vec![one.clone(), two.clone()]);
    let stale = advance(run.run.id, 1, vec![record(9, None, now)], vec![step_run(&run.run, 9)]);
    let written = lab.store.advance(std::slice::from_ref(&stale), None).await.unwrap().written;
    assert_eq!(written, [false]);
    let written = lab.store.advance(std::slice::from_ref(&first), None).await.unwrap().written;
    assert_eq!(written, [true]);
    let written = lab.store.advance(&[first], None).await.unwrap().written;
    assert_eq!(written, [false], "it was written before");
    let (header, recorded) = records(lab, run.run.id).await;
    assert_eq!((header.revision, header.control), (1, Control::Running));
    assert_eq!(recorded, all);
    assert_eq!(lab.store.run(step_run(&run.run, 9).id).await.unwrap(), None);
    let stored = lab.store.run(one.id).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.origin), (RunState::Queued, Origin::Step));
    assert_eq!(stored.parameters, one.parameters);
    // A changed record replaces the one before; the others stay.
    let mut ended = record(0, Some(&one), now);
    ended.outcome = Some(Outcome::Completed);
    ended.ended_at = Some(now);
    let next =
        Advance { control: Control::Held, ..advance(run.run.id, 1, vec![ended.clone()], vec![]) };
    assert_eq!(lab.store.advance(&[next], None).await.unwrap().written, [true]);
    let (header, recorded) = records(lab, run.run.id).await;
    assert_eq!((header.revision, header.control), (2, Control::Held));
    assert_eq!(recorded[0], ended);
    assert_eq!(recorded[1..], all[1..]);
    // Outcomes of a range of steps, those of items, and the attempts of ended runs.
    let absent = RunId(uuid::Uuid::nil());
    let ranges = [(run.run.id, 1, 3), (absent, 0, 9), (run.run.id, 0, 0)];
    let outcomes = lab.store.step_outcomes(&ranges).await.unwrap();
    let done = Some(Outcome::Completed);
    assert_eq!(outcomes[0], [(2, Some(Outcome::Skipped)), (3, None)]);
    assert_eq!((&outcomes[1][..], &outcomes[2][..]), (&[][..], &[(0, done)][..]));
    assert_eq!(lab.store.item_counts(run.run.id).await.unwrap(), [(3, None, 1)]);
    assert_eq!(lab.store.step_attempts(run.run.id).await.unwrap(), [], "no run has ended");
    // Pages of steps.
    let page = lab.store.dag_steps(run.run.id, None, None, 2).await.unwrap();
    assert_eq!((page.items.len(), page.next), (2, Some(key(2, None))));
    let page = lab.store.dag_steps(run.run.id, None, page.next, 2).await.unwrap();
    assert_eq!((page.items, page.next), (all[2..3].to_vec(), None));
    let page = lab.store.dag_steps(run.run.id, Some(3), None, 2).await.unwrap();
    assert_eq!((page.items, page.next), (all[3..].to_vec(), None));
}

pub async fn the_last_step_wakes_its_dag_run<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let run = begun(lab, node, &job).await;
    let now = lab.now().await;
    let one = step_run(&run.run, 0);
    let first = advance(run.run.id, 0, vec![record(0, Some(&one), now)], vec![one.clone()]);
    assert_eq!(lab.store.advance(&[first], None).await.unwrap().written, [true]);
    lab.wait(node, &run, Wait::Parts, None).await;
    let waits = lab.store.run(run.run.id).await.unwrap().unwrap();
    assert_eq!((waits.state, waits.wait), (RunState::Running, Some(Wait::Parts)));
    let claimed = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    assert_eq!(claimed.iter().map(|it| it.run.id).collect::<Vec<_>>(), [one.id]);
    lab.store.complete_and_claim(node, &[completed(node, &claimed[0])], want(0)).await.unwrap();
    let ends = lab.store.unrecorded_ends(run.run.id, 10).await.unwrap();
    assert_eq!(ends.len(), 1);
    assert_eq!((ends[0].key, ends[0].outcome), (key(0, None), Some(Outcome::Completed)));
    let mut ended = record(0, Some(&one), now);
    ended.outcome = Some(Outcome::Completed);
    ended.ended_at = Some(now);
    let last = Advance { is_over: true, ..advance(run.run.id, 1, vec![ended], vec![]) };
    assert_eq!(lab.store.advance(&[last], None).await.unwrap().written, [true]);
    assert_eq!(lab.store.unrecorded_ends(run.run.id, 10).await.unwrap(), []);
    let began = lab.store.run(one.id).await.unwrap().unwrap().started_at;
    assert!(began.is_some());
    assert_eq!(lab.store.step_attempts(run.run.id).await.unwrap(), [(0, began, 1)]);
    let ids = [one.id, RunId(uuid::Uuid::nil()), run.run.id];
    let mut found = lab.store.runs(&ids).await.unwrap();
    found.sort_by_key(|it| it.id != one.id);
    let found: Vec<(RunId, RunState)> = found.iter().map(|it| (it.id, it.state)).collect();
    let done = RunState::Ended(Outcome::Completed);
    assert_eq!(found, [(one.id, done), (run.run.id, RunState::Queued)]);
    let claimed = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    assert_eq!(claimed.iter().map(|it| it.run.id).collect::<Vec<_>>(), [run.run.id]);
    // A DAG run that is over does not wait, even if its holder does not know it yet.
    let wait = Verdict::Wait(Wait::Parts, Some(now + seconds(600)));
    let told = [Finish::untried(claimed[0].grant, wait)];
    let applied = lab.store.complete_and_claim(node, &told, want(0)).await.unwrap().applied;
    assert_eq!(applied, [Applied::Again]);
    let again = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    assert_eq!(again.len(), 1, "it can be claimed at once");
}

pub async fn a_step_can_be_born_claimed_and_is_handed_on_when_its_node_dies<B: Bench>(
    lab: &Lab<B>,
) {
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let run = begun(lab, node, &job).await;
    let now = lab.now().await;
    let (one, two) = (step_run(&run.run, 0), step_run(&run.run, 1));
    let both = vec![record(0, Some(&one), now), record(1, Some(&two), now)];
    let first = advance(run.run.id, 0, both, vec![one.clone(), two.clone()]);
    let claim = Some(ClaimFor { node, max: processes(1) });
    let advanced = lab.store.advance(&[first], claim).await.unwrap();
    assert_eq!(advanced.claimed.len(), 1);
    let mut held: Vec<RunId> = advanced.claimed.iter().map(|it| it.run.id).collect();
    let rest = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    held.extend(rest.iter().map(|it| it.run.id));
    held.sort_unstable();
    let mut expected = vec![one.id, two.id];
    expected.sort_unstable();
    assert_eq!(held, expected, "each is claimed once");
    for claimed in advanced.claimed.iter().chain(&rest) {
        let applied =
            lab.store.complete_and_claim(node, &[completed(node, claimed)], want(0)).await.unwrap();
        assert_eq!(applied.applied, [Applied::Ended(Outcome::Completed)]);
    }
}

pub async fn racing_decisions_are_written_one_after_the_other<B: Bench>(lab: &Lab<B>) {
    const RUNS: usize = 4;
    const STEPS: u32 = 12;
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(begun(lab, node, &job).await.run);
    }
    let now = lab.now().await;
    let runs = Arc::new(runs);
    let mut tasks = Vec::new();
    for part in 0..3 {
        let (store, runs) = (Arc::clone(&lab.store), Arc::clone(&runs));
        tasks.push(tokio::spawn(async move {
            for step in (0..STEPS).filter(|step| step % 3 == part) {
                // All runs in one batch, in another order each time; those that were too late are
                // repeated.
                let mut left: Vec<NewRun> = runs.to_vec();
                left.rotate_left(step as usize % RUNS);
                while !left.is_empty() {
                    let mut batch = Vec::new();
                    for run in &left {
                        let (header, _) = store.dag_run(run.id, false).await.unwrap().unwrap();
                        let new = step_run(run, step);
                        let it = record(step, Some(&new), now);
                        batch.push(advance(run.id, header.revision, vec![it], vec![new]));
                    }
                    let written = store.advance(&batch, None).await.unwrap().written;
                    let mut written = written.into_iter();
                    left.retain(|_| !written.next().unwrap());
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for run in runs.iter() {
        let (header, steps) = records(lab, run.id).await;
        assert_eq!(header.revision, i64::from(STEPS));
        let numbers: Vec<u32> = steps.iter().map(|step| step.key.step).collect();
        assert_eq!(numbers, (0..STEPS).collect::<Vec<_>>());
        for step in steps {
            assert!(lab.store.run(step.run.unwrap()).await.unwrap().is_some());
        }
    }
}

pub async fn a_repeated_dag_run_adopts_steps_by_reference<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let run = begun(lab, node, &job).await;
    let now = lab.now().await;
    let new = NewRun { id: RunId::of_request(now, 77), ..run.run.clone() };
    let adopted = StepRecord {
        outcome: Some(Outcome::Completed),
        ended_at: Some(now),
        is_adopted: true,
        ..record(0, Some(&step_run(&run.run, 0)), now)
    };
    let again = DagRun { rerun_of: Some(run.run.id), ..header(&new) };
    assert!(lab.store.repeat_dag(&new, &again, std::slice::from_ref(&adopted)).await.unwrap());
    assert!(
        !lab.store.repeat_dag(&new, &again, std::slice::from_ref(&adopted)).await.unwrap(),
        "sent again"
    );
    assert_eq!(records(lab, new.id).await, (again, vec![adopted]));
    let claimed = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    assert!(claimed.iter().any(|it| it.run.id == new.id));
    let page = lab.store.list_dag_runs(run.run.tenant, Some(job.id), None, 1).await.unwrap();
    assert_eq!((page.items.len(), page.next.is_some()), (1, true));
    let rest = lab.store.list_dag_runs(run.run.tenant, Some(job.id), page.next, 9).await.unwrap();
    assert_eq!(rest.items.len(), 1);
}

pub async fn called_runs_are_found_by_their_ids_and_old_dag_runs_go<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let job = lab.job("dag").await;
    let run = begun(lab, node, &job).await;
    let now = lab.now().await;
    let called = RunId::of_call(run.run.id, 4, Some(2), now);
    let other = NewRun { id: called, ..step_run(&run.run, 4) };
    let it = StepRecord { key: key(4, Some(2)), ..record(4, Some(&other), now) };
    let missing =
        StepRecord { run: Some(RunId::of_call(run.run.id, 5, None, now)), ..record(5, None, now) };
    let first = advance(run.run.id, 0, vec![it, missing.clone()], vec![other]);
    assert_eq!(lab.store.advance(&[first], None).await.unwrap().written, [true]);
    let found = lab.store.called_steps(&[called, run.run.id]).await.unwrap();
    assert_eq!(found, [(called, run.run.id, key(4, Some(2)))]);
    let ends = lab.store.unrecorded_ends(run.run.id, 10).await.unwrap();
    assert_eq!(ends.len(), 1, "its run is not there");
    assert_eq!((ends[0].key, ends[0].outcome), (missing.key, None));
    let claimed = lab.store.complete_and_claim(node, &[], want(9)).await.unwrap().claimed;
    let mut ended = completed(node, &claimed[0]);
    ended.attempt.as_mut().unwrap().result.result = Some("[1]".to_owned());
    lab.store.complete_and_claim(node, &[ended, completed(node, &run)], want(0)).await.unwrap();
    let results = lab.store.run_results(&[run.run.id, called]).await.unwrap();
    assert_eq!(results, [None, Some("[1]".to_owned())]);
    let sizes = lab.store.result_sizes(&[run.run.id, called]).await.unwrap();
    assert_eq!(sizes, [0, 3]);
    assert_eq!(lab.store.prune_dags(10).await.unwrap(), 0);
    let all = lab.now().await + seconds(3_600);
    let cut = RetentionCutoff {
        job: None,
        before: all,
        failed_before: all,
        keep_last: None,
        sample: None,
    };
    while lab.store.prune(&cut, 100).await.unwrap() > 0 {}
    assert_eq!(lab.store.prune_dags(10).await.unwrap(), 3);
    assert_eq!(lab.store.dag_run(run.run.id, true).await.unwrap(), None);
}
