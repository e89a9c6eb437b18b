//! Maps the error response of a server to the failure of a command.

use serde::Deserialize;
use server::Code;

use super::ServerTarget;
use crate::cli_error::CliError;
use crate::exit::{Exit, Failure};

#[derive(Deserialize)]
struct Envelope {
    error: ProblemBody,
}

#[derive(Deserialize)]
struct ProblemBody {
    code: String,
    message: String,
    #[serde(default)]
    details: Vec<ProblemDetail>,
}

#[derive(Deserialize)]
struct ProblemDetail {
    field: String,
    message: String,
}

/// The end that a code means; a code that we do not know means what its status does.
fn exit_of(code: &str, status: u16) -> Exit {
    let known = Code::ALL.iter().find(|known| known.name() == code);
    if let Some(exit) = known.and_then(|known| Exit::of(known.exit_code())) {
        return exit;
    }
    match status {
        401 | 403 => Exit::Auth,
        404 | 410 => Exit::NotFound,
        409 | 412 | 428 => Exit::Conflict,
        400..=499 => Exit::Usage,
        502..=504 => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// The failure that an answer stands for.
pub(super) fn failure(status: u16, body: &[u8], place: &ServerTarget) -> Failure {
    let Ok(Envelope { error }) = serde_json::from_slice(body) else {
        let exit = exit_of("", status);
        let error = CliError::new(format!("{} answered with status {status}", place.url()));
        return Failure::Ended(exit, error.hint("is there a Punctual server at this address?"));
    };
    let exit = exit_of(&error.code, status);
    let mut message = error.message;
    for detail in &error.details {
        // One wrong field is the message already; several are listed behind it.
        if !message.contains(&detail.message) {
            message.push_str(&format!("; {}: {}", detail.field, detail.message));
        }
    }
    let error = CliError::new(message);
    Failure::Ended(
        exit,
        match exit {
            Exit::Auth => error.hint(place.about_key()),
            _ => error,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_an_exit() {
        for code in Code::ALL {
            let exit = Exit::of(code.exit_code());
            assert_eq!(exit.map(|exit| exit as u8), Some(code.exit_code()), "{code:?}");
        }
    }

    #[test]
    fn codes_and_statuses_become_exits() {
        for (code, status, exit) in [
            ("INVALID_CRON", 400, Exit::Usage),
            ("UNAUTHENTICATED", 401, Exit::Auth),
            ("FORBIDDEN", 403, Exit::Auth),
            ("JOB_NOT_FOUND", 404, Exit::NotFound),
            ("JOB_ALREADY_EXISTS", 409, Exit::Conflict),
            ("VERSION_CONFLICT", 412, Exit::Conflict),
            ("VALIDATION_FAILED", 422, Exit::Usage),
            ("RATE_LIMITED", 429, Exit::Failed),
            ("INTERNAL", 500, Exit::Failed),
            ("SCHEDULER_UNAVAILABLE", 503, Exit::Unreachable),
            ("SOMETHING_NEW", 409, Exit::Conflict),
            ("", 502, Exit::Unreachable),
            ("", 200, Exit::Failed),
        ] {
            assert_eq!(exit_of(code, status), exit, "{code} {status}");
        }
    }
}
