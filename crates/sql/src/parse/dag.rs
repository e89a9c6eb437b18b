//! Statements about DAGs and their runs.

use domain::dag::rerun::{Rerun, RerunFrom, RerunVersion};
use domain::dag::{ApprovalAnswer, ForEach, MinSuccess, OnStepFailure, TriggerRule};
use sqlparser::tokenizer::Token;

use super::job::{catch_up, dropped};
use super::run::{TIME, backfilled, executed, run};
use super::show::version_after;
use crate::clause::{Clause, Clauses, Subject, expression, payload, values};
use crate::reader::Reader;
use crate::statement::{
    AlterDag, CreateDag, DagClauses, DagStatement, IfPresent, Spanned, Statement, StepChange,
    StepClause, StepOf, WorkClause,
};
use crate::syntax::{Result, SyntaxError};

const DAG: &str = "the name of a DAG";
const STEP: &str = "the name of a step";

/// The clauses that a DAG has and a job has not, for the documentation.
pub const DAG_CLAUSES: &[&str] = &["MAX_PARALLEL", "QUEUE", "ON FAILURE", "ON SUCCESS", "AS"];

/// The clauses that a step has and a job has not, for the documentation.
pub const STEP_CLAUSES: &[&str] = &[
    "AFTER",
    "TRIGGER RULE",
    "WHEN",
    "FOR EACH",
    "ALLOW FAILURE",
    "RESULT_BYTES",
    "ON FAILURE DO",
    "ON SUCCESS DO",
];

/// The clauses of jobs that a DAG has.
const OF_DAG: Subject = Subject {
    what: "a DAG",
    has: |side| {
        const NOT: [&str; 8] =
            ["class", "run_on", "partition", "timeout", "database", "action", "calendar", "queue"];
        !NOT.contains(&side)
    },
    own: DAG_CLAUSES,
};

/// The clauses of jobs that a step has.
const OF_STEP: Subject = Subject {
    what: "a step",
    has: |side| {
        const SIDES: [&str; 15] = [
            "class",
            "run_on",
            "partition",
            "max_attempts",
            "backoff",
            "max_backoff",
            "backoff_multiplier",
            "retry_jitter",
            "retry_on",
            "no_retry_on",
            "timeout",
            "priority",
            "database",
            "description",
            "action",
        ];
        SIDES.contains(&side)
    },
    own: STEP_CLAUSES,
};

fn dag(statement: DagStatement) -> Result<Statement> {
    Ok(Statement::Dag(Box::new(statement)))
}

pub(super) fn create(reader: &mut Reader<'_>) -> Result<Statement> {
    let keep = reader.eat(&["IF", "NOT", "EXISTS"]);
    created(reader, if keep { IfPresent::Keep } else { IfPresent::Refuse })
}

pub(super) fn create_or_alter(reader: &mut Reader<'_>) -> Result<Statement> {
    created(reader, IfPresent::Alter)
}

fn created(reader: &mut Reader<'_>, if_present: IfPresent) -> Result<Statement> {
    let name = reader.name(DAG)?;
    let mut clauses = DagClauses::default();
    while !reader.is_done() {
        clause(reader, &mut clauses)?;
    }
    if clauses.steps.is_none() {
        let hint = "Name the steps: AS (STEP a AS …, STEP b AFTER a AS …).";
        return Err(reader.unexpected("AS").with_hint(hint));
    }
    dag(DagStatement::Create(CreateDag { name, if_present, clauses }))
}

/// Remembers a clause, once.
fn once<T>(place: &mut Option<T>, value: T, name: &str, at: usize) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => {
            let error = SyntaxError::new(at, format!("{name} is given twice"));
            Err(error.with_hint("Leave one of the two out."))
        }
    }
}

fn clause(reader: &mut Reader<'_>, into: &mut DagClauses) -> Result<()> {
    let at = reader.at();
    if reader.eat(&["MAX_PARALLEL"]) {
        reader.eat_sign(&Token::Eq);
        let most = match reader.eat_none() {
            true => None,
            false => Some(reader.whole("a whole number of steps")?.value),
        };
        return once(&mut into.max_parallel, most, "MAX_PARALLEL", at);
    }
    if reader.eat(&["QUEUE"]) {
        reader.eat_sign(&Token::Eq);
        let queue = match reader.eat_none() {
            true => None,
            false => Some(reader.text_or_name("the name of a queue")?.value),
        };
        return once(&mut into.queue, queue, "QUEUE", at);
    }
    if let Some((is_failure, work)) = handler(reader)? {
        let place = if is_failure { &mut into.on_failure } else { &mut into.on_success };
        return once(place, work, "the handler", at);
    }
    if reader.eat(&["ON", "FAILURE"]) {
        reader.eat_sign(&Token::Eq);
        let policies = [
            ("CONTINUE", OnStepFailure::Continue),
            ("STOP", OnStepFailure::Stop),
            ("HOLD", OnStepFailure::Hold),
        ];
        let policy = reader.one_of(&policies)?.value;
        return once(&mut into.on_step_failure, policy, "ON FAILURE", at);
    }
    if reader.eat(&["AS"]) {
        let steps = reader.in_parentheses(step)?;
        return once(&mut into.steps, steps, "AS", at);
    }
    into.job.read_of(reader, &OF_DAG)
}

