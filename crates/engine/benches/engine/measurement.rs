//! Measurements: one JSON line each on stdout, in the peers' format.

use serde_json::{Value, json};

/// One measured value.
#[derive(Clone)]
pub struct Measurement {
    pub metric: String,
    pub value: Value,
    pub unit: &'static str,
    pub settings: Value,
}

impl Measurement {
    pub fn new(
        metric: impl Into<String>,
        value: impl Into<Value>,
        unit: &'static str,
        settings: Value,
    ) -> Self {
        Measurement { metric: metric.into(), value: value.into(), unit, settings }
    }

    /// Prints the line.
    pub fn print(&self) {
        let line = json!({
            "peer": "punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "metric": self.metric,
            "value": self.value,
            "unit": self.unit,
            "settings": self.settings,
        });
        println!("{line}");
    }
}

/// Prints the progress to stderr.
pub fn progress(text: impl std::fmt::Display) {
    eprintln!("# {text}");
}

/// The percentiles that the peers print.
pub fn percentiles(mut values: Vec<f64>) -> Value {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return json!({ "n": 0 });
    }
    let at = |part: f64| {
        let place = ((values.len() - 1) as f64 * part).round() as usize;
        round(values[place])
    };
    json!({
        "n": values.len(),
        "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "max": at(1.0), "min": at(0.0),
    })
}

/// The middle one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Three digits after the point are plenty.
pub fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
