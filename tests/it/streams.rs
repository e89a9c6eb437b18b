//! Data on stdout and all else on stderr; what a terminal may never receive; readers that leave.

use std::fs::File;
use std::process::Stdio;

use crate::binary::{ended, punctual, run};

/// Arguments, exit code, and whether stdout and stderr say something.
const STREAMS: &[(&[&str], i32, bool, bool)] = &[
    (&["--version"], 0, true, false),
    (&["--help"], 0, true, false),
    (&[], 2, false, true),
    (&["cron", "next", "* * * * *"], 0, true, false),
    (&["cron", "next", "* * * * *", "-o", "json"], 0, true, false),
    (&["cron", "next", "@yearly", "--after", "9999-05-01T00:00:00Z", "-o", "json"], 0, true, true),
    (&["cron", "explain", "30 2 * * *", "--tz", "Europe/Berlin"], 0, true, false),
    (&["cron", "lint", "30 2 * * *", "--tz", "Europe/Berlin"], 0, true, false),
    (&["cron", "lint", "* * * * *", "--tz", "Europe/Berlin"], 0, false, true),
    (&["cron", "next", "61 * * * *"], 2, false, true),
    (&["cron", "next", "61 * * * *", "-o", "json"], 2, false, true),
    (&["cron", "next", "* * * * *", "--tz", "Nowhere"], 2, false, true),
    (&["cron", "next", "* * * * *", "--count", "many"], 2, false, true),
];

#[test]
fn data_goes_to_stdout_and_all_else_to_stderr() {
    for (args, code, has_data, has_words) in STREAMS {
        let ended = run(*args, b"");
        let got = (ended.code, !ended.stdout.is_empty(), !ended.stderr.is_empty());
        assert_eq!(got, (Some(*code), *has_data, *has_words), "{args:?} {ended:?}");
    }
}

#[test]
fn nothing_that_was_typed_acts_on_the_terminal() {
    let nasty = "\u{1b}]0;title\u{7}\u{1b}[31m\u{9b}2J\u{202e}\r\n";
    let rows: &[&[&str]] = &[
        &["cron", "next", nasty],
        &["cron", "next", &format!("* * * * {nasty}")],
        &["cron", "explain", nasty],
        &["cron", "next", "* * * * *", "--tz", nasty],
        &["cron", "next", "* * * * *", "--after", nasty],
        &["cron", "next", "* * * * *", "-o", nasty],
        &["cron", "next", nasty, nasty],
        &["cron", nasty],
        &[nasty],
        &[&format!("--{nasty}")],
    ];
    for args in rows {
        // Even where colours are wanted, none of the escapes is the user's.
        for force in [false, true] {
            let mut command = punctual(*args);
            if force {
                command.env("CLICOLOR_FORCE", "1");
            }
            let ended = ended(&command.output().unwrap());
            assert_eq!(ended.code, Some(2), "{args:?}");
            assert_eq!(ended.stdout, "");
            for raw in ["\u{7}", "\r", "\u{9b}", "\u{202e}", "\u{1b}]"] {
                assert!(!ended.stderr.contains(raw), "{args:?} {:?}", ended.stderr);
            }
            assert!(force || !ended.stderr.contains('\u{1b}'), "{args:?} {:?}", ended.stderr);
        }
    }
}

#[test]
fn colour_is_for_those_who_want_it() {
    let colours = |name: Option<&str>| {
        let mut command = punctual(["cron", "next", "61 * * * *"]);
        if let Some(name) = name {
            command.env(name, "1");
        }
        ended(&command.output().unwrap()).stderr.contains("\u{1b}[")
    };
    assert!(!colours(None));
    assert!(!colours(Some("NO_COLOR")));
    assert!(colours(Some("CLICOLOR_FORCE")));
}

#[test]
fn arguments_that_are_no_text_are_a_usage_error() {
    use std::os::unix::ffi::OsStrExt;
    let args = ["cron", "next"].map(std::ffi::OsStr::new);
    let bytes = std::ffi::OsStr::from_bytes(b"\xff * * * *");
    let ended = run(args.into_iter().chain([bytes]), b"");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.starts_with("error: "), "{ended:?}");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    for args in
        [&["cron", "next", "* * * * *", "--count", "10000"][..], &["cron", "next", "--stdin"]]
    {
        let mut child = punctual(args).spawn().unwrap();
        // The pipe has no reader before there is anything to write.
        drop(child.stdout.take());
        let mut questions = child.stdin.take().unwrap();
        let writer = std::thread::spawn(move || {
            for _ in 0..50_000 {
                let line = b"{\"expr\":\"* * * * *\"}\n";
                if std::io::Write::write_all(&mut questions, line).is_err() {
                    return;
                }
            }
        });
        let ended = ended(&child.wait_with_output().unwrap());
        writer.join().unwrap();
        assert_eq!((ended.code, &ended.stderr[..]), (Some(0), ""), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_a_failure() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = punctual(["cron", "next", "* * * * *"]);
    let ended = ended(&command.stdout(Stdio::from(full)).output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.starts_with("error: "), "{ended:?}");
}
