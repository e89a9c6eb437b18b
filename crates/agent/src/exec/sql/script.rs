//! Reads the text of a job for PostgreSQL: where its statements end, and which parameters they
//! name.
//!
//! It knows the server's quotes and comments and nothing of its grammar: every byte that is not a
//! parameter reaches the server as it was written. A parser would refuse unknown syntax.

use crate::secrets::OPEN;

/// The most words that are kept of a statement.
const WORDS_MAX: usize = 64;

/// One statement.
#[derive(Clone, Debug, Default)]
pub(super) struct Statement {
    /// Its text, with `$1` and so on in place of the parameters.
    pub text: String,
    /// The names of the parameters; a secret by its whole reference.
    pub parameters: Vec<String>,
    /// Its first words in upper case, without those in parentheses.
    pub words: Vec<String>,
    /// Where pieces begin, in the text and in the script.
    anchors: Vec<(usize, usize)>,
}

/// A positional parameter (`$1`), which scripts cannot have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Positional(pub String);

impl Statement {
    /// A statement of our own, without parameters.
    pub fn own(text: impl Into<String>) -> Self {
        Statement { text: text.into(), ..Statement::default() }
    }

    /// The line and the column in the script of a position, both from 1. The server counts
    /// characters from 1.
    pub fn place(&self, script: &str, position: u32) -> Option<(usize, usize)> {
        let (at, _) = self.text.char_indices().nth((position as usize).checked_sub(1)?)?;
        let (begin, origin) = self.anchors.iter().rev().find(|(begin, _)| *begin <= at)?;
        let before = script.get(..origin + (at - begin))?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Some((line, column))
    }

    /// Whether its words begin so.
    pub fn begins(&self, words: &[&str]) -> bool {
        words.len() <= self.words.len() && words.iter().zip(&self.words).all(|(a, b)| a == b)
    }

    /// The place of a parameter, from 1; a name keeps its place.
    fn parameter(&mut self, name: &str) -> usize {
        match self.parameters.iter().position(|known| known == name) {
            Some(at) => at + 1,
            None => {
                self.parameters.push(name.to_owned());
                self.parameters.len()
            }
        }
    }
}

/// The statements of a script.
pub(super) fn read(script: &str) -> Result<Vec<Statement>, Positional> {
    let mut reader =
        Reader { script, at: 0, statement: None, done: Vec::new(), depth: 0, atomic: 0 };
    while reader.at < script.len() {
        reader.step()?;
    }
    reader.finish();
    Ok(reader.done)
}

struct Reader<'s> {
    script: &'s str,
    at: usize,
    statement: Option<Statement>,
    done: Vec<Statement>,
    /// Open parentheses and brackets.
    depth: u32,
    /// Open `BEGIN ATOMIC` and `CASE` in the body of a function.
    atomic: u32,
}

