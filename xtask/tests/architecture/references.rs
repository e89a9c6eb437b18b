//! Files and names that ARCHITECTURE.md mentions in backticks: each of them exists.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of the workspace: their paths below the root, and every word in them.
pub struct Sources {
    paths: Vec<String>,
    words: HashSet<String>,
}

impl Sources {
    /// Reads the files. Paths are relative to the root.
    pub fn read(root: &Path, files: &[PathBuf]) -> Self {
        let mut words = HashSet::new();
        for file in files {
            let text = fs::read_to_string(file).unwrap();
            words.extend(text.split(|c| !is_word(c)).map(str::to_owned));
        }
        let path = |file: &PathBuf| file.strip_prefix(root).unwrap_or(file).display().to_string();
        Sources { paths: files.iter().map(path).collect(), words }
    }

    /// Names that the page mentions and the sources do not have, with their lines.
    pub fn missing(&self, page: &str) -> Vec<String> {
        let mut missing = Vec::new();
        for (index, line) in page.lines().enumerate() {
            for quoted in line.split('`').skip(1).step_by(2) {
                if !self.has(quoted) {
                    missing.push(format!("ARCHITECTURE.md:{} names `{quoted}`", index + 1));
                }
            }
        }
        missing
    }

    /// A path ends a file's path, with or without the `src` of its crate; a name such as
    /// `Node::plan` is made of words of the sources. Anything else counts as prose.
    fn has(&self, quoted: &str) -> bool {
        if quoted.ends_with(".rs") && quoted.chars().all(|c| is_word(c) || "/.-".contains(c)) {
            let long = quoted.replacen('/', "/src/", 1);
            let ends = |path: &String| {
                let path = format!("/{path}");
                [quoted, &long].iter().any(|end| path.ends_with(&format!("/{end}")))
            };
            return self.paths.iter().any(ends);
        }
        let is_name = quoted.contains("::") && quoted.chars().all(|c| is_word(c) || c == ':');
        let is_foreign = ["std::", "tokio::"].iter().any(|name| quoted.starts_with(name));
        !is_name || is_foreign || quoted.split("::").all(|word| self.words.contains(word))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_names_must_exist() {
        let sources = Sources {
            paths: vec!["crates/engine/src/node/plan.rs".into(), "src/clock.rs".into()],
            words: ["Node", "plan", "domain"].map(str::to_owned).into(),
        };
        for (page, missing) in [
            ("`crates/engine/src/node/plan.rs`, `engine/node/plan.rs`, `node/plan.rs`", 0),
            ("`src/clock.rs`, `clock.rs`, `plan.rs`, `std::fs`, `-o json`, `Absent`", 0),
            ("`Node::plan` and `domain::plan`", 0),
            ("`lan.rs`, `node/clock.rs`", 2),
            ("first\n`Node::planned`", 1),
        ] {
            assert_eq!(sources.missing(page).len(), missing, "{page}");
        }
        assert_eq!(sources.missing("a\n`b.rs`"), ["ARCHITECTURE.md:2 names `b.rs`"]);
    }
}
