//! In whose name a change is made.
//!
//! A verb that changes something records who did it in the same transaction. Who that is travels
//! beside the call, set once where somebody comes in: every verb would have to hand the same name
//! on otherwise, and the steps of a node, which nobody asked for, would have to make one up.

use std::future::Future;

/// Who changes things that nobody asked for.
pub(crate) const NOBODY: &str = "punctual";

tokio::task_local! {
    static AUTHOR: String;
}

/// Does work in somebody's name: what it changes is recorded as theirs. The name does not follow
/// into tasks that the work starts.
pub fn as_author<F: Future>(name: String, work: F) -> impl Future<Output = F::Output> {
    AUTHOR.scope(name, work)
}

/// In whose name the present work is done.
pub(crate) fn author() -> String {
    AUTHOR.try_with(Clone::clone).unwrap_or_else(|_| NOBODY.to_owned())
}
