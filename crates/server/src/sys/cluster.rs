//! Nodes, the audit and statistics.

use domain::id::JobId;
use domain::run::Outcome;
use domain::shard::Shard;
use engine::AuditFilter;
use jiff::{SignedDuration, Timestamp};
use query::{Is, Pages, QueryError, Row, Scan, Value};

use super::Sys;
use super::pages::{Made, ROWS, all, maybe};
use crate::rest::audit::AuditEvent;

pub(super) fn nodes(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let nodes = sys.ask(sys.app.engine.by(&sys.actor).nodes())?;
    let row = |node: engine::NodeView| {
        let roles: Vec<&str> = node.info.roles.iter().map(|role| role.name()).collect();
        vec![
            Value::Uuid(node.id.0),
            Value::text(&node.info.name),
            super::pages::text_of(node.info.address.as_ref()),
            Value::text(&node.info.version),
            Value::text(format!("{{{}}}", roles.join(","))),
            Value::text(node.state.name()),
            Value::Int(node.held as i64),
            Value::Time(node.joined_at),
            Value::Time(node.renewed_at),
            Value::Time(node.lease_until),
            node.leads.map_or(Value::Null, Value::Int),
            Value::Int(node.info.capacity.process.into()),
            Value::text(format!("{{{}}}", node.info.labels.pairs().join(","))),
            Value::text(&node.info.settings_hash),
            Value::text(crate::rest::nodes::kind_of(&node)),
            Value::Int(node.info.capacity.http.into()),
        ]
    };
    Ok(all(nodes.into_iter().map(row).collect()))
}

pub(super) fn hooks(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let hooks =
        sys.ask(crate::rest::resource::all::<crate::rest::hooks::Hooks>(&sys.app, &sys.actor))?;
    let row = |hook: crate::rest::hooks::HookView| {
        vec![
            Value::Uuid(hook.hook_id),
            Value::text(&hook.name),
            Value::text(&hook.path),
            hook.job.parse().map_or(Value::Null, Value::Uuid),
            Value::text(domain::hook::HookScheme::from(hook.scheme).name()),
            Value::Int(hook.requests_per_second.into()),
            Value::Bool(hook.disabled),
            maybe(hook.old_secret_until, Value::Time),
            super::pages::text_of(hook.description.as_ref()),
            Value::Time(hook.created_at),
        ]
    };
    Ok(all(hooks.into_iter().map(row).collect()))
}

pub(super) fn pools(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let pools =
        sys.ask(crate::rest::resource::all::<crate::rest::pools::Pools>(&sys.app, &sys.actor))?;
    let row = |pool: crate::rest::pools::PoolView| {
        vec![
            Value::Uuid(pool.pool_id),
            Value::text(&pool.name),
            Value::Int(pool.size.into()),
            Value::Int(pool.used.into()),
            Value::Int(pool.waiting.into()),
            super::pages::text_of(pool.description.as_ref()),
            Value::Time(pool.created_at),
        ]
    };
    Ok(all(pools.into_iter().map(row).collect()))
}

pub(super) fn shards(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let shards = sys.ask(sys.app.engine.by(&sys.actor).shards())?;
    let nodes = sys.ask(sys.app.engine.by(&sys.actor).nodes())?;
    let row = |shard: engine::OwnedShard| {
        let body = Shard::of(&shard.object).map(|shard| shard.body).unwrap_or_default();
        let owner = shard.owner.node;
        let name = nodes.iter().find(|node| Some(node.id) == owner).map(|node| &node.info.name);
        vec![
            Value::Uuid(shard.object.id.0),
            Value::text(&shard.object.name),
            maybe(owner, |node| Value::Uuid(node.0)),
            Value::text(if owner.is_some() { "OWNED" } else { "ORPHANED" }),
            super::pages::text_of(body.database.as_ref()),
            super::pages::text_of(name),
            Value::Int(shard.owner.fence),
            maybe(shard.since, Value::Time),
            super::pages::text_of(body.node.as_ref()),
            Value::text(format!("{{{}}}", body.labels.pairs().join(","))),
            Value::Time(shard.object.created_at),
        ]
    };
    Ok(all(shards.into_iter().map(row).collect()))
}