impl Reader<'_> {
    /// Reads a token.
    fn step(&mut self) -> Result<(), Positional> {
        let bytes = &self.script.as_bytes()[self.at..];
        let next = bytes.get(1).copied();
        match bytes[0] {
            b if b.is_ascii_whitespace() => self.keep(1, false),
            b'-' if next == Some(b'-') => {
                let end = bytes.iter().position(|b| matches!(b, b'\n' | b'\r'));
                self.keep(end.unwrap_or(bytes.len()), false);
            }
            b'/' if next == Some(b'*') => self.keep(comment(bytes), false),
            b';' if self.depth == 0 && self.atomic == 0 => {
                self.at += 1;
                self.finish();
            }
            b'\'' | b'"' => self.keep(quoted(bytes, false), true),
            b'(' | b'[' => {
                self.depth += 1;
                self.keep(1, true);
            }
            b')' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.keep(1, true);
            }
            b'$' => return self.dollar(bytes),
            b':' if matches!(next, Some(b':' | b'=')) => self.keep(2, true),
            b':' if next.is_some_and(begins_name) && !self.is_glued() => {
                let length = name(&bytes[1..]);
                self.parameter(1 + length, self.at + 1);
            }
            b if b.is_ascii_digit() => self.keep(number(bytes), true),
            b if begins_name(b) => self.word(bytes),
            _ => self.keep(1, true),
        }
        Ok(())
    }

    /// Whether what stands directly before is a value: then a colon is part of a slice, `a[1:n]`,
    /// or of JSON, `'key':value`.
    fn is_glued(&self) -> bool {
        let before = self.at.checked_sub(1).map(|before| self.script.as_bytes()[before]);
        before.is_some_and(|b| begins_name(b) || b.is_ascii_digit() || b"'\"$)]".contains(&b))
    }

    /// A body in dollars, a parameter by number, or a secret.
    fn dollar(&mut self, bytes: &[u8]) -> Result<(), Positional> {
        if bytes.starts_with(OPEN.as_bytes()) {
            let end = bytes.iter().position(|b| *b == b'}').map_or(bytes.len(), |end| end + 1);
            self.parameter(end, self.at);
            return Ok(());
        }
        let digits = bytes[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            return Err(Positional(self.script[self.at..=self.at + digits].to_owned()));
        }
        let tag = 1 + name(&bytes[1..]);
        if bytes.get(tag) != Some(&b'$') {
            self.keep(1, true);
            return Ok(());
        }
        let mark = &self.script[self.at..=self.at + tag];
        let body = &self.script[self.at + mark.len()..];
        let end = body.find(mark).map_or(bytes.len(), |end| mark.len() + end + mark.len());
        self.keep(end, true);
        Ok(())
    }

    fn word(&mut self, bytes: &[u8]) {
        // A dollar may stand in a name, but not at its beginning.
        let length = bytes.iter().take_while(|b| is_of_name(**b) || **b == b'$').count();
        let word = self.script[self.at..self.at + length].to_ascii_uppercase();
        // E'…' is the one string in which a backslash counts.
        if word == "E" && bytes.get(1) == Some(&b'\'') {
            return self.keep(1 + quoted(&bytes[1..], true), true);
        }
        self.keep(length, true);
        let Some(statement) = &mut self.statement else { return };
        let is_routine = statement.words.first().is_some_and(|first| first == "CREATE")
            && statement.words.iter().any(|word| word == "FUNCTION" || word == "PROCEDURE");
        if is_routine {
            match word.as_str() {
                "ATOMIC" if statement.words.last().is_some_and(|last| last == "BEGIN") => {
                    self.atomic += 1;
                }
                "CASE" if self.atomic > 0 => self.atomic += 1,
                "END" => self.atomic = self.atomic.saturating_sub(1),
                _ => {}
            }
        }
        if self.depth == 0 && (statement.words.len() < WORDS_MAX || word == "BEGIN") {
            statement.words.push(word);
        }
    }

    /// Takes so many bytes as they are. Blanks do not begin a statement.
    fn keep(&mut self, length: usize, begins: bool) {
        let piece = &self.script[self.at..self.at + length];
        if begins || self.statement.is_some() {
            let statement = self.statement.get_or_insert_default();
            if statement.anchors.is_empty() {
                statement.anchors.push((0, self.at));
            }
            statement.text.push_str(piece);
        }
        self.at += length;
    }

    /// Takes so many bytes as a parameter, whose name begins at a place.
    fn parameter(&mut self, length: usize, name: usize) {
        let end = self.at + length;
        let statement = self.statement.get_or_insert_default();
        let number = statement.parameter(&self.script[name..end]);
        statement.anchors.push((statement.text.len(), self.at));
        statement.text.push_str(&format!("${number}"));
        statement.anchors.push((statement.text.len(), end));
        self.at = end;
    }

    fn finish(&mut self) {
        self.done.extend(self.statement.take());
        self.depth = 0;
        self.atomic = 0;
    }
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_of_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit()
}

/// The length of a name.
fn name(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(first) if begins_name(*first) => {
            bytes.iter().take_while(|byte| is_of_name(**byte)).count()
        }
        _ => 0,
    }
}

/// The length of a number, with the characters glued to it.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_of_name(**byte) || **byte == b'.').count()
}

/// The length of a string or a quoted name. A doubled quote ends one and begins the next, which
/// comes to the same.
fn quoted(bytes: &[u8], backslash: bool) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if backslash => at += 1,
            b if b == bytes[0] && backslash && bytes.get(at + 1) == Some(&b) => at += 1,
            b if b == bytes[0] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The length of a comment; comments may hold comments.
fn comment(bytes: &[u8]) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests;
