//! The formats in which a command of the client prints the response of a server.
//!
//! In every form, nothing that a server sent acts on the terminal: JSON escapes what is not
//! plainly visible, and tables show it escaped.

use std::io::{self, BufWriter, IsTerminal, Write};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use crate::cli_error::visible;
use crate::exit::Failure;
use crate::{clock, table, times};

/// The longest text in a column that is cut off.
const BRIEF_CHARS_MAX: usize = 60;

/// The form of the answer.
#[derive(Args, Clone, Copy, Default)]
pub struct OutputArgs {
    /// Form of the output [default: table]
    #[arg(short, long, value_name = "FORMAT", value_enum)]
    output: Option<Format>,

    /// Short for --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,

    /// Print no remarks on stderr, only errors
    #[arg(short, long)]
    quiet: bool,
}

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Wide,
    Json,
    Yaml,
    Ndjson,
    Name,
}

impl OutputArgs {
    /// The form that was asked for; a table when none was.
    pub fn format(&self) -> Format {
        self.asked().unwrap_or(Format::Table)
    }

    /// Whether the answer is for people: a table, narrow or wide.
    pub fn is_table(&self) -> bool {
        matches!(self.format(), Format::Table | Format::Wide)
    }

    /// The form that was asked for.
    pub fn asked(&self) -> Option<Format> {
        if self.json { Some(Format::Json) } else { self.output }
    }

    /// Whether only errors are printed.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Prints a message that is not data, unless `--quiet` is set.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            // When stderr is gone, there is no other place to report it.
            let _ = writeln!(io::stderr(), "{}", visible(text));
        }
    }
}

/// A column of a table.
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    pub cell: fn(&Value) -> String,
}

/// How the items of a list are shown.
pub struct Shape {
    /// The columns of the table.
    pub columns: &'static [Column],
    /// More columns, for `-o wide`.
    pub wide: &'static [Column],
    /// The field that names an item.
    pub name: &'static str,
}

/// Prints a list.
pub fn print_list(args: &OutputArgs, items: &[Value], shape: &Shape) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format() {
        Format::Table | Format::Wide => {
            let more = if args.format() == Format::Wide { shape.wide } else { &[] };
            let columns = || shape.columns.iter().chain(more);
            let header: Vec<&str> = columns().map(|column| column.title).collect();
            let cells = |item| {
                let cell = |column: &Column| visible(&(column.cell)(item));
                columns().map(cell).collect()
            };
            table::print(&mut out, "", &header, items.iter().map(cells))?;
        }
        Format::Json => writeln!(out, "{}", json(&items, true))?,
        Format::Yaml => write!(out, "{}", yaml(&items)?)?,
        Format::Ndjson => {
            for item in items {
                writeln!(out, "{}", json(item, false))?;
            }
        }
        Format::Name => {
            for item in items {
                writeln!(out, "{}", visible(&text(item, shape.name)))?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Prints one thing; `rows` says what people read of it, a word and its value a line.
pub fn print_one(
    args: &OutputArgs,
    item: &Value,
    name: &str,
    rows: impl FnOnce(&Value) -> Vec<(String, String)>,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format() {
        Format::Table | Format::Wide => print_rows(&mut out, &rows(item))?,
        Format::Json => writeln!(out, "{}", json(item, true))?,
        Format::Yaml => write!(out, "{}", yaml(item)?)?,
        Format::Ndjson => writeln!(out, "{}", json(item, false))?,
        Format::Name => writeln!(out, "{}", visible(&text(item, name)))?,
    }
    Ok(out.flush()?)
}

/// Prints what was done to something: words on stderr for people, the thing itself for others.
pub fn print_done(args: &OutputArgs, item: &Value, name: &str, words: &str) -> Result<(), Failure> {
    match args.asked() {
        None | Some(Format::Table | Format::Wide) => args.say(words),
        Some(_) => print_one(args, item, name, |_| Vec::new())?,
    }
    Ok(())
}

/// Prints words and their values in two columns. A value of several lines is indented.
pub fn print_rows(out: &mut dyn Write, rows: &[(String, String)]) -> io::Result<()> {
    let width = rows.iter().map(|(word, _)| word.chars().count()).max().unwrap_or(0);
    for (word, value) in rows {
        let mut lines = value.lines();
        let first = visible(lines.next().unwrap_or(""));
        let line = format!("{:width$}  {first}", visible(word));
        writeln!(out, "{}", line.trim_end())?;
        for line in lines {
            writeln!(out, "{:width$}  {}", "", visible(line))?;
        }
    }
    Ok(())
}

/// JSON in which everything that a terminal could act on is escaped.
pub fn json(value: &impl Serialize, pretty: bool) -> String {
    let text = match pretty {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    let text = text.unwrap_or_default();
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        // Such characters stand inside strings only, where JSON knows an escape for each.
        if c == '\n' || is_plain(c) {
            plain.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                plain.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    plain
}

fn is_plain(c: char) -> bool {
    matches!(c, '\\' | '\'' | '"') || c.escape_debug().len() == 1
}

/// YAML in which everything that a terminal could act on is escaped.
pub fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: true };
    let text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| Failure::failed(error.to_string()))?;
    if text.chars().all(|c| c == '\n' || is_plain(c)) {
        return Ok(text);
    }
    // YAML shows more characters as they are than a terminal should see; JSON is YAML, too.
    Ok(format!("{}\n", json(value, true)))
}

/// The text of a field; empty when there is none.
pub fn text(item: &Value, field: &str) -> String {
    match &item[field] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An instant of a field for people, to the second and in the time zone of this machine; `-` when
/// there is none.
pub fn instant(item: &Value, field: &str) -> String {
    match item[field].as_str() {
        Some(text) => match text.parse::<Timestamp>() {
            Ok(at) => local(at, clock::zone()),
            Err(_) => text.to_owned(),
        },
        None => "-".to_owned(),
    }
}

/// An instant in a time zone, as RFC 3339 writes it.
fn local(at: Timestamp, zone: TimeZone) -> String {
    let local = at.to_zoned(zone);
    match local.offset().is_zero() {
        true => local.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        false => local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
    }
}

/// How long ago or from now an instant of a field is; `-` when there is none.
pub fn distance(item: &Value, field: &str) -> String {
    match item[field].as_str().and_then(|text| text.parse().ok()) {
        Some(at) => times::distance(at, clock::now()),
        None => "-".to_owned(),
    }
}

/// The first line of a text, cut off where it is longer than a column.
pub fn brief(text: &str) -> String {
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(BRIEF_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

/// Milliseconds of a field for people.
pub fn duration(item: &Value, field: &str) -> String {
    match item[field].as_f64() {
        Some(ms) if ms < 1_000.0 => format!("{ms:.0} ms"),
        Some(ms) if ms < 60_000.0 => format!("{:.1} s", ms / 1_000.0),
        Some(ms) if ms < 3_600_000.0 => format!("{:.1} min", ms / 60_000.0),
        Some(ms) => format!("{:.1} h", ms / 3_600_000.0),
        None => "-".to_owned(),
    }
}

/// Asks the user to confirm an action that cannot be undone. Without a terminal, `--yes` is
/// required.
pub fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    use crate::cli_error::CliError;
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(CliError::new(format!(
            "{question} Cannot ask: standard input is not a terminal"
        ))
        .hint("add --yes to confirm")
        .into());
    }
    write!(io::stderr(), "{} [y/N] ", visible(question))?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::failed("nothing was done")),
    }
}

/// A number of bytes as people say it.
pub fn bytes(item: &Value, field: &str) -> String {
    let bytes = item[field].as_f64().unwrap_or(0.0);
    match bytes {
        0.0..1024.0 => format!("{bytes} bytes"),
        1024.0..1_048_576.0 => format!("{:.1} KiB", bytes / 1024.0),
        1_048_576.0..1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes / 1_073_741_824.0),
    }
}

