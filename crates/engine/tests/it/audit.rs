//! Audit rows are sealed once, whichever node does it, and pruning does not break the chain.

use domain::audit::{KeptHead, Seal};
use domain::id::TenantId;
use domain::job::Definition;
use domain::run::AttemptResult;
use engine::Settings;
use jiff::SignedDuration;
use store::{AuditLog, SYSTEM, Store};

use crate::world::{Steps, World};

const TENANT: TenantId = TenantId::DEFAULT;

#[tokio::test]
async fn a_chain_has_every_row_once_whoever_seals_it() {
    let world = World::at("2026-01-01T10:00:00Z");
    let settings = || Settings { batch_max: 3, audit_retention_days: 30, ..Settings::default() };
    let (a, b) = (world.node_with(settings()).await, world.node_with(settings()).await);
    let job = a.create("job", Definition::default()).await;
    a.pause_job(job.id, "anna").await.unwrap();
    a.resume_job(job.id, None, SYSTEM).await.unwrap();
    for _ in 0..8 {
        a.trigger(&job).await;
        let started = a.work().await.remove(0);
        a.complete(started.run.grant, AttemptResult::completed());
        a.flush().await;
    }
    let mut sealed = 0;
    loop {
        // Both seal behind the same row; one of them is first.
        let (first, second) = tokio::join!(a.seal(), b.seal());
        let (first, second) = (first.unwrap(), second.unwrap());
        sealed += first.sealed + second.sealed;
        if !first.more && !second.more {
            break;
        }
    }
    assert_eq!(sealed, 11, "a job made, held and let go, and eight batches of runs");
    let found = b.verify_audit(TENANT, None).await.unwrap();
    assert_eq!((found.rows, found.anchor, &found.broken), (11, Seal::GENESIS, &None));
    let head = found.last;
    let kept = KeptHead { seal: head, at: found.last_at };
    assert_eq!(a.verify_audit(TENANT, Some(kept)).await.unwrap().broken, None);
    assert!(a.audit_heads().await.unwrap().contains(&(TENANT, kept)));
    // The kept head has another hash.
    let wrong = KeptHead { seal: Seal { hash: [7; 32], ..head }, at: None };
    let broken = a.verify_audit(TENANT, Some(wrong)).await.unwrap().broken.unwrap();
    assert_eq!(broken.number, 11);
    let longer = KeptHead { seal: Seal { number: 12, ..head }, at: None };
    let broken = a.verify_audit(TENANT, Some(longer)).await.unwrap().broken.unwrap();
    assert_eq!(broken.number, 12);

    // A month later, the old rows go, a batch at a time, and the chain goes on.
    assert_eq!(a.prune_audit().await.unwrap(), 0);
    world.pass(31 * 86_400);
    let mut gone = 0;
    for _ in 0..4 {
        gone += a.prune_audit().await.unwrap();
    }
    assert_eq!(gone, 10, "the last one stays and proves that the others were old");
    assert_eq!(a.prune_audit().await.unwrap(), 0);
    a.pause_job(job.id, SYSTEM).await.unwrap();
    a.seal().await.unwrap();
    let found = a.verify_audit(TENANT, Some(kept)).await.unwrap();
    let numbers = (found.rows, found.anchor.number, found.last.number, found.broken);
    assert_eq!(numbers, (2, 10, 12, None));

    // A head without its time does not prove that the rows were old.
    let bare = KeptHead { seal: found.anchor, at: None };
    let broken = a.verify_audit(TENANT, Some(bare)).await.unwrap().broken.unwrap();
    assert_eq!((broken.number, broken.until), (10, 10));
    // The rest goes too early and by another hand: the range is named.
    let store = &world.store;
    let later = store.now().await.unwrap().saturating_add(SignedDuration::from_secs(1)).unwrap();
    assert_eq!(store.prune_audit(TENANT, later, 100).await.unwrap(), 1);
    // The missing rows were old, but the remaining rows do not prove it.
    for known in [None, Some(KeptHead { seal: found.last, at: found.last_at })] {
        let broken = a.verify_audit(TENANT, known).await.unwrap().broken.unwrap();
        assert_eq!((broken.number, broken.until), (1, 11));
    }
}
