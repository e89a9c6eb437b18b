//! The parser: the first words of a statement select the parser of the rest.

use sqlparser::tokenizer::Token;

use crate::lex::{Lexeme, bind, lex, placeholder};
use crate::literal::Literal;
use crate::reader::Reader;
use crate::statement::{Parsed, Spanned, Statement, Template};
use crate::syntax::{Result, SyntaxError};

mod access;
mod calendar;
mod dag;
mod hook;
mod job;
mod pool;
mod queue;
mod run;
mod session;
mod shard;
mod show;

pub(crate) use dag::RULES as TRIGGER_RULES;
pub use dag::{DAG_CLAUSES, STEP_CLAUSES};
pub use queue::QUEUE_CLAUSES;

/// The maximum length of a text, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 << 20;

type Read = fn(&mut Reader<'_>) -> Result<Statement>;

/// The first words of queries, which are kept as text.
const QUESTIONS: [&str; 4] = ["SELECT", "WITH", "VALUES", "TABLE"];

/// The first words of all other statements, and their parsers. Longer ones come first.
const STATEMENTS: &[(&[&str], Read)] = &[
    (&["CREATE", "OR", "ALTER", "JOB"], job::create_or_alter),
    (&["CREATE", "JOB"], job::create),
    (&["RECREATE", "JOB"], job::recreate),
    (&["ALTER", "JOB"], job::alter),
    (&["DROP", "JOB"], job::drop),
    (&["PAUSE", "JOB"], job::pause),
    (&["RESUME", "JOB"], job::resume),
    (&["RESTORE", "JOB"], job::restore),
    (&["EXECUTE", "JOB"], run::execute),
    (&["CANCEL", "JOB", "RUN"], run::cancel),
    (&["RETRY", "JOB", "RUN"], run::retry),
    (&["DECIDE", "JOB", "RUN"], run::decide),
    (&["BACKFILL", "JOB"], run::backfill),
    (&["CREATE", "OR", "ALTER", "DAG"], dag::create_or_alter),
    (&["CREATE", "DAG"], dag::create),
    (&["ALTER", "DAG"], dag::alter),
    (&["DROP", "DAG"], dag::drop),
    (&["PAUSE", "DAG"], dag::pause),
    (&["RESUME", "DAG", "RUN"], dag::resume_run),
    (&["RESUME", "DAG"], dag::resume),
    (&["EXECUTE", "DAG"], dag::execute),
    (&["BACKFILL", "DAG"], dag::backfill),
    (&["CANCEL", "DAG", "RUN"], dag::cancel_run),
    (&["RERUN", "DAG", "RUN"], dag::rerun),
    (&["MARK", "STEP"], dag::mark),
    (&["APPROVE", "STEP"], dag::approve),
    (&["REJECT", "STEP"], dag::reject),
    (&["EXPLAIN", "DAG", "RUN"], dag::explain_run),
    (&["EXPLAIN", "STEP"], dag::explain_step),
    (&["SHOW", "CREATE", "DAG"], dag::show_create),
    (&["SHOW", "DAGS"], dag::show),
    (&["EXPLAIN", "JOB"], run::explain),
    (&["EXPLAIN", "RUN"], run::explain_run),
    (&["EXPLAIN", "MESSAGE"], run::explain_message),
    (&["SHOW", "CREATE", "CALENDAR"], calendar::show_create),
    (&["SHOW", "CALENDARS"], calendar::show),
    (&["SHOW", "BLACKOUTS"], calendar::show_blackouts),
    (&["CREATE", "OR", "ALTER", "CALENDAR"], calendar::create_or_alter),
    (&["CREATE", "CALENDAR"], calendar::create),
    (&["ALTER", "CALENDAR"], calendar::alter),
    (&["DROP", "CALENDAR"], calendar::drop),
    (&["CREATE", "OR", "ALTER", "BLACKOUT"], calendar::create_or_alter_blackout),
    (&["CREATE", "BLACKOUT"], calendar::create_blackout),
    (&["DROP", "BLACKOUT"], calendar::drop_blackout),
    (&["PAUSE", "ALL"], calendar::pause_all),
    (&["RESUME", "ALL"], calendar::resume_all),
    (&["SHOW", "CREATE"], show::create_job),
    (&["SHOW", "JOBS"], show::jobs),
    (&["SHOW", "JOB", "VERSIONS"], show::versions),
    (&["SHOW", "JOB", "DIFF"], show::diff),
    (&["SHOW", "JOB", "RUNS"], show::runs),
    (&["SHOW", "SHARDS"], shard::show),
    (&["CREATE", "SHARD"], shard::create),
    (&["ALTER", "SHARD"], shard::alter),
    (&["DROP", "SHARD"], shard::drop),
    (&["SHOW", "HOOKS"], hook::show),
    (&["CREATE", "HOOK"], hook::create),
    (&["ALTER", "HOOK"], hook::alter),
    (&["DROP", "HOOK"], hook::drop),
    (&["SHOW", "POOLS"], pool::show),
    (&["CREATE", "OR", "ALTER", "POOL"], pool::create_or_alter),
    (&["CREATE", "POOL"], pool::create),
    (&["ALTER", "POOL"], pool::alter),
    (&["DROP", "POOL"], pool::drop),
    (&["SHOW", "QUEUES"], queue::show),
    (&["CREATE", "OR", "ALTER", "QUEUE"], queue::create_or_alter),
    (&["CREATE", "QUEUE"], queue::create),
    (&["ALTER", "QUEUE"], queue::alter),
    (&["DROP", "QUEUE"], queue::drop),
    (&["PAUSE", "QUEUE"], queue::pause),
    (&["RESUME", "QUEUE"], queue::resume),
    (&["DRAIN", "QUEUE"], queue::drain),
    (&["SEND"], queue::send),
    (&["SHOW"], session::show),
    (&["GRANT"], access::grant),
    (&["REVOKE"], access::revoke),
    (&["CREATE", "USER"], access::create_user),
    (&["ALTER", "USER"], access::alter_user),
    (&["DROP", "USER"], access::drop_user),
    (&["CREATE", "ROLE"], access::create_role),
    (&["ALTER", "ROLE"], access::alter_role),
    (&["DROP", "ROLE"], access::drop_role),
    (&["CREATE", "OR", "ALTER", "SECRET"], access::create_or_alter_secret),
    (&["CREATE", "SECRET"], access::create_secret),
    (&["ALTER", "SECRET"], access::alter_secret),
    (&["DROP", "SECRET"], access::drop_secret),
    (&["SET"], session::set),
    (&["RESET"], session::reset),
    (&["BEGIN"], session::begin),
    (&["START", "TRANSACTION"], session::start),
    (&["COMMIT"], session::commit),
    (&["END"], session::commit),
    (&["ROLLBACK"], session::rollback),
    (&["ABORT"], session::rollback),
    (&["SAVEPOINT"], session::savepoint),
    (&["RELEASE"], session::release),
    (&["DISCARD"], session::discard),
    (&["LISTEN"], session::listen),
    (&["UNLISTEN"], session::unlisten),
    (&["COPY"], session::copy),
    (&["DEALLOCATE"], session::deallocate),
    (&["CLOSE"], session::close),
];

/// The first words of unsupported SQL statements, with a hint.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["RUN"], "A job is run with EXECUTE JOB name."),
    (&["TRIGGER"], "A job is run with EXECUTE JOB name."),
    (
        &["STOP"],
        "A run is cancelled with CANCEL JOB RUN 'id', a job is paused with PAUSE JOB name.",
    ),
    (
        &["START", "JOB"],
        "A job is run with EXECUTE JOB name, a paused one goes on with RESUME JOB.",
    ),
    (&["NOTIFY"], "Only the server notifies: LISTEN punctual_runs."),
    (&["PREPARE"], "Prepare statements with the protocol of your driver."),
    (&["EXECUTE"], "Prepare statements with the protocol of your driver, or write EXECUTE JOB."),
    (&["DECLARE"], "Ask for the rows with SELECT, and with a row limit of your driver."),
    (&["FETCH"], "Ask for the rows with SELECT, and with a row limit of your driver."),
    (&["MOVE"], "Ask for the rows with SELECT, and with a row limit of your driver."),
    (
        &["EXPLAIN"],
        "EXPLAIN JOB says why a job did or did not run, EXPLAIN RUN 'id' what became of a run, EXPLAIN MESSAGE 'id' where a message stands.",
    ),
    (&["INSERT"], "Jobs are made with CREATE JOB."),
    (&["UPDATE"], "Jobs are changed with ALTER JOB."),
    (&["DELETE"], "Jobs are removed with DROP JOB."),
    (&["MERGE"], "Jobs are made and changed with CREATE OR ALTER JOB."),
    (&["TRUNCATE"], "History is kept for as long as RETENTION says."),
    (&["CALL"], "A procedure is called by a job: CREATE JOB … AS CALL procedure()."),
    (&["DO"], "Statements are run by a job: CREATE JOB … AS 'statements'."),
    (
        &["CREATE"],
        "CREATE makes a JOB, a DAG, a QUEUE, a CALENDAR, a BLACKOUT, a POOL, a HOOK, a SHARD, a USER, a ROLE or a SECRET.",
    ),
    (
        &["ALTER"],
        "ALTER changes a JOB, a DAG, a QUEUE, a CALENDAR, a POOL, a HOOK, a SHARD, a USER, a ROLE or a SECRET.",
    ),
    (
        &["DROP"],
        "DROP removes a JOB, a DAG, a QUEUE, a CALENDAR, a BLACKOUT, a POOL, a HOOK, a SHARD, a USER, a ROLE or a SECRET.",
    ),
    (&["ANALYZE"], "There is nothing to analyze here."),
    (&["VACUUM"], "There is nothing to vacuum here."),
    (&["LOCK"], "There is nothing to lock here."),
    (&["COMMENT"], "ALTER JOB … SET DESCRIPTION = 'text' describes a job."),
];

