//! Facts: the rows that the start of a held run depends on.

use domain::decide::start::StartFacts;
use domain::id::{JobId, NodeId};
use domain::job::{Job, JobState};
use domain::run::{ClaimedRun, EndedAttempt, Grant, NewRun, Origin, Outcome, Wait};
use jiff::Timestamp;
use store::{FactsFor, Prepared, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{
    Lab, completed, ended, ids_of, minutes, question, retried, seconds, skipped, untried, want,
};

async fn facts<B: Bench>(lab: &Lab<B>, node: NodeId, question: FactsFor) -> StartFacts {
    lab.store.facts(node, &[question]).await.unwrap().remove(0)
}

fn about_earlier(claimed: &ClaimedRun) -> FactsFor {
    FactsFor { others: true, ..question(claimed) }
}

fn about_upstream(claimed: &ClaimedRun, upstream: &[&Job]) -> FactsFor {
    let upstream = upstream.iter().map(|job| job.id).collect();
    FactsFor { upstream, ..question(claimed) }
}

pub async fn a_run_is_held_until_its_grant_ends<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let known = facts(lab, node, question(&claimed)).await;
    assert!(known.held && !known.cancel_requested);
    assert!(!facts(lab, other, question(&claimed)).await.held);
    assert!(!facts(lab, NodeId(lab.id()), question(&claimed)).await.held);
    lab.finish(node, completed(node, &claimed)).await;
    assert!(!facts(lab, node, question(&claimed)).await.held);
}

pub async fn questions_are_answered_in_their_order<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let first = lab.started(node, &job).await;
    let gone = lab.started(node, &job).await;
    lab.finish(node, completed(node, &gone)).await;
    let last = lab.started(node, &job).await;
    let questions = [about_earlier(&last), question(&gone), question(&first), question(&last)];
    let known = lab.store.facts(node, &questions).await.unwrap();
    assert_eq!(known.iter().map(|known| known.held).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(known[0].earlier.len(), 1);
    assert_eq!(known[3].earlier.len(), 0, "it was not asked for");
    assert_eq!(lab.store.facts(node, &[]).await.unwrap(), []);
}

pub async fn the_state_of_the_job_is_told<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    let states = [
        JobState::Enabled,
        JobState::Paused,
        JobState::Disabled,
        JobState::Completed,
        JobState::Deleted,
    ];
    for state in states {
        job.state = state;
        lab.update(&mut job, Prepared::Keep).await;
        assert_eq!(facts(lab, node, question(&claimed)).await.job_state, Some(state));
    }
    let unknown = FactsFor { job: JobId(lab.id()), ..question(&claimed) };
    assert_eq!(facts(lab, node, unknown).await.job_state, None);
}

/// Runs of a job form one line, by when they were first due and then by id. A retry keeps its
/// place, though it is due later.
pub async fn earlier_runs_stand_in_one_line<B: Bench>(lab: &Lab<B>) {
    let (node, job, other) = (lab.node().await, lab.job("job").await, lab.job("other").await);
    lab.due(&other).await;
    let now = lab.now().await;
    // The line is made while its members are still to come, as a planner makes it.
    let mut runs: Vec<_> = [10, 20, 20, 30, 40].map(|n| lab.run(&job, now + seconds(n))).into();
    runs[0].origin = Origin::Schedule;
    runs.sort_by_key(|run| (run.due_at, run.id));
    let mut shuffled = runs.clone();
    shuffled.swap(0, 3);
    shuffled.swap(1, 4);
    lab.submit(&shuffled).await;
    let mut held = lab.claim(node, crate::lab::want_soon(9)).await;
    held.sort_by_key(|claimed| (claimed.run.due_at, claimed.run.id));
    lab.finish(node, retried(node, &held[1], minutes(30))).await;
    for (place, claimed) in held.iter().enumerate().filter(|(place, _)| *place != 1) {
        let known = facts(lab, node, about_earlier(claimed)).await;
        let earlier: Vec<_> = known.earlier.iter().map(|earlier| earlier.id).collect();
        assert_eq!(earlier, ids_of(&runs[..place]));
        let origins = known.earlier.iter().map(|earlier| earlier.origin);
        assert!(origins.eq(runs[..place].iter().map(|run| run.origin)));
    }
    // An ended run is not in the line any more.
    lab.finish(node, completed(node, &held[0])).await;
    let known = facts(lab, node, about_earlier(&held[2])).await;
    assert_eq!(known.earlier.iter().map(|run| run.id).collect::<Vec<_>>(), [runs[1].id]);
}

/// A run that is recorded late, for a time in the past, does not pass by one that runs already.
pub async fn a_late_comer_stands_behind_what_runs<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let running = lab.started(node, &job).await;
    let late = NewRun { origin: Origin::CatchUp, ..lab.tick(&job, lab.ago(3_600).await) };
    lab.submit(std::slice::from_ref(&late)).await;
    let late = lab.claim_one(node).await;
    let known = facts(lab, node, about_earlier(&late)).await;
    assert_eq!(known.earlier.iter().map(|run| run.id).collect::<Vec<_>>(), [running.run.id]);
    assert_eq!(facts(lab, node, about_earlier(&running)).await.earlier, []);
}