/// `ON FAILURE DO work`, `ON SUCCESS DO work`: whether it is the first, and the work.
fn handler(reader: &mut Reader<'_>) -> Result<Option<(bool, Option<WorkClause>)>> {
    let is_failure = reader.is(&["ON", "FAILURE", "DO"]);
    if !is_failure && !reader.is(&["ON", "SUCCESS"]) {
        return Ok(None);
    }
    reader.skip(2);
    reader.expect(&["DO"])?;
    if reader.eat_none() {
        return Ok(Some((is_failure, None)));
    }
    let work = match work(reader)? {
        Some(work) => work,
        None => WorkClause::Action(action(reader)?),
    };
    Ok(Some((is_failure, Some(work))))
}

/// The action of a job where there is no AS before it.
fn action(reader: &mut Reader<'_>) -> Result<crate::clause::ActionClause> {
    match crate::clause::action(reader)? {
        Clause::As(action) => Ok(action),
        _ => Err(reader.unexpected("an action")),
    }
}

/// `STEP name clause …`.
fn step(reader: &mut Reader<'_>) -> Result<StepClause> {
    reader.expect(&["STEP"])?;
    let mut step = StepClause {
        name: reader.name(STEP)?,
        job: Clauses::default(),
        after: Vec::new(),
        rule: TriggerRule::default(),
        when: None,
        for_each: None,
        allow_failure: false,
        result_bytes: None,
        on_failure: None,
        on_success: None,
        work: None,
    };
    let is_end = |reader: &Reader<'_>| {
        reader.is_done() || [Token::Comma, Token::RParen].iter().any(|it| reader.is_sign(0, it))
    };
    while !is_end(reader) && !is_step_change(reader) {
        step_clause(reader, &mut step)?;
    }
    if step.work.is_none() && step.job.place_of("action").is_none() {
        let hint = "Say what the step does: AS 'statement', AS HTTP, AS MESSAGE, AS JOB …";
        return Err(reader.unexpected("AS").with_hint(hint));
    }
    Ok(step)
}

/// Whether the next change of ALTER DAG begins.
fn is_step_change(reader: &Reader<'_>) -> bool {
    ["ADD", "ALTER", "DROP"].iter().any(|verb| reader.is(&[verb, "STEP"]))
        || reader.is(&["SET"])
        || reader.is(&["RENAME", "TO"])
}

fn step_clause(reader: &mut Reader<'_>, step: &mut StepClause) -> Result<()> {
    let at = reader.at();
    let twice = |is_given: bool, name: &str| match is_given {
        true => {
            let error = SyntaxError::new(at, format!("{name} is given twice"));
            Err(error.with_hint("Leave one of the two out."))
        }
        false => Ok(()),
    };
    if reader.eat(&["AFTER"]) {
        twice(!step.after.is_empty(), "AFTER")?;
        if reader.is_sign(0, &Token::LParen) {
            step.after = reader.in_parentheses(|reader| reader.name(STEP))?;
            return Ok(());
        }
        step.after.push(reader.name(STEP)?);
        // A comma before STEP ends the step.
        while reader.is_sign(0, &Token::Comma) && !reader.ahead(1).is(&["STEP"]) {
            reader.skip(1);
            step.after.push(reader.name(STEP)?);
        }
    } else if reader.eat(&["TRIGGER", "RULE"]) {
        reader.eat_sign(&Token::Eq);
        step.rule = reader.one_of(&RULES)?.value;
    } else if reader.eat(&["WHEN"]) {
        twice(step.when.is_some(), "WHEN")?;
        step.when = Some(expression_or_text(reader)?);
    } else if reader.eat(&["FOR", "EACH"]) {
        twice(step.for_each.is_some(), "FOR EACH")?;
        step.for_each = Some(for_each(reader)?);
    } else if reader.eat(&["ALLOW"]) {
        reader.expect(&["FAILURE"])?;
        step.allow_failure = true;
    } else if reader.eat(&["RESULT_BYTES"]) {
        reader.eat_sign(&Token::Eq);
        step.result_bytes = Some(reader.whole("a number of bytes")?.value);
    } else if let Some((is_failure, work)) = handler(reader)? {
        let place = if is_failure { &mut step.on_failure } else { &mut step.on_success };
        twice(place.is_some(), "the handler")?;
        *place = work;
    } else if reader.is(&["AS"]) && is_work(&reader.ahead(1)) {
        twice(step.work.is_some() || step.job.place_of("action").is_some(), "AS")?;
        reader.skip(1);
        step.work = work(reader)?;
    } else {
        twice(reader.is(&["AS"]) && step.work.is_some(), "AS")?;
        step.job.read_of(reader, &OF_STEP)?;
    }
    Ok(())
}

