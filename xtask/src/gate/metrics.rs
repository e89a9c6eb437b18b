//! The metrics of the gate: the benchmark, its arguments and its output line.

use anyhow::{Result, bail};
use serde_json::Value;

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    Higher,
    /// A time.
    Lower,
}

/// One metric of the gate.
#[derive(Debug)]
pub struct Metric {
    /// The name to select it by, with the store after a dot.
    pub name: &'static str,
    /// The benchmark that prints it.
    pub bench: Bench,
    /// The arguments of the benchmark, so that it measures only this metric.
    pub args: &'static [&'static str],
    /// The name on the benchmark's line.
    pub line: &'static str,
    /// Settings that the line must have, where several lines have the name.
    pub settings: &'static [(&'static str, u64)],
    /// The percentile to take, where the value is a distribution.
    pub percentile: Option<&'static str>,
    /// The unit, for the table.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
}

/// A benchmark that the gate builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// The engine on a store, without interfaces.
    Engine,
    /// The server over HTTP.
    Rest,
    /// The server over the PostgreSQL protocol.
    Sql,
}

impl Bench {
    /// All of them.
    pub const ALL: [Bench; 3] = [Bench::Engine, Bench::Rest, Bench::Sql];

    /// The folder of its package and its name. The folder, because an older commit may have another
    /// name for the package.
    pub fn target(self) -> (&'static str, &'static str) {
        match self {
            Bench::Engine => ("crates/engine", "engine"),
            Bench::Rest => (".", "rest"),
            Bench::Sql => (".", "sql"),
        }
    }
}

/// A metric of the engine's benchmark.
const ENGINE: Metric = Metric {
    name: "",
    bench: Bench::Engine,
    args: &[],
    line: "",
    settings: &[],
    percentile: None,
    unit: "runs/s",
    better: Better::Higher,
};

const REST: Metric = Metric { bench: Bench::Rest, unit: "requests/s", ..ENGINE };

/// The batches by which enqueueing is judged: four callers with a thousand runs a call.
const BATCHES: &[(&str, u64)] = &[("clients", 4), ("batch", 1_000)];

const TOGETHER: &[(&str, u64)] = &[("schedules", 1_000)];

/// Everything that the gate measures, in the order of the table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "process.sqlite",
        args: &["--store", "sqlite", "--metrics", "M1.process", "--runs", "200000"],
        line: "M1.process",
        ..ENGINE
    },
    Metric {
        name: "process.postgres",
        args: &["--store", "postgres", "--metrics", "M1.process", "--runs", "100000"],
        line: "M1.process",
        ..ENGINE
    },
    Metric {
        name: "enqueue.sqlite",
        args: &["--store", "sqlite", "--metrics", "M1.enqueue_batch", "--runs", "200000"],
        line: "M1.enqueue_batch",
        settings: BATCHES,
        ..ENGINE
    },
    Metric {
        name: "enqueue.postgres",
        args: &["--store", "postgres", "--metrics", "M1.enqueue_batch", "--runs", "100000"],
        line: "M1.enqueue_batch",
        settings: BATCHES,
        ..ENGINE
    },
    Metric {
        name: "start.sqlite",
        args: &["--store", "sqlite", "--metrics", "M2.latency"],
        line: "M2.latency",
        percentile: Some("p50"),
        unit: "ms",
        better: Better::Lower,
        ..ENGINE
    },
    Metric {
        name: "start.postgres",
        args: &["--store", "postgres", "--metrics", "M2.latency"],
        line: "M2.latency",
        percentile: Some("p50"),
        unit: "ms",
        better: Better::Lower,
        ..ENGINE
    },
    Metric {
        name: "together.sqlite",
        args: &["--store", "sqlite", "--metrics", "M3.cron_lateness", "--due-together", "1000"],
        line: "M3.cron_lateness",
        settings: TOGETHER,
        percentile: Some("p99"),
        unit: "ms",
        better: Better::Lower,
        ..ENGINE
    },
    Metric {
        name: "together.postgres",
        args: &["--store", "postgres", "--metrics", "M3.cron_lateness", "--due-together", "1000"],
        line: "M3.cron_lateness",
        settings: TOGETHER,
        percentile: Some("p99"),
        unit: "ms",
        better: Better::Lower,
        ..ENGINE
    },
    Metric {
        name: "rest_trigger.sqlite",
        args: &["--store", "sqlite", "--gate", "trigger"],
        line: "gate.rest_trigger",
        ..REST
    },
    Metric {
        name: "rest_trigger.postgres",
        args: &["--store", "postgres", "--gate", "trigger"],
        line: "gate.rest_trigger",
        ..REST
    },
    Metric {
        name: "rest_list.sqlite",
        args: &["--store", "sqlite", "--gate", "list"],
        line: "gate.rest_list",
        ..REST
    },
    Metric {
        name: "rest_list.postgres",
        args: &["--store", "postgres", "--gate", "list"],
        line: "gate.rest_list",
        ..REST
    },
    Metric {
        name: "sql_page.sqlite",
        bench: Bench::Sql,
        args: &["--jobs", "0", "--pages", "2000"],
        line: "sql_page",
        unit: "pages/s",
        ..ENGINE
    },
    Metric {
        name: "create_job.sqlite",
        bench: Bench::Sql,
        args: &["--jobs", "20000"],
        line: "sql_create_job",
        unit: "jobs/s",
        ..ENGINE
    },
];

