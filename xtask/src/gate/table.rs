//! The table that the gate prints.

use std::fmt::Write;

use super::judge::{Verdict, compare, median, spread};
use super::metrics::Metric;

/// The values of a metric by round. A side that does not know the metric has none.
pub struct Row {
    /// The metric.
    pub metric: &'static Metric,
    /// Values of the base commit.
    pub base: Vec<f64>,
    /// Values of the working tree.
    pub candidate: Vec<f64>,
}

/// The table, and the names of the metrics that have fallen.
pub fn render(rows: &[Row]) -> (String, Vec<&'static str>) {
    let mut text = format!(
        "{:<22} {:>11} {:>11} {:>7} {:>8} {:>7} {:>7}  {:<10} {}\n",
        "METRIC", "BASE", "NEW", "CHANGE", "NOISE", "SPREAD", "SPREAD", "UNIT", "VERDICT"
    );
    let mut fallen = Vec::new();
    for row in rows {
        let cells = cells(row, &mut fallen);
        let _ = writeln!(
            text,
            "{:<22} {:>11} {:>11} {:>7} {:>8} {:>7} {:>7}  {:<10} {}",
            row.metric.name,
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            cells[4],
            cells[5],
            row.metric.unit,
            cells[6]
        );
    }
    (text, fallen)
}

fn cells(row: &Row, fallen: &mut Vec<&'static str>) -> [String; 7] {
    let dash = || "-".to_owned();
    let middle = |values: &[f64]| match values {
        [] => dash(),
        values => number(median(values)),
    };
    let range = |values: &[f64]| match values {
        [] => dash(),
        values => format!("{:.0} %", spread(values) * 100.0),
    };
    let (base, candidate) = (&row.base, &row.candidate);
    let (change, noise, verdict) = match (base.is_empty(), candidate.is_empty()) {
        (false, false) => {
            let compared = compare(row.metric.better, base, candidate);
            if compared.verdict == Verdict::Fall {
                fallen.push(row.metric.name);
            }
            let change = format!("{:+.1} %", (compared.ratio - 1.0) * 100.0);
            (change, format!("±{:.1} %", compared.noise * 100.0), word(compared.verdict))
        }
        (true, false) => (dash(), dash(), "new"),
        (false, true) => (dash(), dash(), "gone"),
        (true, true) => (dash(), dash(), "on neither side"),
    };
    [
        middle(base),
        middle(candidate),
        change,
        noise,
        range(base),
        range(candidate),
        verdict.to_owned(),
    ]
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fall => "FALL",
        Verdict::Unclear => "unclear: slower, but within the noise",
        Verdict::Same => "same",
        Verdict::Rise => "rise",
    }
}

/// A number with a useful number of digits.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metrics::pick;
    use super::*;

    #[test]
    fn table_shows_medians_changes_and_what_cannot_be_compared() {
        let metrics = pick(&["process".to_owned(), "start".to_owned()]).unwrap();
        let row = |at: usize, base: &[f64], candidate: &[f64]| Row {
            metric: metrics[at],
            base: base.to_vec(),
            candidate: candidate.to_vec(),
        };
        let (text, fallen) = render(&[
            row(0, &[336_000.0, 330_000.0, 340_000.0], &[269_000.0, 270_000.0, 268_000.0]),
            row(1, &[], &[91_900.0]),
            row(2, &[0.69, 0.7, 0.68], &[0.53, 0.54, 0.52]),
            row(3, &[1.0], &[]),
        ]);
        let shown: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            shown,
            [
                "METRIC BASE NEW CHANGE NOISE SPREAD SPREAD UNIT VERDICT",
                "process.sqlite 336000 269000 -19.9 % ±1.2 % 3 % 1 % runs/s FALL",
                "process.postgres - 91900 - - - 0 % runs/s new",
                "start.sqlite 0.690 0.530 +30.2 % ±0.6 % 3 % 4 % ms rise",
                "start.postgres 1.000 - - - 0 % - ms gone",
            ]
        );
        assert_eq!(fallen, ["process.sqlite"]);
    }
}
