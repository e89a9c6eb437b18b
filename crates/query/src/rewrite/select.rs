//! Clauses: LIMIT, ORDER BY, and unsupported ones.

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, LimitClause, OrderBy, OrderByExpr, OrderByKind, OrderBySort,
    Query, Select, SelectItem, SetExpr, TableFactor, Value,
};

use super::names::{from_derived, nothing, quoted};
use super::{Pass, folded, not_supported};
use crate::error::QueryError;
use crate::table::{Table, order_key};
use crate::value::Kind;

impl Pass<'_> {
    pub(super) fn enter_query(&mut self, query: &mut Query) -> Result<(), QueryError> {
        let body = query.body.as_ref();
        if let SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) =
            body
        {
            return Err(not_supported("changing tables"));
        }
        if !query.locks.is_empty() {
            return Err(not_supported("FOR UPDATE and FOR SHARE"));
        }
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                // SQLite does not accept this keyword after a list of names.
                cte.materialized = None;
            }
        }
        if let Some(fetch) = query.fetch.take() {
            if fetch.with_ties || fetch.percent {
                return Err(not_supported("FETCH … WITH TIES or PERCENT"));
            }
            let one = Expr::value(Value::Number("1".into(), false));
            let quantity = fetch.quantity.unwrap_or(one);
            match &mut query.limit_clause {
                Some(LimitClause::LimitOffset { limit, .. }) => *limit = Some(quantity),
                clause => {
                    *clause = Some(LimitClause::LimitOffset {
                        limit: Some(quantity),
                        offset: None,
                        limit_by: Vec::new(),
                    });
                }
            }
        }
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            if limit.is_none() {
                *limit = offset.is_some().then(|| Expr::value(Value::Number("-1".into(), false)));
            }
            for expr in limit.iter_mut().chain(offset.iter_mut().map(|offset| &mut offset.value)) {
                self.expect(expr, Kind::Int);
            }
            if let Some(offset) = offset {
                offset.rows = sqlparser::ast::OffsetRows::None;
            }
            if limit.is_none() {
                query.limit_clause = None;
            }
        }
        // SQLite accepts no parentheses around an operand of a set operation.
        unwrap_parts(query.body.as_mut());
        self.order(query);
        Ok(())
    }

    pub(super) fn leave_query(&mut self, query: &Query) {
        // Outer queries use the columns of inner ones by name.
        let Some(with) = &query.with else { return };
        for cte in &with.cte_tables {
            let kinds = self.kinds_of(&cte.query.body);
            for (column, kind) in cte.alias.columns.iter().zip(kinds) {
                self.found.made.insert(folded(&column.name), kind);
            }
        }
    }

    pub(super) fn enter_select(&mut self, select: &mut Select) -> Result<(), QueryError> {
        if select.into.is_some() {
            return Err(not_supported("SELECT INTO"));
        }
        if let Some(Distinct::On(_)) = select.distinct {
            return Err(not_supported("DISTINCT ON in a part of a UNION"));
        }
        if let GroupByExpr::Expressions(expressions, _) = &select.group_by {
            let grouping = |expr: &Expr| {
                matches!(expr, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_))
            };
            if expressions.iter().any(grouping) {
                return Err(not_supported("GROUPING SETS, CUBE and ROLLUP"));
            }
        }
        self.name_columns(select);
        Ok(())
    }

    pub(super) fn leave_select(&mut self, select: &Select) {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { expr, alias } = item {
                let name = folded(alias);
                // A column that keeps its name is resolved by it.
                let is_column =
                    self.found.aliases.values().any(|table| table.field(&name).is_some());
                if !is_column {
                    let kind = self.type_of(expr);
                    self.found.made.insert(name, kind);
                }
            }
        }
    }

    /// PostgreSQL sorts null as the greatest value, SQLite as the smallest.
    fn order(&mut self, query: &mut Query) {
        let hidden = self.hidden_order(query);
        let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by
        else {
            return;
        };
        if let Some(key) = hidden
            && let Some(order) = orders.first_mut()
        {
            match &mut order.expr {
                Expr::CompoundIdentifier(idents) => {
                    if let Some(last) = idents.last_mut() {
                        *last = quoted(&key);
                    }
                }
                expr => *expr = Expr::Identifier(quoted(&key)),
            }
            return;
        }
        orders.iter_mut().for_each(nulls_as_greatest);
    }

    /// The hidden column to order by, if the only table of the query can order its rows itself.
    fn hidden_order(&self, query: &Query) -> Option<String> {
        let OrderByKind::Expressions(orders) = &query.order_by.as_ref()?.kind else { return None };
        let [order] = orders.as_slice() else { return None };
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let grouped =
            !matches!(&select.group_by, GroupByExpr::Expressions(list, _) if list.is_empty());
        if grouped || select.distinct.is_some() || query.limit_clause.is_none() {
            return None;
        }
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
            return None;
        };
        if !from.joins.is_empty() {
            return None;
        }
        let descending = matches!(order.options.sort, Some(OrderBySort::Desc));
        let first = order.options.nulls_first.unwrap_or(true);
        let column = match &order.expr {
            Expr::Identifier(ident) => folded(ident),
            Expr::CompoundIdentifier(idents) => folded(idents.last()?),
            _ => return None,
        };
        let made = select.projection.iter().any(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == column)
        });
        let table: &Table =
            super::find(name, self.tables, &self.found.ctes, self.places).ok().flatten()?;
        let _ = alias;
        let known = table.orders.contains(&column.as_str());
        (descending && first && known && !made).then(|| order_key(&column))
    }
}

/// Adds NULLS FIRST or NULLS LAST, if the query has neither.
pub(super) fn nulls_as_greatest(order: &mut OrderByExpr) {
    let descending = matches!(order.options.sort, Some(OrderBySort::Desc));
    order.options.nulls_first.get_or_insert(descending);
}

/// SQLite accepts no parentheses around an operand of a set operation, and evaluates operands from
/// left to right.
fn unwrap_parts(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            if let SetExpr::Query(_) = left.as_ref() {
                wrap(left);
            }
            if let SetExpr::Query(_) | SetExpr::SetOperation { .. } = right.as_ref() {
                wrap(right);
            }
            unwrap_parts(left);
        }
        SetExpr::Query(_) => wrap(body),
        _ => {}
    }
}

/// `(query)` becomes `SELECT * FROM (query)`.
fn wrap(part: &mut SetExpr) {
    let query = match std::mem::replace(part, SetExpr::Values(empty())) {
        SetExpr::Query(query) => *query,
        other => Query { body: Box::new(other), ..nothing() },
    };
    *part = *from_derived(query).body;
}

fn empty() -> sqlparser::ast::Values {
    sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() }
}
