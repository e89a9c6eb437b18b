//! Values at their edges: what fits the types comes back as it went in.

use domain::bucket::Buckets;
use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::job::{Definition, Job, JobState};
use domain::run::{
    AttemptResult, ErrorCode, LedgerEntry, NewRun, Origin, Outcome, ReasonCode, RunState, Wait,
};
use jiff::{SignedDuration, Timestamp};
use store::{
    Applied, ClaimRequest, NodeInfo, Prepared, RecordPlan, RunFilter, SYSTEM, Store, Verdict,
};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, completed, minutes, reason, retried, seconds, untried, want};

/// The last second that a time can have.
fn end_of_time() -> Timestamp {
    Timestamp::from_second(Timestamp::MAX.as_second()).unwrap()
}

pub async fn names_are_any_text<B: Bench>(lab: &Lab<B>) {
    let names = [
        "n".repeat(255),
        "ä".repeat(127),
        "🦀 ⏰ \u{202e}thgir ot tfel".to_owned(),
        r#"quote ' double " back \ percent % underscore _"#.to_owned(),
        "tab\tnewline\nbell\u{7}".to_owned(),
        "Job".to_owned(),
        "job".to_owned(),
        " job ".to_owned(),
        "e\u{301}".to_owned(),
        "é".to_owned(),
    ];
    let mut jobs = Vec::new();
    for name in &names {
        jobs.push(lab.job(name).await);
    }
    for job in jobs {
        let found = lab.store.job_by_name(job.tenant, &job.name).await.unwrap();
        assert_eq!(found, Some(job));
    }
    assert_eq!(lab.store.counts().await.unwrap().jobs, names.len() as u64);
}

pub async fn numbers_reach_their_limits<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let mut job = lab.draft("job").await;
    job.version = u32::MAX - 1;
    job.definition = Definition {
        max_catch_up: u32::MAX,
        concurrency: Some(u32::MAX),
        timeout: SignedDuration::MAX,
        priority: u8::MAX,
        ..Definition::default()
    };
    lab.create(&job).await;
    lab.update(&mut job, Prepared::Keep).await;
    assert_eq!(lab.stored(&job).await, Some(job.clone()));
    let run = NewRun { coalesced: u32::MAX, priority: 9, ..lab.run(&job, lab.ago(9).await) };
    assert_eq!(run.job_version, u32::MAX);
    lab.submit(std::slice::from_ref(&run)).await;
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run, run);
    let mut finish = completed(node, &claimed);
    let made = finish.attempt.as_mut().unwrap();
    made.result.rows_affected = Some(i64::MAX as u64);
    made.result.error = Some(ErrorCode::Exit(i32::MIN));
    lab.finish(node, finish).await;
    let view = lab.view(run.id).await;
    assert_eq!((view.job_version, view.coalesced), (u32::MAX, u32::MAX));
    assert_eq!(view.rows_affected, Some(i64::MAX as u64));
    assert_eq!(view.error.as_deref(), Some("EXIT_-2147483648"));
}

pub async fn a_range_may_stand_for_ages<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("job").await;
    let first = Timestamp::UNIX_EPOCH;
    job.next_run = Some(first);
    lab.create(&job).await;
    let range = LedgerEntry {
        id: RunId::of_tick(job.id, first, ""),
        job: job.id,
        tenant: job.tenant,
        job_version: 1,
        first,
        last: end_of_time(),
        count: i64::MAX as u64,
        outcome: Outcome::Skipped,
        reason: reason(ReasonCode::CatchUp, &"for ages ".repeat(1_000)),
    };
    let fire = RecordPlan {
        job: job.id,
        version: 1,
        expected_next: first,
        new_next: Some(end_of_time()),
        runs: Vec::new(),
        ledger: vec![range.clone()],
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
    let view = lab.view(range.id).await;
    assert_eq!((view.scheduled_for, view.scheduled_last), (range.first, range.last));
    assert_eq!((view.count, view.reason_text), (range.count, Some(range.reason.text)));
    assert_eq!(lab.stored(&job).await.unwrap().next_run, Some(end_of_time()));
    let far = lab.store.due_jobs(SignedDuration::MAX, 9, &Buckets::ALL).await.unwrap().jobs;
    assert_eq!(far.len(), 1);
}

pub async fn times_reach_their_limits<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let ancient = lab.run(&job, Timestamp::from_microsecond(-62_135_596_800_000_000).unwrap());
    let never = lab.run(&job, end_of_time());
    lab.submit(&[never.clone(), ancient.clone()]).await;
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run, ancient);
    lab.finish(node, completed(node, &claimed)).await;
    assert_eq!(lab.view(ancient.id).await.due_at, ancient.due_at);
    let all = ClaimRequest { soon: 9, ahead: SignedDuration::MAX, ..ClaimRequest::default() };
    let claimed = lab.claim(node, all).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].run, never);
    // Longer than there is time.
    let again = untried(&claimed[0], Verdict::Retry { delay: SignedDuration::MAX });
    assert_eq!(lab.finish(node, again).await, Applied::Again);
    assert_eq!(lab.state(never.id).await, RunState::Pending);
    let claimed = lab.claim(node, all).await;
    let wait = Verdict::Wait(Wait::Upstream, Some(Timestamp::MAX));
    assert_eq!(lab.finish(node, untried(&claimed[0], wait)).await, Applied::Again);
    assert_eq!(lab.store.reap(9).await.unwrap().woken, 0);
    let (long, short) = (NodeId(lab.id()), NodeId(lab.id()));
    lab.store.join(long, &NodeInfo::named("long"), SignedDuration::MAX).await.unwrap();
    lab.store.join(short, &NodeInfo::named("short"), SignedDuration::MIN).await.unwrap();
    assert_eq!(lab.store.reap(9).await.unwrap().dead, [short]);
}

