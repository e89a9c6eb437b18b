//! Operations on many resources at once: batches of jobs and executions, outputs of any size,
//! simulations of schedule changes, preferences and public status pages.

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::{Reply, World, until};

const START: &str = "2024-01-15T10:30:00Z";

fn names(items: &Value, ok: bool) -> Vec<&str> {
    let items = items["items"].as_array().unwrap().iter();
    items.filter(|it| it["ok"] == ok).map(|it| it["name"].as_str().unwrap()).collect()
}

async fn tagged(world: &World, name: &str, tags: &[&str], more: Value) -> String {
    let mut job = json!({
        "name": name, "job_type": "CRON", "cron_expression": "0 0 * * *", "tags": tags,
        "payload": {"endpoint": "http://ok"},
    });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = world.post("/v1/jobs", job).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.json()["job_id"].as_str().unwrap().to_owned()
}

async fn batch(world: &World, body: Value) -> Reply {
    world.post("/v1/jobs:batch", body).await
}

async fn a_batch_does_what_its_dry_run_has_counted(world: &World) {
    for name in ["a", "b", "c"] {
        tagged(world, name, &["etl"], json!({})).await;
    }
    tagged(world, "other", &[], json!({})).await;
    world.post("/v1/jobs/c/pause", json!({})).await;
    let filter = json!({"tag": "etl"});
    let dry = batch(world, json!({"action": "PAUSE", "filter": filter, "dry_run": true})).await;
    assert_eq!(dry.status, 200, "{}", dry.text);
    let dry = dry.json();
    assert_eq!(
        (&dry["matched"], &dry["done"], &dry["dry_run"]),
        (&json!(3), &json!(2), &json!(true))
    );
    assert_eq!(names(&dry, false), ["c"]);
    let status =
        async |name: &str| world.get(&format!("/v1/jobs/{name}")).await.json()["status"].clone();
    assert_eq!(status("a").await, "ACTIVE");
    // Another number than the dry run has found: nothing is done.
    tagged(world, "d", &["etl"], json!({})).await;
    let late =
        batch(world, json!({"action": "PAUSE", "filter": filter, "expected_count": 3})).await;
    assert_eq!(late.error(), (409, "WRONG_STATE".to_owned(), "expected_count".to_owned()));
    assert_eq!(status("a").await, "ACTIVE");
    let done =
        batch(world, json!({"action": "PAUSE", "filter": filter, "expected_count": 4})).await;
    assert_eq!(names(&done.json(), true), ["a", "b", "d"]);
    for (name, expected) in [("a", "PAUSED"), ("b", "PAUSED"), ("d", "PAUSED"), ("other", "ACTIVE")]
    {
        assert_eq!(status(name).await, expected, "{name}");
    }
    let resumed =
        batch(world, json!({"action": "RESUME", "job_ids": ["a", "b", "a"]})).await.json();
    assert_eq!((&resumed["matched"], names(&resumed, true)), (&json!(2), vec!["a", "b"]));
    let tagged =
        batch(world, json!({"action": "TAG", "tag": "night", "job_ids": ["a", "b"]})).await;
    assert_eq!(tagged.json()["done"], 2);
    let again =
        batch(world, json!({"action": "TAG", "tag": "night", "job_ids": ["a"]})).await.json();
    assert_eq!(again["items"][0]["message"], "it has the tag already");
    assert_eq!(
        batch(world, json!({"action": "UNTAG", "tag": "night", "job_ids": ["a"]})).await.json()["done"],
        1
    );
    assert_eq!(world.get("/v1/jobs/a").await.json()["tags"], json!(["etl"]));
    let started =
        batch(world, json!({"action": "TRIGGER", "filter": {"tag": "night"}, "expected_count": 1}))
            .await
            .json();
    world.ended(started["items"][0]["execution_id"].as_str().unwrap()).await;
    let gone = batch(world, json!({"action": "DELETE", "job_ids": ["d"]})).await.json();
    assert_eq!(gone["done"], 1, "{gone}");
    assert_eq!(world.get("/v1/jobs/d").await.status, 404);
}

