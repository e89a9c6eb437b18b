//! The tests that docs/security.md names exist.

use std::collections::BTreeMap;
use std::path::Path;

/// The items of the checklist.
const ITEMS: [(char, usize); 8] =
    [('A', 7), ('B', 7), ('G', 5), ('I', 2), ('J', 4), ('K', 6), ('Q', 5), ('S', 6)];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tests of each item, as file and name.
fn table() -> BTreeMap<String, Vec<(String, String)>> {
    let page = read("docs/security.md");
    let (_, table) = page.split_once("| item | what is tried | tests |\n").unwrap();
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let test = |text: &str| {
            let (file, name) = text.trim().trim_matches('`').split_once("::").expect("file::name");
            (file.to_owned(), name.to_owned())
        };
        (cells[1].to_owned(), cells[3].split(',').map(test).collect())
    };
    rows.map(row).collect()
}

#[test]
fn every_item_of_the_checklist_names_tests_that_exist() {
    let table = table();
    let items =
        ITEMS.iter().flat_map(|(letter, count)| (1..=*count).map(move |n| format!("{letter}{n}")));
    let items: Vec<String> = items.collect();
    assert_eq!(table.keys().collect::<Vec<_>>(), items.iter().collect::<Vec<_>>());
    for (item, tests) in &table {
        assert!(!tests.is_empty(), "{item}");
        for (file, name) in tests {
            let text = read(file);
            let start = text
                .find(&format!("fn {name}("))
                .unwrap_or_else(|| panic!("{item}: {file} has no {name}"));
            // It is a test, and not one that is left out.
            let before = &text[..start];
            let attributes = &before[before.rfind("\n\n").unwrap_or(0)..];
            assert!(attributes.contains("test]") || attributes.contains("test("), "{item}: {name}");
            assert!(!attributes.contains("ignore"), "{item}: {name}");
        }
    }
}

#[test]
fn no_pattern_can_take_for_ever() {
    let lock = read("Cargo.lock");
    for engine in ["fancy-regex", "onig", "onig_sys", "pcre", "pcre2", "pcre2-sys", "regress"] {
        assert!(!lock.contains(&format!("name = \"{engine}\"\n")), "{engine} backtracks");
    }
}
