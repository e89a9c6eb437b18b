//! The pass before all others: clauses of PostgreSQL that SQLite does not have become clauses that
//! it has.
//!
//! - `TABLE x` becomes `SELECT * FROM x`.
//! - `SELECT DISTINCT ON (a) …` becomes the first row of each partition by `a`.
//! - `SELECT unnest(x)` becomes `SELECT u FROM unnest(x) AS u`.
//! - A LATERAL subquery with one row becomes a scalar subquery wherever its columns are used.

use sqlparser::ast::{
    Distinct, Expr, FunctionArguments, Ident, Join, JoinConstraint, JoinOperator, LimitClause,
    ObjectName, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableFunctionArgs,
    TableWithJoins, Value, WildcardAdditionalOptions, WindowType,
};

use super::names::{self, call, last, name_of, nothing, object, quoted};
use super::walk::{Step, walk};
use super::{SourceLines, find, folded, not_supported};
use crate::error::QueryError;
use crate::functions::aggregate;
use crate::table::Table;

/// Functions that produce rows, also in the list of a SELECT.
const SERIES: [&str; 3] = ["unnest", "generate_series", "generate_subscripts"];

/// Aggregates of SQLite: a SELECT with one of them and without GROUP BY has one row.
const AGGREGATES: [&str; 6] = ["count", "sum", "avg", "min", "max", "string_agg"];

/// The pass.
pub(super) struct Prepare<'a> {
    pub tables: &'a [&'static Table],
    pub places: &'a SourceLines<'a>,
    /// The number of names that were made up.
    pub made: usize,
}

impl Step for Prepare<'_> {
    fn before_query(&mut self, query: &mut Query) -> Result<(), QueryError> {
        names::spell_out(&mut query.body);
        self.lateral(query)?;
        self.distinct_on(query)
    }

    fn before_select(&mut self, select: &mut Select) -> Result<(), QueryError> {
        self.series(select);
        Ok(())
    }

    fn before_table(&mut self, factor: &mut TableFactor) -> Result<(), QueryError> {
        // Arguments of functions may refer to tables before them anyway.
        if let TableFactor::Function { name, args, with_ordinality, alias, .. } = factor {
            let (name, args) = (name.clone(), std::mem::take(args));
            let (with_ordinality, alias) = (*with_ordinality, alias.take());
            *factor = table(name, alias);
            if let TableFactor::Table { args: of, with_ordinality: ordinality, .. } = factor {
                *of = Some(TableFunctionArgs { args, settings: None });
                *ordinality = with_ordinality;
            }
        }
        Ok(())
    }
}

/// A table by its name.
fn table(name: ObjectName, alias: Option<TableAlias>) -> TableFactor {
    let mut made = nothing();
    let SetExpr::Select(select) = made.body.as_mut() else {
        unreachable!("a text of ours is a SELECT")
    };
    let mut factor = select.from.remove(0).relation;
    if let TableFactor::Table { name: of, alias: of_alias, .. } = &mut factor {
        (*of, *of_alias) = (name, alias);
    }
    factor
}

fn alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None }
}

fn joined(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left))),
        op: sqlparser::ast::BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(right))),
    })
}

