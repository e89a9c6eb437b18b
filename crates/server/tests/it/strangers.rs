//! Whatever the administrator of one tenant names, in whatever place of a request: nothing of
//! another tenant is shown, and nothing of it changes.

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};

use crate::auth::{PUBLIC, routes};
use crate::people::Person;
use crate::world::World;

/// Words that stand in everything of the other tenant and in no request.
const CANARY: &str = "canary-of-acme";

/// A random request of a user of another tenant.
#[derive(Clone, Debug)]
struct Attempt {
    route: Index,
    names: Vec<Index>,
    body: Index,
    query: Index,
    header: Index,
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let index = any::<Index>;
    (index(), proptest::collection::vec(index(), 3), index(), index(), index()).prop_map(
        |(route, names, body, query, header)| Attempt { route, names, body, query, header },
    )
}

/// Ids and names of the other tenant that the user has.
struct Loot(Vec<String>);

impl Loot {
    fn any(&self, index: &Index) -> &String {
        index.get(self.0.as_slice())
    }

    fn body(&self, attempt: &Attempt) -> Option<Value> {
        let [a, b, c] = [0, 1, 2].map(|i| self.any(&attempt.names[i]).to_owned());
        let bodies = [
            None,
            Some(json!({})),
            Some(
                json!({"name": "mine", "job_type": "DEPENDENT", "payload": {"type": "NOOP"}, "depends_on": [a]}),
            ),
            Some(
                json!([{"name": "mine", "payload": {"type": "NOOP"}, "depends_on": [{"job": b, "on": "FAILURE"}]}]),
            ),
            Some(json!({"execution_ids": [a, b, c]})),
            Some(json!({"execution_id": a, "parameters": {"x": b}})),
            Some(json!({"to_user": a, "privilege": "ADMINISTER CLUSTER"})),
            Some(json!({"to_role": a, "role": b})),
            Some(json!({"to_user": "boss", "role": b})),
            Some(json!({"user": a})),
            Some(json!({"name": a, "tenant": b, "tenant_id": c})),
            Some(json!({"disabled": true})),
            Some(json!({"description": "changed", "depends_on": [c]})),
            Some(json!({"from": "2024-01-01T00:00:00Z", "until": "2024-01-02T00:00:00Z"})),
            Some(json!({"value": a})),
            Some(json!({"run_as": a, "name": "mine", "payload": {"type": "NOOP"}})),
        ];
        attempt.body.get(&bodies).clone()
    }

    fn query(&self, attempt: &Attempt) -> String {
        use base64::Engine as _;
        let name = self.any(&attempt.names[0]);
        let cursor = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(name);
        let queries = [
            String::new(),
            format!("?cursor={cursor}"),
            format!("?tag={name}"),
            format!("?name_prefix={name}"),
            format!("?user={name}"),
            format!("?to_user={name}"),
            format!("?to_role={name}"),
            "?cascade=true".to_owned(),
            "?limit=500".to_owned(),
            "?user=*".to_owned(),
        ];
        attempt.query.get(&queries).clone()
    }
}