pub(crate) const RULES: [(&str, TriggerRule); 6] = [
    ("ALL_SUCCESS", TriggerRule::AllSuccess),
    ("ALL_DONE", TriggerRule::AllDone),
    ("ONE_SUCCESS", TriggerRule::OneSuccess),
    ("ONE_FAILED", TriggerRule::OneFailed),
    ("NONE_FAILED", TriggerRule::NoneFailed),
    ("NONE_SKIPPED", TriggerRule::NoneSkipped),
];

/// An expression, or one in quotes.
pub(crate) fn expression_or_text(reader: &mut Reader<'_>) -> Result<String> {
    let is_text = matches!(
        reader.lexemes().first().map(|lexeme| &lexeme.token),
        Some(Token::SingleQuotedString(_))
    );
    match is_text || reader.is_placeholder() {
        true => Ok(reader.text("an expression")?.value),
        false => expression(reader),
    }
}

/// `item IN list | item ALONG step`, then `KEY path`, `MAX_ITEMS n`, `MAX_PARALLEL n` and
/// `MIN SUCCESS n [%]` in any order.
fn for_each(reader: &mut Reader<'_>) -> Result<ForEach> {
    let mut each =
        ForEach { item: reader.name("the name of the item")?.value, ..ForEach::default() };
    if reader.eat(&["IN"]) {
        each.list = Some(expression_or_text(reader)?);
    } else if reader.eat(&["ALONG"]) {
        each.along = Some(reader.name(STEP)?.value);
    } else {
        return Err(reader.unexpected_word("IN or ALONG", ["IN", "ALONG"]));
    }
    loop {
        if each.key.is_none() && reader.eat(&["KEY"]) {
            each.key = Some(match reader.word_at(0) {
                Some(_) => reader.dotted("a path inside an item")?.to_owned(),
                None => reader.text("a path inside an item")?.value,
            });
        } else if each.max_items.is_none() && reader.eat(&["MAX_ITEMS"]) {
            reader.eat_sign(&Token::Eq);
            each.max_items = Some(reader.whole("a whole number of items")?.value);
        } else if each.max_parallel.is_none() && reader.eat(&["MAX_PARALLEL"]) {
            reader.eat_sign(&Token::Eq);
            each.max_parallel = Some(reader.whole("a whole number of items")?.value);
        } else if each.min_success.is_none() && reader.eat(&["MIN", "SUCCESS"]) {
            reader.eat_sign(&Token::Eq);
            let least = reader.whole::<u32>("a number of items, or a share such as 90%")?;
            each.min_success = Some(match reader.eat_sign(&Token::Mod) {
                true => MinSuccess::Percent(u8::try_from(least.value).unwrap_or(u8::MAX)),
                false => MinSuccess::Count(least.value),
            });
        } else {
            return Ok(each);
        }
    }
}

/// Whether work follows that only steps have.
fn is_work(reader: &Reader<'_>) -> bool {
    ["MESSAGE", "JOB", "DAG", "APPROVAL", "SLEEP", "ALERT", "WAIT"]
        .iter()
        .any(|word| reader.is(&[word]))
}