fn equal(left: Expr, right: Expr) -> Expr {
    let op = sqlparser::ast::BinaryOperator::Eq;
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

impl Prepare<'_> {
    fn name(&mut self, kind: &str) -> String {
        self.made += 1;
        format!("_{kind}{}", self.made)
    }

    /// Functions that produce rows move from the list of a SELECT to its FROM. Several go in step,
    /// as in PostgreSQL.
    fn series(&mut self, select: &mut Select) {
        let mut found: Vec<String> = Vec::new();
        for item in &mut select.projection {
            let (expr, alias_of) = match item {
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.clone())),
                _ => continue,
            };
            let named = alias_of.unwrap_or_else(|| quoted(&name_of(expr)));
            let mut place = &mut *expr;
            while let Expr::Cast { expr: inner, .. } = place {
                place = inner;
            }
            let Expr::Function(function) = place else { continue };
            let FunctionArguments::List(list) = &function.args else { continue };
            let name = last(&function.name);
            if !SERIES.contains(&name.as_str()) {
                continue;
            }
            let args = TableFunctionArgs { args: list.args.clone(), settings: None };
            let made = self.name("series");
            let mut factor = table(object(&name), Some(alias(&made)));
            if let TableFactor::Table { args: of, .. } = &mut factor {
                *of = Some(args);
            }
            select.from.push(TableWithJoins { relation: factor, joins: Vec::new() });
            *place = Expr::Identifier(quoted(&made));
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("x")));
            *item = SelectItem::ExprWithAlias { expr, alias: named };
            found.push(made);
        }
        let ordinal = |name: &String| {
            Expr::CompoundIdentifier(vec![quoted(name), quoted(crate::catalog::ORDINALITY)])
        };
        let mut conditions: Vec<Expr> = select.selection.take().into_iter().collect();
        conditions.extend(found.windows(2).map(|pair| equal(ordinal(&pair[0]), ordinal(&pair[1]))));
        select.selection = joined(conditions);
    }

    /// `SELECT DISTINCT ON (a) x FROM t ORDER BY a, b` becomes `SELECT x FROM (SELECT x, a, b,
    /// row_number() OVER (PARTITION BY a ORDER BY a, b) AS n FROM t) WHERE n = 1 ORDER BY a, b`.
    fn distinct_on(&mut self, query: &mut Query) -> Result<(), QueryError> {
        let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
        let Some(Distinct::On(_)) = &select.distinct else { return Ok(()) };
        let Some(Distinct::On(on)) = select.distinct.take() else { return Ok(()) };
        self.expand_wildcards(select)?;
        let items = std::mem::take(&mut select.projection);
        let mut columns: Vec<(Expr, Ident)> = Vec::with_capacity(items.len());
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let name = quoted(&name_of(&expr));
                    columns.push((expr, name));
                }
                SelectItem::ExprWithAlias { expr, alias } => columns.push((expr, alias)),
                _ => return Err(not_supported("DISTINCT ON with *")),
            }
        }
        // A name or a number stands for a column of the list.
        let meant = |expr: &Expr| -> Expr {
            let by_number = match expr {
                Expr::Value(value) => match &value.value {
                    Value::Number(number, _) => number.parse::<usize>().ok(),
                    _ => None,
                },
                _ => None,
            };
            let by_name = match expr {
                Expr::Identifier(ident) => {
                    columns.iter().position(|(_, name)| folded(name) == folded(ident))
                }
                _ => None,
            };
            let column = by_number.and_then(|n| n.checked_sub(1)).or(by_name);
            match column.and_then(|n| columns.get(n)) {
                Some((of, _)) => of.clone(),
                None => expr.clone(),
            }
        };
        let orders: Vec<OrderByExpr> = match query.order_by.take().map(|order| order.kind) {
            Some(OrderByKind::Expressions(orders)) => orders,
            Some(_) => return Err(not_supported("ORDER BY ALL")),
            None => Vec::new(),
        };
        let mut number = call("row_number", Vec::new());
        let Expr::Function(function) = &mut number else { return Ok(()) };
        let by =
            orders.iter().map(|order| OrderByExpr { expr: meant(&order.expr), ..order.clone() });
        function.over = Some(WindowType::WindowSpec(sqlparser::ast::WindowSpec {
            window_name: None,
            partition_by: on.iter().map(meant).collect(),
            order_by: by
                .map(|mut order| {
                    super::select::nulls_as_greatest(&mut order);
                    order
                })
                .collect(),
            window_frame: None,
        }));
        let outer = self.name("distinct");
        let column = |name: &str| Expr::CompoundIdentifier(vec![quoted(&outer), quoted(name)]);
        let (mut list, mut shown, mut outer_orders) = (Vec::new(), Vec::new(), Vec::new());
        for (n, order) in orders.iter().enumerate() {
            let name = format!("_o{n}");
            list.push(SelectItem::ExprWithAlias { expr: meant(&order.expr), alias: quoted(&name) });
            outer_orders.push(OrderByExpr { expr: column(&name), ..order.clone() });
        }
        for (n, (expr, alias)) in columns.into_iter().enumerate() {
            let name = format!("_c{n}");
            shown.push(SelectItem::ExprWithAlias { expr: column(&name), alias });
            list.push(SelectItem::ExprWithAlias { expr, alias: quoted(&name) });
        }
        list.push(SelectItem::ExprWithAlias { expr: number, alias: quoted("_n") });
        let mut inner = Query { body: Box::new(SetExpr::Select(select.clone())), ..nothing() };
        if let SetExpr::Select(select) = inner.body.as_mut() {
            select.projection = list;
        }
        let mut made = nothing();
        if let SetExpr::Select(select) = made.body.as_mut() {
            select.projection = shown;
            select.from = vec![TableWithJoins {
                relation: TableFactor::Derived {
                    lateral: false,
                    subquery: Box::new(inner),
                    alias: Some(alias(&outer)),
                    sample: None,
                },
                joins: Vec::new(),
            }];
            let one = Expr::value(Value::Number("1".into(), false));
            select.selection = Some(equal(column("_n"), one));
        }
        query.body = made.body;
        if !outer_orders.is_empty() {
            query.order_by = Some(sqlparser::ast::OrderBy {
                kind: OrderByKind::Expressions(outer_orders),
                interpolate: None,
            });
        }
        Ok(())
    }

    /// `*` becomes the names of the columns.
    fn expand_wildcards(&self, select: &mut Select) -> Result<(), QueryError> {
        let is_wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        if !select.projection.iter().any(is_wildcard) {
            return Ok(());
        }
        let mut tables: Vec<(String, &'static Table)> = Vec::new();
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        for factor in factors {
            let TableFactor::Table { name, alias, args: None, .. } = factor else {
                return Err(not_supported("DISTINCT ON with * of a subquery"));
            };
            let Some(table) = find(name, self.tables, &[], self.places)? else {
                return Err(not_supported("DISTINCT ON with * of a subquery"));
            };
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            tables.push((alias.unwrap_or_else(|| table.name.to_owned()), table));
        }
        let items = std::mem::take(&mut select.projection);
        for item in items {
            let wanted = match &item {
                SelectItem::Wildcard(_) => None,
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => Some(last(name)),
                _ => {
                    select.projection.push(item);
                    continue;
                }
            };
            let meant =
                tables.iter().filter(|(alias, _)| wanted.as_ref().is_none_or(|it| it == alias));
            for (alias, table) in meant {
                let column = |name: &str| vec![quoted(alias), quoted(name)];
                select.projection.extend(table.fields.iter().map(|field| {
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(column(field.name)))
                }));
            }
        }
        Ok(())
    }

    /// A LATERAL subquery with one row becomes a scalar subquery for each of its columns that is
    /// used.
    fn lateral(&mut self, query: &mut Query) -> Result<(), QueryError> {
        let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
        let mut moved: Vec<Moved> = Vec::new();
        let mut conditions: Vec<Expr> = Vec::new();
        let from = std::mem::take(&mut select.from);
        let count = from.len();
        for (n, mut item) in from.into_iter().enumerate() {
            if is_lateral(&item.relation) && item.joins.is_empty() && (n > 0 || count > 1) {
                let one = Moved::read(item.relation)?;
                conditions.extend(one.exists());
                moved.push(one);
                continue;
            }
            let joins = std::mem::take(&mut item.joins);
            for Join { relation, global, join_operator } in joins {
                if !is_lateral(&relation) {
                    item.joins.push(Join { relation, global, join_operator });
                    continue;
                }
                let one = Moved::read(relation)?;
                match join_operator {
                    JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => {
                        if on_condition(on)?.is_some() {
                            return Err(not_supported("LEFT JOIN LATERAL with a condition").hint(
                                "Write ON true, and the condition into the subquery.".to_owned(),
                            ));
                        }
                    }
                    JoinOperator::Join(on)
                    | JoinOperator::Inner(on)
                    | JoinOperator::CrossJoin(on) => {
                        conditions.extend(one.exists());
                        conditions.extend(on_condition(on)?);
                    }
                    _ => return Err(not_supported("this join with LATERAL")),
                }
                moved.push(one);
            }
            select.from.push(item);
        }
        if moved.is_empty() {
            return Ok(());
        }
        let mut all: Vec<Expr> = select.selection.take().into_iter().collect();
        all.extend(conditions);
        select.selection = joined(all);
        expand_moved(select, &moved)?;
        walk(query, &mut Replace { moved: &moved })
    }
}

