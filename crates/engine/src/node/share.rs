//! The divider: with very many jobs, each scheduler plans a share of them ahead.
//!
//! ```text
//!        now          near                                look-ahead
//!    ─────┼────────────┼──────────────────────────────────────┼──────▶ next times
//!         │ every      │ the owner of the job's bucket        │ none yet
//!         │ scheduler  │                                      │
//! ```
//!
//! Planning is right whichever node does it: a next time is moved by compare-and-set, and a tick is
//! a primary key. Only the effort is divided. So a bucket has no lease: it belongs to one of the
//! schedulers that are alive and not draining, by a hash that each of them computes for itself
//! (`domain::bucket`), and it moves when its owner's own lease ends. Two schedulers that see
//! different members for a second plan a bucket twice, or not at all, and neither matters: one of
//! two plans loses, and a job that is not planned when its time is near is planned by every
//! scheduler.

use domain::bucket::Buckets;
use domain::cluster::NodeRole;
use jiff::{SignedDuration, Timestamp};

use super::Node;
use crate::settings::Settings;

/// How often the jobs are counted.
const COUNT_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// Planning buckets of a scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Buckets that it plans ahead.
    buckets: Buckets,
    /// When the jobs were counted, and whether they are so many that planning is divided.
    counted: Option<(Timestamp, bool)>,
}

impl Share {
    /// All buckets.
    pub const WHOLE: Share = Share { buckets: Buckets::ALL, counted: None };
}

impl Settings {
    /// A job that is not planned so long before its time is planned by every scheduler.
    pub(crate) fn near(&self) -> SignedDuration {
        let in_time = self.prepare_ahead + self.poll_every * 2;
        (self.look_ahead / 8).max(in_time).min(self.look_ahead)
    }
}

impl Node {
    /// The buckets whose jobs this node plans ahead; all of them unless planning is divided.
    pub fn buckets(&self) -> Buckets {
        self.state().share.buckets
    }
}

impl Node {
    /// Works out which jobs this node plans ahead.
    pub async fn take_share(&self) -> store::Result<Buckets> {
        if !self.has_role(NodeRole::Scheduler) {
            return Ok(Buckets::NONE);
        }
        let now = self.now();
        let (node, before) = {
            let state = self.state();
            (state.id, state.share)
        };
        let fresh = |(at, _): &(Timestamp, bool)| now.duration_since(*at).abs() < COUNT_EVERY;
        let (at, many) = match before.counted.filter(fresh) {
            Some(counted) => counted,
            None => {
                let most = self.settings.planning_buckets_above;
                (now, self.store.has_more_jobs_than(most).await?)
            }
        };
        let schedulers = if many { self.store.schedulers().await? } else { Vec::new() };
        let buckets = match schedulers.as_slice() {
            // Everything is drained, or there are few jobs: then no node leaves anything to others.
            [] => Buckets::ALL,
            among => Buckets::of_node(node, among),
        };
        let mut state = self.state();
        if state.id != node {
            return Ok(state.share.buckets);
        }
        if state.share.buckets != buckets {
            let (share, of) = (buckets.count(), schedulers.len());
            tracing::info!(buckets = share, schedulers = of, "the share of the planning changed");
        }
        state.share = Share { buckets, counted: Some((at, many)) };
        Ok(buckets)
    }
}
