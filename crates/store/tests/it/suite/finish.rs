//! The end of claims: outcomes, retries, and writes that come too late.

use domain::id::NodeId;
use domain::job::{Job, JobState, When};
use domain::run::{
    AttemptEnd, AttemptResult, ClaimedRun, ErrorCode, Grant, Outcome, ReasonCode, RunState, Wait,
};
use jiff::SignedDuration;
use store::{Applied, ClaimFor, ClaimRequest, Finish, Prepared, RunFilter, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, attempt, completed, ended, ids, lost, minutes, processes, question, reason, retried,
    seconds, skipped, untried, want,
};

pub async fn an_end_is_recorded_with_its_last_attempt<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let mut finish = ended(node, &claimed, Outcome::Failed);
    let why = reason(ReasonCode::RetriesExhausted, "attempt 1 of 1");
    finish.verdict =
        Verdict::End { outcome: Outcome::Failed, reason: Some(why), dead_letter: true };
    let made = finish.attempt.as_mut().unwrap();
    made.result = AttemptResult {
        message: "no route to host".into(),
        error: Some(ErrorCode::Http(503)),
        result: Some(r#"{"rows": [1, 2]}"#.into()),
        rows_affected: Some(2),
        details: Some(r#"{"bytes": 3}"#.into()),
        ..AttemptResult::failed(ErrorCode::Http(503), "")
    };
    let (started_at, finished_at) = (made.started_at, made.finished_at);
    assert_eq!(lab.finish(node, finish).await, Applied::Ended(Outcome::Failed));
    let view = lab.view(claimed.run.id).await;
    assert_eq!(view.state, RunState::Ended(Outcome::Failed));
    assert_eq!(view.reason.as_deref(), Some("RETRIES_EXHAUSTED"));
    assert_eq!(view.reason_text.as_deref(), Some("attempt 1 of 1"));
    assert!(view.dead_letter);
    assert_eq!((view.attempts, view.lost), (1, 0));
    assert_eq!((view.node, view.fence), (Some(node), Some(claimed.token)));
    assert_eq!((view.started_at, view.finished_at), (Some(started_at), Some(finished_at)));
    assert_eq!(view.message.as_deref(), Some("no route to host"));
    assert_eq!(view.error.as_deref(), Some("HTTP_503"));
    assert_eq!(view.result.as_deref(), Some(r#"{"rows": [1, 2]}"#));
    assert_eq!(view.rows_affected, Some(2));
    let attempts = lab.store.attempts(claimed.run.id).await.unwrap();
    assert_eq!(attempts[0].details.as_deref(), Some(r#"{"bytes": 3}"#));
}

pub async fn every_outcome_is_kept<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    for outcome in Outcome::ALL {
        let claimed = lab.started(node, &job).await;
        let finish = ended(node, &claimed, outcome);
        assert_eq!(lab.finish(node, finish).await, Applied::Ended(outcome));
        assert_eq!(lab.state(claimed.run.id).await, RunState::Ended(outcome));
    }
}

/// A run may end before it began: there is no attempt then, and none is counted.
pub async fn an_end_without_an_attempt_counts_none<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.finish(node, skipped(&claimed, Outcome::Skipped)).await;
    let view = lab.view(claimed.run.id).await;
    assert_eq!(view.state, RunState::Ended(Outcome::Skipped));
    assert_eq!(view.reason.as_deref(), Some("OVERLAP"));
    assert_eq!((view.attempts, view.lost), (0, 0));
    assert_eq!((view.started_at, view.fence, view.message), (None, None, None));
    assert!(view.finished_at.is_some());
    assert_eq!(lab.store.attempts(claimed.run.id).await.unwrap(), []);
}

pub async fn an_end_that_is_sent_again_answers_the_same<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    for outcome in Outcome::ALL {
        let claimed = lab.started(node, &job).await;
        let finish = ended(node, &claimed, outcome);
        let first = lab.finish(node, finish.clone()).await;
        let before = lab.view(claimed.run.id).await;
        assert_eq!(lab.finish(node, finish.clone()).await, first);
        // Two copies in one call are no different.
        let twice = [finish.clone(), finish];
        let applied = lab
            .store
            .complete_and_claim(node, &twice, ClaimRequest::default())
            .await
            .unwrap()
            .applied;
        assert_eq!(applied, [first, first]);
        assert_eq!(lab.view(claimed.run.id).await, before);
    }
    let claimed = lab.started(node, &job).await;
    let twice = [completed(node, &claimed), completed(node, &claimed)];
    let applied =
        lab.store.complete_and_claim(node, &twice, ClaimRequest::default()).await.unwrap().applied;
    assert_eq!(applied, [Applied::Ended(Outcome::Completed); 2]);
}

pub async fn a_batch_answers_in_its_order<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..5).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(5)).await;
    let stale = Grant { turn: 7, ..held[4].grant };
    let done = [
        retried(node, &held[0], seconds(0)),
        completed(node, &held[1]),
        Finish { grant: stale, ..completed(node, &held[4]) },
        untried(&held[2], Verdict::Release),
        ended(node, &held[3], Outcome::Timeout),
    ];
    let exchanged = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap();
    let expected = [
        Applied::Again,
        Applied::Ended(Outcome::Completed),
        Applied::Stale,
        Applied::Again,
        Applied::Ended(Outcome::Timeout),
    ];
    assert_eq!(exchanged.applied, expected);
    // Runs that the call released can be claimed by the same call.
    let mut again = ids(&exchanged.claimed);
    again.sort();
    assert_eq!(again, [runs[0].id, runs[2].id]);
    assert_eq!(lab.state(runs[4].id).await, RunState::Running);
}

