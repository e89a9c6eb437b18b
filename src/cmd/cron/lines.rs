//! Lines of any input in bounded memory.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// The longest line that is kept. A request needs a few hundred bytes.
pub(super) const LINE_BYTES_MAX: usize = 64 * 1024;

/// One line of the input, without its line feed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InputLine<'a> {
    /// The bytes of the line, which need not be text.
    Bytes(&'a [u8]),
    /// The line had more than [`LINE_BYTES_MAX`] bytes, which were read and dropped.
    TooLong,
}

/// Reads lines, and says when the next one has not arrived yet.
pub(super) struct InputLines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> InputLines<R> {
    /// Reads lines from `input`.
    pub(super) fn new(input: R) -> Self {
        InputLines { input: BufReader::with_capacity(LINE_BYTES_MAX, input), line: Vec::new() }
    }

    /// The next line, or none at the end of the input. Calls `before_wait` whenever everything that
    /// arrived is used up, so that the caller can flush its answers before waiting.
    pub(super) fn next(
        &mut self,
        mut before_wait: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Option<InputLine<'_>>> {
        self.line.clear();
        let mut length = 0;
        loop {
            if self.input.buffer().is_empty() {
                before_wait()?;
            }
            let arrived = match self.input.fill_buf() {
                Ok(arrived) => arrived,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if arrived.is_empty() && length == 0 {
                return Ok(None);
            }
            let (part, end) = match arrived.iter().position(|byte| *byte == b'\n') {
                Some(at) => (&arrived[..at], Some(at + 1)),
                None => (arrived, None),
            };
            length += part.len();
            if length <= LINE_BYTES_MAX {
                self.line.extend_from_slice(part);
            }
            let is_end = end.is_some() || arrived.is_empty();
            let used = end.unwrap_or(part.len());
            self.input.consume(used);
            if is_end {
                let too_long = length > LINE_BYTES_MAX;
                return Ok(Some(if too_long {
                    InputLine::TooLong
                } else {
                    InputLine::Bytes(&self.line)
                }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out its parts one `read` at a time, as a pipe does.
    struct Pipe(Vec<Vec<u8>>);

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(&part);
            Ok(part.len())
        }
    }

    /// The lines read from `parts`: each line, `…` for one that is too long, `|` for each wait.
    fn read(parts: &[&[u8]]) -> String {
        let mut lines = InputLines::new(Pipe(parts.iter().map(|part| part.to_vec()).collect()));
        let mut log = String::new();
        loop {
            let mut waits = String::new();
            let line = lines.next(|| {
                waits.push('|');
                Ok(())
            });
            let line = match line.unwrap() {
                None => return log + &waits,
                Some(InputLine::TooLong) => "…".to_owned(),
                Some(InputLine::Bytes(bytes)) => format!("<{}>", bytes.escape_ascii()),
            };
            log += &waits;
            log += &line;
        }
    }

    #[test]
    fn lines_come_whole_and_waits_are_announced() {
        let rows: &[(&[&[u8]], &str)] = &[
            (&[], "|"),
            (&[b"a\nb\n"], "|<a><b>|"),
            (&[b"a\n", b"b\n"], "|<a>|<b>|"),
            (&[b"a", b"b\nc", b"\n"], "||<ab>|<c>|"),
            (&[b"no end"], "||<no end>|"),
            (&[b"\n\n"], "|<><>|"),
            (&[b"\xff\x00\r\n"], "|<\\xff\\x00\\r>|"),
        ];
        for (parts, expected) in rows {
            assert_eq!(read(parts), *expected, "{parts:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_dropped_and_the_next_one_is_read() {
        let longest = vec![b'x'; LINE_BYTES_MAX];
        let kept = format!("|<{}>|<next>|", "x".repeat(LINE_BYTES_MAX));
        assert_eq!(
            read(&[&longest, b"\nnext\n"]),
            kept.replacen(">|<", "><", 1).replacen("|<", "||<", 1)
        );
        assert_eq!(read(&[&longest, b"x\nnext\n"]), "||…<next>|");
        assert_eq!(read(&[&longest, &longest, &longest, b"\nnext\n"]), "||||…<next>|");
        assert_eq!(read(&[&longest, b"x"]), "|||…|");
    }

    #[test]
    fn a_long_line_does_not_fill_the_memory() {
        let parts = vec![vec![b'x'; LINE_BYTES_MAX]; 64];
        let mut lines = InputLines::new(Pipe(parts));
        assert_eq!(lines.next(|| Ok(())).unwrap(), Some(InputLine::TooLong));
        assert!(lines.line.capacity() <= 2 * LINE_BYTES_MAX);
    }
}
