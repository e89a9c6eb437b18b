//! Wait of a run in a list: one sentence, made from facts about all runs of the list.

use super::facts::{ClusterFacts, LiveFacts, RunDetail, RunFacts, Subject};
use super::wait::live_cause;
use crate::dependency::DependencyRule;
use crate::run::{RunState, Wait};

/// Why a run has not started; none for one that has started or ended. `upstream` are the names of
/// the jobs that its job depends on, and `cluster` the nodes and limits, if they are known.
pub fn waiting_reason(
    subject: &Subject<'_>,
    run: &RunFacts,
    wait: Option<Wait>,
    upstream: &[String],
    cluster: Option<&ClusterFacts>,
) -> Option<String> {
    if !matches!(run.state, RunState::Pending | RunState::Queued | RunState::Held) {
        return None;
    }
    let text = match wait {
        Some(Wait::Upstream) if upstream.is_empty() => {
            "waits for the jobs that it depends on".to_owned()
        }
        Some(Wait::Upstream) => match subject.job.definition.dependency_rule {
            DependencyRule::All => format!("waits for {}", upstream.join(", ")),
            DependencyRule::Any => format!("waits for {}", upstream.join(" or ")),
        },
        Some(Wait::Overlap) => "waits in line for earlier runs of the job".to_owned(),
        Some(Wait::Backfill) => "waits for earlier runs of the backfill".to_owned(),
        Some(Wait::Quorum) => "waits for a quorum of the schedulers".to_owned(),
        Some(Wait::Decision) => "waits for a decision: its node was lost".to_owned(),
        Some(Wait::Pause) => "waits until the job is resumed".to_owned(),
        Some(Wait::Pool) => match &subject.job.definition.pool {
            Some(pool) => format!("waits for a place in the pool {}", pool.name),
            None => "waits for a place in a pool".to_owned(),
        },
        None if run.id.is_part() && run.due_at <= subject.now => {
            "waits for the node that owns its shard".to_owned()
        }
        Some(Wait::Parts) | None => {
            let live = LiveFacts { wait, ..LiveFacts::NONE };
            let cluster = cluster.cloned();
            let detail = RunDetail { live: Some(live), cluster, ..RunDetail::default() };
            live_cause(subject, run, &detail).text
        }
    };
    Some(text)
}