pub async fn a_retry_is_due_after_its_delay<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let before = lab.now().await;
    assert_eq!(lab.finish(node, retried(node, &claimed, minutes(5))).await, Applied::Again);
    let view = lab.view(claimed.run.id).await;
    assert!(view.due_at >= before + minutes(5) && view.due_at <= lab.now().await + minutes(5));
    assert_eq!(view.scheduled_for, claimed.run.scheduled_for);
    assert_eq!((view.state, view.attempts, view.lost), (RunState::Pending, 1, 0));
    assert_eq!(lab.claim(node, want(9)).await, []);
    let soon = ClaimRequest { soon: 1, ahead: minutes(6), ..ClaimRequest::default() };
    let again = lab.claim(node, soon).await.remove(0);
    assert_eq!((again.attempts, again.lost), (1, 0));
    assert_eq!(again.run.due_at, view.due_at);
}

/// Failed, lost, released, failed, completed: every attempt is listed under its own fence, and the
/// last one belongs to the run's own record too.
pub async fn attempts_are_listed_in_order<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let first = lab.started(node, &job).await;
    lab.finish(node, retried(node, &first, seconds(0))).await;
    let lossy = lab.node().await;
    let second = lab.claim_one(lossy).await;
    lab.expire(lossy).await;
    lab.store.reap(9).await.unwrap();
    assert_eq!(lab.store.settle_lost(&[lost(lossy, &second)]).await.unwrap(), [Applied::Again]);
    let given_back = lab.claim_one(node).await;
    assert_eq!((given_back.attempts, given_back.lost), (1, 1));
    lab.finish(node, untried(&given_back, Verdict::Release)).await;
    let third = lab.claim_one(node).await;
    assert_eq!((third.attempts, third.lost), (1, 1));
    let mut timeout = retried(node, &third, seconds(-1));
    timeout.attempt = Some(attempt(node, &third, AttemptEnd::Timeout));
    lab.finish(node, timeout).await;
    let fourth = lab.claim_one(node).await;
    assert_eq!((fourth.attempts, fourth.lost), (2, 1));
    let run = fourth.run.id;
    let listed = lab.store.attempts(run).await.unwrap();
    assert_eq!(listed.iter().map(|made| made.number).collect::<Vec<_>>(), [1, 2, 3]);
    lab.finish(node, completed(node, &fourth)).await;
    let listed = lab.store.attempts(run).await.unwrap();
    let ends: Vec<_> = listed.iter().map(|made| (made.number, made.end.as_str())).collect();
    assert_eq!(ends, [(1, "FAILED"), (2, "LOST"), (3, "TIMEOUT"), (4, "COMPLETED")]);
    let fences: Vec<_> = listed.iter().map(|made| made.fence).collect();
    assert_eq!(fences, [&first, &second, &third, &fourth].map(|held| Some(held.token)));
    let nodes: Vec<_> = listed.iter().map(|made| made.node).collect();
    assert_eq!(nodes, [node, lossy, node, node]);
    assert_eq!(listed[0].error.as_deref(), Some("EXIT_1"));
    assert_eq!(listed[0].message.as_deref(), Some("failed"));
    assert_eq!(listed[0].finished_at, first.run.due_at + seconds(1));
    let view = lab.view(run).await;
    assert_eq!((view.attempts, view.lost), (3, 1));
    assert_eq!((view.fence, view.node), (Some(fourth.token), Some(node)));
    assert_eq!(view.message.as_deref(), Some("completed"));
}

