//! The user who requested a run: shown, recorded, and allowed to see and to stop it. On both
//! stores.

use domain::object::ObjectKind;
use query::Value as Cell;
use serde_json::{Value, json};
use server::sql::{Answer, Session, SqlError};
use server::{Actor, Key};

use crate::people::Person;
use crate::world::{World, until};

on_both_stores! {
    who_asks_for_a_run_sees_and_stops_it_and_no_other
    who_asked_is_shown_everywhere
    every_way_to_ask_for_a_run_is_audited
    an_end_is_audited_with_creator_attempt_and_rows
    a_chosen_id_tells_nothing_about_other_runs
    dead_letters_are_acknowledged_by_somebody
    who_tests_a_channel_is_recorded
    who_exports_jobs_is_recorded
    the_address_of_a_channel_is_sealed
}

/// A SQL session of the owner of a key.
async fn session(world: &World, key: &str) -> Session {
    let actor = world.app.authority.owner(&Key::parse(key).unwrap()).await.unwrap().unwrap();
    Session::new(world.app.clone(), Actor::from(actor))
}

async fn say(session: &mut Session, text: &str) -> Result<Answer, SqlError> {
    let parsed = session.parse(text).unwrap().remove(0);
    session.run(&parsed.statement, &[]).await
}

/// The rows of a question, with a bar between their cells.
async fn rows(session: &mut Session, text: &str) -> Vec<String> {
    let answer = say(session, text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let cell = |cell: &Cell| match cell {
        Cell::Null => "-".to_owned(),
        Cell::Text(text) => text.to_string(),
        Cell::Uuid(id) => id.to_string(),
        Cell::Int(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    answer.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn word(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} of {value}")).to_owned()
}

async fn trigger(world: &World, who: &Person, job: &str) -> String {
    let reply = world.ask(who, "POST", &format!("/v1/jobs/{job}/trigger"), Value::Null).await;
    assert_eq!(reply.status, 202, "{}", reply.text);
    word(&reply.json(), "execution_id")
}

/// Events of a type, oldest first, as far as `show` has words for them.
async fn events(world: &World, kind: &str, show: impl Fn(&Value) -> Value) -> Vec<Value> {
    let reply = world.get(&format!("/v1/audit?limit=500&event_type={kind}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.json()["data"].as_array().unwrap().iter().rev().map(show).collect()
}

async fn who_asks_for_a_run_sees_and_stops_it_and_no_other(world: &World) {
    world.job("later", "http://ok").await;
    let (ann, bob) = (
        world.person("default", "ann", &["EXECUTE JOB"]).await,
        world.person("default", "bob", &["EXECUTE JOB"]).await,
    );
    let time = json!({"scheduled_time": "2099-01-01T00:00:00Z"});
    let run =
        word(&world.post("/v1/jobs/later/trigger", time.clone()).await.json(), "execution_id");
    let of_admin = run;
    let later = async |who: &Person| {
        let run = world.ask(who, "POST", "/v1/jobs/later/trigger", time.clone()).await;
        word(&run.json(), "execution_id")
    };
    let (of_ann, of_bob) = (later(&ann).await, later(&bob).await);
    let get = async |path: String| world.ask(&ann, "GET", &path, Value::Null).await;
    for part in ["", "/attempts", "/logs", "/acknowledgements", "/parts"] {
        for (run, status) in [(&of_ann, 200), (&of_bob, 404), (&of_admin, 404)] {
            let reply = get(format!("/v1/executions/{run}{part}")).await;
            assert_eq!(reply.status, status, "{part} {}", reply.text);
        }
    }
    for path in ["/v1/executions", "/v1/executions?job=later", "/v1/jobs/later/executions?limit=1"]
    {
        let list = get(path.to_owned()).await.json();
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().collect();
        assert_eq!(ids.len(), 1, "{path}: {list}");
        assert_eq!(ids[0]["execution_id"], json!(of_ann));
    }
    let mut sql = session(world, &ann.key).await;
    for question in [
        "SELECT execution_uuid, requested_by FROM sys.job_runs".to_owned(),
        "SELECT execution_uuid, requested_by FROM sys.job_runs WHERE job_name = 'later'".to_owned(),
        format!(
            "SELECT execution_uuid, requested_by FROM sys.job_runs \
             WHERE execution_uuid IN ('{of_ann}', '{of_bob}', '{of_admin}')"
        ),
    ] {
        assert_eq!(rows(&mut sql, &question).await, [format!("{of_ann}|ann")], "{question}");
    }
    // Not those of others, in whichever way.
    for run in [&of_bob, &of_admin] {
        for deed in ["cancel", "retry"] {
            let path = format!("/v1/executions/{run}/{deed}");
            assert_eq!(world.ask(&ann, "POST", &path, Value::Null).await.status, 404, "{deed}");
        }
        let refused = say(&mut sql, &format!("CANCEL JOB RUN '{run}'")).await.unwrap_err();
        assert_eq!(refused.sqlstate(), "42704", "{refused:?}");
    }
    let path = format!("/v1/executions/{of_ann}/cancel");
    let cancelled = world.ask(&ann, "POST", &path, Value::Null).await;
    assert_eq!(cancelled.status, 202, "{}", cancelled.text);
    assert_eq!(world.ended(&of_ann).await["status"], "CANCELLED");
    let run = rows(&mut sql, "EXECUTE JOB later AT '2099-01-02T00:00:00Z'").await.remove(0);
    let run = run.split('|').next().unwrap().to_owned();
    say(&mut sql, &format!("CANCEL JOB RUN '{run}'")).await.unwrap();
    assert_eq!(world.ended(&run).await["status"], "CANCELLED");
    let question = "SELECT DISTINCT state FROM sys.job_runs";
    assert_eq!(rows(&mut sql, question).await, ["CANCELLED"]);
    // Without the privilege the runs are not theirs any more.
    let grants = world.get("/v1/grants?to_user=ann").await.json();
    let grant = word(&grants["data"][0], "grant_id");
    world.rule("default", "DELETE", &format!("/v1/grants/{grant}"), json!({})).await;
    assert_eq!(get(format!("/v1/executions/{of_ann}")).await.status, 404);
    assert_eq!(get("/v1/executions".to_owned()).await.json()["data"], json!([]));
    for run in [of_bob, of_admin] {
        let path = format!("/v1/executions/{run}/cancel");
        assert_eq!(world.call("POST", &path, &[], None).await.status, 202);
    }
}

async fn who_asked_is_shown_everywhere(world: &World) {
    world.job("j", "http://ok").await;
    let made = world.rule("default", "POST", "/v1/users", json!({"name": "ann"})).await;
    let id = word(&made, "user_id");
    for privilege in ["EXECUTE JOB", "VIEW JOB HISTORY"] {
        let grant = json!({"to_user": "ann", "privilege": privilege});
        world.rule("default", "POST", "/v1/grants", grant).await;
    }
    let key = world.rule("default", "POST", "/v1/keys", json!({"user": "ann"})).await;
    let ann = Person { tenant: "default".to_owned(), key: word(&key, "key") };
    let run = trigger(world, &ann, "j").await;
    world.ended(&run).await;
    let shown = world.get(&format!("/v1/executions/{run}")).await.json();
    assert_eq!(
        (word(&shown, "requested_by"), word(&shown, "requested_by_id")),
        ("ann".into(), id.clone())
    );
    let list = world.get("/v1/executions").await.json();
    assert_eq!(list["data"][0]["requested_by"], "ann");
    let mut sql = session(world, &ann.key).await;
    let question = "SELECT requested_by_user_uuid, requested_by FROM sys.job_runs";
    assert_eq!(rows(&mut sql, question).await, [format!("{id}|ann")]);
    // A deleted user is shown by id, and a run of the schedule has no user.
    world.rule("default", "DELETE", "/v1/users/ann", json!({})).await;
    let shown = world.get(&format!("/v1/executions/{run}")).await.json();
    assert_eq!(word(&shown, "requested_by"), id);
    let at = json!({
        "name": "once", "job_type": "ONE_TIME", "run_at": "2020-01-01T00:00:00Z",
        "catch_up": "ALL", "payload": {"type": "NOOP"},
    });
    assert_eq!(world.post("/v1/jobs", at).await.status, 201);
    let tick = until(|| async {
        let list = world.get("/v1/jobs/once/executions").await.json();
        list["data"].get(0).cloned()
    })
    .await;
    assert_eq!(tick.get("requested_by"), None, "{tick}");
}

async fn every_way_to_ask_for_a_run_is_audited(world: &World) {
    let job = json!({
        "name": "job", "job_type": "CRON", "cron_expression": "0 0 29 2 *",
        "payload": {"endpoint": "http://fail"}, "retry_config": {"max_attempts": 1},
    });
    assert_eq!(world.post("/v1/jobs", job).await.status, 201);
    let ann = world.person("default", "ann", &["EXECUTE JOB", "VIEW JOB HISTORY"]).await;
    let mut expected = Vec::new();
    let mut told = |run: String, origin: &str| {
        expected.push(json!(["ann", run, "REQUESTED", { "origin": origin }]));
    };
    let first = trigger(world, &ann, "job").await;
    world.ended(&first).await;
    told(first.clone(), "MANUAL");
    let mut sql = session(world, &ann.key).await;
    let run = rows(&mut sql, "EXECUTE JOB job").await.remove(0);
    let run = run.split('|').next().unwrap().to_owned();
    world.ended(&run).await;
    told(run.clone(), "MANUAL");
    let retried = rows(&mut sql, &format!("RETRY JOB RUN '{run}'")).await.remove(0);
    world.ended(&retried).await;
    told(retried.clone(), "MANUAL");
    let ids = json!({"execution_ids": [first]});
    let redriven = world.ask(&ann, "POST", "/v1/dead-letters:redrive", ids).await.json();
    let redriven = word(&redriven["data"][0], "new_execution_id");
    world.ended(&redriven).await;
    told(redriven, "MANUAL");
    let path = format!("/v1/executions/{retried}/retry");
    let again = world.ask(&ann, "POST", &path, Value::Null).await.json();
    let again = word(&again, "execution_id");
    world.ended(&again).await;
    told(again, "MANUAL");
    let range = json!({"from": "2020-01-01T00:00:00Z", "until": "2020-12-31T00:00:00Z"});
    let filled = world.ask(&ann, "POST", "/v1/jobs/job/backfill", range).await;
    assert_eq!((filled.status, filled.json()["count"].clone()), (202, json!(1)));
    let list = world.get("/v1/executions?origin=BACKFILL").await.json();
    told(word(&list["data"][0], "execution_id"), "BACKFILL");
    let show = |event: &Value| {
        let details: Value = serde_json::from_str(event["details"].as_str().unwrap()).unwrap();
        json!([event["actor"], event["execution_id"], event["outcome"], details])
    };
    assert_eq!(events(world, "JOB_TRIGGERED", show).await, expected);
    let by_ann = world.get("/v1/audit?actor=ann&job=job&event_type=JOB_TRIGGERED").await.json();
    assert_eq!(by_ann["data"].as_array().unwrap().len(), expected.len());
    let mut sql = session(world, &world.key).await;
    let question = "SELECT actor, job_run_uuid, outcome FROM sys.audit \
                    WHERE event_type = 'JOB_TRIGGERED' AND actor = 'ann'";
    assert_eq!(rows(&mut sql, question).await.len(), expected.len());
    // Nothing is recorded for a dry run.
    let dry = json!({
        "from": "2016-01-01T00:00:00Z", "until": "2016-12-31T00:00:00Z", "dry_run": true,
    });
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs/job/backfill", dry).await.status, 200);
    assert_eq!(events(world, "JOB_TRIGGERED", show).await.len(), expected.len());
    let found = until(|| async {
        let found = world.post("/v1/audit:verify", json!({})).await.json();
        (found["rows"].as_u64() > Some(10)).then_some(found)
    })
    .await;
    assert_eq!(found["valid"], true, "{found}");
}

async fn an_end_is_audited_with_creator_attempt_and_rows(world: &World) {
    let ann = world.person("default", "ann", &["CREATE JOB", "EXECUTE JOB", "DROP JOB"]).await;
    let user = word(&world.get("/v1/users/ann").await.json(), "user_id");
    let job = json!({
        "name": "held", "job_type": "MANUAL", "payload": {"type": "NOOP"},
    });
    assert_eq!(world.ask(&ann, "POST", "/v1/jobs", job).await.status, 201);
    let run = trigger(world, &ann, "held").await;
    let result = domain::run::AttemptResult {
        rows_affected: Some(7),
        ..domain::run::AttemptResult::completed()
    };
    world.finish("held", result).await;
    world.ended(&run).await;
    assert_eq!(world.ask(&ann, "DELETE", "/v1/jobs/held", Value::Null).await.status, 204);
    let show = |event: &Value| {
        assert!(event["started_at"].is_string(), "{event}");
        let fields = ["execution_id", "job_creator_id", "attempt", "rows_affected", "outcome"];
        Value::Array(fields.iter().map(|field| event[*field].clone()).collect())
    };
    let found = events(world, "JOB_EXECUTED", show).await;
    assert_eq!(found, [json!([run, user, 1, 7, "COMPLETED"])]);
    let mut sql = session(world, &world.key).await;
    let question = "SELECT job_run_uuid, job_creator_uuid, attempt, rows_affected FROM sys.audit \
                    WHERE event_type = 'JOB_EXECUTED' AND started_at IS NOT NULL";
    assert_eq!(rows(&mut sql, question).await, [format!("{run}|{user}|1|7")]);
    for kind in ["JOB_CREATED", "JOB_DELETED", "JOB_TRIGGERED"] {
        let creators = events(world, kind, |event| event["job_creator_id"].clone()).await;
        assert_eq!(creators, [json!(user)], "{kind}");
    }
}

async fn a_chosen_id_tells_nothing_about_other_runs(world: &World) {
    world.tenant("acme").await;
    let ann = world.person("acme", "ann", &["CREATE JOB", "EXECUTE JOB"]).await;
    for name in ["j", "k"] {
        let job = json!({"name": name, "job_type": "MANUAL", "payload": {"type": "NOOP"}});
        assert_eq!(world.ask(&ann, "POST", "/v1/jobs", job).await.status, 201);
    }
    world.job("theirs", "http://ok").await;
    let chosen = "01a3185c-5000-7922-a380-df8657358dd5";
    let named = world.post("/v1/jobs/theirs/trigger", json!({"execution_id": chosen})).await.json();
    let (theirs, plain) = (word(&named, "execution_id"), world.trigger("theirs").await);
    // An id that another user chose, one that exists, and an unknown one: the answers are alike.
    let unknown = "01a3185c-5000-7922-a380-df8657358dd6";
    let mut ids = Vec::new();
    for job in ["j", "k"] {
        for id in [chosen, theirs.as_str(), plain.as_str(), unknown] {
            let path = format!("/v1/jobs/{job}/trigger");
            let body = json!({"execution_id": id});
            let reply = world.ask(&ann, "POST", &path, body.clone()).await;
            assert_eq!(reply.status, 202, "{}", reply.text);
            let run = word(&reply.json(), "execution_id");
            assert_eq!(reply.header("location"), format!("/v1/executions/{run}"));
            // Sent again later, it is the same run.
            world.go_on(jiff::SignedDuration::from_millis(20));
            let again = world.ask(&ann, "POST", &path, body).await;
            assert_eq!((again.status, &again.text), (202, &reply.text));
            let shown = world.ask(&ann, "GET", &format!("/v1/executions/{run}"), Value::Null).await;
            assert_eq!(shown.status, 200);
            ids.push(run);
        }
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8, "each is a run of its own");
    for id in [chosen, &theirs, &plain, unknown] {
        assert!(!ids.contains(&id.to_owned()));
        let path = format!("/v1/executions/{id}");
        assert_eq!(world.ask(&ann, "GET", &path, Value::Null).await.status, 404);
    }
    let list = world.get("/v1/executions?job=theirs").await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 2, "{list}");
}

async fn dead_letters_are_acknowledged_by_somebody(world: &World) {
    world.job("bad", "http://fail").await;
    let ann = world.person("default", "ann", &["EXECUTE JOB", "VIEW JOB HISTORY"]).await;
    let run = world.trigger("bad").await;
    world.ended(&run).await;
    let unknown = "01a3185c-5000-7922-a380-df8657358dd5";
    let ids = json!({"execution_ids": [unknown, run]});
    let done = world.ask(&ann, "POST", "/v1/dead-letters:acknowledge", ids).await.json();
    assert_eq!(done["data"][1]["ok"], true, "{done}");
    let show = |event: &Value| json!([event["actor"], event["execution_id"], event["outcome"]]);
    let found = events(world, "DEAD_LETTER_ACKNOWLEDGED", show).await;
    assert_eq!(found, [json!(["ann", run, "REQUESTED"])]);
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn who_tests_a_channel_is_recorded(world: &World) {
    let ann = world.person("default", "ann", &["ADMINISTER TENANT"]).await;
    let body = json!({"name": "ops", "url": "https://hooks.example.com/a", "secret": SECRET});
    assert_eq!(world.post("/v1/alert-channels", body).await.status, 201);
    let tested = world.ask(&ann, "POST", "/v1/alert-channels/ops/test", Value::Null).await;
    assert_eq!((tested.status, tested.json()["ok"].clone()), (200, json!(true)));
    let show = |event: &Value| json!([event["actor"], event["outcome"], event["details"]]);
    let row = json!(["ann", "REQUESTED", r#"{"alert channel":"ops"}"#]);
    assert_eq!(events(world, "TESTED", show).await, [row]);
}

async fn who_exports_jobs_is_recorded(world: &World) {
    for name in ["a", "b", "c"] {
        world.job(name, "http://ok").await;
    }
    let ann = world.person("default", "ann", &["VIEW JOB HISTORY"]).await;
    let get = async |path: &str| world.ask(&ann, "GET", path, Value::Null).await;
    let first = get("/v1/jobs?purpose=export&limit=2&name_prefix=").await;
    assert_eq!(first.status, 200, "{}", first.text);
    let cursor = word(&first.json(), "next_cursor");
    let rest = get(&format!("/v1/jobs?purpose=export&limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["data"].as_array().unwrap().len(), 1);
    for path in ["/v1/jobs", "/v1/jobs?purpose=list"] {
        assert_eq!(get(path).await.status, 200);
    }
    assert_eq!(get("/v1/jobs?purpose=theft").await.error().2, "purpose");
    let show = |event: &Value| json!([event["actor"], event["outcome"], event["details"]]);
    let row = json!(["ann", "REQUESTED", r#"{"filter":{"name_prefix":""}}"#]);
    assert_eq!(events(world, "JOBS_EXPORTED", show).await, [row], "once for all pages");
}

async fn the_address_of_a_channel_is_sealed(world: &World) {
    let url = "https://hooks.example.com/services/geheim?key=geheim";
    let shown = "https://hooks.example.com/***";
    let body = json!({"name": "ops", "url": url, "secret": SECRET});
    let made = world.post("/v1/alert-channels", body).await;
    assert_eq!((made.status, made.json()["url"].clone()), (201, json!(shown)), "{}", made.text);
    let kept = async || {
        let node = world.engine.node();
        let tenant = domain::id::TenantId::DEFAULT;
        let found = node.object_by_name(tenant, ObjectKind::AlertChannel, "ops").await;
        found.unwrap().unwrap().body
    };
    let before = kept().await;
    assert!(!before.contains("geheim"), "{before}");
    let sealed = |body: &str| word(&serde_json::from_str(body).unwrap(), "sealed_url");
    // A PUT or PATCH of the response keeps the address.
    let put = world.call("PUT", "/v1/alert-channels/ops", &[], Some(made.json())).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let patch = json!({"enabled": false});
    let patched = world.call("PATCH", "/v1/alert-channels/ops", &[], Some(patch)).await;
    assert_eq!(patched.json()["url"], shown);
    assert_eq!(sealed(&kept().await), sealed(&before));
    // Another one replaces it; one that is hidden means no other.
    let patch = json!({"url": "https://hooks.example.com/services/other"});
    let patched = world.call("PATCH", "/v1/alert-channels/ops", &[], Some(patch)).await;
    assert_eq!((patched.status, patched.json()["url"].clone()), (200, json!(shown)));
    assert_ne!(sealed(&kept().await), sealed(&before));
    for wrong in ["https://evil.example.com/***", "***"] {
        let patch = json!({"url": wrong, "secret": SECRET});
        let refused = world.call("PATCH", "/v1/alert-channels/ops", &[], Some(patch)).await;
        assert_eq!(refused.error(), (422, "VALIDATION_FAILED".into(), "url".into()));
    }
    let hidden = json!({"name": "new", "url": shown, "secret": SECRET});
    assert_eq!(world.post("/v1/alert-channels", hidden).await.error().2, "url");
    let list = world.get("/v1/alert-channels").await.text;
    let audit = world.get("/v1/audit?limit=500").await.text;
    for text in [&list, &audit, &kept().await] {
        assert!(!text.contains("geheim") && !text.contains("services"), "{text}");
    }
    assert_eq!(world.get("/v1/secrets").await.json()["data"], json!([]));
}

/// A trigger that cannot be recorded does not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_runs_unrecorded() {
    let world = World::now().await;
    world.job("j", "http://ok").await;
    world.rename_table("audit", "audit_gone");
    let refused = world.call("POST", "/v1/jobs/j/trigger", &[], None).await;
    assert!(refused.status >= 500, "{}", refused.text);
    world.rename_table("audit_gone", "audit");
    assert_eq!(world.get("/v1/executions").await.json()["data"], json!([]));
    let run = world.trigger("j").await;
    assert_eq!(world.ended(&run).await["status"], "COMPLETED");
}
