//! Values: names, strings, numbers, durations, UUIDs.

use domain::schedule::parse_duration;
use jiff::SignedDuration;
use sqlparser::tokenizer::Token;
use uuid::Uuid;

use super::Reader;
use crate::lex::{Lexeme, placeholder};
use crate::literal::Literal;
use crate::name::folded;
use crate::statement::Spanned;
use crate::syntax::{Result, SyntaxError};

/// Units of time, for suggestions.
const UNITS: [&str; 4] = ["SECONDS", "MINUTES", "HOURS", "DAYS"];

impl<'a> Reader<'a> {
    /// A name: unquoted and folded to lower case, quoted, or the value of a placeholder.
    pub(crate) fn name(&mut self, what: &str) -> Result<Spanned<String>> {
        let at = self.at();
        let value = match self.peek() {
            Some(Lexeme { token: Token::Word(word), .. }) => match word.quote_style {
                Some(_) => word.value.clone(),
                None => folded(&word.value),
            },
            Some(Lexeme { token: Token::SingleQuotedString(text), is_bound: true, .. }) => {
                text.clone()
            }
            Some(lexeme) if placeholder(&lexeme.token).is_some() => String::new(),
            _ => return Err(self.unexpected(what)),
        };
        let is_plain = matches!(
            self.peek(),
            Some(Lexeme { token: Token::Word(word), .. }) if word.quote_style.is_none()
        );
        self.next += 1;
        if is_plain && self.is_sign(0, &Token::Minus) && self.at() == at + value.len() {
            return Err(self.hyphenated(at));
        }
        Ok(Spanned { value, at })
    }

    /// The error for a name with a hyphen and without quotes.
    fn hyphenated(&self, at: usize) -> SyntaxError {
        let rest = &self.text[at..];
        let is_end = |c: char| c.is_whitespace() || matches!(c, ';' | ',' | '(' | ')' | '"');
        let written = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        SyntaxError::new(at, format!("a name with a hyphen must be quoted: {written}"))
            .with_hint(format!("Quote the name: \"{written}\"."))
    }

    /// A name with dots: `public.refresh`. Quoted parts stay quoted.
    pub(crate) fn dotted_name(&mut self, what: &str) -> Result<Spanned<String>> {
        let mut name = self.name(what)?;
        while self.eat_sign(&Token::Period) {
            let part = self.name(what)?;
            name.value = format!("{}.{}", name.value, part.value);
        }
        Ok(name)
    }

