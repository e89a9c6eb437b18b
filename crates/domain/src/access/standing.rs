//! What a user has, and what that is worth: to whoever shows a key, and to a job that runs.

use super::actor::{Actor, Refusal};
use super::entry::{ApiKey, Tenant, User};
use super::privilege::{Privilege, Privileges};
use crate::action::Action;
use crate::id::TenantId;
use crate::job::{Definition, Job};

/// A user with all that they were given, directly or by way of roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The user.
    pub user: User,
    /// Their tenant.
    pub tenant: Tenant,
    /// What they may do there; what an administrator has anyway is included.
    pub privileges: Privileges,
    /// The database roles that jobs of theirs may act as.
    pub run_as: Vec<String>,
}

impl Standing {
    /// What they may do in a tenant. Only administrators of the cluster leave their own.
    pub fn privileges_in(&self, tenant: TenantId) -> Privileges {
        let everywhere = self.privileges.has(Privilege::AdministerCluster);
        if everywhere || tenant == self.user.tenant { self.privileges } else { Privileges::NONE }
    }

    /// The user at the door, with a key or after another proof; in their own tenant.
    pub fn actor(&self, key: Option<&ApiKey>) -> Actor {
        let scopes = key.and_then(|key| key.scopes).unwrap_or(Privileges::ALL);
        Actor {
            user: self.user.id,
            name: self.user.name.clone(),
            tenant: self.user.tenant,
            key: key.map(|key| key.id),
            until: None,
            privileges: self.privileges.within(scopes),
            read_only: key.is_some_and(|key| key.read_only),
            run_as: self.run_as.clone(),
            requests_per_second: self.tenant.requests_per_second,
        }
    }

    /// Why a job of theirs may not run, in words; none when it may.
    pub fn obstacle(&self, job: &Job) -> Option<String> {
        let name = &self.user.name;
        if self.user.disabled {
            return Some(format!("the job's owner {name} is disabled"));
        }
        let privileges = self.privileges_in(job.tenant);
        let needed = needed(&job.definition);
        if let Some(missing) = needed.iter().find(|privilege| !privileges.has(*privilege)) {
            return Some(format!("the job's owner {name} lacks the privilege {missing}"));
        }
        let role = job.definition.run_as.as_ref()?;
        let granted = self.user.tenant == job.tenant && self.run_as.contains(role);
        let may = granted || privileges.has(Privilege::AdministerCluster);
        (!may).then(|| format!("the job's owner {name} has no grant to run as {role}"))
    }
}

/// What the owner of a job needs for it to run.
fn needed(definition: &Definition) -> Privileges {
    privilege_of(&definition.action).into_iter().chain([Privilege::ExecuteJob]).collect()
}

/// What an action needs that not every job may do. A backup holds what all tenants have.
fn privilege_of(action: &Action) -> Option<Privilege> {
    match action {
        Action::External(_) => Some(Privilege::ExecuteExternalJob),
        Action::Backup(_) => Some(Privilege::AdministerCluster),
        Action::Noop | Action::Http(_) | Action::Sql(_) | Action::Procedure(_) => None,
    }
}

impl Actor {
    /// Whether they may have an action carried out.
    pub fn may_do(&self, action: &Action) -> Result<(), Refusal> {
        match privilege_of(action) {
            Some(privilege) if !self.privileges.has(privilege) => Err(Refusal::Lacks(privilege)),
            _ => Ok(()),
        }
    }

