//! Operators and comparisons.

use sqlparser::ast::{BinaryOperator as Op, DataType, Expr, Query, Value};

use super::expr::{arguments, cast_to, literal, nested, not, number, parameter, text};
use super::names::{call, last};
use super::{Pass, folded, not_supported};
use crate::error::QueryError;
use crate::functions::{Type, time};
use crate::value::Kind;

impl Pass<'_> {
    pub(super) fn binary(&mut self, left: Expr, op: Op, right: Expr) -> Result<Expr, QueryError> {
        let op = match op {
            Op::PGCustomBinaryOperator(words) => plain(words.last().map_or("", String::as_str))?,
            op => op,
        };
        let regex = |left, right, any_case: bool, negated| {
            not(negated, call("_regex", vec![left, right, number(i64::from(any_case))]))
        };
        Ok(match op {
            Op::PGRegexMatch => regex(left, right, false, false),
            Op::PGRegexIMatch => regex(left, right, true, false),
            Op::PGRegexNotMatch => regex(left, right, false, true),
            Op::PGRegexNotIMatch => regex(left, right, true, true),
            Op::PGLikeMatch => self.like(left, right, None, false, false),
            Op::PGILikeMatch => self.like(left, right, None, false, true),
            Op::PGNotLikeMatch => self.like(left, right, None, true, false),
            Op::PGNotILikeMatch => self.like(left, right, None, true, true),
            Op::StringConcat => call("_concat", vec![self.shown(left), self.shown(right)]),
            Op::LongArrow => {
                let (left, right) = (Box::new(left), Box::new(right));
                cast_to(Expr::BinaryOp { left, op: Op::LongArrow, right }, DataType::Text)
            }
            Op::Modulo => {
                let right = Box::new(call("_divisor", vec![right]));
                Expr::BinaryOp { left: Box::new(left), op, right }
            }
            Op::AtArrow => call("_contains", vec![left, right]),
            Op::ArrowAt => call("_contains", vec![right, left]),
            Op::PGOverlap => call("_overlaps", vec![left, right]),
            Op::PGExp => call("power", vec![left, right]),
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide => self.arithmetic(left, op, right),
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
                let (left, right) = self.alike(left, right);
                Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
            }
            Op::And
            | Op::Or
            | Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::Arrow
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight => {
                Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
            }
            op => return Err(not_supported(&format!("the operator {op}"))),
        })
    }

    /// Converts a boolean to text for a concatenation.
    fn shown(&self, expr: Expr) -> Expr {
        match self.type_of(&expr) {
            Some(Type::Of(Kind::Bool)) => call("_bool_text", vec![expr]),
            _ => expr,
        }
    }

    fn arithmetic(&mut self, left: Expr, op: Op, right: Expr) -> Expr {
        let sign = if op == Op::Minus { -1 } else { 1 };
        let sum = matches!(op, Op::Plus | Op::Minus);
        let time = |of: Option<Type>| matches!(of, Some(Type::Of(Kind::Time) | Type::Date));
        let (l, r) = (self.type_of(&left), self.type_of(&right));
        match (l, r) {
            (l, Some(Type::Interval)) if sum && time(l) => {
                call("_time_add", vec![left, right, number(sign)])
            }
            (Some(Type::Interval), r) if op == Op::Plus && time(r) => {
                call("_time_add", vec![right, left, number(1)])
            }
            // A text next to a timestamp is an interval.
            (l, Some(Type::Of(Kind::Text)) | None)
                if sum && time(l) && literal(&right).is_some() =>
            {
                call("_time_add", vec![left, right, number(sign)])
            }
            (l, r) if op == Op::Minus && time(l) && time(r) => call("_time_sub", vec![left, right]),
            // A date plus a number of days.
            (Some(Type::Date), Some(Type::Of(Kind::Int))) if sum => {
                let days = call("_concat", vec![right, text(" days")]);
                call("_date", vec![call("_time_add", vec![left, days, number(sign)])])
            }
            (Some(Type::Interval), Some(Type::Interval)) if sum => {
                call("_interval_add", vec![left, right, number(sign)])
            }
            (Some(Type::Interval), _) if op == Op::Multiply => {
                call("_interval_mul", vec![left, right])
            }
            (_, Some(Type::Interval)) if op == Op::Multiply => {
                call("_interval_mul", vec![right, left])
            }
            (Some(Type::Interval), _) if op == Op::Divide => {
                let part = Expr::BinaryOp {
                    left: Box::new(Expr::value(Value::Number("1.0".into(), false))),
                    op: Op::Divide,
                    right: Box::new(nested(right)),
                };
                call("_interval_mul", vec![left, part])
            }
            (l, r) => {
                if let (Some(Type::Of(kind)), None) = (l, r) {
                    self.expect(&right, kind);
                }
                if let (None, Some(Type::Of(kind))) = (l, r) {
                    self.expect(&left, kind);
                }
                let right = if op == Op::Divide { call("_divisor", vec![right]) } else { right };
                Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
            }
        }
    }

    /// Converts both sides of a comparison to a common type.
    pub(super) fn alike(&mut self, left: Expr, right: Expr) -> (Expr, Expr) {
        let (l, r) = (self.type_of(&left), self.type_of(&right));
        let left = self.beside(left, l, r);
        let right = self.beside(right, r, l);
        (left, right)
    }

    /// Converts an expression for an operation with another type.
    fn beside(&mut self, expr: Expr, is: Option<Type>, other: Option<Type>) -> Expr {
        let Some(other) = other else { return expr };
        if parameter(&expr).is_some() {
            if let Type::Of(kind) = other {
                self.expect(&expr, kind);
            }
            return expr;
        }
        let word = literal(&expr).map(str::to_owned);
        match (is, other) {
            (Some(Type::Of(Kind::Time)), Type::Of(Kind::Int)) => call("_ms", vec![expr]),
            (Some(Type::Date), Type::Of(Kind::Int)) => call("_ms", vec![expr]),
            (Some(Type::Date), Type::Of(Kind::Time)) => call("_time", vec![expr]),
            (Some(Type::Interval), Type::Interval) => call("_seconds", vec![expr]),
            (_, Type::Of(Kind::Time)) if word.is_some() => call("_time", vec![expr]),
            (_, Type::Of(Kind::Uuid)) if word.is_some() => call("_uuid", vec![expr]),
            (_, Type::Of(Kind::Bool)) if word.is_some() => call("_bool", vec![expr]),
            (_, Type::Date) if word.is_some() => call("_date", vec![expr]),
            (_, Type::Interval) if word.is_some() => call("_seconds", vec![expr]),
            // A column of milliseconds compared with a date.
            (_, Type::Of(Kind::Int)) => match word {
                Some(word)
                    if time::read(&word).is_some() && word.trim().parse::<i64>().is_err() =>
                {
                    call("_ms", vec![call("_time", vec![expr])])
                }
                _ => expr,
            },
            (Some(Type::Of(_)), Type::Interval) => expr,
            _ => expr,
        }
    }

    pub(super) fn like(
        &mut self,
        value: Expr,
        pattern: Expr,
        escape: Option<Expr>,
        negated: bool,
        any_case: bool,
    ) -> Expr {
        self.expect(&pattern, Kind::Text);
        let escape = escape.unwrap_or_else(|| text("\\"));
        not(negated, call("_like", vec![value, pattern, escape, number(i64::from(any_case))]))
    }

    pub(super) fn any(
        &mut self,
        left: Expr,
        op: &str,
        right: Expr,
        any: bool,
    ) -> Result<Expr, QueryError> {
        let op = plain(op.rsplit('.').next().unwrap_or_default().trim_end_matches(')'))?;
        let right = match right {
            Expr::Nested(inner) => *inner,
            other => other,
        };
        let items = match &right {
            Expr::Function(function) if last(&function.name) == "_array" => arguments(function),
            Expr::Tuple(items) => Some(items.clone()),
            _ => None,
        };
        match (items, &right) {
            (Some(list), _) if (op == Op::Eq && any) || (op == Op::NotEq && !any) => {
                let mut left = left;
                let mut alike = Vec::new();
                for item in list {
                    let (value, item) = self.alike(left, item);
                    left = value;
                    alike.push(item);
                }
                Ok(Expr::InList { expr: Box::new(left), list: alike, negated: !any })
            }
            (_, Expr::Subquery(query)) if op == Op::Eq && any && last_is_plain(query) => {
                let subquery = query.clone();
                Ok(Expr::InSubquery { expr: Box::new(left), subquery, negated: false })
            }
            _ => {
                let name = if any { "_any" } else { "_all" };
                Ok(call(name, vec![left, text(op.to_string()), right]))
            }
        }
    }
}

