//! Names of tables, and of columns without a name.

use sqlparser::ast::SetExpr;
use sqlparser::ast::{AccessExpr, Cte, Expr, Function, Ident, ObjectName, ObjectNamePart, Query};
use sqlparser::ast::{FunctionArg, FunctionArgExpr, Select, SelectItem, TableAlias, TableFactor};
use sqlparser::ast::{TableFunctionArgs, With};

use super::types::type_word;
use super::{Pass, find, folded, not_supported, parts};
use crate::catalog::{FUNCTIONS, TIME_SERIES};
use crate::error::QueryError;

pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

pub(super) fn object(name: &str) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(quoted(name))])
}

/// The name that PostgreSQL gives to a column without an alias.
pub(super) fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(idents) => idents.last().map(folded).unwrap_or_default(),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Cast { expr: inner, data_type, .. } => match name_of(inner).as_str() {
            "?column?" => type_word(data_type),
            name => name.to_owned(),
        },
        Expr::Function(function) => last(&function.name),
        Expr::Case { else_result, .. } => match else_result.as_deref().map(name_of).as_deref() {
            None | Some("?column?") => "case".into(),
            Some(name) => name.to_owned(),
        },
        Expr::Extract { .. } => "extract".into(),
        Expr::Exists { .. } => "exists".into(),
        Expr::Substring { .. } => "substring".into(),
        Expr::Trim { .. } => "btrim".into(),
        Expr::Ceil { .. } => "ceil".into(),
        Expr::Floor { .. } => "floor".into(),
        Expr::Position { .. } => "position".into(),
        Expr::Array(_) => "array".into(),
        Expr::Interval(_) => "interval".into(),
        Expr::TypedString(typed) => type_word(&typed.data_type),
        Expr::AtTimeZone { .. } => "timezone".into(),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            field.unwrap_or_else(|| name_of(root))
        }
        Expr::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        _ => "?column?".into(),
    }
}

/// The last part of a name.
pub(super) fn last(name: &ObjectName) -> String {
    parts(name).last().map(|ident| folded(ident)).unwrap_or_default()
}

/// `WITH x(names) AS (query) SELECT * FROM x`: names the columns of a query in SQLite.
pub(super) fn with_names(query: Query, names: Vec<Ident>) -> Query {
    let inner = Ident::new("_inner");
    let columns =
        names.into_iter().map(|name| sqlparser::ast::TableAliasColumnDef { name, data_type: None });
    let alias =
        TableAlias { explicit: false, name: inner.clone(), columns: columns.collect(), at: None };
    let cte = Cte {
        alias,
        query: Box::new(query),
        from: None,
        materialized: None,
        closing_paren_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
    };
    let mut outer = select_from("*", inner);
    outer.with = Some(With {
        with_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
        recursive: false,
        cte_tables: vec![cte],
    });
    outer
}

/// Parses `SELECT what FROM table`.
fn select_from(what: &str, table: Ident) -> Query {
    let text = format!("SELECT {what} FROM {table}");
    let mut parser = sqlparser::parser::Parser::new(&sqlparser::dialect::PostgreSqlDialect {})
        .try_with_sql(&text)
        .expect("a text of ours is read");
    *parser.parse_query().expect("a text of ours is a query")
}

/// Replaces `TABLE x` by `SELECT * FROM x`.
pub(super) fn spell_out(body: &mut SetExpr) {
    match body {
        SetExpr::Table(table) => {
            let parts = [table.schema_name.take(), table.table_name.take()];
            // Whether a name was quoted is no longer known; no table needs quotes.
            let parts = parts.into_iter().flatten().map(|name| Ident::new(name.to_lowercase()));
            let name = ObjectName(parts.map(ObjectNamePart::Identifier).collect());
            let mut made = select_from("*", Ident::new("_inner"));
            if let SetExpr::Select(select) = made.body.as_mut()
                && let Some(from) = select.from.first_mut()
                && let TableFactor::Table { name: of, .. } = &mut from.relation
            {
                *of = name;
            }
            *body = *made.body;
        }
        SetExpr::SetOperation { left, right, .. } => {
            spell_out(left);
            spell_out(right);
        }
        _ => {}
    }
}

