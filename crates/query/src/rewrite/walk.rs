//! One walk over the syntax tree for all passes.
//!
//! The parser generates the code of a walk for each type of visitor, and that code covers the whole
//! grammar. So there is one visitor, which calls a [`Step`] at every node.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, Select, TableFactor, VisitMut, VisitorMut};

use crate::error::QueryError;

/// A pass over the tree. An error ends the walk.
pub(super) trait Step {
    /// Before the children of a query.
    fn before_query(&mut self, _: &mut Query) -> Result<(), QueryError> {
        Ok(())
    }

    /// After the children of a query.
    fn after_query(&mut self, _: &mut Query) {}

    /// Before the children of a SELECT.
    fn before_select(&mut self, _: &mut Select) -> Result<(), QueryError> {
        Ok(())
    }

    /// After the children of a SELECT.
    fn after_select(&mut self, _: &mut Select) {}

    /// Before the children of a table in FROM.
    fn before_table(&mut self, _: &mut TableFactor) -> Result<(), QueryError> {
        Ok(())
    }

    /// After the children of an expression.
    fn after_expr(&mut self, _: &mut Expr) -> Result<(), QueryError> {
        Ok(())
    }

    /// At a name.
    fn at_ident(&mut self, _: &mut Ident) {}
}

/// Walks over every node of a query.
pub(super) fn walk(query: &mut Query, step: &mut dyn Step) -> Result<(), QueryError> {
    match query.visit(&mut Walk(step)) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Walk<'a>(&'a mut dyn Step);

impl VisitorMut for Walk<'_> {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        flow(self.0.before_query(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        self.0.after_query(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        flow(self.0.before_select(select))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        self.0.after_select(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        flow(self.0.before_table(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        flow(self.0.after_expr(expr))
    }

    fn pre_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<QueryError> {
        self.0.at_ident(ident);
        ControlFlow::Continue(())
    }
}

fn flow(result: Result<(), QueryError>) -> ControlFlow<QueryError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
