//! The record of statements: counted, shown and kept, within limits.

use domain::run::{AttemptEnd, AttemptResult};
use serde_json::{Value, json};

use crate::exec::{Failure, RESULT_BYTES_MAX};
use crate::output::{Masked, Stream};

/// The most rows that the result of an attempt keeps.
pub(super) const RESULT_ROWS_MAX: u64 = 1_000;
/// The most bytes of rows that go to the output of an attempt.
pub(super) const OUTPUT_BYTES_MAX: usize = 1 << 20;

impl Failure {
    /// The end of an attempt that was asked to stop.
    pub fn stopped() -> Self {
        Failure::other("STOPPED", "it was stopped between two statements")
    }
}

/// The record of an attempt while it runs.
pub(super) struct StatementRecord {
    output: Masked,
    /// Statements that were executed.
    pub statements: u64,
    /// Rows that they changed.
    pub rows_affected: u64,
    /// Rows that they returned.
    rows_returned: u64,
    /// The keys of the present rows, as JSON.
    keys: Vec<String>,
    /// The rows of the last statement that returns rows, as a JSON array without its end.
    result: Option<String>,
    result_rows: u64,
    /// Rows of the last statement that returns rows, kept or not.
    last_rows: u64,
    shown_bytes: usize,
    hidden_rows: u64,
}

impl StatementRecord {
    pub fn new(output: Masked) -> Self {
        StatementRecord {
            output,
            statements: 0,
            rows_affected: 0,
            rows_returned: 0,
            keys: Vec::new(),
            result: None,
            result_rows: 0,
            last_rows: 0,
            shown_bytes: 0,
            hidden_rows: 0,
        }
    }

    /// Rows with these columns follow. They take the place of earlier ones in the result.
    pub fn columns<'c>(&mut self, names: impl Iterator<Item = &'c str>) {
        let mut taken: Vec<String> = Vec::new();
        for name in names {
            let mut key = name.to_owned();
            let mut count = 1;
            while taken.contains(&key) {
                count += 1;
                key = format!("{name}_{count}");
            }
            taken.push(key);
        }
        self.keys = taken.into_iter().map(|key| Value::String(key).to_string()).collect();
        self.result = Some("[".to_owned());
        self.result_rows = 0;
        self.last_rows = 0;
    }

    /// Whether no further row would be shown.
    pub fn is_full(&self) -> bool {
        self.hidden_rows > 0 && self.result_rows < self.last_rows
    }

    /// A row that is only counted, because it is too large or too late.
    pub fn row_unseen(&mut self) {
        self.rows_returned += 1;
        self.last_rows += 1;
        self.hidden_rows += 1;
    }

    /// A row: a line of the output, and an object of the result.
    pub fn row(&mut self, values: impl Iterator<Item = Value>) {
        let fields: Vec<String> =
            self.keys.iter().zip(values).map(|(key, value)| format!("{key}:{value}")).collect();
        let object = format!("{{{}}}", fields.join(","));
        self.rows_returned += 1;
        if let Some(result) = &mut self.result {
            // Once a row is left out, those after it are too.
            let is_whole = self.result_rows == self.last_rows;
            let fits = result.len() + object.len() + 2 <= RESULT_BYTES_MAX;
            if is_whole && fits && self.result_rows < RESULT_ROWS_MAX {
                if self.result_rows > 0 {
                    result.push(',');
                }
                result.push_str(&object);
                self.result_rows += 1;
            }
        }
        self.last_rows += 1;
        if self.hidden_rows == 0 && self.shown_bytes + object.len() < OUTPUT_BYTES_MAX {
            self.shown_bytes += object.len() + 1;
            self.output.write(Stream::Stdout, format!("{object}\n").as_bytes());
        } else {
            self.hidden_rows += 1;
        }
    }

    /// Adds a line to the output.
    pub fn note(&self, line: &str) {
        self.output.write(Stream::Stderr, format!("{line}\n").as_bytes());
    }

    /// The result. `details` are the known circumstances; the counts are added.
    pub fn finish(
        self,
        done: Result<(), Failure>,
        stopped: Option<AttemptEnd>,
        details: Value,
    ) -> AttemptResult {
        let cut = self.result_rows < self.last_rows;
        if cut {
            let (kept, all) = (self.result_rows, self.last_rows);
            self.note(&format!("the result keeps the first {kept} of {all} rows"));
        }
        if self.hidden_rows > 0 {
            self.note(&format!("{} more rows are not shown", self.hidden_rows));
        }
        let result = self.result.map(|rows| rows + "]");
        let mut details = details;
        details["statements"] = json!(self.statements);
        details["rows_returned"] = json!(self.rows_returned);
        details["result_bytes"] = json!(result.as_ref().map_or(0, String::len));
        details["cut"] = json!(cut);
        let details = Some(details.to_string());
        match done {
            Ok(()) => AttemptResult {
                message: format!(
                    "Query executed successfully, {} rows affected",
                    self.rows_affected
                ),
                rows_affected: Some(self.rows_affected),
                result,
                is_result_cut: cut,
                details,
                ..AttemptResult::completed()
            },
            Err(failure) => AttemptResult {
                end: stopped.unwrap_or(AttemptEnd::Failed),
                details,
                ..AttemptResult::failed(failure.code, failure.message)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(record: StatementRecord) -> (Value, Value) {
        let result = record.finish(Ok(()), None, json!({}));
        let parse = |text: Option<String>| {
            text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
        };
        (parse(result.result), parse(result.details))
    }

    #[test]
    fn rows_are_objects_in_the_order_of_their_columns() {
        let mut record = StatementRecord::new(Masked::default());
        record.columns(["b", "a", "b", "b"].into_iter());
        record.row([json!(1), json!("x\n"), json!(null), json!([2])].into_iter());
        let result = record.finish(Ok(()), None, json!({}));
        assert_eq!(result.result.unwrap(), r#"[{"b":1,"a":"x\n","b_2":null,"b_3":[2]}]"#);
        assert_eq!(result.message, "Query executed successfully, 0 rows affected");
    }

    #[test]
    fn the_last_rows_count() {
        let mut record = StatementRecord::new(Masked::default());
        record.columns(["a"].into_iter());
        record.row([json!(1)].into_iter());
        record.columns(["b"].into_iter());
        let (result, details) = finished(record);
        assert_eq!(result, json!([]));
        assert_eq!((&details["rows_returned"], &details["cut"]), (&json!(1), &json!(false)));
    }

    #[test]
    fn a_result_stays_within_its_limits_and_is_a_beginning() {
        for (rows, width) in [(1_001, 1), (10, 20_000), (1, RESULT_BYTES_MAX)] {
            let mut record = StatementRecord::new(Masked::default());
            record.columns(["n", "text"].into_iter());
            for n in 0..rows {
                // One small row after a large one must not slip in.
                let width = if n + 1 == rows && rows > 1 { 1 } else { width };
                record.row([json!(n), json!("x".repeat(width))].into_iter());
            }
            let result = record.finish(Ok(()), None, json!({}));
            let text = result.result.unwrap();
            assert!(text.len() <= RESULT_BYTES_MAX, "{}", text.len());
            let kept: Vec<Value> = serde_json::from_str(&text).unwrap();
            assert!(kept.len() < rows);
            assert!(kept.iter().enumerate().all(|(n, row)| row["n"] == json!(n)));
            assert!(result.details.unwrap().contains(r#""cut":true"#));
            assert!(result.is_result_cut);
        }
    }
}
