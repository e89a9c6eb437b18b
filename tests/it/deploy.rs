//! Names in `deploy/` exist: metrics, labels, settings, commands, headings.

mod containers;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::binary::run;
use crate::serve::exposition::MetricFamily;
use crate::serve::metrics::metrics;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every sample name with its labels.
fn samples(metrics: &BTreeMap<String, MetricFamily>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut samples: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for sample in metrics.values().flat_map(|family| &family.samples) {
        let labels = samples.entry(&sample.name).or_default();
        labels.extend(sample.labels.keys().map(String::as_str));
        // Prometheus adds those of where it found them.
        labels.extend(["instance", "job"]);
    }
    samples
}

/// Fails when an expression names a family or a label that no server has.
fn check(expr: &str, samples: &BTreeMap<&str, BTreeSet<&str>>) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    let mut labels: BTreeSet<&str> = BTreeSet::new();
    let mut rest = expr;
    while let Some(at) = rest.find("punctual_") {
        let name = rest[at..].split(|c| !is_name(c)).next().unwrap();
        let known = samples.get(name).unwrap_or_else(|| panic!("there is no {name}: {expr}"));
        found.insert(name);
        labels.extend(known);
        rest = &rest[at + name.len()..];
        if let Some(selector) = rest.strip_prefix('{') {
            let selector = selector.split('}').next().unwrap();
            for matcher in selector.split("\",").filter(|matcher| !matcher.is_empty()) {
                let label = matcher.split(|c| !is_name(c)).next().unwrap();
                assert!(known.contains(label), "{name} has no {label}: {expr}");
            }
        }
    }
    for grouped in expr.split("by (").skip(1) {
        for label in grouped.split(')').next().unwrap().split(", ") {
            assert!(labels.contains(label), "nothing has {label}: {expr}");
        }
    }
    found.len()
}

#[test]
fn dashboard_and_rules_name_metrics_that_exist() {
    let metrics = metrics();
    let samples = samples(&metrics);

    let dashboard: Value = serde_json::from_str(&read("deploy/grafana/punctual.json")).unwrap();
    let (mut ids, mut used) = (BTreeSet::new(), 0);
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_i64().unwrap()), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            used += check(target["expr"].as_str().unwrap(), &samples);
        }
    }
    assert!(used >= 25, "the dashboard shows {used} metrics");
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        check(&variable["query"].to_string(), &samples);
    }

    let rules: Value =
        serde_saphyr::from_str(&read("deploy/prometheus/punctual.rules.yml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        let (name, expr) = (&rule["alert"], rule["expr"].as_str().unwrap());
        let used = check(expr, &samples);
        assert!(used > 0 || expr.starts_with("up{"), "{name}: {expr}");
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}");
        let runbook = rule["annotations"]["runbook"].as_str().unwrap();
        let (page, heading) = runbook.split_once('#').unwrap();
        assert!(headings(&read(page)).contains(heading), "{name}: there is no {runbook}");
    }
    assert!(rules.len() >= 8);
    let config: Value = serde_saphyr::from_str(&read("deploy/prometheus/prometheus.yml")).unwrap();
    assert_eq!(config["scrape_configs"][0]["job_name"], "punctual");
    assert!(
        root().join("deploy/prometheus").join(config["rule_files"][0].as_str().unwrap()).exists()
    );
}

/// The addresses of a page's headings, as its readers link to them.
fn headings(page: &str) -> BTreeSet<String> {
    let titles = page.lines().filter_map(|line| line.strip_prefix("##"));
    let slug = |title: &str| {
        let kept = title.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    titles.map(slug).collect()
}

/// The assignments of a unit's section; a key may come several times.
fn section(unit: &str, name: &str) -> Vec<(String, String)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in unit.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line {
            _ if line.starts_with('#') => {}
            _ if line.starts_with('[') => section = line.trim_matches(['[', ']']),
            _ => {
                let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
                assert!(!section.is_empty(), "{line} is in no section");
                if section == name {
                    found.push((key.to_owned(), value.to_owned()));
                }
            }
        }
    }
    found
}

#[test]
fn the_units_start_commands_that_exist_and_leave_time_to_stop() {
    for unit in ["punctual.service", "punctual-agent.service"] {
        starts_and_stops(unit);
    }
}

fn starts_and_stops(unit: &str) {
    let unit = read(&format!("deploy/systemd/{unit}"));
    let service = section(&unit, "Service");
    let value = |key: &str| {
        let found = service.iter().find(|(name, _)| name == key);
        found.unwrap_or_else(|| panic!("there is no {key}")).1.as_str()
    };
    assert_eq!(value("Type"), "notify");
    let mut words = value("ExecStart").split(' ');
    assert!(words.next().unwrap().ends_with("/punctual"));
    let ended = run(words.chain(["--help"]), b"");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    // A server that gets SIGTERM may use its grace period.
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("punctual.toml");
    fs::write(&empty, "").unwrap();
    let shown = run(["config", "show", "--config", empty.to_str().unwrap()], b"").stdout;
    let setting = |name: &str| {
        let mut rows = shown.lines().map(|line| line.split_whitespace());
        rows.find_map(|mut row| (row.next()? == name).then(|| row.next()).flatten())
    };
    assert_eq!(setting("shutdown_grace"), Some("30s"), "{shown}");
    let stop: u32 = value("TimeoutStopSec").strip_suffix('s').unwrap().parse().unwrap();
    assert!(stop > 30);
    let of_a_node = section(&read("deploy/systemd/cluster.conf"), "Service");
    for (_, credential) in of_a_node.iter().filter(|(key, _)| key == "LoadCredential") {
        let name = credential.split(':').next().unwrap();
        assert!(setting(name).is_some(), "{credential}");
    }
    let lines = service.iter().chain(&of_a_node);
    for (_, variable) in lines.filter(|(key, _)| key == "Environment") {
        let name = variable.split('=').next().unwrap().strip_prefix("PUNCTUAL_").unwrap();
        assert!(setting(&name.to_lowercase().replace("__", ".")).is_some(), "{variable}");
    }

    // Each thing that the service does without is said once, and taken back where commands need it.
    let denied = ["NoNewPrivileges", "ProtectHome", "LockPersonality", "RestrictNamespaces"];
    assert!(denied.iter().all(|key| value(key) == "yes"));
    assert_eq!((value("ProtectSystem"), value("CapabilityBoundingSet")), ("strict", ""));
    for (key, _) in section(&read("deploy/systemd/external.conf"), "Service") {
        assert!(key == "Delegate" || !value(&key).is_empty(), "{key} is not denied");
    }
}

#[test]
fn the_service_manager_understands_the_units() {
    understands("punctual");
    understands("punctual-agent");
}

fn understands(name: &str) {
    let Some(analyze) = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join(format!("{name}.service"));
    // It looks whether the program is there.
    let text = read(&format!("deploy/systemd/{name}.service"));
    let text = text.replace("/usr/local/bin/punctual", env!("CARGO_BIN_EXE_punctual"));
    fs::write(&unit, text).unwrap();
    let with = folder.path().join(format!("{name}.service.d"));
    fs::create_dir(&with).unwrap();
    for drop_in in [None, Some("external.conf"), Some("cluster.conf")] {
        if let Some(name) = drop_in {
            fs::write(with.join(name), read(&format!("deploy/systemd/{name}"))).unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the service manager's own check")]
        let output = std::process::Command::new(&analyze)
            .args(["verify", "--man=no", "--recursive-errors=no"])
            .arg(&unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains(&format!("{name}.service")), "{said}");
    }
}
