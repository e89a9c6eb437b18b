//! Real paths under load: triggers and pages on many keep-alive connections, runs of one job in
//! line, and where the server's time goes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http::Client;
use crate::load::{Answered, Request, Until, load};
use crate::service::Service;
use crate::{Args, print, progress};

/// How long the line may take to drain.
const DRAIN_MAX: Duration = Duration::from_secs(120);

/// An execution id that no server takes: it is not of version 7.
const REFUSED: &str =
    r#"{"parameters":{"n":1},"execution_id":"00000000-0000-4000-8000-000000000000"}"#;

/// Triggers, pages, and what they cost.
pub fn measure(service: &Service, args: &Args) -> Result<()> {
    let bed = Bed::new(service, args)?;
    make_job(service, "free", "ALLOW")?;
    let trigger = Request::new("POST", "/v1/jobs/free/trigger", Some(&bed.key), "", 202);
    let page = Request::new("GET", "/v1/executions?limit=50", Some(&bed.key), "", 200);
    progress("triggers on many connections");
    let (answered, trigger_us) = bed.load(&trigger)?;
    print("rest.trigger", answered.measurement(), "requests/s, ms", bed.settings());
    bed.until_idle()?;
    progress("pages of 50 executions on many connections");
    let (answered, page_us) = bed.load(&page)?;
    print("rest.list_50", answered.measurement(), "requests/s, ms", bed.settings());
    progress("the share of HTTP, authentication, JSON and store");
    let open = bed.cost(&Request::new("GET", "/healthz", None, "", 200))?;
    let known = bed.cost(&Request::new("GET", "/v1/whoami", Some(&bed.key), "", 200))?;
    let refused = Request::new("POST", "/v1/jobs/free/trigger", Some(&bed.key), REFUSED, 422);
    let parsed = bed.cost(&refused)?;
    let trigger_json = parsed - known;
    let page_json = serialise(&mut service.client_with(&bed.key)?)?;
    for (path, all, json_us) in
        [("trigger", trigger_us, trigger_json), ("list_50", page_us, page_json)]
    {
        let rest = all - known - json_us;
        let measurement = share(&[
            ("http", open),
            ("authentication", known - open),
            ("json", json_us),
            ("store", rest),
        ]);
        let mut settings = bed.settings();
        settings["path"] = json!(path);
        print("rest.share", measurement, "us of CPU of server and database a request", settings);
    }
    Ok(())
}

/// Runs of one job that wait for each other: from the first trigger to the last end.
pub fn line(service: &Service, args: &Args) -> Result<()> {
    let bed = Bed::new(service, args)?;
    make_job(service, "line", "SKIP")?;
    let trigger = Request::new("POST", "/v1/jobs/line/trigger", Some(&bed.key), "", 202);
    let each = args.line.div_ceil(args.connections);
    progress("runs of one job in line");
    let begun = Instant::now();
    let answered = load(&bed.address, &trigger, args.connections, Until::Requests(each))?;
    let triggered = answered.took.as_secs_f64();
    bed.until_idle()?;
    let took = begun.elapsed().as_secs_f64();
    let runs = answered.latencies.len() as f64;
    let measurement = json!({
        "per_second": (runs / took).round(), "runs": runs, "triggered_s": triggered, "drained_s": took,
    });
    print("rest.line", measurement, "runs/s", bed.settings());
    Ok(())
}

/// A server with a user whose requests are counted and never too many.
struct Bed<'a> {
    service: &'a Service,
    args: &'a Args,
    address: String,
    key: String,
}

impl<'a> Bed<'a> {
    fn new(service: &'a Service, args: &'a Args) -> Result<Self> {
        let mut admin = service.client()?;
        let mut make = |path: &str, body: Value| admin.call("POST", path, &body.to_string());
        make("/v1/users", json!({"name": "ann"}))?;
        for privilege in ["CREATE JOB", "EXECUTE JOB", "VIEW JOB HISTORY"] {
            make("/v1/grants", json!({"to_user": "ann", "privilege": privilege}))?;
        }
        let made = make("/v1/keys", json!({"user": "ann"}))?;
        let key = made["key"].as_str().context("no key")?.to_owned();
        let plenty = json!({"requests_per_second": 10_000_000});
        admin.call("PATCH", "/v1/tenants/default", &plenty.to_string())?;
        Ok(Bed { service, args, address: service.address()?.to_owned(), key })
    }

    fn settings(&self) -> Value {
        json!({
            "store": self.args.store.name(), "connections": self.args.connections,
            "seconds": self.args.seconds,
        })
    }

    /// The result of a load after a second of warming up, and the microseconds of CPU that server
    /// and database took for a request.
    fn load(&self, request: &Request) -> Result<(Answered, f64)> {
        let connections = self.args.connections;
        load(&self.address, request, connections, Until::Time(Duration::from_secs(1)))?;
        let before = self.service.cpu_us()?;
        let until = Until::Time(Duration::from_secs(self.args.seconds));
        let answered = load(&self.address, request, connections, until)?;
        let spent = self.service.cpu_us()? - before;
        let cost = spent / answered.latencies.len().max(1) as f64;
        Ok((answered, cost))
    }

    fn cost(&self, request: &Request) -> Result<f64> {
        Ok(self.load(request)?.1)
    }

    /// Waits until no run is left that goes on.
    fn until_idle(&self) -> Result<()> {
        let mut client = self.service.client_with(&self.key)?;
        let begun = Instant::now();
        loop {
            let page = client.get("/v1/executions?limit=1&status=PENDING,QUEUED,RUNNING")?;
            if page["data"].as_array().is_some_and(Vec::is_empty) {
                return Ok(());
            }
            ensure!(begun.elapsed() < DRAIN_MAX, "runs go on after {DRAIN_MAX:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn make_job(service: &Service, name: &str, overlap: &str) -> Result<()> {
    let job = json!({
        "name": name, "job_type": "MANUAL", "overlap": overlap, "payload": {"type": "NOOP"},
    });
    service.client()?.call("POST", "/v1/jobs", &job.to_string()).map(drop)
}

/// Microseconds that it takes to write a page of 50 executions as JSON.
fn serialise(client: &mut Client) -> Result<f64> {
    const TIMES: u32 = 2_000;
    let page = client.get("/v1/executions?limit=50")?;
    let begun = Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(serde_json::to_vec(std::hint::black_box(&page))?);
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES))
}

/// Each part, and its percentage of the whole.
fn share(parts: &[(&str, f64)]) -> Value {
    let all: f64 = parts.iter().map(|(_, us)| us).sum();
    let mut measurement = json!({"all": tenths(all)});
    for (name, us) in parts {
        measurement[*name] = json!({"us": tenths(*us), "percent": tenths(us / all * 100.0)});
    }
    measurement
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
