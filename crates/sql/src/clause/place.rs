//! The partition rule of a job.

use domain::partition::Partition;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use super::Clause;
use crate::reader::Reader;
use crate::syntax::Result;

const RULES: [&str; 7] =
    ["ALL_SHARDS", "SINGLE_SHARD", "SHARD", "SHARD_SET", "DYNAMIC", "SHARD_KEY", "NONE"];

const EXPRESSION: &str = "an expression, for example customer_id";

pub(super) fn partition(reader: &mut Reader<'_>) -> Result<Clause> {
    let shard = |reader: &mut Reader<'_>| Ok(reader.text("a shard in quotes")?.value);
    Ok(Clause::PartitionBy(Some(if reader.eat(&["ALL_SHARDS"]) {
        Partition::AllShards
    } else if reader.eat(&["SINGLE_SHARD"]) || reader.eat(&["SHARD"]) {
        Partition::SingleShard { shard: shard(reader)? }
    } else if reader.eat(&["SHARD_SET"]) {
        Partition::ShardSet { shards: reader.in_parentheses(shard)? }
    } else if reader.eat(&["DYNAMIC"]) {
        Partition::Dynamic { expression: expression(reader)? }
    } else if reader.eat(&["SHARD_KEY"]) {
        reader.expect_sign(&Token::LParen)?;
        let key = expression(reader)?;
        reader.expect_sign(&Token::RParen)?;
        Partition::Dynamic { expression: format!("SHARD_KEY({key})") }
    } else if reader.eat_none() {
        return Ok(Clause::PartitionBy(None));
    } else {
        let expected = "ALL_SHARDS, SINGLE_SHARD, SHARD_SET, DYNAMIC or NONE";
        return Err(reader.unexpected_word(expected, RULES));
    })))
}

/// An expression, as far as sqlparser parses it.
pub(crate) fn expression(reader: &mut Reader<'_>) -> Result<String> {
    if reader.is(&["AS"]) || reader.is_done() {
        return Err(reader.unexpected(EXPRESSION));
    }
    let span = |token: &Token| TokenWithSpan { token: token.clone(), span: Span::empty() };
    let tokens = reader.lexemes().iter().map(|lexeme| span(&lexeme.token)).collect();
    let dialect = PostgreSqlDialect {};
    let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens);
    match parser.parse_expr() {
        Ok(_) => Ok(reader.skip(parser.index()).to_owned()),
        Err(_) => Err(reader.unexpected(EXPRESSION)),
    }
}
