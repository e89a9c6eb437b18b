//! Leases of messages in sessions: time limits, progress, outputs, and queues that have messages.

use domain::id::{NodeId, RunId};
use domain::job::Job;
use domain::run::{AttemptEnd, Outcome, RunState};
use jiff::SignedDuration;
use store::{
    Applied, Extended, LapseKind, LeaseExtension, LeaseRequest, Messages, RunQueries,
    SettledMessage, Store, TimeLimit, Verdict,
};

use super::message::{
    depth, done, draft, lease, queue, request, retried, send, send_of, settle, settled,
};
use crate::bench::Bench;
use crate::lab::{Lab, minutes, seconds};

pub fn extension(
    queue: &Job,
    (message, fence): (RunId, i64),
    lease: SignedDuration,
    time_limit: TimeLimit,
) -> LeaseExtension {
    LeaseExtension { queue: queue.id, message, fence, lease, time_limit, progress: None }
}

pub async fn extend<B: Bench>(
    lab: &Lab<B>,
    queue: &Job,
    leases: &[(RunId, i64)],
    lease: SignedDuration,
) -> Vec<Option<Extended>> {
    let leases: Vec<LeaseExtension> =
        leases.iter().map(|it| extension(queue, *it, lease, TimeLimit::Keep)).collect();
    lab.store.extend_leases(&leases).await.unwrap()
}

pub async fn a_lease_ends_with_the_time_limit<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let ids = send_of(lab, &queue, &["a", "b"]).await;
    // A limit that begins with the lease.
    let short =
        LeaseRequest { time_limit: Some(seconds(30)), ..request(&queue, NodeId(lab.id()), 1) };
    let first = lab.store.lease_messages(&short).await.unwrap().messages.remove(0);
    let left = first.lease_until.duration_since(lab.now().await);
    assert!(left <= seconds(30) && left > seconds(20), "{left}");
    // One that begins later: it is not moved by another beginning, but by a replacement.
    let second = lease(lab, &queue, 1).await.remove(0);
    let key = (second.id, second.fence);
    let extend = async |time_limit| {
        let asked = [extension(&queue, key, minutes(9), time_limit)];
        let until = lab.store.extend_leases(&asked).await.unwrap()[0].map(|it| it.until);
        let now = lab.now().await;
        until.map(|until| until.duration_since(now).as_secs_f64().round() as i64)
    };
    assert_eq!(extend(TimeLimit::Keep).await, Some(540));
    assert_eq!(extend(TimeLimit::Begin(seconds(60))).await, Some(60));
    assert_eq!(extend(TimeLimit::Begin(minutes(8))).await, Some(60));
    assert_eq!(extend(TimeLimit::Replace(minutes(2))).await, Some(120));
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
    // The limit ends: the lease cannot be kept any longer.
    assert_eq!(extend(TimeLimit::Replace(seconds(-1))).await, Some(-1));
    assert_eq!(extend(TimeLimit::Keep).await, None);
    let lapsed = lab.store.lapsed_messages(10).await.unwrap();
    assert_eq!(lapsed.len(), 1, "{lapsed:?}");
    assert_eq!((lapsed[0].kind, lapsed[0].message), (LapseKind::TimeLimit, ids[1]));
    let verdict = Verdict::Retry { delay: SignedDuration::ZERO };
    let late = settled(&queue, &second, verdict, AttemptEnd::Timeout);
    assert_eq!(settle(lab, &[late]).await, [Applied::Again]);
    // The next lease has a limit of its own.
    let again = lease(lab, &queue, 1).await.remove(0);
    assert_eq!((again.id, again.attempt), (ids[1], 2));
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
    let attempts = lab.store.attempts(ids[1]).await.unwrap();
    assert_eq!(attempts[0].end, "TIMEOUT");
}

pub async fn leases_of_several_queues_are_kept_with_one_call<B: Bench>(lab: &Lab<B>) {
    let (mail, post) = (queue(lab, "mail").await, queue(lab, "post").await);
    send_of(lab, &mail, &["a"]).await;
    send_of(lab, &post, &["a"]).await;
    let (one, two) = (lease(lab, &mail, 1).await.remove(0), lease(lab, &post, 1).await.remove(0));
    let keep = |queue: &Job, it: &store::LeasedMessage| {
        extension(queue, (it.id, it.fence), minutes(20), TimeLimit::Keep)
    };
    let asked = [keep(&mail, &one), keep(&post, &two), keep(&mail, &two)];
    let kept = lab.store.extend_leases(&asked).await.unwrap();
    assert_eq!(kept.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false]);
}

