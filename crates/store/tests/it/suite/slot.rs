//! Slots: a claim fills each kind for itself, and tenants share them by their tiers.

use domain::access::{Entry, Tenant};
use domain::action::{Action, HttpAction};
use domain::fairness::Tier;
use domain::id::TenantId;
use domain::job::Job;
use domain::run::NewRun;
use domain::slot::{PerSlot, SlotKind};
use store::{
    ClaimFor, ClaimRequest, Cluster, Identity, NodeInfo, Prepared, Recorded, SYSTEM, Store, Verdict,
};

use crate::bench::Bench;
use crate::lab::{
    Lab, ids, ids_of, minutes, processes, retried, seconds, tenant, untried, want, want_soon,
};

fn call() -> Action {
    Action::Http(HttpAction {
        endpoint: "http://127.0.0.1/".into(),
        method: "GET".into(),
        headers: Default::default(),
        body: None,
        expected_status: Vec::new(),
    })
}

async fn caller<B: Bench>(lab: &Lab<B>, name: &str) -> Job {
    let mut job = lab.draft(name).await;
    job.definition.action = call();
    lab.create(&job).await;
    job
}

fn slots(process: u32, http: u32) -> ClaimRequest {
    ClaimRequest { due: PerSlot { process, http }, ..ClaimRequest::default() }
}

pub async fn each_kind_of_slot_is_filled_for_itself<B: Bench>(lab: &Lab<B>) {
    let (node, worker, caller) =
        (lab.node().await, lab.job("works").await, caller(lab, "calls").await);
    let now = lab.now().await;
    let runs = |job: &Job| -> Vec<NewRun> {
        (0..3).map(|n| lab.run(job, now - seconds(60 - n))).collect()
    };
    let (works, calls) = (runs(&worker), runs(&caller));
    assert_eq!((works[0].slot, calls[0].slot), (SlotKind::Process, SlotKind::Http));
    lab.submit(&[works.clone(), calls.clone()].concat()).await;
    let expected = [works[0].id, calls[0].id, calls[1].id];
    assert_eq!(ids(&lab.claim(node, slots(1, 2)).await), expected);
    assert_eq!(ids(&lab.claim(node, slots(0, 5)).await), [calls[2].id]);
    assert_eq!(ids(&lab.claim(node, slots(5, 0)).await), ids_of(&works[1..]));
    assert_eq!(lab.claim(node, slots(5, 5)).await, []);
}

/// Several priorities and tenants of one kind leave the other kind its own.
pub async fn many_runs_of_one_kind_hold_up_none_of_the_other<B: Bench>(lab: &Lab<B>) {
    let (node, worker, caller) =
        (lab.node().await, lab.job("works").await, caller(lab, "calls").await);
    let now = lab.now().await;
    let crowd = |n: i64| NewRun {
        priority: n as u8 % 10,
        tenant: tenant(1 + n as u128 % 3),
        ..lab.run(&caller, now - minutes(60) + seconds(n))
    };
    let crowd: Vec<_> = (0..600).map(crowd).collect();
    lab.submit(&crowd).await;
    let single = NewRun { priority: 0, ..lab.run(&worker, now - seconds(1)) };
    lab.submit(std::slice::from_ref(&single)).await;
    assert_eq!(ids(&lab.claim(node, slots(4, 0)).await), [single.id]);
    assert_eq!(lab.claim(node, slots(4, 7)).await.len(), 7);
}

/// Runs of one kind of slot do not count against the tenant's share of the other kind.
pub async fn tenants_share_each_kind_for_itself<B: Bench>(lab: &Lab<B>) {
    let (node, worker, caller) =
        (lab.node().await, lab.job("works").await, caller(lab, "calls").await);
    let now = lab.now().await;
    let of = |job: &Job, of: u128, ago: i64| NewRun {
        tenant: tenant(of),
        ..lab.run(job, now - seconds(ago))
    };
    let calls: Vec<_> = (0..5).map(|n| of(&caller, 1, 90 - n)).collect();
    lab.submit(&calls).await;
    assert_eq!(lab.claim(node, slots(0, 5)).await.len(), 5);
    let works = [of(&worker, 1, 60), of(&worker, 2, 50), of(&worker, 1, 40), of(&worker, 2, 30)];
    lab.submit(&works).await;
    assert_eq!(ids(&lab.claim(node, slots(4, 0)).await), ids_of(&works));
    let more = [of(&caller, 1, 20), of(&caller, 2, 10)];
    lab.submit(&more).await;
    assert_eq!(ids(&lab.claim(node, slots(0, 1)).await), [more[1].id]);
}

