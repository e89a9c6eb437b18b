//! Runs that somebody asked for. Callers who ask at the same time share a commit.
//!
//! ```text
//!   caller ─┐
//!   caller ─┼─▶ queue ──▶ one of two tasks: all that wait, one transaction ──▶ answers
//!   caller ─┘
//! ```
//!
//! Nobody waits for company: a task takes what there is as soon as it is free. While it waits for
//! the disk, the next group gathers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use domain::id::{NodeId, RunId};
use domain::run::{ClaimedRun, Grant, NewRun};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_postgres::Row;
use uuid::Uuid;

use super::pipeline::{Pipeline, values};
use super::runs::{RunColumns, place};
use super::{Shared, lock_of};
use crate::{ClaimFor, Result, StoreError, Submitted};

/// Transactions that are under way at a time: one gathers while the other one is written.
const TASKS: usize = 2;

/// Runs that share a commit at most.
const GROUP_MAX: usize = 1_000;

/// A call with so many runs has company enough.
const ALONE_MIN: usize = 200;

/// A call with so many runs is work enough for two.
const SPLIT_MIN: usize = 500;

/// The callers' side.
pub(super) struct Submitter {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Call>,
}

/// What somebody asked for.
struct Call {
    runs: Vec<NewRun>,
    claim: Option<ClaimFor>,
    reply: oneshot::Sender<Result<Submitted>>,
}

/// A call without its caller.
#[derive(Clone, Copy)]
struct Ask<'a> {
    runs: &'a [NewRun],
    claim: Option<ClaimFor>,
}

impl Submitter {
    /// Starts the tasks. They end when this is dropped.
    pub fn start(shared: Arc<Shared>) -> Self {
        let (queue, calls) = mpsc::unbounded_channel();
        let calls = Arc::new(Mutex::new(calls));
        for _ in 0..TASKS {
            tokio::spawn(serve(Arc::clone(&shared), Arc::clone(&calls)));
        }
        Submitter { shared, queue }
    }

