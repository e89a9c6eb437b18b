//! Rewrites a query from PostgreSQL's dialect to SQLite's.
//!
//! It walks the syntax tree twice. The first pass finds the tables, so that the second one knows
//! the types of columns: for example, a text that is compared with a timestamp must be parsed as a
//! timestamp.

mod expr;
mod names;
mod operators;
mod prepare;
mod select;
mod types;
mod walk;

use std::collections::{BTreeMap, HashMap};

use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, Statement, TableAlias, TableFactor,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::catalog::ORDINALITY;
use crate::error::{QueryError, State, alike};
use crate::functions::Type;
use crate::table::Table;
use crate::value::Kind;
use prepare::Prepare;
use walk::{Step, walk};

/// The maximum nesting of a query in the parsers.
const DEPTH_MAX: usize = 60;

/// A query in SQLite's dialect.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The text of the query.
    pub sql: String,
    /// The types of its columns, if known; empty if their number is unknown.
    pub kinds: Vec<Option<Type>>,
    /// The types of its parameters.
    pub parameters: Vec<Kind>,
    /// Whether it is recursive.
    pub recursive: bool,
    /// Names in the query with their positions, for errors.
    pub names: Vec<(String, usize)>,
    /// The tables of the query by their aliases, for errors.
    pub tables: HashMap<String, &'static Table>,
}

/// A query with more operators is refused: each may add a level to the tree.
const OPERATORS_MAX: usize = 2_000;

/// A query with more operators is parsed with a larger stack.
const OPERATORS_FEW: usize = 100;

/// The size of the larger stack, in bytes.
const STACK: usize = 64 << 20;

/// Parses and rewrites a query.
pub(crate) fn rewrite(text: &str, tables: &[&'static Table]) -> Result<Rewritten, QueryError> {
    let places = SourceLines::of(text);
    let operators = operators(text, &places)?;
    if operators > OPERATORS_MAX {
        let text = format!("the statement has more than {OPERATORS_MAX} operators");
        return Err(QueryError::new(State::TooMuch, text));
    }
    if operators <= OPERATORS_FEW {
        return read(text, &places, tables);
    }
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let failed = || QueryError::new(State::Internal, "cannot parse the statement");
        let reading = reader.spawn_scoped(scope, || read(text, &places, tables));
        reading.map_err(|_| failed())?.join().map_err(|_| failed())?
    })
}

/// The number of tokens that may each add a level to the tree.
fn operators(text: &str, places: &SourceLines<'_>) -> Result<usize, QueryError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize()
        .map_err(|error| syntax(&ParserError::TokenizerError(error.to_string()), places))?;
    let counts = |token: &Token| match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::JOIN
                | Keyword::CASE
                | Keyword::COLLATE
                | Keyword::IS
                | Keyword::AT
        ),
        Token::Whitespace(_)
        | Token::Comma
        | Token::Period
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::SemiColon
        | Token::RParen
        | Token::Placeholder(_) => false,
        _ => true,
    };
    Ok(tokens.iter().filter(|token| counts(token)).count())
}

