//! Commands that put a database in order, and other statements that no transaction may hold.
//!
//! | written | PostgreSQL | SQLite |
//! |---|---|---|
//! | `SWEEP …` | `VACUUM …` | `VACUUM` |
//! | `SWEEP ANALYZE …` | `VACUUM ANALYZE …` | `VACUUM`, then `ANALYZE` |
//! | `VACUUM …` | as it is | `VACUUM`; `VACUUM ANALYZE` as above |
//! | `ANALYZE TABLES` | `ANALYZE` | `ANALYZE` |
//! | `REINDEX DATABASE` | `REINDEX DATABASE` of the present one | `REINDEX` |

use super::script::Statement;
use crate::exec::Failure;

/// Where a statement may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StatementPlacement {
    Transaction,
    NoTransaction,
    Either,
}

fn place(statement: &Statement) -> StatementPlacement {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SWEEP" | "VACUUM", ..] => StatementPlacement::NoTransaction,
        ["ANALYZE" | "ANALYSE", ..] => StatementPlacement::Either,
        ["REINDEX", "DATABASE" | "SYSTEM" | "SCHEMA", ..] => StatementPlacement::NoTransaction,
        ["CREATE" | "DROP", "DATABASE" | "TABLESPACE" | "SUBSCRIPTION", ..]
        | ["ALTER", "SYSTEM", ..]
        | ["CLUSTER"] => StatementPlacement::NoTransaction,
        // The one that may be part of a transaction.
        ["REFRESH", ..] => StatementPlacement::Transaction,
        words if is_index_or_table(words) && words.contains(&"CONCURRENTLY") => {
            StatementPlacement::NoTransaction
        }
        ["REINDEX", ..] => StatementPlacement::Either,
        _ => StatementPlacement::Transaction,
    }
}

fn is_index_or_table(words: &[&str]) -> bool {
    matches!(words, ["CREATE" | "DROP" | "REINDEX", ..] | ["ALTER", "TABLE", ..])
}

/// Whether the statements share a transaction; if not, each is its own. Both at once cannot be.
pub(super) fn share_a_transaction(statements: &[Statement]) -> Result<bool, Failure> {
    let alone = statements.iter().find(|one| place(one) == StatementPlacement::NoTransaction);
    let together = statements.iter().any(|one| place(one) == StatementPlacement::Transaction);
    match alone {
        Some(alone) if together => Err(Failure::refused(
            "NOT_IN_TRANSACTION",
            format!(
                "{} cannot be part of the transaction that the other statements share: make it a \
                 job of its own",
                alone.words.iter().take(3).cloned().collect::<Vec<_>>().join(" ")
            ),
        )),
        Some(_) => Ok(false),
        None => Ok(together || statements.is_empty()),
    }
}

/// The statement in PostgreSQL's words; `database` is a name in quotes.
pub(super) fn for_postgres(statement: &mut Statement, database: &str) {
    if statement.begins(&["SWEEP"]) {
        statement.text = format!("VACUUM{}", &statement.text["SWEEP".len()..]);
    } else if statement.words == ["ANALYZE", "TABLES"] {
        *statement = Statement::own("ANALYZE");
    } else if statement.words == ["REINDEX", "DATABASE"] && !statement.text.contains('"') {
        *statement = Statement::own(format!("REINDEX DATABASE {database}"));
    }
}

