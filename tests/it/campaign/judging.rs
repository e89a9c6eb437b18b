//! A campaign must be able to fail: each promise is broken once in evidence that was clean.

use jiff::{SignedDuration, Timestamp, ToSpan};

use super::changes::{Changes, Edit, Pause};
use super::endpoint::Call;
use super::evidence::{Evidence, JobEvidence};
use super::faults::Outage;
use super::jobs::{Role, jobs};
use super::report::report;
use super::rows::{AttemptRow, Row};
use super::stage::StoreKind;

fn tick(n: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + n).unwrap()
}

fn ms(count: i64) -> SignedDuration {
    SignedDuration::from_millis(count)
}

fn row(n: i64) -> Row {
    Row {
        id: format!("run-{n}"),
        status: "COMPLETED".to_owned(),
        reason: String::new(),
        text: String::new(),
        first: tick(n),
        last: tick(n),
        count: 1,
        is_tick: true,
        started_at: Some(tick(n) + ms(2)),
        completed_at: Some(tick(n) + ms(60)),
        lost: 0,
        fence: Some(100 + n),
        attempts: Vec::new(),
    }
}

fn call(n: i64) -> Call {
    Call {
        job: "none-skip".to_owned(),
        run: format!("run-{n}"),
        tick: tick(n),
        attempt: 1,
        fence: 100 + n,
        version: 1,
        arrived: tick(n) + ms(5),
        ended: Some(tick(n) + ms(50)),
        is_refused: false,
    }
}

/// Four ticks of a job, each with its row and its call.
fn clean() -> Evidence {
    let job = jobs(tick(0), false).into_iter().find(|job| job.name == "none-skip").unwrap();
    let ticks = (0..4).map(tick).collect();
    let job = JobEvidence {
        job,
        ticks,
        rows: (0..4).map(row).collect(),
        calls: (0..4).map(call).collect(),
    };
    Evidence {
        kind: StoreKind::Sqlite,
        jobs: vec![job],
        strikes: Vec::new(),
        recoveries: Vec::new(),
        changes: Changes::default(),
        unexplained: Vec::new(),
    }
}

fn skip(row: &mut Row, reason: &str, text: &str) {
    row.status = "SKIPPED".to_owned();
    (row.reason, row.text) = (reason.to_owned(), text.to_owned());
    (row.started_at, row.fence) = (None, None);
    row.completed_at = Some(row.first + ms(3));
}

/// A second attempt at run 1, whose first one was lost.
fn try_again(job: &mut JobEvidence) {
    let attempt = |number, status: &str| AttemptRow {
        number,
        status: status.to_owned(),
        started_at: tick(1) + ms(number as i64 * 100),
    };
    job.rows[1].attempts = vec![attempt(1, "LOST"), attempt(2, "COMPLETED")];
    (job.rows[1].lost, job.rows[1].fence) = (1, Some(150));
    job.rows[1].completed_at = Some(tick(1) + ms(400));
    let (arrived, ended) = (tick(1) + ms(210), Some(tick(1) + ms(300)));
    job.calls.insert(2, Call { attempt: 2, fence: 150, arrived, ended, ..call(1) });
    for n in [2, 3] {
        job.rows[n].fence = Some(150 + n as i64);
        job.calls[n + 1].fence = 150 + n as i64;
    }
}

#[test]
fn clean_evidence_breaks_nothing() {
    let mut evidence = clean();
    assert_eq!(report(&evidence).broken, Vec::<String>::new());
    try_again(&mut evidence.jobs[0]);
    assert_eq!(report(&evidence).broken, Vec::<String>::new());
    // A slow run, a tick that is skipped for it, an edit and a pause that are obeyed.
    let mut evidence = clean();
    let job = &mut evidence.jobs[0];
    job.calls[0].ended = Some(tick(1) + ms(500));
    job.rows[0].completed_at = Some(tick(1) + ms(510));
    skip(&mut job.rows[1], "OVERLAP", "run run-0 had not ended");
    job.calls.remove(1);
    job.calls[2].version = 2;
    let acked = tick(2) + ms(500);
    evidence.changes.edits.push(Edit { job: "none-skip".to_owned(), version: 2, acked });
    assert_eq!(report(&evidence).broken, Vec::<String>::new());
}

#[test]
fn each_broken_promise_is_found() {
    type Break = fn(&mut Evidence);
    let cases: [(&str, Break); 15] = [
        ("lost", |it| drop(it.jobs[0].rows.remove(3))),
        ("lost", |it| it.jobs[0].rows[2].status = "RUNNING".to_owned()),
        ("lost", |it| it.changes.triggered.push(("none-skip".to_owned(), "run-9".to_owned()))),
        ("doubled", |it| it.jobs[0].rows.push(row(2))),
        ("doubled", |it| it.jobs[0].calls.push(call(3))),
        ("stale", |it| {
            try_again(&mut it.jobs[0]);
            it.jobs[0].rows[1].fence = Some(101);
        }),
        ("early", |it| it.jobs[0].calls[2].arrived = tick(2) - ms(1)),
        ("completed without a call", |it| drop(it.jobs[0].calls.remove(2))),
        ("OVERLAP skips with nothing running", |it| {
            skip(&mut it.jobs[0].rows[1], "OVERLAP", "run run-0 had not ended");
            it.jobs[0].calls.remove(1);
        }),
        ("overlapping calls", |it| it.jobs[0].calls[1].ended = Some(tick(2) + ms(100))),
        ("at-most-once", |it| {
            it.jobs[0].job.role = Role::AtMostOnce;
            try_again(&mut it.jobs[0]);
        }),
        ("fence inversions", |it| {
            it.jobs[0].rows[2].fence = Some(7);
            it.jobs[0].calls[2].fence = 7;
        }),
        ("edits", |it| {
            let acked = tick(2) - ms(60);
            it.changes.edits.push(Edit { job: "none-skip".to_owned(), version: 2, acked });
        }),
        ("pauses", |it| {
            let acked = tick(2) - ms(60);
            let (job, sent) = ("none-skip".to_owned(), acked - ms(5));
            let resumed = Some((tick(2) + ms(500), tick(2) + ms(510)));
            it.changes.pauses.push(Pause { job, sent, acked, resumed });
        }),
        ("catch-up differs", |it| {
            let sure = Some((tick(1) - ms(500), tick(1) + ms(500)));
            let (earliest, latest) = (tick(0), tick(1) + 1.second());
            it.unexplained.push(Outage { sure, earliest, latest });
        }),
    ];
    for (promise, break_it) in cases {
        let mut evidence = clean();
        break_it(&mut evidence);
        let broken = report(&evidence).broken;
        let prefix = format!("{promise}: ");
        assert!(broken.iter().any(|line| line.starts_with(&prefix)), "{promise}: {broken:#?}");
    }
}
