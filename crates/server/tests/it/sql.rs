//! Sessions of SQL over a real store: scripts in `tests/data/sql`, and what they answer beside them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use domain::access;
use query::{Kind, Row, Value};
use serde_json::json;
use server::sql::{Answer, Session, SqlError};
use server::{Actor, Key};

use crate::world::World;

#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN=1 writes the file anew")]
fn wants_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// A value as a script shows it; ids differ from run to run.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Time(time) => time.to_string(),
        Value::Uuid(_) => "UUID".to_owned(),
        Value::Bytes(bytes) => format!("{bytes:?}"),
    }
}

fn told(answer: Result<Answer, SqlError>, offset: usize) -> String {
    let mut out = String::new();
    match answer {
        Ok(answer) => {
            let columns: Vec<&str> = answer.columns.iter().map(|it| it.name.as_str()).collect();
            if !columns.is_empty() {
                writeln!(out, "  {}", columns.join(" | ")).unwrap();
            }
            let row = |row: &Row| row.iter().map(shown).collect::<Vec<_>>().join(" | ");
            for line in answer.rows.iter().map(row) {
                writeln!(out, "  {}", line.replace('\n', "\n  ")).unwrap();
            }
            for notice in &answer.notices {
                writeln!(out, "  notice: {notice}").unwrap();
            }
            writeln!(out, "  {}", answer.tag).unwrap();
        }
        Err(error) => {
            let at = error.at.map(|at| format!(" at {}", at - offset)).unwrap_or_default();
            let (state, text) = (error.sqlstate(), &error.problem.message);
            writeln!(out, "  error {state}{at}: {text}").unwrap();
            if let Some(hint) = &error.hint {
                writeln!(out, "    hint: {hint}").unwrap();
            }
        }
    }
    out
}

