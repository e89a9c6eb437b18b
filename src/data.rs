//! The data folder: who may read it, who may use it, and the keys in it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use server::Key;
use vault::{MasterKey, Ring};

use crate::cli_error::CliError;
use crate::random;

/// The file that says where the server of the folder listens.
pub const URL_FILE: &str = "server.url";

/// The file that says where SQL clients find it.
pub const SQL_FILE: &str = "server.sql";

/// The file of the keys that protect secrets.
pub const MASTER_KEY: &str = "master.key";

/// The file of the administrator's key.
const ADMIN_KEY: &str = "admin.key";

/// The file that a server holds a lock on while it uses the folder.
const LOCK: &str = "punctual.lock";

/// How often and how long the lock is waited for: a command looks whether it is held.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The file that says which database the keys of the folder belong to.
pub const STORE_ID: &str = "store.id";

/// A data folder, locked by this process.
pub struct DataFolder {
    path: PathBuf,
    /// Held as long as the process lives.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if it is not there, and takes it.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let cannot = |what: &str, error: io::Error| {
            CliError::new(format!("the data folder {} cannot be {what}: {error}", path.display()))
                .hint("choose another one with --data DIR")
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| cannot("made", error))?;
        let path = fs::canonicalize(path).map_err(|error| cannot("used", error))?;
        close_to_others(&path);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))
            .map_err(|error| cannot("used", error))?;
        let is_ours = (1..=LOCK_TRIES).any(|attempt| {
            let is_ours = lock.try_lock().is_ok();
            if !is_ours && attempt < LOCK_TRIES {
                pause();
            }
            is_ours
        });
        if !is_ours {
            let pid = io::read_to_string(&lock).unwrap_or_default();
            let who = match pid.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            let text = format!("{} is in use by {who}", path.display());
            return Err(CliError::new(text)
                .hint("stop that one first, or choose another folder with --data DIR"));
        }
        // The address of the process that had it before may be that of any process now.
        let _ = fs::remove_file(path.join(URL_FILE));
        // The process id, for the error message of a second process.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()));
        Ok(DataFolder { path, _lock: lock })
    }

    /// Takes the rights of others from the files in the folder, which programs and libraries made
    /// as they are used to. Keys are not among them: one that others could read is refused.
    pub fn close_files(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let is_key = [ADMIN_KEY, MASTER_KEY].iter().any(|name| entry.file_name() == *name);
            if is_file && !is_key {
                close_to_others(&entry.path());
            }
        }
    }

    /// A path inside of it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down where the server listens, for commands on this machine. It goes with the
    /// folder's lock: what a server left behind is overwritten by the next one.
    pub fn announce(&self, scheme: &str, address: SocketAddr) -> Result<(), CliError> {
        self.write(URL_FILE, &format!("{scheme}://{}\n", reachable(address)))
    }

    /// Writes down where SQL clients find it, or that they do not.
    pub fn announce_sql(&self, address: Option<SocketAddr>) -> Result<(), CliError> {
        match address {
            Some(address) => self.write(SQL_FILE, &format!("{}\n", reachable(address))),
            None => {
                let _ = fs::remove_file(self.join(SQL_FILE));
                Ok(())
            }
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), CliError> {
        let path = self.join(name);
        write_private(&path, text.trim_end()).map_err(|error| {
            CliError::new(format!("{} cannot be written: {error}", path.display()))
        })
    }

    /// Refuses a database that is missing or empty although a server has worked in this folder:
    /// a new database would know nothing of what the keys are for.
    pub fn check_database(&self, path: &Path) -> Result<(), CliError> {
        let is_used = [ADMIN_KEY, STORE_ID].iter().any(|name| self.join(name).exists());
        let problem = match fs::metadata(path) {
            Ok(metadata) if metadata.len() > 0 => return Ok(()),
            Ok(_) => "is empty",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "is missing",
            // Opening it reports what is wrong with it.
            Err(_) => return Ok(()),
        };
        match is_used {
            true => {
                let text =
                    format!("{} {problem}, but the keys beside it are in use", path.display());
                Err(CliError::new(text).hint(self.advice()))
            }
            false => Ok(()),
        }
    }

    /// Refuses a database that is not the one the keys of this folder belong to. A folder without
    /// a mark belongs to the first database that it is used with.
    pub fn check_store(&self, id: &str) -> Result<(), CliError> {
        let path = self.join(STORE_ID);
        let cannot =
            |error: io::Error| CliError::new(format!("{} cannot be used: {error}", path.display()));
        match fs::read_to_string(&path) {
            Ok(known) if known.trim() == id => Ok(()),
            Ok(_) => {
                let folder = self.path.display();
                let text =
                    format!("the keys in {folder} belong to another database than the store");
                Err(CliError::new(text).hint(self.advice()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_private(&path, id).map_err(cannot)
            }
            Err(error) => Err(cannot(error)),
        }
    }

    /// The hint for keys and a database that do not match.
    fn advice(&self) -> String {
        format!(
            "bring the database of these keys back (punctual restore, or the right --store), or \
             begin anew: move {ADMIN_KEY}, {MASTER_KEY} and {STORE_ID} out of {} first",
            self.path.display()
        )
    }

    /// The administrator's key, and whether it was made now.
    pub fn admin_key(&self) -> Result<(Key, bool), CliError> {
        let make = || Key::new(random::bytes()).reveal().to_owned();
        let (text, is_new) = self.secret(ADMIN_KEY, make)?;
        match Key::parse(&text) {
            Some(key) => Ok((key, is_new)),
            None => {
                let path = self.join(ADMIN_KEY);
                let text = format!("{} does not hold a key of Punctual", path.display());
                Err(CliError::new(text).hint("remove it, and the next start makes a new one"))
            }
        }
    }

    /// The keys that protect secrets, the first of which seals. One is made if there is none.
    pub fn master_keys(&self) -> Result<Ring, CliError> {
        let make = || MasterKey::new(random::bytes()).reveal().to_string();
        let (text, _) = self.secret(MASTER_KEY, make)?;
        let keys: Result<Vec<MasterKey>, _> = text.lines().map(str::parse).collect();
        match keys {
            Ok(keys) if !keys.is_empty() => Ok(Ring::new(keys)),
            _ => {
                let path = self.join(MASTER_KEY);
                let text = format!(
                    "{} is damaged: each line must hold 64 random hex digits",
                    path.display()
                );
                Err(CliError::new(text)
                    .hint("restore it from a backup; without it the secrets cannot be read"))
            }
        }
    }

    /// The text of a file that only its owner may read, made if it is not there.
    fn secret(
        &self,
        name: &str,
        make: impl FnOnce() -> String,
    ) -> Result<(String, bool), CliError> {
        let path = self.join(name);
        let cannot =
            |error: io::Error| CliError::new(format!("{} cannot be used: {error}", path.display()));
        match fs::metadata(&path) {
            Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => {
                let text = format!("{} can be read by others", path.display());
                Err(CliError::new(text).hint(format!("chmod 600 {}", path.display())))
            }
            Ok(_) => Ok((fs::read_to_string(&path).map_err(cannot)?.trim().to_owned(), false)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = make();
                write_private(&path, &text).map_err(cannot)?;
                Ok((text, true))
            }
            Err(error) => Err(cannot(error)),
        }
    }
}

/// Lets a command end its look at the lock.
#[expect(clippy::disallowed_methods, reason = "a lock does not announce that it is free")]
fn pause() {
    std::thread::sleep(LOCK_PAUSE);
}

/// Whether a server uses a data folder. The address in the folder is valid only as long as it does:
/// another process may have it afterwards.
pub fn is_in_use(folder: &Path) -> bool {
    File::open(folder.join(LOCK))
        .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Removes access of other users from a file or a folder. A file that belongs to another user (a
/// volume of a container) is left as it is, with a warning.
fn close_to_others(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let mode = metadata.permissions().mode();
    if mode & 0o077 == 0 {
        return;
    }
    let closed = fs::Permissions::from_mode(mode & 0o7700);
    if let Err(error) = fs::set_permissions(path, closed) {
        let path = path.display();
        tracing::warn!(%path, %error, "file is readable by other users, and its mode cannot be changed");
    }
}

/// An address that stands for all of a machine's is reached by the machine's own.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Puts a text into a file that only its owner may read: whole or not at all, whenever the process
/// ends.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
