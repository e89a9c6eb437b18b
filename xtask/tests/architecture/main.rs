//! The architecture test: the workspace is what ARCHITECTURE.md says it is.
//!
//! It compares the rooms table of that page (`rooms`) with what cargo knows about the packages
//! (`packages`) and with what the rooms' sources name (`sources`). Dev-dependencies are free.
//! What only the compiler can see (a clock read through an alias) is clippy.toml's part.
#![allow(clippy::disallowed_methods, reason = "the test asks cargo about the workspace")]

mod packages;
mod rooms;
mod sources;

use std::path::{Path, PathBuf};
use std::{env, fs};

use packages::Package;
use rooms::Room;

const WHAT_TO_DO: &str = "\
What to do: undo the dependency or the import; usually the code belongs in another room, or the
value should come in as a parameter. If the architecture shall change, change the rooms table of
ARCHITECTURE.md in a commit of its own that says why (CONTRIBUTING.md, \"Rooms and edges\").";

#[test]
fn the_workspace_is_as_the_architecture_page_says() {
    let root = root();
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let rooms = rooms::parse(&page).unwrap();
    let packages = packages::read(&root);
    let mut problems = differences(&rooms, &packages);
    problems.extend(forbidden_paths(&root, &rooms, &packages));
    assert!(
        problems.is_empty(),
        "the workspace differs from ARCHITECTURE.md:\n- {}\n\n{WHAT_TO_DO}\n",
        problems.join("\n- ")
    );
}

/// The root of the workspace, asked when the test runs: the binary may come from a build cache.
fn root() -> PathBuf {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    Path::new(&xtask).parent().unwrap().into()
}

/// Rooms without package, packages without room, and for the others every edge that is only on
/// one side and every crate that the room may not import.
fn differences(rooms: &[Room], packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for room in rooms {
        let name = &room.name;
        let Some(package) = packages.iter().find(|package| package.name == *name) else {
            problems.push(format!("room `{name}` is no package of the workspace"));
            continue;
        };
        for ours in package.ours.difference(&room.may_import) {
            problems.push(format!(
                "`{name}` depends on `{ours}`, but its row does not list `{ours}` under \"{}\"",
                rooms::MAY_IMPORT
            ));
        }
        for ours in room.may_import.difference(&package.ours) {
            problems.push(format!(
                "the row of `{name}` lists `{ours}`, but `{name}` does not depend on it"
            ));
        }
        for external in package.external.intersection(&room.may_not) {
            problems.push(format!(
                "`{name}` depends on `{external}`, which its row lists under \"{}\"",
                rooms::MAY_NOT
            ));
        }
    }
    for package in packages {
        if !rooms.iter().any(|room| room.name == package.name) {
            let name = &package.name;
            problems.push(format!("package `{name}` has no row in the table of rooms"));
        }
    }
    problems
}

/// Every place in a room's `src` that names a path (such as `std::fs`) the room may not import.
fn forbidden_paths(root: &Path, rooms: &[Room], packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for room in rooms {
        let paths: Vec<&str> = room.forbidden_paths().collect();
        let package = packages.iter().find(|package| package.name == room.name);
        let (false, Some(package)) = (paths.is_empty(), package) else {
            continue;
        };
        let files = sources::rust_files(&package.folder.join("src"));
        assert!(!files.is_empty(), "`{}` has no sources", room.name);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for path in &paths {
                for line in sources::lines_naming(&text, path) {
                    problems.push(format!(
                        "{}:{line} names `{path}`, which the row of `{}` lists under \"{}\"",
                        file.strip_prefix(root).unwrap_or(&file).display(),
                        room.name,
                        rooms::MAY_NOT
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
| room     | may import (ours) | may not   |
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
        differences(&rooms::parse(PAGE).unwrap(), &packages)
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
    fn room_without_package_and_package_without_room_fail() {
        assert_eq!(
            differences_for(&[("bottom", &[], &[]), ("new", &[], &[])]),
            [
                "room `top` is no package of the workspace",
                "package `new` has no row in the table of rooms"
            ]
        );
    }
}
