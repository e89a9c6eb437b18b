//! No request reaches a target that is not allowed. A sink counts, and the same request with
//! permission shows that it would have been reached.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agent::HttpOptions;
use domain::id::TenantId;
use serde_json::json;
use uuid::Uuid;

use super::server::{Server, answer};
use super::{Names, agent, allowing, assignment, execute};

/// Listens on every address of the machine.
async fn sink() -> Vec<Server> {
    let v4 = Server::answering_on("0.0.0.0:0", answer(200, &[], "")).await;
    let port = v4.address.port();
    // The same port, so that one URL has one meaning. Machines without version 6 have no sink
    // there and no way to reach it.
    let mut sinks = vec![v4];
    if std::net::TcpListener::bind(("::1", port)).is_ok() {
        sinks.push(Server::answering_on(&format!("[::1]:{port}"), answer(200, &[], "")).await);
    }
    sinks
}

fn connections(sinks: &[Server]) -> usize {
    sinks.iter().map(Server::connections).sum()
}

#[tokio::test]
async fn no_spelling_of_this_machine_is_reached() {
    let sinks = sink().await;
    let port = sinks[0].address.port();
    let local = |name: &str| match name {
        "public-and-private.example" => {
            vec!["8.8.8.8".parse().unwrap(), Ipv4Addr::LOCALHOST.into()]
        }
        "private-and-public.example" => {
            vec![Ipv4Addr::LOCALHOST.into(), "8.8.8.8".parse().unwrap()]
        }
        "v4-and-v6.example" => vec!["2606:4700::1111".parse().unwrap(), Ipv4Addr::LOCALHOST.into()],
        "mapped.example" => vec!["::ffff:127.0.0.1".parse().unwrap()],
        _ => vec![Ipv4Addr::LOCALHOST.into()],
    };
    let options = HttpOptions { lookup: Arc::new(Names(local)), ..HttpOptions::default() };
    let agent = agent(options);
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "0x7f.1",
        "0x7f000001",
        "0177.0.0.1",
        "017700000001",
        "2130706433",
        "127.255.255.254",
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[::ffff:169.254.169.254]",
        "[fd00::1]",
        "[fe80::1]",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "metadata.google.internal",
        "metadata.google.internal.",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "ⓛocalhost",
        "rebound.example",
        "bücher.example",
        "public-and-private.example",
        "private-and-public.example",
        "v4-and-v6.example",
        "mapped.example",
        "user@127.0.0.1",
        "user:word@public.example",
        "public.example@127.0.0.1",
        "public.example\\@127.0.0.1",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/");
            // A backslash is a slash to the parser, so the port belongs to the path there.
            let ended = execute(&agent, &assignment(json!({ "endpoint": url }))).await;
            assert_eq!(ended.code(), "TARGET_NOT_ALLOWED", "{url}: {:?}", ended.result);
            assert!(ended.result.error.as_ref().unwrap().is_refusal());
            assert_eq!(ended.details()["remote_address"], json!(null), "{url}");
        }
    }
    assert_eq!(connections(&sinks), 0);
}

