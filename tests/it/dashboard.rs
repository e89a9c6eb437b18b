//! The dashboard: its types, its tests and the files that are committed of it, and the journeys of
//! `ui/tests/browser` in a real browser against this binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rest::{program, run};

fn ui() -> PathBuf {
    let ui = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
    let packages = ui.join("node_modules/installed");
    assert!(packages.exists(), "{} is missing: `cargo xtask needs` makes it", packages.display());
    ui
}

/// A tool among the packages of the dashboard.
fn tool(name: &str) -> Command {
    let mut command = program(ui().join("node_modules/.bin").join(name));
    command.current_dir(ui());
    command
}

/// Every file below a folder, by its path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let bytes = std::fs::read(&path).unwrap();
                    found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
                }
            }
        }
    }
    found
}

#[test]
fn the_committed_files_are_what_the_source_builds() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("dist");
    run(tool("vite").args(["build", "--logLevel", "error", "--outDir"]).arg(&out));
    let (built, committed) = (files(&out), files(&ui().join("dist")));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    let hint = "run `npm run build` in ui/ and commit ui/dist";
    assert_eq!(names(&built), names(&committed), "{hint}");
    for (name, bytes) in &built {
        assert!(committed[name] == *bytes, "{}: {hint}", name.display());
    }
    run(program("node").arg("build-size.mjs").current_dir(ui()));
}

#[test]
fn the_types_are_those_of_the_api_and_the_source_keeps_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("schema.d.ts");
    run(tool("openapi-typescript").arg("../crates/server/openapi.json").arg("-o").arg(&made));
    let committed = std::fs::read(ui().join("src/api/schema.d.ts")).unwrap();
    let hint = "run `npm run types` in ui/ and commit ui/src/api/schema.d.ts";
    assert!(std::fs::read(&made).unwrap() == committed, "{hint}");
    run(tool("svelte-check").args(["--tsconfig", "./tsconfig.json", "--fail-on-warnings"]));
    run(program("npm").args(["run", "--silent", "unit"]).current_dir(ui()));
}

#[test]
fn no_text_becomes_markup() {
    for (name, bytes) in files(&ui().join("src")) {
        let text = String::from_utf8_lossy(&bytes);
        for forbidden in ["{@html", "innerHTML", "outerHTML", "insertAdjacentHTML", " style=\""] {
            assert!(!text.contains(forbidden), "{}: {forbidden}", name.display());
        }
    }
}

#[test]
fn people_can_work_with_it() {
    let mut node = program("node");
    node.arg("tests/browser/main.mjs").current_dir(ui());
    run(node.env("SERVER_BINARY", env!("CARGO_BIN_EXE_punctual")));
}
