//! Every form of output, and nothing raw in any of them.

use super::bench::Server;

#[test]
fn what_a_server_says_does_not_act_on_the_terminal() {
    let server = Server::start();
    let job = r#"{"name": "ab", "description": "\u001b[2Jx\u0085y\u009b1m\u202ez\u200b", "job_type": "MANUAL",
        "payload": {"type": "NOOP"}}"#;
    let made = server.feed(&["job", "create", "-f", "-"], job);
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut outputs = vec![made.stderr, server.ok(&["export"]), server.ok(&["status"])];
    for format in ["table", "json", "yaml", "ndjson", "name"] {
        outputs.push(server.ok(&["job", "list", "-o", format]));
        outputs.push(server.ok(&["job", "show", "ab", "-o", format]));
    }
    outputs.push(server.run(&["job", "show", "\u{1b}[2J"]).stderr);
    for output in outputs {
        let raw = |c: &char| (c.is_control() && *c != '\n') || "\u{202e}\u{200b}".contains(*c);
        assert!(!output.is_empty() && !output.chars().any(|c| raw(&c)), "{output:?}");
    }
    let text = server.json(&["job", "show", "ab"])["description"].clone();
    assert_eq!(text, "\u{1b}[2Jx\u{85}y\u{9b}1m\u{202e}z\u{200b}");
}

#[test]
fn scripts_and_pages_are_made() {
    let server = Server::start();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(server.ok(&["completions", shell]).contains("backfill"), "{shell}");
    }
    let page = server.ok(&["man"]);
    assert!(page.contains("Exit codes:") && page.contains("punctual"), "{page}");
    server.ok(&["man", "--folder", "pages"]);
    let written = std::fs::read_to_string(server.path("pages/punctual-job-create.1")).unwrap();
    assert!(written.contains("cron"), "{written}");
}