/// The work that only steps have.
fn work(reader: &mut Reader<'_>) -> Result<Option<WorkClause>> {
    let within = |reader: &mut Reader<'_>| match reader.eat(&["WITHIN"]) {
        true => Ok(Some(reader.duration()?.value)),
        false => Ok(None),
    };
    let with = |reader: &mut Reader<'_>| match reader.eat(&["WITH"]) {
        true => values(reader),
        false => Ok(Vec::new()),
    };
    Ok(Some(if reader.eat(&["MESSAGE"]) {
        let payload = payload(reader)?;
        let queue = match reader.eat(&["TO"]) {
            true => Some(reader.text_or_name("the name of a queue")?.value),
            false => None,
        };
        WorkClause::Message { queue, payload: payload.value() }
    } else if reader.eat(&["JOB"]) {
        let name = reader.text_or_name("the name of a job")?.value;
        WorkClause::Job(name, with(reader)?)
    } else if reader.eat(&["DAG"]) {
        let name = reader.text_or_name(DAG)?.value;
        WorkClause::Dag(name, with(reader)?)
    } else if reader.eat(&["APPROVAL"]) {
        let role = match reader.eat(&["BY"]) {
            true => Some(reader.text_or_name("the name of a role")?.value),
            false => None,
        };
        let timeout = within(reader)?;
        let answers = [("APPROVE", ApprovalAnswer::Approve), ("REJECT", ApprovalAnswer::Reject)];
        let default = match reader.eat(&["DEFAULT"]) {
            true => reader.one_of(&answers)?.value,
            false => ApprovalAnswer::default(),
        };
        WorkClause::Approval { role, timeout, default }
    } else if reader.eat(&["SLEEP"]) {
        match reader.eat(&["UNTIL"]) {
            true => WorkClause::SleepUntil(reader.text("a time in quotes")?.value),
            false => WorkClause::Sleep(reader.duration()?.value),
        }
    } else if reader.eat(&["ALERT"]) {
        WorkClause::Alert(reader.text("the text of the alert in quotes")?.value)
    } else if reader.eat(&["WAIT"]) {
        reader.expect(&["FOR", "MESSAGE", "FROM"])?;
        let queue = reader.text_or_name("the name of a queue")?.value;
        WorkClause::WaitForMessage { queue, timeout: within(reader)? }
    } else {
        return Ok(None);
    }))
}

/// `SET clause`, `RENAME TO name`, `ADD STEP …`, `ALTER STEP …`, `DROP STEP name`.
pub(super) fn alter(reader: &mut Reader<'_>) -> Result<Statement> {
    let if_exists = reader.eat(&["IF", "EXISTS"]);
    let name = reader.name(DAG)?;
    let mut alter = AlterDag {
        name,
        if_exists,
        rename: None,
        clauses: DagClauses::default(),
        steps: Vec::new(),
    };
    loop {
        let at = reader.at();
        if reader.eat(&["RENAME", "TO"]) {
            once(&mut alter.rename, reader.name(DAG)?, "RENAME TO", at)?;
        } else if reader.eat(&["SET"]) {
            clause(reader, &mut alter.clauses)?;
            while reader.eat_sign(&Token::Comma) {
                clause(reader, &mut alter.clauses)?;
            }
        } else if reader.is(&["ADD", "STEP"]) {
            reader.skip(1);
            alter.steps.push(StepChange::Add(step(reader)?));
        } else if reader.is(&["ALTER", "STEP"]) {
            reader.skip(1);
            alter.steps.push(StepChange::Replace(step(reader)?));
        } else if reader.eat(&["DROP", "STEP"]) {
            alter.steps.push(StepChange::Drop(reader.name(STEP)?));
        } else {
            let expected = "SET, RENAME TO, ADD STEP, ALTER STEP or DROP STEP";
            let known = ["SET", "RENAME", "ADD", "ALTER", "DROP"];
            return Err(reader.unexpected_word(expected, known));
        }
        if reader.is_done() {
            return dag(DagStatement::Alter(alter));
        }
    }
}

pub(super) fn drop(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::Drop(dropped(reader, DAG)?))
}

pub(super) fn pause(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::Pause(reader.name(DAG)?))
}

pub(super) fn resume(reader: &mut Reader<'_>) -> Result<Statement> {
    let name = reader.name(DAG)?;
    dag(DagStatement::Resume(name, catch_up(reader)?))
}

pub(super) fn execute(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::Execute(executed(reader, DAG)?))
}

pub(super) fn backfill(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::Backfill(backfilled(reader, DAG)?))
}

pub(super) fn cancel_run(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::CancelRun(run(reader)?))
}

pub(super) fn resume_run(reader: &mut Reader<'_>) -> Result<Statement> {
    dag(DagStatement::ResumeRun(run(reader)?))
}

