//! Rewriting expressions, bottom up.

use sqlparser::ast::{
    AccessExpr, CeilFloorKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, OrderBySort, Subscript, TrimWhereField,
    UnaryOperator, Value,
};

use super::names::{array_of, call, is_keyword, last, quoted};
use super::select::nulls_as_greatest;
use super::types::{Target, target};
use super::{FunctionColumn, Pass, folded, not_supported, parts};
use crate::error::{QueryError, State, alike};
use crate::functions::{Type, answers, names};
use crate::value::Kind;

/// System columns of every table in PostgreSQL. Clients select them to identify rows.
const SYSTEM_COLUMNS: [&str; 6] = ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"];

/// Takes an expression out of its place.
fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

pub(super) fn text(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

pub(super) fn number(number: i64) -> Expr {
    Expr::value(Value::Number(number.to_string(), false))
}

pub(super) fn not(negated: bool, expr: Expr) -> Expr {
    if negated {
        nested(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) })
    } else {
        expr
    }
}

pub(super) fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

/// The text of a literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// The number of a parameter.
pub(super) fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.trim_start_matches(['$', '?']).parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}

impl Pass<'_> {
    /// Sets the type of a parameter, if the expression is one.
    pub(super) fn expect(&mut self, expr: &Expr, kind: Kind) {
        if let Some(n) = parameter(expr) {
            self.parameters.entry(n).or_default().get_or_insert(kind);
        }
    }

    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<(), QueryError> {
        match expr {
            Expr::Value(value) => return self.value(&mut value.value),
            Expr::Identifier(ident) if is_keyword(&Expr::Identifier(ident.clone())) => {
                *expr = call(&ident.value.to_lowercase(), Vec::new());
                return self.function(expr);
            }
            Expr::Identifier(ident) if self.found.functions.contains_key(&folded(ident)) => {
                let FunctionColumn { alias, column, .. } = &self.found.functions[&folded(ident)];
                *expr = Expr::CompoundIdentifier(vec![quoted(alias), quoted(column)]);
            }
            Expr::CompoundIdentifier(idents) if self.of_function(idents).is_some() => {
                if let Some(column) = self.of_function(idents) {
                    idents[1] = quoted(column);
                }
            }
            Expr::Identifier(ident) if self.is_system_column(std::slice::from_ref(ident)) => {
                *expr = number(1);
            }
            Expr::CompoundIdentifier(idents) if self.is_system_column(idents) => {
                *expr = number(1);
            }
            // Inside SQLite the schema is part of the table's name.
            Expr::CompoundIdentifier(idents) if idents.len() > 2 => {
                idents.drain(..idents.len() - 2);
            }
            Expr::Cast { expr: inner, data_type, .. } => {
                let (inner, data_type) = (take(inner), data_type.clone());
                *expr = self.cast(inner, &data_type)?;
            }
            Expr::TypedString(typed) => {
                let value = typed.value.value.clone().into_string().unwrap_or_default();
                let data_type = typed.data_type.clone();
                *expr = self.cast(text(value), &data_type)?;
            }
            Expr::Interval(interval) => {
                let mut arguments = vec![take(&mut interval.value)];
                arguments
                    .extend(interval.leading_field.as_ref().map(|unit| text(unit.to_string())));
                *expr = call("_interval", arguments);
            }
            Expr::BinaryOp { left, op, right } => {
                let (left, op, right) = (take(left), op.clone(), take(right));
                *expr = self.binary(left, op, right)?;
            }
            Expr::Between { expr: value, negated, low, high } => {
                let (a, b) = self.alike(take(value), take(low));
                // Both bounds decide in the same way about the conversion of the value.
                let (value, c) = self.alike(a, take(high));
                *expr = Expr::Between {
                    expr: Box::new(value),
                    negated: *negated,
                    low: Box::new(b),
                    high: Box::new(c),
                };
            }
            Expr::InList { expr: value, list, .. } => {
                let mut left = take(value);
                for item in list.iter_mut() {
                    let (value, right) = self.alike(left, take(item));
                    (left, *item) = (value, right);
                }
                **value = left;
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                let (left, op, right) = (take(left), compare_op.to_string(), take(right));
                *expr = self.any(left, &op, right, true)?;
            }
            Expr::AllOp { left, compare_op, right } => {
                let (left, op, right) = (take(left), compare_op.to_string(), take(right));
                *expr = self.any(left, &op, right, false)?;
            }
            Expr::Like { negated, any: false, expr: value, pattern, escape_char } => {
                let escape = escape_char.as_deref_mut().map(take);
                *expr = self.like(take(value), take(pattern), escape, *negated, false);
            }
            Expr::ILike { negated, any: false, expr: value, pattern, escape_char } => {
                let escape = escape_char.as_deref_mut().map(take);
                *expr = self.like(take(value), take(pattern), escape, *negated, true);
            }
            Expr::SimilarTo { .. } => {
                return Err(not_supported("SIMILAR TO").hint("Use ~.".to_owned()));
            }
            Expr::IsUnknown(inner) => *expr = Expr::IsNull(Box::new(take(inner))),
            Expr::IsNotUnknown(inner) => *expr = Expr::IsNotNull(Box::new(take(inner))),
            Expr::Collate { expr: inner, .. } => *expr = take(inner),
            Expr::AtTimeZone { timestamp, time_zone } => {
                *expr = call("_at_zone", vec![take(timestamp), take(time_zone)]);
            }
            Expr::Extract { field, expr: inner, .. } => {
                *expr = call("date_part", vec![text(field.to_string()), take(inner)]);
            }
            Expr::Ceil { expr: inner, field: CeilFloorKind::DateTimeField(_) } => {
                *expr = call("ceil", vec![take(inner)]);
            }
            Expr::Floor { expr: inner, field: CeilFloorKind::DateTimeField(_) } => {
                *expr = call("floor", vec![take(inner)]);
            }
            Expr::Position { expr: what, r#in } => {
                *expr = call("strpos", vec![take(r#in), take(what)]);
            }
            Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
                let from = substring_from.as_deref_mut().map_or_else(|| number(1), take);
                let mut arguments = vec![take(inner), from];
                arguments.extend(substring_for.as_deref_mut().map(take));
                *expr = call("substr", arguments);
            }
            Expr::Trim { trim_where, trim_what, expr: inner, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    _ => "btrim",
                };
                let mut arguments = vec![take(inner)];
                arguments.extend(trim_what.as_deref_mut().map(take));
                arguments.extend(trim_characters.iter_mut().flatten().map(take));
                *expr = call(name, arguments);
            }
            Expr::Array(array) => *expr = call("_array", std::mem::take(&mut array.elem)),
            Expr::CompoundFieldAccess { root, access_chain } => {
                let mut made = take(root);
                let mut chain = std::mem::take(access_chain).into_iter().peekable();
                // `t.x[1]`: a column of a table, unless the name stands in parentheses.
                if let Expr::Identifier(first) = &made {
                    let mut idents = vec![first.clone()];
                    while let Some(AccessExpr::Dot(Expr::Identifier(name))) = chain
                        .next_if(|access| matches!(access, AccessExpr::Dot(Expr::Identifier(_))))
                    {
                        idents.push(name);
                    }
                    if idents.len() > 1 {
                        made = Expr::CompoundIdentifier(idents);
                        self.expr(&mut made)?;
                    }
                }
                for access in chain {
                    made = match access {
                        AccessExpr::Subscript(Subscript::Index { index }) => {
                            call("_item", vec![made, index])
                        }
                        AccessExpr::Dot(Expr::Identifier(name)) => {
                            call("_field", vec![made, text(folded(&name))])
                        }
                        _ => return Err(not_supported("access to slices")),
                    };
                }
                *expr = made;
            }
            Expr::Function(_) => return self.function(expr),
            Expr::Overlay { .. } => return Err(not_supported("OVERLAY")),
            _ => {}
        }
        Ok(())
    }

    /// Whether a name is one of the columns that every table of PostgreSQL has and no table here.
    pub(super) fn is_system_column(&self, idents: &[Ident]) -> bool {
        let Some(name) = idents.last().map(folded) else { return false };
        SYSTEM_COLUMNS.contains(&name.as_str())
            && !self.found.aliases.is_empty()
            && !self.found.made.contains_key(&name)
            && !self.found.aliases.values().any(|table| table.field(&name).is_some())
    }

    /// The internal column of a function in FROM, if the name with its alias refers to it.
    fn of_function(&self, idents: &[Ident]) -> Option<&'static str> {
        let [of, column] = idents else { return None };
        let known = self.found.functions.get(&folded(column))?;
        (known.alias == folded(of)).then_some(known.column)
    }

    /// Rewrites a literal to the form of SQLite.
    fn value(&mut self, value: &mut Value) -> Result<(), QueryError> {
        match value {
            Value::Placeholder(name) => {
                let n: usize = name.trim_start_matches(['$', '?']).parse().unwrap_or(0);
                if n == 0 || n > 1_000 {
                    let text = format!("there is no parameter {name}; $1 is the first");
                    return Err(QueryError::new(State::Syntax, text));
                }
                self.parameters.entry(n).or_default();
                *name = format!("?{n}");
            }
            Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text)
            | Value::NationalStringLiteral(text) => {
                *value = Value::SingleQuotedString(std::mem::take(text));
            }
            Value::DollarQuotedString(quoted) => {
                *value = Value::SingleQuotedString(std::mem::take(&mut quoted.value));
            }
            _ => {}
        }
        if let Value::SingleQuotedString(text) = value
            && text.contains('\0')
        {
            return Err(QueryError::new(State::InvalidText, "a text holds a zero byte"));
        }
        Ok(())
    }

    fn cast(&mut self, inner: Expr, data_type: &DataType) -> Result<Expr, QueryError> {
        let Some(target) = target(data_type) else {
            let text = format!("type \"{data_type}\" does not exist");
            return Err(QueryError::new(State::NotSupported, text));
        };
        let is = self.type_of(&inner);
        let regs = |inner: &Expr| match inner {
            Expr::Function(function) => match last(&function.name).as_str() {
                "_regclass" => Some("_regclass_text"),
                "_regtype" => Some("_regtype_text"),
                _ => None,
            },
            _ => None,
        };
        Ok(match target {
            Target::Same => inner,
            Target::RegClass => call("_regclass", vec![inner]),
            Target::RegType => call("_regtype", vec![inner]),
            Target::RegProc => call("_regproc", vec![inner]),
            Target::Type(of) => {
                if let Type::Of(kind) = of {
                    self.expect(&inner, kind);
                }
                match of {
                    Type::Of(Kind::Text) => match (is, regs(&inner)) {
                        (_, Some(name)) => call(name, vec![inner]),
                        (Some(Type::Of(Kind::Bool)), _) => call("_bool_text", vec![inner]),
                        _ => cast_to(inner, DataType::Text),
                    },
                    Type::Of(Kind::Json) => cast_to(inner, DataType::Text),
                    Type::Of(Kind::Bytes) => cast_to(inner, DataType::Blob(None)),
                    Type::Of(Kind::Int) if is == Some(Type::Of(Kind::Int)) => inner,
                    Type::Of(Kind::Int) => call("_int", vec![inner]),
                    Type::Of(Kind::Float) => call("_float", vec![inner]),
                    Type::Of(Kind::Bool) => call("_bool", vec![inner]),
                    Type::Of(Kind::Time) => call("_time", vec![inner]),
                    Type::Of(Kind::Uuid) => call("_uuid", vec![inner]),
                    Type::Interval => call("_interval", vec![inner]),
                    Type::Date => call("_date", vec![inner]),
                }
            }
        })
    }

    fn function(&mut self, expr: &mut Expr) -> Result<(), QueryError> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let name = last(&function.name);
        if let FunctionArguments::Subquery(query) = &mut function.args {
            if name == "array" {
                let query = std::mem::replace(query.as_mut(), super::names::nothing());
                *expr = array_of(query);
                return Ok(());
            }
            return Err(not_supported("a subquery as the argument of a function"));
        }
        let inner = match name.as_str() {
            "character_length" => "char_length",
            "position" => "strpos",
            "ceiling" => "ceil",
            "pow" => "power",
            "char_length" | "length" => "char_length",
            "current_timestamp" | "localtimestamp" => "now",
            "current_date" => "_today",
            "_pg_expandarray" => "pg_expandarray",
            name => name,
        };
        // Internal functions cannot be called by a query.
        let is_hidden = inner == name && name.starts_with('_') && self.written(&function.name);
        if answers(inner).is_none() || is_hidden {
            let idents = parts(&function.name);
            let at = idents.last().and_then(|ident| self.places.of_ident(ident));
            let text = format!("function {name}() does not exist");
            let hint = alike(&name, names());
            return Err(QueryError::new(State::NoFunction, text).at(at).hint(hint));
        }
        if let FunctionArguments::None = function.args {
            *expr = call(inner, Vec::new());
            return Ok(());
        }
        let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
        for clause in &mut list.clauses {
            if let sqlparser::ast::FunctionArgumentClause::OrderBy(orders) = clause {
                orders.iter_mut().for_each(nulls_as_greatest);
            }
        }
        // SQLite takes DISTINCT with one argument only.
        if name == "string_agg"
            && matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct))
            && list.args.len() == 2
        {
            let is_descending = list.clauses.iter().any(|clause| match clause {
                sqlparser::ast::FunctionArgumentClause::OrderBy(orders) => orders
                    .first()
                    .is_some_and(|order| matches!(order.options.sort, Some(OrderBySort::Desc))),
                _ => false,
            });
            let by = list.args.pop();
            list.clauses.clear();
            let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(by))) = by else { return Ok(()) };
            function.name = super::names::object("array_agg");
            let collected = std::mem::replace(expr, number(0));
            *expr = call("_join", vec![collected, by, number(i64::from(is_descending))]);
            return Ok(());
        }
        // percentile_cont(0.9) WITHIN GROUP (ORDER BY x)
        if let Some(order) = function.within_group.first() {
            let value = FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone()));
            list.args.insert(0, value);
            function.within_group.clear();
        }
        function.name =
            sqlparser::ast::ObjectName(vec![sqlparser::ast::ObjectNamePart::Identifier(
                Ident::new(inner),
            )]);
        Ok(())
    }

    /// Whether a name is in the text of the query.
    fn written(&self, name: &sqlparser::ast::ObjectName) -> bool {
        parts(name).last().is_some_and(|ident| self.places.of_ident(ident).is_some())
    }
}

pub(super) fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

pub(super) fn cast_to(inner: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: sqlparser::ast::CastKind::Cast,
        expr: Box::new(inner),
        data_type,
        format: None,
    }
}
