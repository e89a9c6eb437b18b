//! Named resources: a name is unique by kind and tenant, and a change names the version it is based
//! on.

use domain::id::{ObjectId, TenantId};
use domain::object::{Object, ObjectKind};
use store::{NamedResources, Put, SYSTEM, Set};
use uuid::Uuid;

use crate::bench::Bench;
use crate::lab::{Lab, tenant};

const KIND: ObjectKind = ObjectKind::Database;

async fn object<B: Bench>(lab: &Lab<B>, id: u128, name: &str) -> Object {
    let now = lab.now().await;
    Object {
        id: ObjectId(Uuid::from_u128(id)),
        tenant: TenantId::DEFAULT,
        kind: KIND,
        name: name.to_owned(),
        body: "{}".to_owned(),
        version: 0,
        created_at: now,
        changed_at: now,
    }
}

async fn made<B: Bench>(lab: &Lab<B>, object: &Object) -> Object {
    match lab.store.put_object(object, 0, SYSTEM).await.unwrap() {
        Put::Done(object) => object,
        other => panic!("{other:?}"),
    }
}

pub async fn an_object_changes_for_who_has_seen_it<B: Bench>(lab: &Lab<B>) {
    let put = async |object: &Object, expected| {
        lab.store.put_object(object, expected, SYSTEM).await.unwrap()
    };
    let draft = object(lab, 1, "sales").await;
    assert_eq!(put(&draft, 1).await, Put::Conflict(0));
    let first = made(lab, &draft).await;
    assert_eq!(first.version, 1);
    assert_eq!(first.created_at, first.changed_at);
    assert_eq!(put(&draft, 0).await, Put::Conflict(1));
    let change = Object { body: "{\"\u{2714}\":1}".into(), ..first.clone() };
    assert_eq!(put(&change, 2).await, Put::Conflict(1));
    let Put::Done(second) = put(&change, 1).await else { panic!("the change is lost") };
    assert_eq!((second.version, &second.body), (2, &change.body));
    assert_eq!(second.created_at, first.created_at);
    assert_eq!(put(&change, 1).await, Put::Conflict(2));
    assert_eq!(lab.store.object(first.id).await.unwrap(), Some(second.clone()));
    let remove = async |expected| {
        lab.store.remove_object(TenantId::DEFAULT, first.id, expected, SYSTEM).await.unwrap()
    };
    assert_eq!(remove(1).await, Set::Conflict(2));
    assert_eq!(remove(2).await, Set::Done(0));
    assert_eq!(remove(2).await, Set::Conflict(0));
    assert_eq!(lab.store.object(first.id).await.unwrap(), None);
    assert_eq!(put(&change, 2).await, Put::Conflict(0));
}

pub async fn a_name_is_one_of_a_kind<B: Bench>(lab: &Lab<B>) {
    let sales = made(lab, &object(lab, 1, "sales").await).await;
    let other = made(lab, &object(lab, 2, "other").await).await;
    let again = object(lab, 3, "sales").await;
    assert_eq!(lab.store.put_object(&again, 0, SYSTEM).await.unwrap(), Put::NameTaken);
    let renamed = Object { name: "sales".into(), ..other.clone() };
    assert_eq!(lab.store.put_object(&renamed, 1, SYSTEM).await.unwrap(), Put::NameTaken);
    // The same name for another kind, or another tenant.
    made(lab, &Object { kind: ObjectKind::AlertChannel, ..again.clone() }).await;
    let elsewhere = Object { id: ObjectId(Uuid::from_u128(4)), tenant: tenant(9), ..again };
    let elsewhere = made(lab, &elsewhere).await;
    let named = async |tenant, name: &str| {
        lab.store.object_by_name(tenant, KIND, name).await.unwrap().map(|object| object.id)
    };
    assert_eq!(named(TenantId::DEFAULT, "sales").await, Some(sales.id));
    assert_eq!(named(tenant(9), "sales").await, Some(elsewhere.id));
    assert_eq!(named(TenantId::DEFAULT, "Sales").await, None);
    // No tenant changes or removes an object of another one.
    let stolen = Object { tenant: TenantId::DEFAULT, name: "mine".into(), ..elsewhere.clone() };
    assert_eq!(lab.store.put_object(&stolen, 1, SYSTEM).await.unwrap(), Put::Conflict(0));
    let removed =
        lab.store.remove_object(TenantId::DEFAULT, elsewhere.id, 1, SYSTEM).await.unwrap();
    assert_eq!(removed, Set::Conflict(0));
    // A name that is given up is free.
    let moved = Object { name: "old".into(), ..sales };
    assert!(matches!(lab.store.put_object(&moved, 1, SYSTEM).await.unwrap(), Put::Done(_)));
    assert!(matches!(lab.store.put_object(&renamed, 1, SYSTEM).await.unwrap(), Put::Done(_)));
    assert_eq!(named(TenantId::DEFAULT, "sales").await, Some(other.id));
}

pub async fn objects_are_listed_in_pages<B: Bench>(lab: &Lab<B>) {
    for (id, name) in [(5, "b"), (4, "a"), (3, "d"), (2, "c"), (1, "B")] {
        made(lab, &object(lab, id, name).await).await;
    }
    let foreign = Object { tenant: tenant(9), ..object(lab, 6, "bb").await };
    made(lab, &foreign).await;
    let channel = Object { kind: ObjectKind::AlertChannel, ..object(lab, 7, "bb").await };
    made(lab, &channel).await;
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page =
            lab.store.list_objects(TenantId::DEFAULT, KIND, after.as_deref(), 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.into_iter().map(|object| object.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ["B", "a", "b", "c", "d"]);
    let of_kind = async |after: Option<u128>, limit| {
        let after = after.map(|id| ObjectId(Uuid::from_u128(id)));
        let found = lab.store.objects_of_kind(KIND, after, limit).await.unwrap();
        found.iter().map(|object| object.id.0.as_u128()).collect::<Vec<_>>()
    };
    assert_eq!(of_kind(None, 4).await, [1, 2, 3, 4]);
    assert_eq!(of_kind(Some(4), 4).await, [5, 6]);
}

pub async fn racing_objects_share_no_name<B: Bench>(lab: &Lab<B>) {
    let handle = lab.bench.handle().await;
    for round in 0..5 {
        let name = format!("name {round}");
        let first = object(lab, 100 + round, &name).await;
        let second = object(lab, 200 + round, &name).await;
        let (first, second) = tokio::join!(
            lab.store.put_object(&first, 0, SYSTEM),
            handle.put_object(&second, 0, SYSTEM)
        );
        let won = [first.unwrap(), second.unwrap()].map(|put| matches!(put, Put::Done(_)));
        assert_eq!(won.iter().filter(|won| **won).count(), 1);
        // Two others want the same name for their objects.
        let first = made(lab, &object(lab, 300 + round, &format!("a {round}")).await).await;
        let second = made(lab, &object(lab, 400 + round, &format!("b {round}")).await).await;
        let renamed = |object: Object| Object { name: format!("c {round}"), ..object };
        let (first, second) = (renamed(first), renamed(second));
        let (first, second) = tokio::join!(
            lab.store.put_object(&first, 1, SYSTEM),
            handle.put_object(&second, 1, SYSTEM)
        );
        let mut puts = [first.unwrap(), second.unwrap()];
        puts.sort_by_key(|put| matches!(put, Put::NameTaken));
        assert!(matches!(&puts, [Put::Done(_), Put::NameTaken]), "{puts:?}");
    }
}
