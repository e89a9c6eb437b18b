//! The action of a job.

use domain::action::{AdaptiveInterval, QueueMetric};
use domain::raw_json::RawJson;
use serde_json::Value;
use sqlparser::tokenizer::Token;

use super::{ActionClause, Clause};
use crate::reader::Reader;
use crate::syntax::{Result, SyntaxError};

const KINDS: [&str; 7] = ["CALL", "EXEC", "ARTIFACT", "HTTP", "SEND", "BACKUP", "NOOP"];

pub(crate) fn action(reader: &mut Reader<'_>) -> Result<Clause> {
    Ok(Clause::As(if reader.eat(&["CALL"]) {
        call(reader)?
    } else if reader.eat(&["EXEC"]) {
        exec(reader)?
    } else if reader.eat(&["ARTIFACT"]) {
        artifact(reader)?
    } else if reader.eat(&["HTTP"]) {
        http(reader)?
    } else if reader.eat(&["SEND"]) {
        send(reader)?
    } else if reader.eat(&["BACKUP"]) {
        backup(reader)?
    } else if reader.eat(&["NOOP"]) {
        ActionClause::Noop
    } else if reader.word_at(0).is_some() || reader.is_done() {
        let expected = "a statement in quotes, CALL, EXEC, ARTIFACT, HTTP, SEND, BACKUP or NOOP";
        return Err(reader.unexpected_word(expected, KINDS));
    } else {
        ActionClause::Sql(reader.text("a statement in quotes")?.value)
    }))
}

fn call(reader: &mut Reader<'_>) -> Result<ActionClause> {
    const WHAT: &str = "the name of a procedure";
    let procedure = match reader.lexemes().first().map(|lexeme| &lexeme.token) {
        Some(Token::SingleQuotedString(_)) => reader.text(WHAT)?.value,
        // The executor parses the name with its quotes.
        _ => reader.dotted(WHAT)?.to_owned(),
    };
    Ok(ActionClause::Call(procedure, reader.in_parentheses(argument)?))
}

/// An argument: a value, a parameter of the run, or JSON.
fn argument(reader: &mut Reader<'_>) -> Result<Value> {
    if reader.eat_sign(&Token::Colon) {
        let name = reader.dotted_name("the name of a parameter")?;
        return Ok(Value::String(format!(":{}", name.value)));
    }
    if reader.eat(&["JSON"]) {
        return Ok(json(reader)?.value());
    }
    Ok(reader.literal("a value, :name or JSON 'json'")?.value.json())
}

pub(super) fn json(reader: &mut Reader<'_>) -> Result<RawJson> {
    if reader.is_placeholder() {
        reader.skip(1);
        return Ok(RawJson::default());
    }
    let text = reader.text("JSON in quotes")?;
    RawJson::from_text(&text.value)
        .map_err(|error| SyntaxError::new(text.at, format!("invalid JSON: {error}")))
}

fn exec(reader: &mut Reader<'_>) -> Result<ActionClause> {
    let command = reader.text("a command in quotes")?.value;
    let (mut arguments, mut environment) = (None, None);
    loop {
        if arguments.is_none() && reader.eat(&["ARGS"]) {
            let text = |reader: &mut Reader<'_>| Ok(reader.text("a text in quotes")?.value);
            arguments = Some(reader.in_parentheses(text)?);
        } else if environment.is_none() && reader.eat(&["ENVIRONMENT"]) {
            environment = Some(reader.in_parentheses(pair)?);
        } else {
            let (arguments, environment) =
                (arguments.unwrap_or_default(), environment.unwrap_or_default());
            return Ok(ActionClause::Exec { command, arguments, environment });
        }
    }
}

/// `ARTIFACT 'name@3' ENTRYPOINT 'main:run' [FLOATING] [ARGS (…)] [ENVIRONMENT (…)]`
fn artifact(reader: &mut Reader<'_>) -> Result<ActionClause> {
    let artifact = reader.text("an artifact in quotes, 'name@3'")?.value;
    reader.expect(&["ENTRYPOINT"])?;
    let entrypoint = reader.text("an entry point in quotes, 'main:run'")?.value;
    let (mut floating, mut arguments, mut environment) = (false, None, None);
    loop {
        if !floating && reader.eat(&["FLOATING"]) {
            floating = true;
        } else if arguments.is_none() && reader.eat(&["ARGS"]) {
            let text = |reader: &mut Reader<'_>| Ok(reader.text("a text in quotes")?.value);
            arguments = Some(reader.in_parentheses(text)?);
        } else if environment.is_none() && reader.eat(&["ENVIRONMENT"]) {
            environment = Some(reader.in_parentheses(pair)?);
        } else {
            let (arguments, environment) =
                (arguments.unwrap_or_default(), environment.unwrap_or_default());
            return Ok(ActionClause::Artifact {
                artifact,
                entrypoint,
                floating,
                arguments,
                environment,
            });
        }
    }
}

/// `NAME = 'value'`; an unquoted name keeps its case.
fn pair(reader: &mut Reader<'_>) -> Result<(String, String)> {
    let name = match reader.word_at(0) {
        Some(word) => {
            reader.skip(1);
            word.to_owned()
        }
        None => reader.text_or_name("a name")?.value,
    };
    reader.expect_sign(&Token::Eq)?;
    Ok((name, reader.text("a text in quotes")?.value))
}

