//! Pages of rows: made one after the other, and looked through.

use query::{Constraint, Pages, QueryError, Row, Scan, Value};

/// Rows that one look at the store reads.
pub(super) const ROWS: u32 = 500;

/// Pages that a function makes, until it has none.
pub(super) struct Made<F>(pub F);

impl<F> Pages for Made<F>
where
    F: FnMut() -> Result<Option<Vec<Row>>, QueryError> + Send,
{
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        (self.0)()
    }
}

/// All rows at once.
pub(super) fn all(rows: Vec<Row>) -> Box<dyn Pages> {
    Box::new(Some(rows))
}

/// Rows that are what was asked for, and no others: a source may know only roughly where they are.
pub(super) struct Exact {
    pages: Box<dyn Pages>,
    wanted: Vec<Constraint>,
    left: u64,
}

impl Exact {
    pub fn new(pages: Box<dyn Pages>, scan: &Scan) -> Self {
        let left = scan.limit.unwrap_or(u64::MAX);
        Exact { pages, wanted: scan.constraints.clone(), left }
    }
}

impl Pages for Exact {
    fn next(&mut self) -> Result<Option<Vec<Row>>, QueryError> {
        if self.left == 0 {
            return Ok(None);
        }
        let Some(mut rows) = self.pages.next()? else { return Ok(None) };
        rows.retain(|row| meets(row, &self.wanted));
        rows.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= rows.len() as u64;
        Ok(Some(rows))
    }
}

/// Whether a row meets the constraints.
pub(super) fn meets(row: &Row, wanted: &[Constraint]) -> bool {
    wanted.iter().all(|it| row.get(it.field).is_some_and(|value| it.is.meets(value)))
}

/// A value that may be absent.
pub(super) fn maybe<T>(value: Option<T>, show: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, show)
}

/// A text that may be absent.
pub(super) fn text_of(text: Option<impl AsRef<str>>) -> Value {
    maybe(text, Value::text)
}

/// A time in milliseconds.
pub(super) fn ms(at: jiff::Timestamp) -> Value {
    Value::Int(at.as_millisecond())
}