fn last_is_plain(query: &Query) -> bool {
    // ARRAY(SELECT …) was rewritten to a query with one text.
    query.with.as_ref().is_none_or(|with| {
        with.cte_tables.first().is_none_or(|cte| folded(&cte.alias.name) != "_inner")
    })
}

/// The operator of a symbol.
fn plain(sign: &str) -> Result<Op, QueryError> {
    Ok(match sign {
        "=" => Op::Eq,
        "<>" | "!=" => Op::NotEq,
        "<" => Op::Lt,
        "<=" => Op::LtEq,
        ">" => Op::Gt,
        ">=" => Op::GtEq,
        "~" => Op::PGRegexMatch,
        "~*" => Op::PGRegexIMatch,
        "!~" => Op::PGRegexNotMatch,
        "!~*" => Op::PGRegexNotIMatch,
        "~~" => Op::PGLikeMatch,
        "~~*" => Op::PGILikeMatch,
        "!~~" => Op::PGNotLikeMatch,
        "!~~*" => Op::PGNotILikeMatch,
        "+" => Op::Plus,
        "-" => Op::Minus,
        "*" => Op::Multiply,
        "/" => Op::Divide,
        "||" => Op::StringConcat,
        "&" => Op::BitwiseAnd,
        "|" => Op::BitwiseOr,
        sign => return Err(not_supported(&format!("the operator {sign}"))),
    })
}
