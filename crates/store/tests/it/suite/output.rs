//! Short outputs of attempts, and since when runs are under way.

use domain::run::{Outcome, RunState};
use store::{Applied, Finish, OutputRecords, RetentionCutoff, RunQueries, Store};

use crate::bench::Bench;
use crate::lab::{Lab, completed, ended, minutes, retried, seconds};

fn saying(mut finish: Finish, text: &[u8]) -> Finish {
    if let Some(attempt) = &mut finish.attempt {
        attempt.result.output = Some(text.to_vec());
    }
    finish
}

pub async fn a_short_output_is_kept_with_its_attempt<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let first = lab.started(node, &job).await;
    let silent = lab.started(node, &job).await;
    lab.finish(node, saying(retried(node, &first, seconds(0)), b"one\0")).await;
    let second = lab.claim_one(node).await;
    // No output is kept from a node whose claim has ended.
    let stale = saying(completed(node, &first), b"late");
    assert_eq!(lab.finish(node, stale).await, Applied::Stale);
    lab.finish(node, saying(ended(node, &second, Outcome::Failed), b"two")).await;
    lab.finish(node, completed(node, &silent)).await;
    let said = async |run, number| lab.store.attempt_output(run, number).await.unwrap();
    assert_eq!(said(first.run.id, 1).await.as_deref(), Some(&b"one\0"[..]));
    assert_eq!(said(first.run.id, 2).await.as_deref(), Some(&b"two"[..]));
    assert_eq!(said(first.run.id, 3).await, None);
    assert_eq!(said(silent.run.id, 1).await, None);
    // It goes with the history.
    let now = lab.now().await + minutes(1);
    let cut = RetentionCutoff {
        job: None,
        before: now,
        failed_before: now,
        keep_last: None,
        sample: None,
    };
    assert_eq!(lab.store.prune(&cut, 99).await.unwrap(), 2);
    assert_eq!(said(first.run.id, 1).await, None);
    assert_eq!(said(first.run.id, 2).await, None);
}

pub async fn an_output_in_files_is_recorded_as_archived_once<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let first = lab.started(node, &job).await;
    let run = first.run.id;
    let archive =
        async |number, record: &[u8]| lab.store.archive_output(run, number, record).await.unwrap();
    let said = async |number| lab.store.attempt_output(run, number).await.unwrap();
    assert!(!archive(1, b"early").await, "the run has not ended");
    assert_eq!(said(1).await, None);
    // An empty record stands for files of the node.
    lab.finish(node, saying(retried(node, &first, seconds(0)), b"")).await;
    let second = lab.claim_one(node).await;
    lab.finish(node, saying(ended(node, &second, Outcome::Failed), b"short")).await;
    for (number, record, expected) in [
        (1, &b"place"[..], true),
        (1, b"place", true),
        (1, b"other", false),
        (2, b"place", false),
        // The attempt of a node that was killed.
        (3, b"lost", true),
    ] {
        assert_eq!(archive(number, record).await, expected, "{number} {record:?}");
    }
    assert_eq!(said(1).await.as_deref(), Some(&b"place"[..]));
    assert_eq!(said(2).await.as_deref(), Some(&b"short"[..]));
    assert_eq!(said(3).await.as_deref(), Some(&b"lost"[..]));
    // It goes with the history, and does not come back.
    let now = lab.now().await + minutes(1);
    let cut = RetentionCutoff {
        job: None,
        before: now,
        failed_before: now,
        keep_last: None,
        sample: None,
    };
    assert_eq!(lab.store.prune(&cut, 99).await.unwrap(), 1);
    assert_eq!(said(1).await, None);
    assert!(!archive(1, b"place").await);
    assert_eq!(said(1).await, None);
}

pub async fn a_node_tells_since_when_runs_are_under_way<B: Bench>(lab: &Lab<B>) {
    let (node, other, job) = (lab.node().await, lab.node().await, lab.job("job").await);
    let first = lab.started(node, &job).await;
    let second = lab.started(other, &job).await;
    let since = async |run| lab.view(run).await.started_at;
    assert_eq!(since(first.run.id).await, None, "nothing is written when a run starts");
    let at = lab.ago(5).await;
    lab.store.record_starts(node, &[(first.grant, at)]).await.unwrap();
    lab.store.record_starts(other, &[(second.grant, at + seconds(1))]).await.unwrap();
    assert_eq!(since(first.run.id).await, Some(at));
    assert_eq!(since(second.run.id).await, Some(at + seconds(1)));
    // While it waits for another attempt, it shows when the last one began.
    let finish = retried(node, &first, minutes(5));
    let began = finish.attempt.as_ref().unwrap().started_at;
    lab.finish(node, finish).await;
    assert_eq!(lab.state(first.run.id).await, RunState::Pending);
    assert_eq!(since(first.run.id).await, Some(began));
    // Output of a node replaces its earlier output, and another claim generation is another
    // attempt.
    let again = retried(other, &second, seconds(0));
    lab.finish(other, again).await;
    let third = lab.claim_one(node).await;
    assert_eq!((third.run.id, since(third.run.id).await), (second.run.id, None));
    lab.store.record_starts(node, &[(third.grant, at + seconds(3))]).await.unwrap();
    assert_eq!(since(third.run.id).await, Some(at + seconds(3)));
    lab.store.record_starts(node, &[]).await.unwrap();
    assert_eq!(since(third.run.id).await, None);
    // A node that is gone writes nothing.
    lab.store.leave(other, &[]).await.unwrap();
    lab.store.record_starts(other, &[(third.grant, at)]).await.unwrap();
    assert_eq!(since(third.run.id).await, None);
}