fn read(
    text: &str,
    places: &SourceLines<'_>,
    tables: &[&'static Table],
) -> Result<Rewritten, QueryError> {
    let mut statements = Parser::new(&PostgreSqlDialect {})
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(text)
        .and_then(|mut parser| match parser.peek_token().token {
            // The parser accepts `TABLE x` only as a subquery.
            Token::Word(word) if word.keyword == Keyword::TABLE => {
                let query = parser.parse_query()?;
                let mut statements = vec![Statement::Query(query)];
                while parser.consume_token(&Token::SemiColon) {}
                statements.extend(parser.parse_statements()?);
                Ok(statements)
            }
            _ => parser.parse_statements(),
        })
        .map_err(|error| syntax(&error, places))?;
    let mut query = match (statements.pop(), statements.is_empty()) {
        (Some(Statement::Query(query)), true) => query,
        (None, _) => return Err(QueryError::new(State::Syntax, "there is no statement")),
        (Some(_), false) => {
            return Err(QueryError::new(State::Syntax, "there is more than one statement"));
        }
        (Some(_), true) => {
            return Err(QueryError::new(
                State::NotSupported,
                "only SELECT, WITH and VALUES are supported here",
            ));
        }
    };
    walk(&mut query, &mut Prepare { tables, places, made: 0 })?;
    // The name of generated subqueries.
    let found = Found { ctes: vec!["_inner".into()], ..Found::default() };
    let mut survey = Survey { tables, places, found };
    walk(&mut query, &mut survey)?;
    let mut pass = Pass { tables, places, found: survey.found, parameters: BTreeMap::new() };
    walk(&mut query, &mut pass)?;
    walk(&mut query, &mut Quote)?;
    let count = pass.parameters.keys().last().copied().unwrap_or(0);
    let parameters =
        (1..=count).map(|n| pass.parameters.get(&n).copied().flatten().unwrap_or(Kind::Text));
    Ok(Rewritten {
        kinds: pass.kinds_of(&query.body),
        parameters: parameters.collect(),
        recursive: pass.found.recursive,
        names: std::mem::take(&mut pass.found.names),
        tables: std::mem::take(&mut pass.found.aliases),
        sql: query.to_string(),
    })
}

fn syntax(error: &ParserError, places: &SourceLines) -> QueryError {
    let text = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            return QueryError::new(State::TooMuch, "the statement is nested too deeply");
        }
    };
    // The position is part of the text: "… at Line: 1, Column: 8".
    let (said, place) = text.split_once(" at Line: ").unwrap_or((text, ""));
    let at = place.split_once(", Column: ").and_then(|(line, column)| {
        Some(
            places.byte(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? }),
        )
    });
    QueryError::new(State::Syntax, said).at(at)
}

/// The byte positions of lines.
pub(crate) struct SourceLines<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> SourceLines<'a> {
    fn of(text: &'a str) -> Self {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        SourceLines { text, lines: lines.collect() }
    }

    /// The byte of a location; lines and columns count from one, columns in characters.
    fn byte(&self, location: Location) -> usize {
        let line = (location.line as usize).saturating_sub(1);
        let start = self.lines.get(line).copied().unwrap_or(self.text.len());
        let column = (location.column as usize).saturating_sub(1);
        let within = self.text[start..].char_indices().nth(column).map(|(at, _)| at);
        start + within.unwrap_or(self.text.len() - start)
    }

    fn of_ident(&self, ident: &Ident) -> Option<usize> {
        (ident.span.start.line > 0).then(|| self.byte(ident.span.start))
    }
}

/// The names in a query.
#[derive(Default)]
struct Found {
    /// Aliases of tables.
    aliases: HashMap<String, &'static Table>,
    /// Columns of functions in FROM, by their names.
    functions: HashMap<String, FunctionColumn>,
    /// Names of common table expressions.
    ctes: Vec<String>,
    /// Types of columns of subqueries.
    made: HashMap<String, Option<Type>>,
    names: Vec<(String, usize)>,
    recursive: bool,
}

/// A column of a function in FROM.
struct FunctionColumn {
    /// The alias of the function.
    alias: String,
    table: &'static Table,
    /// The name of the column in that table.
    column: &'static str,
}

/// The first pass.
struct Survey<'a> {
    tables: &'a [&'static Table],
    places: &'a SourceLines<'a>,
    found: Found,
}

impl Step for Survey<'_> {
    fn before_query(&mut self, query: &mut Query) -> Result<(), QueryError> {
        if let Some(with) = &query.with {
            self.found.recursive |= with.recursive;
            let names = with.cte_tables.iter().map(|cte| folded(&cte.alias.name));
            self.found.ctes.extend(names);
        }
        Ok(())
    }

    fn at_ident(&mut self, ident: &mut Ident) {
        if let Some(at) = self.places.of_ident(ident) {
            self.found.names.push((ident.value.to_lowercase(), at));
        }
    }

    fn before_table(&mut self, factor: &mut TableFactor) -> Result<(), QueryError> {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => (name, alias),
            TableFactor::Table { name, alias, args, .. }
                if names::calls_a_table(name, args.as_ref()) =>
            {
                (name, alias)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let name = names::series_name(name, args);
                self.function(&name, alias.as_ref(), *with_ordinality);
                return Ok(());
            }
            TableFactor::UNNEST { alias, with_ordinality, .. } => {
                self.function("unnest", alias.as_ref(), *with_ordinality);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(table) = find(name, self.tables, &self.found.ctes, self.places)? {
            let alias = alias.as_ref().map(|alias| folded(&alias.name));
            self.found.aliases.insert(alias.unwrap_or_else(|| table.name.to_owned()), table);
        }
        Ok(())
    }
}

