//! The fenced blocks of a page.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A page and its blocks, in order.
pub struct Page {
    pub name: String,
    pub blocks: Vec<Block>,
    /// Our commands in the middle of sentences.
    pub mentioned: Vec<String>,
}

/// A fenced block.
#[derive(Debug, Default)]
pub struct Block {
    /// The line of its fence.
    pub line: usize,
    pub language: String,
    /// The other words of the fence: `skip="why"`, `exit=7`, `server`.
    pub notes: BTreeMap<String, String>,
    pub text: String,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let name = path.strip_prefix(root).unwrap().display().to_string();
        let (mut blocks, mut mentioned) = (Vec::new(), Vec::new());
        let mut open: Option<Block> = None;
        // Blocks of a list are indented.
        let mut indent = 0;
        for (i, line) in text.lines().enumerate() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (None, None) => mentioned.extend(spans(line).map(str::to_owned)),
                (None, Some(info)) => {
                    let (language, notes) = info.split_once(' ').unwrap_or((info, ""));
                    indent = line.len() - line.trim_start().len();
                    open = Some(Block {
                        line: i + 1,
                        language: language.to_owned(),
                        notes: notes_of(notes),
                        text: String::new(),
                    });
                }
                (Some(block), None) => {
                    block.text.push_str(line.get(indent..).unwrap_or_default());
                    block.text.push('\n');
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
            }
        }
        assert!(open.is_none(), "{name}: a fence is not closed");
        let page = Page { name, blocks, mentioned };
        for block in &page.blocks {
            let known = ["exit", "file", "server", "skip"];
            let unknown = block.notes.keys().find(|note| !known.contains(&note.as_str()));
            assert!(unknown.is_none(), "{}:{}: {unknown:?}", page.name, block.line);
        }
        page
    }

    /// The scripts that are carried out, each with what it prints if the page shows that.
    pub fn scripts(&self) -> impl Iterator<Item = (&Block, Option<&str>)> {
        self.blocks.iter().enumerate().filter_map(|(i, block)| {
            let shown = self.blocks.get(i + 1).filter(|next| {
                let after = block.line + block.text.lines().count() + 1;
                next.language == "text" && next.line <= after + 2
            });
            let runs = block.language == "sh" && block.skip().is_none();
            runs.then(|| (block, shown.map(|next| next.text.as_str())))
        })
    }
}

impl Block {
    /// Why it is not carried out, if it is not.
    pub fn skip(&self) -> Option<&str> {
        self.notes.get("skip").map(String::as_str)
    }

    /// The code that it ends with.
    pub fn exit(&self) -> i32 {
        self.notes.get("exit").map_or(0, |code| code.parse().unwrap())
    }
}

/// The spans of code in a line that are commands of ours. Words in capitals and `…` stand for any.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| span.starts_with("punctual ") && !span.contains("COMMAND"))
}

/// `server exit=7 skip="two words"` by name.
fn notes_of(mut text: &str) -> BTreeMap<String, String> {
    let mut notes = BTreeMap::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return notes;
        }
        let end = text.find([' ', '=']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let (value, rest) = match rest.strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').expect("a quote is closed"),
            None => {
                let value = rest.strip_prefix('=').unwrap_or("");
                let end =
                    if rest.starts_with('=') { value.find(' ').unwrap_or(value.len()) } else { 0 };
                (&value[..end], if rest.starts_with('=') { &value[end..] } else { rest })
            }
        };
        notes.insert(name.to_owned(), value.to_owned());
        text = rest;
    }
}