fn is_lateral(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Derived { lateral: true, .. })
}

/// The condition of a join; none when it is always true.
fn on_condition(on: JoinConstraint) -> Result<Option<Expr>, QueryError> {
    match on {
        JoinConstraint::None => Ok(None),
        JoinConstraint::On(Expr::Value(value)) if matches!(value.value, Value::Boolean(true)) => {
            Ok(None)
        }
        JoinConstraint::On(condition) => Ok(Some(condition)),
        _ => Err(not_supported("USING and NATURAL with LATERAL")),
    }
}

/// A LATERAL subquery.
struct Moved {
    alias: String,
    /// Its columns: names and expressions.
    columns: Vec<(String, Expr)>,
    query: Query,
    /// Whether it has a row in any case.
    is_aggregate: bool,
}

impl Moved {
    fn read(factor: TableFactor) -> Result<Self, QueryError> {
        let refused = || {
            not_supported("a LATERAL subquery with several rows")
                .hint("End it with LIMIT 1, or write a join.".to_owned())
        };
        let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else {
            return Err(not_supported("LATERAL without an alias"));
        };
        let query = *subquery;
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(refused()) };
        let mut columns = Vec::new();
        for (n, item) in select.projection.iter().enumerate() {
            let given = alias.columns.get(n).map(|column| folded(&column.name));
            columns.push(match item {
                SelectItem::UnnamedExpr(expr) => {
                    (given.unwrap_or_else(|| name_of(expr)), expr.clone())
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    (given.unwrap_or_else(|| folded(alias)), expr.clone())
                }
                _ => {
                    return Err(not_supported("* in a LATERAL subquery")
                        .hint("Name the columns.".to_owned()));
                }
            });
        }
        let is_grouped = !matches!(&select.group_by, sqlparser::ast::GroupByExpr::Expressions(list, _) if list.is_empty());
        let is_aggregate = !is_grouped && columns.iter().any(|(_, expr)| aggregates(expr));
        if !is_aggregate && !is_first_row(&query) {
            return Err(refused());
        }
        Ok(Moved { alias: folded(&alias.name), columns, query, is_aggregate })
    }

    /// The condition that it has a row; none when it always has.
    fn exists(&self) -> Option<Expr> {
        let subquery = Box::new(self.query.clone());
        (!self.is_aggregate).then_some(Expr::Exists { subquery, negated: false })
    }

    /// One of its columns as a scalar subquery.
    fn column(&self, name: &str) -> Option<Expr> {
        let (_, expr) = self.columns.iter().find(|(known, _)| known == name)?;
        let mut query = self.query.clone();
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection =
                vec![SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) }];
        }
        Some(Expr::Subquery(Box::new(query)))
    }
}

