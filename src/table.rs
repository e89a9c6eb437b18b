//! Tables for people: no borders, two blanks between columns, nothing at the end of a line.

use std::io::{self, Write};

use comfy_table::{Table, presets};

/// Prints a heading and rows, each line after `indent`.
pub fn print(
    out: &mut dyn Write,
    indent: &str,
    header: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied()).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().try_for_each(|line| writeln!(out, "{indent}{}", line.trim_end()))
}
