//! The effective privileges of a user: of a client with a key, and of a job that runs.

use super::actor::{Actor, Refusal};
use super::entry::{ApiKey, QueueGrant, Tenant, User};
use super::privilege::{Privilege, Privileges};
use crate::action::Action;
use crate::id::TenantId;
use crate::job::{Definition, Job};

/// A user with all privileges that were granted directly or through roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectivePrivileges {
    /// The user.
    pub user: User,
    /// Their tenant.
    pub tenant: Tenant,
    /// The effective privileges in the tenant, including those that an administrator has
    /// implicitly.
    pub privileges: Privileges,
    /// The database roles that the user's jobs may use.
    pub run_as: Vec<String>,
    /// The databases that the user's jobs may use, by name.
    pub databases: Vec<String>,
    /// Rights to the messages of queues.
    pub queues: Vec<QueueGrant>,
}

/// The effective rights of a user, a role or a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Privileges, including those that an administrator has implicitly.
    pub privileges: Privileges,
    /// Database roles that jobs may use.
    pub run_as: Vec<String>,
    /// Databases that jobs may use, by name.
    pub databases: Vec<String>,
    /// Rights to the messages of queues.
    pub queues: Vec<QueueGrant>,
}

impl EffectivePrivileges {
    /// The privileges in a tenant. Only cluster administrators have privileges in other tenants.
    pub fn privileges_in(&self, tenant: TenantId) -> Privileges {
        let everywhere = self.privileges.has(Privilege::AdministerCluster);
        if everywhere || tenant == self.user.tenant { self.privileges } else { Privileges::NONE }
    }

    /// The actor of an authenticated user, with a key or another proof, in the user's own tenant.
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
            databases: self.databases.clone(),
            queues: self.queues.clone(),
            requests_per_second: self.tenant.requests_per_second,
        }
    }

    /// Why a job of the user may not run; none if it may. A job without a database uses the default
    /// one.
    pub fn obstacle(&self, job: &Job, default_database: Option<&str>) -> Option<String> {
        let name = &self.user.name;
        if self.user.disabled {
            return Some(format!("the job's owner {name} is disabled"));
        }
        let privileges = self.privileges_in(job.tenant);
        let needed = needed(&job.definition);
        if let Some(missing) = needed.iter().find(|privilege| !privileges.has(*privilege)) {
            return Some(format!("the job's owner {name} lacks the privilege {missing}"));
        }
        let is_home = self.user.tenant == job.tenant;
        let may_use = |database: &str| {
            privileges.has(Privilege::AdministerTenant)
                || is_home && self.databases.iter().any(|granted| granted == database)
        };
        let mut databases = databases_of(&job.definition, default_database).into_iter();
        if let Some(database) = databases.find(|database| !may_use(database)) {
            return Some(format!("the job's owner {name} has no grant to use database {database}"));
        }
        let role = job.definition.run_as.as_ref()?;
        let granted = is_home && self.run_as.contains(role);
        let may = granted || privileges.has(Privilege::AdministerCluster);
        (!may).then(|| format!("the job's owner {name} has no grant to run as {role}"))
    }
}

/// The privileges that the owner of a job needs for it to run.
fn needed(definition: &Definition) -> Privileges {
    privilege_of(&definition.action).into_iter().chain([Privilege::ExecuteJob]).collect()
}

/// The special privilege that an action needs. A backup contains the data of all tenants.
fn privilege_of(action: &Action) -> Option<Privilege> {
    match action {
        Action::External(_) => Some(Privilege::ExecuteExternalJob),
        Action::Backup(_) => Some(Privilege::AdministerCluster),
        Action::Artifact(_) => Some(Privilege::UseArtifact),
        Action::Noop
        | Action::Http(_)
        | Action::Sql(_)
        | Action::Procedure(_)
        | Action::Queue(_) => None,
    }
}

/// The databases of a job's runs, as far as the definition shows them: those of shards are known
/// when a run starts.
fn databases_of<'a>(definition: &'a Definition, default: Option<&'a str>) -> Vec<&'a str> {
    let of_action = |action: &'a Action| match action {
        Action::Sql(action) => action.database.as_deref().or(default),
        Action::Procedure(action) => action.database.as_deref().or(default),
        Action::Noop
        | Action::Http(_)
        | Action::External(_)
        | Action::Backup(_)
        | Action::Artifact(_)
        | Action::Queue(_) => None,
    };
    let own = of_action(&definition.action);
    let rows = definition.parameters.from.as_ref();
    let rows = rows.and_then(|rows| rows.database.as_deref().or(own).or(default));
    definition.actions().filter_map(of_action).chain(rows).collect()
}

impl Actor {
    /// Whether the user may run an action.
    pub fn may_do(&self, action: &Action) -> Result<(), Refusal> {
        match privilege_of(action) {
            Some(privilege) if !self.privileges.has(privilege) => Err(Refusal::Lacks(privilege)),
            _ => Ok(()),
        }
    }