async fn a_patch_of_many_jobs_is_taken_back_at_once(world: &World) {
    for name in ["a", "b"] {
        tagged(world, name, &["etl"], json!({})).await;
    }
    let body = json!({"action": "PATCH", "patch": {"jitter_seconds": 600}, "job_ids": ["a", "b"]});
    let done = batch(world, body).await.json();
    let item = |it: &Value| (it["previous_version"].clone(), it["version"].clone());
    assert_eq!(item(&done["items"][0]), (json!(1), json!(2)), "{done}");
    assert_eq!(world.get("/v1/jobs/b").await.json()["jitter_seconds"], 600);
    // One of them was changed meanwhile: its change is not lost.
    world.call("PATCH", "/v1/jobs/b", &[], Some(json!({"priority": 7}))).await;
    let back: Vec<Value> = done["items"].as_array().unwrap().iter().map(|it| {
        json!({"job_id": it["job_id"], "version": it["previous_version"], "expected_version": it["version"]})
    }).collect();
    let undone = batch(world, json!({"action": "RESTORE", "versions": back})).await.json();
    assert_eq!((names(&undone, true), names(&undone, false)), (vec!["a"], vec!["b"]), "{undone}");
    assert!(world.get("/v1/jobs/a").await.json()["jitter_seconds"].as_u64().unwrap_or(0) == 0);
    assert_eq!(world.get("/v1/jobs/b").await.json()["jitter_seconds"], 600);
}

#[tokio::test]
async fn a_batch_never_means_more_than_it_says() {
    let world = World::at(START).await;
    tagged(&world, "a", &[], json!({})).await;
    for (body, field) in [
        (json!({"action": "PAUSE"}), "filter"),
        (json!({"action": "PAUSE", "filter": {}, "dry_run": true}), "filter"),
        (json!({"action": "PAUSE", "filter": {"q": ""}, "dry_run": true}), "filter"),
        (json!({"action": "PAUSE", "filter": {"tag": "x"}}), "expected_count"),
        (json!({"action": "PAUSE", "filter": {"status": "FOO"}, "dry_run": true}), "status"),
        (json!({"action": "PAUSE", "job_ids": []}), "job_ids"),
        (json!({"action": "PAUSE", "job_ids": ["a"], "filter": {"tag": "x"}}), "filter"),
        (json!({"action": "TAG", "job_ids": ["a"]}), "tag"),
        (json!({"action": "PAUSE", "job_ids": ["a"], "tag": "x"}), "tag"),
        (json!({"action": "PATCH", "job_ids": ["a"]}), "patch"),
        (json!({"action": "PATCH", "job_ids": ["a"], "patch": {"name": "b"}}), "patch.name"),
        (json!({"action": "RESTORE", "job_ids": ["a"]}), "versions"),
    ] {
        let reply = batch(&world, body.clone()).await;
        assert!(matches!(reply.status, 400 | 422), "{body}: {}", reply.text);
        assert_eq!(reply.error().2, field, "{body}");
    }
    let absent = batch(&world, json!({"action": "PAUSE", "job_ids": ["a", "absent"]})).await;
    assert_eq!(absent.status, 404, "{}", absent.text);
    assert_eq!(world.get("/v1/jobs/a").await.json()["status"], "ACTIVE");
    for body in
        [json!({"action": "CANCEL"}), json!({"action": "CANCEL", "filter": {}, "dry_run": true})]
    {
        assert_eq!(world.post("/v1/executions:batch", body).await.error().2, "filter");
    }
    let unguarded = json!({"action": "CANCEL", "filter": {"status": "RUNNING"}});
    assert_eq!(world.post("/v1/executions:batch", unguarded).await.error().2, "expected_count");
}

