//! Goals, beside the measurements.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Measurements for the table at the end: the metric with its settings, the measurement and its unit.
static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

struct Row {
    metric: String,
    value: f64,
    unit: String,
    goal: Option<Goal>,
}

/// A limit of a measurement.
#[derive(Clone, Copy)]
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Goal::AtMost(most) => value <= most,
            Goal::AtLeast(least) => value >= least,
        }
    }

    fn words(self) -> String {
        match self {
            Goal::AtMost(most) => format!("<= {}", round(most)),
            Goal::AtLeast(least) => format!(">= {}", round(least)),
        }
    }
}

/// Adds a row to the table.
pub fn add(metric: String, value: f64, unit: &str, goal: Option<Goal>) {
    let row = Row { metric, value, unit: unit.to_owned(), goal };
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(row);
}

/// Prints all rows, with their goals.
pub fn print(store: &str) {
    let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    eprintln!("\n{:<44}{:>14}  {:<16}{:>14}", "METRIC", "FIGURE", "UNIT", "GOAL");
    for Row { metric, value, unit, goal } in rows.iter() {
        let met = goal.map_or("", |goal| if goal.is_met(*value) { "met" } else { "MISSED" });
        let goal = goal.map(Goal::words).unwrap_or_default();
        eprintln!("{metric:<44}{:>14}  {unit:<16}{goal:>14}  {met}", round(*value));
    }
    eprintln!("store: {store}");
}

fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Messages a second that several programs processed in turns, by program.
#[derive(Default)]
pub struct Turns(BTreeMap<String, Vec<f64>>);

impl Turns {
    pub fn add(&mut self, program: &str, rate: f64) {
        self.0.entry(program.to_owned()).or_default().push(rate);
    }

    fn median(&self, program: &str) -> Option<f64> {
        let mut rates = self.0.get(program)?.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied()
    }

    /// Adds the medians to the table, and how many times as fast as the best of the others `ours` is.
    pub fn compare(&self, ours: &str, others: &[&str], least: f64) {
        let best = others.iter().filter_map(|peer| self.median(peer)).max_by(f64::total_cmp);
        if let (Some(own), Some(best)) = (self.median(ours), best) {
            let metric = format!("{ours} / best of {}", others.join(", "));
            add(metric, own / best, "x", Some(Goal::AtLeast(least)));
        }
    }

    /// Adds the median of each program to the table.
    pub fn print(&self) {
        for program in self.0.keys() {
            let rate = self.median(program).unwrap_or_default();
            add(format!("median: {program}"), rate, "messages/s", None);
        }
    }
}
