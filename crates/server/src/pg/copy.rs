//! COPY … TO STDOUT: rows as lines of text, or of CSV.

/// How rows are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style<'a> {
    /// CSV; PostgreSQL's text otherwise.
    pub(crate) csv: bool,
    /// The delimiter between two values.
    pub(crate) delimiter: char,
    /// The text that stands for NULL.
    pub(crate) null: &'a str,
}

impl Style<'_> {
    /// A line of these values.
    pub(crate) fn line(&self, values: impl Iterator<Item = Option<String>>) -> String {
        let mut line = String::new();
        for (place, value) in values.enumerate() {
            if place > 0 {
                line.push(self.delimiter);
            }
            match value {
                None => line.push_str(self.null),
                Some(value) if self.csv => self.put_quoted(&mut line, &value),
                Some(value) => self.put_escaped(&mut line, &value),
            }
        }
        line.push('\n');
        line
    }

    fn put_quoted(&self, line: &mut String, value: &str) {
        // A value that looks like NULL or like the end of data is quoted.
        let is_plain = value != self.null
            && value != "\\."
            && !value.contains([self.delimiter, '"', '\n', '\r']);
        if is_plain {
            line.push_str(value);
        } else {
            line.push('"');
            line.push_str(&value.replace('"', "\"\""));
            line.push('"');
        }
    }

    fn put_escaped(&self, line: &mut String, value: &str) {
        for letter in value.chars() {
            match letter {
                '\u{8}' => line.push_str("\\b"),
                '\u{c}' => line.push_str("\\f"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                '\u{b}' => line.push_str("\\v"),
                letter if letter == '\\' || letter == self.delimiter => {
                    line.push('\\');
                    line.push(letter);
                }
                letter => line.push(letter),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(style: Style<'_>, values: &[Option<&str>]) -> String {
        style.line(values.iter().map(|value| value.map(str::to_owned)))
    }

    #[test]
    fn text_is_escaped_and_csv_is_quoted() {
        let text = Style { csv: false, delimiter: '\t', null: "\\N" };
        let values = [Some("a\tb"), None, Some(""), Some("c\\d\ne"), Some("\\N")];
        assert_eq!(line(text, &values), "a\\tb\t\\N\t\tc\\\\d\\ne\t\\\\N\n");
        let csv = Style { csv: true, delimiter: ',', null: "" };
        let values = [Some("a,b"), None, Some(""), Some("say \"x\""), Some("l\nm"), Some("n;o")];
        assert_eq!(line(csv, &values), "\"a,b\",,\"\",\"say \"\"x\"\"\",\"l\nm\",n;o\n");
        let bars = Style { csv: false, delimiter: '|', null: "-" };
        assert_eq!(line(bars, &[Some("a|b"), None]), "a\\|b|-\n");
    }
}