pub async fn queues_with_messages_are_found<B: Bench>(lab: &Lab<B>) {
    let mut queues = Vec::new();
    for name in ["empty", "ready", "delayed", "due", "leased"] {
        queues.push(queue(lab, name).await);
    }
    send_of(lab, &queues[1], &["a"]).await;
    let mut later = draft(lab, &queues[2], "a").await;
    later.run.due_at = lab.now().await + minutes(10);
    send(lab, &queues[2], &[later]).await;
    let mut soon = draft(lab, &queues[3], "a").await;
    let soon_at = lab.now().await + SignedDuration::from_millis(200);
    soon.run.due_at = soon_at;
    send(lab, &queues[3], &[soon]).await;
    send_of(lab, &queues[4], &["a"]).await;
    lease(lab, &queues[4], 1).await;
    let ids: Vec<_> = queues.iter().map(|queue| queue.id).collect();
    let ready = async || {
        let mut ready = lab.store.ready_queues(&ids).await.unwrap();
        ready.sort_by_key(|id| ids.iter().position(|it| it == id));
        ready
    };
    lab.bench.reach(soon_at).await;
    assert_eq!(ready().await, [ids[1], ids[3]]);
}

pub async fn the_output_of_an_attempt_is_kept<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let id = send_of(lab, &queue, &["a"]).await.remove(0);
    let with_output = |mut it: SettledMessage, output: &[u8]| {
        if let Some(result) = &mut it.result {
            result.output = Some(output.to_vec());
        }
        it
    };
    let first = lease(lab, &queue, 1).await.remove(0);
    let failed = with_output(retried(&queue, &first, SignedDuration::ZERO), b"one");
    assert_eq!(settle(lab, &[failed]).await, [Applied::Again]);
    let second = lease(lab, &queue, 1).await.remove(0);
    let stale = with_output(done(&queue, &first), b"stale");
    assert_eq!(settle(lab, &[stale]).await, [Applied::Stale]);
    let ended = with_output(done(&queue, &second), b"two");
    assert_eq!(settle(lab, &[ended]).await, [Applied::Ended(Outcome::Completed)]);
    assert_eq!(lab.state(id).await, RunState::Ended(Outcome::Completed));
    for (number, expected) in [(1, Some(b"one".to_vec())), (2, Some(b"two".to_vec())), (3, None)] {
        assert_eq!(lab.store.attempt_output(id, number).await.unwrap(), expected, "{number}");
    }
}

pub async fn a_completed_message_can_be_forgotten<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let ids = send_of(lab, &queue, &["a", "b", "c"]).await;
    let forget = |it: SettledMessage| SettledMessage { is_forgotten: true, ..it };
    let first = lease(lab, &queue, 1).await.remove(0);
    let again = forget(retried(&queue, &first, SignedDuration::ZERO));
    assert_eq!(settle(lab, &[again]).await, [Applied::Again]);
    let leased = lease(lab, &queue, 3).await;
    let of = |n: usize| leased.iter().find(|it| it.id == ids[n]).unwrap();
    let dead = Verdict::End { outcome: Outcome::Failed, reason: None, dead_letter: false };
    let reports = [
        forget(done(&queue, of(0))),
        done(&queue, of(1)),
        forget(settled(&queue, of(2), dead, AttemptEnd::Failed)),
    ];
    let completed = Applied::Ended(Outcome::Completed);
    assert_eq!(
        settle(lab, &reports).await,
        [completed, completed, Applied::Ended(Outcome::Failed)]
    );
    assert_eq!(depth(lab, &queue).await, [0; 4]);
    let found = |id| async move { lab.store.run(id).await.unwrap().is_some() };
    // Only what completed is forgotten, with its attempts.
    assert_eq!(
        [found(ids[0]).await, found(ids[1]).await, found(ids[2]).await],
        [false, true, true]
    );
    assert_eq!(lab.store.attempts(ids[0]).await.unwrap(), []);
}
