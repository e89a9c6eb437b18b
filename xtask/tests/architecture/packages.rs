//! Cargo's metadata of the packages of the workspace: the direct dependencies of each.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The prefix of the packages below `crates`. The table and the code use the name after it.
const PREFIX: &str = "punctual-";

/// A package with the crates that its code or its build script depends on, not its tests.
#[derive(Debug, PartialEq)]
pub struct Package {
    /// The name that code uses: the package's without the prefix.
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
pub fn read(root: &Path) -> Value {
    let cargo = env::var_os("CARGO").expect("cargo runs this test");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The packages of the workspace.
pub fn parse(metadata: &Value) -> Vec<Package> {
    let packages = list(&metadata["packages"]);
    let members: BTreeSet<&str> = packages.iter().map(|p| text(&p["name"])).collect();
    let packages = packages.iter().map(|package| {
        let (ours, external) = list(&package["dependencies"])
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            // A path has no source; a crate of the same name from a registry has one.
            .map(|dependency| (text(&dependency["name"]), dependency["source"].is_null()))
            .map(|(name, path)| match path && members.contains(name) {
                true => (short(name), true),
                false => (name.to_string(), false),
            })
            .partition::<Vec<_>, _>(|(_, is_ours)| *is_ours);
        let names = |dependencies: Vec<(String, bool)>| {
            let names = dependencies.into_iter().map(|(name, _)| name);
            names.collect()
        };
        let manifest = Path::new(text(&package["manifest_path"]));
        Package {
            name: short(text(&package["name"])),
            folder: manifest.parent().unwrap().into(),
            ours: names(ours),
            external: names(external),
        }
    });
    packages.collect()
}

fn short(name: &str) -> String {
    name.strip_prefix(PREFIX).unwrap_or(name).into()
}

/// Packages of `crates` whose name is not the prefix and their folder's name.
pub fn misnamed(metadata: &Value) -> Vec<String> {
    let names = list(&metadata["packages"]).iter().filter_map(|package| {
        let name = text(&package["name"]);
        let mut folders = Path::new(text(&package["manifest_path"])).parent()?.iter().rev();
        let (folder, above) = (folders.next()?.to_str()?, folders.next()?);
        (above == "crates" && name != format!("{PREFIX}{folder}")).then(|| name.to_owned())
    });
    names.collect()
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
            { "name": "punctual-bottom", "manifest_path": "/w/crates/bottom/Cargo.toml", "dependencies": [] },
            { "name": "top", "manifest_path": "/w/Cargo.toml", "dependencies": [
                dependency("punctual-bottom", Value::Null, Value::Null),
                dependency("serde", Value::Null, registry.clone()),
                dependency("cc", json!("build"), registry.clone()),
                dependency("top", json!("build"), registry.clone()),
                dependency("punctual-bottom", Value::Null, registry.clone()),
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
                    external: names(&["cc", "punctual-bottom", "serde", "top"]),
                },
            ]
        );
    }
    #[test]
    fn packages_of_crates_are_named_after_their_folder() {
        let metadata = json!({ "packages": [
            { "name": "punctual-bottom", "manifest_path": "/w/crates/bottom/Cargo.toml" },
            { "name": "middle", "manifest_path": "/w/crates/middle/Cargo.toml" },
            { "name": "punctual-other", "manifest_path": "/w/crates/top/Cargo.toml" },
            { "name": "tool", "manifest_path": "/w/tool/Cargo.toml" },
        ] });
        assert_eq!(misnamed(&metadata), ["middle", "punctual-other"]);
    }
}
