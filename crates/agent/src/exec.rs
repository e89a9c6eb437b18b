//! One module for each kind of action.

pub(crate) mod http;

use domain::run::{AttemptResult, ErrorCode};

use crate::Attempt;

/// An action that this agent cannot carry out.
pub(crate) fn unknown(attempt: &Attempt<'_>) -> AttemptResult {
    let kind = attempt.assignment.action.kind();
    AttemptResult::failed(
        ErrorCode::Refused("ACTION_NOT_SUPPORTED".into()),
        format!("this agent cannot carry out {kind} actions"),
    )
}
