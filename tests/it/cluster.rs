//! Several servers on one PostgreSQL: an endpoint outside of the cluster records the effects of
//! their runs.
//!
//! A test makes a [`Cluster`] of [`Member`]s, lets jobs call the [`ledger`], does something to the
//! cluster, and checks that no effect in the ledger is missing, duplicate or stale.

mod cut;
mod database;
mod effects;
mod failover;
mod joining;
mod keys;
mod killed;
mod ledger;
pub mod member;
mod promises;
mod racing;
mod shards;
mod skew;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::load::Stopwatch;

use crate::serve::client;
use crate::serve::process::{Server, until};
use ledger::{Ledger, now};
use member::{Member, database};

/// The longest time without a leader, on a machine that has nothing else to do.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(15);

/// A cluster, and the ledger that its jobs write to.
struct Cluster {
    members: Vec<Member>,
    ledger: Ledger,
    /// After the members: they work in it.
    folder: tempfile::TempDir,
}

impl Cluster {
    /// Starts a server for each name, with the same settings.
    fn start(test: &str, names: &[&str]) -> Self {
        let store = database(test);
        Cluster::create(names.iter().map(|name| Member::new(name, &store)).collect())
    }

    /// Starts these servers, all at once.
    fn create(mut members: Vec<Member>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for member in &mut members {
                scope.spawn(|| member.start(folder.path()));
            }
        });
        Cluster { members, ledger: Ledger::open(), folder }
    }

    fn member(&mut self, name: &str) -> &mut Member {
        self.members.iter_mut().find(|member| member.name == name).unwrap()
    }

    /// The server of a member that is up.
    fn server(&self, name: &str) -> &Server {
        self.members.iter().find(|member| member.name == name).unwrap().server()
    }

    /// Ends a member without a word.
    fn kill(&mut self, name: &str) {
        self.member(name).take().kill();
    }

    /// Starts a member that was killed, in its own folder.
    fn start_again(&mut self, name: &str) {
        let folder = self.folder.path().to_owned();
        self.member(name).start(&folder);
    }

    /// The names of all members that are up but one.
    fn others(&self, name: &str) -> Vec<String> {
        let up = self.members.iter().filter(|member| member.is_up() && member.name != name);
        up.map(|member| member.name.clone()).collect()
    }

    /// A server that is up.
    fn any(&self) -> &Server {
        self.members.iter().find(|member| member.is_up()).unwrap().server()
    }

    /// A job that writes into the ledger every second.
    fn create_job(&self, name: &str, more: &Value) {
        let mut job = json!({
            "name": name, "job_type": "INTERVAL", "interval_seconds": 1, "catch_up": "ALL",
            "max_catch_up": 1000, "overlap": "ALLOW",
            "payload": {"endpoint": self.ledger.endpoint()},
        });
        for (field, value) in more.as_object().unwrap() {
            job[field] = value.clone();
        }
        self.create_any_job(&job);
    }

    /// A job that says everything itself.
    fn create_any_job(&self, job: &Value) {
        let (status, made) = self.any().call("POST", "/v1/jobs", Some(job));
        assert_eq!(status, 201, "{made}");
    }

    /// A job that is at work, once it was asked for, as long as the ledger holds it.
    fn create_slow_job(&self, name: &str) {
        let endpoint = self.ledger.slow_endpoint();
        self.create_any_job(
            &json!({"name": name, "job_type": "MANUAL", "payload": {"endpoint": endpoint}}),
        );
    }

    /// Asks for a run; answers its id.
    fn trigger(&self, job: &str) -> String {
        let (status, run) = self.any().call("POST", &format!("/v1/jobs/{job}/trigger"), None);
        assert_eq!(status, 202, "{run}");
        run["execution_id"].as_str().unwrap().to_owned()
    }

    /// The member that a run executes on, when it does.
    fn wait_for_worker(&self, run: &str) -> String {
        until(|| {
            let (_, run) = self.any().call("GET", &format!("/v1/executions/{run}"), None);
            let nodes = nodes(self.any());
            let at = nodes.iter().find(|node| node["worker_id"] == run["worker_id"])?;
            (run["status"] == "RUNNING").then(|| at["name"].as_str().unwrap().to_owned())
        })
    }

    /// Waits until a job has done something so many times more.
    fn wait_for_effects(&self, job: &str, more: usize) {
        let before = self.ledger.of(job).len();
        until(|| (self.ledger.of(job).len() >= before + more).then_some(()));
    }

    /// Waits until every tick of jobs that has come by now has its effect, pauses them, waits until
    /// the last of their runs has ended, and checks them. Answers how many ticks there were.
    ///
    /// A run that a node had prepared may still begin right after a pause, and then has no record;
    /// so ticks that come after the wait are not looked for.
    fn settle(&self, jobs: &[&str]) -> usize {
        let last = now().as_second() - 1;
        let mut looks = 0;
        for job in jobs {
            until(|| {
                looks += 1;
                let missing = self.ledger.missing(job, last);
                assert!(looks < 5_000, "{job} lost {missing:?}");
                missing.is_empty().then_some(())
            });
        }
        let server = self.any();
        for job in jobs {
            let (status, said) = server.call("POST", &format!("/v1/jobs/{job}/pause"), None);
            assert_eq!(status, 200, "{said}");
        }
        for job in jobs {
            let open = |run: &Value| run["completed_at"].is_null();
            until(|| (!self.runs(job).iter().any(open)).then_some(()));
        }
        jobs.iter().map(|job| self.check(job, last)).sum()
    }

    /// The last runs of a job, the newest first.
    fn runs(&self, job: &str) -> Vec<Value> {
        let path = format!("/v1/jobs/{job}/executions?limit=500");
        let (status, mut said) = self.any().call("GET", &path, None);
        assert_eq!(status, 200, "{said}");
        match said["data"].take() {
            Value::Array(runs) => runs,
            _ => panic!("no list: {said}"),
        }
    }

    /// The newest run of a job, when it has come so far.
    fn wait_for_run(&self, job: &str, status: &str) -> Value {
        until(|| self.runs(job).into_iter().next().filter(|run| run["status"] == status))
    }

    /// Fails if a job has two runs of a tick, or a run whose record is not that of its last
    /// attempt. Answers how many ticks there were until the last one that is checked.
    fn check(&self, job: &str, last: i64) -> usize {
        let mut seconds = self.ledger.seconds(job);
        seconds.retain(|second, _| *second <= last);
        for (second, effects) in &seconds {
            let [.., last] = effects.as_slice() else { continue };
            // The expected case: one attempt, the first one.
            if effects.len() == 1 && last.attempt == 1 {
                continue;
            }
            let done = self.numbers(&last.run, "COMPLETED", "fence");
            assert_eq!(done, BTreeSet::from([last.fence]), "{second}: {effects:?}");
            let lost = self.numbers(&last.run, "LOST", "attempt_number");
            let earlier = &effects[..effects.len() - 1];
            let known = earlier.iter().all(|effect| lost.contains(&effect.attempt));
            assert!(known, "{second}: {effects:?}, lost {lost:?}");
        }
        seconds.len()
    }

    /// The fences of a run's attempts that ended in this way.
    /// A number of each attempt at a run that ended like this.
    fn numbers(&self, run: &str, status: &str, name: &str) -> BTreeSet<i64> {
        let (_, page) = self.any().call("GET", &format!("/v1/executions/{run}/attempts"), None);
        let attempts = page["data"].as_array().unwrap_or_else(|| panic!("{page}"));
        let ended = attempts.iter().filter(|attempt| attempt["status"] == status);
        ended.map(|attempt| attempt[name].as_i64().unwrap()).collect()
    }

    /// Waits until another node leads. Fails if that takes too long since `began`.
    fn followed(&self, witness: &str, old: &(String, i64), began: Stopwatch) -> (String, i64) {
        let next = until(|| leader(self.server(witness)).filter(|(name, _)| *name != old.0));
        began.assert_within(FOLLOWED_WITHIN);
        assert!(next.1 > old.1, "{next:?} after {old:?}");
        next
    }
}

/// The list of nodes of a server; empty while its store does not answer.
fn nodes(server: &Server) -> Vec<Value> {
    let answer = client::request(&server.address, &server.key, "GET", "/v1/nodes", None);
    let said: Value = answer
        .ok()
        .filter(|(status, _)| *status == 200)
        .map(|(_, text)| serde_json::from_str(&text).unwrap())
        .unwrap_or_default();
    said["data"].as_array().cloned().unwrap_or_default()
}

fn node_named(server: &Server, name: &str) -> Option<Value> {
    nodes(server).into_iter().find(|node| node["name"] == name)
}

/// The name and the epoch of the leader.
fn leader(server: &Server) -> Option<(String, i64)> {
    let nodes = nodes(server);
    let leader = nodes.iter().find(|node| node["leader_epoch"].is_i64())?;
    Some((leader["name"].as_str()?.to_owned(), leader["leader_epoch"].as_i64()?))
}

/// The leader, when there is one.
fn wait_for_leader(server: &Server) -> (String, i64) {
    until(|| leader(server))
}
