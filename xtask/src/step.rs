//! Steps: a heading, the work, its time. A failed step ends the command.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Does `work` under a heading and reports its time. Headings go to stderr, as cargo's own do.
pub fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {name}");
    let start = Instant::now();
    let outcome = work();
    let seconds = start.elapsed().as_secs_f64();
    let word = if outcome.is_ok() { "ok" } else { "FAILED" };
    eprintln!("== {name}: {word}, {seconds:.1} s");
    outcome
}

/// Runs a command with this process's input and output; anything but success is an error that
/// names the command, so that it can be repeated by hand.
pub fn run_command(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    ensure!(status.success(), "`{}`: {status}", shown(command));
    Ok(())
}

/// Whether a command starts and succeeds. Its output is not shown.
pub fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or_default().to_string_lossy()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_command() {
        let error = run_command(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3`: exit status: 3");
    }

    #[test]
    fn missing_program_is_named() {
        let error = run_command(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }

    #[test]
    fn failed_step_fails() {
        assert!(step("fails", || anyhow::bail!("no")).is_err());
        assert!(step("passes", || Ok(())).is_ok());
    }
}