pub(super) fn audit(sys: &Sys, scan: &Scan) -> Result<Box<dyn Pages>, QueryError> {
    let mut filter = AuditFilter::of(sys.actor.tenant);
    if let Some([Value::Text(actor)]) = scan.values("actor") {
        filter.actor = Some(actor.to_string());
    }
    if let Some([Value::Uuid(job)]) = scan.values("job_uuid") {
        filter.job = Some(JobId(*job));
    }
    for is in scan.ranges("at") {
        match is {
            Is::AtLeast(Value::Time(at)) | Is::MoreThan(Value::Time(at)) => {
                filter.since = filter.since.max(Some(*at));
            }
            Is::AtMost(Value::Time(at)) | Is::LessThan(Value::Time(at)) => {
                // Later than all that is wanted.
                let after =
                    at.saturating_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
                filter.until = Some(filter.until.map_or(after, |until| until.min(after)));
            }
            _ => {}
        }
    }
    let (sys, mut from, mut over) = (sys.clone(), None, false);
    Ok(Box::new(Made(move || {
        if over {
            return Ok(None);
        }
        let rows = sys.ask(sys.app.engine.by(&sys.actor).audit(&filter, from, ROWS))?;
        over = rows.len() < ROWS as usize;
        from = rows.last().map(|row| row.place - 1);
        let mut events: Vec<_> = rows.into_iter().flat_map(AuditEvent::from_row).collect();
        let jobs = AuditEvent::jobs(&events);
        let creators = sys.ask(sys.app.engine.by(&sys.actor).job_creators(&jobs))?;
        AuditEvent::name_creators(&mut events, &creators);
        Ok(Some(events.into_iter().map(event_row).collect()))
    })))
}

fn event_row(event: AuditEvent) -> Row {
    vec![
        Value::Time(event.at),
        Value::text(event.event_type),
        Value::text(event.actor),
        maybe(event.job_id, Value::Uuid),
        maybe(event.execution_id, Value::Uuid),
        maybe(event.worker_id, Value::Uuid),
        Value::text(event.outcome),
        Value::text(event.details),
        maybe(event.number, |number| Value::Int(number as i64)),
        maybe(event.job_creator_id, Value::Uuid),
        maybe(event.attempt, |attempt| Value::Int(i64::from(attempt))),
        maybe(event.started_at, Value::Time),
        maybe(event.rows_affected, |rows| Value::Int(rows as i64)),
    ]
}

pub(super) fn performance(sys: &Sys) -> Result<Box<dyn Pages>, QueryError> {
    let stats = sys.ask(sys.app.engine.by(&sys.actor).stats())?;
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |metric: &str, value: f64, unit: &str, description: &str| {
        rows.push(vec![
            Value::text(metric),
            Value::Float(value),
            Value::text(unit),
            Value::text(description),
        ]);
    };
    let live = &stats.live;
    add(
        "scheduler_queue_depth",
        live.queued as f64,
        "runs",
        "Runs that are due and that no node holds.",
    );
    add("jobs_running", live.running as f64, "runs", "Runs that are due and that a node holds.");
    add(
        "jobs_pending",
        live.pending as f64,
        "runs",
        "Runs that wait for their time or for other runs.",
    );
    let waited = live.oldest_due.map_or(0, |at| sys.app.now().duration_since(at).as_millis());
    add(
        "scheduler_lag_ms",
        waited.max(0) as f64,
        "ms",
        "How long the oldest queued run has waited.",
    );
    add(
        "dead_letters",
        f64::from(stats.dead_letters),
        "runs",
        "Dead letters, counted up to a thousand.",
    );
    for (word, text, summary) in [
        ("last_hour", "in this hour and the one before", &stats.last_hour),
        ("last_day", "in this hour and the 24 before", &stats.last_day),
    ] {
        for outcome in Outcome::ALL {
            let count = summary.ended.get(&outcome).copied().unwrap_or(0);
            let name = outcome.name().to_lowercase();
            let said = format!("Runs that ended as {} {text}.", outcome.name());
            add(&format!("jobs_{name}_{word}"), count as f64, "runs", &said);
        }
        for percent in [50, 95, 99] {
            if let Some(length) = summary.durations.percentile(percent) {
                let said = format!("{percent} of 100 attempts took no longer, {text}.");
                let name = format!("job_run_latency_ms_p{percent}_{word}");
                add(&name, length.as_millis() as f64, "ms", &said);
            }
            if let Some(lag) = summary.lags.percentile(percent) {
                let said =
                    format!("{percent} of 100 runs started no later after they were due, {text}.");
                add(
                    &format!("job_start_lag_ms_p{percent}_{word}"),
                    lag.as_millis() as f64,
                    "ms",
                    &said,
                );
            }
        }
        if let Some(rate) = summary.success_rate() {
            add(
                &format!("success_rate_{word}"),
                rate,
                "1",
                &format!("The share of runs that ended well {text}."),
            );
        }
    }
    Ok(all(rows))
}