/// While a run waits for its next attempt, it shows the last one.
pub async fn a_live_run_shows_its_last_attempt<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    lab.finish(node, retried(node, &claimed, minutes(5))).await;
    let view = lab.view(claimed.run.id).await;
    assert_eq!((view.node, view.fence), (Some(node), Some(claimed.token)));
    assert_eq!(view.error.as_deref(), Some("EXIT_1"));
    assert_eq!(view.message.as_deref(), Some("failed"));
    assert_eq!(view.started_at, Some(claimed.run.due_at - seconds(1)));
    assert_eq!(view.finished_at, None, "the run has not ended");
    let listed = lab.store.list_runs(&RunFilter::of_job(job.id), None, 9).await.unwrap().items;
    assert_eq!(listed, [view]);
}

/// Everything a holder could send under a claim that is over.
async fn refuses<B: Bench>(lab: &Lab<B>, node: NodeId, old: &ClaimedRun, how: &str) {
    let before = lab.view(old.run.id).await;
    let mut attempts = lab.store.attempts(old.run.id).await.unwrap();
    let mut late = completed(node, old);
    late.job_state = Some(JobState::Disabled);
    let writes = [
        late,
        retried(node, old, seconds(1)),
        untried(old, Verdict::Release),
        untried(old, Verdict::Wait(Wait::Overlap, None)),
    ];
    let applied =
        lab.store.complete_and_claim(node, &writes, ClaimRequest::default()).await.unwrap().applied;
    assert_eq!(applied, [Applied::Stale; 4], "after {how}");
    assert!(!lab.store.facts(node, &[question(old)]).await.unwrap()[0].held, "after {how}");
    assert_eq!(lab.view(old.run.id).await, before, "after {how}");
    let now = lab.store.attempts(old.run.id).await.unwrap();
    attempts.retain(|made| !now.contains(made));
    assert_eq!(attempts, [], "after {how}");
}

async fn enabled<B: Bench>(lab: &Lab<B>, job: &Job) -> bool {
    lab.stored(job).await.is_some_and(|job| job.state == JobState::Enabled)
}

pub async fn a_grant_that_is_over_writes_nothing<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let old = lab.started(node, &job).await;
    lab.finish(node, retried(node, &old, seconds(0))).await;
    refuses(lab, node, &old, "a retry").await;
    let old = lab.claim_one(node).await;
    lab.finish(node, untried(&old, Verdict::Release)).await;
    refuses(lab, node, &old, "a release").await;
    let held = lab.claim_one(node).await;
    // The same node holds it again: its older claim is as invalid as another node's.
    refuses(lab, node, &old, "a new grant").await;
    let until = Some(lab.ago(1).await);
    lab.finish(node, untried(&held, Verdict::Wait(Wait::Upstream, until))).await;
    refuses(lab, node, &held, "a wait").await;
    lab.store.reap(9).await.unwrap();
    let leaver = lab.node().await;
    let old = lab.claim_one(leaver).await;
    lab.store.leave(leaver, &[]).await.unwrap();
    refuses(lab, leaver, &old, "leaving").await;
    let dead = lab.node().await;
    let old = lab.claim_one(dead).await;
    lab.expire(dead).await;
    lab.store.reap(9).await.unwrap();
    refuses(lab, dead, &old, "the death of the node").await;
    lab.store.settle_lost(&[lost(dead, &old)]).await.unwrap();
    refuses(lab, dead, &old, "the loss").await;
    assert!(enabled(lab, &job).await, "a late finish must not change the job");
    let last = lab.claim_one(node).await;
    assert_eq!(lab.finish(node, completed(node, &last)).await, Applied::Ended(Outcome::Completed));
    assert_eq!(lab.finish(dead, completed(dead, &old)).await, Applied::Stale);
}

