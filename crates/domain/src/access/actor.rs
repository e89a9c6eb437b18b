//! The authenticated client, and authorization decisions.

use jiff::Timestamp;

use super::entry::{QueueGrant, QueueRight};
use super::privilege::{Privilege, Privileges};
use super::standing::Rights;
use crate::id::{JobId, KeyId, TenantId, UserId};

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user.
    pub user: UserId,
    /// The name of the user.
    pub name: String,
    /// The tenant in which the user acts.
    pub tenant: TenantId,
    /// The key of the request; none for the key of the data folder, a token or a password.
    pub key: Option<KeyId>,
    /// When the token of the request expires.
    pub until: Option<Timestamp>,
    /// The effective privileges in this tenant, with this key.
    pub privileges: Privileges,
    /// Whether the key can only read.
    pub read_only: bool,
    /// The database roles that the user's jobs may use.
    pub run_as: Vec<String>,
    /// The databases that the user's jobs may use, by name.
    pub databases: Vec<String>,
    /// Rights to the messages of queues.
    pub queues: Vec<QueueGrant>,
    /// The rate limit in requests per second; that of the settings if absent.
    pub requests_per_second: Option<u32>,
}

/// An operation. An operation on a job names its owner, who is known only if the actor and the job
/// are in the same tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Create a job.
    CreateJob,
    /// Read a job.
    SeeJob(UserId),
    /// Change, pause or resume a job.
    AlterJob(UserId),
    /// Delete a job.
    DropJob(UserId),
    /// Start or stop runs of a job.
    ExecuteJob(UserId),
    /// See the runs of a job.
    SeeRuns(UserId),
    /// See the runs of a job that is gone, or of all jobs of the tenant together.
    SeeAllRuns,
    /// See a run that this user asked for, of whichever job.
    SeeRunRequestedBy(UserId),
    /// See the artifacts of the tenant.
    SeeArtifacts,
    /// Push a version of an artifact.
    PushArtifact,
    /// Download a version of an artifact.
    UseArtifact,
    /// Delete a version of an artifact.
    DeleteArtifact,
    /// See the nodes of the cluster.
    SeeNodes,
    /// Read the users, roles, grants, keys, databases and alert channels of the tenant.
    SeeAccess,
    /// Change them.
    ChangeAccess,
    /// Read the tenants and the settings of the cluster.
    SeeCluster,
    /// Change them.
    ChangeCluster,
}

impl Deed {
    fn changes(self) -> bool {
        match self {
            Deed::CreateJob
            | Deed::AlterJob(_)
            | Deed::DropJob(_)
            | Deed::ExecuteJob(_)
            | Deed::PushArtifact
            | Deed::DeleteArtifact
            | Deed::ChangeAccess
            | Deed::ChangeCluster => true,
            Deed::SeeJob(_)
            | Deed::SeeRuns(_)
            | Deed::SeeAllRuns
            | Deed::SeeRunRequestedBy(_)
            | Deed::SeeArtifacts
            | Deed::UseArtifact
            | Deed::SeeNodes
            | Deed::SeeAccess
            | Deed::SeeCluster => false,
        }
    }
}

/// Why an operation is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object is invisible to the actor, as if it did not exist.
    #[error("it does not exist")]
    Absent,
    /// A privilege is missing.
    #[error("this needs the privilege {0}")]
    Lacks(Privilege),
    /// Another user owns the object.
    #[error("only its owner and administrators of the tenant may do this")]
    NotOwner,
    /// The key can only read.
    #[error("the key is read-only")]
    ReadOnly,
    /// The actor would grant or revoke more than it has.
    #[error("this concerns rights that you do not have")]
    BeyondOwn,
    /// The actor may not use this database role.
    #[error("RUN AS needs a grant of the role")]
    RunAs,
    /// The actor's jobs may not use this database.
    #[error("the database of the job needs a grant: GRANT USE ON DATABASE name TO user")]
    Database,
    /// The actor has no right to the messages of this queue.
    #[error("this needs a grant: GRANT {name} ON QUEUE name TO user", name = .0.name())]
    Queue(QueueRight),
}