pub(super) fn run_on(reader: &mut Reader<'_>) -> Result<Clause> {
    let none = reader.eat_none();
    Ok(Clause::RunOn(if none { Vec::new() } else { reader.in_parentheses(pair)? }))
}

fn http(reader: &mut Reader<'_>) -> Result<ActionClause> {
    let target = reader.text("a method and an address in quotes, 'POST https://…'")?;
    let (method, endpoint) = match target.value.trim().split_once(char::is_whitespace) {
        Some((method, endpoint)) => (method.to_ascii_uppercase(), endpoint.trim().to_owned()),
        None => ("POST".to_owned(), target.value.trim().to_owned()),
    };
    let (mut headers, mut body, mut expected_status) = (None, None, None);
    loop {
        if headers.is_none() && reader.eat(&["HEADERS"]) {
            headers = Some(reader.in_parentheses(pair)?);
        } else if body.is_none() && reader.eat(&["BODY"]) {
            let is_json = reader.eat(&["JSON"]);
            body = Some(match is_json {
                true => json(reader)?.value(),
                false => Value::String(reader.text("a text in quotes or JSON 'json'")?.value),
            });
        } else if expected_status.is_none() && reader.eat(&["EXPECT"]) {
            let status = |reader: &mut Reader<'_>| Ok(reader.whole("a status code")?.value);
            expected_status = Some(reader.in_parentheses(status)?);
        } else {
            return Ok(ActionClause::Http {
                method,
                endpoint,
                headers: headers.unwrap_or_default(),
                body,
                expected_status: expected_status.unwrap_or_default(),
            });
        }
    }
}

/// `SEND TO queue PAYLOAD 'text' | JSON 'json' [WORKSPACE 'name'] [PRIORITY n]
/// [ADAPT DEPTH | AGE n FROM duration TO duration] [AWAIT]`
fn send(reader: &mut Reader<'_>) -> Result<ActionClause> {
    reader.expect(&["TO"])?;
    let queue = reader.text_or_name("the name of a queue")?.value;
    reader.expect(&["PAYLOAD"])?;
    let message = payload(reader)?.value();
    let (mut workspace, mut priority, mut awaits, mut adaptive) = (None, None, false, None);
    loop {
        if workspace.is_none() && reader.eat(&["WORKSPACE"]) {
            workspace = Some(reader.text_or_name("a workspace")?.value);
        // A clause of the job is written with `=`.
        } else if priority.is_none() && !reader.is_sign(1, &Token::Eq) && reader.eat(&["PRIORITY"])
        {
            priority = Some(reader.whole("a number from 0 to 9")?.value);
        } else if adaptive.is_none() && reader.eat(&["ADAPT"]) {
            adaptive = Some(adapt(reader)?);
        } else if !awaits && reader.eat(&["AWAIT"]) {
            awaits = true;
        } else {
            let workspace = workspace.unwrap_or_default();
            return Ok(ActionClause::Send {
                queue,
                message,
                workspace,
                priority,
                awaits,
                adaptive,
            });
        }
    }
}

/// `DEPTH | AGE n FROM duration TO duration`
fn adapt(reader: &mut Reader<'_>) -> Result<AdaptiveInterval> {
    let words = [("DEPTH", QueueMetric::Depth), ("AGE", QueueMetric::Age)];
    let metric = reader.one_of(&words)?.value;
    let target = reader.decimal("a number of messages or seconds")?.value;
    reader.expect(&["FROM"])?;
    let min_seconds = reader.duration()?.value.as_secs_f64();
    reader.expect(&["TO"])?;
    let max_seconds = reader.duration()?.value.as_secs_f64();
    Ok(AdaptiveInterval { metric, target, min_seconds, max_seconds })
}

/// The payload of a message: `'text' | JSON 'json'`. A text that is a JSON object or array is that,
/// any other text is a JSON string.
pub(crate) fn payload(reader: &mut Reader<'_>) -> Result<RawJson> {
    if reader.eat(&["JSON"]) {
        return json(reader);
    }
    let text = reader.text("a text in quotes or JSON 'json'")?.value;
    Ok(match (structure_of(&text), RawJson::from_text(&text)) {
        (Some(_), Ok(json)) => json,
        _ => Value::String(text).into(),
    })
}

/// The JSON object or array that a text is.
pub(crate) fn structure_of(text: &str) -> Option<Value> {
    let json: Value = serde_json::from_str(text).ok()?;
    (json.is_object() || json.is_array()).then_some(json)
}

fn backup(reader: &mut Reader<'_>) -> Result<ActionClause> {
    reader.eat(&["CLUSTER"]);
    reader.expect(&["TO"])?;
    let target = reader.text_or_name("a target of backups")?.value;
    let keep = match reader.eat(&["KEEP"]) {
        true => Some(reader.whole("how many backups stay")?.value),
        false => None,
    };
    let outputs = !reader.eat(&["WITHOUT", "OUTPUTS"]);
    let artifacts = reader.eat(&["WITH", "ARTIFACTS"]);
    Ok(ActionClause::Backup { target, keep, outputs, artifacts })
}
