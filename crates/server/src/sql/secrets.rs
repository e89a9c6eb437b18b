//! Secrets: values go in and never come out.

use domain::secret::problem_of_value;
use sql::{SecretScope, SecretStatement, Statement, Verb};
use vault::Set;

use super::{Answer, Result, Session, SqlError};
use crate::problem::{Code, Problem};
use crate::rest::secrets::{ScopeParams, Wish, no_secret, place};

impl Session {
    pub(super) async fn secret(&self, asked: &SecretStatement) -> Result<Answer> {
        let at = asked.name.at;
        let done = self.secret_in_place(asked).await.map_err(|error| error.or_at(at))?;
        let answer = Answer::done(Statement::Secret(asked.clone()).tag());
        Ok(match done {
            None => answer,
            Some(notice) => answer.with_notice(notice),
        })
    }

    /// Answers what its author should know.
    async fn secret_in_place(&self, asked: &SecretStatement) -> Result<Option<String>> {
        let params = match &asked.scope {
            SecretScope::Tenant => ScopeParams { scope: None, job: None },
            SecretScope::Cluster => ScopeParams { scope: Some("cluster".to_owned()), job: None },
            SecretScope::Job(job) => ScopeParams { scope: None, job: Some(job.value.clone()) },
        };
        let name = asked.name.value.clone();
        let place = place(&self.app, &self.actor, &params, name, Wish::Change).await?;
        let known = self.app.secrets.find(&place).await?.map_or(0, |secret| secret.version);
        let shown = sql::quoted(&place.name);
        match (asked.verb, known) {
            (Verb::Create, 1..) => {
                let text = format!("there is a secret {shown} of the {}", place.scope.name());
                let error = SqlError::new(Code::AlreadyExists, text);
                return Err(error.with_hint("CREATE OR ALTER SECRET changes it."));
            }
            (Verb::CreateIfAbsent, 1..) => {
                return Ok(Some(format!("secret {shown} already exists, skipping")));
            }
            (Verb::DropIfPresent, 0) => {
                return Ok(Some(format!("secret {shown} does not exist, skipping")));
            }
            (Verb::Alter | Verb::Drop, 0) => {
                return Err(SqlError::from(no_secret(&place)).with_state("42704"));
            }
            _ => {}
        }
        let by = &self.actor.name;
        let done = match &asked.value {
            Some(value) => {
                if let Some(problem) = problem_of_value(&value.0) {
                    return Err(Problem::invalid("value", problem).into());
                }
                self.app.secrets.put(&place, &value.0, known, by).await?
            }
            None => self.app.secrets.remove(&place, known, by).await?,
        };
        match done {
            Set::Done(_) => Ok(None),
            Set::Conflict(version) => {
                let text = format!("the secret has version {version} meanwhile; try again");
                Err(SqlError::new(Code::VersionConflict, text))
            }
        }
    }
}