#[tokio::test]
async fn with_permission_the_same_ways_lead_to_the_sink() {
    let sinks = sink().await;
    let port = sinks[0].address.port();
    let local = |_: &str| vec![IpAddr::from(Ipv4Addr::LOCALHOST)];
    for (rules, host) in [
        (&["127.0.0.0/8"][..], "0x7f.1"),
        (&["127.0.0.0/8"], "[::ffff:127.0.0.1]"),
        (&["127.0.0.0/8"], "anything.example"),
        (&["named.example"], "named.example"),
        (&["named.example"], "NAMED.example."),
        (&["*.named.example"], "a.named.example"),
        (&["0.0.0.0/8"], "0"),
    ] {
        let before = connections(&sinks);
        let options = HttpOptions { lookup: Arc::new(Names(local)), ..allowing(rules) };
        let url = format!("http://{host}:{port}/");
        let ended = execute(&agent(options), &assignment(json!({ "endpoint": url }))).await;
        ended.assert_completed();
        assert_eq!(connections(&sinks), before + 1, "{url}");
    }
    for (rules, host) in [
        (&["named.example"][..], "other.example"),
        (&["*.named.example"], "named.example"),
        (&["10.0.0.0/8"], "127.0.0.1"),
        (&["named.example"], "127.0.0.1"),
    ] {
        let before = connections(&sinks);
        let options = HttpOptions { lookup: Arc::new(Names(local)), ..allowing(rules) };
        let url = format!("http://{host}:{port}/");
        let ended = execute(&agent(options), &assignment(json!({ "endpoint": url }))).await;
        ended.assert_failed("TARGET_NOT_ALLOWED", "this machine (127.0.0.0/8)");
        assert_eq!(connections(&sinks), before, "{url}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_followed_only_to_what_was_checked() {
    // 127.0.0.2 plays the public address: the rule allows it and nothing else.
    let public = Server::answering_on("127.0.0.2:0", answer(200, &[], "")).await;
    let port = public.address.port();
    let private = Server::answering_on(&format!("127.0.0.1:{port}"), answer(200, &[], "")).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let rebinding = move |_: &str| {
        let turn = counter.fetch_add(1, Ordering::SeqCst);
        let last = if turn.is_multiple_of(2) { 2 } else { 1 };
        vec![IpAddr::from(Ipv4Addr::new(127, 0, 0, last))]
    };
    let options = HttpOptions { lookup: Arc::new(Names(rebinding)), ..allowing(&["127.0.0.2"]) };
    let agent = agent(options);
    let assignment = assignment(json!({ "endpoint": format!("http://rebinding.example:{port}/") }));
    for turn in 0..10 {
        let ended = execute(&agent, &assignment).await;
        if turn % 2 == 0 {
            ended.assert_completed();
            let remote = format!("127.0.0.2:{port}");
            assert_eq!(ended.details()["remote_address"], remote);
        } else {
            ended.assert_failed("TARGET_NOT_ALLOWED", "rebinding.example (127.0.0.1)");
        }
    }
    // One lookup for each connection: the checked address is the one that was connected to.
    assert_eq!(asked.load(Ordering::SeqCst), 10);
    assert_eq!((public.connections(), private.connections()), (5, 0));
}

#[tokio::test]
async fn permission_of_one_tenant_is_not_that_of_another() {
    let server = Server::answering(answer(200, &[], "")).await;
    let [trusted, other] = [1, 2].map(|number| TenantId(Uuid::from_u128(number)));
    let options = HttpOptions {
        allow_private_for: BTreeMap::from([(trusted, vec!["127.0.0.1".parse().unwrap()])]),
        ..HttpOptions::default()
    };
    let agent = agent(options);
    let mut assignment = assignment(json!({ "endpoint": server.url("/") }));
    for (tenant, allowed) in [(trusted, true), (other, false), (trusted, true)] {
        assignment.tenant = tenant;
        let ended = execute(&agent, &assignment).await;
        assert_eq!(ended.result.error.is_none(), allowed, "{tenant:?}: {:?}", ended.result);
    }
    assert_eq!(server.connections(), 2);
}

/// The next test starts this one in a process of its own; it passes on its own, too.
#[tokio::test]
async fn a_request_goes_straight_to_its_target() {
    let server = Server::answering(answer(200, &[], "")).await;
    let agent = agent(allowing(&["127.0.0.1"]));
    let action = json!({ "endpoint": server.url("/straight"), "method": "GET" });
    let ended = execute(&agent, &assignment(action)).await;
    ended.assert_completed();
    assert_eq!(server.only().path, "/straight");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "an environment of its own needs a process")]
async fn proxies_of_the_environment_are_not_used() {
    let proxy = Server::answering(answer(502, &[], "")).await;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "http::guard::a_request_goes_straight_to_its_target"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    {
        child.env(name, proxy.url("/"));
    }
    child.env_remove("no_proxy").env_remove("NO_PROXY");
    let done = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(proxy.connections(), 0);
}
