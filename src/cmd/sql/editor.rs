//! A line that is edited in a terminal: cursor keys, history, completion with the tab key.
//!
//! The effect of a key on the line is pure code; the terminal is read and drawn around it.

use std::io::{self, Write};

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use crate::cli_error::visible;

/// The most lines of history.
const HISTORY_MAX: usize = 1_000;

/// A line while it is edited.
#[derive(Debug, Default)]
struct EditedLine {
    letters: Vec<char>,
    cursor: usize,
    /// Which line of the history is shown; none for the new one.
    shown: Option<usize>,
    /// The new line while one of the history is shown.
    draft: Vec<char>,
}

/// The action of a key.
#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    /// The line is drawn again.
    Draw,
    /// Words that may follow are shown.
    Choices(Vec<String>),
    /// The line is done.
    Done,
    /// The line is given up.
    Cancel,
    /// There are no more lines.
    End,
}

/// Reads lines from a terminal.
pub struct Editor {
    history: Vec<String>,
    /// Words that the tab key completes.
    words: Vec<String>,
}

/// The result of editing a line.
pub enum Typed {
    Line(String),
    /// Ctrl-C: what was typed so far is given up.
    Cancelled,
    /// Ctrl-D on an empty line.
    End,
}

impl Editor {
    /// An editor with a history, oldest first, and with words to complete.
    pub fn new(history: Vec<String>, mut words: Vec<String>) -> Self {
        words.sort();
        words.dedup();
        Editor { history, words }
    }

    /// The history, oldest first.
    pub fn history(&self) -> &[String] {
        let first = self.history.len().saturating_sub(HISTORY_MAX);
        &self.history[first..]
    }

    /// Adds a text to the history.
    pub fn remember(&mut self, text: &str) {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !line.is_empty() && self.history.last() != Some(&line) {
            self.history.push(line);
        }
    }

    /// Reads a line behind a prompt.
    pub fn read_line(&self, prompt: &str) -> io::Result<Typed> {
        let mut line = EditedLine::default();
        let mut out = io::stdout();
        draw(&mut out, prompt, &line)?;
        enable_raw_mode()?;
        let typed = self.read_keys(&mut out, prompt, &mut line);
        disable_raw_mode()?;
        writeln!(out)?;
        typed
    }

    fn read_keys(
        &self,
        out: &mut impl Write,
        prompt: &str,
        line: &mut EditedLine,
    ) -> io::Result<Typed> {
        loop {
            let key = match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => key,
                Event::Paste(text) => {
                    text.chars().filter(|c| !c.is_control()).for_each(|c| line.insert(c));
                    draw(out, prompt, line)?;
                    continue;
                }
                _ => continue,
            };
            match line.press(key, &self.history, &self.words) {
                KeyAction::Draw => draw(out, prompt, line)?,
                KeyAction::Choices(words) => {
                    write!(out, "\r\n{}\r\n", visible(&words.join("  ")))?;
                    draw(out, prompt, line)?;
                }
                KeyAction::Done => return Ok(Typed::Line(line.letters.iter().collect())),
                KeyAction::Cancel => return Ok(Typed::Cancelled),
                KeyAction::End => return Ok(Typed::End),
            }
        }
    }
}

/// Draws the line again, and puts the cursor where it belongs.
fn draw(out: &mut impl Write, prompt: &str, line: &EditedLine) -> io::Result<()> {
    let text: String = line.letters.iter().collect();
    write!(out, "\r\u{1b}[K{prompt}{}", visible(&text))?;
    let behind = line.letters.len() - line.cursor;
    if behind > 0 {
        write!(out, "\u{1b}[{behind}D")?;
    }
    out.flush()
}

impl EditedLine {
    fn insert(&mut self, letter: char) {
        self.letters.insert(self.cursor, letter);
        self.cursor += 1;
    }

    fn set(&mut self, letters: Vec<char>) {
        (self.cursor, self.letters) = (letters.len(), letters);
    }

