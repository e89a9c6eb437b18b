//! Records that no invariant is about: handed through like everything else.

use domain::access::{Award, Entry, Kind, Record};
use domain::alert::Alert;
use domain::audit::{self, Event, Hash, Seal};
use domain::id::{JobId, RunId, TenantId, UserId};
use domain::job::Job;
use domain::secret::SecretPlace;
use domain::tally::{EndedRun, Key};
use jiff::Timestamp;
use uuid::Uuid;

use store::{
    Alerts, AuditFilter, AuditLog, AuditedEvent, Chain, ChangeFeed, Channel, Cursor, Delivery,
    DeliveryKey, DeliveryView, EntryFilter, ExplainReads, Given, Identity, JobRecords, JobVersion,
    KeptSecret, LiveRun, Page, PrunedJobs, Reach, Recorded, Removed, Result, Rewrapped,
    SecretStore, SecretView, Set,
};

use super::FaultyStore;

impl<S: Alerts> Alerts for FaultyStore<S> {
    through! {
        raise(alerts: &[Alert]) -> ();
        undelivered(channel: &Channel, limit: u32) -> Vec<(Alert, u32)>;
        record_delivery(channel: &str, alert: Uuid, delivery: &Delivery) -> ();
        deliveries(channel: &str, before: Option<DeliveryKey>, limit: u32)
            -> Page<DeliveryView, DeliveryKey>;
        recovered() -> Vec<Alert>;
        raise_dead_letters() -> u64;
    }
}

impl<S: ChangeFeed> ChangeFeed for FaultyStore<S> {
    through! {
        ended(after: Cursor, until: Timestamp, limit: u32) -> Vec<EndedRun>;
        changed_jobs(after: Cursor, limit: u32) -> Vec<Job>;
        tally_cursor() -> Cursor;
        add_tallies(from: Cursor, to: Cursor, amounts: &[(Key, u64)]) -> bool;
        tallies(tenant: TenantId, jobs: &[JobId], since_hour: i64) -> Vec<(Key, u64)>;
        forget_tallies(before_hour: i64, limit: u32) -> u64;
    }
}

impl<S: JobRecords> JobRecords for FaultyStore<S> {
    through! {
        job_versions(job: JobId, before: Option<u32>, limit: u32) -> Page<JobVersion, u32>;
        job_version(job: JobId, version: u32) -> Option<JobVersion>;
        job_names(of: &[(JobId, u32)]) -> Vec<Option<String>>;
        jobs_ever(ids: &[JobId]) -> Vec<Job>;
        jobs_ever_named(tenant: TenantId, name: &str, limit: u32) -> Vec<Job>;
        deleted_jobs(tenant: TenantId, before: Option<JobId>, limit: u32) -> Vec<Job>;
        prune_deleted_jobs(after: Option<JobId>, limit: u32) -> PrunedJobs;
    }
}

impl<S: ExplainReads> ExplainReads for FaultyStore<S> {
    through! {
        live_run(run: RunId) -> Option<LiveRun>;
        job_events(job: JobId, limit: u32) -> Vec<AuditedEvent>;
        run_events(run: RunId, limit: u32) -> Vec<AuditedEvent>;
    }
}

impl<S: Identity> Identity for FaultyStore<S> {
    through! {
        generation() -> i64;
        entries(ids: &[Uuid]) -> Vec<Record>;
        entry_named(kind: Kind, tenant: TenantId, name: &str) -> Option<Record>;
        list_entries(filter: &EntryFilter, after: Option<&str>, limit: u32)
            -> Page<Record, String>;
        put_entry(entry: &Entry, expected: Option<u32>) -> Recorded;
        remove_entry(id: Uuid, expected: Option<u32>) -> Removed;
        award(award: &Award) -> Given;
        revoke(id: Uuid) -> bool;
        award_by_id(id: Uuid) -> Option<Award>;
        list_awards(tenant: TenantId, to: Option<Uuid>, after: Option<Uuid>, limit: u32)
            -> Page<Award, Uuid>;
        reach(id: Uuid) -> Reach;
        salt(offered: [u8; 32]) -> [u8; 32];
        forget_keys(limit: u32) -> u64;
    }
}

impl<S: AuditLog> AuditLog for FaultyStore<S> {
    through! {
        record(events: &[Event]) -> ();
        audit(filter: &AuditFilter, from: Option<i64>, limit: u32) -> Vec<audit::Record>;
        unsealed(limit: u32) -> Vec<audit::Record>;
        chain(tenant: TenantId) -> Chain;
        seal(tenant: TenantId, head: Seal, rows: &[(i64, Hash)]) -> bool;
        sealed(tenant: TenantId, after: u64, limit: u32) -> Vec<audit::Record>;
        audited_tenants() -> Vec<TenantId>;
        job_creators(jobs: &[JobId]) -> Vec<(JobId, UserId)>;
        prune_audit(tenant: TenantId, before: Timestamp, limit: u32) -> u64;
    }
}

impl<S: SecretStore> SecretStore for FaultyStore<S> {
    through! {
        keep_secret(secret: &KeptSecret) -> Set;
        remove_secret(place: &SecretPlace, expected: u32) -> Set;
        secrets(places: &[SecretPlace]) -> Vec<KeptSecret>;
        secret_view(place: &SecretPlace) -> Option<SecretView>;
        list_secrets(
            tenant: Option<TenantId>,
            after: Option<&(JobId, String)>,
            limit: u32
        ) -> Page<SecretView, (JobId, String)>;
        secret_keys() -> Vec<(String, u64)>;
        secrets_under(key: &str, after: Option<&SecretPlace>, limit: u32)
            -> Vec<KeptSecret>;
        rewrap(batch: &[Rewrapped]) -> u64;
    }
}