    /// Whether the user may define this job. A job without a database uses the default one.
    pub fn may_define(
        &self,
        definition: &Definition,
        default_database: Option<&str>,
    ) -> Result<(), Refusal> {
        definition.actions().try_for_each(|action| self.may_do(action))?;
        let databases = databases_of(definition, default_database);
        if !databases.into_iter().all(|database| self.may_use(database)) {
            return Err(Refusal::Database);
        }
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
    use crate::action::{BackupAction, ExternalAction, SqlAction};
    use crate::fairness::Tier;
    use crate::id::{JobId, KeyId, UserId};
    use crate::job::JobState;
    use crate::partition::Rows;

    fn standing(privileges: &[Privilege]) -> EffectivePrivileges {
        let tenant = TenantId(Uuid::from_u128(70));
        EffectivePrivileges {
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
                external_jobs: false,
                job_defaults: Default::default(),
            },
            privileges: privileges.iter().copied().collect::<Privileges>().expanded(false),
            run_as: vec!["reporter".into()],
            databases: vec!["sales".into()],
            queues: Vec::new(),
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

    fn in_database(name: Option<&str>) -> Job {
        let mut job = job(70);
        let (sql, database) = ("SELECT 1".into(), name.map(str::to_owned));
        job.definition.action = Action::Sql(SqlAction { sql, database });
        job
    }

    fn by_rows_of(name: &str) -> Job {
        let mut job = job(70);
        let (sql, database) = ("SELECT 1".into(), Some(name.to_owned()));
        job.definition.parameters.from = Some(Rows { sql, database });
        job
    }

    fn backup() -> Job {
        let mut job = job(70);
        job.definition.action = Action::Backup(BackupAction {
            target: "nightly".into(),
            keep: None,
            outputs: true,
            artifacts: false,
        });
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

    fn artifact() -> Job {
        let mut job = job(70);
        let action = r#"{"type":"ARTIFACT","artifact_id":"a@1","entrypoint":"main:run"}"#;
        job.definition.action = serde_json::from_str(action).unwrap();
        job
    }

    #[test]
    fn a_job_runs_with_the_rights_of_its_owner() {
        use Privilege::*;
        let lacks = |name: &str| Some(format!("the job's owner ann lacks the privilege {name}"));
        let no_role =
            |role: &str| Some(format!("the job's owner ann has no grant to run as {role}"));
        let no_database =
            |name: &str| Some(format!("the job's owner ann has no grant to use database {name}"));
        for (privileges, job, expected) in [
            (&[ExecuteJob][..], job(70), None),
            (&[CreateJob, ViewJobHistory], job(70), lacks("EXECUTE JOB")),
            (&[ExecuteJob], job(71), lacks("EXECUTE JOB")),
            (&[AdministerTenant], job(71), lacks("EXECUTE JOB")),
            (&[AdministerCluster], job(71), None),
            (&[ExecuteJob], command(), lacks("EXECUTE EXTERNAL JOB")),
            (&[ExecuteJob, ExecuteExternalJob], command(), None),
            (&[AdministerTenant], command(), lacks("EXECUTE EXTERNAL JOB")),
            (&[ExecuteJob], artifact(), lacks("USE ARTIFACT")),
            (&[AdministerTenant], artifact(), lacks("USE ARTIFACT")),
            (&[ExecuteJob, UseArtifact], artifact(), None),
            (&[ExecuteJob], in_database(Some("sales")), None),
            (&[ExecuteJob], in_database(Some("accounts")), no_database("accounts")),
            (&[ExecuteJob], in_database(None), no_database("main")),
            (&[ExecuteJob], by_rows_of("accounts"), no_database("accounts")),
            (&[ExecuteJob], by_rows_of("sales"), None),
            (&[AdministerTenant], in_database(None), None),
            (&[AdministerTenant], backup(), lacks("ADMINISTER CLUSTER")),
            (&[AdministerCluster], backup(), None),
            (&[ExecuteJob], as_role("reporter"), None),
            (&[ExecuteJob], as_role("owner"), no_role("owner")),
            (&[AdministerTenant], as_role("owner"), no_role("owner")),
            (&[AdministerCluster], as_role("owner"), None),
        ] {
            assert_eq!(
                standing(privileges).obstacle(&job, Some("main")),
                expected,
                "{privileges:?}"
            );
        }
        let mut gone = standing(&[AdministerCluster]);
        gone.user.disabled = true;
        assert_eq!(gone.obstacle(&job(70), None), Some("the job's owner ann is disabled".into()));
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
            actor.may_define(&command().definition, None),
            Err(Refusal::Lacks(Privilege::ExecuteExternalJob))
        );
        assert_eq!(actor.may_define(&as_role("owner").definition, None), Err(Refusal::RunAs));
        assert_eq!(actor.may_define(&as_role("reporter").definition, None), Ok(()));
        let define = |job: Job| actor.may_define(&job.definition, Some("main"));
        assert_eq!(define(in_database(Some("sales"))), Ok(()));
        assert_eq!(define(in_database(None)), Err(Refusal::Database));
        assert_eq!(define(by_rows_of("accounts")), Err(Refusal::Database));
    }
}
