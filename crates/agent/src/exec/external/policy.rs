//! The commands and variables that the administrator allows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::exec::Failure;

/// Variables that change which code a program runs, in any case: some programs do not distinguish
/// it. An action may never set them, not even where the configuration allows all variables.
const NEVER: &[&str] = &[
    // The loader, the C library and this agent.
    "LD_*",
    "DYLD_*",
    "GLIBC_*",
    "MALLOC_*",
    "GCONV_PATH",
    "GETCONF_DIR",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RES_OPTIONS",
    "RESOLV_HOST_CONF",
    "TZDIR",
    "PUNCTUAL_*",
    "TRACEPARENT",
    "HOME",
    "TMPDIR",
    // Variables of shells.
    "BASH_*",
    "BASHOPTS",
    "SHELL",
    "SHELLOPTS",
    "ENV",
    "PATH",
    "CDPATH",
    "FPATH",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "INPUTRC",
    "TERMCAP",
    "TERMINFO*",
    // Variables of language runtimes.
    "PYTHON*",
    "PYENV_*",
    "VIRTUAL_ENV",
    "PIP_*",
    "PERL*",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "NODE_*",
    "NPM_CONFIG_*",
    "COREPACK_*",
    "YARN_*",
    "TS_NODE_*",
    "DENO_*",
    "BUN_*",
    "JAVA_*",
    "_JAVA_*",
    "JDK_*",
    "CLASSPATH",
    // Java programs: options such as -javaagent.
    "*_OPTS",
    "DOTNET_*",
    "CORECLR_*",
    "COMPlus_*",
    "COR_*",
    "MONO_*",
    "PSModulePath",
    "LUA_*",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "R_*",
    "JULIA_*",
    "TCLLIBPATH",
    "GUILE_*",
    "ERL_*",
    "ELIXIR_ERL_OPTIONS",
    "CAML_LD_LIBRARY_PATH",
    "AWKPATH",
    "AWKLIBPATH",
    "GOFLAGS",
    "GOROOT",
    "GOPATH",
    "GOTOOLCHAIN",
    "CARGO_*",
    "RUSTC*",
    "RUSTFLAGS",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "UV_*",
    "CONDA_*",
    "IPYTHONDIR",
    "JUPYTER_*",
    "OCTAVE_*",
    "XONSHRC",
    // Libraries that load others.
    "OPENSSL_*",
    "SSL_CERT_*",
    "GNUTLS_*",
    "KRB5*",
    "SASL_*",
    "GIO_*",
    "GTK_*",
    "QT_*",
    "GST_*",
    "MAGICK_*",
    "GDAL_*",
    "ODBC*",
    "LIBMYSQL_*",
    "MYSQL_HOME",
    "ORACLE_HOME",
    "TNS_ADMIN",
    "P11_KIT_*",
    "PKCS11_*",
    "GNUPGHOME",
    // An address can be a program to start.
    "DBUS_*",
    // Programs that start others.
    "*BROWSER",
    "*EDITOR",
    "VISUAL",
    "*PAGER",
    "*ASKPASS",
    "*_RSH",
    "*_SSH",
    "LESS*",
    "SUDO_*",
    "SSH_*",
    "SYSTEMD_*",
    "TAR_OPTIONS",
    "ZIPOPT",
    "ZIP",
    "PSQLRC",
    "PSQL_*",
    "PGSYSCONFDIR",
    "VIM*",
    "EXINIT",
    "EMACS*",
    "MAILCAPS",
    "MAILRC",
    "SCREENRC",
    "LYNX_*",
    "HG*",
    "ANSIBLE_*",
    "KUBECONFIG",
    "AWS_CONFIG_FILE",
    "DOCKER_CONFIG",
    "RSYNC_*",
    "MAKEFLAGS",
    "MAKEFILES",
    "GNUMAKEFLAGS",
    "CURL_HOME",
    "WGETRC",
    "XDG_*",
    "GIT_CONFIG*",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH*",
    "GIT_TEMPLATE_DIR",
];

/// The file of a command, with links resolved, and the name of the command. A command is a path, or
/// a path beneath an allowed folder, or the last part of an allowed file.
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
        return Err(Failure::other("COMMAND_NOT_FOUND", message));
    }
    Err(not_allowed(
        "is not in the allow-list external.allow, or is a symbolic link to a program outside of it",
    ))
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
    Err(Failure::other("PERMISSION_DENIED", format!("command: {text:?} {problem}")))
}

/// Whether an action may set a variable.
pub(super) fn variable(allowed: &[String], name: &str) -> Result<(), Failure> {
    let refuse = |why: String| {
        Err(Failure::refused("VARIABLE_NOT_ALLOWED", format!("environment: {name:?} {why}")))
    };
    if name.is_empty() || name.contains(['=', '\0']) {
        return refuse("is not a variable name".to_owned());
    }
    let upper = name.to_ascii_uppercase();
    if NEVER.iter().any(|pattern| matches(&pattern.to_ascii_uppercase(), &upper)) {
        return refuse("changes what programs do, and is never allowed".to_owned());
    }
    if !allowed.iter().any(|pattern| matches(pattern, name)) {
        let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
        return refuse(format!("is not among the variables that an action may set: {allowed}"));
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(beginning), _) => name.starts_with(beginning),
        (None, Some(end)) => name.ends_with(end),
        (None, None) => name == pattern,
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
            (3, "PYTHONPATH", false),
            (3, "PYTHONBREAKPOINT", false),
            (3, "PERL5OPT", false),
            (3, "NODE_OPTIONS", false),
            (3, "_JAVA_OPTIONS", false),
            (3, "DOTNET_STARTUP_HOOKS", false),
            (3, "CORECLR_PROFILER_PATH", false),
            (3, "OPENSSL_CONF", false),
            (3, "BROWSER", false),
            (3, "LESSOPEN", false),
            (3, "GIT_CONFIG_COUNT", false),
            (3, "HOME", false),
            (3, "GIT_SEQUENCE_EDITOR", false),
            (3, "AWS_PAGER", false),
            (3, "npm_config_node_options", false),
            (3, "Npm_Config_Script_Shell", false),
            (3, "DBUS_SESSION_BUS_ADDRESS", false),
            (3, "TAR_OPTIONS", false),
            (3, "PSQLRC", false),
            (3, "GOFLAGS", false),
            (3, "KAFKA_OPTS", false),
            (3, "GIT_AUTHOR_NAME", true),
            (3, "PGHOST", true),
            (3, "MYSQL_PWD", true),
            (3, "AWS_REGION", true),
            (3, "BASH_FUNC_ls%%", false),
            (3, "PUNCTUAL_FENCE", false),
            (3, "", false),
            (3, "A=B", false),
        ] {
            assert_eq!(variable(&allowed[..count], name).is_ok(), is_allowed, "{count} {name}");
        }
    }
}