    /// Whether they may make a job what a definition says.
    pub fn may_define(&self, definition: &Definition) -> Result<(), Refusal> {
        self.may_do(&definition.action)?;
        match &definition.run_as {
            Some(role) if !self.may_run_as(role) => Err(Refusal::RunAs),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::action::{BackupAction, ExternalAction};
    use crate::fairness::Tier;
    use crate::id::{JobId, KeyId, UserId};
    use crate::job::JobState;

    fn standing(privileges: &[Privilege]) -> Standing {
        let tenant = TenantId(Uuid::from_u128(70));
        Standing {
            user: User {
                id: UserId(Uuid::from_u128(7)),
                tenant,
                name: "ann".into(),
                password: None,
                scram: None,
                disabled: false,
            },
            tenant: Tenant {
                id: tenant,
                name: "acme".into(),
                tier: Tier::default(),
                max_jobs: None,
                max_concurrent: None,
                requests_per_second: None,
            },
            privileges: privileges.iter().copied().collect::<Privileges>().expanded(),
            run_as: vec!["reporter".into()],
        }
    }

    fn job(tenant: u128) -> Job {
        Job {
            id: JobId(Uuid::from_u128(1)),
            tenant: TenantId(Uuid::from_u128(tenant)),
            owner: UserId(Uuid::from_u128(7)),
            name: "job".into(),
            version: 1,
            state: JobState::Enabled,
            definition: Definition::default(),
            next_run: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }
    }

    fn as_role(role: &str) -> Job {
        let mut job = job(70);
        job.definition.run_as = Some(role.into());
        job
    }

    fn backup() -> Job {
        let mut job = job(70);
        job.definition.action =
            Action::Backup(BackupAction { target: "nightly".into(), keep: None, outputs: true });
        job
    }

    fn command() -> Job {
        let mut job = job(70);
        job.definition.action = Action::External(ExternalAction {
            command: "/bin/true".into(),
            arguments: Vec::new(),
            environment: Default::default(),
        });
        job
    }

    #[test]
    fn a_job_runs_with_the_rights_of_its_owner() {
        use Privilege::*;
        let lacks = |name: &str| Some(format!("the job's owner ann lacks the privilege {name}"));
        let no_role =
            |role: &str| Some(format!("the job's owner ann has no grant to run as {role}"));
        for (privileges, job, expected) in [
            (&[ExecuteJob][..], job(70), None),
            (&[CreateJob, ViewJobHistory], job(70), lacks("EXECUTE JOB")),
            (&[ExecuteJob], job(71), lacks("EXECUTE JOB")),
            (&[AdministerTenant], job(71), lacks("EXECUTE JOB")),
            (&[AdministerCluster], job(71), None),
            (&[ExecuteJob], command(), lacks("EXECUTE EXTERNAL JOB")),
            (&[ExecuteJob, ExecuteExternalJob], command(), None),
            (&[AdministerTenant], backup(), lacks("ADMINISTER CLUSTER")),
            (&[AdministerCluster], backup(), None),
            (&[ExecuteJob], as_role("reporter"), None),
            (&[ExecuteJob], as_role("owner"), no_role("owner")),
            (&[AdministerTenant], as_role("owner"), no_role("owner")),
            (&[AdministerCluster], as_role("owner"), None),
        ] {
            assert_eq!(standing(privileges).obstacle(&job), expected, "{privileges:?}");
        }
        let mut gone = standing(&[AdministerCluster]);
        gone.user.disabled = true;
        assert_eq!(gone.obstacle(&job(70)), Some("the job's owner ann is disabled".into()));
    }

    #[test]
    fn a_key_gives_no_more_than_its_scopes() {
        let key = ApiKey {
            id: KeyId(Uuid::from_u128(9)),
            tenant: TenantId(Uuid::from_u128(70)),
            user: UserId(Uuid::from_u128(7)),
            label: String::new(),
            hash: [0; 32],
            scram: None,
            scopes: Some([Privilege::ExecuteJob, Privilege::DropJob].into_iter().collect()),
            read_only: false,
            expires_at: None,
            session: false,
        };
        let actor = standing(&[Privilege::AdministerCluster]).actor(Some(&key));
        assert_eq!(actor.privileges.to_string(), "DROP JOB, EXECUTE JOB");
        let actor = standing(&[Privilege::CreateJob]).actor(Some(&key));
        assert_eq!(actor.privileges, Privileges::NONE);
        assert_eq!(
            actor.may_define(&command().definition),
            Err(Refusal::Lacks(Privilege::ExecuteExternalJob))
        );
        assert_eq!(actor.may_define(&as_role("owner").definition), Err(Refusal::RunAs));
        assert_eq!(actor.may_define(&as_role("reporter").definition), Ok(()));
    }
}
