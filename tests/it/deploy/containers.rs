//! The image, the compose file and the chart: they parse, and what they name exists.
//!
//! Nothing is built, started or rendered here: neither a container engine nor Helm is among what
//! the tests need. A template is read with its actions taken out, both branches of an `if` kept,
//! so that its structure is checked and not what Helm makes of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{read, root, section};
use crate::binary::{ended, punctual, run};

const CHART: &str = "deploy/helm/punctual";

/// The files below a folder, from the root of the repository.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_owned();
        match path.is_dir() {
            true if name.ends_with("secrets") => {}
            true => files.extend(self::files(name.to_str().unwrap())),
            false => files.push(name),
        }
    }
    files.sort();
    files
}

/// The documents of a file.
fn documents(text: &str) -> Vec<Value> {
    let parse =
        |text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    text.split("\n---\n").map(parse).collect()
}

/// A template without its actions: a line that is one is left out, one in a line is a word.
fn without_actions(template: &str) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let (mut rest, mut kept) = (line, String::new());
        while let Some((before, after)) = rest.split_once("{{") {
            let (_, after) = after.split_once("}}").unwrap_or_else(|| panic!("no end: {line}"));
            kept = kept + before + "word";
            rest = after;
        }
        kept += rest;
        if kept.trim() != "word" {
            text = text + &kept + "\n";
        }
    }
    text
}

/// Fails unless a server takes a variable of this name, with this value or that of a file.
fn check_setting(variable: &str, value: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let empty = folder.path().join("punctual.toml");
    fs::write(&empty, "").unwrap();
    let value = if variable.ends_with("_FILE") { file.to_str().unwrap() } else { value };
    fs::write(&file, "x").unwrap();
    let mut command = punctual(["config", "show", "--config", empty.to_str().unwrap()]);
    let ended = ended(&command.env(variable, value).output().unwrap());
    assert_eq!(ended.code, Some(0), "{variable}: {}", ended.stderr);
}

/// How long a server takes to stop, at most, in seconds.
const GRACE: u64 = 30;

