//! The language test: words of `words.txt` are in no source, statement or page.
//!
//! It reads text and not meaning. Where a word means something else, `exceptions.txt` has the place;
//! an exception that nothing needs any more fails as well.

#![allow(clippy::disallowed_methods, reason = "the test asks cargo where the workspace is")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Folders and pages that are read, below the root.
const READ: [&str; 8] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "benches",
    "crates",
    "docs",
    "src",
    "tests",
];

/// Kinds of files that are read.
const ENDINGS: [&str; 3] = ["md", "rs", "sql"];

/// A line of `words.txt`.
struct Word {
    in_tests: bool,
    parts: Vec<String>,
    standard: String,
}

impl Word {
    fn text(&self) -> String {
        self.parts.join(" ")
    }
}

#[test]
fn words_that_have_a_standard_term_are_not_used() {
    let xtask = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test"));
    let root = xtask.parent().unwrap();
    let words = words(include_str!("words.txt"));
    let mut unused = exceptions(include_str!("exceptions.txt"));
    let mut problems = Vec::new();
    let excepted = unused.clone();
    for file in READ.iter().flat_map(|name| files(&root.join(name))) {
        let name = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let is_test = is_test(&name);
        for (index, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let parts = parts(line);
            for word in words.iter().filter(|word| word.in_tests || !is_test) {
                if !parts.windows(word.parts.len()).any(|window| window == word.parts) {
                    continue;
                }
                let exception = excepted.iter().find(|(place, text)| {
                    *text == word.text() && Path::new(&name).starts_with(place)
                });
                match exception {
                    Some(exception) => _ = unused.remove(exception),
                    None => problems.push(format!(
                        "{name}:{}: \"{}\": write {}",
                        index + 1,
                        word.text(),
                        word.standard
                    )),
                }
            }
        }
    }
    problems.extend(unused.iter().map(|(place, word)| {
        format!("xtask/tests/language/exceptions.txt: {place} does not need \"{word}\"")
    }));
    assert!(problems.is_empty(), "words with a standard term:\n- {}\n", problems.join("\n- "));
}

/// Whether a path belongs to tests or benchmarks.
fn is_test(name: &str) -> bool {
    name.starts_with("tests/") || name.starts_with("benches/") || {
        let folder = name.split('/').nth(2).unwrap_or_default();
        name.starts_with("crates/") && ["benches", "tests"].contains(&folder)
    }
}

/// The file itself, or every file below the folder that is read.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        return if ENDINGS.contains(&ending) { vec![path.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = entries.flat_map(|path| files(&path)).collect();
    files.sort();
    files
}

/// The words of a line, also those of names in snake case and camel case, in lower case.
fn parts(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for letter in line.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if begins || !letter.is_alphabetic() {
            parts.push(String::new());
        }
        if letter.is_alphabetic() {
            parts.last_mut().unwrap().extend(letter.to_lowercase());
        }
        before = letter;
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn words(text: &str) -> Vec<Word> {
    let rows = rows(text).map(|row| match row[..] {
        [scope, word, standard] => Word {
            in_tests: match scope {
                "everywhere" => true,
                "product" => false,
                other => panic!("the scope \"{other}\" is neither everywhere nor product"),
            },
            parts: parts(word),
            standard: standard.to_owned(),
        },
        _ => panic!("a word needs a scope and a standard term: {row:?}"),
    });
    rows.collect()
}

fn exceptions(text: &str) -> BTreeSet<(String, String)> {
    let rows = rows(text).map(|row| match row[..] {
        [place, word] => (place.to_owned(), word.to_owned()),
        _ => panic!("an exception has a place and a word: {row:?}"),
    });
    rows.collect()
}

/// The lines that are no comments, cut at `|`.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split('|').map(str::trim).collect())
}

#[test]
fn names_are_taken_apart() {
    for (line, expected) in [
        ("fn node_bury(x: BuryNode)", "fn node bury x bury node"),
        ("SQL door: `AgentDoor`", "sql door agent door"),
        ("PUMPS_MAX, pump2", "pumps max pump"),
    ] {
        assert_eq!(parts(line).join(" "), expected);
    }
}

#[test]
fn tests_are_told_from_the_product() {
    for (name, expected) in [
        ("crates/store/src/lib.rs", false),
        ("crates/store/tests/it/main.rs", true),
        ("crates/engine/benches/engine/main.rs", true),
        ("tests/it/main.rs", true),
        ("docs/tests.md", false),
    ] {
        assert_eq!(is_test(name), expected, "{name}");
    }
}
