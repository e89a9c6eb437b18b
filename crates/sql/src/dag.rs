//! Converts the clauses of a DAG and of its steps to a definition.

use domain::cluster::Labels;
use domain::dag::{Dag, DagError, STEP_TIMEOUT, Step, StepWork};
use domain::job::{Definition, RetryPolicy};

use crate::define::{Context, Defined, Kind, Refused, action_of, refused};
use crate::statement::{AlterDag, DagClauses, StepChange, StepClause, WorkClause};

type Result<T> = std::result::Result<T, Refused>;

/// The clauses of a step that set its retry policy.
const RETRY: [&str; 7] = [
    "max_attempts",
    "backoff",
    "max_backoff",
    "backoff_multiplier",
    "retry_jitter",
    "retry_on",
    "no_retry_on",
];

impl DagClauses {
    /// The definition of a new DAG, or of an existing one with these changes.
    pub fn define(&self, base: Option<&Definition>, context: &Context<'_>) -> Result<Defined> {
        let Defined { mut definition, state } = self.job.define_shared(base, context)?;
        let mut dag = base.and_then(|base| base.dag.as_deref().cloned()).unwrap_or_default();
        if let Some(most) = self.max_parallel {
            dag.max_parallel = most;
        }
        if let Some(queue) = &self.queue {
            dag.queue.clone_from(queue);
        }
        if let Some(policy) = self.on_step_failure {
            dag.on_step_failure = policy;
        }
        if let Some(work) = &self.on_failure {
            dag.on_failure = work.as_ref().map(work_of);
        }
        if let Some(work) = &self.on_success {
            dag.on_success = work.as_ref().map(work_of);
        }
        if let Some(steps) = &self.steps {
            let of = |step: &StepClause| step.define(&definition.retry, context);
            dag.steps = steps.iter().map(of).collect::<Result<Vec<Step>>>()?;
        }
        definition.dag = Some(Box::new(dag));
        Ok(Defined { definition, state })
    }

    /// The position of an error in the text of the statement.
    pub fn place_of(&self, error: &DagError) -> Option<usize> {
        place_among(self.steps.iter().flatten(), error)
    }
}

/// The position of the step that an error names.
fn place_among<'a>(
    steps: impl Iterator<Item = &'a StepClause> + Clone,
    error: &DagError,
) -> Option<usize> {
    let place = |name: &str| {
        // The handler of a step is named after it.
        let name = name.split('@').next().unwrap_or(name);
        steps.clone().filter(|step| step.name.value == name).map(|step| step.name.at).last()
    };
    match error {
        DagError::Dag { .. } => None,
        DagError::Step { step, field, problem } => {
            let clause = steps.clone().filter(|it| it.name.value == *step).last();
            let quoted = |name: &str| problem.contains(&format!("{name:?}"));
            match (clause, *field) {
                (Some(clause), "after") => {
                    let wrong = clause.after.iter().find(|name| quoted(&name.value));
                    wrong.map(|name| name.at).or(Some(clause.name.at))
                }
                (Some(clause), "timeout_seconds") => {
                    clause.job.place_of("timeout").or(Some(clause.name.at))
                }
                (Some(clause), "priority") => {
                    clause.job.place_of("priority").or(Some(clause.name.at))
                }
                _ => place(step),
            }
        }
        DagError::Cycle(names) => names.iter().find_map(|name| place(name)),
    }
}

