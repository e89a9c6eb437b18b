//! Types of PostgreSQL, and the types of expressions.

use sqlparser::ast::{
    BinaryOperator as Op, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Select, SelectItem, SetExpr, UnaryOperator, Value,
};

use super::names::last;
use super::{Pass, folded};
use crate::functions::{Answers, Type, answers};
use crate::value::Kind;

/// The target of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A kind of value, or an internal type.
    Type(Type),
    /// The oid of a table, shown as its name.
    RegClass,
    /// The oid of a type, shown as its name.
    RegType,
    /// The oid of a function.
    RegProc,
    /// No conversion.
    Same,
}

/// The name that PostgreSQL gives to a column after a cast to this type.
pub(super) fn type_word(data_type: &DataType) -> String {
    let word = data_type.to_string().to_lowercase();
    let word = word.rsplit('.').next().unwrap_or_default();
    let word = word.split(['(', '[', ' ']).next().unwrap_or_default().trim_matches('"');
    match word {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "double" => "float8",
        "timestamp" if data_type.to_string().to_lowercase().contains("with time zone") => {
            "timestamptz"
        }
        "character" => "varchar",
        word => word,
    }
    .to_owned()
}

/// The target of a cast to this type; none if it is unknown.
pub(super) fn target(data_type: &DataType) -> Option<Target> {
    if let DataType::Array(_) = data_type {
        return Some(Target::Type(Type::Of(Kind::Text)));
    }
    let of = |kind| Target::Type(Type::Of(kind));
    Some(match type_word(data_type).as_str() {
        "bool" => of(Kind::Bool),
        "int2" | "int4" | "int8" | "oid" | "xid" | "regnamespace" | "regrole" => of(Kind::Int),
        "real" | "float" | "float4" | "float8" | "numeric" | "decimal" | "dec" => of(Kind::Float),
        "text" | "varchar" | "char" | "bpchar" | "name" | "string" | "citext" => of(Kind::Text),
        "timestamp" | "timestamptz" => of(Kind::Time),
        "date" => Target::Type(Type::Date),
        "interval" => Target::Type(Type::Interval),
        "uuid" => of(Kind::Uuid),
        "json" | "jsonb" => of(Kind::Json),
        "bytea" => of(Kind::Bytes),
        "regclass" => Target::RegClass,
        "regtype" => Target::RegType,
        "regproc" => Target::RegProc,
        "regprocedure" | "regoper" | "anyarray" | "pg_node_tree" | "unknown" | "regconfig" => {
            Target::Same
        }
        _ => return None,
    })
}

impl Pass<'_> {
    /// The type of a column.
    pub(super) fn column(&self, idents: &[Ident]) -> Option<Type> {
        let name = folded(idents.last()?);
        if let [.., table, _] = idents
            && let Some(table) = self.found.aliases.get(&folded(table))
        {
            return table.field(&name).map(|n| Type::Of(table.fields[n].kind));
        }
        if let [table, _] = idents {
            let of = folded(table);
            let mut known = self.found.functions.values().filter(|known| known.alias == of);
            if let Some(known) = known.next() {
                return known.table.field(&name).map(|n| Type::Of(known.table.fields[n].kind));
            }
        }
        if let Some(made) = self.found.made.get(&name) {
            return *made;
        }
        let mut kinds = self
            .found
            .aliases
            .values()
            .filter_map(|table| table.field(&name).map(|n| table.fields[n].kind));
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(Type::Of(first))
    }

    /// The type of a rewritten expression.
    pub(super) fn type_of(&self, expr: &Expr) -> Option<Type> {
        let of = |kind| Some(Type::Of(kind));
        match expr {
            Expr::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(idents) => self.column(idents),
            Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => self.type_of(inner),
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) if number.contains(['.', 'e', 'E']) => of(Kind::Float),
                Value::Number(..) => of(Kind::Int),
                Value::Boolean(_) => of(Kind::Bool),
                Value::SingleQuotedString(_) => of(Kind::Text),
                _ => None,
            },
            Expr::UnaryOp { op: UnaryOperator::Not, .. } => of(Kind::Bool),
            Expr::UnaryOp { expr, .. } => self.type_of(expr),
            Expr::BinaryOp { left, op, right } => match op {
                Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => {
                    match (self.type_of(left), self.type_of(right)) {
                        (Some(Type::Of(Kind::Int)), Some(Type::Of(Kind::Int))) => of(Kind::Int),
                        (None, None) => None,
                        (None, Some(other)) | (Some(other), None) => Some(other),
                        _ => of(Kind::Float),
                    }
                }
                Op::Arrow => of(Kind::Json),
                Op::LongArrow | Op::StringConcat => of(Kind::Text),
                Op::BitwiseAnd
                | Op::BitwiseOr
                | Op::PGBitwiseShiftLeft
                | Op::PGBitwiseShiftRight => of(Kind::Int),
                _ => of(Kind::Bool),
            },
            Expr::IsNull(_)
            | Expr::IsNotNull(_)
            | Expr::IsTrue(_)
            | Expr::IsNotTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsNotFalse(_)
            | Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::InList { .. }
            | Expr::InSubquery { .. }
            | Expr::Between { .. }
            | Expr::Exists { .. } => of(Kind::Bool),
            Expr::Cast { data_type: DataType::Blob(_), .. } => of(Kind::Bytes),
            Expr::Cast { data_type, .. } => match target(data_type)? {
                Target::Type(of) => Some(of),
                _ => None,
            },
            Expr::Case { conditions, else_result, .. } => conditions
                .iter()
                .map(|when| &when.result)
                .chain(else_result.as_deref())
                .find_map(|result| self.type_of(result)),
            Expr::Subquery(query) => self.kinds_of(&query.body).first().copied().flatten(),
            Expr::Function(function) => match answers(&last(&function.name))?? {
                Answers::Is(of) => Some(of),
                Answers::Like(n) => {
                    let FunctionArguments::List(list) = &function.args else { return None };
                    list.args.iter().skip(n).find_map(|arg| match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => self.type_of(arg),
                        _ => None,
                    })
                }
            },
            _ => None,
        }
    }

    /// The types of the columns of a query; empty if their number is unknown.
    pub(super) fn kinds_of(&self, body: &SetExpr) -> Vec<Option<Type>> {
        match body {
            SetExpr::Select(select) => self.kinds_of_select(select),
            SetExpr::Query(query) => self.kinds_of(&query.body),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.kinds_of(left), self.kinds_of(right));
                let both = left.iter().zip(right.iter().map(Some).chain(std::iter::repeat(None)));
                both.map(|(left, right)| left.or(right.copied().flatten())).collect()
            }
            SetExpr::Values(values) => {
                let Some(first) = values.rows.first() else { return Vec::new() };
                first.content.iter().map(|expr| self.type_of(expr)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn kinds_of_select(&self, select: &Select) -> Vec<Option<Type>> {
        let mut kinds = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    kinds.push(self.type_of(expr));
                }
                _ => return Vec::new(),
            }
        }
        kinds
    }
}
