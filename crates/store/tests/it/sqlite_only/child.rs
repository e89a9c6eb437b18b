//! A process that works on a file until it is killed, and prints the store's replies.
//!
//! The child is this test binary again, running one test only: a test that finds itself named as
//! a child works instead of testing.
#![expect(clippy::disallowed_methods, reason = "a child is a process, and works in real time")]

use std::collections::{HashMap, HashSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use domain::id::{JobId, NodeId, RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState};
use domain::run::{ClaimedRun, NewRun, Origin, Outcome, RunState};
use jiff::Timestamp;
use store::sqlite::SqliteStore;
use store::{Applied, Change, ClaimFor, NodeInfo, Prepared, SYSTEM, Store};
use uuid::Uuid;

use crate::lab::{completed, processes, seconds, want};

const FILE: &str = "PUNCTUAL_TEST_FILE";
const LIFE: &str = "PUNCTUAL_TEST_LIFE";

/// The file to work on and the number of this life, if this process is a child.
pub fn order() -> Option<(PathBuf, u64)> {
    let life = env::var(LIFE).ok()?.parse().unwrap();
    Some((env::var_os(FILE)?.into(), life))
}

/// Starts a child that runs one test of this binary, behind other programs if some are named.
pub fn start(behind: &[&str], test: &str, file: &Path, life: u64) -> Child {
    // A build that runs meanwhile may replace the file; the program that runs is still there.
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    let myself = if running.exists() { running } else { env::current_exe().unwrap() };
    let mut words = behind.iter().map(|word| (*word).into()).chain([myself.into_os_string()]);
    Command::new(words.next().unwrap())
        .args(words)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FILE, file)
        .env(LIFE, life.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Submits, claims and finishes in four tasks, so many rounds each, and prints the replies.
pub async fn work(file: &Path, life: u64, rounds: u64) {
    let store = match SqliteStore::open(file, Arc::new(now)) {
        Ok(store) => Arc::new(store),
        Err(error) => return say(&[format!("refused {error}")]),
    };
    let node = NodeId(Uuid::from_u128(u128::from(life)));
    if let Err(error) = store.join(node, &NodeInfo::named("child"), seconds(3_600)).await {
        return say(&[format!("refused {error}")]);
    }
    // A life before this one may have defined it.
    let change = Change {
        job: job(),
        expected: None,
        prepared: Prepared::Keep,
        plan: None,
        changed: Vec::new(),
    };
    if let Err(error) = store.define(&[change], SYSTEM).await {
        say(&[format!("refused {error}")]);
    }
    let tasks = (0..4).map(|task| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut held = Vec::new();
            for round in 0..rounds {
                let first = (life << 40 | task << 36 | round) << 4;
                turn(&store, node, first, &mut held).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

async fn turn(store: &SqliteStore, node: NodeId, first: u64, held: &mut Vec<ClaimedRun>) {
    let runs: Vec<_> = (first..first + 3).map(run).collect();
    match store.submit(&runs, Some(ClaimFor { node, max: processes(1) })).await {
        Ok(submitted) => {
            let new = runs.iter().zip(&submitted.accepted).filter(|(_, new)| **new);
            say(&new.map(|(run, _)| format!("submitted {}", run.id)).collect::<Vec<_>>());
            say(&submitted.claimed.iter().map(claimed).collect::<Vec<_>>());
            held.extend(submitted.claimed);
        }
        Err(error) => say(&[format!("refused {error}")]),
    }
    let done: Vec<_> = held.iter().map(|held| completed(node, held)).collect();
    match store.complete_and_claim(node, &done, want(2)).await {
        Ok(exchanged) => {
            let ended = held.iter().zip(&exchanged.applied);
            let ended =
                ended.filter(|(_, applied)| **applied == Applied::Ended(Outcome::Completed));
            say(&ended.map(|(held, _)| format!("ended {}", held.run.id)).collect::<Vec<_>>());
            say(&exchanged.claimed.iter().map(claimed).collect::<Vec<_>>());
            *held = exchanged.claimed;
        }
        Err(error) => say(&[format!("refused {error}")]),
    }
}

fn claimed(claimed: &ClaimedRun) -> String {
    format!("claimed {} {}", claimed.run.id, claimed.grant.fence)
}

fn job() -> Job {
    Job {
        id: JobId(Uuid::from_u128(1)),
        tenant: TenantId::DEFAULT,
        owner: UserId::ADMIN,
        name: "job".to_owned(),
        version: 1,
        state: JobState::Enabled,
        definition: Definition::default(),
        next_run: None,
        created_at: now(),
        updated_at: now(),
    }
}

fn run(number: u64) -> NewRun {
    let due_at = now() - seconds(1);
    NewRun {
        id: RunId::of_request(due_at, u128::from(number)),
        job: JobId(Uuid::from_u128(1)),
        tenant: TenantId::DEFAULT,
        job_version: 1,
        scheduled_for: due_at,
        shard: String::new(),
        due_at,
        priority: 5,
        origin: Origin::Manual,
        coalesced: 0,
        ignore_dependencies: false,
        parameters: None,
        place: domain::cluster::Placement::default(),
        slot: domain::slot::SlotKind::Process,
        requested_by: None,
    }
}

/// One write for a line, so that no kill cuts one in two.
fn say(lines: &[String]) {
    for line in lines {
        std::io::stdout().lock().write_all(format!("\nanswer {line}\n").as_bytes()).unwrap();
    }
}

/// Output of all children, over all their lives.
#[derive(Default)]
pub struct Heard {
    pub submitted: HashSet<RunId>,
    pub ended: HashSet<RunId>,
    pub refused: usize,
    held: HashMap<RunId, NodeId>,
    last_fence: i64,
    fence_of_life: i64,
    fences: HashSet<i64>,
}

impl Heard {
    /// Reads the output of a child: until it has so many replies, or to its end.
    pub fn listen(&mut self, child: &mut Child, life: u64, answers: Option<usize>) {
        self.fence_of_life = self.last_fence;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said =
            lines.by_ref().map_while(Result::ok).filter(|line| line.starts_with("answer "));
        let mut count = 0;
        while answers.is_none_or(|answers| count < answers) {
            let Some(line) = said.next() else { break };
            self.hear(&line, life);
            count += 1;
        }
        if answers.is_some() {
            child.kill().unwrap();
        }
        // Output before its death.
        for line in said {
            self.hear(&line, life);
        }
        child.wait().unwrap();
    }

    fn hear(&mut self, line: &str, life: u64) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1] {
            "submitted" => assert!(self.submitted.insert(words[2].parse().unwrap())),
            "ended" => assert!(self.ended.insert(words[2].parse().unwrap())),
            "claimed" => {
                let fence: i64 = words[3].parse().unwrap();
                assert!(fence > self.fence_of_life, "a fence of an earlier life came again");
                assert!(self.fences.insert(fence), "a fence came twice");
                self.last_fence = self.last_fence.max(fence);
                let node = NodeId(Uuid::from_u128(u128::from(life)));
                self.held.insert(words[2].parse().unwrap(), node);
            }
            _ => self.refused += 1,
        }
    }

    /// Compares the file with the printed replies: nothing that was acknowledged may be missing.
    pub async fn check(&self, file: &Path) {
        let connection = rusqlite::Connection::open(file).unwrap();
        let sound: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        drop(connection);
        let store = SqliteStore::open(file, Arc::new(now)).unwrap();
        for run in &self.submitted {
            assert!(store.run(*run).await.unwrap().is_some(), "run {run} is missing");
        }
        let completed = RunState::Ended(Outcome::Completed);
        for run in &self.ended {
            assert_eq!(store.run(*run).await.unwrap().unwrap().state, completed);
        }
        for (run, node) in &self.held {
            let view = store.run(*run).await.unwrap().unwrap();
            assert_eq!(view.node, Some(*node), "run {run} changed hands");
            assert!([RunState::Running, completed].contains(&view.state));
        }
    }
}
