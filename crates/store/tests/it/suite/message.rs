//! Messages: sent once, leased by one worker at a time, settled under the token of their lease.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{NodeId, RunId};
use domain::job::{Job, JobState};
use domain::queue::QueueSettings;
use domain::run::{
    AttemptEnd, AttemptResult, NewRun, Origin, Outcome, Reason, ReasonCode, RunState,
};
use jiff::SignedDuration;
use store::{
    Applied, Cancelled, DeadLetters, Deduplication, LapseKind, LeaseRequest, LeasedMessage,
    MessageQueries, Messages, NewMessage, Prepared, QueueDepth, RunFilter, RunsOf, SYSTEM, Sent,
    SettledMessage, Store, Verdict,
};

use crate::bench::Bench;
use crate::lab::{Lab, minutes, seconds, stop, want};
use crate::suite::message_lease::extend;

pub(super) async fn queue<B: Bench>(lab: &Lab<B>, name: &str) -> Job {
    let mut job = lab.draft(name).await;
    job.definition.queue = Some(QueueSettings::default());
    lab.create(&job).await;
    job
}

/// A message that was sent a minute ago.
pub(super) async fn draft<B: Bench>(lab: &Lab<B>, queue: &Job, workspace: &str) -> NewMessage {
    let run = lab.run(queue, lab.ago(60).await);
    NewMessage {
        run: NewRun {
            origin: Origin::Message,
            parameters: Some(format!(r#"{{"payload":"{workspace}"}}"#)),
            ..run
        },
        workspace: workspace.to_owned(),
        expires_at: None,
        ordering_key: None,
        deduplication: None,
    }
}

pub(super) async fn send<B: Bench>(
    lab: &Lab<B>,
    queue: &Job,
    messages: &[NewMessage],
) -> Vec<RunId> {
    match lab.store.send_messages(queue.id, None, messages).await.unwrap() {
        Sent::Done(ids) => ids.into_iter().map(|(id, _)| id).collect(),
        other => panic!("{other:?}"),
    }
}

/// Sends one message of each of these workspaces.
pub(super) async fn send_of<B: Bench>(
    lab: &Lab<B>,
    queue: &Job,
    workspaces: &[&str],
) -> Vec<RunId> {
    let mut messages = Vec::new();
    for workspace in workspaces {
        messages.push(draft(lab, queue, workspace).await);
    }
    send(lab, queue, &messages).await
}

pub(super) fn request(queue: &Job, node: NodeId, max: u32) -> LeaseRequest {
    LeaseRequest::new(queue.id, node, max, minutes(5))
}

pub(super) async fn lease<B: Bench>(lab: &Lab<B>, queue: &Job, max: u32) -> Vec<LeasedMessage> {
    let request = request(queue, NodeId(lab.id()), max);
    lab.store.lease_messages(&request).await.unwrap().messages
}

pub(super) fn settled(
    queue: &Job,
    leased: &LeasedMessage,
    verdict: Verdict,
    end: AttemptEnd,
) -> SettledMessage {
    let result = AttemptResult { end, ..AttemptResult::completed() };
    let (message, fence) = (leased.id, Some(leased.fence));
    let (result, is_forgotten) = (Some(result), false);
    SettledMessage { queue: queue.id, message, fence, verdict, result, is_forgotten }
}

pub(super) fn done(queue: &Job, leased: &LeasedMessage) -> SettledMessage {
    let (outcome, reason) = (Outcome::Completed, None);
    let verdict = Verdict::End { outcome, reason, dead_letter: false };
    settled(queue, leased, verdict, AttemptEnd::Completed)
}

pub(super) fn retried(
    queue: &Job,
    leased: &LeasedMessage,
    delay: SignedDuration,
) -> SettledMessage {
    settled(queue, leased, Verdict::Retry { delay }, AttemptEnd::Failed)
}

pub(super) async fn settle<B: Bench>(lab: &Lab<B>, settled: &[SettledMessage]) -> Vec<Applied> {
    lab.store.settle_messages(NodeId(lab.id()), settled).await.unwrap()
}

pub(super) async fn depth<B: Bench>(lab: &Lab<B>, queue: &Job) -> [u64; 4] {
    let depth = lab.store.queue_depths(&[queue.id]).await.unwrap().remove(0);
    let QueueDepth { ready, delayed, leased, blocked, .. } = depth;
    [ready, delayed, leased, blocked]
}

pub async fn a_message_is_leased_once_and_ends_in_the_history<B: Bench>(lab: &Lab<B>) {
    let (queue, node) = (queue(lab, "mail").await, lab.node().await);
    let ids = send_of(lab, &queue, &["acme", "acme"]).await;
    assert_eq!(depth(lab, &queue).await, [2, 0, 0, 0]);
    assert_eq!(lab.state(ids[0]).await, RunState::Queued);
    assert_eq!(lab.claim(node, want(10)).await, [], "no node executes a message");
    let leased = lease(lab, &queue, 10).await;
    assert_eq!(leased.iter().map(|it| it.id).collect::<Vec<_>>(), ids);
    assert_eq!(lease(lab, &queue, 10).await, [], "they are taken");
    let first = &leased[0];
    assert_eq!((first.attempt, first.priority), (1, 5));
    assert_eq!(first.parameters.as_deref(), Some(r#"{"payload":"acme"}"#));
    assert!(leased[1].fence > first.fence && first.fence > 0);
    let view = lab.view(ids[0]).await;
    assert_eq!((view.state, view.started_at.is_some()), (RunState::Running, true));
    let counts = lab.store.counts().await.unwrap().live;
    assert_eq!((counts.pending, counts.queued, counts.running), (0, 0, 2));
    // A list of what runs has what is counted.
    let running = RunFilter {
        states: vec![RunState::Running],
        ..RunFilter::new(RunsOf::Tenant(queue.tenant))
    };
    let running = lab.store.list_runs(&running, None, 10).await.unwrap();
    assert_eq!(running.items.iter().map(|it| it.id).rev().collect::<Vec<_>>(), ids);
    assert_eq!(settle(lab, &[done(&queue, first)]).await, [Applied::Ended(Outcome::Completed)]);
    let view = lab.view(ids[0]).await;
    assert_eq!(view.state, RunState::Ended(Outcome::Completed));
    assert_eq!((view.attempts, view.fence), (1, Some(first.fence)));
    assert_eq!(view.parameters.as_deref(), Some(r#"{"payload":"acme"}"#));
    assert_eq!(depth(lab, &queue).await, [0, 0, 1, 0]);
    // A report that is sent again is answered as the first time.
    assert_eq!(settle(lab, &[done(&queue, first)]).await, [Applied::Ended(Outcome::Completed)]);
    let listed = lab.store.list_runs(&RunFilter::of_job(queue.id), None, 10).await.unwrap();
    let states: BTreeMap<RunId, RunState> =
        listed.items.iter().map(|run| (run.id, run.state)).collect();
    assert_eq!(states[&ids[0]], RunState::Ended(Outcome::Completed));
    assert_eq!(states[&ids[1]], RunState::Running);
}

pub async fn a_stale_token_changes_nothing<B: Bench>(lab: &Lab<B>) {
    let (queue, other) = (queue(lab, "mail").await, queue(lab, "post").await);
    send_of(lab, &queue, &["a"]).await;
    let first = lease(lab, &queue, 1).await.remove(0);
    assert_eq!(
        settle(lab, &[retried(&queue, &first, SignedDuration::ZERO)]).await,
        [Applied::Again]
    );
    let second = lease(lab, &queue, 1).await.remove(0);
    assert_eq!((second.id, second.attempt), (first.id, 2));
    assert!(second.fence > first.fence);
    let leases = [(first.id, first.fence), (second.id, second.fence)];
    let extended = extend(lab, &queue, &leases, minutes(9)).await;
    assert_eq!(extended[0], None);
    assert!(extended[1].is_some_and(|it| it.until > second.lease_until && !it.is_cancelled));
    assert_eq!(extend(lab, &other, &leases, minutes(9)).await, [None, None]);
    let held = lab.store.held_leases(queue.id, &leases).await.unwrap();
    assert_eq!(
        held.iter().map(|it| (it.message, it.attempts)).collect::<Vec<_>>(),
        [(second.id, 1)]
    );
    assert_eq!(settle(lab, &[done(&queue, &first)]).await, [Applied::Stale]);
    let of_another = SettledMessage { queue: other.id, ..done(&queue, &second) };
    assert_eq!(settle(lab, &[of_another]).await, [Applied::Stale]);
    assert_eq!(lab.state(first.id).await, RunState::Running);
    // The first report again: it is known.
    assert_eq!(settle(lab, &[retried(&queue, &first, seconds(1))]).await, [Applied::Again]);
    assert_eq!(lab.state(first.id).await, RunState::Running);
    assert_eq!(settle(lab, &[done(&queue, &second)]).await, [Applied::Ended(Outcome::Completed)]);
    let attempts = lab.store.attempts(first.id).await.unwrap();
    let ends: Vec<_> = attempts.iter().map(|it| (it.number, it.fence, it.end.as_str())).collect();
    assert_eq!(ends, [(1, Some(first.fence), "FAILED"), (2, Some(second.fence), "COMPLETED")]);
}

pub async fn a_lease_that_ended_lapses<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let ids = send_of(lab, &queue, &["a", "b"]).await;
    let over = LeaseRequest { lease: seconds(-1), ..request(&queue, NodeId(lab.id()), 1) };
    let first = lab.store.lease_messages(&over).await.unwrap().messages.remove(0);
    lease(lab, &queue, 1).await;
    let lapsed = lab.store.lapsed_messages(10).await.unwrap();
    assert_eq!(lapsed.len(), 1, "{lapsed:?}");
    let it = lapsed[0];
    assert_eq!((it.kind, it.message, it.queue), (LapseKind::Lease, ids[0], queue.id));
    assert_eq!((it.fence, it.attempts), (Some(first.fence), 0));
    let lost =
        settled(&queue, &first, Verdict::Retry { delay: SignedDuration::ZERO }, AttemptEnd::Lost);
    assert_eq!(settle(lab, &[lost]).await, [Applied::Again]);
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
    let view = lab.view(ids[0]).await;
    assert_eq!((view.state, view.attempts, view.lost), (RunState::Queued, 0, 1));
    let again = lease(lab, &queue, 1).await.remove(0);
    assert_eq!((again.id, again.attempt), (ids[0], 2));
    assert!(again.fence > first.fence);
    // A lease that was extended in time does not lapse.
    let lease = [(again.id, again.fence)];
    extend(lab, &queue, &lease, seconds(-1)).await;
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap().len(), 1);
    extend(lab, &queue, &lease, minutes(1)).await;
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
}

pub async fn a_delayed_message_waits_for_its_time<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let mut late = draft(lab, &queue, "a").await;
    let due_at = lab.now().await + SignedDuration::from_millis(300);
    late.run.due_at = due_at;
    let id = send(lab, &queue, &[late]).await[0];
    assert_eq!(lab.state(id).await, RunState::Pending);
    assert_eq!(depth(lab, &queue).await, [0, 1, 0, 0]);
    let leased = lab.store.lease_messages(&request(&queue, NodeId(lab.id()), 1)).await.unwrap();
    assert_eq!(leased.messages, []);
    assert_eq!(leased.next_at.map(|at| at.as_microsecond()), Some(due_at.as_microsecond()));
    lab.bench.reach(due_at).await;
    let leased = lease(lab, &queue, 1).await.remove(0);
    // It failed, and comes back after a delay.
    settle(lab, &[retried(&queue, &leased, minutes(1))]).await;
    assert_eq!((lab.state(id).await, depth(lab, &queue).await), (RunState::Pending, [0, 1, 0, 0]));
    assert_eq!(lease(lab, &queue, 1).await, []);
    let live = lab.store.counts().await.unwrap().live;
    assert_eq!((live.pending, live.queued, live.running), (1, 0, 0));
}

pub async fn a_released_message_counts_no_attempt<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let id = send_of(lab, &queue, &["a"]).await[0];
    let leased = lease(lab, &queue, 1).await.remove(0);
    let release =
        SettledMessage { verdict: Verdict::Release, result: None, ..done(&queue, &leased) };
    assert_eq!(settle(lab, &[release]).await, [Applied::Again]);
    assert_eq!(lab.state(id).await, RunState::Queued);
    assert_eq!(lease(lab, &queue, 1).await.remove(0).attempt, 1);
    assert_eq!(lab.store.attempts(id).await.unwrap(), []);
}

pub async fn a_full_queue_takes_nothing<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let (one, two) = (draft(lab, &queue, "a").await, draft(lab, &queue, "a").await);
    let three = draft(lab, &queue, "a").await;
    let key = Deduplication { key: "k".into(), window: minutes(5) };
    let keyed = NewMessage { deduplication: Some(key), ..three.clone() };
    let both = [one, two];
    let send = async |messages: &[NewMessage], most| {
        lab.store.send_messages(queue.id, Some(most), messages).await.unwrap()
    };
    assert_eq!(send(&both, 1).await, Sent::Full);
    assert_eq!(depth(lab, &queue).await, [0; 4]);
    assert!(matches!(send(&both, 2).await, Sent::Done(_)));
    // A message that was refused leaves no key behind.
    assert_eq!(send(std::slice::from_ref(&keyed), 2).await, Sent::Full);
    let sent = send(std::slice::from_ref(&keyed), 3).await;
    assert_eq!(sent, Sent::Done(vec![(three.run.id, true)]));
    let stranger = lab.draft("nothing").await;
    let sent = lab.store.send_messages(stranger.id, None, &both).await.unwrap();
    assert_eq!(sent, Sent::NoQueue);
}

pub async fn a_known_key_answers_the_first_message<B: Bench>(lab: &Lab<B>) {
    let (queue, other) = (queue(lab, "mail").await, queue(lab, "post").await);
    let keyed = async |queue: &Job, key: &str, window| NewMessage {
        deduplication: Some(Deduplication { key: key.to_owned(), window }),
        ..draft(lab, queue, "a").await
    };
    let first = keyed(&queue, "k", minutes(5)).await;
    let id = first.run.id;
    let twice = [first, keyed(&queue, "k", minutes(5)).await, draft(lab, &queue, "a").await];
    let sent = lab.store.send_messages(queue.id, None, &twice).await.unwrap();
    assert_eq!(sent, Sent::Done(vec![(id, true), (id, false), (twice[2].run.id, true)]));
    let again = keyed(&queue, "k", minutes(5)).await;
    let sent = lab.store.send_messages(queue.id, None, &[again]).await.unwrap();
    assert_eq!(sent, Sent::Done(vec![(id, false)]));
    assert_eq!(depth(lab, &queue).await, [2, 0, 0, 0]);
    let elsewhere = keyed(&other, "k", minutes(5)).await;
    assert_eq!(send(lab, &other, std::slice::from_ref(&elsewhere)).await, [elsewhere.run.id]);
    // The key is kept for its time after the message has ended.
    let leased = lease(lab, &queue, 9).await;
    settle(lab, &leased.iter().map(|it| done(&queue, it)).collect::<Vec<_>>()).await;
    let again = keyed(&queue, "k", minutes(5)).await;
    assert_eq!(send(lab, &queue, &[again]).await, [id]);
    // One without time is kept as long as its message goes on.
    let short = keyed(&queue, "s", SignedDuration::ZERO).await;
    let (short_id, again) = (short.run.id, keyed(&queue, "s", SignedDuration::ZERO).await);
    send(lab, &queue, &[short]).await;
    assert_eq!(send(lab, &queue, std::slice::from_ref(&again)).await, [short_id]);
    assert_eq!(lab.store.forget_message_keys(10).await.unwrap(), 0);
    let leased = lease(lab, &queue, 9).await;
    settle(lab, &[done(&queue, &leased[0])]).await;
    assert_eq!(send(lab, &queue, std::slice::from_ref(&again)).await, [again.run.id]);
    let leased = lease(lab, &queue, 9).await;
    settle(lab, &[done(&queue, &leased[0])]).await;
    assert_eq!(lab.store.forget_message_keys(10).await.unwrap(), 1);
    assert_eq!(lab.store.forget_message_keys(10).await.unwrap(), 0);
}

pub async fn messages_of_an_ordering_key_come_one_after_the_other<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let keyed = async |key: &str| NewMessage {
        ordering_key: Some(key.to_owned()),
        ..draft(lab, &queue, "a").await
    };
    let messages = [keyed("k").await, keyed("k").await, keyed("other").await];
    let mut ids = send(lab, &queue, &messages).await;
    ids.extend(send(lab, &queue, &[keyed("k").await, keyed("k").await]).await);
    assert_eq!(depth(lab, &queue).await, [2, 0, 0, 3]);
    for (place, ahead) in [(0, 0), (1, 1), (2, 0), (3, 2), (4, 3)] {
        let found = lab.store.message_place(ids[place]).await.unwrap().unwrap();
        let is_blocked = found.state.name() == "BLOCKED";
        assert_eq!((is_blocked, if is_blocked { found.ahead } else { 0 }), (ahead > 0, ahead));
    }
    let leased = lease(lab, &queue, 9).await;
    assert_eq!(leased.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    assert_eq!(lab.state(ids[1]).await, RunState::Queued);
    // A failed one keeps its place.
    settle(lab, &[retried(&queue, &leased[0], SignedDuration::ZERO)]).await;
    let again = lease(lab, &queue, 9).await;
    assert_eq!(again.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[0]]);
    // One in the middle can be cancelled.
    let cancelled = lab.store.cancel_message(queue.id, ids[1], &stop(), SYSTEM).await.unwrap();
    assert_eq!(cancelled, Cancelled::Ended);
    assert_eq!(lease(lab, &queue, 9).await, []);
    settle(lab, &[done(&queue, &again[0])]).await;
    let third = lease(lab, &queue, 9).await;
    assert_eq!(third.iter().map(|it| it.id).collect::<Vec<_>>(), [ids[3]]);
    settle(lab, &[done(&queue, &third[0])]).await;
    assert_eq!(lease(lab, &queue, 9).await.remove(0).id, ids[4]);
}

