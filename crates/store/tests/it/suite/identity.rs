//! Identity: names are unique in their scope, changes name the version they are based on, and
//! dependent rows are removed with their owner.

use domain::access::{
    ApiKey, Award, Awarded, Entry, Kind, Privilege, Privileges, QueueGrant, QueueRight, Record,
    Role, Tenant, User, Verifier,
};
use domain::fairness::Tier;
use domain::id::{KeyId, ObjectId, RoleId, TenantId, UserId};
use domain::job::{Job, JobState};
use domain::object::{Object, ObjectKind};
use domain::run::Outcome;
use store::{
    AuditFilter, AuditLog, Change, Changed, ClaimRequest, EffectiveGrants, EntryFilter,
    GrantOutcome, Identity, NamedResources, Prepared, Put, Recorded, Removed, SYSTEM, Set, Store,
};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, ended, minutes, processes, want, want_soon};

fn change(job: &Job, expected: Option<u32>) -> Change {
    Change { job: job.clone(), expected, prepared: Prepared::Keep, plan: None, changed: Vec::new() }
}

async fn put<B: Bench>(lab: &Lab<B>, entry: &Entry) -> Record {
    match lab.store.put_entry(entry, None, lab.author()).await.unwrap() {
        Recorded::Done(record) => record,
        refused => panic!("{entry:?}: {refused:?}"),
    }
}

async fn tenant<B: Bench>(lab: &Lab<B>, name: &str) -> Tenant {
    let tenant = Tenant {
        id: TenantId(lab.id()),
        name: name.to_owned(),
        tier: Tier::Premium,
        max_jobs: None,
        max_concurrent: None,
        requests_per_second: None,
        external_jobs: false,
        job_defaults: Default::default(),
    };
    put(lab, &Entry::Tenant(tenant.clone())).await;
    tenant
}

fn user_of<B: Bench>(lab: &Lab<B>, tenant: TenantId, name: &str) -> User {
    let id = UserId(lab.id());
    User { id, tenant, name: name.to_owned(), password: None, scram: None, disabled: false }
}

async fn role<B: Bench>(lab: &Lab<B>, tenant: TenantId, name: &str) -> Role {
    let id = RoleId(lab.id());
    let role = Role { id, tenant, name: name.to_owned(), description: None, run_as: false };
    put(lab, &Entry::Role(role.clone())).await;
    role
}

fn key<B: Bench>(lab: &Lab<B>, user: &User) -> ApiKey {
    ApiKey {
        id: KeyId(lab.id()),
        tenant: user.tenant,
        user: user.id,
        label: "for a test".to_owned(),
        hash: [7; 32],
        scram: Some(Box::new(Verifier { iterations: 7, stored_key: [1; 32], server_key: [2; 32] })),
        scopes: Some([Privilege::ExecuteJob].into_iter().collect()),
        read_only: true,
        expires_at: None,
        session: false,
    }
}

pub async fn entries_are_read_as_they_were_written<B: Bench>(lab: &Lab<B>) {
    let before = lab.store.generation().await.unwrap();
    let tenant = tenant(lab, "acme").await;
    let user = user_of(lab, tenant.id, "Zo\u{eb} \u{2714}");
    let record = put(lab, &Entry::User(user.clone())).await;
    assert_eq!((record.version, &record.entry), (1, &Entry::User(user.clone())));
    assert!(record.created_at <= lab.now().await);
    let role = role(lab, tenant.id, "ops").await;
    let key = Entry::Key(key(lab, &user));
    put(lab, &key).await;
    let found = lab.store.entries(&[key.id(), lab.id(), role.id.0]).await.unwrap();
    let mut found: Vec<_> = found.into_iter().map(|record| record.entry).collect();
    found.sort_by_key(Entry::id);
    assert_eq!(found, [Entry::Role(role), key]);
    let named = lab.store.entry_named(Kind::User, tenant.id, &user.name).await.unwrap();
    assert_eq!(named, Some(record));
    assert_eq!(lab.store.entry_named(Kind::Role, tenant.id, &user.name).await.unwrap(), None);
    assert!(lab.store.generation().await.unwrap() > before);
}