pub async fn a_run_keeps_its_kind_through_all_that_happens<B: Bench>(lab: &Lab<B>) {
    let (node, caller) = (lab.node().await, caller(lab, "calls").await);
    let run = lab.due(&caller).await;
    let again = async |what: &str| {
        assert_eq!(lab.claim(node, want(9)).await, [], "{what}");
        let mut claimed = lab.claim(node, slots(0, 9)).await;
        assert_eq!(ids(&claimed), [run.id], "{what}");
        assert_eq!(claimed[0].run.slot, SlotKind::Http, "{what}");
        claimed.remove(0)
    };
    let claimed = again("at first").await;
    assert_eq!(claimed.run, run);
    assert_eq!(lab.store.held(node).await.unwrap()[0].run.slot, SlotKind::Http);
    lab.finish(node, untried(&claimed, Verdict::Release)).await;
    let claimed = again("released").await;
    lab.finish(node, retried(node, &claimed, seconds(0))).await;
    again("tried again").await;
    lab.expire(node).await;
    let reaped = lab.store.reap(9).await.unwrap();
    assert_eq!(reaped.lost[0].run.run.slot, SlotKind::Http);
}

pub async fn submitted_runs_are_claimed_by_their_kind<B: Bench>(lab: &Lab<B>) {
    let (node, worker, caller) =
        (lab.node().await, lab.job("works").await, caller(lab, "calls").await);
    let now = lab.now().await;
    let runs: Vec<_> = (0..6)
        .map(|n| lab.run(if n % 2 == 0 { &worker } else { &caller }, now - seconds(60 - n)))
        .collect();
    let claim = Some(ClaimFor { node, max: PerSlot { process: 1, http: 2 } });
    let claimed = lab.store.submit(&runs, claim).await.unwrap().claimed;
    let mut found = ids(&claimed);
    found.sort_unstable();
    let mut expected = [0, 1, 3].map(|n| runs[n].id);
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(lab.claim(node, slots(9, 9)).await.len(), 3);
}

/// The runs of a job whose action changes take slots of the other kind, wherever they lie.
pub async fn a_changed_action_moves_the_runs_of_its_job<B: Bench>(lab: &Lab<B>) {
    let mut node = lab.node().await;
    let eu = NodeInfo { labels: "zone=eu".parse().unwrap(), ..NodeInfo::named("eu") };
    for labels in ["", "zone=eu"] {
        let mut job = lab.draft(&format!("job {labels}")).await;
        job.definition.run_on = labels.parse().unwrap();
        lab.create(&job).await;
        if !labels.is_empty() {
            node = domain::id::NodeId(lab.id());
            lab.store.join(node, &eu, minutes(60)).await.unwrap();
        }
        let claim = async |want: ClaimRequest| match labels {
            "" => lab.claim(node, want).await,
            _ => lab.store.claim_placed(node, None, want).await.unwrap(),
        };
        let place = job.definition.place();
        let run = |ago| NewRun { place: place.clone(), ..ago };
        let now = lab.now().await;
        let runs = [60, 50].map(|ago| run(lab.run(&job, now - seconds(ago))));
        lab.submit(&runs).await;
        let held = claim(want(1)).await;
        assert_eq!(ids(&held), [runs[0].id], "{labels}");
        job.definition.action = call();
        lab.update(&mut job, Prepared::Keep).await;
        assert_eq!(claim(want(9)).await, [], "{labels}");
        assert_eq!(ids(&claim(slots(0, 9)).await), [runs[1].id], "{labels}");
        // A run that was held when the job changed is released to the lane of the new definition.
        lab.finish(node, untried(&held[0], Verdict::Release)).await;
        assert_eq!(claim(want(9)).await, [], "{labels}");
        assert_eq!(ids(&claim(slots(0, 9)).await), [runs[0].id], "{labels}");
    }
}

/// A limit is on all runs of a tenant, whatever slots they take.
pub async fn a_limit_counts_every_kind<B: Bench>(lab: &Lab<B>) {
    let (node, worker, caller) =
        (lab.node().await, lab.job("works").await, caller(lab, "calls").await);
    let now = lab.now().await;
    let runs: Vec<_> = (0..6)
        .map(|n| lab.run(if n % 2 == 0 { &worker } else { &caller }, now - seconds(60 - n)))
        .collect();
    lab.submit(&runs).await;
    let limited = ClaimRequest { tenant_max: Some(3), ..slots(9, 9) };
    let mut claimed = ids(&lab.claim(node, limited).await);
    claimed.sort_unstable();
    let mut expected = ids_of(&runs[..3]);
    expected.sort_unstable();
    assert_eq!(claimed, expected);
    assert_eq!(lab.claim(node, limited).await, []);
}

