//! One process for one file.
//!
//! The latest fence and what tenants hold are counted in memory: a second store on the same file
//! would hand out the same fences. The lock is the operating system's, so it ends with the
//! process, however that ends.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::{Result, StoreError};

/// The right to a file, until it is dropped.
pub(super) struct Lock(File);

impl Drop for Lock {
    /// Closing alone would not do: a process that is just being started has the lock too, until
    /// its program is loaded.
    fn drop(&mut self) {
        // It ends with the process in any case.
        let _ = self.0.unlock();
    }
}

/// Takes the file for this process.
pub(super) fn lock(path: &Path) -> Result<Lock> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let failed = |error: &dyn std::fmt::Display| {
        StoreError::Unavailable(format!("locking {}: {error}", path.display()))
    };
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(name)
        .map_err(|error| failed(&error))?;
    match lock.try_lock() {
        Ok(()) => Ok(Lock(lock)),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::Unavailable(format!("{} is in use by another process", path.display())))
        }
        Err(TryLockError::Error(error)) => Err(failed(&error)),
    }
}