pub async fn a_message_is_cancelled<B: Bench>(lab: &Lab<B>) {
    let (queue, other) = (queue(lab, "mail").await, queue(lab, "post").await);
    let ids = send_of(lab, &queue, &["a", "b", "c"]).await;
    let cancel = async |queue: &Job, id| {
        lab.store.cancel_message(queue.id, id, &stop(), SYSTEM).await.unwrap()
    };
    assert_eq!(cancel(&other, ids[2]).await, Cancelled::NotFound);
    assert_eq!(cancel(&queue, ids[2]).await, Cancelled::Ended);
    assert_eq!(cancel(&queue, ids[2]).await, Cancelled::EndedBefore(Outcome::Cancelled));
    let view = lab.view(ids[2]).await;
    assert_eq!(view.state, RunState::Ended(Outcome::Cancelled));
    assert_eq!(view.reason.as_deref(), Some("CANCEL_REQUESTED"));
    let leased = lease(lab, &queue, 2).await;
    assert!(matches!(cancel(&queue, ids[0]).await, Cancelled::Requested(_)));
    assert!(matches!(cancel(&queue, ids[1]).await, Cancelled::Requested(_)));
    let lease = [(leased[0].id, leased[0].fence)];
    let extended = extend(lab, &queue, &lease, minutes(5)).await;
    assert!(extended[0].is_some_and(|it| it.is_cancelled));
    // Whatever its worker reports, it ends cancelled.
    let reports = [done(&queue, &leased[0]), retried(&queue, &leased[1], seconds(1))];
    assert_eq!(settle(lab, &reports).await, [Applied::Ended(Outcome::Cancelled); 2]);
    assert_eq!(depth(lab, &queue).await, [0; 4]);
}