/// Everything of a tenant, as the administrator of the cluster sees it.
async fn everything(world: &World, tenant: &str) -> Vec<String> {
    let mut all = Vec::new();
    for list in ["jobs", "executions", "dead-letters", "users", "roles", "grants", "keys?user=*"] {
        let headers = [("punctual-tenant", tenant)];
        let reply = world.call("GET", &format!("/v1/{list}"), &headers, None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        all.push(reply.text);
    }
    all
}

async fn furnish(world: &World) -> (Loot, Person) {
    world.tenant("acme").await;
    world.tenant("other").await;
    let boss = world.person("other", "boss", &["ADMINISTER TENANT"]).await;
    let own = json!({"name": "own", "payload": {"type": "NOOP"}, "job_type": "MANUAL"});
    world.ask(&boss, "POST", "/v1/jobs", own).await;
    let ann = world.person("acme", "ann", &["ADMINISTER TENANT"]).await;
    let mut loot = vec!["acme".to_owned(), "ann".to_owned()];
    for (n, endpoint) in ["http://fail", "http://talk"].iter().enumerate() {
        let job = json!({
            "name": format!("theirs-{n}"), "job_type": "MANUAL", "description": CANARY,
            "payload": {"endpoint": endpoint}, "retry_config": {"max_attempts": 1}, "tags": ["theirs"],
        });
        let job = world.ask(&ann, "POST", "/v1/jobs", job).await.json();
        let id = job["job_id"].as_str().unwrap();
        let run = world.ask(&ann, "POST", &format!("/v1/jobs/{id}/trigger"), json!({})).await;
        let run = run.json()["execution_id"].as_str().unwrap().to_owned();
        world.ended_in("acme", &run).await;
        loot.extend([id.to_owned(), format!("theirs-{n}"), run, "theirs".to_owned()]);
    }
    let role = json!({"name": "role-of-acme", "description": CANARY});
    let role = world.rule("acme", "POST", "/v1/roles", role).await;
    let grant = json!({"to_user": "ann", "role": "role-of-acme"});
    let grant = world.rule("acme", "POST", "/v1/grants", grant).await;
    let key = json!({"user": "ann", "label": CANARY});
    let key = world.rule("acme", "POST", "/v1/keys", key).await;
    let user = world.rule("acme", "GET", "/v1/users/ann", json!({})).await;
    for (value, field) in
        [(&role, "role_id"), (&grant, "grant_id"), (&key, "key_id"), (&user, "user_id")]
    {
        loot.push(value[field].as_str().unwrap().to_owned());
    }
    loot.push("role-of-acme".to_owned());
    (Loot(loot), boss)
}

#[test]
fn no_request_of_one_tenant_touches_another() {
    let test = testbed::this_test!("no_request_of_one_tenant_touches_another");
    for seed in test.seeds(&[0x5eed_57a6], 1) {
        // Each in a world of its own, so that a fresh seed can be repeated alone.
        check_requests(seed.value, if seed.is_fresh { 300 } else { 1_500 });
    }
}

fn check_requests(seed: u64, cases: u32) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (world, loot, boss, before) = runtime.block_on(async {
        let world = World::at("2024-01-15T10:30:00Z").await;
        let (loot, boss) = furnish(&world).await;
        let before = everything(&world, "acme").await;
        (world, loot, boss, before)
    });
    let routes: Vec<(String, String)> = routes()
        .into_iter()
        .filter(|(_, path)| !PUBLIC.contains(&path.as_str()) && path != "/v1/events")
        .collect();
    let places = [
        "{job_id}",
        "{execution_id}",
        "{user}",
        "{role}",
        "{grant_id}",
        "{key_id}",
        "{tenant}",
        "{name}",
    ];
    let headers: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![],
        vec![("punctual-tenant", "acme")],
        vec![("punctual-tenant", "other")],
        vec![("if-match", "*")],
        vec![("if-match", "\"1\"")],
        vec![("idempotency-key", "same")],
    ];
    let ask = |attempt: &Attempt| {
        let (method, path) = attempt.route.get(&routes);
        let mut path = path.clone();
        for place in places {
            path = path.replace(place, loot.any(&attempt.names[1]));
        }
        path.push_str(&loot.query(attempt));
        let headers = attempt.header.get(&headers);
        let body = loot.body(attempt);
        let reply = world.call_as(Some(&boss.key), method, &path, headers, body.clone());
        (format!("{method} {path} {headers:?} {body:?}"), runtime.block_on(reply))
    };
    let rng_seed = RngSeed::Fixed(seed);
    let config = Config { cases, failure_persistence: None, rng_seed, ..Config::default() };
    let done = TestRunner::new(config).run(&attempts(), |attempt| {
        let (asked, reply) = ask(&attempt);
        prop_assert!(!reply.text.contains(CANARY), "{asked}: {}", reply.text);
        prop_assert!(reply.status != 500, "{asked}: {}", reply.text);
        Ok(())
    });
    done.unwrap();
    let after = runtime.block_on(everything(&world, "acme"));
    assert_eq!(before, after);
}