fn aggregates(expr: &Expr) -> bool {
    let mut inner = expr;
    while let Expr::Cast { expr, .. } | Expr::Nested(expr) = inner {
        inner = expr;
    }
    match inner {
        Expr::Function(function) if function.over.is_none() => {
            let name = last(&function.name);
            let is_one =
                AGGREGATES.contains(&name.as_str()) || aggregate::NAMES.contains(&name.as_str());
            is_one
                || super::expr::arguments(function)
                    .is_some_and(|arguments| arguments.iter().any(aggregates))
        }
        Expr::BinaryOp { left, right, .. } => aggregates(left) || aggregates(right),
        _ => false,
    }
}

/// Whether a query ends with LIMIT 1.
fn is_first_row(query: &Query) -> bool {
    let is_one = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(number, _) if number == "1"),
        _ => false,
    };
    match (&query.limit_clause, &query.fetch) {
        (Some(LimitClause::LimitOffset { limit: Some(limit), .. }), _) => is_one(limit),
        (_, Some(fetch)) => fetch.quantity.as_ref().is_none_or(is_one),
        _ => false,
    }
}

/// `*` and `alias.*` list the columns of what moved.
fn expand_moved(select: &mut Select, moved: &[Moved]) -> Result<(), QueryError> {
    let columns = |one: &Moved| -> Vec<SelectItem> {
        let column = |name: &str| {
            let expr = Expr::CompoundIdentifier(vec![quoted(&one.alias), quoted(name)]);
            SelectItem::ExprWithAlias { expr, alias: quoted(name) }
        };
        one.columns.iter().map(|(name, _)| column(name)).collect()
    };
    let others: Vec<String> = select
        .from
        .iter()
        .flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        })
        .filter_map(|factor| match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => Some(folded(&alias.name)),
            TableFactor::Table { name, .. } => Some(last(name)),
            _ => None,
        })
        .collect();
    let items = std::mem::take(&mut select.projection);
    for item in items {
        match &item {
            SelectItem::Wildcard(_) => {
                select.projection.extend(others.iter().map(|alias| {
                    let kind = SelectItemQualifiedWildcardKind::ObjectName(object(alias));
                    SelectItem::QualifiedWildcard(kind, WildcardAdditionalOptions::default())
                }));
                select.projection.extend(moved.iter().flat_map(columns));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                match moved.iter().find(|one| one.alias == last(name)) {
                    Some(one) => select.projection.extend(columns(one)),
                    None => select.projection.push(item),
                }
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents))
                if idents
                    .first()
                    .is_some_and(|of| moved.iter().any(|one| one.alias == folded(of))) =>
            {
                // The column keeps its name.
                let expr = Expr::CompoundIdentifier(idents.clone());
                let alias = quoted(&name_of(&expr));
                select.projection.push(SelectItem::ExprWithAlias { expr, alias });
            }
            _ => select.projection.push(item),
        }
    }
    Ok(())
}

/// Replaces the columns of subqueries that moved.
struct Replace<'a> {
    moved: &'a [Moved],
}

impl Step for Replace<'_> {
    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), QueryError> {
        let Expr::CompoundIdentifier(idents) = &*expr else { return Ok(()) };
        let [of, column] = idents.as_slice() else { return Ok(()) };
        let Some(one) = self.moved.iter().find(|one| one.alias == folded(of)) else {
            return Ok(());
        };
        match one.column(&folded(column)) {
            Some(subquery) => *expr = subquery,
            None => {
                let text = format!("column {}.{} does not exist", one.alias, column.value);
                return Err(QueryError::new(crate::error::State::NoColumn, text));
            }
        }
        Ok(())
    }
}