pub async fn a_message_that_nobody_leased_in_time_lapses<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let stale = NewMessage { expires_at: Some(lab.ago(1).await), ..draft(lab, &queue, "a").await };
    let id = send(lab, &queue, &[stale]).await[0];
    assert_eq!(lease(lab, &queue, 9).await, [], "it is too late");
    let lapsed = lab.store.lapsed_messages(10).await.unwrap();
    assert_eq!(lapsed.len(), 1);
    assert_eq!((lapsed[0].kind, lapsed[0].message), (LapseKind::TimeToLive, id));
    let reason = Some(Reason { code: ReasonCode::StartDeadline, text: "late".into() });
    let verdict = Verdict::End { outcome: Outcome::Missed, reason, dead_letter: false };
    let missed = SettledMessage {
        queue: queue.id,
        message: id,
        fence: None,
        verdict,
        result: None,
        is_forgotten: false,
    };
    assert_eq!(settle(lab, &[missed]).await, [Applied::Ended(Outcome::Missed)]);
    let view = lab.view(id).await;
    assert_eq!((view.state, view.attempts), (RunState::Ended(Outcome::Missed), 0));
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
}

/// The time to live is for the first lease: an attempt that failed is repeated after it.
pub async fn a_leased_message_outlives_its_time<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let expires = lab.now().await + SignedDuration::from_secs(1);
    let message = NewMessage { expires_at: Some(expires), ..draft(lab, &queue, "a").await };
    let id = send(lab, &queue, &[message]).await[0];
    let first = lease(lab, &queue, 1).await.remove(0);
    assert_eq!(settle(lab, &[retried(&queue, &first, seconds(0))]).await, [Applied::Again]);
    lab.bench.reach(expires).await;
    assert_eq!(lab.store.lapsed_messages(10).await.unwrap(), []);
    assert_eq!(lease(lab, &queue, 1).await[0].id, id);
}

