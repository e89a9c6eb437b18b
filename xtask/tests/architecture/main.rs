//! The architecture test: the workspace is what ARCHITECTURE.md says it is.
//!
//! It compares the table of crates of that page (`crates`) with what cargo knows about the packages
//! (`packages`) and with what the sources of crates name (`sources`). Dev-dependencies are free.
//! Violations that only the compiler can see (a clock read through an alias) are left to
//! clippy.toml.
#![allow(clippy::disallowed_methods, reason = "the test asks cargo about the workspace")]

mod crates;
mod packages;
mod references;
mod sources;

use std::path::{Path, PathBuf};
use std::{env, fs};

use crates::CrateRow;
use packages::Package;

const WHAT_TO_DO: &str = "\
What to do: undo the dependency or the import; usually the code belongs in another crate, or the
value should come in as a parameter. If the architecture shall change, change the table of crates of
ARCHITECTURE.md in a commit of its own that says why (CONTRIBUTING.md, \"Crates and edges\").";

#[test]
fn the_workspace_is_as_the_architecture_page_says() {
    let root = root();
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let crates = crates::parse(&page).unwrap();
    let metadata = packages::read(&root);
    let packages = packages::parse(&metadata);
    let mut problems = differences(&crates, &packages);
    let misnamed = packages::misnamed(&metadata).into_iter();
    problems
        .extend(misnamed.map(|name| format!("package `{name}` is not `punctual-` and its folder")));
    problems.extend(forbidden_paths(&root, &crates, &packages));
    assert!(
        problems.is_empty(),
        "the workspace differs from ARCHITECTURE.md:\n- {}\n\n{WHAT_TO_DO}\n",
        problems.join("\n- ")
    );
}

#[test]
fn the_architecture_page_names_files_and_functions_that_exist() {
    let root = root();
    let folders = ["crates", "src", "xtask"].map(|folder| root.join(folder));
    let files: Vec<PathBuf> = folders.iter().flat_map(|it| sources::rust_files(it)).collect();
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let missing = references::Sources::read(&root, &files).missing(&page);
    assert!(missing.is_empty(), "the page has names without a source:\n- {}", missing.join("\n- "));
}

/// The root of the workspace, asked when the test runs: the binary may come from a build cache.
fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&xtask).parent().unwrap().into()
}

/// Crates without package, packages without row, and for the others every edge that is only on
/// one side and every crate that the crate may not import.
fn differences(crates: &[CrateRow], packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in crates {
        let name = &row.name;
        let Some(package) = packages.iter().find(|package| package.name == *name) else {
            problems.push(format!("crate `{name}` is no package of the workspace"));
            continue;
        };
        for ours in package.ours.difference(&row.may_import) {
            problems.push(format!(
                "`{name}` depends on `{ours}`, but its row does not list `{ours}` under \"{}\"",
                crates::MAY_IMPORT
            ));
        }
        for ours in row.may_import.difference(&package.ours) {
            problems.push(format!(
                "the row of `{name}` lists `{ours}`, but `{name}` does not depend on it"
            ));
        }
        for external in package.external.intersection(&row.may_not) {
            problems.push(format!(
                "`{name}` depends on `{external}`, which its row lists under \"{}\"",
                crates::MAY_NOT
            ));
        }
    }
    for package in packages {
        if !crates.iter().any(|row| row.name == package.name) {
            let name = &package.name;
            problems.push(format!("package `{name}` has no row in the table of crates"));
        }
    }
    problems
}

/// Every place in a row's `src` that names a path (such as `std::fs`) the row may not import.
fn forbidden_paths(root: &Path, crates: &[CrateRow], packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for row in crates {
        let paths: Vec<&str> = row.forbidden_paths().collect();
        let package = packages.iter().find(|package| package.name == row.name);
        let (false, Some(package)) = (paths.is_empty(), package) else {
            continue;
        };
        let files = sources::rust_files(&package.folder.join("src"));
        assert!(!files.is_empty(), "`{}` has no sources", row.name);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for path in &paths {
                for line in sources::lines_naming(&text, path) {
                    problems.push(format!(
                        "{}:{line} names `{path}`, which the row of `{}` lists under \"{}\"",
                        file.strip_prefix(root).unwrap_or(&file).display(),
                        row.name,
                        crates::MAY_NOT
                    ));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "
| crate    | may import (ours) | may not   |
|----------|-------------------|-----------|
| `bottom` | –                 | `network` |
| `top`    | `bottom`          | –         |
";

    /// `differences` between the page above and packages given as (name, ours, external).
    fn differences_for(packages: &[(&str, &[&str], &[&str])]) -> Vec<String> {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let packages: Vec<Package> = packages
            .iter()
            .map(|(name, ours, external)| Package {
                name: name.to_string(),
                folder: PathBuf::new(),
                ours: names(ours),
                external: names(external),
            })
            .collect();
        differences(&crates::parse(PAGE).unwrap(), &packages)
    }

    #[test]
    fn equal_is_fine() {
        let packages: [(&str, &[&str], &[&str]); 2] =
            [("bottom", &[], &["serde"]), ("top", &["bottom"], &[])];
        assert_eq!(differences_for(&packages), Vec::<String>::new());
    }

    #[test]
    fn additional_edge_fails() {
        assert_eq!(
            differences_for(&[("bottom", &["top"], &[]), ("top", &["bottom"], &[])]),
            ["`bottom` depends on `top`, but its row does not list `top` under \
                 \"may import (ours)\""]
        );
    }

    #[test]
    fn missing_edge_fails() {
        assert_eq!(
            differences_for(&[("bottom", &[], &[]), ("top", &[], &[])]),
            ["the row of `top` lists `bottom`, but `top` does not depend on it"]
        );
    }

    #[test]
    fn forbidden_crate_fails() {
        assert_eq!(
            differences_for(&[("bottom", &[], &["network"]), ("top", &["bottom"], &[])]),
            ["`bottom` depends on `network`, which its row lists under \"may not\""]
        );
    }

    #[test]
    fn crate_without_package_and_package_without_row_fail() {
        assert_eq!(
            differences_for(&[("bottom", &[], &[]), ("new", &[], &[])]),
            [
                "crate `top` is no package of the workspace",
                "package `new` has no row in the table of crates"
            ]
        );
    }
}
