//! The store as the engine sees it: one type, whatever the database.
//!
//! The operations of a store are a list. It generates [`Operation`], their names; an object-safe
//! trait that every store has; and [`SharedStore`], which calls a store through that trait and
//! measures each call. Code above a store is therefore compiled once, without type parameters. A
//! call costs one allocation more than a direct one, and every call waits for a database.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use domain::access::{Award, Entry, Kind, Record};
use domain::alert::Alert;
use domain::artifact::{ArtifactDigest, ArtifactVersion};
use domain::audit::{self, Event, Hash, Seal};
use domain::bucket::Buckets;
use domain::cluster::{Leadership, Quorum};
use domain::dag::state::{StepKey, StepRecord};
use domain::facts::StartFacts;
use domain::id::{JobId, NodeId, ObjectId, RunId, TenantId, UserId};
use domain::job::{Job, LostAnswer, Retention};
use domain::object::{Object, ObjectKind};
use domain::partition::Part;
use domain::pool::{PlaceRequest, PoolRun};
use domain::run::{ClaimedRun, Grant, NewRun, Outcome, Reason};
use domain::secret::SecretPlace;
use domain::tally::{EndedRun, Key};
use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use crate::{
    Acknowledgement, Alerts, Answer, Applied, AttemptView, AuditFilter, AuditLog, AuditedEvent,
    Cancelled, Chain, Change, ChangeFeed, Changed, Channel, ClaimFor, ClaimRequest, Cluster,
    Counts, Cursor, DeadLetters, Decided, Delivery, DeliveryKey, DeliveryView, DueJobs,
    EffectiveGrants, EntryFilter, Exchanged, Extended, FactsFor, Finish, FullStore, GrantOutcome,
    HeldLease, IdempotencyKeys, Identity, JobFilter, JobRecords, JobVersion, Joined, KeptSecret,
    Lapsed, LastRun, LeaseExtension, LeaseRequest, Leased, LiveCounts, LiveRun, MessagePlace,
    MessageQueries, Messages, Move, NamedResources, NewMessage, NodeControl, NodeControlOutcome,
    NodeInfo, NodeView, OwnedShard, Page, ParentRun, Pools, PrunedJobs, Put, QueueDepth, QueueLine,
    QueueRates, QueueStatistics, Reaped, RecentEnd, RecordPlan, Recorded, Removed, Renewed,
    RequestState, Result, RetentionCutoff, Rewrapped, RunFilter, RunQueries, RunView, SecretStore,
    SecretView, Sent, Set, Setting, Settings, SettledMessage, Shards, StartFilter, StartKey, Store,
    Submitted, WorkspaceDepths,
};
use crate::{Advance, Advanced, DagRecords, DagRun, Dags, StepEnd, StepOutcomes};
use crate::{Artifacts, OutputRecords, PushedArtifact};

/// Receives how long each call of a store took.
pub trait StoreMetrics: Send + Sync + 'static {
    /// An operation was answered after this time, or failed.
    fn record(&self, operation: Operation, time: Duration, is_ok: bool);
}

/// A store that is shared by everything that works on it.
#[derive(Clone)]
pub struct SharedStore {
    store: Arc<dyn DynStore>,
    metrics: Option<Arc<dyn StoreMetrics>>,
}

impl SharedStore {
    /// Shares a store and measures its calls.
    pub fn measured(store: impl FullStore, metrics: Arc<dyn StoreMetrics>) -> Self {
        SharedStore { store: Arc::new(store), metrics: Some(metrics) }
    }

    #[expect(clippy::disallowed_methods, reason = "how long a call takes decides nothing")]
    async fn measure<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Some(metrics) = &self.metrics else { return call.await };
        let began = Instant::now();
        let answer = call.await;
        metrics.record(operation, began.elapsed(), answer.is_ok());
        answer
    }
}

impl<S: FullStore> From<Arc<S>> for SharedStore {
    fn from(store: Arc<S>) -> Self {
        SharedStore { store, metrics: None }
    }
}

