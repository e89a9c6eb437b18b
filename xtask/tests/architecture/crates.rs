//! The table of crates of ARCHITECTURE.md: one row a crate, found by its column titles.

use std::collections::BTreeSet;

pub const CRATE: &str = "crate";
pub const MAY_IMPORT: &str = "may import (ours)";
pub const MAY_NOT: &str = "may not";

/// One row. Columns that the test does not know are for the reader.
#[derive(Debug, PartialEq)]
pub struct CrateRow {
    pub name: String,
    /// Crates that it depends on: exactly these.
    pub may_import: BTreeSet<String>,
    /// External crates (`tokio`) and paths in source text (`std::fs`) that it must not name.
    pub may_not: BTreeSet<String>,
}

impl CrateRow {
    /// The entries of `may_not` that are looked for in the source text.
    pub fn forbidden_paths(&self) -> impl Iterator<Item = &str> {
        let entries = self.may_not.iter().map(String::as_str);
        entries.filter(|entry| entry.contains("::"))
    }
}

/// Reads the one table whose first column is "crate".
pub fn parse(page: &str) -> Result<Vec<CrateRow>, String> {
    let mut lines = page.lines().skip_while(|line| !is_header(line));
    let header = cells(lines.next().ok_or("the page has no table of crates")?);
    let column = |title: &str| {
        let position = header.iter().position(|cell| *cell == title);
        position.ok_or(format!("the table of crates has no column \"{title}\""))
    };
    let (may_import, may_not) = (column(MAY_IMPORT)?, column(MAY_NOT)?);

    let rows = lines.by_ref().skip(1).take_while(|line| is_row(line));
    let crates = rows.map(|row| {
        let cells = cells(row);
        if cells.len() != header.len() {
            return Err(format!("not {} cells: {row}", header.len()));
        }
        let mut name = names(cells[0])?.into_iter();
        let (Some(name), None) = (name.next(), name.next()) else {
            return Err(format!("a row needs the name of one crate: {row}"));
        };
        Ok(CrateRow {
            name,
            may_import: names(cells[may_import])?,
            may_not: names(cells[may_not])?,
        })
    });
    let crates = crates.collect::<Result<Vec<_>, _>>()?;
    match lines.any(is_header) {
        true => Err("the page has two tables of crates".into()),
        false => Ok(crates),
    }
}

fn is_row(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

fn is_header(line: &str) -> bool {
    is_row(line) && cells(line)[0] == CRATE
}

fn cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').unwrap_or(row);
    row.split('|').map(str::trim).collect()
}

/// The names in a cell: either a dash for none, or names in backticks with commas between them.
/// Anything else is refused, so that no name is overlooked.
fn names(cell: &str) -> Result<BTreeSet<String>, String> {
    if cell == "–" {
        return Ok(BTreeSet::new());
    }
    let name = |part: &str| {
        let inner = part.trim().strip_prefix('`')?.strip_suffix('`')?;
        (!inner.is_empty() && !inner.contains('`')).then(|| inner.to_string())
    };
    let names: Option<_> = cell.split(',').map(name).collect();
    names.ok_or(format!("\"{cell}\" is neither – nor a list of `names` in backticks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\
| crate | what | may import (ours) | may not |
|------|------|-------------------|---------|
";

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_end_with_the_table() {
        let page = format!(
            "# Title\n\n| a | b |\n|---|---|\n\n{HEADER}| `a` | A, `x` | – | `t`, `std::fs` |\n| `b` | B | `a` | – |\n\n| `c` |\n"
        );
        let crates = parse(&page).unwrap();
        assert_eq!(
            crates,
            [
                CrateRow {
                    name: "a".into(),
                    may_import: set(&[]),
                    may_not: set(&["std::fs", "t"])
                },
                CrateRow { name: "b".into(), may_import: set(&["a"]), may_not: set(&[]) }
            ]
        );
        assert_eq!(crates[0].forbidden_paths().collect::<Vec<_>>(), ["std::fs"]);
    }

    #[test]
    fn unclear_pages_are_refused() {
        for (rows, error) in [
            ("| `a` | A | all | – |", "\"all\" is neither"),
            ("| `a` | A | `b`, c | – |", "\"`b`, c\" is neither"),
            ("| `a` | A | `b` `c` | – |", "\"`b` `c`\" is neither"),
            ("| `a` | A |  | – |", "\"\" is neither"),
            ("| `a`, `b` | A | – | – |", "the name of one crate"),
            ("| – | A | – | – |", "the name of one crate"),
            ("| `a` | A | – |", "not 4 cells"),
            ("\n| crate |", "two tables"),
        ] {
            let message = parse(&format!("{HEADER}{rows}\n")).unwrap_err();
            assert!(message.contains(error), "{rows}: {message}");
        }
        assert!(parse("no table").unwrap_err().contains("no table of crates"));
        let message = parse("| crate | may not |\n|---|---|\n").unwrap_err();
        assert!(message.contains("no column \"may import (ours)\""));
    }
}