/// Ticks that are caught up together stand in the order of their times.
pub async fn a_late_batch_keeps_its_order<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let first = lab.ago(3_600).await;
    let ticks: Vec<_> = (0..4).map(|n| lab.tick(&job, first + minutes(n))).collect();
    let mut shuffled = ticks.clone();
    shuffled.reverse();
    lab.submit(&shuffled).await;
    for (place, claimed) in lab.claim(node, want(9)).await.iter().enumerate() {
        assert_eq!(claimed.run.id, ticks[place].id);
        let known = facts(lab, node, about_earlier(claimed)).await;
        let earlier: Vec<_> = known.earlier.iter().map(|run| run.id).collect();
        assert_eq!(earlier, ids_of(&ticks[..place]));
    }
}

/// A due run of another node may have begun. Of two runs that no node has decided about, one sees
/// the other.
pub async fn what_other_nodes_hold_is_told<B: Bench>(lab: &Lab<B>) {
    let (node, other) = (lab.node().await, lab.node().await);
    let (job, another) = (lab.job("job").await, lab.job("another").await);
    lab.started(other, &another).await;
    let theirs = lab.started(other, &job).await;
    let soon = lab.run(&job, lab.now().await + minutes(10));
    lab.submit(std::slice::from_ref(&soon)).await;
    lab.claim(other, crate::lab::want_soon(1)).await;
    let mine = lab.started(node, &job).await;
    let elsewhere =
        |facts: StartFacts| -> Vec<_> { facts.elsewhere.iter().map(|run| run.id).collect() };
    let known = facts(lab, node, about_earlier(&mine)).await;
    assert_eq!(elsewhere(known), [theirs.run.id], "what is due, of this job, elsewhere");
    assert_eq!(elsewhere(facts(lab, node, question(&mine)).await), [], "it was not asked for");
    assert_eq!(elsewhere(facts(lab, other, about_earlier(&theirs)).await), []);
    // It comes before in line, though it was claimed later.
    let early = NewRun { due_at: lab.ago(3_600).await, ..lab.run(&job, lab.ago(3_600).await) };
    lab.submit(&[early]).await;
    let late = lab.claim_one(other).await;
    let known = elsewhere(facts(lab, other, about_earlier(&late)).await);
    assert_eq!(known, [mine.run.id]);
    lab.finish(other, completed(other, &theirs)).await;
    let known = elsewhere(facts(lab, node, about_earlier(&mine)).await);
    assert_eq!(known, [], "what has ended is not at work");
}

/// A later run that was claimed first is seen by the earlier one too, and is undecided until its
/// start is known. The later one is decided first.
pub async fn a_later_run_elsewhere_is_undecided_until_its_start_is_known<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..2).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    let released = lab.claim(node, want(1)).await.remove(0);
    let later = lab.claim(other, want(1)).await.remove(0);
    assert_eq!([released.run.id, later.run.id], [runs[0].id, runs[1].id]);
    let known = facts(lab, node, about_earlier(&released)).await;
    assert_eq!((known.elsewhere, known.undecided), (vec![], vec![]), "its holder sees this one");
    lab.finish(node, untried(&released, Verdict::Release)).await;
    let earlier = lab.claim_one(node).await;
    assert_eq!(earlier.run.id, runs[0].id);
    let seen = async || {
        let known = facts(lab, node, about_earlier(&earlier)).await;
        assert_eq!(known.elsewhere.iter().map(|run| run.id).collect::<Vec<_>>(), [later.run.id]);
        known.undecided
    };
    assert_eq!(seen().await, [later.run.id]);
    let known = facts(lab, other, about_earlier(&later)).await;
    assert_eq!(known.elsewhere.iter().map(|run| run.id).collect::<Vec<_>>(), [earlier.run.id]);
    assert_eq!(known.undecided, [], "only the earlier one waits for the decision");
    // A start is known once its node has reported it with a renewal, for its claim alone.
    let grant = later.grant;
    let of_another = Grant { turn: grant.turn + 1, ..grant };
    for (reported, undecided) in [(of_another, vec![grant.run]), (grant, vec![])] {
        let now = lab.now().await;
        lab.store.record_starts(other, &[(reported, now)]).await.unwrap();
        assert_eq!(seen().await, undecided);
    }
    // It is known at once where it was written down before it happened.
    lab.store.record_starts(other, &[]).await.unwrap();
    assert_eq!(seen().await, [grant.run]);
    assert_eq!(lab.store.begin(other, &[grant]).await.unwrap(), [true]);
    assert_eq!(seen().await, []);
}