pub async fn a_grant_belongs_to_one_node<B: Bench>(lab: &Lab<B>) {
    let (node, thief, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    refuses(lab, thief, &claimed, "another node's claim").await;
    assert_eq!(
        lab.finish(node, completed(node, &claimed)).await,
        Applied::Ended(Outcome::Completed)
    );
}

/// A one-time job has done its work when the run of its time has ended.
pub async fn an_end_may_change_the_state_of_the_job<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    for state in [JobState::Completed, JobState::Deleted] {
        // A time is compared to the microsecond, and no text of the definition is in the way.
        let at = lab.ago(30).await + SignedDuration::from_nanos(789);
        let mut job = lab.draft(&format!("{state:?}")).await;
        job.definition.when = When::At { at };
        job.definition.description = Some("a\0b".to_owned());
        lab.create(&job).await;
        lab.submit(&[lab.tick(&job, at)]).await;
        let claimed = lab.claim_one(node).await;
        let mut finish = completed(node, &claimed);
        finish.job_state = Some(state);
        lab.finish(node, finish.clone()).await;
        let stored = lab.stored(&job).await;
        if state == JobState::Deleted {
            assert_eq!(stored, None);
            assert_eq!(lab.store.job_by_name(job.tenant, &job.name).await.unwrap(), None);
            continue;
        }
        let mut stored = stored.unwrap();
        assert_eq!((stored.state, stored.next_run), (state, None));
        assert!(stored.version > job.version, "a change based on the old state must be refused");
        // Sent again, it does not undo a change of a user meanwhile.
        stored.state = JobState::Paused;
        lab.update(&mut stored, Prepared::Keep).await;
        lab.finish(node, finish).await;
        assert_eq!(lab.stored(&job).await.unwrap().state, JobState::Paused);
    }
}

/// A one-time job that was given another time while its run was under way has not done its work.
pub async fn an_end_does_not_complete_a_job_with_a_new_time<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let at = lab.ago(30).await;
    let new_times = [When::At { at: at + seconds(3_600) }, When::Manual];
    for (number, when) in new_times.into_iter().enumerate() {
        let mut job = lab.draft(&format!("job {number}")).await;
        job.definition.when = When::At { at };
        lab.create(&job).await;
        lab.submit(&[lab.tick(&job, at)]).await;
        let claimed = lab.claim_one(node).await;
        job.definition.when = when;
        lab.update(&mut job, Prepared::Keep).await;
        let mut finish = completed(node, &claimed);
        finish.job_state = Some(JobState::Completed);
        assert_eq!(lab.finish(node, finish).await, Applied::Ended(Outcome::Completed));
        assert_eq!(lab.stored(&job).await.unwrap().state, JobState::Enabled);
    }
}

/// Born claimed, finished, and claimed anew in one call: the node never stands still.
pub async fn one_exchange_records_ends_and_claims_runs<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..4).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    let born = Some(ClaimFor { node, max: processes(2) });
    let held = lab.store.submit(&runs, born).await.unwrap().claimed;
    let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
    let before = lab.now().await;
    let exchanged = lab.store.complete_and_claim(node, &done, want(9)).await.unwrap();
    assert_eq!(exchanged.applied, [Applied::Ended(Outcome::Completed); 2]);
    assert_eq!(ids(&exchanged.claimed), [runs[2].id, runs[3].id]);
    assert!(exchanged.now >= before);
}
