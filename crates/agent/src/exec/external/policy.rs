//! What the administrator allows: commands and variables.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::exec::Failure;

/// Variables that change what a program is, whoever allows them.
const NEVER: &[&str] = &[
    "LD_*",
    "PUNCTUAL_*",
    "GLIBC_*",
    "MALLOC_*",
    "DYLD_*",
    "BASH_FUNC_*",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "ENV",
    "PATH",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "GCONV_PATH",
    "GETCONF_DIR",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RES_OPTIONS",
    "RESOLV_HOST_CONF",
    "TMPDIR",
    "TZDIR",
    "TRACEPARENT",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONINSPECT",
    "PERL5LIB",
    "PERL5OPT",
    "PERL5DB",
    "RUBYLIB",
    "RUBYOPT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "LUA_INIT",
    "LUA_PATH",
    "LUA_CPATH",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
];

/// The file of a command, without any link, and what the command is to be called. A command is a
/// path, or a path beneath an allowed folder, or the last part of an allowed file.
pub(super) fn command(allow: &[PathBuf], text: &str) -> Result<(PathBuf, String), Failure> {
    let not_allowed = |why: &str| {
        let allowed: Vec<_> = allow.iter().map(|path| path.display().to_string()).collect();
        let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
        let message = format!("command: {text:?} {why}; the configuration allows {allowed}");
        Failure::refused("COMMAND_NOT_ALLOWED", message)
    };
    let written = Path::new(text);
    if text.is_empty() || text.contains('\0') {
        return Err(not_allowed("is no path"));
    }
    if written.components().any(|part| part == Component::ParentDir) {
        return Err(not_allowed("goes up with \"..\""));
    }
    let mut is_beneath = false;
    for root in allow {
        let Ok(root) = root.canonicalize() else { continue };
        let is_folder = root.is_dir();
        let path = if written.is_absolute() {
            written.to_owned()
        } else if is_folder {
            root.join(written)
        } else if root.file_name() == Some(written.as_os_str()) {
            root.clone()
        } else {
            continue;
        };
        is_beneath |= path.starts_with(&root) && is_folder;
        // The real path decides: a link may lead anywhere.
        let Ok(real) = path.canonicalize() else { continue };
        if real == root && !is_folder || is_folder && real != root && real.starts_with(&root) {
            executable(&real, text)?;
            return Ok((real, path.to_string_lossy().into_owned()));
        }
    }
    if is_beneath && allow.iter().all(|root| !root.join(written).exists()) {
        let message = format!("command: there is no {text:?} where the configuration allows one");
        return Err(Failure::refused("COMMAND_NOT_FOUND", message));
    }
    Err(not_allowed("is not among them, or is a link that leads elsewhere"))
}

fn executable(real: &Path, text: &str) -> Result<(), Failure> {
    let problem = match fs::metadata(real) {
        Ok(metadata) if !metadata.is_file() => "is no file".to_owned(),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            "may not be executed: give the file the permission".to_owned()
        }
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(Failure::refused("PERMISSION_DENIED", format!("command: {text:?} {problem}")))
}

/// Whether an action may set a variable.
pub(super) fn variable(allowed: &[String], name: &str) -> Result<(), Failure> {
    let refuse = |why: String| {
        Err(Failure::refused("VARIABLE_NOT_ALLOWED", format!("environment: {name:?} {why}")))
    };
    if name.is_empty() || name.contains(['=', '\0']) {
        return refuse("is no name of a variable".to_owned());
    }
    if NEVER.iter().any(|pattern| matches(pattern, name)) {
        return refuse("changes what programs do, and is never allowed".to_owned());
    }
    if !allowed.iter().any(|pattern| matches(pattern, name)) {
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        return refuse(format!("is not among the variables that an action may set: {allowed}"));
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_allowed_by_name_or_beginning() {
        let allowed = ["REGION".to_owned(), "APP_*".to_owned(), "*".to_owned()];
        for (count, name, is_allowed) in [
            (0, "REGION", false),
            (1, "REGION", true),
            (1, "REGION2", false),
            (1, "APP_X", false),
            (2, "APP_X", true),
            (3, "anything", true),
            // Whatever the administrator wrote.
            (3, "LD_PRELOAD", false),
            (3, "PATH", false),
            (3, "BASH_ENV", false),
            (3, "BASH_FUNC_ls%%", false),
            (3, "PUNCTUAL_FENCE", false),
            (3, "", false),
            (3, "A=B", false),
        ] {
            assert_eq!(variable(&allowed[..count], name).is_ok(), is_allowed, "{count} {name}");
        }
    }
}
