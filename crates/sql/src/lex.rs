//! The lexer: sqlparser's tokens without white space and comments, each with its byte range.

use std::ops::Range;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::literal::Literal;
use crate::syntax::{Result, SyntaxError};

/// A token and its position.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) place: Range<usize>,
    /// Whether it is the value of a placeholder. It is then always a value and never a keyword.
    pub(crate) is_bound: bool,
}

/// The lexemes of a text.
pub(crate) fn lex(text: &str) -> Result<Vec<Lexeme>> {
    if let Some(at) = text.find('\0') {
        return Err(SyntaxError::new(at, "a statement cannot contain a zero byte"));
    }
    let dialect = PostgreSqlDialect {};
    let mut walk = Walk::new(text);
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|error| {
        let at = Walk::new(text).byte(error.location);
        SyntaxError::new(at, in_our_words(&error.message))
    })?;
    let mut lexemes = Vec::new();
    for token in tokens {
        let place = walk.byte(token.span.start)..walk.byte(token.span.end);
        let token = match token.token {
            Token::Whitespace(_) | Token::EOF => continue,
            // The text between the dollar quotes is taken verbatim.
            Token::DollarQuotedString(_) => {
                Token::SingleQuotedString(between_dollars(&text[place.clone()]).to_owned())
            }
            Token::EscapedStringLiteral(value)
            | Token::UnicodeStringLiteral(value)
            | Token::NationalStringLiteral(value) => Token::SingleQuotedString(value),
            token => token,
        };
        lexemes.push(Lexeme { token, place, is_bound: false });
    }
    Ok(lexemes)
}

/// Replaces `$1`, `$2` by values.
pub(crate) fn bind(lexemes: Vec<Lexeme>, values: &[Literal]) -> Result<Vec<Lexeme>> {
    let mut bound = Vec::with_capacity(lexemes.len());
    for lexeme in lexemes {
        let Some(number) = placeholder(&lexeme.token) else {
            bound.push(lexeme);
            continue;
        };
        let Some(value) = number.checked_sub(1).and_then(|number| values.get(number)) else {
            let text = format!("no value for parameter ${number}");
            return Err(SyntaxError::new(lexeme.place.start, text));
        };
        let put = |token| Lexeme { token, place: lexeme.place.clone(), is_bound: true };
        match value {
            Literal::Null => bound.push(put(Token::make_word("NULL", None))),
            Literal::Bool(true) => bound.push(put(Token::make_word("TRUE", None))),
            Literal::Bool(false) => bound.push(put(Token::make_word("FALSE", None))),
            Literal::Text(text) => bound.push(put(Token::SingleQuotedString(text.clone()))),
            Literal::Json(value) => {
                bound.push(put(Token::SingleQuotedString(value.to_string())));
            }
            Literal::Number(text) => {
                let digits = text.strip_prefix('-');
                if digits.is_some() {
                    bound.push(put(Token::Minus));
                }
                let digits = digits.unwrap_or(text).to_owned();
                bound.push(put(Token::Number(digits, false)));
            }
        }
    }
    Ok(bound)
}

/// The number of a placeholder.
pub(crate) fn placeholder(token: &Token) -> Option<usize> {
    match token {
        Token::Placeholder(name) => name.strip_prefix('$')?.parse().ok(),
        _ => None,
    }
}

/// The text between `$tag$` and `$tag$`.
fn between_dollars(written: &str) -> &str {
    let tag = written[1..].find('$').map_or(written.len(), |end| end + 2);
    written.get(tag..written.len().saturating_sub(tag)).unwrap_or_default()
}

fn in_our_words(message: &str) -> String {
    let quoted = [
        ("Unterminated string literal", "unterminated quoted string"),
        ("Unterminated encoded string literal", "unterminated quoted string"),
        ("Unterminated dollar-quoted", "unterminated dollar-quoted string"),
        ("Expected close delimiter", "unterminated quoted identifier"),
        ("Unexpected EOF while in a multi-line comment", "unterminated comment"),
    ];
    let known = quoted.iter().find(|(theirs, _)| message.starts_with(theirs));
    known.map_or_else(|| format!("syntax error: {message}"), |(_, ours)| (*ours).to_owned())
}

/// Converts lines and columns to byte positions, in ascending order.
struct Walk<'a> {
    text: &'a str,
    byte: usize,
    line: u64,
    column: u64,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Self {
        Walk { text, byte: 0, line: 1, column: 1 }
    }

    /// The byte of a location at or after the last one.
    fn byte(&mut self, place: Location) -> usize {
        for letter in self.text[self.byte..].chars() {
            if (self.line, self.column) >= (place.line, place.column) {
                break;
            }
            self.byte += letter.len_utf8();
            if letter == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
        self.byte
    }
}
