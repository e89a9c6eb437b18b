//! SQL statements about hooks.

use axum::http::HeaderMap;
use query::Value;
use sql::{HookStatement, Statement, Verb};

use super::answer::{HOOK_MADE, HOOK_ROTATED, HOOKS, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::condition::Condition;
use crate::problem::Code;
use crate::rest::hooks::{HookSpec, HookView, Hooks, make, renew};
use crate::rest::resource::{Resource, all, alter, find, remove};

impl Session {
    pub(super) async fn hook(&self, asked: &HookStatement) -> Result<Answer> {
        let at = asked.name.at;
        self.hook_in_place(asked).await.map_err(|error| error.or_at(at))
    }

    async fn hook_in_place(&self, asked: &HookStatement) -> Result<Answer> {
        let (app, actor, name) = (&self.app, &self.actor, &asked.name.value);
        let known = match find::<Hooks>(app, actor, name).await {
            Ok(object) => Some(object),
            Err(problem) if problem.code == Code::NotFound => None,
            Err(problem) => return Err(problem.into()),
        };
        let done = Answer::done(Statement::Hook(asked.clone()).tag());
        let secret = |shape, hook: HookView| {
            let secret = hook.secret.unwrap_or_default();
            Answer::rows(shape, vec![vec![text(&hook.name), text(&hook.path), text(secret)]])
        };
        match (asked.verb, known) {
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, Some(_)) => {
                let error = SqlError::new(Code::AlreadyExists, format!("there is a hook {name:?}"));
                Err(error.with_hint("ALTER HOOK changes it."))
            }
            (Verb::Create | Verb::CreateIfAbsent | Verb::CreateOrAlter, None) => {
                let spec = HookSpec { name: name.clone(), ..HookSpec::default() };
                let (_, made) = make(app, actor, changed(asked, spec)).await?;
                Ok(secret(HOOK_MADE, made))
            }
            (Verb::Alter | Verb::Drop, None) => {
                let error = SqlError::new(Code::NotFound, format!("there is no hook {name:?}"));
                Err(error.with_state("42704"))
            }
            (Verb::Alter, Some(old)) if asked.rotate => {
                Ok(secret(HOOK_ROTATED, renew(app, actor, old).await?))
            }
            (Verb::Alter, Some(old)) => {
                let spec = changed(asked, Hooks::spec(&old)?);
                alter::<Hooks>(app, actor, old, spec, Condition::None).await?;
                Ok(done)
            }
            (Verb::DropIfPresent, None) => {
                Ok(done.with_notice(format!("hook {name:?} does not exist, skipping")))
            }
            (Verb::Drop | Verb::DropIfPresent, Some(old)) => {
                remove::<Hooks>(app, actor, old, &HeaderMap::new()).await?;
                Ok(done)
            }
        }
    }

    pub(super) async fn show_hooks(&self) -> Result<Answer> {
        let row = |hook: HookView| {
            vec![
                text(&hook.name),
                Value::Uuid(hook.hook_id),
                text(&hook.path),
                text(&hook.job),
                text(domain::hook::HookScheme::from(hook.scheme).name()),
                Value::Int(hook.requests_per_second.into()),
                Value::Bool(hook.disabled),
                or_null(hook.description, text),
            ]
        };
        let hooks = all::<Hooks>(&self.app, &self.actor).await?;
        Ok(Answer::rows(HOOKS, hooks.into_iter().map(row).collect()))
    }
}

/// Applies a statement to the definition of a hook.
fn changed(asked: &HookStatement, mut spec: HookSpec) -> HookSpec {
    if let Some(job) = &asked.job {
        spec.job.clone_from(&job.value);
    }
    if let Some(scheme) = asked.scheme {
        spec.scheme = scheme.into();
    }
    if let Some(parameters) = &asked.parameters {
        spec.parameters = parameters.iter().cloned().collect();
    }
    if asked.rate.is_some() {
        spec.requests_per_second = asked.rate;
    }
    if let Some(disabled) = asked.disabled {
        spec.disabled = disabled;
    }
    if let Some(description) = &asked.description {
        spec.description.clone_from(description);
    }
    spec
}
