//! Names for lines that have none: the program that a command is about.

use std::collections::HashSet;

/// Words that stand before the program that a command is about.
const WRAPPERS: &[&str] = &[
    "[", "[[", "bash", "cd", "chronic", "env", "exec", "flock", "if", "ionice", "nice", "node",
    "nohup", "perl", "php", "python", "python3", "ruby", "sh", "sudo", "test", "then", "time",
    "timeout",
];

/// The longest name that is made.
const LENGTH_MAX: usize = 60;

/// The name of a command: `/usr/local/bin/backup.sh --all` is `backup`.
pub fn of_command(command: &str) -> String {
    let mut skips_next = false;
    for word in command.split_ascii_whitespace() {
        let word = word.trim_matches(|c: char| "\"'`();&|{}!".contains(c));
        let base = word.rsplit('/').next().unwrap_or(word);
        if std::mem::take(&mut skips_next) || word.starts_with('-') || word.contains('=') {
            continue;
        }
        if WRAPPERS.contains(&base) {
            // The folder of a cd is not what the command is about.
            skips_next = base == "cd";
            continue;
        }
        let stem = base.split_once('.').map_or(base, |(stem, _)| stem);
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name: String = stem.chars().filter(is_plain).take(LENGTH_MAX).collect();
        if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return name;
        }
    }
    "job".to_owned()
}

/// Names that were given already.
#[derive(Default)]
pub struct Names(HashSet<String>);

impl Names {
    /// The name, with a number when it was given before.
    pub fn unique(&mut self, prefix: &str, name: &str) -> String {
        let first = format!("{prefix}{name}");
        let mut unique = first.clone();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{first}-{number}");
            number += 1;
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_names() {
        for (command, name) in [
            ("/usr/local/bin/backup.sh --all >/dev/null 2>&1", "backup"),
            ("cd / && run-parts --report /etc/cron.hourly", "run-parts"),
            ("test -x /usr/sbin/anacron || ( cd / && run-parts /etc/cron.daily )", "anacron"),
            ("FOO=1 nice -n 10 python3 /opt/etl/load.py", "load"),
            ("[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean", "sessionclean"),
            ("( echo hello; date )", "echo"),
            ("42 7", "job"),
            ("\u{1b}[2J", "job"),
        ] {
            assert_eq!(of_command(command), name, "{command}");
        }
    }

    #[test]
    fn no_name_is_given_twice() {
        let mut names = Names::default();
        let given: Vec<String> = (0..3).map(|_| names.unique("web-", "backup")).collect();
        assert_eq!(given, ["web-backup", "web-backup-2", "web-backup-3"]);
    }
}