/// One line for each operation: its name in [`Operation`], its signature, its answer.
macro_rules! operations {
    ($($group:ident {
        $($name:ident $operation:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)*
    })*) => {
        /// An operation of a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation {
            $($(
                #[doc = concat!("`", stringify!($group), "::", stringify!($operation), "`.")]
                $name,
            )*)*
        }

        impl Operation {
            /// Every operation, at the index of its number.
            pub const ALL: &[Operation] = &[$($(Operation::$name,)*)*];

            /// The operation's name.
            pub fn name(self) -> &'static str {
                match self {
                    $($(Operation::$name => stringify!($operation),)*)*
                }
            }
        }

        /// [`FullStore`] as an object.
        #[async_trait]
        trait DynStore: Send + Sync + 'static {
            $($(async fn $operation(&self, $($arg: $kind),*) -> Result<$answer>;)*)*
            async fn placed(&self);
            async fn changed(&self);
            fn hint(&self);
        }

        #[async_trait]
        impl<S: FullStore> DynStore for S {
            $($(async fn $operation(&self, $($arg: $kind),*) -> Result<$answer> {
                $group::$operation(self, $($arg),*).await
            })*)*

            async fn placed(&self) {
                Store::placed(self).await;
            }

            async fn changed(&self) {
                Store::changed(self).await;
            }

            fn hint(&self) {
                Store::hint(self);
            }
        }

        impl SharedStore {
            $($(
                #[doc = concat!("Calls [`", stringify!($group), "::", stringify!($operation), "`].")]
                pub async fn $operation(&self, $($arg: $kind),*) -> Result<$answer> {
                    self.measure(Operation::$name, self.store.$operation($($arg),*)).await
                }
            )*)*

            /// Calls [`Store::placed`], which waits for other nodes and is not measured.
            pub async fn placed(&self) {
                self.store.placed().await;
            }

            /// Calls [`Store::changed`], which waits for other nodes and is not measured.
            pub async fn changed(&self) {
                self.store.changed().await;
            }

            /// Calls [`Store::hint`].
            pub fn hint(&self) {
                self.store.hint();
            }
        }
    };
}

