//! The proxy of a remote agent, at two servers that share a store.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use domain::cluster::{Labels, NodeRole};
use domain::id::{RunId, TenantId, UserId};
use domain::job::{Definition, Job, JobState, Overlap, RetryPolicy, When};
use domain::run::{AttemptResult, Outcome};
use engine::{
    AgentLimits, AgentProxy, Applied, Carried, CarriedRun, Engine, Executor, NewJob, NodeInfo,
    RemoteAttempt, Settings, Started, Stop, Trigger,
};
use jiff::SignedDuration;
use store::sqlite::SqliteStore;
use store::{SYSTEM, Store};

use crate::present::{Clock, now, parts, until};
use crate::world::both;

/// Nothing is executed by the servers themselves.
struct Nobody;

impl Executor for Nobody {
    async fn execute(&self, run: Started, _: Stop) -> AttemptResult {
        panic!("{} was not for this server", run.run.grant.run);
    }
}

struct Servers {
    /// How much later it is for the store and the servers.
    later_s: Arc<AtomicI64>,
    a: Engine,
    b: Engine,
    store: Arc<SqliteStore>,
    job: Job,
    _folder: tempfile::TempDir,
}

async fn engine(store: &Arc<SqliteStore>, name: &str, clock: &Clock) -> Engine {
    let parts = parts(clock);
    let roles = vec![NodeRole::Scheduler];
    let settings = Settings {
        info: NodeInfo { roles, ..NodeInfo::named(name) },
        lease: SignedDuration::from_secs(600),
        poll_every: SignedDuration::from_millis(50),
        ..Settings::default()
    };
    Engine::start(Arc::clone(store), Nobody, Vec::new(), settings, parts).await.unwrap()
}

fn far() -> Labels {
    "place=far".parse().unwrap()
}

impl Servers {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("punctual.db");
        let later_s = Arc::new(AtomicI64::new(0));
        let later = Arc::clone(&later_s);
        let clock: Clock =
            Arc::new(move || now() + SignedDuration::from_secs(later.load(Ordering::SeqCst)));
        let of_store = Arc::clone(&clock);
        let store = Arc::new(SqliteStore::open(&path, Arc::new(move || of_store())).unwrap());
        let (a, b) = (engine(&store, "a", &clock).await, engine(&store, "b", &clock).await);
        let definition = Definition {
            when: When::Manual,
            run_on: far(),
            overlap: Overlap::Allow,
            timeout: SignedDuration::from_secs(60),
            grace_period: SignedDuration::from_secs(10),
            retry: RetryPolicy { backoff: SignedDuration::from_secs(1), ..RetryPolicy::default() },
            ..Definition::default()
        };
        let new = NewJob {
            tenant: TenantId::DEFAULT,
            owner: UserId::ADMIN,
            name: "far".into(),
            definition,
            state: JobState::Enabled,
        };
        let job = a.node().create_job(new, SYSTEM).await.unwrap();
        Servers { later_s, a, b, store, job, _folder: folder }
    }

    async fn trigger(&self) -> RunId {
        let run = self.a.node().triggered(self.job.id, Trigger::default()).await.unwrap();
        assert_eq!(self.a.submit(vec![run.clone()]).await.unwrap(), [true]);
        run.id
    }

    /// How a run ended, and how many attempts are on record.
    async fn record(&self, run: RunId) -> (String, usize) {
        let view = self.store.run(run).await.unwrap().unwrap();
        (view.state.to_string(), self.store.attempts(run).await.unwrap().len())
    }
}

async fn host(engine: &Engine, carried: Option<Carried>) -> Option<Arc<AgentProxy>> {
    let info = NodeInfo { labels: far(), capacity: both(2), ..NodeInfo::named("far") };
    engine.host(info, AgentLimits::for_all(), carried).await.unwrap()
}

/// Polls until something comes.
async fn fetch(proxy: &AgentProxy, poll: &mut u64, has: &[&Started]) -> Vec<Started> {
    let has: HashSet<_> = has.iter().map(|run| run.run.grant).collect();
    for _ in 0..60 {
        *poll += 1;
        let work = proxy.work(*poll, both(2), &has, Duration::from_secs(1)).await;
        if !work.is_empty() {
            return work;
        }
        proxy.renew().await.unwrap().unwrap();
    }
    panic!("no work came");
}