pub async fn the_version_of_the_job_is_told<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    let claimed = lab.started(node, &job).await;
    assert_eq!(facts(lab, node, question(&claimed)).await.job_version, job.version);
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(facts(lab, node, question(&claimed)).await.job_version, job.version);
}

pub async fn an_earlier_run_may_wait_for_other_jobs<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let due_at = lab.ago(60).await;
    let runs: Vec<_> = (0..3).map(|n| lab.run(&job, due_at + seconds(n))).collect();
    lab.submit(&runs).await;
    let held = lab.claim(node, want(9)).await;
    lab.finish(node, untried(&held[1], Verdict::Wait(Wait::Overlap, None))).await;
    lab.finish(node, untried(&held[0], Verdict::Wait(Wait::Upstream, None))).await;
    let known = facts(lab, node, about_earlier(&held[2])).await;
    assert_eq!(known.earlier[0].id, runs[0].id);
    let waits: Vec<_> = known.earlier.iter().map(|run| run.wait).collect();
    assert_eq!(waits, [Some(Wait::Upstream), None], "who stands aside wakes the next in line");
}

/// Ends a run of a job at a time.
async fn ends<B: Bench>(lab: &Lab<B>, node: NodeId, job: &Job, outcome: Outcome, at: Timestamp) {
    let claimed = lab.started(node, job).await;
    let mut finish = ended(node, &claimed, outcome);
    if let Some(made) = &mut finish.attempt {
        let EndedAttempt { started_at, finished_at, .. } = made;
        (*started_at, *finished_at) = (at - seconds(1), at);
    }
    lab.finish(node, finish).await;
}

pub async fn the_last_ends_of_upstream_jobs_are_told<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let (good, bad, never) = (lab.job("good").await, lab.job("bad").await, lab.job("never").await);
    let job = lab.job_after("job", &[&good, &bad, &never]).await;
    let claimed = lab.started(node, &job).await;
    ends(lab, node, &good, Outcome::Failed, now - minutes(30)).await;
    ends(lab, node, &good, Outcome::Completed, now - minutes(20)).await;
    ends(lab, node, &bad, Outcome::Completed, now - minutes(25)).await;
    ends(lab, node, &bad, Outcome::Timeout, now - minutes(15)).await;
    // Reported last, ended first.
    ends(lab, node, &bad, Outcome::Completed, now - minutes(40)).await;
    let known = facts(lab, node, about_upstream(&claimed, &[&never, &bad, &good])).await.upstream;
    let names: Vec<_> = known.iter().map(|fact| fact.name.as_str()).collect();
    assert_eq!(names, ["never", "bad", "good"]);
    assert_eq!((known[0].last, known[0].last_success), (None, None));
    assert_eq!(known[1].last, Some((Outcome::Timeout, now - minutes(15))));
    assert_eq!(known[1].last_success, Some(now - minutes(25)));
    assert_eq!(known[2].last, Some((Outcome::Completed, now - minutes(20))));
    assert_eq!(known[2].last_success, Some(now - minutes(20)));
}

/// A job may come to depend on another one that ran before.
pub async fn upstream_ends_of_before_the_dependency_count<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let upstream = lab.job("upstream").await;
    ends(lab, node, &upstream, Outcome::Completed, now - minutes(30)).await;
    ends(lab, node, &upstream, Outcome::Failed, now - minutes(20)).await;
    let job = lab.job_after("job", &[&upstream]).await;
    let claimed = lab.started(node, &job).await;
    let known = facts(lab, node, about_upstream(&claimed, &[&upstream])).await.upstream;
    assert_eq!(known[0].last, Some((Outcome::Failed, now - minutes(20))));
    assert_eq!(known[0].last_success, Some(now - minutes(30)));
}

/// Skipped ticks are no ends, however many they are: an upstream job that runs long and skips
/// every second in between has still ended well when it did.
pub async fn skipped_ticks_do_not_hide_an_end<B: Bench>(lab: &Lab<B>) {
    let (node, now) = (lab.node().await, lab.now().await);
    let upstream = lab.job("upstream").await;
    let job = lab.job_after("job", &[&upstream]).await;
    let claimed = lab.started(node, &job).await;
    ends(lab, node, &upstream, Outcome::Completed, now - minutes(1)).await;
    let late = |n: i64| now - seconds(50) + jiff::SignedDuration::from_millis(n * 10);
    let ticks: Vec<_> = (0..1_200).map(|n| lab.tick(&upstream, late(n))).collect();
    lab.submit(&ticks).await;
    let held = lab.claim(node, want(2_000)).await;
    assert_eq!(held.len(), 1_200);
    let done: Vec<_> = held.iter().map(|held| skipped(held, Outcome::Skipped)).collect();
    lab.store.complete_and_claim(node, &done, store::ClaimRequest::default()).await.unwrap();
    let known = facts(lab, node, about_upstream(&claimed, &[&upstream])).await.upstream;
    assert_eq!(known[0].last, Some((Outcome::Completed, now - minutes(1))));
}
