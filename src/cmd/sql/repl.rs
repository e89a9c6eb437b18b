//! `punctual sql` on a terminal: statements are typed, with history and completion.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::connection::{ServerMessage, SqlConnection};
use super::editor::{Editor, Typed};
use super::{SqlArgs, show};
use crate::client::contexts::own_folder;
use crate::data::write_private;
use crate::exit::Failure;

/// The file of the history, beside the contexts.
const HISTORY_FILE: &str = "sql_history";

/// Words that statements begin with or that follow often.
const KEYWORDS: [&str; 40] = [
    "SELECT",
    "FROM",
    "WHERE",
    "ORDER BY",
    "GROUP BY",
    "LIMIT",
    "CREATE JOB",
    "ALTER JOB",
    "DROP JOB",
    "PAUSE JOB",
    "RESUME JOB",
    "EXECUTE JOB",
    "EXPLAIN JOB",
    "BACKFILL JOB",
    "CANCEL JOB RUN",
    "RETRY JOB RUN",
    "SHOW JOBS",
    "SHOW JOB RUNS",
    "SHOW CREATE JOB",
    "SCHEDULE",
    "CRON",
    "EVERY",
    "AS",
    "HTTP",
    "NOOP",
    "EXEC",
    "CALL",
    "TIMEZONE",
    "MAX_RETRIES",
    "TIMEOUT",
    "OVERLAP",
    "CATCH_UP",
    "PRIORITY",
    "TAGS",
    "GRANT",
    "REVOKE",
    "CREATE USER",
    "CREATE SECRET",
    "BEGIN",
    "COMMIT",
];

const HELP: &str = "\
Statements end with ; and may have several lines.
  \\d           list the tables
  \\d TABLE     describe a table
  \\q           quit (or Ctrl-D)
  \\?           this help
The tab key completes keywords, tables, columns and jobs; the cursor keys walk through the history.";

/// Reads and runs statements until the user quits.
pub(super) async fn run(connection: &mut SqlConnection, args: &SqlArgs) -> Result<(), Failure> {
    if !args.quiet {
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(io::stderr(), "punctual sql {version}; \\? for help, \\q to quit");
    }
    let file = own_folder().ok().map(|folder| folder.join(HISTORY_FILE));
    let mut editor = Editor::new(read_history(file.as_ref()), words(connection).await);
    let mut statement = String::new();
    loop {
        let prompt = if statement.trim().is_empty() { "punctual=> " } else { "punctual-> " };
        match editor.read_line(prompt)? {
            Typed::End => break,
            Typed::Cancelled => statement.clear(),
            Typed::Line(line) => {
                if statement.trim().is_empty()
                    && let Some(command) = line.trim().strip_prefix('\\')
                {
                    editor.remember(&line);
                    match meta(command) {
                        Meta::Quit => break,
                        Meta::Help => writeln!(io::stdout(), "{HELP}")?,
                        Meta::Ask(question) => run_one(connection, &question, args).await?,
                    }
                    continue;
                }
                if matches!(line.trim(), "quit" | "exit") && statement.trim().is_empty() {
                    break;
                }
                statement.push_str(&line);
                statement.push('\n');
                if is_complete(&statement) {
                    let text = std::mem::take(&mut statement);
                    if is_rememberable(&text) {
                        editor.remember(&text);
                    }
                    run_one(connection, &text, args).await?;
                }
            }
        }
    }
    if let Some(file) = file {
        write_history(&file, editor.history());
    }
    Ok(())
}

/// Runs a text. A mistake is printed and ends nothing; a connection that is gone does.
async fn run_one(
    connection: &mut SqlConnection,
    text: &str,
    args: &SqlArgs,
) -> Result<(), Failure> {
    match show(connection, text, args).await {
        Err(failure @ Failure::Ended(..)) => Ok(failure.print()?),
        other => other,
    }
}

/// A command with a backslash.
#[derive(Debug, PartialEq, Eq)]
enum Meta {
    Quit,
    Help,
    Ask(String),
}