async fn executions_are_cancelled_and_retried_together(world: &World) {
    world.job("held-1", "http://held").await;
    world.job("held-2", "http://held").await;
    world.job("bad", "http://fail").await;
    let running = [world.trigger("held-1").await, world.trigger("held-2").await];
    for job in ["held-1", "held-2"] {
        world.begun(job).await;
    }
    let mut failed = Vec::new();
    for _ in 0..2 {
        let run = world.trigger("bad").await;
        world.ended(&run).await;
        failed.push(run);
    }
    let body = json!({"action": "CANCEL", "filter": {"status": "RUNNING"}, "dry_run": true});
    let dry = until(|| async {
        let dry = world.post("/v1/executions:batch", body.clone()).await.json();
        (dry["matched"] == 2).then_some(dry)
    })
    .await;
    assert_eq!(dry["done"], 2, "{dry}");
    let wrong = json!({"action": "CANCEL", "filter": {"status": "RUNNING"}, "expected_count": 5});
    assert_eq!(world.post("/v1/executions:batch", wrong).await.status, 409);
    let body = json!({"action": "CANCEL", "filter": {"status": "RUNNING"}, "expected_count": 2, "reason": "incident 7"});
    let done = world.post("/v1/executions:batch", body).await.json();
    assert_eq!(done["done"], 2, "{done}");
    for run in &running {
        assert_eq!(world.ended(run).await["status"], "CANCELLED");
    }
    // Those that failed, by default; each becomes a new execution.
    let body = json!({"action": "RETRY", "filter": {"job": "bad"}, "expected_count": 2});
    let again = world.post("/v1/executions:batch", body).await.json();
    assert_eq!(again["done"], 2, "{again}");
    for item in again["items"].as_array().unwrap() {
        assert!(failed.contains(&item["execution_id"].as_str().unwrap().to_owned()));
        world.ended(item["new_execution_id"].as_str().unwrap()).await;
    }
    let ended = json!({"action": "CANCEL", "execution_ids": [failed[0]], "dry_run": true});
    let refused = world.post("/v1/executions:batch", ended).await.json();
    assert_eq!(refused["items"][0]["message"], "it has ended already");
}

async fn preferences_are_their_users_own(world: &World) {
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &[]).await;
    let bob = world.person("acme", "bob", &["ADMINISTER TENANT"]).await;
    let path = "/v1/whoami/preferences";
    let get = async |person| world.ask(person, "GET", path, Value::Null).await.json();
    assert_eq!(get(&ann).await, json!({"values": {}, "version": 0}));
    let views =
        json!({"values": {"views": [{"name": "mine", "page": "jobs", "query": "last=FAILED"}]}});
    let put = world.ask(&ann, "PUT", path, views.clone()).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert_eq!(get(&ann).await["values"], views["values"]);
    assert_eq!(get(&bob).await, json!({"values": {}, "version": 0}));
    let big = json!({"values": {"x": "y".repeat(17 << 10)}});
    assert_eq!(world.ask(&ann, "PUT", path, big).await.error().2, "values");
    // A tab that knows an older version loses nothing of the newer one.
    let old = [("if-match", "\"7\"")];
    let request = crate::people::request(Some(&ann.key), "PUT", path, &old, Some(views));
    assert_eq!(world.send(request).await.status, 412);
    assert_eq!(get(&ann).await["version"], 1);
}