impl Survey<'_> {
    /// A function in FROM. In `f() AS x(y)`, `y` is its column; without `y`, `x` is.
    fn function(&mut self, function: &str, alias: Option<&TableAlias>, with_ordinality: bool) {
        let known = self.tables.iter().find(|table| table.arguments > 0 && table.name == function);
        let Some(table) = known else { return };
        let shown = table.fields[0].name;
        let alias_name = alias.map_or_else(|| shown.to_owned(), |alias| folded(&alias.name));
        let named = |n: usize| {
            alias.and_then(|alias| alias.columns.get(n)).map(|column| folded(&column.name))
        };
        let mut insert = |name: String, column: &'static str| {
            let alias = alias_name.clone();
            self.found.functions.insert(name, FunctionColumn { alias, table, column });
        };
        insert(named(0).unwrap_or_else(|| alias_name.clone()), shown);
        if with_ordinality {
            insert(named(1).unwrap_or_else(|| ORDINALITY.to_owned()), ORDINALITY);
        }
    }
}

/// A name, folded to lower case unless it is quoted, as in PostgreSQL.
pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a name.
pub(crate) fn parts(name: &ObjectName) -> Vec<&Ident> {
    let ident = |part: &'_ ObjectNamePart| match part {
        ObjectNamePart::Identifier(_) => true,
        ObjectNamePart::Function(_) => false,
    };
    name.0.iter().filter(|part| ident(part)).filter_map(ObjectNamePart::as_ident).collect()
}

/// The table of a name; none for a name of a subquery.
fn find(
    name: &ObjectName,
    tables: &[&'static Table],
    ctes: &[String],
    places: &SourceLines<'_>,
) -> Result<Option<&'static Table>, QueryError> {
    let parts = parts(name);
    let words: Vec<String> = parts.iter().map(|ident| folded(ident)).collect();
    let (schema, table) = match words.as_slice() {
        [table] if ctes.contains(table) => return Ok(None),
        [table] => (None, table),
        [schema, table] | [_, schema, table] => (Some(schema), table),
        _ => return Err(QueryError::new(State::Syntax, format!("{name} is not a table name"))),
    };
    let of = |schema: &str| {
        tables.iter().copied().find(|known| known.schema == schema && known.name == table)
    };
    let found = match schema {
        Some(schema) => of(schema),
        None => of("pg_catalog").or_else(|| of("sys")),
    };
    match found {
        Some(table) => Ok(Some(table)),
        None => {
            let at = parts.first().and_then(|ident| places.of_ident(ident));
            let known =
                tables.iter().filter(|known| schema.is_none_or(|schema| known.schema == schema));
            let hint = match alike(table, known.map(|known| known.name)) {
                Some(hint) => Some(hint),
                None => Some("The tables are in docs/sys-tables.md, and in \\dt sys.*".to_owned()),
            };
            let text = format!("relation \"{}\" does not exist", words.join("."));
            Err(QueryError::new(State::NoTable, text).at(at).hint(hint))
        }
    }
}

/// The second pass.
struct Pass<'a> {
    tables: &'a [&'static Table],
    places: &'a SourceLines<'a>,
    found: Found,
    parameters: BTreeMap<usize, Option<Kind>>,
}

impl Step for Pass<'_> {
    fn before_table(&mut self, factor: &mut TableFactor) -> Result<(), QueryError> {
        self.table(factor)
    }

    fn before_select(&mut self, select: &mut Select) -> Result<(), QueryError> {
        self.enter_select(select)
    }

    fn after_select(&mut self, select: &mut Select) {
        self.leave_select(select);
    }

    fn before_query(&mut self, query: &mut Query) -> Result<(), QueryError> {
        self.enter_query(query)
    }

    fn after_query(&mut self, query: &mut Query) {
        self.leave_query(query);
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), QueryError> {
        self.expr(expr)
    }
}

/// The third pass quotes names that are keywords of SQLite and not of PostgreSQL.
struct Quote;

impl Step for Quote {
    fn at_ident(&mut self, ident: &mut Ident) {
        if ident.quote_style.is_none() {
            (ident.value, ident.quote_style) = (ident.value.to_lowercase(), Some('"'));
        }
    }
}

fn not_supported(what: &str) -> QueryError {
    QueryError::new(State::NotSupported, format!("{what} is not supported here"))
}
