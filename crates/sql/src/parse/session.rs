//! Statements about the session: settings, transactions, notifications, COPY.

use sqlparser::tokenizer::Token;

use crate::literal::Literal;
use crate::name::{folded, quoted};
use crate::reader::Reader;
use crate::statement::{
    AccessMode, Copy, Discard, SavepointStatement, SavepointVerb, SetStatement, Spanned, Statement,
    Transaction,
};
use crate::syntax::{Result, SyntaxError};

const SETTING: &str = "the name of a setting";

/// Names that PostgreSQL spells with spaces.
const SPACED: [(&[&str], &str); 3] = [
    (&["TIME", "ZONE"], "timezone"),
    (&["TRANSACTION", "ISOLATION", "LEVEL"], "transaction_isolation"),
    (&["SESSION", "AUTHORIZATION"], "session_authorization"),
];

fn setting(reader: &mut Reader<'_>) -> Result<Spanned<String>> {
    let at = reader.at();
    if let Some((_, name)) = SPACED.iter().find(|(words, _)| reader.eat(words)) {
        return Ok(Spanned { value: (*name).to_owned(), at });
    }
    let Spanned { value, at } = reader.dotted_name(SETTING)?;
    Ok(Spanned { value: folded(&value), at })
}

pub(super) fn set(reader: &mut Reader<'_>) -> Result<Statement> {
    let at = reader.at();
    if reader.eat(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
        // The default of the transactions to come.
        let Some(mode) = modes(reader)? else {
            return Ok(Statement::Transaction(Transaction::Characteristics(None)));
        };
        let name = Spanned { value: "default_transaction_read_only".to_owned(), at };
        let value = Some(mode.setting().to_owned());
        return Ok(Statement::Set(SetStatement { name, value, is_local: false }));
    }
    if reader.eat(&["TRANSACTION"]) {
        return Ok(Statement::Transaction(Transaction::Characteristics(modes(reader)?)));
    }
    let is_local = reader.eat(&["LOCAL"]);
    if !is_local && !reader.is_sign(1, &Token::Eq) {
        reader.eat(&["SESSION"]);
    }
    if reader.eat(&["NAMES"]) {
        let name = Spanned { value: "client_encoding".to_owned(), at: reader.at() };
        let value = value(reader)?;
        return Ok(Statement::Set(SetStatement { name, value, is_local }));
    }
    let is_zone = reader.is(&["TIME", "ZONE"]);
    let name = setting(reader)?;
    if !is_zone && !reader.eat(&["TO"]) && !reader.eat_sign(&Token::Eq) {
        return Err(reader.unexpected("TO or ="));
    }
    Ok(Statement::Set(SetStatement { name, value: value(reader)?, is_local }))
}

/// The value of a setting: words, strings and numbers separated by commas, or DEFAULT.
fn value(reader: &mut Reader<'_>) -> Result<Option<String>> {
    if reader.eat(&["DEFAULT"]) || reader.eat(&["LOCAL"]) {
        return Ok(None);
    }
    let parts = reader.list(|reader| {
        if let Some(word) = reader.word_at(0) {
            reader.skip(1);
            return Ok(word.to_owned());
        }
        if matches!(reader.lexemes().first().map(|it| &it.token), Some(Token::Word(_))) {
            return Ok(reader.name("a value")?.value);
        }
        Ok(match reader.literal("a value")?.value {
            Literal::Text(text) | Literal::Number(text) => text,
            Literal::Bool(value) => value.to_string(),
            Literal::Json(value) => value.to_string(),
            Literal::Null => String::new(),
        })
    })?;
    Ok(Some(parts.join(", ")))
}

pub(super) fn reset(reader: &mut Reader<'_>) -> Result<Statement> {
    let all = reader.eat(&["ALL"]);
    Ok(Statement::Reset(if all { None } else { Some(setting(reader)?) }))
}

pub(super) fn show(reader: &mut Reader<'_>) -> Result<Statement> {
    if reader.is_done() {
        return Err(reader.unexpected(
            "JOBS, JOB RUNS FOR, CREATE JOB, SHARDS, POOLS, HOOKS or the name of a setting",
        ));
    }
    let all = reader.eat(&["ALL"]);
    Ok(Statement::Show(if all { None } else { Some(setting(reader)?) }))
}

