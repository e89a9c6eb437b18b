//! docs/sql.md: its examples can be parsed, and it describes every clause.

use std::path::Path;

fn page() -> String {
    page_of("sql.md")
}

fn page_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn examples_of_the_reference_are_read() {
    let page = page();
    let blocks = page.split("```sql").skip(1).map(|rest| rest.split("```").next().unwrap_or(""));
    let mut count = 0;
    for block in blocks {
        let text = block.split_once('\n').map_or("", |(_, text)| text);
        let parsed = sql::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        count += parsed.len();
    }
    assert!(count > 60, "{count} examples");
}

/// The table of clauses matches the code.
#[test]
fn the_table_of_clauses_is_the_one_in_force() {
    let (page, fields) = (page(), page_of("job-fields.md"));
    for rule in sql::RULES.iter() {
        let row = format!("| `{}` | `{}` |", rule.name(), rule.form.replace('|', "\\|"));
        let row = row.replace("| `` |", "| |");
        // The page of job fields has the rows of simple fields, of which this page may say more.
        let is_elsewhere = !page.contains(&format!("| `{}` |", rule.name()))
            && fields.contains(&format!("`{} {}`", rule.name(), rule.form.replace('|', "\\|")));
        assert!(page.contains(&row) || is_elsewhere, "docs/sql.md must contain the row\n{row}");
    }
    for clause in sql::QUEUE_CLAUSES {
        assert!(page.contains(&format!("| `{clause}` | `")), "docs/sql.md has no row of {clause}");
    }
    for clause in sql::DAG_CLAUSES.iter().chain(sql::STEP_CLAUSES) {
        assert!(page.contains(&format!("| `{clause}` | `")), "docs/sql.md has no row of {clause}");
    }
    for verb in sql::VERBS {
        assert!(page.contains(verb), "docs/sql.md does not speak of {verb}");
    }
}