/// The metrics whose names begin with one of these; all of them when none is named.
pub fn pick(names: &[String]) -> Result<Vec<&'static Metric>> {
    let fits = |metric: &Metric, name: &String| metric.name.starts_with(name.as_str());
    if let Some(unknown) =
        names.iter().find(|name| !METRICS.iter().any(|metric| fits(metric, name)))
    {
        let known: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        bail!("there is no metric \"{unknown}\"; there is:\n  {}", known.join("\n  "));
    }
    let wanted = |metric: &&Metric| names.is_empty() || names.iter().any(|name| fits(metric, name));
    Ok(METRICS.iter().filter(wanted).collect())
}

impl Metric {
    /// The value on the lines that the benchmark printed, if one of them is this metric's.
    pub fn read(&self, lines: &str) -> Option<f64> {
        let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_mine = |line: &Value| {
            let has = |(name, value): &(&str, u64)| line["settings"][name] == *value;
            line["metric"] == self.line && self.settings.iter().all(has)
        };
        let value = lines.rfind(is_mine)?["value"].take();
        match self.percentile {
            Some(percentile) => value[percentile].as_f64(),
            None => value.as_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> &'static Metric {
        METRICS.iter().find(|metric| metric.name == name).unwrap()
    }

    #[test]
    fn names_are_picked_by_their_beginning() {
        let names = |wanted: &[&str]| -> Vec<&str> {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            pick(&wanted).unwrap().iter().map(|metric| metric.name).collect()
        };
        assert_eq!(names(&[]).len(), METRICS.len());
        assert_eq!(names(&["process"]), ["process.sqlite", "process.postgres"]);
        assert_eq!(names(&["sql_page", "start.s"]), ["start.sqlite", "sql_page.sqlite"]);
        let unknown = pick(&["nothing".to_owned()]).unwrap_err().to_string();
        assert!(unknown.starts_with("there is no metric \"nothing\""), "{unknown}");
        assert!(unknown.contains("process.sqlite"), "{unknown}");
    }

    #[test]
    fn values_are_read_from_the_lines_of_a_benchmark() {
        let lines = "# what it does\n\
            {\"metric\":\"M1.process\",\"value\":336000.0,\"settings\":{\"store\":\"sqlite\"}}\n\
            {\"metric\":\"M1.enqueue_batch\",\"value\":1.0,\"settings\":{\"clients\":1,\"batch\":1000}}\n\
            {\"metric\":\"M1.enqueue_batch\",\"value\":2.0,\"settings\":{\"clients\":4,\"batch\":1000}}\n\
            {\"metric\":\"M1.enqueue_batch\",\"value\":3.0,\"settings\":{\"clients\":1,\"batch\":5000}}\n\
            {\"metric\":\"M2.latency\",\"value\":{\"p50\":0.53,\"p99\":0.83},\"settings\":{}}\n";
        for (name, value) in [
            ("process.sqlite", Some(336_000.0)),
            ("enqueue.sqlite", Some(2.0)),
            ("start.sqlite", Some(0.53)),
            ("together.sqlite", None),
            ("create_job.sqlite", None),
        ] {
            assert_eq!(named(name).read(lines), value, "{name}");
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }
}