impl AlterDag {
    /// The definition of a DAG with these changes.
    pub fn define(&self, base: &Definition, context: &Context<'_>) -> Result<Defined> {
        let Defined { mut definition, state } = self.clauses.define(Some(base), context)?;
        let retry = definition.retry.clone();
        let mut dag: Dag = definition.dag.as_deref().cloned().unwrap_or_default();
        for change in &self.steps {
            let (StepChange::Add(StepClause { name, .. })
            | StepChange::Replace(StepClause { name, .. })
            | StepChange::Drop(name)) = change;
            let found = dag.steps.iter().position(|step| step.name == name.value);
            match (change, found) {
                (StepChange::Add(step), None) => dag.steps.push(step.define(&retry, context)?),
                (StepChange::Add(_), Some(_)) => {
                    let text = format!("there is a step {:?}", name.value);
                    let hint = Some("ALTER STEP gives it another definition.".to_owned());
                    return Err(Refused { hint, ..refused(Kind::Value, name.at, text) });
                }
                (StepChange::Replace(step), Some(found)) => {
                    dag.steps[found] = step.define(&retry, context)?;
                }
                (StepChange::Drop(_), Some(found)) => {
                    dag.steps.remove(found);
                }
                (StepChange::Replace(_) | StepChange::Drop(_), None) => {
                    let text = format!("there is no step {:?}", name.value);
                    return Err(refused(Kind::Value, name.at, text));
                }
            }
        }
        definition.dag = Some(Box::new(dag));
        Ok(Defined { definition, state })
    }

    /// The position of an error in the text of the statement.
    pub fn place_of(&self, error: &DagError) -> Option<usize> {
        let changed = self.steps.iter().filter_map(|change| match change {
            StepChange::Add(step) | StepChange::Replace(step) => Some(step),
            StepChange::Drop(_) => None,
        });
        place_among(self.clauses.steps.iter().flatten().chain(changed), error)
    }
}

impl StepClause {
    /// The step. `retry` is the policy of its DAG.
    fn define(&self, retry: &RetryPolicy, context: &Context<'_>) -> Result<Step> {
        let base = Definition { retry: retry.clone(), ..Definition::default() };
        let job = self.job.define(Some(&base), context)?.definition;
        let has = |side: &str| self.job.place_of(side).is_some();
        let timeout = has("timeout").then_some(job.timeout);
        Ok(Step {
            name: self.name.value.clone(),
            description: job.description.clone(),
            work: match &self.work {
                Some(work) => work_of(work),
                None => StepWork::Action { action: job.action.clone() },
            },
            after: self.after.iter().map(|name| name.value.clone()).collect(),
            rule: self.rule,
            when: self.when.clone(),
            for_each: self.for_each.clone(),
            allow_failure: self.allow_failure,
            timeout: timeout.filter(|timeout| *timeout != STEP_TIMEOUT),
            retry: RETRY.iter().any(|side| has(side)).then(|| job.retry.clone()),
            priority: has("priority").then_some(job.priority),
            class: job.class,
            run_on: Labels(job.run_on.0.clone()),
            partition: job.partition.clone(),
            result_bytes: self.result_bytes,
            on_failure: self.on_failure.as_ref().map(work_of),
            on_success: self.on_success.as_ref().map(work_of),
        })
    }
}

fn work_of(work: &WorkClause) -> StepWork {
    let pairs = |values: &[(String, crate::literal::Literal)]| {
        values.iter().map(|(name, value)| (name.clone(), value.json())).collect()
    };
    match work {
        WorkClause::Action(action) => StepWork::Action { action: action_of(action) },
        WorkClause::Message { queue, payload } => {
            StepWork::Message { queue: queue.clone(), payload: payload.clone() }
        }
        WorkClause::Job(job, values) => {
            StepWork::Job { job: job.clone(), parameters: pairs(values) }
        }
        WorkClause::Dag(dag, values) => {
            StepWork::Dag { dag: dag.clone(), parameters: pairs(values) }
        }
        WorkClause::Approval { role, timeout, default } => {
            StepWork::Approval { role: role.clone(), timeout: *timeout, default: *default }
        }
        WorkClause::Sleep(duration) => StepWork::Sleep { duration: Some(*duration), until: None },
        WorkClause::SleepUntil(until) => {
            StepWork::Sleep { duration: None, until: Some(until.clone()) }
        }
        WorkClause::Alert(message) => StepWork::Alert { message: message.clone() },
        WorkClause::WaitForMessage { queue, timeout } => {
            StepWork::WaitForMessage { queue: queue.clone(), timeout: *timeout }
        }
    }
}