/// The fields of one item for display, without those that have no value.
pub fn rows<const N: usize>(all: [(&str, String); N]) -> Vec<(String, String)> {
    let has_value = |(_, value): &(&str, String)| !value.is_empty() && value != "-";
    let rows = all.into_iter().filter(has_value);
    rows.map(|(word, value)| (word.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NASTY: &str = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{e0001}b\\\"'ü";

    #[test]
    fn json_says_the_same_with_nothing_raw_in_it() {
        let value = json!({"name": NASTY});
        for pretty in [true, false] {
            let text = json(&value, pretty);
            assert!(text.chars().all(|c| c == '\n' || is_plain(c)), "{text:?}");
            assert!(text.contains('ü'));
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
    }

    #[test]
    fn yaml_says_the_same_with_nothing_raw_in_it() {
        for text in [NASTY, "two\nlines\n", "two\n\u{1b}[31mlines\u{9b}", "yes", "1e3", "", " x "] {
            let value = json!({"name": text, "list": [text]});
            let yaml = yaml(&value).unwrap();
            assert!(yaml.chars().all(|c| c == '\n' || is_plain(c)), "{yaml:?}");
            assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), value, "{yaml}");
        }
    }

    #[test]
    fn values_for_people() {
        let item = json!({"at": "2026-01-01T00:00:00.123456Z", "ms": 61_000, "n": 3});
        let at = "2026-01-01T00:00:00.123456Z".parse().unwrap();
        assert_eq!(local(at, TimeZone::UTC), "2026-01-01T00:00:00Z");
        let zone = TimeZone::fixed(jiff::tz::offset(-5));
        assert_eq!(local(at, zone), "2025-12-31T19:00:00-05:00");
        assert_eq!(brief("one line"), "one line");
        assert_eq!(brief(&"ü".repeat(70)), format!("{}…", "ü".repeat(60)));
        assert_eq!(instant(&item, "no"), "-");
        assert_eq!(duration(&item, "ms"), "1.0 min");
        assert_eq!((text(&item, "n"), text(&item, "no")), ("3".to_owned(), String::new()));
    }
}