pub async fn messages_of_a_deleted_queue_lapse<B: Bench>(lab: &Lab<B>) {
    let mut queue = queue(lab, "mail").await;
    let ids = send_of(lab, &queue, &["a", "b"]).await;
    let leased = lease(lab, &queue, 1).await.remove(0);
    queue.state = JobState::Paused;
    lab.update(&mut queue, Prepared::Return).await;
    assert_eq!(lease(lab, &queue, 9).await, [], "a paused queue hands out nothing");
    queue.state = JobState::Deleted;
    lab.update(&mut queue, Prepared::Drop).await;
    assert_eq!(lab.state(ids[1]).await, RunState::Queued, "a change leaves messages alone");
    let lapsed = lab.store.lapsed_messages(10).await.unwrap();
    assert_eq!(lapsed.len(), 1, "{lapsed:?}");
    assert_eq!((lapsed[0].kind, lapsed[0].message), (LapseKind::QueueDeleted, ids[1]));
    assert_eq!(settle(lab, &[done(&queue, &leased)]).await, [Applied::Ended(Outcome::Completed)]);
    let sent = lab.store.send_messages(queue.id, None, &[draft(lab, &queue, "a").await]).await;
    assert_eq!(sent.unwrap(), Sent::NoQueue);
}

pub async fn a_dead_message_is_a_dead_letter<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let id = send_of(lab, &queue, &["a"]).await[0];
    let leased = lease(lab, &queue, 1).await.remove(0);
    let reason = Some(Reason { code: ReasonCode::RetriesExhausted, text: "attempt 1 of 1".into() });
    let verdict = Verdict::End { outcome: Outcome::Failed, reason, dead_letter: true };
    settle(lab, &[settled(&queue, &leased, verdict, AttemptEnd::Failed)]).await;
    assert!(lab.view(id).await.dead_letter);
    let letters = RunFilter::dead_letters(queue.tenant);
    let letters = lab.store.list_runs(&letters, None, 10).await.unwrap();
    assert_eq!(letters.items.iter().map(|run| run.id).collect::<Vec<_>>(), [id]);
    assert_eq!(lab.store.count_dead_letters(queue.tenant, 10).await.unwrap(), 1);
}

