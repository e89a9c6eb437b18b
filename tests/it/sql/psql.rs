//! Sessions of real psql against the real server, as data: `tests/sql/psql/*.sql` has the input,
//! the `.out` beside it the output. `UPDATE_GOLDEN=1` writes the latter anew.

use std::fs;
use std::path::PathBuf;

use super::{Bed, file};

/// Output of a session, without the parts that differ each time.
fn seen(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        // psql names the file and the line that it read.
        let line = match line.split_once(".sql:") {
            Some((_, rest)) if line.starts_with("psql:") => rest.split_once(": ").unwrap().1,
            _ => line,
        };
        shown.push_str(&without_ids(line));
        shown.push('\n');
    }
    shown
}

/// A line with a word of the same length in place of each UUID, and of each instant of today.
fn without_ids(line: &str) -> String {
    let is_uuid = |text: &str| {
        text.char_indices().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        })
    };
    let mut shown = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        match rest.get(..36).filter(|text| is_uuid(text)) {
            Some(_) => {
                shown.push_str("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
                rest = &rest[36..];
            }
            None => {
                shown.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
    }
    shown
}

fn sessions() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(file("psql"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "sql"))
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    files
}

#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE_GOLDEN is in the environment")]
fn sessions_of_psql_look_as_written_down() {
    let is_update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for session in sessions() {
        let bed = Bed::new();
        bed.tenant("acme", "ann", "correct horse");
        let path = session.to_str().unwrap();
        // Everything in one stream, in order: what was typed, what was answered, what went wrong.
        let mut shell = super::program("sh");
        let (host, port) = bed.host_and_port();
        let psql = super::psql_command();
        shell
            .arg("-c")
            .arg(
                "exec \"$psql\" -X -a -h \"$host\" -p \"$port\" -U \"$user\" -d \"$tenant\" \
                 -v secret=\"$PGPASSWORD\" -f \"$session\" 2>&1",
            )
            .env("psql", psql.get_program())
            .envs([("host", host), ("port", port), ("session", path)])
            .envs([("user", "admin"), ("tenant", "default"), ("PGTZ", "UTC")])
            .env("PGPASSWORD", &bed.server.key);
        let output = shell.output().unwrap();
        let said = seen(&String::from_utf8_lossy(&output.stdout)).replace(port, "8632");
        let golden = session.with_extension("out");
        if is_update {
            fs::write(&golden, &said).unwrap();
        }
        if fs::read_to_string(&golden).unwrap_or_default() != said {
            wrong.push(format!("{}:\n{said}", session.display()));
        }
    }
    assert!(wrong.is_empty(), "if this is meant, UPDATE_GOLDEN=1 writes:\n{}", wrong.join("\n"));
}

/// Every example of docs/sql.md, one after the other, does what its page says. No run has the id of
/// the examples, so statements that name it find none.
#[test]
fn every_statement_of_the_reference_is_carried_out() {
    let page = fs::read_to_string(file("../../docs/sql.md")).unwrap();
    let blocks = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut script = String::new();
    for line in blocks.flat_map(str::lines) {
        // The same job is made once with each clause.
        if line.starts_with("CREATE JOB j ") {
            script.push_str("DROP JOB IF EXISTS j;\n");
        }
        script.push_str(line);
        script.push('\n');
    }
    let bed = Bed::new();
    let path = bed.folder.path().join("reference.sql");
    fs::write(&path, script).unwrap();
    let said = bed.psql("admin", &bed.server.key, "default", &["-a", "-f", path.to_str().unwrap()]);
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("ERROR:")).collect();
    let (runs, others): (Vec<&str>, Vec<&str>) =
        errors.iter().partition(|line| line.contains("there is no execution 018f2b2e"));
    let (dag_runs, others): (Vec<&str>, Vec<&str>) =
        others.iter().partition(|line| line.contains("there is no DAG run 018f2b2e"));
    assert_eq!(others, [""; 0]);
    assert_eq!((runs.len(), dag_runs.len()), (3, 8), "{said}");
}