/// Whether an actor may perform an operation: the one decision for every interface.
pub fn may(actor: &Actor, deed: Deed) -> Result<(), Refusal> {
    let has = |privilege| actor.privileges.has(privilege);
    let needs = |privilege| if has(privilege) { Ok(()) } else { Err(Refusal::Lacks(privilege)) };
    let owns = |owner: UserId| owner == actor.user;
    let is_admin = has(Privilege::AdministerTenant);
    let sees_job =
        |owner| owns(owner) || has(Privilege::ViewJobHistory) || has(Privilege::ExecuteJob);
    // An invisible object does not exist for the actor, whatever else is missing.
    let visible = match deed {
        Deed::SeeJob(owner)
        | Deed::AlterJob(owner)
        | Deed::DropJob(owner)
        | Deed::ExecuteJob(owner)
        | Deed::SeeRuns(owner) => sees_job(owner),
        _ => true,
    };
    if !visible {
        return Err(Refusal::Absent);
    }
    if actor.read_only && deed.changes() {
        return Err(Refusal::ReadOnly);
    }
    let own = |owner, privilege| match owns(owner) {
        _ if is_admin => Ok(()),
        true => needs(privilege),
        false => Err(Refusal::NotOwner),
    };
    match deed {
        Deed::SeeJob(_) => Ok(()),
        Deed::SeeRuns(owner) if owns(owner) => Ok(()),
        Deed::SeeRuns(_) | Deed::SeeAllRuns => needs(Privilege::ViewJobHistory),
        Deed::SeeRunRequestedBy(user) if user == actor.user && has(Privilege::ExecuteJob) => Ok(()),
        Deed::SeeRunRequestedBy(_) => needs(Privilege::ViewJobHistory),
        Deed::CreateJob => needs(Privilege::CreateJob),
        Deed::AlterJob(owner) => own(owner, Privilege::AlterJob),
        Deed::DropJob(owner) => own(owner, Privilege::DropJob),
        Deed::ExecuteJob(_) => needs(Privilege::ExecuteJob),
        Deed::SeeArtifacts if has(Privilege::PushArtifact) || has(Privilege::DeleteArtifact) => {
            Ok(())
        }
        Deed::SeeArtifacts | Deed::UseArtifact => needs(Privilege::UseArtifact),
        Deed::PushArtifact => needs(Privilege::PushArtifact),
        Deed::DeleteArtifact => needs(Privilege::DeleteArtifact),
        Deed::SeeNodes | Deed::SeeAccess | Deed::ChangeAccess => needs(Privilege::AdministerTenant),
        Deed::SeeCluster | Deed::ChangeCluster => needs(Privilege::AdministerCluster),
    }
}

impl Actor {
    /// The server itself, for internal operations.
    pub fn admin() -> Self {
        Actor {
            user: UserId::ADMIN,
            name: "admin".to_owned(),
            tenant: TenantId::DEFAULT,
            key: None,
            until: None,
            privileges: Privileges::ALL,
            read_only: false,
            run_as: Vec::new(),
            databases: Vec::new(),
            queues: Vec::new(),
            requests_per_second: None,
        }
    }

    /// Whether the user's jobs may use a database role.
    pub fn may_run_as(&self, role: &str) -> bool {
        self.privileges.has(Privilege::AdministerCluster)
            || self.run_as.iter().any(|granted| granted == role)
    }

    /// Whether the user's jobs may use a database of the tenant.
    pub fn may_use(&self, database: &str) -> bool {
        self.privileges.has(Privilege::AdministerTenant)
            || self.databases.iter().any(|granted| granted == database)
    }

    /// Whether the actor has a right to the messages of a queue that it does not own: by a grant for
    /// this queue, or by `EXECUTE JOB`, which holds for all jobs and queues of the tenant.
    pub fn has_queue_right(&self, right: QueueRight, queue: JobId) -> bool {
        self.privileges.has(Privilege::ExecuteJob)
            || self.queues.iter().any(|grant| grant.right == right && grant.queue == queue)
    }

