//! An error of the command line: a message, a caret under the offending bytes, and a hint.
//!
//! The error quotes the user's input, so every character that a terminal would act on, or that is
//! invisible, is escaped first.

use std::io::{self, Write};
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use domain::schedule::{CronError, ZoneError};

/// A longer text is refused for its length alone: there is nothing to point at.
const EXCERPT_BYTES_MAX: usize = 256;

/// One error, ready to be drawn.
#[derive(Debug)]
pub struct CliError {
    message: String,
    excerpt: Option<(String, Range<usize>)>,
    hint: Option<String>,
}

impl CliError {
    /// An error with a message of one line.
    pub fn new(message: impl Into<String>) -> Self {
        CliError { message: message.into(), excerpt: None, hint: None }
    }

    /// The error with the place that it is about in front.
    pub fn at(mut self, place: &str) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The message, one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn has_hint(&self) -> bool {
        self.hint.is_some()
    }

    /// Adds a hint with the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A cron expression that was refused.
    pub fn about_cron(text: &str, error: CronError) -> Self {
        let drawn = text.len() <= EXCERPT_BYTES_MAX;
        CliError {
            message: error.to_string(),
            excerpt: drawn.then(|| visible_span(text, error.span)),
            hint: error.hint,
        }
    }

    /// The error with the line of a text that it is about, and a caret under a character of the
    /// text, counted from 1.
    pub fn pointing(mut self, text: &str, letter: usize) -> Self {
        let at = text.char_indices().nth(letter.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
        let line = &text[start..end];
        if line.len() <= EXCERPT_BYTES_MAX {
            let width = line[at - start..].chars().next().map_or(0, char::len_utf8);
            self.excerpt = Some(visible_span(line, at - start..at - start + width));
        }
        self
    }

    /// A time zone that does not exist.
    pub fn about_zone(error: ZoneError) -> Self {
        let hint = match error.suggestion {
            Some(name) => format!("did you mean {name}?"),
            None => "zones have names like Europe/Berlin, America/New_York or UTC".to_owned(),
        };
        CliError::new(format!("{:?} is not a time zone", error.name)).hint(hint)
    }

    /// Prints the error on stderr, in colour when that is a terminal that wants it.
    pub fn print(&self) -> io::Result<()> {
        let mut err = anstream::stderr().lock();
        writeln!(err, "{}", self.draw(&Renderer::styled()))
    }

    fn draw(&self, renderer: &Renderer) -> String {
        let title = Level::ERROR.primary_title(visible(&self.message));
        let error = match &self.excerpt {
            Some((text, span)) => {
                let offending = AnnotationKind::Primary.span(span.clone());
                title.element(Snippet::source(text).line_numbering(false).annotation(offending))
            }
            None => Group::with_title(title),
        };
        let mut drawn = renderer.render(&[error]);
        if let Some(hint) = &self.hint {
            let hint = Level::HELP.with_name("hint").primary_title(visible(hint));
            drawn.push('\n');
            drawn.push_str(&renderer.render(&[Group::with_title(hint)]));
        }
        drawn
    }
}

impl std::fmt::Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.draw(&Renderer::plain()))
    }
}

/// The text with everything escaped that is not plainly visible.
pub fn visible(text: &str) -> String {
    visible_span(text, 0..0).0
}

/// The visible text, and where a span of the original ended up in it.
fn visible_span(text: &str, span: Range<usize>) -> (String, Range<usize>) {
    let mut shown = String::with_capacity(text.len());
    let (mut start, mut end) = (None, None);
    for (at, c) in text.char_indices() {
        if at + c.len_utf8() > span.start {
            start.get_or_insert(shown.len());
        }
        if at >= span.end {
            end.get_or_insert(shown.len());
        }
        match c {
            '\\' | '\'' | '"' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    let start = start.unwrap_or(shown.len());
    let end = end.unwrap_or(shown.len()).max(start);
    (shown, start..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::schedule::Cron;

    #[test]
    fn a_span_follows_its_bytes_through_escaping() {
        let rows: &[(&str, Range<usize>, &str, &str)] = &[
            ("61 * * * *", 0..2, "61 * * * *", "61"),
            ("* * * * *", 9..9, "* * * * *", ""),
            ("* * * * *", 20..30, "* * * * *", ""),
            ("\t61 *", 1..3, "\\t61 *", "61"),
            ("0 \u{1b}[2J *", 2..3, "0 \\u{1b}[2J *", "\\u{1b}"),
            ("0\u{a0}1", 1..3, "0\\u{a0}1", "\\u{a0}"),
            // Inside a character: the whole of it.
            ("0\u{a0}1", 2..3, "0\\u{a0}1", "\\u{a0}"),
            ("é * *", 3..4, "é * *", "*"),
            ("", 0..0, "", ""),
        ];
        for (text, span, shown, offending) in rows {
            let (got, at) = visible_span(text, span.clone());
            assert_eq!(got, *shown, "{text:?}");
            assert_eq!(&got[at], *offending, "{text:?} {span:?}");
        }
    }

    #[test]
    fn an_error_has_a_caret_and_a_hint() {
        let text = "0 0 * * MOM";
        let error = text.parse::<Cron>().unwrap_err();
        assert_eq!(
            CliError::about_cron(text, error).draw(&Renderer::plain()),
            "\
error: day of week: MOM is not a value of this field
 |
 | 0 0 * * MOM
 |         ^^^
hint: did you mean MON?"
        );
    }

    #[test]
    fn a_letter_of_a_longer_text_is_pointed_at() {
        let text = "SHOW JOBS;\nSHOW \u{e4} JOPS;\n";
        let drawn = CliError::new("there is no JOPS").pointing(text, 19).draw(&Renderer::plain());
        let expected = "error: there is no JOPS\n |\n | SHOW \u{e4} JOPS;\n |        ^";
        assert_eq!(drawn, expected);
        let end = CliError::new("more is needed").pointing("SHOW", 5).draw(&Renderer::plain());
        assert_eq!(end, "error: more is needed\n |\n | SHOW\n |     ^");
    }

    #[test]
    fn nothing_raw_reaches_the_terminal() {
        let text = "\u{1b}]0;x\u{7} * \u{202e}* * *\u{9b}2J";
        let error = text.parse::<Cron>().unwrap_err();
        let drawn = CliError::about_cron(text, error).draw(&Renderer::plain());
        assert!(drawn.chars().all(|c| c == '\n' || !c.is_control()), "{drawn:?}");
        assert!(!drawn.contains('\u{202e}'), "{drawn:?}");
    }
}
