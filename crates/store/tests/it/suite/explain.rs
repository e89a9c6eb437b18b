//! Reads that explanations need.

use domain::audit::Kind;
use domain::job::{Job, JobState};
use domain::run::{NewRun, Wait};
use store::{AuditLog, Change, Changed, LiveRun, Prepared, RunQueries, SYSTEM, Store, Verdict};

use crate::bench::Bench;
use crate::lab::{Lab, completed, stop, untried, want};

pub async fn a_live_run_tells_what_it_waits_for_and_its_place<B: Bench>(lab: &Lab<B>) {
    let (node, job) = (lab.node().await, lab.job("job").await);
    let past = lab.ago(60).await;
    let urgent = NewRun { priority: 9, ..lab.run(&job, past) };
    let runs = [lab.run(&job, past), lab.run(&job, lab.ago(50).await), urgent];
    lab.submit(&runs).await;
    let of = async |run: &NewRun| lab.store.live_run(run.id).await.unwrap();
    let second = of(&runs[1]).await.unwrap();
    let expected = LiveRun {
        wait: None,
        wait_until: None,
        cancel: None,
        priority: runs[1].priority,
        slot: runs[1].slot,
        ahead: 2,
        line_ahead: 0,
    };
    assert_eq!(second, expected, "the more urgent one and the earlier one come first");
    assert_eq!(of(&runs[2]).await.unwrap().ahead, 0);
    let held = lab.claim(node, want(3)).await;
    assert_eq!(held.len(), 3);
    assert_eq!(of(&runs[1]).await.unwrap().ahead, 0, "no run waits");
    let until = lab.now().await + crate::lab::minutes(5);
    for run in &held {
        let wait = Verdict::Wait(Wait::Upstream, Some(until));
        lab.finish(node, untried(run, wait)).await;
    }
    let waits = of(&runs[0]).await.unwrap();
    assert_eq!((waits.wait, waits.wait_until), (Some(Wait::Upstream), Some(until)));
    lab.store.cancel(runs[0].id, &stop(), SYSTEM).await.unwrap();
    assert_eq!(of(&runs[0]).await, None, "it has ended");
    let other = lab.run(&job, past);
    lab.submit(std::slice::from_ref(&other)).await;
    let held = lab.claim(node, want(1)).await.remove(0);
    lab.store.cancel(other.id, &stop(), SYSTEM).await.unwrap();
    let (code, text) = of(&other).await.unwrap().cancel.unwrap();
    assert_eq!((code.as_str(), text), (stop().code.name(), stop().text));
    lab.finish(node, completed(node, &held)).await;
}

pub async fn changes_of_a_job_and_requests_about_a_run_are_found<B: Bench>(lab: &Lab<B>) {
    lab.set_author("ann");
    let job = lab.job("job").await;
    lab.job("other").await;
    let run = lab.run(&job, lab.ago(60).await);
    lab.submit(std::slice::from_ref(&run)).await;
    lab.store.cancel(run.id, &stop(), "bob").await.unwrap();
    change(lab, "cid", &job, JobState::Paused, "job").await;
    let events = lab.store.job_events(job.id, 9).await.unwrap();
    let told: Vec<_> = events.iter().map(|it| (it.actor.as_str(), it.kind.clone())).collect();
    assert_eq!(told, [("cid", Kind::JobModified), ("ann", Kind::JobCreated)]);
    assert!(events[0].details.contains(r#""state":"PAUSED""#), "{events:?}");
    let events = lab.store.run_events(run.id, 9).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].actor.as_str(), &events[0].kind), ("bob", &Kind::JobCancelled));
    assert_eq!(events[0].details, stop().text);
}

async fn change<B: Bench>(lab: &Lab<B>, by: &str, job: &Job, state: JobState, name: &str) -> Job {
    let mut new = job.clone();
    (new.version, new.state, new.name) = (job.version + 1, state, name.to_owned());
    new.updated_at = lab.now().await;
    let change = Change {
        job: new.clone(),
        expected: Some(job.version),
        prepared: Prepared::Keep,
        plan: None,
        changed: new.changed_fields(job).into_iter().map(str::to_owned).collect(),
    };
    let done = lab.store.define(&[change], by).await.unwrap();
    assert_eq!(done, [Changed::Done]);
    new
}