/// Many workers, some of which die: every message ends once.
pub async fn racing_workers_lose_and_double_nothing<B: Bench>(lab: &Lab<B>) {
    let queue = queue(lab, "mail").await;
    let names: Vec<String> = (0..5).map(|n| format!("w{n}")).collect();
    let mut sent = BTreeSet::new();
    for n in 0..40 {
        let names: Vec<&str> = (0..5).map(|k| names[(n + k) % 5].as_str()).collect();
        sent.extend(send_of(lab, &queue, &names).await);
    }
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..4_u32 {
        let (store, queue) = (lab.bench.handle().await, queue.clone());
        workers.spawn(async move {
            let node = NodeId(uuid::Uuid::from_u128(u128::from(worker) + 1));
            let (mut ended, mut idle, mut round) = (Vec::new(), 0, worker);
            while idle < 3 {
                round += 1;
                // Every fifth worker dies at once: its lease has ended before it began.
                let lease = if round.is_multiple_of(5) { seconds(-1) } else { minutes(5) };
                let request = LeaseRequest::new(queue.id, node, 7, lease);
                let leased = store.lease_messages(&request).await.unwrap().messages;
                idle = if leased.is_empty() { idle + 1 } else { 0 };
                if lease.is_positive() {
                    let reports: Vec<_> = leased.iter().map(|it| done(&queue, it)).collect();
                    let applied = store.settle_messages(node, &reports).await.unwrap();
                    for (leased, applied) in leased.iter().zip(applied) {
                        assert_eq!(applied, Applied::Ended(Outcome::Completed));
                        ended.push(leased.id);
                    }
                }
                for lapsed in store.lapsed_messages(100).await.unwrap() {
                    let lost = SettledMessage {
                        queue: lapsed.queue,
                        message: lapsed.message,
                        fence: lapsed.fence,
                        verdict: Verdict::Retry { delay: SignedDuration::ZERO },
                        result: Some(AttemptResult {
                            end: AttemptEnd::Lost,
                            ..AttemptResult::completed()
                        }),
                        is_forgotten: false,
                    };
                    store.settle_messages(node, &[lost]).await.unwrap();
                    idle = 0;
                }
            }
            ended
        });
    }
    let mut ended = Vec::new();
    while let Some(of_worker) = workers.join_next().await {
        ended.extend(of_worker.unwrap());
    }
    assert_eq!(ended.len(), sent.len(), "each ended once");
    assert_eq!(ended.into_iter().collect::<BTreeSet<_>>(), sent);
    assert_eq!(depth(lab, &queue).await, [0; 4]);
}
