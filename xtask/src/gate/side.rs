//! One side of the comparison: a source tree, its benchmarks, and their output.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::metrics::{Bench, Metric};
use crate::step::run_command;
use crate::workspace::{cargo, root, target};

/// The exit code of a benchmark that does not know an argument.
const USAGE: i32 = 2;

/// A built source tree.
pub struct Side {
    name: &'static str,
    tree: PathBuf,
    programs: HashMap<(&'static str, &'static str), PathBuf>,
}

impl Side {
    /// Builds the working tree.
    pub fn candidate(profile: &str, benches: &[Bench]) -> Result<Self> {
        Side::build("new", root()?, None, profile, benches)
    }

    /// Checks a commit out below the target folder and builds it, in a target folder of its own
    /// that stays for the next comparison.
    pub fn base(commit: &str, profile: &str, benches: &[Bench]) -> Result<Self> {
        let folder = target()?.join("gate");
        let tree = folder.join("tree");
        check_out(&tree, commit)?;
        Side::build("base", tree, Some(folder.join("target")), profile, benches)
    }

    fn build(
        name: &'static str,
        tree: PathBuf,
        target: Option<PathBuf>,
        profile: &str,
        benches: &[Bench],
    ) -> Result<Self> {
        let mut programs = HashMap::new();
        for bench in benches {
            let (folder, bench) = bench.target();
            let manifest = format!("{folder}/Cargo.toml");
            let mut build = cargo(&["bench", "--no-run", "--message-format", "json"])?;
            build.args(["--profile", profile, "--manifest-path", &manifest, "--bench", bench]);
            build.current_dir(&tree).stderr(Stdio::inherit());
            if let Some(target) = &target {
                build.env("CARGO_TARGET_DIR", target);
            }
            let built = build.output().context("cannot start cargo")?;
            ensure!(built.status.success(), "{name}: cannot build the benchmark {bench}");
            let lines = String::from_utf8_lossy(&built.stdout);
            let Some(program) = program(&lines, bench) else {
                bail!("{name}: cargo does not say where the benchmark {bench} is");
            };
            programs.insert((folder, bench), program);
        }
        Ok(Side { name, tree, programs })
    }

    /// Measures a metric once; none if this tree's benchmark does not know it.
    pub fn measure(&self, metric: &Metric) -> Result<Option<f64>> {
        let (folder, bench) = metric.bench.target();
        let program = self.programs.get(&(folder, bench)).context("it was not built")?;
        // The working directory that cargo would use.
        let folder = self.tree.join(folder);
        let mut command = Command::new(program);
        command.args(metric.args).arg("--bench").current_dir(folder).stdin(Stdio::null());
        let output = command.output().with_context(|| program.display().to_string())?;
        if output.status.code() == Some(USAGE) {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} of {}: {said}", metric.name, self.name);
        let value = metric.read(&String::from_utf8_lossy(&output.stdout));
        if let Some(value) = value {
            eprintln!("   {:<5} {:<22} {value:.3} {}", self.name, metric.name, metric.unit);
        }
        Ok(value)
    }
}

/// The program of a benchmark among cargo's messages.
fn program(messages: &str, bench: &str) -> Option<PathBuf> {
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_bench = |message: &Value| {
        message["reason"] == "compiler-artifact"
            && message["target"]["name"] == bench
            && message["target"]["kind"][0] == "bench"
    };
    messages.rfind(is_bench)?["executable"].as_str().map(PathBuf::from)
}

/// Makes `tree` a worktree of the commit. One that is there already is moved to the commit, so that
/// cargo builds only what differs.
fn check_out(tree: &Path, commit: &str) -> Result<()> {
    let git = |folder: &Path, args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(folder).args(args).stdout(Stdio::null());
        command
    };
    let root = root()?;
    let wanted = format!("{commit}^{{commit}}");
    let found = git(&root, &["rev-parse", "--verify", "--quiet", &wanted])
        .stdout(Stdio::piped())
        .output()
        .context("cannot start git")?;
    ensure!(found.status.success(), "there is no commit \"{commit}\" in this repository");
    let found = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if tree.join(".git").exists() {
        let moved =
            run_command(&mut git(tree, &["checkout", "--quiet", "--force", "--detach", &found]));
        if moved.is_ok() {
            return Ok(());
        }
        // Not a worktree of this repository any more.
        fs::remove_dir_all(tree).with_context(|| tree.display().to_string())?;
    }
    run_command(&mut git(&root, &["worktree", "prune"]))?;
    let place = tree.to_str().context("the target folder's name is no text")?;
    run_command(&mut git(
        &root,
        &["worktree", "add", "--quiet", "--force", "--detach", place, &found],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_among_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"rest","kind":["bin"]},"executable":"/a"}
{"reason":"compiler-artifact","target":{"name":"rest","kind":["bench"]},"executable":"/b"}
{"reason":"compiler-artifact","target":{"name":"sql","kind":["bench"]},"executable":"/c"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(program(messages, "rest"), Some(PathBuf::from("/b")));
        assert_eq!(program(messages, "sql"), Some(PathBuf::from("/c")));
        assert_eq!(program(messages, "engine"), None);
    }
}
