//! The picture as text, on a terminal of the usual size and on small ones.

use std::collections::BTreeMap;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::super::look::Slow;
use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-11-15T{text}Z").parse().unwrap()
}

fn seen() -> ServerState {
    let running = |job: &str, since: &str| RunningJob {
        job: job.into(),
        scheduled: Some(at(since)),
        since: Some(at(since)),
        attempt: 1,
    };
    let failing = |job: &str, count, last: &str, why: &str| Failing {
        job: job.into(),
        count,
        last: Some(at(last)),
        why: why.into(),
    };
    ServerState {
        is_ready: true,
        health: "no due run waits".into(),
        stats: json!({
            "running": 14, "queued": 3, "pending": 120, "dead_letters": 2,
            "oldest_due": "2026-11-15T08:59:58.5Z",
            "last_day": {"success_rate": 0.9912, "schedule_delay": {"p99": 0.125}},
        }),
        running: (10..24)
            .map(|n| running(&format!("job-{n}"), &format!("08:{}:00", 59 - n)))
            .collect(),
        ended: BTreeMap::from([("completed".into(), 55), ("failed".into(), 2)]),
        is_more: false,
        failing: vec![
            failing("flaky", 7, "08:58:00", "status 500"),
            failing("nightly-report-of-everything-there-is", 1, "08:59:50", "evil \u{1b}[2J text"),
        ],
        slowest: vec![
            Slow { job: "backup".into(), runs: 2, longest: 125_000, sum: 130_000 },
            Slow { job: "flaky".into(), runs: 9, longest: 1_200, sum: 1_800 },
        ],
    }
}

fn draw(screen: &Screen, view: View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame, view, at("09:00:00"))).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| -> String { (0..width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..height).map(|y| format!("{}\n", row(y).trim_end())).collect()
}

fn look(time: &str, seen: Result<ServerState, String>) -> Snapshot {
    Snapshot { at: at(time), url: "http://127.0.0.1:8630/".into(), seen }
}

fn screen() -> Screen {
    let mut screen = Screen::new("http://127.0.0.1:8630/", 2);
    screen.take(look("09:00:00", Ok(seen())));
    screen
}

#[test]
fn the_usual_terminal() {
    assert_eq!(
        draw(&screen(), View::default(), 80, 24),
        "\
punctual top  http://127.0.0.1:8630  every 2 s  2026-11-15T09:00:00Z
ready: no due run waits
14 running, 3 due (oldest waits 1.50 s), 120 for later, 2 dead letters
last minute: 57 ended (55 completed, 2 failed); last day: 99.1 % succeeded, 99 %

     AGE  RUNNING                         TRY  FOR
  24 min  job-23                            1  2026-11-15T08:36:00Z
  23 min  job-22                            1  2026-11-15T08:37:00Z
  22 min  job-21                            1  2026-11-15T08:38:00Z
  21 min  job-20                            1  2026-11-15T08:39:00Z
  20 min  job-19                            1  2026-11-15T08:40:00Z
  19 min  job-18                            1  2026-11-15T08:41:00Z
  18 min  job-17                            1  2026-11-15T08:42:00Z
  17 min  job-16                            1  2026-11-15T08:43:00Z
  16 min  job-15                            1  2026-11-15T08:44:00Z
  15 min  job-14                            1  2026-11-15T08:45:00Z
          … 4 more
    LAST  FAILING IN THE LAST DAY           N  WHY
   2 min  flaky                             7  status 500
  10.0 s  nightly-report-of-everything-…    1  evil \\u{1b}[2J text
 LONGEST  SLOWEST LATELY                    N  MEAN
   2 min  backup                            2  65.0 s
  1.20 s  flaky                             9  0.20 s
q quit  s running by name  f failing by latest  p pause  r look now
"
    );
}

#[test]
fn the_order_is_what_was_asked_for() {
    let view = View { running: ByRunning::Job, failing: ByFailing::Last, is_paused: true };
    let text = draw(&screen(), view, 80, 24);
    let line = |n: usize| text.lines().nth(n).unwrap();
    assert!(line(6).contains("job-10"), "{text}");
    assert!(line(18).contains("nightly-report"), "{text}");
    assert!(line(23).contains("s running by time  f failing by count  p go on (paused)"), "{text}");
    assert_eq!(ByRunning::Age.next().next().next(), ByRunning::Age);
}

#[test]
fn a_server_that_went_away_is_said_since_when() {
    let mut screen = screen();
    for second in ["09:00:02", "09:00:04"] {
        let seen = Err("cannot reach the server: connection refused".to_owned());
        screen.take(look(second, seen));
    }
    let text = draw(&screen, View::default(), 80, 24);
    let line = "not reachable since 2026-11-15T09:00:02Z: cannot reach the server: connection re";
    assert_eq!(text.lines().nth(1).unwrap(), line);
    assert!(text.contains("job-23"), "the last picture stays");
    screen.take(look("09:00:06", Ok(seen())));
    assert!(draw(&screen, View::default(), 80, 24).contains("ready: no due run waits"));
}

/// Any size is drawn, and the keys are always there.
#[test]
fn small_terminals_show_what_fits() {
    for (width, height) in [(1, 1), (20, 3), (40, 8), (80, 10), (200, 60)] {
        let text = draw(&screen(), View::default(), width, height);
        assert!(text.lines().last().unwrap().starts_with('q'), "{width}x{height}\n{text}");
    }
    let empty = draw(&Screen::new("http://x", 2), View::default(), 80, 24);
    assert!(empty.contains("looking …"), "{empty}");
}
