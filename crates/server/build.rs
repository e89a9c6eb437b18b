//! Lists the files of the dashboard, which `npm run build` wrote to `ui/dist`, so that the program
//! contains them. It runs no other program: `cargo build` needs neither Node.js nor a network.

use std::path::{Path, PathBuf};
use std::{fs, io};

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build script by variables where it is"
)]
fn folder(variable: &str) -> io::Result<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other(variable.to_owned()))
}

fn main() -> io::Result<()> {
    let dist = folder("CARGO_MANIFEST_DIR")?.join("../../ui/dist").canonicalize()?;
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    collect(&dist, &mut files)?;
    files.sort();
    let mut table = String::from("static FILES: &[(&str, &[u8])] = &[\n");
    for file in files {
        let name = file.strip_prefix(&dist).map_err(io::Error::other)?;
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let (name, path) = (parts.join("/"), file.display().to_string());
        table.push_str(&format!("    ({name:?}, include_bytes!({path:?})),\n"));
    }
    table.push_str("];\n");
    fs::write(folder("OUT_DIR")?.join("ui_files.rs"), table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