pub async fn the_first_salt_stays<B: Bench>(lab: &Lab<B>) {
    let before = lab.store.generation().await.unwrap();
    let mut offers = tokio::task::JoinSet::new();
    for byte in 1..=8 {
        let store = std::sync::Arc::clone(&lab.store);
        offers.spawn(async move { store.salt([byte; 32]).await.unwrap() });
    }
    let kept = offers.join_all().await;
    assert!(kept.iter().all(|salt| *salt == kept[0]), "{kept:?}");
    assert!((1..=8).contains(&kept[0][0]));
    assert_eq!(lab.store.salt([9; 32]).await.unwrap(), kept[0]);
    assert_eq!(lab.store.generation().await.unwrap(), before, "nobody has changed");
}

pub async fn a_name_is_taken_once_in_a_tenant<B: Bench>(lab: &Lab<B>) {
    let (here, there) = (tenant(lab, "here").await, tenant(lab, "there").await);
    put(lab, &Entry::User(user_of(lab, here.id, "ann"))).await;
    put(lab, &Entry::User(user_of(lab, there.id, "ann"))).await;
    role(lab, here.id, "ann").await;
    let twin = Entry::User(user_of(lab, here.id, "ann"));
    assert_eq!(lab.store.put_entry(&twin, None, SYSTEM).await.unwrap(), Recorded::Taken);
    let mut bob = user_of(lab, here.id, "bob");
    put(lab, &Entry::User(bob.clone())).await;
    bob.name = "ann".to_owned();
    assert_eq!(
        lab.store.put_entry(&Entry::User(bob), Some(1), SYSTEM).await.unwrap(),
        Recorded::Taken
    );
    let nowhere = Entry::User(user_of(lab, TenantId(lab.id()), "cid"));
    assert_eq!(lab.store.put_entry(&nowhere, None, SYSTEM).await.unwrap(), Recorded::Conflict(0));
}

pub async fn a_change_of_an_entry_names_its_version<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let mut user = user_of(lab, tenant.id, "ann");
    let entry = |user: &User| Entry::User(user.clone());
    assert_eq!(
        lab.store.put_entry(&entry(&user), Some(1), SYSTEM).await.unwrap(),
        Recorded::Conflict(0)
    );
    put(lab, &entry(&user)).await;
    user.disabled = true;
    let Recorded::Done(changed) =
        lab.store.put_entry(&entry(&user), Some(1), SYSTEM).await.unwrap()
    else {
        panic!("it was refused");
    };
    assert_eq!((changed.version, changed.entry), (2, entry(&user)));
    assert_eq!(
        lab.store.put_entry(&entry(&user), Some(1), SYSTEM).await.unwrap(),
        Recorded::Conflict(2)
    );
    let remove =
        async |expected| lab.store.remove_entry(user.id.0, expected, SYSTEM).await.unwrap();
    assert_eq!(remove(Some(1)).await, Removed::Conflict(2));
    assert_eq!(remove(Some(2)).await, Removed::Done);
    assert_eq!(remove(None).await, Removed::Conflict(0));
}

pub async fn racing_changes_of_an_entry_win_once<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let user = user_of(lab, tenant.id, "ann");
    let entry = Entry::User(user.clone());
    put(lab, &entry).await;
    let handle = lab.bench.handle().await;
    for version in 1..5 {
        let (first, second) = tokio::join!(
            lab.store.put_entry(&entry, Some(version), SYSTEM),
            handle.put_entry(&entry, Some(version), SYSTEM)
        );
        let done = [first.unwrap(), second.unwrap()];
        let done = done.iter().filter(|put| matches!(put, Recorded::Done(_))).count();
        assert_eq!(done, 1);
    }
}

pub async fn entries_are_listed_by_name_in_pages<B: Bench>(lab: &Lab<B>) {
    let (here, there) = (tenant(lab, "here").await, tenant(lab, "there").await);
    for name in ["cid", "ann", "bob"] {
        put(lab, &Entry::User(user_of(lab, here.id, name))).await;
    }
    put(lab, &Entry::User(user_of(lab, there.id, "eve"))).await;
    let filter = EntryFilter { kind: Kind::User, tenant: here.id, owner: None };
    let page = lab.store.list_entries(&filter, None, 2).await.unwrap();
    let names = |records: &[Record]| -> Vec<String> {
        records.iter().map(|record| record.entry.name()).collect()
    };
    assert_eq!(names(&page.items), ["ann", "bob"]);
    let rest = lab.store.list_entries(&filter, page.next.as_deref(), 2).await.unwrap();
    assert_eq!((names(&rest.items), rest.next), (vec!["cid".to_owned()], None));
    let all = EntryFilter { kind: Kind::Tenant, tenant: TenantId(Uuid::nil()), owner: None };
    let tenants = lab.store.list_entries(&all, None, 9).await.unwrap();
    assert_eq!(names(&tenants.items), ["here", "there"]);
}

