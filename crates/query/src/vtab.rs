//! A table of a [`Source`](crate::Source) as a virtual table of SQLite.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::fmt::Write;
use std::marker::PhantomData;
use std::sync::Arc;

use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, DistinctMode, Filters, IndexConstraintOp as Op, IndexInfo, Module, VTab,
    VTabConnection, VTabCursor, sqlite3_vtab, sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use crate::budget::Budget;
use crate::source::{Constraint, Is, Order, Pages, Scan, Source, Used};
use crate::table::{Keys, Table};
use crate::value::{Kind, Row, Value};

/// The size of a value without its text.
const VALUE_BYTES: u64 = 32;

/// The shared state of the tables of a connection.
#[derive(Clone)]
pub(crate) struct Shared {
    pub source: Arc<dyn Source>,
    pub budget: Arc<Budget>,
}

/// Registers a table with a connection, under its name with its schema.
pub(crate) fn register(
    connection: &Connection,
    table: &'static Table,
    shared: Shared,
) -> Result<()> {
    const MODULE: Module<'_, Tab<'_>> = Module::eponymous_only_module();
    connection.create_module(table.inner_name().as_str(), &MODULE, Some((table, shared)))
}

/// A connected table.
#[repr(C)]
struct Tab<'vtab> {
    base: sqlite3_vtab,
    table: &'static Table,
    shared: Shared,
    life: PhantomData<&'vtab ()>,
}

#[expect(unsafe_code, reason = "repr(C) with the base first is all that the trait asks for")]
unsafe impl<'vtab> VTab<'vtab> for Tab<'vtab> {
    type Aux = (&'static Table, Shared);
    type Cursor = Cursor<'vtab>;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let (table, shared) = aux.ok_or_else(|| Error::ModuleError("no table".into()))?;
        let declaration = CString::new(table.declaration())?;
        let base = sqlite3_vtab::default();
        let tab = Tab { base, table, shared: shared.clone(), life: PhantomData };
        Ok((declaration.into(), tab))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        Plan::make(self.table, info)
    }

    fn open(&'vtab mut self) -> Result<Cursor<'vtab>> {
        Ok(Cursor {
            base: sqlite3_vtab_cursor::default(),
            table: self.table,
            shared: self.shared.clone(),
            pages: None,
            rows: Vec::new(),
            held: 0,
            at: 0,
            number: 0,
            life: PhantomData,
        })
    }
}

/// The plan of a scan, as a text that SQLite passes from planning to execution: a word for each
/// argument, `=3` `i3` `>3` `g3` `<3` `l3` with the index of a column, `L`, `O`, `k3` for a column
/// that must not be null, the order `d3` or `n3`, and last the used columns, `u` with a bit for
/// each.
struct Plan;