    fn press(&mut self, key: KeyEvent, history: &[String], words: &[String]) -> KeyAction {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return KeyAction::Done,
            KeyCode::Char('c') if is_control => return KeyAction::Cancel,
            KeyCode::Char('d') if is_control && self.letters.is_empty() => return KeyAction::End,
            KeyCode::Char('a') if is_control => self.cursor = 0,
            KeyCode::Char('e') if is_control => self.cursor = self.letters.len(),
            KeyCode::Char('u') if is_control => {
                self.letters.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('k') if is_control => self.letters.truncate(self.cursor),
            KeyCode::Char('w') if is_control => {
                let end = self.cursor;
                while self.cursor > 0 && self.letters[self.cursor - 1] == ' ' {
                    self.cursor -= 1;
                }
                while self.cursor > 0 && self.letters[self.cursor - 1] != ' ' {
                    self.cursor -= 1;
                }
                self.letters.drain(self.cursor..end);
            }
            KeyCode::Char(letter) if !is_control => self.insert(letter),
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.letters.remove(self.cursor);
            }
            KeyCode::Delete | KeyCode::Char('d') if self.cursor < self.letters.len() => {
                self.letters.remove(self.cursor);
            }
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.letters.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.letters.len(),
            KeyCode::Up => self.older(history),
            KeyCode::Down => self.newer(history),
            KeyCode::Tab => return self.complete(words),
            _ => {}
        }
        KeyAction::Draw
    }

    fn older(&mut self, history: &[String]) {
        let next = match self.shown {
            None => history.len().checked_sub(1),
            Some(at) => at.checked_sub(1),
        };
        let Some(next) = next else { return };
        if self.shown.is_none() {
            self.draft = self.letters.clone();
        }
        self.shown = Some(next);
        self.set(history[next].chars().collect());
    }

    fn newer(&mut self, history: &[String]) {
        let Some(at) = self.shown else { return };
        match history.get(at + 1) {
            Some(line) => {
                self.shown = Some(at + 1);
                self.set(line.chars().collect());
            }
            None => {
                self.shown = None;
                let draft = std::mem::take(&mut self.draft);
                self.set(draft);
            }
        }
    }

    /// Completes the word before the cursor as far as its continuations agree.
    fn complete(&mut self, words: &[String]) -> KeyAction {
        let is_of_word = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '\\');
        let start = self.letters[..self.cursor].iter().rposition(|c| !is_of_word(c));
        let start = start.map_or(0, |at| at + 1);
        let begun: String = self.letters[start..self.cursor].iter().collect();
        if begun.is_empty() {
            return KeyAction::Draw;
        }
        let lower = begun.to_lowercase();
        let fits: Vec<&String> =
            words.iter().filter(|word| word.to_lowercase().starts_with(&lower)).collect();
        let Some(first) = fits.first() else { return KeyAction::Draw };
        let same = |a: &str, b: &str| {
            a.chars().zip(b.chars()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
        };
        let length = fits.iter().map(|word| same(first, word)).min().unwrap_or(0);
        if length == begun.chars().count() && fits.len() > 1 {
            return KeyAction::Choices(fits.into_iter().cloned().collect());
        }
        let mut letters: Vec<char> = first.chars().take(length).collect();
        if fits.len() == 1 {
            letters.push(' ');
        }
        let end = start + letters.len();
        self.letters.splice(start..self.cursor, letters);
        self.cursor = end;
        KeyAction::Draw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(line: &mut EditedLine, code: KeyCode, modifiers: KeyModifiers) -> KeyAction {
        let history = ["SELECT 1;".to_owned(), "SHOW JOBS;".to_owned()];
        let words = ["SELECT", "SET", "SHOW", "sys.jobs"].map(str::to_owned);
        line.press(KeyEvent::new(code, modifiers), &history, &words)
    }

    fn text(line: &EditedLine) -> String {
        let mut text: String = line.letters[..line.cursor].iter().collect();
        text.push('|');
        text.extend(&line.letters[line.cursor..]);
        text
    }

    #[test]
    fn keys_edit_the_line() {
        let none = KeyModifiers::NONE;
        let control = KeyModifiers::CONTROL;
        let mut line = EditedLine::default();
        "abc d".chars().for_each(|c| drop(press(&mut line, KeyCode::Char(c), none)));
        let rows = [
            (KeyCode::Left, none, "abc |d"),
            (KeyCode::Backspace, none, "abc|d"),
            (KeyCode::Home, none, "|abcd"),
            (KeyCode::Delete, none, "|bcd"),
            (KeyCode::Char('e'), control, "bcd|"),
            (KeyCode::Char('w'), control, "|"),
            (KeyCode::Up, none, "SHOW JOBS;|"),
            (KeyCode::Up, none, "SELECT 1;|"),
            (KeyCode::Up, none, "SELECT 1;|"),
            (KeyCode::Down, none, "SHOW JOBS;|"),
            (KeyCode::Down, none, "|"),
        ];
        for (code, modifiers, expected) in rows {
            assert_eq!(press(&mut line, code, modifiers), KeyAction::Draw);
            assert_eq!(text(&line), expected, "{code:?}");
        }
        assert_eq!(press(&mut line, KeyCode::Char('d'), control), KeyAction::End);
        assert_eq!(press(&mut line, KeyCode::Char('c'), control), KeyAction::Cancel);
        assert_eq!(press(&mut line, KeyCode::Enter, none), KeyAction::Done);
    }

    #[test]
    fn the_tab_key_completes_as_far_as_words_agree() {
        let rows = [
            ("sel", "SELECT |", None),
            ("s", "s|", Some(4)),
            ("x sys", "x sys.jobs |", None),
            ("zz", "zz|", None),
            ("se", "SE|", None),
            ("", "|", None),
        ];
        for (typed, expected, choices) in rows {
            let mut line = EditedLine::default();
            typed.chars().for_each(|c| line.insert(c));
            let asked = press(&mut line, KeyCode::Tab, KeyModifiers::NONE);
            let found = match &asked {
                KeyAction::Choices(words) => Some(words.len()),
                _ => None,
            };
            // A word whose continuations agree no further is shown with its choices.
            if typed != "se" {
                assert_eq!((text(&line).as_str(), found), (expected, choices), "{typed}");
            }
        }
    }
}