/// Ids differ from run to run.
fn without_ids(text: &str) -> String {
    let is_id = |word: &str| {
        let word = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
        word.len() == 36 && !word.starts_with("018f2b2e") && uuid::Uuid::parse_str(word).is_ok()
    };
    let word = |word: &str| if is_id(word) { "UUID".to_owned() } else { word.to_owned() };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Runs a script: a line `@ who` says in whose session the statements after it are run.
async fn script(world: &World, name: &str, people: &BTreeMap<&str, access::Actor>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sql");
    let text = std::fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap();
    let mut sessions: BTreeMap<&str, Session> = BTreeMap::new();
    let mut out = String::new();
    for part in text.split("@ ").skip(1) {
        let (who, text) = part.split_once('\n').unwrap();
        let session = sessions
            .entry(who)
            .or_insert_with(|| Session::new(world.app.clone(), Actor::from(people[who].clone())));
        writeln!(out, "@ {who}").unwrap();
        for parsed in session.parse(text).unwrap() {
            writeln!(out, "{};", &text[parsed.place.clone()]).unwrap();
            let described = session.describe(&parsed.statement).await;
            let answer = session.run(&parsed.statement, &[]).await;
            // The described columns are those of the answer.
            if let (Ok(described), Ok(answer)) = (described, &answer) {
                assert_eq!(described.columns, answer.columns, "{}", &text[parsed.place.clone()]);
            }
            out.push_str(&without_ids(&told(answer, parsed.place.start)));
        }
        out.push('\n');
    }
    let path = folder.join(format!("{name}.golden"));
    if wants_update() {
        std::fs::write(&path, &out).unwrap();
    }
    let file = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(file == out, "run the test with UPDATE_GOLDEN=1 and look at the diff of {path:?}");
}

async fn actor_of(world: &World, key: &str) -> access::Actor {
    world.app.authority.owner(&Key::parse(key).unwrap()).await.unwrap().unwrap()
}

fn admin() -> BTreeMap<&'static str, access::Actor> {
    BTreeMap::from([("admin", access::Actor::admin())])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs() {
    script(&World::at("2024-01-15T10:30:00Z").await, "jobs", &admin()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs() {
    script(&World::at("2024-01-15T10:30:00Z").await, "runs", &admin()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions() {
    script(&World::at("2024-01-15T10:30:00Z").await, "session", &admin()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.tenant("other").await;
    script(&world, "transactions", &admin()).await;
}

/// A block holds a hundred changes and no more, and its author needs the privileges for each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_is_limited_and_authorised() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let bob = world.person("default", "bob", &["CREATE JOB"]).await;
    let bob = Actor::from(actor_of(&world, &bob.key).await);
    let mut session = Session::new(world.app.clone(), Actor::from(access::Actor::admin()));
    let run = async |session: &mut Session, text: &str| {
        let mut states = Vec::new();
        for parsed in session.parse(text).unwrap() {
            let done = session.run(&parsed.statement, &[]).await;
            states.push(done.map_or_else(|error| error.sqlstate(), |_| "done"));
        }
        states
    };
    let create = |n: usize| format!("CREATE JOB j{n} AS NOOP;");
    let hundred: String = (0..100).map(create).collect();
    let states = run(&mut session, &format!("BEGIN; {hundred} {}", create(100))).await;
    assert_eq!(states.iter().filter(|state| **state == "done").count(), 101);
    assert_eq!(states.last(), Some(&"54000"));
    run(&mut session, &format!("ROLLBACK; BEGIN; {hundred} COMMIT")).await;
    let jobs = world.get("/v1/jobs?limit=500").await.json();
    assert_eq!(jobs["data"].as_array().unwrap().len(), 100);
    // A job that another client changes in between is a conflict, and nothing is written.
    run(&mut session, "BEGIN; ALTER JOB j0 SET PRIORITY = 1; ALTER JOB j1 SET PRIORITY = 1").await;
    let other = json!({"priority": 7});
    assert_eq!(world.call("PATCH", "/v1/jobs/j1", &[], Some(other)).await.status, 200);
    assert_eq!(run(&mut session, "COMMIT").await, ["40001"]);
    assert_eq!(world.get("/v1/jobs/j0").await.json()["priority"], 5);
    // So is a job or a queue that another client removes in between.
    for (n, changes) in [
        "ALTER JOB j2 SET PRIORITY = 1; ALTER JOB j0 SET PRIORITY = 1",
        "ALTER JOB j3 SET PRIORITY = 1",
        "DROP JOB j4; CREATE JOB j400 AS NOOP",
        "EXECUTE JOB j5",
        "PAUSE JOB j6",
    ]
    .into_iter()
    .enumerate()
    {
        let states = run(&mut session, &format!("BEGIN; {changes}")).await;
        assert!(states.iter().all(|state| *state == "done"), "{changes}: {states:?}");
        let path = format!("/v1/jobs/j{}", n + 2);
        assert_eq!(world.call("DELETE", &path, &[], None).await.status, 204);
        assert_eq!(run(&mut session, "COMMIT").await, ["40001"], "{changes}");
    }
    assert_eq!(world.get("/v1/jobs/j0").await.json()["priority"], 5);
    assert_eq!(world.get("/v1/jobs/j400").await.status, 404);
    // One that was never there is not.
    assert_eq!(run(&mut session, "BEGIN; GRANT CREATE JOB TO nobody; COMMIT").await[2], "42704");
    // A user who may only create jobs does not see, change or remove those of others.
    let mut session = Session::new(world.app.clone(), bob);
    let states = run(&mut session, "BEGIN; CREATE JOB mine AS NOOP; DROP JOB j0; COMMIT").await;
    assert_eq!((states[1], states[3]), ("done", "done"), "{states:?}");
    assert_ne!(states[2], "done");
    assert_eq!(world.get("/v1/jobs/mine").await.status, 404);
    assert_eq!(world.get("/v1/jobs/j0").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    world.tenant("other").await;
    let bob = world.person("default", "bob", &["DROP JOB"]).await;
    let stranger = world.person("other", "boss", &["ADMINISTER TENANT"]).await;
    let mut people = admin();
    // Grants of the script are in effect when bob logs in.
    for privilege in ["CREATE JOB", "ALTER JOB"] {
        let grant = json!({"to_user": "bob", "privilege": privilege});
        world.rule("default", "POST", "/v1/grants", grant).await;
    }
    people.insert("bob", actor_of(&world, &bob.key).await);
    people.insert("stranger", actor_of(&world, &stranger.key).await);
    people.insert("reader", access::Actor { read_only: true, ..access::Actor::admin() });
    script(&world, "access", &people).await;
    // Denied statements are in the audit.
    let denied = world.get("/v1/audit?event=DENIED").await;
    let denied = if denied.status == 200 { denied } else { world.get("/v1/audit").await };
    assert!(denied.text.contains("CREATE ROLE"), "{}", denied.text);
    assert!(!String::from_utf8_lossy(&world.stored_bytes()).contains("hunter22-hunter22"));
}

/// A value for `$1` is never parsed as SQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_are_values() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut session = Session::new(world.app.clone(), Actor::from(access::Actor::admin()));
    let evil = "x'; DROP JOB a; --";
    let text = "CREATE JOB $1 DESCRIPTION = $2 PRIORITY = $3 AS NOOP";
    let parsed = session.parse(text).unwrap().remove(0);
    let described = session.describe(&parsed.statement).await.unwrap();
    assert_eq!((&described.parameters[..], described.columns.len()), (&[Kind::Text; 3][..], 0));
    let values = [Value::Text(evil.into()), Value::Null, Value::Int(7)];
    session.run(&parsed.statement, &values).await.unwrap();
    let job = world.engine.node().job_by_name(domain::id::TenantId::DEFAULT, evil).await.unwrap();
    assert_eq!(job.unwrap().definition.priority, 7);
    let error = session.run(&parsed.statement, &[]).await.unwrap_err();
    assert_eq!((error.sqlstate(), error.at), ("42601", Some(11)));
    // A run by its id.
    let parsed = session.parse("EXECUTE JOB $1").unwrap().remove(0);
    let answer = session.run(&parsed.statement, &values[..1]).await.unwrap();
    let Value::Uuid(run) = answer.rows[0][0] else { panic!("{answer:?}") };
    world.ended(&run.to_string()).await;
    let parsed = session.parse("CANCEL JOB RUN $1").unwrap().remove(0);
    let error = session.run(&parsed.statement, &[Value::Uuid(run)]).await.unwrap_err();
    assert_eq!(error.sqlstate(), "55000", "{:?}", error.problem);
}

/// Cancels a run and retries another one, with SQL alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_stopped_and_started_again() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let mut session = Session::new(world.app.clone(), Actor::from(access::Actor::admin()));
    let mut ask = async |text: String| {
        let parsed = session.parse(&text).unwrap().remove(0);
        session
            .run(&parsed.statement, &[])
            .await
            .unwrap_or_else(|error| panic!("{text}: {error:?}"))
    };
    ask("CREATE JOB held MAX_RETRIES = 0 OVERLAP = ALLOW AS NOOP".to_owned()).await;
    let run = shown_id(&ask("EXECUTE JOB held".to_owned()).await);
    world.begun("held").await;
    ask(format!("CANCEL JOB RUN {run}")).await;
    assert_eq!(world.ended(&run).await["status"], "CANCELLED");
    // Under another name it is not held any more.
    ask("ALTER JOB held RENAME TO quick".to_owned()).await;
    let again = shown_id(&ask(format!("RETRY JOB RUN {run}")).await);
    assert_ne!(run, again);
    assert_eq!(world.ended(&again).await["status"], "COMPLETED");
    let runs = ask("SHOW JOB RUNS FOR quick".to_owned()).await;
    // Both stand for the same moment, so their order is that of their ids.
    let mut states: Vec<String> = runs.rows.iter().map(|row| shown(&row[1])).collect();
    states.sort();
    assert_eq!(states, ["CANCELLED", "COMPLETED"]);
}

fn shown_id(answer: &Answer) -> String {
    match &answer.rows[0][0] {
        Value::Uuid(id) => id.to_string(),
        value => panic!("{value:?}"),
    }
}

/// The endpoint for browsers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http() {
    let world = World::at("2024-01-15T10:30:00Z").await;
    let ask = async |body| world.post("/v1/sql", body).await;
    let reply = ask(json!({"sql": "CREATE JOB a AS NOOP; SHOW JOBS"})).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = &reply.json()["results"];
    assert_eq!(results[0], json!({"tag": "CREATE JOB", "columns": [], "rows": []}));
    assert_eq!(results[1]["columns"][0], json!({"name": "job_name", "type": "text"}));
    assert_eq!(results[1]["rows"][0][0], "a");
    assert_eq!(results[1]["rows"][0][1], "ENABLED");
    let reply = ask(json!({"sql": "EXPLAIN JOB $1", "parameters": ["a"]})).await;
    assert_eq!(reply.json()["results"][0]["rows"][0][2], "a is enabled", "{}", reply.text);
    for (body, status, code, text) in [
        (
            json!({"sql": "SELCT 1"}),
            400,
            "SYNTAX_ERROR",
            "(at character 1); Perhaps you meant SELECT.",
        ),
        (
            json!({"sql": "PAUSE JOB a; DROP JOB ü; SHOW JOBS"}),
            404,
            "JOB_NOT_FOUND",
            "statement 2 of 3, those before it are done",
        ),
        (json!({"sql": "DROP JOB ü"}), 404, "JOB_NOT_FOUND", "(at character 10)"),
        (
            json!({"sql": "SHOW JOBS; SHOW JOBS", "parameters": [1]}),
            422,
            "VALIDATION_FAILED",
            "belong to one statement",
        ),
        (json!({"sql": "SHOW JOBS", "max": 1}), 422, "VALIDATION_FAILED", "max"),
        (json!({"sql": "NOTIFY x"}), 501, "NOT_SUPPORTED", "LISTEN punctual_runs"),
    ] {
        let reply = ask(body.clone()).await;
        assert_eq!(
            (reply.status, reply.error().1.as_str()),
            (status, code),
            "{body}: {}",
            reply.text
        );
        assert!(reply.text.contains(text), "{body}: {}", reply.text);
    }
    let reply = ask(json!({"sql": "BEGIN; DROP JOB a"})).await;
    assert!(reply.text.contains("did not end with COMMIT"), "{}", reply.text);
    assert_eq!(world.get("/v1/jobs/a").await.status, 200);
    assert_eq!(ask(json!({"sql": "  -- nothing"})).await.json(), json!({"results": []}));
}