/// A time has microseconds; finer digits are cut, and a plan finds its time all the same.
pub async fn finer_times_are_cut<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("job").await;
    let fine = lab.ago(60).await + SignedDuration::from_nanos(789);
    job.next_run = Some(fine);
    lab.create(&job).await;
    let fire = RecordPlan {
        job: job.id,
        version: 1,
        expected_next: fine,
        new_next: None,
        runs: vec![lab.tick(&job, fine)],
        ledger: Vec::new(),
    };
    assert_eq!(lab.store.fire(&[fire]).await.unwrap(), [true]);
}

pub async fn large_values_come_back_whole<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let parameters = format!(r#"{{"blob": "{}"}}"#, "ü".repeat(512 * 1024));
    let run = NewRun { parameters: Some(parameters), ..lab.run(&job, lab.ago(60).await) };
    lab.submit(std::slice::from_ref(&run)).await;
    let claimed = lab.claim_one(node).await;
    assert_eq!(claimed.run, run);
    let mut again = retried(node, &claimed, seconds(0));
    again.attempt.as_mut().unwrap().result.message = "m".repeat(1024 * 1024);
    lab.finish(node, again).await;
    let claimed = lab.claim_one(node).await;
    let mut finish = completed(node, &claimed);
    finish.attempt.as_mut().unwrap().result.result = Some("r".repeat(1024 * 1024));
    lab.finish(node, finish).await;
    let view = lab.view(run.id).await;
    assert_eq!(view.parameters, run.parameters);
    assert_eq!(view.result.map(|result| result.len()), Some(1024 * 1024));
    let attempts = lab.store.attempts(run.id).await.unwrap();
    assert_eq!(attempts[0].message.as_ref().map(String::len), Some(1024 * 1024));
}

/// A job may print anything. A byte that one database cannot keep must not stop its node.
pub async fn output_may_hold_zero_bytes<B: Bench>(lab: &Lab<B>) {
    let (node, mut job) = (lab.node().await, lab.job("job").await);
    job.definition.description = Some("before\0after".into());
    lab.update(&mut job, Prepared::Keep).await;
    let hostile = AttemptResult {
        message: "before\0after".into(),
        error: Some(ErrorCode::Other("E\0".into())),
        result: Some("\"\0\"".into()),
        ..AttemptResult::completed()
    };
    let first = lab.started(node, &job).await;
    let mut again = retried(node, &first, seconds(0));
    again.attempt.as_mut().unwrap().result = hostile.clone();
    assert_eq!(lab.finish(node, again).await, Applied::Again);
    let second = lab.claim_one(node).await;
    let mut finish = completed(node, &second);
    finish.attempt.as_mut().unwrap().result = hostile;
    let why = reason(ReasonCode::RetriesExhausted, "be\0cause");
    finish.verdict =
        Verdict::End { outcome: Outcome::Failed, reason: Some(why), dead_letter: true };
    assert_eq!(lab.finish(node, finish).await, Applied::Ended(Outcome::Failed));
    let view = lab.view(first.run.id).await;
    for text in [view.message, view.reason_text, view.error, view.result] {
        assert!(text.is_some());
    }
    let message = lab.store.attempts(first.run.id).await.unwrap().remove(0).message.unwrap();
    assert!(message.starts_with("before") && message.ends_with("after"));
    let held = lab.started(node, &job).await;
    lab.store
        .cancel(held.run.id, &reason(ReasonCode::CancelRequested, "\0"), SYSTEM)
        .await
        .unwrap();
    let queued = lab.due(&job).await;
    lab.store.cancel(queued.id, &reason(ReasonCode::CancelRequested, "\0"), SYSTEM).await.unwrap();
    lab.store.join(NodeId(lab.id()), &NodeInfo::named("no\0de"), minutes(1)).await.unwrap();
}

/// Ids may be anything too: the smallest, the largest, and the same for different things.
pub async fn ids_are_only_ids<B: Bench>(lab: &Lab<B>) {
    for id in [Uuid::nil(), Uuid::max()] {
        let node = NodeId(id);
        lab.store.join(node, &NodeInfo::named(""), minutes(1)).await.unwrap();
        let mut job = lab.draft(&id.to_string()).await;
        (job.id, job.tenant) = (JobId(id), TenantId(id));
        lab.create(&job).await;
        let run = NewRun { origin: Origin::Backfill, ..lab.run(&job, lab.ago(9).await) };
        lab.submit(std::slice::from_ref(&run)).await;
        let claimed = lab.claim(node, want(9)).await;
        assert_eq!(claimed.len(), 1);
        lab.finish(node, completed(node, &claimed[0])).await;
        assert_eq!(lab.state(run.id).await, RunState::Ended(Outcome::Completed));
        let listed = lab.store.list_runs(&RunFilter::of_job(JobId(id)), None, 9).await.unwrap();
        assert_eq!(listed.items.len(), 1);
        let state = lab.stored(&job).await.map(|job: Job| job.state);
        assert_eq!(state, Some(JobState::Enabled));
    }
}
