//! EXPLAIN JOB: why a job will, did or did not run, as rows.

use domain::decide::explain::{Explanation, Verdict};
use domain::decide::overview;
use domain::schedule::Schedule;
use jiff::Timestamp;
use query::{Row, Value};
use sql::ExplainJob;

use super::answer::{EXPLAINED, or_null, text};
use super::{Answer, Result, Session, SqlError};
use crate::rest::explain::sentence;

/// How many times to come are told.
const NEXT: usize = 5;

fn row(aspect: &str, at: Option<Timestamp>, said: impl AsRef<str>) -> Row {
    vec![text(aspect), or_null(at, Value::Time), text(said)]
}

impl Session {
    pub(super) async fn explain_job(&self, explain: &ExplainJob) -> Result<Answer> {
        let job = self.job(&explain.name).await?;
        let now = self.app.now();
        let at = self.time_of(explain.at.as_ref())?;
        let asked = self.app.engine.by(&self.actor).explain(job.id, at).await;
        let answer = asked.map_err(|error| SqlError::from(error).or_at(explain.name.at))?;
        let compiled = job.definition.when.compile(&self.app.zones).ok().flatten();

        let mut rows = vec![row("job", None, format!("{} is {}", job.name, in_words(&job)))];
        rows.push(row(
            "schedule",
            None,
            schedule_in_words(&job.definition.when, compiled.as_ref()),
        ));
        if explain.at.is_none() {
            let lines = self.app.engine.by(&self.actor).overview(job.id).await;
            let lines = lines.map_err(|error| SqlError::from(error).or_at(explain.name.at));
            let (lines, obstacles) = lines?;
            rows.extend(lines.iter().map(|line| row(line.aspect.name(), line.at, &line.text)));
            rows.extend(parts(&answer));
            rows.extend(obstacles.iter().map(|it| row("waits", None, sentence(it))));
            rows.extend(warnings(compiled.as_ref(), now));
            return Ok(Answer::rows(EXPLAINED, rows));
        }
        rows.push(row("verdict", Some(at), answer.verdict.to_string()));
        if let Verdict::Recorded(record) = &answer.verdict {
            rows.push(row("run", Some(record.first), record.id.to_string()));
            if let Some(started) = record.started_at {
                rows.push(row("started", Some(started), "its last attempt began"));
            }
            if let Some(finished) = record.finished_at {
                rows.push(row("ended", Some(finished), format!("it ended as {}", record.state)));
            }
        }
        rows.extend(parts(&answer));
        for obstacle in &answer.obstacles {
            rows.push(row("obstacle", None, sentence(obstacle)));
        }
        if let Some(before) = answer.before {
            rows.push(row("previous", Some(before), local(compiled.as_ref(), before)));
        }
        for gap in &answer.skipped {
            let said = match gap.count {
                1 => format!("{} does not happen: clocks jump over it", gap.first),
                n => format!(
                    "{n} times from {} to {} do not happen: clocks jump over them",
                    gap.first, gap.last
                ),
            };
            rows.push(row("dst", Some(gap.transition), said));
        }
        let mut next = answer.after;
        for _ in 0..NEXT {
            let Some(time) = next else { break };
            rows.push(row("next", Some(time), local(compiled.as_ref(), time)));
            next = compiled.as_ref().and_then(|schedule| schedule.next(time));
        }
        rows.extend(warnings(compiled.as_ref(), now));
        Ok(Answer::rows(EXPLAINED, rows))
    }
}

/// How far the parts of a run have come that was divided.
fn parts(answer: &Explanation) -> Vec<Row> {
    let Some(division) = &answer.division else { return Vec::new() };
    let times = std::iter::once(Some(division.scheduled_for)).chain(std::iter::repeat(None));
    let sentences = division.sentences();
    sentences.iter().zip(times).map(|(said, at)| row("parts", at, said)).collect()
}

/// What is surprising about a cron expression.
fn warnings(schedule: Option<&Schedule>, now: Timestamp) -> Vec<Row> {
    let Some(Schedule::Cron(cron)) = schedule else { return Vec::new() };
    cron.lint(now).iter().map(|warning| row("warning", None, warning.to_string())).collect()
}

fn in_words(job: &domain::job::Job) -> String {
    format!("{:?}", job.state).to_lowercase()
}

fn schedule_in_words(when: &domain::job::When, compiled: Option<&Schedule>) -> String {
    match compiled {
        Some(Schedule::Cron(cron)) => cron.describe(),
        Some(Schedule::Every(every)) => {
            let ends = every.ends().map(|ends| format!(" until {ends}")).unwrap_or_default();
            format!("every {:#} from {}{ends}", every.interval(), every.starts())
        }
        Some(Schedule::At(at)) => format!("once at {at}"),
        None => match when {
            domain::job::When::AfterDependencies => "when the jobs it depends on have ended",
            _ => "only when somebody asks",
        }
        .to_owned(),
    }
}

/// A time as people in the zone of the schedule say it.
fn local(schedule: Option<&Schedule>, at: Timestamp) -> String {
    match schedule {
        Some(schedule) => overview::local(schedule, at),
        None => at.strftime("%a %F %T UTC").to_string(),
    }
}