/// A prepared run starts without another claim, so a tenant with a limit gets runs only when due.
pub async fn a_counted_tenant_is_handed_nothing_ahead<B: Bench>(lab: &Lab<B>) {
    let eu = NodeInfo { labels: "zone=eu".parse().unwrap(), ..NodeInfo::named("eu") };
    let node = domain::id::NodeId(lab.id());
    lab.store.join(node, &eu, minutes(60)).await.unwrap();
    let plain = lab.job("anywhere").await;
    let mut placed = lab.draft("in eu").await;
    placed.definition.run_on = "zone=eu".parse().unwrap();
    lab.create(&placed).await;
    let soon = lab.now().await + minutes(10);
    for n in 0..3 {
        let in_eu =
            NewRun { place: placed.definition.place(), ..lab.run(&placed, soon + seconds(n)) };
        lab.submit(&[lab.run(&plain, soon + seconds(n)), in_eu]).await;
    }
    let counted = ClaimRequest { tenant_max: Some(1), due: processes(9), ..want_soon(9) };
    assert_eq!(lab.claim(node, counted).await, []);
    assert_eq!(lab.store.claim_placed(node, None, counted).await.unwrap(), []);
    let free = ClaimRequest { tenant_max: None, ..counted };
    assert_eq!(lab.claim(node, free).await.len(), 3);
    assert_eq!(lab.store.claim_placed(node, None, free).await.unwrap().len(), 3);
}

async fn tenant_of<B: Bench>(lab: &Lab<B>, tier: Tier) -> Tenant {
    let tenant = Tenant {
        id: TenantId(lab.id()),
        name: tier.name().to_lowercase(),
        tier,
        max_jobs: None,
        max_concurrent: None,
        requests_per_second: None,
        external_jobs: false,
        job_defaults: Default::default(),
    };
    let put = lab.store.put_entry(&Entry::Tenant(tenant.clone()), None, SYSTEM).await.unwrap();
    assert!(matches!(put, Recorded::Done(_)), "{put:?}");
    tenant
}

/// In a round, each tenant gets as many turns as its weight; a tenant without an entry is standard.
pub async fn tenants_share_by_their_tiers<B: Bench>(lab: &Lab<B>) {
    let eu = NodeInfo { labels: "zone=eu".parse().unwrap(), ..NodeInfo::named("eu") };
    let node = domain::id::NodeId(lab.id());
    lab.store.join(node, &eu, minutes(60)).await.unwrap();
    let mut tenants = vec![tenant(77)];
    for tier in Tier::ALL {
        tenants.push(tenant_of(lab, tier).await.id);
    }
    let plain = lab.job("anywhere").await;
    let mut placed = lab.draft("in eu").await;
    placed.definition.run_on = "zone=eu".parse().unwrap();
    lab.create(&placed).await;
    let now = lab.now().await;
    let mut runs = Vec::new();
    for job in [&plain, &placed] {
        for n in 0..40 {
            runs.extend(tenants.iter().map(|tenant| NewRun {
                tenant: *tenant,
                place: job.definition.place(),
                ..lab.run(job, now - minutes(60) + seconds(n))
            }));
        }
    }
    lab.submit(&runs).await;
    let weights: Vec<usize> =
        [Tier::Standard].iter().chain(&Tier::ALL).map(|tier| tier.weight() as usize).collect();
    assert_eq!(weights, [4, 1, 4, 16]);
    for round in 1..=2 {
        // Runs that were claimed before count as well.
        let claimed = match round {
            1 => lab.claim(node, want(25)).await,
            _ => lab.store.claim_placed(node, None, want(25)).await.unwrap(),
        };
        let counts = tenants
            .iter()
            .map(|tenant| claimed.iter().filter(|claimed| claimed.run.tenant == *tenant).count());
        assert_eq!(counts.collect::<Vec<_>>(), weights, "round {round}");
    }
}

pub async fn a_renewal_tells_weights_and_limits<B: Bench>(lab: &Lab<B>) {
    let node = lab.node().await;
    let renewed = lab.store.renew(node, minutes(60)).await.unwrap().unwrap();
    assert_eq!((renewed.weights, renewed.counts_tenants), (Vec::new(), false));
    let mut free = tenant_of(lab, Tier::Free).await;
    tenant_of(lab, Tier::Standard).await;
    let premium = tenant_of(lab, Tier::Premium).await;
    let renewed = lab.store.renew(node, minutes(60)).await.unwrap().unwrap();
    let expected = vec![(free.id, Tier::Free.weight()), (premium.id, Tier::Premium.weight())];
    assert_eq!((renewed.weights, renewed.counts_tenants), (expected, false));
    free.max_concurrent = Some(1);
    free.tier = Tier::Standard;
    lab.store.put_entry(&Entry::Tenant(free), Some(1), SYSTEM).await.unwrap();
    let renewed = lab.store.renew(node, minutes(60)).await.unwrap().unwrap();
    let expected = vec![(premium.id, Tier::Premium.weight())];
    assert_eq!((renewed.weights, renewed.counts_tenants), (expected, true));
}