impl Plan {
    fn make(table: &Table, info: &mut IndexInfo) -> Result<bool> {
        let mut text = String::new();
        let mut used = 0;
        let (mut exact, mut equal, mut range) = (true, false, false);
        let mut limit: Vec<(usize, char)> = Vec::new();
        let count = info.constraints().count();
        for n in 0..count {
            let Some(constraint) = info.constraints().nth(n) else { break };
            let (op, usable) = (constraint.operator(), constraint.is_usable());
            let field = usize::try_from(constraint.column()).ok();
            match op {
                Op::SQLITE_INDEX_CONSTRAINT_LIMIT if usable => {
                    limit.push((n, 'L'));
                    continue;
                }
                Op::SQLITE_INDEX_CONSTRAINT_OFFSET if usable => {
                    limit.push((n, 'O'));
                    continue;
                }
                _ => {}
            }
            let keys = field.and_then(|field| table.fields.get(field)).map(|field| field.keys);
            let known = matches!(op, Op::SQLITE_INDEX_CONSTRAINT_ISNOTNULL);
            if let (true, Some(Keys::Range), Some(field)) = (known, keys, field) {
                let _ = write!(text, "k{field} ");
                continue;
            }
            let word = match (op, keys) {
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Some(Keys::Equal)) => '=',
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Some(Keys::Range)) => '=',
                (Op::SQLITE_INDEX_CONSTRAINT_GT, Some(Keys::Range)) => '>',
                (Op::SQLITE_INDEX_CONSTRAINT_GE, Some(Keys::Range)) => 'g',
                (Op::SQLITE_INDEX_CONSTRAINT_LT, Some(Keys::Range)) => '<',
                (Op::SQLITE_INDEX_CONSTRAINT_LE, Some(Keys::Range)) => 'l',
                _ => '-',
            };
            let argument = field.is_some_and(|field| field + table.arguments >= table.fields.len());
            if argument && !usable && keys == Some(Keys::Equal) {
                // A table function needs its arguments.
                return Ok(false);
            }
            let (Some(field), true, true) = (field, usable, word != '-') else {
                exact = false;
                continue;
            };
            equal |= word == '=';
            range |= word != '=';
            let several = word == '=' && info.set_in_constraint(n, true)?;
            used += 1;
            info.constraint_usage(n).set_argv_index(used);
            let _ = write!(text, "{}{field} ", if several { 'i' } else { word });
        }
        let orders: Vec<(c_int, bool)> =
            info.order_bys().map(|order| (order.column(), order.is_order_by_desc())).collect();
        let order = Plan::order(table, &orders);
        let plain = info.distinct() == DistinctMode::Ordered;
        if exact && plain && (orders.is_empty() || order.is_some()) && !limit.is_empty() {
            for (n, word) in limit {
                used += 1;
                info.constraint_usage(n).set_argv_index(used);
                let _ = write!(text, "{word} ");
            }
            if let Some(order) = order {
                let word = if order.nulls_first { 'n' } else { 'd' };
                let _ = write!(text, "{word}{} ", order.field);
                info.set_order_by_consumed(true);
            }
        }
        let (cost, rows) = match (equal, range) {
            _ if let Some(size) = crate::catalog::size_of(table) => (1.0 + size as f64, size),
            (true, _) => (100.0, 100),
            (false, true) => (100_000.0, 100_000),
            (false, false) => (1_000_000.0, 1_000_000),
        };
        let _ = write!(text, "u{}", info.col_used());
        info.set_estimated_cost(cost);
        info.set_estimated_rows(rows);
        info.set_idx_str(&text);
        Ok(true)
    }

    /// The requested order, if the source supports it.
    fn order(table: &Table, orders: &[(c_int, bool)]) -> Option<Order> {
        let [(column, true)] = orders else { return None };
        let column = usize::try_from(*column).ok()?;
        let (name, nulls_first) = match column.checked_sub(table.fields.len()) {
            Some(hidden) => (*table.orders.get(hidden)?, true),
            None => (table.fields.get(column)?.name, false),
        };
        let known = table.orders.contains(&name);
        known.then(|| Order { field: table.field(name).unwrap_or_default(), nulls_first })
    }

    fn read(text: &str, table: &'static Table, args: &Filters<'_>) -> Result<Scan> {
        let used = Used::ALL;
        let mut scan = Scan { table, constraints: Vec::new(), order: None, limit: None, used };
        let mut args_used = 0;
        let mut window: Option<u64> = None;
        for word in text.split_whitespace() {
            let (op, field) = word.split_at(1);
            if op == "u" {
                scan.used = field.parse().map_or(Used::ALL, Used);
                continue;
            }
            let field: usize = field.parse().unwrap_or_default();
            let kind = table.fields.get(field).map_or(Kind::Text, |field| field.kind);
            if let "n" | "d" = op {
                scan.order = Some(Order { field, nulls_first: op == "n" });
                continue;
            }
            if op == "k" {
                scan.constraints.push(Constraint { field, is: Is::Known });
                continue;
            }
            let n = args_used;
            args_used += 1;
            if let "L" | "O" = op {
                let number = args.get::<Option<i64>>(n).ok().flatten().unwrap_or(-1);
                match (op, u64::try_from(number)) {
                    ("L", Ok(number)) => window = Some(window.unwrap_or(0) + number),
                    // No limit, whatever the offset is.
                    ("L", Err(_)) => window = Some(u64::MAX / 2),
                    (_, Ok(number)) => window = Some(window.unwrap_or(0).saturating_add(number)),
                    (_, Err(_)) => {}
                }
                continue;
            }
            let mut values = Vec::new();
            if op == "i" {
                let mut list = args.in_values(n)?;
                while let Some(value) = list.next()? {
                    values.extend(loose(value, kind));
                }
            } else if let Some(value) = args.iter().nth(n) {
                values.extend(loose(value, kind));
            }
            let is = match (op, values.first().cloned()) {
                ("=" | "i", _) => Is::In(values),
                (">", Some(value)) => Is::MoreThan(value),
                ("g", Some(value)) => Is::AtLeast(value),
                ("<", Some(value)) => Is::LessThan(value),
                ("l", Some(value)) => Is::AtMost(value),
                _ => Is::In(Vec::new()),
            };
            scan.constraints.push(Constraint { field, is });
        }
        scan.limit = window.filter(|window| *window < u64::MAX / 2);
        Ok(scan)
    }
}

