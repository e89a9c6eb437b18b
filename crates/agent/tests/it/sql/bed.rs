//! An agent with one database, and assignments for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agent::output::{Limits, Outputs, Stream};
use agent::{Agent, Database, Databases, Options, PostgresDatabase, StaticSecrets, Stop};
use domain::action::{Action, Assignment, ProcedureAction, SqlAction};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{AttemptEnd, AttemptResult};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::postgres::Server;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// Only a broken executor takes longer; the tests themselves wait for no time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An agent that knows one database, `main`.
pub struct Bed {
    pub agent: Arc<Agent>,
    url: String,
}

/// The result of an attempt.
#[derive(Debug)]
pub struct Ran {
    pub result: AttemptResult,
    pub out: String,
    pub err: String,
}

/// An attempt under way.
pub struct Running {
    pub stop: watch::Sender<Option<AttemptEnd>>,
    pub ran: JoinHandle<Ran>,
}

impl Bed {
    /// An empty database on the server that the tests share.
    pub async fn postgres() -> Bed {
        Self::on(Server::shared()).await
    }

    /// An empty database on a server.
    pub async fn on(server: &Server) -> Bed {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("job_{}", LAST.fetch_add(1, Ordering::SeqCst));
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        connect(&server.url("postgres")).await.batch_execute(&create).await.unwrap();
        let url = server.url(&name);
        let database = Database::Postgres(PostgresDatabase::parse(&url).unwrap());
        Bed { agent: agent(database), url }
    }

    /// A database without a server of the tests.
    pub fn of(database: Database) -> Bed {
        Bed { agent: agent(database), url: String::new() }
    }

    /// A connection beside the agent.
    pub async fn beside(&self) -> Client {
        connect(&self.url).await
    }

    /// The one value of a query, asked beside the agent.
    pub async fn ask(&self, sql: &str) -> String {
        let row = self.beside().await.query_one(&format!("SELECT ({sql})::text"), &[]).await;
        row.unwrap().get::<_, Option<String>>(0).unwrap_or("NULL".to_owned())
    }

    /// Asks until the answer is yes.
    pub async fn until(&self, sql: &str) {
        let client = self.beside().await;
        let asked = async {
            while !client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("never: {sql}"));
    }

    /// Runs statements.
    pub async fn sql(&self, sql: &str) -> Ran {
        self.run(assignment(script(sql))).await
    }

    /// Runs statements with parameters.
    pub async fn sql_with(&self, sql: &str, parameters: Value) -> Ran {
        self.run(with(assignment(script(sql)), parameters)).await
    }

    /// Calls a procedure.
    pub async fn call(&self, procedure: &str, arguments: Value) -> Ran {
        self.run(assignment(call(procedure, arguments))).await
    }

    /// Carries an assignment out.
    pub async fn run(&self, assignment: Assignment) -> Ran {
        let running = self.start(assignment);
        let ran = tokio::time::timeout(PATIENCE, running.ran).await;
        drop(running.stop);
        ran.expect("the attempt ends").unwrap()
    }

    /// Begins to carry an assignment out.
    pub fn start(&self, assignment: Assignment) -> Running {
        let agent = Arc::clone(&self.agent);
        let (stop, requests) = watch::channel(None);
        let ran = tokio::spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let outputs = Outputs::new(folder.path(), Limits::default()).unwrap();
            let (run, attempt) = (assignment.run, assignment.attempt);
            let output = outputs.open(run, attempt);
            let result = agent.execute(&assignment, output.clone(), Stop::new(requests)).await;
            output.finish().await.unwrap();
            let text = |stream| {
                let slice = outputs.read(run, attempt, 0, usize::MAX >> 1, Some(stream)).unwrap();
                String::from_utf8_lossy(&slice.bytes).into_owned()
            };
            Ran { result, out: text(Stream::Stdout), err: text(Stream::Stderr) }
        });
        Running { stop, ran }
    }
}

impl Ran {
    /// The rows of the result.
    pub fn rows(&self) -> Value {
        let result = self.result.result.as_deref();
        result.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
    }

    /// The error by name, and the message.
    pub fn error(&self) -> (String, &str) {
        let code = self.result.error.as_ref().map_or("none".to_owned(), ToString::to_string);
        (code, &self.result.message)
    }

    /// The code of the error.
    pub fn code(&self) -> String {
        self.error().0
    }

    /// The details of the attempt.
    pub fn details(&self) -> Value {
        serde_json::from_str(self.result.details.as_deref().unwrap()).unwrap()
    }

    /// Checks that it was done, and gives itself back.
    pub fn done(self) -> Self {
        assert_eq!(self.result.end, AttemptEnd::Completed, "{self:?}");
        self
    }
}

pub fn agent(database: Database) -> Arc<Agent> {
    let all = BTreeMap::from([("main".to_owned(), database)]);
    let secrets = BTreeMap::from([("KEY".to_owned(), "gr'ün;--".to_owned())]);
    Arc::new(Agent::new(Options {
        secrets: Arc::new(StaticSecrets(secrets)),
        databases: Databases::new(all, Some("main".to_owned())).unwrap(),
        ..Options::default()
    }))
}

pub fn script(sql: &str) -> Action {
    Action::Sql(SqlAction { sql: sql.to_owned(), database: None })
}

pub fn call(procedure: &str, arguments: Value) -> Action {
    Action::Procedure(ProcedureAction {
        procedure: procedure.to_owned(),
        arguments: arguments.as_array().cloned().unwrap_or_default(),
        database: None,
    })
}

#[expect(clippy::disallowed_methods, reason = "deadlines are times of the day")]
pub fn in_time(seconds: f64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs_f64(seconds)
}

pub fn assignment(action: Action) -> Assignment {
    Assignment {
        effect: None,
        run: RunId(Uuid::from_u128(2)),
        job: JobId(Uuid::from_u128(1)),
        job_name: "nightly".to_owned(),
        tenant: TenantId::DEFAULT,
        attempt: 2,
        fence: 42,
        scheduled_for: "2026-11-15T03:00:00Z".parse().unwrap(),
        deadline: in_time(3_600.0),
        grace_period: SignedDuration::from_secs(5),
        shard: "eu".to_owned(),
        run_as: None,
        parameters: BTreeMap::new(),
        action,
    }
}

pub fn with(mut assignment: Assignment, parameters: Value) -> Assignment {
    assignment.parameters = serde_json::from_value(parameters).unwrap();
    assignment
}

pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The rows of one column.
pub fn column(name: &str, values: &[Value]) -> Value {
    values.iter().map(|value| json!({ name: value })).collect()
}