/// The transaction modes after BEGIN; answers the access mode if one is named. The others are
/// accepted, because a block whose changes happen together satisfies every isolation level.
fn modes(reader: &mut Reader<'_>) -> Result<Option<AccessMode>> {
    const MODES: [(&[&str], Option<AccessMode>); 8] = [
        (&["ISOLATION", "LEVEL", "SERIALIZABLE"], None),
        (&["ISOLATION", "LEVEL", "REPEATABLE", "READ"], None),
        (&["ISOLATION", "LEVEL", "READ", "COMMITTED"], None),
        (&["ISOLATION", "LEVEL", "READ", "UNCOMMITTED"], None),
        (&["READ", "WRITE"], Some(AccessMode::ReadWrite)),
        (&["READ", "ONLY"], Some(AccessMode::ReadOnly)),
        (&["NOT", "DEFERRABLE"], None),
        (&["DEFERRABLE"], None),
    ];
    let mut access = None;
    while !reader.is_done() {
        let Some((_, mode)) = MODES.iter().find(|(words, _)| reader.eat(words)) else {
            return Err(reader.unexpected("ISOLATION LEVEL, READ WRITE, READ ONLY or the end"));
        };
        access = mode.or(access);
        reader.eat_sign(&Token::Comma);
    }
    Ok(access)
}

fn noise(reader: &mut Reader<'_>) {
    if !reader.eat(&["WORK"]) {
        reader.eat(&["TRANSACTION"]);
    }
}

pub(super) fn begin(reader: &mut Reader<'_>) -> Result<Statement> {
    noise(reader);
    start(reader)
}

pub(super) fn start(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::Transaction(Transaction::Begin(modes(reader)?)))
}

pub(super) fn commit(reader: &mut Reader<'_>) -> Result<Statement> {
    ended(reader, Transaction::Commit)
}

pub(super) fn rollback(reader: &mut Reader<'_>) -> Result<Statement> {
    noise(reader);
    if reader.eat(&["TO"]) {
        reader.eat(&["SAVEPOINT"]);
        return to_savepoint(reader, SavepointVerb::RollbackTo);
    }
    ended(reader, Transaction::Rollback)
}

pub(super) fn savepoint(reader: &mut Reader<'_>) -> Result<Statement> {
    to_savepoint(reader, SavepointVerb::Set)
}

pub(super) fn release(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["SAVEPOINT"]);
    to_savepoint(reader, SavepointVerb::Release)
}

fn to_savepoint(reader: &mut Reader<'_>, verb: SavepointVerb) -> Result<Statement> {
    let name = reader.name("the name of a savepoint")?;
    Ok(Statement::Savepoint(SavepointStatement { verb, name }))
}

fn ended(reader: &mut Reader<'_>, how: Transaction) -> Result<Statement> {
    noise(reader);
    if reader.eat(&["AND", "CHAIN"]) {
        let error = SyntaxError::new(reader.at(), "AND CHAIN is not supported");
        return Err(error.with_hint("Write BEGIN after it."));
    }
    reader.eat(&["AND", "NO", "CHAIN"]);
    Ok(Statement::Transaction(how))
}

pub(super) fn discard(reader: &mut Reader<'_>) -> Result<Statement> {
    let words = [
        ("ALL", Discard::All),
        ("PLANS", Discard::Plans),
        ("SEQUENCES", Discard::Sequences),
        ("TEMP", Discard::Temp),
        ("TEMPORARY", Discard::Temp),
    ];
    Ok(Statement::Discard(reader.one_of(&words)?.value))
}

pub(super) fn listen(reader: &mut Reader<'_>) -> Result<Statement> {
    Ok(Statement::Listen(reader.name("the name of a channel")?))
}

pub(super) fn unlisten(reader: &mut Reader<'_>) -> Result<Statement> {
    let all = reader.eat_sign(&Token::Mul);
    Ok(Statement::Unlisten(if all { None } else { Some(reader.name("a channel or *")?) }))
}

