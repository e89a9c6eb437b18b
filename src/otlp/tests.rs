use domain::id::{JobId, NodeId, RunId, TenantId};
use domain::run::{NewRun, Origin};
use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::config::Sources;

fn collector(endpoint: &str, headers: &str) -> Result<Option<Collector>, String> {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let flags = vec![("otlp.endpoint", endpoint.to_owned()), ("otlp.headers", headers.to_owned())];
    let file = Some(empty.path().to_owned());
    let config = Config::load(Sources { flags, file, environment: Vec::new() });
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    Collector::of(&config).map_err(|error| error.to_string())
}

#[test]
fn the_endpoint_is_the_address_of_the_collector() {
    let url = |endpoint| collector(endpoint, "").unwrap().unwrap().url.to_string();
    assert!(collector("", "").unwrap().is_none());
    assert_eq!(url("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
    assert_eq!(url("https://otlp.example.com/a/"), "https://otlp.example.com/a/v1/traces");
    for wrong in ["127.0.0.1:4318", "grpc://127.0.0.1:4317", "http://host/?key=1"] {
        let Err(problem) = collector(wrong, "") else { panic!("{wrong} is taken") };
        assert!(problem.contains("otlp.endpoint"), "{problem}");
    }
}

#[test]
fn fields_are_read_and_never_shown() {
    let taken = collector("http://host", "authorization=Bearer a=b, x-team = ours");
    let headers = taken.unwrap().unwrap().headers;
    assert_eq!(headers["authorization"], "Bearer a=b");
    assert_eq!(headers["x-team"], "ours");
    let Err(problem) = collector("http://host", "topsecret") else { panic!("it is taken") };
    assert!(problem.contains("otlp.headers") && !problem.contains("topsecret"), "{problem}");
    assert!(collector("", "a=b").is_err());
}

#[test]
fn a_full_queue_drops_and_does_not_wait() {
    let (queue, mut waiting) = mpsc::channel(1);
    let spans = Spans { queue, metrics: Arc::new(Metrics::new()) };
    let at = Timestamp::UNIX_EPOCH;
    let run = NewRun {
        id: RunId::of_request(at, 7),
        job: JobId(Uuid::from_u128(2)),
        tenant: TenantId::DEFAULT,
        job_version: 1,
        scheduled_for: at,
        shard: String::new(),
        due_at: at,
        priority: 5,
        origin: Origin::Manual,
        coalesced: 0,
        ignore_dependencies: true,
        parameters: None,
        place: domain::cluster::Placement::default(),
        slot: domain::slot::SlotKind::Process,
        requested_by: None,
    };
    let node = NodeId(Uuid::from_u128(3));
    for _ in 0..3 {
        spans.planned(Planned { run: &run, job_name: None, node, began_at: at, recorded_at: at });
    }
    assert_eq!(waiting.try_recv().unwrap().name, "plan");
    assert!(waiting.try_recv().is_err());
}