pub async fn what_belongs_to_a_user_goes_with_them<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let (ann, bob) = (user_of(lab, tenant.id, "ann"), user_of(lab, tenant.id, "bob"));
    for user in [&ann, &bob] {
        put(lab, &Entry::User(user.clone())).await;
        put(lab, &Entry::Key(key(lab, user))).await;
        let what = Awarded::Privilege(Privilege::CreateJob);
        let award = Award { tenant: tenant.id, to: user.id.0, what };
        assert_eq!(lab.store.award(&award, SYSTEM).await.unwrap(), GrantOutcome::Done);
    }
    assert_eq!(lab.store.remove_entry(tenant.id.0, None, SYSTEM).await.unwrap(), Removed::InUse);
    assert_eq!(lab.store.remove_entry(ann.id.0, None, SYSTEM).await.unwrap(), Removed::Done);
    let keys = EntryFilter { kind: Kind::Key, tenant: tenant.id, owner: None };
    let left = lab.store.list_entries(&keys, None, 9).await.unwrap().items;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].entry.owner(), Some(bob.id));
    let of_ann = EntryFilter { owner: Some(ann.id), ..keys };
    assert_eq!(lab.store.list_entries(&of_ann, None, 9).await.unwrap().items, []);
    assert_eq!(lab.store.reach(ann.id.0).await.unwrap(), EffectiveGrants::default());
    // No key can be made for a deleted user.
    let late = Entry::Key(key(lab, &ann));
    assert_eq!(lab.store.put_entry(&late, None, SYSTEM).await.unwrap(), Recorded::Conflict(0));
    lab.store.remove_entry(bob.id.0, None, SYSTEM).await.unwrap();
    assert_eq!(lab.store.remove_entry(tenant.id.0, None, SYSTEM).await.unwrap(), Removed::Done);
}

pub async fn rights_are_reached_by_way_of_roles<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let ann = user_of(lab, tenant.id, "ann");
    put(lab, &Entry::User(ann.clone())).await;
    let (ops, dev) = (role(lab, tenant.id, "ops").await, role(lab, tenant.id, "dev").await);
    let give = async |to: Uuid, what| {
        lab.store.award(&Award { tenant: tenant.id, to, what }, SYSTEM).await.unwrap()
    };
    assert_eq!(give(ops.id.0, Awarded::Privilege(Privilege::ExecuteJob)).await, GrantOutcome::Done);
    assert_eq!(give(dev.id.0, Awarded::Privilege(Privilege::CreateJob)).await, GrantOutcome::Done);
    assert_eq!(give(dev.id.0, Awarded::Role(ops.id)).await, GrantOutcome::Done);
    assert_eq!(give(ann.id.0, Awarded::Role(dev.id)).await, GrantOutcome::Done);
    assert_eq!(give(ops.id.0, Awarded::Database("sales".into())).await, GrantOutcome::Done);
    assert_eq!(give(ops.id.0, Awarded::Database("sales".into())).await, GrantOutcome::Known);
    assert_eq!(give(ann.id.0, Awarded::Role(dev.id)).await, GrantOutcome::Known);
    assert_eq!(give(ops.id.0, Awarded::Role(dev.id)).await, GrantOutcome::Cycle);
    assert_eq!(give(ops.id.0, Awarded::Role(ops.id)).await, GrantOutcome::Cycle);
    assert_eq!(give(lab.id(), Awarded::Role(ops.id)).await, GrantOutcome::Absent);
    assert_eq!(give(ann.id.0, Awarded::Role(RoleId(lab.id()))).await, GrantOutcome::Absent);
    let mut reach = lab.store.reach(ann.id.0).await.unwrap();
    reach.roles.sort();
    let privileges: Privileges =
        [Privilege::CreateJob, Privilege::ExecuteJob].into_iter().collect();
    let databases = vec!["sales".to_owned()];
    assert_eq!(
        reach,
        EffectiveGrants { privileges, roles: vec![ops.id, dev.id], databases, queues: vec![] }
    );
    let page = lab.store.list_awards(tenant.id, None, None, 3).await.unwrap();
    assert_eq!(page.items.len(), 3);
    let rest = lab.store.list_awards(tenant.id, None, page.next, 3).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (2, None));
    let own = lab.store.list_awards(tenant.id, Some(ann.id.0), None, 9).await.unwrap().items;
    assert_eq!(own.len(), 1);
    assert_eq!(lab.store.award_by_id(own[0].id()).await.unwrap(), Some(own[0].clone()));
    lab.store.remove_entry(dev.id.0, None, SYSTEM).await.unwrap();
    assert_eq!(lab.store.reach(ann.id.0).await.unwrap(), EffectiveGrants::default());
    let award =
        Award { tenant: tenant.id, to: ops.id.0, what: Awarded::Privilege(Privilege::ExecuteJob) };
    assert!(lab.store.revoke(award.id(), SYSTEM).await.unwrap());
    assert!(!lab.store.revoke(award.id(), SYSTEM).await.unwrap());
}