/// The first words of every statement, for the documentation.
pub const VERBS: &[&str] = &[
    "SELECT",
    "WITH",
    "VALUES",
    "TABLE",
    "CREATE",
    "RECREATE",
    "ALTER",
    "DROP",
    "PAUSE",
    "DRAIN",
    "RESUME",
    "RESTORE",
    "EXECUTE",
    "CANCEL",
    "RETRY",
    "DECIDE",
    "BACKFILL",
    "RERUN",
    "MARK",
    "APPROVE",
    "REJECT",
    "EXPLAIN",
    "SHOW",
    "SEND",
    "GRANT",
    "REVOKE",
    "SET",
    "RESET",
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "DISCARD",
    "LISTEN",
    "UNLISTEN",
    "COPY",
    "DEALLOCATE",
    "CLOSE",
];

/// The statements of a text, in order. Empty ones are left out.
///
/// ```
/// let parsed = punctual_sql::parse("PAUSE JOB nightly; -- for now\nSELECT 1").unwrap();
/// assert_eq!(parsed.len(), 2);
/// assert_eq!(parsed[0].statement.tag(), "PAUSE JOB");
/// let error = punctual_sql::parse("PAUSE JOV nightly").unwrap_err();
/// assert_eq!((error.at, error.hint.as_deref()), (6, Some("Perhaps you meant JOB.")));
/// ```
pub fn parse(text: &str) -> Result<Vec<Parsed>> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("a text has at most {TEXT_BYTES_MAX} bytes");
        return Err(SyntaxError::new(0, message));
    }
    let lexemes = lex(text)?;
    let mut parsed = Vec::new();
    for part in lexemes.split(|lexeme| lexeme.token == Token::SemiColon) {
        let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
        let place = first.place.start..last.place.end;
        let statement = template(text, part, statement(text, part)?);
        parsed.push(Parsed { statement, place });
    }
    Ok(parsed)
}

