//! Ids: UUIDs, one type for each kind of object.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map($name)
            }
        }
    };
}

id! {
    /// A job.
    JobId
}
id! {
    /// A tenant.
    TenantId
}
id! {
    /// A user.
    UserId
}
id! {
    /// A role.
    RoleId
}
id! {
    /// An API key; its text contains the lower half.
    KeyId
}
id! {
    /// A run: one occurrence of a job.
    RunId
}
id! {
    /// An attempt of a run.
    AttemptId
}
id! {
    /// A process of the cluster, from its start to its end.
    NodeId
}
id! {
    /// A named resource: a database, an alert channel and others.
    ObjectId
}
id! {
    /// A request for a change, the same when it is sent again.
    CommandId
}

impl JobId {
    /// No job, for objects of a tenant or a node.
    pub const NONE: JobId = JobId(Uuid::nil());
}

impl TenantId {
    /// No tenant, for objects of the cluster.
    pub const CLUSTER: TenantId = TenantId(Uuid::nil());

    /// The tenant that exists from the first start.
    pub const DEFAULT: TenantId = TenantId(Uuid::from_u128(1));
}

impl UserId {
    /// The user that exists from the first start, and the owner of objects from before there were
    /// owners.
    pub const ADMIN: UserId = UserId(Uuid::from_u128(2));
}

impl KeyId {
    /// The id in the text of a key.
    pub fn of_text(text: &str) -> Option<Self> {
        let lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let well_formed = text.len() == 16 && text.bytes().all(lower);
        let number = well_formed.then(|| u64::from_str_radix(text, 16).ok())?;
        number.map(|number| KeyId(Uuid::from_u128(u128::from(number))))
    }

    /// The part of the id that the text of the key contains.
    pub fn text(self) -> String {
        format!("{:016x}", self.0.as_u128() as u64)
    }
}

impl RunId {
    /// The id of the run of a tick: the same job, scheduled time and shard give the same id, so the
    /// primary key prevents a second record of a tick.
    ///
    /// It begins with the scheduled time, so the ids of one job sort by time. Its version is 8,
    /// that of a requested run 7: a client that chooses an id cannot take that of a tick.
    pub fn of_tick(job: JobId, scheduled_for: Timestamp, shard: &str) -> Self {
        let mut name = scheduled_for.as_microsecond().to_be_bytes().to_vec();
        name.extend_from_slice(shard.as_bytes());
        let hash = Uuid::new_v5(&job.0, &name);
        RunId(timed(8, scheduled_for, hash.as_u128()))
    }

    /// A run without a schedule. `random` must not repeat. Runs of one millisecond sort by their
    /// time as well, so that runs that are requested together are neighbours in every index.
    pub fn of_request(scheduled_for: Timestamp, random: u128) -> Self {
        let in_ms = scheduled_for.as_nanosecond().rem_euclid(1_000_000) as u128;
        let fraction = (in_ms << 12) / 1_000_000;
        RunId(timed(7, scheduled_for, fraction << 62 | random & LOW))
    }

    /// The run of a trigger with an id of the client's choice: the same job and name give the same
    /// id. The chosen id is never the id of a run, so that no answer reveals whether another tenant
    /// has a run with that id. The time of the chosen id stays.
    pub fn of_chosen(job: JobId, chosen: Uuid) -> Self {
        let hash = Uuid::new_v5(&job.0, chosen.as_bytes());
        RunId(timed(7, RunId(chosen).time(), hash.as_u128()))
    }

    /// Where the runs of a millisecond begin: no tick or request of it is before this id.
    pub fn first_of(at: Timestamp) -> Self {
        RunId(timed(7, at, 0))
    }

    /// Where the requests of a millisecond end.
    pub fn last_of(at: Timestamp) -> Self {
        RunId(timed(7, at, u128::MAX))
    }

    /// A child run of a split run: the same run, row and shard give the same id. Its version is 5,
    /// so that a child run is recognized by its id alone.
    pub fn of_part(run: RunId, row: u64, shard: &str) -> Self {
        let mut name = row.to_be_bytes().to_vec();
        name.extend_from_slice(shard.as_bytes());
        RunId(timed(5, run.time(), Uuid::new_v5(&run.0, &name).as_u128()))
    }