pub async fn rights_to_a_queue_go_with_it<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let ann = user_of(lab, tenant.id, "ann");
    put(lab, &Entry::User(ann.clone())).await;
    let mut mail = lab.draft("mail").await;
    mail.tenant = tenant.id;
    mail.definition.queue = Some(domain::queue::QueueSettings::default());
    let grant = |queue| {
        let what = Awarded::Queue(QueueGrant { right: QueueRight::Send, queue });
        Award { tenant: tenant.id, to: ann.id.0, what }
    };
    let award = grant(mail.id);
    assert_eq!(
        lab.store.award(&award, SYSTEM).await.unwrap(),
        GrantOutcome::Absent,
        "there is no queue yet"
    );
    lab.create(&mail).await;
    assert_eq!(lab.store.award(&award, SYSTEM).await.unwrap(), GrantOutcome::Done);
    assert_eq!(lab.store.award(&award, SYSTEM).await.unwrap(), GrantOutcome::Known);
    mail.name = "post".to_owned();
    lab.update(&mut mail, Prepared::Keep).await;
    let queues = vec![QueueGrant { right: QueueRight::Send, queue: mail.id }];
    assert_eq!(lab.store.reach(ann.id.0).await.unwrap().queues, queues);
    assert_eq!(lab.store.award_by_id(award.id()).await.unwrap(), Some(award.clone()));
    // Another queue that goes takes nothing with it.
    let mut other = lab.draft("other").await;
    other.tenant = tenant.id;
    lab.create(&other).await;
    other.state = JobState::Deleted;
    lab.update(&mut other, Prepared::Drop).await;
    assert_eq!(lab.store.reach(ann.id.0).await.unwrap().queues, queues);
    mail.state = JobState::Deleted;
    lab.update(&mut mail, Prepared::Drop).await;
    assert_eq!(lab.store.award_by_id(award.id()).await.unwrap(), None);
    assert_eq!(lab.store.reach(ann.id.0).await.unwrap(), EffectiveGrants::default());
    assert_eq!(
        lab.store.award(&award, SYSTEM).await.unwrap(),
        GrantOutcome::Absent,
        "nor any more"
    );
    let details = audited(lab, tenant.id).await;
    assert!(details.iter().any(|row| row.contains("SEND ON QUEUE mail")), "{details:?}");
}