/// Whether a text is one expression that the parser of a statement finds the end of. One that
/// begins with a string is not: it would be taken for an expression in quotes.
pub(crate) fn is_expression(text: &str) -> bool {
    let Ok(lexemes) = lex(text) else { return false };
    let is_text = |lexeme: &Lexeme| {
        matches!(lexeme.token, Token::SingleQuotedString(_)) || placeholder(&lexeme.token).is_some()
    };
    let mut reader = Reader::new(text, &lexemes);
    !lexemes.iter().take(1).any(is_text)
        && matches!(crate::clause::expression(&mut reader), Ok(read) if read == text)
        && reader.is_done()
}

/// The number of parameters of a text: the highest of `$1`, `$2`.
pub fn placeholders(text: &str) -> usize {
    lex(text).map(|lexemes| highest(&lexemes)).unwrap_or(0)
}

fn highest(lexemes: &[Lexeme]) -> usize {
    lexemes.iter().filter_map(|lexeme| placeholder(&lexeme.token)).max().unwrap_or(0)
}

/// A statement with parameters. A query is kept as text with its parameters.
fn template(text: &str, lexemes: &[Lexeme], statement: Statement) -> Statement {
    let parameters = highest(lexemes);
    match lexemes.first().zip(lexemes.last()) {
        Some((first, last)) if parameters > 0 && !matches!(statement, Statement::Select(_)) => {
            Statement::Template(Template {
                text: text[first.place.start..last.place.end].to_owned(),
                offset: first.place.start,
                parameters,
                shape: Box::new(statement),
            })
        }
        _ => statement,
    }
}

