//! The author of a change.
//!
//! An operation that changes something records its author in the same transaction. The author
//! travels beside the call, as a task-local value that is set once where a request enters: every
//! step of a node would have to pass the same name on otherwise.

use std::future::Future;

/// The author of changes that no client requested.
pub(crate) const SYSTEM: &str = "punctual";

tokio::task_local! {
    static AUTHOR: String;
}

/// Does work in the name of an author: its changes are recorded as theirs. The name does not follow
/// into tasks that the work starts.
pub fn as_author<F: Future>(name: String, work: F) -> impl Future<Output = F::Output> {
    AUTHOR.scope(name, work)
}

/// The author of the present work.
pub(crate) fn author() -> String {
    AUTHOR.try_with(Clone::clone).unwrap_or_else(|_| SYSTEM.to_owned())
}
