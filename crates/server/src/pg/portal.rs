//! Prepared statements and portals of a client, with a limit of their number and size.

use std::collections::HashMap;

use query::{Column, Row};

use super::report::{NO_PORTAL, NO_STATEMENT, Report, TOO_MUCH};
use super::session::Step;
use super::value::Format;
use super::watch::Watch;
use crate::sql::{Answer, RowStream};

/// Prepared statements of a session.
const STATEMENTS_MAX: usize = 4096;

/// The bytes of their texts.
const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// Portals of a session.
const PORTALS_MAX: usize = 64;

/// Things by name that a client made.
pub(crate) struct Named<T> {
    what: &'static str,
    missing: &'static str,
    count_max: usize,
    bytes_max: usize,
    bytes: usize,
    by_name: HashMap<String, (T, usize)>,
}

impl<T> Named<T> {
    /// No statement yet.
    pub(crate) fn statements() -> Self {
        Named::new("prepared statement", NO_STATEMENT, STATEMENTS_MAX, STATEMENT_BYTES_MAX)
    }

    /// No portal yet.
    pub(crate) fn portals() -> Self {
        Named::new("portal", NO_PORTAL, PORTALS_MAX, usize::MAX)
    }

    fn new(what: &'static str, missing: &'static str, count_max: usize, bytes_max: usize) -> Self {
        Named { what, missing, count_max, bytes_max, bytes: 0, by_name: HashMap::new() }
    }

    /// Keeps something of so many bytes. The one without a name is replaced, another one is not.
    pub(crate) fn put(&mut self, name: &str, thing: T, bytes: usize) -> Result<(), Report> {
        if name.is_empty() {
            self.remove(name);
        } else if self.by_name.contains_key(name) {
            let text = format!("the {} {name:?} is there already", self.what);
            let sqlstate = if self.missing == NO_PORTAL { "42P03" } else { "42P05" };
            return Err(Report::new(sqlstate, text).hint("close it first"));
        }
        if self.by_name.len() >= self.count_max || self.bytes + bytes > self.bytes_max {
            let text = format!("the session has as many {}s as it may have", self.what);
            return Err(Report::new(TOO_MUCH, text).hint("close those that are not needed"));
        }
        self.bytes += bytes;
        self.by_name.insert(name.to_owned(), (thing, bytes));
        Ok(())
    }

    /// The entry of a name.
    pub(crate) fn get(&mut self, name: &str) -> Result<&mut T, Report> {
        let text = || format!("there is no {} {name:?}", self.what);
        match self.by_name.get_mut(name) {
            Some((thing, _)) => Ok(thing),
            None => Err(Report::new(self.missing, text())),
        }
    }

    /// Forgets it, if it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        match self.by_name.remove(name) {
            Some((_, bytes)) => {
                self.bytes -= bytes;
                true
            }
            None => false,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.bytes = 0;
    }
}

/// An answer that is given little by little.
pub(crate) struct Rows {
    /// The columns.
    pub(crate) columns: Vec<Column>,
    /// Rows that were received and not yet sent.
    ready: std::vec::IntoIter<Row>,
    /// The stream of rows that are not received yet.
    rest: Option<RowStream>,
    tag: String,
    /// How many were given.
    pub(crate) given: usize,
    /// Whether the number of rows is missing in the tag.
    is_uncounted: bool,
    /// Whether some were given already.
    pub(crate) is_begun: bool,
}

impl From<Answer> for Rows {
    fn from(answer: Answer) -> Self {
        let Answer { columns, rows, rest, tag, .. } = answer;
        let is_uncounted = rest.is_some();
        let ready = rows.into_iter();
        Rows { columns, ready, rest, tag, given: 0, is_uncounted, is_begun: false }
    }
}

impl Rows {
    /// The next row that is here.
    pub(super) fn take_ready(&mut self) -> Option<Row> {
        let row = self.ready.next();
        self.given += usize::from(row.is_some());
        row
    }

    /// The next row; waits for it as long as `watch` allows.
    pub(super) async fn next(
        &mut self,
        watch: &mut Watch<'_>,
        text: &str,
    ) -> Result<Option<Row>, Step> {
        Ok(if self.is_more(watch, text).await? { self.take_ready() } else { None })
    }

    /// Whether there is another row.
    pub(super) async fn is_more(
        &mut self,
        watch: &mut Watch<'_>,
        text: &str,
    ) -> Result<bool, Step> {
        while self.ready.len() == 0
            && let Some(rest) = &mut self.rest
        {
            match watch.next(rest, text).await? {
                Some(rows) => self.ready = rows.into_iter(),
                None => self.rest = None,
            }
        }
        Ok(self.ready.len() > 0)
    }

    /// The command tag at the end.
    pub(super) fn tag(&self) -> String {
        match self.is_uncounted {
            true => format!("{} {}", self.tag, self.given),
            false => self.tag.clone(),
        }
    }
}

/// The formats of so many things: one for each, one for all, or text.
pub(crate) fn formats(codes: &[i16], count: usize) -> Result<Vec<Format>, Report> {
    match codes {
        [] => Ok(vec![Format::Text; count]),
        [one] => Ok(vec![Format::of(*one)?; count]),
        codes if codes.len() == count => codes.iter().map(|code| Format::of(*code)).collect(),
        codes => {
            let text = format!("there are {} formats for {count} values", codes.len());
            Err(Report::new(super::report::PROTOCOL, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_prepares_no_more_than_it_may() {
        let mut named = Named::new("prepared statement", NO_STATEMENT, 3, 10);
        for name in ["a", "b", ""] {
            named.put(name, (), 2).unwrap();
        }
        assert_eq!(named.put("c", (), 0).unwrap_err().sqlstate, TOO_MUCH);
        assert_eq!(named.put("a", (), 0).unwrap_err().sqlstate, "42P05");
        // The one without a name makes room for the next.
        named.put("", (), 6).unwrap();
        assert_eq!(named.put("", (), 7).unwrap_err().sqlstate, TOO_MUCH);
        assert_eq!(named.get("").unwrap_err().sqlstate, NO_STATEMENT);
        assert!(named.remove("a") && !named.remove("a"));
        named.put("c", (), 8).unwrap();
        assert_eq!(named.bytes, 10);
        named.clear();
        assert_eq!((named.bytes, named.by_name.len()), (0, 0));
    }

    #[test]
    fn formats_are_one_for_all_or_one_for_each() {
        use Format::{Binary, Text};
        assert_eq!(formats(&[], 2).unwrap(), [Text, Text]);
        assert_eq!(formats(&[1], 2).unwrap(), [Binary, Binary]);
        assert_eq!(formats(&[0, 1], 2).unwrap(), [Text, Binary]);
        assert_eq!(formats(&[0, 1], 3).unwrap_err().sqlstate, "08P01");
        assert_eq!(formats(&[7], 1).unwrap_err().sqlstate, "22P02");
    }
}
