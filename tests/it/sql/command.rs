//! `punctual sql`.

use super::Bed;
use crate::binary::punctual;

fn sql(bed: &Bed, args: &[&str], input: &str) -> (i32, String, String) {
    use std::io::Write;
    use std::process::Stdio;
    let data = bed.data();
    let mut child = punctual(["sql", "--data", data.to_str().unwrap()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn statements_come_from_an_argument_a_file_or_stdin() {
    let bed = Bed::new();
    let make = "CREATE JOB hello SCHEDULE CRON '0 0 1 1 *' AS NOOP;";
    let (code, out, err) = sql(&bed, &["-c", make], "");
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    assert!(err.contains("CREATE JOB"), "{err}");
    let file = bed.folder.path().join("more.sql");
    std::fs::write(&file, make.replace("hello", "from_file")).unwrap();
    let (code, _, err) = sql(&bed, &["-q", "-f", file.to_str().unwrap()], "");
    assert_eq!((code, err.as_str()), (0, ""));
    let question = "SELECT job_name FROM sys.jobs ORDER BY job_name";
    let (code, out, _) = sql(&bed, &["-o", "csv"], question);
    assert_eq!((code, out.as_str()), (0, "job_name\nfrom_file\nhello\n"));
    let (code, out, _) = sql(&bed, &["-o", "json", "-c", "SELECT 1 AS n, true AS yes"], "");
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, rows), (0, serde_json::json!([{ "n": 1, "yes": true }])));
    let copy = format!("COPY ({question}) TO STDOUT");
    assert_eq!(sql(&bed, &["-c", &copy], "").1, "from_file\nhello\n");
}

#[test]
fn what_goes_wrong_has_a_caret_and_an_exit_code() {
    let bed = Bed::new();
    for (statement, code) in [
        ("SHOW CREATE JOB nothing", 3),
        ("CRATE JOB hello", 2),
        ("SELECT nope FROM sys.jobs", 2),
        ("SELECT * FROM sys.nope", 3),
    ] {
        let (exit, out, err) = sql(&bed, &["-c", statement], "");
        assert_eq!((exit, out.as_str()), (code, ""), "{statement}: {err}");
        assert!(err.contains(statement) && err.contains('^'), "{err}");
    }
    let (exit, _, err) = sql(&bed, &["--token", "wrong", "-c", "SHOW JOBS"], "");
    assert_eq!(exit, 5, "{err}");
    let (exit, _, err) = sql(&bed, &["--pg", "127.0.0.1:1", "-c", "SHOW JOBS"], "");
    assert_eq!(exit, 6, "{err}");
}
