//! Several nodes and shards over one store, on a clock that the test moves.

use std::collections::{BTreeMap, BTreeSet};

use domain::id::{JobId, NodeId, ObjectId, RunId, TenantId};
use domain::object::{Object, ObjectKind};
use domain::run::{AttemptResult, ErrorCode};
use domain::shard::{Ownership, ShardBody};
use engine::{NodeInfo, Settings, Started};
use store::{NamedResources, Put, RunFilter, RunView, SYSTEM, Shards, Store};
use uuid::Uuid;

use crate::world::{Steps, TestNode, World};

/// A cluster that works only when it is stepped.
pub struct TestCluster {
    pub world: World,
    pub nodes: Vec<TestNode>,
    /// By name, in order.
    pub shards: Vec<(String, ObjectId)>,
    /// Nodes that stopped without leaving.
    silent: BTreeSet<usize>,
    /// Executed runs: the node, the shard's name, the run.
    pub log: Vec<(NodeId, String, RunId)>,
}

impl TestCluster {
    /// A cluster of so many nodes and shards, each of which has an owner.
    pub async fn create(nodes: usize, shards: usize) -> Self {
        Self::with(nodes, shards, |_| {}).await
    }

    /// The same with other settings.
    pub async fn with(nodes: usize, shards: usize, set: impl Fn(&mut Settings)) -> Self {
        let world = World::at("2026-01-01T00:00:00Z");
        let mut cluster = TestCluster {
            world,
            nodes: Vec::new(),
            shards: Vec::new(),
            silent: BTreeSet::new(),
            log: Vec::new(),
        };
        for n in 0..nodes {
            let mut settings =
                Settings { info: NodeInfo::named(&format!("node-{n}")), ..Settings::default() };
            set(&mut settings);
            cluster.nodes.push(cluster.world.node_with(settings).await);
        }
        for n in 1..=shards {
            cluster.add_shard(n, ShardBody::default()).await;
        }
        cluster.attend().await;
        cluster
    }

    /// One more shard.
    pub async fn add_shard(&mut self, n: usize, body: ShardBody) {
        let name = format!("shard_{n:03}");
        let id = self.add_object(ObjectKind::Shard, &name, body.to_json()).await;
        self.shards.push((name, id));
    }

    /// One more thing with a name.
    pub async fn add_object(&self, kind: ObjectKind, name: &str, body: String) -> ObjectId {
        let now = self.world.store.now().await.unwrap();
        let object = Object {
            id: ObjectId(Uuid::new_v5(&Uuid::nil(), name.as_bytes())),
            tenant: TenantId::DEFAULT,
            kind,
            name: name.to_owned(),
            body,
            version: 0,
            created_at: now,
            changed_at: now,
        };
        let put = self.world.store.put_object(&object, 0, SYSTEM).await.unwrap();
        assert!(matches!(put, Put::Done(_)), "{put:?}");
        object.id
    }

    pub fn silence(&mut self, node: usize) {
        self.silent.insert(node);
    }

    fn awake(&self) -> impl Iterator<Item = &TestNode> {
        self.nodes
            .iter()
            .enumerate()
            .filter(|(n, _)| !self.silent.contains(n))
            .map(|(_, node)| node)
    }

    /// Every node takes its step of cluster work.
    pub async fn attend(&self) {
        for node in self.awake() {
            node.attend().await.unwrap();
        }
    }

    /// One second of the cluster, in which everything that starts is executed.
    pub async fn second(&mut self, carry_out: &mut impl FnMut(&Started) -> AttemptResult) -> usize {
        self.world.pass(1);
        let mut count = 0;
        let mut log = Vec::new();
        for node in self.awake() {
            node.renew().await.unwrap().expect("the node is alive");
            node.reap().await.unwrap();
            node.attend().await.unwrap();
            for started in node.work().await {
                count += 1;
                let shard = started.shard.as_ref().map_or("", |shard| shard.name.as_str());
                log.push((node.id(), shard.to_owned(), started.run.grant.run));
                let result = carry_out(&started);
                if started.asks_rows {
                    assert!(node.split_by(started.run.grant, result).await.unwrap());
                } else {
                    assert!(node.complete(started.run.grant, result));
                }
            }
            node.flush().await;
            node.wake_split().await.unwrap();
        }
        self.log.extend(log);
        count
    }

    /// One second in which nodes are declared dead and shards move, and nothing is claimed.
    pub async fn idle_second(&self) {
        self.world.pass(1);
        for node in self.awake() {
            node.renew().await.unwrap().expect("the node is alive");
            node.reap().await.unwrap();
            node.elect().await.unwrap();
            node.assign_shards().await.unwrap();
        }
    }

    /// Seconds pass until the run has ended; answers how many.
    pub async fn until_ended(
        &mut self,
        run: RunId,
        most: usize,
        mut carry_out: impl FnMut(&Started) -> AttemptResult,
    ) -> usize {
        for second in 0..=most {
            let view = self.world.store.run(run).await.unwrap();
            if view.is_some_and(|view| view.finished_at.is_some()) {
                return second;
            }
            self.second(&mut carry_out).await;
        }
        panic!("the run did not end within {most} seconds: {:?}", self.log);
    }

    /// The runs of a job that are no parts, oldest first.
    pub async fn job_runs(&self, job: JobId) -> Vec<RunView> {
        let mut runs = self.runs(job).await;
        runs.retain(|run| !run.id.is_part());
        runs
    }

    /// The parts of the runs of a job.
    pub async fn job_parts(&self, job: JobId) -> Vec<RunView> {
        let mut runs = self.runs(job).await;
        runs.retain(|run| run.id.is_part());
        runs
    }

    async fn runs(&self, job: JobId) -> Vec<RunView> {
        let mut runs =
            self.world.store.list_runs(&RunFilter::of_job(job), None, 500).await.unwrap().items;
        runs.reverse();
        runs
    }

    /// Owners by shard.
    pub async fn owners(&self) -> BTreeMap<String, Ownership> {
        let shards = self.world.store.shards(None).await.unwrap();
        shards.into_iter().map(|shard| (shard.object.name, shard.owner)).collect()
    }

    /// The shards of a node.
    pub async fn owned_by(&self, node: NodeId) -> BTreeSet<String> {
        let owners = self.owners().await.into_iter();
        owners.filter(|(_, owner)| owner.node == Some(node)).map(|(name, _)| name).collect()
    }
}

pub fn done(_: &Started) -> AttemptResult {
    AttemptResult::completed()
}

pub fn failed() -> AttemptResult {
    AttemptResult::failed(ErrorCode::Exit(1), "no")
}
