//! Commands as people know them from other tools, rewritten to ours before they are read:
//! `punctual logs hello` is `punctual run logs hello`. They stand in no help.

use std::ffi::OsString;

/// Options before the command that have a value behind them.
const WITH_VALUE: [&str; 5] = ["--tenant", "--server", "--token", "--context", "--data"];

/// The verbs of `punctual run`. Any other word behind `run` is the name of a job to run.
const RUN_VERBS: [&str; 16] = [
    "explain", "list", "ls", "show", "describe", "get", "logs", "log", "output", "cancel", "stop",
    "kill", "retry", "rerun", "decide", "help",
];

/// The commands that one or two words of other tools stand for.
const WORDS: &[(&[&str], &[&str])] = &[
    (&["job", "logs"], &["run", "logs"]),
    (&["job", "history"], &["run", "list"]),
    (&["job", "runs"], &["run", "list"]),
    (&["get", "jobs"], &["job", "list"]),
    (&["get", "runs"], &["run", "list"]),
    (&["get", "nodes"], &["node", "list"]),
    (&["get", "secrets"], &["secret", "list"]),
    (&["get", "databases"], &["database", "list"]),
    (&["get", "users"], &["user", "list"]),
    (&["get", "tenants"], &["tenant", "list"]),
    (&["get", "job"], &["job", "show"]),
    (&["get", "run"], &["run", "show"]),
    (&["describe", "job"], &["job", "show"]),
    (&["describe", "run"], &["run", "show"]),
    (&["logs"], &["run", "logs"]),
    (&["trigger"], &["job", "run"]),
    (&["describe"], &["job", "show"]),
    (&["pause"], &["job", "pause"]),
    (&["resume"], &["job", "resume"]),
    (&["unpause"], &["job", "resume"]),
    (&["list"], &["job", "list"]),
    (&["ls"], &["job", "list"]),
    (&["create"], &["job", "create"]),
    (&["delete"], &["job", "delete"]),
    (&["edit"], &["job", "edit"]),
    (&["rename"], &["job", "rename"]),
    (&["next"], &["job", "next"]),
    (&["explain"], &["job", "explain"]),
    (&["history"], &["run", "list"]),
    (&["cancel"], &["run", "cancel"]),
    (&["retry"], &["run", "retry"]),
];

/// The arguments of the process, with familiar words replaced. The first is the program.
pub fn translate(args: Vec<OsString>) -> Vec<OsString> {
    let Some(at) = command_at(&args) else { return args };
    let word = |n: usize| args.get(at + n).and_then(|arg| arg.to_str());
    for (words, ours) in WORDS {
        if words.iter().enumerate().all(|(n, known)| word(n) == Some(known)) {
            let ours = ours.iter().map(OsString::from);
            let rest = args[at + words.len()..].iter().cloned();
            return args[..at].iter().cloned().chain(ours).chain(rest).collect();
        }
    }
    let is_job = |name: &str| !name.starts_with('-') && !RUN_VERBS.contains(&name);
    if word(0) == Some("run") && word(1).is_some_and(is_job) {
        let mut ours = args.clone();
        ours.insert(at, "job".into());
        return ours;
    }
    args
}

/// Where the first word is that is no option.
fn command_at(args: &[OsString]) -> Option<usize> {
    let mut at = 1;
    loop {
        let arg = args.get(at)?.to_str()?;
        if !arg.starts_with('-') {
            return Some(at);
        }
        at += if WITH_VALUE.contains(&arg) { 2 } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn familiar_words_become_ours() {
        for (written, meant) in [
            ("logs hello -f", "run logs hello -f"),
            ("job logs hello", "run logs hello"),
            ("trigger hello --wait", "job run hello --wait"),
            ("run hello --wait", "job run hello --wait"),
            ("run list hello", "run list hello"),
            ("run explain x", "run explain x"),
            ("run --help", "run --help"),
            ("run", "run"),
            ("describe hello", "job show hello"),
            ("describe run x", "run show x"),
            ("get jobs -o json", "job list -o json"),
            ("--tenant acme get jobs", "--tenant acme job list"),
            ("--no-color unpause a", "--no-color job resume a"),
            ("job list", "job list"),
            ("sql -c logs", "sql -c logs"),
            ("--help", "--help"),
            ("", ""),
        ] {
            let args = |text: &str| -> Vec<OsString> {
                ["punctual"]
                    .into_iter()
                    .chain(text.split_whitespace())
                    .map(OsString::from)
                    .collect()
            };
            assert_eq!(translate(args(written)), args(meant), "{written}");
        }
    }
}