/// A query without rows.
pub(super) fn nothing() -> Query {
    select_from("1", Ident::new("_inner"))
}

/// `SELECT * FROM (query) AS _part`
pub(super) fn from_derived(query: Query) -> Query {
    let mut outer = select_from("*", Ident::new("_inner"));
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        let name = Ident::new("_part");
        from.relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None }),
            sample: None,
        };
    }
    outer
}

/// `(WITH x(v) AS (query) SELECT array_agg(v) FROM x)`
pub(super) fn array_of(query: Query) -> Expr {
    let mut outer = with_names(query, vec![Ident::new("v")]);
    let inner = select_from("array_agg(v)", Ident::new("_inner"));
    outer.body = inner.body;
    Expr::Subquery(Box::new(outer))
}

impl Pass<'_> {
    /// Replaces a table by its name inside SQLite, and keeps its own as an alias.
    pub(super) fn table(&mut self, factor: &mut TableFactor) -> Result<(), QueryError> {
        if let TableFactor::Table { name, args, .. } = factor
            && calls_a_table(name, args.as_ref())
        {
            *args = None;
        }
        match factor {
            TableFactor::Table { args: Some(args), name, alias, with_ordinality, .. } => {
                let function = series_name(name, args);
                let known =
                    self.tables.iter().find(|table| table.arguments > 0 && table.name == function);
                let Some(table) = known else {
                    return Err(not_supported(&format!("the function {name} in FROM")));
                };
                if function == TIME_SERIES {
                    convert_times(args);
                }
                *with_ordinality = false;
                *name = object(&table.inner_name());
                let alias = alias.get_or_insert_with(|| TableAlias {
                    explicit: true,
                    name: quoted(table.fields[0].name),
                    columns: Vec::new(),
                    at: None,
                });
                alias.columns.clear();
                Ok(())
            }
            TableFactor::Table { name, alias, .. } => {
                let Some(table) = find(name, self.tables, &self.found.ctes, self.places)? else {
                    return Ok(());
                };
                *name = object(&table.inner_name());
                let columns = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                if columns {
                    return Err(not_supported("an alias with names of columns for a table"));
                }
                if alias.is_none() {
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: quoted(table.name),
                        columns: Vec::new(),
                        at: None,
                    });
                }
                Ok(())
            }
            TableFactor::Derived { lateral: true, .. } => {
                Err(not_supported("LATERAL at the begin of FROM"))
            }
            TableFactor::Derived { subquery, alias, .. } => {
                if let Some(alias) = alias
                    && !alias.columns.is_empty()
                {
                    let names = alias.columns.drain(..).map(|column| column.name).collect();
                    let inner = std::mem::replace(subquery.as_mut(), nothing());
                    **subquery = with_names(inner, names);
                }
                Ok(())
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset: false, .. } => {
                let args = array_exprs
                    .drain(..)
                    .map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
                let args = TableFunctionArgs { args: args.collect(), settings: None };
                let (mut made, alias) = (select_from("1", Ident::new("_inner")), alias.take());
                if let SetExpr::Select(select) = made.body.as_mut()
                    && let Some(from) = select.from.pop()
                {
                    *factor = from.relation;
                }
                if let TableFactor::Table { name, args: no_args, alias: no_alias, .. } = factor {
                    (*name, *no_args, *no_alias) = (object("unnest"), Some(args), alias);
                }
                self.table(factor)
            }
            TableFactor::NestedJoin { .. } => Ok(()),
            _ => Err(not_supported("this in FROM")),
        }
    }

    /// Names columns without an alias as PostgreSQL does.
    pub(super) fn name_columns(&self, select: &mut Select) {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            // The column of a function has another name inside SQLite.
            let is_plain = |ident: &Ident| !self.found.functions.contains_key(&folded(ident));
            let keeps_its_name = match &*expr {
                Expr::Identifier(ident) => {
                    is_plain(ident)
                        && !is_keyword(expr)
                        && !self.is_system_column(std::slice::from_ref(ident))
                }
                Expr::CompoundIdentifier(idents) => {
                    idents.last().is_none_or(is_plain) && !self.is_system_column(idents)
                }
                _ => false,
            };
            if keeps_its_name {
                continue;
            }
            let alias = quoted(&name_of(expr));
            let expr = std::mem::replace(expr, Expr::Identifier(Ident::new("x")));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// The name of a function in FROM. A series of times is another function than one of numbers.
pub(super) fn series_name(name: &ObjectName, args: &TableFunctionArgs) -> String {
    match last(name).as_str() {
        "generate_series" if has_times(args) => TIME_SERIES.to_owned(),
        name => name.to_owned(),
    }
}

/// Whether the arguments of a series are times, judged by their form: a step that is an interval or
/// a text, or a bound that is cast to a time.
fn has_times(args: &TableFunctionArgs) -> bool {
    let is_time = |n: usize| match args.args.get(n) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => match expr {
            Expr::Interval(_) => true,
            Expr::Cast { data_type, .. } => is_time_type(&type_word(data_type)),
            Expr::TypedString(typed) => is_time_type(&type_word(&typed.data_type)),
            Expr::Value(value) => {
                matches!(value.value, sqlparser::ast::Value::SingleQuotedString(_))
            }
            _ => false,
        },
        _ => false,
    };
    (0..3).any(is_time)
}