#[test]
fn every_file_parses() {
    for path in files("deploy") {
        let text = read(path.to_str().unwrap());
        let (name, kind) = (path.file_name().unwrap().to_str().unwrap(), path.extension());
        match kind.and_then(|kind| kind.to_str()) {
            Some("yaml" | "yml") if path.starts_with(format!("{CHART}/templates")) => {
                for document in documents(&without_actions(&text)) {
                    assert!(document["kind"].is_string(), "{}", path.display());
                }
            }
            Some("yaml" | "yml") => assert!(documents(&text)[0].is_object(), "{}", path.display()),
            Some("json") => assert!(serde_json::from_str::<Value>(&text).unwrap().is_object()),
            Some("service" | "conf") => assert!(!section(&text, "Service").is_empty()),
            Some("tpl") => {
                assert_eq!(text.matches("define").count(), text.matches("end }}").count())
            }
            Some("sh") => assert!(shell_reads(&root().join(&path)), "{}", path.display()),
            Some("md") => {}
            _ if ["Dockerfile", ".gitignore"].contains(&name) => {}
            _ => panic!("nothing checks {}", path.display()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a shell knows best whether it can read a script")]
fn shell_reads(script: &Path) -> bool {
    std::process::Command::new("sh").arg("-n").arg(script).status().unwrap().success()
}

#[test]
fn the_image_is_built_with_the_toolchain_of_the_workspace() {
    let file = read("deploy/docker/Dockerfile");
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let package = &manifest["workspace"]["package"];
    let rust = package["rust-version"].as_str().unwrap();
    assert!(file.contains(&format!("FROM rust:{rust}-")), "Rust {rust}");
    // Packages are built with the profile that is made for them.
    assert!(file.contains("cargo build --profile dist --locked"), "{file}");
    assert!(file.contains("/target/dist/punctual "), "{file}");
    let instruction = |name: &str| {
        let mut lines = file.lines().filter_map(|line| line.strip_prefix(name));
        lines.next_back().unwrap_or_else(|| panic!("there is no {name}")).trim().to_owned()
    };
    let entry: Vec<String> = serde_json::from_str(&instruction("ENTRYPOINT")).unwrap();
    let command: Vec<String> = serde_json::from_str(&instruction("CMD")).unwrap();
    assert_eq!(entry, ["/usr/local/bin/punctual"]);
    assert_eq!(run(command.iter().map(String::as_str).chain(["--help"]), b"").code, Some(0));
    assert_ne!(instruction("USER").split(':').next(), Some("0"));
    for variable in file.split([' ', '\n']).filter(|word| word.starts_with("PUNCTUAL_")) {
        let (name, value) = variable.split_once('=').unwrap();
        check_setting(name, value);
    }
    let chart = documents(&read(&format!("{CHART}/Chart.yaml"))).remove(0);
    assert_eq!(chart["appVersion"].as_str(), package["version"].as_str());
    assert_eq!((&chart["apiVersion"], &chart["name"]), (&"v2".into(), &"punctual".into()));
}

#[test]
fn the_nodes_of_the_compose_file_differ_where_they_must_and_nowhere_else() {
    let file = documents(&read("deploy/compose/compose.yaml")).remove(0);
    let services = file["services"].as_object().unwrap();
    let nodes: Vec<(&String, &Value)> =
        services.iter().filter(|(name, _)| name.starts_with("node-")).collect();
    assert_eq!(nodes.len(), 3);
    for (name, node) in &nodes {
        assert_eq!(node["hostname"].as_str(), Some(name.as_str()));
        assert_eq!(node["volumes"][0], format!("{name}:/var/lib/punctual"));
        assert!(file["volumes"].as_object().unwrap().contains_key(name.as_str()));
        assert_eq!(node["environment"], nodes[0].1["environment"], "the same settings");
        let grace = node["stop_grace_period"].as_str().unwrap().strip_suffix('s').unwrap();
        assert!(grace.parse::<u64>().unwrap() > GRACE);
        for port in node["ports"].as_array().unwrap() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "without TLS: {port}");
        }
    }
    let node = nodes[0].1;
    for (variable, value) in node["environment"].as_object().unwrap() {
        check_setting(variable, value.as_str().unwrap());
    }
    assert!(root().join(node["build"]["dockerfile"].as_str().unwrap()).exists());
    let test = node["healthcheck"]["test"].as_array().unwrap();
    let words: Vec<&str> = test.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[..2], ["CMD", "punctual"]);
    assert_eq!(run(words[2..].iter().copied().chain(["--help"]), b"").code, Some(0));

    // The script makes every secret that the file names, in a shape that a server takes.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("secrets.sh");
    fs::copy(root().join("deploy/compose/secrets.sh"), &script).unwrap();
    let secret = |name: &str| fs::read_to_string(folder.path().join("secrets").join(name)).unwrap();
    assert!(carried_out(&script));
    let first = secret("master_key");
    assert!(carried_out(&script), "a second time");
    assert_eq!(secret("master_key"), first, "a key is made once");
    assert!(first.len() == 64 && first.chars().all(|c| c.is_ascii_hexdigit()), "{first}");
    assert!(secret("store").starts_with("postgres://punctual:"));
    for (name, secret) in file["secrets"].as_object().unwrap() {
        assert!(folder.path().join(secret["file"].as_str().unwrap()).exists(), "{name}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the script is what is tested")]
fn carried_out(script: &Path) -> bool {
    std::process::Command::new("sh").arg(script).status().unwrap().success()
}

#[test]
fn the_chart_names_values_settings_and_addresses_that_exist() {
    let values = documents(&read(&format!("{CHART}/values.yaml"))).remove(0);
    for (variable, value) in values["settings"].as_object().unwrap() {
        check_setting(variable, value.as_str().unwrap());
    }
    let mut kinds = BTreeSet::new();
    let mut named = BTreeSet::new();
    for path in files(&format!("{CHART}/templates")) {
        let text = read(path.to_str().unwrap());
        for place in text.split(".Values.").skip(1) {
            let place = place.split(|c: char| !c.is_alphanumeric() && c != '.').next().unwrap();
            let pointer = format!("/{}", place.trim_end_matches('.').replace('.', "/"));
            assert!(values.pointer(&pointer).is_some(), "{}: {place}", path.display());
            named.insert(pointer.split('/').nth(1).unwrap().to_owned());
        }
        if path.extension().is_some_and(|kind| kind == "yaml") {
            let documents = documents(&without_actions(&text));
            kinds.extend(documents.iter().map(|one| one["kind"].as_str().unwrap().to_owned()));
        }
    }
    let all: BTreeSet<String> = values.as_object().unwrap().keys().cloned().collect();
    assert_eq!(named, all, "every value is used");
    let expected = ["PodDisruptionBudget", "Secret", "Service", "StatefulSet"];
    assert_eq!(kinds, expected.map(str::to_owned).into());

    let set = read(&format!("{CHART}/templates/statefulset.yaml"));
    let set = documents(&without_actions(&set)).remove(0);
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        if name != "word" {
            // Values of Helm are unknown here; only the existence of the setting is checked.
            let value = variable["value"].as_str().filter(|value| *value != "word");
            check_setting(name, value.unwrap_or("none"));
        }
    }

    for (probe, path) in
        [("livenessProbe", "/healthz"), ("startupProbe", "/healthz"), ("readinessProbe", "/readyz")]
    {
        assert_eq!(container[probe]["httpGet"]["path"], path, "{probe}");
        assert_eq!(container[probe]["httpGet"]["port"], container["ports"][0]["name"]);
    }
    assert!(values["terminationGracePeriodSeconds"].as_u64().unwrap() > GRACE);
    let user = pod["securityContext"]["runAsUser"].as_u64().unwrap();
    assert!(read("deploy/docker/Dockerfile").contains(&format!("USER {user}:{user}")));
    let mounts = container["volumeMounts"].as_array().unwrap();
    let mut volumes: BTreeSet<&str> =
        pod["volumes"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    volumes.extend(set["spec"]["volumeClaimTemplates"][0]["metadata"]["name"].as_str());
    let mounted: BTreeSet<&str> =
        mounts.iter().filter_map(|mount| mount["name"].as_str()).collect();
    assert_eq!(mounted, volumes);
}
