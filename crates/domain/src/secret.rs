//! Secrets: names, scopes, and the associated data of an encrypted value.

use std::fmt;

use crate::id::{JobId, ObjectId, TenantId};

/// The longest name.
pub const NAME_BYTES_MAX: usize = 100;

/// The minimum length of a value: a shorter one could not be masked in outputs.
pub const VALUE_BYTES_MIN: usize = 4;

/// The longest value.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// The scope of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Every job.
    Cluster,
    /// Every job of a tenant.
    Tenant(TenantId),
    /// One job of a tenant.
    Job(TenantId, JobId),
    /// A database or an alert channel of a tenant; no job can refer to it.
    Object(TenantId, ObjectId),
}

/// The prefix of the names of resources' secrets. Users cannot choose or refer to such a name.
const OF_OBJECT: char = ':';

impl Scope {
    /// The scopes that are visible to a job, the most specific first: it hides the others.
    pub fn seen_by(tenant: TenantId, job: JobId) -> [Scope; 3] {
        [Scope::Job(tenant, job), Scope::Tenant(tenant), Scope::Cluster]
    }

    /// The scope as two ids, zero if there is none.
    pub fn ids(self) -> (TenantId, JobId) {
        match self {
            Scope::Cluster => (TenantId::CLUSTER, JobId::NONE),
            Scope::Tenant(tenant) => (tenant, JobId::NONE),
            Scope::Job(tenant, job) => (tenant, job),
            Scope::Object(tenant, object) => (tenant, JobId(object.0)),
        }
    }

    /// The job of the scope, if it is a job.
    pub fn job(self) -> Option<JobId> {
        match self {
            Scope::Job(_, job) => Some(job),
            Scope::Cluster | Scope::Tenant(_) | Scope::Object(..) => None,
        }
    }

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Cluster => "cluster",
            Scope::Tenant(_) => "tenant",
            Scope::Job(..) => "job",
            Scope::Object(..) => "object",
        }
    }
}

/// The scope and the name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretPlace {
    /// The scope.
    pub scope: Scope,
    /// Its name, as in `${secrets.NAME}`.
    pub name: String,
}

impl SecretPlace {
    /// The place of a secret of a resource. Each new value gets a new name, which is part of the
    /// body of the resource: so a resource and its secrets change together.
    pub fn of_object(tenant: TenantId, object: ObjectId, part: &str) -> Self {
        SecretPlace { scope: Scope::Object(tenant, object), name: format!("{OF_OBJECT}{part}") }
    }

    /// The place with two ids, zero if there is none, and a name.
    pub fn of_ids(tenant: TenantId, job: JobId, name: String) -> Self {
        let scope = match (tenant, job) {
            (tenant, job) if name.starts_with(OF_OBJECT) => Scope::Object(tenant, ObjectId(job.0)),
            (TenantId::CLUSTER, _) => Scope::Cluster,
            (tenant, JobId::NONE) => Scope::Tenant(tenant),
            (tenant, job) => Scope::Job(tenant, job),
        };
        SecretPlace { scope, name }
    }

    /// The associated data of an encrypted value: a value that is moved to another scope, name or
    /// version cannot be decrypted there.
    pub fn binding(&self, version: u32) -> Vec<u8> {
        let (tenant, job) = self.scope.ids();
        let mut bytes = b"punctual secret 1".to_vec();
        bytes.extend_from_slice(tenant.0.as_bytes());
        bytes.extend_from_slice(job.0.as_bytes());
        bytes.extend_from_slice(&version.to_be_bytes());
        // The name comes last, so it cannot be confused with another part.
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the {}", self.name, self.scope.name())
    }
}

/// The problem with a name and the correct form; none if it is valid.
pub fn problem_of_name(name: &str) -> Option<String> {
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(harmless) {
        return None;
    }
    Some(format!("has 1 to {NAME_BYTES_MAX} letters, digits, dots, dashes, underscores"))
}

/// The problem with a value and the correct form; none if it is valid.
pub fn problem_of_value(value: &str) -> Option<String> {
    let bytes = value.len();
    if (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&bytes) {
        return None;
    }
    let why = "one that is shorter cannot be kept out of outputs";
    Some(format!("has {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} bytes, not {bytes}; {why}"))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_place_is_its_ids_and_its_name() {
        let (tenant, job) = (TenantId::DEFAULT, JobId(Uuid::from_u128(7)));
        let places =
            Scope::seen_by(tenant, job)
                .map(|scope| SecretPlace { scope, name: "A".to_owned() })
                .into_iter()
                .chain([TenantId::CLUSTER, tenant].map(|tenant| {
                    SecretPlace::of_object(tenant, ObjectId(Uuid::from_u128(7)), "A")
                }));
        for place in places {
            let (tenant, job) = place.scope.ids();
            assert_eq!(SecretPlace::of_ids(tenant, job, place.name.clone()), place);
            assert_eq!(problem_of_name(&place.name).is_some(), place.scope.name() == "object");
        }
    }

    #[test]
    fn a_binding_is_that_of_one_place_and_version() {
        let (tenant, job) = (TenantId::DEFAULT, JobId(Uuid::from_u128(7)));
        let place = |scope, name: &str| SecretPlace { scope, name: name.to_owned() };
        let mut seen = std::collections::BTreeSet::new();
        for scope in Scope::seen_by(tenant, job) {
            for name in ["A", "B", "AB"] {
                for version in [1, 2, 65_536] {
                    assert!(seen.insert(place(scope, name).binding(version)), "{scope:?} {name}");
                }
            }
        }
    }

    #[test]
    fn names_and_values_have_limits() {
        for (name, good) in [
            ("API_TOKEN", true),
            ("a.b-c", true),
            ("", false),
            ("a b", false),
            ("ä", false),
            ("a}", false),
            (&"x".repeat(NAME_BYTES_MAX), true),
            (&"x".repeat(NAME_BYTES_MAX + 1), false),
        ] {
            assert_eq!(problem_of_name(name).is_none(), good, "{name:?}");
        }
        for (bytes, good) in [(3, false), (4, true), (VALUE_BYTES_MAX, true)] {
            assert_eq!(problem_of_value(&"x".repeat(bytes)).is_none(), good, "{bytes}");
        }
        assert!(problem_of_value(&"x".repeat(VALUE_BYTES_MAX + 1)).is_some());
    }
}