fn is_time_type(word: &str) -> bool {
    matches!(word, "timestamp" | "timestamptz" | "date" | "interval")
}

/// Bounds of a series of times become times, and its step an interval.
fn convert_times(args: &mut TableFunctionArgs) {
    for (n, arg) in args.args.iter_mut().enumerate() {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
            let inner = std::mem::replace(expr, Expr::Identifier(Ident::new("x")));
            let word = if n < 2 { "TIMESTAMPTZ" } else { "INTERVAL" };
            *expr = Expr::Cast {
                kind: sqlparser::ast::CastKind::DoubleColon,
                expr: Box::new(inner),
                data_type: match word {
                    "INTERVAL" => {
                        sqlparser::ast::DataType::Interval { fields: None, precision: None }
                    }
                    _ => sqlparser::ast::DataType::Timestamp(
                        None,
                        sqlparser::ast::TimezoneInfo::WithTimeZone,
                    ),
                },
                format: None,
            };
        }
    }
}

/// Whether a function in FROM has no arguments and is a table here.
pub(super) fn calls_a_table(name: &ObjectName, args: Option<&TableFunctionArgs>) -> bool {
    args.is_some_and(|args| args.args.is_empty()) && FUNCTIONS.contains(&last(name).as_str())
}

/// Keywords that are functions although they look like columns.
pub(super) fn is_keyword(expr: &Expr) -> bool {
    let Expr::Identifier(ident) = expr else { return false };
    ident.quote_style.is_none() && KEYWORDS.contains(&ident.value.to_lowercase().as_str())
}

const KEYWORDS: &[&str] = &[
    "current_user",
    "session_user",
    "user",
    "current_role",
    "current_catalog",
    "current_schema",
    "current_timestamp",
    "current_date",
    "localtimestamp",
];

/// A call of a function by its name.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Expr {
    use sqlparser::ast::{FunctionArgumentList, FunctionArguments};
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    Expr::Function(Function {
        name: ObjectName(vec![ObjectNamePart::Identifier(Ident::new(name))]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        within_group: Vec::new(),
        filter: None,
        null_treatment: None,
        over: None,
    })
}