/// The grants of a database name it: they end with it and when it gets another name, and other
/// grants stay.
pub async fn grants_of_a_database_go_with_its_name<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await.id;
    let user = user_of(lab, tenant, "ann");
    put(lab, &Entry::User(user.clone())).await;
    let now = lab.now().await;
    let database = async |name: &str| {
        let (id, kind, name) = (ObjectId(lab.id()), ObjectKind::Database, name.to_owned());
        let (created_at, changed_at) = (now, now);
        let body = "{}".to_owned();
        let new = Object { id, tenant, kind, name, body, version: 0, created_at, changed_at };
        match lab.store.put_object(&new, 0, SYSTEM).await.unwrap() {
            Put::Done(object) => object,
            refused => panic!("{refused:?}"),
        }
    };
    let grant = async |name: &str| {
        let award = Award { tenant, to: user.id.0, what: Awarded::Database(name.to_owned()) };
        assert_eq!(lab.store.award(&award, SYSTEM).await.unwrap(), GrantOutcome::Done, "{name}");
    };
    let used = async || {
        let mut used = lab.store.reach(user.id.0).await.unwrap().databases;
        used.sort_unstable();
        used
    };
    let sales = database("sales").await;
    database("accounts").await;
    grant("sales").await;
    grant("accounts").await;
    // A change that keeps the name keeps the grant, and so does one that is refused.
    let changed = Object { body: "{\"a\":1}".into(), ..sales.clone() };
    assert!(matches!(lab.store.put_object(&changed, 1, SYSTEM).await.unwrap(), Put::Done(_)));
    let renamed = Object { name: "shop".into(), ..changed };
    assert_eq!(lab.store.put_object(&renamed, 1, SYSTEM).await.unwrap(), Put::Conflict(2));
    assert_eq!(used().await, ["accounts", "sales"]);
    let generation = lab.store.generation().await.unwrap();
    assert!(matches!(lab.store.put_object(&renamed, 2, SYSTEM).await.unwrap(), Put::Done(_)));
    assert_eq!(used().await, ["accounts"]);
    assert_ne!(lab.store.generation().await.unwrap(), generation, "caches look again");
    grant("shop").await;
    let removed = lab.store.remove_object(tenant, sales.id, 3, SYSTEM).await.unwrap();
    assert_eq!(removed, Set::Done(0));
    database("shop").await;
    assert_eq!(used().await, ["accounts"]);
}

pub async fn racing_roles_never_contain_each_other<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let handle = lab.bench.handle().await;
    for round in 0..5 {
        let a = role(lab, tenant.id, &format!("a{round}")).await;
        let b = role(lab, tenant.id, &format!("b{round}")).await;
        let (one, other) = (
            Award { tenant: tenant.id, to: a.id.0, what: Awarded::Role(b.id) },
            Award { tenant: tenant.id, to: b.id.0, what: Awarded::Role(a.id) },
        );
        let (one, other) =
            tokio::join!(lab.store.award(&one, SYSTEM), handle.award(&other, SYSTEM));
        let mut given = [one.unwrap(), other.unwrap()];
        given.sort_by_key(|given| *given != GrantOutcome::Done);
        assert_eq!(given, [GrantOutcome::Done, GrantOutcome::Cycle]);
    }
}

pub async fn expired_keys_are_forgotten_after_a_day<B: Bench>(lab: &Lab<B>) {
    let tenant = tenant(lab, "acme").await;
    let ann = user_of(lab, tenant.id, "ann");
    put(lab, &Entry::User(ann.clone())).await;
    let now = lab.now().await;
    for age in [minutes(25 * 60), minutes(23 * 60), minutes(-5)] {
        let key = ApiKey { expires_at: Some(now - age), ..key(lab, &ann) };
        put(lab, &Entry::Key(key)).await;
    }
    put(lab, &Entry::Key(key(lab, &ann))).await;
    assert_eq!(lab.store.forget_keys(9).await.unwrap(), 1);
    assert_eq!(lab.store.forget_keys(9).await.unwrap(), 0);
}

/// Audit rows of a tenant as text, oldest first.
async fn audited<B: Bench>(lab: &Lab<B>, tenant: TenantId) -> Vec<String> {
    let mut rows = lab.store.audit(&AuditFilter::of(tenant), None, 100).await.unwrap();
    rows.reverse();
    let say = |event: domain::audit::Event| {
        let domain::audit::Event { actor, kind, outcome, details, .. } = event;
        format!("{actor} {kind} {outcome} {details}")
    };
    rows.into_iter().map(|row| say(row.event)).collect()
}

