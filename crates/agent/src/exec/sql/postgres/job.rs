//! The work of a job, as far as it is known before the connection.

use serde_json::Value;

use super::super::script::{self, Positional, Statement};
use super::super::{SqlTask, maintenance, parameter};
use super::procedure::ProcedureCall;
use crate::Attempt;
use crate::exec::Failure;
use crate::secrets::{OPEN, resolve};

/// The statements of a job.
pub(super) enum SqlWork<'t> {
    Script {
        script: &'t str,
        statements: Vec<Statement>,
        /// The values of the parameters and secrets, by name.
        values: Vec<(String, Value)>,
        in_transaction: bool,
    },
    Call(ProcedureCall),
}

impl<'t> SqlWork<'t> {
    pub async fn read(attempt: &Attempt<'_>, task: SqlTask<'t>) -> Result<Self, Failure> {
        let script = match task {
            SqlTask::Script(script) => script,
            SqlTask::Procedure(action) => {
                return Ok(SqlWork::Call(ProcedureCall::read(attempt, action).await?));
            }
        };
        let statements = statements_of(script)?;
        let in_transaction = maintenance::share_a_transaction(&statements)?;
        let mut values: Vec<(String, Value)> = Vec::new();
        for statement in &statements {
            refuse(statement, attempt.assignment.run_as.as_deref())?;
            for name in &statement.parameters {
                if values.iter().any(|(known, _)| known == name) {
                    continue;
                }
                let value = if name.starts_with(OPEN) {
                    let secret = resolve(name, attempt.assignment, attempt.secrets).await;
                    Value::String(
                        secret.map_err(|error| Failure::secret("sql", &error))?.into_owned(),
                    )
                } else {
                    parameter(attempt, name)?.clone()
                };
                values.push((name.clone(), value));
            }
        }
        Ok(SqlWork::Script { script, statements, values, in_transaction })
    }
}

fn statements_of(script: &str) -> Result<Vec<Statement>, Failure> {
    script::read(script).map_err(|Positional(what)| {
        Failure::refused(
            "POSITIONAL_PARAMETER",
            format!("{what} is no parameter: write a colon and its name, as in :since"),
        )
    })
}

/// Whether a script may be executed, judged by its text alone.
pub(in crate::exec::sql) fn permitted(script: &str, run_as: Option<&str>) -> Result<(), Failure> {
    let statements = statements_of(script)?;
    maintenance::share_a_transaction(&statements)?;
    statements.iter().try_for_each(|statement| refuse(statement, run_as))
}

/// Refuses statements that would end the transaction, leave the role, or wait for input of a
/// client.
fn refuse(statement: &Statement, run_as: Option<&str>) -> Result<(), Failure> {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    let (name, problem) = match words.as_slice() {
        ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => return Ok(()),
        ["BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT", ..]
        | ["PREPARE", "TRANSACTION", ..] => (
            "TRANSACTION_CONTROL",
            "the statements of a job are one transaction already, which ends with the job",
        ),
        ["SET", "ROLE", ..]
        | ["SET", "LOCAL" | "SESSION", "ROLE", ..]
        | ["SET", "SESSION", "AUTHORIZATION", ..]
        | ["SET", "LOCAL", "SESSION", "AUTHORIZATION", ..]
        | ["RESET", "ROLE" | "SESSION" | "ALL", ..]
        | ["DISCARD", ..]
            if run_as.is_some() =>
        {
            ("ROLE_CHANGE", "a job that runs as a role must stay in it")
        }
        ["COPY", rest @ ..] if rest.contains(&"STDIN") || rest.contains(&"STDOUT") => {
            ("NOT_SUPPORTED", "there is no client whose input or output could be copied")
        }
        _ => return Ok(()),
    };
    let begin = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    Err(Failure::refused(name, format!("{begin} is not allowed: {problem}")))
}
