//! A cursor over the lexemes of one statement. Its errors have the position, the expected input,
//! and a suggestion.

use sqlparser::tokenizer::Token;

use crate::lex::{Lexeme, placeholder};
use crate::syntax::{Result, SyntaxError, nearest};

mod value;

/// A position in a statement.
pub(crate) struct Reader<'a> {
    text: &'a str,
    lexemes: &'a [Lexeme],
    next: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, lexemes: &'a [Lexeme]) -> Self {
        Reader { text, lexemes, next: 0 }
    }

    fn peek(&self) -> Option<&'a Lexeme> {
        self.lexemes.get(self.next)
    }

    /// Whether the end of the statement is reached.
    pub(crate) fn is_done(&self) -> bool {
        self.peek().is_none()
    }

    /// The byte at which the next lexeme begins, or the end of the statement.
    pub(crate) fn at(&self) -> usize {
        match self.peek() {
            Some(lexeme) => lexeme.place.start,
            None => self.lexemes.last().map_or(0, |lexeme| lexeme.place.end),
        }
    }

    /// Consumes the rest of the statement and returns its text.
    pub(crate) fn rest(&mut self) -> &'a str {
        let from = self.at();
        self.next = self.lexemes.len();
        &self.text[from..self.at()]
    }

    /// A reader `count` lexemes ahead.
    pub(crate) fn ahead(&self, count: usize) -> Reader<'a> {
        Reader { next: (self.next + count).min(self.lexemes.len()), ..*self }
    }

    /// The remaining lexemes.
    pub(crate) fn lexemes(&self) -> &'a [Lexeme] {
        &self.lexemes[self.next..]
    }

    /// Consumes `count` lexemes and returns their text.
    pub(crate) fn skip(&mut self, count: usize) -> &'a str {
        let from = self.at();
        self.next = (self.next + count).min(self.lexemes.len());
        let to = self.lexemes[..self.next].last().map_or(from, |lexeme| lexeme.place.end);
        self.text.get(from..to).unwrap_or_default()
    }

    /// The unquoted word after `ahead` lexemes.
    pub(crate) fn word_at(&self, ahead: usize) -> Option<&'a str> {
        let lexeme = self.lexemes.get(self.next + ahead)?;
        match &lexeme.token {
            Token::Word(word) if word.quote_style.is_none() => Some(word.value.as_str()),
            _ => None,
        }
    }

    /// Whether these words come next.
    pub(crate) fn is(&self, words: &[&str]) -> bool {
        let same = |(i, word): (usize, &&str)| {
            self.word_at(i).is_some_and(|next| next.eq_ignore_ascii_case(word))
        };
        words.iter().enumerate().all(same)
    }

    /// Consumes these words if they come next.
    pub(crate) fn eat(&mut self, words: &[&str]) -> bool {
        let is_next = self.is(words);
        if is_next {
            self.next += words.len();
        }
        is_next
    }

    /// Consumes these words, or fails.
    pub(crate) fn expect(&mut self, words: &[&str]) -> Result<()> {
        for word in words {
            if !self.eat(&[word]) {
                let text = words.join(" ");
                return Err(self.unexpected_word(&text, [*word]));
            }
        }
        Ok(())
    }

    /// Consumes a symbol if it comes next.
    pub(crate) fn eat_sign(&mut self, sign: &Token) -> bool {
        let is_next = self.peek().is_some_and(|lexeme| lexeme.token == *sign);
        if is_next {
            self.next += 1;
        }
        is_next
    }

    /// Whether a symbol comes after `ahead` lexemes.
    pub(crate) fn is_sign(&self, ahead: usize, sign: &Token) -> bool {
        self.lexemes.get(self.next + ahead).is_some_and(|lexeme| lexeme.token == *sign)
    }

    /// Consumes a symbol, or fails.
    pub(crate) fn expect_sign(&mut self, sign: &Token) -> Result<()> {
        if self.eat_sign(sign) { Ok(()) } else { Err(self.unexpected(&sign.to_string())) }
    }

    /// Fails unless the end of the statement is reached.
    pub(crate) fn expect_end(&self) -> Result<()> {
        if self.is_done() { Ok(()) } else { Err(self.unexpected("the end of the statement")) }
    }

    /// The error for an unexpected lexeme.
    pub(crate) fn unexpected(&self, expected: &str) -> SyntaxError {
        let message = match self.peek() {
            Some(lexeme) => {
                let written = &self.text[lexeme.place.clone()];
                let shown: String = written.chars().take(40).collect();
                let more = if shown.len() < written.len() { "…" } else { "" };
                format!("syntax error at or near \"{shown}{more}\": expected {expected}")
            }
            None => format!("syntax error at the end of the statement: expected {expected}"),
        };
        SyntaxError::new(self.at(), message)
    }

    /// The error for an unexpected word, with a suggestion from known words.
    pub(crate) fn unexpected_word<'w>(
        &self,
        expected: &str,
        known: impl IntoIterator<Item = &'w str>,
    ) -> SyntaxError {
        let error = self.unexpected(expected);
        match self.word_at(0).and_then(|word| nearest(word, known)) {
            Some(near) => error.with_hint(format!("Perhaps you meant {near}.")),
            None => error,
        }
    }

    fn take(&mut self) -> Option<&'a Lexeme> {
        let lexeme = self.peek()?;
        self.next += 1;
        Some(lexeme)
    }

    /// Whether a placeholder comes next.
    pub(crate) fn is_placeholder(&self) -> bool {
        self.peek().is_some_and(|lexeme| placeholder(&lexeme.token).is_some())
    }

    /// Consumes a placeholder if it comes next: its value is not known yet.
    fn eat_placeholder(&mut self) -> bool {
        let is_next = self.is_placeholder();
        if is_next {
            self.next += 1;
        }
        is_next
    }

    /// A list separated by commas.
    pub(crate) fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut list = vec![read(self)?];
        while self.eat_sign(&Token::Comma) {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// A list in parentheses; `()` is the empty list.
    pub(crate) fn in_parentheses<T>(
        &mut self,
        read: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.expect_sign(&Token::LParen)?;
        if self.eat_sign(&Token::RParen) {
            return Ok(Vec::new());
        }
        let list = self.list(read)?;
        if !self.eat_sign(&Token::RParen) {
            return Err(self.unexpected(", or )"));
        }
        Ok(list)
    }
}