    /// Whether the actor sees a queue: as its owner, by a privilege, or by any right to its messages.
    pub fn sees_queue(&self, queue: JobId, owner: UserId) -> bool {
        may(self, Deed::SeeJob(owner)).is_ok()
            || QueueRight::ALL.into_iter().any(|right| self.has_queue_right(right, queue))
    }

    /// Whether the actor may use the messages of a queue.
    pub fn may_use_queue(
        &self,
        right: QueueRight,
        queue: JobId,
        owner: UserId,
    ) -> Result<(), Refusal> {
        if !self.sees_queue(queue, owner) {
            return Err(Refusal::Absent);
        }
        if self.read_only {
            return Err(Refusal::ReadOnly);
        }
        if owner == self.user || self.has_queue_right(right, queue) {
            return Ok(());
        }
        Err(Refusal::Queue(right))
    }

    /// Whether the actor has all of these rights: a user grants or revokes only rights that they
    /// have.
    pub fn covers(&self, rights: &Rights) -> bool {
        self.privileges.cover(rights.privileges)
            && rights.run_as.iter().all(|role| self.may_run_as(role))
            && rights.databases.iter().all(|database| self.may_use(database))
            && rights.queues.iter().all(|grant| self.has_queue_right(grant.right, grant.queue))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ME: UserId = UserId(Uuid::from_u128(7));
    const OTHER: UserId = UserId(Uuid::from_u128(8));

    fn actor(privileges: &[Privilege]) -> Actor {
        Actor {
            user: ME,
            privileges: privileges.iter().copied().collect::<Privileges>().expanded(true),
            ..Actor::admin()
        }
    }

    /// One letter for each result: yes, absent, lacks a privilege, not the owner, read-only.
    fn letter(actor: &Actor, deed: Deed) -> char {
        match may(actor, deed) {
            Ok(()) => 'y',
            Err(Refusal::Absent) => '-',
            Err(Refusal::Lacks(_)) => 'l',
            Err(Refusal::NotOwner) => 'o',
            Err(Refusal::ReadOnly) => 'r',
            Err(refusal) => panic!("{refusal}"),
        }
    }

    #[test]
    fn every_deed_of_every_kind_of_actor() {
        use Privilege::*;
        let owned = |owner| {
            [
                Deed::SeeJob(owner),
                Deed::AlterJob(owner),
                Deed::DropJob(owner),
                Deed::ExecuteJob(owner),
                Deed::SeeRuns(owner),
            ]
        };
        let general = [
            Deed::SeeRunRequestedBy(ME),
            Deed::SeeRunRequestedBy(OTHER),
            Deed::CreateJob,
            Deed::SeeAllRuns,
            Deed::SeeNodes,
            Deed::SeeAccess,
            Deed::ChangeAccess,
            Deed::SeeCluster,
            Deed::ChangeCluster,
            Deed::SeeArtifacts,
            Deed::PushArtifact,
            Deed::UseArtifact,
            Deed::DeleteArtifact,
        ];
        // Actor; one's own job and another's (see, alter, drop, execute, see runs); runs that they and
        // others asked for; create, all runs, nodes, access twice, cluster twice; see, push, use
        // and delete artifacts.
        for (name, privileges, expected) in [
            ("nothing", &[][..], "ylll y ----- ll lllllll llll"),
            ("creator", &[CreateJob], "ylll y ----- ll yllllll llll"),
            ("alter", &[AlterJob], "yyll y ----- ll lllllll llll"),
            ("drop", &[DropJob], "ylyl y ----- ll lllllll llll"),
            ("executor", &[ExecuteJob], "ylly y yooyl yl lllllll llll"),
            ("viewer", &[ViewJobHistory], "ylll y yooly yy lylllll llll"),
            ("external", &[ExecuteExternalJob], "ylll y ----- ll lllllll llll"),
            ("pusher", &[PushArtifact], "ylll y ----- ll lllllll yyll"),
            ("user", &[UseArtifact], "ylll y ----- ll lllllll ylyl"),
            ("deleter", &[DeleteArtifact], "ylll y ----- ll lllllll ylly"),
            ("tenant", &[AdministerTenant], "yyyy y yyyyy yy yyyyyll yyyy"),
            ("cluster", &[AdministerCluster], "yyyy y yyyyy yy yyyyyyy yyyy"),
        ] {
            let expected: String = expected.replace(' ', "");
            let actor = actor(privileges);
            let deeds = owned(ME).into_iter().chain(owned(OTHER)).chain(general);
            let letters: String = deeds.map(|deed| letter(&actor, deed)).collect();
            assert_eq!(letters, expected, "{name}");
        }
    }

    #[test]
    fn a_read_only_key_sees_what_it_may_and_changes_nothing() {
        let actor = Actor { read_only: true, ..actor(&[Privilege::AdministerCluster]) };
        for deed in [Deed::SeeJob(OTHER), Deed::SeeRuns(OTHER), Deed::SeeCluster, Deed::UseArtifact]
        {
            assert_eq!(may(&actor, deed), Ok(()), "{deed:?}");
        }
        for deed in [Deed::CreateJob, Deed::AlterJob(ME), Deed::ExecuteJob(ME), Deed::ChangeAccess]
        {
            assert_eq!(may(&actor, deed), Err(Refusal::ReadOnly), "{deed:?}");
        }
    }

    #[test]
    fn a_queue_is_used_by_its_owner_by_grant_or_by_privilege() {
        use QueueRight::{Consume, Send};
        let [mail, post] = [1, 2].map(|number| JobId(Uuid::from_u128(number)));
        let grant = |right| vec![QueueGrant { right, queue: mail }];
        for (name, privileges, queues, owner, queue, expected) in [
            ("nothing", &[][..], vec![], OTHER, mail, [Err('-'), Err('-')]),
            ("owner", &[], vec![], ME, mail, [Ok(()), Ok(())]),
            ("sender", &[], grant(Send), OTHER, mail, [Ok(()), Err('q')]),
            ("worker", &[], grant(Consume), OTHER, mail, [Err('q'), Ok(())]),
            ("of another queue", &[], grant(Send), OTHER, post, [Err('-'), Err('-')]),
            ("viewer", &[Privilege::ViewJobHistory], vec![], OTHER, mail, [Err('q'), Err('q')]),
            ("executor", &[Privilege::ExecuteJob], vec![], OTHER, mail, [Ok(()), Ok(())]),
        ] {
            let actor = Actor { queues, ..actor(privileges) };
            let letter = |refusal| match refusal {
                Refusal::Absent => '-',
                Refusal::Queue(_) => 'q',
                other => panic!("{other}"),
            };
            let answers = [Send, Consume]
                .map(|right| actor.may_use_queue(right, queue, owner).map_err(letter));
            assert_eq!(answers, expected, "{name}");
            let reader = Actor { read_only: true, ..actor };
            for right in [Send, Consume] {
                assert!(reader.may_use_queue(right, queue, owner).is_err(), "{name}");
            }
        }
    }

    #[test]
    fn only_members_and_the_cluster_run_as_a_role() {
        use Privilege::*;
        let rights = Rights {
            run_as: vec!["reporter".into()],
            databases: vec!["sales".into()],
            ..Rights::default()
        };
        for (privileges, run_as, databases, covers) in [
            (&[AdministerTenant][..], &[][..], &[][..], false),
            (&[AdministerTenant], &["reporter"], &[], true),
            (&[AdministerCluster], &[], &[], true),
            (&[CreateJob], &["reporter"], &[], false),
            (&[CreateJob], &["reporter"], &["sales"], true),
        ] {
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let (run_as, databases) = (names(run_as), names(databases));
            let actor = Actor { run_as, databases, ..actor(privileges) };
            assert_eq!(actor.covers(&rights), covers, "{actor:?}");
        }
        let member = Actor { run_as: vec!["reporter".into()], ..actor(&[]) };
        assert!(member.may_run_as("reporter") && !member.may_run_as("owner"));
        assert!(!actor(&[Privilege::AdministerTenant]).may_run_as("reporter"));
        assert!(actor(&[Privilege::AdministerCluster]).may_run_as("reporter"));
    }
}