    pub async fn submit(&self, runs: &[NewRun], claim: Option<ClaimFor>) -> Result<Submitted> {
        if runs.is_empty() {
            return Ok(Submitted::default());
        }
        if runs.len() >= SPLIT_MIN && claim.is_none() {
            // Each run is accepted for itself, so two connections can share the work.
            let (first, second) = runs.split_at(runs.len() / 2);
            let [first, second] = [first, second].map(|runs| [Ask { runs, claim }]);
            let halves = tokio::join!(self.shared.submit(&first), self.shared.submit(&second));
            let accepted = [halves.0?, halves.1?].into_iter().flatten();
            let accepted = accepted.flat_map(|submitted| submitted.accepted).collect();
            return Ok(Submitted { accepted, ..Submitted::default() });
        }
        if runs.len() >= ALONE_MIN {
            let submitted = self.shared.submit(&[Ask { runs, claim }]).await?;
            return Ok(submitted.into_iter().next().unwrap_or_default());
        }
        let gone = || StoreError::Unavailable("the store has stopped".to_owned());
        let (reply, answer) = oneshot::channel();
        self.queue.send(Call { runs: runs.to_vec(), claim, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn serve(shared: Arc<Shared>, calls: Arc<Mutex<mpsc::UnboundedReceiver<Call>>>) {
    loop {
        let mut group = Vec::new();
        {
            let mut calls = calls.lock().await;
            let Some(call) = calls.recv().await else { return };
            let mut count = call.runs.len();
            group.push(call);
            while count < GROUP_MAX {
                let Ok(call) = calls.try_recv() else { break };
                count += call.runs.len();
                group.push(call);
            }
        }
        let asks: Vec<Ask<'_>> =
            group.iter().map(|call| Ask { runs: &call.runs, claim: call.claim }).collect();
        let answers = shared.submit_together(&asks).await;
        for (call, answer) in group.into_iter().zip(answers) {
            // A caller that went away does not need the answer.
            let _ = call.reply.send(answer);
        }
    }
}

impl Shared {
    /// Applies a group. If it cannot be applied as one, each call stands for itself.
    async fn submit_together(&self, asks: &[Ask<'_>]) -> Vec<Result<Submitted>> {
        match self.submit(asks).await {
            Ok(submitted) => submitted.into_iter().map(Ok).collect(),
            Err(StoreError::Unreadable(_)) if asks.len() > 1 => {
                let mut answers = Vec::with_capacity(asks.len());
                for ask in asks {
                    let answer = self.submit(std::slice::from_ref(ask)).await;
                    answers.push(answer.map(|mut submitted| submitted.pop().unwrap_or_default()));
                }
                answers
            }
            Err(error) => {
                let problem = match error {
                    StoreError::Unavailable(problem) => problem,
                    other => other.to_string(),
                };
                asks.iter().map(|_| Err(StoreError::Unavailable(problem.clone()))).collect()
            }
        }
    }

    async fn submit(&self, asks: &[Ask<'_>]) -> Result<Vec<Submitted>> {
        let wishes = wishes(asks);
        let _claiming = self.claiming.read().await;
        // Almost always everything is new, and then it need not be asked.
        let (steps, pipeline) = record(asks, &wishes, sql!("run_insert"));
        if let Some(answers) = pipeline.commit_new(&self.pool).await? {
            let all = asks.iter().flat_map(|ask| ask.runs).map(|run| run.id).collect();
            return self.answers(asks, &wishes, &steps, &answers, all);
        }
        let careful = concat!(sql!("run_insert"), sql!("unless_known"));
        let (steps, pipeline) = record(asks, &wishes, careful);
        let answers = pipeline.commit(&self.pool).await?;
        let new = answers[steps.insert].iter().map(|row| Ok(RunId(row.try_get(0)?)));
        let new: HashSet<RunId> = new.collect::<Result<_>>()?;
        self.answers(asks, &wishes, &steps, &answers, new)
    }

    fn answers(
        &self,
        asks: &[Ask<'_>],
        wishes: &[Wish<'_>],
        steps: &Steps,
        answers: &[Vec<Row>],
        mut accepted: HashSet<RunId>,
    ) -> Result<Vec<Submitted>> {
        for row in &answers[steps.known] {
            accepted.remove(&RunId(row.try_get(0)?));
        }
        let mut fences: HashMap<RunId, i64> = HashMap::new();
        for (wish, step) in wishes.iter().zip(&steps.claims) {
            let rows = answers[*step].iter();
            let grants = rows.map(|row| Ok((RunId(row.try_get(0)?), row.try_get(1)?)));
            let grants: Vec<(RunId, i64)> = grants.collect::<Result<_>>()?;
            self.hold(wish, &grants);
            fences.extend(grants);
        }
        Ok(asks.iter().map(|ask| answer(ask, &mut accepted, &mut fences)).collect())
    }

    fn hold(&self, wish: &Wish<'_>, grants: &[(RunId, i64)]) {
        let Some((_, first)) = grants.first() else { return };
        let jobs: HashMap<RunId, &NewRun> = wish.runs.iter().map(|run| (run.id, *run)).collect();
        let job = |run: &RunId| jobs.get(run).map(|wished| (*run, wished.job));
        let held = grants.iter().filter_map(|(run, _)| job(run)).collect();
        self.holdings().take(first - 1, wish.node, held);
    }
}

/// Where the answers of a transaction are.
struct Steps {
    insert: usize,
    known: usize,
    claims: Vec<usize>,
}

/// The transaction that records what was asked for and grants what was wished for.
fn record<'a>(
    asks: &[Ask<'a>],
    wishes: &[Wish<'a>],
    insert: &'static str,
) -> (Steps, Pipeline<'a>) {
    let mut seen: HashSet<RunId> = HashSet::new();
    let new = asks.iter().flat_map(|ask| ask.runs).filter(|run| seen.insert(run.id));
    let columns = RunColumns::of(new);
    let ids = columns.id.clone();
    let mut pipeline = Pipeline::default();
    for node in wishes.iter().map(|wish| wish.node).collect::<HashSet<NodeId>>() {
        pipeline.push(sql!("lock_node"), values![lock_of(node)]);
    }
    let insert = pipeline.push(insert, columns.into_values());
    place(&mut pipeline, asks.iter().flat_map(|ask| ask.runs));
    let known = pipeline.push(sql!("run_known"), values![ids]);
    let mut claims = Vec::new();
    for wish in wishes {
        let runs: Vec<Uuid> = wish.runs.iter().map(|run| run.id.0).collect();
        pipeline.push(sql!("gate"), values![wish.max]);
        claims.push(pipeline.push(sql!("claim_born"), values![wish.node.0, wish.max, runs]));
    }
    (Steps { insert, known, claims }, pipeline)
}

/// Runs that a node would like to be handed.
struct Wish<'a> {
    node: NodeId,
    max: i64,
    runs: Vec<&'a NewRun>,
}

/// What nodes would like. Calls that have room for all their runs are taken together.
fn wishes<'a>(asks: &[Ask<'a>]) -> Vec<Wish<'a>> {
    let mut seen: HashSet<RunId> = HashSet::new();
    let mut wishes = Vec::new();
    let mut together: BTreeMap<NodeId, Vec<&NewRun>> = BTreeMap::new();
    for ask in asks {
        let runs: Vec<&NewRun> = ask.runs.iter().filter(|run| seen.insert(run.id)).collect();
        match ask.claim.filter(|claim| claim.max > 0 && !runs.is_empty()) {
            Some(claim) if claim.max as usize >= runs.len() => {
                together.entry(claim.node).or_default().extend(runs);
            }
            Some(claim) => wishes.push(Wish { node: claim.node, max: claim.max.into(), runs }),
            None => {}
        }
    }
    let together =
        together.into_iter().map(|(node, runs)| Wish { node, max: runs.len() as i64, runs });
    wishes.extend(together);
    wishes
}

/// The part of a group's answer that belongs to one call. A run that two calls ask for is the
/// first one's.
fn answer(
    ask: &Ask<'_>,
    accepted: &mut HashSet<RunId>,
    fences: &mut HashMap<RunId, i64>,
) -> Submitted {
    let mut submitted = Submitted::default();
    for run in ask.runs {
        submitted.accepted.push(accepted.remove(&run.id));
        if let Some(fence) = fences.remove(&run.id) {
            let grant = Grant { run: run.id, fence, turn: 0 };
            submitted.claimed.push(ClaimedRun { grant, run: run.clone(), attempts: 0, lost: 0 });
        }
    }
    submitted
}