/// A value that a column is compared with; none if the column cannot have it, so that no row
/// matches.
fn loose(value: ValueRef<'_>, kind: Kind) -> Option<Value> {
    match value {
        ValueRef::Null => None,
        value => match Value::of(value, kind) {
            // Numbers of all types are compared.
            None if kind == Kind::Int => match value {
                ValueRef::Real(number) => Some(Value::Float(number)),
                _ => None,
            },
            value => value,
        },
    }
}

/// A scan of a table.
#[repr(C)]
struct Cursor<'vtab> {
    base: sqlite3_vtab_cursor,
    table: &'static Table,
    shared: Shared,
    pages: Option<Box<dyn Pages>>,
    rows: Vec<Row>,
    /// The bytes of the current page, which count as memory of the statement.
    held: u64,
    at: usize,
    number: i64,
    life: PhantomData<&'vtab ()>,
}

impl Cursor<'_> {
    /// Moves to the next row, or to the end.
    fn settle(&mut self) -> Result<()> {
        while self.at >= self.rows.len() {
            let Some(pages) = &mut self.pages else { return Ok(()) };
            if self.shared.budget.is_over() {
                return Err(Error::ModuleError("interrupted".into()));
            }
            match pages.next() {
                Ok(Some(rows)) => self.load(rows)?,
                Ok(None) => {
                    self.pages = None;
                    self.load(Vec::new())?;
                }
                Err(error) => return Err(self.shared.budget.fail(error)),
            }
        }
        Ok(())
    }

    /// Replaces the page, and counts its memory.
    fn load(&mut self, rows: Vec<Row>) -> Result<()> {
        self.release();
        self.held = rows.iter().flatten().map(|value| value.size() + VALUE_BYTES).sum();
        (self.rows, self.at) = (rows, 0);
        self.shared.budget.hold(self.held)
    }

    fn release(&mut self) {
        crate::memory::count(-i64::try_from(std::mem::take(&mut self.held)).unwrap_or(0));
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

#[expect(unsafe_code, reason = "repr(C) with the base first is all that the trait asks for")]
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, _: c_int, plan: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let scan = Plan::read(plan.unwrap_or_default(), self.table, args)?;
        (self.pages, self.number) = (None, 0);
        self.load(Vec::new())?;
        // No value is equal to null.
        let empty =
            |constraint: &Constraint| matches!(&constraint.is, Is::In(values) if values.is_empty());
        if scan.constraints.iter().any(empty) {
            return Ok(());
        }
        let answer = match self.table.schema {
            "pg_catalog" | "information_schema" => {
                crate::catalog::scan(self.shared.source.as_ref(), &scan)
            }
            _ => self.shared.source.scan(&scan),
        };
        match answer {
            Ok(pages) => self.pages = Some(pages),
            Err(error) => return Err(self.shared.budget.fail(error)),
        }
        self.settle()
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        self.number += 1;
        self.settle()
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let column = column as usize;
        let Some(row) = self.rows.get(self.at) else { return Ok(()) };
        let count = self.table.fields.len();
        if column < count {
            let value = row.get(column).unwrap_or(&Value::Null);
            self.shared.budget.spend(value.size())?;
            return context.set_result(value.inner());
        }
        let name = self.table.orders.get(column - count);
        let field = name.and_then(|name| self.table.field(name)).unwrap_or_default();
        match row.get(field).unwrap_or(&Value::Null) {
            // The greatest number, or a text after all others.
            Value::Null => match self.table.fields[field].kind {
                Kind::Int | Kind::Float | Kind::Bool => context.set_result(i64::MAX),
                _ => context.set_result("\u{10ffff}"),
            },
            value => context.set_result(value.inner()),
        }
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.number)
    }
}
