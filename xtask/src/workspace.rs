//! Paths: the workspace root, cargo, programs on the PATH, the folder for installed tools.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

/// The root of the workspace that cargo runs us for.
///
/// Read when it runs, not when it is compiled: a build cache may serve several clones.
pub fn root() -> Result<PathBuf> {
    let xtask = env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = PathBuf::from(xtask).parent().map(PathBuf::from);
    root.context("xtask has no parent folder")
}

/// A cargo command in the root: the cargo that runs us, not another one on the path.
pub fn cargo(args: &[&str]) -> Result<Command> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root()?);
    Ok(command)
}

/// The folder of what is built: this program is in one of its folders.
pub fn target() -> Result<PathBuf> {
    let program = env::current_exe().context("this program's own path")?;
    let target = program.parent().and_then(|folder| folder.parent()).map(PathBuf::from);
    target.context("this program is in no target folder")
}

/// Where tools are kept between runs: in the user's cache folder, outside any clone.
pub fn tools() -> Result<PathBuf> {
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(cache.join("punctual/tools"))
}

/// The folders of `PATH`.
pub fn path_folders() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

/// The program in the first of the folders that holds it.
pub fn find(program: &str, folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut places = folders.into_iter().map(|folder| folder.join(program));
    places.find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_in_the_first_folder_that_has_it() {
        let xtask = root().unwrap().join("xtask");
        let folders = [xtask.join("no-such-folder"), xtask.join("src"), xtask];
        let found = find("main.rs", folders.clone());
        assert_eq!(found, Some(folders[1].join("main.rs")));
        assert_eq!(find("src", folders.clone()), None, "a folder is no program");
        assert_eq!(find("no-such-program", folders), None);
    }
}