/// The commands of SQLite for a job that consists of nothing else; none when it is another job.
pub(super) fn for_sqlite(statements: &[Statement]) -> Result<Option<Vec<String>>, Failure> {
    let is_command = |one: &Statement| {
        let first = one.words.first().map(String::as_str);
        matches!(first, Some("SWEEP" | "VACUUM" | "ANALYZE" | "REINDEX"))
    };
    let commands = statements.iter().filter(|one| is_command(one)).count();
    if commands == 0 || (commands < statements.len() && share_a_transaction(statements)?) {
        return Ok(None);
    }
    let mut found = Vec::new();
    for statement in statements {
        let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
        let is_bare = statement.text.split_whitespace().count() == words.len();
        match words.as_slice() {
            ["SWEEP" | "VACUUM"] if is_bare => found.push("VACUUM".to_owned()),
            ["SWEEP" | "VACUUM", "ANALYZE"] if is_bare => {
                found.extend(["VACUUM".to_owned(), "ANALYZE".to_owned()]);
            }
            ["SWEEP" | "VACUUM", ..] => {
                return Err(Failure::refused(
                    "NOT_SUPPORTED",
                    format!(
                        "SQLite puts the whole file in order: write {0} or {0} ANALYZE, without \
                         options, tables or files",
                        words[0]
                    ),
                ));
            }
            ["ANALYZE", "TABLES"] if is_bare => found.push("ANALYZE".to_owned()),
            ["REINDEX", "DATABASE"] if is_bare => found.push("REINDEX".to_owned()),
            _ => found.push(statement.text.clone()),
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::super::script;
    use super::*;

    #[test]
    fn which_statements_share_a_transaction() {
        for (text, expected) in [
            ("", "true"),
            ("SELECT 1; DELETE FROM t", "true"),
            ("VACUUM", "false"),
            ("SWEEP ANALYZE", "false"),
            ("ANALYZE", "false"),
            ("ANALYZE TABLES", "false"),
            ("REINDEX DATABASE", "false"),
            ("REINDEX TABLE t", "false"),
            ("VACUUM a; VACUUM b; ANALYZE c", "false"),
            ("DELETE FROM t; ANALYZE t", "true"),
            ("CREATE INDEX CONCURRENTLY i ON t (a)", "false"),
            ("CREATE UNIQUE INDEX CONCURRENTLY i ON t (a)", "false"),
            ("REINDEX INDEX CONCURRENTLY i", "false"),
            ("REFRESH MATERIALIZED VIEW CONCURRENTLY v", "true"),
            ("CREATE INDEX i ON t (a)", "true"),
            ("CREATE DATABASE d", "false"),
            ("SELECT concurrently FROM t", "true"),
            ("DELETE FROM t; VACUUM t", "NOT_IN_TRANSACTION"),
            ("CREATE TABLE t (a int); CREATE INDEX CONCURRENTLY i ON t (a)", "NOT_IN_TRANSACTION"),
        ] {
            let answer = match share_a_transaction(&script::read(text).unwrap()) {
                Ok(answer) => answer.to_string(),
                Err(failure) => failure.code.to_string(),
            };
            assert_eq!(answer, expected, "{text}");
        }
    }

    #[test]
    fn commands_in_the_words_of_each_database() {
        for (text, postgres, sqlite) in [
            ("SWEEP", "VACUUM", "VACUUM"),
            ("sweep analyze;", "VACUUM analyze", "VACUUM;ANALYZE"),
            ("SWEEP ANALYZE orders", "VACUUM ANALYZE orders", "NOT_SUPPORTED"),
            ("VACUUM (VERBOSE) t", "VACUUM (VERBOSE) t", "NOT_SUPPORTED"),
            ("VACUUM INTO '/tmp/x'", "VACUUM INTO '/tmp/x'", "NOT_SUPPORTED"),
            ("ANALYZE TABLES", "ANALYZE", "ANALYZE"),
            ("ANALYZE \"tables\"", "ANALYZE \"tables\"", "ANALYZE \"tables\""),
            ("ANALYZE orders", "ANALYZE orders", "ANALYZE orders"),
            ("REINDEX DATABASE", "REINDEX DATABASE \"d\"", "REINDEX"),
            ("REINDEX DATABASE \"x\"", "REINDEX DATABASE \"x\"", "REINDEX DATABASE \"x\""),
            ("SWEEP; ANALYZE TABLES", "VACUUM;ANALYZE", "VACUUM;ANALYZE"),
            ("SELECT 1", "SELECT 1", "none"),
            ("DELETE FROM t; ANALYZE", "DELETE FROM t;ANALYZE", "none"),
        ] {
            let mut statements = script::read(text).unwrap();
            let found = match for_sqlite(&statements) {
                Ok(found) => found.map_or("none".to_owned(), |found| found.join(";")),
                Err(failure) => failure.code.to_string(),
            };
            assert_eq!(found, sqlite, "{text}");
            statements.iter_mut().for_each(|one| for_postgres(one, "\"d\""));
            let found: Vec<_> = statements.into_iter().map(|one| one.text).collect();
            assert_eq!(found.join(";"), postgres, "{text}");
        }
    }
}