/// `run [FROM FAILED | FROM ALL | FROM STEP name] [VERSION = SAME | LATEST] [FORCE (step, …)]
/// [DRY RUN]`.
pub(super) fn rerun(reader: &mut Reader<'_>) -> Result<Statement> {
    let run = run(reader)?;
    let (mut from, mut version, mut force, mut dry_run) = (None, None, None, false);
    while !reader.is_done() {
        let at = reader.at();
        if reader.eat(&["FROM"]) {
            let start = if reader.eat(&["FAILED"]) {
                RerunFrom::Failed
            } else if reader.eat(&["ALL"]) {
                RerunFrom::All
            } else if reader.eat(&["STEP"]) {
                RerunFrom::Step(reader.name(STEP)?.value)
            } else {
                let known = ["FAILED", "ALL", "STEP"];
                return Err(reader.unexpected_word("FAILED, ALL or STEP", known));
            };
            once(&mut from, start, "FROM", at)?;
        } else if reader.eat(&["VERSION"]) {
            reader.eat_sign(&Token::Eq);
            let versions = [("SAME", RerunVersion::Same), ("LATEST", RerunVersion::Latest)];
            once(&mut version, reader.one_of(&versions)?.value, "VERSION", at)?;
        } else if reader.eat(&["FORCE"]) {
            let names = reader.in_parentheses(|reader| Ok(reader.name(STEP)?.value))?;
            once(&mut force, names, "FORCE", at)?;
        } else if !dry_run && reader.eat(&["DRY"]) {
            reader.expect(&["RUN"])?;
            dry_run = true;
        } else {
            let known = ["FROM", "VERSION", "FORCE", "DRY"];
            return Err(reader.unexpected_word("FROM, VERSION, FORCE or DRY RUN", known));
        }
    }
    let rerun = Rerun {
        from: from.unwrap_or_default(),
        version: version.unwrap_or_default(),
        force: force.unwrap_or_default(),
    };
    dag(DagStatement::Rerun { run, rerun, dry_run })
}

/// `name[item] OF RUN 'id'`.
fn step_of(reader: &mut Reader<'_>) -> Result<StepOf> {
    let step = reader.name(STEP)?;
    let item = match reader.eat_sign(&Token::LBracket) {
        true => {
            let item = reader.whole("the position of an item, from 0")?.value;
            reader.expect_sign(&Token::RBracket)?;
            Some(item)
        }
        false => None,
    };
    reader.expect(&["OF"])?;
    reader.eat(&["DAG"]);
    reader.expect(&["RUN"])?;
    Ok(StepOf { step, item, run: run(reader)? })
}

fn note(reader: &mut Reader<'_>) -> Result<String> {
    match reader.eat(&["NOTE"]) {
        true => Ok(reader.text("a text in quotes")?.value),
        false => Ok(String::new()),
    }
}

/// `step OF RUN 'id' AS COMPLETED | SKIPPED [NOTE 'text']`.
pub(super) fn mark(reader: &mut Reader<'_>) -> Result<Statement> {
    let step = step_of(reader)?;
    reader.expect(&["AS"])?;
    let marks = [("COMPLETED", false), ("SUCCEEDED", false), ("SKIPPED", true)];
    let is_skipped = reader.one_of(&marks)?.value;
    dag(DagStatement::Mark { step, is_skipped, note: note(reader)? })
}

pub(super) fn approve(reader: &mut Reader<'_>) -> Result<Statement> {
    let step = step_of(reader)?;
    dag(DagStatement::Decide { step, answer: ApprovalAnswer::Approve, note: note(reader)? })
}

pub(super) fn reject(reader: &mut Reader<'_>) -> Result<Statement> {
    let step = step_of(reader)?;
    dag(DagStatement::Decide { step, answer: ApprovalAnswer::Reject, note: note(reader)? })
}

fn at(reader: &mut Reader<'_>) -> Result<Option<Spanned<String>>> {
    Ok(if reader.eat(&["AT"]) { Some(reader.text(TIME)?) } else { None })
}

pub(super) fn explain_run(reader: &mut Reader<'_>) -> Result<Statement> {
    let run = run(reader)?;
    dag(DagStatement::ExplainRun { run, at: at(reader)? })
}

pub(super) fn explain_step(reader: &mut Reader<'_>) -> Result<Statement> {
    let step = step_of(reader)?;
    dag(DagStatement::ExplainStep { step, at: at(reader)? })
}

pub(super) fn show_create(reader: &mut Reader<'_>) -> Result<Statement> {
    let name = reader.name(DAG)?;
    let version = version_after(reader, "VERSION")?;
    dag(DagStatement::ShowCreate { dag: name, version })
}

pub(super) fn show(reader: &mut Reader<'_>) -> Result<Statement> {
    let like = match reader.eat(&["LIKE"]) {
        true => Some(reader.text("a pattern in quotes")?.value),
        false => None,
    };
    dag(DagStatement::Show { like })
}
