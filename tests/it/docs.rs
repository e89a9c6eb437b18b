//! Every command that a page shows is carried out, in the order of the page, by the real binary
//! against a real server in a folder of its own.
//!
//! Words after the language of a fence:
//!
//! | fence | meaning |
//! |---|---|
//! | `sh` | a script for bash: every line must succeed, and variables are there for the next block |
//! | `sh exit=7` | the script ends with this code |
//! | `sh server` | one command that becomes the server of the page |
//! | `sh skip="why"` | not carried out; that its commands and options exist is still checked |
//! | `yaml file="jobs.yaml"` | a file, whatever its language; they are there before anything runs |
//! | `text` right after a script | what it prints; ids and times are any, `…` is anything |
//!
//! Commands in the middle of sentences are only checked to exist.
//!
//! The address of a page is `127.0.0.1:8630`, and `/srv/jobs` and `/mnt/backups` are folders in
//! its files; those of a test are others. A page that does not begin with a server is about one that runs.

mod page;
mod runner;
mod shown;

use std::fs;
use std::path::{Path, PathBuf};

use crate::binary::run;
use page::Page;

/// Pages that are carried out side by side.
const AT_A_TIME: usize = 3;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> =
        docs.filter(|page| page.extension().is_some_and(|kind| kind == "md")).collect();
    pages.extend([root.join("README.md"), root.join("deploy/README.md")]);
    pages.sort();
    pages
}

#[test]
fn every_command_of_the_pages_does_what_the_page_says() {
    let pages: Vec<Page> = pages().iter().map(|path| Page::read(path)).collect();
    let scripts = pages.iter().flat_map(Page::scripts).count();
    assert!(scripts >= 25, "only {scripts} scripts were found");
    let problems = std::sync::Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(page) =
                    pages.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    if let Err(problem) = runner::carry_out(page) {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn what_cannot_be_carried_out_is_known_all_the_same() {
    let mut count = 0;
    for page in pages() {
        let page = Page::read(&page);
        let mut skipped: Vec<String> =
            page.mentioned.iter().flat_map(|span| commands(span)).collect();
        for block in &page.blocks {
            let Some(why) = block.skip() else { continue };
            assert!(why.len() > 10, "{}:{}: why is it skipped?", page.name, block.line);
            skipped.extend(commands(&block.text));
        }
        for command in skipped {
            let mut words = words(&command);
            // The parser reads everything before the help, and does nothing.
            let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
            words.insert(at, "--help".to_owned());
            let ended = run(&words[1..], b"");
            assert_eq!(ended.code, Some(0), "{}: {command}\n{}", page.name, ended.stderr);
            count += 1;
        }
    }
    assert!(count >= 20, "only {count} commands were found");
}

/// Our commands of a text, a continued line as one.
fn commands(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    // The text after a pipe is a command of its own.
    let parts = text.lines().flat_map(|line| line.split(" | "));
    let parts = parts.map(|part| part.trim_start_matches("xargs -r "));
    parts.filter(|part| part.starts_with("punctual ")).map(str::to_owned).collect()
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
