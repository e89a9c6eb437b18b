//! the endpoint for remote agents: who is let in, what they are given, and what they are not.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Version};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::world::{Reply, World, until};

/// An agent, as a test plays it.
struct Agent<'a> {
    world: &'a World,
    name: String,
    key: String,
    session: Value,
    node: Value,
}

/// A call as an agent makes it.
fn request(verb: &str, name: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(format!("/wire/v1/{verb}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/json")
        .header("punctual-agent", name)
        .header("authorization", format!("Bearer {key}"))
        .body(body.into())
        .unwrap()
}

async fn call(world: &World, verb: &str, name: &str, key: &str, body: &Value) -> Reply {
    world.send(request(verb, name, key, body.to_string())).await
}

async fn token(world: &World, body: Value) -> String {
    let made = world.post("/v1/agent-tokens", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["token"].as_str().unwrap().to_owned()
}

fn hello(instance: u128) -> Value {
    json!({
        "protocol": 1, "instance": uuid::Uuid::from_u128(instance), "version": "9.9",
        "labels": {"place": "far"}, "capacity": {"process": 2, "http": 2},
    })
}

impl<'a> Agent<'a> {
    /// One that has joined and said hello.
    async fn join(world: &'a World, name: &str) -> Self {
        let token = token(world, json!({"labels": {"place": "far"}})).await;
        let join = json!({"protocol": 1, "name": name});
        let joined = call(world, "join", name, &token, &join).await;
        assert_eq!(joined.status, 200, "{}", joined.text);
        let key = joined.json()["key"].as_str().unwrap().to_owned();
        let (name, session, node) = (name.to_owned(), Value::Null, Value::Null);
        let mut agent = Agent { world, name, key, session, node };
        agent.hello(&hello(1)).await;
        agent
    }

    async fn call(&self, verb: &str, body: &Value) -> Reply {
        call(self.world, verb, &self.name, &self.key, body).await
    }

    async fn hello(&mut self, hello: &Value) {
        let welcome = self.call("hello", hello).await;
        assert_eq!(welcome.status, 200, "{}", welcome.text);
        let mut welcome = welcome.json();
        (self.session, self.node) = (welcome["session"].take(), welcome["node"].take());
    }

    /// The items of a poll that waits until there is work.
    async fn poll(&self, number: u64, has: &Value) -> Value {
        let poll = json!({"session": self.session, "number": number, "free": {"process": 2, "http": 2}, "has": has});
        let work = self.call("poll", &poll).await;
        assert_eq!(work.status, 200, "{}", work.text);
        work.json()["items"].take()
    }

    async fn settle(&self, node: &Value, item: &Value) -> Value {
        let ended = json!({
            "grant": item["grant"], "token": item["assignment"]["fence"], "attempt": 1, "started_at": item["started_at"], "took": "PT1S",
            "result": {"end": "COMPLETED", "result": "{\"n\":1}", "details": "no json"},
        });
        let settled = self.call("results", &json!({"node": node, "ended": [ended]})).await;
        assert_eq!(settled.status, 200, "{}", settled.text);
        settled.json()["accepted"].take()
    }

    /// A piece of output: stdout and then stderr.
    async fn output(&self, item: &Value, position: u64, texts: [&[u8]; 2]) -> Reply {
        let mut body = Vec::new();
        for (stream, text) in texts.iter().enumerate() {
            body.push(stream as u8);
            body.extend((text.len() as u32).to_le_bytes());
            body.extend(*text);
        }
        let grant = &item["grant"];
        let verb = format!(
            "output?session={}&run={}&fence={}&turn={}&position={position}",
            self.session.as_str().unwrap(),
            grant["run"].as_str().unwrap(),
            grant["fence"],
            grant["turn"]
        );
        self.world.send(request(&verb, &self.name, &self.key, body)).await
    }
}

async fn far_job(world: &World, name: &str, payload: Value) {
    let job = json!({
        "name": name, "job_type": "MANUAL", "payload": payload, "run_on": {"place": "far"},
        "overlap": "ALLOW",
    });
    let made = world.post("/v1/jobs", job).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_goes_out_and_its_output_and_result_come_in() {
    let world = World::now().await;
    far_job(&world, "far", json!({"endpoint": "http://there/"})).await;
    let agent = Agent::join(&world, "far").await;
    let run = world.trigger("far").await;
    let items = agent.poll(1, &json!([])).await;
    let item = &items[0];
    assert_eq!(item["assignment"]["run"], json!(run), "{items}");
    assert_eq!(item["assignment"]["action"]["endpoint"], "http://there/");
    let nodes = world.get("/v1/nodes").await.json();
    let node = nodes["data"].as_array().unwrap().iter().find(|node| node["name"] == "far").unwrap();
    assert_eq!((&node["kind"], &node["version"]), (&json!("AGENT"), &json!("9.9")));
    assert_eq!(node["worker_id"], agent.node);
    let kinds = json!({"sql": "SELECT kind FROM sys.nodes WHERE node_name = 'far'"});
    let kinds = world.post("/v1/sql", kinds).await.json();
    assert_eq!(kinds["results"][0]["rows"], json!([["AGENT"]]));

    assert_eq!(agent.output(item, 0, [b"one\n", b"two\n"]).await.status, 200);
    let torn = agent.output(item, 4, [b"", b""]).await;
    assert_eq!(torn.error(), (400, "INVALID_REQUEST".into(), "position".into()));
    assert_eq!(agent.output(item, 8, [b"three\n", b""]).await.status, 200);
    let renewed = agent.call("renew", &json!({"session": agent.session})).await.json();
    assert_eq!(renewed, json!({"stop": [], "over": [], "draining": false}));
    assert_eq!(agent.settle(&agent.node, item).await, json!([true]));
    assert_eq!(agent.settle(&agent.node, item).await, json!([false]), "once");
    let ended = world.ended(&run).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let logs = world.get(&format!("/v1/executions/{run}/logs")).await;
    assert_eq!(logs.text, "one\ntwo\nthree\n");
    let logs = world.get(&format!("/v1/executions/{run}/logs?stream=stderr")).await;
    assert_eq!(logs.text, "two\n");
    assert_eq!(agent.call("leave", &json!({"session": agent.session})).await.status, 200);
    let nodes = world.get("/v1/nodes").await.json();
    assert!(!nodes.to_string().contains("\"far\""), "{nodes}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_lost_comes_again_and_one_that_arrived_does_not() {
    let world = World::now().await;
    far_job(&world, "far", json!({"endpoint": "http://there/"})).await;
    let mut agent = Agent::join(&world, "far").await;
    world.trigger("far").await;
    let first = agent.poll(1, &json!([])).await;
    let again = agent.poll(2, &json!([])).await;
    assert_eq!(first, again);
    let has = json!([again[0]["grant"]]);
    let poll = json!({"session": agent.session, "number": 3, "free": {"process": 2, "http": 2}, "has": has});
    let poll = request("poll", "far", &agent.key, poll.to_string());
    let waits = world.router.clone().oneshot(poll);
    let answer = tokio::time::timeout(Duration::from_millis(500), waits).await;
    assert!(answer.is_err(), "there is nothing else");
    // An old poll takes nothing from a later one.
    assert_eq!(agent.poll(2, &json!([])).await, json!([]));

    // The agent comes back as it was: what it has begun is not begun again.
    let old = agent.session.clone();
    let mut back = hello(1);
    back["node"] = agent.node.clone();
    back["begun"] = json!([{
        "grant": again[0]["grant"],
        "token": again[0]["assignment"]["fence"],
        "started_at": again[0]["started_at"],
        "slot": "http",
    }]);
    let node = agent.node.clone();
    agent.hello(&back).await;
    assert_eq!(agent.node, node);
    let ended = agent.call("renew", &json!({"session": old})).await;
    assert_eq!(ended.error().1, "SESSION_ENDED");
    let next = world.trigger("far").await;
    let items = agent.poll(1, &has).await;
    assert_eq!(items.as_array().unwrap().len(), 1, "{items}");
    assert_eq!(items[0]["assignment"]["run"], json!(next));
    assert_eq!(agent.settle(&node, &again[0]).await, json!([true]));

    // A node that is not its own, or is no more, is not taken over.
    back["node"] = json!(uuid::Uuid::from_u128(77));
    assert_eq!(agent.call("hello", &back).await.error().1, "LEASE_LOST");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_good_once_for_a_short_time_and_for_what_it_says() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let join = |name: &str| json!({"protocol": 1, "name": name});
    let spent = token(&world, json!({})).await;
    let joined = call(&world, "join", "one", &spent, &join("one")).await;
    assert_eq!(joined.status, 200, "{}", joined.text);
    let reused = call(&world, "join", "two", &spent, &join("two")).await;
    assert_eq!(reused.error().0, 401, "{}", reused.text);

    let late = token(&world, json!({"ttl_seconds": 60})).await;
    world.go_to("2024-01-15T10:31:00Z");
    let expired = call(&world, "join", "two", &late, &join("two")).await;
    assert_eq!((expired.status, &expired.text.len()), (401, &reused.text.len()), "as one unknown");

    let bound = token(&world, json!({"labels": {"zone": "eu"}})).await;
    let mut other = join("two");
    other["labels"] = json!({"zone": "us"});
    let refused = call(&world, "join", "two", &bound, &other).await;
    assert_eq!(refused.error(), (422, "VALIDATION_FAILED".into(), "labels".into()));
    let taken = call(&world, "join", "one", &bound, &join("one")).await;
    assert_eq!(taken.error(), (409, "ALREADY_EXISTS".into(), "name".into()));
    let odd = call(&world, "join", "x", &bound, &join("a b")).await;
    assert_eq!(odd.error().2, "name");
    // A join that was refused for another reason has not used up the token.
    let joined = call(&world, "join", "two", &bound, &join("two")).await.json();
    assert_eq!(joined["labels"], json!({"zone": "eu"}));

    for (body, field) in [
        (json!({"ttl_seconds": 901}), "ttl_seconds"),
        (json!({"ttl_seconds": 0}), "ttl_seconds"),
        (json!({"labels": {"a b": "c"}}), "labels"),
    ] {
        let wrong = world.post("/v1/agent-tokens", body).await;
        assert_eq!(wrong.error(), (422, "VALIDATION_FAILED".into(), field.into()));
    }
    // No secret is kept.
    let bytes = world.stored_bytes();
    for secret in [&spent, &late, &bound, joined["key"].as_str().unwrap()] {
        let secret = secret.split('_').nth(2).unwrap().as_bytes();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_let_in_with_the_key_of_somebody_else() {
    let world = World::now().await;
    let agent = Agent::join(&world, "far").await;
    let other = Agent::join(&world, "other").await;
    let ticket = token(&world, json!({})).await;
    let word = json!({"session": agent.session});
    for (name, key) in [
        ("far", other.key.as_str()),
        ("far", world.key.as_str()),
        ("far", ticket.as_str()),
        ("far", ""),
        ("nobody", agent.key.as_str()),
        ("", agent.key.as_str()),
    ] {
        for verb in
            ["hello", "poll", "renew", "results", "output", "secret", "database", "drain", "leave"]
        {
            let reply = call(&world, verb, name, key, &word).await;
            assert_eq!(reply.error().1, "UNAUTHENTICATED", "{verb} {name}");
        }
    }
    for key in [&world.key, &agent.key] {
        let join = json!({"protocol": 1, "name": "new"});
        let reply = call(&world, "join", "new", key, &join).await;
        assert_eq!(reply.status, 401);
    }
    // The session of one is none of another's.
    assert_eq!(other.call("renew", &word).await.error().1, "SESSION_ENDED");
    // The key of an agent is invalid on the other interfaces.
    let asked = Request::get("/v1/jobs").header("authorization", format!("Bearer {}", agent.key));
    assert_eq!(world.send(asked.body(Body::empty()).unwrap()).await.status, 401);

    // Once its key is deleted, the agent is unauthenticated at once.
    assert_eq!(agent.call("renew", &word).await.status, 200);
    let removed = world.call("DELETE", "/v1/nodes/far", &[], None).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    assert_eq!(agent.call("renew", &word).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_gets_what_its_own_runs_need_and_nothing_else() {
    let world = World::now().await;
    for name in ["MINE", "OTHER"] {
        let put = world
            .call("PUT", &format!("/v1/secrets/{name}"), &[], Some(json!({"value": "v4lue-of-it"})))
            .await;
        assert!(put.status < 300, "{}", put.text);
    }
    let payload = json!({"endpoint": "http://there/", "headers": {"X": "${secrets.MINE}"}});
    far_job(&world, "far", payload).await;
    let agent = Agent::join(&world, "far").await;
    let thief = Agent::join(&world, "thief").await;
    let run = world.trigger("far").await;
    let items = agent.poll(1, &json!([])).await;
    let (item, fence) = (&items[0], items[0]["assignment"]["fence"].as_i64().unwrap());
    let ask = |agent: &Agent<'_>, fence: i64, name: &str| json!({"session": agent.session, "run": run, "fence": fence, "name": name});
    let told = agent.call("secret", &ask(&agent, fence, "MINE")).await;
    assert_eq!(told.json(), json!({"value": "v4lue-of-it"}));
    let unused = agent.call("secret", &ask(&agent, fence, "OTHER")).await;
    assert_eq!(unused.error().1, "FORBIDDEN");
    let stale = agent.call("secret", &ask(&agent, fence - 1, "MINE")).await;
    assert_eq!(stale.error().1, "EXECUTION_NOT_FOUND");
    // Another one's run is not there.
    let stolen = thief.call("secret", &ask(&thief, fence, "MINE")).await;
    assert_eq!(stolen.error().1, "EXECUTION_NOT_FOUND");
    assert!(!stolen.text.contains("v4lue"));
    assert_eq!(thief.output(item, 0, [b"x", b""]).await.error().1, "EXECUTION_NOT_FOUND");
    for node in [&agent.node, &thief.node] {
        assert_eq!(thief.settle(node, item).await, json!([false]));
    }
    let mut older = item.clone();
    older["grant"]["fence"] = json!(older["grant"]["fence"].as_i64().unwrap() - 1);
    assert_eq!(agent.settle(&agent.node, &older).await, json!([false]));
    let shown = world.get(&format!("/v1/executions/{run}")).await.json();
    assert_eq!(shown["status"], "RUNNING", "{shown}");
    let tenant = &item["assignment"]["tenant"];
    let ask = json!({"session": agent.session, "tenant": tenant, "name": "sales"});
    assert_eq!(agent.call("database", &ask).await.error().1, "FORBIDDEN");

    far_job(&world, "sql", json!({"type": "SQL", "sql": "SELECT 1", "database": "sales"})).await;
    world.trigger("sql").await;
    let found = until(|| async {
        let items = agent.poll(2, &json!([item["grant"]])).await;
        items[0].is_object().then_some(())
    });
    found.await;
    assert_eq!(agent.call("database", &ask).await.json(), json!({"value": "postgres://sales"}));
    assert_eq!(agent.settle(&agent.node, item).await, json!([true]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_understood_is_refused() {
    let world = World::now().await;
    let mut agent = Agent::join(&world, "far").await;
    let key = agent.key.clone();
    // Another version, in both places where one is named.
    let ticket = token(&world, json!({})).await;
    let old = json!({"protocol": 2, "name": "new"});
    let reply = call(&world, "join", "new", &ticket, &old).await;
    assert_eq!(reply.error().1, "UNSUPPORTED_VERSION", "{}", reply.text);
    let mut odd = hello(1);
    odd["protocol"] = json!(0);
    assert_eq!(agent.call("hello", &odd).await.error().1, "UNSUPPORTED_VERSION");
    for (field, value, place) in [
        ("labels", json!({"place": "near"}), "labels"),
        ("capacity", json!({"process": 0, "http": 2}), "capacity.process"),
        ("capacity", json!({"process": 2, "http": 5000}), "capacity.http"),
        ("instance", json!("x"), "instance"),
    ] {
        let mut odd = hello(1);
        odd[field] = value;
        assert_eq!(
            agent.call("hello", &odd).await.error(),
            (422, "VALIDATION_FAILED".into(), place.into())
        );
    }
    let unknown = json!({"session": agent.session, "more": 1});
    assert_eq!(agent.call("renew", &unknown).await.error().1, "VALIDATION_FAILED");
    // One request after the other is not enough.
    let mut plain = request("renew", "far", &key, json!({"session": agent.session}).to_string());
    *plain.version_mut() = Version::HTTP_11;
    assert_eq!(world.send(plain).await.error().1, "INVALID_REQUEST");
    // Too much, of each kind.
    let long = "x".repeat(2 << 20);
    for verb in ["hello", "poll", "renew", "secret", "database", "drain", "leave"] {
        let reply = world.send(request(verb, "far", &key, long.clone())).await;
        assert_eq!(reply.error().1, "BODY_TOO_LARGE", "{verb}");
    }
    let reply = world.send(request("results", "far", &key, "x".repeat((16 << 20) + 1))).await;
    assert_eq!(reply.error().1, "BODY_TOO_LARGE");
    far_job(&world, "far", json!({"endpoint": "http://there/"})).await;
    world.trigger("far").await;
    let items = agent.poll(1, &json!([])).await;
    let reply = agent.output(&items[0], 0, [long.as_bytes(), b""]).await;
    assert_eq!(reply.error().1, "BODY_TOO_LARGE");
    // Two processes with one key: the first one gets an error.
    agent.hello(&hello(2)).await;
    assert_eq!(agent.call("hello", &hello(1)).await.error().1, "AGENT_REPLACED");
    assert_eq!(agent.call("renew", &json!({"session": agent.session})).await.status, 200);
}