    /// The run of another job, or the message, that a step of a DAG run waits for: the same step
    /// and item give the same id. Its version is 6: its end is reported to the DAG run.
    pub fn of_call(dag_run: RunId, step: u32, item: Option<u32>, at: Timestamp) -> Self {
        let mut name = step.to_be_bytes().to_vec();
        name.extend(item.unwrap_or(u32::MAX).to_be_bytes());
        RunId(timed(6, at, Uuid::new_v5(&dag_run.0, &name).as_u128()))
    }

    /// Whether a step of a DAG run waits for it.
    pub fn is_called(self) -> bool {
        self.0.get_version_num() == 6
    }

    /// Whether it is the run of a tick.
    pub fn is_tick(self) -> bool {
        self.0.get_version_num() == 8
    }

    /// Whether it is a child run.
    pub fn is_part(self) -> bool {
        self.0.get_version_num() == 5
    }

    /// The time inside the id, to the millisecond.
    pub fn time(self) -> Timestamp {
        let ms = self.0.as_u128() >> 80;
        Timestamp::from_millisecond(ms as i64).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// The bits of a UUID after its variant.
const LOW: u128 = 0x3fff_ffff_ffff_ffff;

/// A UUID with a time and 74 bits.
fn timed(version: u128, at: Timestamp, bits: u128) -> Uuid {
    let ms = at.as_millisecond().max(0) as u128 & 0xffff_ffff_ffff;
    let high = bits >> 62 & 0xfff;
    let low = bits & LOW;
    Uuid::from_u128(ms << 80 | version << 76 | high << 64 | 2 << 62 | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_has_one_id_that_sorts_by_time() {
        let job = JobId(Uuid::from_u128(42));
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let id = RunId::of_tick(job, at(1_800_000_000), "");
        assert_eq!(id, RunId::of_tick(job, at(1_800_000_000), ""));
        assert_eq!(id.to_string(), "01a3185c-5000-8922-a380-df8657358dd5");
        assert_eq!(id.time(), at(1_800_000_000));
        assert_eq!(id.0.get_version_num(), 8);
        assert_ne!(id, RunId::of_tick(job, at(1_800_000_000), "shard_001"));
        assert_ne!(id, RunId::of_tick(JobId(Uuid::from_u128(43)), at(1_800_000_000), ""));
        assert!(id < RunId::of_tick(job, at(1_800_000_001), ""));
    }

    #[test]
    fn a_chosen_id_is_another_run_of_each_job() {
        let job = |n| JobId(Uuid::from_u128(n));
        let chosen: Uuid = "01a3185c-5000-7922-a380-df8657358dd5".parse().unwrap();
        let id = RunId::of_chosen(job(1), chosen);
        assert_eq!(id, RunId::of_chosen(job(1), chosen));
        assert_ne!(id, RunId(chosen), "the client does not choose the id of the run");
        assert_ne!(id, RunId::of_chosen(job(2), chosen));
        assert_ne!(id, RunId::of_chosen(job(1), id.0));
        assert_eq!(id.time(), RunId(chosen).time());
        assert_eq!(id.0.get_version_num(), 7);
    }

    #[test]
    fn what_is_asked_for_has_an_id_that_sorts_by_time_and_is_its_own() {
        let at =
            |nanos: i128| Timestamp::from_nanosecond(1_800_000_000_000_000_000 + nanos).unwrap();
        let id = |nanos, random| RunId::of_request(at(nanos), random);
        assert_eq!(id(0, 42).0.get_version_num(), 7);
        assert_eq!(id(0, 42).to_string(), "01a3185c-5000-7000-8000-00000000002a");
        assert_eq!(id(999_999, u128::MAX).to_string(), "01a3185c-5000-7fff-bfff-ffffffffffff");
        assert_eq!(id(999_999, 0).time(), at(0), "to the millisecond");
        assert_ne!(id(5, 1), id(5, 2));
        for (nanos, later) in [(0, 1_000), (1_000, 2_000), (998_000, 999_000), (999_999, 1_000_000)]
        {
            assert!(id(nanos, u128::MAX) < id(later, 0), "{nanos} is before {later}");
        }
        assert!(RunId::first_of(at(999_999)) <= id(0, 0));
        assert!(RunId::last_of(at(0)) >= id(999_999, u128::MAX));
        let before = Timestamp::from_nanosecond(-1).unwrap();
        assert_eq!(RunId::of_request(before, 0).0.get_version_num(), 7);
    }
}