on_both_stores! {
    a_batch_does_what_its_dry_run_has_counted
    a_patch_of_many_jobs_is_taken_back_at_once
    executions_are_cancelled_and_retried_together
    preferences_are_their_users_own
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_output_is_indexed_and_searched() {
    let world = World::now().await;
    world.job("j", "http://long").await;
    let id = world.trigger("j").await;
    world.ended(&id).await;
    let path = format!("/v1/executions/{id}/logs");
    let whole = world.get(&path).await.text;
    let index = world.get(&format!("{path}/index")).await.json();
    assert_eq!((&index["lines"], &index["is_final"]), (&json!(60_000), &json!(true)), "{index}");
    assert_eq!(index["total"].as_u64().unwrap() as usize, whole.len());
    assert_eq!((&index["next_from"], &index["cuts"]), (&Value::Null, &json!([])));
    // Every mark is the begin of its line.
    let marks = index["marks"].as_array().unwrap();
    assert!(marks.len() >= 60, "{}", marks.len());
    for mark in marks {
        let at = mark["position"].as_u64().unwrap() as usize;
        let line = mark["line"].as_u64().unwrap();
        let expected =
            if line == 40_000 { "\u{1b}[31m".to_owned() } else { format!("line {line:06}") };
        assert!(whole[at..].starts_with(&expected), "{mark}");
    }
    let hits = world.get(&format!("{path}/search?q=THE+NEEDLE+OF")).await.json();
    assert_eq!(hits["hits"].as_array().unwrap().len(), 1, "{hits}");
    let hit = &hits["hits"][0];
    assert_eq!((&hit["line"], &hit["text"]), (&json!(40_000), &json!("the needle of line 40000")));
    assert!(
        whole[hit["position"].as_u64().unwrap() as usize..].starts_with("\u{1b}[31mthe needle")
    );
    // In steps: each begins where the last one ended.
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = world
            .get(&format!("{path}/search?q=line+0[0-9]%7B4%7D7&regex=true&limit=900{next}"))
            .await
            .json();
        seen.extend(
            page["hits"].as_array().unwrap().iter().map(|hit| hit["line"].as_u64().unwrap()),
        );
        let Some(from) = page["next_from"].as_u64() else { break };
        next = format!("&from={from}&line={}", page["next_line"]);
    }
    assert_eq!(seen, (0..6_000).map(|n| n * 10 + 7).collect::<Vec<u64>>());
    for (query, field) in
        [("q=", "q"), ("q=(&regex=true", "q"), ("q=x&limit=0", "limit"), ("q=x&from=10", "line")]
    {
        let reply = world.get(&format!("{path}/search?{query}")).await;
        assert_eq!((reply.status, reply.error().2.as_str()), (400, field), "{query}");
    }
    let nothing = world.get(&format!("{path}/index?attempt=7")).await.json();
    assert_eq!((&nothing["lines"], &nothing["marks"]), (&json!(0), &json!([])));
}

