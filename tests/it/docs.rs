//! Every command that a page shows is one that the binary knows, option by option.

use std::fs;
use std::path::Path;

use crate::binary::run;

/// The commands of the shell blocks of a page, a continued line as one.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut in_shell = false;
    for line in page.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            in_shell = line == "```sh";
        } else if in_shell {
            // What follows a pipe is a command of its own.
            let parts = line.split(" | ").map(|part| part.trim_start_matches("xargs -r "));
            let ours = parts.filter(|part| part.starts_with("punctual "));
            commands.extend(ours.map(str::to_owned));
        }
    }
    commands
}

/// The words of a command up to a redirection, as a shell reads them.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '>' | '<') => break,
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn the_pages_show_commands_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    for page in pages.filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            let mut words = words(&command);
            // The parser reads everything before the help, and does nothing.
            let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(at, "--help".to_owned());
            let ended = run(&words[1..], b"");
            assert_eq!(ended.code, Some(0), "{}: {command}\n{}", page.display(), ended.stderr);
            count += 1;
        }
    }
    assert!(count >= 30, "only {count} commands were found");
}
