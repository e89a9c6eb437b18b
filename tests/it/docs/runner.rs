//! Carries a page out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::page::{Block, Page};
use super::shown::agrees;
use crate::binary::ended;
use crate::serve::process::{SOON, Server};

/// The address of the pages.
const ADDRESS: &str = "127.0.0.1:8630";

/// Folders of the machines in the pages' files. Here each is the folder of the page.
const FOLDERS: [&str; 2] = ["/srv/jobs", "/mnt/backups"];

/// A page that is being carried out.
struct Stage<'a> {
    page: &'a Page,
    folder: tempfile::TempDir,
    server: Option<Server>,
}

/// Runs the scripts of a page in order. Answers what is wrong with the first one that does not do
/// what the page says.
pub fn carry_out(page: &Page) -> Result<(), String> {
    if page.scripts().next().is_none() {
        return Ok(());
    }
    let mut stage = Stage { page, folder: tempfile::tempdir().unwrap(), server: None };
    stage.prepare();
    // A page that does not begin with a server is about one that runs.
    let is_server = |block: &Block| block.notes.contains_key("server");
    if !page.scripts().next().is_some_and(|(block, _)| is_server(block)) {
        stage.start("punctual serve");
    }
    for (block, shown) in page.scripts() {
        let at = format!("{}:{}", page.name, block.line);
        if is_server(block) {
            stage.start(&block.text);
            continue;
        }
        let output = stage.script(block)?;
        let ended = ended(&output);
        let said = format!("{}\n--- it printed\n{}{}", block.text, ended.stdout, ended.stderr);
        if ended.code != Some(block.exit()) {
            let expected = block.exit();
            return Err(format!("{at} ended with {:?}, not {expected}\n{said}", ended.code));
        }
        if let Some(shown) = shown.filter(|shown| !agrees(shown, &ended.stdout)) {
            return Err(format!("{at} does not print what the page shows\n{shown}\n{said}"));
        }
    }
    stage.stop();
    Ok(())
}

impl Stage<'_> {
    fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    /// The files of the page, and the binary by its name.
    fn prepare(&self) {
        let programs = self.folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_punctual"), programs.join("punctual")).unwrap();
        fs::create_dir(self.work()).unwrap();
        for block in &self.page.blocks {
            if let Some(name) = block.notes.get("file") {
                let path = self.work().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let here = self.work().display().to_string();
                let text = FOLDERS
                    .iter()
                    .fold(block.text.clone(), |text, there| text.replace(there, &here));
                fs::write(path, text).unwrap();
            }
        }
    }

    /// A shell in the folder of the page.
    fn shell(&self, script: &str) -> Command {
        let script = script.replace("cargo run --release --", "punctual");
        #[expect(clippy::disallowed_methods, reason = "a test does what a reader of the page does")]
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(self.work()).env_clear();
        let path =
            format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.path().join("bin").display());
        command.env("PATH", path).env("HOME", self.work()).env("LANG", "C.UTF-8");
        command.env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A command that becomes the server of the page.
    fn start(&mut self, command: &str) {
        self.stop();
        // A shell with one command becomes that command.
        let mut command = self.shell(&command.trim().replace(ADDRESS, "127.0.0.1:0"));
        command.env("PUNCTUAL_HTTP", "127.0.0.1:0").env("PUNCTUAL_PG", "127.0.0.1:0");
        self.server = Some(Server::of(command));
    }

    /// Ends the server as its readers would, and it ends well.
    fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal("-INT");
            assert_eq!(server.wait(), Some(0), "{}: the server did not stop well", self.page.name);
        }
    }

    fn script(&self, block: &Block) -> Result<Output, String> {
        let address = self.server.as_ref().map_or(ADDRESS, |server| server.address.as_str());
        let variables = self.folder.path().join("variables");
        let script = format!(
            "set -euo pipefail; [ ! -f {0} ] || . {0}\n{1}\nexport -p > {0}",
            variables.display(),
            block.text.replace(ADDRESS, address),
        );
        let child = self.shell(&script).spawn().unwrap();
        patient(child).ok_or_else(|| {
            format!("{}:{} does not end\n{}", self.page.name, block.line, block.text)
        })
    }
}

/// The end of a process; none when it does not come soon.
fn patient(child: Child) -> Option<Output> {
    let id = child.id().to_string();
    let (send, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    ended.recv_timeout(SOON).ok().or_else(|| {
        if Path::new("/proc").join(&id).exists() {
            #[expect(
                clippy::disallowed_methods,
                reason = "a test sends a signal as a person would"
            )]
            let _ = Command::new("kill").arg(&id).status();
        }
        None
    })
}
