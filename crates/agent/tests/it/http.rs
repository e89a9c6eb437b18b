//! HTTP jobs against real sockets.

mod answers;
mod guard;
mod limits;
mod redirects;
mod requests;
mod server;
mod stop;
mod tls;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use agent::output::{Limits, Outputs, Stream};
use agent::{Agent, HttpOptions, Options, StaticSecrets, Stop};
use domain::action::{Action, Assignment};
use domain::id::{JobId, RunId, TenantId};
use domain::run::{AttemptEnd, AttemptResult};
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

/// The value of the secret `TOKEN`.
const TOKEN: &str = "s3cr/t &#?\"é";

/// Options that allow the test servers, and nothing else.
fn allowing(rules: &[&str]) -> HttpOptions {
    HttpOptions {
        allow_private: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..HttpOptions::default()
    }
}

fn agent(http: HttpOptions) -> Agent {
    let secrets = [("TOKEN", TOKEN), ("PLAIN", "abc123"), ("LINES", "a\r\nb: c"), ("HOST", "evil")];
    let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut options = Options { http, ..Options::default() };
    options.secrets = Arc::new(StaticSecrets(BTreeMap::from(secrets)));
    Agent::new(options)
}

/// An assignment whose action has these fields.
fn assignment(mut action: Value) -> Assignment {
    action["type"] = json!("HTTP");
    let action: Action = serde_json::from_value(action).unwrap();
    Assignment {
        effect: None,
        run: RunId(Uuid::from_u128(0x1234)),
        job: JobId(Uuid::from_u128(0x5678)),
        job_name: "nightly".into(),
        tenant: TenantId::DEFAULT,
        attempt: 2,
        fence: 77,
        scheduled_for: "2026-03-01T02:00:00Z".parse().unwrap(),
        deadline: "2026-03-01T03:00:00Z".parse().unwrap(),
        grace_period: SignedDuration::from_secs(10),
        shard: String::new(),
        run_as: None,
        parameters: BTreeMap::new(),
        action,
    }
}

/// The end of an attempt, with its output.
struct Ended {
    result: AttemptResult,
    stdout: Vec<u8>,
}

impl Ended {
    fn details(&self) -> Value {
        serde_json::from_str(self.result.details.as_deref().unwrap()).unwrap()
    }

    fn code(&self) -> String {
        self.result.error.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Asserts that it completed, or shows the error.
    fn assert_completed(&self) -> &Self {
        assert_eq!(self.result.end, AttemptEnd::Completed, "{:?}", self.result);
        self
    }

    fn assert_failed(&self, code: &str, message: &str) -> &Self {
        assert_eq!(self.result.end, AttemptEnd::Failed, "{:?}", self.result);
        assert_eq!(self.code(), code, "{:?}", self.result);
        assert!(self.result.message.contains(message), "{:?} lacks {message:?}", self.result);
        self
    }
}

/// Carries out an attempt that is not stopped.
async fn execute(agent: &Agent, assignment: &Assignment) -> Ended {
    let (_nobody, requests) = watch::channel(None);
    let folder = tempfile::tempdir().unwrap();
    let outputs = Outputs::new(folder.path(), Limits::default()).unwrap();
    let output = outputs.open(assignment.run, assignment.attempt);
    let result = agent.execute(assignment, output.clone(), Stop::new(requests)).await;
    output.finish().await.unwrap();
    let (run, attempt) = (assignment.run, assignment.attempt);
    let stdout = outputs.read(run, attempt, 0, usize::MAX >> 1, Some(Stream::Stdout)).unwrap();
    Ended { result, stdout: stdout.bytes }
}

/// The same with an agent that may call this machine.
async fn run(action: Value) -> Ended {
    execute(&agent(allowing(&["127.0.0.0/8"])), &assignment(action)).await
}

/// A lookup that a function answers.
struct Names<F>(F);

impl<F: Fn(&str) -> Vec<IpAddr> + Send + Sync> agent::guard::Lookup for Names<F> {
    fn addresses<'a>(&'a self, name: &'a str) -> agent::guard::Addresses<'a> {
        Box::pin(async move { Ok((self.0)(name)) })
    }
}
