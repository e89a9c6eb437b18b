//! Dependencies: runs that are woken by the end of another job, or by a change of their own job.

use domain::bucket::Buckets;
use domain::job::{Dependency, Job, JobState, When};
use domain::run::{Outcome, RunState, Wait};
use store::{FactsFor, Prepared, Store};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, ids, minutes, question, seconds, want};

pub async fn the_end_of_an_upstream_job_wakes_its_dependents<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (first, second) = (lab.job("first").await, lab.job("second").await);
    let both = lab.job_after("both", &[&first, &second]).await;
    let one = lab.job_after("one", &[&second]).await;
    let waiting = [lab.line(node, &both, 2).await, lab.line(node, &one, 1).await].concat();
    for claimed in &waiting {
        lab.wait(node, claimed, Wait::Upstream, None).await;
    }
    let cause = lab.started(node, &first).await;
    let exchanged = lab
        .store
        .complete_and_claim(node, &[ended(node, &cause, Outcome::Failed)], want(9))
        .await
        .unwrap();
    // All that waited for it look again, whatever its outcome; the others sleep on.
    assert_eq!(ids(&exchanged.claimed), ids(&waiting[..2]));
    for claimed in &exchanged.claimed {
        lab.wait(node, claimed, Wait::Upstream, None).await;
    }
    let cause = lab.started(node, &second).await;
    let exchanged =
        lab.store.complete_and_claim(node, &[completed(node, &cause)], want(9)).await.unwrap();
    let mut woken = ids(&exchanged.claimed);
    woken.sort();
    let mut expected = ids(&waiting);
    expected.sort();
    assert_eq!(woken, expected);
}

/// A job whose definition no longer names an upstream job is not woken by it.
pub async fn edges_follow_the_definition<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (old, new) = (lab.job("old").await, lab.job("new").await);
    let mut job = lab.job_after("job", &[&old]).await;
    let claimed = lab.started(node, &job).await;
    lab.wait(node, &claimed, Wait::Upstream, None).await;
    job.definition.depends_on[0].job = new.id;
    lab.update(&mut job, Prepared::Keep).await;
    // The change may have made it look again.
    if let Some(claimed) = lab.claim(node, want(9)).await.pop() {
        lab.wait(node, &claimed, Wait::Upstream, None).await;
    }
    let cause = lab.started(node, &old).await;
    lab.finish(node, completed(node, &cause)).await;
    assert_eq!(lab.claim(node, want(9)).await, []);
    let cause = lab.started(node, &new).await;
    lab.finish(node, completed(node, &cause)).await;
    assert_eq!(lab.claim_one(node).await.run.id, claimed.run.id);
}

async fn after<B: Bench>(lab: &Lab<B>, name: &str, upstream: &Job, state: JobState) -> Job {
    let mut job = lab.draft(name).await;
    job.definition.when = When::AfterDependencies;
    job.definition.depends_on = vec![Dependency { job: upstream.id, on: Default::default() }];
    job.state = state;
    lab.create(&job).await;
    job
}

/// A job that runs after others is due when one of them ends, and only then.
pub async fn a_job_that_runs_after_others_becomes_due<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (upstream, stranger) = (lab.job("upstream").await, lab.job("stranger").await);
    let job = after(lab, "after", &upstream, JobState::Enabled).await;
    let paused = after(lab, "paused", &upstream, JobState::Paused).await;
    let timed = lab.job_after("timed", &[&upstream]).await;
    let other = lab.started(node, &stranger).await;
    lab.finish(node, completed(node, &other)).await;
    assert_eq!(lab.store.due_jobs(minutes(9), 9, &Buckets::ALL).await.unwrap().jobs, []);
    let cause = lab.started(node, &upstream).await;
    let before = lab.now().await;
    lab.finish(node, completed(node, &cause)).await;
    let due = lab.store.due_jobs(seconds(0), 9, &Buckets::ALL).await.unwrap().jobs;
    assert_eq!(due.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id]);
    let next = due[0].next_run.unwrap();
    assert!(next >= before && next <= lab.now().await);
    assert_eq!(due[0].version, job.version, "a plan is no change of the job");
    assert_eq!(lab.stored(&paused).await.unwrap().next_run, None);
    assert_eq!(lab.stored(&timed).await.unwrap().next_run, None);
    // A second end before the plan is made moves nothing.
    let cause = lab.started(node, &upstream).await;
    lab.finish(node, completed(node, &cause)).await;
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(next));
}

/// An awaited job may leave the definition, or have ended before it entered the definition.
pub async fn a_changed_job_looks_again<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let (never, done) = (lab.job("never").await, lab.job("done").await);
    let cause = lab.started(node, &done).await;
    lab.finish(node, completed(node, &cause)).await;
    let mut job = lab.job_after("job", &[&never]).await;
    let first = lab.started(node, &job).await;
    lab.wait(node, &first, Wait::Upstream, None).await;
    job.definition.depends_on[0].job = done.id;
    lab.update(&mut job, Prepared::Keep).await;
    let second = lab.claim_one(node).await;
    assert_eq!(second.run.id, first.run.id);
    lab.wait(node, &second, Wait::Upstream, None).await;
    job.definition.depends_on.clear();
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(lab.claim_one(node).await.run.id, first.run.id);
}

/// The line of a job moves up when the job lets more of its runs run, and dissolves when the job
/// is deleted.
pub async fn the_line_of_a_changed_job_looks_again<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let held = lab.line(node, &job, 5).await;
    for waiting in &held[1..] {
        lab.wait(node, waiting, Wait::Overlap, None).await;
    }
    job.definition.concurrency = Some(3);
    lab.update(&mut job, Prepared::Keep).await;
    let woken = ids(&lab.claim(node, want(9)).await);
    assert!(woken.starts_with(&ids(&held[1..3])), "two more may run: {woken:?}");
    job.state = JobState::Deleted;
    lab.update(&mut job, Prepared::Drop).await;
    let rest = lab.claim(node, want(9)).await;
    assert_eq!(rest.len() + woken.len(), 4);
    assert_eq!(lab.state(held[4].run.id).await, RunState::Running);
}

/// A run that waited for other jobs gets in line anew: behind runs that have begun since.
pub async fn who_stood_aside_gets_in_line_anew<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let upstream = lab.job("upstream").await;
    let mut job = lab.job_after("job", &[&upstream]).await;
    let first = lab.started(node, &job).await;
    lab.wait(node, &first, Wait::Upstream, None).await;
    let mut begun = vec![lab.started(node, &job).await.run.id];
    // Woken by the end of the other job, by the end of the wait, and by a change.
    for how in 0..3 {
        match how {
            0 => {
                let cause = lab.started(node, &upstream).await;
                lab.finish(node, completed(node, &cause)).await;
            }
            1 => assert_eq!(lab.store.reap(9).await.unwrap().woken, 1),
            _ => lab.update(&mut job, Prepared::Keep).await,
        }
        let again = lab.claim_one(node).await;
        assert_eq!(again.run.id, first.run.id);
        let about = FactsFor { others: true, ..question(&again) };
        let facts = lab.store.facts(node, &[about]).await.unwrap().remove(0);
        let earlier: Vec<_> = facts.earlier.iter().map(|run| run.id).collect();
        assert_eq!(earlier, begun, "woken in way {how}");
        let until = (how == 0).then_some(lab.ago(1).await);
        lab.wait(node, &again, Wait::Upstream, until).await;
        begun.push(lab.started(node, &job).await.run.id);
    }
}