pub async fn changes_of_identity_are_recorded_with_them<B: Bench>(lab: &Lab<B>) {
    lab.set_author("root");
    let mut tenant = tenant(lab, "acme").await;
    tenant.max_jobs = Some(7);
    lab.store.put_entry(&Entry::Tenant(tenant.clone()), Some(1), "root").await.unwrap();
    let mut ann = user_of(lab, tenant.id, "ann");
    ann.password = Some("$argon2id$canary".to_owned());
    put(lab, &Entry::User(ann.clone())).await;
    ann.disabled = true;
    lab.store.put_entry(&Entry::User(ann.clone()), Some(1), "root").await.unwrap();
    let ops = role(lab, tenant.id, "ops").await;
    let awards =
        [(ann.id.0, Awarded::Role(ops.id)), (ops.id.0, Awarded::Privilege(Privilege::CreateJob))]
            .map(|(to, what)| Award { tenant: tenant.id, to, what });
    for award in &awards {
        assert_eq!(lab.store.award(award, "root").await.unwrap(), GrantOutcome::Done);
    }
    assert!(lab.store.revoke(awards[1].id(), "root").await.unwrap());
    let long = key(lab, &ann);
    let session = ApiKey { session: true, label: "login".to_owned(), ..key(lab, &ann) };
    put(lab, &Entry::Key(long.clone())).await;
    put(lab, &Entry::Key(session.clone())).await;
    // A change that was refused, or changed nothing, leaves no row.
    assert_eq!(lab.store.award(&awards[0], "root").await.unwrap(), GrantOutcome::Known);
    assert!(!lab.store.revoke(awards[1].id(), "root").await.unwrap());
    let twin = Entry::User(user_of(lab, tenant.id, "ann"));
    assert_eq!(lab.store.put_entry(&twin, None, "root").await.unwrap(), Recorded::Taken);
    let stale = lab.store.put_entry(&Entry::User(ann.clone()), Some(1), "root").await.unwrap();
    assert_eq!(stale, Recorded::Conflict(2));
    let stale = lab.store.remove_entry(ann.id.0, Some(1), "root").await.unwrap();
    assert_eq!(stale, Removed::Conflict(2));
    assert_eq!(lab.store.remove_entry(tenant.id.0, None, "root").await.unwrap(), Removed::InUse);
    // The other key and the role go with her and it.
    for id in [long.id.0, ann.id.0, ops.id.0, tenant.id.0] {
        assert_eq!(lab.store.remove_entry(id, None, "root").await.unwrap(), Removed::Done);
    }
    let (acme, long, session) = (tenant.id, long.id.text(), session.id.text());
    let limits = |jobs: &str| {
        let rest = r#""requests_per_second":null,"tier":"PREMIUM""#;
        format!(r#"{{"external_jobs":false,"max_concurrent":null,"max_jobs":{jobs},{rest}}}"#)
    };
    let of_tenant = |jobs: &str, version: u32| {
        let state = limits(jobs);
        format!(r#"root TENANT_CHANGED DONE {{"name":"acme","state":{state},"version":{version}}}"#)
    };
    let of_key = |kind: &str, label: &str, id: &str| {
        let state = format!(
            r#"{{"expires_at":null,"label":"{label}","read_only":true,"scopes":["EXECUTE JOB"]}}"#
        );
        format!(r#"root {kind} DONE {{"name":"{id}","state":{state},"user":"ann","version":1}}"#)
    };
    let of_user = |disabled: bool, version: u32| {
        let state = format!(r#"{{"disabled":{disabled},"has_password":true}}"#);
        format!(r#"root USER_CHANGED DONE {{"name":"ann","state":{state},"version":{version}}}"#)
    };
    let expected = [
        of_tenant("null", 1),
        of_tenant("7", 2),
        of_user(false, 1),
        of_user(true, 2),
        r#"root ROLE_CHANGED DONE {"name":"ops","state":{"run_as":false},"version":1}"#.to_owned(),
        r#"root GRANT_CHANGED DONE {"role":"ops","to_user":"ann"}"#.to_owned(),
        r#"root GRANT_CHANGED DONE {"privilege":"CREATE JOB","to_role":"ops"}"#.to_owned(),
        r#"root GRANT_CHANGED DELETED {"privilege":"CREATE JOB","to_role":"ops"}"#.to_owned(),
        of_key("KEY_CHANGED", "for a test", &long),
        of_key("LOGIN", "login", &session),
        format!(r#"root KEY_CHANGED DELETED {{"name":"{long}","user":"ann","version":0}}"#),
        r#"root USER_CHANGED DELETED {"name":"ann","version":0}"#.to_owned(),
        r#"root ROLE_CHANGED DELETED {"name":"ops","version":0}"#.to_owned(),
    ];
    assert_eq!(audited(lab, acme).await, expected);
    let gone = r#"root TENANT_CHANGED DELETED {"name":"acme","version":0}"#.to_owned();
    let expected = [of_tenant("null", 1), of_tenant("7", 2), gone];
    assert_eq!(audited(lab, TenantId::CLUSTER).await, expected);
}

pub async fn a_tenant_has_no_more_jobs_than_it_may<B: Bench>(lab: &Lab<B>) {
    let mut tenant = tenant(lab, "acme").await;
    tenant.max_jobs = Some(2);
    lab.store.put_entry(&Entry::Tenant(tenant.clone()), Some(1), SYSTEM).await.unwrap();
    let mut jobs = Vec::new();
    for n in 0..3 {
        let mut job = lab.draft(&format!("job {n}")).await;
        job.tenant = tenant.id;
        jobs.push(job);
    }
    let changes: Vec<_> = jobs.iter().map(|job| change(job, None)).collect();
    let changed = lab.store.define(&changes, SYSTEM).await.unwrap();
    assert_eq!(changed, [Changed::Done, Changed::Done, Changed::TooMany]);
    let more = [change(&jobs[2], None)];
    assert_eq!(lab.store.define_together(&more, SYSTEM).await.unwrap(), [Changed::TooMany]);
    assert_eq!(lab.store.define(&changes[2..], SYSTEM).await.unwrap(), [Changed::TooMany]);
    // Another tenant is not counted, and a change makes no job.
    lab.job("elsewhere").await;
    let mut renamed = jobs[0].clone();
    (renamed.name, renamed.version) = ("renamed".to_owned(), 2);
    assert_eq!(
        lab.store.define(&[change(&renamed, Some(1))], SYSTEM).await.unwrap(),
        [Changed::Done]
    );
    tenant.max_jobs = None;
    lab.store.put_entry(&Entry::Tenant(tenant), Some(2), SYSTEM).await.unwrap();
    assert_eq!(lab.store.define(&changes[2..], SYSTEM).await.unwrap(), [Changed::Done]);
}

pub async fn racing_creations_keep_a_tenants_quota<B: Bench>(lab: &Lab<B>) {
    let mut tenant = tenant(lab, "acme").await;
    tenant.max_jobs = Some(3);
    lab.store.put_entry(&Entry::Tenant(tenant.clone()), Some(1), SYSTEM).await.unwrap();
    let handle = lab.bench.handle().await;
    let mut done = 0;
    for round in 0..4 {
        let (mut a, mut b) =
            (lab.draft(&format!("a{round}")).await, lab.draft(&format!("b{round}")).await);
        (a.tenant, b.tenant) = (tenant.id, tenant.id);
        let (a, b) = ([change(&a, None)], [change(&b, None)]);
        let (a, b) = tokio::join!(lab.store.define(&a, SYSTEM), handle.define(&b, SYSTEM));
        done += [a.unwrap(), b.unwrap()].iter().filter(|it| it[0] == Changed::Done).count();
    }
    assert_eq!(done, 3);
}

pub async fn a_tenant_has_no_more_runs_at_work_than_it_may<B: Bench>(lab: &Lab<B>) {
    let mut acme = tenant(lab, "acme").await;
    acme.max_concurrent = Some(2);
    lab.store.put_entry(&Entry::Tenant(acme.clone()), Some(1), SYSTEM).await.unwrap();
    let (node, now) = (lab.node().await, lab.now().await);
    let mut job = lab.draft("job").await;
    job.tenant = acme.id;
    lab.create(&job).await;
    let runs: Vec<_> = (0..4).map(|n| lab.run(&job, now - minutes(60 - n))).collect();
    // Not even the node that submits a run gets it at once.
    let claim = Some(store::ClaimFor { node, max: processes(9) });
    assert_eq!(lab.store.submit(&runs, claim).await.unwrap().claimed, []);
    lab.submit(&[lab.run(&job, now + minutes(1))]).await;
    let held = lab.claim(node, want(9)).await;
    assert_eq!(held.len(), 2);
    assert_eq!(lab.claim(node, want(9)).await, []);
    assert_eq!(lab.claim(node, want_soon(9)).await, []);
    let done = [ended(node, &held[0], Outcome::Completed)];
    let exchanged = lab
        .store
        .complete_and_claim(
            node,
            &done,
            ClaimRequest { due: processes(9), ..ClaimRequest::default() },
        )
        .await
        .unwrap();
    assert_eq!(exchanged.claimed.len(), 1);
}

pub async fn a_job_remembers_its_owner<B: Bench>(lab: &Lab<B>) {
    let mut job = lab.draft("job").await;
    job.owner = UserId(lab.id());
    lab.create(&job).await;
    let mut changed = job.clone();
    changed.version = 2;
    lab.store.define(&[change(&changed, Some(1))], SYSTEM).await.unwrap();
    let found = lab.store.jobs_by_id(&[job.id]).await.unwrap();
    assert_eq!(found[0].owner, job.owner);
}