/// The statement of a text with its parameters replaced by values.
pub(crate) fn bound(text: &str, offset: usize, values: &[Literal]) -> Result<Statement> {
    let read = || statement(text, &bind(lex(text)?, values)?);
    read().map_err(|error| SyntaxError { at: error.at + offset, ..error })
}

fn statement(text: &str, lexemes: &[Lexeme]) -> Result<Statement> {
    let mut reader = Reader::new(text, lexemes);
    if reader.is_sign(0, &Token::LParen) || QUESTIONS.iter().any(|word| reader.is(&[word])) {
        let at = reader.at();
        return Ok(Statement::Select(Spanned { value: reader.rest().to_owned(), at }));
    }
    let found = STATEMENTS.iter().find(|(words, _)| reader.is(words));
    if let Some((words, read)) = found {
        reader.eat(words);
        let statement = read(&mut reader)?;
        reader.expect_end()?;
        return Ok(statement);
    }
    // Known first words with an unknown continuation: suggest what could follow.
    let begins =
        |length: usize| move |(words, _): &&(&'static [&'static str], Read)| words.len() > length;
    let mut length = 0;
    while STATEMENTS.iter().filter(begins(length)).any(|(words, _)| reader.is(&words[..=length])) {
        length += 1;
    }
    let next = |length: usize| {
        let known = STATEMENTS.iter().filter(begins(length));
        let known = known.filter(|(words, _)| reader.is(&words[..length]));
        let questions = QUESTIONS.into_iter().filter(|_| length == 0);
        questions.chain(known.map(|(words, _)| words[length])).collect::<Vec<_>>()
    };
    let unsupported = UNSUPPORTED.iter().find(|(words, _)| reader.is(words));
    let known = next(length);
    let ahead = reader.ahead(length);
    let near = ahead.word_at(0).and_then(|word| crate::syntax::nearest(word, known.clone()));
    match (near, unsupported) {
        (Some(near), _) => {
            let expected = expected(&known);
            Err(ahead.unexpected(&expected).with_hint(format!("Perhaps you meant {near}.")))
        }
        (None, Some((_, hint))) if reader.word_at(1).is_some() || length == 0 => {
            // For CREATE TABLE, two words are more helpful than CREATE; the word after NOTIFY is a
            // name.
            let is_vague = STATEMENTS.iter().any(|(words, _)| reader.is(&words[..1]));
            let count = 1 + usize::from(is_vague && reader.word_at(1).is_some());
            let at = reader.at();
            let verb = reader.skip(count).to_uppercase();
            reader.rest();
            Ok(Statement::Unsupported { verb: Spanned { value: verb, at }, hint })
        }
        _ => Err(ahead.unexpected(&expected(&known))),
    }
}

fn expected(known: &[&str]) -> String {
    let mut known = known.to_vec();
    known.sort_unstable();
    known.dedup();
    match &known[..] {
        [] => "the end of the statement".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] if most.len() < 16 => format!("{} or {last}", most.join(", ")),
        _ => "a statement".to_owned(),
    }
}
