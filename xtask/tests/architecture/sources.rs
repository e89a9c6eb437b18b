//! Which lines of a Rust source name a path such as `std::fs`, written out or imported.
//!
//! This reads text, not meaning: enough to keep an honest author inside the rules. Comments are
//! ignored from `//` on; a block comment counts as code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every `.rs` file below a folder, in a stable order.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The lines, counted from 1, that name `path` or something below it. An import of a module above
/// it counts too: after `use std::time`, the text `time::Instant` would go unseen.
pub fn lines_naming(source: &str, path: &str) -> BTreeSet<usize> {
    let code: Vec<&str> = source.lines().map(without_comment).collect();
    let mut found = BTreeSet::new();
    for (index, line) in code.iter().enumerate() {
        if names_in_text(line, path) || imports(&code[index..]).any(|used| reaches(&used, path)) {
            found.insert(index + 1);
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether the path stands in the line as whole words.
fn names_in_text(line: &str, path: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(path).any(|(start, _)| {
        let (before, after) = (&line[..start], &line[start + path.len()..]);
        !before.ends_with(in_word) && !after.starts_with(in_word)
    })
}

/// Whether an imported path gives access to `path`: it is below, equal or above.
fn reaches(used: &str, path: &str) -> bool {
    let is_below = |a: &str, b: &str| a == b || a.starts_with(&format!("{b}::"));
    is_below(used, path) || is_below(path, used)
}

/// The paths of the `use` that begins on the first line, if one does.
fn imports(code: &[&str]) -> impl Iterator<Item = String> + use<> {
    let mut paths = Vec::new();
    let first = code[0].trim_start();
    let visibility_end = match first.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => first.find(')').map_or(0, |end| end + 1),
        Some(_) => "pub".len(),
        None => 0,
    };
    if first[visibility_end..].trim_start().starts_with("use ") {
        let text = code.join(" ");
        let statement = text.split(';').next().unwrap_or_default();
        let (_, tree) = statement.split_once("use ").unwrap_or_default();
        expand("", tree, &mut paths);
    }
    paths.into_iter()
}

/// Writes out a tree such as `std::{fs, time::{self, Duration as D}, net::*}`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let join = |path: &str| match (prefix, path) {
        ("", path) => path.to_string(),
        (prefix, "self" | "*" | "") => prefix.to_string(),
        (prefix, path) => format!("{prefix}::{path}"),
    };
    let tree = tree.trim().trim_start_matches("::");
    match tree.split_once('{') {
        Some((head, body)) => {
            let prefix = join(head.trim().trim_end_matches("::"));
            let body = body.trim_end().strip_suffix('}').unwrap_or(body);
            for branch in branches(body) {
                expand(&prefix, branch, paths);
            }
        }
        None => {
            let path = tree.split(" as ").next().unwrap_or_default().trim();
            paths.push(join(path.strip_suffix("::*").unwrap_or(path)));
        }
    }
}

/// The parts of a group, split at the commas that are not inside an inner group.
fn branches(body: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = body.split(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, path: &str, lines: &[usize]) {
        let found: Vec<usize> = lines_naming(source, path).into_iter().collect();
        assert_eq!(found, lines, "`{path}` in {source}");
    }

    #[test]
    fn written_out() {
        check("let a = 1;\nstd::fs::read(p)", "std::fs", &[2]);
        check("::std::fs::read(p)", "std::fs", &[1]);
        check("std::fsx::read(p); my_std::fs::a()", "std::fs", &[]);
        check("std::time::Duration::ZERO", "std::time::Instant", &[]);
    }

    #[test]
    fn comments_do_not_count() {
        check("//! std::fs\n/// std::fs\nlet a = 1; // std::fs", "std::fs", &[]);
    }

    #[test]
    fn imported() {
        check("use std::fs;", "std::fs", &[1]);
        check("pub(crate) use std::fs as files;", "std::fs", &[1]);
        check("    use std::{fmt, fs};", "std::fs", &[1]);
        check("use std::{fmt, fs::{File, Metadata}};", "std::fs", &[1]);
        check("mod a;\nuse std::{\n    fmt,\n    fs,\n};", "std::fs", &[2]);
        check("use std::{fmt, io};\nuse core::fs;", "std::fs", &[]);
    }

    #[test]
    fn imported_from_above() {
        check("use std::time;", "std::time::Instant", &[1]);
        check("use std::time::*;", "std::time::Instant", &[1]);
        check("use std::time::{self, Duration};", "std::time::Instant", &[1]);
        check("use std::{self as s};", "std::time::Instant", &[1]);
        check("use std::time::{Duration, Instant};", "std::time::Instant", &[1]);
        check("use std::time::Duration;", "std::time::Instant", &[]);
    }
}