    /// A name with dots as it was written, with its quotes.
    pub(crate) fn dotted(&mut self, what: &str) -> Result<&'a str> {
        let from = self.next;
        self.dotted_name(what)?;
        let count = self.next - from;
        self.next = from;
        Ok(self.skip(count))
    }

    /// A quoted string.
    pub(crate) fn text(&mut self, what: &str) -> Result<Spanned<String>> {
        let at = self.at();
        if self.eat_placeholder() {
            return Ok(Spanned { value: String::new(), at });
        }
        match self.peek() {
            Some(Lexeme { token: Token::SingleQuotedString(text), .. }) => {
                self.next += 1;
                Ok(Spanned { value: text.clone(), at })
            }
            Some(Lexeme { token: Token::Word(word), .. }) if word.quote_style == Some('"') => {
                Err(self.unexpected(what).with_hint("Write strings in single quotes."))
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// A string or an unquoted word, where both are allowed.
    pub(crate) fn text_or_name(&mut self, what: &str) -> Result<Spanned<String>> {
        match self.peek().map(|lexeme| &lexeme.token) {
            Some(Token::SingleQuotedString(_)) => self.text(what),
            _ => self.name(what),
        }
    }

    /// A whole number.
    pub(crate) fn whole<T: std::str::FromStr>(&mut self, what: &str) -> Result<Spanned<T>> {
        let at = self.at();
        let text = match self.peek().map(|lexeme| &lexeme.token) {
            Some(Token::Number(text, false)) => text.clone(),
            Some(token) if placeholder(token).is_some() => "1".to_owned(),
            _ => return Err(self.unexpected(what)),
        };
        let value = text.parse().map_err(|_| self.unexpected(what))?;
        self.next += 1;
        Ok(Spanned { value, at })
    }

    /// A decimal number.
    pub(crate) fn decimal(&mut self, what: &str) -> Result<Spanned<f64>> {
        self.whole(what)
    }

    /// A literal: string, number, TRUE, FALSE or NULL.
    pub(crate) fn literal(&mut self, what: &str) -> Result<Spanned<Literal>> {
        let at = self.at();
        if self.eat_placeholder() {
            return Ok(Spanned { value: Literal::Null, at });
        }
        let is_negative = self.is_sign(0, &Token::Minus) && self.is_number(1);
        if is_negative {
            self.next += 1;
        }
        let value = match self.take().map(|lexeme| &lexeme.token) {
            Some(Token::Number(digits, false)) => {
                Literal::Number(if is_negative { format!("-{digits}") } else { digits.clone() })
            }
            Some(Token::SingleQuotedString(text)) => Literal::Text(text.clone()),
            Some(Token::Word(word)) if word.quote_style.is_none() => {
                match word.value.to_ascii_uppercase().as_str() {
                    "TRUE" => Literal::Bool(true),
                    "FALSE" => Literal::Bool(false),
                    "NULL" => Literal::Null,
                    _ => {
                        self.next -= 1;
                        return Err(self.unexpected(what));
                    }
                }
            }
            taken => {
                self.next -= usize::from(taken.is_some());
                return Err(self.unexpected(what));
            }
        };
        Ok(Spanned { value, at })
    }

    fn is_number(&self, ahead: usize) -> bool {
        let lexeme = self.lexemes.get(self.next + ahead);
        matches!(lexeme.map(|lexeme| &lexeme.token), Some(Token::Number(_, false)))
    }

    /// One of these keywords.
    pub(crate) fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Result<Spanned<T>> {
        let at = self.at();
        let known = || words.iter().map(|(word, _)| *word);
        let found = words.iter().find(|(word, _)| self.is(&[word]));
        match found {
            Some((_, value)) => {
                self.next += 1;
                Ok(Spanned { value: *value, at })
            }
            None => {
                let expected = known().collect::<Vec<_>>().join(", ");
                let expected = match expected.rsplit_once(", ") {
                    Some((most, last)) => format!("{most} or {last}"),
                    None => expected,
                };
                Err(self.unexpected_word(&expected, known()))
            }
        }
    }

    /// NONE or NULL: the absence of a value.
    pub(crate) fn eat_none(&mut self) -> bool {
        self.eat(&["NONE"]) || self.eat(&["NULL"])
    }

    /// A duration: `90 SECONDS`, `1 HOUR 30 MINUTES`, `90s`, `'1h 30m'`, `INTERVAL '1 day'`.
    pub(crate) fn duration(&mut self) -> Result<Spanned<SignedDuration>> {
        const WHAT: &str = "a duration, for example 90 SECONDS or '1h 30m'";
        self.eat(&["INTERVAL"]);
        let at = self.at();
        if self.eat_placeholder() {
            return Ok(Spanned { value: SignedDuration::from_secs(1), at });
        }
        let mut written = String::new();
        match self.peek().map(|lexeme| &lexeme.token) {
            Some(Token::SingleQuotedString(text)) => {
                written.push_str(text);
                self.next += 1;
            }
            Some(Token::Number(..)) => {
                while let Some(Token::Number(digits, _)) = self.peek().map(|it| &it.token) {
                    self.next += 1;
                    let is_unit = |unit: &&str| parse_duration(&format!("1 {unit}")).is_ok();
                    let Some(unit) = self.word_at(0).filter(is_unit) else {
                        let expected = "SECONDS, MINUTES, HOURS or DAYS";
                        return Err(self.unexpected_word(expected, UNITS));
                    };
                    self.next += 1;
                    written.push_str(&format!("{digits} {unit} "));
                }
            }
            _ => return Err(self.unexpected(WHAT)),
        }
        let value =
            parse_duration(&written).map_err(|error| SyntaxError::new(at, error.to_string()))?;
        Ok(Spanned { value, at })
    }

    /// A UUID, in quotes or bare.
    pub(crate) fn uuid(&mut self, what: &str) -> Result<Spanned<Uuid>> {
        let at = self.at();
        if self.eat_placeholder() {
            return Ok(Spanned { value: Uuid::nil(), at });
        }
        let from = self.next;
        let text = match self.take() {
            None => return Err(self.unexpected(what)),
            Some(Lexeme { token: Token::SingleQuotedString(text), .. }) => text.clone(),
            // Without quotes, the lexer splits it into adjacent lexemes.
            Some(first) => {
                let mut end = first.place.end;
                while let Some(lexeme) = self.peek().filter(|lexeme| lexeme.place.start == end) {
                    end = lexeme.place.end;
                    self.next += 1;
                }
                self.text[first.place.start..end].to_owned()
            }
        };
        match text.parse() {
            Ok(value) => Ok(Spanned { value, at }),
            Err(_) => {
                self.next = from;
                Err(self.unexpected(what).with_hint("A UUID has 32 hexadecimal digits."))
            }
        }
    }
}