operations! {
    Store {
        Now now() -> Timestamp;
        Define define(changes: &[Change], by: &str) -> Vec<Changed>;
        DefineTogether define_together(changes: &[Change], by: &str) -> Vec<Changed>;
        DueJobs due_jobs(ahead: SignedDuration, limit: u32, of: &Buckets) -> DueJobs;
        RecordPlan fire(batch: &[RecordPlan]) -> Vec<bool>;
        Submit submit(runs: &[NewRun], claim: Option<ClaimFor>) -> Submitted;
        CompleteAndClaim complete_and_claim(node: NodeId, done: &[Finish], want: ClaimRequest) -> Exchanged;
        Held held(node: NodeId) -> Vec<ClaimedRun>;
        Facts facts(node: NodeId, questions: &[FactsFor]) -> Vec<StartFacts>;
        StartTokens start_tokens(count: usize) -> Vec<i64>;
        Cancel cancel(run: RunId, reason: &Reason, by: &str) -> Cancelled;
        Join join(node: NodeId, info: &NodeInfo, lease: SignedDuration) -> Joined;
        Begin begin(node: NodeId, grants: &[Grant]) -> Vec<bool>;
        Decide decide(run: RunId, answer: LostAnswer, reason: &Reason, by: &str) -> Decided;
        Renew renew(node: NodeId, lease: SignedDuration) -> Option<Renewed>;
        RecordStarts record_starts(node: NodeId, starts: &[(Grant, Timestamp)]) -> ();
        RecordClockOffset record_clock_offset(node: NodeId, offset: SignedDuration) -> ();
        Retire retire(node: NodeId) -> ();
        Leave leave(node: NodeId, begun: &[Grant]) -> ();
        Reap reap(limit: u32) -> Reaped;
        SettleLost settle_lost(lost: &[(NodeId, Finish)]) -> Vec<Applied>;
        Prune prune(cut: &RetentionCutoff, limit: u32) -> u64;
        RetentionRules retention_rules(after: Option<JobId>, limit: u32)
            -> Vec<(JobId, Retention)>;
        JobsById jobs_by_id(ids: &[JobId]) -> Vec<Job>;
        JobsByName jobs_by_name(tenant: TenantId, names: &[&str]) -> Vec<Job>;
        JobByName job_by_name(tenant: TenantId, name: &str) -> Option<Job>;
        ListJobs list_jobs(filter: &JobFilter, after: Option<&str>, limit: u32)
            -> Page<Job, String>;
        Dependencies dependencies(tenant: TenantId) -> Vec<(JobId, JobId)>;
        Run run(id: RunId) -> Option<RunView>;
        Runs runs(ids: &[RunId]) -> Vec<RunView>;
        ListRuns list_runs(filter: &RunFilter, before: Option<RunId>, limit: u32)
            -> Page<RunView, RunId>;
        Attempts attempts(run: RunId) -> Vec<AttemptView>;
        Counts counts() -> Counts;
    }
    Cluster {
        Nodes nodes() -> Vec<NodeView>;
        TakeLeadership take_leadership(node: NodeId) -> Leadership;
        Leadership leadership() -> Leadership;
        Resign resign(node: NodeId, epoch: i64) -> bool;
        ClaimPlaced claim_placed(node: NodeId, epoch: Option<i64>, want: ClaimRequest) -> Vec<ClaimedRun>;
        AcknowledgeRuns acknowledge_runs(node: NodeId) -> u64;
        AllowEffects allow_effects(attempts: &[(Grant, String)]) -> Vec<bool>;
        HasEffects has_effects() -> bool;
        WakePools wake_pools() -> u64;
        Quorum quorum(run: RunId) -> Quorum;
        Acknowledgements acknowledgements(run: RunId) -> Vec<Acknowledgement>;
        PublishPolicy publish_policy(node: NodeId, epoch: i64, policy: &str) -> Option<u32>;
        Schedulers schedulers() -> Vec<NodeId>;
        HasMoreJobsThan has_more_jobs_than(count: u32) -> bool;
        NodeControl steer(node: NodeId, steer: NodeControl, by: &str) -> NodeControlOutcome;
    }
    Shards {
        Shards shards(tenant: Option<TenantId>) -> Vec<OwnedShard>;
        Assign assign(node: NodeId, epoch: i64, moves: &[Move]) -> Option<u64>;
        SplitRun split_run(run: ParentRun<'_>, parts: &[NewRun]) -> bool;
        Parts parts(runs: &[RunId]) -> Vec<Part>;
        Parents parents(parts: &[RunId]) -> Vec<(RunId, RunId)>;
        WakeSplit wake_split(runs: &[RunId]) -> u64;
        PruneParts prune_parts(limit: u32) -> u64;
    }
    Dags {
        BeginDags begin_dags(node: NodeId, runs: &[(Grant, DagRun)]) -> Vec<bool>;
        RepeatDag repeat_dag(new: &NewRun, run: &DagRun, adopted: &[StepRecord]) -> bool;
        Advance advance(batch: &[Advance], claim: Option<ClaimFor>) -> Advanced;
    }
    DagRecords {
        DagRun dag_run(run: RunId, with_steps: bool) -> Option<(DagRun, Vec<StepRecord>)>;
        DagSteps dag_steps(
            run: RunId,
            items_of: Option<u32>,
            after: Option<StepKey>,
            limit: u32
        ) -> Page<StepRecord, StepKey>;
        UnrecordedEnds unrecorded_ends(run: RunId, limit: u32) -> Vec<StepEnd>;
        CalledSteps called_steps(runs: &[RunId]) -> Vec<(RunId, RunId, StepKey)>;
        RunResults run_results(runs: &[RunId]) -> Vec<Option<String>>;
        ResultSizes result_sizes(runs: &[RunId]) -> Vec<u64>;
        StepOutcomes step_outcomes(ranges: &[(RunId, u32, u32)]) -> Vec<StepOutcomes>;
        StepAttempts step_attempts(run: RunId) -> Vec<(u32, Option<Timestamp>, u32)>;
        ItemCounts item_counts(run: RunId) -> Vec<(u32, Option<Outcome>, u32)>;
        ListDagRuns list_dag_runs(
            tenant: TenantId,
            job: Option<JobId>,
            before: Option<RunId>,
            limit: u32
        ) -> Page<DagRun, RunId>;
        PruneDags prune_dags(limit: u32) -> u64;
    }
    RunQueries {
        AttemptOutput attempt_output(run: RunId, number: u32) -> Option<Vec<u8>>;
        Live live(tenant: TenantId) -> LiveCounts;
        LiveRun live_run(run: RunId) -> Option<LiveRun>;
        LastRuns last_runs(jobs: &[JobId]) -> Vec<LastRun>;
        RecentEnds recent_ends(jobs: &[JobId], limit: u32) -> Vec<RecentEnd>;
        LatestStarts latest_starts(filter: &StartFilter, after: Option<StartKey>, limit: u32)
            -> Page<RunView, StartKey>;
        Retried retried(before: Option<RunId>, limit: u32) -> Page<RunView, RunId>;
    }
    DeadLetters {
        Acknowledge acknowledge(runs: &[RunId]) -> Vec<bool>;
        CountDeadLetters count_dead_letters(tenant: TenantId, most: u32) -> u32;
    }
    QueueStatistics {
        WorkspaceDepths workspace_depths(queue: JobId, limit: u32) -> WorkspaceDepths;
        QueueRates queue_rates(queue: JobId) -> QueueRates;
    }
    Settings {
        Settings settings() -> Vec<Setting>;
        Set set(name: &str, value: Option<&str>, expected: u32, by: &str) -> Set;
    }
    IdempotencyKeys {
        BeginRequest begin_request(tenant: TenantId, key: &str, fingerprint: &[u8]) -> RequestState;
        FinishRequest finish_request(tenant: TenantId, key: &str, answer: Option<&Answer>) -> ();
        ForgetRequests forget_requests(limit: u32) -> u64;
    }
    SecretStore {
        KeepSecret keep_secret(secret: &KeptSecret) -> Set;
        RemoveSecret remove_secret(place: &SecretPlace, expected: u32, by: &str) -> Set;
        Secrets secrets(places: &[SecretPlace]) -> Vec<KeptSecret>;
        SecretView secret_view(place: &SecretPlace) -> Option<SecretView>;
        ListSecrets list_secrets(
            tenant: Option<TenantId>,
            after: Option<&(JobId, String)>,
            limit: u32
        ) -> Page<SecretView, (JobId, String)>;
        SecretKeys secret_keys() -> Vec<(String, u64)>;
        SecretsUnder secrets_under(key: &str, after: Option<&SecretPlace>, limit: u32)
            -> Vec<KeptSecret>;
        Rewrap rewrap(batch: &[Rewrapped]) -> u64;
    }
    AuditLog {
        Record record(events: &[Event]) -> ();
        Audit audit(filter: &AuditFilter, from: Option<i64>, limit: u32) -> Vec<audit::Record>;
        Unsealed unsealed(limit: u32) -> Vec<audit::Record>;
        Chain chain(tenant: TenantId) -> Chain;
        Seal seal(tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> bool;
        Sealed sealed(tenant: TenantId, after: u64, limit: u32) -> Vec<audit::Record>;
        AuditedTenants audited_tenants() -> Vec<TenantId>;
        JobCreators job_creators(jobs: &[JobId]) -> Vec<(JobId, UserId)>;
        JobEvents job_events(job: JobId, limit: u32) -> Vec<AuditedEvent>;
        RunEvents run_events(run: RunId, limit: u32) -> Vec<AuditedEvent>;
        PruneAudit prune_audit(tenant: TenantId, before: Timestamp, limit: u32) -> u64;
    }
    ChangeFeed {
        Ended ended(after: Cursor, until: Timestamp, limit: u32) -> Vec<EndedRun>;
        ChangedJobs changed_jobs(after: Cursor, limit: u32) -> Vec<Job>;
        TallyCursor tally_cursor() -> Cursor;
        AddTallies add_tallies(from: Cursor, to: Cursor, amounts: &[(Key, u64)]) -> bool;
        Tallies tallies(tenant: TenantId, jobs: &[JobId], since_hour: i64) -> Vec<(Key, u64)>;
        ForgetTallies forget_tallies(before_hour: i64, limit: u32) -> u64;
    }
    JobRecords {
        JobVersions job_versions(job: JobId, before: Option<u32>, limit: u32)
            -> Page<JobVersion, u32>;
        JobVersion job_version(job: JobId, version: u32) -> Option<JobVersion>;
        JobNames job_names(of: &[(JobId, u32)]) -> Vec<Option<String>>;
        JobsEver jobs_ever(ids: &[JobId]) -> Vec<Job>;
        JobsEverNamed jobs_ever_named(tenant: TenantId, name: &str, limit: u32) -> Vec<Job>;
        DeletedJobs deleted_jobs(tenant: TenantId, before: Option<JobId>, limit: u32) -> Vec<Job>;
        PruneDeletedJobs prune_deleted_jobs(after: Option<JobId>, limit: u32) -> PrunedJobs;
    }
    Alerts {
        Raise raise(alerts: &[Alert]) -> ();
        Undelivered undelivered(channel: &Channel, limit: u32) -> Vec<(Alert, u32)>;
        RecordDelivery record_delivery(channel: &str, alert: Uuid, delivery: &Delivery) -> ();
        Deliveries deliveries(channel: &str, before: Option<DeliveryKey>, limit: u32)
            -> Page<DeliveryView, DeliveryKey>;
        Recovered recovered() -> Vec<Alert>;
        RaiseDeadLetters raise_dead_letters() -> u64;
    }
    Messages {
        SendMessages send_messages(queue: JobId, max_depth: Option<u64>, messages: &[NewMessage])
            -> Sent;
        LeaseMessages lease_messages(request: &LeaseRequest) -> Leased;
        ExtendLeases extend_leases(leases: &[LeaseExtension]) -> Vec<Option<Extended>>;
        ReadyQueues ready_queues(queues: &[JobId]) -> Vec<JobId>;
        HeldLeases held_leases(queue: JobId, leases: &[(RunId, i64)]) -> Vec<HeldLease>;
        SettleMessages settle_messages(node: NodeId, settled: &[SettledMessage]) -> Vec<Applied>;
        LapsedMessages lapsed_messages(limit: u32) -> Vec<Lapsed>;
        CancelMessage cancel_message(queue: JobId, message: RunId, reason: &Reason, by: &str)
            -> Cancelled;
        QueueDepths queue_depths(queues: &[JobId]) -> Vec<QueueDepth>;
        ForgetMessageKeys forget_message_keys(limit: u32) -> u64;
    }
    MessageQueries {
        MessagePlace message_place(message: RunId) -> Option<MessagePlace>;
        QueueLine queue_line(queue: JobId) -> QueueLine;
        IdsNamed ids_named(name: &str) -> Vec<JobId>;
    }
    NamedResources {
        PutObject put_object(object: &Object, expected: u32, by: &str) -> Put;
        RemoveObject remove_object(tenant: TenantId, id: ObjectId, expected: u32, by: &str) -> Set;
        Object object(id: ObjectId) -> Option<Object>;
        ObjectByName object_by_name(tenant: TenantId, kind: ObjectKind, name: &str)
            -> Option<Object>;
        ListObjects list_objects(tenant: TenantId, kind: ObjectKind, after: Option<&str>, limit: u32)
            -> Page<Object, String>;
        ObjectsOfKind objects_of_kind(kind: ObjectKind, after: Option<ObjectId>, limit: u32)
            -> Vec<Object>;
    }
    Artifacts {
        PushArtifact push_artifact(new: &ArtifactVersion, by: &str) -> PushedArtifact;
        Artifact artifact(tenant: TenantId, name: &str, version: u32) -> Option<ArtifactVersion>;
        NewestArtifact newest_artifact(tenant: TenantId, name: &str) -> Option<ArtifactVersion>;
        ListArtifacts list_artifacts(
            tenant: TenantId, name: Option<&str>, after: Option<&(String, u32)>, limit: u32
        ) -> Page<ArtifactVersion, (String, u32)>;
        ArtifactTenants artifact_tenants() -> Vec<TenantId>;
        DeleteArtifact delete_artifact(tenant: TenantId, name: &str, version: u32, by: &str)
            -> bool;
        NeededArtifacts needed_artifacts(digests: &[ArtifactDigest], grace: SignedDuration)
            -> Vec<ArtifactDigest>;
    }
    OutputRecords {
        ArchiveOutput archive_output(run: RunId, number: u32, record: &[u8]) -> bool;
    }
    Pools {
        TakePlaces take_places(requests: &[PlaceRequest]) -> Vec<bool>;
        PoolRuns pool_runs(tenant: TenantId, pool: Option<&str>) -> Vec<PoolRun>;
    }
    Identity {
        Generation generation() -> i64;
        Entries entries(ids: &[Uuid]) -> Vec<Record>;
        EntryNamed entry_named(kind: Kind, tenant: TenantId, name: &str) -> Option<Record>;
        ListEntries list_entries(filter: &EntryFilter, after: Option<&str>, limit: u32)
            -> Page<Record, String>;
        PutEntry put_entry(entry: &Entry, expected: Option<u32>, by: &str) -> Recorded;
        RemoveEntry remove_entry(id: Uuid, expected: Option<u32>, by: &str) -> Removed;
        Award award(award: &Award, by: &str) -> GrantOutcome;
        Revoke revoke(id: Uuid, by: &str) -> bool;
        AwardById award_by_id(id: Uuid) -> Option<Award>;
        ListAwards list_awards(tenant: TenantId, to: Option<Uuid>, after: Option<Uuid>, limit: u32)
            -> Page<Award, Uuid>;
        Reach reach(id: Uuid) -> EffectiveGrants;
        Salt salt(offered: [u8; 32]) -> [u8; 32];
        ForgetKeys forget_keys(limit: u32) -> u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;
    use crate::StoreError;
    use crate::sqlite::SqliteStore;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(Operation, bool)>>);

    impl StoreMetrics for Seen {
        fn record(&self, operation: Operation, _: Duration, is_ok: bool) {
            self.0.lock().unwrap().push((operation, is_ok));
        }
    }

    #[tokio::test]
    async fn answers_and_failures_are_both_measured() {
        let seen = Arc::new(Seen::default());
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        let store = SqliteStore::open(&folder.path().join("store.db"), clock).unwrap();
        let shared = SharedStore::measured(store, Arc::clone(&seen) as Arc<dyn StoreMetrics>);
        assert_eq!(shared.counts().await.unwrap().jobs, 0);
        let lost = async { Err::<(), _>(StoreError::Unavailable("gone".into())) };
        shared.measure(Operation::CompleteAndClaim, lost).await.unwrap_err();
        assert_eq!(
            *seen.0.lock().unwrap(),
            [(Operation::Counts, true), (Operation::CompleteAndClaim, false)]
        );
    }

    #[test]
    fn every_operation_has_a_number_and_a_name_of_its_own() {
        for (index, operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(*operation as usize, index);
        }
        let names: HashSet<&str> = Operation::ALL.iter().map(|each| each.name()).collect();
        assert_eq!(names.len(), Operation::ALL.len());
    }
}
