//! Privileges and sets of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Privilege {
    /// Create jobs.
    CreateJob,
    /// Change own jobs.
    AlterJob,
    /// Delete own jobs.
    DropJob,
    /// Have jobs run, and start and cancel runs of the tenant's jobs.
    ExecuteJob,
    /// See the runs of every job of the tenant.
    ViewJobHistory,
    /// Have commands run.
    ExecuteExternalJob,
    /// Push versions of artifacts.
    PushArtifact,
    /// Have artifacts run, and download them.
    UseArtifact,
    /// Delete versions of artifacts.
    DeleteArtifact,
    /// Everything within a tenant, including grants.
    AdministerTenant,
    /// Everything in every tenant.
    AdministerCluster,
}

/// An unknown privilege.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of {list}", list = Privileges::ALL)]
pub struct UnknownPrivilege(pub String);

impl Privilege {
    /// Every privilege.
    pub const ALL: [Privilege; 11] = [
        Privilege::CreateJob,
        Privilege::AlterJob,
        Privilege::DropJob,
        Privilege::ExecuteJob,
        Privilege::ViewJobHistory,
        Privilege::ExecuteExternalJob,
        Privilege::PushArtifact,
        Privilege::UseArtifact,
        Privilege::DeleteArtifact,
        Privilege::AdministerTenant,
        Privilege::AdministerCluster,
    ];

    /// The name in every interface.
    pub fn name(self) -> &'static str {
        match self {
            Privilege::CreateJob => "CREATE JOB",
            Privilege::AlterJob => "ALTER JOB",
            Privilege::DropJob => "DROP JOB",
            Privilege::ExecuteJob => "EXECUTE JOB",
            Privilege::ViewJobHistory => "VIEW JOB HISTORY",
            Privilege::ExecuteExternalJob => "EXECUTE EXTERNAL JOB",
            Privilege::PushArtifact => "PUSH ARTIFACT",
            Privilege::UseArtifact => "USE ARTIFACT",
            Privilege::DeleteArtifact => "DELETE ARTIFACT",
            Privilege::AdministerTenant => "ADMINISTER TENANT",
            Privilege::AdministerCluster => "ADMINISTER CLUSTER",
        }
    }

    /// A description for the documentation.
    pub fn describe(self) -> &'static str {
        match self {
            Privilege::CreateJob => "make jobs",
            Privilege::AlterJob => "change, pause and resume jobs of one's own",
            Privilege::DropJob => "remove jobs of one's own",
            Privilege::ExecuteJob => {
                "have jobs run; see, trigger and backfill every job of the tenant; see, cancel and \
                 retry the runs that one asked for"
            }
            Privilege::ViewJobHistory => "see every job of the tenant and its runs",
            Privilege::ExecuteExternalJob => "define, trigger and have run jobs that are commands",
            Privilege::PushArtifact => "push versions of artifacts",
            Privilege::UseArtifact => {
                "define, trigger and have run jobs that run artifacts; download artifacts"
            }
            Privilege::DeleteArtifact => "delete versions of artifacts that no job uses",
            Privilege::AdministerTenant => {
                "everything above but `EXECUTE EXTERNAL JOB` and `USE ARTIFACT` for every job of \
                 the tenant; users, roles, grants and keys"
            }
            Privilege::AdministerCluster => "everything in every tenant; tenants and settings",
        }
    }
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Privilege {
    type Err = UnknownPrivilege;

    /// Parses a name, in any case; an underscore or a hyphen is a space.
    fn from_str(text: &str) -> Result<Self, UnknownPrivilege> {
        let name = text.replace(['_', '-'], " ").to_ascii_uppercase();
        let found = Privilege::ALL.into_iter().find(|privilege| privilege.name() == name);
        found.ok_or_else(|| UnknownPrivilege(text.to_owned()))
    }
}

impl Serialize for Privilege {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Privilege {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Privileges(u16);

impl Privileges {
    /// None of them.
    pub const NONE: Privileges = Privileges(0);
    /// All of them.
    pub const ALL: Privileges = Privileges((1 << Privilege::ALL.len()) - 1);

    /// Whether the set contains a privilege.
    pub fn has(self, privilege: Privilege) -> bool {
        self.0 & bit(privilege) != 0
    }

    /// Whether the set contains all of the others.
    pub fn cover(self, others: Privileges) -> bool {
        self.0 & others.0 == others.0
    }

    /// The intersection.
    pub fn within(self, others: Privileges) -> Privileges {
        Privileges(self.0 & others.0)
    }

    /// Adds the implicit privileges of administrators. Commands and artifacts run on machines that
    /// tenants share, so a tenant administrator has the privileges for them only if the cluster
    /// allows it for the tenant (`external_jobs`).
    pub fn expanded(self, external_jobs: bool) -> Privileges {
        if self.has(Privilege::AdministerCluster) {
            Privileges::ALL
        } else if self.has(Privilege::AdministerTenant) {
            let mut implied = Privileges::ALL.0 & !bit(Privilege::AdministerCluster);
            if !external_jobs {
                implied &= !bit(Privilege::ExecuteExternalJob) & !bit(Privilege::UseArtifact);
            }
            Privileges(self.0 | implied)
        } else {
            self
        }
    }

    /// The privileges of the set.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |privilege| self.has(*privilege))
    }
}

fn bit(privilege: Privilege) -> u16 {
    1 << privilege as u8
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Self {
        Privileges(privileges.into_iter().fold(0, |set, privilege| set | bit(privilege)))
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Privilege::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl Serialize for Privileges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Privileges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Privilege>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        for privilege in Privilege::ALL {
            let name = privilege.name();
            for text in [name.to_owned(), name.to_lowercase().replace(' ', "-")] {
                assert_eq!(text.parse(), Ok(privilege));
            }
        }
        let error = "FLY".parse::<Privilege>().unwrap_err().to_string();
        assert!(error.starts_with("\"FLY\" is not one of CREATE JOB, ALTER JOB"), "{error}");
    }

    #[test]
    fn administrators_have_what_they_can_give() {
        let of = |list: &[Privilege], external_jobs| {
            list.iter().copied().collect::<Privileges>().expanded(external_jobs)
        };
        assert_eq!(of(&[Privilege::AdministerCluster], false), Privileges::ALL);
        let tenant = of(&[Privilege::AdministerTenant], false);
        assert!(!tenant.has(Privilege::AdministerCluster));
        assert!(!tenant.has(Privilege::ExecuteExternalJob), "the cluster did not allow it");
        assert!(!tenant.has(Privilege::UseArtifact), "the cluster did not allow it");
        assert_eq!(tenant.iter().count(), 8);
        assert_eq!(of(&[Privilege::AdministerTenant], true).iter().count(), 10);
        let given = of(&[Privilege::AdministerTenant, Privilege::ExecuteExternalJob], false);
        assert_eq!(given.iter().count(), 9, "what was given counts");
        let one = of(&[Privilege::DropJob], true);
        assert_eq!(one.iter().collect::<Vec<_>>(), [Privilege::DropJob]);
        assert!(tenant.cover(one) && !one.cover(tenant));
    }

    #[test]
    fn the_documented_table_is_the_one_in_force() {
        let mut table = String::from("| privilege | allows to |\n|---|---|\n");
        for privilege in Privilege::ALL {
            table.push_str(&format!("| `{privilege}` | {} |\n", privilege.describe()));
        }
        let page = include_str!("../../../../docs/security.md");
        assert!(page.contains(&table), "docs/security.md must contain:\n\n{table}");
    }
}