fn meta(command: &str) -> Meta {
    let (word, rest) =
        command.trim().split_once(char::is_whitespace).unwrap_or((command.trim(), ""));
    let name = rest.trim().trim_end_matches(';').to_lowercase().replace('\'', "''");
    let name = name.strip_prefix("sys.").unwrap_or(&name);
    match (word, name) {
        ("q" | "quit" | "exit", _) => Meta::Quit,
        ("d" | "dt" | "d+" | "dt+", "") => Meta::Ask(
            "SELECT table_name AS \"table\" FROM information_schema.tables \
             WHERE table_schema = 'sys' ORDER BY 1"
                .to_owned(),
        ),
        ("d" | "dt" | "d+" | "dt+", name) => Meta::Ask(format!(
            "SELECT c.column_name AS \"column\", c.data_type AS type, \
             col_description(('sys.' || c.table_name)::regclass, c.ordinal_position) AS meaning \
             FROM information_schema.columns c \
             WHERE c.table_schema = 'sys' AND c.table_name = '{name}' ORDER BY c.ordinal_position"
        )),
        _ => Meta::Help,
    }
}

/// Whether a text ends with a semicolon outside of quotes and comments.
fn is_complete(text: &str) -> bool {
    let (mut quote, mut last) = (None, ' ');
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => (quote, last) = (Some(letter), letter),
            (None, '-') if letters.peek() == Some(&'-') => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            (None, letter) if letter.is_whitespace() => {}
            (None, letter) => last = letter,
        }
    }
    quote.is_none() && last == ';'
}

/// Whether a statement may be kept: one with a password or a secret is not.
fn is_rememberable(text: &str) -> bool {
    let upper = text.to_uppercase();
    !["SECRET", "PASSWORD"].iter().any(|word| upper.contains(word))
}

/// Words for the tab key: keywords, tables, columns, and the jobs that there are now.
async fn words(connection: &mut SqlConnection) -> Vec<String> {
    let mut words: Vec<String> = KEYWORDS.iter().map(|word| (*word).to_owned()).collect();
    for table in server::TABLES.iter() {
        words.push(format!("{}.{}", table.schema, table.name));
        words.extend(table.fields.iter().map(|field| field.name.to_owned()));
    }
    let question = "SELECT job_name FROM sys.jobs ORDER BY job_name LIMIT 500";
    if connection.ask(question).await.is_ok() {
        loop {
            match connection.next().await {
                Ok(ServerMessage::Row(row)) => words.extend(row.into_iter().flatten()),
                Ok(ServerMessage::Ready) | Err(_) => break,
                Ok(_) => {}
            }
        }
    }
    words
}

fn read_history(file: Option<&PathBuf>) -> Vec<String> {
    let text = file.and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Keeps the history. A history that cannot be kept is no failure of what was done.
fn write_history(file: &Path, lines: &[String]) {
    let kept = match file.parent() {
        Some(folder) => fs::create_dir_all(folder),
        None => Ok(()),
    };
    let _ = kept.and_then(|()| write_private(file, &lines.join("\n")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_with_a_semicolon_outside_of_quotes() {
        for (text, expected) in [
            ("SELECT 1;", true),
            ("SELECT 1", false),
            ("SELECT ';", false),
            ("SELECT ';';\n", true),
            ("SELECT \"a;b\"", false),
            ("SELECT 1; -- done", true),
            ("SELECT 1 -- not yet;", false),
            ("CREATE JOB a\nAS NOOP;\n", true),
            ("", false),
        ] {
            assert_eq!(is_complete(text), expected, "{text}");
        }
    }

    #[test]
    fn backslashes_are_commands() {
        assert_eq!(meta("q"), Meta::Quit);
        assert_eq!(meta("?"), Meta::Help);
        assert!(matches!(meta("d"), Meta::Ask(text) if text.contains("information_schema.tables")));
        let described = meta("d sys.Jobs;");
        assert!(matches!(described, Meta::Ask(text) if text.contains("table_name = 'jobs'")));
        let quoted = meta("d x' OR 'a'='a");
        assert!(matches!(quoted, Meta::Ask(text) if text.contains("'x'' or ''a''=''a'")));
    }

    #[test]
    fn secrets_stay_out_of_the_history() {
        assert!(is_rememberable("SELECT 1;"));
        assert!(!is_rememberable("create secret k value 'x';"));
        assert!(!is_rememberable("ALTER USER ann PASSWORD 'x';"));
    }
}
