//! What a command sees of the file system, where it has mounts of its own.

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};

use super::spec::{Namespaces, Spec};
use super::{Feature, Report};

const NONE: Option<&str> = None;

/// Puts the mounts in place. Whether there is a `/proc` with the command's own processes only.
pub(super) fn arrange(spec: &Spec, namespaces: &Namespaces, report: &mut Report) -> bool {
    let private = if namespaces.entered {
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)
            .map_err(|error| format!("mounts cannot be changed: {error}"))
    } else {
        Err(namespaces.problem.clone())
    };
    let is_private = private.is_ok();
    report.note(Feature::Mounts, private.map(|()| "mount namespace".to_owned()));
    if !is_private {
        report.note::<&str>(Feature::Temporary, Err("needs mounts of its own"));
        return false;
    }
    temporary(spec, report);
    for path in &spec.protected {
        // Where this fails, whether the path can be read is up to the rules for files.
        let _ = hide(path);
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, NONE).is_ok()
}

fn temporary(spec: &Spec, report: &mut Report) {
    let paths = [&spec.readable, &spec.writable].into_iter().flatten();
    let mut paths = paths.chain([&spec.working_directory]);
    let outcome = match paths.find(|path| path.starts_with("/tmp")) {
        Some(path) => Err(format!("{} is in use", path.display())),
        None => {
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            let options = format!("size={},mode=1777", spec.limits.temporary_bytes);
            mount(Some("tmpfs"), "/tmp", Some("tmpfs"), flags, Some(options.as_str()))
                .map(|()| "tmpfs on /tmp".to_owned())
                .map_err(|error| error.to_string())
        }
    };
    report.note(Feature::Temporary, outcome);
}

/// Puts something empty in the place of a file or folder.
fn hide(path: &Path) -> nix::Result<()> {
    if path.is_dir() {
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some("size=4k,mode=000"))
    } else if path.exists() {
        mount(Some("/dev/null"), path, NONE, MsFlags::MS_BIND, NONE)
    } else {
        Ok(())
    }
}

/// Whether something empty stands in the place of a file or folder.
pub(super) fn is_hidden(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            use std::os::unix::fs::MetadataExt;
            let above = path.parent().and_then(|above| fs::metadata(above).ok());
            let is_mount = above.is_some_and(|above| above.dev() != metadata.dev());
            is_mount && metadata.mode() & 0o777 == 0
        }
        Ok(metadata) => !metadata.is_file(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}
