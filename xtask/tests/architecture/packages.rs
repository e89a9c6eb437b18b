//! What cargo knows about the packages of the workspace: the direct dependencies of each.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package with the crates that its code or its build script depends on, not its tests.
#[derive(Debug, PartialEq)]
pub struct Package {
    pub name: String,
    /// Where its Cargo.toml is.
    pub folder: PathBuf,
    /// Dependencies that are packages of this workspace.
    pub ours: BTreeSet<String>,
    /// All other dependencies.
    pub external: BTreeSet<String>,
}

/// Asks cargo. `--no-deps` lists the workspace's packages with the dependencies they declare,
/// and needs neither the network nor a lock file.
pub fn read(root: &Path) -> Vec<Package> {
    let cargo = env::var_os("CARGO").expect("cargo runs this test");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    parse(&serde_json::from_slice(&output.stdout).unwrap())
}

fn parse(metadata: &Value) -> Vec<Package> {
    let packages = list(&metadata["packages"]);
    let members: BTreeSet<&str> = packages.iter().map(|p| text(&p["name"])).collect();
    let packages = packages.iter().map(|package| {
        let (ours, external) = list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            // A path has no source; a crate of the same name from a registry has one.
            .map(|dependency| (text(&dependency["name"]), dependency["source"].is_null()))
            .map(|(name, path)| (name.to_string(), path && members.contains(name)))
            .partition::<Vec<_>, _>(|(_, is_ours)| *is_ours);
        let names = |dependencies: Vec<(String, bool)>| {
            let names = dependencies.into_iter().map(|(name, _)| name);
            names.collect()
        };
        let manifest = Path::new(text(&package["manifest_path"]));
        Package {
            name: text(&package["name"]).into(),
            folder: manifest.parent().unwrap().into(),
            ours: names(ours),
            external: names(external),
        }
    });
    packages.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("cargo metadata gives a list here")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("cargo metadata gives a string here")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dev_dependencies_do_not_count_and_build_dependencies_do() {
        let dependency = |name: &str, kind: Value, source: Value| json!({ "name": name, "kind": kind, "source": source });
        let registry = json!("registry+somewhere");
        let metadata = json!({ "packages": [
            { "name": "bottom", "manifest_path": "/w/crates/bottom/Cargo.toml", "dependencies": [] },
            { "name": "top", "manifest_path": "/w/Cargo.toml", "dependencies": [
                dependency("bottom", Value::Null, Value::Null),
                dependency("serde", Value::Null, registry.clone()),
                dependency("cc", json!("build"), registry.clone()),
                dependency("top", json!("build"), registry.clone()),
                dependency("proptest", json!("dev"), registry),
            ] },
        ] });
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        assert_eq!(
            parse(&metadata),
            [
                Package {
                    name: "bottom".into(),
                    folder: "/w/crates/bottom".into(),
                    ours: names(&[]),
                    external: names(&[]),
                },
                Package {
                    name: "top".into(),
                    folder: "/w".into(),
                    ours: names(&["bottom"]),
                    external: names(&["cc", "serde", "top"]),
                },
            ]
        );
    }
}