fn completed(run: &Started) -> RemoteAttempt {
    RemoteAttempt {
        grant: run.run.grant,
        token: Some(run.token),
        started_at: run.started_at,
        took: SignedDuration::from_millis(5),
        result: AttemptResult::completed(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_goes_on_at_another_server_with_what_it_has_begun() {
    let servers = Servers::start().await;
    let at_a = host(&servers.a, None).await.unwrap();
    let first = servers.trigger().await;
    let begun = fetch(&at_a, &mut 0, &[]).await.remove(0);
    assert_eq!(begun.run.grant.run, first);

    let node = at_a.id();
    let carried = |begun: &Started| Carried {
        node,
        begun: HashMap::from([(
            begun.run.grant,
            CarriedRun {
                started_at: begun.started_at,
                token: begun.token,
                slot: begun.run.run.slot,
            },
        )]),
    };
    let at_b = host(&servers.b, Some(carried(&begun))).await.unwrap();
    assert_eq!(at_b.id(), node);
    let second = servers.trigger().await;
    let next = fetch(&at_b, &mut 0, &[&begun]).await;
    let runs: Vec<RunId> = next.iter().map(|run| run.run.grant.run).collect();
    assert_eq!(runs, [second], "what has begun is not begun again");
    let ended = [completed(&begun), completed(&next[0])];
    let applied = at_b.settle(&ended).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Completed); 2]);
    // A repeated report is refused, and so is one for another name.
    assert_eq!(at_a.settle(&ended).await.unwrap(), [Applied::Stale; 2]);
    assert_eq!(servers.a.settle_late(node, "far", &ended).await.unwrap(), [Applied::Stale; 2]);
    for run in [first, second] {
        assert_eq!(servers.record(run).await, ("COMPLETED".to_owned(), 1));
    }
    // A node is its own agent's, and as long as it lives.
    let info = NodeInfo { labels: far(), capacity: both(2), ..NodeInfo::named("thief") };
    let stolen = servers.b.host(info, AgentLimits::for_all(), Some(carried(&begun))).await.unwrap();
    assert!(stolen.is_none());
    at_b.leave().await.unwrap();
    assert!(host(&servers.a, Some(carried(&begun))).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_old_stand_in_claimed_is_found_by_the_new_one() {
    let servers = Servers::start().await;
    let at_a = host(&servers.a, None).await.unwrap();
    let node = at_a.id();
    let at_b = host(&servers.b, Some(Carried { node, begun: HashMap::new() })).await.unwrap();
    // The agent polls B by now; the answer of A is lost.
    let run = servers.trigger().await;
    let unheard = fetch(&at_a, &mut 0, &[]).await.remove(0);
    assert_eq!(unheard.run.grant.run, run);
    at_a.end();
    assert!(at_a.is_over());
    let heard = fetch(&at_b, &mut 0, &[]).await.remove(0);
    assert_eq!(heard.run.grant, unheard.run.grant, "under the same right");
    let late = servers.a.settle_late(node, "nobody", &[completed(&heard)]).await.unwrap();
    assert_eq!(late, [Applied::Stale], "not in another's name");
    let late = servers.a.settle_late(node, "far", &[completed(&heard)]).await.unwrap();
    assert_eq!(late, [Applied::Ended(Outcome::Completed)], "whoever is asked can settle it");
    assert_eq!(servers.record(run).await, ("COMPLETED".to_owned(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_fetched_goes_back_when_the_agent_stops() {
    let servers = Servers::start().await;
    let leaver = host(&servers.a, None).await.unwrap();
    let run = servers.trigger().await;
    // It is fetched and lost on the way: the next poll, which never comes, would bring it again.
    let lost = fetch(&leaver, &mut 0, &[]).await.remove(0);
    leaver.leave().await.unwrap();
    let stayer = host(&servers.b, None).await.unwrap();
    let again = fetch(&stayer, &mut 0, &[]).await.remove(0);
    assert_eq!(again.run.grant.run, run);
    assert!(again.run.grant.fence > lost.run.grant.fence);
    assert_eq!(leaver.settle(&[completed(&lost)]).await.unwrap(), [Applied::Stale]);
    let applied = stayer.settle(&[completed(&again)]).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Completed)]);
    assert_eq!(servers.record(run).await, ("COMPLETED".to_owned(), 1));
}

/// An agent that renews its lease for ever and ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_does_not_end_is_ended_for_it() {
    let servers = Servers::start().await;
    let proxy = host(&servers.a, None).await.unwrap();
    let run = servers.trigger().await;
    let mut poll = 0;
    let hung = fetch(&proxy, &mut poll, &[]).await.remove(0);
    // A minute, its grace period, five seconds and a lease of ten minutes: all but half a minute,
    // in which a loaded machine may get this far.
    for later_s in [300, 600, 645] {
        servers.later_s.store(later_s, Ordering::SeqCst);
        assert_eq!(proxy.renew().await.unwrap().unwrap().over, [], "{later_s}");
    }
    assert!(servers.store.attempts(run).await.unwrap().is_empty());
    servers.later_s.store(700, Ordering::SeqCst);
    let attempts = until("ended by the server", async || {
        let attempts = servers.store.attempts(run).await.unwrap();
        (!attempts.is_empty()).then_some(attempts)
    });
    let attempts = attempts.await;
    assert_eq!(attempts[0].end, "TIMEOUT");
    let said = attempts[0].message.as_deref().unwrap();
    assert!(said.starts_with("agent far did not end it within its time limit"), "{said}");
    // The agent gets a request to stop it.
    assert_eq!(proxy.renew().await.unwrap().unwrap().over, [hung.run.grant]);
    assert_eq!(proxy.sent(hung.run.grant).map(|run| run.run.grant), None);
    // It is tried again like any other, here while the first attempt still hangs.
    let again = fetch(&proxy, &mut poll, &[&hung]).await.remove(0);
    assert_eq!((again.run.grant.run, again.run.attempts), (run, 1));
    assert!(again.run.grant.fence > hung.run.grant.fence);
    assert_eq!(proxy.renew().await.unwrap().unwrap().over, [hung.run.grant]);
    // Both slots are taken.
    let (second, third) = (servers.trigger().await, servers.trigger().await);
    let has = HashSet::from([hung.run.grant, again.run.grant]);
    poll += 1;
    assert!(proxy.work(poll, both(1), &has, Duration::from_millis(300)).await.is_empty());
    for waiting in [second, third] {
        assert_eq!(servers.record(waiting).await.0, "QUEUED");
    }
    // The report of the agent about the first one is refused, but it has stopped.
    assert_eq!(proxy.settle(&[completed(&hung)]).await.unwrap(), [Applied::Stale]);
    let next = fetch(&proxy, &mut poll, &[&again]).await;
    assert_eq!(next.len(), 1, "one of two slots");
    assert_eq!(proxy.renew().await.unwrap().unwrap().over, []);
    let applied = proxy.settle(&[completed(&again)]).await.unwrap();
    assert_eq!(applied, [Applied::Ended(Outcome::Completed)]);
    assert_eq!(servers.record(run).await, ("COMPLETED".to_owned(), 2));
}