pub(super) fn deallocate(reader: &mut Reader<'_>) -> Result<Statement> {
    reader.eat(&["PREPARE"]);
    let all = reader.eat(&["ALL"]);
    let what = "the name of a prepared statement";
    Ok(Statement::Deallocate(if all { None } else { Some(reader.name(what)?) }))
}

pub(super) fn close(reader: &mut Reader<'_>) -> Result<Statement> {
    let all = reader.eat(&["ALL"]);
    Ok(Statement::Close(if all { None } else { Some(reader.name("the name of a cursor")?) }))
}

/// `COPY (query) TO STDOUT [WITH] [(FORMAT csv, HEADER)]`, `COPY table TO STDOUT CSV HEADER`.
pub(super) fn copy(reader: &mut Reader<'_>) -> Result<Statement> {
    let at = reader.at();
    let (query, at) = if reader.is_sign(0, &Token::LParen) {
        let length = closing(reader).ok_or_else(|| reader.unexpected("a question and )"))?;
        let written = reader.skip(length);
        let inner = &written[1..written.len() - 1];
        let question = inner.trim_start();
        (question.trim_end().to_owned(), at + 1 + inner.len() - question.len())
    } else {
        let table = reader.dotted("a table or a question in parentheses")?;
        let columns = match reader.is_sign(0, &Token::LParen) {
            true => reader
                .in_parentheses(|reader| Ok(quoted(&reader.name("a column")?.value)))?
                .join(", "),
            false => "*".to_owned(),
        };
        (format!("SELECT {columns} FROM {table}"), at)
    };
    if reader.is(&["FROM"]) {
        let hint = "Jobs are made with CREATE JOB, and many at once with POST /v1/jobs:bulk.";
        return Err(reader.unexpected("TO STDOUT").with_hint(hint));
    }
    reader.expect(&["TO", "STDOUT"])?;
    reader.eat(&["WITH"]);
    let mut options = Options::default();
    if reader.is_sign(0, &Token::LParen) {
        reader.in_parentheses(|reader| options.read(reader))?;
    } else {
        while !reader.is_done() {
            options.read(reader)?;
        }
    }
    let Options { csv, header, delimiter, null } = options;
    Ok(Statement::Copy(Copy {
        query: Spanned { value: query, at },
        csv,
        header,
        delimiter: delimiter.unwrap_or(if csv { ',' } else { '\t' }),
        null: null.unwrap_or(if csv { String::new() } else { "\\N".to_owned() }),
    }))
}

/// The number of lexemes of the next parenthesised expression.
fn closing(reader: &Reader<'_>) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, lexeme) in reader.lexemes().iter().enumerate() {
        match lexeme.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i + 1);
        }
    }
    None
}

#[derive(Default)]
struct Options {
    csv: bool,
    header: bool,
    delimiter: Option<char>,
    null: Option<String>,
}

impl Options {
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        if reader.eat(&["FORMAT"]) {
            self.csv = reader.one_of(&[("TEXT", false), ("CSV", true)])?.value;
        } else if reader.eat(&["CSV"]) {
            self.csv = true;
        } else if reader.eat(&["HEADER"]) {
            let words = [("TRUE", true), ("ON", true), ("FALSE", false), ("OFF", false)];
            let said = words.into_iter().find(|(word, _)| reader.eat(&[word]));
            self.header = said.is_none_or(|(_, header)| header);
        } else if reader.eat(&["DELIMITER"]) {
            reader.eat(&["AS"]);
            let text = reader.text("one letter in quotes")?;
            let mut letters = text.value.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) if letter.is_ascii() && !"\r\n\\\"".contains(letter) => {
                    self.delimiter = Some(letter);
                }
                _ => return Err(SyntaxError::new(text.at, "a delimiter is one ASCII letter")),
            }
        } else if reader.eat(&["NULL"]) {
            reader.eat(&["AS"]);
            self.null = Some(reader.text("a text in quotes")?.value);
        } else {
            let known = ["FORMAT", "CSV", "HEADER", "DELIMITER", "NULL"];
            return Err(reader.unexpected_word("FORMAT, HEADER, DELIMITER or NULL", known));
        }
        Ok(())
    }
}
