//! Goals, printed beside the measurements.

use crate::args::StoreKind;

/// A goal: the measurement is at most or at least this on each store.
struct Goal {
    metric: &'static str,
    sqlite: f64,
    postgres: f64,
    is_least: bool,
}

const fn most(metric: &'static str, sqlite: f64, postgres: f64) -> Goal {
    Goal { metric, sqlite, postgres, is_least: false }
}

const fn least(metric: &'static str, sqlite: f64, postgres: f64) -> Goal {
    Goal { metric, sqlite, postgres, is_least: true }
}

const GOALS: [Goal; 9] = [
    most("D1.chain_400", 1.0, 2.0),
    most("D2.fan_10000", 0.5, 1.0),
    least("D3.runs_1000x40", 40_000.0, 20_000.0),
    most("D4.memory", 100.0, 100.0),
    most("D4.page", 50.0, 50.0),
    // Published by Windmill for 40 light tasks in a row.
    most("D5.chain_40", 2.1, 2.1),
    most("D6.validate_10000", 300.0, 300.0),
    most("D7.join_end", 0.2, 0.2),
    most("D8.part_end", 0.2, 0.2),
];

/// Measurements for the table at the end.
pub struct Table {
    store: StoreKind,
    rows: Vec<(String, f64, &'static str)>,
}

impl Table {
    pub fn new(store: StoreKind) -> Self {
        Table { store, rows: Vec::new() }
    }

    pub fn add(&mut self, metric: &str, value: f64, unit: &'static str) {
        self.rows.push((metric.to_owned(), value, unit));
    }

    /// Prints all rows, with their goals.
    pub fn print(&self) {
        eprintln!("\n{:<20}{:>14}  {:<12}{:>14}  ", "METRIC", "FIGURE", "UNIT", "GOAL");
        for (metric, value, unit) in &self.rows {
            let goal = GOALS.iter().find(|goal| goal.metric == metric).map(|goal| {
                let limit = match self.store {
                    StoreKind::Sqlite => goal.sqlite,
                    StoreKind::Postgres => goal.postgres,
                };
                let is_met = if goal.is_least { *value >= limit } else { *value <= limit };
                let sign = if goal.is_least { ">=" } else { "<=" };
                (format!("{sign} {limit}"), if is_met { "met" } else { "MISSED" })
            });
            let (goal, met) = goal.unwrap_or_default();
            eprintln!("{metric:<20}{value:>14}  {unit:<12}{goal:>14}  {met}");
        }
        eprintln!("store: {}", self.store.name());
    }
}
