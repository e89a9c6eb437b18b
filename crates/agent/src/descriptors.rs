//! How many calls of endpoints fit into the limit on open files of this process.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Descriptors of a call: its connection, and the file of its output.
const OF_CALL: u64 = 2;

/// Descriptors of a run that is no call: pipes, the socket and the handle of its helper,
/// connections to a database, the file of its output.
const OF_PROCESS: u64 = 8;

/// Number of calls that can be made at the same time, and the limits that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallsMax {
    /// At most so many calls.
    pub calls: u32,
    /// The limit on open files.
    pub open_files: u64,
}

/// Raises the soft limit on open files to the hard one, and returns how many of the wanted calls
/// fit beside so many other runs. Commands have a limit of their own (`external.open_files`).
pub fn http_calls_max(wanted: u32, processes: u32) -> nix::Result<CallsMax> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // A container may refuse it. Then the soft limit is what there is.
    let is_raised = soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    let open_files = if is_raised { hard } else { soft };
    Ok(CallsMax { calls: fitting(wanted, processes, open_files), open_files })
}

/// A quarter of the files is for clients, the store and everything else. One call always fits.
fn fitting(wanted: u32, processes: u32, open_files: u64) -> u32 {
    let left = open_files - open_files / 4;
    let left = left.saturating_sub(u64::from(processes) * OF_PROCESS);
    let fit = u32::try_from(left / OF_CALL).unwrap_or(u32::MAX);
    wanted.min(fit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fit_into_the_limit_on_open_files() {
        for (wanted, processes, open_files, calls) in [
            (4_096, 64, 1_048_576, 4_096),
            (4_096, 64, 65_536, 4_096),
            (4_096, 64, 4_096, 1_280),
            (4_096, 64, 1_024, 128),
            (100, 64, 1_024, 100),
            (4_096, 64, 256, 1),
            (0, 64, 65_536, 0),
            (u32::MAX, 1, u64::MAX, u32::MAX),
        ] {
            let found = fitting(wanted, processes, open_files);
            assert_eq!(found, calls, "{wanted} beside {processes} with {open_files}");
        }
    }
}