async fn simulated(world: &World, body: Value) -> Value {
    until(|| async {
        let reply = world.post("/v1/schedule:simulate", body.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        Some(reply.json()).filter(|it| !it["computed_at"].is_null())
    })
    .await
}

#[tokio::test]
async fn a_busy_minute_is_flattened_as_the_preview_says() {
    let world = World::at(START).await;
    for n in 0..40 {
        tagged(&world, &format!("herd-{n:02}"), &[], json!({})).await;
    }
    tagged(&world, "urgent", &[], json!({"priority": 9})).await;
    tagged(&world, "cutoff", &[], json!({"start_deadline_seconds": 30})).await;
    tagged(&world, "noon", &[], json!({"cron_expression": "0 12 * * *"})).await;
    let midnight = "2024-01-16T00:00:00Z";
    let flatten =
        |jobs: Value| json!({"flatten": {"at": midnight, "jitter_seconds": 1200, "job_ids": jobs}});
    let plan = simulated(&world, flatten(Value::Null)).await;
    assert_eq!(plan["peak_before"], json!({"at": midnight, "starts": 42}), "{plan}");
    let after = plan["peak_after"]["starts"].as_u64().unwrap();
    assert!((2..20).contains(&after), "{after}");
    let jobs = plan["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 42);
    let left: Vec<(&str, &str)> = jobs
        .iter()
        .filter(|it| it["is_chosen"] == false)
        .map(|it| (it["name"].as_str().unwrap(), it["reason"].as_str().unwrap()))
        .collect();
    assert_eq!(left, [("cutoff", "it must start within 30 s"), ("urgent", "priority 9")]);
    let starts = |field: &str| -> u64 {
        plan["minutes"].as_array().unwrap().iter().map(|it| it[field].as_u64().unwrap()).sum()
    };
    assert_eq!((starts("before"), starts("after")), (42, 42));
    // The changes that were shown are applied.
    let ids: Vec<&Value> =
        jobs.iter().filter(|it| it["is_chosen"] == true).map(|it| &it["job_id"]).collect();
    let patch = json!({"action": "PATCH", "job_ids": ids, "patch": {"jitter_seconds": 1200}, "expected_count": 40});
    assert_eq!(batch(&world, patch).await.json()["done"], 40);
    world.go_on(SignedDuration::from_secs(3));
    let peak = until(|| async {
        let list = world.get("/v1/schedule?from=2024-01-16T00:00:00Z&minutes=60").await.json();
        let most = list["minutes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["starts"].as_u64().unwrap())
            .max();
        most.filter(|most| *most < 42)
    })
    .await;
    assert_eq!(peak, after);
    let wrong = world.post("/v1/schedule:simulate", json!({})).await;
    assert_eq!(wrong.error().2, "changes");
}

#[tokio::test]
async fn a_changed_schedule_is_tried_with_measured_durations() {
    let world = World::at(START).await;
    tagged(&world, "sync", &[], json!({"cron_expression": "0 * * * *"})).await;
    let body = |cron: &str| {
        json!({
            "changes": [{"job": "sync", "patch": {"cron_expression": cron}}], "minutes": 240,
        })
    };
    let plan = simulated(&world, body("*/30 * * * *")).await;
    let starts = |field: &str| -> u64 {
        plan["minutes"].as_array().unwrap().iter().map(|it| it[field].as_u64().unwrap()).sum()
    };
    assert_eq!((starts("before"), starts("after")), (4, 7), "{plan}");
    let wrong = world.post("/v1/schedule:simulate", body("61 * * * *")).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
    assert!(wrong.error().2.starts_with("changes[0].patch"), "{}", wrong.text);
}

/// Contents of a page without a key.
#[tokio::test]
async fn a_public_status_page_shows_its_tags_and_nothing_else() {
    let world = World::at(START).await;
    world.job("plain", "http://ok").await;
    let evil = "<img src=x onerror=alert(1)>";
    tagged(&world, evil, &["public"], json!({"description": "the secret plan"})).await;
    tagged(
        &world,
        "hidden",
        &["internal"],
        json!({"payload": {"endpoint": "http://fail"}, "retry_config": {"max_attempts": 1}}),
    )
    .await;
    for job in ["plain", "hidden"] {
        let run = world.trigger(job).await;
        world.ended(&run).await;
    }
    let show = async |path: &str| {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        world.send(request).await
    };
    let nothing = show("/ui/status/ops").await;
    assert_eq!(nothing.status, 404);
    let page = json!({"name": "ops", "title": "Operations", "tags": ["public"]});
    let made = world.post("/v1/status-pages", page).await;
    assert_eq!((made.status, &made.json()["is_public"]), (201, &json!(false)), "{}", made.text);
    assert_eq!(made.json()["path"], "/ui/status/ops");
    // It is not public yet: word for word what does not exist.
    let closed = show("/ui/status/ops").await;
    assert_eq!((closed.status, &closed.text), (404, &nothing.text));
    world.call("PATCH", "/v1/status-pages/ops", &[], Some(json!({"is_public": true}))).await;
    let open = show("/ui/status/ops").await;
    assert_eq!(open.status, 200, "{}", open.text);
    assert!(open.header("content-security-policy").contains("default-src 'none'"));
    assert!(
        open.text.contains("Operations") && open.text.contains("&lt;img src=x"),
        "{}",
        open.text
    );
    for leak in ["hidden", "plain", "internal", "secret plan", "http://", "<img", "admin", "job_id"]
    {
        assert!(!open.text.contains(leak), "{leak}: {}", open.text);
    }
    world.call("PATCH", "/v1/status-pages/ops", &[], Some(json!({"is_public": false}))).await;
    assert_eq!(show("/ui/status/ops").await.status, 404);
    // Another tenant's page has the tenant in its address, and the name alone does not lead there.
    world.tenant("acme").await;
    let page = json!({"name": "theirs", "title": "Acme", "tags": ["public"], "is_public": true});
    let made = world.rule("acme", "POST", "/v1/status-pages", page).await;
    assert_eq!(made["path"], "/ui/status/acme/theirs");
    world.go_on(SignedDuration::from_secs(20));
    assert_eq!(show("/ui/status/theirs").await.status, 404);
    let theirs = show("/ui/status/acme/theirs").await;
    assert_eq!(theirs.status, 200, "{}", theirs.text);
    assert!(!theirs.text.contains("img"), "{}", theirs.text);
    for (body, field) in [
        (json!({"name": "x", "title": "X", "tags": []}), "tags"),
        (json!({"name": "x", "title": " ", "tags": ["a"]}), "title"),
        (json!({"name": "../x", "title": "X", "tags": ["a"]}), "name"),
    ] {
        assert_eq!(world.post("/v1/status-pages", body).await.error().2, field);
    }
}
