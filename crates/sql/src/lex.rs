//! Text to lexemes: sqlparser's tokens without white space and comments, each with its bytes.

use std::ops::Range;

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Token, Tokenizer};

use crate::literal::Literal;
use crate::syntax::{Result, SyntaxError};

/// A token and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) place: Range<usize>,
    /// Whether it was handed in for a placeholder. It is a value then, whatever its letters say.
    pub(crate) is_bound: bool,
}

/// The lexemes of a text.
pub(crate) fn lex(text: &str) -> Result<Vec<Lexeme>> {
    if let Some(at) = text.find('\0') {
        return Err(SyntaxError::new(at, "a text cannot hold a zero byte"));
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
            // What stands between the dollars is exactly what was written.
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

/// Puts values in the place of `$1`, `$2`.
pub(crate) fn bind(lexemes: Vec<Lexeme>, values: &[Literal]) -> Result<Vec<Lexeme>> {
    let mut bound = Vec::with_capacity(lexemes.len());
    for lexeme in lexemes {
        let Some(number) = placeholder(&lexeme.token) else {
            bound.push(lexeme);
            continue;
        };
        let Some(value) = number.checked_sub(1).and_then(|number| values.get(number)) else {
            let text = format!("there is no value for ${number}");
            return Err(SyntaxError::new(lexeme.place.start, text));
        };
        let put = |token| Lexeme { token, place: lexeme.place.clone(), is_bound: true };
        match value {
            Literal::Null => bound.push(put(Token::make_word("NULL", None))),
            Literal::Bool(true) => bound.push(put(Token::make_word("TRUE", None))),
            Literal::Bool(false) => bound.push(put(Token::make_word("FALSE", None))),
            Literal::Text(text) => bound.push(put(Token::SingleQuotedString(text.clone()))),
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

/// What stands between `$tag$` and `$tag$`.
fn between_dollars(written: &str) -> &str {
    let tag = written[1..].find('$').map_or(written.len(), |end| end + 2);
    written.get(tag..written.len().saturating_sub(tag)).unwrap_or_default()
}

fn in_our_words(message: &str) -> String {
    let quoted = [
        ("Unterminated string literal", "a text in quotes does not end"),
        ("Unterminated encoded string literal", "a text in quotes does not end"),
        ("Unterminated dollar-quoted", "a text in dollar quotes does not end"),
        ("Expected close delimiter", "a name in double quotes does not end"),
        ("Unexpected EOF while in a multi-line comment", "a comment does not end"),
    ];
    let known = quoted.iter().find(|(theirs, _)| message.starts_with(theirs));
    known.map_or_else(|| format!("this cannot be read: {message}"), |(_, ours)| (*ours).to_owned())
}

/// Lines and columns to bytes, walking forward.
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

    /// The byte of a place at or after the last one.
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
