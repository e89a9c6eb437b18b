//! Backups of the server itself.

use domain::action::BackupAction;
use domain::run::AttemptResult;

use super::Failure;
use crate::Attempt;
use crate::backup::{Backup, BackupError, Backups};
use crate::output::Stream;

/// Makes a backup in a target of the settings. A cancelled backup leaves no files behind.
pub(crate) async fn run(
    backups: &dyn Backups,
    action: &BackupAction,
    mut attempt: Attempt<'_>,
) -> AttemptResult {
    let made = tokio::select! {
        made = backups.to_target(action) => made,
        end = attempt.stop.requested() => {
            return AttemptResult { end, ..AttemptResult::completed() };
        }
    };
    match made {
        Ok(backup) => {
            attempt.output.write(Stream::Stdout, told(&backup).as_bytes());
            let result = serde_json::to_string(&backup).ok();
            AttemptResult { result, ..AttemptResult::completed() }
        }
        Err(error) => failure(&error).into(),
    }
}

/// The result as a sentence.
fn told(backup: &Backup) -> String {
    let Backup { target, name, bytes, sha256, files, removed } = backup;
    let mut text = format!("{target}: {name}: {bytes} bytes, {files} files, sha256 {sha256}\n");
    for name in removed {
        text.push_str(&format!("{target}: {name}: deleted, it was one too many\n"));
    }
    text
}

fn failure(error: &BackupError) -> Failure {
    let text = error.to_string();
    match error {
        BackupError::Unsupported(_) => Failure::refused("BACKUP_UNSUPPORTED", text),
        BackupError::UnknownTarget { .. } => Failure::other("BACKUP_TARGET_UNKNOWN", text),
        BackupError::Busy => Failure::other("BACKUP_BUSY", text),
        BackupError::Failed(_) => Failure::other("BACKUP_FAILED", text),
    }
}
